/* What `dfs benchmark mix` prints: a block for each kind of request, below a line a second (second_table.h).  Pure formatting; the
 * main thread. */
#ifndef DFS_BENCH_MIX_REPORT_H
#define DFS_BENCH_MIX_REPORT_H

#include <stdio.h>

#include "bench/load.h"

/* Requests, rates and times of a kind, as long as any was begun. */
void mix_kind_print(FILE *out, const struct load_result *r, enum load_kind kind);
/* How the requests came: at a rate (then how many were due and never begun), or one after the other. */
void mix_arrivals_print(FILE *out, const struct load_result *r, double rate);

#endif
