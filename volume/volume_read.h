/* What this process knows of large records: which of them it wrote or has checked against their CRC.  Internal to the engine.
 *
 * A record longer than a block starts in a block where no other such record starts, so the block's bit stands for it alone,
 * wherever it ends. */
#ifndef DFS_VOLUME_VOLUME_READ_H
#define DFS_VOLUME_VOLUME_READ_H

#include "volume/needle_io.h"
#include "volume/volume.h"

_Static_assert(NEEDLE_READ_SMALL_MAX >= VOLUME_VERIFY_BLOCK, "two large records could start in one block");

static inline bool needle_read_is_large(uint64_t record_bytes)
{
    return record_bytes > NEEDLE_READ_SMALL_MAX;
}

static inline bool needle_read_is_checked(const struct volume_gen *g, uint64_t pos)
{
    return volume_gen_is_verified(g, pos - pos % VOLUME_VERIFY_BLOCK, VOLUME_VERIFY_BLOCK);
}

static inline void needle_read_mark_checked(struct volume_gen *g, uint64_t pos)
{
    volume_gen_mark_verified(g, pos - pos % VOLUME_VERIFY_BLOCK, VOLUME_VERIFY_BLOCK);
}

#endif
