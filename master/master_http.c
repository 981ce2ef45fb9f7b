/* The master's HTTP API: a table of routes, and what each answers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "master/assign.h"
#include "master/lookup.h"
#include "master/master.h"
#include "needle/check.h"
#include "needle/err.h"
#include "net/rand.h"

#define FORM_BYTES_MAX 65536u

enum route_flag {
    ROUTE_GUARDED = 1 << 0, /* only for the white list */
    ROUTE_CORS = 1 << 1,    /* browsers may ask from other origins */
    ROUTE_GET = 1 << 2,     /* GET and HEAD */
    ROUTE_POST = 1 << 3,    /* POST and PUT, parameters also as a form */
    ROUTE_DELETE = 1 << 4,
    ROUTE_SUBMIT = 1 << 5,
};

struct master_route {
    const char *path;
    unsigned flags;
    void (*run)(struct master_req *q);
};

/* ---- answers ---- */

bool master_req_pretty(const struct master_req *q)
{
    return http_params_get(&q->params, "pretty").n != 0;
}

void master_reply_json(struct master_req *q, int status, struct jsonw *w)
{
    struct bytes text;
    int rc = jsonw_done(w, &text);

    if (rc == 0)
        http_reply_json_text(q->http, status, text);
    else
        http_reply_error(q->http, 500, "%s", dfs_err_text(rc));
    jsonw_release(w);
}

static void put_locations(struct jsonw *w, const struct topo_volume *v)
{
    jsonw_put_array(w, "locations");
    for (uint32_t i = 0; i < v->replica_count; i++) {
        const struct data_node *n = v->replicas[i].node;

        jsonw_object(w);
        jsonw_put_str(w, "url", n->url);
        jsonw_put_str(w, "publicUrl", n->public_url);
        jsonw_put_str(w, "dataCenter", n->data_center);
        jsonw_put_u64(w, "grpcPort", n->addr.grpc_port);
        jsonw_object_end(w);
    }
    jsonw_array_end(w);
}

/* ---- /dir/assign ---- */

static void reply_assign(struct master_req *q)
{
    const struct assign *a = &q->assign;
    const struct data_node *n = a->volume->replicas[a->at].node;
    char fid[FID_TEXT_MAX];
    struct jsonw w;

    jsonw_init(&w, master_req_pretty(q));
    jsonw_object(&w);
    jsonw_put_string(&w, "fid", bytes_of(fid, fid_format(&a->fid, fid)));
    jsonw_put_str(&w, "url", n->url);
    jsonw_put_str(&w, "publicUrl", n->public_url);
    jsonw_put_u64(&w, "count", a->count);
    jsonw_object_end(&w);
    master_reply_json(q, 200, &w);
}

static void finish_assign(struct master_req *q, int rc)
{
    if (rc == 0)
        reply_assign(q);
    else
        http_reply_error(q->http, q->assign.http_status, "%s", q->assign.reason);
}

static void on_assigned(struct assign *a, int rc)
{
    struct master_req *q = CONTAINER_OF(a, struct master_req, assign);

    finish_assign(q, rc);
    http_req_drop(q->http);
}

int master_req_assign(struct master_req *q)
{
    const struct http_params *p = &q->params;
    struct assign *a = &q->assign;
    uint64_t growth = 0;

    a->master = q->master;
    /* The peer takes any count; what is no number is one. */
    if (http_params_u64(p, "count", 1, &a->count) != 0 || a->count == 0)
        a->count = 1;
    a->collection = http_params_get(p, "collection");
    a->replication = http_params_get(p, "replication");
    a->ttl = http_params_get(p, "ttl");
    a->disk = http_params_get(p, "disk");
    a->filter.data_center = http_params_get(p, "dataCenter");
    a->filter.rack = http_params_get(p, "rack");
    a->filter.data_node = http_params_get(p, "dataNode");
    if (http_params_u64(p, "preallocate", 0, &a->preallocate_bytes) != 0 || a->preallocate_bytes > INT64_MAX) {
        http_reply_error(q->http, 406, "preallocate must be a number of bytes");
        return DFS_EINVAL;
    }
    if (http_params_u64(p, "writableVolumeCount", 0, &growth) != 0 || growth > 10000)
        growth = 0;
    a->growth_count = (uint32_t)growth;
    if (http_params_u64(p, "dataSize", 0, &a->expected_bytes) != 0)
        a->expected_bytes = 0;
    if (a->expected_bytes != 0)
        a->expected_bytes = (a->expected_bytes + a->count - 1) / a->count;
    return 0;
}

static void run_assign(struct master_req *q)
{
    int rc = master_req_assign(q);

    if (rc != 0)
        return;
    q->assign.done = on_assigned;
    rc = assign_start(&q->assign);
    if (rc == DFS_EAGAIN) {
        http_req_hold(q->http);
        return;
    }
    finish_assign(q, rc);
}

/* ---- lookups ---- */

static void lookup_one(struct master_req *q, struct bytes text, struct jsonw *w, int *status)
{
    struct topo_volume *v = NULL;
    uint32_t id = 0;
    int rc = lookup_volume(q->master, text, http_params_get(&q->params, "collection"), &id, &v);
    const char *comma = text.n != 0 ? memchr(text.p, ',', text.n) : NULL;
    struct bytes shown = {text.p, comma != NULL ? (size_t)(comma - text.p) : text.n};

    jsonw_object(w);
    jsonw_put_string(w, "volumeId", shown);
    jsonw_put_string(w, "volumeOrFileId", text);
    if (rc == 0)
        put_locations(w, v);
    else if (rc == DFS_EINVAL)
        jsonw_put_printf(w, "error", "unknown volume id %.*s", (int)(text.n < 100 ? text.n : 100), text.n != 0 ? text.p : "");
    else
        jsonw_put_printf(w, "error", "volume id %u not found", id);
    jsonw_object_end(w);
    *status = rc == 0 ? 200 : 404;
}

static void run_lookup(struct master_req *q)
{
    struct bytes text = http_params_get(&q->params, "volumeId");
    struct jsonw w;
    int status;

    if (text.n == 0)
        text = http_params_get(&q->params, "fileId");
    jsonw_init(&w, master_req_pretty(q));
    lookup_one(q, text, &w, &status);
    master_reply_json(q, status, &w);
}

/* 0.76: volumeId may be repeated, each a comma list; answers an object keyed by id. */
static void run_batch_lookup(struct master_req *q)
{
    struct jsonw w;
    int status;

    jsonw_init(&w, master_req_pretty(q));
    jsonw_object(&w);
    for (uint32_t i = 0; i < q->params.count; i++) {
        const struct http_param *p = &q->params.v[i];
        struct bytes rest = p->value;

        if (!bytes_eq(p->name, BYTES_LIT("volumeId")))
            continue;
        while (rest.n != 0) {
            const char *comma = memchr(rest.p, ',', rest.n);
            struct bytes one = {rest.p, comma != NULL ? (size_t)(comma - rest.p) : rest.n};

            rest.p += one.n + (comma != NULL);
            rest.n -= one.n + (comma != NULL);
            if (one.n == 0)
                continue;
            jsonw_key_bytes(&w, one);
            lookup_one(q, one, &w, &status);
        }
    }
    jsonw_object_end(&w);
    master_reply_json(q, 200, &w);
}

/* /3,01637037d6 and its other forms: to a server that has the volume. */
static void run_redirect(struct master_req *q, struct bytes path)
{
    const struct http_head *h = &q->http->head;
    struct bytes id = {path.p + 1, path.n - 1};
    const char *slash = memchr(id.p, '/', id.n);
    struct topo_volume *v = NULL;
    const struct data_node *n;
    uint32_t number = 0;
    int rc;

    if (slash != NULL)
        id.n = (size_t)(slash - id.p);
    rc = lookup_volume(q->master, id, http_params_get(&q->params, "collection"), &number, &v);
    if (rc == DFS_EINVAL) {
        http_reply_text(q->http, 404, "404 page not found\n");
        return;
    }
    if (rc != 0) {
        http_reply_error(q->http, 404, "volume id %u not found", number);
        return;
    }
    n = v->replicas[rand_below(v->replica_count)].node;
    http_reply_begin(q->http, 308);
    http_reply_headerf(q->http, "Location", "http://%s%.*s%s%.*s", n->public_url, (int)h->path.n, h->path.p,
                       h->query.n != 0 ? "?" : "", (int)h->query.n, h->query.n != 0 ? h->query.p : "");
    http_reply_bytes(q->http, BYTES_NONE);
}

/* ---- status documents ---- */

static void run_dir_status(struct master_req *q)
{
    struct jsonw w;

    jsonw_init(&w, master_req_pretty(q));
    status_dir(q->master, &w);
    master_reply_json(q, 200, &w);
}

static void run_vol_status(struct master_req *q)
{
    struct jsonw w;

    jsonw_init(&w, master_req_pretty(q));
    status_volumes(q->master, &w);
    master_reply_json(q, 200, &w);
}

static void run_cluster_status(struct master_req *q)
{
    struct jsonw w;

    jsonw_init(&w, master_req_pretty(q));
    status_cluster(q->master, &w);
    master_reply_json(q, 200, &w);
}

static void run_collection_info(struct master_req *q)
{
    struct bytes name = http_params_get(&q->params, "collection");
    struct jsonw w;

    if (!name_is_safe(name) || !collection_exists(q->master, name)) {
        http_reply_error(q->http, 404, "collection %.*s does not exist", (int)(name.n < 100 ? name.n : 100),
                         name.n != 0 ? name.p : "");
        return;
    }
    jsonw_init(&w, master_req_pretty(q));
    status_collection(q->master, name.n != 0 ? name.p : "", http_params_bool(&q->params, "detail", false), &w);
    master_reply_json(q, 200, &w);
}

static void run_healthz(struct master_req *q)
{
    http_reply_empty(q->http, q->master->draining ? 503 : 200);
}

static void run_page(struct master_req *q)
{
    struct metric_text t = {0};

    status_page(q->master, &t);
    http_reply_begin(q->http, t.failed ? 500 : 200);
    http_reply_header(q->http, "Content-Type", BYTES_LIT("text/html; charset=utf-8"));
    http_reply_bytes(q->http, bytes_of(t.data, t.failed ? 0 : t.len));
    metric_text_release(&t);
}

static void run_metrics(struct master_req *q)
{
    struct metric_text t = {0};

    metrics_render(q->master->metrics, &t);
    http_reply_begin(q->http, t.failed ? 500 : 200);
    http_reply_header(q->http, "Content-Type", BYTES_LIT("text/plain; version=0.0.4"));
    http_reply_bytes(q->http, bytes_of(t.data, t.failed ? 0 : t.len));
    metric_text_release(&t);
}

static void run_stats_counter(struct master_req *q)
{
    const uint64_t *c = q->master->counts;
    struct jsonw w;

    jsonw_init(&w, master_req_pretty(q));
    jsonw_object(&w);
    jsonw_put_object(&w, "Counters");
    jsonw_put_u64(&w, "Requests", c[COUNT_HTTP]);
    jsonw_put_u64(&w, "Connections", http_server_connections(q->master->http));
    jsonw_put_u64(&w, "AssignRequests", c[COUNT_ASSIGN]);
    jsonw_put_u64(&w, "LookupRequests", c[COUNT_LOOKUP]);
    jsonw_object_end(&w);
    jsonw_put_str(&w, "Version", DFS_NAME_AND_VERSION);
    jsonw_object_end(&w);
    master_reply_json(q, 200, &w);
}

static void run_stats_memory(struct master_req *q)
{
    struct jsonw w;

    jsonw_init(&w, master_req_pretty(q));
    jsonw_object(&w);
    jsonw_put_object(&w, "Memory");
    jsonw_put_u64(&w, "Self", master_resident_bytes());
    jsonw_object_end(&w);
    jsonw_put_str(&w, "Version", DFS_NAME_AND_VERSION);
    jsonw_object_end(&w);
    master_reply_json(q, 200, &w);
}

/* That somebody answers is all that it says: how the cluster is, is the matter of /cluster/healthz. */
static void run_stats_health(struct master_req *q)
{
    struct jsonw w;

    jsonw_init(&w, master_req_pretty(q));
    jsonw_object(&w);
    jsonw_put_str(&w, "Version", DFS_NAME_AND_VERSION);
    jsonw_object_end(&w);
    master_reply_json(q, 200, &w);
}

/* ---- changes ---- */

static void reply_grown(struct master_req *q)
{
    uint32_t made = volume_growth_made(q->grow_layout);
    struct jsonw w;

    if (made == 0) {
        http_reply_error(q->http, 500, "%s", volume_growth_trouble(q->grow_layout));
        return;
    }
    jsonw_init(&w, master_req_pretty(q));
    jsonw_object(&w);
    jsonw_put_u64(&w, "count", (uint64_t)made * replica_placement_copies(q->grow_layout->placement));
    jsonw_object_end(&w);
    master_reply_json(q, 200, &w);
}

static void on_grown(struct growth_waiter *w)
{
    struct master_req *q = CONTAINER_OF(w, struct master_req, growth_wait);

    reply_grown(q);
    http_req_drop(q->http);
}

static void run_grow(struct master_req *q)
{
    struct growth_request r = {0};
    struct topology_sums sums;
    char reason[ASSIGN_REASON_MAX];
    uint64_t count;
    int rc;

    if (http_params_get(&q->params, "count").n == 0 || http_params_u64(&q->params, "count", 0, &count) != 0 || count == 0) {
        http_reply_error(q->http, 406, "parameter count is not found");
        return;
    }
    if (master_req_assign(q) != 0)
        return;
    if (assign_layout(&q->assign, &q->grow_layout) != 0) {
        http_reply_error(q->http, q->assign.http_status, "%s", q->assign.reason);
        return;
    }
    if (volume_growth_active(q->grow_layout)) {
        http_reply_error(q->http, 503, "these volumes are growing already: try again when that is done");
        return;
    }
    if (count > GROWTH_VOLUMES_MAX) {
        http_reply_error(q->http, 406, "at most %u volumes at a time", GROWTH_VOLUMES_MAX);
        return;
    }
    topology_sums(&q->master->topology, &sums);
    if (count > sums.free_slots / replica_placement_copies(q->grow_layout->placement)) {
        http_reply_error(q->http, 406, "only %llu volumes left, not enough for %llu", (unsigned long long)sums.free_slots,
                         (unsigned long long)(count * replica_placement_copies(q->grow_layout->placement)));
        return;
    }
    r.layout = q->grow_layout;
    r.filter = q->assign.filter;
    r.count = (uint32_t)count;
    r.preallocate_bytes = q->assign.preallocate_bytes;
    q->growth_wait.fn = on_grown;
    rc = volume_growth_start(&q->master->grower, &r, &q->growth_wait, reason, sizeof reason);
    if (rc != 0) {
        http_reply_error(q->http, rc == DFS_ENOSPC ? 406 : 500, "%s", rc == DFS_ENOSPC ? reason : dfs_err_text(rc));
        return;
    }
    http_req_hold(q->http);
}

static void on_vacuumed(struct vacuum_waiter *w, int rc)
{
    struct master_req *q = CONTAINER_OF(w, struct master_req, vacuum_wait);

    if (rc == 0)
        run_dir_status(q);
    else
        http_reply_error(q->http, http_status_from_err(rc), "%s", dfs_err_text(rc));
    http_req_drop(q->http);
}

static void run_vacuum(struct master_req *q)
{
    struct bytes text = http_params_get(&q->params, "garbageThreshold");
    double threshold = q->master->options.garbage_threshold;
    uint64_t only = 0;
    char *end;
    int rc;

    if (text.n != 0) {
        threshold = strtod(text.p, &end);
        if (*end != '\0' || !(threshold >= 0 && threshold <= 1)) {
            http_reply_error(q->http, 406, "garbageThreshold must be a number from 0 to 1");
            return;
        }
    }
    if (http_params_u64(&q->params, "volumeId", 0, &only) != 0 || only > UINT32_MAX) {
        http_reply_error(q->http, 406, "volumeId must be a number");
        return;
    }
    q->vacuum_wait.fn = on_vacuumed;
    rc = vacuum_start(q->master, threshold, (uint32_t)only, NULL, &q->vacuum_wait);
    if (rc != 0) {
        http_reply_error(q->http, http_status_from_err(rc), "%s", dfs_err_text(rc));
        return;
    }
    http_req_hold(q->http);
}

static void on_collection_deleted(void *arg, int rc, const char *why)
{
    struct master_req *q = arg;

    if (rc == 0)
        http_reply_empty(q->http, 204);
    else
        http_reply_error(q->http, 500, "%s", why);
    http_req_drop(q->http);
}

static void run_collection_delete(struct master_req *q)
{
    struct bytes name = http_params_get(&q->params, "collection");
    int rc;

    if (name.n == 0 || !name_is_safe(name)) {
        http_reply_error(q->http, 400, "collection needs a name of letters, digits, '_', '-' and '.'");
        return;
    }
    http_req_hold(q->http);
    rc = collection_delete(q->master, name, on_collection_deleted, q);
    if (rc == 0)
        return;
    if (rc == DFS_ENOTFOUND)
        http_reply_error(q->http, 400, "collection %s does not exist", name.p);
    else
        http_reply_error(q->http, 500, "%s", dfs_err_text(rc));
    http_req_drop(q->http);
}

static void run_submit(struct master_req *q)
{
    submit_end(q);
}

/* ---- routes ---- */

#define ROUTE_READ (ROUTE_GET | ROUTE_POST)

static const struct master_route routes[] = {
    {"/dir/assign", ROUTE_READ | ROUTE_GUARDED | ROUTE_CORS, run_assign},
    {"/dir/lookup", ROUTE_READ | ROUTE_GUARDED | ROUTE_CORS, run_lookup},
    {"/vol/lookup", ROUTE_READ | ROUTE_GUARDED | ROUTE_CORS, run_batch_lookup},
    {"/dir/status", ROUTE_READ | ROUTE_GUARDED, run_dir_status},
    {"/vol/status", ROUTE_READ | ROUTE_GUARDED, run_vol_status},
    {"/vol/grow", ROUTE_READ | ROUTE_GUARDED, run_grow},
    {"/vol/vacuum", ROUTE_READ | ROUTE_GUARDED, run_vacuum},
    {"/col/delete", ROUTE_READ | ROUTE_GUARDED | ROUTE_DELETE, run_collection_delete},
    {"/submit", ROUTE_POST | ROUTE_GUARDED | ROUTE_CORS | ROUTE_SUBMIT, run_submit},
    {"/delete", ROUTE_READ | ROUTE_GUARDED | ROUTE_DELETE, batch_delete},
    {"/collection/info", ROUTE_READ | ROUTE_GUARDED, run_collection_info},
    {"/cluster/status", ROUTE_READ, run_cluster_status},
    {"/cluster/healthz", ROUTE_READ, run_healthz},
    {"/healthz", ROUTE_READ, run_healthz},
    {"/readyz", ROUTE_READ, run_healthz},
    {"/stats/counter", ROUTE_READ | ROUTE_GUARDED, run_stats_counter},
    {"/stats/memory", ROUTE_READ | ROUTE_GUARDED, run_stats_memory},
    {"/stats/health", ROUTE_READ | ROUTE_GUARDED, run_stats_health},
    {"/metrics", ROUTE_GET, run_metrics},
    {"/", ROUTE_READ, run_page},
    {"/ui/index.html", ROUTE_GET, run_page},
};

/* What others of this kind of master have and this one does not: that, and all below it. */
static const struct {
    const char *path, *why;
} not_built[] = {
    {"/admin", "volumes are managed over gRPC, by a shell of the peer"},
    {"/cluster/join", "there is one master, and no group that another could join"},
    {"/cluster/raft", "there is one master, and no consensus"},
    {"/raft", "there is one master, and no consensus"},
};

static void reply_unknown(struct http_req *r)
{
    struct bytes path = r->head.path;

    for (size_t i = 0; i < ARRAY_LEN(not_built); i++) {
        size_t n = strlen(not_built[i].path);

        if (path.n >= n && memcmp(path.p, not_built[i].path, n) == 0 && (path.n == n || path.p[n] == '/')) {
            http_reply_error(r, 501, "'%.*s' is not built: %s", (int)(path.n < 100 ? path.n : 100), path.p, not_built[i].why);
            return;
        }
    }
    http_reply_text(r, 404, "404 page not found\n");
}

static const struct master_route *find_route(struct bytes path)
{
    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        if (bytes_eq(bytes_str(routes[i].path), path))
            return &routes[i];
    return NULL;
}

static bool method_allowed(const struct master_route *route, enum http_method method)
{
    switch (method) {
    case HTTP_GET:
    case HTTP_HEAD:
        return (route->flags & ROUTE_GET) != 0;
    case HTTP_POST:
    case HTTP_PUT:
        return (route->flags & ROUTE_POST) != 0;
    case HTTP_DELETE:
        return (route->flags & ROUTE_DELETE) != 0;
    case HTTP_OPTIONS:
    case HTTP_OTHER:
        return false;
    }
    return false;
}

/* ---- steps of a request ---- */

static void reply_options(struct http_req *r)
{
    http_reply_begin(r, 200);
    if (r->cors) {
        http_reply_header(r, "Access-Control-Allow-Methods", BYTES_LIT("PUT, POST, GET, DELETE, OPTIONS"));
        http_reply_header(r, "Access-Control-Allow-Headers", BYTES_LIT("*"));
    }
    http_reply_bytes(r, BYTES_NONE);
}

static bool refused_at_once(struct http_req *r, const struct master_route *route)
{
    struct master_server *m = r->server_arg;

    if (r->head.method == HTTP_OPTIONS) {
        reply_options(r);
        return true;
    }
    if (route == NULL)
        return false;
    if ((route->flags & ROUTE_GUARDED) != 0 &&
        !whitelist_allows(&m->white_list, (const struct sockaddr *)http_req_peer_addr(r))) {
        http_reply_empty(r, 401);
        return true;
    }
    if (!method_allowed(route, r->head.method)) {
        http_reply_error(r, 405, (route->flags & ROUTE_SUBMIT) != 0 ? "Only submit via POST!" : "this method is not for %s",
                         route->path);
        return true;
    }
    return false;
}

static bool is_form(const struct http_head *h)
{
    static const char type[] = "application/x-www-form-urlencoded";
    struct bytes v = http_header_get(h, "Content-Type");

    return v.n >= sizeof type - 1 && strncasecmp(v.p, type, sizeof type - 1) == 0;
}

static void on_request(struct http_req *r)
{
    struct master_server *m = r->server_arg;
    const struct master_route *route = find_route(r->head.path);
    struct master_req *q;
    int rc;

    m->counts[COUNT_HTTP]++;
    r->cors = route != NULL && (route->flags & ROUTE_CORS) != 0 && http_header_get(&r->head, "Origin").p != NULL;
    if (refused_at_once(r, route))
        return;
    q = http_req_alloc(r, sizeof *q);
    if (q == NULL) {
        http_reply_error(r, 503, "out of memory");
        return;
    }
    r->user = q;
    q->http = r;
    q->master = m;
    q->route = route;
    http_params_init(&q->params);
    rc = http_params_parse(&q->params, r->head.query);
    if (rc != 0) {
        http_reply_error(r, 400, "the query is broken: %s", dfs_err_text(rc));
        return;
    }
    if (route != NULL && (route->flags & ROUTE_SUBMIT) != 0)
        submit_request(q);
    else if (is_form(&r->head) && (r->head.method == HTTP_POST || r->head.method == HTTP_PUT))
        q->form = http_req_alloc(r, FORM_BYTES_MAX);
}

static int on_body(struct http_req *r, struct bytes in, size_t *taken)
{
    struct master_req *q = r->user;

    if (q == NULL || r->replied)
        return 0;
    if (q->submit != NULL)
        return submit_body(q, in, taken);
    if (q->form == NULL)
        return 0; /* a body that nobody asked for is read and dropped */
    if (q->form_bytes + in.n > FORM_BYTES_MAX) {
        http_reply_error(r, 413, "a form of more than %u bytes", FORM_BYTES_MAX);
        return DFS_ETOOBIG;
    }
    memcpy(q->form + q->form_bytes, in.p, in.n);
    q->form_bytes += in.n;
    return 0;
}

static void on_end(struct http_req *r)
{
    struct master_req *q = r->user;
    int rc;

    if (q == NULL || r->replied)
        return;
    if (q->form_bytes != 0) {
        rc = http_params_parse(&q->params, bytes_of(q->form, q->form_bytes));
        if (rc != 0) {
            http_reply_error(r, 400, "the form is broken: %s", dfs_err_text(rc));
            return;
        }
    }
    if (q->route != NULL) {
        q->route->run(q);
    } else if (r->head.path.n > 1 && r->head.path.p[1] >= '0' && r->head.path.p[1] <= '9' &&
               (r->head.method == HTTP_GET || r->head.method == HTTP_HEAD)) {
        run_redirect(q, r->head.path);
    } else {
        reply_unknown(r);
    }
}

static void on_close(struct http_req *r)
{
    struct master_req *q = r->user;

    if (q == NULL)
        return;
    if (q->submit != NULL)
        submit_close(q);
    http_params_release(&q->params);
}

const struct http_handler master_http_handler = {on_request, on_body, on_end, on_close};
