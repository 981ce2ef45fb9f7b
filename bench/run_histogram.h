/* A histogram as JSON and back, bucket by bucket, without loss: what was read can be merged and asked for percentiles as if its
 * samples had been counted here.
 *
 * {"samples": 3, "min_ns": 90, "max_ns": 2000, "sum_ns": "2180", "sum_squares_ns2": "4016100", "fine": [90, 2, 1274, 1],
 *  "coarse": [0, 3]}: "fine" and "coarse" are pairs of a bucket's number and its samples, in order of the numbers, those without
 * samples left out (bench/REPORT.md).  The sums are texts, since no JSON number holds them.  Pure; any thread. */
#ifndef DFS_BENCH_RUN_HISTOGRAM_H
#define DFS_BENCH_RUN_HISTOGRAM_H

#include <jansson.h>

#include "bench/latency.h"
#include "net/jsonw.h"

/* Samples longer than a second are kept one by one, those of a file no more than this many. */
#define RUN_LONG_SAMPLES_MAX (4u << 20)

/* As the value of `key`.  0, DFS_ENOMEM, DFS_ETOOBIG (more than RUN_LONG_SAMPLES_MAX); failures of w are asked for at its end. */
int run_histogram_put(struct jsonw *w, const char *key, const struct latency *l);

/* Adds the samples of json to *into, which must be empty: initialised and nothing counted.  long_budget: how many samples longer
 * than a second may still come, counted down; the bound of memory over all histograms of a file.  0; DFS_ENOMEM; DFS_ECORRUPT
 * with one line about what is wrong in *why (static text): then *into is to be released. */
int run_histogram_read(const json_t *json, struct latency *into, uint64_t *long_budget, const char **why);

#endif
