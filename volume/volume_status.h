/* Numbers about this process.  Any thread. */
#ifndef DFS_VOLUME_VOLUME_STATUS_H
#define DFS_VOLUME_VOLUME_STATUS_H

#include <stdint.h>

struct server_memory {
    uint64_t all_bytes, free_bytes; /* of the machine */
    uint64_t self_bytes, heap_bytes;
};
void server_memory(struct server_memory *m);

#endif
