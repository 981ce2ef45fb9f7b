/* POST /submit, and the old batch delete: the two calls where the master carries bytes for a client.
 *
 * The body is collected in pool chunks, an id is assigned, and the body goes to the volume server as it came.  A length that is
 * known is admitted first, one that is not as it comes: bodies under way never wait for each other. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "master/assign.h"
#include "master/lookup.h"
#include "master/master.h"
#include "needle/check.h"
#include "needle/err.h"

#define ANSWER_BYTES_MAX 65536u
#define UPLOAD_TIMEOUT_MS 120000u
#define DELETE_IDS_MAX 64u

struct submit {
    struct master_req *req;
    struct body body;
    uint64_t admitted_bytes;
    struct bytes *pieces;
    char fid[FID_TEXT_MAX];
    char url[ADDR_TEXT_MAX];
    char answer[ANSWER_BYTES_MAX + 1];
    size_t answer_bytes;
};

/* ---- taking the body ---- */

static int admit(struct submit *s, uint64_t bytes)
{
    struct master_server *m = s->req->master;
    uint64_t limit = m->options.file_size_limit_bytes, more = bytes > s->admitted_bytes ? bytes - s->admitted_bytes : 0;

    if (bytes > limit) {
        http_reply_error(s->req->http, 413, "file over the limited %" PRIu64 " bytes", limit);
        return DFS_ETOOBIG;
    }
    if (m->submit_bytes + more > limit) {
        http_reply_error(s->req->http, 503, "other uploads of %" PRIu64 " bytes are under way", m->submit_bytes);
        return DFS_EBUSY;
    }
    s->admitted_bytes += more;
    m->submit_bytes += more;
    return 0;
}

void submit_request(struct master_req *q)
{
    struct master_server *m = q->master;
    const struct http_head *h = &q->http->head;
    struct submit *s;

    s = calloc(1, sizeof *s);
    if (s == NULL) {
        http_reply_error(q->http, 503, "out of memory");
        return;
    }
    s->req = q;
    body_init(&s->body, m->chunks, false);
    q->submit = s;
    if (h->has_length)
        admit(s, h->content_length);
}

int submit_body(struct master_req *q, struct bytes in, size_t *taken)
{
    struct submit *s = q->submit;
    int rc = admit(s, s->body.body_bytes + in.n);

    if (rc != 0)
        return rc;
    rc = body_append(&s->body, in, taken);
    if (rc == 0)
        return 0;
    /* The pool holds all that is admitted, so this is memory at its end. */
    http_reply_error(q->http, 503, "out of memory for uploads");
    return DFS_ENOMEM;
}

void submit_close(struct master_req *q)
{
    struct submit *s = q->submit;

    q->master->submit_bytes -= s->admitted_bytes;
    body_release(&s->body);
    free(s->pieces);
    free(s);
    q->submit = NULL;
}

/* ---- handing it on ---- */

static int on_answer(void *arg, struct http_call *call, struct bytes in)
{
    struct submit *s = arg;
    size_t room = ANSWER_BYTES_MAX - s->answer_bytes;

    (void)call;
    if (in.n > room)
        return DFS_ETOOBIG;
    memcpy(s->answer + s->answer_bytes, in.p, in.n);
    s->answer_bytes += in.n;
    return 0;
}

static void reply_stored(struct submit *s, const json_t *answer)
{
    const char *name = json_string_value(json_object_get(answer, "name"));
    const char *etag = json_string_value(json_object_get(answer, "eTag"));
    struct jsonw w;

    jsonw_init(&w, master_req_pretty(s->req));
    jsonw_object(&w);
    jsonw_put_str(&w, "fid", s->fid);
    jsonw_put_str(&w, "fileName", name != NULL ? name : "");
    jsonw_put_printf(&w, "fileUrl", "%s/%s", s->url, s->fid);
    jsonw_put_i64(&w, "size", json_integer_value(json_object_get(answer, "size")));
    if (etag != NULL)
        jsonw_put_str(&w, "eTag", etag);
    jsonw_object_end(&w);
    master_reply_json(s->req, 201, &w);
}

static void on_stored(void *arg, struct http_call *call, int rc, int status)
{
    struct submit *s = arg;
    struct master_req *q = s->req;
    json_t *answer = json_loadb(s->answer, s->answer_bytes, 0, NULL);
    const char *why = json_string_value(json_object_get(answer, "error"));

    (void)call;
    if (rc != 0)
        http_reply_error(q->http, 502, "cannot write to %s: %s", s->url, dfs_err_text(rc));
    else if (status != 201)
        http_reply_error(q->http, status >= 400 ? status : 500, "%s answered %d%s%s", s->url, status, why != NULL ? ": " : "",
                         why != NULL ? why : "");
    else
        reply_stored(s, answer);
    json_decref(answer);
    http_req_drop(q->http);
}

static const struct http_call_ops upload_ops = {.on_body = on_answer, .on_done = on_stored};

/* Parameters that the volume server understands, in its own spelling. */
static void upload_target(const struct submit *s, char *out, size_t cap)
{
    static const char *const passed[] = {"ttl", "ts", "cm", "fsync"};
    size_t n = (size_t)snprintf(out, cap, "/%s", s->fid);

    for (size_t i = 0; i < ARRAY_LEN(passed); i++) {
        struct bytes v = http_params_get(&s->req->params, passed[i]);

        /* A value that would need escaping is none of theirs: the volume server would refuse it, so do we by leaving it out. */
        if (v.n != 0 && v.n < 32 && name_is_safe(v))
            n += (size_t)snprintf(out + n, cap - n, "%c%s=%.*s", strchr(out, '?') != NULL ? '&' : '?', passed[i], (int)v.n, v.p);
    }
}

static int start_upload(struct submit *s)
{
    struct master_req *q = s->req;
    const struct data_node *n = q->assign.volume->replicas[q->assign.at].node;
    struct bytes type = http_header_get(&q->http->head, "Content-Type");
    struct http_call_request call = {.addr = &n->reach, .method = HTTP_POST, .deadline_ms = UPLOAD_TIMEOUT_MS,
                                     .ops = &upload_ops, .arg = s};
    char target[512], headers[1024];

    if (!n->reachable)
        return DFS_EUNAVAILABLE;
    fid_format(&q->assign.fid, s->fid);
    snprintf(s->url, sizeof s->url, "%s", n->url);
    upload_target(s, target, sizeof target);
    if (type.n > 800)
        return DFS_EINVAL;
    call.target = bytes_str(target);
    call.headers = bytes_of(headers, (size_t)snprintf(headers, sizeof headers, "Content-Type: %.*s\r\n", (int)type.n, type.p));
    call.body_count = (uint32_t)body_pieces(&s->body);
    s->pieces = calloc(call.body_count + 1, sizeof *s->pieces);
    if (s->pieces == NULL)
        return DFS_ENOMEM;
    for (uint32_t i = 0; i < call.body_count; i++)
        s->pieces[i] = body_piece(&s->body, i);
    call.body = s->pieces;
    return http_call_start(q->master->client, &call, NULL);
}

static void assigned(struct master_req *q, int rc)
{
    if (rc != 0) {
        http_reply_error(q->http, q->assign.http_status, "%s", q->assign.reason);
        http_req_drop(q->http);
        return;
    }
    rc = start_upload(q->submit);
    if (rc != 0) {
        http_reply_error(q->http, http_status_from_err(rc), "%s", dfs_err_text(rc));
        http_req_drop(q->http);
    }
}

static void on_assigned(struct assign *a, int rc)
{
    struct master_req *q = CONTAINER_OF(a, struct master_req, assign);

    assigned(q, rc);
}

void submit_end(struct master_req *q)
{
    struct bytes type = http_header_get(&q->http->head, "Content-Type");
    int rc;

    if (type.n < 19 || strncasecmp(type.p, "multipart/form-data", 19) != 0) {
        http_reply_error(q->http, 400, "request Content-Type isn't multipart/form-data");
        return;
    }
    if (q->submit == NULL || master_req_assign(q) != 0)
        return;
    q->assign.count = 1;
    q->assign.expected_bytes = q->submit->body.body_bytes;
    q->assign.done = on_assigned;
    http_req_hold(q->http);
    rc = assign_start(&q->assign);
    if (rc != DFS_EAGAIN)
        assigned(q, rc);
}

/* ---- /delete?fid=a&fid=b ---- */

struct batch {
    struct master_req *req;
    uint32_t count, pending;
    struct batch_item {
        struct batch *batch;
        struct bytes fid;
        int status;
        uint64_t size;
        const char *error;
        char answer[256];
        size_t answer_bytes;
    } items[DELETE_IDS_MAX];
};

static void end_batch(struct batch *b)
{
    struct jsonw w;

    jsonw_init(&w, master_req_pretty(b->req));
    jsonw_object(&w);
    jsonw_key(&w, "Errors");
    jsonw_null(&w);
    jsonw_put_array(&w, "Results");
    for (uint32_t i = 0; i < b->count; i++) {
        const struct batch_item *it = &b->items[i];

        jsonw_object(&w);
        jsonw_put_string(&w, "fid", it->fid);
        jsonw_put_u64(&w, "size", it->size);
        jsonw_put_i64(&w, "status", it->status);
        if (it->error != NULL)
            jsonw_put_str(&w, "error", it->error);
        jsonw_object_end(&w);
    }
    jsonw_array_end(&w);
    jsonw_object_end(&w);
    master_reply_json(b->req, 202, &w);
    http_req_drop(b->req->http);
    free(b);
}

static int on_delete_body(void *arg, struct http_call *call, struct bytes in)
{
    struct batch_item *it = arg;
    size_t room = sizeof it->answer - 1 - it->answer_bytes, n = in.n < room ? in.n : room;

    (void)call;
    memcpy(it->answer + it->answer_bytes, in.p, n);
    it->answer_bytes += n;
    return 0;
}

static void on_delete_done(void *arg, struct http_call *call, int rc, int status)
{
    struct batch_item *it = arg;
    json_t *answer = json_loadb(it->answer, it->answer_bytes, 0, NULL);
    json_int_t size = json_integer_value(json_object_get(answer, "size"));

    (void)call;
    json_decref(answer);
    it->status = rc != 0 ? 500 : status;
    it->size = size > 0 ? (uint64_t)size : 0;
    it->error = rc != 0 ? dfs_err_text(rc) : status >= 400 ? http_status_text(status) : NULL;
    if (--it->batch->pending == 0)
        end_batch(it->batch);
}

static const struct http_call_ops delete_ops = {.on_body = on_delete_body, .on_done = on_delete_done};

static void delete_one(struct batch *b, struct batch_item *it)
{
    struct http_call_request call = {.method = HTTP_DELETE, .deadline_ms = UPLOAD_TIMEOUT_MS, .ops = &delete_ops, .arg = it};
    struct topo_volume *v = NULL;
    struct fid fid;
    char target[FID_TEXT_MAX + 1];
    uint32_t id;

    it->batch = b;
    if (fid_parse(it->fid, &fid) != 0) {
        it->status = 400;
        it->error = "Wrong fid format.";
        return;
    }
    if (lookup_volume(b->req->master, it->fid, BYTES_NONE, &id, &v) != 0) {
        it->status = 404;
        it->error = "volume not found";
        return;
    }
    target[0] = '/';
    call.target = bytes_of(target, 1 + fid_format(&fid, target + 1));
    call.addr = &v->replicas[0].node->reach;
    if (v->replicas[0].node->reachable && http_call_start(b->req->master->client, &call, NULL) == 0) {
        b->pending++;
    } else {
        it->status = 500;
        it->error = "cannot call the volume server";
    }
}

void batch_delete(struct master_req *q)
{
    struct batch *b = calloc(1, sizeof *b);

    if (b == NULL) {
        http_reply_error(q->http, 503, "out of memory");
        return;
    }
    b->req = q;
    http_req_hold(q->http);
    b->pending = 1;
    for (uint32_t i = 0; i < q->params.count && b->count < DELETE_IDS_MAX; i++) {
        if (!bytes_eq(q->params.v[i].name, BYTES_LIT("fid")))
            continue;
        b->items[b->count].fid = q->params.v[i].value;
        delete_one(b, &b->items[b->count++]);
    }
    if (--b->pending == 0)
        end_batch(b);
}
