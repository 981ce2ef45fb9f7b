/* A loop that is turned until one answer is there. */
#include "bench/sync_client.h"

#include <stdio.h>
#include <stdlib.h>

#include "bench/master_client.h"
#include "needle/check.h"
#include "needle/err.h"
#include "net/http_client.h"

struct sync_client {
    struct loop *loop;
    struct http_client *http;
    struct master_client *masters;
    uint32_t timeout_ms;
};

struct wait {
    struct sync_client *client;
    int rc;
    struct master_assign assign;
    struct master_lookup lookup;
    const struct sync_request *req;
    struct sync_answer *answer;
    int sink_rc;
};

int sync_client_new(const char *masters, uint32_t timeout_ms, bool use_public_url, struct sync_client **out,
                    char error[SYNC_ERROR_MAX])
{
    struct http_client_options ho;
    struct master_client_options mo = {.masters = masters, .timeout_ms = timeout_ms, .use_public_url = use_public_url};
    struct sync_client *c = calloc(1, sizeof *c);
    int rc = DFS_ENOMEM;

    if (c == NULL)
        goto fail;
    c->timeout_ms = timeout_ms;
    rc = loop_new("client", &c->loop);
    if (rc != 0)
        goto fail;
    http_client_options_init(&ho);
    ho.loop = mo.loop = c->loop;
    rc = http_client_new(&ho, &c->http);
    if (rc != 0)
        goto fail;
    mo.http = c->http;
    rc = master_client_new(&mo, &c->masters, error);
    if (rc != 0)
        goto fail_said;
    *out = c;
    return 0;

fail:
    snprintf(error, SYNC_ERROR_MAX, "cannot make a client: %s", dfs_err_text(rc));
fail_said:
    sync_client_free(c);
    return rc;
}

void sync_client_free(struct sync_client *c)
{
    if (c == NULL)
        return;
    http_client_free(c->http);
    master_client_free(c->masters);
    loop_free(c->loop);
    free(c);
}

static void wait_over(struct wait *w, int rc)
{
    w->rc = rc;
    loop_stop(w->client->loop);
}

/* ---- masters ---- */

static void on_assigned(struct master_assign *a, int rc)
{
    wait_over(CONTAINER_OF(a, struct wait, assign), rc);
}

int sync_assign(struct sync_client *c, struct bytes query, struct fid *fid, const struct addr **addr,
                char error[SYNC_ERROR_MAX])
{
    struct wait w = {.client = c, .assign = {.query = query, .done = on_assigned}};
    int rc = master_assign_start(c->masters, &w.assign);
    if (rc == 0) {
        loop_run(c->loop);
        rc = w.rc;
    }
    if (rc != 0) {
        snprintf(error, SYNC_ERROR_MAX, "cannot assign a file id: %s", w.assign.reply.error);
        return rc;
    }
    *fid = w.assign.reply.fid;
    *addr = w.assign.addr;
    return 0;
}

static void on_looked_up(struct master_lookup *l, int rc)
{
    wait_over(CONTAINER_OF(l, struct wait, lookup), rc);
}

int sync_lookup(struct sync_client *c, uint32_t volume_id, const struct addr **addr, char error[SYNC_ERROR_MAX])
{
    struct wait w = {.client = c, .lookup = {.volume_id = volume_id, .done = on_looked_up}};
    const struct addr *known = master_client_place(c->masters, volume_id);
    if (known != NULL) {
        *addr = known;
        return 0;
    }
    int rc = master_lookup_start(c->masters, &w.lookup);
    if (rc == 0) {
        loop_run(c->loop);
        rc = w.rc;
    }
    if (rc != 0)
        snprintf(error, SYNC_ERROR_MAX, "cannot look up: %s", w.lookup.error);
    else
        *addr = w.lookup.addr;
    return rc;
}

/* ---- a call ---- */

static void copy_header(const struct http_head *head, const char *name, char *out, size_t cap)
{
    struct bytes v = http_header_get(head, name);
    if (v.n >= cap)
        v.n = 0;
    if (v.n > 0)
        memcpy(out, v.p, v.n);
    out[v.n] = '\0';
}

static void on_head(void *arg, struct http_call *call, const struct http_head *head)
{
    struct wait *w = arg;
    (void)call;
    w->answer->status = head->status;
    copy_header(head, "Content-Disposition", w->answer->disposition, sizeof w->answer->disposition);
    copy_header(head, "ETag", w->answer->etag, sizeof w->answer->etag);
    w->answer->is_manifest = http_header_get(head, "X-File-Store").p != NULL;
}

static int keep(struct sync_answer *a, struct bytes in)
{
    size_t n = SYNC_ANSWER_MAX - a->body_n < in.n ? SYNC_ANSWER_MAX - a->body_n : in.n;
    char *p = realloc(a->body, a->body_n + n + 1);
    if (p == NULL)
        return DFS_ENOMEM;
    memcpy(p + a->body_n, in.p, n);
    a->body = p;
    a->body_n += n;
    p[a->body_n] = '\0';
    return 0;
}

static int on_body(void *arg, struct http_call *call, struct bytes in)
{
    struct wait *w = arg;
    int status = w->answer->status;
    (void)call;
    w->answer->total_bytes += in.n;
    if (w->req->sink == NULL || status < 200 || status > 299)
        return keep(w->answer, in);
    return w->req->sink(w->req->arg, in);
}

static void on_done(void *arg, struct http_call *call, int rc, int status)
{
    struct wait *w = arg;
    (void)call;
    (void)status;
    wait_over(w, rc);
}

int sync_call(struct sync_client *c, const struct sync_request *req, struct sync_answer *a)
{
    static const struct http_call_ops ops = {on_head, on_body, on_done};
    struct wait w = {.client = c, .req = req, .answer = a};
    struct http_call_request r = {
        .addr = req->addr,
        .method = req->method,
        .target = bytes_str(req->target),
        .headers = req->headers,
        .body = req->body,
        .body_count = req->body_count,
        .deadline_ms = c->timeout_ms,
        .ops = &ops,
        .arg = &w,
    };
    memset(a, 0, sizeof *a);
    int rc = http_call_start(c->http, &r, NULL);
    if (rc == 0) {
        loop_run(c->loop);
        rc = w.rc;
    }
    if (rc != 0)
        sync_answer_release(a);
    return rc;
}

void sync_answer_release(struct sync_answer *a)
{
    free(a->body);
    a->body = NULL;
    a->body_n = 0;
}

void sync_answer_text(const struct sync_answer *a, char *out, size_t cap)
{
    size_t n = (size_t)snprintf(out, cap, "%d ", a->status);
    for (size_t i = 0; i < a->body_n && n + 1 < cap && i < 200; i++)
        out[n++] = (unsigned char)a->body[i] >= ' ' && a->body[i] != 0x7f ? a->body[i] : ' ';
    while (n > 0 && out[n - 1] == ' ')
        n--;
    out[n] = '\0';
}
