/* What the parts of gRPC share: grpc_call.c (a call, both sides), grpc_conn.c (calls of one connection), grpc_server.c,
 * grpc_client.c.  Nobody else includes this.
 *
 * A call is tied to its stream by nghttp2's user data of the stream and by call->stream_id, and untied from both sides at once
 * (conn_close_call), so neither can outlive its use of the other.  A call is on exactly one list of its connection: `calls`
 * (open), `closing` (over, the user is still to be told), `told` (the user knows; memory goes when the stack is clear). */
#ifndef DFS_NET_GRPC_INTERNAL_H
#define DFS_NET_GRPC_INTERNAL_H

#include <sys/queue.h>

#include "net/grpc.h"
#include "net/grpc_wire.h"
#include "net/h2.h"

/* on_writable is due when the send buffer was above the first and has come down to the second. */
#define GRPC_SEND_HIGH_BYTES (1024u * 1024u)
#define GRPC_SEND_LOW_BYTES (512u * 1024u)
/* A first message up to this size needs no memory of its own. */
#define GRPC_INLINE_BYTES 256u
#define GRPC_SPARE_CALLS_MAX 64u

struct grpc_out {
    struct grpc_out *next;
    uint32_t n, off;
    uint8_t p[];
};

struct grpc_call {
    TAILQ_ENTRY(grpc_call) entry;
    TAILQ_ENTRY(grpc_call) ready_entry;
    struct grpc_conn *conn;
    const struct grpc_call_ops *ops; /* NULL: server, before the path is known */
    void *user;
    int32_t stream_id; /* 0: untied */
    bool server;

    /* receiving */
    bool headers_seen; /* the first block of them is complete */
    bool paused;
    bool resumed; /* held bytes are due */
    bool peer_ended;   /* the peer sends no more; told to the user once everything before is */
    bool end_told;
    bool stream_ended; /* client: the stream is over, but a paused user has messages to come */
    bool any_message;
    struct grpc_reader reader;
    uint8_t *held; /* bytes that came while paused */
    size_t held_n, held_off, held_cap;
    size_t counted_bytes; /* of reader and held, in conn->memory */

    /* sending */
    bool responded; /* server: HEADERS submitted */
    bool out_ended; /* client: half-closed; server: finished */
    bool deferred;  /* nghttp2 waits for resume */
    bool was_high;
    bool writable_due;
    bool ready;     /* on conn->ready */
    size_t out_bytes;
    struct grpc_out *out_first, **out_last;

    /* the end */
    bool closed;
    bool status_seen; /* client: grpc-status came */
    enum grpc_status status;
    char *message; /* malloc, or NULL */
    size_t message_n;
    uint64_t deadline_ms; /* on the loop's clock; 0 = none */

    /* headers */
    const struct grpc_method *method; /* server; NULL = unknown */
    bool bad_method, bad_timeout;
    bool content_type_seen; /* and it was gRPC's */
    uint32_t http_status; /* client */
    uint64_t timeout_ms;  /* server: what the client asked for; 0 = none */
    char path[GRPC_PATH_MAX + 1];

    /* client, unary */
    grpc_unary_cb *unary_done;
    const ProtobufCMessageDescriptor *unary_type;
    ProtobufCMessage *unary_response;
    bool unary_broken;

    bool inline_used;
    union {
        struct grpc_out out;
        uint8_t raw[sizeof(struct grpc_out) + GRPC_INLINE_BYTES];
    } first;
};

TAILQ_HEAD(grpc_call_list, grpc_call);

/* What the calls of one server or channel hold. */
struct grpc_memory {
    size_t received_bytes, send_bytes;
};

/* Changed by tests only. */
extern struct grpc_memory grpc_memory_max;

struct grpc_conn {
    TAILQ_ENTRY(grpc_conn) entry; /* of the server or channel */
    struct h2 *h2;
    struct loop *loop;
    struct grpc_server *server;   /* one of the two; both NULL once the owner is freed */
    struct grpc_channel *channel;
    void *server_arg;
    struct grpc_memory *memory; /* of the owner; NULL once it is freed */
    struct grpc_call_list calls, closing, told, ready, spare;
    uint32_t open_calls, spare_count;
    struct loop_timer deadline;
    uint64_t deadline_at_ms; /* when it fires; 0 = not set */
    bool connected; /* client: TCP was up */
    char peer[ADDR_TEXT_MAX];
};

TAILQ_HEAD(grpc_conn_list, grpc_conn);

/* ---- grpc_conn.c ---- */

/* The ops of a connection; the two sides fill in what differs. */
extern const struct h2_ops grpc_h2_server_ops, grpc_h2_client_ops;

/* No socket yet.  DFS_ENOMEM. */
int conn_new(struct loop *loop, bool server, uint32_t streams_max, struct grpc_conn **out);
/* Closes and tells all calls, then lets go of the connection; it goes when the stack is clear of it. */
void conn_end(struct grpc_conn *conn, enum grpc_status status, const char *why);

/* Counted among the open calls; NULL when out of memory. */
struct grpc_call *conn_call_new(struct grpc_conn *conn);
/* Untie, and tell the user later.  The stream is the caller's to reset or finish, before.  message is copied. */
void conn_close_call(struct grpc_call *call, enum grpc_status status, struct bytes message);
void conn_set_deadline(struct grpc_call *call, uint64_t timeout_ms);
/* on_writable or held messages are due. */
void conn_call_ready(struct grpc_call *call);

/* ---- grpc_call.c ---- */

/* It holds nothing any more that its owner has to count. */
void call_uncount(struct grpc_call *call);
/* Give back what the call holds, but not the call. */
void call_release(struct grpc_call *call);
/* nghttp2's answer to what was submitted for the call: out of memory, and nobody can tell what the peer will see. */
void call_submitted(struct grpc_call *call, int rv);
/* A reset of the stream, if there is one still. */
void call_reset_stream(struct grpc_call *call, uint32_t code);
/* There is something to send, or the end of it. */
void call_wake_sender(struct grpc_call *call);
void call_set_message(struct grpc_call *call, struct bytes message);
void call_data(struct grpc_call *call, struct bytes data);
void call_peer_ended(struct grpc_call *call);
void call_stream_closed(struct grpc_call *call, uint32_t code);
/* What conn_call_ready() put off. */
void call_run_ready(struct grpc_call *call);
ssize_t call_fill(nghttp2_session *session, int32_t stream_id, uint8_t *p, size_t cap, uint32_t *flags,
                  nghttp2_data_source *source, void *user_data);

/* ---- grpc_server.c, grpc_client.c: the side's part ---- */

/* What h2 tells of a call to the server. */
void server_header(struct grpc_call *call, struct bytes name, struct bytes value);
void server_headers(struct grpc_call *call);
void server_conn_down(struct grpc_conn *conn);
void server_deadline(struct grpc_call *call);
/* Submit the response's headers, if they are not yet. */
void server_respond(struct grpc_call *call);
/* Inside call_fill() only.  Non-zero: no trailers, the stream is to be reset. */
int server_submit_trailers(struct grpc_call *call);

/* The same for calls of a channel, and the end of a unary one. */
void client_header(struct grpc_call *call, struct bytes name, struct bytes value);
void client_headers(struct grpc_call *call);
void client_stream_closed(struct grpc_call *call, uint32_t code);
void client_conn_up(struct grpc_conn *conn);
void client_conn_down(struct grpc_conn *conn, int rc);
void client_unary_message(struct grpc_call *call, struct bytes message);
void client_unary_closed(struct grpc_call *call);

#define GRPC_NV(name, value) \
    {(uint8_t *)(name), (uint8_t *)(value), sizeof(name) - 1, sizeof(value) - 1, \
     NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE}
#define GRPC_NV_COPY(name, value, value_n) \
    {(uint8_t *)(name), (uint8_t *)(value), sizeof(name) - 1, (value_n), NGHTTP2_NV_FLAG_NO_COPY_NAME}

#endif
