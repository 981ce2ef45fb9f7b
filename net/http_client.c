/* Calls, addresses, and who waits for whom. */
#include "net/http_client_internal.h"

#include <stdlib.h>

#include "needle/check.h"
#include "needle/err.h"

/* ---- lists of calls ---- */

static void list_push(struct http_call **first, struct http_call **last, struct http_call *call)
{
    call->next = NULL;
    call->prev = *last;
    if (*last != NULL)
        (*last)->next = call;
    else
        *first = call;
    *last = call;
}

static void list_remove(struct http_call **first, struct http_call **last, struct http_call *call)
{
    if (call->prev != NULL)
        call->prev->next = call->next;
    else
        *first = call->next;
    if (call->next != NULL)
        call->next->prev = call->prev;
    else
        *last = call->prev;
    call->next = call->prev = NULL;
}

static void line_push(struct client_peer *peer, struct http_call *call)
{
    call->state = CALL_IN_LINE;
    list_push(&peer->line_first, &peer->line_last, call);
    peer->client->waiting++;
}

/* Back to where it was. */
static void line_push_front(struct client_peer *peer, struct http_call *call)
{
    call->state = CALL_IN_LINE;
    call->prev = NULL;
    call->next = peer->line_first;
    if (call->next != NULL)
        call->next->prev = call;
    else
        peer->line_last = call;
    peer->line_first = call;
    peer->client->waiting++;
}

static void line_remove(struct http_call *call)
{
    list_remove(&call->peer->line_first, &call->peer->line_last, call);
    call->client->waiting--;
}

/* ---- memory of calls ---- */

static void on_deadline(struct wheel_node *node);
static void call_end(struct http_call *call, int rc);

static struct http_call *call_alloc(struct http_client *c)
{
    struct http_call *call = c->free_calls;
    if (call != NULL) {
        c->free_calls = call->next;
        c->free_call_count--;
        call->next = NULL;
        return call;
    }
    call = calloc(1, sizeof *call);
    if (call != NULL) {
        call->client = c;
        call->deadline.fn = on_deadline;
    }
    return call;
}

static void call_destroy(struct http_call *call)
{
    free(call->text);
    free(call);
}

static void call_free(struct http_call *call)
{
    struct http_client *c = call->client;
    if (call->pieces != call->inline_pieces)
        free(call->pieces);
    call->pieces = NULL;
    call->state = CALL_FREE;
    if (call->text_cap > CLIENT_KEPT_TEXT_BYTES) {
        free(call->text);
        call->text = NULL;
        call->text_cap = 0;
    }
    if (c->free_call_count == CLIENT_FREE_CALLS_MAX) {
        call_destroy(call);
        return;
    }
    call->next = c->free_calls;
    c->free_calls = call;
    c->free_call_count++;
}

/* ---- ends of calls ---- */

void client_call_finish(struct http_call *call, int rc)
{
    CHECK(call->conn == NULL);
    wheel_cancel(&call->client->wheel, &call->deadline);
    call->state = CALL_FREE; /* a cancel from inside on_done is a bug and found */
    call->ops->on_done(call->arg, call, rc, call->status);
    call_free(call);
}

static void on_failed_timer(void *arg)
{
    struct http_client *c = arg;
    uint32_t n = 0;
    /* As many as are here now: a call that on_done starts and that fails at once comes with the next step. */
    for (const struct http_call *call = c->failed_first; call != NULL; call = call->next)
        n++;
    while (n-- > 0 && c->failed_first != NULL)
        call_end(c->failed_first, c->failed_first->rc);
    if (c->failed_first != NULL && !loop_timer_pending(&c->failed_timer))
        loop_timer_set(&c->failed_timer, 0);
}

void client_call_fail_later(struct http_call *call, int rc)
{
    struct http_client *c = call->client;
    CHECK(call->conn == NULL);
    call->state = CALL_FAILED;
    call->rc = rc;
    list_push(&c->failed_first, &c->failed_last, call);
    if (!loop_timer_pending(&c->failed_timer))
        loop_timer_set(&c->failed_timer, 0);
}

/* Takes a call out of wherever it is.  A connection that carries it is closed: its answer must not meet another call. */
static void call_detach(struct http_call *call)
{
    struct http_client *c = call->client;
    switch (call->state) {
    case CALL_IN_LINE:
        line_remove(call);
        break;
    case CALL_FAILED:
        list_remove(&c->failed_first, &c->failed_last, call);
        break;
    case CALL_ON_CONN:
        client_conn_close(call->conn);
        break;
    case CALL_FREE:
        CHECK(!"a call that was freed");
    }
}

static void call_end(struct http_call *call, int rc)
{
    struct client_peer *peer = call->peer;
    call_detach(call);
    client_call_finish(call, rc);
    client_peer_dispatch(peer);
}

static void on_deadline(struct wheel_node *node)
{
    call_end(CONTAINER_OF(node, struct http_call, deadline), DFS_ETIMEOUT);
}

void http_call_cancel(struct http_call *call)
{
    call_end(call, DFS_ECANCELLED);
}

void http_call_resume(struct http_call *call)
{
    if (call->conn != NULL)
        client_conn_resume(call->conn);
}

/* ---- giving connections to calls ---- */

/* Whether a connection may be opened for a call, making room when an idle one stands in the way. */
static bool peer_has_room(struct client_peer *peer)
{
    if (peer->conns < peer->client->o.max_per_address)
        return true;
    if (peer->idle == NULL)
        return false;
    client_conn_close(peer->idle);
    return true;
}

static bool call_place(struct http_call *call)
{
    struct client_peer *peer = call->peer;
    if (!call->fresh && peer->idle != NULL) {
        client_conn_use(peer->idle, call);
        return true;
    }
    if (!peer_has_room(peer))
        return false;
    client_conn_open(peer, call);
    return true;
}

void client_peer_dispatch(struct client_peer *peer)
{
    struct http_call *call;
    if (peer->client->closing)
        return;
    while ((call = peer->line_first) != NULL) {
        line_remove(call);
        if (!call_place(call)) {
            line_push_front(peer, call);
            return;
        }
        /* It could not even begin to connect; the rest of the line goes on when it has been told, a few a step. */
        if (call->state == CALL_FAILED)
            return;
    }
}

void client_call_lost(struct http_call *call, bool conn_was_kept)
{
    bool harmless = call->method == HTTP_GET || call->method == HTTP_HEAD || !call->has_body;
    bool unsent = call->sent_bytes < call->send_bytes;
    struct client_peer *peer = call->peer;

    if (!conn_was_kept || call->retried || !(harmless || unsent) || call->client->closing) {
        client_call_finish(call, DFS_ECLOSED);
        client_peer_dispatch(peer);
        return;
    }
    call->retried = true;
    call->fresh = true;
    call->sent_bytes = 0;
    call->client->stats.retries++;
    /* The lost connection left room, so this finds its place. */
    if (!call_place(call))
        line_push(peer, call);
}

/* ---- addresses ---- */

static uint32_t addr_hash(const struct addr *a)
{
    uint32_t h = 2166136261u ^ a->port;
    for (const char *p = a->host; *p != '\0'; p++)
        h = (h ^ (unsigned char)*p) * 16777619u;
    return h % CLIENT_PEER_BUCKETS;
}

static bool addr_same(const struct addr *a, const struct addr *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

static int peer_get(struct http_client *c, const struct addr *addr, struct client_peer **out)
{
    struct client_peer *peer = c->last_peer;
    if (peer == NULL || !addr_same(&peer->addr, addr)) {
        struct client_peer **bucket = &c->buckets[addr_hash(addr)];
        for (peer = *bucket; peer != NULL && !addr_same(&peer->addr, addr); peer = peer->next)
            ;
        if (peer == NULL) {
            if (c->peer_count == CLIENT_PEERS_MAX)
                return DFS_EBUSY;
            peer = calloc(1, sizeof *peer);
            if (peer == NULL)
                return DFS_ENOMEM;
            peer->client = c;
            peer->addr = *addr;
            peer->host_n = addr_format(addr, peer->host_text);
            peer->known = addr->port != 0 && addr_numeric(addr->host, addr->port, &peer->sa, &peer->sa_len) == 0;
            peer->next = *bucket;
            *bucket = peer;
            c->peer_count++;
        }
        c->last_peer = peer;
    }
    *out = peer;
    return 0;
}

int http_client_resolve(struct http_client *c, const struct addr *addr)
{
    struct sockaddr_storage sa;
    socklen_t len;
    struct client_peer *peer;
    int rc = addr_resolve(addr, false, &sa, &len);
    if (rc != 0 || (rc = peer_get(c, addr, &peer)) != 0)
        return rc;
    peer->sa = sa;
    peer->sa_len = len;
    peer->known = true;
    return 0;
}

/* ---- the outside ---- */

int http_call_start(struct http_client *c, const struct http_call_request *req, struct http_call **out)
{
    struct client_peer *peer;
    int rc;

    if (c->closing)
        return DFS_ECANCELLED;
    if (!client_request_ok(req))
        return DFS_EINVAL;
    if ((rc = peer_get(c, req->addr, &peer)) != 0)
        return rc;
    if (!peer->known)
        return DFS_ENOTFOUND;
    struct http_call *call = call_alloc(c);
    if (call == NULL)
        return DFS_ENOMEM;
    call->peer = peer;
    call->conn = NULL;
    call->ops = req->ops;
    call->arg = req->arg;
    call->method = req->method;
    call->fresh = req->fresh_connection;
    call->timed = req->deadline_ms != 0;
    call->retried = false;
    call->status = 0;
    call->sent_bytes = 0;
    if ((rc = client_request_build(call, req)) != 0)
        goto fail;
    /* Those in line come first: a call that is started while one ends must not overtake them. */
    if (peer->line_first != NULL || !call_place(call)) {
        if (c->waiting >= c->o.max_waiting) {
            rc = DFS_EBUSY;
            goto fail;
        }
        line_push(peer, call);
    }
    if (req->deadline_ms != 0)
        wheel_set(&c->wheel, &call->deadline, req->deadline_ms);
    c->stats.calls++;
    if (out != NULL)
        *out = call;
    return 0;
fail:
    call_free(call);
    return rc;
}

/* ---- the client ---- */

void http_client_options_init(struct http_client_options *o)
{
    *o = (struct http_client_options){
        .connect_timeout_ms = 1000,
        .max_per_address = 64,
        .max_waiting = 65536,
        .idle_timeout_ms = 20000,
        .stall_timeout_ms = 60000,
    };
}

int http_client_new(const struct http_client_options *o, struct http_client **out)
{
    struct http_client *c = calloc(1, sizeof *c);
    if (c == NULL)
        return DFS_ENOMEM;
    c->read_buf = malloc(CLIENT_READ_BYTES);
    if (c->read_buf == NULL) {
        free(c);
        return DFS_ENOMEM;
    }
    CHECK(o->loop != NULL && o->max_per_address > 0);
    c->o = *o;
    wheel_init(&c->wheel, o->loop);
    loop_timer_init(&c->failed_timer, o->loop, on_failed_timer, c);
    *out = c;
    return 0;
}

struct http_client_stats http_client_stats(const struct http_client *c)
{
    struct http_client_stats s = c->stats;
    s.waiting = c->waiting;
    return s;
}

static void cancel_all(struct http_client *c)
{
    for (uint32_t i = 0; i < CLIENT_PEER_BUCKETS; i++)
        for (struct client_peer *peer = c->buckets[i]; peer != NULL; peer = peer->next)
            while (peer->line_first != NULL)
                call_end(peer->line_first, DFS_ECANCELLED);
    while (c->failed_first != NULL)
        call_end(c->failed_first, DFS_ECANCELLED);
    while (c->all_conns != NULL) {
        struct http_call *call = c->all_conns->call;
        if (call != NULL)
            call_end(call, DFS_ECANCELLED);
        else
            client_conn_close(c->all_conns);
    }
}

void http_client_free(struct http_client *c)
{
    if (c == NULL)
        return;
    c->closing = true;
    cancel_all(c);
    wheel_release(&c->wheel);
    loop_timer_release(&c->failed_timer);
    while (c->free_calls != NULL) {
        struct http_call *call = c->free_calls;
        c->free_calls = call->next;
        call_destroy(call);
    }
    while (c->free_conns != NULL) {
        struct client_conn *conn = c->free_conns;
        c->free_conns = conn->next;
        client_conn_free(conn);
    }
    for (uint32_t i = 0; i < CLIENT_PEER_BUCKETS; i++)
        while (c->buckets[i] != NULL) {
            struct client_peer *peer = c->buckets[i];
            c->buckets[i] = peer->next;
            free(peer);
        }
    free(c->read_buf);
    free(c);
}
