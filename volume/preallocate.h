/* Blocks for a volume to grow into, when the disk has them to spare, and what a cut does to them. */
#ifndef DFS_VOLUME_PREALLOCATE_H
#define DFS_VOLUME_PREALLOCATE_H

#include <stdint.h>

#include "volume/disk_location.h"

/* Reserves the first `bytes` bytes of fd, a file in loc's folder (borrowed), without changing its length, if the disk keeps
 * -minFreeSpace and room for one upload then.  0; DFS_EFULL: there is not that much room, and nothing was tried; any other error
 * is of disk_preallocate(), and some blocks may have been given: the caller gives them back.  Never on a loop. */
int volume_preallocate(struct disk_location *loc, int fd, uint64_t bytes);

/* Cuts fd, a .dat that goes on being written, at pos.  With the bytes go the blocks behind them, those too that were reserved: they
 * are asked for again, up to reserved_bytes of the file (0: none).  0, or why it could not be cut; blocks that are not given are no
 * error.  Never on a loop. */
int volume_cut_dat(int fd, uint64_t pos, uint64_t reserved_bytes);

/* A batch will be written to the volume's file at [start_pos, end_pos): sees to it that, where that pays, it finds blocks there,
 * and some more for those to come.  A large write into blocks that are there costs less processor (DESIGN.md) and leaves fewer
 * fragments.  zero_ahead_cut() gives back what was not needed; a killed process leaves at most VOLUME_ROOM_MAX, to be written
 * into.  Cannot fail: without, the file grows with its data.  Writer thread. */
#define VOLUME_ROOM_MAX ((uint64_t)64 << 20)
void volume_preallocate_ahead(struct volume *v, uint64_t start_pos, uint64_t end_pos);

#endif
