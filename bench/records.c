/* `dfs benchmark records`: small reads and writes in the patterns of a file system's benchmark. */
#include "bench/records_run.h"

#include <inttypes.h>
#include <string.h>

#include "bench/record_report.h"
#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"

#define EXIT_USAGE 2
#define OPS_STEPS 7u

struct record_run_options records_run_options(struct records *r)
{
    const struct mode_options *o = &r->o;
    return (struct record_run_options){
        .plan = r->plan,
        .masters = o->masters,
        .collection = o->collection,
        .replication = o->replication,
        .fsync = o->fsync,
        .use_public_url = o->use_public_url,
        .no_verify = o->no_verify,
        .timeout_ms = o->timeout_ms,
        .loops = o->loops,
        .on_load = mode_catch_interrupts,
        .on_second = live_second,
        .arg = &r->live,
    };
}

double records_now_s(const struct records *r)
{
    return (double)(clock_mono_ns() - r->run.begun_ns) / 1e9;
}

int records_keep(struct records *r, struct record_outcome *out, const char *prefix, double start_s)
{
    r->cpu.user_s += out->user_s;
    r->cpu.system_s += out->system_s;
    if (out->busiest_loop > r->cpu.busiest_loop)
        r->cpu.busiest_loop = out->busiest_loop;
    if (record_outcome_failed(out) > 0 || out->gave_up) {
        r->good = false;
        records_complain("%" PRIu64 " requests failed%s; the first: %s", record_outcome_failed(out),
                         out->gave_up ? " and the phase was given up" : "", record_outcome_error(out));
    }
    return record_outcome_move(out, &r->run.result, prefix, start_s);
}

/* ---- before it starts ---- */

static void make_plan(struct records *r)
{
    const struct mode_options *o = &r->o;
    r->plan = (struct record_plan){
        .rw = o->ops ? RECORD_RANDRW : (enum record_rw)o->rw,
        .jobs = o->jobs,
        .record_bytes = o->ops && o->ops_record_bytes != 0 ? o->ops_record_bytes : o->record_bytes,
        .needle_bytes = o->needle_bytes,
        .file_bytes = o->file_bytes,
        .read_percent = o->read_percent,
        .seed = r->run.seed,
    };
    r->runtime_s = o->record_runtime_ms / 1e3;
}

/* Says what is run and what it takes; refuses what cannot fit here. */
static int announce(struct records *r)
{
    struct record_need need = record_plan_need(&r->plan);
    char error[RECORD_ERROR_MAX];

    if (mode_run_open_files(&r->run) != 0)
        return 1;
    record_report_plan(stdout, &r->plan, 1, r->o.ops ? 0 : r->runtime_s);
    fflush(stdout);
    if (mode_reach_master(&r->run) != 0)
        return 1;
    mode_run_begin(&r->run);
    if (record_need_fits(&need, record_memory_available(), r->run.around.all_local, error) != 0)
        return records_complain("%s", error);
    return 0;
}

/* ---- one run ---- */

static int lay_out(struct record_run *run, struct records *r)
{
    char error[RECORD_ERROR_MAX];
    double seconds;
    int rc;

    live_begin(&r->live, "lay out", 0, record_plan_need(&r->plan).needles);
    rc = record_run_fill(run, &seconds, error);
    live_clear(&r->live);
    if (rc != 0)
        return records_complain("cannot lay out the records: %s", error);
    printf("laid out %" PRIu64 " needles in %.2f s\n", record_plan_need(&r->plan).needles, seconds);
    fflush(stdout);
    return 0;
}

static void clean_up(struct record_run *run, struct records *r)
{
    char error[RECORD_ERROR_MAX];
    uint64_t n = record_set_present(record_run_set(run));
    double seconds;
    int rc;

    if (r->o.no_cleanup || n == 0)
        return;
    live_begin(&r->live, "delete", 0, n);
    rc = record_run_delete(run, &seconds, error);
    live_clear(&r->live);
    if (rc != 0) {
        records_complain("cannot delete what was written: %s", error);
        r->good = false;
        return;
    }
    printf("deleted %" PRIu64 " needles in %.2f s\n", n, seconds);
}

static void print_phases(const struct records *r)
{
    const struct run_result *res = &r->run.result;
    for (uint32_t i = 0; i < res->phase_count; i++) {
        record_report_phase(stdout, res->phases[i]);
        mode_print_steadiness(stdout, res->phases[i]);
    }
}

static void on_second(void *arg, const struct load_second *s)
{
    struct records *r = arg;

    live_clear(&r->live);
    second_table_line(&r->table, s);
    live_second(&r->live, s);
}

static uint64_t requests_of_pass(const struct records *r)
{
    return record_plan_records(&r->plan) * r->plan.jobs;
}

/* The phase with a line for each of its seconds. */
static int run_phase(struct records *r, struct record_run *run, struct record_phase *phase, struct record_outcome *out)
{
    char error[RECORD_ERROR_MAX];
    int rc;

    phase->on_second = on_second;
    phase->arg = r;
    rc = record_run_phase(run, phase, out, error);
    live_clear(&r->live);
    return rc == 0 ? 0 : records_complain("%s", error);
}

static int run_once(struct records *r, struct record_run *run)
{
    struct record_phase phase = {
        .step = record_step_of(r->plan.rw),
        .jobs = r->plan.jobs,
        .seconds = r->runtime_s,
        .once = r->runtime_s <= 0,
    };
    struct record_outcome out;

    if (phase.step != RECORD_FILL && lay_out(run, r) != 0)
        return 1;
    mode_run_begin(&r->run);
    second_table_begin(&r->table, stdout, NULL, false);
    live_begin(&r->live, record_rw_name(r->plan.rw), r->runtime_s,
               phase.once || phase.step == RECORD_FILL ? requests_of_pass(r) : 0);
    if (run_phase(r, run, &phase, &out) != 0)
        return 1;
    if (mode_was_interrupted()) {
        r->good = false;
        printf("ended early, after %.2f s: interrupted\n", out.seconds);
    } else if (out.ran_out && r->runtime_s > 0)
        printf("ended early, after %.2f s: every record was written\n", out.seconds);
    if (records_keep(r, &out, "", 0) != 0)
        r->good = false;
    record_outcome_release(&out);
    mode_run_end(&r->run, &r->cpu);
    printf("%s: bs=%" PRIu64 ", numjobs=%u\n", record_rw_name(r->plan.rw), r->plan.record_bytes, r->plan.jobs);
    print_phases(r);
    return 0;
}

/* ---- operations a second ---- */

static const struct {
    enum record_step step;
    const char *name;
} ops_steps[OPS_STEPS] = {
    {RECORD_FILL, "write"},
    {RECORD_SEQ_OVERWRITE, "rewrite"},
    {RECORD_SEQ_READ, "read"},
    {RECORD_SEQ_READ, "reread"},
    {RECORD_RANDOM_READ, "random read"},
    {RECORD_RANDOM_OVERWRITE, "random write"},
    {RECORD_RANDOM_MIX, "mixed"},
};

static struct record_ops_row ops_row(const char *name, const struct record_outcome *o)
{
    return (struct record_ops_row){
        .name = name,
        .parent_per_s = o->jobs_s > 0 ? (double)record_outcome_completed(o) / o->jobs_s : 0,
        .sum_per_s = o->jobs_sum,
        .min_per_s = o->jobs_min,
        .max_per_s = o->jobs_max,
    };
}

static int run_ops_step(struct records *r, struct record_run *run, uint32_t i, struct record_ops_row *row)
{
    struct record_phase phase = {.step = ops_steps[i].step, .jobs = r->plan.jobs, .once = true};
    double start_s = records_now_s(r);
    struct record_outcome out;

    second_table_begin(&r->table, stdout, ops_steps[i].name, false);
    live_step(&r->live, i, OPS_STEPS, ops_steps[i].name, 0, requests_of_pass(r));
    if (run_phase(r, run, &phase, &out) != 0)
        return 1;
    *row = ops_row(ops_steps[i].name, &out);
    if (records_keep(r, &out, ops_steps[i].name, start_s) != 0)
        r->good = false;
    record_outcome_release(&out);
    if (mode_was_interrupted()) {
        records_complain("interrupted");
        r->good = false;
    }
    return 0;
}

/* What was measured before something failed is told, too. */
static int run_ops(struct records *r, struct record_run *run)
{
    struct record_ops_row rows[OPS_STEPS];
    uint32_t done = 0;

    mode_run_begin(&r->run);
    live_begin(&r->live, "", 0, 0);
    while (done < OPS_STEPS && r->good && run_ops_step(r, run, done, &rows[done]) == 0)
        done++;
    mode_run_end(&r->run, &r->cpu);
    if (done > 0) {
        record_report_ops(stdout, rows, done, r->plan.jobs, r->plan.record_bytes);
        record_report_steadiness(stdout, &r->run.result);
    }
    return done == OPS_STEPS ? 0 : 1;
}

static int run_here(struct records *r)
{
    struct record_run_options o = records_run_options(r);
    char error[RECORD_ERROR_MAX];
    struct record_run *run;
    int status;

    if (announce(r) != 0)
        return 1;
    if (record_run_new(&o, &run, error) != 0)
        return records_complain("%s", error);
    status = r->o.ops ? run_ops(r, run) : run_once(r, run);
    if (status != 0)
        r->good = false;
    if (r->run.result.phase_count > 0)
        mode_run_print(stdout, &r->run, &r->cpu);
    clean_up(run, r);
    record_run_free(run);
    fflush(stdout);
    return mode_run_finish(&r->run, r->good);
}

/* ---- words ---- */

static int usage(const char *why)
{
    records_complain("%s", why);
    return EXIT_USAGE;
}

static int check_words(const struct mode_options *o, int argc, char **argv)
{
    bool grid = o->processes[0] != '\0' || o->clients[0] != '\0';

    if (argc > 0) {
        records_complain("'%s' is no option; see `dfs help benchmark records`", argv[0]);
        return EXIT_USAGE;
    }
    if (o->ops && grid)
        return usage("-ops goes with neither -procs nor -clients");
    if (o->ops && o->needle_bytes != 0)
        return usage("-ops overwrites, so -needle does not go with it");
    if (!o->ops && o->ops_record_bytes != 0)
        return usage("-r is the size of a record of -ops; without -ops it is -bs");
    return o->record_runtime_ms > RECORD_RUNTIME_MAX_MS ? usage("-runtime is more than a day") : 0;
}

int mode_records(const struct mode_options *o, int argc, char **argv)
{
    struct records r = {.o = *o, .good = true};
    char error[RECORD_ERROR_MAX];
    int status = check_words(o, argc, argv);

    if (status != 0)
        return status;
    r.o.slots = o->jobs;
    if (mode_run_init(&r.run, &r.o, RECORDS_MODE) != 0)
        return records_complain("cannot start the random number generator");
    make_plan(&r);
    if (o->processes[0] != '\0' || o->clients[0] != '\0')
        status = records_grid(&r);
    else if (record_plan_check(&r.plan, error) != 0)
        status = usage(error);
    else {
        r.run.result.meta.object_bytes = r.plan.needle_bytes;
        r.run.result.meta.request_bytes = r.plan.record_bytes;
        status = run_here(&r);
    }
    mode_run_release(&r.run);
    return status;
}
