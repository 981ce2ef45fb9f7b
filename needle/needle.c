/* Encode and decode one needle record, versions 1 to 3.
 *
 * Decoding walks the body with a cursor that cannot pass its end; encoding trusts its caller (CHECK). */
#include "needle/needle.h"

#include "needle/check.h"
#include "needle/crc.h"
#include "needle/err.h"

#define DATA_SIZE_BYTES 4u
#define LAST_MODIFIED_BYTES 5u
#define TTL_BYTES 2u
#define MINUTE_S 60u
#define UTF8_CONTINUATIONS_MAX 3u

/* In front of the padding and outside the body. */
static uint32_t frame_bytes(uint8_t version)
{
    return NEEDLE_HEADER_BYTES + NEEDLE_CHECKSUM_BYTES + (version == NEEDLE_V3 ? NEEDLE_TIME_BYTES : 0);
}

/* Header to the end of the time: the record without its padding. */
static uint64_t used_bytes(uint8_t version, uint32_t body_bytes)
{
    return (uint64_t)frame_bytes(version) + body_bytes;
}

void needle_header_decode(const uint8_t in[NEEDLE_HEADER_BYTES], struct needle_header *out)
{
    out->cookie = be32_get(in);
    out->key = be64_get(in + 4);
    out->size = be32_get(in + 12);
}

void needle_header_encode(const struct needle_header *h, uint8_t out[NEEDLE_HEADER_BYTES])
{
    be32_put(out, h->cookie);
    be64_put(out + 4, h->key);
    be32_put(out + 12, h->size);
}

uint64_t needle_record_bytes(uint8_t version, uint32_t body_bytes)
{
    uint64_t used = used_bytes(version, body_bytes);
    return used + NEEDLE_ALIGN - used % NEEDLE_ALIGN;
}

uint32_t needle_data_offset(uint8_t version)
{
    return version == NEEDLE_V1 ? NEEDLE_HEADER_BYTES : NEEDLE_HEADER_BYTES + DATA_SIZE_BYTES;
}

uint64_t needle_trail_offset(uint8_t version, uint32_t body_bytes, uint32_t data_bytes)
{
    return body_bytes == 0 ? NEEDLE_HEADER_BYTES : (uint64_t)needle_data_offset(version) + data_bytes;
}

static bool utf8_continues(char c)
{
    return ((uint8_t)c & 0xc0) == 0x80;
}

struct bytes needle_text_fit(struct bytes text, size_t max_bytes)
{
    size_t n = max_bytes;

    if (text.n <= max_bytes)
        return text;
    /* text.p[n] is the first byte left out: when it continues a character, the whole character goes. */
    while (n > 0 && max_bytes - n < UTF8_CONTINUATIONS_MAX && utf8_continues(text.p[n]))
        n--;
    if (n < max_bytes && ((uint8_t)text.p[n] & 0xc0) != 0xc0)
        n = max_bytes; /* not UTF-8: any place is as good */
    return bytes_of(text.p, n);
}

/* ---- encode ---- */

int needle_body_bytes(uint8_t version, const struct needle *n, uint32_t *out)
{
    uint64_t body = n->data_bytes;

    if (n->name.n > NEEDLE_NAME_MAX || n->mime.n > NEEDLE_MIME_MAX || n->pairs.n > NEEDLE_PAIRS_MAX)
        return DFS_ETOOBIG;
    if (version != NEEDLE_V1 && n->data_bytes != 0) {
        body += DATA_SIZE_BYTES + 1;
        body += (n->flags & NEEDLE_HAS_NAME) != 0 ? 1 + n->name.n : 0;
        body += (n->flags & NEEDLE_HAS_MIME) != 0 ? 1 + n->mime.n : 0;
        body += (n->flags & NEEDLE_HAS_LAST_MODIFIED) != 0 ? LAST_MODIFIED_BYTES : 0;
        body += (n->flags & NEEDLE_HAS_TTL) != 0 ? TTL_BYTES : 0;
        body += (n->flags & NEEDLE_HAS_PAIRS) != 0 ? 2 + n->pairs.n : 0;
    }
    if (body > NEEDLE_BODY_MAX)
        return DFS_ETOOBIG;
    *out = (uint32_t)body;
    return 0;
}

size_t needle_encode_head(uint8_t version, const struct needle *n, uint8_t out[NEEDLE_HEADER_BYTES + 4])
{
    needle_header_encode(&(struct needle_header){n->cookie, n->key, n->body_bytes}, out);
    if (version == NEEDLE_V1 || n->body_bytes == 0)
        return NEEDLE_HEADER_BYTES;
    be32_put(out + NEEDLE_HEADER_BYTES, n->data_bytes);
    return NEEDLE_HEADER_BYTES + DATA_SIZE_BYTES;
}

static size_t put_bytes(uint8_t *out, struct bytes b)
{
    if (b.n > 0)
        memcpy(out, b.p, b.n);
    return b.n;
}

/* Flags and the fields that they announce. */
static size_t encode_meta(const struct needle *n, uint8_t *out)
{
    size_t at = 0;

    out[at++] = n->flags;
    if ((n->flags & NEEDLE_HAS_NAME) != 0) {
        out[at++] = (uint8_t)n->name.n;
        at += put_bytes(out + at, n->name);
    }
    if ((n->flags & NEEDLE_HAS_MIME) != 0) {
        out[at++] = (uint8_t)n->mime.n;
        at += put_bytes(out + at, n->mime);
    }
    if ((n->flags & NEEDLE_HAS_LAST_MODIFIED) != 0) {
        out[at] = (uint8_t)(n->last_modified_s >> 32);
        be32_put(out + at + 1, (uint32_t)n->last_modified_s);
        at += LAST_MODIFIED_BYTES;
    }
    if ((n->flags & NEEDLE_HAS_TTL) != 0) {
        ttl_to_bytes(n->ttl, out + at);
        at += TTL_BYTES;
    }
    if ((n->flags & NEEDLE_HAS_PAIRS) != 0) {
        be16_put(out + at, (uint16_t)n->pairs.n);
        at += 2;
        at += put_bytes(out + at, n->pairs);
    }
    return at;
}

/* Writes no more than the trail's own length, so that records known to be short need no long buffer. */
static size_t write_trail(uint8_t version, const struct needle *n, uint8_t *out)
{
    uint64_t in_front = needle_trail_offset(version, n->body_bytes, n->data_bytes);
    uint64_t whole = needle_record_bytes(version, n->body_bytes);
    size_t at = 0;
    uint32_t body_bytes;

    /* A trail that disagrees with the Size already written would shift every record behind it. */
    CHECK(needle_body_bytes(version, n, &body_bytes) == 0 && body_bytes == n->body_bytes);
    if (version != NEEDLE_V1 && n->body_bytes != 0)
        at = encode_meta(n, out);
    be32_put(out + at, n->checksum);
    at += NEEDLE_CHECKSUM_BYTES;
    if (version == NEEDLE_V3) {
        be64_put(out + at, n->append_at_ns);
        at += NEEDLE_TIME_BYTES;
    }
    memset(out + at, 0, (size_t)(whole - in_front) - at);
    return (size_t)(whole - in_front);
}

size_t needle_encode_trail(uint8_t version, const struct needle *n, uint8_t out[NEEDLE_TRAILER_MAX])
{
    return write_trail(version, n, out);
}

size_t needle_encode_tombstone(uint8_t version, const struct needle_header *deleted, uint32_t deleted_checksum,
                               uint64_t append_at_ns, uint8_t out[NEEDLE_TOMBSTONE_MAX])
{
    struct needle n = {
        .cookie = deleted->cookie,
        .key = deleted->key,
        .checksum = needle_tombstone_checksum(deleted_checksum),
        .append_at_ns = append_at_ns,
    };

    /* Without a body the head is the header, and both together are the shortest record there is. */
    needle_header_encode(&(struct needle_header){n.cookie, n.key, 0}, out);
    return NEEDLE_HEADER_BYTES + write_trail(version, &n, out + NEEDLE_HEADER_BYTES);
}

/* ---- filler ---- */

uint32_t needle_record_bytes_min(uint8_t version)
{
    return (uint32_t)needle_record_bytes(version, 0);
}

/* How much of the gap one record takes: all, or as much as a record can, leaving room for another. */
static uint64_t filler_piece(uint8_t version, uint64_t gap_bytes)
{
    uint64_t min = needle_record_bytes_min(version);
    uint64_t max = min + (NEEDLE_BODY_MAX & ~(uint64_t)(NEEDLE_ALIGN - 1));

    if (gap_bytes <= max)
        return gap_bytes;
    return gap_bytes - max < min ? max - align8_up(min) : max;
}

int needle_filler_make(uint8_t version, uint64_t gap_bytes, uint64_t append_at_ns, struct needle_filler *out)
{
    uint64_t min = needle_record_bytes_min(version);
    struct needle n = {.append_at_ns = append_at_ns};
    uint64_t piece;

    if (gap_bytes % NEEDLE_ALIGN != 0 || gap_bytes < min)
        return DFS_EINVAL;
    piece = filler_piece(version, gap_bytes);
    /* A body of piece - min bytes leaves the four bytes of padding that an empty record has. */
    n.body_bytes = (uint32_t)(piece - min);
    if (n.body_bytes != 0)
        n.data_bytes = version == NEEDLE_V1 ? n.body_bytes : n.body_bytes - DATA_SIZE_BYTES - 1;
    n.checksum = n.body_bytes == 0 ? NEEDLE_CHECKSUM_FILLER
                                   : needle_checksum_for(version, crc32c_zeros(0, n.data_bytes));
    out->record_bytes = piece;
    out->needle = n;
    out->head_bytes = (uint32_t)needle_encode_head(version, &n, out->head);
    out->trail_bytes = (uint32_t)write_trail(version, &n, out->trail);
    CHECK(out->trail_bytes <= sizeof out->trail); /* flags, checksum, time, padding: 21 at most */
    return 0;
}

bool needle_is_filler(const struct needle_header *h)
{
    return h->key == 0 && h->cookie == 0;
}

/* ---- decode ---- */

/* What is left of a body. */
struct cursor {
    const uint8_t *p;
    size_t n;
};

/* The next n bytes, or NULL and nothing moved. */
static const uint8_t *take(struct cursor *c, size_t n)
{
    const uint8_t *p = c->p;

    if (n > c->n)
        return NULL;
    c->p += n;
    c->n -= n;
    return p;
}

/* A text with a length of `width` bytes in front. */
static int take_text(struct cursor *c, size_t width, struct bytes *out)
{
    const uint8_t *len = take(c, width);
    const uint8_t *p;
    size_t n;

    if (len == NULL)
        return DFS_ECORRUPT;
    n = width == 1 ? *len : be16_get(len);
    p = take(c, n);
    if (p == NULL)
        return DFS_ECORRUPT;
    *out = bytes_of(p, n);
    return 0;
}

static int take_last_modified(struct cursor *c, uint64_t *out)
{
    const uint8_t *p = take(c, LAST_MODIFIED_BYTES);

    if (p == NULL)
        return DFS_ECORRUPT;
    *out = (uint64_t)p[0] << 32 | be32_get(p + 1);
    return 0;
}

static int take_ttl(struct cursor *c, struct ttl *out)
{
    const uint8_t *p = take(c, TTL_BYTES);

    if (p == NULL)
        return DFS_ECORRUPT;
    *out = ttl_from_bytes(p);
    return 0;
}

static int take_field(struct cursor *c, uint8_t flag, struct needle *n)
{
    switch (flag) {
    case NEEDLE_HAS_NAME:
        return take_text(c, 1, &n->name);
    case NEEDLE_HAS_MIME:
        return take_text(c, 1, &n->mime);
    case NEEDLE_HAS_LAST_MODIFIED:
        return take_last_modified(c, &n->last_modified_s);
    case NEEDLE_HAS_TTL:
        return take_ttl(c, &n->ttl);
    default:
        return take_text(c, 2, &n->pairs);
    }
}

/* Flags and fields.  An old writer's body may end between two fields: a field that is not there loses its flag, so that
 * flags and fields agree for everyone behind us.  A field cut in its middle is corrupt. */
static int decode_meta(struct cursor *c, struct needle *n)
{
    static const uint8_t fields[] = {NEEDLE_HAS_NAME, NEEDLE_HAS_MIME, NEEDLE_HAS_LAST_MODIFIED, NEEDLE_HAS_TTL,
                                     NEEDLE_HAS_PAIRS};
    const uint8_t *flags = take(c, 1);

    n->flags = flags == NULL ? 0 : *flags;
    for (size_t i = 0; i < sizeof fields; i++) {
        if ((n->flags & fields[i]) == 0)
            continue;
        if (c->n == 0) {
            n->flags &= (uint8_t)~fields[i];
            continue;
        }
        int rc = take_field(c, fields[i], n);
        if (rc != 0)
            return rc;
    }
    return 0;
}

int needle_data_bytes(uint8_t version, struct bytes head, uint32_t *out)
{
    uint32_t body_bytes, data_bytes;

    if (head.n < NEEDLE_HEADER_BYTES)
        return DFS_ESHORT;
    body_bytes = be32_get(head.p + 12);
    if (body_bytes > NEEDLE_BODY_MAX)
        return DFS_ECORRUPT;
    if (version == NEEDLE_V1 || body_bytes == 0) {
        *out = body_bytes;
        return 0;
    }
    if (body_bytes < DATA_SIZE_BYTES)
        return DFS_ECORRUPT;
    if (head.n < NEEDLE_HEADER_BYTES + DATA_SIZE_BYTES)
        return DFS_ESHORT;
    data_bytes = be32_get(head.p + NEEDLE_HEADER_BYTES);
    /* Without data there is no body: zeros where one should be would pass for an empty file, checksum and all. */
    if (data_bytes == 0 || data_bytes > body_bytes - DATA_SIZE_BYTES)
        return DFS_ECORRUPT;
    /* No writer has more to say behind the data; random bytes nearly always do, which is what tells them apart. */
    if (body_bytes - DATA_SIZE_BYTES - data_bytes > NEEDLE_META_MAX)
        return DFS_ECORRUPT;
    *out = data_bytes;
    return 0;
}

int needle_decode_split(uint8_t version, struct bytes head, struct bytes trail, struct needle *out)
{
    struct needle n = {.checksum = 0};
    struct needle_header h;
    struct cursor c;
    size_t meta_bytes;
    const uint8_t *end;
    int rc = needle_data_bytes(version, head, &n.data_bytes);

    if (rc != 0)
        return rc;
    needle_header_decode((const uint8_t *)head.p, &h);
    n.cookie = h.cookie;
    n.key = h.key;
    n.body_bytes = h.size;
    meta_bytes = version == NEEDLE_V1 || h.size == 0 ? 0 : h.size - DATA_SIZE_BYTES - n.data_bytes;
    if (trail.n < meta_bytes + frame_bytes(version) - NEEDLE_HEADER_BYTES)
        return DFS_ESHORT;
    c = (struct cursor){(const uint8_t *)trail.p, meta_bytes};
    end = c.p + meta_bytes;
    rc = decode_meta(&c, &n);
    if (rc != 0)
        return rc;
    n.checksum = be32_get(end);
    if (version == NEEDLE_V3)
        n.append_at_ns = be64_get(end + NEEDLE_CHECKSUM_BYTES);
    *out = n;
    return 0;
}

int needle_decode(uint8_t version, struct bytes rec, struct needle *out, struct bytes *data)
{
    uint32_t data_bytes, body_bytes;
    uint64_t trail_at;
    int rc = needle_data_bytes(version, rec, &data_bytes);

    if (rc != 0)
        return rc;
    body_bytes = be32_get(rec.p + 12);
    if (rec.n < used_bytes(version, body_bytes))
        return DFS_ESHORT;
    trail_at = needle_trail_offset(version, body_bytes, data_bytes);
    rc = needle_decode_split(version, rec, bytes_of(rec.p + trail_at, rec.n - (size_t)trail_at), out);
    if (rc != 0)
        return rc;
    *data = bytes_of(rec.p + trail_at - data_bytes, data_bytes);
    return 0;
}

/* ---- checksum, tombstones, expiry ---- */

int needle_verify(const struct needle *n, struct bytes data)
{
    if (n->body_bytes == 0)
        return 0;
    return crc32c_matches(n->checksum, crc32c(0, data.p, data.n)) ? 0 : DFS_ECORRUPT;
}

uint32_t needle_checksum_for(uint8_t version, uint32_t crc)
{
    return version == NEEDLE_V3 ? crc : crc32c_mask(crc);
}

/* The CRC of no data, in either form. */
static bool is_empty_checksum(uint32_t checksum)
{
    return crc32c_matches(checksum, 0);
}

uint32_t needle_tombstone_checksum(uint32_t deleted_checksum)
{
    return is_empty_checksum(deleted_checksum) ? NEEDLE_CHECKSUM_DELETED_EMPTY : deleted_checksum;
}

bool needle_looks_deleted(const struct needle *n, bool has_earlier, uint32_t known_cookie, bool live_and_empty)
{
    if (n->body_bytes != 0)
        return false;
    if (!is_empty_checksum(n->checksum))
        return true;
    if (n->cookie == NEEDLE_COOKIE_BATCH_DELETE || n->cookie == NEEDLE_COOKIE_CATCH_UP)
        return true;
    if (has_earlier && n->cookie != known_cookie)
        return true;
    return live_and_empty;
}

bool needle_expired(uint8_t version, const struct needle *n, uint64_t now_s)
{
    uint64_t born_s = version == NEEDLE_V3 ? n->append_at_ns / 1000000000u : 0;

    if ((n->flags & NEEDLE_HAS_TTL) == 0 || ttl_is_none(n->ttl))
        return false;
    if (born_s == 0 && (n->flags & NEEDLE_HAS_LAST_MODIFIED) != 0)
        born_s = n->last_modified_s;
    if (born_s == 0) /* no birthday: keeping too long beats deleting too early */
        return false;
    return now_s >= born_s + (uint64_t)ttl_minutes(n->ttl) * MINUTE_S;
}
