/* The operations: an id and an upload, a place and a download that is compared, an upload over what is there, a delete. */
#include "bench/load_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/payload.h"
#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"
#include "net/rand.h"

static const char upload_headers[] = "Content-Type: application/octet-stream\r\n";

/* The key of an object's content for payload_fill() and payload_matches(). */
static uint64_t content_key(uint64_t seed, const struct fid *fid, uint64_t version)
{
    /* Two ids of one seed and version never share a key. */
    return rand_mix64(seed + (version - 1) * 0x9e3779b97f4a7c15ull) ^ fid->key;
}

/* ---- texts ---- */

static void query_add(char *query, size_t cap, const char *key, const char *value)
{
    size_t n = strlen(query);
    if (value != NULL && value[0] != '\0')
        snprintf(query + n, cap - n, "&%s=%s", key, value);
}

/* The values were checked to be names and numbers; none needs escaping. */
void load_ops_prepare(struct load_worker *w)
{
    const struct load_options *o = w->o;
    snprintf(w->assign_query, sizeof w->assign_query, "count=%u", o->assign_batch > 1 ? o->assign_batch : 1u);
    query_add(w->assign_query, sizeof w->assign_query, "collection", o->collection);
    query_add(w->assign_query, sizeof w->assign_query, "replication", o->replication);
    snprintf(w->upload_query, sizeof w->upload_query, "%s", o->fsync ? "?fsync=true" : "");
}

/* "cannot write 3,01637037d6 at 127.0.0.1:8080: 500 {...}" */
static void report(struct load_slot *s, const char *what, int rc)
{
    char fid[FID_TEXT_MAX], reason[CALL_REASON_TEXT_MAX];
    fid_format(&s->op.fid, fid);
    call_reason_text(&s->reason, rc, s->status, reason);
    load_phase_error(s->worker->phase, s->op.kind, "cannot %s %s at %.200s:%u: %s", what, fid, s->addr->host,
                     (unsigned)s->addr->port, reason);
}

static int code_of(int rc, int status)
{
    return rc != 0 ? rc : status == 404 ? DFS_ENOTFOUND : DFS_EPROTO;
}

/* ---- upload ---- */

static void on_head(void *arg, struct http_call *call, const struct http_head *head)
{
    struct load_slot *s = arg;
    (void)call;
    s->status = head->status;
}

static int on_refusal(void *arg, struct http_call *call, struct bytes in)
{
    struct load_slot *s = arg;
    (void)call;
    if (s->status < 200 || s->status > 299)
        call_reason_add(&s->reason, in);
    return 0;
}

static const char *verb_of(enum load_kind kind)
{
    static const char *const verbs[LOAD_KINDS] = {"write", "read", "overwrite", "delete"};
    return verbs[kind];
}

static void on_changed(void *arg, struct http_call *call, int rc, int status)
{
    struct load_slot *s = arg;
    (void)call;
    s->status = status;
    if (rc == 0 && status >= 200 && status <= 299) {
        load_slot_ended(s, 0);
        return;
    }
    report(s, verb_of(s->op.kind), rc);
    if (s->op.kind != LOAD_WRITE)
        master_client_forget(s->worker->masters, s->op.fid.volume_id);
    load_slot_ended(s, code_of(rc, status));
}

static const struct http_call_ops change_ops = {on_head, on_refusal, on_changed};

static int body_reserve(struct load_slot *s, size_t n)
{
    if (n <= s->body_cap)
        return 0;
    char *p = realloc(s->body, n);
    if (p == NULL)
        return DFS_ENOMEM;
    s->body = p;
    s->body_cap = n;
    return 0;
}

static void start_call(struct load_slot *s, const struct http_call_request *req)
{
    struct load_worker *w = s->worker;
    int rc;

    rc = http_call_start(w->http, req, NULL);
    if (rc != 0) {
        report(s, verb_of(s->op.kind), rc);
        load_slot_ended(s, rc);
    }
}

static void upload(struct load_slot *s)
{
    struct load_worker *w = s->worker;
    struct bytes body;

    if (body_reserve(s, s->op.size_bytes) != 0) {
        report(s, "hold the content of", DFS_ENOMEM);
        load_slot_ended(s, DFS_ENOMEM);
        return;
    }
    payload_fill(content_key(w->o->seed, &s->op.fid, s->op.version), 0, s->body, s->op.size_bytes);
    body = bytes_of(s->body, s->op.size_bytes);
    struct http_call_request req = {
        .addr = s->addr,
        .method = HTTP_PUT,
        .target = bytes_of(s->target, call_target(&s->op.fid, bytes_str(w->upload_query), s->target)),
        .headers = bytes_of(upload_headers, sizeof upload_headers - 1),
        .body = &body,
        .body_count = 1,
        .deadline_ms = w->o->timeout_ms,
        .ops = &change_ops,
        .arg = s,
    };
    start_call(s, &req);
}

/* ---- an id ---- */

static bool take_spare_id(struct load_slot *s)
{
    struct load_worker *w = s->worker;
    if (w->ids_count == 0)
        return false;
    struct load_ids *ids = &w->ids[w->ids_count - 1];
    s->op.fid = ids->fid;
    s->addr = ids->addr;
    ids->fid.key++;
    if (--ids->left == 0)
        w->ids_count--;
    return true;
}

static void keep_spare_ids(struct load_slot *s)
{
    struct load_worker *w = s->worker;
    uint64_t count = s->ask.assign.reply.count;
    if (count > w->o->assign_batch)
        count = w->o->assign_batch;
    if (count < 2 || w->ids_count == w->slot_count)
        return;
    w->ids[w->ids_count] = (struct load_ids){.fid = s->op.fid, .left = count - 1, .addr = s->addr};
    w->ids[w->ids_count++].fid.key++;
}

static void on_assigned(struct master_assign *a, int rc)
{
    struct load_slot *s = CONTAINER_OF(a, struct load_slot, ask.assign);

    if (rc != 0) {
        load_phase_error(s->worker->phase, s->op.kind, "cannot assign a file id: %s", a->reply.error);
        load_slot_ended(s, rc);
        return;
    }
    s->op.fid = a->reply.fid;
    s->addr = a->addr;
    keep_spare_ids(s);
    upload(s);
}

static void begin_write(struct load_slot *s)
{
    struct load_worker *w = s->worker;
    struct master_assign *a = &s->ask.assign;
    int rc, n;

    if (take_spare_id(s)) {
        upload(s);
        return;
    }
    n = snprintf(s->query, sizeof s->query, "%s&dataSize=%" PRIu64, w->assign_query, s->op.size_bytes);
    a->query = bytes_of(s->query, (size_t)n);
    a->done = on_assigned;
    rc = master_assign_start(w->masters, a);
    if (rc != 0) {
        load_phase_error(w->phase, s->op.kind, "cannot assign a file id: %s", a->reply.error);
        load_slot_ended(s, rc);
    }
}

/* ---- download ---- */

static uint64_t expected_bytes(const struct load_op *op)
{
    return op->length_bytes != 0 ? op->length_bytes : op->size_bytes;
}

static bool is_data(const struct load_slot *s)
{
    return s->status == (s->op.length_bytes != 0 ? 206 : 200);
}

static int on_read_body(void *arg, struct http_call *call, struct bytes in)
{
    struct load_slot *s = arg;
    struct load_worker *w = s->worker;

    (void)call;
    if (!is_data(s)) {
        call_reason_add(&s->reason, in);
        return 0;
    }
    if (s->got_bytes + in.n > expected_bytes(&s->op)) {
        s->corrupt = true;
    } else if (!s->corrupt && !s->op.no_verify && !w->o->no_verify) {
        uint64_t begun = clock_thread_cpu_ns();
        s->corrupt = !payload_matches(s->content_key, s->op.offset_bytes + s->got_bytes, in.p, in.n);
        w->verify_ns += clock_thread_cpu_ns() - begun;
    }
    s->got_bytes += in.n;
    return 0;
}

static void on_read_done(void *arg, struct http_call *call, int rc, int status)
{
    struct load_slot *s = arg;

    (void)call;
    s->status = status;
    if (rc != 0 || !is_data(s)) {
        report(s, "read", rc);
        master_client_forget(s->worker->masters, s->op.fid.volume_id);
        load_slot_ended(s, code_of(rc, status));
    } else if (s->corrupt || s->got_bytes != expected_bytes(&s->op)) {
        char fid[FID_TEXT_MAX];
        fid_format(&s->op.fid, fid);
        load_phase_error(s->worker->phase, s->op.kind,
                         "%s at %.200s:%u is corrupt: %" PRIu64 " bytes came that are not what was written", fid, s->addr->host,
                         (unsigned)s->addr->port, s->got_bytes);
        load_slot_ended(s, DFS_ECORRUPT);
    } else {
        load_slot_ended(s, 0);
    }
}

static const struct http_call_ops read_ops = {on_head, on_read_body, on_read_done};

static void download(struct load_slot *s)
{
    struct load_worker *w = s->worker;
    char range[80];
    int n = 0;

    s->content_key = content_key(w->o->seed, &s->op.fid, s->op.version);
    if (s->op.length_bytes != 0)
        n = snprintf(range, sizeof range, "Range: bytes=%" PRIu64 "-%" PRIu64 "\r\n", s->op.offset_bytes,
                     s->op.offset_bytes + s->op.length_bytes - 1);
    struct http_call_request req = {
        .addr = s->addr,
        .method = HTTP_GET,
        .target = bytes_of(s->target, call_target(&s->op.fid, bytes_of("", 0), s->target)),
        .headers = bytes_of(range, (size_t)n),
        .deadline_ms = w->o->timeout_ms,
        .ops = &read_ops,
        .arg = s,
    };
    start_call(s, &req);
}

static void delete_object(struct load_slot *s)
{
    struct http_call_request req = {
        .addr = s->addr,
        .method = HTTP_DELETE,
        .target = bytes_of(s->target, call_target(&s->op.fid, bytes_of("", 0), s->target)),
        .deadline_ms = s->worker->o->timeout_ms,
        .ops = &change_ops,
        .arg = s,
    };
    start_call(s, &req);
}

/* ---- a place ---- */

static void go_there(struct load_slot *s)
{
    switch (s->op.kind) {
    case LOAD_READ:
        download(s);
        return;
    case LOAD_DELETE:
        delete_object(s);
        return;
    case LOAD_WRITE:
    case LOAD_OVERWRITE:
    case LOAD_KINDS:
        upload(s);
        return;
    }
}

static void on_looked_up(struct master_lookup *l, int rc)
{
    struct load_slot *s = CONTAINER_OF(l, struct load_slot, ask.lookup);

    if (rc != 0) {
        load_phase_error(s->worker->phase, s->op.kind, "cannot look up a volume: %s", l->error);
        load_slot_ended(s, rc);
        return;
    }
    s->addr = l->addr;
    go_there(s);
}

static void begin_at_place(struct load_slot *s)
{
    struct load_worker *w = s->worker;
    int rc;

    s->addr = master_client_place(w->masters, s->op.fid.volume_id);
    if (s->addr != NULL) {
        go_there(s);
        return;
    }
    s->ask.lookup = (struct master_lookup){.volume_id = s->op.fid.volume_id, .done = on_looked_up};
    rc = master_lookup_start(w->masters, &s->ask.lookup);
    if (rc != 0) {
        load_phase_error(w->phase, s->op.kind, "cannot look up volume %u: %s", s->op.fid.volume_id, s->ask.lookup.error);
        load_slot_ended(s, rc);
    }
}

void load_slot_begin(struct load_slot *s)
{
    s->status = 0;
    s->corrupt = false;
    s->got_bytes = 0;
    s->reason.n = 0;
    if (s->op.kind == LOAD_WRITE)
        begin_write(s);
    else
        begin_at_place(s);
}
