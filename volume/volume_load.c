/* Opening a volume that is there: the straight way.
 *
 * Rows are applied as they are read while each begins where the one before ended; behind the last checkpoint they are only
 * applied.  The first row that does not fit, a record at the end that is not what its row says, or bytes without a row (but for
 * zeros behind a whole last record, which are cut), and volume_repair.c starts again with all rows at hand. */
#include "volume/volume_load.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "needle/check.h"
#include "needle/crc.h"
#include "needle/err.h"
#include "net/log.h"
#include "volume/disk_location.h"
#include "volume/store_internal.h"
#include "volume/vacuum.h"

/* Rows whose records stand in the last so many bytes are compared with them when no checkpoint speaks for them. */
#define VERIFY_TAIL_OWN ((uint64_t)64 << 20)
#define VERIFY_TAIL_FOREIGN ((uint64_t)8 << 20)
/* Rows at either end of an .idx whose records are looked at to tell its width. */
#define WIDTH_SAMPLES 32u
/* So many of them, and none agrees with its record: no damage does that, it is the index of another volume. */
#define FOREIGN_ROWS 8u

void load_remark(struct load *l, bool damaged, const char *fmt, ...)
{
    char text[sizeof l->reason];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    log_warning("volume %" PRIu32 ": %s", l->v->id, text);
    /* Damage is more worth telling than what was mended. */
    if (l->reason[0] == '\0' || (damaged && !l->damaged))
        memcpy(l->reason, text, sizeof text);
    l->damaged |= damaged;
}

/* ---- files ---- */

static int broken(struct load *l, int rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int broken(struct load *l, int rc, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(l->why, sizeof l->why, fmt, ap);
    va_end(ap);
    return rc;
}

/* For reading and writing, or where that may not be for reading alone. */
static int open_file(struct load *l, const char *suffix, int *fd)
{
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    int rc;

    (void)snprintf(path, sizeof path, "%s%s", l->v->base, suffix);
    rc = disk_open(path, O_RDWR, fd);
    if (rc != DFS_EREADONLY)
        return rc;
    l->can_write = false;
    return disk_open(path, O_RDONLY, fd);
}

static int read_superblock(struct load *l)
{
    uint8_t head[SUPERBLOCK_BYTES];
    static const uint8_t zeros[SUPERBLOCK_BYTES];
    int rc;

    if (l->dat_bytes < SUPERBLOCK_BYTES)
        return broken(l, DFS_ECORRUPT, "'%s.dat' has %" PRIu64 " bytes: no superblock", l->v->base, l->dat_bytes);
    rc = disk_read(l->fd, head, sizeof head, 0, NULL);
    if (rc != 0)
        return broken(l, rc, "cannot read '%s.dat': %s", l->v->base, strerror(errno));
    if (memcmp(head, zeros, sizeof head) == 0)
        return broken(l, DFS_ECORRUPT, "the superblock of '%s.dat' is zeros", l->v->base);
    rc = superblock_decode(bytes_of(head, sizeof head), &l->sb);
    if (rc == DFS_EVERSION)
        return broken(l, rc, "'%s.dat' is of version %u, which is not known", l->v->base, head[0]);
    if (rc != 0)
        return broken(l, rc, "the superblock of '%s.dat' is damaged", l->v->base);
    l->first_pos = superblock_end(&l->sb);
    if (l->first_pos > l->dat_bytes)
        return broken(l, DFS_ECORRUPT, "'%s.dat' ends inside its superblock", l->v->base);
    return 0;
}

static int open_dat(struct load *l)
{
    struct stat st;
    int rc = open_file(l, ".dat", &l->fd);

    if (rc == 0)
        rc = disk_fstat(l->fd, &st);
    if (rc != 0)
        return broken(l, rc, "cannot open '%s.dat': %s", l->v->base, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return broken(l, DFS_EINVAL, "'%s.dat' is no file", l->v->base);
    l->dat_bytes = (uint64_t)st.st_size;
    l->modified_s = (uint64_t)st.st_mtim.tv_sec;
    if ((uint64_t)st.st_blocks * 512 >= l->dat_bytes + (uint64_t)st.st_blksize) /* more than the rest of its last block */
        l->preallocated_bytes = (uint64_t)st.st_blocks * 512;
    return read_superblock(l);
}

static void read_vif(struct load *l)
{
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    struct replica_placement rp;
    int rc;

    (void)snprintf(path, sizeof path, "%s.vif", l->v->base);
    rc = volume_vif_read(path, &l->vif);
    if (rc != 0) {
        volume_vif_init(&l->vif);
        load_remark(l, true, "'%s' cannot be read: %s", path, dfs_err_text(rc));
        return;
    }
    if (l->vif.replication[0] != '\0' && replica_placement_parse(bytes_str(l->vif.replication), &rp) == 0)
        l->sb.placement = rp;
}

static int open_idx(struct load *l)
{
    int rc = open_file(l, ".idx", &l->idx_fd);

    if (rc == DFS_ENOTFOUND) {
        if (l->dat_bytes > l->first_pos)
            load_remark(l, false, "'%s.idx' is missing: it is made from the .dat", l->v->base);
        return 0;
    }
    if (rc == 0)
        rc = disk_size(l->idx_fd, &l->idx_bytes);
    if (rc != 0)
        return broken(l, rc, "cannot open '%s.idx': %s", l->v->base, strerror(errno));
    return 0;
}

/* ---- how wide are the rows? ---- */

static int row_at(struct load *l, unsigned width, uint64_t i, struct idx_row *row)
{
    uint8_t buf[IDX_ROW_BYTES_MAX];
    size_t n = idx_row_bytes(width);
    int rc = disk_read(l->idx_fd, buf, n, i * n, NULL);

    if (rc == 0)
        idx_row_decode(width, buf, row);
    return rc;
}

/* Of rows at both ends: how many point at a record that agrees.  *looked (may be NULL): how many records were compared. */
static unsigned width_score(struct load *l, unsigned width, unsigned enough, unsigned *looked)
{
    uint64_t rows = l->idx_bytes / idx_row_bytes(width);
    unsigned score = 0, compared = 0;

    for (uint64_t i = 0; i < rows && score < enough; i++) {
        struct needle_header h;
        struct idx_row row;

        if (i == WIDTH_SAMPLES && rows > 2 * WIDTH_SAMPLES)
            i = rows - WIDTH_SAMPLES;
        if (row_at(l, width, i, &row) != 0)
            break;
        if (row.offset.units8 == 0 || needle_offset_bytes(row.offset) + NEEDLE_HEADER_BYTES > l->dat_bytes)
            continue;
        compared++;
        if (dat_scan_header(&l->scan, needle_offset_bytes(row.offset), &h) == 0 && idx_row_agrees(&row, &h))
            score++;
    }
    if (looked != NULL)
        *looked = compared;
    return score;
}

static unsigned default_width(const struct load *l)
{
    if (l->vif.offset_width != 0)
        return l->vif.offset_width;
    /* The makers of older versions know no other. */
    return l->sb.version == NEEDLE_V3 ? store_options_get(l->v->store)->offset_width : 4;
}

static void choose_width(struct load *l)
{
    unsigned said = l->vif.offset_width, four, five, looked = 0;

    l->width_out = l->width = default_width(l);
    if (l->idx_bytes == 0 || (said != 0 && width_score(l, said, 1, &looked) > 0))
        return;
    four = width_score(l, 4, 2 * WIDTH_SAMPLES, NULL);
    five = width_score(l, 5, 2 * WIDTH_SAMPLES, NULL);
    if (four == five && said == 0 && l->idx_bytes <= IDX_PIECE_BYTES) {
        /* Only rows that point at nothing (tombstones without a place): what the bytes look like. */
        uint8_t *buf = malloc(l->idx_bytes);
        unsigned guess = 0;

        if (buf != NULL && disk_read(l->idx_fd, buf, l->idx_bytes, 0, NULL) == 0)
            guess = idx_guess_width(bytes_of(buf, l->idx_bytes), l->sb.version, l->dat_bytes);
        free(buf);
        four += guess == 4;
        five += guess == 5;
    }
    if (four == five) {
        if (said != 0 && (four != 0 || looked < FOREIGN_ROWS))
            return; /* nothing speaks against it */
        l->width = 0;
        load_remark(l, false, said != 0 ? "'%s.idx' is the index of other data: it is made from the .dat" :
                    "the rows of '%s.idx' cannot be read with offsets of 4 or of 5 bytes: it is made from the .dat", l->v->base);
        return;
    }
    l->width = four > five ? 4 : 5;
    if (said == 0)
        l->width_out = l->width;
    else if (said != l->width)
        load_remark(l, false, "'%s.vif' says offsets of %u bytes, its .idx has %u: it is written anew", l->v->base, said,
                    l->width);
}

/* ---- rows ---- */

/* How far ahead the map's memory is asked for: about as long as it takes to come. */
#define PREFETCH_ROWS 12u

int load_each_row(struct load *l, uint64_t from, uint64_t to, int (*fn)(struct load *l, const struct idx_row *row, void *arg),
                  void *arg)
{
    size_t step = idx_row_bytes(l->width);
    uint8_t *buf = malloc(IDX_PIECE_BYTES);
    int rc = buf == NULL ? DFS_ENOMEM : 0;

    to -= (to - from) % step;
    while (from < to && rc == 0) {
        size_t n = to - from < IDX_PIECE_BYTES ? (size_t)(to - from) : IDX_PIECE_BYTES - IDX_PIECE_BYTES % step;

        rc = disk_read(l->idx_fd, buf, n, from, NULL);
        for (size_t at = 0; at < n && rc == 0; at += step) {
            struct idx_row row;

            if (l->map != NULL && n - at > PREFETCH_ROWS * step) {
                idx_row_decode(l->width, buf + at + PREFETCH_ROWS * step, &row);
                needle_map_prefetch(l->map, row.key);
            }
            idx_row_decode(l->width, buf + at, &row);
            rc = fn(l, &row, arg);
        }
        from += n;
    }
    free(buf);
    return rc;
}

/* Rows of key 0 are rare: a filler, which is no needle, or a needle that somebody gave that key. */
static int is_filler_row(struct load *l, const struct idx_row *row, bool *filler)
{
    struct needle_header h;
    int rc = dat_scan_header(&l->scan, needle_offset_bytes(row->offset), &h);

    *filler = rc == 0 && needle_is_filler(&h);
    return rc == DFS_ESHORT ? 0 : rc;
}

int load_apply(struct load *l, const struct idx_row *row)
{
    bool filler = false;
    int rc = row->key == 0 && row->offset.units8 != 0 ? is_filler_row(l, row, &filler) : 0;

    if (rc != 0 || filler)
        return rc;
    l->rows_applied++;
    if (!idx_row_deletes(row))
        return needle_map_put(l->map, row->key, row->offset, row->size, NULL, NULL);
    rc = needle_map_delete(l->map, row->key, NULL);
    return rc == DFS_ENOTFOUND ? 0 : rc; /* deleted twice, or an index that dropped what was deleted */
}

/* ---- the map ---- */

static int new_leveldb(struct load *l, bool empty, struct needle_map_checkpoint *c)
{
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    int rc = 0;

    (void)snprintf(path, sizeof path, "%s%s", l->v->base, l->v->ldb_other ? VACUUM_LDB_SUFFIX : VOLUME_LDB_SUFFIX);
    if (empty)
        rc = volume_remove_folder(path);
    if (rc == 0)
        rc = needle_map_leveldb_new(path, l->width_out, store_options_get(l->v->store)->leveldb_cache_bytes, c, &l->map);
    l->map_failed = rc != 0;
    return rc;
}

int load_new_map(struct load *l, bool empty)
{
    const struct store_options *o = store_options_get(l->v->store);
    struct needle_map_checkpoint c = {0};
    int rc;

    if (l->map != NULL)
        needle_map_free(l->map);
    l->map = NULL;
    l->map_rows = 0;
    l->rows_applied = 0;
    if (o->index_kind == NEEDLE_MAP_MEMORY || l->map_from == LOAD_MAP_MEMORY)
        return needle_map_memory_new(NULL, l->width_out, l->width == 0 ? 0 : l->idx_bytes / idx_row_bytes(l->width),
                                     &l->map);
    empty |= l->map_from == LOAD_MAP_EMPTY;
    for (int attempt = 0; attempt < 2; attempt++) {
        rc = new_leveldb(l, empty, &c);
        if (rc != 0)
            return rc;
        if (c.idx_rows == 0)
            return 0;
        /* It may be ahead of the .idx or of another .dat: then it is worth nothing. */
        if (l->have_ckp && c.generation == l->sb.compact_revision && c.dat_bytes <= l->dat_bytes &&
            c.idx_rows <= l->ckp.idx_bytes / idx_row_bytes(l->width)) {
            l->map_rows = c.idx_rows;
            return 0;
        }
        needle_map_free(l->map);
        l->map = NULL;
        empty = true;
    }
    return DFS_ECORRUPT;
}

/* ---- the straight way ---- */

struct straight {
    uint64_t row;      /* number of the next row */
    uint64_t expected; /* where its record must begin */
    uint64_t trusted;  /* rows that need no check */
    struct idx_row last; /* whose record stands last; no place: none */
};

int load_hides_tombstone(struct load *l, const struct idx_row *row, bool *yes)
{
    struct needle_scan_item item;
    uint64_t pos = needle_offset_bytes(row->offset);
    int rc;

    *yes = false;
    if (row->size != 0 || row->key == 0 || idx_row_deletes(row))
        return 0;
    rc = dat_scan_step(&l->scan, pos, l->dat_bytes, &item);
    if (rc == 0)
        *yes = item.kind == NEEDLE_SCAN_RECORD && item.header.key == row->key && !needle_is_filler(&item.header) &&
               needle_looks_deleted(&item.needle, false, 0, false);
    return rc;
}

static int ask_record(struct load *l, const struct idx_row *row, bool *agrees)
{
    struct needle_header h;
    bool hides = false;
    int rc = dat_scan_header(&l->scan, needle_offset_bytes(row->offset), &h);

    *agrees = rc == 0 && idx_row_agrees(row, &h) && !load_row_torn(row);
    if (*agrees)
        rc = load_hides_tombstone(l, row, &hides);
    *agrees = *agrees && !hides;
    return rc == DFS_ESHORT ? 0 : rc;
}

/* What the first row that does not fit comes back as. */
#define NOT_STRAIGHT 1

static int straight_row(struct load *l, const struct idx_row *row, void *arg)
{
    struct straight *s = arg;
    bool in_map = s->row < l->map_rows;
    uint64_t pos = needle_offset_bytes(row->offset);
    uint32_t size = idx_row_deletes(row) ? 0 : row->size;

    if (s->row++ < s->trusted) {
        if (s->row == s->trusted) {
            s->last = *row;
            s->expected = l->ckp.dat_bytes;
        }
        return in_map ? 0 : load_apply(l, row);
    }
    if (pos != 0) {
        bool agrees = true;
        int rc;

        if (pos != s->expected || size > NEEDLE_BODY_MAX || pos + NEEDLE_HEADER_BYTES > l->dat_bytes)
            return NOT_STRAIGHT;
        rc = row->key == 0 || pos >= l->verify_from ? ask_record(l, row, &agrees) : 0;
        if (rc != 0 || !agrees)
            return rc != 0 ? rc : NOT_STRAIGHT;
        s->expected = pos + needle_record_bytes(l->sb.version, size);
        if (s->expected > l->dat_bytes)
            return NOT_STRAIGHT;
        s->last = *row;
    } else if (row->key == 0 || row->size != IDX_SIZE_TOMBSTONE) {
        return NOT_STRAIGHT;
    }
    return in_map ? 0 : load_apply(l, row);
}

/* The record that stands last decides whether the tail is torn. */
static int check_last(struct load *l, const struct straight *s, bool *good)
{
    uint64_t pos = needle_offset_bytes(s->last.offset);
    struct needle_scan_item item;
    int rc;

    *good = true;
    if (l->have_ckp && l->ckp.dat_bytes == s->expected) {
        l->last_append_ns = l->ckp.last_append_ns;
        return 0;
    }
    if (pos == 0)
        return 0;
    rc = dat_scan_peek(&l->scan, pos, l->dat_bytes, &item);
    if (rc != 0)
        return rc;
    /* A whole record that its row describes was not torn, whatever its checksum says: that comes out when it is read. */
    *good = (item.kind == NEEDLE_SCAN_RECORD || item.kind == NEEDLE_SCAN_BAD_DATA) && idx_row_agrees(&s->last, &item.header);
    l->last_append_ns = dat_scan_time(&l->scan, pos, item.header.size);
    return 0;
}

int load_crc_of_idx(struct load *l, uint64_t from, uint64_t to, uint32_t *crc)
{
    uint8_t *buf = malloc(IDX_PIECE_BYTES);
    int rc = buf == NULL ? DFS_ENOMEM : 0;

    while (from < to && rc == 0) {
        size_t n = to - from < IDX_PIECE_BYTES ? (size_t)(to - from) : IDX_PIECE_BYTES;

        rc = disk_read(l->idx_fd, buf, n, from, NULL);
        if (rc == 0)
            *crc = crc32c(*crc, buf, n);
        from += n;
    }
    free(buf);
    return rc;
}

/* Where the record of the last row ends: behind it may be zeros, which are no records to look at. */
static uint64_t end_of_rows(struct load *l)
{
    size_t n = l->width == 0 ? 0 : idx_row_bytes(l->width);
    struct idx_row row;
    uint64_t end;

    if (n == 0 || l->idx_bytes < n || row_at(l, l->width, l->idx_bytes / n - 1, &row) != 0 || row.offset.units8 == 0)
        return l->dat_bytes;
    end = needle_offset_bytes(row.offset) + needle_record_bytes(l->sb.version, idx_row_deletes(&row) ? 0 : row.size);
    return end < l->dat_bytes ? end : l->dat_bytes;
}

/* Rows behind a checkpoint may be torn by a power cut, also in ways that tile: their records are asked.  Without one there is no
 * telling which rows those are; a volume of ours lags behind by no more than a checkpoint's distance, another's by what its system
 * writes back late. */
static void set_verify_from(struct load *l, bool ours)
{
    uint64_t tail = ours ? VERIFY_TAIL_OWN : VERIFY_TAIL_FOREIGN, end;

    if (l->have_ckp) {
        l->verify_from = l->ckp.dat_bytes;
        return;
    }
    end = end_of_rows(l);
    l->verify_from = end > tail ? end - tail : 0;
}

/* A checkpoint counts only when the files are those that it speaks of. */
static int read_checkpoint(struct load *l)
{
    struct volume_checkpoint c;
    struct needle_scan_item item;
    struct idx_row row;
    uint32_t crc = 0;
    int rc = volume_checkpoint_read(l->v->base, &c);

    set_verify_from(l, rc != DFS_ENOTFOUND);
    if (l->width == 0 || l->width != l->width_out || rc != 0)
        return 0;
    if (c.damaged || c.revision != l->sb.compact_revision || c.version != l->sb.version || c.offset_width != l->width ||
        c.idx_bytes > l->idx_bytes || c.idx_bytes % idx_row_bytes(l->width) != 0 || c.dat_bytes > l->dat_bytes ||
        c.dat_bytes < l->first_pos || (c.idx_bytes == 0 && c.dat_bytes != l->first_pos))
        return 0;
    rc = load_crc_of_idx(l, 0, c.idx_bytes, &crc);
    if (rc != 0 || crc != c.idx_crc)
        return rc;
    if (c.idx_bytes > 0) {
        rc = row_at(l, l->width, c.idx_bytes / idx_row_bytes(l->width) - 1, &row);
        if (rc == 0 && row.offset.units8 != 0) {
            rc = dat_scan_peek(&l->scan, needle_offset_bytes(row.offset), l->dat_bytes, &item);
            if (rc == 0 && (item.kind == NEEDLE_SCAN_GARBAGE || item.kind == NEEDLE_SCAN_ZEROS ||
                            !idx_row_agrees(&row, &item.header)))
                return 0; /* the .dat is not the one that was there */
        }
        if (rc != 0)
            return rc;
    }
    l->have_ckp = true;
    l->ckp = c;
    l->idx_crc = crc;
    set_verify_from(l, true);
    return 0;
}

/* All rows fit, and bytes are left behind them.  Zeros are what a killed process had ahead of its data (zero_ahead.h): where the
 * last record is whole they are all there is to mend, and they go.  Anything else is left for those who look at all of it. */
static int cut_zeros(struct load *l, const struct straight *s)
{
    uint64_t pos = needle_offset_bytes(s->last.offset), zeros_end;
    struct needle_scan_item item;
    int rc = l->can_write ? dat_scan_zeros(&l->scan, s->expected, l->dat_bytes, &zeros_end) : 0;

    if (rc != 0 || !l->can_write || zeros_end < l->dat_bytes)
        return rc;
    if (pos != 0) {
        rc = dat_scan_step(&l->scan, pos, s->expected, &item);
        if (rc != 0 || item.kind != NEEDLE_SCAN_RECORD || !idx_row_agrees(&s->last, &item.header))
            return rc;
    }
    return load_cut_zeros(l, s->expected);
}

/* *straight: the rows cover the data exactly and the map is built. */
static int go_straight(struct load *l, bool *straight)
{
    struct straight s = {.expected = l->first_pos};
    bool good;
    int batch_rc, rc = read_checkpoint(l);

    *straight = false;
    if (rc != 0 || l->width == 0 || l->idx_fd < 0)
        return rc;
    rc = load_new_map(l, false);
    if (rc != 0)
        return rc;
    s.trusted = l->have_ckp ? l->ckp.idx_bytes / idx_row_bytes(l->width) : 0;
    if (l->width != l->width_out || l->idx_bytes % idx_row_bytes(l->width) != 0)
        return 0;
    needle_map_begin(l->map);
    rc = load_each_row(l, 0, l->idx_bytes, straight_row, &s);
    batch_rc = needle_map_commit(l->map, NULL);
    if (rc == 0)
        rc = batch_rc;
    if (rc == 0 && s.expected < l->dat_bytes)
        rc = cut_zeros(l, &s);
    if (rc != 0 || s.expected != l->dat_bytes)
        return rc == NOT_STRAIGHT ? 0 : rc;
    rc = check_last(l, &s, &good);
    if (rc == 0 && good)
        rc = load_crc_of_idx(l, l->have_ckp ? l->ckp.idx_bytes : 0, l->idx_bytes, &l->idx_crc);
    *straight = rc == 0 && good;
    return rc;
}

/* ---- the end of it ---- */

static int create_empty_idx(struct load *l)
{
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    int rc;

    (void)snprintf(path, sizeof path, "%s.idx", l->v->base);
    rc = disk_open(path, O_RDWR | O_CREAT | O_EXCL, &l->idx_fd);
    return rc == 0 ? disk_sync_folder(l->v->location->dir) : rc;
}

/* Version 3 without a .vif: the width was told from bytes, and should not have to be again. */
static void write_missing_vif(struct load *l)
{
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    struct volume_vif vif = l->vif;
    bool missing = l->vif.offset_width == 0 && l->sb.version == NEEDLE_V3;
    bool wrong = l->vif.offset_width != 0 && l->vif.offset_width != l->width_out;

    if ((!missing && !wrong) || l->damaged || !l->can_write)
        return;
    (void)snprintf(path, sizeof path, "%s.vif", l->v->base);
    vif.version = l->sb.version;
    vif.offset_width = l->width_out;
    if (volume_vif_write(path, &vif) != 0)
        log_warning("cannot write '%s': %s", path, strerror(errno));
}

static void set_state(struct load *l)
{
    struct volume *v = l->v;

    if (!l->can_write)
        load_remark(l, true, "'%s' may only be read", v->base);
    if (l->damaged)
        volume_set_no_write(v, VOLUME_DAMAGED, "%s", l->reason);
    if (l->vif.read_only)
        volume_set_no_write(v, VOLUME_MARKED, NULL);
    if (v->size_limit_bytes != 0 && v->append_pos >= v->size_limit_bytes)
        volume_set_no_write(v, VOLUME_SEALED, NULL);
    if (!l->damaged && l->reason[0] != '\0') {
        pthread_mutex_lock(&v->lock);
        memcpy(v->reason, l->reason, sizeof v->reason);
        pthread_mutex_unlock(&v->lock);
    }
}

/* Loops look at some of these: what has not changed is not written. */
static void set_fixed(struct load *l)
{
    struct volume *v = l->v;

    if (!l->again || memcmp(&v->sb, &l->sb, sizeof v->sb) != 0) {
        pthread_mutex_lock(&v->lock);
        v->sb = l->sb;
        pthread_mutex_unlock(&v->lock);
    }
    if (v->offset_width != l->width_out)
        v->offset_width = l->width_out;
    if (l->preallocated_bytes != 0)
        v->preallocated_bytes = l->preallocated_bytes;
    /* Rows of before that could not be written: they are in what was loaded. */
    v->idx_pending_count = 0;
    v->idx_behind = false;
}

static int publish(struct load *l)
{
    struct volume *v = l->v;
    struct volume_gen *g;
    uint64_t limit_bytes;
    int rc;

    set_fixed(l);
    v->size_limit_bytes = store_size_limit(v->store);
    rc = volume_gen_new(v, l->fd, l->map, l->sb.compact_revision, l->dat_bytes, &g);
    if (rc != 0)
        return rc;
    l->fd = -1; /* the generation's now */
    l->map = NULL;
    volume_index_attach(v, l->idx_fd, l->idx_bytes, l->idx_crc);
    l->idx_fd = -1;
    v->ckp = l->have_ckp ? l->ckp : (struct volume_checkpoint){0};
    v->append_pos = align8_up(l->dat_bytes);
    v->appends.synced_pos = l->have_ckp ? l->ckp.dat_bytes : 0;
    v->last_append_ns = l->last_append_ns;
    atomic_store(&v->dat_bytes, v->append_pos);
    atomic_store(&v->ckp_dat_bytes, v->ckp.dat_bytes);
    atomic_store(&v->last_append_seen_ns, v->last_append_ns);
    atomic_store(&v->last_modified_s, l->modified_s);
    atomic_store(&v->expire_at_s, l->vif.expire_at_s);
    atomic_store(&v->idx_rows_replayed, l->rows_applied);
    set_state(l);
    volume_publish(v, g);
    limit_bytes = v->size_limit_bytes;
    volume_clear_no_write(v, VOLUME_LOADING); /* from here on the volume is the writer's */
    if (limit_bytes != store_size_limit(v->store))
        store_post_size_limit(v->location); /* it came in between */
    return 0;
}

static int publish_on_writer(struct volume *v, void *arg)
{
    (void)v;
    return publish(arg);
}

/* Offsets of 4 bytes wrap at 32 GiB: rows of what lies beyond point into other records. */
static void widen_if_wrapped(struct load *l)
{
    if (l->dat_bytes <= idx_addressable_end(l->width_out))
        return;
    load_remark(l, false, "'%s.dat' is longer than offsets of 4 bytes can say: its .idx is written anew with 5", l->v->base);
    l->width_out = 5;
}

static int open_all(struct load *l)
{
    int rc = open_dat(l);

    if (rc != 0)
        return rc;
    read_vif(l);
    rc = dat_scan_init(&l->scan, l->fd, l->sb.version, l->dat_bytes);
    if (rc != 0)
        return broken(l, rc, "cannot load '%s': %s", l->v->base, dfs_err_text(rc));
    rc = open_idx(l);
    if (rc == 0) {
        choose_width(l);
        widen_if_wrapped(l);
    }
    return rc;
}

static int build(struct load *l)
{
    bool straight;
    int rc = go_straight(l, &straight);

    if (rc == 0 && !straight)
        rc = load_repair(l);
    if (rc == 0 && l->idx_fd < 0 && l->can_write && !l->tail_left)
        rc = create_empty_idx(l);
    if (rc == 0) {
        write_missing_vif(l);
        rc = l->again ? store_on_writer(l->v, publish_on_writer, l) : publish(l);
    }
    if (rc != 0)
        return broken(l, rc, "cannot load '%s': %s", l->v->base, dfs_err_text(rc));
    return 0;
}

/* *map_failed: another kind of map is worth a try. */
static int load_once(struct volume *v, enum load_map from, bool again, bool *map_failed, char why[256])
{
    struct load l = {.v = v, .map_from = from, .again = again, .fd = -1, .idx_fd = -1, .can_write = true};
    int rc = open_all(&l);

    if (rc == 0)
        rc = build(&l);
    *map_failed = rc != 0 && (l.map_failed || (l.map != NULL && needle_map_failed(l.map)));
    if (rc != 0)
        memcpy(why, l.why, sizeof l.why);
    needle_map_free(l.map);
    dat_scan_release(&l.scan);
    disk_close(&l.fd);
    disk_close(&l.idx_fd);
    return rc;
}

static int load_from(struct volume *v, enum load_map from, bool again, char why[256])
{
    bool map_failed;
    int rc = load_once(v, from, again, &map_failed, why);

    while (rc != 0 && map_failed && from < LOAD_MAP_MEMORY) {
        from++;
        log_warning("volume %" PRIu32 ": its leveldb index fails, %s: %s", v->id,
                    from == LOAD_MAP_EMPTY ? "it is built anew" : "it is kept in memory until the next start", why);
        rc = load_once(v, from, again, &map_failed, why);
    }
    return rc;
}

int volume_load(struct volume *v)
{
    char why[256] = "";
    int rc = load_from(v, LOAD_MAP_KEPT, false, why);

    if (rc != 0)
        volume_set_no_write(v, VOLUME_BROKEN, "%s", why);
    return rc;
}

int volume_load_again(struct volume *v, bool in_memory, char why[256])
{
    return load_from(v, in_memory ? LOAD_MAP_MEMORY : LOAD_MAP_EMPTY, true, why);
}
