/* An outcome on its way from an agent to the client that asked for it. */
#include <math.h>
#include <string.h>

#include "bench/record_outcome.h"
#include "bench/run_histogram.h"
#include "needle/err.h"

/* Seconds of one outcome that are sent: a day of them. */
#define SERIES_MAX 90000u

static int put_side(struct jsonw *w, const struct run_phase *p)
{
    int rc;

    jsonw_put_object(w, p->name);
    jsonw_put_double(w, "seconds", p->seconds);
    jsonw_put_u64(w, "completed", p->completed);
    jsonw_put_u64(w, "failed", p->failed);
    jsonw_put_u64(w, "corrupt", p->corrupt);
    jsonw_put_u64(w, "bytes", p->bytes);
    jsonw_put_double(w, "verify_s", p->verify_s);
    jsonw_put_str(w, "first_error", p->first_error);
    rc = run_histogram_put(w, "latency", &p->latency);
    jsonw_put_array(w, "series");
    for (size_t i = 0; i < p->series_n && i < SERIES_MAX; i++) {
        const struct run_second *s = &p->series[i];
        jsonw_array(w);
        jsonw_double(w, s->seconds);
        jsonw_u64(w, s->completed);
        jsonw_u64(w, s->failed);
        jsonw_u64(w, s->bytes);
        jsonw_double(w, s->avg_ms);
        jsonw_double(w, s->max_ms);
        jsonw_array_end(w);
    }
    jsonw_array_end(w);
    jsonw_object_end(w);
    return rc;
}

int record_outcome_put(struct jsonw *w, const char *key, const struct record_outcome *o)
{
    int rc = 0;

    jsonw_put_object(w, key);
    jsonw_put_double(w, "seconds", o->seconds);
    jsonw_put_u64(w, "started_unix_s", o->started_unix_s);
    jsonw_put_double(w, "user_s", o->user_s);
    jsonw_put_double(w, "system_s", o->system_s);
    jsonw_put_double(w, "busiest_loop", o->busiest_loop);
    jsonw_put_double(w, "jobs_s", o->jobs_s);
    jsonw_put_double(w, "jobs_sum", o->jobs_sum);
    jsonw_put_double(w, "jobs_min", o->jobs_min);
    jsonw_put_double(w, "jobs_max", o->jobs_max);
    jsonw_put_u64(w, "jobs", o->jobs);
    jsonw_put_u64(w, "loops", o->loops);
    jsonw_put_bool(w, "ran_out", o->ran_out);
    jsonw_put_bool(w, "gave_up", o->gave_up);
    for (int i = 0; i < RECORD_SIDES && rc == 0; i++)
        rc = put_side(w, &o->sides[i]);
    jsonw_object_end(w);
    return rc;
}

/* ---- back ---- */

/* Fields are looked up one by one; the first that is missing or out of its range spoils all. */
struct reader {
    bool bad;
};

static double get_double(struct reader *r, const json_t *o, const char *key, double min)
{
    const json_t *v = json_object_get(o, key);
    double d = json_number_value(v);
    if (!json_is_number(v) || !isfinite(d) || d < min || d > 1e18)
        r->bad = true;
    return r->bad ? 0 : d;
}

static uint64_t get_u64(struct reader *r, const json_t *o, const char *key, uint64_t max)
{
    const json_t *v = json_object_get(o, key);
    json_int_t i = json_integer_value(v);
    if (!json_is_integer(v) || i < 0 || (uint64_t)i > max)
        r->bad = true;
    return r->bad ? 0 : (uint64_t)i;
}

static bool get_bool(struct reader *r, const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_boolean(v))
        r->bad = true;
    return json_is_true(v);
}

static int read_second(struct reader *r, const json_t *row, struct run_phase *p)
{
    struct run_second s;
    double v[6];

    if (json_array_size(row) != 6)
        r->bad = true;
    for (size_t i = 0; i < 6; i++) {
        const json_t *n = json_array_get(row, i);
        v[i] = json_number_value(n);
        if (!json_is_number(n) || !isfinite(v[i]) || v[i] < (i < 4 ? 0 : RUN_UNKNOWN) || v[i] > 1e18)
            r->bad = true;
    }
    if (r->bad)
        return DFS_ECORRUPT;
    s = (struct run_second){v[0], (uint64_t)v[1], (uint64_t)v[2], (uint64_t)v[3], v[4], v[5]};
    return run_phase_add_second(p, &s);
}

static int read_side(struct reader *r, const json_t *o, struct run_phase *p, uint64_t *long_budget)
{
    const json_t *series = json_object_get(o, "series"), *row;
    const char *error = json_string_value(json_object_get(o, "first_error")), *why;
    size_t i;
    int rc;

    p->seconds = get_double(r, o, "seconds", 0);
    p->completed = get_u64(r, o, "completed", RUN_NUMBER_MAX);
    p->failed = get_u64(r, o, "failed", RUN_NUMBER_MAX);
    p->corrupt = get_u64(r, o, "corrupt", RUN_NUMBER_MAX);
    p->bytes = get_u64(r, o, "bytes", RUN_NUMBER_MAX);
    p->verify_s = get_double(r, o, "verify_s", RUN_UNKNOWN);
    run_text_set(p->first_error, sizeof p->first_error, error);
    if (r->bad || error == NULL || !json_is_array(series) || json_array_size(series) > SERIES_MAX)
        return DFS_ECORRUPT;
    rc = run_histogram_read(json_object_get(o, "latency"), &p->latency, long_budget, &why);
    if (rc == 0 && p->latency.count != p->completed)
        rc = DFS_ECORRUPT;
    json_array_foreach(series, i, row)
        if (rc == 0)
            rc = read_second(r, row, p);
    return rc;
}

int record_outcome_read(const json_t *json, struct record_outcome *o)
{
    struct reader r = {0};
    uint64_t long_budget = RUN_LONG_SAMPLES_MAX;
    int rc = 0;

    o->seconds = get_double(&r, json, "seconds", 0);
    o->started_unix_s = get_u64(&r, json, "started_unix_s", RUN_NUMBER_MAX);
    o->user_s = get_double(&r, json, "user_s", 0);
    o->system_s = get_double(&r, json, "system_s", 0);
    o->busiest_loop = get_double(&r, json, "busiest_loop", 0);
    o->jobs_s = get_double(&r, json, "jobs_s", 0);
    o->jobs_sum = get_double(&r, json, "jobs_sum", 0);
    o->jobs_min = get_double(&r, json, "jobs_min", 0);
    o->jobs_max = get_double(&r, json, "jobs_max", 0);
    o->jobs = (uint32_t)get_u64(&r, json, "jobs", RECORD_JOBS_MAX);
    o->loops = (uint32_t)get_u64(&r, json, "loops", LOAD_LOOPS_MAX);
    o->ran_out = get_bool(&r, json, "ran_out");
    o->gave_up = get_bool(&r, json, "gave_up");
    for (int i = 0; i < RECORD_SIDES && rc == 0 && !r.bad; i++)
        rc = read_side(&r, json_object_get(json, o->sides[i].name), &o->sides[i], &long_budget);
    return r.bad ? DFS_ECORRUPT : rc;
}
