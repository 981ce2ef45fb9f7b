/* What the two files of the gRPC service share.  Belongs to the master's loop. */
#ifndef DFS_MASTER_MASTER_GRPC_H
#define DFS_MASTER_MASTER_GRPC_H

#include "master/master.h"
#include "net/grpc.h"
#include "net/pb/master.pb-c.h"

/* The master that a call came to. */
struct master_server *master_of_call(struct grpc_call *call);
/* on_closed of calls that keep nothing. */
void grpc_ignore_closed(struct grpc_call *call, enum grpc_status status, struct bytes message);
/* The unpacked request, or NULL after the call was finished.  Free with protobuf_c_message_free_unpacked(). */
void *grpc_request(struct grpc_call *call, const ProtobufCMessageDescriptor *type, struct bytes message);

/* ---- master_grpc_admin.c ---- */
extern const struct grpc_call_ops list_cluster_nodes_ops, statistics_ops, collection_list_ops, collection_delete_ops,
    collection_statistics_ops, volume_list_ops, volume_grow_ops, vacuum_volume_ops, disable_vacuum_ops, enable_vacuum_ops,
    lease_token_ops, release_token_ops, lock_status_ops, raft_list_ops, mark_readonly_ops;

#endif
