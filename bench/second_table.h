/* A line a second of what a load did: requests of each kind, bytes, errors, times.  Pure formatting; the main thread. */
#ifndef DFS_BENCH_SECOND_TABLE_H
#define DFS_BENCH_SECOND_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include "bench/load.h"

#define SECOND_TABLE_HEAD_EVERY 20u

struct second_table {
    FILE *out;
    const char *title; /* borrowed; above the head; NULL = none */
    bool has_deletes;  /* a column for them */
    uint32_t lines;
};

/* Nothing is printed yet: the head comes with the first line, so that a phase of less than a second has none. */
void second_table_begin(struct second_table *t, FILE *out, const char *title, bool has_deletes);
/* One second; what is shorter than half of one is none.  Overwrites stand with the writes. */
void second_table_line(struct second_table *t, const struct load_second *s);

#endif
