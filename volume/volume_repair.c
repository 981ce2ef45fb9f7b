/* An index that does not cover the data: what is there, what counts, and a new .idx that says so.
 *
 * Rows behind the checkpoint are applied as they are.  The others are judged (repair_rows.c), applied in log order, and then the
 * .dat is walked in offset order: what rows point at is believed, gaps are scanned (volume_gap.c).
 *
 * A scanned record counts only if it stands behind the last that the rows say of its id; deleted ids and tombstones without a
 * place count as well, or a file would come back that was deleted.  One that was found by resync counts, since everything from it
 * up to the next known boundary verifies, which the content of somebody's blob does not: to overlook it would serve older content.
 *
 * The new .idx has all of it in offset order, superseded records too, so that it covers the data and need not be looked through
 * again.  (An index whose log order contradicts its offsets keeps its log order, or it would say something else.) */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "needle/err.h"
#include "needle/fid.h"
#include "net/log.h"
#include "volume/disk_location.h"
#include "volume/repair_rows.h"
#include "volume/volume_load.h"

/* From which offset on a record of a deleted id would count again. */
struct deleted_id {
    uint64_t key;
    uint64_t counts_from;
};

/* A tombstone without a place, and the offset that it belongs in front of. */
struct placeless {
    uint64_t before;
    uint64_t key;
};

struct row_list {
    struct idx_row *rows;
    uint32_t count, cap;
};

struct repair {
    struct load *load;
    struct repair_rows rows;
    struct deleted_id *deleted; /* by key, then counts_from */
    uint32_t deleted_count;
    struct placeless *placeless;
    uint32_t placeless_count, placeless_next;
    struct idx_rewrite out;
    bool writing;               /* out is open */
    bool log_order;             /* rows contradict their offsets: see above */
    struct row_list early, late;/* log_order: scanned rows in front of the others, and behind */
    uint64_t resync_from;       /* of this gap: everything from here on was found by resync */
    uint64_t last_pos;
    uint32_t last_size;
    uint64_t scanned;
};

/* ---- deleted ids ---- */

static int by_key(const void *a, const void *b)
{
    const struct deleted_id *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->counts_from < y->counts_from ? -1 : x->counts_from > y->counts_from;
}

static int by_place(const void *a, const void *b)
{
    const struct placeless *x = a, *y = b;

    return x->before < y->before ? -1 : x->before > y->before;
}

/* Where a tombstone without a place belongs: behind all that the log had before it (`end`).  Where the log is not in order, behind
 * everything, unless the log has the id once more behind it. */
static int place_for(struct repair *p, uint64_t key, uint64_t end, uint64_t *before)
{
    struct needle_value live;
    int rc;

    *before = p->rows.in_order ? end : p->rows.end_units8;
    rc = p->rows.in_order ? DFS_ENOTFOUND : needle_map_get(p->load->map, key, &live);
    if (rc == 0 && !live.deleted && live.offset.units8 < *before)
        *before = live.offset.units8;
    return rc == DFS_ENOTFOUND ? 0 : rc;
}

static int collect_deleted(struct repair *p)
{
    struct repair_rows *r = &p->rows;
    uint64_t end = r->base_pos / NEEDLE_ALIGN;
    int rc = 0;

    p->deleted = malloc(((size_t)r->count + 1) * sizeof *p->deleted);
    p->placeless = malloc(((size_t)r->count + 1) * sizeof *p->placeless);
    if (p->deleted == NULL || p->placeless == NULL)
        return DFS_ENOMEM;
    for (uint32_t i = 0; i < r->count && rc == 0; i++) {
        const struct repair_row *row = &r->rows[i];
        uint64_t counts_from = row->row.offset.units8 + 1;

        if (repair_row_gone(row))
            continue;
        if (repair_row_placed(row) && repair_row_end(r, row) / NEEDLE_ALIGN > end)
            end = repair_row_end(r, row) / NEEDLE_ALIGN;
        if (!idx_row_deletes(&row->row))
            continue;
        if (!repair_row_placed(row))
            rc = place_for(p, row->row.key, end, &counts_from);
        p->deleted[p->deleted_count++] = (struct deleted_id){row->row.key, counts_from};
        if (!repair_row_placed(row))
            p->placeless[p->placeless_count++] = (struct placeless){counts_from, row->row.key};
    }
    qsort(p->deleted, p->deleted_count, sizeof *p->deleted, by_key);
    qsort(p->placeless, p->placeless_count, sizeof *p->placeless, by_place);
    return rc;
}

/* The last of the key's entries has the highest offset; 0 = none. */
static uint64_t deleted_counts_from(const struct repair *p, uint64_t key)
{
    uint32_t lo = 0, hi = p->deleted_count;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (p->deleted[mid].key <= key)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo > 0 && p->deleted[lo - 1].key == key ? p->deleted[lo - 1].counts_from : 0;
}

/* ---- what is known of an id ---- */

struct known {
    bool had;             /* there was something before */
    struct needle_value value;
    uint64_t counts_from; /* a record there or behind is newer */
};

static int look_up(struct repair *p, uint64_t key, struct known *out)
{
    int rc = needle_map_get(p->load->map, key, &out->value);

    out->counts_from = deleted_counts_from(p, key);
    out->had = rc == 0 || out->counts_from != 0;
    if (rc == 0 && out->value.offset.units8 + 1 > out->counts_from)
        out->counts_from = out->value.offset.units8 + 1;
    if (rc == DFS_ENOTFOUND)
        out->value = (struct needle_value){.deleted = true};
    return rc == DFS_ENOTFOUND ? 0 : rc;
}

/* ---- rows out ---- */

static int list_add(struct row_list *list, const struct idx_row *row)
{
    if (list->count == list->cap) {
        uint32_t cap = list->cap == 0 ? 256 : list->cap * 2;
        struct idx_row *rows = realloc(list->rows, cap * sizeof *rows);

        if (rows == NULL)
            return DFS_ENOMEM;
        list->rows = rows;
        list->cap = cap;
    }
    list->rows[list->count++] = *row;
    return 0;
}

/* A new index that cannot be written is no reason not to serve: the old one is left as it is, and nothing is appended to it. */
static int put_row(struct repair *p, const struct idx_row *row)
{
    int rc;

    if (!p->writing)
        return 0;
    rc = idx_rewrite_row(&p->out, row);
    if (rc == 0 || rc == DFS_ENOMEM)
        return rc;
    idx_rewrite_discard(&p->out);
    p->writing = false;
    return 0;
}

static int put_placeless(struct repair *p, uint64_t up_to)
{
    int rc = 0;

    while (rc == 0 && p->placeless_next < p->placeless_count && p->placeless[p->placeless_next].before <= up_to) {
        struct idx_row row = {.key = p->placeless[p->placeless_next++].key, .size = IDX_SIZE_TOMBSTONE};

        rc = put_row(p, &row);
    }
    return rc;
}

static int put_scanned(struct repair *p, const struct idx_row *row, bool counted)
{
    int rc;

    p->scanned++;
    p->rows.changed = true;
    if (p->log_order)
        return list_add(counted ? &p->late : &p->early, row);
    rc = put_placeless(p, row->offset.units8);
    return rc == 0 ? put_row(p, row) : rc;
}

/* ---- what a gap holds ---- */

static int cookie_before(struct repair *p, const struct known *k, uint32_t *cookie, bool *known)
{
    struct needle_header h;
    int rc;

    *known = false;
    if (k->value.offset.units8 == 0)
        return 0;
    rc = dat_scan_header(&p->load->scan, needle_offset_bytes(k->value.offset), &h);
    if (rc != 0)
        return rc == DFS_ESHORT ? 0 : rc;
    *cookie = h.cookie;
    *known = true;
    return 0;
}

/* An empty file and a tombstone look alike. */
static int is_tombstone(struct repair *p, const struct needle_scan_item *item, const struct known *k, bool *yes)
{
    bool live_and_empty = k->had && !k->value.deleted && k->value.size == 0;
    uint32_t cookie = 0;
    bool known;
    int rc;

    *yes = item->kind == NEEDLE_SCAN_RECORD && needle_looks_deleted(&item->needle, false, 0, live_and_empty);
    if (*yes || item->kind != NEEDLE_SCAN_RECORD || item->header.size != 0)
        return 0;
    rc = cookie_before(p, k, &cookie, &known);
    if (rc == 0)
        *yes = needle_looks_deleted(&item->needle, known, cookie, live_and_empty);
    return rc;
}

static int note_last(struct repair *p, uint64_t pos, uint32_t size)
{
    p->last_pos = pos;
    p->last_size = size;
    return 0;
}

static int on_filler(void *arg, uint64_t pos, uint32_t body_bytes)
{
    struct repair *p = arg;
    struct idx_row row = {.offset = needle_offset_of(pos), .size = body_bytes};

    note_last(p, pos, body_bytes);
    return put_scanned(p, &row, true);
}

static int apply_scanned(struct repair *p, const struct idx_row *row)
{
    int rc;

    p->load->rows_applied++;
    if (!idx_row_deletes(row))
        return needle_map_put(p->load->map, row->key, row->offset, row->size, NULL, NULL);
    rc = needle_map_delete(p->load->map, row->key, NULL);
    return rc == DFS_ENOTFOUND ? 0 : rc;
}

/* Only what would change what is known needs to be believed.  A record counts even if its data do not verify: its file is an error
 * then, and not what it was before.  In the tail behind all rows one that a resync found is not worth an id that was there. */
static int believe(struct repair *p, const struct needle_scan_item *item, const struct known *k, bool recent, bool *yes)
{
    uint32_t cookie = 0;
    bool known;
    int rc;

    *yes = !recent || p->resync_from == UINT64_MAX || !k->had || needle_offset_bytes(k->value.offset) >= p->resync_from;
    if (!*yes || !recent || item->header.size == 0)
        return 0;
    /* No checksum covers the header, and a sector of it may be torn: a cookie of zeros is handed to nobody, and nobody overwrites
     * with another one. */
    *yes = item->header.cookie != NEEDLE_COOKIE_BATCH_DELETE;
    if (!*yes || !k->had || k->value.deleted)
        return 0;
    rc = cookie_before(p, k, &cookie, &known);
    *yes = rc != 0 || !known || cookie_eq(cookie, item->header.cookie);
    return rc;
}

static int on_record(void *arg, enum gap_find find, uint64_t pos, const struct needle_scan_item *item, bool recent)
{
    struct repair *p = arg;
    struct idx_row row = {.key = item->header.key, .offset = needle_offset_of(pos), .size = item->header.size};
    struct known k;
    bool deletes, counted, believed = true;
    int rc;

    if (needle_is_filler(&item->header))
        return on_filler(p, pos, item->header.size);
    if (find == GAP_RESYNC && p->resync_from == UINT64_MAX)
        p->resync_from = pos;
    rc = look_up(p, row.key, &k);
    if (rc == 0)
        rc = is_tombstone(p, item, &k, &deletes);
    if (rc != 0)
        return rc;
    counted = row.offset.units8 >= k.counts_from;
    if (counted)
        rc = believe(p, item, &k, recent, &believed);
    if (rc != 0)
        return rc;
    if (!believed) {
        p->rows.changed = true; /* it is covered */
        return GAP_REFUSED;
    }
    if (deletes)
        row.size = IDX_SIZE_TOMBSTONE;
    note_last(p, pos, item->header.size);
    if (counted)
        rc = apply_scanned(p, &row);
    return rc == 0 ? put_scanned(p, &row, counted) : rc;
}

static int scan_gap(struct repair *p, uint64_t from, uint64_t to)
{
    struct gap_sink sink = {.on_record = on_record, .on_filler = on_filler, .arg = p};
    int rc;

    p->resync_from = UINT64_MAX;
    rc = load_scan_gap(p->load, from, to, &sink);
    if (rc != DFS_EIO)
        return rc;
    load_remark(p->load, true, "'%s.dat' cannot be read between %" PRIu64 " and %" PRIu64 ": %s", p->load->v->base, from, to,
                strerror(errno));
    return 0;
}

/* ---- the walk ---- */

static int apply_rows(struct repair *p)
{
    int rc = 0;

    for (uint32_t i = 0; i < p->rows.count && rc == 0; i++)
        if (!repair_row_gone(&p->rows.rows[i]))
            rc = load_apply(p->load, &p->rows.rows[i].row);
    return rc;
}

/* Would the rows in offset order say something else than in log order? */
static int find_contradiction(struct repair *p)
{
    const struct repair_rows *r = &p->rows;

    if (r->in_order)
        return 0;
    for (uint32_t i = 0; i < r->count && !p->log_order; i++) {
        const struct repair_row *row = &r->rows[i];
        struct known k;
        int rc;

        if (!repair_row_placed(row) || row->row.key == 0)
            continue;
        rc = look_up(p, row->row.key, &k);
        if (rc != 0)
            return rc;
        if (idx_row_deletes(&row->row))
            p->log_order = !k.value.deleted && k.value.offset.units8 < row->row.offset.units8;
        else if (k.value.deleted)
            p->log_order = deleted_counts_from(p, row->row.key) <= row->row.offset.units8;
        else
            p->log_order = k.value.offset.units8 < row->row.offset.units8;
    }
    return 0;
}

static int walk(struct repair *p)
{
    struct repair_rows *r = &p->rows;
    uint64_t pos = r->base_pos;
    int rc = 0;

    for (uint32_t n = 0; n < r->order_count && rc == 0; n++) {
        const struct repair_row *row = &r->rows[r->order[n]];
        uint64_t at = repair_row_pos(row);

        if (!repair_row_placed(row))
            continue;
        if ((row->flags & ROW_INNER) == 0) {
            if (at > pos)
                rc = scan_gap(p, pos, at);
            pos = repair_row_end(r, row);
            note_last(p, at, idx_row_deletes(&row->row) ? 0 : row->row.size);
        }
        if (rc == 0 && !p->log_order)
            rc = put_placeless(p, row->row.offset.units8);
        if (rc == 0 && !p->log_order)
            rc = put_row(p, &row->row);
    }
    if (rc == 0 && pos < p->load->dat_bytes)
        rc = scan_gap(p, pos, p->load->dat_bytes);
    return rc == 0 && !p->log_order ? put_placeless(p, UINT64_MAX) : rc;
}

static int put_in_log_order(struct repair *p)
{
    int rc = 0;

    for (uint32_t i = 0; i < p->early.count && rc == 0; i++)
        rc = put_row(p, &p->early.rows[i]);
    for (uint32_t i = 0; i < p->rows.count && rc == 0; i++)
        if (!repair_row_gone(&p->rows.rows[i]))
            rc = put_row(p, &p->rows.rows[i].row);
    for (uint32_t i = 0; i < p->late.count && rc == 0; i++)
        rc = put_row(p, &p->late.rows[i]);
    return rc;
}

/* ---- around it ---- */

static int apply_prefix_row(struct load *l, const struct idx_row *row, void *arg)
{
    (void)arg;
    return load_apply(l, row);
}

static int collect(struct repair *p)
{
    struct load *l = p->load;
    int rc = repair_rows_collect(&p->rows, l, l->have_ckp ? l->ckp.idx_bytes : 0, l->have_ckp ? l->ckp.dat_bytes : l->first_pos);

    if (rc != DFS_ECORRUPT)
        return rc;
    load_remark(l, false, "'%s.idx' has more rows than its .dat can have records: it is made from the .dat", l->v->base);
    repair_rows_release(&p->rows);
    l->have_ckp = false;
    l->width = 0;
    return repair_rows_collect(&p->rows, l, 0, l->first_pos);
}

/* rebuild(): the file has changed, all of it once more. */
#define FILE_CHANGED 1

/* A record with a row was acknowledged, so an older version of its file is not what anybody should get when its end is gone.  It is
 * given its length back (zeros), and is an error when it is read. */
static int keep_torn(struct repair *p)
{
    struct load *l = p->load;
    const struct idx_row *torn = &p->rows.torn;
    uint64_t end = needle_offset_bytes(torn->offset) + needle_record_bytes(l->sb.version, torn->size);
    struct known k;
    int rc;

    if (torn->key == 0 || !l->can_write)
        return 0;
    rc = look_up(p, torn->key, &k);
    if (rc != 0 || k.value.deleted || k.value.offset.units8 >= torn->offset.units8)
        return rc;
    rc = disk_truncate(l->fd, end);
    if (rc == 0)
        rc = disk_sync(l->fd);
    if (rc != 0)
        return rc == DFS_ENOSPC ? 0 : rc;
    load_remark(l, false, "'%s.dat' ends inside a record that stands over an older one: it is kept, and an error when it is read",
                l->v->base);
    l->dat_bytes = end;
    dat_scan_reset(&l->scan, end);
    return FILE_CHANGED;
}

static int start_writing(struct repair *p)
{
    struct load *l = p->load;

    if (!l->can_write || idx_rewrite_open(l, &p->out) != 0)
        return 0;
    p->writing = true;
    if (!l->have_ckp)
        return 0;
    if (idx_rewrite_prefix(&p->out, l->ckp.idx_bytes) != 0) {
        idx_rewrite_discard(&p->out);
        p->writing = false;
    }
    return 0;
}

static int finish_writing(struct repair *p)
{
    struct load *l = p->load;
    int rc = DFS_EIO;

    if (!p->rows.changed && l->width == l->width_out && l->idx_fd >= 0) {
        /* Only the order was not the straight one, or there is damage that rows do not speak of. */
        if (p->writing)
            idx_rewrite_discard(&p->out);
        l->idx_crc = 0;
        return load_crc_of_idx(l, 0, l->idx_bytes, &l->idx_crc);
    }
    if (p->writing) {
        if (!l->tail_left)
            rc = idx_rewrite_commit(&p->out);
        if (rc != 0)
            idx_rewrite_discard(&p->out);
    }
    if (rc == 0)
        return 0;
    if (!l->tail_left)
        load_remark(l, true, "'%s.idx' does not cover the .dat and cannot be written anew", l->v->base);
    disk_close(&l->idx_fd);
    l->idx_bytes = 0;
    return 0;
}

static void tell(const struct repair *p)
{
    struct load *l = p->load;

    if (p->scanned > 0 || p->rows.dropped > 0 || p->rows.corrected > 0)
        load_remark(l, false, "the index of '%s' was mended: %" PRIu64 " records found in the .dat, %" PRIu32
                    " rows dropped, %" PRIu32 " corrected", l->v->base, p->scanned, p->rows.dropped, p->rows.corrected);
}

static void release(struct repair *p)
{
    if (p->writing && p->out.fd >= 0)
        idx_rewrite_discard(&p->out);
    repair_rows_release(&p->rows);
    free(p->deleted);
    free(p->placeless);
    free(p->early.rows);
    free(p->late.rows);
}

static int rebuild(struct repair *p)
{
    struct load *l = p->load;
    int rc = collect(p);

    if (rc == 0)
        rc = load_new_map(l, true);
    if (rc == 0 && l->have_ckp)
        rc = load_each_row(l, 0, l->ckp.idx_bytes, apply_prefix_row, NULL);
    if (rc == 0)
        rc = apply_rows(p);
    if (rc == 0)
        rc = collect_deleted(p);
    if (rc == 0)
        rc = keep_torn(p);
    if (rc == 0)
        rc = find_contradiction(p);
    if (rc == 0)
        rc = start_writing(p);
    if (rc == 0)
        rc = walk(p);
    if (rc == 0 && p->log_order)
        rc = put_in_log_order(p);
    if (rc == 0)
        rc = finish_writing(p);
    return rc;
}

int load_repair(struct load *l)
{
    struct repair p = {.load = l};
    uint64_t last_ns;
    int rc = rebuild(&p);

    if (rc == FILE_CHANGED) { /* to a whole record at the end: not again */
        release(&p);
        p = (struct repair){.load = l};
        rc = rebuild(&p);
    }
    if (rc == 0) {
        tell(&p);
        last_ns = p.last_pos != 0 ? dat_scan_time(&l->scan, p.last_pos, p.last_size) : 0;
        if (last_ns > l->last_append_ns)
            l->last_append_ns = last_ns;
        if (l->have_ckp && l->ckp.last_append_ns > l->last_append_ns)
            l->last_append_ns = l->ckp.last_append_ns;
    }
    release(&p);
    return rc;
}
