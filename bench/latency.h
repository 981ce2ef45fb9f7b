/* How long requests took.
 *
 * Two histograms of the same samples.  The coarse one is the field's: integer buckets of 0.1 ms, from whose numbers alone
 * minimum, average, maximum, deviation (of the population) and percentiles are reckoned, so reports compare with those of
 * `weed benchmark`.  The fine one keeps every sample within 1/256 and exact sums, for reports with three decimals.
 *
 * One writer, its worker's thread; merged and read after the workers have ended. */
#ifndef DFS_BENCH_LATENCY_H
#define DFS_BENCH_LATENCY_H

#include <stddef.h>
#include <stdint.h>

#define LATENCY_BUCKET_NS 100000u
#define LATENCY_BUCKETS 10000u /* one second; longer samples are kept one by one */
/* Fine buckets: below 2^8 ns exactly, then 256 for each power of two up to 2^44 ns (almost five hours; longer ones count as
 * that). */
#define LATENCY_FINE_BITS 8u
#define LATENCY_FINE_TOP 44u
#define LATENCY_FINE_BUCKETS ((LATENCY_FINE_TOP - LATENCY_FINE_BITS + 1u) << LATENCY_FINE_BITS)

struct latency {
    uint64_t count;
    uint64_t *buckets; /* LATENCY_BUCKETS */
    uint32_t *longer;  /* bucket numbers from LATENCY_BUCKETS on, in order of arrival */
    size_t longer_n, longer_cap;
    uint64_t *fine;
    uint64_t min_ns, max_ns;
    unsigned __int128 sum_ns, sum_squares_ns2;
};

/* The figures of a report, in ms. */
struct latency_summary {
    uint64_t count;
    double min_ms, avg_ms, max_ms, std_ms;
};

/* 0 or DFS_ENOMEM. */
int latency_init(struct latency *l);
void latency_release(struct latency *l);

/* Never fails: when a sample beyond a second finds no memory it counts in the last bucket. */
void latency_add(struct latency *l, uint64_t ns);

/* Adds the samples of `from`.  0 or DFS_ENOMEM (then `into` is as it was). */
int latency_merge(struct latency *into, const struct latency *from);

/* From the coarse buckets.  All zero without samples. */
struct latency_summary latency_coarse_summary(const struct latency *l);
struct latency_summary latency_fine_summary(const struct latency *l);

/* The time that `percent` (0 < percent <= 100) of the samples did not pass: that of sample number floor(count * percent / 100),
 * at least the first, in ms.  Sorts what is beyond a second. */
double latency_coarse_percentile_ms(struct latency *l, double percent);
double latency_fine_percentile_ms(const struct latency *l, double percent);

#endif
