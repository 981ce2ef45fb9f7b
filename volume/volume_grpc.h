/* The volume_server_pb service: what masters, shells and filers ask of a volume server.
 *
 * Everything is taken on the control loop; what may block runs on the store's admin pool and is answered from the loop again.  A
 * caller that goes away meanwhile is forgotten, the work is not. */
#ifndef DFS_VOLUME_VOLUME_GRPC_H
#define DFS_VOLUME_VOLUME_GRPC_H

#include "net/loop.h"

struct volume_grpc;
struct volume_server;

/* Listens at once.  DFS_EBUSY and so on; says nothing: the caller names the option. */
int volume_grpc_new(struct volume_server *s, struct loop *control, struct volume_grpc **out);
/* Control loop. */
void volume_grpc_drain(struct volume_grpc *g);
/* After the loop has ended. */
void volume_grpc_free(struct volume_grpc *g);

#endif
