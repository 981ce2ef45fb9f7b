/* Large records whose bytes this process knows: it wrote them, or has read them against their CRC.  Such a record may be sent as it
 * lies in the page cache, as long as its pages have stayed there.
 *
 * A record longer than a block starts in a block where no other such record starts, so one byte for each block is enough: 0, or how
 * many blocks from there on the record touches.
 *
 * What left memory and was brought in again by somebody else (a backup that reads the folder) is not what was checked, and nobody
 * tells us that it left.  So a sweep looks at the pages of known records again and again, and forgets those of which a page is
 * absent.  A bad byte can be taken for a good one only if its page leaves memory and comes back unnoticed between two sweeps. */
#ifndef DFS_VOLUME_KNOWN_RECORDS_H
#define DFS_VOLUME_KNOWN_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "volume/disk.h"

#define KNOWN_BLOCK_BYTES (256u * 1024u)

struct known_records {
    _Atomic(uint8_t) *marks;
    uint64_t blocks;
};

/* Room for records that start in the first `bytes` of a file; what starts behind is never known, so it is read and checked each
 * time.  DFS_ENOMEM. */
int known_records_init(struct known_records *k, uint64_t bytes);
void known_records_release(struct known_records *k);
/* pos, bytes: of the whole record, longer than a block.  Any thread. */
void known_records_add(struct known_records *k, uint64_t pos, uint64_t bytes);
bool known_records_has(const struct known_records *k, uint64_t pos);

/* Forgets records of which a page is not in memory; file_bytes is where the pages end.  Goes on at block *at, which becomes 0 when
 * the end is reached, and asks about `budget` blocks, the last record's to their end.  Returns how many it asked about.  Asks the
 * kernel, never waits for the disk; one thread at a time, not a loop. */
uint64_t known_records_sweep(struct known_records *k, struct disk_residency *r, uint64_t file_bytes, uint64_t *at, uint64_t budget);
uint64_t known_records_memory_bytes(const struct known_records *k);

#endif
