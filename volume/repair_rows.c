/* Which rows of an .idx hold.
 *
 * A row is taken at its word where it meets its neighbours.  Where two rows do not meet, or beside rows that cannot be, the
 * record's own header decides.  So a sound index costs no read of the .dat, and a damaged one a read for each place of damage. */
#include "volume/repair_rows.h"

#include <stdlib.h>

#include "needle/err.h"
#include "volume/repair_ids.h"

/* The least that a disk writes as a whole. */
#define SECTOR_BYTES 512u
/* The size at the end of a row. */
#define IDX_SIZE_BYTES 4u

/* A .dat cannot have so many rows: the file is something else. */
static uint64_t rows_max(const struct load *l)
{
    return l->dat_bytes / needle_record_bytes_min(NEEDLE_V2) * 4 + 1024;
}

/* ---- one row by itself ---- */

static bool is_zeros(const struct idx_row *row)
{
    return row->key == 0 && row->offset.units8 == 0 && row->size == 0;
}

static void drop(struct repair_rows *r, struct repair_row *row)
{
    row->flags |= ROW_DROPPED | ROW_WRONG;
    r->changed = true;
    r->dropped++;
}

/* A tombstone whose place is wrong still deletes.  Any other negative size is what a torn row looks like. */
static void unplace_or_drop(struct repair_rows *r, struct repair_row *row)
{
    if (row->row.size != IDX_SIZE_TOMBSTONE || row->row.key == 0) {
        drop(r, row);
        return;
    }
    row->flags |= ROW_NO_PLACE | ROW_WRONG;
    row->row.offset.units8 = 0;
    row->row.size = IDX_SIZE_TOMBSTONE;
    r->changed = true;
    r->corrected++;
}

static bool place_possible(const struct repair_rows *r, const struct repair_row *row)
{
    return repair_row_pos(row) >= r->base_pos && repair_row_end(r, row) <= r->load->dat_bytes;
}

/* The file ends inside the record that the row describes. */
static void note_torn(struct repair_rows *r, const struct repair_row *row)
{
    struct needle_header h;

    if (idx_row_deletes(&row->row) || repair_row_pos(row) + NEEDLE_HEADER_BYTES > r->load->dat_bytes)
        return;
    if (dat_scan_header(&r->load->scan, repair_row_pos(row), &h) == 0 && idx_row_agrees(&row->row, &h))
        r->torn = row->row;
}

static int append_row(struct repair_rows *r, const struct idx_row *row, struct repair_row **out)
{
    if (r->count == r->cap) {
        uint32_t cap = r->cap == 0 ? 1024 : r->cap * 2;
        struct repair_row *rows = realloc(r->rows, cap * sizeof *rows);

        if (rows == NULL)
            return DFS_ENOMEM;
        r->rows = rows;
        r->cap = cap;
    }
    *out = &r->rows[r->count++];
    **out = (struct repair_row){.row = *row};
    return 0;
}

struct collecting {
    struct repair_rows *rows;
    uint64_t pos;   /* of the next row in the file */
    bool after_bad; /* the row before was none */
};

/* Pages of zeros in an index cut rows in two at either edge: what stands beside them is looked at. */
static void bad_row(struct collecting *c)
{
    struct repair_rows *r = c->rows;

    r->changed = true;
    r->dropped++;
    c->after_bad = true;
    if (r->count == 0)
        return;
    struct repair_row *before = &r->rows[r->count - 1];
    before->flags |= ROW_SUSPECT;
    /* "Key, 0, 0" in front of zeros is a row cut short, not a tombstone. */
    if (before->row.offset.units8 == 0 && before->row.size != IDX_SIZE_TOMBSTONE && !repair_row_gone(before))
        drop(r, before);
}

static int on_row(struct load *l, const struct idx_row *row, void *arg)
{
    struct collecting *c = arg;
    struct repair_rows *r = c->rows;
    struct repair_row *new_row;
    int rc;

    c->pos += idx_row_bytes(l->width);
    /* Without a place a row can only delete, and nobody deletes with a size. */
    if (is_zeros(row) ||
        (row->offset.units8 == 0 && (row->key == 0 || (row->size != 0 && row->size != IDX_SIZE_TOMBSTONE)))) {
        bad_row(c);
        return 0;
    }
    if (r->count >= rows_max(r->load))
        return DFS_ECORRUPT;
    rc = append_row(r, row, &new_row);
    if (rc != 0)
        return rc;
    if (c->after_bad)
        new_row->flags |= ROW_SUSPECT | ROW_AFTER_BAD;
    if (row->key == 0) /* no assign hands out key 0: a filler, or a key that was lost */
        new_row->flags |= ROW_SUSPECT;
    if ((c->pos - IDX_SIZE_BYTES) % SECTOR_BYTES == 0)
        new_row->flags |= ROW_SIZE_APART;
    c->after_bad = false;
    if (repair_row_pos(new_row) >= r->load->verify_from)
        new_row->flags |= ROW_SUSPECT;
    if (row->offset.units8 == 0) {
        new_row->flags |= ROW_NO_PLACE;
    } else if (!place_possible(r, new_row)) {
        note_torn(r, new_row);
        unplace_or_drop(r, new_row);
    }
    return 0;
}

/* ---- what the record says ---- */

static bool agrees(struct repair_rows *r, const struct repair_row *row)
{
    struct needle_header h;

    if ((row->flags & ROW_WRONG) != 0)
        return false;
    return !repair_row_placed(row) ||
           (dat_scan_header(&r->load->scan, repair_row_pos(row), &h) == 0 && idx_row_agrees(&row->row, &h));
}

/* What a row can be made to say by the record that stands there; *still false when they have nothing in common. */
static int correct_row(struct repair_rows *r, struct repair_row *row, const struct needle_header *h, uint32_t size, bool *still)
{
    bool deletes = idx_row_deletes(&row->row), hides = false;
    bool other_size = !deletes && row->row.size != size;
    enum repair_owner owner = OWNER_RECORD;
    int rc = 0;

    /* Of a record without a body the row alone knows whether it deletes. */
    *still = !(size == 0 ? !deletes && row->row.size != 0 : deletes);
    if (!*still || (row->row.key == h->key && !other_size))
        return 0;
    if (row->row.key != h->key && !other_size)
        rc = repair_owner_of(r, row, h, &owner);
    *still = owner != OWNER_OTHER_ROW;
    if (rc != 0 || owner != OWNER_RECORD)
        return rc;
    row->flags |= ROW_WRONG;
    r->changed = true;
    r->corrected++;
    row->row.key = h->key;
    if (!deletes)
        row->row.size = size;
    rc = load_hides_tombstone(r->load, &row->row, &hides);
    if (hides)
        row->row.size = IDX_SIZE_TOMBSTONE;
    return rc;
}

/* How a row lies beside its neighbours. */
enum odds {
    ODDS_NONE,   /* nothing speaks against it */
    ODDS_BEHIND, /* it begins where the one before ends, and no row begins where it ends */
    ODDS_BAD,
};

/* Does the row's record end where the file does (or nothing but zeros follows), or where a record begins that proves itself?  Then
 * offset and size are right, and nothing speaks against the row but a damaged record.  A header of zeros at the end was never
 * written. */
static int meets_behind(struct repair_rows *r, const struct repair_row *row, const struct needle_header *h, bool *meets)
{
    struct load *l = r->load;
    struct needle_scan_item item;
    uint64_t end = repair_row_end(r, row), zeros_end = end;
    bool written = h->key != 0 || h->cookie != 0 || h->size != 0;
    int rc = written ? dat_scan_zeros(&l->scan, end, l->dat_bytes, &zeros_end) : 0;

    *meets = rc == 0 && written && zeros_end == l->dat_bytes;
    if (rc != 0 || zeros_end != end || end == l->dat_bytes)
        return rc;
    rc = dat_scan_step(&l->scan, end, l->dat_bytes, &item);
    *meets = rc == 0 && item.kind == NEEDLE_SCAN_RECORD && item.header.size != 0;
    return rc;
}

/* The header does not say what the row says.  Is it the header that is damaged, or the row?  A record that proves itself has the
 * word.  Where nothing is proven the row is believed, unless it is at odds with its neighbours. */
static int judge_by_record(struct repair_rows *r, struct repair_row *row, const struct needle_header *h, enum odds odds,
                           bool *still)
{
    struct load *l = r->load;
    struct needle_scan_item item;
    uint64_t pos = repair_row_pos(row);
    uint32_t size;
    int rc = dat_scan_step(&l->scan, pos, l->dat_bytes, &item);

    if (rc != 0)
        return rc;
    /* One without a body proves nothing: a Size that was damaged to zero reads as that. */
    if (item.kind == NEEDLE_SCAN_RECORD && (h->size != 0 || pos + item.record_bytes == repair_row_end(r, row)))
        return correct_row(r, row, h, h->size, still);
    rc = dat_scan_true_size(&l->scan, pos, l->dat_bytes, &size);
    /* Its Size is wrong: it has its place, and is an error when it is read. */
    *still = true;
    if (rc == 0 && row->row.size != size)
        rc = correct_row(r, row, h, size, still);
    if (rc != DFS_ENOTFOUND)
        return rc;
    *still = odds == ODDS_NONE;
    return odds == ODDS_BEHIND ? meets_behind(r, row, h, still) : 0;
}

/* A tombstone's row whose size was torn to zeros reads as that of an empty file, and its record has the same shape: only the
 * checksum tells.  What was deleted must not come back as an empty file.  The size stands last in a row, so what stands behind a
 * torn one is no row, unless a sector ends in between; else it is the checksum that was damaged. */
static int uncover_tombstone(struct repair_rows *r, struct repair_row *row)
{
    bool whole = row + 1 < r->rows + r->count && (row->flags & ROW_SIZE_APART) == 0 && (row[1].flags & ROW_AFTER_BAD) == 0;
    bool hides;
    int rc;

    if (row->row.size != 0 || (whole && agrees(r, row + 1)))
        return 0;
    rc = load_hides_tombstone(r->load, &row->row, &hides);
    if (rc != 0 || !hides)
        return rc;
    row->row.size = IDX_SIZE_TOMBSTONE;
    r->changed = true;
    r->corrected++;
    return 0;
}

/* *still: the row keeps its place (with its key or size corrected, it may be). */
static int check_row(struct repair_rows *r, struct repair_row *row, enum odds odds, bool *still)
{
    struct needle_header h;
    int rc;

    *still = repair_row_placed(row);
    if (!*still || (row->flags & ROW_CHECKED) != 0)
        return 0;
    if (load_row_torn(&row->row)) {
        *still = false;
        row->flags |= ROW_CHECKED;
        drop(r, row);
        return 0;
    }
    rc = dat_scan_header(&r->load->scan, repair_row_pos(row), &h);
    if (rc == 0 && idx_row_agrees(&row->row, &h))
        rc = uncover_tombstone(r, row);
    if (rc == 0 && !idx_row_agrees(&row->row, &h)) {
        rc = judge_by_record(r, row, &h, odds, still);
        if (rc == 0 && *still && !idx_row_agrees(&row->row, &h) && odds == ODDS_NONE)
            return 0; /* in doubt: asked again if it turns out to be at odds */
    } else if (rc == DFS_ESHORT) {
        *still = false;
        rc = 0;
    }
    if (rc != 0 && rc != DFS_EIO) /* what cannot be read does not speak against the row */
        return rc;
    row->flags |= ROW_CHECKED;
    if (!*still)
        unplace_or_drop(r, row);
    return 0;
}

static int check_suspects(struct repair_rows *r)
{
    int rc = 0;

    for (uint32_t i = 0; i < r->count && rc == 0; i++) {
        bool still;

        if ((r->rows[i].flags & ROW_SUSPECT) != 0)
            rc = check_row(r, &r->rows[i], ODDS_NONE, &still);
    }
    return rc;
}

/* ---- side by side ---- */

static int by_place(const void *a, const void *b, void *arg)
{
    const struct repair_rows *r = arg;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    uint64_t x = r->rows[i].row.offset.units8, y = r->rows[j].row.offset.units8;

    if (x != y)
        return x < y ? -1 : 1;
    return i < j ? -1 : i > j;
}

/* Of the rows that have a place. */
static void see_order(struct repair_rows *r)
{
    uint64_t last = 0;

    r->in_order = true;
    for (uint32_t i = 0; i < r->count; i++) {
        if (!repair_row_placed(&r->rows[i]))
            continue;
        r->in_order &= r->rows[i].row.offset.units8 >= last;
        last = r->rows[i].row.offset.units8;
    }
}

static int make_order(struct repair_rows *r)
{
    r->order = malloc((r->count + 1) * sizeof *r->order);
    if (r->order == NULL)
        return DFS_ENOMEM;
    r->order_count = 0;
    for (uint32_t i = 0; i < r->count; i++)
        if (repair_row_placed(&r->rows[i]))
            r->order[r->order_count++] = i;
    see_order(r);
    if (!r->in_order)
        qsort_r(r->order, r->order_count, sizeof *r->order, by_place, r);
    return 0;
}

/* Two rows for one place, and its header agrees with both: the same row twice, or an empty file and its deletion by an index that
 * was sloppy.  The log's last word counts, but a repeated row is as old as its first. */
static void same_place(struct repair_rows *r, struct repair_row *first, struct repair_row *second, bool *second_wins)
{
    *second_wins = first->row.key != second->row.key || idx_row_deletes(&first->row) != idx_row_deletes(&second->row);
    drop(r, *second_wins ? first : second);
}

struct tiling {
    struct repair_rows *rows;
    uint32_t *tiles; /* indices of rows, by offset; each begins at or behind the end of the one before */
    uint32_t count;
    uint64_t pos;    /* end of the last */
};

static void untile(struct tiling *t)
{
    t->count--;
    t->pos = t->count > 0 ? repair_row_end(t->rows, &t->rows->rows[t->tiles[t->count - 1]]) : t->rows->base_pos;
}

static uint64_t end_before_last(const struct tiling *t)
{
    return t->count > 1 ? repair_row_end(t->rows, &t->rows->rows[t->tiles[t->count - 2]]) : t->rows->base_pos;
}

/* The last tile does not meet the row at `next`: is it what it says?  *again: it was not, look anew. */
static int doubt_last(struct tiling *t, uint64_t next, bool *again)
{
    struct repair_rows *r = t->rows;
    struct repair_row *last;
    uint64_t end;
    bool still;
    int rc;

    *again = false;
    if (t->count == 0)
        return 0;
    last = &r->rows[t->tiles[t->count - 1]];
    end = t->pos;
    rc = check_row(r, last, next >= end && repair_row_pos(last) == end_before_last(t) ? ODDS_BEHIND : ODDS_BAD, &still);
    if (rc != 0)
        return rc;
    if (!still)
        untile(t);
    else
        t->pos = repair_row_end(r, last);
    *again = t->pos != end;
    return 0;
}

/* The same row once more: as old as its first, and no sign that either is wrong. */
static bool is_repeated(const struct repair_row *first, const struct repair_row *second)
{
    return first->row.key == second->row.key && first->row.offset.units8 == second->row.offset.units8 &&
           first->row.size == second->row.size;
}

static int lay_tile(struct tiling *t, uint32_t i)
{
    struct repair_rows *r = t->rows;
    struct repair_row *row = &r->rows[i];

    for (;;) {
        bool again, still, wins;
        int rc;

        if (repair_row_pos(row) == t->pos)
            break;
        if (t->count > 0 && is_repeated(&r->rows[t->tiles[t->count - 1]], row)) {
            drop(r, row);
            return 0;
        }
        rc = doubt_last(t, repair_row_pos(row), &again);
        if (rc != 0)
            return rc;
        if (again)
            continue;
        rc = check_row(r, row, ODDS_BAD, &still);
        if (rc != 0 || !still)
            return rc;
        if (repair_row_pos(row) > t->pos)
            break; /* a gap */
        struct repair_row *last = &r->rows[t->tiles[t->count - 1]];
        if (repair_row_pos(last) != repair_row_pos(row)) {
            row->flags |= ROW_INNER;
            return 0;
        }
        same_place(r, last, row, &wins);
        if (!wins)
            return 0;
        untile(t);
    }
    t->tiles[t->count++] = i;
    t->pos = repair_row_end(r, row);
    return 0;
}

static int tile(struct repair_rows *r)
{
    struct tiling t = {.rows = r, .pos = r->base_pos};
    bool again = true;
    int rc = 0;

    t.tiles = malloc((r->order_count + 1) * sizeof *t.tiles);
    if (t.tiles == NULL)
        return DFS_ENOMEM;
    for (uint32_t k = 0; k < r->order_count && rc == 0; k++)
        if (repair_row_placed(&r->rows[r->order[k]]))
            rc = lay_tile(&t, r->order[k]);
    /* What stands last is what a crash hits. */
    while (rc == 0 && again)
        rc = doubt_last(&t, r->load->dat_bytes, &again);
    r->end_units8 = t.pos / NEEDLE_ALIGN;
    see_order(r);
    free(t.tiles);
    return rc;
}

int repair_rows_collect(struct repair_rows *r, struct load *l, uint64_t from, uint64_t base_pos)
{
    struct collecting c = {.rows = r, .pos = from};
    int rc = 0;

    *r = (struct repair_rows){.load = l, .base_pos = base_pos, .in_order = true, .end_units8 = base_pos / NEEDLE_ALIGN};
    if (l->width == 0 || l->idx_fd < 0) {
        r->changed = l->idx_bytes > 0;
        return 0;
    }
    rc = load_each_row(l, from, l->idx_bytes, on_row, &c);
    if (rc == 0 && (l->idx_bytes - from) % idx_row_bytes(l->width) != 0)
        bad_row(&c); /* the last one was cut off */
    if (rc == 0)
        rc = check_suspects(r);
    if (rc == 0)
        rc = make_order(r);
    return rc == 0 ? tile(r) : rc;
}

void repair_rows_release(struct repair_rows *r)
{
    free(r->rows);
    free(r->order);
    r->rows = NULL;
    r->order = NULL;
}
