/* What stands in bytes of a .dat that no index row covers.
 *
 * A gap begins at a known boundary, so stepping from there is as good as the index: blobs that contain whole volumes are stepped
 * over.  After damage that certainty is lost.  What is found then counts only when, from there on, everything verifies up to the
 * next known boundary: the content of a blob cannot, because the blob's own checksum and padding stand behind it.
 *
 * What happens to bytes that are no record:
 *   a record that passes the gap's end     at the end of the file: torn, cut (kept aside); in the middle: its rest was overwritten
 *                                          by the records behind it, so it is dead: kept aside and covered by a filler
 *   last record, checksum wrong, no row    torn as well
 *   zeros                                  at the end: cut; in the middle: covered
 *   anything else                          at the end: cut when all of it can be kept aside; in the middle, or when it holds
 *                                          records that may not be believed: left as it is, and the volume takes no writes
 *
 * In the tail behind all rows, damage is what a power cut leaves of writes that nobody was told of: a batch is acknowledged when it
 * is synced as a whole, and the next begins after that.  There everything that does not verify is dead, and so is a record that may
 * not be believed; the volume goes on. */
#include <inttypes.h>
#include <stdio.h>

#include "needle/err.h"
#include "net/log.h"
#include "volume/disk_location.h"
#include "volume/volume_load.h"

/* Damaged records in a row that stepping may cross before one must verify. */
#define BAD_RUN_MAX 16
/* Records without a body that are told by what stands behind them, in one gap: each costs a pass over the rest of it. */
#define NO_BODY_MAX 16

struct gap {
    struct load *load;
    uint64_t to;
    bool at_end; /* of the file */
    bool recent; /* the tail behind all rows */
    const struct gap_sink *sink;
    bool emit;
    unsigned no_body_left; /* of NO_BODY_MAX */
    bool on_empty;         /* the last step was over a record without a body */
    enum gap_find find;
};

/* Do the steps of damaged records from pos lead to one that verifies, or exactly to the next row's record?  Records without a body
 * verify nothing and are stepped over; yet a torn write has none behind it. */
static int bad_run_holds(struct gap *g, uint64_t pos, bool *holds)
{
    bool seen_empty = false;

    *holds = false;
    for (int i = 0; i < BAD_RUN_MAX; i++) {
        struct needle_scan_item item;
        int rc;

        if (pos == g->to) {
            *holds = !g->at_end || seen_empty;
            return 0;
        }
        rc = dat_scan_step(&g->load->scan, pos, g->to, &item);
        if (rc != 0)
            return rc;
        if (item.kind == NEEDLE_SCAN_RECORD && item.header.size != 0) {
            *holds = true;
            return 0;
        }
        if (item.kind != NEEDLE_SCAN_RECORD && item.kind != NEEDLE_SCAN_BAD_DATA)
            return 0;
        seen_empty |= item.kind == NEEDLE_SCAN_RECORD && item.header.key != 0;
        pos += item.record_bytes;
    }
    return 0;
}

static int cover(struct gap *g, uint64_t from, uint64_t to, bool must_keep);

static int emit_record(struct gap *g, enum gap_find find, uint64_t pos, const struct needle_scan_item *item)
{
    int rc;

    if (!g->emit)
        return 0;
    if (g->recent && find == GAP_BAD)
        return cover(g, pos, pos + item->record_bytes, false);
    if (item->kind == NEEDLE_SCAN_RECORD && item->needle.append_at_ns > g->load->last_append_ns)
        g->load->last_append_ns = item->needle.append_at_ns;
    rc = g->sink->on_record(g->sink->arg, find, pos, item, g->recent);
    return rc == GAP_REFUSED ? (g->recent ? cover(g, pos, pos + item->record_bytes, true) : 0) : rc;
}

static int verifies_to_end(struct gap *g, uint64_t pos, bool *yes);

/* A record without a body whose Size is damaged (a tombstone, mostly: overlooked, it would bring a file back): records that begin
 * where it ends say so, when all up to the gap's end verify.  A header whose Size and data size agree is the front of a blob, and
 * what stands behind it is the blob's content. */
static int step_no_body(struct gap *g, uint64_t pos, struct needle_scan_item *item, bool *holds)
{
    struct needle_scan_item front, empty;
    int rc;

    if (g->no_body_left == 0)
        return 0;
    rc = dat_scan_peek(&g->load->scan, pos, g->to, &front);
    if (rc != 0 || (front.header.size != 0 && (front.kind == NEEDLE_SCAN_RECORD || front.torn)))
        return rc;
    rc = dat_scan_no_body(&g->load->scan, pos, g->to, g->load->last_append_ns, &empty);
    if (rc == 0) {
        g->no_body_left--;
        rc = verifies_to_end(g, pos + empty.record_bytes, holds);
    }
    if (rc == 0 && *holds) {
        *item = empty;
        if (g->emit)
            g->find = GAP_RESYNC; /* those behind it are as good */
    }
    return rc == DFS_ENOTFOUND ? 0 : rc;
}

/* One step: what stands at pos, and whether to go on behind it.  A record whose Size alone is damaged is known by its checksum:
 * item then has the Size that it should have. */
static int step(struct gap *g, uint64_t pos, struct needle_scan_item *item, enum gap_find *find, bool *holds)
{
    uint32_t size;
    int rc = dat_scan_step(&g->load->scan, pos, g->to, item);

    *find = g->find;
    *holds = rc == 0 && item->kind == NEEDLE_SCAN_RECORD;
    if (rc != 0 || *holds || item->kind == NEEDLE_SCAN_ZEROS)
        return rc;
    *find = GAP_BAD;
    rc = dat_scan_true_size(&g->load->scan, pos, g->to, &size);
    if (rc == 0) {
        item->kind = NEEDLE_SCAN_BAD_DATA;
        item->header.size = size;
        item->record_bytes = needle_record_bytes(g->load->sb.version, size);
        *holds = true;
        return 0;
    }
    if (rc == DFS_ENOTFOUND)
        rc = step_no_body(g, pos, item, holds);
    /* One without a body has nothing but its header to be known by, and that does not hold. */
    if (rc != 0 || *holds || item->kind != NEEDLE_SCAN_BAD_DATA || item->header.size == 0)
        return rc;
    return bad_run_holds(g, pos + item->record_bytes, holds);
}

/* Steps over records from pos; *stop is the first place that is none (with what stands there in *item), or g->to. */
static int walk(struct gap *g, uint64_t pos, uint64_t *stop, struct needle_scan_item *item)
{
    int rc = 0;

    while (pos < g->to && rc == 0) {
        enum gap_find find;
        bool holds;

        rc = step(g, pos, item, &find, &holds);
        if (rc != 0 || !holds)
            break;
        rc = emit_record(g, find, pos, item);
        pos += item->record_bytes;
        g->on_empty = item->header.size == 0;
    }
    *stop = pos;
    return rc;
}

/* ---- what to do with the rest ---- */

static int leave(struct gap *g, uint64_t from, uint64_t to, const char *what)
{
    g->load->tail_left |= g->at_end;
    load_remark(g->load, true, "%s in '%s.dat' at %" PRIu64 ", %" PRIu64 " bytes: left as it is", what, g->load->v->base, from,
                to - from);
    return 0;
}

/* A tail that is nobody's.  `sure` = proven torn, so that it may go even if not all of it can be kept. */
static int cut_tail(struct gap *g, uint64_t from, bool sure)
{
    struct load *l = g->load;
    bool kept;
    int rc;

    if (!l->can_write)
        return leave(g, from, g->to, "a torn tail");
    if (!sure && g->to - from > load_keep_left(l))
        return leave(g, from, g->to, "a tail of unknown bytes");
    rc = load_save_aside(l, from, g->to, &kept);
    if (rc == DFS_EIO)
        return rc;
    if (rc != 0)
        return leave(g, from, g->to, "a torn tail that cannot be kept aside");
    load_remark(l, false, "'%s.dat' was cut at %" PRIu64 ": %" PRIu64 " bytes of a torn tail", l->v->base, from, g->to - from);
    return load_cut(l, from);
}

/* Nobody need be alarmed: they stood ahead of the data of a process that was killed. */
static int cut_zeros(struct gap *g, uint64_t from)
{
    return g->load->can_write ? load_cut_zeros(g->load, from) : leave(g, from, g->to, "a tail of zeros");
}

/* must_keep: not when they cannot be kept aside. */
static int cover(struct gap *g, uint64_t from, uint64_t to, bool must_keep)
{
    struct load *l = g->load;
    bool kept = true;
    int rc;

    if (to - from < needle_record_bytes_min(l->sb.version) || (to - from) % NEEDLE_ALIGN != 0) {
        load_remark(l, false, "%" PRIu64 " dead bytes in '%s.dat' at %" PRIu64, to - from, l->v->base, from);
        return 0; /* too few for a record: nothing can be in there */
    }
    if (!l->can_write)
        return leave(g, from, to, "dead bytes");
    if (must_keep && to - from > load_keep_left(l))
        return leave(g, from, to, "dead bytes, too many to keep aside,");
    rc = load_save_aside(l, from, to, &kept);
    if (rc == DFS_EIO)
        return rc;
    if (rc != 0 || (!kept && must_keep))
        return leave(g, from, to, "dead bytes that cannot be kept aside");
    load_remark(l, false, "%" PRIu64 " dead bytes in '%s.dat' at %" PRIu64 " were covered", to - from, l->v->base, from);
    return load_fill(l, from, to, g->sink);
}

/* ---- after damage ---- */

enum nature { NATURE_ZEROS, NATURE_TORN, NATURE_BAD, NATURE_UNKNOWN };

static int nature_of(struct gap *g, uint64_t pos, const struct needle_scan_item *item, enum nature *out, uint64_t *resync_from)
{
    uint64_t zeros_end = pos;
    int rc = 0;

    *resync_from = pos + NEEDLE_ALIGN;
    switch (item->kind) {
    case NEEDLE_SCAN_ZEROS:
        rc = dat_scan_zeros(&g->load->scan, pos, g->to, &zeros_end);
        *out = NATURE_ZEROS;
        /* The last of them may be the cookie and the high half of the key of a tombstone. */
        if (zeros_end >= pos + 2 * NEEDLE_ALIGN)
            *resync_from = zeros_end - NEEDLE_ALIGN;
        if (zeros_end >= g->to)
            *resync_from = g->to;
        break;
    case NEEDLE_SCAN_BAD_DATA:
        /* A last record whose checksum is wrong is as torn as one that is too long. */
        *out = g->at_end && pos + item->record_bytes == g->to ? NATURE_TORN : NATURE_BAD;
        break;
    default:
        *out = item->torn ? NATURE_TORN : NATURE_UNKNOWN;
        break;
    }
    return rc;
}

/* Does what stands at `pos` end the gap in a way that a run of good records may end?  What stands behind the content of a blob may
 * pass for a front of less than its data size, and in versions without a time for a whole record without a body: those prove
 * nothing. */
static int ends_well(struct gap *g, uint64_t pos, const struct needle_scan_item *item, bool *well)
{
    enum nature nature;
    uint64_t from;
    int rc;

    *well = pos == g->to;
    if (*well || !g->at_end || (g->on_empty && g->load->sb.version != NEEDLE_V3))
        return 0;
    rc = nature_of(g, pos, item, &nature, &from);
    *well = rc == 0 && ((nature == NATURE_TORN && g->to - pos >= NEEDLE_HEADER_BYTES + 4) ||
                        (nature == NATURE_ZEROS && from == g->to));
    return rc;
}

static int verifies_to_end(struct gap *g, uint64_t pos, bool *yes)
{
    struct gap probe = *g;
    struct needle_scan_item item;
    uint64_t stop;
    int rc;

    probe.emit = false;
    probe.no_body_left = 0;
    probe.on_empty = false;
    *yes = !g->at_end && pos == g->to;
    if (*yes || pos >= g->to)
        return 0;
    rc = walk(&probe, pos, &stop, &item);
    return rc == 0 ? ends_well(&probe, stop, &item, yes) : rc;
}

/* The first place at or after `from` from which everything verifies up to the gap's end.  *listed counts records that verify and
 * are followed by something that does not. */
static int find_chain(struct gap *g, uint64_t from, uint64_t *found, uint64_t *listed)
{
    struct gap probe = *g;
    int rc = 0;

    probe.emit = false;
    probe.no_body_left = 0;
    while (rc == 0 && from < g->to) {
        struct needle_scan_item item;
        uint64_t at, stop;
        bool well = false;

        rc = dat_scan_resync(&g->load->scan, from, g->to, &at);
        if (rc != 0)
            break;
        rc = walk(&probe, at, &stop, &item);
        if (rc == 0)
            rc = ends_well(&probe, stop, &item, &well);
        if (rc == 0 && well) {
            *found = at;
            return 0;
        }
        (*listed)++;
        from = stop;
    }
    return rc == 0 ? DFS_ENOTFOUND : rc;
}

static int leave_damage(struct gap *g, uint64_t from, uint64_t to, uint64_t listed)
{
    char what[80];

    (void)snprintf(what, sizeof what, "damage (%" PRIu64 " records in it may not be believed)", listed);
    return leave(g, from, to, listed == 0 ? "a damaged record" : what);
}

/* Bytes [from, to) in front of a record that is believed. */
static int settle_middle(struct gap *g, uint64_t from, uint64_t to, const struct needle_scan_item *item, enum nature nature,
                         uint64_t listed)
{
    bool dead = false;

    if (g->recent)
        return cover(g, from, to, listed != 0);
    if (nature == NATURE_ZEROS) {
        uint64_t zeros_end;
        int rc = dat_scan_zeros(&g->load->scan, from, to, &zeros_end);

        if (rc != 0)
            return rc;
        dead = zeros_end == to;
    } else if (nature == NATURE_BAD) {
        /* A record that another one was written into: its writer gave it up. */
        dead = to - from < item->record_bytes;
    }
    return dead && listed == 0 ? cover(g, from, to, true) : leave_damage(g, from, to, listed);
}

/* A header that promises more than the gap holds.  In version 1 nothing backs such a promise. */
static int on_torn(struct gap *g, uint64_t pos)
{
    bool backed = g->load->sb.version != NEEDLE_V1;
    uint64_t found, listed = 0;
    int rc;

    if (!g->at_end)
        return backed ? cover(g, pos, g->to, true) : leave_damage(g, pos, g->to, 0);
    if (g->to - pos <= load_keep_left(g->load))
        return cut_tail(g, pos, backed);
    /* Too much to keep all of it: not when it could be good records behind one damaged header. */
    rc = find_chain(g, pos + NEEDLE_ALIGN, &found, &listed);
    if (rc == DFS_ENOTFOUND)
        return cut_tail(g, pos, backed);
    return rc == 0 ? leave_damage(g, pos, g->to, listed) : rc;
}

/* At pos stands no record.  *next is where stepping goes on, or g->to. */
static int on_damage(struct gap *g, uint64_t pos, const struct needle_scan_item *item, uint64_t *next)
{
    enum nature nature;
    uint64_t resync_from, found = g->to, listed = 0;
    int rc = nature_of(g, pos, item, &nature, &resync_from);

    *next = g->to;
    if (rc != 0)
        return rc;
    if (nature == NATURE_TORN)
        return on_torn(g, pos);
    rc = find_chain(g, resync_from, &found, &listed);
    if (rc == 0) {
        *next = found;
        g->find = GAP_RESYNC;
        return settle_middle(g, pos, found, item, nature, listed);
    }
    if (rc != DFS_ENOTFOUND)
        return rc;
    if (!g->at_end)
        return settle_middle(g, pos, g->to, item, nature, listed);
    if (listed != 0 && !g->recent)
        return leave_damage(g, pos, g->to, listed);
    return nature == NATURE_ZEROS && resync_from == g->to ? cut_zeros(g, pos) : cut_tail(g, pos, false);
}

int load_scan_gap(struct load *l, uint64_t from, uint64_t to, const struct gap_sink *sink)
{
    struct gap g = {.load = l, .to = to, .at_end = to == l->dat_bytes, .sink = sink, .emit = true, .no_body_left = NO_BODY_MAX,
                    .find = GAP_RECORD};
    uint64_t pos = from;

    int rc = 0;

    /* With no row at all it is that of a new volume, unless it is longer than an index may lag behind. */
    g.recent = g.at_end && (from > l->first_pos || (l->idx_fd >= 0 && to - from <= VOLUME_CUT_KEEP_MAX));
    if (from % NEEDLE_ALIGN != 0)
        return leave(&g, from, to, "a record off the grid");
    while (pos < to && rc == 0) {
        struct needle_scan_item item;
        uint64_t stop;

        rc = walk(&g, pos, &stop, &item);
        pos = stop;
        if (rc == 0 && pos < to)
            rc = on_damage(&g, pos, &item, &pos);
    }
    return rc;
}
