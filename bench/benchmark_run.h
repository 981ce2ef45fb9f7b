/* What the files of the benchmark's main thread share: benchmark.c (checks, phases), benchmark_around.c (servers, figures beside
 * the report), report_json.c (the report for machines) and benchmark_files.c (its drawings).  Nobody else includes this. */
#ifndef DFS_BENCH_BENCHMARK_RUN_H
#define DFS_BENCH_BENCHMARK_RUN_H

#include <stdint.h>
#include <stdio.h>

#include "bench/benchmark.h"
#include "bench/latency.h"
#include "bench/progress.h"
#include "bench/report.h"
#include "bench/run_output.h"
#include "bench/run_result.h"
#include "bench/run_stats.h"
#include "bench/surroundings.h"
#include "bench/worker.h"

#define BENCH_TEXT_MAX 64

/* One second of a phase. */
struct bench_second {
    double seconds; /* its length as measured */
    uint64_t completed, failed, bytes;
};

struct bench_outcome {
    struct report_result result;
    uint64_t requests, deletes, corrupt;
    uint64_t started_s; /* Unix time */
    double user_s, system_s;
    double busiest_loop;        /* share of the phase that the busiest thread used its core */
    int64_t waits, preemptions; /* context switches, voluntary and not */
    struct latency latency;
    struct bench_second *series;
    size_t series_n, series_cap;
    char first_error[BENCH_ERROR_MAX];
};

struct bench_server {
    char address[BENCH_TEXT_MAX * 5];
    bool is_local;
};

struct bench_run {
    const struct benchmark_options *o;
    uint32_t loops, cores;
    char list[4096];
    struct bench_server server;
    struct surroundings around;
    struct run_resources resources; /* after bench_around_end() */
    struct bench_outcome outcomes[2];
    uint32_t outcome_count;
    bool good;
};

/* Before the first phase, and after the last. */
void bench_around_begin(struct bench_run *run);
void bench_around_end(struct bench_run *run);
/* Of completed requests.  RUN_UNKNOWN as in run_stats.h; the median is not told. */
struct run_steadiness bench_steadiness(const struct bench_outcome *o);
/* Lines with the figures that weed's report does not have. */
void bench_around_print(FILE *out, const struct bench_run *run);

/* The bar after a second: what was done so far, and in it. */
void bench_draw_progress(struct progress *bar, const struct bench_phase *p, const struct worker_counts *c,
                         const struct bench_second *s, double elapsed_s);

/* Writes and closes what was opened with run_output_open(): -csv and -svg.  A code with one line in error. */
int bench_drawings_write(struct run_output *drawings, struct bench_run *run, char error[RUN_OUTPUT_ERROR_MAX]);

/* -cpuprofile, as text. */
void bench_profile_write(FILE *out, const struct bench_run *run);

/* The report as JSON (bench/REPORT.md).  DFS_ENOMEM, DFS_EIO. */
int report_json_write(FILE *out, struct bench_run *run);

#endif
