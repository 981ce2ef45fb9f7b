/* What `dfs benchmark records` prints: a block for each kind of request as fio has it, the row of iozone in operations a second,
 * the tables of a grid.  Pure formatting of given numbers onto a stream; the main thread. */
#ifndef DFS_BENCH_RECORD_REPORT_H
#define DFS_BENCH_RECORD_REPORT_H

#include <stdio.h>

#include "bench/record_outcome.h"
#include "bench/record_plan.h"
#include "bench/run_result.h"

/* What is run and what it takes, before it starts.  `clients`: processes that share the load, each with the plan's jobs. */
void record_report_plan(FILE *out, const struct record_plan *p, uint32_t clients, double runtime_s);

/* "  read: IOPS=78712.3, BW=307.47MiB/s (322.41MB/s) ..." and how long requests took. */
void record_report_phase(FILE *out, const struct run_phase *p);

/* A row of the table of operations a second. */
struct record_ops_row {
    const char *name;
    double parent_per_s; /* of all jobs: operations by the time from the first begin to the last end */
    double sum_per_s;    /* the jobs' own rates added up */
    double min_per_s, max_per_s;
};
void record_report_ops(FILE *out, const struct record_ops_row *rows, uint32_t count, uint32_t jobs, uint64_t record_bytes);

/* How even each phase of the run was: its worst second, its seconds at zero, its last third against its first. */
void record_report_steadiness(FILE *out, const struct run_result *r);

/* Three tables: BW, IOPS, latency; rows clients, columns processes. */
void record_report_grid(FILE *out, const struct run_grid *g);

#endif
