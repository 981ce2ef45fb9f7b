/* DELETE of a needle, chunks first when it is a manifest, and the batch form of release 0.76. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "needle/err.h"
#include "net/clock.h"
#include "net/jsonw.h"
#include "volume/chunk_delete.h"
#include "volume/late_write.h"
#include "volume/replica_call.h"
#include "volume/replicate.h"

struct delete_op {
    struct vs_request q;
    struct http_req *r;
    struct vs_loop *l;
    struct fid fid;
    bool replicate, fsync, plain; /* plain: cm=false, the manifest alone */
    uint64_t ts_ns, ts_s;
    struct needle_undo undo;
    struct needle_read look;
    bool looking;
    bool was_manifest;
    uint64_t manifest_bytes; /* what its chunks made up */
    struct chunk_delete *chunks;
    struct late_write local;
    struct replicated_write all;
};

static void remove_needle(struct delete_op *op);

static void reply_size(struct http_req *r, int status, uint64_t size, uint64_t last_ns)
{
    char json[64];
    int n = snprintf(json, sizeof json, "{\"size\":%" PRIu64 "}", size);
    vs_reply_begin(r, status);
    if (last_ns != 0)
        http_reply_headerf(r, "X-Dfs-Last-Ns", "%" PRIu64, last_ns);
    if (status == 404)
        http_reply_header(r, "X-Dfs-Reason", BYTES_LIT("needle"));
    http_reply_header(r, "Content-Type", BYTES_LIT("application/json"));
    http_reply_bytes(r, bytes_of(json, (size_t)n));
}

static void reply(struct delete_op *op, int rc, uint32_t body_bytes, const char *error, uint64_t last_ns)
{
    struct http_req *r = op->r;
    struct volume_server *s = vs_of(r);
    const char *reason;
    int status = vs_write_status(rc, &reason);
    if (rc == 0) {
        reply_size(r, 202, op->was_manifest ? op->manifest_bytes : body_bytes, last_ns);
        return;
    }
    if (rc == DFS_ENOTFOUND || rc == DFS_ECOOKIE || rc == DFS_ENOVOLUME) { /* one answer: a wrong cookie learns nothing */
        if (rc == DFS_ENOVOLUME) {
            vs_reply_begin(r, 404);
            http_reply_header(r, "X-Dfs-Reason", BYTES_LIT("volume"));
            http_reply_header(r, "Content-Type", BYTES_LIT("application/json"));
            http_reply_bytes(r, BYTES_LIT("{\"size\":0}"));
        } else {
            reply_size(r, 404, 0, last_ns);
        }
        return;
    }
    server_metrics_event(&s->metrics, EVENT_DELETE_FAILED);
    if (error != NULL && error[0] != '\0') {
        vs_reply_refused(r, 500, "replicas", "Deletion Failed: %s", error);
        return;
    }
    char text[512];
    vs_write_failed_text(s, op->fid.volume_id, rc, text, sizeof text);
    if (rc == DFS_ESTALE) {
        vs_reply_begin(r, status);
        http_reply_header(r, "X-Dfs-Reason", bytes_str(reason));
        http_reply_headerf(r, "X-Dfs-Last-Ns", "%" PRIu64, last_ns);
        http_reply_bytes(r, BYTES_NONE);
        return;
    }
    vs_reply_refused(r, status, reason, "Deletion Failed: %s", text);
}

static void on_local(struct late_write *late, int rc)
{
    struct delete_op *op = (struct delete_op *)((char *)late - offsetof(struct delete_op, local));
    struct needle_write *w = &late->w;
    struct http_req *r = op->r;
    vs_stamp_seen(vs_of(r), w->last_ns);
    if (!r->dead)
        reply(op, rc, w->old_body_bytes, NULL, op->replicate ? w->last_ns : 0);
    http_req_drop(r);
}

static void on_all(struct replicated_write *w, int rc)
{
    struct delete_op *op = (struct delete_op *)((char *)w - offsetof(struct delete_op, all));
    struct http_req *r = op->r;
    if (!r->dead)
        reply(op, rc, w->old_body_bytes, w->error, 0);
    http_req_drop(r);
}

static void remove_here(struct delete_op *op)
{
    struct needle_write *w = &op->local.w;
    w->store = op->l->server->store;
    w->loop = op->l->loop;
    w->fid = op->fid;
    w->is_delete = true;
    w->durability = op->fsync ? DURABILITY_GROUP : DURABILITY_NONE;
    w->append_at_ns = op->ts_ns;
    w->privileged = op->replicate;
    w->undo = op->undo;
    op->local.done = on_local;
    http_req_hold(op->r);
    int rc = late_write_start(&op->local);
    if (rc != 0) {
        reply(op, rc, 0, NULL, 0);
        http_req_drop(op->r);
    }
}

static void remove_everywhere(struct delete_op *op, unsigned copies)
{
    struct replicated_write *w = &op->all;
    w->l = op->l;
    w->fid = op->fid;
    w->is_delete = true;
    w->fsync = op->fsync;
    w->durability = op->fsync ? DURABILITY_GROUP : DURABILITY_NONE;
    w->done = on_all;
    http_req_hold(op->r);
    int rc = replicated_write_start(w, copies);
    if (rc != 0) {
        reply(op, rc, 0, NULL, 0);
        http_req_drop(op->r);
    }
}

static void remove_needle(struct delete_op *op)
{
    struct volume *v = store_find(op->l->server->store, op->fid.volume_id);
    if (v == NULL) {
        reply(op, DFS_ENOVOLUME, 0, NULL, 0);
        return;
    }
    unsigned copies = replica_placement_copies(v->sb.placement);
    if (op->replicate || copies == 1)
        remove_here(op);
    else
        remove_everywhere(op, copies);
}

/* ---- manifests: the chunks go first, so that a failure leaves something that names them ---- */
static void on_chunks_gone(void *arg, int rc, const char *error)
{
    struct delete_op *op = arg;
    struct http_req *r = op->r;
    op->chunks = NULL;
    if (r->dead)
        ;
    else if (rc != 0)
        vs_reply_refused(r, 500, "chunks", "Delete chunks error: %s", error);
    else
        remove_needle(op);
    http_req_drop(r);
}

static void on_full_look(struct delete_op *op, int rc)
{
    struct http_req *r = op->r;
    if (rc != 0 || !op->look.in_memory) {
        needle_read_release(&op->look);
        op->looking = false;
        if (rc == DFS_ENOTFOUND || rc == DFS_ECOOKIE)
            reply(op, rc, 0, NULL, 0);
        else /* its chunks cannot be known: it can still be removed by itself, when asked so */
            vs_reply_refused(r, 500, "manifest", "cannot read the chunk manifest (%s); cm=false removes it alone",
                             rc != 0 ? dfs_err_text(rc) : "too large");
        return;
    }
    struct manifest m;
    rc = manifest_parse_stored(op->look.data, (op->look.needle.flags & NEEDLE_COMPRESSED) != 0, &m);
    needle_read_release(&op->look);
    op->looking = false;
    if (rc != 0) {
        vs_reply_refused(r, 500, "manifest", "bad chunk manifest (%s); cm=false removes it alone", dfs_err_text(rc));
        return;
    }
    op->was_manifest = true;
    op->manifest_bytes = m.size;
    http_req_hold(r);
    rc = chunk_delete_start(op->l, &m, on_chunks_gone, op, &op->chunks); /* takes m */
    if (rc != 0) {
        vs_reply_error(r, 503, "out of memory");
        http_req_drop(r);
    }
}

static void on_look(struct needle_read *look, int rc);

static int look(struct delete_op *op, bool meta_only)
{
    memset(&op->look, 0, sizeof op->look);
    op->look.store = op->l->server->store;
    op->look.loop = op->l->loop;
    op->look.fid = op->fid;
    op->look.meta_only = meta_only;
    op->look.done = on_look;
    op->looking = true;
    int rc = needle_read_start(&op->look);
    if (rc == DFS_EAGAIN)
        http_req_hold(op->r);
    return rc;
}

static void looked(struct delete_op *op, int rc)
{
    if (!op->look.meta_only) {
        on_full_look(op, rc);
        return;
    }
    bool manifest = rc == 0 && (op->look.needle.flags & NEEDLE_CHUNK_MANIFEST) != 0;
    needle_read_release(&op->look);
    op->looking = false;
    if (manifest) {
        rc = look(op, false);
        if (rc != DFS_EAGAIN)
            on_full_look(op, rc);
        return;
    }
    /* Whatever else the look found is found again by the delete itself, under its own rules. */
    remove_needle(op);
}

static void on_look(struct needle_read *nr, int rc)
{
    struct delete_op *op = (struct delete_op *)((char *)nr - offsetof(struct delete_op, look));
    struct http_req *r = op->r;
    if (!r->dead)
        looked(op, rc);
    http_req_drop(r);
}

static void on_close(struct http_req *r)
{
    struct delete_op *op = r->user;
    if (op->looking)
        needle_read_release(&op->look);
}

static void on_end(struct http_req *r)
{
    struct delete_op *op = r->user;
    if (op->replicate || op->plain) {
        remove_needle(op);
        return;
    }
    int rc = look(op, true);
    if (rc != DFS_EAGAIN)
        looked(op, rc);
}

void vs_delete_request(struct http_req *r, struct bytes path)
{
    struct fid_path fp;
    struct http_params *p;
    if (fid_parse_path(path, &fp) != 0) {
        vs_reply_error(r, 400, "not a file id: '%.*s'", (int)(path.n < 200 ? path.n : 200), path.p);
        return;
    }
    if (vs_params(r, &p) != 0)
        return;
    struct delete_op *op = http_req_alloc(r, sizeof *op);
    int rc = op == NULL ? DFS_ENOMEM : 0;
    if (rc == 0 && p != NULL) {
        op->replicate = bytes_eq(http_params_get(p, "type"), BYTES_LIT("replicate"));
        op->fsync = http_params_bool(p, "fsync", false);
        op->plain = !http_params_bool(p, "cm", true);
        rc = http_params_u64(p, "ts", 0, &op->ts_s);
        if (rc == 0 && op->replicate)
            rc = http_params_u64(p, "ts_ns", 0, &op->ts_ns);
        if (rc == 0 && op->replicate)
            rc = replica_undo_parse(p, &op->undo);
    }
    if (p != NULL)
        http_params_release(p);
    if (rc != 0) {
        vs_reply_error(r, rc == DFS_ENOMEM ? 503 : 400, "%s", rc == DFS_ENOMEM ? "out of memory" : "ts is not a time");
        return;
    }
    op->q = (struct vs_request){NULL, on_end, on_close};
    op->r = r;
    op->l = vs_loop_of(r);
    op->fid = fp.fid;
    r->user = op;
}

/* ---- POST /delete?fid=a&fid=b ---- */
#define BATCH_MAX HTTP_PARAMS_MAX

struct batch {
    struct vs_request q;
    struct http_req *r;
    uint32_t count;
    struct bytes fids[BATCH_MAX];
};

static void on_batch(void *arg, const struct batch_result *results, uint32_t count)
{
    struct batch *b = arg;
    struct http_req *r = b->r;
    struct jsonw w;
    struct bytes text = BYTES_LIT("[]");
    jsonw_init(&w, false);
    jsonw_array(&w);
    for (uint32_t i = 0; i < count; i++) {
        jsonw_object(&w);
        jsonw_put_string(&w, "fid", b->fids[i]);
        jsonw_put_u64(&w, "size", results[i].size);
        jsonw_put_i64(&w, "status", results[i].status);
        if (results[i].error != NULL)
            jsonw_put_str(&w, "error", results[i].error);
        jsonw_object_end(&w);
    }
    jsonw_array_end(&w);
    int rc = jsonw_done(&w, &text);
    if (r->dead)
        ;
    else if (rc != 0)
        vs_reply_error(r, 503, "out of memory");
    else
        vs_reply_json(r, 202, text);
    jsonw_release(&w);
    http_req_drop(r);
}

static void batch_end(struct http_req *r)
{
    struct batch *b = r->user;
    http_req_hold(r);
    int rc = batch_delete_start(vs_of(r), r->loop, b->fids, b->count, false, on_batch, b);
    if (rc != 0) {
        vs_reply_error(r, 503, "out of memory");
        http_req_drop(r);
    }
}

void vs_batch_delete_request(struct http_req *r)
{
    struct http_params *p;
    if (vs_params(r, &p) != 0)
        return;
    struct batch *b = http_req_alloc(r, sizeof *b);
    if (b == NULL) {
        if (p != NULL)
            http_params_release(p);
        vs_reply_error(r, 503, "out of memory");
        return;
    }
    for (uint32_t i = 0; p != NULL && i < p->count; i++)
        if (bytes_eq(p->v[i].name, BYTES_LIT("fid")))
            b->fids[b->count++] = vs_keep(r, p->v[i].value);
    if (p != NULL)
        http_params_release(p);
    b->q = (struct vs_request){NULL, batch_end, NULL};
    b->r = r;
    r->user = b;
}
