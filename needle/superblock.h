/* The first bytes of a .dat file: version, replica placement, ttl, compaction revision.
 *
 * OFFSET SIZE MEANING (big endian)
 *      0    1 version: 1, 2 or 3
 *      1    1 replica placement
 *      2    2 ttl
 *      4    2 compaction revision
 *      6    2 length E of the extra block (versions 2 and 3; else ignored)
 *      8    E extra block, kept as it is
 * Pure; any thread. */
#ifndef DFS_NEEDLE_SUPERBLOCK_H
#define DFS_NEEDLE_SUPERBLOCK_H

#include <stdint.h>

#include "needle/bytes.h"
#include "needle/replica_placement.h"
#include "needle/ttl.h"

#define SUPERBLOCK_BYTES 8u
#define SUPERBLOCK_BYTES_MAX (SUPERBLOCK_BYTES + 65535u)

enum needle_version { NEEDLE_V1 = 1, NEEDLE_V2 = 2, NEEDLE_V3 = 3 };

struct superblock {
    uint8_t version;
    struct replica_placement placement;
    struct ttl ttl;
    uint16_t compact_revision;
    uint16_t extra_bytes;
};

/* DFS_ESHORT when buf has fewer than 8 bytes, DFS_EVERSION for an unknown version, DFS_ECORRUPT for a placement byte that
 * is none.  The extra block itself need not be in buf. */
int superblock_decode(struct bytes buf, struct superblock *out);

/* The eight fixed bytes. */
void superblock_encode(const struct superblock *sb, uint8_t out[SUPERBLOCK_BYTES]);

/* Where the first needle stands: 8 + extra, rounded up to 8. */
uint64_t superblock_end(const struct superblock *sb);

#endif
