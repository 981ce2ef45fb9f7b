/* What a heartbeat says: a snapshot of the store, and how it differs from the one before.  Internal to heartbeat.c. */
#ifndef DFS_VOLUME_HEARTBEAT_MESSAGE_H
#define DFS_VOLUME_HEARTBEAT_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "net/grpc.h"
#include "volume/store.h"

struct volume_server;

struct heartbeat_report {
    struct volume_server *s;
    struct volume_info *v; /* by id */
    uint32_t n;
    uint32_t unknown; /* loading or broken: not in v */
    bool loading;     /* some volumes are still being opened */
};

/* Remembers nothing yet, so the first message is a full one.  DFS_ENOMEM. */
int heartbeat_report_new(struct volume_server *s, struct heartbeat_report **out);
void heartbeat_report_free(struct heartbeat_report *r); /* NULL is fine */
/* All of it. */
void heartbeat_send_full(struct grpc_call *call, const struct heartbeat_report *now);
/* Volumes that came and went since `before`; nothing when nothing changed.  False when more than that changed (writability),
 * which only a full beat can say. */
bool heartbeat_send_changes(struct grpc_call *call, const struct heartbeat_report *before, const struct heartbeat_report *now);

#endif
