/* What `dfs benchmark` prints, line by line as `weed benchmark` does: scripts cut their figures out of it.
 *
 * Pure formatting of given numbers onto a stream; the main thread.  Times are of samples, rates of completed requests alone.
 * All nine percentile lines are always there. */
#ifndef DFS_BENCH_REPORT_H
#define DFS_BENCH_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "bench/latency.h"

enum report_phase { REPORT_WRITE, REPORT_READ };

/* One phase, when it is over. */
struct report_result {
    enum report_phase phase;
    uint32_t concurrency;
    uint64_t completed, failed;
    uint64_t transferred_bytes;
    double seconds;
};

/* Since the start of the phase, and at the line before. */
struct report_progress {
    uint64_t completed, last_completed;
    uint64_t transferred_bytes, last_transferred_bytes;
    uint64_t total;
    double interval_s; /* between the two */
};

#define REPORT_PERCENTILES 9
extern const int report_percentiles[REPORT_PERCENTILES];

/* "This is dfs version 0.1.0 linux amd64". */
void report_version(FILE *out, const char *version);
void report_title(FILE *out, enum report_phase phase);
void report_progress_line(FILE *out, const struct report_progress *p);
/* precise: three decimals, from the fine histogram. */
void report_summary(FILE *out, const struct report_result *r, struct latency *l, bool precise);

#endif
