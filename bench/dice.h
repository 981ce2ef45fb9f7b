/* Choices of a run: the same for the same seed, whatever the machine.  Not for secrets (that is net/rand.h).  One thread at a
 * time for each struct. */
#ifndef DFS_BENCH_DICE_H
#define DFS_BENCH_DICE_H

#include <stddef.h>
#include <stdint.h>

struct dice {
    uint64_t state; /* the seed, to begin with */
};

/* Any of 2^64. */
uint64_t dice_u64(struct dice *d);
/* In [0, 1). */
double dice_unit(struct dice *d);

/* A rank of 1..n, rank k with a probability in proportion to k^-s; s >= 0 (0: all alike), n >= 1.  n may change from call to
 * call: nothing is prepared. */
uint64_t dice_zipf(struct dice *d, uint64_t n, double s);

/* Sizes of objects: log-normal, or from a table. */
#define SIZES_ROWS_MAX 65536u
#define SIZES_LINES_MAX 1000000u /* comments and empty ones too: a device may never end */
#define SIZES_ERROR_MAX 512u
#define SIZES_SIGMAS 4.0 /* sizes farther from the median than that many deviations are taken for that */

struct sizes {
    uint64_t median_bytes;
    double sigma;
    uint64_t max_bytes; /* no size is larger */
    size_t row_count;   /* 0: log-normal */
    uint64_t *rows;     /* bytes */
    double *sums;       /* of the weights up to the row */
};

/* sigma 0: all of the median.  max_bytes bounds all. */
void sizes_init(struct sizes *s, uint64_t median_bytes, double sigma, uint64_t max_bytes);
/* Lines "BYTES WEIGHT"; blank ones and those that begin with '#' are skipped.  0, or a code with one line in error: no file, a
 * line that is none, a size above max_bytes, no weight at all. */
int sizes_read(struct sizes *s, const char *path, uint64_t max_bytes, char error[SIZES_ERROR_MAX]);
/* Idempotent. */
void sizes_release(struct sizes *s);
/* At least 1. */
uint64_t sizes_next(const struct sizes *s, struct dice *d);

#endif
