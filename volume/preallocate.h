/* Blocks for a volume to grow into, when the disk has them to spare.  Called by those who make a volume's data file, new or by
 * vacuum; on threads that may block. */
#ifndef DFS_VOLUME_PREALLOCATE_H
#define DFS_VOLUME_PREALLOCATE_H

#include <stdint.h>

#include "volume/disk_location.h"

/* Reserves the first `bytes` bytes of fd, a file in loc's folder (borrowed), without changing its length, if the disk keeps
 * -minFreeSpace and room for one upload then.  0; DFS_EFULL: there is not that much room, and nothing was tried; any other error
 * is of disk_preallocate(), and some blocks may have been given: the caller gives them back.  Never on a loop. */
int volume_preallocate(struct disk_location *loc, int fd, uint64_t bytes);

#endif
