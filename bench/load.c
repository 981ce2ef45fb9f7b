/* The engine's main thread: workers, phases, a line a second, the sum. */
#include "bench/load_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench/client_size.h"
#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"
#include "net/rand.h"

_Static_assert(CLIENT_LOOPS_MAX == LOAD_LOOPS_MAX, "one bound");

#define SECOND_NS 1000000000u

struct load {
    struct load_options o;
    struct load_worker *workers[LOAD_LOOPS_MAX];
    uint32_t worker_count;
    struct load_phase *phase; /* atomic: under way */
};

const char *load_kind_name(enum load_kind kind)
{
    static const char *const names[LOAD_KINDS] = {"write", "read", "overwrite", "delete"};
    return names[kind];
}

/* ---- results ---- */

void load_result_init(struct load_result *r)
{
    memset(r, 0, sizeof *r);
}

void load_result_release(struct load_result *r)
{
    for (int k = 0; k < LOAD_KINDS; k++)
        latency_release(&r->kinds[k].latency);
    free(r->series);
    load_result_init(r);
}

uint64_t load_result_failed(const struct load_result *r)
{
    uint64_t sum = 0;

    for (int k = 0; k < LOAD_KINDS; k++)
        sum += r->kinds[k].failed;
    return sum;
}

/* Without memory for it a second is missing in the reports. */
static void series_add(struct load_result *r, const struct load_second *s)
{
    if (r->series_n == r->series_cap) {
        size_t cap = r->series_cap == 0 ? 128 : r->series_cap * 2;
        struct load_second *p = realloc(r->series, cap * sizeof *p);
        if (p == NULL)
            return;
        r->series = p;
        r->series_cap = cap;
    }
    r->series[r->series_n++] = *s;
}

/* ---- making ---- */

static int check_options(struct load *l, uint64_t *connections, char error[LOAD_ERROR_MAX])
{
    struct load_options *o = &l->o;
    uint64_t least, limit;

    if (o->slots == 0 || o->slots > LOAD_SLOTS_MAX) {
        snprintf(error, LOAD_ERROR_MAX, "%u requests at once is not between 1 and %u", o->slots, LOAD_SLOTS_MAX);
        return DFS_EINVAL;
    }
    if (o->object_bytes_max > LOAD_OBJECT_BYTES_MAX || o->object_bytes_max * o->slots > LOAD_BODIES_BYTES_MAX) {
        snprintf(error, LOAD_ERROR_MAX, "%u objects of %" PRIu64 " bytes at once are more than %llu MB", o->slots,
                 o->object_bytes_max, LOAD_BODIES_BYTES_MAX >> 20);
        return DFS_ETOOBIG;
    }
    *connections = client_connections(o->slots, &least, &limit);
    if (*connections == 0) {
        snprintf(error, LOAD_ERROR_MAX,
                 "%u requests at once need %" PRIu64 " open files and the limit is %" PRIu64 ": raise it with `ulimit -n`",
                 o->slots, least, limit);
        return DFS_EUNAVAILABLE;
    }
    if (o->timeout_ms == 0)
        o->timeout_ms = 60000;
    if (o->assign_batch == 0)
        o->assign_batch = 1;
    return 0;
}

static int make_workers(struct load *l, uint64_t connections, char error[LOAD_ERROR_MAX])
{
    uint32_t slots = l->o.slots, loops = client_loops(l->o.loops, slots), first = 0;

    for (uint32_t i = 0; i < loops; i++) {
        uint32_t share = slots / loops + (i < slots % loops ? 1 : 0);
        uint32_t mine = (uint32_t)(connections * share / slots);
        int rc = load_worker_new(&l->o, i, first, share, mine > 0 ? mine : 1, &l->workers[i], error);
        if (rc != 0)
            return rc;
        l->worker_count++;
        first += share;
    }
    return 0;
}

int load_new(const struct load_options *o, struct load **out, char error[LOAD_ERROR_MAX])
{
    uint64_t connections = 0;
    struct load *l = calloc(1, sizeof *l);
    int rc = l != NULL ? rand_init() : DFS_ENOMEM;

    if (rc != 0) {
        snprintf(error, LOAD_ERROR_MAX, "%s", dfs_err_text(rc));
        free(l);
        return rc;
    }
    l->o = *o;
    rc = check_options(l, &connections, error);
    if (rc == 0)
        rc = make_workers(l, connections, error);
    if (rc != 0) {
        load_free(l);
        return rc;
    }
    *out = l;
    return 0;
}

void load_free(struct load *l)
{
    if (l == NULL)
        return;
    for (uint32_t i = 0; i < l->worker_count; i++)
        load_worker_free(l->workers[i]);
    free(l);
}

void load_stop(struct load *l)
{
    struct load_phase *p = __atomic_load_n(&l->phase, __ATOMIC_ACQUIRE);
    if (p != NULL)
        __atomic_store_n(&p->stopped, true, __ATOMIC_RELAXED);
}

/* ---- a phase ---- */

static struct load_counters sum_counters(const struct load *l)
{
    struct load_counters sum = {0};
    for (uint32_t i = 0; i < l->worker_count; i++) {
        struct load_counters c = load_worker_counters(l->workers[i]);
        if (c.last_end_ns > sum.last_end_ns) {
            sum.last_end_ns = c.last_end_ns;
            sum.last_latency_ns = c.last_latency_ns;
        }
        for (int k = 0; k < LOAD_KINDS; k++) {
            sum.kinds[k].started += c.kinds[k].started;
            sum.kinds[k].finished += c.kinds[k].finished;
            sum.kinds[k].failed += c.kinds[k].failed;
            sum.kinds[k].corrupt += c.kinds[k].corrupt;
            sum.kinds[k].bytes += c.kinds[k].bytes;
            sum.kinds[k].latency_sum_ns += c.kinds[k].latency_sum_ns;
        }
    }
    return sum;
}

struct tick {
    struct load_counters last;
    uint64_t last_ns;
};

static void take_latency(struct load *l, int k, const struct load_count *before, const struct load_count *now,
                         struct load_second *s)
{
    uint64_t n = now->finished - before->finished, max_ns = 0;
    for (uint32_t i = 0; i < l->worker_count; i++) {
        uint64_t ns = load_worker_take_max_ns(l->workers[i], k);
        max_ns = ns > max_ns ? ns : max_ns;
    }
    s->kind_avg_s[k] = n > 0 ? (double)(now->latency_sum_ns - before->latency_sum_ns) / 1e9 / (double)n : -1;
    s->kind_max_s[k] = n > 0 ? (double)max_ns / 1e9 : -1;
}

/* A second is over. */
static void on_tick(struct load *l, const struct load_phase *p, struct load_result *out, struct tick *t, uint64_t now)
{
    struct load_counters c = sum_counters(l);
    struct load_second s = {
        .at_s = (double)(now - p->start_ns) / 1e9,
        .seconds = (double)(now - t->last_ns) / 1e9,
        .latency_last_s = c.last_end_ns > t->last.last_end_ns ? (double)c.last_latency_ns / 1e9 : -1,
    };
    uint64_t started = 0, ended = 0, right = 0, sum_ns = 0;

    for (int k = 0; k < LOAD_KINDS; k++) {
        const struct load_count *a = &t->last.kinds[k], *b = &c.kinds[k];
        s.kind_finished[k] = b->finished - a->finished;
        s.kind_bytes[k] = b->bytes - a->bytes;
        s.kind_failed[k] = b->failed - a->failed;
        s.started += b->started - a->started;
        s.failed += s.kind_failed[k];
        s.finished += s.kind_finished[k] + s.kind_failed[k];
        take_latency(l, k, a, b, &s);
        s.bytes += s.kind_bytes[k];
        started += b->started;
        ended += b->finished + b->failed;
        right += b->finished;
        sum_ns += b->latency_sum_ns;
    }
    s.in_flight = started > ended ? (uint32_t)(started - ended) : 0;
    s.latency_avg_s = right > 0 ? (double)sum_ns / 1e9 / (double)right : -1;
    series_add(out, &s);
    if (p->plan->on_second != NULL)
        p->plan->on_second(p->plan->arg, &s);
    t->last = c;
    t->last_ns = now;
}

static void wait_for_end(const struct load_phase *p)
{
    struct pollfd fd = {.fd = p->ended_fd, .events = POLLIN};
    uint64_t ended;
    while (read(p->ended_fd, &ended, sizeof ended) == -1 && (errno == EAGAIN || errno == EINTR))
        poll(&fd, 1, -1);
}

/* Until the last worker has ended; then the rest of a second that was begun, up to the last answer. */
static void watch(struct load *l, struct load_phase *p, struct load_result *out)
{
    struct tick t = {.last_ns = p->start_ns};
    uint64_t due_ns = p->start_ns + SECOND_NS, end_ns = p->start_ns;

    while (__atomic_load_n(&p->running, __ATOMIC_ACQUIRE) > 0) {
        uint64_t now = clock_mono_ns();
        struct pollfd fd = {.fd = p->ended_fd, .events = POLLIN};
        if (now >= due_ns) {
            on_tick(l, p, out, &t, now);
            while (due_ns <= now)
                due_ns += SECOND_NS;
            continue;
        }
        struct timespec left = {(time_t)((due_ns - now) / SECOND_NS), (long)((due_ns - now) % SECOND_NS)};
        ppoll(&fd, 1, &left, NULL);
    }
    wait_for_end(p);
    for (uint32_t i = 0; i < l->worker_count; i++)
        if (l->workers[i]->end_ns > end_ns)
            end_ns = l->workers[i]->end_ns;
    if (end_ns > t.last_ns)
        on_tick(l, p, out, &t, end_ns);
}

static double tv_s(struct timeval a, struct timeval b)
{
    return (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_usec - a.tv_usec) / 1e6;
}

/* When the phase was over: with its last answer, but an open loop lasts its time even when nothing was due at the end. */
static uint64_t end_of(const struct load *l, const struct load_phase *p, const struct load_result *out)
{
    uint64_t end_ns = p->start_ns;
    for (uint32_t i = 0; i < l->worker_count; i++)
        if (l->workers[i]->end_ns > end_ns)
            end_ns = l->workers[i]->end_ns;
    if (p->plan->rate > 0 && p->deadline_ns != UINT64_MAX && !out->ran_out && !p->stopped && end_ns < p->deadline_ns &&
        (p->plan->count == 0 || p->begun < p->plan->count))
        end_ns = p->deadline_ns;
    return end_ns;
}

static int gather(struct load *l, struct load_phase *p, struct load_result *out)
{
    struct load_counters c = sum_counters(l);
    uint64_t busiest_ns = 0, end_ns;

    for (int k = 0; k < LOAD_KINDS; k++) {
        struct load_kind_result *r = &out->kinds[k];
        r->started = c.kinds[k].started;
        r->finished = c.kinds[k].finished;
        r->failed = c.kinds[k].failed;
        r->corrupt = c.kinds[k].corrupt;
        r->bytes = c.kinds[k].bytes;
        for (uint32_t i = 0; i < l->worker_count; i++)
            if (latency_merge(&r->latency, &l->workers[i]->latency[k]) != 0)
                return DFS_ENOMEM;
    }
    out->ran_out = p->ran_out == l->o.slots;
    end_ns = end_of(l, p, out);
    out->seconds = (double)(end_ns - p->start_ns) / 1e9;
    out->gave_up = p->gave_up;
    if (p->plan->rate > 0 && end_ns >= p->deadline_ns && (p->plan->count == 0 || p->begun < p->plan->count))
        out->missed = p->missed + arrivals_missed(&p->arrivals, end_ns);
    for (uint32_t i = 0; i < l->worker_count; i++) {
        out->verify_s += (double)l->workers[i]->verify_ns / 1e9;
        busiest_ns = l->workers[i]->cpu_ns > busiest_ns ? l->workers[i]->cpu_ns : busiest_ns;
    }
    out->busiest_loop = out->seconds > 0 ? (double)busiest_ns / 1e9 / out->seconds : 0;
    out->loops = l->worker_count;
    memcpy(out->errors, p->errors, sizeof out->errors);
    memcpy(out->first_error, p->first_error, sizeof out->first_error);
    return 0;
}

static int result_prepare(struct load_result *out)
{
    load_result_init(out);
    for (int k = 0; k < LOAD_KINDS; k++)
        if (latency_init(&out->kinds[k].latency) != 0)
            return DFS_ENOMEM;
    return 0;
}

static void phase_start(struct load *l, struct load_phase *p)
{
    p->running = l->worker_count;
    p->start_ns = clock_mono_ns();
    p->success_ms = p->start_ns / 1000000u;
    p->deadline_ns = p->plan->seconds > 0 ? p->start_ns + (uint64_t)(p->plan->seconds * 1e9) : UINT64_MAX;
    if (p->plan->rate > 0)
        arrivals_init(&p->arrivals, p->start_ns, p->plan->rate, p->plan->seconds);
    for (uint32_t i = 0; i < l->worker_count; i++) {
        uint64_t one = 1;
        if (load_worker_begin(l->workers[i], p) == 0)
            continue;
        load_phase_error(p, LOAD_KINDS, "%s", dfs_err_text(DFS_ENOMEM));
        __atomic_store_n(&p->stopped, true, __ATOMIC_RELAXED);
        if (__atomic_sub_fetch(&p->running, 1, __ATOMIC_ACQ_REL) == 0)
            CHECK(write(p->ended_fd, &one, sizeof one) == sizeof one);
    }
}

int load_run(struct load *l, const struct load_plan *plan, struct load_result *out)
{
    struct load_phase p = {.plan = plan, .ended_fd = -1};
    struct rusage before, after;
    int rc = result_prepare(out);

    if (rc == 0 && (p.ended_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) == -1)
        rc = DFS_EUNAVAILABLE;
    if (rc != 0) {
        load_result_release(out);
        return rc;
    }
    CHECK(pthread_mutex_init(&p.mutex, NULL) == 0);
    __atomic_store_n(&l->phase, &p, __ATOMIC_RELEASE);
    getrusage(RUSAGE_SELF, &before);
    out->started_unix_s = clock_wall_s();
    phase_start(l, &p);
    watch(l, &p, out);
    getrusage(RUSAGE_SELF, &after);
    __atomic_store_n(&l->phase, NULL, __ATOMIC_RELEASE);
    out->user_s = tv_s(before.ru_utime, after.ru_utime);
    out->system_s = tv_s(before.ru_stime, after.ru_stime);
    rc = gather(l, &p, out);
    pthread_mutex_destroy(&p.mutex);
    close(p.ended_fd);
    if (rc != 0)
        load_result_release(out);
    return rc;
}
