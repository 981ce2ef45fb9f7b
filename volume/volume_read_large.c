/* Records that are sent by sendfile: what their ends say, whether their bytes are to be trusted, and their pieces.
 *
 * A record's bytes are checked against its CRC whenever they come in from the disk.  Checked or written by this process, and all
 * of it in the page cache: it is sent as it lies there.  Otherwise the reader pool reads it through first, and remembers the CRC of
 * each piece, so that a piece that leaves the page cache before it is sent is checked once more when it comes back. */
#include <stdlib.h>
#include <string.h>

#include "needle/check.h"
#include "needle/crc.h"
#include "needle/err.h"
#include "volume/disk_location.h"
#include "volume/store.h"
#include "volume/volume_read.h"

#define PIECE_BYTES CHUNK_BYTES
/* What one work item reads: others have their turn in between. */
#define CHECK_PART_BYTES (16u << 20)
/* More pages than this are not asked about on a loop. */
#define PROBE_LOOP_MAX (16u << 20)

struct needle_large {
    uint64_t data_pos;   /* in the file */
    uint32_t *crcs;      /* of each piece, once checked */
    bool checked;
    bool wanted;         /* a piece is missing, so the check must be made */
    uint64_t checked_bytes;
    uint32_t crc;
    char *piece;         /* in memory, when the page cache would not keep it */
    uint64_t piece_at;   /* number of the piece that is wanted */
    bool piece_here;     /* `piece` holds it */
    bool piece_tried;    /* it was read into the page cache once */
};

void needle_read_large_release(struct needle_read *r)
{
    struct needle_large *l = r->large;

    if (l == NULL)
        return;
    free(l->crcs);
    free(l->piece);
    free(l);
    r->large = NULL;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- header and trailer ---- */

static int read_at(const struct volume_gen *g, void *buf, size_t n, uint64_t pos, bool cached)
{
    return cached ? disk_read_cached(g->fd, buf, n, pos) : disk_read(g->fd, buf, n, pos, NULL);
}

static int read_trailer(struct needle_read *r, const struct volume_gen *g, struct bytes head, bool cached, struct needle *n)
{
    uint32_t data_bytes;
    uint64_t trail_at;
    size_t trail_bytes;
    int rc = needle_data_bytes(g->version, head, &data_bytes);

    /* The index has said how long the body is: without its word for it no length is believed. */
    if (rc != 0 || be32_get(head.p + 12) != r->value.size)
        return needle_read_corrupt(r, g, "its lengths contradict each other");
    trail_at = needle_trail_offset(g->version, r->value.size, data_bytes);
    trail_bytes = (size_t)(r->record_bytes - trail_at);
    free(r->buf);
    r->buf = malloc(trail_bytes);
    if (r->buf == NULL)
        return DFS_ENOMEM;
    rc = read_at(g, r->buf, trail_bytes, r->pos + trail_at, cached);
    if (rc != 0)
        return needle_read_failed(r, g, rc);
    rc = needle_decode_split(g->version, head, bytes_of(r->buf, trail_bytes), n);
    return rc != 0 ? needle_read_corrupt(r, g, "what stands behind its data") : 0;
}

int needle_read_ends(struct needle_read *r, const struct volume_gen *g, bool cached, uint64_t now_s)
{
    char head[NEEDLE_HEADER_BYTES + 4];
    struct needle n;
    int rc = read_at(g, head, sizeof head, r->pos, cached);

    if (rc != 0)
        return needle_read_failed(r, g, rc);
    rc = read_trailer(r, g, bytes_of(head, sizeof head), cached, &n);
    if (rc == 0)
        rc = needle_read_judge(r, g, &n, now_s);
    if (rc != 0)
        return rc;
    if (!r->meta_only && r->large == NULL) {
        r->large = calloc(1, sizeof *r->large);
        if (r->large == NULL)
            return DFS_ENOMEM;
        r->large->data_pos = r->pos + needle_data_offset(g->version);
    }
    r->version = g->version;
    r->needle = n;
    /* The form that records of this version are written in; a check finds the other one. */
    r->data_crc = g->version == NEEDLE_V3 ? n.checksum : crc32c_unmask(n.checksum);
    return 0;
}

/* ---- the check ---- */

static uint64_t piece_count(const struct needle_read *r)
{
    return ((uint64_t)r->needle.data_bytes + PIECE_BYTES - 1) / PIECE_BYTES;
}

static size_t piece_bytes(const struct needle_read *r, uint64_t at)
{
    return (size_t)min_u64(PIECE_BYTES, r->needle.data_bytes - at * PIECE_BYTES);
}

static int read_piece(const struct needle_read *r, uint64_t at, char *buf)
{
    int rc = disk_read(r->gen->fd, buf, piece_bytes(r, at), r->large->data_pos + at * PIECE_BYTES, NULL);

    return rc != 0 ? needle_read_failed(r, r->gen, rc) : 0;
}

static int check_end(struct needle_read *r)
{
    struct needle_large *l = r->large;

    if (!crc32c_matches(r->needle.checksum, l->crc))
        return needle_read_corrupt(r, r->gen, "checksum");
    l->checked = true;
    r->data_crc = l->crc;
    /* Stored in the other form: it is checked each time, because only that tells the CRC for its ETag. */
    if (r->needle.checksum == needle_checksum_for(r->gen->version, l->crc))
        known_records_add(&r->gen->known, r->pos, r->record_bytes);
    return 0;
}

static int check_some(struct needle_read *r, char *buf)
{
    struct needle_large *l = r->large;
    uint64_t end = l->checked_bytes + CHECK_PART_BYTES;

    while (l->checked_bytes < r->needle.data_bytes && l->checked_bytes < end) {
        uint64_t at = l->checked_bytes / PIECE_BYTES;
        size_t n = piece_bytes(r, at);
        int rc = read_piece(r, at, buf);
        if (rc != 0)
            return rc;
        l->crcs[at] = crc32c(0, buf, n);
        l->crc = crc32c_combine(l->crc, l->crcs[at], n);
        l->checked_bytes += n;
    }
    if (l->checked_bytes < r->needle.data_bytes)
        return 0;
    r->step = NEEDLE_READ_READY;
    return check_end(r);
}

/* Nothing of it has to be read: this process knows the bytes, and as far as a sweep could see they never left the page cache. */
static bool known_and_resident(const struct needle_read *r)
{
    return !store_options_get(r->store)->read_check_always && known_records_has(&r->gen->known, r->pos) &&
           disk_resident(r->gen->residency, r->pos, r->record_bytes);
}

void needle_read_check_part(struct needle_read *r)
{
    struct needle_large *l = r->large;
    char *buf;

    /* Too long to be asked about on the loop. */
    if (r->record_bytes > PROBE_LOOP_MAX && l->checked_bytes == 0 && !l->wanted && known_and_resident(r)) {
        r->step = NEEDLE_READ_READY;
        return;
    }
    buf = malloc(PIECE_BYTES);
    if (l->crcs == NULL)
        l->crcs = malloc(piece_count(r) * sizeof *l->crcs);
    r->rc = buf == NULL || l->crcs == NULL ? DFS_ENOMEM : check_some(r, buf);
    free(buf);
}

int needle_read_large_ready(struct needle_read *r)
{
    if (r->meta_only || (r->record_bytes <= PROBE_LOOP_MAX && known_and_resident(r)))
        return 0;
    needle_read_submit(r, NEEDLE_READ_CHECK);
    return DFS_EAGAIN;
}

/* ---- pieces ---- */

/* Pool: into the page cache, and when that did not keep it, into memory. */
void needle_read_fetch_piece(struct needle_read *r)
{
    struct needle_large *l = r->large;
    char *buf = l->piece != NULL ? l->piece : malloc(PIECE_BYTES);
    bool keep = l->piece_tried;

    if (buf == NULL) {
        r->rc = DFS_ENOMEM;
        return;
    }
    r->rc = read_piece(r, l->piece_at, buf);
    if (r->rc == 0 && crc32c(0, buf, piece_bytes(r, l->piece_at)) != l->crcs[l->piece_at])
        r->rc = needle_read_corrupt(r, r->gen, "checksum of a piece");
    l->piece_tried = true;
    if (keep) {
        l->piece = buf;
        l->piece_here = r->rc == 0;
    } else if (buf != l->piece) {
        free(buf);
    }
}

static void file_piece(const struct needle_read *r, uint64_t off, size_t n, struct http_piece *out)
{
    *out = (struct http_piece){
        .is_file = true, .fd = r->gen->fd, .file_pos = r->large->data_pos + off, .bytes = n};
}

static void mem_piece(const char *p, size_t n, struct http_piece *out)
{
    *out = (struct http_piece){.mem = bytes_of(p, n)};
}

int needle_read_piece(struct needle_read *r, uint64_t off, uint64_t want, struct http_piece *out)
{
    struct needle_large *l = r->large;
    size_t in = (size_t)(off % PIECE_BYTES), n = (size_t)min_u64(want, PIECE_BYTES - in);

    CHECK(want > 0 && off <= r->needle.data_bytes && want <= r->needle.data_bytes - off);
    if (r->in_memory) {
        mem_piece(r->data.p + off, n, out);
        return 0;
    }
    if (r->rc != 0)
        return r->rc;
    if (l->piece_at != off / PIECE_BYTES) {
        l->piece_at = off / PIECE_BYTES;
        l->piece_here = l->piece_tried = false;
    }
    if (l->piece_here) {
        mem_piece(l->piece + in, n, out);
        return 0;
    }
    if (disk_resident(r->gen->residency, l->data_pos + off, n)) {
        file_piece(r, off, n, out);
        return 0;
    }
    /* A piece alone can be checked only when the whole has been. */
    l->wanted = true;
    needle_read_submit(r, l->checked ? NEEDLE_READ_PIECE : NEEDLE_READ_CHECK);
    return DFS_EAGAIN;
}
