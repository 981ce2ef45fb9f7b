/* The benchmark's modes beside weed's report: `dfs benchmark objects`, `cleanup`, `mix`, `records`, `agent`.
 *
 * Each is a command of its own with the options below, prints its report on standard output, and leaves it as JSON, CSV and SVG
 * where it is told to.  They put their load on a store with bench/load.h.  Used by conf only. */
#ifndef DFS_BENCH_MODE_H
#define DFS_BENCH_MODE_H

#include <stdbool.h>
#include <stdint.h>

struct mode_options {
    /* all */
    const char *masters;     /* comma list "host:port" */
    const char *collection;  /* "benchmark" */
    const char *replication; /* "" = the master's default */
    bool fsync;
    bool use_public_url;
    uint32_t timeout_ms;     /* of one request */
    uint32_t loops;          /* client threads; 0 = half as many as cores, 1 to 4 */
    uint32_t slots;          /* -t: requests under way at once */
    uint64_t seed;           /* of contents and of choices; 0 = a random one */
    bool no_verify;          /* do not compare what is read */
    const char *json, *csv, *svg, *label; /* "" = none */
    const char *list_dir;    /* folder of R.fids; "" = ~/.cache/dfs/bench */
    const char *run_name;    /* R */
    uint32_t idle_wait_ms;   /* how long to wait for the disk to come to rest at the end; 0 = not at all */

    /* objects */
    uint64_t block_bytes;    /* -b: one request */
    uint64_t object_bytes;   /* -o; 0 = block_bytes */
    uint64_t max_objects;    /* 0 = as many as there is time for */
    bool no_cleanup, show_time;

    /* mix */
    uint64_t size_median_bytes;
    double size_sigma;       /* of the sizes' logarithm */
    const char *sizes;       /* file "BYTES WEIGHT" a line instead; "" = none */
    const char *shares;      /* "read:write:delete" */
    double zipf;             /* exponent of popularity; 0 = all alike */
    double rate;             /* requests a second, whatever the answers do; 0 = as fast as -t allows */
    uint32_t runtime_ms;
    uint64_t preload;        /* objects written before the clock starts */

    /* records; no_cleanup as above */
    int rw;                  /* enum record_rw */
    uint64_t record_bytes;   /* -bs */
    uint64_t needle_bytes;   /* 0 = record_bytes */
    uint32_t jobs;
    uint64_t file_bytes;     /* of each job */
    uint32_t record_runtime_ms; /* 0 = each record once */
    uint32_t read_percent;   /* of randrw */
    bool ops;                /* the row of a file system's benchmark, in operations a second */
    uint64_t ops_record_bytes; /* -r; 0 = record_bytes */
    const char *processes;   /* "1,4,16,64": a grid; "" = none */
    const char *clients;     /* agents, comma list host:port; "" = this process */

    /* agent */
    const char *listen;      /* host:port */
    bool listen_to_all;      /* listen may be an address of every network */
};

/* Defaults.  The texts are static. */
void mode_options_init(struct mode_options *o);

/* Each blocks and returns the exit status: 0 all was right; 1 a request failed, came back corrupt, or the run could not begin
 * (one line on standard error says why); 2 wrong words.  argv: the words behind the options. */
int mode_objects(const struct mode_options *o, int argc, char **argv);
int mode_cleanup(const struct mode_options *o, int argc, char **argv);
int mode_mix(const struct mode_options *o, int argc, char **argv);
int mode_records(const struct mode_options *o, int argc, char **argv);
/* Serves until SIGINT or SIGTERM: 0. */
int mode_agent(const struct mode_options *o, int argc, char **argv);

#endif
