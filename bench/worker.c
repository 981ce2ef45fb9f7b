/* Slots, steps and phases. */
#include "bench/worker_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"

/* ---- the phase ---- */

int bench_phase_init(struct bench_phase *p, enum report_phase kind, const struct benchmark_options *o)
{
    memset(p, 0, sizeof *p);
    p->kind = kind;
    p->o = o;
    p->success_ms = clock_mono_ms();
    p->ended_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (p->ended_fd == -1)
        return DFS_EUNAVAILABLE;
    CHECK(pthread_mutex_init(&p->mutex, NULL) == 0);
    return 0;
}

void bench_phase_release(struct bench_phase *p)
{
    close(p->ended_fd);
    pthread_mutex_destroy(&p->mutex);
}

void bench_phase_error(struct bench_phase *p, const char *fmt, ...)
{
    pthread_mutex_lock(&p->mutex);
    if (p->first_error[0] == '\0') {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(p->first_error, sizeof p->first_error, fmt, ap);
        va_end(ap);
    }
    pthread_mutex_unlock(&p->mutex);
}

void bench_phase_stop(struct bench_phase *p)
{
    uint64_t begun = __atomic_exchange_n(&p->next, p->total, __ATOMIC_RELAXED);
    if (begun < p->total)
        __atomic_fetch_add(&p->abandoned, p->total - begun, __ATOMIC_RELAXED);
}

void bench_phase_worker_ended(struct bench_phase *p)
{
    uint64_t one = 1;
    if (__atomic_sub_fetch(&p->running, 1, __ATOMIC_ACQ_REL) == 0)
        CHECK(write(p->ended_fd, &one, sizeof one) == sizeof one);
}

/* False when all requests are begun. */
static bool phase_take(struct bench_phase *p, uint64_t *number)
{
    if (__atomic_load_n(&p->next, __ATOMIC_RELAXED) >= p->total)
        return false;
    *number = __atomic_fetch_add(&p->next, 1, __ATOMIC_RELAXED);
    return *number < p->total;
}

static void phase_note_failure(struct bench_phase *p)
{
    uint64_t failures = __atomic_add_fetch(&p->failures, 1, __ATOMIC_RELAXED);
    uint64_t success_ms = __atomic_load_n(&p->success_ms, __ATOMIC_RELAXED);
    if (failures < BENCH_GIVE_UP_FAILURES || clock_mono_ms() < success_ms + BENCH_GIVE_UP_MS)
        return;
    bench_phase_error(p, "no request succeeded for %u s", BENCH_GIVE_UP_MS / 1000);
    bench_phase_stop(p);
}

/* ---- slots ---- */

void slot_report(const struct slot *s, const char *what, int rc)
{
    char fid[FID_TEXT_MAX], reason[CALL_REASON_TEXT_MAX];
    fid_format(&s->fid, fid);
    call_reason_text(&s->reason, rc, s->status, reason);
    bench_phase_error(s->worker->phase, "cannot %s %s at %.200s:%u: %s", what, fid, s->addr->host, (unsigned)s->addr->port,
                      reason);
}

void slot_sample(struct slot *s)
{
    latency_add(&s->worker->latency, clock_mono_ns() - s->start_ns);
}

static void slot_ready(struct slot *s)
{
    s->next_ready = NULL;
    *s->worker->ready_last = s;
    s->worker->ready_last = &s->next_ready;
}

void slot_succeeded(struct slot *s, uint64_t bytes)
{
    struct worker *w = s->worker;
    count_add(&w->counts.transferred_bytes, bytes);
    count_add(&w->counts.completed, 1);
    w->any_success = true;
    slot_ready(s);
}

void slot_failed(struct slot *s)
{
    struct worker *w = s->worker;
    count_add(&w->counts.failed, 1);
    phase_note_failure(w->phase);
    wheel_set(&w->pauses, &s->pause, WORKER_PAUSE_MS);
}

static void slot_next(struct slot *s)
{
    struct worker *w = s->worker;
    if (!phase_take(w->phase, &s->number)) {
        w->busy--;
        return;
    }
    s->status = 0;
    s->reason.n = 0;
    s->start_ns = clock_mono_ns();
    if (w->phase->kind == REPORT_WRITE)
        slot_write(s);
    else
        slot_read(s);
}

static void on_pause_over(struct wheel_node *node)
{
    slot_ready(CONTAINER_OF(node, struct slot, pause));
}

/* ---- steps ---- */

/* Acknowledged ids reach the file before anything else is asked for. */
static void write_lines(struct worker *w)
{
    int rc = list_file_append(w->phase->list_out, bytes_of(w->lines, w->lines_n));
    w->lines_n = 0;
    if (rc == 0)
        return;
    bench_phase_error(w->phase, "cannot write the list of ids: %s", dfs_err_text(rc));
    bench_phase_stop(w->phase);
}

static void note_success(struct worker *w)
{
    w->any_success = false;
    __atomic_store_n(&w->phase->success_ms, loop_now_ms(w->loop), __ATOMIC_RELAXED);
    if (__atomic_load_n(&w->phase->failures, __ATOMIC_RELAXED) != 0)
        __atomic_store_n(&w->phase->failures, 0, __ATOMIC_RELAXED);
}

static void on_step(void *arg)
{
    struct worker *w = arg;
    if (w->phase == NULL)
        return;
    if (w->lines_n > 0)
        write_lines(w);
    if (w->any_success)
        note_success(w);
    if (w->ready_first == NULL)
        return;
    struct slot *s = w->ready_first;
    w->ready_first = NULL;
    w->ready_last = &w->ready_first;
    while (s != NULL) {
        struct slot *next = s->next_ready;
        slot_next(s);
        s = next;
    }
    worker_look_for_end(w);
}

void worker_look_for_end(struct worker *w)
{
    struct bench_phase *p = w->phase;
    if (w->busy > 0 || w->delete_count > 0 || w->deletes_under_way > 0)
        return;
    w->end_ns = clock_mono_ns();
    w->cpu_ns = clock_thread_cpu_ns() - w->begin_cpu_ns;
    w->phase = NULL;
    bench_phase_worker_ended(p);
}

static void on_begin(struct loop_msg *msg)
{
    struct worker *w = CONTAINER_OF(msg, struct worker, begin_msg);
    w->phase = w->begin_phase;
    w->busy = w->slot_count;
    w->run_count = 0;
    w->begin_cpu_ns = clock_thread_cpu_ns();
    for (uint32_t i = 0; i < w->slot_count; i++)
        slot_ready(&w->slots[i]);
}

/* ---- a worker ---- */

int worker_begin(struct worker *w, struct bench_phase *p)
{
    latency_release(&w->latency);
    if (latency_init(&w->latency) != 0)
        return DFS_ENOMEM;
    memset(&w->counts, 0, sizeof w->counts);
    w->begin_phase = p;
    w->begin_msg.run = on_begin;
    loop_post(w->loop, &w->begin_msg);
    return 0;
}

struct worker_counts worker_counts(const struct worker *w)
{
    const struct worker_counts *c = &w->counts;
    return (struct worker_counts){
        .completed = __atomic_load_n(&c->completed, __ATOMIC_RELAXED),
        .failed = __atomic_load_n(&c->failed, __ATOMIC_RELAXED),
        .corrupt = __atomic_load_n(&c->corrupt, __ATOMIC_RELAXED),
        .transferred_bytes = __atomic_load_n(&c->transferred_bytes, __ATOMIC_RELAXED),
        .deletes = __atomic_load_n(&c->deletes, __ATOMIC_RELAXED),
        .acknowledged = __atomic_load_n(&c->acknowledged, __ATOMIC_RELAXED),
    };
}

struct latency *worker_latency(struct worker *w)
{
    return &w->latency;
}

uint64_t worker_end_ns(const struct worker *w)
{
    return w->end_ns;
}

uint64_t worker_cpu_ns(const struct worker *w)
{
    return w->cpu_ns;
}

void worker_server(const struct worker *w, char *out, size_t cap)
{
    snprintf(out, cap, "%s", w->server);
}

static int make_clients(struct worker *w, uint32_t connections, char error[BENCH_ERROR_MAX])
{
    struct master_client_options mo = {
        .loop = w->loop,
        .masters = w->o->server,
        .timeout_ms = w->o->timeout_ms,
        .use_public_url = w->o->use_public_url,
    };

    return master_client_new_for_load(&mo, connections, w->slot_count * (WORKER_DELETES_PER_SLOT + 2), &w->http, &w->masters,
                                      error);
}

static int make_slots(struct worker *w)
{
    w->slots = calloc(w->slot_count, sizeof *w->slots);
    w->runs = calloc(w->slot_count, sizeof *w->runs);
    w->lines = malloc(WORKER_LINES_BYTES);
    if (w->slots == NULL || w->runs == NULL || w->lines == NULL)
        return DFS_ENOMEM;
    for (uint32_t i = 0; i < w->slot_count; i++) {
        w->slots[i].worker = w;
        w->slots[i].pause.fn = on_pause_over;
    }
    return w->o->write ? worker_write_prepare(w) : 0;
}

int worker_new(const struct benchmark_options *o, int index, uint32_t slots, uint32_t connections,
               struct worker **out, char error[BENCH_ERROR_MAX])
{
    char name[16];
    struct worker *w = aligned_alloc(_Alignof(struct worker), sizeof *w);
    int rc = DFS_ENOMEM;

    if (w == NULL)
        goto fail;
    memset(w, 0, sizeof *w);
    w->o = o;
    w->slot_count = slots;
    w->ready_last = &w->ready_first;
    snprintf(name, sizeof name, "bench-%d", index);
    rc = loop_new(name, &w->loop);
    if (rc != 0)
        goto fail;
    wheel_init(&w->pauses, w->loop);
    loop_timer_init(&w->delete_timer, w->loop, on_delete_timer, w);
    rc = latency_init(&w->latency);
    if (rc == 0)
        rc = make_slots(w);
    if (rc == 0)
        rc = loop_on_step(w->loop, on_step, w);
    if (rc != 0)
        goto fail;
    rc = make_clients(w, connections, error);
    if (rc != 0)
        goto fail_said;
    rc = loop_start(w->loop);
    if (rc != 0)
        goto fail;
    w->started = true;
    *out = w;
    return 0;

fail:
    snprintf(error, BENCH_ERROR_MAX, "cannot make a worker: %s", dfs_err_text(rc));
fail_said:
    worker_free(w);
    return rc;
}

void worker_free(struct worker *w)
{
    if (w == NULL)
        return;
    if (w->started) {
        loop_stop(w->loop);
        loop_join(w->loop);
    }
    http_client_free(w->http);
    master_client_free(w->masters);
    worker_delete_release(w);
    if (w->loop != NULL) {
        wheel_release(&w->pauses);
        loop_timer_release(&w->delete_timer);
        loop_free(w->loop);
    }
    for (uint32_t i = 0; w->slots != NULL && i < w->slot_count; i++)
        free(w->slots[i].body);
    free(w->slots);
    free(w->runs);
    free(w->lines);
    latency_release(&w->latency);
    free(w);
}
