/* The connection: reads heads, drives one exchange after the other, waits, closes. */
#include "net/http_conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"

_Static_assert(sizeof(struct http_conn) <= 512, "an idle connection must stay small");

/* ---- the read buffer ---- */

void conn_forget_kept(struct http_conn *c)
{
    c->lane->kept_bytes -= c->kept;
    c->kept = 0;
}

void conn_release_buffer(struct http_conn *c)
{
    conn_forget_kept(c);
    if (c->big_head) {
        c->big_head = false;
        c->lane->big_heads--;
    }
    lane_put_buffer(c->lane, c->buf, c->buf_cap);
    c->buf = NULL;
    c->buf_cap = c->buf_pos = c->buf_len = c->head_end = 0;
    c->scanned = 0;
}

static bool take_buffer(struct http_conn *c)
{
    c->buf = lane_get_buffer(c->lane);
    if (c->buf == NULL)
        return false;
    c->buf_cap = READ_BUFFER_BYTES;
    c->buf_pos = c->buf_len = 0;
    c->scanned = 0;
    return true;
}

/* A new buffer of that size with what is still to be looked at. */
static bool replace_buffer(struct http_conn *c, size_t cap, char **old, uint32_t *old_cap)
{
    char *bigger = cap <= READ_BUFFER_BYTES ? lane_get_buffer(c->lane) : malloc(cap);
    if (bigger == NULL)
        return false;
    uint32_t n = conn_buffered(c);
    memcpy(bigger, c->buf + c->buf_pos, n);
    *old = c->buf;
    *old_cap = c->buf_cap;
    c->buf = bigger;
    c->buf_cap = cap <= READ_BUFFER_BYTES ? READ_BUFFER_BYTES : (uint32_t)cap;
    c->buf_pos = 0;
    c->buf_len = n;
    return true;
}

static bool grow_for_head(struct http_conn *c)
{
    char *old;
    uint32_t old_cap;
    if (c->lane->big_heads == LANE_BIG_HEADS_MAX || !replace_buffer(c, BIG_HEAD_BYTES, &old, &old_cap))
        return false;
    lane_put_buffer(c->lane, old, old_cap);
    c->big_head = true;
    c->lane->big_heads++;
    return true;
}

void conn_keep(struct http_conn *c, struct http_exchange *x, struct bytes rest)
{
    if (rest.n == 0)
        return;
    if (c->buf == NULL && !take_buffer(c)) {
        conn_kill(c, true);
        return;
    }
    if (c->buf_pos == c->buf_len)
        c->buf_pos = c->buf_len = c->head_end;
    if (c->buf_cap - c->buf_len < rest.n) {
        /* The head's views stay where they are: the exchange takes the buffer they point into. */
        char *old;
        uint32_t old_cap;
        if (!replace_buffer(c, conn_buffered(c) + rest.n, &old, &old_cap)) {
            conn_kill(c, true);
            return;
        }
        if (c->head_end > 0) {
            x->head_buf = old;
            x->head_buf_cap = old_cap;
            c->head_end = 0;
        } else {
            lane_put_buffer(c->lane, old, old_cap);
        }
    }
    memcpy(c->buf + c->buf_len, rest.p, rest.n);
    c->buf_len += (uint32_t)rest.n;
    c->kept += (uint32_t)rest.n;
    c->lane->kept_bytes += rest.n;
}

/* ---- closing ---- */

void conn_kill(struct http_conn *c, bool reset)
{
    if (c->fd == -1)
        return;
    event_del(&c->read_event);
    if (c->write_on)
        event_del(&c->write_event);
    c->read_on = c->write_on = false;
    if (reset) {
        struct linger now = {.l_onoff = 1, .l_linger = 0};
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    close(c->fd);
    c->fd = -1;
    lane_closed(c->lane);
    if (c->x != NULL)
        c->x->req.dead = true;
}

/* Ends the answer's direction and goes on reading for a while: a close with unread bytes would be a reset, and a reset
 * takes from the client what it has not read yet. */
static void start_linger(struct http_conn *c)
{
    if (c->x != NULL)
        c->x->req.dead = true;
    if (c->eof || shutdown(c->fd, SHUT_WR) == -1) {
        conn_kill(c, false);
        return;
    }
    c->lingering = true;
    c->linger_left = LINGER_BYTES_MAX;
}

void conn_close(struct http_conn *c, bool unread)
{
    char byte;
    if (unread || conn_buffered(c) > 0 || recv(c->fd, &byte, 1, MSG_PEEK) > 0)
        start_linger(c);
    else
        conn_kill(c, false);
}

void conn_refuse(struct http_conn *c, int status, const char *text)
{
    if (conn_is_gone(c))
        return;
    if (c->x == NULL || (!c->x->req.replied && !c->x->out.started)) {
        reply_canned(c, status, text);
        start_linger(c);
    } else {
        conn_kill(c, true);
    }
}

static bool linger_read(struct http_conn *c)
{
    ssize_t n = recv(c->fd, NULL, READ_BYTES_MAX, MSG_TRUNC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0 || (size_t)n >= c->linger_left)
        conn_kill(c, false);
    else
        c->linger_left -= (uint32_t)n;
    return true;
}

/* ---- reading ---- */

bool conn_received(struct http_conn *c, ssize_t n)
{
    c->more = false;
    if (n == 0) {
        c->eof = true;
        return true;
    }
    if (errno == EAGAIN || errno == EINTR)
        return false;
    conn_kill(c, false);
    return true;
}

static bool wants_read(const struct http_conn *c)
{
    const struct http_exchange *x = c->x;
    if (c->fd == -1 || c->eof)
        return false;
    if (x == NULL || c->lingering)
        return true;
    return !x->body.done && !x->body.paused && !(x->req.replied && x->close_after);
}

/* Bytes of a head to come. */
static bool head_read(struct http_conn *c)
{
    if (c->buf == NULL && !take_buffer(c)) {
        conn_kill(c, true);
        return true;
    }
    if (c->buf_len == c->buf_cap)
        return true; /* step_head() will make room or refuse */
    uint32_t room = c->buf_cap - c->buf_len;
    ssize_t n = recv(c->fd, c->buf + c->buf_len, room, 0);
    if (n <= 0) {
        bool changed = conn_received(c, n);
        if (conn_buffered(c) == 0)
            conn_release_buffer(c);
        return changed;
    }
    if (conn_buffered(c) == 0)
        c->first_byte_ns = clock_mono_ns();
    c->more = (uint32_t)n == room;
    c->buf_len += (uint32_t)n;
    return true;
}

/* The event fired and nobody wants the bytes: take it out of the set instead of spinning.  A look at the socket tells
 * whether the client has gone. */
static bool take_out_read(struct http_conn *c)
{
    char byte;
    ssize_t n = recv(c->fd, &byte, 1, MSG_PEEK);
    if (n == -1 && errno != EAGAIN && errno != EINTR) {
        conn_kill(c, false);
        return true;
    }
    c->eof = n == 0;
    event_del(&c->read_event);
    c->read_on = false;
    return false;
}

static bool read_some(struct http_conn *c)
{
    if (!wants_read(c))
        return take_out_read(c);
    if (c->lingering)
        return linger_read(c);
    if (c->x == NULL)
        return head_read(c);
    return conn_buffered(c) > 0 || body_read(c, c->x);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct http_conn *c = arg;
    c->running = true; /* handlers are called while reading: their replies must not drive us */
    bool changed = read_some(c);
    c->running = false;
    if (changed)
        conn_run(c);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    conn_run(arg);
}

/* ---- heads ---- */

static enum step step_head_short(struct http_conn *c)
{
    if (c->eof) {
        conn_kill(c, false);
        return STEP_AGAIN;
    }
    if (c->buf_pos > 0) {
        memmove(c->buf, c->buf + c->buf_pos, conn_buffered(c));
        c->buf_len -= c->buf_pos;
        c->buf_pos = 0;
    }
    if (c->buf_len == c->buf_cap && !grow_for_head(c)) {
        STAT_ADD(c->lane, bad_requests, 1);
        conn_refuse(c, 431, "request head is too large");
        return STEP_AGAIN;
    }
    return STEP_WAIT;
}

static const char *refusal_text(int status)
{
    switch (status) {
    case 414: return "request target is too long";
    case 431: return "request head is too large";
    case 501: return "transfer coding is not supported";
    case 505: return "http version is not supported";
    default: return "malformed request";
    }
}

static enum step step_head(struct http_conn *c)
{
    if (conn_buffered(c) == 0) {
        if (c->buf != NULL)
            conn_release_buffer(c);
        if (c->eof || c->lane->draining) {
            conn_kill(c, false);
            return STEP_AGAIN;
        }
        return STEP_WAIT;
    }
    struct http_exchange *x = lane_get_exchange(c->lane);
    if (x == NULL) {
        conn_kill(c, true);
        return STEP_AGAIN;
    }
    int status = 0;
    int rc = http_parse_request(bytes_of(c->buf + c->buf_pos, conn_buffered(c)), &c->scanned, &x->req.head, &status);
    if (rc == 0) {
        exchange_start(c, x);
        return STEP_AGAIN;
    }
    lane_put_exchange(c->lane, x);
    if (rc == DFS_ESHORT)
        return step_head_short(c);
    STAT_ADD(c->lane, bad_requests, 1);
    conn_refuse(c, status, refusal_text(status));
    return STEP_AGAIN;
}

/* ---- waiting ---- */

static enum wait_queue queue_of(const struct http_conn *c)
{
    const struct http_exchange *x = c->x;
    if (c->fd == -1)
        return WAIT_NOTHING;
    if (c->lingering)
        return WAIT_CLOSE;
    if (x == NULL)
        return conn_buffered(c) > 0 ? WAIT_HEAD : WAIT_REQUEST;
    if (c->write_on)
        return WAIT_WRITE;
    return wants_read(c) ? WAIT_BODY : WAIT_NOTHING;
}

/* Registers for what is wanted now.  The read event stays in although nobody wants it: see take_out_read(). */
static bool set_events(struct http_conn *c)
{
    const struct http_exchange *x = c->x;
    bool want_write = x != NULL && !conn_is_gone(c) && x->req.replied && !x->out.sent && !x->out.source_waits;
    if (want_write != c->write_on) {
        if ((want_write ? event_add(&c->write_event, NULL) : event_del(&c->write_event)) == -1)
            return false;
        c->write_on = want_write;
    }
    if (wants_read(c) && !c->read_on) {
        if (event_add(&c->read_event, NULL) == -1)
            return false;
        c->read_on = true;
    }
    return true;
}

static void park(struct http_conn *c)
{
    if (c->fd != -1 && !set_events(c)) {
        conn_kill(c, true);
        lane_make_ready(c);
    }
    enum wait_queue q = queue_of(c);
    /* Slow heads and lingering closes are timed as a whole, everything else from its last progress. */
    if (c->queue != q || (q != WAIT_HEAD && q != WAIT_CLOSE))
        lane_wait(c, q);
}

static void free_conn(struct http_conn *c)
{
    lane_forget(c);
    conn_release_buffer(c);
    free(c);
}

void conn_run(struct http_conn *c)
{
    if (c->running)
        return;
    c->running = true;
    enum step s = STEP_AGAIN;
    for (uint32_t i = 0; s == STEP_AGAIN && i < RUN_STEPS_MAX; i++)
        s = c->x != NULL ? exchange_step(c) : conn_is_gone(c) ? STEP_WAIT : step_head(c);
    c->running = false;
    if (s != STEP_WAIT) {
        lane_make_ready(c);
        return;
    }
    park(c);
    if (c->fd == -1 && c->x == NULL && !c->ready)
        free_conn(c);
}

void conn_expire(struct http_conn *c)
{
    enum wait_queue q = (enum wait_queue)c->queue;
    if (q == WAIT_HEAD || q == WAIT_BODY || q == WAIT_WRITE)
        STAT_ADD(c->lane, timeouts, 1);
    if (q == WAIT_HEAD || q == WAIT_BODY)
        conn_refuse(c, 408, "request took too long");
    else
        conn_kill(c, q == WAIT_WRITE);
    conn_run(c);
}

void conn_drain(struct http_conn *c)
{
    char byte;
    if (recv(c->fd, &byte, 1, MSG_PEEK) > 0)
        return; /* a request has just come in: it is still served */
    conn_kill(c, false);
    conn_run(c);
}

static void copy_peer(struct http_conn *c, const struct sockaddr_storage *peer)
{
    if (peer->ss_family == AF_INET6)
        memcpy(&c->peer.v6, peer, sizeof c->peer.v6);
    else
        memcpy(&c->peer.v4, peer, sizeof c->peer.v4);
}

void conn_open(struct http_lane *lane, int fd, const struct sockaddr_storage *peer, bool refuse)
{
    struct http_conn *c = calloc(1, sizeof *c);
    if (c == NULL) {
        close(fd);
        lane_closed(lane);
        return;
    }
    c->lane = lane;
    c->fd = fd;
    copy_peer(c, peer);
    event_assign(&c->read_event, loop_base(lane->loop), fd, EV_READ | EV_PERSIST, on_readable, c);
    event_assign(&c->write_event, loop_base(lane->loop), fd, EV_WRITE | EV_PERSIST, on_writable, c);
    lane_add(c);
    if (refuse)
        conn_refuse(c, 503, "too many connections");
    conn_run(c);
}
