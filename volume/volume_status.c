/* Paths with a fixed meaning: health, status, counters, the little page for people, and what release 0.76 asked for. */
#include "volume/volume_status.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include "needle/err.h"
#include "net/clock.h"
#include "net/jsonw.h"
#include "volume/handlers.h"
#include "volume/heartbeat.h"

/* A page that is rendered on the work pool: a thousand volumes take longer than a step of a loop may. */
struct page {
    struct vs_request q;
    struct http_req *r;
    struct work work;
    const char *type;
    bool pretty;
    int (*render)(struct volume_server *s, struct page *p);
    struct metric_text text;
    int rc;
};

static const char *const durability_names[] = {
    [DURABILITY_NONE] = "none",
    [DURABILITY_PACED] = "paced",
    [DURABILITY_GROUP] = "group",
};

static int take_json(struct page *p, struct jsonw *w)
{
    struct bytes b;
    int rc = jsonw_done(w, &b);
    if (rc == 0) {
        p->text.data = malloc(b.n + 1);
        if (p->text.data == NULL) {
            rc = DFS_ENOMEM;
        } else {
            memcpy(p->text.data, b.p, b.n);
            p->text.data[b.n] = '\0';
            p->text.len = b.n;
        }
    }
    jsonw_release(w);
    return rc;
}

/* ---- documents ---- */
static void put_placement(struct jsonw *w, struct replica_placement rp)
{
    jsonw_put_object(w, "ReplicaPlacement");
    if (rp.same_rack != 0)
        jsonw_put_u64(w, "node", rp.same_rack);
    if (rp.other_racks != 0)
        jsonw_put_u64(w, "rack", rp.other_racks);
    if (rp.other_data_centers != 0)
        jsonw_put_u64(w, "dc", rp.other_data_centers);
    jsonw_object_end(w);
}

static void put_volume(struct jsonw *w, const struct volume_info *v)
{
    jsonw_object(w);
    jsonw_put_str(w, "Collection", v->collection);
    jsonw_put_str(w, "DiskType", "");
    jsonw_put_str(w, "RemoteStorageName", "");
    put_placement(w, v->placement);
    jsonw_put_object(w, "Ttl");
    jsonw_put_u64(w, "Count", v->ttl.count);
    jsonw_put_u64(w, "Unit", v->ttl.unit);
    jsonw_object_end(w);
    jsonw_put_u64(w, "Size", v->dat_bytes);
    jsonw_put_u64(w, "DeletedByteCount", v->deleted_bytes);
    jsonw_put_u64(w, "ModifiedAtSecond", v->last_modified_s);
    jsonw_put_u64(w, "Id", v->id);
    jsonw_put_u64(w, "DiskId", v->location_index);
    jsonw_put_u64(w, "CompactRevision", v->compact_revision);
    jsonw_put_u64(w, "FileCount", v->file_count);
    jsonw_put_u64(w, "DeleteCount", v->delete_count);
    jsonw_put_u64(w, "Version", v->version);
    jsonw_put_bool(w, "ReadOnly", v->no_write != 0);
    jsonw_put_bool(w, "ReadOnlyCanDelete", false);
    jsonw_put_u64(w, "LiveCount", v->live_count);
    jsonw_put_u64(w, "CorruptCount", v->corrupt_count);
    jsonw_put_u64(w, "CutBytes", v->cut_bytes);
    jsonw_put_bool(w, "Loading", (v->no_write & VOLUME_LOADING) != 0);
    if (v->reason[0] != '\0')
        jsonw_put_str(w, "Reason", v->reason);
    jsonw_object_end(w);
}

static void put_disks(struct jsonw *w, struct volume_server *s, bool old_names)
{
    jsonw_put_array(w, "DiskStatuses");
    for (uint32_t i = 0; i < store_location_count(s->store); i++) {
        struct location_info loc;
        memset(&loc, 0, sizeof loc);
        store_location_info(s->store, i, &loc);
        uint64_t used = loc.total_bytes > loc.free_bytes ? loc.total_bytes - loc.free_bytes : 0;
        double percent = loc.total_bytes > 0 ? 100.0 * (double)loc.free_bytes / (double)loc.total_bytes : 0;
        jsonw_object(w);
        jsonw_put_str(w, old_names ? "Dir" : "dir", loc.dir);
        jsonw_put_u64(w, old_names ? "All" : "all", loc.total_bytes);
        jsonw_put_u64(w, old_names ? "Used" : "used", used);
        jsonw_put_u64(w, old_names ? "Free" : "free", loc.free_bytes);
        if (!old_names) {
            jsonw_put_double(w, "percent_free", percent);
            jsonw_put_double(w, "percent_used", 100.0 - percent);
            jsonw_put_u64(w, "max_volumes", loc.max_volumes);
            jsonw_put_u64(w, "free_slots", loc.free_slots);
            jsonw_put_bool(w, "low_space", loc.low_space);
            jsonw_put_bool(w, "offline", loc.offline);
            jsonw_put_bool(w, "loading", loc.loading);
        }
        jsonw_object_end(w);
    }
    jsonw_array_end(w);
}

static int by_id(const void *a, const void *b)
{
    const struct volume_info *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int render_status(struct volume_server *s, struct page *p)
{
    struct volume_info *v = NULL;
    uint32_t n = 0;
    int rc = store_snapshot(s->store, &v, &n);
    if (rc != 0)
        return rc;
    qsort(v, n, sizeof *v, by_id);
    struct jsonw w;
    jsonw_init(&w, p->pretty);
    jsonw_object(&w);
    put_disks(&w, s, false);
    jsonw_put_str(&w, "Version", DFS_NAME_AND_VERSION);
    jsonw_put_str(&w, "Durability", durability_names[s->o.durability]);
    jsonw_put_array(&w, "Volumes");
    for (uint32_t i = 0; i < n; i++)
        put_volume(&w, &v[i]);
    jsonw_array_end(&w);
    jsonw_object_end(&w);
    free(v);
    return take_json(p, &w);
}

static int render_disk(struct volume_server *s, struct page *p)
{
    struct jsonw w;
    jsonw_init(&w, p->pretty);
    jsonw_object(&w);
    put_disks(&w, s, true);
    jsonw_put_str(&w, "Version", DFS_NAME_AND_VERSION);
    jsonw_object_end(&w);
    return take_json(p, &w);
}

static int render_counter(struct volume_server *s, struct page *p)
{
    const struct server_metrics *m = &s->metrics;
    uint64_t reads = server_metrics_requests(m, HTTP_GET) + server_metrics_requests(m, HTTP_HEAD);
    uint64_t writes = server_metrics_requests(m, HTTP_POST) + server_metrics_requests(m, HTTP_PUT);
    uint64_t deletes = server_metrics_requests(m, HTTP_DELETE);
    struct jsonw w;
    jsonw_init(&w, p->pretty);
    jsonw_object(&w);
    jsonw_put_object(&w, "Counters");
    jsonw_put_u64(&w, "Requests", reads + writes + deletes);
    jsonw_put_u64(&w, "Connections", s->main_door.http != NULL ? http_server_connections(s->main_door.http) : 0);
    jsonw_put_u64(&w, "AssignRequests", 0);
    jsonw_put_u64(&w, "ReadRequests", reads);
    jsonw_put_u64(&w, "WriteRequests", writes);
    jsonw_put_u64(&w, "DeleteRequests", deletes);
    jsonw_put_u64(&w, "BytesIn", metric_value(&m->bytes_in));
    jsonw_put_u64(&w, "BytesOut", metric_value(&m->bytes_out));
    jsonw_object_end(&w);
    jsonw_put_str(&w, "Version", DFS_NAME_AND_VERSION);
    jsonw_object_end(&w);
    return take_json(p, &w);
}

void server_memory(struct server_memory *m)
{
    struct sysinfo si;
    struct rusage ru;
    memset(m, 0, sizeof *m);
    if (sysinfo(&si) == 0) {
        m->all_bytes = (uint64_t)si.totalram * si.mem_unit;
        m->free_bytes = (uint64_t)si.freeram * si.mem_unit;
    }
    if (getrusage(RUSAGE_SELF, &ru) == 0)
        m->self_bytes = (uint64_t)ru.ru_maxrss * 1024;
    m->heap_bytes = mallinfo2().uordblks;
}

static int render_memory(struct volume_server *s, struct page *p)
{
    struct server_memory m;
    struct jsonw w;
    server_memory(&m);
    jsonw_init(&w, p->pretty);
    jsonw_object(&w);
    jsonw_put_object(&w, "Memory");
    jsonw_put_u64(&w, "Goroutines", s->loop_count + 1);
    jsonw_put_u64(&w, "All", m.all_bytes);
    jsonw_put_u64(&w, "Used", m.all_bytes - m.free_bytes);
    jsonw_put_u64(&w, "Free", m.free_bytes);
    jsonw_put_u64(&w, "Self", m.self_bytes);
    jsonw_put_u64(&w, "Heap", m.heap_bytes);
    jsonw_put_u64(&w, "Stack", 0);
    jsonw_object_end(&w);
    jsonw_put_str(&w, "Version", DFS_NAME_AND_VERSION);
    jsonw_object_end(&w);
    return take_json(p, &w);
}

/* That somebody answers is all that it says: how this server is, is the matter of /healthz. */
static int render_health(struct volume_server *s, struct page *p)
{
    struct jsonw w;
    (void)s;
    jsonw_init(&w, p->pretty);
    jsonw_object(&w);
    jsonw_put_str(&w, "Version", DFS_NAME_AND_VERSION);
    jsonw_object_end(&w);
    return take_json(p, &w);
}

static int render_metrics(struct volume_server *s, struct page *p)
{
    metrics_render(s->metrics.set, &p->text);
    return p->text.failed ? DFS_ENOMEM : 0;
}

/* Names in the page are collections, which hold letters, digits and "_-." only; folders are escaped. */
static void html_text(struct metric_text *t, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '<' || *text == '>' || *text == '&' || *text == '"')
            metric_text_printf(t, "&#%d;", *text);
        else
            metric_text_printf(t, "%c", *text);
    }
}

static int render_ui(struct volume_server *s, struct page *p)
{
    struct volume_info *v = NULL;
    uint32_t n = 0;
    int rc = store_snapshot(s->store, &v, &n);
    if (rc != 0)
        return rc;
    qsort(v, n, sizeof *v, by_id);
    struct metric_text *t = &p->text;
    metric_text_printf(t, "<!DOCTYPE html><html><head><meta charset=\"utf-8\"><title>dfs volume server</title></head><body>"
                          "<h1>%s, volume server %s</h1><h2>Folders</h2><table border=\"1\"><tr><th>folder<th>volumes"
                          "<th>slots<th>bytes<th>free<th>state</tr>", DFS_NAME_AND_VERSION, s->self_url);
    for (uint32_t i = 0; i < store_location_count(s->store); i++) {
        struct location_info loc;
        memset(&loc, 0, sizeof loc);
        store_location_info(s->store, i, &loc);
        metric_text_printf(t, "<tr><td>");
        html_text(t, loc.dir != NULL ? loc.dir : "");
        metric_text_printf(t, "<td>%u<td>%u<td>%lu<td>%lu<td>%s</tr>", loc.volumes, loc.max_volumes,
                           (unsigned long)loc.total_bytes, (unsigned long)loc.free_bytes,
                           loc.offline ? "offline" : loc.low_space ? "low on space" : loc.loading ? "loading" : "ok");
    }
    metric_text_printf(t, "</table><h2>Volumes</h2><table border=\"1\"><tr><th>id<th>collection<th>size<th>files<th>deleted"
                          "<th>state</tr>");
    for (uint32_t i = 0; i < n; i++) {
        metric_text_printf(t, "<tr><td>%u<td>%s<td>%lu<td>%lu<td>%lu<td>", v[i].id, v[i].collection, (unsigned long)v[i].dat_bytes,
                           (unsigned long)v[i].live_count, (unsigned long)v[i].deleted_bytes);
        html_text(t, v[i].no_write == 0 ? "writable" : v[i].reason[0] != '\0' ? v[i].reason : "read only");
        metric_text_printf(t, "</tr>");
    }
    metric_text_printf(t, "</table></body></html>\n");
    free(v);
    return t->failed ? DFS_ENOMEM : 0;
}

/* ---- serving a page ---- */
static void run_page(struct work *w)
{
    struct page *p = (struct page *)((char *)w - offsetof(struct page, work));
    p->rc = p->render(vs_of(p->r), p);
}

static void done_page(struct work *w)
{
    struct page *p = (struct page *)((char *)w - offsetof(struct page, work));
    struct http_req *r = p->r;
    if (r->dead) {
    } else if (p->rc != 0) {
        vs_reply_error(r, 503, "%s", dfs_err_text(p->rc));
    } else {
        vs_reply_begin(r, 200);
        http_reply_header(r, "Content-Type", bytes_str(p->type));
        http_reply_bytes(r, bytes_of(p->text.data, p->text.len));
    }
    http_req_drop(r);
}

static void close_page(struct http_req *r)
{
    struct page *p = r->user;
    metric_text_release(&p->text);
}

static void page_start(struct http_req *r, const char *type, int (*render)(struct volume_server *s, struct page *p))
{
    struct http_params *params;
    struct page *p;
    if (vs_params(r, &params) != 0)
        return;
    bool pretty = params != NULL && http_params_get(params, "pretty").n > 0;
    if (params != NULL)
        http_params_release(params);
    p = http_req_alloc(r, sizeof *p);
    if (p == NULL) {
        vs_reply_error(r, 503, "out of memory");
        return;
    }
    p->q.on_close = close_page;
    p->r = r;
    p->type = type;
    p->render = render;
    p->pretty = pretty;
    p->work = (struct work){.loop = r->loop, .run = run_page, .done = done_page};
    r->user = p;
    http_req_hold(r);
    work_submit(vs_of(r)->pool, &p->work);
}

/* ---- health: this process and its disks, nothing else ---- */
static void reply_health(struct http_req *r)
{
    struct volume_server *s = vs_of(r);
    uint32_t online = 0, n = store_location_count(s->store);
    for (uint32_t i = 0; i < n; i++) {
        struct location_info loc;
        memset(&loc, 0, sizeof loc);
        store_location_info(s->store, i, &loc);
        online += !loc.offline;
    }
    vs_reply_empty(r, atomic_load(&s->stopping) || online == 0 ? 503 : 200);
}

static void reply_ready(struct http_req *r)
{
    struct volume_server *s = vs_of(r);
    bool ready = !atomic_load(&s->stopping) && !store_loading(s->store) && heartbeat_connected(s->heartbeat);
    vs_reply_empty(r, ready ? 200 : 503);
}

static void reply_favicon(struct http_req *r)
{
    vs_reply_begin(r, 204);
    http_reply_header(r, "Cache-Control", BYTES_LIT("max-age=86400"));
    http_reply_bytes(r, BYTES_NONE);
}

static bool is(struct bytes path, const char *text)
{
    return bytes_eq(path, bytes_str(text));
}

static bool starts(struct bytes path, const char *text)
{
    size_t n = strlen(text);
    return path.n >= n && memcmp(path.p, text, n) == 0;
}

/* What others of this kind of server have and this one does not; none of it passes for a file id. */
static bool reply_not_built(struct http_req *r, struct bytes path)
{
    const char *why = NULL;
    if (starts(path, "/admin/"))
        why = "volumes are managed over gRPC";
    else if (is(path, "/query"))
        why = "objects are read whole or in ranges, not searched";
    if (why == NULL)
        return false;
    vs_reply_error(r, 501, "'%.*s' is not built: %s", (int)(path.n < 100 ? path.n : 100), path.p, why);
    return true;
}

bool vs_fixed_request(struct http_req *r, struct bytes path)
{
    bool reads = r->head.method == HTTP_GET || r->head.method == HTTP_HEAD;
    enum vs_door_kind door = vs_door_of(r)->kind;
    if (reads && door != VS_DOOR_PUBLIC && is(path, "/metrics")) {
        page_start(r, "text/plain; version=0.0.4; charset=utf-8", render_metrics);
        return true;
    }
    if (door == VS_DOOR_METRICS)
        return false;
    if (reads) {
        static const struct {
            const char *path, *type;
            int (*render)(struct volume_server *s, struct page *p);
        } pages[] = {
            {"/status", "application/json", render_status},
            {"/stats/disk", "application/json", render_disk},
            {"/stats/counter", "application/json", render_counter},
            {"/stats/memory", "application/json", render_memory},
            {"/stats/health", "application/json", render_health},
            {"/ui/index.html", "text/html; charset=utf-8", render_ui},
        };
        for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++)
            if (is(path, pages[i].path)) {
                page_start(r, pages[i].type, pages[i].render);
                return true;
            }
        if (is(path, "/healthz")) {
            reply_health(r);
            return true;
        }
        if (is(path, "/readyz")) {
            reply_ready(r);
            return true;
        }
        if (is(path, "/favicon.ico")) {
            reply_favicon(r);
            return true;
        }
    }
    if (door != VS_DOOR_MAIN)
        return false;
    if (reply_not_built(r, path))
        return true;
    if (is(path, "/delete") && (r->head.method == HTTP_POST || r->head.method == HTTP_GET)) {
        if (!whitelist_allows(&vs_of(r)->white_list, (const struct sockaddr *)http_req_peer_addr(r)))
            vs_reply_empty(r, 401);
        else
            vs_batch_delete_request(r);
        return true;
    }
    return false;
}
