/* Whose record is it, when its index row and its header tell different ids?  Part of volume_repair.c's work; loader thread. */
#ifndef DFS_VOLUME_REPAIR_IDS_H
#define DFS_VOLUME_REPAIR_IDS_H

#include <stdbool.h>

#include "needle/needle.h"
#include "volume/repair_rows.h"

/* So many times all rows are looked through in one opening; then the record has the word. */
#define REPAIR_OWNER_SEARCHES_MAX 16u

enum repair_owner {
    OWNER_RECORD,    /* the id in the header; the row's is damaged */
    OWNER_ROW,       /* the id in the row; the header is damaged */
    OWNER_OTHER_ROW, /* the id in the header has a row for that place already: it is the row's offset that is damaged */
};

/* row points at a whole record with header h, of its size, that tells another id.  DFS_EIO, DFS_ENOMEM. */
int repair_owner_of(struct repair_rows *r, const struct repair_row *row, const struct needle_header *h, enum repair_owner *out);

#endif
