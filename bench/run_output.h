/* The files that a mode leaves its run in: -json, -csv, -svg.  Opened before the run, so that a wrong path costs no minutes, and
 * written after it.  One thread. */
#ifndef DFS_BENCH_RUN_OUTPUT_H
#define DFS_BENCH_RUN_OUTPUT_H

#include <stdio.h>

#include "bench/run_result.h"

#define RUN_OUTPUT_ERROR_MAX 512u

struct run_output {
    const char *paths[3]; /* json, csv, svg; borrowed */
    FILE *files[3];       /* NULL where the path is "" */
};

/* Creates or empties the files; "" or NULL = none.  0, or DFS_EIO with one line in error: then nothing is open. */
int run_output_open(struct run_output *o, const char *json, const char *csv, const char *svg, char error[RUN_OUTPUT_ERROR_MAX]);

/* Writes what was opened and closes it, also after an error.  0, DFS_EIO, DFS_ENOMEM, DFS_ETOOBIG with one line in error. */
int run_output_write(struct run_output *o, struct run_result *r, char error[RUN_OUTPUT_ERROR_MAX]);

/* Closes without writing.  Idempotent. */
void run_output_close(struct run_output *o);

#endif
