/* Calls to sister replicas: see replica_call.h. */
#include "volume/replica_call.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "needle/err.h"
#include "net/ascii.h"
#include "net/log.h"

#define BOUNDARY "dfs-replica-3f9b1c2e7a60d485"

/* ---- texts ---- */
size_t replica_target(const struct fid *fid, const struct needle *meta, bool is_delete, bool fsync, uint64_t stamp_ns,
                      bool explicit_ts, const struct needle_undo *undo, char out[REPLICA_TARGET_MAX])
{
    char id[FID_TEXT_MAX], ttl[TTL_TEXT_MAX];
    fid_format(fid, id);
    ttl_format(meta->ttl, ttl);
    int n = snprintf(out, REPLICA_TARGET_MAX, "/%s?type=replicate&ts_ns=%" PRIu64 "%s", id, stamp_ns, fsync ? "&fsync=true" : "");
    if (!is_delete)
        n += snprintf(out + n, REPLICA_TARGET_MAX - (size_t)n, "&ts=%" PRIu64 "&ttl=%s%s%s", meta->last_modified_s, ttl,
                      (meta->flags & NEEDLE_CHUNK_MANIFEST) != 0 ? "&cm=true" : "", explicit_ts ? "&ts_given=true" : "");
    for (uint32_t i = 0; undo != NULL && i < undo->count; i++)
        n += snprintf(out + n, REPLICA_TARGET_MAX - (size_t)n, "%s%" PRIu64, i == 0 ? "&undo_ns=" : ",", undo->stamps_ns[i]);
    if (undo != NULL && undo->of_delete)
        n += snprintf(out + n, REPLICA_TARGET_MAX - (size_t)n, "&undo_delete=true");
    return (size_t)n;
}

int replica_undo_parse(const struct http_params *p, struct needle_undo *out)
{
    struct bytes rest = http_params_get(p, "undo_ns"), one;

    memset(out, 0, sizeof *out);
    if (rest.n == 0)
        return 0;
    out->of_delete = http_params_bool(p, "undo_delete", false);
    while (bytes_split(&rest, ',', &one)) {
        if (out->count == NEEDLE_UNDO_STAMPS_MAX || !bytes_u64(one, &out->stamps_ns[out->count]))
            return DFS_EINVAL;
        out->count++;
    }
    return 0;
}

/* A quoted text as forms have it: only the quote and the backslash are escaped. */
static size_t quote(struct bytes in, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < in.n; i++) {
        if (in.p[i] == '"' || in.p[i] == '\\')
            out[n++] = '\\';
        out[n++] = in.p[i];
    }
    return n;
}

int replica_form(const struct needle *meta, char **head, char **tail)
{
    char name[2 * NEEDLE_NAME_MAX + 2], type[NEEDLE_MIME_MAX + 32] = "";
    struct bytes text = meta->name.n <= NEEDLE_NAME_MAX ? meta->name : BYTES_NONE;
    size_t n = quote(text, name);
    if (meta->mime.n > 0 && meta->mime.n <= NEEDLE_MIME_MAX)
        snprintf(type, sizeof type, "Content-Type: %.*s\r\n", (int)meta->mime.n, meta->mime.p);
    if (asprintf(head, "--" BOUNDARY "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"%.*s\"\r\n%s%s\r\n",
                 (int)n, name, type, (meta->flags & NEEDLE_COMPRESSED) != 0 ? "Content-Encoding: gzip\r\n" : "") < 0) {
        *head = NULL;
        return DFS_ENOMEM;
    }
    *tail = strdup("\r\n--" BOUNDARY "--\r\n");
    return *tail != NULL ? 0 : DFS_ENOMEM;
}

int replica_headers(const struct needle *meta, char **out)
{
    size_t cap = 256 + 4 * meta->pairs.n, n;
    char *text = malloc(cap);
    if (text == NULL)
        return DFS_ENOMEM;
    n = (size_t)snprintf(text, cap, "Content-Type: multipart/form-data; boundary=" BOUNDARY "\r\nX-Dfs-Flags: %02x\r\n",
                         meta->flags);
    json_t *doc = meta->pairs.n > 0 ? json_loadb(meta->pairs.p, meta->pairs.n, 0, NULL) : NULL;
    const char *key;
    json_t *value;
    json_object_foreach(doc, key, value) {
        const char *v = json_string_value(value);
        if (v == NULL || strpbrk(v, "\r\n") != NULL || strpbrk(key, "\r\n: ") != NULL)
            continue;
        int len = snprintf(text + n, cap - n, "Seaweed-%s: %s\r\n", key, v);
        if (len < 0 || (size_t)len >= cap - n)
            break;
        n += (size_t)len;
    }
    text[n] = '\0';
    json_decref(doc);
    *out = text;
    return 0;
}

/* ---- the bound on bodies that were read back ---- */
static _Atomic uint64_t spill_bytes;

bool replica_spill_take(uint64_t n)
{
    uint64_t before = atomic_fetch_add(&spill_bytes, n);
    if (before == 0 || before + n <= REPLICA_SPILL_BYTES_MAX)
        return true;
    atomic_fetch_sub(&spill_bytes, n);
    return false;
}

void replica_spill_give(uint64_t n)
{
    atomic_fetch_sub(&spill_bytes, n);
}

/* ---- a call ---- */
static int call_now(struct sister *s, bool fresh);

static void on_head(void *arg, struct http_call *call, const struct http_head *head)
{
    struct sister *s = arg;
    uint64_t ns;
    (void)call;
    if (bytes_u64(http_header_get(head, "X-Dfs-Last-Ns"), &ns))
        s->last_ns = ns;
    if (head->status >= 400 && bytes_eq(http_header_get(head, "X-Dfs-Reason"), BYTES_LIT("stale")))
        s->rc = DFS_ESTALE;
}

static int on_body(void *arg, struct http_call *call, struct bytes in)
{
    struct sister *s = arg;
    (void)call;
    size_t room = sizeof s->error - 1 - s->error_len, n = in.n < room ? in.n : room;
    memcpy(s->error + s->error_len, in.p, n);
    s->error_len += n;
    s->error[s->error_len] = '\0';
    return 0;
}

static bool answered_fine(const struct sister *s, int status)
{
    if (s->method == HTTP_DELETE)
        return status == 200 || status == 202 || status == 404;
    return status == 200 || status == 201 || status == 204;
}

static void on_done(void *arg, struct http_call *call, int rc, int status)
{
    struct sister *s = arg;
    (void)call;
    s->call = NULL;
    if (rc == DFS_ECLOSED && !s->retried) { /* a kept connection that had ended */
        s->retried = true;
        if (call_now(s, true) == 0)
            return;
    }
    if (rc != 0) {
        s->rc = rc;
        s->error[0] = '\0';
    } else if (answered_fine(s, status)) {
        s->rc = 0;
    } else if (s->rc != DFS_ESTALE) {
        s->rc = DFS_EIO;
        s->refused = true;
        if (s->error_len == 0)
            snprintf(s->error, sizeof s->error, "answered %d", status);
    }
    s->done(s);
}

static const struct http_call_ops call_ops = {on_head, on_body, on_done};

static int call_now(struct sister *s, bool fresh)
{
    s->rc = 0;
    s->refused = false;
    s->error_len = 0;
    s->error[0] = '\0';
    struct http_call_request req = {
        .addr = &s->addr,
        .method = s->method,
        .target = bytes_of(s->target, s->target_len),
        .headers = bytes_str(s->headers),
        .body = s->pieces,
        .body_count = s->piece_count,
        .deadline_ms = s->deadline_ms,
        .fresh_connection = fresh,
        .ops = &call_ops,
        .arg = s,
    };
    return http_call_start(s->l->client, &req, &s->call);
}

void sister_init(struct sister *s, struct replicated_write *owner, const struct volume_location *at)
{
    s->owner = owner;
    s->addr = at->addr;
    memcpy(s->url, at->url, sizeof s->url);
}

int sister_start(struct sister *s, struct vs_loop *l, enum http_method method, struct bytes target, const struct needle *meta,
                 const struct bytes *pieces, uint32_t piece_count, uint32_t deadline_ms, void (*done)(struct sister *s))
{
    s->l = l;
    s->method = method;
    s->done = done;
    s->retried = false;
    s->pieces = pieces;
    s->piece_count = piece_count;
    s->deadline_ms = deadline_ms;
    s->target_len = target.n < sizeof s->target ? target.n : sizeof s->target;
    memcpy(s->target, target.p, s->target_len);
    if (meta != NULL && s->headers == NULL) {
        int rc = replica_headers(meta, &s->headers);
        if (rc != 0)
            return rc;
    }
    return call_now(s, false);
}

void sister_release(struct sister *s)
{
    free(s->headers);
    s->headers = NULL;
}

/* ---- undos ---- */
struct undo {
    struct sister sister; /* first: done() finds its undo */
    struct undo_queue *queue;
    struct undo *next;
    struct loop_timer timer;
    struct bytes pieces[3];
    char *head, *tail, *data;
    uint32_t tries;
    uint32_t confirms; /* said so often more: what is undone may still be on its way */
};
struct undo_queue {
    struct vs_loop *l;
    struct undo *first;
    uint32_t count;
};

int undo_queue_new(struct vs_loop *l, struct undo_queue **out)
{
    struct undo_queue *q = calloc(1, sizeof *q);
    if (q == NULL)
        return DFS_ENOMEM;
    q->l = l;
    *out = q;
    return 0;
}

static void undo_free(struct undo *u)
{
    loop_timer_release(&u->timer);
    sister_release(&u->sister);
    free(u->head);
    free(u->tail);
    free(u->data);
    free(u);
}

static void undo_remove(struct undo *u)
{
    struct undo **at = &u->queue->first;
    while (*at != u)
        at = &(*at)->next;
    *at = u->next;
    u->queue->count--;
    undo_free(u);
}

void undo_queue_free(struct undo_queue *q)
{
    if (q == NULL)
        return;
    while (q->first != NULL)
        undo_remove(q->first);
    free(q);
}

static void undo_again(struct undo *u);

static void undo_done(struct sister *s)
{
    struct undo *u = (struct undo *)s;
    if (s->rc == 0 || s->rc == DFS_ESTALE) { /* stale: something newer is there, which wins */
        if (u->confirms == 0 || s->rc == DFS_ESTALE || atomic_load(&u->queue->l->server->stopping)) {
            undo_remove(u);
        } else {
            u->confirms--;
            loop_timer_set(&u->timer, UNDO_CONFIRM_MS);
        }
        return;
    }
    undo_again(u);
}

static void undo_try(void *arg)
{
    struct undo *u = arg;
    u->tries++;
    if (call_now(&u->sister, u->tries > 1) != 0)
        undo_again(u);
}

static void undo_again(struct undo *u)
{
    struct volume_server *s = u->queue->l->server;
    if (u->tries >= UNDO_TRIES_MAX || atomic_load(&s->stopping)) {
        server_metrics_event(&s->metrics, EVENT_UNDO_LOST);
        log_error("replica at %s did not take back '%.*s': replicas differ until repaired", u->sister.addr.host,
                  (int)u->sister.target_len, u->sister.target);
        undo_remove(u);
        return;
    }
    loop_timer_set(&u->timer, 250ull << (u->tries < 9 ? u->tries : 9));
}

void undo_queue_add(struct undo_queue *q, const struct addr *addr, struct bytes target, const struct needle *meta,
                    struct bytes data, bool in_doubt)
{
    struct undo *u = q->count < UNDO_QUEUE_MAX ? calloc(1, sizeof *u) : NULL;
    if (u == NULL)
        goto lost;
    u->queue = q;
    u->confirms = in_doubt ? UNDO_CONFIRMS : 0;
    u->sister.addr = *addr;
    u->sister.l = q->l;
    u->sister.done = undo_done;
    u->sister.method = meta != NULL ? HTTP_POST : HTTP_DELETE;
    u->sister.deadline_ms = REPLICA_DEADLINE_MS;
    u->sister.target_len = target.n < REPLICA_TARGET_MAX ? target.n : REPLICA_TARGET_MAX;
    memcpy(u->sister.target, target.p, u->sister.target_len);
    loop_timer_init(&u->timer, q->l->loop, undo_try, u);
    if (meta != NULL) {
        u->data = malloc(data.n + 1);
        if (u->data == NULL || replica_form(meta, &u->head, &u->tail) != 0 || replica_headers(meta, &u->sister.headers) != 0) {
            undo_free(u);
            goto lost;
        }
        if (data.n > 0)
            memcpy(u->data, data.p, data.n);
        u->pieces[0] = bytes_str(u->head);
        u->pieces[1] = bytes_of(u->data, data.n);
        u->pieces[2] = bytes_str(u->tail);
        u->sister.pieces = u->pieces;
        u->sister.piece_count = 3;
    }
    u->next = q->first;
    q->first = u;
    q->count++;
    undo_try(u);
    return;
lost:
    server_metrics_event(&q->l->server->metrics, EVENT_UNDO_LOST);
    log_error("no room to remember the undo of '%.*s'", (int)target.n, target.p);
}
