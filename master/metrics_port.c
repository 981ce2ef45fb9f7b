/* -metricsPort: /metrics alone, on a listener of its own, with what else runs in this process behind the master's own text.
 *
 * That other part may take longer than a loop's step, so it is written by a worker. */
#include "master/master.h"
#include "needle/check.h"
#include "needle/err.h"
#include "net/work.h"

/* In the request's memory; the request is held while the worker writes. */
struct metrics_page {
    struct work work;
    struct http_req *r;
    struct metric_text text;
};

static void write_more(struct work *w)
{
    struct metrics_page *p = CONTAINER_OF(w, struct metrics_page, work);
    const struct master_server *m = p->r->server_arg;

    m->options.more_metrics(&p->text, m->options.more_metrics_arg);
}

static void send_page(struct metrics_page *p)
{
    if (p->r->dead)
        return;
    http_reply_begin(p->r, p->text.failed ? 500 : 200);
    http_reply_header(p->r, "Content-Type", BYTES_LIT("text/plain; version=0.0.4"));
    http_reply_bytes(p->r, bytes_of(p->text.data, p->text.failed ? 0 : p->text.len));
}

static void on_written(struct work *w)
{
    struct metrics_page *p = CONTAINER_OF(w, struct metrics_page, work);

    send_page(p);
    http_req_drop(p->r);
}

static void on_request(struct http_req *r)
{
    struct master_server *m = r->server_arg;
    struct metrics_page *p;

    if (!bytes_eq(r->head.path, BYTES_LIT("/metrics"))) {
        http_reply_text(r, 404, "404 page not found\n");
        return;
    }
    p = http_req_alloc(r, sizeof *p);
    if (p == NULL) {
        http_req_abort(r);
        return;
    }
    r->user = p;
    p->r = r;
    metrics_render(m->metrics, &p->text);
    if (m->options.more_metrics == NULL) {
        send_page(p);
        return;
    }
    http_req_hold(r);
    p->work = (struct work){.loop = m->loop, .run = write_more, .done = on_written};
    work_submit(m->metrics_pool, &p->work);
}

static int on_body(struct http_req *r, struct bytes in, size_t *taken)
{
    (void)r;
    *taken = in.n;
    return 0;
}

static void on_end(struct http_req *r)
{
    (void)r;
}

static void on_close(struct http_req *r)
{
    struct metrics_page *p = r->user;

    if (p != NULL)
        metric_text_release(&p->text);
}

const struct http_handler master_metrics_handler = {on_request, on_body, on_end, on_close};
