/* The seconds of a run as CSV, for spreadsheets and gnuplot: one header, one row a second and phase.
 *
 * phase,second,seconds,completed,failed,bytes,avg_ms,max_ms: `second` is the end of it, from the start of the phase; what is
 * unknown is empty; a name with a comma, a quotation mark or a leading character that spreadsheets take for a formula is quoted
 * or led by an apostrophe.  Any thread. */
#ifndef DFS_BENCH_RUN_CSV_H
#define DFS_BENCH_RUN_CSV_H

#include <stdio.h>

#include "bench/run_result.h"

/* 0 or DFS_EIO. */
int run_csv_write(FILE *out, const struct run_result *r);

#endif
