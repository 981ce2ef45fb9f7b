/* Phases on a load client. */
#include "bench/record_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "needle/err.h"
#include "net/clock.h"

#define WAIT_STEP_MS 20u /* between looks at whether to stop, while waiting for the start */

struct record_run {
    struct record_run_options o;
    struct record_set *set;
    struct load *load; /* of load_jobs slots, or NULL */
    uint32_t load_jobs;
    bool stopped;      /* atomic */
};

int record_run_new(const struct record_run_options *o, struct record_run **out, char error[RECORD_ERROR_MAX])
{
    struct record_run *r = calloc(1, sizeof *r);
    int rc = r != NULL ? 0 : DFS_ENOMEM;

    if (rc == 0) {
        r->o = *o;
        rc = record_set_new(&o->plan, &r->set);
    }
    if (rc != 0) {
        snprintf(error, RECORD_ERROR_MAX, "no memory for the ids of %" PRIu64 " needles", record_plan_need(&o->plan).needles);
        record_run_free(r);
        return rc;
    }
    *out = r;
    return 0;
}

void record_run_free(struct record_run *r)
{
    if (r == NULL)
        return;
    load_free(r->load);
    record_set_free(r->set);
    free(r);
}

const struct record_set *record_run_set(const struct record_run *r)
{
    return r->set;
}

void record_run_stop(struct record_run *r)
{
    __atomic_store_n(&r->stopped, true, __ATOMIC_RELAXED);
    record_set_stop(r->set);
}

/* As many slots as jobs, so that the jobs spread over all threads. */
static int prepare_load(struct record_run *r, uint32_t jobs, char error[RECORD_ERROR_MAX])
{
    struct load_options o = {
        .masters = r->o.masters,
        .collection = r->o.collection,
        .replication = r->o.replication,
        .fsync = r->o.fsync,
        .use_public_url = r->o.use_public_url,
        .no_verify = r->o.no_verify,
        .timeout_ms = r->o.timeout_ms,
        .slots = jobs,
        .loops = r->o.loops,
        .seed = r->o.plan.seed,
        .object_bytes_max = r->o.plan.needle_bytes,
    };
    char why[LOAD_ERROR_MAX];
    int rc;

    if (r->load != NULL && r->load_jobs == jobs)
        return 0;
    load_free(r->load);
    r->load = NULL;
    rc = load_new(&o, &r->load, why);
    if (rc != 0) {
        r->load = NULL;
        snprintf(error, RECORD_ERROR_MAX, "%s", why);
    }
    r->load_jobs = jobs;
    return rc;
}

static void wait_for_start(struct record_run *r, uint64_t start_ns)
{
    for (;;) {
        uint64_t now = clock_mono_ns(), left_ms = now < start_ns ? (start_ns - now + 999999u) / 1000000u : 0;
        if (left_ms == 0 || __atomic_load_n(&r->stopped, __ATOMIC_RELAXED))
            return;
        clock_sleep_ms(left_ms < WAIT_STEP_MS ? left_ms : WAIT_STEP_MS);
    }
}

static void tell_load(const struct record_run *r, enum record_step step, struct load *l)
{
    if (r->o.on_load != NULL && step != RECORD_DELETE)
        r->o.on_load(l);
}

int record_run_phase(struct record_run *r, const struct record_phase *phase, struct record_outcome *out,
                     char error[RECORD_ERROR_MAX])
{
    struct load_plan plan = {
        .source = record_set_source(r->set),
        .seconds = phase->seconds,
        .on_second = phase->on_second,
        .arg = phase->arg,
    };
    struct load_result result;
    int rc = prepare_load(r, phase->jobs, error);

    if (rc != 0)
        return rc;
    record_set_begin(r->set, phase->step, phase->jobs, phase->once);
    wait_for_start(r, phase->start_ns);
    load_result_init(&result);
    tell_load(r, phase->step, r->load);
    rc = load_run(r->load, &plan, &result);
    tell_load(r, phase->step, NULL);
    if (rc == 0) {
        rc = record_outcome_init(out);
        if (rc == 0)
            rc = record_outcome_take(out, &result, r->set, phase->jobs);
        /* Deletes are on no side, yet their failures are told. */
        if (rc == 0 && result.first_error[0] != '\0' && out->sides[RECORD_WRITES].first_error[0] == '\0')
            run_text_set(out->sides[RECORD_WRITES].first_error, RUN_TEXT_MAX, result.first_error);
        load_result_release(&result);
        if (rc != 0)
            record_outcome_release(out);
    }
    if (rc != 0)
        snprintf(error, RECORD_ERROR_MAX, "%s", dfs_err_text(rc));
    return rc;
}

/* Once over all jobs: until so many needles are there. */
static int sweep(struct record_run *r, enum record_step step, uint64_t wanted, double *seconds, char error[RECORD_ERROR_MAX])
{
    struct record_phase phase = {
        .step = step,
        .jobs = r->o.plan.jobs,
        .once = true,
        .on_second = r->o.on_second,
        .arg = r->o.arg,
    };
    struct record_outcome out;
    int rc;

    *seconds = 0;
    if (record_set_present(r->set) == wanted)
        return 0;
    rc = record_run_phase(r, &phase, &out, error);
    if (rc != 0)
        return rc;
    *seconds = out.seconds;
    if (record_set_present(r->set) != wanted) {
        bool stopped = record_outcome_error(&out)[0] == '\0';
        rc = stopped ? DFS_ECANCELLED : DFS_EIO;
        snprintf(error, RECORD_ERROR_MAX, "%s", stopped ? "stopped" : record_outcome_error(&out));
    }
    record_outcome_release(&out);
    return rc;
}

int record_run_fill(struct record_run *r, double *seconds, char error[RECORD_ERROR_MAX])
{
    return sweep(r, RECORD_FILL, record_plan_needles(&r->o.plan) * r->o.plan.jobs, seconds, error);
}

int record_run_delete(struct record_run *r, double *seconds, char error[RECORD_ERROR_MAX])
{
    int rc;

    /* A stop is for the load, not for tidying up after it. */
    record_set_resume(r->set);
    rc = sweep(r, RECORD_DELETE, 0, seconds, error);
    if (__atomic_load_n(&r->stopped, __ATOMIC_RELAXED))
        record_set_stop(r->set);
    return rc;
}
