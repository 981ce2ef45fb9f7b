/* One connection: connect, send, and what arrives.
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

#define STASH_FIRST_BYTES 4096u

static void on_event(evutil_socket_t fd, short what, void *arg);
static void on_timeout(struct wheel_node *node);

/* ---- memory, lists ---- */

static struct http_conn_out *conn_alloc(struct http_client *c)
{
    struct http_conn_out *conn = c->free_conns;
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

void conn_free(struct http_conn_out *conn)
{
    free(conn);
}

static void conn_recycle(struct http_conn_out *conn)
{
    struct http_client *c = conn->client;
    free(conn->stash);
    conn->stash = NULL;
    if (c->free_conn_count == CLIENT_FREE_CONNS_MAX) {
        conn_free(conn);
        return;
    }
    conn->next = c->free_conns;
    c->free_conns = conn;
    c->free_conn_count++;
}

static void idle_push(struct http_conn_out *conn)
{
    conn->prev = NULL;
    conn->next = conn->peer->idle;
    if (conn->next != NULL)
        conn->next->prev = conn;
    conn->peer->idle = conn;
    conn->state = CONN_IDLE;
}

static void idle_remove(struct http_conn_out *conn)
{
    if (conn->prev != NULL)
        conn->prev->next = conn->next;
    else
        conn->peer->idle = conn->next;
    if (conn->next != NULL)
        conn->next->prev = conn->prev;
    conn->next = conn->prev = NULL;
}

static void all_add(struct http_conn_out *conn)
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

static void all_remove(struct http_conn_out *conn)
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

/* False when the event could not be added: no memory for it. */
static bool want(struct event *ev, bool *added, bool on)
{
    if (*added == on)
        return true;
    if (on ? event_add(ev, NULL) != 0 : event_del(ev) != 0)
        return false;
    *added = on;
    return true;
}

static void conn_detach(struct http_conn_out *conn)
{
    if (conn->call != NULL)
        conn->call->conn = NULL;
    conn->call = NULL;
}

void conn_close(struct http_conn_out *conn)
{
    CHECK(!conn->dead);
    conn_detach(conn);
    if (conn->state == CONN_IDLE)
        idle_remove(conn);
    want(&conn->read_event, &conn->reading, false);
    want(&conn->write_event, &conn->writing, false);
    event_del(&conn->read_event); /* also when it was only made active, to resume */
    wheel_cancel(&conn->client->wheel, &conn->timeout);
    all_remove(conn);
    close(conn->fd);
    conn->fd = -1;
    conn->dead = true;
    if (conn->depth == 0)
        conn_recycle(conn);
}

/* The call ends with a code, and the connection with it. */
static void conn_fail(struct http_conn_out *conn, int rc)
{
    struct http_call *call = conn->call;
    struct http_peer *peer = conn->peer;
    conn_close(conn);
    call_finish(call, rc);
    peer_dispatch(peer);
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
static void conn_send(struct http_conn_out *conn)
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
    if (!want(&conn->write_event, &conn->writing, blocked))
        conn->send_failed = true;
}

/* ---- a call on a connection ---- */

static void conn_begin(struct http_conn_out *conn)
{
    conn->state = CONN_BUSY;
    conn->body = BODY_HEAD;
    conn->answer_begun = conn->keep = conn->paused = conn->resumed = conn->send_failed = false;
    conn->interims = 0;
    conn->scanned = 0;
    conn_send(conn);
}

static void conn_bind(struct http_conn_out *conn, struct http_call *call)
{
    conn->call = call;
    call->conn = conn;
    call->state = CALL_ON_CONN;
}

void conn_use(struct http_conn_out *conn, struct http_call *call)
{
    CHECK(conn->state == CONN_IDLE && conn->call == NULL);
    idle_remove(conn);
    wheel_cancel(&conn->client->wheel, &conn->timeout);
    conn->client->stats.reused++;
    conn_bind(conn, call);
    conn_begin(conn);
}

static int conn_connect(struct http_conn_out *conn)
{
    struct http_peer *peer = conn->peer;
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
    return want(&conn->write_event, &conn->writing, true) ? 0 : DFS_ENOMEM;
}

void conn_open(struct http_peer *peer, struct http_call *call)
{
    struct http_client *c = peer->client;
    struct http_conn_out *conn = conn_alloc(c);
    int rc;

    if (conn == NULL) {
        call_fail_later(call, DFS_ENOMEM);
        return;
    }
    conn->peer = peer;
    c->stats.connects++;
    rc = conn_connect(conn);
    if (rc != 0) {
        if (conn->fd != -1)
            close(conn->fd);
        conn_recycle(conn);
        call_fail_later(call, rc);
        return;
    }
    conn->state = CONN_CONNECTING;
    all_add(conn);
    conn_bind(conn, call);
    wheel_set(&c->wheel, &conn->timeout, c->o.connect_timeout_ms);
}

static void conn_connected(struct http_conn_out *conn)
{
    int err = 0;
    socklen_t len = sizeof err;
    if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0 || err != 0) {
        conn_fail(conn, DFS_EUNAVAILABLE);
        return;
    }
    wheel_cancel(&conn->client->wheel, &conn->timeout);
    want(&conn->write_event, &conn->writing, false);
    if (!want(&conn->read_event, &conn->reading, true)) {
        conn_fail(conn, DFS_ENOMEM);
        return;
    }
    conn_begin(conn);
}

static void on_timeout(struct wheel_node *node)
{
    struct http_conn_out *conn = CONTAINER_OF(node, struct http_conn_out, timeout);
    if (conn->state == CONN_IDLE)
        conn_close(conn);
    else
        conn_fail(conn, DFS_EUNAVAILABLE);
}

/* The answer is complete; `leftover` bytes came behind it, which nobody asked for. */
static void conn_answered(struct http_conn_out *conn, size_t leftover)
{
    struct http_client *c = conn->client;
    struct http_call *call = conn->call;
    struct http_peer *peer = conn->peer;
    bool all_sent = call->sent_bytes == call->send_bytes && !conn->send_failed;

    if (conn->keep && leftover == 0 && all_sent && !c->closing) {
        conn_detach(conn);
        conn->used = true;
        idle_push(conn);
        wheel_set(&c->wheel, &conn->timeout, c->o.idle_timeout_ms);
    } else {
        conn_close(conn);
    }
    call_finish(call, 0);
    peer_dispatch(peer);
}

/* ---- what arrives ---- */

static void stash_drop(struct http_conn_out *conn)
{
    free(conn->stash);
    conn->stash = NULL;
    conn->stash_from = conn->stash_n = conn->stash_cap = 0;
}

/* Keeps what could not be used yet; `in` may be a part of the stash itself. */
static int stash_keep(struct http_conn_out *conn, struct bytes in)
{
    if (in.n == 0) {
        stash_drop(conn);
        return 0;
    }
    if (conn->stash != NULL && in.p >= conn->stash && in.p < conn->stash + conn->stash_cap) {
        conn->stash_from = (size_t)(in.p - conn->stash);
        conn->stash_n = in.n;
        return 0;
    }
    CHECK(conn->stash == NULL);
    size_t cap = in.n > STASH_FIRST_BYTES ? in.n : STASH_FIRST_BYTES;
    conn->stash = malloc(cap);
    if (conn->stash == NULL)
        return DFS_ENOMEM;
    memcpy(conn->stash, in.p, in.n);
    conn->stash_cap = cap;
    conn->stash_n = in.n;
    return 0;
}

/* Room behind an incomplete head. */
static int stash_room(struct http_conn_out *conn)
{
    if (conn->stash_from > 0) {
        memmove(conn->stash, conn->stash + conn->stash_from, conn->stash_n);
        conn->stash_from = 0;
    }
    if (conn->stash_n < conn->stash_cap)
        return 0;
    /* The parser refuses a head that fills HTTP_HEAD_MAX without an end, so this stays small. */
    char *p = realloc(conn->stash, conn->stash_cap * 2);
    if (p == NULL)
        return DFS_ENOMEM;
    conn->stash = p;
    conn->stash_cap *= 2;
    return 0;
}

static void frame_body(struct http_conn_out *conn, const struct http_head *head)
{
    conn->keep = head->keep_alive;
    if (conn->call->method == HTTP_HEAD || head->status == 204 || head->status == 304) {
        conn->body = BODY_NONE;
    } else if (head->chunked) {
        conn->body = BODY_CHUNKED;
        http_chunked_init(&conn->chunked);
    } else if (head->has_length) {
        conn->body = head->content_length > 0 ? BODY_LENGTH : BODY_NONE;
        conn->body_left = head->content_length;
    } else {
        conn->body = BODY_TO_CLOSE;
        conn->keep = false;
    }
}

/* 0, DFS_ESHORT (more bytes needed), or what the call fails with.  May have called back. */
static int take_head(struct http_conn_out *conn, struct bytes *in)
{
    struct http_head head;
    struct http_call *call = conn->call;
    int rc = http_parse_response(*in, &conn->scanned, &head);
    if (rc != 0)
        return rc;
    conn->scanned = 0;
    *in = bytes_of(in->p + head.head_bytes, in->n - head.head_bytes);
    if (head.status < 200)
        return head.status == 101 || ++conn->interims > CLIENT_INTERIM_MAX ? DFS_EPROTO : 0;
    call->status = head.status;
    frame_body(conn, &head);
    if (call->ops->on_head != NULL)
        call->ops->on_head(call->arg, call, &head);
    return 0;
}

/* The next run of body bytes off the front of *in.  0, or what the call fails with. */
static int next_run(struct http_conn_out *conn, struct bytes *in, struct bytes *run)
{
    size_t used = in->n;
    *run = *in;
    if (conn->body == BODY_LENGTH) {
        if (used > conn->body_left)
            used = (size_t)conn->body_left;
        run->n = used;
        conn->body_left -= used;
        if (conn->body_left == 0)
            conn->body = BODY_NONE;
    } else if (conn->body == BODY_CHUNKED) {
        int rc = http_chunked_feed(&conn->chunked, *in, run, &used);
        if (rc < 0)
            return rc;
        if (rc == 1)
            conn->body = BODY_NONE;
    }
    *in = bytes_of(in->p + used, in->n - used);
    return 0;
}

/* Hands a run out.  0, or what the call fails with; a pause shows in conn->paused. */
static int give_run(struct http_conn_out *conn, struct bytes run)
{
    struct http_call *call = conn->call;
    if (run.n == 0 || call->ops->on_body == NULL)
        return 0;
    conn->resume_seen = false;
    int rc = call->ops->on_body(call->arg, call, run);
    if (rc != DFS_EAGAIN)
        return rc < 0 ? rc : 0;
    if (!conn->dead)
        conn->paused = !conn->resume_seen;
    return 0;
}

/* Uses bytes that came as far as they go.  False: done here (answered, failed, paused, or closed by a callback). */
static bool conn_feed(struct http_conn_out *conn, struct bytes in)
{
    struct http_call *call = conn->call;
    struct bytes run;
    int rc = 0;

    for (;;) {
        if (conn->body == BODY_HEAD) {
            rc = take_head(conn, &in);
            if (rc == DFS_ESHORT)
                break;
        } else if (conn->body == BODY_NONE) {
            stash_drop(conn);
            conn_answered(conn, in.n);
            return false;
        } else if (in.n == 0) {
            break;
        } else {
            rc = next_run(conn, &in, &run);
            if (rc == 0)
                rc = give_run(conn, run);
        }
        if (conn->dead || conn->call != call)
            return false;
        if (rc != 0 || conn->paused)
            break;
    }
    if (rc == 0 || rc == DFS_ESHORT)
        rc = stash_keep(conn, in);
    if (rc != 0) {
        conn_fail(conn, rc);
        return false;
    }
    if (conn->paused)
        want(&conn->read_event, &conn->reading, false);
    return !conn->paused;
}

/* The peer has closed (clean) or broken the connection. */
static void conn_ended(struct http_conn_out *conn, bool clean)
{
    struct http_call *call = conn->call;
    bool kept = conn->used;
    if (clean && conn->body == BODY_TO_CLOSE) {
        conn_answered(conn, 0);
        return;
    }
    if (conn->answer_begun) {
        conn_fail(conn, DFS_ECLOSED);
        return;
    }
    conn_close(conn);
    call_lost(call, kept);
}

/* One recv().  True when more may be waiting. */
static bool conn_read(struct http_conn_out *conn)
{
    char *at = conn->client->read_buf;
    size_t cap = CLIENT_READ_BYTES;
    if (conn->stash_n > 0) { /* the front of a head */
        int rc = stash_room(conn);
        if (rc != 0) {
            conn_fail(conn, rc);
            return false;
        }
        at = conn->stash + conn->stash_n;
        cap = conn->stash_cap - conn->stash_n;
    }
    ssize_t n = recv(conn->fd, at, cap, 0);
    if (n == -1 && errno == EINTR)
        return true;
    if (n == -1 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return false;
    if (n <= 0) {
        conn_ended(conn, n == 0);
        return false;
    }
    conn->answer_begun = true;
    struct bytes in = bytes_of(at, (size_t)n);
    if (conn->stash_n > 0) {
        conn->stash_n += (size_t)n;
        in = bytes_of(conn->stash, conn->stash_n);
    }
    return conn_feed(conn, in) && (size_t)n == cap;
}

static void conn_readable(struct http_conn_out *conn)
{
    if (conn->state == CONN_IDLE) { /* closed, or bytes that nobody asked for */
        conn_close(conn);
        return;
    }
    if (conn->resumed) {
        conn->resumed = false;
        if (!conn_feed(conn, conn->stash_n > 0 ? bytes_of(conn->stash + conn->stash_from, conn->stash_n) : BYTES_NONE))
            return;
    }
    for (unsigned i = 0; i < CLIENT_READS_PER_EVENT; i++)
        if (!conn_read(conn))
            return;
}

void conn_resume(struct http_conn_out *conn)
{
    conn->resume_seen = true;
    if (!conn->paused)
        return;
    conn->paused = false;
    conn->resumed = true;
    /* Should the event not be added, the call's deadline ends it. */
    want(&conn->read_event, &conn->reading, true);
    event_active(&conn->read_event, EV_READ, 0);
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
    struct http_conn_out *conn = arg;
    (void)fd;
    conn->depth++;
    if (conn->state == CONN_CONNECTING)
        conn_connected(conn);
    else if (what & EV_WRITE)
        conn_send(conn);
    else
        conn_readable(conn);
    if (--conn->depth == 0 && conn->dead)
        conn_recycle(conn);
}
