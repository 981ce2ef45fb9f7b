/* The write phase: an id, an upload, a line in the list. */
#include "bench/worker_internal.h"

#include <stdio.h>
#include <stdlib.h>

#include "bench/payload.h"
#include "needle/check.h"
#include "needle/err.h"
#include "net/rand.h"

/* ---- texts, once ---- */

static void query_add(char *query, size_t cap, const char *key, const char *value)
{
    size_t n = strlen(query);
    if (value != NULL && value[0] != '\0')
        snprintf(query + n, cap - n, "%s%s=%s", n > 0 && query[n - 1] != '?' ? "&" : "", key, value);
}

/* The values were checked to be names, numbers and times; none needs escaping. */
static void make_queries(struct worker *w)
{
    const struct benchmark_options *o = w->o;
    char number[24];

    snprintf(number, sizeof number, "%u", o->assign_batch > 1 ? o->assign_batch : 1u);
    query_add(w->assign_query, sizeof w->assign_query, "count", number);
    query_add(w->assign_query, sizeof w->assign_query, "collection", o->collection);
    query_add(w->assign_query, sizeof w->assign_query, "replication", o->replication);
    query_add(w->assign_query, sizeof w->assign_query, "ttl", o->ttl);
    query_add(w->assign_query, sizeof w->assign_query, "disk", o->disk);
    snprintf(number, sizeof number, "%llu", (unsigned long long)o->size_bytes);
    query_add(w->assign_query, sizeof w->assign_query, "dataSize", number);

    w->upload_query[0] = '?';
    query_add(w->upload_query, sizeof w->upload_query, "ttl", o->ttl);
    query_add(w->upload_query, sizeof w->upload_query, "fsync", o->fsync ? "true" : "");
    w->upload_query_n = strlen(w->upload_query);
    if (w->upload_query_n == 1)
        w->upload_query_n = 0;
}

/* One part, named and typed as the peer's tool does it.  The boundary is random, the content as well: they do not meet. */
static void make_part(struct worker *w)
{
    char boundary[33];

    snprintf(boundary, sizeof boundary, "%016llx%016llx", (unsigned long long)rand_u64(), (unsigned long long)rand_u64());
    w->upload_headers_n = (size_t)snprintf(w->upload_headers, sizeof w->upload_headers,
                                           "Content-Type: multipart/form-data; boundary=%s\r\n", boundary);
    w->part_head_n = (size_t)snprintf(w->part_head, sizeof w->part_head,
                                      "--%s\r\nContent-Disposition: form-data; name=\"file\"; filename=\".\"\r\n"
                                      "Content-Type: image/bench\r\n\r\n",
                                      boundary);
    w->part_tail_n = (size_t)snprintf(w->part_tail, sizeof w->part_tail, "\r\n--%s--\r\n", boundary);
}

int worker_write_prepare(struct worker *w)
{
    make_queries(w);
    make_part(w);
    for (uint32_t i = 0; i < w->slot_count; i++) {
        w->slots[i].body = malloc(w->o->size_bytes + PAYLOAD_EXTRA_MAX);
        if (w->slots[i].body == NULL)
            return DFS_ENOMEM;
    }
    return 0;
}

/* ---- upload ---- */

static void on_head(void *arg, struct http_call *call, const struct http_head *head)
{
    struct slot *s = arg;
    (void)call;
    s->status = head->status;
}

static int on_body(void *arg, struct http_call *call, struct bytes in)
{
    struct slot *s = arg;
    (void)call;
    if (s->status < 200 || s->status > 299)
        call_reason_add(&s->reason, in);
    return 0;
}

/* The line of an id, before this step ends. */
static void list_line(struct slot *s)
{
    struct worker *w = s->worker;
    if (w->lines_n + FID_TEXT_MAX > WORKER_LINES_BYTES) {
        int rc = list_file_append(w->phase->list_out, bytes_of(w->lines, w->lines_n));
        if (rc != 0) {
            bench_phase_error(w->phase, "cannot write the list of ids: %s", dfs_err_text(rc));
            bench_phase_stop(w->phase);
        }
        w->lines_n = 0;
    }
    w->lines_n += fid_format(&s->fid, w->lines + w->lines_n);
    w->lines[w->lines_n++] = '\n';
}

static void acknowledged(struct slot *s)
{
    struct worker *w = s->worker;
    count_add(&w->counts.acknowledged, 1);
    if (w->o->delete_percent == 0 || rand_below(100) >= w->o->delete_percent) {
        list_line(s);
    } else if (worker_delete_later(w, &s->fid, s->addr) != 0) {
        bench_phase_error(w->phase, "cannot remember what to delete: %s", dfs_err_text(DFS_ENOMEM));
        list_line(s);
    }
    slot_succeeded(s, s->body_bytes);
}

static void on_done(void *arg, struct http_call *call, int rc, int status)
{
    struct slot *s = arg;
    (void)call;
    slot_sample(s);
    s->status = status;
    if (rc == 0 && status >= 200 && status <= 299) {
        acknowledged(s);
        return;
    }
    slot_report(s, "write", rc);
    slot_failed(s);
}

static const struct http_call_ops upload_ops = {on_head, on_body, on_done};

static void slot_upload(struct slot *s)
{
    struct worker *w = s->worker;
    struct bytes pieces[3];
    int rc;

    s->body_bytes = payload_bytes(s->fid.key, w->o->size_bytes);
    payload_fill(s->fid.key, 0, s->body, s->body_bytes);
    pieces[0] = bytes_of(w->part_head, w->part_head_n);
    pieces[1] = bytes_of(s->body, s->body_bytes);
    pieces[2] = bytes_of(w->part_tail, w->part_tail_n);
    struct http_call_request req = {
        .addr = s->addr,
        .method = HTTP_POST,
        .target = bytes_of(s->target, call_target(&s->fid, bytes_of(w->upload_query, w->upload_query_n), s->target)),
        .headers = bytes_of(w->upload_headers, w->upload_headers_n),
        .body = pieces,
        .body_count = 3,
        .deadline_ms = w->o->timeout_ms,
        .ops = &upload_ops,
        .arg = s,
    };
    rc = http_call_start(w->http, &req, NULL);
    if (rc != 0) {
        slot_report(s, "write", rc);
        slot_failed(s);
    }
}

/* ---- an id ---- */

/* One of an earlier assign. */
static bool take_spare_id(struct slot *s)
{
    struct worker *w = s->worker;
    if (w->run_count == 0)
        return false;
    struct id_run *run = &w->runs[w->run_count - 1];
    s->fid = run->fid;
    s->addr = run->addr;
    run->fid.key++;
    if (--run->left == 0)
        w->run_count--;
    return true;
}

static void keep_spare_ids(struct slot *s)
{
    struct worker *w = s->worker;
    uint64_t count = s->ask.assign.reply.count;
    if (count > w->o->assign_batch)
        count = w->o->assign_batch;
    if (count < 2 || w->run_count == w->slot_count)
        return;
    struct id_run *run = &w->runs[w->run_count++];
    *run = (struct id_run){.fid = s->fid, .left = count - 1, .addr = s->addr};
    run->fid.key++;
}

static void on_assigned(struct master_assign *a, int rc)
{
    struct slot *s = CONTAINER_OF(a, struct slot, ask.assign);
    struct worker *w = s->worker;

    if (rc != 0) {
        bench_phase_error(w->phase, "cannot assign a file id: %s", a->reply.error);
        slot_failed(s);
        return;
    }
    s->fid = a->reply.fid;
    s->addr = a->addr;
    if (w->server[0] == '\0')
        addr_format(s->addr, w->server);
    keep_spare_ids(s);
    slot_upload(s);
}

void slot_write(struct slot *s)
{
    struct worker *w = s->worker;
    struct master_assign *a = &s->ask.assign;

    if (take_spare_id(s)) {
        slot_upload(s);
        return;
    }
    a->query = bytes_str(w->assign_query);
    a->done = on_assigned;
    if (master_assign_start(w->masters, a) != 0) {
        bench_phase_error(w->phase, "cannot assign a file id: %s", a->reply.error);
        slot_failed(s);
    }
}
