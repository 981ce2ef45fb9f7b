/* What stands at the front of a window of records; where records begin again after damage.
 *
 * The plausibility tests are cheap and come first; checksums cost bytes, and hostile content could make every eighth byte
 * look like the header of a long record.  So a resync spends checksum bytes from a budget: see struct needle_resync. */
#include "needle/needle_scan.h"

#include "needle/check.h"
#include "needle/err.h"

/* Checksum bytes a pass may waste, per byte of its file, and on top of that. */
#define BUDGET_PER_BYTE 8u
#define BUDGET_BASE (1u << 20)

/* A candidate may cost at most this part of what is left: however many long false ones come, there is something left for
 * short true ones, and a true one of any length is found until three quarters are spent. */
#define BUDGET_SHARE 2u

/* Records without a body that may stand in a row in front of one with a checksum. */
#define EMPTY_RUN_MAX 16

static bool all_zero(const char *p, size_t n)
{
    static const char zeros[64];

    for (; n > sizeof zeros; n -= sizeof zeros, p += sizeof zeros)
        if (memcmp(p, zeros, sizeof zeros) != 0)
            return false;
    return memcmp(p, zeros, n) == 0;
}

size_t needle_scan_zero_bytes(struct bytes window)
{
    size_t at = 0;

    while (window.n - at >= 512 && all_zero(window.p + at, 512))
        at += 512;
    while (window.n - at >= NEEDLE_ALIGN && all_zero(window.p + at, NEEDLE_ALIGN))
        at += NEEDLE_ALIGN;
    if (window.n - at < NEEDLE_ALIGN && all_zero(window.p + at, window.n - at))
        at = window.n;
    return at;
}

static struct bytes from_of(struct bytes window, size_t at)
{
    return bytes_of(window.p + at, window.n - at);
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The rest of the file is too short for a header, or its bytes are zeros: judge what there is. */
static bool stub_step(struct bytes window, uint64_t left, struct needle_scan_item *out)
{
    if (window.n >= NEEDLE_HEADER_BYTES)
        return false;
    if (window.n < min_u64(left, NEEDLE_HEADER_BYTES)) {
        out->kind = NEEDLE_SCAN_MORE;
        out->record_bytes = min_u64(left, NEEDLE_HEADER_BYTES);
    } else {
        out->kind = all_zero(window.p, window.n) ? NEEDLE_SCAN_ZEROS : NEEDLE_SCAN_GARBAGE;
    }
    return true;
}

/* A header of zeros.  The smallest filler has one too, and is told by its checksum and (version 3) time. */
static void zero_header_step(uint8_t version, struct bytes window, uint64_t left, struct needle_scan_item *out)
{
    uint32_t whole = needle_record_bytes_min(version);
    uint32_t used = whole - 4; /* an empty record always ends in four bytes of padding */
    const char *checksum = window.p + NEEDLE_HEADER_BYTES;

    out->kind = NEEDLE_SCAN_ZEROS;
    if (left < whole)
        return;
    if (window.n < used) {
        /* Zeros as far as can be seen; only if the file goes on could the next bytes say otherwise. */
        out->kind = NEEDLE_SCAN_MORE;
        out->record_bytes = whole;
        return;
    }
    if (be32_get(checksum) != NEEDLE_CHECKSUM_FILLER)
        return;
    if (version == NEEDLE_V3 && be64_get(checksum + NEEDLE_CHECKSUM_BYTES) == 0)
        return;
    out->kind = NEEDLE_SCAN_RECORD;
    out->record_bytes = whole;
}

/* The record would pass the end of the file: torn, when what is there of it agrees with itself. */
static void past_end_step(uint8_t version, struct bytes window, uint64_t left, struct needle_scan_item *out)
{
    uint32_t data_bytes;
    int rc = needle_data_bytes(version, window, &data_bytes);

    if (rc == DFS_ESHORT && window.n < left) {
        out->kind = NEEDLE_SCAN_MORE;
        out->record_bytes = min_u64(left, NEEDLE_HEADER_BYTES + 4);
        return;
    }
    out->kind = NEEDLE_SCAN_GARBAGE;
    out->torn = rc == 0 || rc == DFS_ESHORT;
    if (out->torn)
        out->record_bytes = needle_record_bytes(version, out->header.size);
}

void needle_scan_header(uint8_t version, struct bytes window, uint64_t pos, uint64_t file_bytes,
                        struct needle_scan_item *out)
{
    uint64_t left = pos < file_bytes ? file_bytes - pos : 0;
    uint64_t record_bytes;
    uint32_t data_bytes;

    CHECK(pos % NEEDLE_ALIGN == 0);
    *out = (struct needle_scan_item){.kind = NEEDLE_SCAN_GARBAGE};
    if (window.n > left)
        window.n = (size_t)left;
    if (stub_step(window, left, out))
        return;
    if (all_zero(window.p, NEEDLE_HEADER_BYTES)) {
        zero_header_step(version, window, left, out);
        return;
    }
    needle_header_decode((const uint8_t *)window.p, &out->header);
    if (out->header.size > NEEDLE_BODY_MAX)
        return;
    record_bytes = needle_record_bytes(version, out->header.size);
    if (record_bytes > left) {
        past_end_step(version, window, left, out);
        return;
    }
    out->record_bytes = record_bytes;
    out->kind = needle_data_bytes(version, window, &data_bytes) == DFS_ECORRUPT ? NEEDLE_SCAN_BAD_DATA
                                                                                : NEEDLE_SCAN_RECORD;
}

bool needle_resync_affords(struct needle_resync *r, uint64_t data_bytes)
{
    if (data_bytes <= r->crc_bytes_left / BUDGET_SHARE)
        return true;
    r->skipped++;
    return false;
}

void needle_resync_charge(struct needle_resync *r, uint64_t data_bytes)
{
    r->crc_bytes_left -= min_u64(data_bytes, r->crc_bytes_left);
}

/* The whole record is in the window: do body and checksum hold?  With a budget, a checksum that does not is charged to it,
 * and one that it cannot afford is taken for wrong. */
static bool record_holds(struct needle_resync *r, uint8_t version, struct bytes rec, struct needle *n, struct bytes *data)
{
    if (needle_decode(version, rec, n, data) != 0)
        return false;
    /* A header torn behind its key reads as a record without a body; but every writer gives those a time. */
    if (version == NEEDLE_V3 && n->body_bytes == 0 && n->append_at_ns == 0)
        return false;
    /* A header with zeros behind it reads as a body without data, whose checksum is zero too; nobody writes a body for that. */
    if (version != NEEDLE_V1 && n->body_bytes != 0 && n->data_bytes == 0)
        return false;
    if (r != NULL && !needle_resync_affords(r, data->n))
        return false;
    if (needle_verify(n, *data) == 0)
        return true;
    if (r != NULL)
        needle_resync_charge(r, data->n);
    return false;
}

void needle_resync_step(struct needle_resync *r, uint8_t version, struct bytes window, uint64_t pos, uint64_t file_bytes,
                        struct needle_scan_item *out)
{
    struct needle n;
    struct bytes data;

    needle_scan_header(version, window, pos, file_bytes, out);
    if (out->kind != NEEDLE_SCAN_RECORD)
        return;
    if (window.n < out->record_bytes) {
        out->kind = NEEDLE_SCAN_MORE;
    } else if (record_holds(r, version, bytes_of(window.p, (size_t)out->record_bytes), &n, &data)) {
        out->needle = n;
        out->data = data;
    } else {
        out->kind = NEEDLE_SCAN_BAD_DATA;
    }
}

void needle_scan_step(uint8_t version, struct bytes window, uint64_t pos, uint64_t file_bytes,
                      struct needle_scan_item *out)
{
    needle_resync_step(NULL, version, window, pos, file_bytes, out);
}

/* ---- resync ---- */

void needle_resync_init(struct needle_resync *r, uint64_t file_bytes)
{
    *r = (struct needle_resync){.crc_bytes_left = file_bytes * BUDGET_PER_BYTE + BUDGET_BASE};
}

enum verdict { VERDICT_NO, VERDICT_YES, VERDICT_UNKNOWN /* the window ends too early */ };

/* One view of a file for the helpers below. */
struct scan_view {
    uint8_t version;
    struct bytes window;
    uint64_t pos;
    uint64_t file_bytes;
};

/* Does a record with a body stand at `at`, whole and verified? */
static enum verdict body_verdict(struct needle_resync *r, const struct scan_view *v, size_t at,
                                 const struct needle_scan_item *item)
{
    struct bytes rec = from_of(v->window, at);
    struct needle n;
    struct bytes data;

    if (rec.n < item->record_bytes)
        return VERDICT_UNKNOWN;
    rec.n = (size_t)item->record_bytes;
    return record_holds(r, v->version, rec, &n, &data) ? VERDICT_YES : VERDICT_NO;
}

/* Nothing in a record without a body can be verified, and any four zero bytes look like its Size.  So it must have what
 * every writer gives it, */
static bool empty_plausible(uint8_t version, const char *rec)
{
    if (be64_get(rec + 4) == 0 && be32_get(rec) != 0)
        return false; /* no key, and no filler */
    return version != NEEDLE_V3 || be64_get(rec + NEEDLE_HEADER_BYTES + NEEDLE_CHECKSUM_BYTES) != 0;
}

/* and lead, over more of its kind, to one that verifies, or exactly to the end of the file. */
static enum verdict empty_verdict(struct needle_resync *r, const struct scan_view *v, size_t at)
{
    uint32_t step = needle_record_bytes_min(v->version);

    for (int run = 0; run < EMPTY_RUN_MAX; run++) {
        struct needle_scan_item item;

        if (v->pos + at == v->file_bytes)
            return VERDICT_YES;
        if (v->file_bytes - v->pos - at < step)
            return VERDICT_NO;
        if (v->window.n - at < step)
            return VERDICT_UNKNOWN;
        needle_scan_header(v->version, from_of(v->window, at), v->pos + at, v->file_bytes, &item);
        if (item.kind != NEEDLE_SCAN_RECORD)
            return item.kind == NEEDLE_SCAN_MORE ? VERDICT_UNKNOWN : VERDICT_NO;
        if (item.header.size != 0)
            return body_verdict(r, v, at, &item);
        if (!empty_plausible(v->version, v->window.p + at))
            return VERDICT_NO;
        at += step;
    }
    return VERDICT_NO;
}

static enum verdict candidate_verdict(struct needle_resync *r, const struct scan_view *v, size_t at)
{
    struct needle_scan_item item;

    needle_scan_header(v->version, from_of(v->window, at), v->pos + at, v->file_bytes, &item);
    switch (item.kind) {
    case NEEDLE_SCAN_MORE:
        return VERDICT_UNKNOWN;
    case NEEDLE_SCAN_RECORD:
        return item.header.size == 0 ? empty_verdict(r, v, at) : body_verdict(r, v, at, &item);
    case NEEDLE_SCAN_BAD_DATA:
    case NEEDLE_SCAN_ZEROS:
    case NEEDLE_SCAN_GARBAGE:
        break;
    }
    return VERDICT_NO;
}

/* How far a stretch of zeros may be jumped: a header that is not all zeros starts at most 8 bytes before its end, that of
 * the smallest filler 16. */
static size_t skippable_zeros(struct bytes rest)
{
    size_t zeros = needle_scan_zero_bytes(rest) & ~(size_t)(NEEDLE_ALIGN - 1);

    return zeros < 2 * NEEDLE_HEADER_BYTES ? 0 : zeros - 2 * NEEDLE_HEADER_BYTES;
}

bool needle_resync_next(struct needle_resync *r, uint8_t version, struct bytes window, size_t from, uint64_t pos,
                        uint64_t file_bytes, size_t *found, size_t *resume)
{
    uint64_t left = pos < file_bytes ? file_bytes - pos : 0;
    struct scan_view v = {version, window, pos, file_bytes};
    size_t at;

    CHECK(pos % NEEDLE_ALIGN == 0 && from % NEEDLE_ALIGN == 0);
    if (v.window.n > left)
        v.window.n = (size_t)left;
    for (at = from; at < v.window.n; at += NEEDLE_ALIGN) {
        switch (candidate_verdict(r, &v, at)) {
        case VERDICT_YES:
            *found = at;
            return true;
        case VERDICT_UNKNOWN:
            *resume = at;
            return false;
        case VERDICT_NO:
            at += skippable_zeros(from_of(v.window, at));
            break;
        }
    }
    *resume = at;
    return false;
}

bool needle_scan_resync(uint8_t version, struct bytes window, size_t from, uint64_t pos, uint64_t file_bytes,
                        size_t *found, size_t *resume)
{
    struct needle_resync r;

    needle_resync_init(&r, window.n);
    return needle_resync_next(&r, version, window, from, pos, file_bytes, found, resume);
}
