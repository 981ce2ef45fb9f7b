/* How far a long run is, drawn over and over on one line: "write [=====>    ] 52%  340 MiB/s, 12,000 done, 0 failed, 14 s left".
 *
 * Only on a terminal, and only when standard output, where the report goes, is none; otherwise every call does nothing.  What
 * prints on the same terminal calls progress_clear() before it.  The thread that prints. */
#ifndef DFS_BENCH_PROGRESS_H
#define DFS_BENCH_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define PROGRESS_LINE_MAX 512u
#define PROGRESS_COLUMNS_MIN 40u

struct progress {
    FILE *out;
    bool is_shown;      /* out is a terminal, and standard output is none */
    bool is_drawn;      /* something stands on the line */
    uint32_t columns;
};

/* What there is to say.  share: 0 .. 1 of the whole; negative = unknown (then neither bar nor time left). */
struct progress_state {
    const char *what;   /* "write" */
    double share;
    double elapsed_s;
    double requests_per_s, bytes_per_s; /* just now; negative = left out */
    uint64_t completed, failed;
};

/* out: as a rule stderr.  Shown when it is a terminal and standard output is not, unless TERM is "dumb". */
void progress_init(struct progress *p, FILE *out);

/* Draws over what is there. */
void progress_draw(struct progress *p, const struct progress_state *s);

/* Takes the line away; idempotent.  At the end, too. */
void progress_clear(struct progress *p);

/* The line alone, without control bytes, no more than columns - 1 characters; returns its length. */
size_t progress_line(const struct progress_state *s, uint32_t columns, char out[PROGRESS_LINE_MAX]);

#endif
