/* From the name that a volume server gives itself to an address that can be dialled.
 *
 * Names are looked up by a thread of their own, since a name server may take its time and the master's loop has none; again each
 * time the server comes back, for it may have moved.  Until the first answer the server counts as loading.
 * Belongs to the master's loop. */
#ifndef DFS_MASTER_NODE_REACH_H
#define DFS_MASTER_NODE_REACH_H

#include "master/data_node.h"

struct master_server;

/* A failed look-up is tried again after this. */
#define NODE_REACH_RETRY_MS 5000u

/* The server is bound to a new stream and says where it is.  Calls to an address that it has left end here. */
void node_reach(struct master_server *m, struct data_node *n, const struct addr *addr);
/* Tries again what failed. */
void node_reach_sweep(struct master_server *m);

#endif
