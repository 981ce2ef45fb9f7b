/* What `dfs benchmark mix` prints: a line a second with each kind of request, and a block for each.  Pure formatting; the main
 * thread. */
#ifndef DFS_BENCH_MIX_REPORT_H
#define DFS_BENCH_MIX_REPORT_H

#include <stdio.h>

#include "bench/load.h"

#define MIX_HEAD_EVERY 20u

struct mix_table {
    FILE *out;
    uint32_t lines;
};

/* The head. */
void mix_table_begin(struct mix_table *t, FILE *out);
/* One second; what is shorter than half of one is none. */
void mix_table_line(struct mix_table *t, const struct load_second *s);

/* Requests, rates and times of a kind, as long as any was begun. */
void mix_kind_print(FILE *out, const struct load_result *r, enum load_kind kind);
/* How the requests came: at a rate (then how many were due and never begun), or one after the other. */
void mix_arrivals_print(FILE *out, const struct load_result *r, double rate);

#endif
