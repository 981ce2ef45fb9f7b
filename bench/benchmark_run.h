/* What the files of the benchmark's main thread share: benchmark.c (checks, phases) and report_json.c (the report for
 * machines).  Nobody else includes this. */
#ifndef DFS_BENCH_BENCHMARK_RUN_H
#define DFS_BENCH_BENCHMARK_RUN_H

#include <stdint.h>
#include <stdio.h>

#include "bench/benchmark.h"
#include "bench/latency.h"
#include "bench/report.h"
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
    int64_t waits, preemptions; /* context switches, voluntary and not */
    struct latency latency;
    struct bench_second *series;
    size_t series_n, series_cap;
    char first_error[BENCH_ERROR_MAX];
};

struct bench_server {
    char address[BENCH_TEXT_MAX * 5];
    char version[BENCH_TEXT_MAX];
    char durability[BENCH_TEXT_MAX]; /* "" when the server does not say */
    bool is_local;
};

struct bench_run {
    const struct benchmark_options *o;
    uint32_t loops, cores;
    char list[4096];
    struct bench_server server;
    struct bench_outcome outcomes[2];
    uint32_t outcome_count;
    bool good;
};

/* The report as JSON (bench/REPORT.md).  DFS_ENOMEM, DFS_EIO. */
int report_json_write(FILE *out, struct bench_run *run);

#endif
