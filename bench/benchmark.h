/* `dfs benchmark`: assign, write, read back, verify, report.
 *
 * Event-driven on one or more loops, so that the client is not the bottleneck; prints the report of `weed benchmark` line by
 * line.  Used by conf only. */
#ifndef DFS_BENCH_BENCHMARK_H
#define DFS_BENCH_BENCHMARK_H

#include <stdbool.h>
#include <stdint.h>

struct benchmark_options {
    const char *server;      /* masters, comma list "host:port" */
    uint32_t concurrency;    /* -c, up to 10,000 */
    uint64_t count;          /* -n */
    uint64_t size_bytes;     /* -size; each object is this plus 0..63 random bytes */
    const char *list;        /* file of ids; "" = <tmp>/benchmark_list.txt */
    bool write, read;        /* both true by default; -writeOnly, -readOnly clear one */
    bool write_only, read_only;
    uint32_t delete_percent; /* 0 .. 100 */
    bool read_sequentially;
    const char *collection;  /* "benchmark" */
    const char *replication; /* "" = the master's default */
    const char *ttl;
    const char *disk;        /* accepted */
    bool fsync;
    uint32_t assign_batch;   /* ids of one assign; 1 */
    uint32_t loops;          /* client threads; 0 = half as many as cores, 1 to 4 */
    bool precise;            /* three decimals in the percentiles */
    const char *json;        /* write a machine-readable report there; "" = none */
    const char *csv, *svg;   /* the seconds as a table, and the run as a picture; "" = none */
    const char *label;       /* name of the run in them; "" = none */
    uint32_t idle_wait_ms;   /* how long to wait for the servers' disks to come to rest at the end; 0 = not at all */
    bool use_public_url;
    uint32_t timeout_ms;     /* of one request */
    const char *cpuprofile;  /* "" or a file: CPU seconds and context switches of the client, as text */
};

/* Defaults.  The texts are static. */
void benchmark_options_init(struct benchmark_options *o);

/* Runs it all; blocks.  Returns the exit status: 0 everything written and read back right, 1 something failed or could not be
 * done (one line on standard error says what). */
int benchmark_run(const struct benchmark_options *o);

/* "0.1 linux amd64": set by conf before benchmark_run(). */
extern const char *benchmark_version_text;

#endif
