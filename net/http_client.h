/* An HTTP/1.1 client on one loop: keep-alive connections per address, a deadline per call, bounded.
 *
 * Used for replica writes, chunk manifests, proxied reads, the tools and the benchmark.  It connects only where its caller
 * says, and callers never take an address from a request.  All functions belong to the loop's thread. */
#ifndef DFS_NET_HTTP_CLIENT_H
#define DFS_NET_HTTP_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "needle/bytes.h"
#include "net/addr.h"
#include "net/http_parse.h"
#include "net/loop.h"

struct http_client;
struct http_call;

struct http_client_options {
    struct loop *loop;
    uint32_t connect_timeout_ms;   /* default 1000 */
    uint32_t max_per_address;      /* connections open to one address; further calls wait in line; default 64 */
    uint32_t max_waiting;          /* calls in line in all; more: DFS_EBUSY; default 65536 */
    uint32_t idle_timeout_ms;      /* of a kept connection; default 20000 */
    uint32_t stall_timeout_ms;     /* a call without a deadline ends (DFS_ETIMEOUT) when no byte moves for so long; default 60000,
                                      0 = never.  Time in a pause or in line does not count */
};
void http_client_options_init(struct http_client_options *o);
/* On the loop's thread, or before it runs. */
int http_client_new(const struct http_client_options *o, struct http_client **out);
/* Cancels all calls (their on_done gets DFS_ECANCELLED; a call started there is refused).  On the loop's thread or after it has
 * ended, never inside a callback of this client. */
void http_client_free(struct http_client *c);

/* Since the start; for tests and metrics.  Loop thread. */
struct http_client_stats {
    uint64_t calls, connects, reused, retries;
    uint32_t open;    /* connections now */
    uint32_t waiting; /* calls in line now */
};
struct http_client_stats http_client_stats(const struct http_client *c);

struct http_call_ops {
    /* The head of the answer is here; may be NULL.  Views valid until it returns. */
    void (*on_head)(void *arg, struct http_call *call, const struct http_head *head);
    /* Body bytes, views valid until return; may be NULL (dropped).  DFS_EAGAIN: all of `in` was taken, but stop reading until
     * http_call_resume().  Other negative: the call fails with it. */
    int (*on_body)(void *arg, struct http_call *call, struct bytes in);
    /* Exactly once, last: rc 0 and the status, or DFS_E* (DFS_ETIMEOUT, DFS_ECLOSED, DFS_EUNAVAILABLE could not connect,
     * DFS_EPROTO, DFS_ECANCELLED) and status 0 or what had come.  The call is freed after it returns. */
    void (*on_done)(void *arg, struct http_call *call, int rc, int status);
};

struct http_call_request {
    const struct addr *addr;        /* copied; host must be numeric or was resolved before (see http_client_resolve) */
    enum http_method method;
    struct bytes target;            /* path and query, already encoded; copied */
    struct bytes headers;           /* raw "Name: value\r\n" lines; copied.  Host and Content-Length are set by the client */
    const struct bytes *body;       /* pieces: the array is copied, the bytes are borrowed until on_done */
    uint32_t body_count;
    uint32_t deadline_ms;           /* whole call, waiting in line included; 0 = none */
    bool fresh_connection;          /* do not reuse a kept one */
    const struct http_call_ops *ops;
    void *arg;
};

/* Starts a call.  DFS_EINVAL: method, target or headers that would break the request's framing; DFS_ENOTFOUND: host neither
 * numeric nor resolved; DFS_EBUSY: too many calls in line; DFS_ECANCELLED: the client is being freed; DFS_ENOMEM.
 *
 * A call without a body, or any GET/HEAD, is tried once more on a fresh connection when a kept one turns out to be closed
 * before any answer byte; so is a call whose request could not have been processed, because not all of it had been sent.
 * Others fail with DFS_ECLOSED.
 *
 * 0: on_done will be called later, never inside http_call_start.  Negative: not started, nothing will be called. */
int http_call_start(struct http_client *c, const struct http_call_request *req, struct http_call **out);
void http_call_resume(struct http_call *call);
/* on_done is called with DFS_ECANCELLED before this returns; the connection is closed.  Also allowed inside on_head and
 * on_body. */
void http_call_cancel(struct http_call *call);

/* Resolve a host once, blocking (start-up and tools only), and remember it for this client.  As addr_resolve(). */
int http_client_resolve(struct http_client *c, const struct addr *addr);

#endif
