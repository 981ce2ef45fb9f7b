/* Copying the live records of a volume, and then what was appended meanwhile.
 *
 * The .idx is read, whose rows stand in the order of the .dat; a row whose needle is still there is copied, byte for byte.
 * A record that does not verify is copied all the same and counted: what cannot be read today may be mended from a sister,
 * and throwing it away is not ours to decide.  A file call that fails ends the run. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "needle/check.h"
#include "needle/crc.h"
#include "needle/err.h"
#include "net/clock.h"
#include "net/log.h"
#include "volume/store.h"
#include "volume/vacuum.h"
#include "volume/vacuum_run.h"

#define NS_PER_S 1000000000ull
/* Between two looks at bandwidth, cancelling and progress. */
#define BREATHER_BYTES (1u << 20)
#define PACE_SLEEP_MAX_MS 100u

/* ---- the copy's files ---- */

static int write_superblock(struct vacuum *r)
{
    uint8_t head[SUPERBLOCK_BYTES];

    superblock_encode(&r->sb, head);
    return disk_write(r->dat_fd, head, sizeof head, 0);
}

int vacuum_copy_superblock(struct vacuum *r, const struct superblock *sb)
{
    uint16_t revision = r->sb.compact_revision;

    r->sb = *sb;
    r->sb.compact_revision = revision;
    return write_superblock(r);
}

/* Behind the eight bytes there may be an extra block, which is kept as it is. */
static int copy_front(struct vacuum *r)
{
    size_t n = (size_t)superblock_end(&r->sb);
    char *buf = calloc(1, n);
    int rc = buf == NULL ? DFS_ENOMEM : disk_read(r->gen->fd, buf, n, 0, NULL);

    if (rc == 0)
        rc = disk_write(r->dat_fd, buf, n, 0);
    free(buf);
    if (rc == 0)
        rc = write_superblock(r);
    r->dat_bytes = r->started_pos = n;
    return rc;
}

static int make_leveldb(struct vacuum *r)
{
    struct volume *v = r->volume;
    struct needle_map_checkpoint unused;
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    int rc;

    /* Somebody may still read the generation before the present one, whose folder this was. */
    vacuum_wait_for_old(v);
    if (atomic_load_explicit(&v->generations, memory_order_acquire) > 1)
        return DFS_EBUSY;
    rc = volume_remove_folder(vacuum_path(v, vacuum_map_suffix(r), path));
    if (rc == 0)
        rc = needle_map_leveldb_new(path, v->offset_width, store_options_get(v->store)->leveldb_cache_bytes, &unused, &r->map);
    r->map_in_folder = rc == 0;
    return rc;
}

static int make_maps(struct vacuum *r)
{
    struct epoch *epoch = store_epoch(r->volume->store);
    struct needle_map_stats stats;
    int rc;

    needle_map_stats(r->gen->map, &stats);
    if (needle_map_kind_of(r->gen->map) == NEEDLE_MAP_LEVELDB)
        rc = make_leveldb(r);
    else
        rc = needle_map_memory_new(epoch, r->volume->offset_width, stats.live_count, &r->map);
    if (rc == 0)
        rc = needle_map_memory_new(epoch, r->volume->offset_width, 0, &r->dropped);
    return rc;
}

int vacuum_copy_open(struct vacuum *r)
{
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    int rc = vacuum_remove_files(r->volume->base);

    r->rows_raw = malloc(VACUUM_ROWS * IDX_ROW_BYTES_MAX);
    r->rows = malloc(VACUUM_ROWS * sizeof *r->rows);
    r->window = malloc(VACUUM_BUF_BYTES);
    r->dat_buf = malloc(VACUUM_BUF_BYTES);
    r->idx_buf = malloc(VACUUM_ROWS * IDX_ROW_BYTES_MAX);
    if (rc == 0 && (r->rows_raw == NULL || r->rows == NULL || r->window == NULL || r->dat_buf == NULL || r->idx_buf == NULL))
        rc = DFS_ENOMEM;
    if (rc == 0)
        rc = disk_open(vacuum_path(r->volume, ".idx", path), O_RDONLY, &r->idx_in);
    if (rc == 0)
        rc = disk_open(vacuum_path(r->volume, VACUUM_DAT_SUFFIX, path), O_RDWR | O_CREAT | O_EXCL, &r->dat_fd);
    if (rc == 0)
        rc = disk_open(vacuum_path(r->volume, VACUUM_IDX_SUFFIX, path), O_RDWR | O_CREAT | O_EXCL, &r->idx_fd);
    if (rc == 0)
        rc = copy_front(r);
    return rc == 0 ? make_maps(r) : rc;
}

/* ---- out ---- */

/* The copy must not fill the page cache: it would hold up everyone else's writes. */
static int write_back(struct vacuum *r, uint64_t written)
{
    uint64_t from = r->started_pos;
    int rc;

    if (written - from < VACUUM_SYNC_STEP)
        return 0;
    rc = disk_writeback_start(r->dat_fd, from, written - from);
    r->started_pos = written;
    if (rc == 0 && from > VACUUM_DIRTY_MAX)
        rc = disk_writeback_wait(r->dat_fd, from - VACUUM_DIRTY_MAX, written - from);
    return rc == DFS_EUNSUPPORTED ? 0 : rc;
}

static int flush_dat(struct vacuum *r)
{
    uint64_t pos = r->dat_bytes - r->dat_buf_n;
    int rc = r->dat_buf_n == 0 ? 0 : disk_write(r->dat_fd, r->dat_buf, r->dat_buf_n, pos);

    if (rc == 0)
        r->dat_buf_n = 0;
    return rc == 0 ? write_back(r, r->dat_bytes) : rc;
}

static int put_bytes(struct vacuum *r, const char *p, size_t n)
{
    int rc = 0;

    CHECK(n <= VACUUM_BUF_BYTES);
    if (r->dat_buf_n + n > VACUUM_BUF_BYTES)
        rc = flush_dat(r);
    if (rc != 0)
        return rc;
    memcpy(r->dat_buf + r->dat_buf_n, p, n);
    r->dat_buf_n += n;
    r->dat_bytes += n;
    return 0;
}

static int flush_idx(struct vacuum *r)
{
    int rc = disk_write(r->idx_fd, r->idx_buf, r->idx_buf_n, r->idx_bytes - r->idx_buf_n);

    if (rc != 0)
        return rc;
    r->idx_crc = crc32c(r->idx_crc, r->idx_buf, r->idx_buf_n);
    r->idx_buf_n = 0;
    return 0;
}

static int put_row(struct vacuum *r, const struct idx_row *row)
{
    size_t n;
    int rc = 0;

    if (r->idx_buf_n + IDX_ROW_BYTES_MAX > VACUUM_ROWS * IDX_ROW_BYTES_MAX)
        rc = flush_idx(r);
    if (rc != 0)
        return rc;
    n = idx_row_encode(r->volume->offset_width, row, r->idx_buf + r->idx_buf_n);
    r->idx_buf_n += n;
    r->idx_bytes += n;
    return 0;
}

int vacuum_copy_flush(struct vacuum *r)
{
    int rc = flush_dat(r);

    return rc == 0 && r->idx_buf_n > 0 ? flush_idx(r) : rc;
}

/* ---- breathing ---- */

static int pace(struct vacuum *r)
{
    uint64_t now = clock_mono_ns(), due;

    if (r->bytes_per_s == 0)
        return 0;
    due = r->paced_from_ns + (uint64_t)((double)r->paced_bytes / (double)r->bytes_per_s * (double)NS_PER_S);
    while (now < due && !atomic_load_explicit(&r->cancel, memory_order_relaxed)) {
        uint64_t ms = (due - now) / 1000000 + 1;
        clock_sleep_ms(ms < PACE_SLEEP_MAX_MS ? ms : PACE_SLEEP_MAX_MS);
        now = clock_mono_ns();
    }
    return 0;
}

static int breathe(struct vacuum *r, uint64_t bytes)
{
    const unsigned gone = VOLUME_CLOSING | VOLUME_OFFLINE | VOLUME_UNMOUNTED;

    r->paced_bytes += bytes;
    if (r->hurry)
        return 0;
    if (atomic_load_explicit(&r->cancel, memory_order_relaxed) ||
        (atomic_load_explicit(&r->volume->no_write, memory_order_relaxed) & gone) != 0)
        return DFS_ECANCELLED;
    if (r->progress != NULL && r->progress(r->progress_arg, r->dat_bytes) != 0)
        return DFS_ECANCELLED;
    return pace(r);
}

/* ---- one record ---- */

/* Bytes [pos, pos + n) of the old .dat, n at most VACUUM_BUF_BYTES; valid until the next call. */
static int read_at(struct vacuum *r, uint64_t pos, size_t n, const char **out)
{
    size_t want = VACUUM_BUF_BYTES;
    int rc;

    if (pos < r->window_pos || pos + n > r->window_pos + r->window_n) {
        if (want > r->dat_end - pos)
            want = (size_t)(r->dat_end - pos);
        r->window_n = 0;
        rc = want < n ? DFS_ECORRUPT : disk_read(r->gen->fd, r->window, want, pos, NULL);
        if (rc != 0)
            return rc;
        r->window_pos = pos;
        r->window_n = want;
        rc = breathe(r, want);
        if (rc != 0)
            return rc;
    }
    *out = r->window + (pos - r->window_pos);
    return 0;
}

static void report_corrupt(struct vacuum *r, const struct idx_row *row, const char *what)
{
    r->corrupt++;
    atomic_fetch_add_explicit(&r->volume->corrupt_count, 1, memory_order_relaxed);
    log_error("vacuum of '%s': the record of key %" PRIx64 " at %" PRIu64 " is corrupt (%s); its bytes are kept as they are",
              r->volume->base, row->key, needle_offset_bytes(row->offset), what);
}

/* A record that is whole in memory. */
static int judge_small(struct vacuum *r, const struct idx_row *row, struct bytes rec, bool *expired)
{
    struct needle n;
    struct bytes data;

    *expired = false;
    if (needle_decode(r->gen->version, rec, &n, &data) != 0 || n.key != row->key || n.body_bytes != row->size)
        report_corrupt(r, row, "not the one that the index names");
    else if (needle_verify(&n, data) != 0)
        report_corrupt(r, row, "checksum");
    else
        *expired = needle_expired(r->gen->version, &n, clock_wall_s());
    return 0;
}

static int copy_small(struct vacuum *r, const struct idx_row *row, size_t n, bool may_expire, bool *expired)
{
    const char *p;
    int rc = read_at(r, needle_offset_bytes(row->offset), n, &p);

    *expired = false;
    if (rc == 0 && !idx_row_deletes(row))
        rc = judge_small(r, row, bytes_of(p, n), expired);
    if (rc != 0)
        return rc;
    *expired = *expired && may_expire;
    return *expired ? 0 : put_bytes(r, p, n);
}

/* The ends of a record that is not whole in memory.  *data_bytes 0: they make no sense. */
static int read_ends(struct vacuum *r, const struct idx_row *row, uint64_t n, struct needle *out, uint32_t *data_bytes)
{
    uint64_t pos = needle_offset_bytes(row->offset), trail_at;
    char head[NEEDLE_HEADER_BYTES + 4];
    const char *p;
    int rc = read_at(r, pos, sizeof head, &p);

    *data_bytes = 0;
    if (rc != 0)
        return rc;
    memcpy(head, p, sizeof head);
    if (be32_get(head + 12) != row->size || be64_get(head + 4) != row->key ||
        needle_data_bytes(r->gen->version, bytes_of(head, sizeof head), data_bytes) != 0) {
        *data_bytes = 0;
        return 0;
    }
    trail_at = needle_trail_offset(r->gen->version, row->size, *data_bytes);
    rc = read_at(r, pos + trail_at, (size_t)(n - trail_at), &p);
    if (rc == 0 && needle_decode_split(r->gen->version, bytes_of(head, sizeof head), bytes_of(p, (size_t)(n - trail_at)), out) != 0)
        *data_bytes = 0;
    return rc;
}

static int copy_pieces(struct vacuum *r, uint64_t pos, uint64_t n, uint64_t data_from, uint64_t data_to, uint32_t *crc)
{
    for (uint64_t at = 0; at < n;) {
        size_t part = n - at < VACUUM_BUF_BYTES ? (size_t)(n - at) : VACUUM_BUF_BYTES;
        uint64_t from = at > data_from ? at : data_from, to = at + part < data_to ? at + part : data_to;
        const char *p;
        int rc = read_at(r, pos + at, part, &p);

        if (rc == 0)
            rc = put_bytes(r, p, part);
        if (rc != 0)
            return rc;
        if (from < to)
            *crc = crc32c(*crc, p + (from - at), (size_t)(to - from));
        at += part;
    }
    return 0;
}

static int copy_large(struct vacuum *r, const struct idx_row *row, uint64_t n, bool may_expire, bool *expired)
{
    struct needle needle;
    uint32_t data_bytes, crc = 0;
    uint64_t data_at = needle_data_offset(r->gen->version);
    int rc = read_ends(r, row, n, &needle, &data_bytes);

    *expired = false;
    if (rc != 0)
        return rc;
    if (data_bytes != 0 && may_expire && needle_expired(r->gen->version, &needle, clock_wall_s())) {
        *expired = true;
        return 0;
    }
    rc = copy_pieces(r, needle_offset_bytes(row->offset), n, data_at, data_at + data_bytes, &crc);
    if (rc != 0)
        return rc;
    if (data_bytes == 0)
        report_corrupt(r, row, "not the one that the index names");
    else if (!crc32c_matches(needle.checksum, crc))
        report_corrupt(r, row, "checksum");
    return 0;
}

/* The record's bytes to the end of the copy, and its row.  An expired one is left out when may_expire. */
static int copy_record(struct vacuum *r, const struct idx_row *row, bool may_expire, bool *expired)
{
    uint32_t body_bytes = idx_row_deletes(row) ? 0 : row->size;
    uint64_t n = needle_record_bytes(r->gen->version, body_bytes);
    struct idx_row out = {.key = row->key, .offset = needle_offset_of(r->dat_bytes), .size = row->size};
    int rc = n <= VACUUM_BUF_BYTES ? copy_small(r, row, (size_t)n, may_expire, expired)
                                   : copy_large(r, row, n, may_expire, expired);

    return rc == 0 && !*expired ? put_row(r, &out) : rc;
}

/* ---- rows ---- */

/* Reads rows from *pos on, up to `to`; *count is 0 at the end. */
static int read_rows(struct vacuum *r, uint64_t *pos, uint64_t to, uint32_t *count)
{
    size_t width = idx_row_bytes(r->volume->offset_width), n = VACUUM_ROWS * width;
    int rc;

    if (n > to - *pos)
        n = (size_t)(to - *pos);
    *count = (uint32_t)(n / width);
    if (*count == 0)
        return 0;
    rc = disk_read(r->idx_in, r->rows_raw, *count * width, *pos, NULL);
    if (rc != 0)
        return rc == DFS_ESHORT ? DFS_ECORRUPT : rc;
    for (uint32_t i = 0; i < *count; i++)
        idx_row_decode(r->volume->offset_width, r->rows_raw + i * width, &r->rows[i]);
    *pos += *count * width;
    return 0;
}

/* Leaves of the rows just read those whose needle is still live where they say. */
static int keep_live(struct vacuum *r, uint32_t *count)
{
    uint32_t kept = 0;
    int rc = 0;

    epoch_online(r->epoch);
    for (uint32_t i = 0; i < *count && rc == 0; i++) {
        const struct idx_row *row = &r->rows[i];
        struct needle_value value;
        if (idx_row_deletes(row))
            continue;
        rc = volume_gen_find(r->gen, row->key, &value);
        if (rc == 0 && !value.deleted && value.offset.units8 == row->offset.units8 && value.size == row->size)
            r->rows[kept++] = *row;
        if (rc == DFS_ENOTFOUND)
            rc = 0;
    }
    epoch_offline(r->epoch);
    *count = kept;
    return rc;
}

static int copy_live_row(struct vacuum *r, const struct idx_row *row)
{
    struct needle_offset at = needle_offset_of(r->dat_bytes);
    struct needle_value value;
    bool expired;
    int rc;

    rc = needle_map_get(r->map, row->key, &value);
    if (rc != DFS_ENOTFOUND)
        return rc; /* the same row twice, or the map failed */
    rc = copy_record(r, row, true, &expired);
    if (rc != 0)
        return rc;
    return needle_map_put(expired ? r->dropped : r->map, row->key, at, row->size, NULL, NULL);
}

static int copy_live_rows(struct vacuum *r, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        int rc = copy_live_row(r, &r->rows[i]);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* Whether the rows stand in the order of the .dat.  Those of an index that another tool rebuilt may stand in that of the keys. */
static int rows_sorted(struct vacuum *r, bool *sorted)
{
    uint64_t pos = 0, last = 0;
    uint32_t count;
    int rc;

    *sorted = true;
    while ((rc = read_rows(r, &pos, r->idx_end, &count)) == 0 && count > 0)
        for (uint32_t i = 0; i < count; i++) {
            if (r->rows[i].offset.units8 == 0)
                continue;
            *sorted &= r->rows[i].offset.units8 >= last;
            last = r->rows[i].offset.units8;
        }
    return rc;
}

static int by_offset(const void *a, const void *b)
{
    uint64_t x = ((const struct idx_row *)a)->offset.units8, y = ((const struct idx_row *)b)->offset.units8;

    return x < y ? -1 : x > y;
}

/* All live rows in memory, sorted: only for an index in another order. */
static int copy_live_sorted(struct vacuum *r)
{
    struct needle_map_stats stats;
    struct idx_row *all;
    uint64_t pos = 0, n = 0;
    uint32_t count;
    int rc;

    needle_map_stats(r->gen->map, &stats);
    all = malloc((stats.live_count + 1) * sizeof *all);
    if (all == NULL)
        return DFS_ENOMEM;
    while ((rc = read_rows(r, &pos, r->idx_end, &count)) == 0 && count > 0) {
        rc = keep_live(r, &count);
        if (rc != 0)
            break;
        if (count > stats.live_count - n)
            count = (uint32_t)(stats.live_count - n); /* rows that stand there twice */
        memcpy(all + n, r->rows, count * sizeof *all);
        n += count;
    }
    qsort(all, (size_t)n, sizeof *all, by_offset);
    for (uint64_t i = 0; i < n && rc == 0; i++)
        rc = copy_live_row(r, &all[i]);
    free(all);
    return rc;
}

int vacuum_copy_live(struct vacuum *r)
{
    uint64_t pos = 0;
    uint32_t count;
    bool sorted;
    int rc = rows_sorted(r, &sorted);

    if (rc == 0 && !sorted)
        rc = copy_live_sorted(r);
    else
        while (rc == 0 && (rc = read_rows(r, &pos, r->idx_end, &count)) == 0 && count > 0)
            if ((rc = keep_live(r, &count)) == 0)
                rc = copy_live_rows(r, count);
    if (rc == 0)
        r->idx_done = r->idx_end;
    return rc;
}

/* ---- the tail ---- */

static int copy_tail_row(struct vacuum *r, const struct idx_row *row)
{
    struct needle_offset at = needle_offset_of(r->dat_bytes);
    struct needle_value value;
    bool expired, have;
    int rc = needle_map_get(r->map, row->key, &value);

    if (rc != 0 && rc != DFS_ENOTFOUND)
        return rc;
    have = rc == 0 && !value.deleted;
    (void)needle_map_delete(r->dropped, row->key, NULL);
    if (idx_row_deletes(row)) {
        if (!have)
            return 0; /* nothing to delete in the copy */
        rc = copy_record(r, row, false, &expired);
        return rc == 0 ? needle_map_delete(r->map, row->key, NULL) : rc;
    }
    rc = copy_record(r, row, false, &expired);
    return rc == 0 ? needle_map_put(r->map, row->key, at, row->size, NULL, NULL) : rc;
}

int vacuum_copy_tail(struct vacuum *r)
{
    uint64_t pos = r->idx_done;
    uint32_t count;
    int rc = 0;

    r->window_n = 0; /* its end may have been short */
    while (rc == 0 && (rc = read_rows(r, &pos, r->idx_end, &count)) == 0 && count > 0)
        for (uint32_t i = 0; i < count && rc == 0; i++)
            rc = copy_tail_row(r, &r->rows[i]);
    if (rc == 0)
        r->idx_done = r->idx_end;
    return rc;
}

int vacuum_copy_verify(const struct vacuum *r)
{
    struct needle_map_stats old, made, dropped;

    needle_map_stats(r->gen->map, &old);
    needle_map_stats(r->map, &made);
    needle_map_stats(r->dropped, &dropped);
    if (old.live_count == made.live_count + dropped.live_count && old.live_bytes == made.live_bytes + dropped.live_bytes)
        return 0;
    log_error("vacuum of '%s' given up: its copy has %" PRIu64 " needles of %" PRIu64 " bytes and %" PRIu64
              " expired of %" PRIu64 ", the volume %" PRIu64 " of %" PRIu64,
              r->volume->base, made.live_count, made.live_bytes, dropped.live_count, dropped.live_bytes, old.live_count,
              old.live_bytes);
    return DFS_ESTALE;
}
