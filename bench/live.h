/* How far a phase is, while it runs: feeds the progress bar from the seconds of the load engine.
 *
 *   live_begin()    a phase, and how long or how much it is
 *   live_second()   each second
 *   live_clear()    before anything else is printed, and at the end
 *
 * The bar stands on standard error, and only where that is a terminal and standard output is not (progress.h).  Main thread. */
#ifndef DFS_BENCH_LIVE_H
#define DFS_BENCH_LIVE_H

#include "bench/load.h"
#include "bench/progress.h"

struct live {
    struct progress bar;
    const char *what;   /* borrowed */
    double seconds;     /* of the phase; 0 = no limit */
    uint64_t count;     /* requests of the phase; 0 = no limit */
    uint32_t step, steps; /* of several like it: this one, from 0, and how many */
    uint64_t begun_ns;  /* of the first of them */
    uint64_t completed, failed;
};

/* what: "write".  The bar's clock starts. */
void live_begin(struct live *l, const char *what, double seconds, uint64_t count);
/* From here on it is about the next of several phases of about the same length, all of which the bar is of. */
void live_step(struct live *l, uint32_t step, uint32_t steps, const char *what, double seconds, uint64_t count);
/* arg: a struct live, so that a phase of which nothing else is shown has this as its on_second. */
void live_second(void *arg, const struct load_second *s);
/* Takes the bar away until the next second; idempotent. */
void live_clear(struct live *l);

#endif
