/* One HTTP/2 connection: an nghttp2 session over a raw non-blocking socket, driven by events of one loop.  What gRPC
 * (net/grpc_*.c) stands on; nobody else calls it.
 *
 * nghttp2 must not be entered again from its own callbacks, and must not be deleted under them; users of gRPC may do anything in
 * theirs.  Both hold because of one rule: whatever enters a connection does so between h2_enter() and h2_leave(), and only the
 * outermost h2_leave() sends, tells of things that were put off, and destroys.  Everything else just calls h2_touch().
 *
 * Also here, because they belong to connections and not to calls: connect and preface timeouts, keepalive PINGs, draining by
 * GOAWAY, idle connections, floods of frames that carry nothing.  All on the loop's thread. */
#ifndef DFS_NET_H2_H
#define DFS_NET_H2_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "needle/bytes.h"
#include "net/loop.h"

#define H2_WINDOW_BYTES (16 * 1024 * 1024)
#define H2_HEADER_LIST_MAX (16u * 1024u)
/* Frames in a row that carry neither headers nor data, in either direction. */
#define H2_EMPTY_FRAMES_MAX 10000u

/* Changed by tests only, before any connection is there. */
struct h2_times {
    uint32_t connect_ms;   /* until TCP is connected */
    uint32_t preface_ms;   /* server: until the peer has shown that it speaks HTTP/2 */
    uint32_t ping_after_ms; /* nothing heard while streams are open; peers punish pings closer than 20 s */
    uint32_t ping_wait_ms; /* for the answer; TCP_USER_TIMEOUT too */
    uint32_t idle_ms;      /* server: no streams */
    uint32_t drain_ms;     /* between the notice and the GOAWAY that names the last stream */
    uint32_t tick_ms;      /* how often a quiet connection looks at the clock */
};
extern struct h2_times h2_times;

struct h2;

/* `stream` is what h2_request / on_request tied to the stream; none of these is called for a stream that was cut loose.
 * All but on_pass, on_up, on_down and on_destroy run inside nghttp2: nghttp2_submit_*() is allowed there. */
struct h2_ops {
    /* Server: a request begins.  Returns the stream's owner, or NULL to refuse it. */
    void *(*on_request)(void *arg, int32_t stream_id);
    void (*on_header)(void *arg, void *stream, struct bytes name, struct bytes value);
    /* A block of headers (request, response or trailers) is complete. */
    void (*on_headers)(void *arg, void *stream);
    /* The connection's window is given back already; the stream's is the receiver's to give back. */
    void (*on_data)(void *arg, void *stream, struct bytes data);
    /* The peer sends no more on this stream. */
    void (*on_end)(void *arg, void *stream);
    /* The stream is gone; code 0 = in good order. */
    void (*on_stream_closed)(void *arg, void *stream, uint32_t code);

    /* Client: TCP is connected. */
    void (*on_up)(void *arg);
    /* Deliver what was put off.  Returns whether there was anything. */
    bool (*on_pass)(void *arg);
    /* The connection is over, once; the owner calls h2_free() in it. */
    void (*on_down)(void *arg, int rc);
    /* Nothing of this connection is on the stack any more. */
    void (*on_settled)(void *arg);
    /* Last of all, and after h2_free() in any case: free arg. */
    void (*on_destroy)(void *arg);
};

struct h2_options {
    struct loop *loop;
    bool server;
    uint32_t streams_max;
    const struct h2_ops *ops;
    void *arg;
};

/* Makes the session; no socket yet.  DFS_ENOMEM. */
int h2_new(const struct h2_options *o, struct h2 **out);
/* Server: take a connected socket. */
void h2_accept(struct h2 *h, int fd);
/* Client: connect after delay_ms; failure is told by on_down, later. */
void h2_connect(struct h2 *h, const struct sockaddr_storage *to, socklen_t to_len, uint32_t delay_ms);

/* Closes the socket.  No callback follows but on_settled and on_destroy, at once or when the stack is clear of it. */
void h2_free(struct h2 *h);

/* The connection is of no use any more: on_down follows when the stack is clear. */
void h2_fail(struct h2 *h, int rc);

/* The brackets around whatever touches the connection; they nest. */
void h2_enter(struct h2 *h);
void h2_leave(struct h2 *h);
/* There is something to send or to deliver. */
void h2_touch(struct h2 *h);

/* Never NULL before on_destroy. */
nghttp2_session *h2_session(struct h2 *h);

/* How many calls live on it, for keepalive and idleness. */
void h2_call_opened(struct h2 *h);
void h2_call_closed(struct h2 *h);

/* Server: let the peer finish what it has begun and start nothing new, then close. */
void h2_drain(struct h2 *h);

#endif
