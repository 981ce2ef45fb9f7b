/* Outcomes: from the engine, and added up. */
#include "bench/record_outcome.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "needle/check.h"
#include "needle/err.h"

static const char *const side_names[RECORD_SIDES] = {"read", "write"};

int record_outcome_init(struct record_outcome *o)
{
    memset(o, 0, sizeof *o);
    for (int i = 0; i < RECORD_SIDES; i++) {
        if (latency_init(&o->sides[i].latency) != 0)
            return DFS_ENOMEM;
        run_text_set(o->sides[i].name, sizeof o->sides[i].name, side_names[i]);
    }
    return 0;
}

void record_outcome_release(struct record_outcome *o)
{
    for (int i = 0; i < RECORD_SIDES; i++) {
        latency_release(&o->sides[i].latency);
        free(o->sides[i].series);
    }
    memset(o, 0, sizeof *o);
}

uint64_t record_outcome_completed(const struct record_outcome *o)
{
    return o->sides[RECORD_READS].completed + o->sides[RECORD_WRITES].completed;
}

uint64_t record_outcome_failed(const struct record_outcome *o)
{
    return o->sides[RECORD_READS].failed + o->sides[RECORD_WRITES].failed;
}

const char *record_outcome_error(const struct record_outcome *o)
{
    const struct run_phase *r = &o->sides[RECORD_READS];
    return r->first_error[0] != '\0' ? r->first_error : o->sides[RECORD_WRITES].first_error;
}

/* ---- from the engine ---- */

/* Kinds of the engine that make a side. */
static bool on_side(enum record_side side, int kind)
{
    return side == RECORD_READS ? kind == LOAD_READ : kind == LOAD_WRITE || kind == LOAD_OVERWRITE;
}

static int take_second(struct run_phase *p, enum record_side side, const struct load_second *from)
{
    struct run_second s = {.seconds = from->seconds, .avg_ms = RUN_UNKNOWN, .max_ms = RUN_UNKNOWN};
    double sum_s = 0;

    for (int k = 0; k < LOAD_KINDS; k++) {
        if (!on_side(side, k))
            continue;
        s.completed += from->kind_finished[k];
        s.failed += from->kind_failed[k];
        s.bytes += from->kind_bytes[k];
        if (from->kind_finished[k] == 0 || from->kind_avg_s[k] < 0)
            continue;
        sum_s += from->kind_avg_s[k] * (double)from->kind_finished[k];
        s.max_ms = from->kind_max_s[k] * 1e3 > s.max_ms ? from->kind_max_s[k] * 1e3 : s.max_ms;
    }
    if (s.completed > 0 && s.max_ms >= 0)
        s.avg_ms = sum_s * 1e3 / (double)s.completed;
    return run_phase_add_second(p, &s);
}

static int take_side(struct run_phase *p, enum record_side side, const struct load_result *from)
{
    for (int k = 0; k < LOAD_KINDS; k++) {
        const struct load_kind_result *r = &from->kinds[k];
        if (!on_side(side, k))
            continue;
        p->completed += r->finished;
        p->failed += r->failed;
        p->corrupt += r->corrupt;
        p->bytes += r->bytes;
        if (p->first_error[0] == '\0')
            run_text_set(p->first_error, sizeof p->first_error, from->errors[k]);
        if (latency_merge(&p->latency, &r->latency) != 0)
            return DFS_ENOMEM;
    }
    p->seconds = from->seconds;
    p->verify_s = side == RECORD_READS ? from->verify_s : RUN_UNKNOWN;
    for (size_t i = 0; i < from->series_n; i++)
        if (take_second(p, side, &from->series[i]) == DFS_ENOMEM)
            return DFS_ENOMEM;
    return 0;
}

static void take_jobs(struct record_outcome *o, const struct record_set *set, uint32_t jobs)
{
    uint64_t first = UINT64_MAX, last = 0;

    for (uint32_t i = 0; i < jobs; i++) {
        struct record_job_count c = record_set_job(set, i);
        double rate;
        if (c.end_ns <= c.start_ns)
            continue;
        rate = (double)c.finished * 1e9 / (double)(c.end_ns - c.start_ns);
        o->jobs_sum += rate;
        o->jobs_min = o->jobs == 0 || rate < o->jobs_min ? rate : o->jobs_min;
        o->jobs_max = rate > o->jobs_max ? rate : o->jobs_max;
        o->jobs++;
        first = c.start_ns < first ? c.start_ns : first;
        last = c.end_ns > last ? c.end_ns : last;
    }
    o->jobs_s = last > first ? (double)(last - first) / 1e9 : 0;
}

int record_outcome_take(struct record_outcome *o, const struct load_result *from, const struct record_set *set, uint32_t jobs)
{
    o->seconds = from->seconds;
    o->started_unix_s = from->started_unix_s;
    o->user_s = from->user_s;
    o->system_s = from->system_s;
    o->busiest_loop = from->busiest_loop;
    o->loops = from->loops;
    o->ran_out = from->ran_out;
    o->gave_up = from->gave_up;
    take_jobs(o, set, jobs);
    for (int i = 0; i < RECORD_SIDES; i++)
        if (take_side(&o->sides[i], (enum record_side)i, from) != 0)
            return DFS_ENOMEM;
    return 0;
}

/* ---- of several clients ---- */

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static void merge_second(struct run_second *into, const struct run_second *from)
{
    uint64_t n = into->completed + from->completed;

    if (from->avg_ms >= 0 && into->avg_ms >= 0 && n > 0)
        into->avg_ms = (into->avg_ms * (double)into->completed + from->avg_ms * (double)from->completed) / (double)n;
    else
        into->avg_ms = larger(into->avg_ms, from->avg_ms);
    into->max_ms = larger(into->max_ms, from->max_ms);
    into->seconds = larger(into->seconds, from->seconds);
    into->completed = n;
    into->failed += from->failed;
    into->bytes += from->bytes;
}

static int merge_side(struct run_phase *into, const struct run_phase *from)
{
    into->seconds = larger(into->seconds, from->seconds);
    into->completed += from->completed;
    into->failed += from->failed;
    into->corrupt += from->corrupt;
    into->missed += from->missed;
    into->bytes += from->bytes;
    if (into->verify_s >= 0 && from->verify_s >= 0)
        into->verify_s += from->verify_s;
    else
        into->verify_s = larger(into->verify_s, from->verify_s);
    if (into->first_error[0] == '\0')
        run_text_set(into->first_error, sizeof into->first_error, from->first_error);
    for (size_t i = 0; i < from->series_n; i++) {
        if (i < into->series_n)
            merge_second(&into->series[i], &from->series[i]);
        else if (run_phase_add_second(into, &from->series[i]) == DFS_ENOMEM)
            return DFS_ENOMEM;
    }
    return latency_merge(&into->latency, &from->latency);
}

int record_outcome_merge(struct record_outcome *into, const struct record_outcome *from)
{
    bool first = into->jobs == 0;

    for (int i = 0; i < RECORD_SIDES; i++)
        if (merge_side(&into->sides[i], &from->sides[i]) != 0)
            return DFS_ENOMEM;
    if (into->started_unix_s == 0 || (from->started_unix_s != 0 && from->started_unix_s < into->started_unix_s))
        into->started_unix_s = from->started_unix_s;
    into->ran_out = first ? from->ran_out : into->ran_out && from->ran_out;
    into->gave_up = into->gave_up || from->gave_up;
    into->seconds = larger(into->seconds, from->seconds);
    into->user_s += from->user_s;
    into->system_s += from->system_s;
    into->busiest_loop = larger(into->busiest_loop, from->busiest_loop);
    into->loops += from->loops;
    /* They began at a common time, within what their clocks could be compared. */
    into->jobs_s = larger(into->jobs_s, from->jobs_s);
    into->jobs_min = first || (from->jobs > 0 && from->jobs_min < into->jobs_min) ? from->jobs_min : into->jobs_min;
    into->jobs_max = larger(into->jobs_max, from->jobs_max);
    into->jobs_sum += from->jobs_sum;
    into->jobs += from->jobs;
    return 0;
}

/* ---- into the model of a run ---- */

static bool is_active(const struct run_phase *p)
{
    return p->completed + p->failed > 0;
}

static void move_side(struct run_phase *from, struct run_phase *to)
{
    char name[RUN_TEXT_MAX];

    memcpy(name, to->name, sizeof name);
    latency_release(&to->latency);
    *to = *from;
    memcpy(to->name, name, sizeof name);
    memset(&from->latency, 0, sizeof from->latency);
    from->series = NULL;
    from->series_n = from->series_cap = 0;
}

int record_outcome_move(struct record_outcome *o, struct run_result *r, const char *prefix, double start_s)
{
    bool both = is_active(&o->sides[RECORD_READS]) && is_active(&o->sides[RECORD_WRITES]);

    for (int i = 0; i < RECORD_SIDES; i++) {
        struct run_phase *from = &o->sides[i], *to;
        char name[RUN_TEXT_MAX];
        int rc;
        if (!is_active(from))
            continue;
        if (prefix[0] != '\0' && both)
            snprintf(name, sizeof name, "%.200s %s", prefix, side_names[i]);
        else
            run_text_set(name, sizeof name, prefix[0] != '\0' ? prefix : side_names[i]);
        rc = run_result_add_phase(r, name, &to);
        if (rc == DFS_ETOOBIG)
            return 0;
        if (rc != 0)
            return rc;
        move_side(from, to);
        to->start_s = start_s;
        if (o->gave_up)
            run_text_set(to->ended_early, sizeof to->ended_early, "nothing succeeded any more");
    }
    return 0;
}
