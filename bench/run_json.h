/* A run as JSON: written for people with jq, for `dfs benchmark plot`, and for merging; read back without loss, so that writing,
 * reading and writing again gives the same bytes.  bench/REPORT.md is the schema; it is that of `dfs benchmark -json` with more
 * fields, and both are read here.
 *
 * What is read is data: a file of another program, or a damaged one, is an error with one line about where.  Any thread. */
#ifndef DFS_BENCH_RUN_JSON_H
#define DFS_BENCH_RUN_JSON_H

#include <stdio.h>

#include "bench/run_result.h"
#include "needle/bytes.h"
#include "net/jsonw.h"

#define RUN_JSON_SCHEMA 1u
#define RUN_JSON_TOOL "dfs benchmark"
#define RUN_JSON_ERROR_MAX 512u
#define RUN_JSON_BYTES_MAX (64u << 20)
/* Brackets and values in a file: they are what costs memory in a parsed tree, a few hundred and a few dozen bytes each. */
#define RUN_JSON_BRACKETS_MAX (1u << 20)
#define RUN_JSON_VALUES_MAX (8u << 20)

/* The whole document and a newline.  0, DFS_ENOMEM, DFS_ETOOBIG, DFS_EIO. */
int run_json_write(FILE *out, const struct run_result *r);

/* Parts that the report of plain `dfs benchmark` shares.  "latency_ms": summary, percentiles, histogram.  0; DFS_ENOMEM,
 * DFS_ETOOBIG: there is no histogram in it, and it is whole else. */
int run_json_put_latency(struct jsonw *w, const struct latency *l);
/* "resources". */
void run_json_put_resources(struct jsonw *w, const struct run_resources *s);
/* What w holds and a newline.  0, DFS_ENOMEM, DFS_ETOOBIG, DFS_EIO. */
int run_json_finish(struct jsonw *w, FILE *out);

/* text: a whole document, borrowed.  *r is initialised here, and empty after an error: DFS_ECORRUPT (no report of this program,
 * or a damaged one), DFS_EVERSION (a schema that this program does not know), DFS_ETOOBIG, DFS_ENOMEM; one line in error. */
int run_json_parse(struct bytes text, struct run_result *r, char error[RUN_JSON_ERROR_MAX]);

/* The same from a file; also DFS_EIO.  The line in error begins with the file's name. */
int run_json_read_file(const char *path, struct run_result *r, char error[RUN_JSON_ERROR_MAX]);

#endif
