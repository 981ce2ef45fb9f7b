/* One loop thread of the engine: slots, their steps, and when they are due. */
#include "bench/load_internal.h"

#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"

static void count(uint64_t *counter, uint64_t n)
{
    __atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

void load_phase_error(struct load_phase *p, enum load_kind kind, const char *fmt, ...)
{
    char text[LOAD_ERROR_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    pthread_mutex_lock(&p->mutex);
    if (p->first_error[0] == '\0')
        memcpy(p->first_error, text, sizeof text);
    if (kind < LOAD_KINDS && p->errors[kind][0] == '\0')
        memcpy(p->errors[kind], text, sizeof text);
    pthread_mutex_unlock(&p->mutex);
}

/* ---- lists ---- */

static void slot_ready(struct load_slot *s)
{
    s->next = NULL;
    *s->worker->ready_last = s;
    s->worker->ready_last = &s->next;
}

static void on_pause_over(struct wheel_node *node)
{
    slot_ready(CONTAINER_OF(node, struct load_slot, pause));
}

static void set_due_timer(const struct load_worker *w)
{
    struct itimerspec at = {0};
    if (w->due_first != NULL) {
        at.it_value.tv_sec = (time_t)(w->due_first->start_ns / 1000000000u);
        at.it_value.tv_nsec = (long)(w->due_first->start_ns % 1000000000u);
    }
    CHECK(timerfd_settime(w->due_fd, TFD_TIMER_ABSTIME, &at, NULL) == 0);
}

/* Arrivals are taken in their order, so the queue of a worker is in order by itself. */
static void slot_wait_for_due(struct load_slot *s)
{
    struct load_worker *w = s->worker;
    bool first = w->due_first == NULL;
    s->next = NULL;
    *w->due_last = s;
    w->due_last = &s->next;
    if (first)
        set_due_timer(w);
}

static void on_due(evutil_socket_t fd, short what, void *arg)
{
    struct load_worker *w = arg;
    uint64_t times, now = clock_mono_ns();

    (void)what;
    (void)!read(fd, &times, sizeof times);
    while (w->due_first != NULL && w->due_first->start_ns <= now) {
        struct load_slot *s = w->due_first;
        w->due_first = s->next;
        if (w->due_first == NULL)
            w->due_last = &w->due_first;
        slot_ready(s);
    }
    set_due_timer(w);
}

/* ---- the end of an operation ---- */

/* Under the mutex. */
static void note_outcome(struct load_phase *p, int rc, uint64_t now_ms)
{
    if (rc == 0) {
        p->success_ms = now_ms;
        p->failures = 0;
    } else if (++p->failures >= LOAD_GIVE_UP_FAILURES && now_ms >= p->success_ms + LOAD_GIVE_UP_MS && !p->gave_up) {
        p->gave_up = true;
        __atomic_store_n(&p->stopped, true, __ATOMIC_RELAXED);
    }
}

static uint64_t content_bytes(const struct load_op *op)
{
    return op->kind == LOAD_DELETE ? 0 : op->kind == LOAD_READ && op->length_bytes != 0 ? op->length_bytes : op->size_bytes;
}

void load_slot_ended(struct load_slot *s, int rc)
{
    struct load_worker *w = s->worker;
    struct load_phase *p = w->phase;
    struct load_count *c = &w->counters.kinds[s->op.kind];
    const struct load_source *source = &p->plan->source;
    uint64_t now = clock_mono_ns(), ns = now > s->start_ns ? now - s->start_ns : 0;

    w->end_ns = now;
    pthread_mutex_lock(&p->mutex);
    note_outcome(p, rc, now / 1000000u);
    if (source->done != NULL)
        source->done(source->arg, s->number, &s->op, rc, now);
    pthread_mutex_unlock(&p->mutex);
    if (rc != 0) {
        count(&c->failed, 1);
        if (rc == DFS_ECORRUPT)
            count(&c->corrupt, 1);
        wheel_set(&w->pauses, &s->pause, LOAD_PAUSE_MS);
        return;
    }
    latency_add(&w->latency[s->op.kind], ns);
    count(&c->latency_sum_ns, ns);
    if (ns > __atomic_load_n(&c->latency_max_ns, __ATOMIC_RELAXED))
        __atomic_store_n(&c->latency_max_ns, ns, __ATOMIC_RELAXED);
    __atomic_store_n(&w->counters.last_latency_ns, ns, __ATOMIC_RELAXED);
    __atomic_store_n(&w->counters.last_end_ns, now, __ATOMIC_RELAXED);
    count(&c->bytes, content_bytes(&s->op));
    count(&c->finished, 1);
    slot_ready(s);
}

/* ---- the next operation ---- */

enum step { STEP_BEGIN, STEP_LATER, STEP_NOT_DUE, STEP_END };

/* Under the mutex: whether the slot has a time at which it may begin, in s->start_ns. */
static bool take_time(struct load_phase *p, struct load_slot *s, uint64_t now)
{
    if (p->plan->rate <= 0) {
        s->start_ns = now;
        return now < p->deadline_ns;
    }
    if (now >= p->deadline_ns) {
        p->missed += s->has_due;
        return false;
    }
    if (!s->has_due)
        s->has_due = arrivals_take(&p->arrivals, &s->start_ns);
    return s->has_due;
}

/* Under the mutex. */
static enum step next_step(struct load_phase *p, struct load_slot *s)
{
    const struct load_plan *plan = p->plan;
    uint64_t now = clock_mono_ns();

    if (__atomic_load_n(&p->stopped, __ATOMIC_RELAXED) || (plan->count > 0 && p->begun >= plan->count))
        return STEP_END;
    if (!take_time(p, s, now))
        return STEP_END;
    if (s->start_ns > now)
        return STEP_NOT_DUE;
    memset(&s->op, 0, sizeof s->op);
    switch (plan->source.next(plan->source.arg, s->number, &s->op)) {
    case LOAD_DO:
        s->has_due = false;
        p->begun++;
        return STEP_BEGIN;
    case LOAD_WAIT:
        return STEP_LATER;
    case LOAD_NO_MORE:
        p->ran_out++;
        return STEP_END;
    }
    return STEP_END;
}

static void slot_step(struct load_slot *s)
{
    struct load_worker *w = s->worker;
    struct load_phase *p = w->phase;
    enum step step;

    pthread_mutex_lock(&p->mutex);
    step = next_step(p, s);
    pthread_mutex_unlock(&p->mutex);
    switch (step) {
    case STEP_BEGIN:
        DCHECK(s->op.size_bytes <= w->o->object_bytes_max || s->op.kind == LOAD_READ || s->op.kind == LOAD_DELETE);
        count(&w->counters.kinds[s->op.kind].started, 1);
        load_slot_begin(s);
        return;
    case STEP_LATER:
        wheel_set(&w->pauses, &s->pause, LOAD_LATER_MS);
        return;
    case STEP_NOT_DUE:
        slot_wait_for_due(s);
        return;
    case STEP_END:
        w->busy--;
        return;
    }
}

static void worker_ended(struct load_worker *w)
{
    struct load_phase *p = w->phase;
    uint64_t one = 1;

    w->cpu_ns = clock_thread_cpu_ns() - w->begin_cpu_ns;
    w->phase = NULL;
    if (__atomic_sub_fetch(&p->running, 1, __ATOMIC_ACQ_REL) == 0)
        CHECK(write(p->ended_fd, &one, sizeof one) == sizeof one);
}

static void on_step(void *arg)
{
    struct load_worker *w = arg;
    if (w->phase == NULL || w->ready_first == NULL)
        return;
    struct load_slot *s = w->ready_first;
    w->ready_first = NULL;
    w->ready_last = &w->ready_first;
    while (s != NULL) {
        struct load_slot *next = s->next;
        slot_step(s);
        s = next;
    }
    if (w->busy == 0)
        worker_ended(w);
}

static void on_begin(struct loop_msg *msg)
{
    struct load_worker *w = CONTAINER_OF(msg, struct load_worker, begin_msg);
    w->phase = w->begin_phase;
    w->busy = w->slot_count;
    w->begin_cpu_ns = clock_thread_cpu_ns();
    w->verify_ns = 0;
    w->end_ns = w->phase->start_ns;
    for (uint32_t i = 0; i < w->slot_count; i++) {
        w->slots[i].has_due = false;
        slot_ready(&w->slots[i]);
    }
}

/* ---- a worker ---- */

int load_worker_begin(struct load_worker *w, struct load_phase *p)
{
    for (int k = 0; k < LOAD_KINDS; k++) {
        latency_release(&w->latency[k]);
        if (latency_init(&w->latency[k]) != 0)
            return DFS_ENOMEM;
    }
    memset(&w->counters, 0, sizeof w->counters);
    w->begin_phase = p;
    w->begin_msg.run = on_begin;
    loop_post(w->loop, &w->begin_msg);
    return 0;
}

struct load_counters load_worker_counters(const struct load_worker *w)
{
    const struct load_counters *c = &w->counters;
    struct load_counters out;

    out.last_end_ns = __atomic_load_n(&c->last_end_ns, __ATOMIC_RELAXED);
    out.last_latency_ns = __atomic_load_n(&c->last_latency_ns, __ATOMIC_RELAXED);
    for (int k = 0; k < LOAD_KINDS; k++) {
        const struct load_count *from = &c->kinds[k];
        out.kinds[k] = (struct load_count){
            .finished = __atomic_load_n(&from->finished, __ATOMIC_RELAXED),
            .failed = __atomic_load_n(&from->failed, __ATOMIC_RELAXED),
            .corrupt = __atomic_load_n(&from->corrupt, __ATOMIC_RELAXED),
            .bytes = __atomic_load_n(&from->bytes, __ATOMIC_RELAXED),
            .latency_sum_ns = __atomic_load_n(&from->latency_sum_ns, __ATOMIC_RELAXED),
        };
        /* After those, so that no more have ended than were started. */
        out.kinds[k].started = __atomic_load_n(&from->started, __ATOMIC_RELAXED);
    }
    return out;
}

uint64_t load_worker_take_max_ns(struct load_worker *w, int kind)
{
    return __atomic_exchange_n(&w->counters.kinds[kind].latency_max_ns, 0, __ATOMIC_RELAXED);
}

static int make_clients(struct load_worker *w, uint32_t connections, char error[LOAD_ERROR_MAX])
{
    struct master_client_options mo = {
        .loop = w->loop,
        .masters = w->o->masters,
        .timeout_ms = w->o->timeout_ms,
        .use_public_url = w->o->use_public_url,
    };

    return master_client_new_for_load(&mo, connections, w->slot_count * 2 + 16, &w->http, &w->masters, error);
}

static int make_slots(struct load_worker *w, uint32_t first_slot)
{
    w->slots = calloc(w->slot_count, sizeof *w->slots);
    w->ids = calloc(w->slot_count, sizeof *w->ids);
    if (w->slots == NULL || w->ids == NULL)
        return DFS_ENOMEM;
    for (uint32_t i = 0; i < w->slot_count; i++) {
        w->slots[i].worker = w;
        w->slots[i].number = first_slot + i;
        w->slots[i].pause.fn = on_pause_over;
    }
    return 0;
}

static int make_due_timer(struct load_worker *w)
{
    w->due_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (w->due_fd == -1)
        return DFS_EUNAVAILABLE;
    w->due_event = event_new(loop_base(w->loop), w->due_fd, EV_READ | EV_PERSIST, on_due, w);
    return w->due_event != NULL && event_add(w->due_event, NULL) == 0 ? 0 : DFS_ENOMEM;
}

int load_worker_new(const struct load_options *o, uint32_t index, uint32_t first_slot, uint32_t slots, uint32_t connections,
                    struct load_worker **out, char error[LOAD_ERROR_MAX])
{
    char name[16];
    struct load_worker *w = aligned_alloc(_Alignof(struct load_worker), sizeof *w);
    int rc = DFS_ENOMEM;

    if (w == NULL)
        goto fail;
    memset(w, 0, sizeof *w);
    w->o = o;
    w->slot_count = slots;
    w->due_fd = -1;
    w->due_last = &w->due_first;
    w->ready_last = &w->ready_first;
    load_ops_prepare(w);
    snprintf(name, sizeof name, "load-%u", index);
    rc = loop_new(name, &w->loop);
    if (rc != 0)
        goto fail;
    wheel_init(&w->pauses, w->loop);
    rc = make_slots(w, first_slot);
    if (rc == 0)
        rc = make_due_timer(w);
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
    snprintf(error, LOAD_ERROR_MAX, "cannot make a worker: %s", dfs_err_text(rc));
fail_said:
    load_worker_free(w);
    return rc;
}

void load_worker_free(struct load_worker *w)
{
    if (w == NULL)
        return;
    if (w->started) {
        loop_stop(w->loop);
        loop_join(w->loop);
    }
    http_client_free(w->http);
    master_client_free(w->masters);
    if (w->due_event != NULL)
        event_free(w->due_event);
    if (w->due_fd != -1)
        close(w->due_fd);
    if (w->loop != NULL) {
        wheel_release(&w->pauses);
        loop_free(w->loop);
    }
    for (uint32_t i = 0; w->slots != NULL && i < w->slot_count; i++)
        free(w->slots[i].body);
    free(w->slots);
    free(w->ids);
    for (int k = 0; k < LOAD_KINDS; k++)
        latency_release(&w->latency[k]);
    free(w);
}
