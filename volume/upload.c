/* Uploads as clients send them: see upload.h. */
#include "volume/upload.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "needle/err.h"
#include "net/ascii.h"
#include "net/gzip.h"
#include "net/jsonw.h"
#include "net/log.h"
#include "volume/replica_call.h"

/* ---- texts ---- */

/* Names come back in headers and travel to replicas in one: no control bytes in them. */
static struct bytes keep_name(struct http_req *r, struct bytes name)
{
    struct bytes kept = vs_keep(r, needle_text_fit(name, NEEDLE_NAME_MAX));
    for (size_t i = 0; i < kept.n; i++)
        if ((unsigned char)kept.p[i] < 0x20 || kept.p[i] == 0x7f)
            ((char *)(uintptr_t)kept.p)[i] = '_';
    return kept;
}

static const struct bytes octet_stream = {"application/octet-stream", 24};

static bool is_type(struct bytes v)
{
    if (v.n == 0 || memchr(v.p, '/', v.n) == NULL || v.n > NEEDLE_MIME_MAX)
        return false;
    for (size_t i = 0; i < v.n; i++)
        if ((unsigned char)v.p[i] < 0x20 || v.p[i] == 0x7f)
            return false;
    return true;
}

/* The type to store.  A form's application/octet-stream says nothing and is not kept; a raw body's is. */
static void choose_mime(struct upload *u, struct bytes given, bool raw)
{
    if (u->replicate) { /* as the first server stored it */
        u->mime = given.n <= NEEDLE_MIME_MAX ? vs_keep(u->r, given) : BYTES_NONE;
        return;
    }
    u->mime_given = is_type(given) && (raw || !bytes_eq(given, octet_stream));
    if (u->mime_given) {
        u->mime = vs_keep(u->r, given);
        return;
    }
    struct bytes ext = http_name_ext(u->name);
    struct bytes guessed = ext.n > 0 ? http_mime_by_ext(ext) : BYTES_NONE;
    u->mime = guessed.n > 0 && !bytes_eq(guessed, octet_stream) ? vs_keep(u->r, guessed) : BYTES_NONE;
}

/* Seaweed-Some-key becomes Some-Key, as HTTP names are written. */
static struct bytes pair_key(struct http_req *r, struct bytes name)
{
    struct bytes key = vs_keep(r, bytes_of(name.p + 8, name.n - 8));
    bool up = true;
    for (size_t i = 0; i < key.n; i++) {
        char c = key.p[i];
        char *at = (char *)(uintptr_t)key.p + i;
        *at = up && c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : up ? c : ascii_lower(c);
        up = c == '-';
    }
    return key;
}

static bool is_pair(struct bytes name)
{
    return name.n > 8 && bytes_ieq(bytes_of(name.p, 8), BYTES_LIT("Seaweed-"));
}

static int by_key(const void *a, const void *b)
{
    const struct http_header *x = a, *y = b;
    size_t n = x->name.n < y->name.n ? x->name.n : y->name.n;
    int c = memcmp(x->name.p, y->name.p, n);
    return c != 0 ? c : x->name.n < y->name.n ? -1 : x->name.n > y->name.n;
}

/* All pairs of the request's headers as one JSON object, by key. */
static int collect_pairs(struct upload *u)
{
    struct http_header pair[HTTP_HEADERS_MAX];
    const struct http_head *h = &u->r->head;
    uint32_t n = 0;
    for (uint32_t i = 0; i < h->header_count; i++) {
        if (!is_pair(h->headers[i].name))
            continue;
        pair[n].name = pair_key(u->r, h->headers[i].name);
        pair[n].value = h->headers[i].value;
        n++;
    }
    if (n == 0)
        return 0;
    qsort(pair, n, sizeof pair[0], by_key);
    struct jsonw w;
    struct bytes text;
    jsonw_init(&w, false);
    jsonw_object(&w);
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0 && by_key(&pair[i - 1], &pair[i]) == 0)
            continue; /* the first of a repeated one */
        jsonw_key_bytes(&w, pair[i].name);
        jsonw_string(&w, pair[i].value);
    }
    jsonw_object_end(&w);
    int rc = jsonw_done(&w, &text);
    if (rc == 0 && text.n > NEEDLE_PAIRS_MAX)
        rc = DFS_ETOOBIG;
    if (rc == 0)
        u->pairs = vs_keep(u->r, text);
    jsonw_release(&w);
    return rc;
}

/* ---- the head ---- */
static int parse_query(struct upload *u)
{
    struct http_params *p;
    struct http_req *r = u->r;
    int rc = vs_params(r, &p);
    u->stored_flags = -1;
    u->ts_s = loop_wall_s(r->loop);
    if (rc != 0 || p == NULL)
        return rc;
    struct bytes type = http_params_get(p, "type"), ts = http_params_get(p, "ts");
    u->replicate = bytes_eq(type, BYTES_LIT("replicate"));
    u->manifest = http_params_bool(p, "cm", false);
    u->fsync = http_params_bool(p, "fsync", false);
    u->explicit_ts = u->replicate ? http_params_bool(p, "ts_given", false) : ts.n > 0;
    if (http_params_u64(p, "ts", u->ts_s, &u->ts_s) != 0 || u->ts_s >> 40 != 0) {
        vs_reply_error(r, 400, "ts is not a time in seconds: '%.*s'", (int)(ts.n < 64 ? ts.n : 64), ts.p);
        rc = DFS_EINVAL;
    } else if (ttl_parse(http_params_get(p, "ttl"), &u->ttl) != 0) {
        struct bytes t = http_params_get(p, "ttl");
        vs_reply_error(r, 400, "ttl cannot be kept exactly: '%.*s'", (int)(t.n < 64 ? t.n : 64), t.p);
        rc = DFS_EINVAL;
    } else if (u->replicate && http_params_u64(p, "ts_ns", 0, &u->ts_ns) != 0) {
        vs_reply_error(r, 400, "ts_ns is not a number");
        rc = DFS_EINVAL;
    } else if (u->replicate && replica_undo_parse(p, &u->undo) != 0) {
        vs_reply_error(r, 400, "undo_ns is no list of times");
        rc = DFS_EINVAL;
    }
    http_params_release(p);
    return rc;
}

/* "f1": what the first server stored, so that replicas are equal to the last bit. */
static void parse_stored_flags(struct upload *u)
{
    struct bytes v = http_header_get(&u->r->head, "X-Dfs-Flags");
    if (!u->replicate || v.n != 2 || ascii_hex(v.p[0]) < 0 || ascii_hex(v.p[1]) < 0)
        return;
    u->stored_flags = ascii_hex(v.p[0]) << 4 | ascii_hex(v.p[1]);
}

static void note_md5(struct upload *u, struct bytes text)
{
    if (text.n == 0)
        return;
    /* Text that is no digest matches nothing: a check that was asked for is not left out in silence. */
    u->md5_text = vs_keep(u->r, text);
    u->md5_wanted = true;
}

static int check_volume(struct upload *u)
{
    struct volume_server *s = u->l->server;
    uint32_t id = u->path.fid.volume_id;
    struct volume *v = store_find(s->store, id);
    int rc = 0;
    if (v == NULL)
        rc = DFS_ENOVOLUME;
    else if ((atomic_load_explicit(&v->no_write, memory_order_relaxed) & VOLUME_LOADING) != 0)
        rc = DFS_ELOADING;
    if (rc != 0) {
        vs_reply_write_failed(u->r, id, rc);
        return rc;
    }
    if (!u->replicate && atomic_load(&s->maintenance)) {
        vs_reply_refused(u->r, 503, "maintenance", "this server takes no new data: it is in maintenance");
        return DFS_EUNAVAILABLE;
    }
    if (!u->replicate && atomic_load(&s->stopping)) {
        vs_reply_refused(u->r, 503, "stopping", "this server is stopping");
        return DFS_EUNAVAILABLE;
    }
    if (ttl_is_none(u->ttl) && !u->replicate)
        u->ttl = v->sb.ttl; /* a file inherits its volume's */
    return 0;
}

uint64_t upload_limit_bytes(const struct upload *u)
{
    uint64_t limit = u->l->server->o.file_limit_bytes;
    if (u->manifest && limit > NEEDLE_READ_SMALL_MAX - 8192u)
        limit = NEEDLE_READ_SMALL_MAX - 8192u; /* or it could not be read as one */
    return limit;
}

static int check_limits(struct upload *u, bool form)
{
    struct http_req *r = u->r;
    struct volume_server *s = u->l->server;
    uint64_t limit = upload_limit_bytes(u);
    uint64_t most = form ? limit + UPLOAD_FORM_SLACK : limit;
    if (r->head.has_length && r->head.content_length > most) {
        http_req_close_after(r);
        vs_reply_error(r, 413, "file over the limit of %" PRIu64 " bytes", limit);
        return DFS_ETOOBIG;
    }
    /* Replica writes have a waiting client behind them: they are never what a limit turns away. */
    uint64_t n = r->head.has_length ? r->head.content_length : CHUNK_BYTES;
    uint64_t before = atomic_fetch_add(&s->upload_bytes, n);
    u->counted_bytes = n;
    if (s->o.upload_limit_bytes != 0 && !u->replicate && before != 0 && before + n > s->o.upload_limit_bytes) {
        server_metrics_event(&s->metrics, EVENT_UPLOAD_LIMIT);
        vs_reply_error(r, 429, "too many upload bytes in flight");
        return DFS_EBUSY;
    }
    return 0;
}

static void on_stage_ready(void *arg)
{
    struct upload *u = arg;
    struct http_req *r = u->r;
    u->paused = false;
    if (r->dead) {
        http_req_drop(r);
        return;
    }
    if (u->on_stage_ready != NULL)
        u->on_stage_ready(u);
    else
        http_req_resume(r);
    http_req_drop(r);
}

static void pause_upload(struct upload *u)
{
    if (u->paused)
        return;
    u->paused = true;
    http_req_hold(u->r);
}

/* ---- the body ---- */
static void reply_body_failed(struct upload *u, int rc)
{
    struct http_req *r = u->r;
    switch (rc) {
    case DFS_ETOOBIG:
        vs_reply_error(r, 413, "file over the limit of %" PRIu64 " bytes", upload_limit_bytes(u));
        return;
    case DFS_EPROTO:
    case DFS_EINVAL:
        vs_reply_error(r, 400, "broken multipart/form-data body");
        return;
    default:
        vs_reply_write_failed(r, u->path.fid.volume_id, rc);
    }
}

static int take_data(struct upload *u, struct bytes in, size_t *taken)
{
    int rc = stage_append(u->stage, in, taken);
    if (rc == 0)
        *taken = in.n;
    if (rc == DFS_EAGAIN)
        pause_upload(u);
    return rc;
}

static int on_part(void *arg, const struct multipart_part *part)
{
    struct upload *u = arg;
    int rc = stage_reset(u->stage);
    if (rc != 0)
        return rc;
    u->name = keep_name(u->r, part->filename);
    choose_mime(u, part->content_type, false);
    u->gzip = part->gzip || http_list_has(http_header_get(&u->r->head, "Content-Encoding"), "gzip");
    if (part->content_md5.n > 0)
        note_md5(u, part->content_md5);
    return 0;
}

static int on_part_data(void *arg, struct bytes data, size_t *taken)
{
    return take_data(arg, data, taken);
}

static const struct multipart_ops form_ops = {on_part, on_part_data};

static int begin_form(struct upload *u, struct bytes content_type)
{
    char *boundary = http_req_alloc(u->r, content_type.n + 1);
    size_t n = 0;
    int rc = DFS_EINVAL;
    if (boundary != NULL && content_type.n > 0 && http_value_param(content_type, "boundary", boundary, &n))
        rc = multipart_new(bytes_of(boundary, n), &form_ops, u, &u->form);
    if (rc != 0)
        vs_reply_error(u->r, rc == DFS_ENOMEM ? 503 : 400, "no usable multipart boundary in Content-Type");
    return rc;
}

static void begin_raw(struct upload *u, struct bytes content_type)
{
    const struct http_head *h = &u->r->head;
    struct bytes disposition = http_header_get(h, "Content-Disposition");
    struct bytes name = BYTES_NONE;
    if (disposition.n > 0) {
        char *text = http_req_alloc(u->r, disposition.n + 1);
        if (text != NULL)
            name = http_disposition_name(disposition, text);
    }
    u->name = keep_name(u->r, name.p != NULL ? name : http_name_last(u->last_element));
    /* curl's default for --data says nothing about the file. */
    bool form_urlencoded = content_type.n >= 33 &&
                           bytes_ieq(bytes_of(content_type.p, 33), BYTES_LIT("application/x-www-form-urlencoded"));
    choose_mime(u, form_urlencoded ? BYTES_NONE : content_type, true);
    u->gzip = http_list_has(http_header_get(h, "Content-Encoding"), "gzip");
}

/* A form under POST and PUT; POST without a type cannot be anything else. */
static bool is_form(const struct http_head *h, struct bytes content_type)
{
    if (content_type.n == 0)
        return h->method == HTTP_POST;
    struct bytes form = BYTES_LIT("multipart/form-data");
    return content_type.n >= form.n && bytes_ieq(bytes_of(content_type.p, form.n), form);
}

int upload_begin(struct upload *u, struct http_req *r, struct bytes path)
{
    u->r = r;
    u->l = vs_loop_of(r);
    if (fid_parse_path(path, &u->path) != 0) {
        vs_reply_error(r, 400, "not a file id: '%.*s'", (int)(path.n < 200 ? path.n : 200), path.p);
        return DFS_EINVAL;
    }
    u->last_element = path;
    for (size_t i = path.n; i > 0; i--)
        if (path.p[i - 1] == '/') {
            u->last_element = bytes_of(path.p + i, path.n - i);
            break;
        }
    struct bytes content_type = http_header_get(&r->head, "Content-Type");
    bool form = is_form(&r->head, content_type);
    int rc = parse_query(u);
    if (rc == 0)
        rc = check_volume(u);
    if (rc == 0)
        rc = check_limits(u, form);
    if (rc != 0)
        return rc;
    parse_stored_flags(u);
    note_md5(u, http_header_get(&r->head, "Content-MD5"));
    rc = collect_pairs(u);
    if (rc != 0) {
        vs_reply_error(r, rc == DFS_ETOOBIG ? 431 : 503, "cannot keep the Seaweed-* headers: %s", dfs_err_text(rc));
        return rc;
    }
    if (form) {
        rc = begin_form(u, content_type);
        if (rc != 0)
            return rc;
    } else {
        begin_raw(u, content_type);
    }
    rc = stage_new(u->l->server->store, u->path.fid.volume_id, r->loop, u->replicate, upload_limit_bytes(u), on_stage_ready, u,
                   &u->stage);
    if (rc != 0) {
        vs_reply_write_failed(r, u->path.fid.volume_id, rc);
        return rc;
    }
    if (r->head.has_length)
        stage_expect(u->stage, r->head.content_length);
    return 0;
}

int upload_feed(struct upload *u, struct bytes in, size_t *taken)
{
    *taken = 0;
    int rc = u->form != NULL ? multipart_feed(u->form, in, taken) : take_data(u, in, taken);
    if (rc != 0 && rc != DFS_EAGAIN) {
        if (rc == DFS_ETOOBIG && u->form != NULL && stage_bytes(u->stage) < upload_limit_bytes(u))
            rc = DFS_EPROTO; /* the form's heads were, not the file */
        http_req_close_after(u->r);
        reply_body_failed(u, rc);
    }
    return rc;
}

size_t upload_room(struct upload *u, void **p)
{
    size_t n = 0;

    if (!u->paused && (u->form == NULL || multipart_in_data(u->form)))
        n = stage_room(u->stage, p);
    u->room = n > 0 ? *p : NULL;
    return n;
}

size_t upload_filled(struct upload *u, size_t n)
{
    struct bytes in = bytes_of(u->room, n);

    if (u->form != NULL)
        in.n = multipart_plain(u->form, in);
    if (in.n == 0)
        return 0;
    stage_filled(u->stage, in.n);
    return in.n;
}

int upload_end(struct upload *u)
{
    int rc = 0;
    if (u->form != NULL) {
        rc = multipart_end(u->form);
        multipart_free(u->form);
        u->form = NULL;
    }
    if (rc == 0) {
        rc = stage_finish(u->stage);
        if (rc == DFS_EAGAIN) {
            pause_upload(u);
            return rc;
        }
    }
    if (rc != 0) {
        reply_body_failed(u, rc);
        return rc;
    }
    if (u->replicate || !u->gzip)
        return 0;
    if (stage_bytes(u->stage) > 0 && !gzip_looks_like(stage_piece(u->stage, 0))) {
        vs_reply_error(u->r, 400, "Content-Encoding says gzip, the body is not");
        return DFS_EINVAL;
    }
    return 0;
}

void upload_release(struct upload *u)
{
    if (u->form != NULL)
        multipart_free(u->form);
    u->form = NULL;
    stage_free(u->stage);
    u->stage = NULL;
    if (u->counted_bytes != 0)
        atomic_fetch_sub(&u->l->server->upload_bytes, u->counted_bytes);
    u->counted_bytes = 0;
}
