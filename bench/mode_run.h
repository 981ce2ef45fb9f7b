/* What every new mode of the benchmark does around its load: what stands around it before and after, the run as one model, the
 * figures that each report has beside its own, the files it is asked to leave.
 *
 *   mode_run_init()         once
 *   mode_reach_master()     before anything is written
 *   mode_run_begin()        just before the load: asks servers, starts the clock
 *   mode_run_add()          after it: each kind of operation becomes a phase of the model
 *   mode_run_end()          just after the load: takes what servers did meanwhile, waits for their disks
 *   mode_run_print()        the figures below the mode's own
 *   mode_run_finish()       files, exit status
 *
 * Main thread. */
#ifndef DFS_BENCH_MODE_RUN_H
#define DFS_BENCH_MODE_RUN_H

#include <stdbool.h>
#include <stdio.h>

#include "bench/load.h"
#include "bench/mode.h"
#include "bench/run_output.h"
#include "bench/run_result.h"
#include "bench/surroundings.h"

/* So much still dirty, and an idle disk is only one that has not begun. */
#define MODE_DIRTY_BYTES (64 << 20)

struct mode_run {
    const struct mode_options *o;
    uint64_t seed;     /* that of the options, or a random one: below 2^53, so that readers of JSON keep it */
    uint64_t begun_ns; /* when the load began */
    struct surroundings around;
    struct run_result result;
    struct run_output output;
    bool opened;       /* output */
};

/* "dfs benchmark objects: ..." on standard error; returns 1, the exit status. */
int mode_complain(const char *mode, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* mode: "objects".  Borrows o.  DFS_EUNAVAILABLE: no randomness. */
int mode_run_init(struct mode_run *r, const struct mode_options *o, const char *mode);
void mode_run_release(struct mode_run *r);

/* Opens -json, -csv and -svg, so that a wrong path is found before the load and not after it.  0, or 1 after a line on standard
 * error. */
int mode_run_open_files(struct mode_run *r);

/* Whether a master answers at all, so that a wrong address costs no minutes.  0, or 1 after a line on standard error. */
int mode_reach_master(const struct mode_run *r);

/* What the engine is told; object_bytes_max: of uploads. */
struct load_options mode_load_options(const struct mode_run *r, uint64_t object_bytes_max);

/* Asks the servers, then starts the clock of the run. */
void mode_run_begin(struct mode_run *r);
/* From here on a first SIGINT or SIGTERM ends the load under way (load_stop), so that the run is reported and cleaned up; a second
 * one ends the program.  NULL: as before. */
void mode_catch_interrupts(struct load *l);
bool mode_was_interrupted(void);

/* One kind of a finished load as a phase; start_s: its start, from mode_run_begin().  *out is valid until release; may be NULL.
 * 0 or DFS_ENOMEM, DFS_ETOOBIG. */
int mode_run_add(struct mode_run *r, const struct load_result *load, enum load_kind kind, const char *name, double start_s,
                 struct run_phase **out);
/* load: the last one, for the client's CPU. */
void mode_run_end(struct mode_run *r, const struct load_result *load);

/* "Latency 50%(s): ..." and so on to 99.9. */
void mode_print_percentiles(FILE *out, const struct latency *l);
/* Errors, with the first of their texts. */
void mode_print_errors(FILE *out, const struct load_result *load);
/* Worst second, seconds at zero, last third against first. */
void mode_print_steadiness(FILE *out, const struct run_phase *p);
/* Server reads against what it sent, dirty pages, idle disk, client CPU, durability. */
void mode_run_print(FILE *out, const struct mode_run *r, const struct load_result *load);

/* Writes -json, -csv and -svg, opened before or not.  The exit status: 0 when good and all were written. */
int mode_run_finish(struct mode_run *r, bool good);

#endif
