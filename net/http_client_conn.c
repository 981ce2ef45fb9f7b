/* One connection: connect, send, close; what arrives is for http_client_answer.c.
 *
 * Callbacks may cancel their call, start others and so close or reuse this connection.  While a connection's own code runs
 * (depth > 0) it is never freed; after every callback `dead` and `call` are looked at again. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/http_client_internal.h"

static void on_event(evutil_socket_t fd, short what, void *arg);
static void on_timeout(struct wheel_node *node);

/* ---- memory, lists ---- */

static struct client_conn *conn_alloc(struct http_client *c)
{
    struct client_conn *conn = c->free_conns;
    if (conn != NULL) {
        c->free_conns = conn->next;
        c->free_conn_count--;
        memset(conn, 0, sizeof *conn);
    } else if ((conn = calloc(1, sizeof *conn)) == NULL) {
        return NULL;
    }
    conn->client = c;
    conn->fd = -1;
    conn->timeout.fn = on_timeout;
    return conn;
}

void client_conn_free(struct client_conn *conn)
{
    free(conn);
}

static void conn_recycle(struct client_conn *conn)
{
    struct http_client *c = conn->client;
    free(conn->stash);
    conn->stash = NULL;
    if (c->free_conn_count == CLIENT_FREE_CONNS_MAX) {
        client_conn_free(conn);
        return;
    }
    conn->next = c->free_conns;
    c->free_conns = conn;
    c->free_conn_count++;
}

void client_conn_idle(struct client_conn *conn)
{
    conn->prev = NULL;
    conn->next = conn->peer->idle;
    if (conn->next != NULL)
        conn->next->prev = conn;
    conn->peer->idle = conn;
    conn->state = CONN_IDLE;
    conn->used = true;
    wheel_set(&conn->client->wheel, &conn->timeout, conn->client->o.idle_timeout_ms);
}

static void idle_remove(struct client_conn *conn)
{
    if (conn->prev != NULL)
        conn->prev->next = conn->next;
    else
        conn->peer->idle = conn->next;
    if (conn->next != NULL)
        conn->next->prev = conn->prev;
    conn->next = conn->prev = NULL;
}

static void all_add(struct client_conn *conn)
{
    struct http_client *c = conn->client;
    conn->all_prev = NULL;
    conn->all_next = c->all_conns;
    if (conn->all_next != NULL)
        conn->all_next->all_prev = conn;
    c->all_conns = conn;
    conn->peer->conns++;
    c->stats.open++;
}

static void all_remove(struct client_conn *conn)
{
    if (conn->all_prev != NULL)
        conn->all_prev->all_next = conn->all_next;
    else
        conn->client->all_conns = conn->all_next;
    if (conn->all_next != NULL)
        conn->all_next->all_prev = conn->all_prev;
    conn->peer->conns--;
    conn->client->stats.open--;
}

/* ---- events ---- */

bool client_conn_want(struct event *ev, bool *added, bool on)
{
    if (*added == on)
        return true;
    if (on ? event_add(ev, NULL) != 0 : event_del(ev) != 0)
        return false;
    *added = on;
    return true;
}

void client_conn_detach(struct client_conn *conn)
{
    if (conn->call != NULL)
        conn->call->conn = NULL;
    conn->call = NULL;
}

void client_conn_close(struct client_conn *conn)
{
    CHECK(!conn->dead);
    client_conn_detach(conn);
    if (conn->state == CONN_IDLE)
        idle_remove(conn);
    client_conn_want(&conn->read_event, &conn->reading, false);
    client_conn_want(&conn->write_event, &conn->writing, false);
    event_del(&conn->read_event); /* also when it was only made active, to resume */
    wheel_cancel(&conn->client->wheel, &conn->timeout);
    all_remove(conn);
    close(conn->fd);
    conn->fd = -1;
    conn->dead = true;
    if (conn->depth == 0)
        conn_recycle(conn);
}

void client_conn_fail(struct client_conn *conn, int rc)
{
    struct http_call *call = conn->call;
    struct client_peer *peer = conn->peer;
    client_conn_close(conn);
    client_call_finish(call, rc);
    client_peer_dispatch(peer);
}

/* ---- sending ---- */

/* The unsent rest of the request; returns the number of pieces. */
static size_t send_iov(struct http_call *call, struct iovec *iov)
{
    uint64_t skip = call->sent_bytes;
    size_t n = 0;
    for (uint32_t i = 0; i <= call->piece_count && n < CLIENT_IOV_MAX; i++) {
        struct bytes b = i == 0 ? bytes_of(call->text, call->text_n) : call->pieces[i - 1];
        if (skip >= b.n) {
            skip -= b.n;
            continue;
        }
        iov[n++] = (struct iovec){(void *)(uintptr_t)(b.p + skip), b.n - (size_t)skip};
        skip = 0;
    }
    return n;
}

/* Sends what the socket takes.  An error is not an end yet: the peer may have answered (413) before it closed, and the read
 * side tells. */
static void conn_send(struct client_conn *conn)
{
    struct http_call *call = conn->call;
    bool blocked = false;
    while (call->sent_bytes < call->send_bytes && !blocked) {
        struct iovec iov[CLIENT_IOV_MAX];
        struct msghdr msg = {.msg_iov = iov};
        size_t asked = 0;
        msg.msg_iovlen = send_iov(call, iov);
        for (size_t i = 0; i < msg.msg_iovlen; i++)
            asked += iov[i].iov_len;
        ssize_t n = sendmsg(conn->fd, &msg, MSG_NOSIGNAL);
        if (n == -1 && errno == EINTR)
            continue;
        if (n == -1 && errno != EAGAIN && errno != EWOULDBLOCK) {
            conn->send_failed = true;
            break;
        }
        if (n > 0)
            call->sent_bytes += (uint64_t)n;
        blocked = n == -1 || (size_t)n < asked;
    }
    if (!client_conn_want(&conn->write_event, &conn->writing, blocked))
        conn->send_failed = true;
}

/* ---- a call on a connection ---- */

static void conn_begin(struct client_conn *conn)
{
    conn->state = CONN_BUSY;
    conn->send_failed = false;
    client_answer_begin(conn);
    if (!conn->call->timed && conn->client->o.stall_timeout_ms != 0) {
        conn->progress_ms = loop_now_ms(conn->client->o.loop);
        wheel_set(&conn->client->wheel, &conn->timeout, conn->client->o.stall_timeout_ms);
    }
    conn_send(conn);
}

static void conn_bind(struct client_conn *conn, struct http_call *call)
{
    conn->call = call;
    call->conn = conn;
    call->state = CALL_ON_CONN;
}

void client_conn_use(struct client_conn *conn, struct http_call *call)
{
    CHECK(conn->state == CONN_IDLE && conn->call == NULL);
    idle_remove(conn);
    wheel_cancel(&conn->client->wheel, &conn->timeout);
    conn->client->stats.reused++;
    conn_bind(conn, call);
    conn_begin(conn);
}

static int conn_connect(struct client_conn *conn)
{
    struct client_peer *peer = conn->peer;
    struct event_base *base = loop_base(conn->client->o.loop);
    int one = 1;

    conn->fd = socket(peer->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (conn->fd == -1)
        return DFS_EUNAVAILABLE;
    setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(conn->fd, (struct sockaddr *)&peer->sa, peer->sa_len) != 0 && errno != EINPROGRESS)
        return DFS_EUNAVAILABLE;
    event_assign(&conn->read_event, base, conn->fd, EV_READ | EV_PERSIST, on_event, conn);
    event_assign(&conn->write_event, base, conn->fd, EV_WRITE | EV_PERSIST, on_event, conn);
    return client_conn_want(&conn->write_event, &conn->writing, true) ? 0 : DFS_ENOMEM;
}

void client_conn_open(struct client_peer *peer, struct http_call *call)
{
    struct http_client *c = peer->client;
    struct client_conn *conn = conn_alloc(c);
    int rc;

    if (conn == NULL) {
        client_call_fail_later(call, DFS_ENOMEM);
        return;
    }
    conn->peer = peer;
    c->stats.connects++;
    rc = conn_connect(conn);
    if (rc != 0) {
        if (conn->fd != -1)
            close(conn->fd);
        conn_recycle(conn);
        client_call_fail_later(call, rc);
        return;
    }
    conn->state = CONN_CONNECTING;
    all_add(conn);
    conn_bind(conn, call);
    wheel_set(&c->wheel, &conn->timeout, c->o.connect_timeout_ms);
}

static void conn_connected(struct client_conn *conn)
{
    int err = 0;
    socklen_t len = sizeof err;
    if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0 || err != 0) {
        client_conn_fail(conn, DFS_EUNAVAILABLE);
        return;
    }
    wheel_cancel(&conn->client->wheel, &conn->timeout);
    client_conn_want(&conn->write_event, &conn->writing, false);
    if (!client_conn_want(&conn->read_event, &conn->reading, true)) {
        client_conn_fail(conn, DFS_ENOMEM);
        return;
    }
    conn_begin(conn);
}

/* Progress only notes the time; the timer is moved here, once a time-out, not with every byte. */
static void check_stall(struct client_conn *conn)
{
    struct http_client *c = conn->client;
    uint64_t now = loop_now_ms(c->o.loop), quiet = conn->paused ? 0 : now - conn->progress_ms;
    if (quiet >= c->o.stall_timeout_ms)
        client_conn_fail(conn, DFS_ETIMEOUT);
    else
        wheel_set(&c->wheel, &conn->timeout, c->o.stall_timeout_ms - quiet);
}

static void on_timeout(struct wheel_node *node)
{
    struct client_conn *conn = CONTAINER_OF(node, struct client_conn, timeout);
    switch (conn->state) {
    case CONN_IDLE:
        client_conn_close(conn);
        break;
    case CONN_CONNECTING:
        client_conn_fail(conn, DFS_EUNAVAILABLE);
        break;
    case CONN_BUSY:
        check_stall(conn);
        break;
    }
}

void client_conn_resume(struct client_conn *conn)
{
    conn->resume_seen = true;
    if (!conn->paused)
        return;
    conn->paused = false;
    conn->resumed = true;
    /* Should the event not be added, the call's deadline ends it. */
    client_conn_want(&conn->read_event, &conn->reading, true);
    event_active(&conn->read_event, EV_READ, 0);
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
    struct client_conn *conn = arg;
    (void)fd;
    conn->depth++;
    if (conn->state == CONN_BUSY && !conn->call->timed)
        conn->progress_ms = loop_now_ms(conn->client->o.loop);
    if (conn->state == CONN_CONNECTING)
        conn_connected(conn);
    else if (what & EV_WRITE)
        conn_send(conn);
    else if (conn->state == CONN_IDLE)
        client_conn_close(conn); /* closed by the peer, or bytes that nobody asked for */
    else
        client_answer_readable(conn);
    if (--conn->depth == 0 && conn->dead)
        conn_recycle(conn);
}
