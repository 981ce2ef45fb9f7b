/* Mean, deviation, least and greatest of a row of numbers: the figures of the seconds in a report.  Pure; any thread. */
#ifndef DFS_BENCH_SPREAD_H
#define DFS_BENCH_SPREAD_H

#include <stdint.h>

/* Zeroed: no numbers yet. */
struct spread {
    uint64_t n;
    double mean, squares; /* squares: sum of the squared distances to the mean */
    double min, max;
};

/* One more. */
void spread_add(struct spread *s, double v);

/* Of the sample (n - 1); 0 below two numbers. */
double spread_std(const struct spread *s);

#endif
