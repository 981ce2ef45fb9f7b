/* HTTP/2 connections: the socket, the session, and the order in which they are entered and left.
 * What nghttp2 calls is in net/h2_session.c. */
#include "net/h2_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <unistd.h>

#include "needle/check.h"
#include "needle/err.h"

/* One read fills at most this much of the stack, one step of the loop makes at most so many reads. */
#define READ_BYTES (64u * 1024u)
#define READS_PER_STEP 4
/* More than nghttp2 ever hands out at once: a DATA frame of the default size and its header. */
#define CHUNK_MAX (32u * 1024u)
/* Rounds of deliver-and-send before other connections of the loop get their turn. */
#define ROUNDS_MAX 32

struct h2_times h2_times = {
    .connect_ms = 1000,
    .preface_ms = 10000,
    .ping_after_ms = 60000,
    .ping_wait_ms = 20000,
    .idle_ms = 600000,
    .drain_ms = 1000,
    .tick_ms = 20000,
};

static int rc_from_socket_errno(int err)
{
    switch (err) {
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EADDRNOTAVAIL:
        return DFS_EUNAVAILABLE;
    case ETIMEDOUT:
        return DFS_ETIMEOUT;
    case ECONNRESET:
    case EPIPE:
        return DFS_ECLOSED;
    default:
        return dfs_err_from_errno(err);
    }
}

static bool h2_gone(const struct h2 *h)
{
    return h->failed || h->freed;
}

void h2_fail(struct h2 *h, int rc)
{
    if (h2_gone(h))
        return;
    h->failed = true;
    h->fail_rc = rc;
    h2_touch(h);
}

/* ---- sending ---- */

static void want_write(struct h2 *h)
{
    if (event_add(&h->write_ev, NULL) != 0)
        h2_fail(h, DFS_ENOMEM);
}

/* Bytes the socket took; on an error 0, and the connection has failed. */
static size_t socket_send(struct h2 *h, const uint8_t *p, size_t n)
{
    ssize_t sent;
    do
        sent = send(h->fd, p, n, MSG_NOSIGNAL);
    while (sent == -1 && errno == EINTR);
    if (sent >= 0)
        return (size_t)sent;
    int err = errno;
    if (err != EAGAIN && err != EWOULDBLOCK)
        h2_fail(h, rc_from_socket_errno(err));
    return 0;
}

/* What the socket refused earlier comes first.  True when nothing of it is left. */
static bool send_rest(struct h2 *h)
{
    if (h->rest == NULL)
        return true;
    h->rest_off += socket_send(h, h->rest + h->rest_off, h->rest_n - h->rest_off);
    if (h->rest_off < h->rest_n) {
        want_write(h);
        return false;
    }
    free(h->rest);
    h->rest = NULL;
    return true;
}

static void keep_rest(struct h2 *h, const uint8_t *p, size_t n)
{
    h->rest = malloc(n);
    if (h->rest == NULL) {
        h2_fail(h, DFS_ENOMEM);
        return;
    }
    memcpy(h->rest, p, n);
    h->rest_n = n;
    h->rest_off = 0;
    want_write(h);
}

/* Everything that nghttp2 has ready goes out by one send(); the loop's scratch collects it, for no code of users runs here. */
static void pump(struct h2 *h)
{
    if (h->fd == -1 || h->connecting || !h->may_send || !send_rest(h))
        return;
    uint8_t *buf = loop_scratch(h->loop);
    size_t used = 0;
    bool more = true;
    while (used + CHUNK_MAX <= LOOP_SCRATCH_BYTES) {
        const uint8_t *p;
        ssize_t n = nghttp2_session_mem_send(h->session, &p);
        if (n < 0) {
            h2_fail(h, n == NGHTTP2_ERR_NOMEM ? DFS_ENOMEM : DFS_EPROTO);
            return;
        }
        if (n == 0) {
            more = false;
            break;
        }
        CHECK((size_t)n <= CHUNK_MAX);
        memcpy(buf + used, p, (size_t)n);
        used += (size_t)n;
    }
    if (used > 0) {
        size_t sent = socket_send(h, buf, used);
        if (sent < used && !h->failed)
            keep_rest(h, buf + sent, used - sent);
        else if (more && !h->failed)
            want_write(h);
    }
    if (!more && h->rest == NULL && !nghttp2_session_want_read(h->session) && !nghttp2_session_want_write(h->session))
        h2_fail(h, DFS_ECLOSED);
}

/* ---- entering and leaving ---- */

void h2_enter(struct h2 *h)
{
    h->depth++;
}

static void settle(struct h2 *h)
{
    for (int round = 0; !h2_gone(h); round++) {
        if (round == ROUNDS_MAX) {
            loop_timer_set(&h->tick, 0);
            return;
        }
        bool delivered = h->ops->on_pass(h->arg);
        if (h2_gone(h) || (!delivered && round > 0))
            return;
        pump(h);
    }
}

static void socket_close(struct h2 *h)
{
    if (h->fd == -1)
        return;
    event_del(&h->read_ev);
    event_del(&h->write_ev);
    close(h->fd);
    h->fd = -1;
}

static void destroy(struct h2 *h)
{
    const struct h2_ops *ops = h->ops;
    void *arg = h->arg;
    nghttp2_session_del(h->session);
    free(h->rest);
    free(h);
    ops->on_destroy(arg);
}

void h2_leave(struct h2 *h)
{
    CHECK(h->depth > 0);
    if (h->depth > 1) {
        h->depth--;
        return;
    }
    settle(h);
    if (h->failed && !h->freed) {
        socket_close(h);
        h->ops->on_down(h->arg, h->fail_rc);
        CHECK(h->freed);
    }
    h->ops->on_settled(h->arg);
    h->depth = 0;
    if (h->freed)
        destroy(h);
}

void h2_touch(struct h2 *h)
{
    if (h->depth == 0 && !h->freed)
        event_active(&h->touch_ev, EV_TIMEOUT, 0);
}

static void on_touch(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    h2_enter(arg);
    h2_leave(arg);
}

/* ---- receiving ---- */

/* A browser, a probe or a proxy that does not know better: say so in its own language. */
static void refuse_http1(struct h2 *h)
{
    static const char answer[] = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 47\r\n"
                                 "Connection: close\r\n\r\nthis port speaks gRPC (HTTP/2, prior knowledge)";
    if (!h->may_send)
        socket_send(h, (const uint8_t *)answer, sizeof answer - 1);
    h2_fail(h, DFS_EPROTO);
}

static void feed(struct h2 *h, const uint8_t *p, size_t n)
{
    ssize_t taken = nghttp2_session_mem_recv(h->session, p, n);
    if (h2_gone(h))
        return;
    if (taken == NGHTTP2_ERR_BAD_CLIENT_MAGIC)
        refuse_http1(h);
    else if (taken < 0)
        h2_fail(h, taken == NGHTTP2_ERR_NOMEM ? DFS_ENOMEM : DFS_EPROTO);
    else
        h->may_send = true;
}

/* The bytes lie on the stack, not in the loop's scratch: messages are handed to users straight out of them, and users may
 * use the scratch. */
static void __attribute__((noinline)) receive(struct h2 *h)
{
    uint8_t buf[READ_BYTES];
    for (int i = 0; i < READS_PER_STEP && !h2_gone(h); i++) {
        ssize_t n = recv(h->fd, buf, sizeof buf, 0);
        if (n > 0) {
            h->heard_ms = loop_now_ms(h->loop);
            feed(h, buf, (size_t)n);
            if ((size_t)n < sizeof buf)
                return;
        } else if (n == 0) {
            h2_fail(h, DFS_ECLOSED);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        } else if (errno != EINTR) {
            h2_fail(h, rc_from_socket_errno(errno));
        }
    }
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct h2 *h = arg;
    h2_enter(h);
    receive(h);
    h2_leave(h);
}

/* ---- making and ending ---- */

static void on_connected(struct h2 *h)
{
    int err = 0;
    socklen_t len = sizeof err;
    if (getsockopt(h->fd, SOL_SOCKET, SO_ERROR, &err, &len) == -1)
        err = errno;
    if (err != 0) {
        h2_fail(h, rc_from_socket_errno(err));
        return;
    }
    h->connecting = false;
    h->heard_ms = loop_now_ms(h->loop);
    loop_timer_set(&h->tick, h2_times.tick_ms);
    if (event_add(&h->read_ev, NULL) != 0) {
        h2_fail(h, DFS_ENOMEM);
        return;
    }
    h->ops->on_up(h->arg);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct h2 *h = arg;
    h2_enter(h);
    if (h->connecting)
        on_connected(h);
    h2_leave(h);
}

static void socket_take(struct h2 *h, int fd)
{
    struct event_base *base = loop_base(h->loop);
    int one = 1;
    unsigned user_timeout_ms = h2_times.ping_wait_ms;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, sizeof user_timeout_ms);
    h->fd = fd;
    event_assign(&h->read_ev, base, fd, EV_READ | EV_PERSIST, on_readable, h);
    event_assign(&h->write_ev, base, fd, EV_WRITE, on_writable, h);
}

void h2_accept(struct h2 *h, int fd)
{
    socket_take(h, fd);
    h->started_ms = h->heard_ms = h->idle_since_ms = loop_now_ms(h->loop);
    loop_timer_set(&h->tick, h2_times.preface_ms);
    if (event_add(&h->read_ev, NULL) != 0)
        h2_fail(h, DFS_ENOMEM);
}

void h2_dial(struct h2 *h)
{
    h->dial_pending = false;
    h->started_ms = loop_now_ms(h->loop);
    loop_timer_set(&h->tick, h2_times.connect_ms);
    int fd = socket(h->to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd == -1) {
        h2_fail(h, rc_from_socket_errno(errno));
        return;
    }
    socket_take(h, fd);
    if (connect(fd, (struct sockaddr *)&h->to, h->to_len) == -1 && errno != EINPROGRESS) {
        h2_fail(h, rc_from_socket_errno(errno));
        return;
    }
    /* A socket that is connected already is writable at once, too. */
    want_write(h);
}

void h2_connect(struct h2 *h, const struct sockaddr_storage *to, socklen_t to_len, uint32_t delay_ms)
{
    h->to = *to;
    h->to_len = to_len;
    h->connecting = true;
    h->may_send = true;
    if (delay_ms == 0) {
        h2_dial(h);
        return;
    }
    h->dial_pending = true;
    loop_timer_set(&h->tick, delay_ms);
}

int h2_new(const struct h2_options *o, struct h2 **out)
{
    struct h2 *h = calloc(1, sizeof *h);
    if (h == NULL)
        return DFS_ENOMEM;
    h->loop = o->loop;
    h->server = o->server;
    h->ops = o->ops;
    h->arg = o->arg;
    h->fd = -1;
    int rc = h2_session_new(h, o->streams_max);
    if (rc != 0) {
        free(h);
        return rc;
    }
    event_assign(&h->touch_ev, loop_base(h->loop), -1, 0, on_touch, h);
    loop_timer_init(&h->tick, h->loop, h2_on_tick, h);
    *out = h;
    return 0;
}

void h2_free(struct h2 *h)
{
    if (h->freed)
        return;
    h->freed = true;
    socket_close(h);
    event_del(&h->touch_ev);
    loop_timer_release(&h->tick);
    if (h->depth == 0) {
        h->ops->on_settled(h->arg);
        destroy(h);
    }
}

nghttp2_session *h2_session(struct h2 *h)
{
    return h->session;
}

void h2_call_opened(struct h2 *h)
{
    h->calls++;
}

void h2_call_closed(struct h2 *h)
{
    CHECK(h->calls > 0);
    if (--h->calls == 0)
        h->idle_since_ms = loop_now_ms(h->loop);
}
