/* What arrives on a connection: heads, bodies, ends.
 *
 * Bytes are used where recv() put them, in the client's one read buffer.  Only an incomplete head and what follows a pause are
 * copied, into the connection's stash. */
#include <errno.h>
#include <stdlib.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/http_client_internal.h"

#define STASH_FIRST_BYTES 4096u

static void stash_drop(struct client_conn *conn)
{
    free(conn->stash);
    conn->stash = NULL;
    conn->stash_from = conn->stash_n = conn->stash_cap = 0;
}

/* Keeps what could not be used yet; `in` may be a part of the stash itself. */
static int stash_keep(struct client_conn *conn, struct bytes in)
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
static int stash_room(struct client_conn *conn)
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

void client_answer_begin(struct client_conn *conn)
{
    conn->body = BODY_HEAD;
    conn->answer_begun = conn->keep = conn->paused = conn->resumed = false;
    conn->interims = 0;
    conn->scanned = 0;
}

static void frame_body(struct client_conn *conn, const struct http_head *head)
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
static int take_head(struct client_conn *conn, struct bytes *in)
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
static int next_run(struct client_conn *conn, struct bytes *in, struct bytes *run)
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
static int give_run(struct client_conn *conn, struct bytes run)
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

/* The answer is complete; `leftover` bytes came behind it, which nobody asked for. */
static void conn_answered(struct client_conn *conn, size_t leftover)
{
    struct http_client *c = conn->client;
    struct http_call *call = conn->call;
    struct client_peer *peer = conn->peer;
    bool all_sent = call->sent_bytes == call->send_bytes && !conn->send_failed;

    if (conn->keep && leftover == 0 && all_sent && !c->closing) {
        client_conn_detach(conn);
        client_conn_idle(conn);
    } else {
        client_conn_close(conn);
    }
    client_call_finish(call, 0);
    client_peer_dispatch(peer);
}

/* Uses bytes that came as far as they go.  False: done here (answered, failed, paused, or closed by a callback). */
static bool conn_feed(struct client_conn *conn, struct bytes in)
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
        client_conn_fail(conn, rc);
        return false;
    }
    if (conn->paused)
        client_conn_want(&conn->read_event, &conn->reading, false);
    return !conn->paused;
}

/* The peer has closed (clean) or broken the connection. */
static void conn_ended(struct client_conn *conn, bool clean)
{
    struct http_call *call = conn->call;
    bool kept = conn->used;
    if (clean && conn->body == BODY_TO_CLOSE) {
        conn_answered(conn, 0);
        return;
    }
    if (conn->answer_begun) {
        client_conn_fail(conn, DFS_ECLOSED);
        return;
    }
    client_conn_close(conn);
    client_call_lost(call, kept);
}

/* One recv().  True when more may be waiting. */
static bool conn_read(struct client_conn *conn)
{
    char *at = conn->client->read_buf;
    size_t cap = CLIENT_READ_BYTES;
    if (conn->stash_n > 0) { /* the front of a head */
        int rc = stash_room(conn);
        if (rc != 0) {
            client_conn_fail(conn, rc);
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

void client_answer_readable(struct client_conn *conn)
{
    if (conn->resumed) {
        conn->resumed = false;
        if (!conn_feed(conn, conn->stash_n > 0 ? bytes_of(conn->stash + conn->stash_from, conn->stash_n) : BYTES_NONE))
            return;
    }
    for (unsigned i = 0; i < CLIENT_READS_PER_EVENT; i++)
        if (!conn_read(conn))
            return;
}
