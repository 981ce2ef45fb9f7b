/* Rows of an .idx that does not cover its .dat: which of them hold, and how they lie beside each other.
 * Part of volume_repair.c's work; loader thread. */
#ifndef DFS_VOLUME_REPAIR_ROWS_H
#define DFS_VOLUME_REPAIR_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "volume/volume_load.h"

enum repair_flag {
    ROW_DROPPED = 1 << 0,
    ROW_CHECKED = 1 << 1,  /* its record's header has been looked at */
    ROW_SUSPECT = 1 << 2,  /* stands beside a row that was none, or behind all checkpoints */
    ROW_NO_PLACE = 1 << 3, /* a tombstone that tells no offset, or a wrong one */
    ROW_INNER = 1 << 4,    /* its record lies inside another's */
    ROW_AFTER_BAD = 1 << 5,/* the bytes in front of it are no row */
    ROW_WRONG = 1 << 6,    /* the record or the file's length spoke against it */
    ROW_SIZE_APART = 1 << 7, /* its size lies in a sector of its own */
};

struct repair_row {
    struct idx_row row;
    uint8_t flags;
};

struct repair_rows {
    struct load *load;
    uint64_t base_pos;   /* where the first of them should begin */
    struct repair_row *rows; /* in log order */
    uint32_t count, cap;
    uint32_t *order;     /* of those that have a place, by offset, then log order */
    uint32_t order_count;
    bool in_order;       /* log order is offset order */
    bool changed;        /* something differs from the file */
    uint32_t dropped, corrected;
    uint32_t owner_searches; /* repair_ids.h */
    uint64_t end_units8; /* behind the last record that a row points at */
    struct idx_row torn; /* dropped: its record is there, and the file ends inside it; key 0 = none */
};

/* Reads all rows from byte `from` of the .idx on, drops what cannot be, and tiles the rest.  DFS_ECORRUPT: more rows than the .dat
 * can have, so this is no index.  Releases are the caller's in any case. */
int repair_rows_collect(struct repair_rows *r, struct load *l, uint64_t from, uint64_t base_pos);
void repair_rows_release(struct repair_rows *r);

static inline bool repair_row_gone(const struct repair_row *row)
{
    return (row->flags & ROW_DROPPED) != 0;
}

static inline bool repair_row_placed(const struct repair_row *row)
{
    return (row->flags & (ROW_DROPPED | ROW_NO_PLACE)) == 0;
}

static inline uint64_t repair_row_pos(const struct repair_row *row)
{
    return needle_offset_bytes(row->row.offset);
}

/* End of its record. */
static inline uint64_t repair_row_end(const struct repair_rows *r, const struct repair_row *row)
{
    return repair_row_pos(row) + needle_record_bytes(r->load->sb.version, idx_row_deletes(&row->row) ? 0 : row->row.size);
}

#endif
