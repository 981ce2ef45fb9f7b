/* What one phase of `records` gave: reads and writes apart, of one client or of several that ran beside one another.
 *
 * Figures of several clients are sums and maxima; their histograms are merged bucket by bucket, so that a percentile of all is one
 * of all samples.  One thread at a time. */
#ifndef DFS_BENCH_RECORD_OUTCOME_H
#define DFS_BENCH_RECORD_OUTCOME_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench/load.h"
#include "bench/record_set.h"
#include "bench/run_result.h"
#include "net/jsonw.h"

enum record_side { RECORD_READS, RECORD_WRITES, RECORD_SIDES };

struct record_outcome {
    double seconds;              /* from the start to the last answer */
    uint64_t started_unix_s;
    struct run_phase sides[RECORD_SIDES]; /* "read", "write": new needles and overwrites */
    double user_s, system_s;     /* CPU of the clients */
    double busiest_loop;         /* of the busiest of them, 0 .. 1 */
    double jobs_s;               /* from the first begin of any job to the last end of any */
    double jobs_sum, jobs_min, jobs_max; /* right ones a second of each job in its own time: their sum, least and most */
    uint32_t jobs;               /* that did something */
    uint32_t loops;
    bool ran_out;                /* every job came to its end before time was up */
    bool gave_up;                /* nothing succeeded any more */
};

/* 0 or DFS_ENOMEM. */
int record_outcome_init(struct record_outcome *o);
/* Idempotent. */
void record_outcome_release(struct record_outcome *o);

/* Adds what the engine says and what the jobs of the set did; *o is as initialised.  DFS_ENOMEM. */
int record_outcome_take(struct record_outcome *o, const struct load_result *from, const struct record_set *set, uint32_t jobs);

/* Adds what another client did in the same phase.  DFS_ENOMEM: *into is not to be used. */
int record_outcome_merge(struct record_outcome *into, const struct record_outcome *from);

/* Right requests of both sides, and all others. */
uint64_t record_outcome_completed(const struct record_outcome *o);
uint64_t record_outcome_failed(const struct record_outcome *o);
/* The first that is known, or "". */
const char *record_outcome_error(const struct record_outcome *o);

/* Moves the sides that did anything into the result: named by the prefix, "PREFIX read" and "PREFIX write" when there are both,
 * "read" and "write" when it is empty.  start_s: when the phase began, from the start of the run.  What finds no place
 * (RUN_PHASES_MAX) is left out.  DFS_ENOMEM. */
int record_outcome_move(struct record_outcome *o, struct run_result *r, const char *prefix, double start_s);

/* As an object (see agent.h), and back.  put: failures are the writer's, or DFS_ETOOBIG.  read: DFS_ECORRUPT, DFS_ENOMEM. */
int record_outcome_put(struct jsonw *w, const char *key, const struct record_outcome *o);
int record_outcome_read(const json_t *json, struct record_outcome *o);

#endif
