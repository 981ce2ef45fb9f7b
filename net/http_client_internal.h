/* What the files of the HTTP client share: http_client.c (calls, addresses, who waits for whom), http_client_request.c (the
 * text of a request), http_client_conn.c (a connection) and http_client_answer.c (what arrives on it).  Nobody else includes
 * this.
 *
 *   client 1 --- n peer 1 --- n conn 0..1 --- 0..1 call
 *                       1 --- n call   (waiting in line)
 *
 * A call is in exactly one place: on a conn, in its peer's line, or in the client's list of calls that failed inside
 * http_call_start() and are told so from the loop.
 *
 * Invariant: when control is with the loop, a peer with calls in line has all its connections open and busy, or a call in the
 * failed list whose end will look at the line again. */
#ifndef DFS_NET_HTTP_CLIENT_INTERNAL_H
#define DFS_NET_HTTP_CLIENT_INTERNAL_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <sys/socket.h>

#include "net/http_client.h"
#include "net/wheel.h"

#define CLIENT_READ_BYTES (128u * 1024u)
#define CLIENT_READS_PER_EVENT 8u /* then others get their turn */
#define CLIENT_IOV_MAX 32u
#define CLIENT_FREE_CALLS_MAX 1024u
#define CLIENT_FREE_CONNS_MAX 256u
#define CLIENT_KEPT_TEXT_BYTES 4096u /* request texts up to this stay with a free call */
#define CLIENT_PEERS_MAX 65536u
#define CLIENT_PEER_BUCKETS 256u
#define CLIENT_INTERIM_MAX 16u /* 1xx answers before the real one */
#define CLIENT_INLINE_PIECES 4u

enum call_state { CALL_FREE, CALL_IN_LINE, CALL_ON_CONN, CALL_FAILED };

struct http_call {
    struct http_client *client;
    struct client_peer *peer;
    struct client_conn *conn;
    struct http_call *next, *prev; /* the line, the failed list, the free list (next only) */
    enum call_state state;
    int rc;                        /* CALL_FAILED */
    const struct http_call_ops *ops;
    void *arg;
    struct wheel_node deadline;

    enum http_method method;
    bool fresh, retried;
    bool timed; /* has a deadline; else its connection watches for progress */
    bool has_body;
    int status;

    char *text; /* request head */
    size_t text_n, text_cap;
    struct bytes *pieces; /* the body; few of them inline */
    struct bytes inline_pieces[CLIENT_INLINE_PIECES];
    uint32_t piece_count;
    uint64_t send_bytes; /* head and body */
    uint64_t sent_bytes;
};

enum conn_state { CONN_CONNECTING, CONN_IDLE, CONN_BUSY };
enum body_state { BODY_HEAD, BODY_NONE, BODY_LENGTH, BODY_CHUNKED, BODY_TO_CLOSE };

struct client_conn {
    struct http_client *client;
    struct client_peer *peer;
    struct http_call *call;
    struct client_conn *next, *prev; /* the peer's idle list; the free list (next only) */
    struct client_conn *all_next, *all_prev;
    int fd;
    enum conn_state state;
    enum body_state body;
    bool reading, writing; /* events that are added */
    bool used;             /* an answer came over it before */
    bool answer_begun;     /* a byte of this answer has come */
    bool keep;
    bool paused;
    bool resume_seen; /* http_call_resume() inside on_body, before its DFS_EAGAIN */
    bool resumed;     /* look at the stash before reading */
    bool send_failed;
    bool dead;             /* closed while its own code runs: freed on the way out */
    uint8_t depth;
    uint8_t interims;
    uint64_t body_left;
    struct http_chunked chunked;
    size_t scanned;
    /* Bytes that came and could not be used yet: an incomplete head, or what follows a pause. */
    char *stash;
    size_t stash_from, stash_n, stash_cap;
    struct wheel_node timeout; /* of connecting, of a stall, of being idle */
    uint64_t progress_ms;      /* when bytes last moved; kept up only for calls without a deadline */
    struct event read_event, write_event;
};

struct client_peer {
    struct http_client *client;
    struct client_peer *next; /* bucket */
    struct addr addr;
    char host_text[ADDR_TEXT_MAX];
    size_t host_n;
    bool known; /* sockaddr is there */
    struct sockaddr_storage sa;
    socklen_t sa_len;
    uint32_t conns;
    struct client_conn *idle; /* most recently used first */
    struct http_call *line_first, *line_last;
};

struct http_client {
    struct http_client_options o;
    struct wheel wheel;
    struct loop_timer failed_timer;
    struct http_call *failed_first, *failed_last;
    struct http_call *free_calls;
    struct client_conn *free_conns, *all_conns;
    struct client_peer *last_peer;
    struct client_peer *buckets[CLIENT_PEER_BUCKETS];
    char *read_buf;
    uint32_t free_call_count, free_conn_count, peer_count, waiting;
    bool closing;
    struct http_client_stats stats;
};

/* ---- http_client_request.c ---- */

/* Whether it can be sent at all. */
bool client_request_ok(const struct http_call_request *req);
/* Fills text, pieces and send_bytes of the call.  DFS_ENOMEM. */
int client_request_build(struct http_call *call, const struct http_call_request *req);

/* ---- http_client_conn.c ---- */

/* Opens a connection for the call, or uses the given idle one.  Never calls back; a failure comes from the loop. */
void client_conn_open(struct client_peer *peer, struct http_call *call);
void client_conn_use(struct client_conn *conn, struct http_call *call);
/* The call leaves the connection, which waits for the next one. */
void client_conn_detach(struct client_conn *conn);
void client_conn_idle(struct client_conn *conn);
/* Closes and takes it out of all lists; its call, if any, is detached and left to the caller.  No callbacks. */
void client_conn_close(struct client_conn *conn);
/* The call ends with a code, and the connection with it. */
void client_conn_fail(struct client_conn *conn, int rc);
void client_conn_resume(struct client_conn *conn);
/* Adds or removes an event; false when it could not be added: no memory for it. */
bool client_conn_want(struct event *ev, bool *added, bool on);
/* Takes the memory of a free connection back. */
void client_conn_free(struct client_conn *conn);

/* ---- http_client_answer.c ---- */

/* Forget the answer before. */
void client_answer_begin(struct client_conn *conn);
/* Bytes, an end, or a resumed pause: a busy connection's read event.  May close the connection; depth > 0. */
void client_answer_readable(struct client_conn *conn);

/* ---- http_client.c ---- */

/* The call is off its connection: tell it, free it. */
void client_call_finish(struct http_call *call, int rc);
/* The same from the loop. */
void client_call_fail_later(struct http_call *call, int rc);
/* Off its connection before any byte of an answer: try once more, or fail with DFS_ECLOSED. */
void client_call_lost(struct http_call *call, bool conn_was_kept);
/* Gives the peer's free room to the calls in line. */
void client_peer_dispatch(struct client_peer *peer);

#endif
