/* The grid: the same pattern by more and more clients of more and more jobs, as three tables. */
#include <inttypes.h>
#include <stdio.h>

#include "bench/record_fleet.h"
#include "bench/record_report.h"
#include "bench/records_run.h"
#include "needle/err.h"

#define EXIT_USAGE 2

struct grid {
    struct records *r;
    struct record_fleet *fleet; /* or, without -clients, ... */
    struct record_run *here;    /* ... this process */
    uint32_t clients[RECORD_LIST_MAX], rows;
    uint32_t processes[RECORD_LIST_MAX], cols;
    struct run_grid *cells[RECORD_SIDES];
};

static int phase(struct grid *g, uint32_t clients, const struct record_phase *p, struct record_outcome *out,
                 char error[RECORD_ERROR_MAX])
{
    return g->fleet != NULL ? record_fleet_phase(g->fleet, clients, p, out, error) : record_run_phase(g->here, p, out, error);
}

/* ---- cells ---- */

static void set_cell(struct run_cell *c, const struct run_phase *p)
{
    struct latency_summary l = latency_fine_summary(&p->latency);

    c->known = p->seconds > 0;
    if (!c->known)
        return;
    c->bytes_per_s = (double)p->bytes / p->seconds;
    c->requests_per_s = (double)p->completed / p->seconds;
    if (p->completed > 0) {
        c->avg_us = l.avg_ms * 1e3;
        c->p99_us = latency_fine_percentile_ms(&p->latency, 99) * 1e3;
    }
}

static bool has_side(const struct record_plan *p, int side)
{
    return side == RECORD_READS ? record_rw_reads(p->rw) : record_rw_writes(p->rw);
}

/* Once over all jobs of all clients, before or between what is measured. */
static int sweep(struct grid *g, enum record_step step, const char *what)
{
    struct record_phase p = {
        .step = step,
        .jobs = g->r->plan.jobs,
        .once = true,
        .on_second = g->fleet == NULL ? live_second : NULL,
        .arg = &g->r->live,
    };
    uint32_t clients = g->clients[g->rows - 1];
    char error[RECORD_ERROR_MAX];
    struct record_outcome out;
    uint64_t failed;
    int rc;

    rc = phase(g, clients, &p, &out, error);
    live_clear(&g->r->live);
    if (rc != 0)
        return records_complain("%s", error);
    failed = record_outcome_failed(&out);
    if (failed > 0 || record_outcome_error(&out)[0] != '\0')
        records_complain("cannot %s: %s", what, record_outcome_error(&out));
    else if (step == RECORD_FILL)
        printf("laid out %" PRIu64 " needles in %.2f s\n", record_outcome_completed(&out), out.seconds);
    fflush(stdout);
    failed += record_outcome_error(&out)[0] != '\0';
    record_outcome_release(&out);
    return failed > 0 ? 1 : 0;
}

/* Agents tell of a phase when it is over: until then the bar shows how many there were. */
static void show_cell(struct grid *g, uint32_t row, uint32_t col, const char *name, struct record_phase *p)
{
    struct records *r = g->r;
    uint32_t cell = row * g->cols + col;

    live_step(&r->live, cell, g->rows * g->cols, name, p->seconds, p->once ? record_plan_records(&r->plan) * p->jobs : 0);
    if (g->fleet == NULL) {
        p->on_second = live_second;
        p->arg = &r->live;
    } else {
        live_second(&r->live, &(struct load_second){0});
    }
}

static int run_cell(struct grid *g, uint32_t row, uint32_t col)
{
    struct records *r = g->r;
    struct record_phase p = {
        .step = record_step_of(r->plan.rw),
        .jobs = g->processes[col],
        .seconds = r->runtime_s,
        .once = r->runtime_s <= 0,
    };
    double start_s = records_now_s(r);
    char error[RECORD_ERROR_MAX], name[64];
    struct record_outcome out;
    int rc;

    snprintf(name, sizeof name, "%u clients x %u processes", g->clients[row], g->processes[col]);
    show_cell(g, row, col, name, &p);

    /* New needles each time. */
    if (p.step == RECORD_FILL && (row > 0 || col > 0) && sweep(g, RECORD_DELETE, "delete what was written before") != 0)
        return 1;
    rc = phase(g, g->clients[row], &p, &out, error);
    live_clear(&r->live);
    if (rc != 0)
        return records_complain("%s", error);
    printf("%s: %.0f/s\n", name, out.seconds > 0 ? (double)record_outcome_completed(&out) / out.seconds : 0);
    fflush(stdout);
    for (int s = 0; s < RECORD_SIDES; s++)
        if (g->cells[s] != NULL)
            set_cell(run_grid_cell(g->cells[s], row, col), &out.sides[s]);
    rc = records_keep(r, &out, name, start_s);
    record_outcome_release(&out);
    if (mode_was_interrupted())
        return records_complain("interrupted");
    return rc != 0 || !r->good ? 1 : 0;
}

static int run_cells(struct grid *g)
{
    struct records *r = g->r;
    int status = 0;

    live_begin(&r->live, "lay out", 0, record_plan_need(&r->plan).needles);
    if (record_step_of(r->plan.rw) != RECORD_FILL && sweep(g, RECORD_FILL, "lay out the records") != 0)
        return 1;
    mode_run_begin(&r->run);
    live_begin(&r->live, "", 0, 0);
    for (uint32_t cell = 0; status == 0 && cell < g->rows * g->cols; cell++)
        status = run_cell(g, cell / g->cols, cell % g->cols);
    if (status != 0)
        r->o.idle_wait_ms = 0; /* agents that are left wait to be told */
    mode_run_end(&r->run, &r->cpu);
    return status;
}

/* ---- before ---- */

/* 1, 2, 4 .. and all. */
static void set_rows(struct grid *g)
{
    uint32_t n = g->fleet != NULL ? record_fleet_count(g->fleet) : 1;
    for (uint32_t c = 1; c < n; c *= 2)
        g->clients[g->rows++] = c;
    g->clients[g->rows++] = n;
}

static int set_cells(struct grid *g)
{
    const struct record_plan *p = &g->r->plan;

    for (int s = 0; s < RECORD_SIDES; s++) {
        char name[RUN_TEXT_MAX], size[RECORD_SIZE_TEXT_MAX];
        const char *side = p->rw != RECORD_RANDRW ? "" : s == RECORD_READS ? ", reads" : ", writes";
        if (!has_side(p, s))
            continue;
        snprintf(name, sizeof name, "%s %s%s", record_rw_name(p->rw), record_size_text(p->record_bytes, size), side);
        if (run_result_add_grid(&g->r->run.result, name, g->clients, g->rows, g->processes, g->cols, &g->cells[s]) != 0)
            return records_complain("%s", dfs_err_text(DFS_ENOMEM));
    }
    return 0;
}

/* The memory that this machine gives: to its agents or this process, and to its servers. */
static int check_need(const struct grid *g)
{
    struct record_need need = record_plan_need(&g->r->plan);
    uint32_t clients = g->clients[g->rows - 1];
    char error[RECORD_ERROR_MAX];

    need.client_bytes *= g->fleet != NULL ? record_fleet_local(g->fleet) : 1;
    need.index_bytes *= clients;
    need.needles *= clients;
    if (record_need_fits(&need, record_memory_available(), g->r->run.around.all_local, error) != 0)
        return records_complain("%s", error);
    return 0;
}

static int prepare(struct grid *g)
{
    struct records *r = g->r;
    struct record_run_options o = records_run_options(r);
    char error[RECORD_ERROR_MAX];

    if (mode_run_open_files(&r->run) != 0)
        return 1;
    if (r->o.clients[0] != '\0' && record_fleet_new(r->o.clients, r->o.masters, &g->fleet, error) != 0)
        return records_complain("%s", error);
    set_rows(g);
    record_report_plan(stdout, &r->plan, g->clients[g->rows - 1], r->runtime_s);
    for (uint32_t i = 0; g->fleet != NULL && i < record_fleet_count(g->fleet); i++)
        printf("agent %s works on the store of %s\n", record_fleet_name(g->fleet, i), record_fleet_masters(g->fleet, i));
    fflush(stdout);
    mode_run_begin(&r->run);
    if (check_need(g) != 0 || set_cells(g) != 0)
        return 1;
    if ((g->fleet != NULL ? record_fleet_plan(g->fleet, &o, error) : record_run_new(&o, &g->here, error)) != 0)
        return records_complain("%s", error);
    return 0;
}

/* ---- after ---- */

/* After a failure the agents are told, but nobody waits for them. */
static void finish(struct grid *g, bool good)
{
    struct records *r = g->r;
    char error[RECORD_ERROR_MAX];
    double seconds;
    int rc = 0;

    if (g->fleet != NULL) {
        rc = record_fleet_end(g->fleet, r->o.no_cleanup, good, error);
    } else if (g->here != NULL && !r->o.no_cleanup) {
        live_begin(&r->live, "delete", 0, record_set_present(record_run_set(g->here)));
        rc = record_run_delete(g->here, &seconds, error);
        live_clear(&r->live);
    }
    if (rc != 0 && good) {
        records_complain("cannot tidy up: %s", error);
        r->good = false;
    }
    record_fleet_free(g->fleet);
    record_run_free(g->here);
}

static int usage(const char *why)
{
    records_complain("%s", why);
    return EXIT_USAGE;
}

static int set_processes(struct grid *g)
{
    struct records *r = g->r;
    char error[RECORD_ERROR_MAX];

    if (r->o.processes[0] == '\0') {
        g->processes[0] = r->plan.jobs;
        g->cols = 1;
    } else if (record_list_parse(bytes_str(r->o.processes), RECORD_JOBS_MAX, g->processes, &g->cols) != 0) {
        return usage("-procs is no list of numbers such as 1,4,16,64");
    }
    r->plan.jobs = 0;
    for (uint32_t i = 0; i < g->cols; i++)
        r->plan.jobs = g->processes[i] > r->plan.jobs ? g->processes[i] : r->plan.jobs;
    return record_plan_check(&r->plan, error) == 0 ? 0 : usage(error);
}

int records_grid(struct records *r)
{
    struct grid g = {.r = r};
    int status = set_processes(&g);
    bool good;

    if (status != 0)
        return status;
    r->run.result.meta.object_bytes = r->plan.needle_bytes;
    r->run.result.meta.request_bytes = r->plan.record_bytes;
    r->run.result.meta.concurrency = r->plan.jobs;
    good = prepare(&g) == 0 && run_cells(&g) == 0;
    r->good = r->good && good;
    for (int s = 0; s < RECORD_SIDES; s++)
        if (g.cells[s] != NULL && g.cells[s]->cells[0].known)
            record_report_grid(stdout, g.cells[s]);
    if (r->run.result.phase_count > 0)
        record_report_steadiness(stdout, &r->run.result);
    if (r->run.result.phase_count > 0)
        mode_run_print(stdout, &r->run, &r->cpu);
    fflush(stdout);
    finish(&g, good);
    return mode_run_finish(&r->run, r->good);
}
