/* Running the phases of `records` in this process: the jobs' files, and a load client of the right size for each phase.
 *
 * Used by the mode itself and by the agent.  One thread runs it; record_run_stop() may come from any. */
#ifndef DFS_BENCH_RECORD_RUN_H
#define DFS_BENCH_RECORD_RUN_H

#include "bench/load.h"
#include "bench/record_outcome.h"
#include "bench/record_plan.h"
#include "bench/record_set.h"

struct record_run_options {
    struct record_plan plan; /* checked */
    const char *masters;     /* texts are borrowed for the life of the run */
    const char *collection, *replication;
    bool fsync, use_public_url, no_verify;
    uint32_t timeout_ms;     /* of one request */
    uint32_t loops;          /* 0 = by the machine */
    /* Called with the load client before each phase but deletes and with NULL after it, for who gets a signal.  May be NULL. */
    void (*on_load)(struct load *l);
    /* The seconds of record_run_fill() and record_run_delete(); may be NULL. */
    void (*on_second)(void *arg, const struct load_second *s);
    void *arg;
};

struct record_run;

/* 0, or a code with one line in error. */
int record_run_new(const struct record_run_options *o, struct record_run **out, char error[RECORD_ERROR_MAX]);
void record_run_free(struct record_run *r);
/* Valid as long as the run. */
const struct record_set *record_run_set(const struct record_run *r);

struct record_phase {
    enum record_step step;
    uint32_t jobs;       /* the first so many */
    double seconds;      /* begin nothing after so long; 0 = no limit */
    bool once;           /* one pass */
    uint64_t start_ns;   /* wait for this time of the monotonic clock; 0 = at once */
    void (*on_second)(void *arg, const struct load_second *s); /* may be NULL */
    void *arg;
};

/* One phase; blocks.  *out is initialised and filled, also when requests failed.  A code with one line in error: not begun, nothing
 * in *out. */
int record_run_phase(struct record_run *r, const struct record_phase *phase, struct record_outcome *out,
                     char error[RECORD_ERROR_MAX]);

/* Writes what is not there, of all jobs.  DFS_EIO with one line in error: not everything could be written; DFS_ECANCELLED: it was
 * stopped.  *seconds: how long it took. */
int record_run_fill(struct record_run *r, double *seconds, char error[RECORD_ERROR_MAX]);
/* Deletes what is there.  As above. */
int record_run_delete(struct record_run *r, double *seconds, char error[RECORD_ERROR_MAX]);

/* The phase under way ends, and later ones but for deletes end at once.  Any thread. */
void record_run_stop(struct record_run *r);

#endif
