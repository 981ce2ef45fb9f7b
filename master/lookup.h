/* Where a volume is.  From memory; belongs to the master's loop. */
#ifndef DFS_MASTER_LOOKUP_H
#define DFS_MASTER_LOOKUP_H

#include "master/topology.h"

struct master_server;

/* text: a volume id, or a whole file id.  0 and *out; DFS_EINVAL: no id; DFS_ENOTFOUND: no such volume, or none in that collection
 * (when one is named). */
int lookup_volume(struct master_server *m, struct bytes text, struct bytes collection, uint32_t *volume_id,
                  struct topo_volume **out);

#endif
