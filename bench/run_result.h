/* What one run of a benchmark mode left behind: the one model that the modes fill, and that the reports for machines
 * (run_json.h, run_csv.h) and the pictures (plot.h) are made from.  bench/REPORT.md says how it looks as JSON.
 *
 *   run_result_init()            everything empty, every figure that need not be known "unknown"
 *   run_text_set(r.meta.mode..)  texts: always by this, so that they are UTF-8, one line and bounded
 *   run_result_add_phase()       then fill it, latency_merge() or latency_add() into its histogram, run_phase_add_second()
 *   run_result_add_grid()        optional, then fill the cells
 *   run_result_release()
 *
 * A phase is one kind of operation over one stretch of time: the writes of a run, then its reads.  Operations that ran beside one
 * another (those of `mix`) are phases with the same start.  A result owns all that hangs on it and copies what it is given.
 * One thread at a time. */
#ifndef DFS_BENCH_RUN_RESULT_H
#define DFS_BENCH_RUN_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/latency.h"

#define RUN_TEXT_MAX 256u           /* bytes of a text with its closing zero */
#define RUN_COMMAND_MAX 2048u       /* the same for the command line */
#define RUN_PHASES_MAX 64u
#define RUN_SECONDS_MAX 200000u     /* of one phase: more than two days */
#define RUN_GRIDS_MAX 16u
#define RUN_GRID_SIDE_MAX 32u       /* rows, and columns, of one grid */
#define RUN_NUMBER_MAX INT64_MAX    /* of every count and size: what readers of JSON keep apart */
#define RUN_REAL_MAX 1e15            /* of every rate and time */
#define RUN_UNKNOWN (-1)            /* of the figures that say so: as null in JSON */

struct run_meta {
    char version[RUN_TEXT_MAX];     /* of the client: "0.1.0 linux amd64" */
    char mode[RUN_TEXT_MAX];        /* "objects", "mix", "records" */
    char label[RUN_TEXT_MAX];       /* the user's name for the run; "" = none */
    char host[RUN_TEXT_MAX];        /* where the client ran */
    char command[RUN_COMMAND_MAX];  /* the command line */
    char server[RUN_TEXT_MAX];      /* one of the volume servers, host:port; "" = unknown */
    char server_version[RUN_TEXT_MAX];
    char durability[RUN_TEXT_MAX];  /* of the server: "group", "paced", "none"; "" = it does not say */
    char collection[RUN_TEXT_MAX], replication[RUN_TEXT_MAX]; /* "" = the master's default */
    uint64_t started_unix_s;
    uint64_t seed;
    uint64_t object_bytes;          /* of one object; 0 = of many sizes */
    uint64_t request_bytes;         /* of one request; 0 = of many sizes */
    uint32_t concurrency;           /* requests under way at once */
    uint32_t loops, cores;          /* client threads; cores of its machine */
    double rate;                    /* requests a second that were asked for; 0 = as fast as possible */
    bool fsync;
    bool server_is_local;           /* client and server shared a machine */
    bool good;                      /* the exit status as a word */
};

/* One second of a phase.  Times of what ended in it. */
struct run_second {
    double seconds;                 /* its length as measured */
    uint64_t completed;             /* right ones */
    uint64_t failed;
    uint64_t bytes;                 /* content of right ones */
    double avg_ms, max_ms;          /* RUN_UNKNOWN: not measured, or nothing ended */
};

struct run_phase {
    char name[RUN_TEXT_MAX];        /* "write", "seq", "read" */
    double start_s;                 /* from the start of the run */
    double seconds;                 /* to the last answer */
    uint64_t completed;             /* requests that were answered right */
    uint64_t failed;                /* all others that were begun */
    uint64_t corrupt;               /* of the failed: other bytes than were written */
    uint64_t missed;                /* open loop: due and never begun */
    uint64_t bytes;                 /* content of right ones */
    double verify_s;                /* CPU for comparing; RUN_UNKNOWN */
    char ended_early[RUN_TEXT_MAX]; /* why, or "" */
    char first_error[RUN_TEXT_MAX]; /* "" = none */
    struct latency latency;         /* of right ones */
    struct run_second *series;      /* whole seconds; what is left over at the end may be a last, shorter one */
    size_t series_n, series_cap;
};

/* What the run cost beside time.  RUN_UNKNOWN where it could not be learnt. */
struct run_resources {
    int64_t server_disk_read_bytes; /* what the servers read from their disks, against ... */
    int64_t server_sent_bytes;      /* ... what they answered with: less from the disk than sent is a cached read */
    int64_t dirty_bytes;            /* pages not yet on the disk when the last phase ended */
    double idle_s;                  /* from then until the disk was at rest */
    double cpu_user_s, cpu_system_s; /* of the client, all phases */
    double client_cpu_share;        /* of its busiest thread: near 1 it was the client that was measured */
};

struct run_cell {
    bool known;
    double bytes_per_s, requests_per_s;
    double avg_us, p99_us;          /* latency, all clients merged; RUN_UNKNOWN */
};

/* Rows: clients.  Columns: processes of each. */
struct run_grid {
    char name[RUN_TEXT_MAX];        /* "randread 4k" */
    uint32_t rows, cols;
    uint32_t clients[RUN_GRID_SIDE_MAX], processes[RUN_GRID_SIDE_MAX];
    struct run_cell *cells;         /* rows times cols, row by row */
};

struct run_result {
    struct run_meta meta;
    struct run_resources resources;
    struct run_phase *phases[RUN_PHASES_MAX];
    uint32_t phase_count;
    struct run_grid *grids[RUN_GRIDS_MAX];
    uint32_t grid_count;
};

/* Empty, and every figure unknown that may be. */
void run_result_init(struct run_result *r);
/* Idempotent. */
void run_result_release(struct run_result *r);

/* Copies text into out[cap]: what is no UTF-8 becomes U+FFFD, control bytes become blanks, and what does not fit is cut between
 * two characters.  NULL counts as "". */
void run_text_set(char *out, size_t cap, const char *text);

/* Words with a blank between each, those with blanks in quotation marks: for meta.command. */
void run_text_set_words(char *out, size_t cap, int argc, char *const *argv);

/* A new empty phase at the end, *out valid until run_result_release().  0, DFS_ENOMEM, DFS_ETOOBIG (RUN_PHASES_MAX). */
int run_result_add_phase(struct run_result *r, const char *name, struct run_phase **out);

/* 0, DFS_ENOMEM, DFS_ETOOBIG (RUN_SECONDS_MAX: the rest of the phase is not in the series). */
int run_phase_add_second(struct run_phase *p, const struct run_second *s);

/* A new grid of unknown cells; clients and processes are copied.  0, DFS_ENOMEM, DFS_ETOOBIG, DFS_EINVAL (no row or column). */
int run_result_add_grid(struct run_result *r, const char *name, const uint32_t *clients, uint32_t rows, const uint32_t *processes,
                        uint32_t cols, struct run_grid **out);

/* Borrowed; valid as long as the grid.  row < rows, col < cols. */
struct run_cell *run_grid_cell(struct run_grid *g, uint32_t row, uint32_t col);

/* What people call the run: its label, else its mode, else "benchmark". */
const char *run_result_title(const struct run_result *r);

#endif
