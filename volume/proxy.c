/* A read whose volume is on another server, or whose record here is broken: fetched from a server that the master names, or the
 * client is sent there. */
#include "volume/read_op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "needle/err.h"
#include "net/ascii.h"
#include "net/log.h"
#include "net/rand.h"
#include "volume/relay.h"

#define PROXY_HEADERS_MAX 4096u

struct proxy {
    struct http_source src;
    struct relay relay;
    struct volume_lookup_wait wait;
    struct http_req *r;
    struct vs_loop *l;
    struct fid fid;
    enum proxy_reason why;
    bool redirect, held, headed;
    struct addr *left; /* servers not tried yet */
    uint32_t left_count;
};

static void try_next(struct proxy *p);

static void proxy_free(struct proxy *p)
{
    relay_release(&p->relay);
    free(p->left);
    free(p);
}

static void drop_hold(struct proxy *p)
{
    struct http_req *r = p->r;
    if (p->held) {
        p->held = false;
        http_req_drop(r);
    }
}

static void give_up(struct proxy *p)
{
    struct http_req *r = p->r;
    struct volume_server *s = p->l->server;
    if (!r->dead) {
        if (p->why == PROXY_BROKEN) {
            vs_reply_refused(r, 500, "corrupt", "this file is damaged here and no other replica answered");
        } else {
            server_metrics_event(&s->metrics, EVENT_GET_NOT_FOUND);
            vs_reply_begin(r, 404);
            http_reply_header(r, "X-Dfs-Reason", BYTES_LIT("volume"));
            http_reply_bytes(r, BYTES_NONE);
        }
    }
    bool held = p->held;
    proxy_free(p);
    if (held)
        http_req_drop(r);
}

/* ---- the relayed body ---- */
static int proxy_next(struct http_source *src, struct http_piece *out)
{
    struct proxy *p = (struct proxy *)((char *)src - offsetof(struct proxy, src));
    memset(out, 0, sizeof *out);
    int rc = relay_take(&p->relay, &out->mem);
    if (rc == DFS_EAGAIN && !p->held) {
        p->held = true;
        http_req_hold(p->r);
    }
    return rc;
}

static void proxy_source_free(struct http_source *src)
{
    struct proxy *p = (struct proxy *)((char *)src - offsetof(struct proxy, src));
    struct http_req *r = p->r;
    bool held = p->held;
    proxy_free(p);
    if (held)
        http_req_drop(r);
}

static void on_relay_ready(struct relay *y)
{
    struct proxy *p = (struct proxy *)((char *)y - offsetof(struct proxy, relay));
    struct http_req *r = p->r;
    bool held = p->held;
    p->held = false;
    http_source_ready(r);
    if (held)
        http_req_drop(r);
}

static bool passes(struct bytes name)
{
    static const char *const kept_back[] = {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server",
                                            "trailer", "upgrade", "x-content-type-options", "x-amz-request-id"};
    for (size_t i = 0; i < sizeof kept_back / sizeof kept_back[0]; i++)
        if (bytes_ieq(name, bytes_str(kept_back[i])))
            return false;
    return true;
}

static void on_relay_head(struct relay *y, const struct http_head *head)
{
    struct proxy *p = (struct proxy *)((char *)y - offsetof(struct proxy, relay));
    struct http_req *r = p->r;
    if (r->dead || (head->status >= 500 && p->left_count > 0)) {
        relay_refuse(y);
        return;
    }
    p->headed = true;
    http_reply_begin(r, head->status);
    for (uint32_t i = 0; i < head->header_count; i++) {
        char name[128];
        struct bytes n = head->headers[i].name;
        if (n.n >= sizeof name || !passes(n))
            continue;
        memcpy(name, n.p, n.n);
        name[n.n] = '\0';
        http_reply_header(r, name, head->headers[i].value);
    }
    if (p->why == PROXY_BROKEN)
        server_metrics_event(&p->l->server->metrics, EVENT_REPAIR_READ);
    bool bodiless = head->status == 204 || head->status == 304;
    p->src.next = proxy_next;
    p->src.free = proxy_source_free;
    uint64_t length = bodiless ? 0 : head->has_length ? head->content_length : HTTP_LENGTH_UNKNOWN;
    bool held = p->held;
    p->held = false;
    http_reply_source(r, &p->src, length); /* may free p */
    if (held)
        http_req_drop(r);
}

static void on_relay_failed(struct relay *y, int rc)
{
    struct proxy *p = (struct proxy *)((char *)y - offsetof(struct proxy, relay));
    (void)rc;
    volume_lookup_forget(p->l->lookup, p->fid.volume_id);
    if (p->r->dead)
        give_up(p);
    else
        try_next(p);
}

static size_t forward_header(char *at, size_t left, const struct http_head *h, const char *name)
{
    struct bytes v = http_header_get(h, name);
    if (v.p == NULL || v.n > left || left - v.n < strlen(name) + 5)
        return 0;
    return (size_t)snprintf(at, left, "%s: %.*s\r\n", name, (int)v.n, v.p);
}

static void try_next(struct proxy *p)
{
    static const char *const names[] = {"Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since",
                                        "If-Unmodified-Since", "Accept-Encoding", "Origin"};
    struct http_req *r = p->r;
    char headers[PROXY_HEADERS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        n += forward_header(headers + n, sizeof headers - n, &r->head, names[i]);
    size_t cap = r->head.path.n + r->head.query.n + 32;
    char *target = http_req_alloc(r, cap);
    while (target != NULL && p->left_count > 0) {
        struct addr addr = p->left[--p->left_count];
        int len = snprintf(target, cap, "%.*s?%.*s%sproxied=true", (int)r->head.path.n, r->head.path.p, (int)r->head.query.n,
                           r->head.query.p, r->head.query.n > 0 ? "&" : "");
        p->relay.on_head = on_relay_head;
        p->relay.on_failed = on_relay_failed;
        p->relay.on_ready = on_relay_ready;
        if (relay_start(&p->relay, p->l->client, &addr, bytes_of(target, (size_t)len), bytes_of(headers, n)) == 0)
            return;
    }
    give_up(p);
}

/* ---- where to ---- */
static void send_away(struct proxy *p, const struct volume_locations *at)
{
    struct http_req *r = p->r;
    struct volume_server *s = p->l->server;
    char fid[FID_TEXT_MAX];
    uint32_t first = rand_below(at->count);
    for (uint32_t i = 0; i < at->count; i++) {
        const struct volume_location *v = &at->v[(first + i) % at->count];
        if (strcmp(v->url, s->self_url) == 0)
            continue;
        fid_format(&p->fid, fid);
        const char *host = v->public_url[0] != '\0' ? v->public_url : v->url;
        vs_reply_begin(r, 301);
        http_reply_headerf(r, "Location", "http://%s/%s?%.*s%sproxied=true", host, fid, (int)r->head.query.n, r->head.query.p,
                           r->head.query.n > 0 ? "&" : "");
        http_reply_bytes(r, BYTES_NONE);
        drop_hold(p);
        proxy_free(p);
        return;
    }
    give_up(p);
}

static void fetch_away(struct proxy *p, const struct volume_locations *at)
{
    struct volume_server *s = p->l->server;
    p->left = calloc(at->count, sizeof *p->left);
    for (uint32_t i = 0; p->left != NULL && i < at->count; i++) {
        if (strcmp(at->v[i].url, s->self_url) == 0)
            continue;
        uint32_t j = rand_below(p->left_count + 1); /* a shuffle on the way in */
        p->left[p->left_count++] = p->left[j];
        p->left[j] = at->v[i].addr;
    }
    try_next(p);
}

static void on_locations(struct volume_lookup_wait *w, int rc, const struct volume_locations *at)
{
    struct proxy *p = w->arg;
    if (p->r->dead || rc != 0 || at->count == 0)
        give_up(p);
    else if (p->redirect)
        send_away(p, at);
    else
        fetch_away(p, at);
}

static void ask(struct read_op *op, const struct fid *fid, enum proxy_reason why, bool redirect)
{
    struct http_req *r = op->r;
    struct proxy *p = calloc(1, sizeof *p);
    const struct volume_locations *at;
    if (p == NULL) {
        read_op_release(op);
        vs_reply_error(r, 503, "out of memory");
        return;
    }
    p->r = r;
    p->l = op->l;
    p->fid = *fid;
    p->why = why;
    p->redirect = redirect;
    bool held = op->held; /* taken over */
    op->held = false;
    read_op_release(op);
    if (!held)
        http_req_hold(r);
    p->held = true;
    p->wait.done = on_locations;
    p->wait.arg = p;
    int rc = volume_lookup_get(p->l->lookup, fid->volume_id, &p->wait, &at);
    if (rc == 0)
        on_locations(&p->wait, 0, at);
    else if (rc != DFS_EAGAIN)
        give_up(p);
}

void proxy_answer(struct read_op *op, uint32_t volume_id, enum proxy_reason why)
{
    struct fid fid = op->nr.fid;
    fid.volume_id = volume_id;
    ask(op, &fid, why, false);
}

void redirect_answer(struct read_op *op, const struct fid *fid)
{
    ask(op, fid, PROXY_NOT_HERE, true);
}
