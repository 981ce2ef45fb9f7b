/* gRPC over h2c: server and client, unary calls and streams, on nghttp2 sessions that each stay on one loop.
 *
 * Messages are protobuf-c.  Status goes in trailers, grpc-message percent-encoded.  Windows are 16 MB.  Every method has a bound
 * on the size of a message it takes; over it the call ends with GRPC_RESOURCE_EXHAUSTED.  A call whose peer stops reading is
 * held back: grpc_call_pending_bytes() tells, and beyond GRPC_SEND_BUFFER_MAX the call is reset.
 *
 * Callbacks run with no lock held and may call anything here, on this call or another one, free the channel included; no
 * function here calls back before it returns, but grpc_channel_free() and grpc_server_free(), which close all calls first.
 *
 * All functions belong to the loop's thread; grpc_server_new/free also may be called before the loop runs or after it ended. */
#ifndef DFS_NET_GRPC_H
#define DFS_NET_GRPC_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

#include "needle/bytes.h"
#include "net/addr.h"
#include "net/loop.h"

enum grpc_status {
    GRPC_OK = 0, GRPC_CANCELLED = 1, GRPC_UNKNOWN = 2, GRPC_INVALID_ARGUMENT = 3, GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_NOT_FOUND = 5, GRPC_ALREADY_EXISTS = 6, GRPC_PERMISSION_DENIED = 7, GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_FAILED_PRECONDITION = 9, GRPC_ABORTED = 10, GRPC_OUT_OF_RANGE = 11, GRPC_UNIMPLEMENTED = 12, GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14, GRPC_DATA_LOSS = 15, GRPC_UNAUTHENTICATED = 16,
};

#define GRPC_SEND_BUFFER_MAX (64u * 1024u * 1024u)
#define GRPC_MESSAGE_MAX_DEFAULT (4u * 1024u * 1024u)
/* What a client takes as one answer, unless told otherwise. */
#define GRPC_RESPONSE_MAX_DEFAULT (16u * 1024u * 1024u)
/* Parts of messages, and messages of paused calls, that one server or channel holds in memory; who goes beyond is reset with
 * GRPC_RESOURCE_EXHAUSTED. */
#define GRPC_RECEIVE_BUFFER_MAX (256u * 1024u * 1024u)
/* The same for what waits to be sent. */
#define GRPC_SEND_BUFFERS_MAX (1024u * 1024u * 1024u)
#define GRPC_STREAMS_MAX 1024u       /* at a time, of one connection to a server */
#define GRPC_CHANNEL_CALLS_MAX 16384u /* begun and not closed, of one channel; those that the server's limit holds back wait */
#define GRPC_CONNECTIONS_MAX 4096u
#define GRPC_PATH_MAX 95u
#define GRPC_STATUS_MESSAGE_MAX 2048u /* longer ones are cut */

struct grpc_call;
struct grpc_server;
struct grpc_channel;

/* What happens to one call; server and client side alike. */
struct grpc_call_ops {
    /* Server only: request headers are here. May be NULL. */
    void (*on_open)(struct grpc_call *call);
    /* One whole message; borrowed until return. */
    void (*on_message)(struct grpc_call *call, struct bytes message);
    /* The peer will send no more messages (server: the client half-closed). May be NULL. */
    void (*on_half_close)(struct grpc_call *call);
    /* Room in the send buffer again after grpc_call_pending_bytes() was above 1 MB. May be NULL. */
    void (*on_writable)(struct grpc_call *call);
    /* Exactly once, last; `call` is freed after it returns.  Status of the call as the peer gave it, or ours: server, the one it
     * finished with, GRPC_CANCELLED when the client reset it or went away, GRPC_DEADLINE_EXCEEDED when its time was up (the work
     * should stop); client, GRPC_UNAVAILABLE when the connection broke. */
    void (*on_closed)(struct grpc_call *call, enum grpc_status status, struct bytes message);
};

/* ---- server ---- */
struct grpc_method {
    const char *path; /* "/master_pb.Seaweed/Assign" */
    const struct grpc_call_ops *ops;
    size_t message_bytes_max; /* 0 = GRPC_MESSAGE_MAX_DEFAULT */
};
struct grpc_server_options {
    struct loop *loop; /* accepts and serves */
    const char *host;
    uint16_t port;
    const struct grpc_method *methods; /* borrowed for the server's life; unknown paths get UNIMPLEMENTED naming them */
    uint32_t method_count;
    void *arg;
};
int grpc_server_new(const struct grpc_server_options *o, struct grpc_server **out);
/* Refuses new connections, sends GOAWAY, lets calls end. */
void grpc_server_drain(struct grpc_server *s);
/* Closes all calls with GRPC_CANCELLED.  NULL is allowed. */
void grpc_server_free(struct grpc_server *s);
/* Open connections: 0 when a drain is complete. */
uint32_t grpc_server_connections(const struct grpc_server *s);

/* ---- client ---- */
struct grpc_channel_ops {
    void (*on_up)(void *arg, struct grpc_channel *ch);   /* may be NULL */
    /* The connection is gone or could not be made; all its calls have been closed.  The next call dials again, at most every
     * 100 ms.  Not called for a connection that the server asked to leave (GOAWAY) and that a newer one has replaced. */
    void (*on_down)(void *arg, struct grpc_channel *ch, int rc); /* may be NULL */
};
/* Dials on first use with a 1 s connect timeout.  addr is copied; its gRPC port is used; the host must be numeric, or it is
 * resolved here (blocking). */
int grpc_channel_new(struct loop *loop, const struct addr *addr, const struct grpc_channel_ops *ops, void *arg,
                     struct grpc_channel **out);
/* Closes all calls with GRPC_CANCELLED; on_down is not called.  NULL is allowed. */
void grpc_channel_free(struct grpc_channel *ch);
/* Largest message that calls started from now on take. */
void grpc_channel_set_message_max(struct grpc_channel *ch, size_t bytes);

/* Starts a call.  deadline_ms 0 = none; sent as grpc-timeout and kept here.  Never calls back before it returns.
 * DFS_EBUSY: GRPC_CHANNEL_CALLS_MAX; DFS_EINVAL: path too long; DFS_ENOMEM; DFS_ECLOSED: the channel is being freed. */
int grpc_call_start(struct grpc_channel *ch, const char *path, const struct grpc_call_ops *ops, void *user,
                    uint32_t deadline_ms, struct grpc_call **out);

/* Unary call in one go: `done` is called exactly once, never before this returns 0.  response is NULL unless status is GRPC_OK;
 * borrowed until return. */
typedef void grpc_unary_cb(void *arg, enum grpc_status status, struct bytes message, const ProtobufCMessage *response);
int grpc_unary(struct grpc_channel *ch, const char *path, const ProtobufCMessage *request,
               const ProtobufCMessageDescriptor *response_type, uint32_t deadline_ms, grpc_unary_cb *done, void *arg);

/* ---- a call, both sides ---- */
void *grpc_call_user(const struct grpc_call *call);
void grpc_call_set_user(struct grpc_call *call, void *user);
void *grpc_call_server_arg(const struct grpc_call *call); /* server: options.arg */
const char *grpc_call_path(const struct grpc_call *call);
/* "host:port" of the other side; valid as long as the call. */
const char *grpc_call_peer(const struct grpc_call *call);
size_t grpc_call_pending_bytes(const struct grpc_call *call);

/* Queue one message.  DFS_ETOOBIG beyond GRPC_SEND_BUFFER_MAX or GRPC_SEND_BUFFERS_MAX (the call is then reset), DFS_ECLOSED,
 * DFS_ENOMEM. */
int grpc_call_send(struct grpc_call *call, const ProtobufCMessage *message);
int grpc_call_send_raw(struct grpc_call *call, struct bytes message);
/* Client: no more messages. */
void grpc_call_half_close(struct grpc_call *call);
/* Server: end with a status (message formatted, may be NULL).  on_closed follows later, never inside. */
void grpc_call_finish(struct grpc_call *call, enum grpc_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Server: one answer and GRPC_OK. */
void grpc_call_reply(struct grpc_call *call, const ProtobufCMessage *message);
/* Either side: reset; on_closed(GRPC_CANCELLED) follows later, never inside. */
void grpc_call_cancel(struct grpc_call *call);

/* For receivers that cannot keep up (a file that is written elsewhere): no on_message, on_half_close or orderly on_closed until
 * resumed.  At most a window (16 MB) is held meanwhile, then the peer waits. */
void grpc_call_pause(struct grpc_call *call);
void grpc_call_resume(struct grpc_call *call);

/* The status for a DFS_E* code.  Never Unavailable, Aborted or Internal for what the application refuses: peers drop their
 * connection on those. */
enum grpc_status grpc_status_from_err(int rc);
/* And back, for what came from a peer: 0 for GRPC_OK. */
int grpc_err_from_status(enum grpc_status status);
/* "RESOURCE_EXHAUSTED"; static string. */
const char *grpc_status_name(enum grpc_status status);

/* Unpack, with memory bounded by the size of `in`; NULL when it is no such message.  Free with
 * protobuf_c_message_free_unpacked(m, NULL). */
ProtobufCMessage *grpc_unpack(const ProtobufCMessageDescriptor *type, struct bytes in);

#endif
