/* The daemon's front desk: which request goes where, what every answer carries, and how failures are said. */
#include "volume/handlers.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "needle/err.h"
#include "net/ascii.h"
#include "net/clock.h"

#define ERROR_TEXT_MAX 1024u

uint64_t vs_stamp(struct volume_server *s)
{
    uint64_t now = clock_wall_ns();
    uint64_t last = atomic_load_explicit(&s->last_stamp_ns, memory_order_relaxed);
    uint64_t next;
    do {
        next = now > last ? now : last + 1;
    } while (!atomic_compare_exchange_weak_explicit(&s->last_stamp_ns, &last, next, memory_order_relaxed, memory_order_relaxed));
    return next;
}

void vs_stamp_seen(struct volume_server *s, uint64_t ns)
{
    uint64_t last = atomic_load_explicit(&s->last_stamp_ns, memory_order_relaxed);
    while (last < ns &&
           !atomic_compare_exchange_weak_explicit(&s->last_stamp_ns, &last, ns, memory_order_relaxed, memory_order_relaxed)) {
    }
}

struct bytes vs_keep(struct http_req *r, struct bytes b)
{
    char *p = http_req_alloc(r, b.n + 1);
    if (p == NULL)
        return BYTES_NONE;
    if (b.n > 0)
        memcpy(p, b.p, b.n);
    return bytes_of(p, b.n);
}

/* Path without escapes, in the request's memory.  On failure the request has been answered. */
static int vs_path(struct http_req *r, struct bytes *path)
{
    struct bytes raw = r->head.path;
    if (raw.n > VS_PATH_MAX) {
        vs_reply_error(r, 414, "path is longer than %u bytes", VS_PATH_MAX);
        return DFS_ETOOBIG;
    }
    if (memchr(raw.p, '%', raw.n) == NULL) {
        *path = raw;
        return 0;
    }
    char *out = http_req_alloc(r, raw.n + 1);
    size_t n;
    if (out == NULL || http_percent_decode(raw, false, out, &n) != 0) {
        vs_reply_error(r, 400, "bad escape in the path");
        return DFS_EINVAL;
    }
    *path = bytes_of(out, n);
    return 0;
}

int vs_params(struct http_req *r, struct http_params **params)
{
    *params = NULL;
    if (r->head.query.n == 0)
        return 0;
    struct http_params *p = http_req_alloc(r, sizeof *p);
    if (p == NULL) {
        vs_reply_error(r, 503, "out of memory");
        return DFS_ENOMEM;
    }
    http_params_init(p);
    int rc = http_params_parse(p, r->head.query);
    if (rc != 0) {
        http_params_release(p);
        vs_reply_error(r, rc == DFS_ENOMEM ? 503 : 400, "bad query: %s", dfs_err_text(rc));
        return rc;
    }
    *params = p;
    return 0;
}

/* ---- replies ---- */
void vs_reply_begin(struct http_req *r, int status)
{
    http_reply_begin(r, status);
    if (http_header_get(&r->head, "Origin").p != NULL) {
        http_reply_header(r, "Access-Control-Allow-Origin", BYTES_LIT("*"));
        http_reply_header(r, "Access-Control-Allow-Credentials", BYTES_LIT("true"));
        http_reply_header(r, "Access-Control-Expose-Headers", BYTES_LIT("*"));
    }
}

void vs_reply_empty(struct http_req *r, int status)
{
    vs_reply_begin(r, status);
    http_reply_bytes(r, BYTES_NONE);
}

void vs_reply_json(struct http_req *r, int status, struct bytes json)
{
    vs_reply_begin(r, status);
    http_reply_header(r, "Content-Type", BYTES_LIT("application/json"));
    http_reply_bytes(r, json);
}

__attribute__((format(printf, 4, 0)))
static void reply_refused_v(struct http_req *r, int status, const char *reason, const char *fmt, va_list ap)
{
    char text[ERROR_TEXT_MAX];
    int n = vsnprintf(text, sizeof text, fmt, ap);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    vs_reply_begin(r, status);
    if (reason != NULL)
        http_reply_header(r, "X-Dfs-Reason", bytes_str(reason));
    if (status == 429 || status == 503)
        http_reply_header(r, "Retry-After", BYTES_LIT("1"));
    http_reply_error_body(r, bytes_of(text, len));
}

void vs_reply_error(struct http_req *r, int status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    reply_refused_v(r, status, NULL, fmt, ap);
    va_end(ap);
}

void vs_reply_refused(struct http_req *r, int status, const char *reason, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    reply_refused_v(r, status, reason, fmt, ap);
    va_end(ap);
}

int vs_write_status(int rc, const char **reason)
{
    const char *dummy;
    if (reason == NULL)
        reason = &dummy;
    *reason = NULL;
    switch (rc) {
    case DFS_ENOVOLUME:
        *reason = "volume";
        return 404;
    case DFS_ENOTFOUND:
        *reason = "needle";
        return 404;
    case DFS_ECOOKIE:
        *reason = "cookie";
        return 403;
    case DFS_ELOADING:
        *reason = "loading";
        return 503;
    case DFS_EREADONLY:
        *reason = "readonly";
        return 409;
    case DFS_ESTALE:
        *reason = "stale";
        return 409;
    case DFS_EFULL:
        *reason = "full";
        return 507;
    case DFS_ENOSPC:
        *reason = "space";
        return 507;
    case DFS_ETOOBIG:
        return 413;
    case DFS_EBUSY:
    case DFS_EAGAIN:
    case DFS_ENOMEM:
    case DFS_ENOFILES:
    case DFS_EUNAVAILABLE:
    case DFS_ECANCELLED:
        return 503;
    default:
        return 500;
    }
}

void vs_write_failed_text(struct volume_server *s, uint32_t volume_id, int rc, char *out, size_t cap)
{
    struct volume *v = store_get(s->store, volume_id);
    struct volume_info info;
    memset(&info, 0, sizeof info);
    if (v != NULL) {
        volume_info_get(v, &info);
        volume_unref(v);
    }
    switch (rc) {
    case DFS_ENOVOLUME:
        snprintf(out, cap, "volume %u not found on %s", volume_id, s->self_url);
        return;
    case DFS_ELOADING:
        snprintf(out, cap, "volume %u is still loading", volume_id);
        return;
    case DFS_EREADONLY:
        snprintf(out, cap, "volume %u is read only%s%s", volume_id, info.reason[0] != '\0' ? ": " : "", info.reason);
        return;
    case DFS_EFULL:
        if (info.dat_bytes < store_size_limit(s->store) && info.reason[0] != '\0')
            snprintf(out, cap, "volume %u is full: %s", volume_id, info.reason);
        else
            snprintf(out, cap, "volume %u is full: %" PRIu64 " of %" PRIu64 " bytes", volume_id, info.dat_bytes,
                     store_size_limit(s->store));
        return;
    case DFS_ENOSPC: {
        struct location_info loc;
        memset(&loc, 0, sizeof loc);
        if (v != NULL && info.location_index < store_location_count(s->store))
            store_location_info(s->store, info.location_index, &loc);
        snprintf(out, cap, "no space left for volume %u in '%s': %" PRIu64 " bytes free", volume_id,
                 loc.dir != NULL ? loc.dir : "?", loc.free_bytes);
        return;
    }
    case DFS_ECOOKIE:
        snprintf(out, cap, "failed to write to local disk: mismatching cookie");
        return;
    default:
        snprintf(out, cap, "failed to write to local disk: %s", dfs_err_text(rc));
    }
}

void vs_reply_write_failed(struct http_req *r, uint32_t volume_id, int rc)
{
    char text[ERROR_TEXT_MAX];
    const char *reason;
    int status = vs_write_status(rc, &reason);
    vs_write_failed_text(vs_of(r), volume_id, rc, text, sizeof text);
    server_metrics_event(&vs_of(r)->metrics, status < 500 ? EVENT_WRITE_REFUSED : EVENT_WRITE_LOCAL);
    vs_reply_refused(r, status, reason, "%s", text);
}

/* ---- dispatch ---- */
static bool allowed(struct http_req *r)
{
    struct volume_server *s = vs_of(r);
    if (whitelist_allows(&s->white_list, (const struct sockaddr *)http_req_peer_addr(r)))
        return true;
    server_metrics_event(&s->metrics, EVENT_DENIED);
    vs_reply_empty(r, 401);
    return false;
}

static void reply_options(struct http_req *r)
{
    vs_reply_begin(r, 200);
    bool read_only = vs_door_of(r)->kind != VS_DOOR_MAIN;
    http_reply_header(r, "Access-Control-Allow-Methods",
                      read_only ? BYTES_LIT("GET, OPTIONS") : BYTES_LIT("PUT, POST, GET, DELETE, OPTIONS"));
    http_reply_header(r, "Access-Control-Allow-Headers", BYTES_LIT("*"));
    http_reply_bytes(r, BYTES_NONE);
}

/* "/3..." can only be a file id: the common case is decided by one byte. */
static bool looks_like_fid(struct bytes path)
{
    return path.n > 1 && ascii_is_digit(path.p[1]);
}

static void on_request(struct http_req *r)
{
    struct vs_door *door = vs_door_of(r);
    struct bytes path;
    r->user = NULL;
    if (r->head.expect_other) {
        vs_reply_error(r, 417, "only 100-continue can be expected");
        return;
    }
    if (vs_path(r, &path) != 0)
        return;
    bool reads = r->head.method == HTTP_GET || r->head.method == HTTP_HEAD;
    if (reads && door->kind != VS_DOOR_METRICS && looks_like_fid(path)) {
        vs_read_request(r, path);
        return;
    }
    if (r->head.method == HTTP_OPTIONS) {
        reply_options(r);
        return;
    }
    if (vs_fixed_request(r, path))
        return;
    if (door->kind == VS_DOOR_METRICS) {
        vs_reply_error(r, 404, "only /metrics is here");
        return;
    }
    if (reads) {
        vs_read_request(r, path);
        return;
    }
    if (door->kind != VS_DOOR_MAIN) {
        vs_reply_error(r, 405, "this port only reads");
        return;
    }
    switch (r->head.method) {
    case HTTP_POST:
    case HTTP_PUT:
        if (allowed(r))
            vs_write_request(r, path);
        return;
    case HTTP_DELETE:
        if (allowed(r))
            vs_delete_request(r, path);
        return;
    default:
        vs_reply_error(r, 400, "unsupported method %.*s", (int)(r->head.method_text.n < 64 ? r->head.method_text.n : 64),
                       r->head.method_text.p);
    }
}

static int on_body(struct http_req *r, struct bytes in, size_t *taken)
{
    struct vs_request *q = r->user;
    if (q == NULL || q->on_body == NULL) {
        *taken = in.n; /* the body of a GET: skipped */
        return 0;
    }
    return q->on_body(r, in, taken);
}

static void on_end(struct http_req *r)
{
    struct vs_request *q = r->user;
    if (q != NULL && q->on_end != NULL)
        q->on_end(r);
}

static void on_close(struct http_req *r)
{
    struct volume_server *s = vs_of(r);
    struct vs_request *q = r->user;
    if (q != NULL && q->on_close != NULL)
        q->on_close(r);
    server_metrics_request(&s->metrics, r->head.method, r->replied ? r->status : 499, clock_mono_ns() - r->start_ns);
    metric_add(&s->metrics.bytes_in, r->body_bytes);
    metric_add(&s->metrics.bytes_out, r->sent_bytes);
}

const struct http_handler vs_http_handler = {
    .on_request = on_request,
    .on_body = on_body,
    .on_end = on_end,
    .on_close = on_close,
};
