/* A window over a .dat file. */
#include "volume/dat_scan.h"

#include <stdlib.h>

#include "needle/check.h"
#include "needle/crc.h"
#include "needle/err.h"
#include "volume/disk.h"

int dat_scan_init(struct dat_scan *s, int fd, uint8_t version, uint64_t file_bytes)
{
    *s = (struct dat_scan){.fd = fd, .version = version, .file_bytes = file_bytes};
    needle_resync_init(&s->resync, file_bytes);
    s->buf = malloc(DAT_SCAN_WINDOW);
    return s->buf == NULL ? DFS_ENOMEM : 0;
}

void dat_scan_release(struct dat_scan *s)
{
    free(s->buf);
    s->buf = NULL;
}

void dat_scan_reset(struct dat_scan *s, uint64_t file_bytes)
{
    s->file_bytes = file_bytes;
    s->buf_n = 0;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* A view of at least `want` bytes from pos on, or up to the end of the file. */
static int window_at(struct dat_scan *s, uint64_t pos, size_t want, struct bytes *out)
{
    uint64_t left = pos < s->file_bytes ? s->file_bytes - pos : 0;
    size_t n = (size_t)min_u64(want, left);
    int rc = 0;

    CHECK(want <= DAT_SCAN_WINDOW);
    if (n == 0) {
        *out = BYTES_NONE;
        return 0;
    }
    if (pos < s->buf_pos || pos + n > s->buf_pos + s->buf_n) {
        s->buf_pos = pos;
        s->buf_n = (size_t)min_u64(DAT_SCAN_WINDOW, left);
        rc = disk_read(s->fd, s->buf, s->buf_n, pos, NULL);
        if (rc != 0)
            s->buf_n = 0;
    }
    if (rc == 0)
        *out = bytes_of(s->buf + (pos - s->buf_pos), (size_t)min_u64(s->buf_n - (pos - s->buf_pos), left));
    /* The file shrank under us: not a state that we can say anything about. */
    return rc == DFS_ESHORT ? DFS_EIO : rc;
}

/* ---- records longer than the window ---- */

static int crc_of_range(struct dat_scan *s, uint64_t pos, uint64_t n, uint32_t *out)
{
    uint32_t crc = 0;

    while (n > 0) {
        struct bytes w;
        int rc = window_at(s, pos, (size_t)min_u64(n, DAT_SCAN_WINDOW), &w);

        if (rc != 0)
            return rc;
        w.n = (size_t)min_u64(w.n, n);
        crc = crc32c(crc, w.p, w.n);
        pos += w.n;
        n -= w.n;
    }
    *out = crc;
    return 0;
}

/* Header, data by pieces, what stands behind them. */
static int verify_large(struct dat_scan *s, uint64_t pos, struct needle_scan_item *item)
{
    uint64_t trail_at;
    uint32_t data_bytes, crc;
    struct bytes w;
    char head[NEEDLE_HEADER_BYTES + 4];
    struct needle n;
    int rc = window_at(s, pos, sizeof head, &w);

    if (rc != 0)
        return rc;
    memcpy(head, w.p, sizeof head); /* the window moves on */
    item->kind = NEEDLE_SCAN_BAD_DATA;
    if (needle_data_bytes(s->version, bytes_of(head, sizeof head), &data_bytes) != 0)
        return 0;
    rc = crc_of_range(s, pos + needle_data_offset(s->version), data_bytes, &crc);
    if (rc != 0)
        return rc;
    trail_at = needle_trail_offset(s->version, item->header.size, data_bytes);
    rc = window_at(s, pos + trail_at, (size_t)(item->record_bytes - trail_at), &w);
    if (rc != 0)
        return rc;
    if (data_bytes != 0 && needle_decode_split(s->version, bytes_of(head, sizeof head), w, &n) == 0 &&
        crc32c_matches(n.checksum, crc)) {
        item->kind = NEEDLE_SCAN_RECORD;
        item->needle = n;
    }
    return 0;
}

static void forget_views(struct needle_scan_item *item)
{
    item->needle.name = BYTES_NONE;
    item->needle.mime = BYTES_NONE;
    item->needle.pairs = BYTES_NONE;
    item->data = BYTES_NONE;
}

int dat_scan_peek(struct dat_scan *s, uint64_t pos, uint64_t limit, struct needle_scan_item *out)
{
    struct bytes w;
    int rc = window_at(s, pos, NEEDLE_SCAN_HEADER_BYTES, &w);

    if (rc == 0)
        needle_scan_header(s->version, w, pos, limit, out);
    return rc;
}

int dat_scan_step(struct dat_scan *s, uint64_t pos, uint64_t limit, struct needle_scan_item *out)
{
    struct bytes w;
    int rc = dat_scan_peek(s, pos, limit, out);

    if (rc != 0 || out->kind != NEEDLE_SCAN_RECORD)
        return rc;
    if (out->record_bytes > DAT_SCAN_WINDOW) {
        rc = verify_large(s, pos, out);
    } else {
        rc = window_at(s, pos, (size_t)out->record_bytes, &w);
        if (rc == 0)
            needle_scan_step(s->version, w, pos, limit, out);
    }
    forget_views(out);
    return rc;
}

int dat_scan_header(struct dat_scan *s, uint64_t pos, struct needle_header *out)
{
    uint8_t buf[NEEDLE_HEADER_BYTES];
    int rc = disk_read(s->fd, buf, sizeof buf, pos, NULL);

    if (rc == 0)
        needle_header_decode(buf, out);
    return rc;
}

/* Length of flags and fields at the front of w; false when it ends too early. */
static bool meta_length(struct bytes w, size_t *out)
{
    static const struct {
        uint8_t flag;
        uint8_t length_bytes; /* of a text's length; 0 = the field is `fixed` bytes */
        uint8_t fixed;
    } fields[] = {
        {NEEDLE_HAS_NAME, 1, 0}, {NEEDLE_HAS_MIME, 1, 0},  {NEEDLE_HAS_LAST_MODIFIED, 0, 5},
        {NEEDLE_HAS_TTL, 0, 2},  {NEEDLE_HAS_PAIRS, 2, 0},
    };
    size_t at = 1;

    if (w.n < 1)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        if (((uint8_t)w.p[0] & fields[i].flag) == 0)
            continue;
        if (w.n - at < 2)
            return false;
        if (fields[i].length_bytes == 0)
            at += fields[i].fixed;
        else
            at += fields[i].length_bytes + (fields[i].length_bytes == 1 ? (uint8_t)w.p[at] : be16_get(w.p + at));
        if (at > w.n)
            return false;
    }
    *out = at;
    return true;
}

int dat_scan_true_size(struct dat_scan *s, uint64_t pos, uint64_t limit, uint32_t *size)
{
    uint64_t data_at = pos + needle_data_offset(s->version), data_bytes, end;
    uint32_t crc;
    size_t meta_bytes;
    struct bytes w;
    int rc;

    if (s->version == NEEDLE_V1 || limit < data_at + NEEDLE_CHECKSUM_BYTES)
        return DFS_ENOTFOUND;
    rc = window_at(s, pos, NEEDLE_HEADER_BYTES + 4, &w);
    if (rc != 0)
        return rc;
    data_bytes = be32_get(w.p + NEEDLE_HEADER_BYTES);
    if (data_bytes == 0 || data_bytes > NEEDLE_BODY_MAX - 5 || data_bytes > limit - data_at)
        return DFS_ENOTFOUND;
    rc = crc_of_range(s, data_at, data_bytes, &crc);
    if (rc == 0)
        rc = window_at(s, data_at + data_bytes, (size_t)min_u64(NEEDLE_TRAILER_MAX, limit - data_at - data_bytes), &w);
    if (rc != 0)
        return rc;
    w.n = (size_t)min_u64(w.n, limit - data_at - data_bytes);
    if (!meta_length(w, &meta_bytes) || w.n - meta_bytes < NEEDLE_CHECKSUM_BYTES ||
        !crc32c_matches(be32_get(w.p + meta_bytes), crc))
        return DFS_ENOTFOUND;
    end = 4 + data_bytes + meta_bytes;
    if (end > NEEDLE_BODY_MAX || pos + needle_record_bytes(s->version, (uint32_t)end) > limit)
        return DFS_ENOTFOUND;
    *size = (uint32_t)end;
    return 0;
}

int dat_scan_no_body(struct dat_scan *s, uint64_t pos, uint64_t limit, uint64_t earliest_ns, struct needle_scan_item *out)
{
    uint64_t bytes = needle_record_bytes(s->version, 0);
    struct needle_scan_item item = {.kind = NEEDLE_SCAN_RECORD, .record_bytes = bytes};
    struct bytes w;
    int rc;

    if (limit < bytes || pos > limit - bytes)
        return DFS_ENOTFOUND;
    rc = window_at(s, pos, (size_t)bytes, &w);
    if (rc != 0)
        return rc;
    needle_header_decode((const uint8_t *)w.p, &item.header);
    item.header.size = 0;
    item.needle = (struct needle){.key = item.header.key, .cookie = item.header.cookie};
    item.needle.checksum = be32_get(w.p + NEEDLE_HEADER_BYTES);
    if (s->version == NEEDLE_V3)
        item.needle.append_at_ns = be64_get(w.p + NEEDLE_HEADER_BYTES + NEEDLE_CHECKSUM_BYTES);
    if (item.header.key == 0 || (s->version == NEEDLE_V3 && (item.needle.append_at_ns == 0 ||
                                                             item.needle.append_at_ns < earliest_ns)))
        return DFS_ENOTFOUND;
    *out = item;
    return 0;
}

uint64_t dat_scan_time(struct dat_scan *s, uint64_t pos, uint32_t body_bytes)
{
    uint8_t buf[NEEDLE_TIME_BYTES];

    if (s->version != NEEDLE_V3 ||
        disk_read(s->fd, buf, sizeof buf, pos + NEEDLE_HEADER_BYTES + body_bytes + NEEDLE_CHECKSUM_BYTES, NULL) != 0)
        return 0;
    return be64_get(buf);
}

int dat_scan_zeros(struct dat_scan *s, uint64_t pos, uint64_t limit, uint64_t *end)
{
    while (pos < limit) {
        struct bytes w;
        size_t zeros;
        int rc = window_at(s, pos, (size_t)min_u64(limit - pos, DAT_SCAN_WINDOW), &w);

        if (rc != 0)
            return rc;
        zeros = needle_scan_zero_bytes(w);
        pos += zeros;
        if (zeros < w.n)
            break;
    }
    *end = min_u64(pos, limit);
    return 0;
}

/* ---- resync ---- */

/* What a resync asks for at least: the window is read again only when half of it has been passed. */
#define RESYNC_WINDOW (DAT_SCAN_WINDOW / 2)

/* A candidate that ends behind the window. */
static int long_candidate(struct dat_scan *s, uint64_t pos, uint64_t limit, bool *yes)
{
    struct needle_scan_item item;
    int rc = dat_scan_peek(s, pos, limit, &item);

    *yes = false;
    if (rc != 0 || item.kind != NEEDLE_SCAN_RECORD || item.header.size == 0)
        return rc;
    if (item.record_bytes > s->resync.crc_bytes_left / 8) {
        s->resync.skipped++;
        return 0;
    }
    rc = dat_scan_step(s, pos, limit, &item);
    *yes = rc == 0 && item.kind == NEEDLE_SCAN_RECORD;
    if (rc == 0 && !*yes)
        s->resync.crc_bytes_left -= item.record_bytes;
    return rc;
}

int dat_scan_resync(struct dat_scan *s, uint64_t from, uint64_t limit, uint64_t *found)
{
    uint64_t pos = from;

    while (pos < limit) {
        struct bytes w;
        size_t at = 0, resume = 0;
        bool yes = false;
        int rc = window_at(s, pos, (size_t)min_u64(limit - pos, RESYNC_WINDOW), &w);

        if (rc != 0)
            return rc;
        if (needle_resync_next(&s->resync, s->version, w, 0, pos, limit, &at, &resume)) {
            *found = pos + at;
            return 0;
        }
        if (resume > 0) { /* look again from there with more behind it */
            pos += resume;
            continue;
        }
        rc = long_candidate(s, pos, limit, &yes);
        if (rc != 0)
            return rc;
        if (yes) {
            *found = pos;
            return 0;
        }
        pos += NEEDLE_ALIGN;
    }
    return DFS_ENOTFOUND;
}
