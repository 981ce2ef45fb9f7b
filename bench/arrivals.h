/* When operations are due in an open loop: number i at start + i / rate, whatever became of those before.
 *
 * Kept apart from clocks and threads, so that a test can drive it by a clock of its own.  Not locked: its owner sees to that. */
#ifndef DFS_BENCH_ARRIVALS_H
#define DFS_BENCH_ARRIVALS_H

#include <stdbool.h>
#include <stdint.h>

struct arrivals {
    uint64_t start_ns, end_ns; /* nothing is due at end_ns or later; UINT64_MAX: no end */
    uint64_t next;             /* number of the next arrival */
    double interval_ns;
};

/* rate: arrivals a second, more than 0.  seconds: 0 = without end. */
void arrivals_init(struct arrivals *a, uint64_t start_ns, double rate, double seconds);

/* The next arrival: when it is due, in the past or in the future.  False when there is none before the end. */
bool arrivals_take(struct arrivals *a, uint64_t *due_ns);

/* How many were due before min(now_ns, end) and have not been taken. */
uint64_t arrivals_missed(const struct arrivals *a, uint64_t now_ns);

#endif
