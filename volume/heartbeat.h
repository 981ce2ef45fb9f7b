/* The volume server's stream to the leader: what it has, at connect, at every change, at every pulse.
 *
 * It dials the masters in turn until one answers, follows the leader that an answer names, and starts over (0.2 s to 2 s apart)
 * when the stream breaks.  Everything runs on the control loop, which carries no client's load. */
#ifndef DFS_VOLUME_HEARTBEAT_H
#define DFS_VOLUME_HEARTBEAT_H

#include <stdbool.h>

#include "net/grpc.h"
#include "net/loop.h"

#define HEARTBEAT_MASTERS_MAX 64u
#define HEARTBEAT_BACKOFF_MIN_MS 200u
#define HEARTBEAT_BACKOFF_MAX_MS 2000u
/* Without an answer to the first beat for so long, the next master is tried. */
#define HEARTBEAT_ANSWER_MS 5000u

struct heartbeat;
struct volume_server;

/* Parses the list of masters: DFS_EINVAL (said in one log line), DFS_ENOMEM.  Before the loop runs. */
int heartbeat_new(struct volume_server *s, struct loop *control, struct heartbeat **out);
/* Control loop. */
void heartbeat_start(struct heartbeat *h);
/* Leaves the master: the stream ends, nothing is dialled any more.  Control loop; idempotent. */
void heartbeat_stop(struct heartbeat *h);
/* After the loop has ended. */
void heartbeat_free(struct heartbeat *h);

/* The stream is up and was answered.  Any thread. */
bool heartbeat_connected(const struct heartbeat *h);
/* The channel to the leader (or to the master being tried); NULL when there is none.  Control loop. */
struct grpc_channel *heartbeat_channel(struct heartbeat *h);
/* Whether `host:port` is a master of ours.  Control loop. */
bool heartbeat_knows(const struct heartbeat *h, const char *address);

#endif
