/* An axis of a picture: which numbers stand along it, how they read, and where on it a value lies.
 *
 * Ticks are what a person would choose: 1, 2 or 5 times a power of ten, few enough to read.  Pure; any thread. */
#ifndef DFS_BENCH_AXIS_H
#define DFS_BENCH_AXIS_H

#include <stdint.h>

#define AXIS_TICKS_MAX 24u
#define AXIS_LABEL_MAX 32u

enum axis_kind { AXIS_LINEAR, AXIS_LOG, AXIS_NINES };

struct axis {
    double low, high;        /* values at the ends; of AXIS_NINES: how many nines */
    enum axis_kind kind;
    double from_px, to_px;   /* where the ends are: set by the caller */
    double ticks[AXIS_TICKS_MAX];
    char labels[AXIS_TICKS_MAX][AXIS_LABEL_MAX];
    uint32_t tick_count;
};

/* From 0 to a tick at or above max (max 0: to 1), at most `want` steps between ticks (2 .. AXIS_TICKS_MAX - 1).  Large numbers
 * read 20k, 3M. */
void axis_linear(struct axis *a, double max, uint32_t want);

/* From 0 to max exactly, for time: the last tick may lie before the end. */
void axis_to(struct axis *a, double max, uint32_t want);

/* Latencies in ms, 0 < min <= max, on a logarithmic axis: from the tick below min to the tick above max, labels with units
 * (50 us, 1 ms, 2 s).  Whatever is not positive or finite counts as 1 ms. */
void axis_log_ms(struct axis *a, double min, double max);

/* Percentiles to the right: 50, 90, 99, 99.9 ..., as far as `samples` tell them apart (at least to 99, at most to 99.99999).
 * Values are percents; the axis is linear in the nines. */
void axis_percentile(struct axis *a, uint64_t samples);

/* The pixel of a value, for what lies beyond the ends that of the end. */
double axis_px(const struct axis *a, double value);

/* A number with at most three digits that matter and k, M or G: "950", "1.25k", "20k". */
void axis_number(double v, char out[AXIS_LABEL_MAX]);
/* A time in ms with its unit: "85 us" (with the Greek letter), "1.25 ms", "2 s". */
void axis_time_ms(double ms, char out[AXIS_LABEL_MAX]);

#endif
