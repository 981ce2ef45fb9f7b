/* GET and HEAD of a needle.  The common case, a small needle in the page cache, is answered within one call and without
 * allocation. */
#include "volume/read_op.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/ascii.h"

static void on_read(struct needle_read *nr, int rc);
static void finish(struct read_op *op, int rc);

/* ---- life ---- */
static struct read_op *op_new(struct vs_loop *l)
{
    struct read_op *op = l->spare_reads;
    if (op != NULL) {
        l->spare_reads = op->next_spare;
        l->spare_read_count--;
        memset(op, 0, sizeof *op);
    } else {
        op = calloc(1, sizeof *op);
    }
    if (op != NULL)
        op->l = l;
    return op;
}

void read_op_release(struct read_op *op)
{
    struct vs_loop *l = op->l;
    if (op->gz != NULL)
        gunzip_free(op->gz);
    if (op->mf != NULL)
        manifest_read_free(op->mf);
    if (op->started)
        needle_read_release(&op->nr);
    if (op->params != NULL)
        http_params_release(op->params);
    if (op->counted_bytes != 0)
        atomic_fetch_sub(&l->server->download_bytes, op->counted_bytes);
    free(op->copy);
    if (l->spare_read_count >= READ_SPARES_MAX) {
        free(op);
        return;
    }
    op->next_spare = l->spare_reads;
    l->spare_reads = op;
    l->spare_read_count++;
}

void read_op_abandon(struct read_op *op)
{
    if (op->params != NULL) { /* lives in the request's memory */
        http_params_release(op->params);
        op->params = NULL;
    }
    if (op->pending && op->mf != NULL && manifest_read_stop(op->mf))
        op->pending = false;
    if (op->pending) {
        op->orphan = true;
        return;
    }
    struct http_req *held = op->held ? op->r : NULL;
    read_op_release(op);
    if (held != NULL)
        http_req_drop(held);
}

void read_op_hold(struct read_op *op)
{
    if (op->held)
        return;
    op->held = true;
    http_req_hold(op->r);
}

void vs_read_loop_release(struct vs_loop *l)
{
    while (l->spare_reads != NULL) {
        struct read_op *op = l->spare_reads;
        l->spare_reads = op->next_spare;
        free(op);
    }
    l->spare_read_count = 0;
}

/* ---- the request ---- */
static void scan_headers(const struct http_head *h, struct read_wants *w)
{
    for (uint32_t i = 0; i < h->header_count; i++) {
        struct bytes name = h->headers[i].name, value = h->headers[i].value;
        struct bytes *slot = NULL;
        switch (name.n) {
        case 5:
            if (bytes_ieq(name, BYTES_LIT("range")))
                slot = &w->range;
            break;
        case 6:
            if (bytes_ieq(name, BYTES_LIT("origin")))
                w->origin = true;
            break;
        case 8:
            if (bytes_ieq(name, BYTES_LIT("if-range")))
                slot = &w->if_range;
            else if (bytes_ieq(name, BYTES_LIT("if-match")))
                slot = &w->if_match;
            break;
        case 13:
            if (bytes_ieq(name, BYTES_LIT("if-none-match")))
                slot = &w->if_none_match;
            break;
        case 15:
            if (bytes_ieq(name, BYTES_LIT("accept-encoding")))
                w->gzip = http_list_has(value, "gzip");
            break;
        case 17:
            if (bytes_ieq(name, BYTES_LIT("if-modified-since")))
                slot = &w->if_modified_since;
            break;
        case 19:
            if (bytes_ieq(name, BYTES_LIT("if-unmodified-since")))
                slot = &w->if_unmodified_since;
            break;
        default:
            break;
        }
        if (slot != NULL && slot->p == NULL)
            *slot = value;
    }
}

static int start(struct read_op *op)
{
    op->nr.store = op->l->server->store;
    op->nr.loop = op->l->loop;
    op->nr.done = on_read;
    op->started = true;
    int rc = needle_read_start(&op->nr);
    op->pending = rc == DFS_EAGAIN;
    return rc;
}

/* HEAD reads no body; when it turns out that the answer depends on it, once more with it. */
static void restart_with_data(struct read_op *op)
{
    struct fid fid = op->nr.fid;
    bool read_deleted = op->nr.read_deleted;
    needle_read_release(&op->nr);
    memset(&op->nr, 0, sizeof op->nr);
    op->nr.fid = fid;
    op->nr.read_deleted = read_deleted;
    int rc = start(op);
    if (rc == DFS_EAGAIN) {
        read_op_hold(op);
        return;
    }
    finish(op, rc);
}

void vs_read_request(struct http_req *r, struct bytes path)
{
    struct fid_path fp;
    if (fid_parse_path(path, &fp) != 0) {
        vs_reply_error(r, 400, "not a file id: '%.*s'", (int)(path.n < 200 ? path.n : 200), path.p);
        return;
    }
    struct read_op *op = op_new(vs_loop_of(r));
    if (op == NULL) {
        vs_reply_error(r, 503, "out of memory");
        return;
    }
    op->r = r;
    op->head = r->head.method == HTTP_HEAD;
    op->url_name = fp.filename;
    op->ext = fp.ext;
    op->nr.fid = fp.fid;
    op->nr.meta_only = op->head;
    scan_headers(&r->head, &op->wants);
    if (r->head.query.n != 0) {
        if (vs_params(r, &op->params) != 0) {
            read_op_release(op);
            return;
        }
        op->nr.read_deleted = http_params_bool(op->params, "readDeleted", false);
        op->raw_manifest = !http_params_bool(op->params, "cm", true);
        op->attachment = http_params_bool(op->params, "dl", false);
    }
    int rc = start(op);
    if (rc == DFS_EAGAIN) {
        read_op_hold(op);
        return;
    }
    finish(op, rc);
}

void read_op_arrived(struct read_op *op, int rc, void (*next)(struct read_op *op, int rc))
{
    struct http_req *r = op->r;
    bool held = op->held;
    op->pending = false;
    op->held = false; /* this hold may outlive op */
    if (op->orphan || (r->dead && !op->in_body))
        read_op_release(op);
    else if (op->in_body)
        http_source_ready(r);
    else
        next(op, rc);
    if (held)
        http_req_drop(r);
}

static void on_read(struct needle_read *nr, int rc)
{
    struct read_op *op = (struct read_op *)((char *)nr - offsetof(struct read_op, nr));
    read_op_arrived(op, rc, op->after_read != NULL ? op->after_read : finish);
}

static void reply_missing(struct read_op *op, const char *reason)
{
    struct http_req *r = op->r;
    read_op_release(op);
    server_metrics_event(&vs_of(r)->metrics, EVENT_GET_NOT_FOUND);
    vs_reply_begin(r, 404);
    http_reply_header(r, "X-Dfs-Reason", bytes_str(reason));
    http_reply_bytes(r, BYTES_NONE);
}

static void not_here(struct read_op *op)
{
    struct volume_server *s = op->l->server;
    struct fid fid = op->nr.fid;
    bool proxied = op->params != NULL && http_params_get(op->params, "proxied").p != NULL;
    if (s->o.read_mode == VOLUME_READ_LOCAL || proxied) {
        reply_missing(op, "volume");
        return;
    }
    needle_read_release(&op->nr);
    op->started = false;
    if (s->o.read_mode == VOLUME_READ_REDIRECT)
        redirect_answer(op, &fid);
    else
        proxy_answer(op, fid.volume_id, PROXY_NOT_HERE);
}

static bool has_sisters(struct read_op *op)
{
    struct volume *v = store_find(op->l->server->store, op->nr.fid.volume_id);
    return v != NULL && replica_placement_copies(v->sb.placement) > 1;
}

static void broken(struct read_op *op, int rc)
{
    struct volume_server *s = op->l->server;
    struct http_req *r = op->r;
    uint32_t volume_id = op->nr.fid.volume_id;
    bool proxied = op->params != NULL && http_params_get(op->params, "proxied").p != NULL;
    server_metrics_event(&s->metrics, rc == DFS_ECORRUPT ? EVENT_CRC : EVENT_GET_INTERNAL);
    if (!proxied && has_sisters(op)) {
        needle_read_release(&op->nr);
        op->started = false;
        proxy_answer(op, volume_id, PROXY_BROKEN);
        return;
    }
    read_op_release(op);
    /* A volume that is just being closed, or whose file is away: that passes, as it does for a write. */
    if (rc == DFS_EUNAVAILABLE || rc == DFS_ECANCELLED || rc == DFS_EAGAIN)
        vs_reply_refused(r, 503, "unavailable", "volume %" PRIu32 " cannot be read now: it is closing, or its file is away",
                         volume_id);
    else
        vs_reply_refused(r, 500, rc == DFS_ECORRUPT ? "corrupt" : "io", "cannot read this file: %s", dfs_err_text(rc));
}

static void finish(struct read_op *op, int rc)
{
    struct http_req *r = op->r;
    switch (rc) {
    case 0:
        break;
    case DFS_ENOVOLUME:
        not_here(op);
        return;
    case DFS_ENOTFOUND:
    case DFS_ECOOKIE:
        reply_missing(op, "needle");
        return;
    case DFS_ELOADING:
        read_op_release(op);
        vs_reply_refused(r, 503, "loading", "the volume is still loading");
        return;
    case DFS_ENOMEM:
    case DFS_ENOFILES:
    case DFS_EBUSY:
        read_op_release(op);
        vs_reply_error(r, 503, "%s", dfs_err_text(rc));
        return;
    default:
        broken(op, rc);
        return;
    }
    struct needle *n = &op->nr.needle;
    bool compressed = (n->flags & NEEDLE_COMPRESSED) != 0;
    bool manifest = (n->flags & NEEDLE_CHUNK_MANIFEST) != 0 && !op->raw_manifest;
    bool inflate = compressed && !op->wants.gzip && !bytes_ieq(op->ext, BYTES_LIT(".gz"));
    if (op->nr.meta_only && (manifest || inflate)) {
        restart_with_data(op);
        return;
    }
    if (manifest)
        manifest_answer(op);
    else
        read_stored(op);
}

void read_stored(struct read_op *op)
{
    const struct needle *n = &op->nr.needle;
    bool compressed = (n->flags & NEEDLE_COMPRESSED) != 0;

    if (compressed && !op->wants.gzip && !bytes_ieq(op->ext, BYTES_LIT(".gz")))
        gunzip_answer(op);
    else
        read_answer(op, n->data_bytes, compressed && op->wants.gzip);
}

/* ---- the answer ---- */
static void header_etag(const struct read_op *op, char out[11])
{
    static const char hex[] = "0123456789abcdef";
    uint32_t crc = op->nr.data_crc;
    out[0] = '"';
    for (int i = 0; i < 8; i++)
        out[1 + i] = hex[crc >> (28 - 4 * i) & 15];
    out[9] = '"';
    out[10] = '\0';
}

enum condition { CONDITION_OK, CONDITION_NOT_MODIFIED, CONDITION_FAILED };

static enum condition check_conditions(const struct read_op *op, struct bytes etag, uint64_t modified_s)
{
    const struct read_wants *w = &op->wants;
    uint64_t t;
    if (w->if_match.p != NULL) {
        if (!http_etag_listed(w->if_match, etag, false))
            return CONDITION_FAILED;
    } else if (w->if_unmodified_since.p != NULL && modified_s != 0 && http_date_parse(w->if_unmodified_since, &t) == 0 &&
               modified_s > t) {
        return CONDITION_FAILED;
    }
    if (w->if_none_match.p != NULL)
        return http_etag_listed(w->if_none_match, etag, true) ? CONDITION_NOT_MODIFIED : CONDITION_OK;
    if (w->if_modified_since.p != NULL && modified_s != 0 && http_date_parse(w->if_modified_since, &t) == 0 && modified_s <= t)
        return CONDITION_NOT_MODIFIED;
    return CONDITION_OK;
}

static bool range_applies(const struct read_op *op, struct bytes etag, uint64_t modified_s)
{
    uint64_t t;
    if (op->wants.range.p == NULL)
        return false;
    struct bytes v = op->wants.if_range;
    if (v.p == NULL)
        return true;
    if (v.n > 0 && (v.p[0] == '"' || v.p[0] == 'W'))
        return http_etag_listed(v, etag, false);
    return modified_s != 0 && http_date_parse(v, &t) == 0 && t == modified_s;
}

static struct bytes content_type(const struct read_op *op, struct bytes name)
{
    const struct needle *n = &op->nr.needle;
    struct bytes octets = BYTES_LIT("application/octet-stream");
    bool stored = n->mime.n > 0;
    if (stored && !(n->mime.n >= octets.n && memcmp(n->mime.p, octets.p, octets.n) == 0))
        return n->mime;
    struct bytes ext = op->ext.n > 0 ? op->ext : http_name_ext(name);
    struct bytes type = ext.n > 0 ? http_mime_by_ext(ext) : BYTES_NONE;
    return type.p != NULL ? type : stored ? n->mime : octets;
}

/* What the answer itself says: a pair of such a name would make two headers of one. */
static bool is_answers_own(struct bytes name)
{
    static const struct bytes own[] = {
        BYTES_LIT("accept-ranges"), BYTES_LIT("content-disposition"), BYTES_LIT("content-range"), BYTES_LIT("content-type"),
        BYTES_LIT("etag"), BYTES_LIT("last-modified"), BYTES_LIT("vary"), BYTES_LIT("x-file-store"),
    };
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (bytes_ieq(name, own[i]))
            return true;
    return false;
}

/* Content-Type and Content-Disposition stored as pairs are kept: they take the place of ours. */
static void keep_pairs(struct read_op *op, json_t *doc)
{
    const char *key;
    json_t *value;
    json_object_foreach(doc, key, value) {
        struct bytes name = bytes_str(key);
        bool type = bytes_ieq(name, BYTES_LIT("content-type"));
        if (!json_is_string(value) || (!type && !bytes_ieq(name, BYTES_LIT("content-disposition"))))
            continue;
        struct bytes v = bytes_of(json_string_value(value), json_string_length(value));
        if (v.n > 0 && http_is_value(v))
            *(type ? &op->pair_type : &op->pair_disposition) = vs_keep(op->r, v);
    }
}

static void add_pairs(struct http_req *r, json_t *doc, bool gzip_encoding)
{
    const char *key;
    json_t *value;
    json_object_foreach(doc, key, value) {
        struct bytes name = bytes_str(key);
        bool doubled = is_answers_own(name) || (gzip_encoding && bytes_ieq(name, BYTES_LIT("content-encoding")));
        if (json_is_string(value) && !doubled)
            http_reply_header(r, key, bytes_of(json_string_value(value), json_string_length(value)));
    }
}

static void add_overrides(struct http_req *r, const struct http_params *p)
{
    static const struct {
        const char *param, *header;
    } map[] = {
        {"response-cache-control", "Cache-Control"},
        {"response-content-encoding", "Content-Encoding"},
        {"response-content-language", "Content-Language"},
        {"response-expires", "Expires"},
    };
    for (size_t i = 0; i < sizeof map / sizeof map[0]; i++) {
        struct bytes v = http_params_get(p, map[i].param);
        if (v.p != NULL && v.n > 0)
            http_reply_header(r, map[i].header, v);
    }
}

static void add_disposition(struct read_op *op, struct bytes name)
{
    char text[3 * NEEDLE_NAME_MAX + 64];
    struct bytes asked = op->params != NULL ? http_params_get(op->params, "response-content-disposition") : BYTES_NONE;
    if (asked.p != NULL && asked.n > 0) {
        http_reply_header(op->r, "Content-Disposition", asked);
        return;
    }
    if (op->pair_disposition.n > 0) {
        http_reply_header(op->r, "Content-Disposition", op->pair_disposition);
        return;
    }
    if (name.n == 0)
        return;
    size_t n = http_disposition_format(op->attachment, needle_text_fit(name, NEEDLE_NAME_MAX), text);
    http_reply_header(op->r, "Content-Disposition", bytes_of(text, n));
}

static void add_headers(struct read_op *op, struct bytes etag, struct bytes name, bool gzip_encoding, json_t *pairs)
{
    struct http_req *r = op->r;
    const struct needle *n = &op->nr.needle;
    if (op->wants.origin) {
        http_reply_header(r, "Access-Control-Allow-Origin", BYTES_LIT("*"));
        http_reply_header(r, "Access-Control-Allow-Credentials", BYTES_LIT("true"));
        http_reply_header(r, "Access-Control-Expose-Headers", BYTES_LIT("*"));
    }
    http_reply_header(r, "ETag", etag);
    if (op->mf != NULL)
        http_reply_header(r, "X-File-Store", BYTES_LIT("chunked"));
    if (n->last_modified_s != 0) {
        char date[HTTP_DATE_BYTES + 1];
        http_date_format(n->last_modified_s, date);
        http_reply_header(r, "Last-Modified", bytes_of(date, HTTP_DATE_BYTES));
    }
    if ((n->flags & NEEDLE_COMPRESSED) != 0)
        http_reply_header(r, "Vary", BYTES_LIT("Accept-Encoding"));
    if (r->status == 304 || r->status == 412)
        return;
    http_reply_header(r, "Accept-Ranges", BYTES_LIT("bytes"));
    if (gzip_encoding)
        http_reply_header(r, "Content-Encoding", BYTES_LIT("gzip"));
    add_disposition(op, name);
    add_pairs(r, pairs, gzip_encoding);
    if (op->params != NULL)
        add_overrides(r, op->params);
}

static struct bytes asked_type(const struct read_op *op, struct bytes type)
{
    struct bytes v = op->params != NULL ? http_params_get(op->params, "response-content-type") : BYTES_NONE;
    return v.p != NULL && v.n > 0 ? v : op->pair_type.n > 0 ? op->pair_type : type;
}

/* Takes n bytes of the download window, for large answers only: small ones are gone before they could be counted. */
static bool admit_download(struct read_op *op, uint64_t n)
{
    struct volume_server *s = op->l->server;
    uint64_t limit = s->o.download_limit_bytes;
    if (limit == 0 || op->head)
        return true;
    uint64_t before = atomic_fetch_add(&s->download_bytes, n);
    if (before != 0 && before + n > limit) {
        atomic_fetch_sub(&s->download_bytes, n);
        server_metrics_event(&s->metrics, EVENT_DOWNLOAD_LIMIT);
        return false;
    }
    op->counted_bytes = n;
    return true;
}

static void answer_from_memory(struct read_op *op, struct bytes data)
{
    struct http_req *r = op->r;
    http_reply_bytes(r, bytes_of(data.p + op->ranges[0].first, op->ranges[0].count));
    read_op_release(op);
}

void read_answer(struct read_op *op, uint64_t length, bool gzip_encoding)
{
    struct http_req *r = op->r;
    const struct needle *n = &op->nr.needle;
    char etag_text[11];
    header_etag(op, etag_text);
    struct bytes etag = bytes_of(etag_text, 10);
    struct bytes name = op->url_name.n > 0 ? op->url_name : n->name;

    enum condition c = check_conditions(op, etag, n->last_modified_s);
    if (c != CONDITION_OK) {
        http_reply_begin(r, c == CONDITION_FAILED ? 412 : 304);
        r->status = c == CONDITION_FAILED ? 412 : 304;
        add_headers(op, etag, name, false, NULL);
        http_reply_bytes(r, BYTES_NONE);
        read_op_release(op);
        return;
    }
    enum http_range_verdict verdict = HTTP_RANGE_NONE;
    op->length = length;
    if (range_applies(op, etag, n->last_modified_s))
        verdict = http_range_parse(op->wants.range, length, op->ranges, &op->range_count);
    if (verdict == HTTP_RANGE_UNSATISFIABLE) {
        http_reply_begin(r, 416);
        r->status = 416;
        add_headers(op, etag, BYTES_NONE, false, NULL);
        http_reply_headerf(r, "Content-Range", "bytes */%" PRIu64, length);
        http_reply_header(r, "Content-Type", BYTES_LIT("text/plain; charset=utf-8"));
        http_reply_bytes(r, BYTES_LIT("invalid range: failed to overlap\n"));
        read_op_release(op);
        return;
    }
    if (verdict == HTTP_RANGE_NONE) {
        op->ranges[0] = (struct http_range){0, length};
        op->range_count = length > 0 ? 1 : 0;
    }
    op->multi = op->range_count > 1;
    json_t *pairs = n->pairs.n > 0 ? json_loadb(n->pairs.p, n->pairs.n, 0, NULL) : NULL;
    keep_pairs(op, pairs);
    op->type = asked_type(op, content_type(op, name));
    uint64_t body_bytes = op->multi ? read_multipart_bytes(op) : op->range_count == 1 ? op->ranges[0].count : 0;
    if (!admit_download(op, body_bytes)) {
        json_decref(pairs);
        read_op_release(op);
        vs_reply_error(r, 429, "too many download bytes in flight");
        return;
    }
    int status = verdict == HTTP_RANGE_OK ? 206 : 200;
    http_reply_begin(r, status);
    r->status = status;
    add_headers(op, etag, name, gzip_encoding, pairs);
    json_decref(pairs);
    if (op->multi)
        http_reply_header(r, "Content-Type", BYTES_LIT("multipart/byteranges; boundary=" READ_BOUNDARY));
    else
        http_reply_header(r, "Content-Type", op->type);
    if (status == 206 && !op->multi)
        http_reply_headerf(r, "Content-Range", "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, op->ranges[0].first,
                           op->ranges[0].first + op->ranges[0].count - 1, length);
    if (body_bytes == 0) {
        http_reply_bytes(r, BYTES_NONE);
        read_op_release(op);
    } else if (!op->head && op->fetch == NULL && op->nr.in_memory && !op->multi) {
        answer_from_memory(op, op->nr.data);
    } else {
        read_body_start(op, body_bytes);
    }
}
