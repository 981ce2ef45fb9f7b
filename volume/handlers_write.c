/* POST and PUT of a needle.  This file owns the order: body complete, checked, perhaps compressed, written here and on the
 * sisters, answered. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "needle/err.h"
#include "net/ascii.h"
#include "net/clock.h"
#include "net/gzip.h"
#include "net/jsonw.h"
#include "volume/body_check.h"
#include "volume/late_write.h"
#include "volume/replicate.h"
#include "volume/upload.h"

struct write_op {
    struct vs_request q;
    struct upload u;
    struct needle meta;
    bool compressed;         /* by us */
    uint64_t original_bytes;
    struct late_write local;
    struct replicated_write all;
    uint64_t started_ns;

    /* compressing and checking, on the work pool */
    struct work work;
    struct body_check check;
    char *text;
    size_t text_bytes, text_cap;
    int work_rc;
    size_t refilled;
};

static void body_complete(struct write_op *op);
static void store_needle(struct write_op *op);

static void on_close(struct http_req *r)
{
    struct write_op *op = r->user;
    body_check_release(&op->check);
    upload_release(&op->u);
    free(op->text);
    op->text = NULL;
}

static int on_body(struct http_req *r, struct bytes in, size_t *taken)
{
    struct write_op *op = r->user;
    return upload_feed(&op->u, in, taken);
}

static size_t room(struct http_req *r, void **p)
{
    struct write_op *op = r->user;
    return upload_room(&op->u, p);
}

static size_t filled(struct http_req *r, size_t n)
{
    struct write_op *op = r->user;
    return upload_filled(&op->u, n);
}

static const struct http_direct direct = {room, filled};

static void finish_upload(struct upload *u)
{
    struct write_op *op = (struct write_op *)((char *)u - offsetof(struct write_op, u));
    int rc = upload_end(u);
    if (rc == 0)
        body_complete(op);
    else if (rc == DFS_EAGAIN)
        u->on_stage_ready = finish_upload;
}

static void on_end(struct http_req *r)
{
    struct write_op *op = r->user;
    finish_upload(&op->u);
}

void vs_write_request(struct http_req *r, struct bytes path)
{
    struct write_op *op = http_req_alloc(r, sizeof *op);
    if (op == NULL) {
        vs_reply_error(r, 503, "out of memory");
        return;
    }
    op->q = (struct vs_request){on_body, on_end, on_close};
    op->u.l = vs_loop_of(r);
    r->user = op;
    if (upload_begin(&op->u, r, path) == 0)
        r->direct = &direct;
}

/* ---- the work pool's part ---- */
static void submit(struct write_op *op, void (*run)(struct work *w), void (*done)(struct work *w))
{
    http_req_hold(op->u.r);
    op->work = (struct work){.loop = op->u.l->loop, .privileged = op->u.replicate, .run = run, .done = done};
    work_submit(op->u.l->server->pool, &op->work);
}

static struct write_op *op_of_work(struct work *w)
{
    return (struct write_op *)((char *)w - offsetof(struct write_op, work));
}

/* One run of memory with all that is staged; only for bodies that are in memory. */
static char *gather(struct stage *stage)
{
    char *p = malloc(stage_bytes(stage) + 1), *at = p;
    for (size_t i = 0; p != NULL && i < stage_pieces(stage); i++) {
        struct bytes piece = stage_piece(stage, i);
        memcpy(at, piece.p, piece.n);
        at += piece.n;
    }
    return p;
}

static void run_check(struct work *w)
{
    struct write_op *op = op_of_work(w);
    op->work_rc = body_check_step(&op->check, BODY_CHECK_STEP_BYTES);
}

static void reply_md5_wrong(struct write_op *op)
{
    vs_reply_error(op->u.r, 400, "Content-MD5 did not match md5 of file data expected [%.*s] size %" PRIu64,
                   (int)op->u.md5_text.n, op->u.md5_text.p, stage_bytes(op->u.stage));
}

static void choose_compression(struct write_op *op);

static void done_check(struct work *w);

static void check_told(struct write_op *op, int rc)
{
    struct upload *u = &op->u;
    switch (rc) {
    case DFS_EAGAIN:
        submit(op, run_check, done_check);
        return;
    case 0:
        op->original_bytes = body_check_text_bytes(&op->check);
        choose_compression(op);
        return;
    case DFS_EINVAL:
        reply_md5_wrong(op);
        return;
    case DFS_ECORRUPT:
        vs_reply_error(u->r, 400, "Content-Encoding says gzip, the body does not inflate: it is cut short or damaged");
        return;
    case DFS_ETOOBIG:
        vs_reply_error(u->r, 413, "inflated file over the limit of %" PRIu64 " bytes", upload_limit_bytes(u));
        return;
    default:
        vs_reply_write_failed(u->r, u->path.fid.volume_id, rc);
    }
}

static void done_check(struct work *w)
{
    struct write_op *op = op_of_work(w);
    struct http_req *r = op->u.r;
    if (!r->dead)
        check_told(op, op->work_rc);
    http_req_drop(r);
}

/* Nothing is stored as gzip that could not be inflated for who does not accept it. */
static void check_body(struct write_op *op, bool gzip)
{
    struct upload *u = &op->u;
    body_check_init(&op->check, u->stage, u->md5_wanted, u->md5_text, gzip, upload_limit_bytes(u));
    check_told(op, body_check_is_little(&op->check) ? body_check_step(&op->check, BODY_CHECK_INLINE_BYTES) : DFS_EAGAIN);
}

static void run_compress(struct work *w)
{
    struct write_op *op = op_of_work(w);
    char *in = gather(op->u.stage);
    op->work_rc = in == NULL ? DFS_ENOMEM
                             : gzip_compress(bytes_of(in, stage_bytes(op->u.stage)), 6, op->text, op->text_cap, &op->text_bytes);
    free(in);
}

/* The staged bytes make room for their compressed form. */
static void refill(struct upload *u)
{
    struct write_op *op = (struct write_op *)((char *)u - offsetof(struct write_op, u));
    struct http_req *r = u->r;
    size_t taken = 0;
    int rc = stage_append(u->stage, bytes_of(op->text + op->refilled, op->text_bytes - op->refilled), &taken);
    if (rc == DFS_EAGAIN) {
        op->refilled += taken;
        u->paused = true;
        u->on_stage_ready = refill;
        http_req_hold(r);
        return;
    }
    op->refilled = op->text_bytes;
    if (rc == 0)
        rc = stage_finish(u->stage);
    if (rc == DFS_EAGAIN) {
        u->paused = true;
        u->on_stage_ready = refill; /* nothing is left to append: only the finish is asked again */
        http_req_hold(r);
        return;
    }
    if (rc != 0)
        vs_reply_write_failed(r, u->path.fid.volume_id, rc);
    else
        store_needle(op);
}

static void done_compress(struct work *w)
{
    struct write_op *op = op_of_work(w);
    struct http_req *r = op->u.r;
    if (!r->dead) {
        if (op->work_rc != 0) { /* not worth it, or no memory for it: as it was sent */
            store_needle(op);
        } else {
            op->compressed = true;
            stage_reset(op->u.stage);
            refill(&op->u);
        }
    }
    http_req_drop(r);
}

static bool has_prefix(struct bytes b, const char *prefix)
{
    size_t n = strlen(prefix);
    return b.n >= n && bytes_ieq(bytes_of(b.p, n), bytes_of(prefix, n));
}

static bool has_suffix(struct bytes b, const char *suffix)
{
    size_t n = strlen(suffix);
    return b.n >= n && bytes_ieq(bytes_of(b.p + b.n - n, n), bytes_of(suffix, n));
}

/* What the peer's 4.x compresses: by extension first, then by type. */
static bool is_compressible(struct bytes name, struct bytes mime)
{
    static const char *const yes[] = {".svg", ".bmp", ".wav", ".pdf", ".txt", ".html", ".htm", ".css", ".js", ".json", ".xml",
                                      ".c", ".h", ".cpp", ".go", ".java", ".py", ".rb", ".sh", ".md", ".log", ".csv", ".sql"};
    static const char *const no[] = {".zip", ".rar", ".gz", ".bz2", ".xz", ".zst", ".br", ".png", ".jpg", ".jpeg", ".gif", ".webp",
                                     ".mp3", ".mp4", ".m4a", ".mkv", ".webm", ".7z"};
    struct bytes ext = http_name_ext(name);
    for (size_t i = 0; ext.n > 0 && i < sizeof no / sizeof no[0]; i++)
        if (bytes_ieq(ext, bytes_str(no[i])))
            return false;
    if (bytes_eq(mime, BYTES_LIT("binary/data")))
        return false;
    for (size_t i = 0; ext.n > 0 && i < sizeof yes / sizeof yes[0]; i++)
        if (bytes_ieq(ext, bytes_str(yes[i])))
            return true;
    if (has_prefix(mime, "text/"))
        return true;
    struct bytes rest = mime, bare;
    if (!bytes_split(&rest, ';', &bare) || !has_prefix(bare, "application/"))
        return false;
    return has_suffix(bare, "xml") || has_suffix(bare, "script") || has_suffix(bare, "json");
}

static void choose_compression(struct write_op *op)
{
    struct upload *u = &op->u;
    uint64_t n = stage_bytes(u->stage);
    bool wanted = u->l->server->o.compress == VOLUME_COMPRESS_AUTO && !u->replicate && !u->gzip && !u->manifest &&
                  n > 128 && stage_in_memory(u->stage) && is_compressible(u->name, u->mime);
    if (wanted) {
        op->text_cap = n * 9 / 10;
        op->text = malloc(op->text_cap + 1);
    }
    if (op->text == NULL)
        store_needle(op);
    else
        submit(op, run_compress, done_compress);
}

static void body_complete(struct write_op *op)
{
    struct upload *u = &op->u;
    /* What a replica is sent was looked at by the first server. */
    bool gzip = u->gzip && stage_bytes(u->stage) > 0 && (!u->replicate || u->md5_wanted);
    op->original_bytes = stage_bytes(u->stage);
    if (gzip || u->md5_wanted)
        check_body(op, gzip);
    else
        choose_compression(op);
}

/* ---- writing ---- */
static void fill_meta(struct write_op *op)
{
    struct upload *u = &op->u;
    struct needle *n = &op->meta;
    n->name = u->name;
    n->mime = u->manifest && !u->replicate ? BYTES_NONE : u->mime;
    n->pairs = u->pairs;
    n->last_modified_s = u->ts_s;
    n->ttl = u->ttl;
    n->flags = NEEDLE_HAS_NAME | NEEDLE_HAS_MIME | NEEDLE_HAS_LAST_MODIFIED;
    if (u->stored_flags >= 0)
        n->flags = (uint8_t)u->stored_flags & (NEEDLE_HAS_NAME | NEEDLE_HAS_MIME | NEEDLE_HAS_LAST_MODIFIED);
    if (n->name.n > 0)
        n->flags |= NEEDLE_HAS_NAME;
    if (n->mime.n > 0)
        n->flags |= NEEDLE_HAS_MIME;
    if (n->pairs.n > 0)
        n->flags |= NEEDLE_HAS_PAIRS;
    if (!ttl_is_none(n->ttl))
        n->flags |= NEEDLE_HAS_TTL;
    if (op->compressed || u->gzip)
        n->flags |= NEEDLE_COMPRESSED;
    if (u->manifest)
        n->flags |= NEEDLE_CHUNK_MANIFEST;
}

static void reply_stored(struct write_op *op, bool unchanged, uint32_t crc)
{
    struct http_req *r = op->u.r;
    char etag[16];
    snprintf(etag, sizeof etag, "\"%08x\"", crc);
    vs_reply_begin(r, unchanged && !op->u.replicate ? 204 : 201);
    http_reply_header(r, "ETag", bytes_of(etag, 10));
    if (op->u.md5_wanted)
        http_reply_header(r, "Content-MD5", op->u.md5_text);
    if (op->u.replicate)
        http_reply_headerf(r, "X-Dfs-Last-Ns", "%" PRIu64, op->local.w.last_ns);
    if (unchanged && !op->u.replicate) {
        http_reply_bytes(r, BYTES_NONE);
        return;
    }
    struct jsonw w;
    struct bytes text = BYTES_LIT("{}");
    jsonw_init(&w, false);
    jsonw_object(&w);
    if (op->meta.name.n > 0)
        jsonw_put_string(&w, "name", op->meta.name);
    if (op->original_bytes > 0)
        jsonw_put_u64(&w, "size", op->original_bytes);
    jsonw_put_string(&w, "eTag", bytes_of(etag + 1, 8));
    if (op->meta.mime.n > 0)
        jsonw_put_string(&w, "mime", op->meta.mime);
    if (op->u.md5_wanted)
        jsonw_put_string(&w, "contentMd5", op->u.md5_text);
    jsonw_object_end(&w);
    jsonw_done(&w, &text);
    http_reply_header(r, "Content-Type", BYTES_LIT("application/json"));
    http_reply_bytes(r, text);
    jsonw_release(&w);
}

static void reply_failed(struct write_op *op, int rc)
{
    struct http_req *r = op->u.r;
    if (!op->u.replicate) {
        vs_reply_write_failed(r, op->u.path.fid.volume_id, rc);
        return;
    }
    char json[256];
    const char *reason;
    int status = vs_write_status(rc, &reason);
    int n = snprintf(json, sizeof json, "{\"error\":\"volume %u: %s\"}", op->u.path.fid.volume_id, dfs_err_text(rc));
    server_metrics_event(&vs_of(r)->metrics, status < 500 ? EVENT_WRITE_REFUSED : EVENT_WRITE_LOCAL);
    vs_reply_begin(r, status);
    if (reason != NULL)
        http_reply_header(r, "X-Dfs-Reason", bytes_str(reason));
    http_reply_headerf(r, "X-Dfs-Last-Ns", "%" PRIu64, op->local.w.last_ns);
    http_reply_header(r, "Content-Type", BYTES_LIT("application/json"));
    http_reply_bytes(r, bytes_of(json, (size_t)n));
}

static void on_local(struct late_write *late, int rc)
{
    struct write_op *op = (struct write_op *)((char *)late - offsetof(struct write_op, local));
    struct needle_write *w = &late->w;
    struct http_req *r = op->u.r;
    struct volume_server *s = vs_of(r);
    metric_observe_ns(&s->metrics.local_write_seconds, clock_mono_ns() - op->started_ns);
    vs_stamp_seen(s, w->last_ns);
    if (!r->dead) {
        if (rc == 0)
            reply_stored(op, w->unchanged, w->data_crc);
        else
            reply_failed(op, rc);
    }
    http_req_drop(r);
}

static void on_all(struct replicated_write *w, int rc)
{
    struct write_op *op = (struct write_op *)((char *)w - offsetof(struct write_op, all));
    struct http_req *r = op->u.r;
    if (r->dead)
        ;
    else if (rc == 0)
        reply_stored(op, w->unchanged, w->data_crc);
    else if (w->error[0] != '\0')
        vs_reply_refused(r, rc == DFS_EBUSY ? 503 : 500, "replicas", "%s", w->error);
    else
        vs_reply_write_failed(r, op->u.path.fid.volume_id, rc);
    http_req_drop(r);
}

static void store_here(struct write_op *op)
{
    struct needle_write *w = &op->local.w;
    w->store = op->u.l->server->store;
    w->loop = op->u.l->loop;
    w->fid = op->u.path.fid;
    w->meta = op->meta;
    w->stage = stage_bytes(op->u.stage) > 0 ? op->u.stage : NULL;
    w->durability = op->u.fsync ? DURABILITY_GROUP : DURABILITY_NONE;
    w->append_at_ns = op->u.ts_ns;
    w->explicit_ts = op->u.explicit_ts;
    w->privileged = op->u.replicate;
    w->undo = op->u.undo;
    op->local.done = on_local;
    http_req_hold(op->u.r);
    int rc = late_write_start(&op->local);
    if (rc != 0) {
        reply_failed(op, rc);
        http_req_drop(op->u.r);
    }
}

static void store_everywhere(struct write_op *op, unsigned copies)
{
    struct replicated_write *w = &op->all;
    w->l = op->u.l;
    w->fid = op->u.path.fid;
    w->meta = op->meta;
    w->stage = stage_bytes(op->u.stage) > 0 ? op->u.stage : NULL;
    w->durability = op->u.fsync ? DURABILITY_GROUP : DURABILITY_NONE;
    w->fsync = op->u.fsync;
    w->explicit_ts = op->u.explicit_ts;
    w->done = on_all;
    http_req_hold(op->u.r);
    int rc = replicated_write_start(w, copies);
    if (rc != 0) {
        reply_failed(op, rc);
        http_req_drop(op->u.r);
    }
}

static void store_needle(struct write_op *op)
{
    fill_meta(op);
    op->started_ns = clock_mono_ns();
    struct volume *v = store_find(op->u.l->server->store, op->u.path.fid.volume_id);
    if (v == NULL) { /* gone since the head came */
        reply_failed(op, DFS_ENOVOLUME);
        return;
    }
    unsigned copies = replica_placement_copies(v->sb.placement);
    if (op->u.replicate || copies == 1)
        store_here(op);
    else
        store_everywhere(op, copies);
}
