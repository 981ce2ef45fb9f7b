/* What the files of `dfs benchmark records` share: records.c (one run, the row of operations a second) and records_grid.c.  Nobody
 * else includes this. */
#ifndef DFS_BENCH_RECORDS_RUN_H
#define DFS_BENCH_RECORDS_RUN_H

#include "bench/live.h"
#include "bench/mode_run.h"
#include "bench/record_outcome.h"
#include "bench/record_plan.h"
#include "bench/record_run.h"
#include "bench/second_table.h"

#define RECORDS_MODE "records"

struct records {
    struct mode_options o;  /* as given, with slots for the reports */
    struct mode_run run;
    struct record_plan plan;
    double runtime_s;       /* 0: each record once */
    struct load_result cpu; /* of the client: only its CPU figures are set */
    struct second_table table; /* of the phase under way */
    struct live live;
    bool good;
};

/* A line on standard error; returns 1. */
#define records_complain(...) mode_complain(RECORDS_MODE, __VA_ARGS__)

/* What the mode's options and the plan say; its seconds are drawn in r->live. */
struct record_run_options records_run_options(struct records *r);
/* Adds the client's CPU of a phase to the run's; moves the outcome into the model; says what failed.  DFS_ENOMEM. */
int records_keep(struct records *r, struct record_outcome *out, const char *prefix, double start_s);
/* Seconds since the load began. */
double records_now_s(const struct records *r);

/* The grid, with -procs, -clients or both.  The exit status. */
int records_grid(struct records *r);

#endif
