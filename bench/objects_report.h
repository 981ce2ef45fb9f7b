/* What `dfs benchmark objects` prints: a table with a line a second and a summary, in columns, order and units of the tool whose
 * rows it is compared with (rados bench).  Pure formatting; the main thread. */
#ifndef DFS_BENCH_OBJECTS_REPORT_H
#define DFS_BENCH_OBJECTS_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "bench/load.h"
#include "bench/run_result.h"

#define OBJECTS_HEAD_EVERY 20u /* lines between two heads of the table */

struct objects_table {
    FILE *out;
    bool show_time;
    uint64_t started, finished, bytes; /* so far */
    uint32_t lines;
};

/* Head and the line of second 0. */
void objects_table_begin(struct objects_table *t, FILE *out, bool show_time);
/* One second; what is shorter than half of one is none. */
void objects_table_line(struct objects_table *t, const struct load_second *s);

struct objects_summary {
    bool write;
    uint64_t block_bytes, object_bytes;
};
/* From the total time to the least latency; reads have the subset that the tool gives them. */
void objects_summary_print(FILE *out, const struct objects_summary *s, const struct run_phase *p);

#endif
