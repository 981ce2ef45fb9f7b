/* The one HTTP/1.1 server: keep-alive, pipelining, chunked bodies, 100-continue, bounded everywhere.
 *
 * A connection lives on one loop.  It reads with its own recv() into a buffer of the loop's pool, parses in place, and
 * hands a request to the handler:
 *
 *     on_request   head is complete.  Reply at once, or set up for the body, or take the request elsewhere.
 *     on_body      a run of body bytes (framing removed), any number of times.
 *     on_end       the body is complete (called at once after on_request when there is none; not after a reply).
 *     on_close     last call for this request, exactly once, replied or not: free what hangs on r->user.
 *
 * One reply for each request; then the next pipelined request is looked at.  A reply before the body has arrived closes
 * the connection after it, unless the rest of the body is small enough to skip.  A body cut short never reaches on_end.
 *
 * Work elsewhere (writer, reader pool, other servers) and waiting of any kind (a timer, a free chunk): http_req_hold()
 * before, http_req_drop() on the same loop after.  Between them the request is never freed; if the client goes away
 * r->dead is set, on_close waits for the last drop, and replies are swallowed.  Outside its handler's callbacks a
 * request that is not held may be gone when a reply, resume, ready or abort call returns.  A request whose body is
 * complete must be replied to or held when on_end returns: else it is answered with 500.
 *
 * All functions here belong to the connection's loop thread. */
#ifndef DFS_NET_HTTP_SERVER_H
#define DFS_NET_HTTP_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "needle/bytes.h"
#include "net/http_parse.h"
#include "net/loop.h"

struct http_server;
struct http_conn;

struct http_req;

/* Memory of the handler's own for the bytes of a body, so that they need not be copied out of the loop's.  Only for bodies that
 * are not chunked, and never instead of on_body: what does not fit comes there. */
struct http_direct {
    /* Where the next bytes may be received, in *p, and how many; 0: on_body is to get them.  Used at once, or not at all. */
    size_t (*room)(struct http_req *r, void **p);
    /* n > 0 bytes came in there.  How many of them, from the front, were taken; the rest is given to on_body. */
    size_t (*filled)(struct http_req *r, size_t n);
};

struct http_req {
    struct http_head head; /* views valid until on_close returns */
    struct http_server *server;
    struct http_conn *conn;
    struct loop *loop;
    void *user;          /* the handler's */
    const struct http_direct *direct; /* the handler's; NULL: the body comes by on_body alone */
    void *server_arg;    /* options.arg */
    uint64_t start_ns;   /* clock_mono_ns() at the first byte of the head */
    uint64_t body_bytes; /* received so far */
    bool dead;           /* client is gone: finish quietly */
    bool replied;        /* http_reply_* finished (perhaps not yet sent) */
    bool cors;           /* set by the handler before it replies: pages of any origin may read the answer */
    int status;          /* of the reply, for counters */
    uint64_t sent_bytes;
};

struct http_handler {
    void (*on_request)(struct http_req *r);
    /* 0: all of `in` was taken.  DFS_EAGAIN: *taken bytes were, stop reading until http_req_resume().  Any other
     * negative value: the handler has replied (or wants the connection closed); the rest of the body is not wanted. */
    int (*on_body)(struct http_req *r, struct bytes in, size_t *taken);
    void (*on_end)(struct http_req *r);
    void (*on_close)(struct http_req *r);
};

struct http_server_options {
    struct loop *accept_loop;
    struct loop *const *loops; /* borrowed for the server's life */
    uint32_t loop_count;
    const char *host;
    uint16_t port;
    const struct http_handler *handler;
    void *arg;
    const char *server_header;  /* "dfs Volume 0.1"; borrowed */
    uint32_t max_connections;   /* more: answered 503 with Retry-After and closed */
    uint32_t idle_timeout_ms;   /* between requests */
    uint32_t head_timeout_ms;   /* first byte of a head to its last */
    uint32_t body_timeout_ms;   /* without a byte of progress, reading or writing */
    uint32_t gather_local;      /* listener.h */
    uint64_t skip_body_max;     /* an unwanted rest of a body up to this is read and dropped */
};

/* Sane values for everything but loops, host, port, handler. */
void http_server_options_init(struct http_server_options *o);

/* Binds and listens at once, serves once the loops run.  Before the loops are started, or on the accept loop's thread.
 * Options are copied, what they point to is borrowed.  DFS_EBUSY: address in use; DFS_EDENIED; DFS_EINVAL: host does not
 * resolve; DFS_ENOMEM. */
int http_server_new(const struct http_server_options *o, struct http_server **out);
/* Stop accepting; connections close after their current request.  Accept loop's thread. */
void http_server_drain(struct http_server *s);
/* Connections still open; any thread. */
uint32_t http_server_connections(const struct http_server *s);
/* The port listened on (for port 0: the one the kernel chose); 0 once draining. */
uint16_t http_server_port(const struct http_server *s);
/* After the loops have ended, and after whatever holds requests has stopped: runs what sits in the loops' mailboxes, closes
 * what is left, frees. */
void http_server_free(struct http_server *s);

/* Totals since the start; any thread. */
struct http_server_stats {
    uint32_t connections;     /* open now */
    uint64_t requests;        /* heads that were whole and well-formed */
    uint64_t bad_requests;    /* refused by the parser, or with a broken body */
    uint64_t refused;         /* connections above max_connections */
    uint64_t timeouts;        /* slow heads, bodies and readers; not idle connections */
    uint64_t dropped_headers; /* of replies: bad name or value */
    uint64_t unanswered;      /* requests that a handler forgot: answered with 500 */
};
void http_server_stats(const struct http_server *s, struct http_server_stats *out);

/* ---- the request ---- */
void http_req_hold(struct http_req *r);
void http_req_drop(struct http_req *r);
/* Reading the body goes on after on_body said DFS_EAGAIN. */
void http_req_resume(struct http_req *r);
/* Zeroed memory that lives until on_close has returned; NULL when out of memory.  Bounded: HTTP_REQ_ARENA_MAX in all. */
#define HTTP_REQ_ARENA_MAX (256u * 1024u)
void *http_req_alloc(struct http_req *r, size_t n);
/* Peer address as text, without port. */
const char *http_req_peer(struct http_req *r);
const struct sockaddr_storage *http_req_peer_addr(const struct http_req *r);
/* The body cannot be used: after the reply the connection closes. */
void http_req_close_after(struct http_req *r);
/* Drop the connection now without (the rest of) a reply. */
void http_req_abort(struct http_req *r);

/* ---- the reply ---- */
/* Starts a reply.  Date, Server and Connection are added by the server. */
void http_reply_begin(struct http_req *r, int status);
/* Adds a header; one with control bytes or a bad name is left out and counted, and so is one that is the server's to
 * say (Connection, Content-Length, Date, Keep-Alive, Server, Trailer, Transfer-Encoding, Upgrade): names may come from
 * stored data. */
void http_reply_header(struct http_req *r, const char *name, struct bytes value);
void http_reply_headerf(struct http_req *r, const char *name, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Finishes with a body that is borrowed until return: it goes out with the head in one writev, an unsent rest is copied.
 * Content-Length is set; for HEAD, 204 and 304 only the head is sent (Content-Length of the body for HEAD). */
void http_reply_bytes(struct http_req *r, struct bytes body);
/* The same with the body in two or three pieces. */
void http_reply_iov(struct http_req *r, const struct bytes *pieces, uint32_t count);

/* A body that is produced piece by piece, each asked for when the one before is in the socket. */
struct http_piece {
    bool is_file;
    struct bytes mem;  /* !is_file: valid until release or the next call of next() */
    int fd;            /* is_file: sent with sendfile(2) */
    uint64_t file_pos;
    uint64_t bytes;    /* is_file: length */
};
struct http_source {
    /* 0: *out is the next piece (never empty).  1: end.  DFS_EAGAIN: http_source_ready(r) will be called; hold the
     * request until then.  Other negative: the body cannot be finished.  As the first answer it becomes an error reply;
     * later the connection is cut so that the client sees a short body. */
    int (*next)(struct http_source *s, struct http_piece *out);
    void (*free)(struct http_source *s);
};
#define HTTP_LENGTH_UNKNOWN UINT64_MAX
/* Finishes with a source, which is taken.  Unknown length: chunked for 1.1, closed connection for 1.0.  For HEAD the
 * source is freed unused and may be NULL: so a known length is told without a body at hand.  free() is called once, at
 * the latest before on_close. */
void http_reply_source(struct http_req *r, struct http_source *src, uint64_t length);
void http_source_ready(struct http_req *r);

/* Shorthands: whole replies. */
void http_reply_empty(struct http_req *r, int status);
void http_reply_text(struct http_req *r, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* {"error": "..."} with JSON escaping; Retry-After: 1 is added for 429 and 503. */
void http_reply_error(struct http_req *r, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* What ends a reply that was begun: the same body with its type.  message need not be UTF-8, and is copied. */
void http_reply_error_body(struct http_req *r, struct bytes message);
/* text is a whole JSON document. */
void http_reply_json_text(struct http_req *r, int status, struct bytes text);

/* "OK" for 200; never NULL. */
const char *http_status_text(int status);
/* The HTTP status for a DFS_E* code when nothing more specific is known. */
int http_status_from_err(int rc);

#endif
