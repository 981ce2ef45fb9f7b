/* What the seconds of a phase say: how even it was, and where it stood still.
 *
 * Shared by the report for machines and by the pictures, so that a shaded second and a counted one are the same second.  A last
 * second shorter than half a one is part of no figure.  Pure; any thread. */
#ifndef DFS_BENCH_RUN_STATS_H
#define DFS_BENCH_RUN_STATS_H

#include "bench/run_result.h"

/* A second counts as stalled when its rate is at most this share of the phase's median. */
#define RUN_STALL_SHARE 0.1

enum run_measure { RUN_REQUESTS, RUN_BYTES };

/* Requests or bytes a second; 0 for a second without length. */
double run_second_rate(const struct run_second *s, enum run_measure m);

/* Seconds of the series that the figures are made of: all, or all but a last short one. */
size_t run_phase_whole_seconds(const struct run_phase *p);

struct run_steadiness {
    double median, worst;    /* rates; RUN_UNKNOWN without a whole second */
    uint64_t seconds_at_zero;
    double last_to_first;    /* rate of the last third to that of the first; RUN_UNKNOWN below three seconds or at zero */
};
/* 0 or DFS_ENOMEM. */
int run_phase_steadiness(const struct run_phase *p, enum run_measure m, struct run_steadiness *out);

/* From the start of the phase. */
struct run_stall {
    double from_s, to_s;
};
/* The stretches of stalled seconds, neighbours joined, in order; *out is the caller's to free(3).  Seconds at zero are always
 * among them.  0 or DFS_ENOMEM. */
int run_phase_stalls(const struct run_phase *p, enum run_measure m, struct run_stall **out, size_t *count);

/* Over `seconds` of the phase; 0 for a phase without length. */
double run_phase_rate(const struct run_phase *p, enum run_measure m);

#endif
