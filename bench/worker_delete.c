/* Deletes of -deletePercent: a second after the write, beside the slots. */
#include "bench/worker_internal.h"

#include <stdlib.h>

#include "needle/err.h"

static struct delete_entry *entry_at(struct worker *w, size_t i)
{
    return &w->deletes[(w->delete_first + i) % w->delete_cap];
}

static int ring_grow(struct worker *w)
{
    size_t cap = w->delete_cap == 0 ? 256 : w->delete_cap * 2;
    struct delete_entry *ring = malloc(cap * sizeof *ring);
    if (ring == NULL)
        return DFS_ENOMEM;
    for (size_t i = 0; i < w->delete_count; i++)
        ring[i] = *entry_at(w, i);
    free(w->deletes);
    w->deletes = ring;
    w->delete_cap = cap;
    w->delete_first = 0;
    return 0;
}

/* Times in the ring only rise, so the first entry is the next due. */
static void set_timer(struct worker *w)
{
    if (w->delete_count == 0 || loop_timer_pending(&w->delete_timer) ||
        w->deletes_under_way >= w->slot_count * WORKER_DELETES_PER_SLOT)
        return;
    uint64_t now = loop_now_ms(w->loop), due = entry_at(w, 0)->due_ms;
    loop_timer_set(&w->delete_timer, due > now ? due - now : 0);
}

int worker_delete_later(struct worker *w, const struct fid *fid, const struct addr *addr)
{
    if (w->delete_count == w->delete_cap) {
        int rc = ring_grow(w);
        if (rc != 0)
            return rc;
    }
    *entry_at(w, w->delete_count) = (struct delete_entry){*fid, addr, loop_now_ms(w->loop) + WORKER_DELETE_AFTER_MS};
    w->delete_count++;
    count_add(&w->counts.deletes, 1);
    set_timer(w);
    return 0;
}

static void delete_ended(struct worker *w, const struct fid *fid, int rc, int status)
{
    if (rc == 0 && status >= 200 && status <= 299) {
        count_add(&w->counts.completed, 1);
        w->any_success = true;
        return;
    }
    char text[FID_TEXT_MAX];
    fid_format(fid, text);
    count_add(&w->counts.failed, 1);
    if (rc != 0)
        bench_phase_error(w->phase, "cannot delete %s: %s", text, dfs_err_text(rc));
    else
        bench_phase_error(w->phase, "cannot delete %s: %d", text, status);
}

static void on_done(void *arg, struct http_call *call, int rc, int status)
{
    struct delete_call *d = arg;
    struct worker *w = d->worker;
    (void)call;
    w->deletes_under_way--;
    delete_ended(w, &d->fid, rc, status);
    d->next = w->free_deletes;
    w->free_deletes = d;
    set_timer(w);
    worker_look_for_end(w);
}

static const struct http_call_ops delete_ops = {NULL, NULL, on_done};

static struct delete_call *delete_alloc(struct worker *w)
{
    struct delete_call *d = w->free_deletes;
    if (d != NULL)
        w->free_deletes = d->next;
    else if ((d = malloc(sizeof *d)) != NULL)
        d->worker = w;
    return d;
}

static void delete_start(struct worker *w, const struct delete_entry *e)
{
    struct delete_call *d = delete_alloc(w);
    int rc = DFS_ENOMEM;
    if (d != NULL) {
        d->fid = e->fid;
        struct http_call_request req = {
            .addr = e->addr,
            .method = HTTP_DELETE,
            .target = bytes_of(d->target, call_target(&d->fid, bytes_of("", 0), d->target)),
            .deadline_ms = w->o->timeout_ms,
            .ops = &delete_ops,
            .arg = d,
        };
        rc = http_call_start(w->http, &req, NULL);
    }
    if (rc == 0) {
        w->deletes_under_way++;
        return;
    }
    delete_ended(w, &e->fid, rc, 0);
    if (d != NULL) {
        d->next = w->free_deletes;
        w->free_deletes = d;
    }
}

void on_delete_timer(void *arg)
{
    struct worker *w = arg;
    while (w->delete_count > 0 && w->deletes_under_way < w->slot_count * WORKER_DELETES_PER_SLOT &&
           entry_at(w, 0)->due_ms <= loop_now_ms(w->loop)) {
        struct delete_entry e = *entry_at(w, 0);
        w->delete_first = (w->delete_first + 1) % w->delete_cap;
        w->delete_count--;
        delete_start(w, &e);
    }
    set_timer(w);
    worker_look_for_end(w);
}

void worker_delete_release(struct worker *w)
{
    while (w->free_deletes != NULL) {
        struct delete_call *d = w->free_deletes;
        w->free_deletes = d->next;
        free(d);
    }
    free(w->deletes);
}
