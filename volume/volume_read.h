/* How records are read, between the files that do it.  Internal to the engine. */
#ifndef DFS_VOLUME_VOLUME_READ_H
#define DFS_VOLUME_VOLUME_READ_H

#include "volume/needle_io.h"
#include "volume/volume.h"

_Static_assert(NEEDLE_READ_SMALL_MAX >= KNOWN_BLOCK_BYTES, "two large records could start in one block");

static inline bool needle_read_is_large(uint64_t record_bytes)
{
    return record_bytes > NEEDLE_READ_SMALL_MAX;
}

/* ---- volume_read.c, for volume_read_large.c ---- */
/* Goes on with r->step on the reader pool; r->gen is held. */
enum needle_read_step {
    NEEDLE_READ_FETCH,  /* look up, if the map may block, and read */
    NEEDLE_READ_CHECK,  /* the CRC of a large record, a part at a time */
    NEEDLE_READ_PIECE,  /* one piece of a large record into the page cache */
    NEEDLE_READ_READY,
};
/* The record does not hold what it must: counted, logged, DFS_ECORRUPT. */
int needle_read_corrupt(const struct needle_read *r, const struct volume_gen *g, const char *what);
/* The same for a failed file call. */
int needle_read_failed(const struct needle_read *r, const struct volume_gen *g, int rc);
/* What the needle says of itself: is it the one that was asked for, and alive? */
int needle_read_judge(const struct needle_read *r, const struct volume_gen *g, const struct needle *n, uint64_t now_s);
void needle_read_submit(struct needle_read *r, enum needle_read_step step);

/* ---- volume_read_large.c ---- */
/* Reads header and trailer into r.  cached: DFS_EAGAIN rather than wait for the disk. */
int needle_read_ends(struct needle_read *r, const struct volume_gen *g, bool cached, uint64_t now_s);
/* After needle_read_ends(), on a loop: 0 when the data may be sent as it lies in the page cache; DFS_EAGAIN: the pool checks. */
int needle_read_large_ready(struct needle_read *r);
/* Pool: the next part of the check; sets r->step to NEEDLE_READ_READY when it is through, and r->rc. */
void needle_read_check_part(struct needle_read *r);
void needle_read_fetch_piece(struct needle_read *r);
void needle_read_large_release(struct needle_read *r);

#endif
