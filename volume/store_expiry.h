/* When a whole volume with a ttl has expired: it is announced no more, and deleted a little later.  Pure; any thread. */
#ifndef DFS_VOLUME_STORE_EXPIRY_H
#define DFS_VOLUME_STORE_EXPIRY_H

#include <stdbool.h>
#include <stdint.h>

#include "volume/volume.h"

/* Not before the size limit is known, never an empty volume, never one that is not wholly open. */
bool volume_expired(const struct volume_info *v, uint64_t size_limit_bytes, uint64_t now_s);

#endif
