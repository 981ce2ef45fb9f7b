/* Pictures of runs: throughput second by second with its stalls, latency against percentile, and the grids, of one run or of
 * several on top of one another.
 *
 *   dfs benchmark plot A.json B.json -svg out.svg
 *
 * One thread. */
#ifndef DFS_BENCH_PLOT_H
#define DFS_BENCH_PLOT_H

#include <stdio.h>

#include "bench/run_result.h"

#define PLOT_RUNS_MAX 16u
#define PLOT_LINES_MAX 32u /* phases of all runs together; more are left out, and the picture says so */

struct plot_options {
    const char *svg; /* where to; "" = not */
    const char *png; /* the same, made of it by rsvg-convert(1) */
    const char *csv; /* the seconds of one run */
};

/* Defaults: nothing. */
void plot_options_init(struct plot_options *o);

/* The whole page as SVG, 800 pixels wide; runs: 1 .. PLOT_RUNS_MAX, borrowed.  0, DFS_ENOMEM, DFS_ETOOBIG, DFS_EIO. */
int plot_write(FILE *out, struct run_result *const *runs, uint32_t count);

/* `dfs benchmark plot`: argv are the reports.  Blocks; returns the exit status: 0 drawn; 1 a file could not be read or written,
 * is no report or is damaged (one line on standard error says which); 2 wrong words. */
int plot_main(const struct plot_options *o, int argc, char **argv);

#endif
