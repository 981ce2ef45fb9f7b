/* What the files of the HTTP server share and nobody else sees: connections, exchanges, lanes.
 *
 * lane      one per loop: its connections, ordered by activity; free lists; the cached date.
 * conn      a socket.  Small (< 512 bytes), because thousands sit idle: its read buffer goes back to the lane with the
 *           last byte that was parsed.
 * exchange  one request and its reply.  Large, so it is taken from the lane when a head is complete and given back
 *           after on_close.  Public code sees its first member, struct http_req.
 *
 * Everything of a connection happens in conn_run(), which takes one step after the other until there is nothing to do
 * but wait.  It is not re-entrant: handlers that reply, drop or abort inside it only leave a mark, and the step that is
 * under way looks again.  So an exchange ends, and a connection is freed, at one place each, with no handler on the
 * stack.
 *
 * Who may read the socket: the connection while no exchange is under way (a head) or while the body is wanted or
 * skipped. Else the read event stays registered and is taken out only when it fires.
 *
 * Loop thread only. */
#ifndef DFS_NET_HTTP_CONN_H
#define DFS_NET_HTTP_CONN_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "net/http_server.h"
#include "net/listener.h"

#define READ_BUFFER_BYTES 16384u
#define BIG_HEAD_BYTES (HTTP_HEAD_MAX + 256u)
#define LANE_BIG_HEADS_MAX 256u                /* heads above READ_BUFFER_BYTES that a lane takes at a time; more: 431 */
#define LANE_KEPT_BYTES_MAX (4u * 1024u * 1024u) /* body bytes held for handlers that cannot take them now */
#define LANE_SPARE_BUFFERS 64u
#define LANE_SPARE_EXCHANGES 64u
#define RUN_STEPS_MAX 64u                      /* of one connection before the others have their turn */
#define READ_BYTES_MAX (256u * 1024u)          /* of one connection in one go */
#define SEND_BYTES_MAX (512u * 1024u)
#define SENDFILE_BYTES_MAX (256u * 1024u)
#define LINGER_MS 3000u                        /* for a client to read why we close, while it still sends */
#define LINGER_BYTES_MAX (32u * 1024u * 1024u)
#define REFUSED_MAX 256u                       /* connections above the limit that get a 503; more are just closed */
#define SWEEP_BURST 64u
#define REPLY_HEAD_INLINE 1024u
#define REPLY_HEAD_MAX (128u * 1024u)
#define REPLY_PIECES_MAX 8u
#define CHUNK_FRAME_MAX 32u
#define ARENA_INLINE 2048u

/* A connection waits in exactly one of these; each has one timeout, so its members stand in order of expiry. */
enum wait_queue {
    WAIT_NOTHING, /* for us: no timeout */
    WAIT_REQUEST, /* the first byte of a head */
    WAIT_HEAD,    /* the rest of it: counted from the first byte, whatever arrives */
    WAIT_BODY,    /* counted from the last byte */
    WAIT_WRITE,   /* the same */
    WAIT_CLOSE,   /* lingering */
    WAIT_QUEUES,
};

struct conn_list {
    struct http_conn *first, *last;
    uint32_t timeout_ms; /* 0: none */
};

struct lane_stats {
    uint64_t requests, bad_requests, refused, timeouts, dropped_headers, unanswered;
};

struct http_lane {
    struct http_server *server;
    struct loop *loop;
    struct conn_list waiting[WAIT_QUEUES];
    struct loop_timer sweep;
    uint32_t sweep_ms;

    struct http_conn *ready_first, *ready_last; /* have more to do, but let others go first */
    struct loop_msg ready_msg;
    bool ready_posted;

    struct loop_msg drain_msg;
    bool draining;

    void *spare_buffers; /* each starts with a pointer to the next */
    uint32_t spare_buffer_count;
    struct http_exchange *spare_exchanges;
    uint32_t spare_exchange_count;
    uint32_t big_heads;
    uint64_t kept_bytes;

    uint64_t date_s;
    uint32_t date_len;
    char date[256]; /* "Date: ...\r\nServer: ...\r\n" */

    uint32_t connections;    /* open now; atomic */
    struct lane_stats stats; /* written here, read anywhere: relaxed atomics */
};

struct http_server {
    struct http_server_options opts;
    struct listener *listener;
    uint32_t connections; /* of all lanes; atomic */
    bool draining;
    uint32_t lane_count;
    struct http_lane *lanes;
};

union conn_peer {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

struct http_conn {
    struct http_lane *lane;
    struct http_conn *prev, *next; /* in lane->waiting[queue] */
    struct http_conn *ready_next;
    struct http_exchange *x; /* NULL between requests */
    uint64_t since_ms;       /* when it joined its queue */
    uint64_t first_byte_ns;  /* of the head in the buffer */
    char *buf;               /* NULL when nothing is buffered */
    uint32_t buf_cap, buf_pos, buf_len; /* bytes [pos, len) are to be looked at */
    uint32_t head_end;       /* views of x->req.head point below it; 0 when none do */
    uint32_t kept;           /* of [pos, len): counted in lane->kept_bytes */
    size_t scanned;
    uint32_t linger_left;
    int fd;                  /* -1: dead */
    uint8_t queue;
    bool running, ready;
    bool read_on, write_on;
    bool eof;                /* the client has sent its last byte */
    bool lingering;
    bool big_head;
    bool more;               /* the last recv() was full: the next one will not be in vain */
    union conn_peer peer;
    struct event read_event, write_event;
};

/* The request's body. */
struct exchange_body {
    bool done;      /* every byte is here (or there is none) */
    bool paused;    /* the handler said DFS_EAGAIN */
    bool resumed;   /* http_req_resume() while on_body was running */
    bool unwanted;  /* read and dropped */
    bool continued; /* 100 was sent */
    bool ended;     /* on_end was called */
    uint64_t left;  /* identity: bytes to come */
    uint64_t skipped;
    struct http_chunked chunked;
};

/* The reply on its way out. */
struct exchange_out {
    bool begun;
    bool sent;           /* all of it is in the socket */
    bool started;        /* some of it is */
    bool close_delimited;
    char *text;          /* head, later chunk framing; text_inline or malloc */
    uint32_t text_len, text_cap, text_off;
    char *rest;          /* copy of what the first send left over */
    size_t rest_len, rest_off;

    struct http_source *source;
    uint64_t source_left; /* HTTP_LENGTH_UNKNOWN */
    struct http_piece piece;
    bool has_piece, framed, source_ended, source_waits, source_ready, chunked;
};

struct arena_block {
    struct arena_block *next;
    _Alignas(16) char bytes[];
};

struct exchange_arena {
    uint32_t inline_used;
    uint32_t total;
    struct arena_block *blocks;
};

struct http_exchange {
    struct http_req req; /* first: public code sees only this */
    struct http_exchange *next_spare;
    uint32_t holds;
    bool shown; /* the handler has seen it: on_close is due */
    bool close_after;
    char *head_buf; /* buffer that the head's views point into, when it is no longer the connection's */
    uint32_t head_buf_cap;
    struct exchange_body body;
    struct exchange_out out;
    struct exchange_arena arena;
    struct sockaddr_storage peer;
    char peer_text[INET6_ADDRSTRLEN + 1];
    char text_inline[REPLY_HEAD_INLINE];
    _Alignas(16) char arena_inline[ARENA_INLINE];
};

static inline struct http_exchange *exchange_of(struct http_req *r)
{
    return (struct http_exchange *)r;
}

#define STAT_ADD(lane, field, n) \
    __atomic_store_n(&(lane)->stats.field, (lane)->stats.field + (n), __ATOMIC_RELAXED)

/* What a step of conn_run() came to. */
enum step {
    STEP_AGAIN, /* something changed: look again */
    STEP_WAIT,  /* nothing to do before the next event */
    STEP_YIELD, /* there is, but it is the others' turn */
};

/* No reply can reach the client any more (or only the one that closes). */
static inline bool conn_is_gone(const struct http_conn *c)
{
    return c->fd == -1 || c->lingering;
}

/* Bytes that were read and not looked at. */
static inline uint32_t conn_buffered(const struct http_conn *c)
{
    return c->buf_len - c->buf_pos;
}

/* What became of body bytes. */
enum feed {
    FEED_MORE,   /* all of the bytes were used, the body goes on */
    FEED_DONE,   /* the body is complete */
    FEED_PAUSED, /* the handler takes no more for now */
    FEED_BAD,    /* framing is broken */
    FEED_STOP,   /* nobody wants the rest, or the connection is dead */
};

/* ---- http_lane.c ---- */
void lane_init(struct http_lane *lane, struct http_server *s, struct loop *loop);
/* After its loop has ended: closes every connection.  False when a request is still held by work elsewhere, which will come
 * back to it: then the lane must not be freed. */
bool lane_release(struct http_lane *lane);
/* A new connection, into WAIT_NOTHING. */
/* A socket came in: how many the server has now.  Each one is closed once. */
uint32_t lane_opened(struct http_lane *lane);
void lane_closed(struct http_lane *lane);
void lane_add(struct http_conn *c);
/* Puts the connection at the end of the queue, as of now. */
void lane_wait(struct http_conn *c, enum wait_queue q);
void lane_forget(struct http_conn *c);
/* Run it again after the others. */
void lane_make_ready(struct http_conn *c);
char *lane_get_buffer(struct http_lane *lane);
void lane_put_buffer(struct http_lane *lane, char *buf, uint32_t cap);
struct http_exchange *lane_get_exchange(struct http_lane *lane);
void lane_put_exchange(struct http_lane *lane, struct http_exchange *x);
/* Date and Server lines of this second. */
struct bytes lane_date(struct http_lane *lane);

/* ---- http_conn.c ---- */
/* Takes fd.  The connection lives until it closes itself; one that is refused gets a 503 and is closed. */
void conn_open(struct http_lane *lane, int fd, const struct sockaddr_storage *peer, bool refuse);
/* Drives it as far as it goes; c may be freed. */
void conn_run(struct http_conn *c);
/* What recv() said when it was not a count of bytes: notes the end or kills.  False when there was just nothing to read. */
bool conn_received(struct http_conn *c, ssize_t n);
/* Keeps bytes behind what is buffered. */
void conn_keep(struct http_conn *c, struct http_exchange *x, struct bytes rest);
/* When nothing is buffered any more: no exchange may be under way for the second. */
void conn_forget_kept(struct http_conn *c);
void conn_release_buffer(struct http_conn *c);
/* After the last reply; unread: bytes of the client are known to be still in the socket. */
void conn_close(struct http_conn *c, bool unread);
/* Says why, as far as nothing else has been said, and closes in a way that lets the client read it.  The exchange is
 * dead. */
void conn_refuse(struct http_conn *c, int status, const char *text);
/* Closes the socket now; with reset the client learns that what it got is not whole.  c is freed by the next conn_run(). */
void conn_kill(struct http_conn *c, bool reset);
/* What to do when the time of its queue is over; c may be freed. */
void conn_expire(struct http_conn *c);
/* The server is being stopped; c may be freed. */
void conn_drain(struct http_conn *c);

/* ---- http_exchange.c ---- */
/* The head is parsed: shows the request to the handler. */
void exchange_start(struct http_conn *c, struct http_exchange *x);
/* The next thing to do for the exchange under way. */
enum step exchange_step(struct http_conn *c);
/* Draws the conclusion from body_feed(). */
void exchange_fed(struct http_conn *c, struct http_exchange *x, enum feed f);

/* ---- http_body.c ---- */
/* Hands `in` to the handler (or drops it); *used tells how far. */
enum feed body_feed(struct http_conn *c, struct http_exchange *x, struct bytes in, size_t *used);
/* Reads the socket.  False when nothing came. */
bool body_read(struct http_conn *c, struct http_exchange *x);

/* ---- http_out.c ---- */
enum flush {
    FLUSH_DONE,
    FLUSH_WAIT,   /* for the socket or the source */
    FLUSH_YIELD,  /* more could be sent, but others have waited long enough */
    FLUSH_FAILED, /* the connection was killed */
};
enum flush out_flush(struct http_conn *c, struct http_exchange *x);
/* Sends head and pieces, keeps a copy of what the socket does not take. */
void out_send(struct http_conn *c, struct http_exchange *x, const struct bytes *pieces, uint32_t count);
void out_release(struct http_exchange *x);

/* ---- http_reply.c ---- */
/* A whole answer outside any exchange (no handler has seen the request), as far as the socket takes it at once. */
void reply_canned(struct http_conn *c, int status, const char *text);
/* The reply that was finished cannot be started (its source failed first): another one instead. */
void reply_restart(struct http_exchange *x, int rc);

#endif
