/* The files of the jobs: which needle each record is in, and which version of it was written last.
 *
 * It is the load engine's source for `records`: slot number = job number, so a job has one request under way, touches its own
 * needles alone, and every read knows exactly which version must come back.  An overwrite that failed leaves a needle whose version
 * is not known; reads of it compare the length alone until it is overwritten again.
 *
 *   record_set_new()                         no needle is there
 *   record_set_begin(set, RECORD_FILL, ..)   then load_run(): writes those that are not there
 *   record_set_begin(set, RECORD_SEQ_READ, ..) ...
 *   record_set_begin(set, RECORD_DELETE, ..)
 *   record_set_free()
 *
 * Between phases it belongs to whoever runs them; during one to the engine (see load.h).  record_set_stop(): any thread. */
#ifndef DFS_BENCH_RECORD_SET_H
#define DFS_BENCH_RECORD_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/load.h"
#include "bench/record_plan.h"

enum record_step {
    RECORD_FILL,             /* new needles, in order; once through */
    RECORD_SEQ_READ,
    RECORD_SEQ_OVERWRITE,
    RECORD_RANDOM_READ,      /* each pass visits every record once, in another order */
    RECORD_RANDOM_OVERWRITE,
    RECORD_RANDOM_MIX,       /* reads and overwrites in the plan's shares */
    RECORD_DELETE,           /* once through */
    RECORD_STEPS
};
/* "fill", "seq-read", "seq-overwrite", "random-read", "random-overwrite", "random-mix", "delete". */
const char *record_step_name(enum record_step step);
/* DFS_EINVAL. */
int record_step_parse(struct bytes text, enum record_step *out);
/* What a pattern does once the files are there. */
enum record_step record_step_of(enum record_rw rw);

struct record_set;

/* Reserves the list (memory is touched as it fills).  0 or DFS_ENOMEM. */
int record_set_new(const struct record_plan *plan, struct record_set **out);
void record_set_free(struct record_set *s);

/* The next phase is this, for the first `jobs` jobs.  once: one pass over the file instead of one after the other. */
void record_set_begin(struct record_set *s, enum record_step step, uint32_t jobs, bool once);
struct load_source record_set_source(struct record_set *s);
/* Nothing more is begun, in this phase and in those that follow, until record_set_resume().  Any thread. */
void record_set_stop(struct record_set *s);
void record_set_resume(struct record_set *s);

/* Needles that are there, of all jobs. */
uint64_t record_set_present(const struct record_set *s);

/* What one job did in the phase. */
struct record_job_count {
    uint64_t finished;          /* right ones */
    uint64_t start_ns, end_ns;  /* first begin, last end; both 0 when there was none */
};
struct record_job_count record_set_job(const struct record_set *s, uint32_t job);

/* The id of a needle that is there; false when it is not. */
bool record_set_fid(const struct record_set *s, uint32_t job, uint64_t needle, struct fid *out);

#endif
