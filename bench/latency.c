/* Counting samples, and what the counts say. */
#include "bench/latency.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "needle/err.h"

int latency_init(struct latency *l)
{
    memset(l, 0, sizeof *l);
    l->min_ns = UINT64_MAX;
    l->buckets = calloc(LATENCY_BUCKETS, sizeof *l->buckets);
    l->fine = calloc(LATENCY_FINE_BUCKETS, sizeof *l->fine);
    if (l->buckets != NULL && l->fine != NULL)
        return 0;
    latency_release(l);
    return DFS_ENOMEM;
}

void latency_release(struct latency *l)
{
    free(l->buckets);
    free(l->longer);
    free(l->fine);
    l->buckets = l->fine = NULL;
    l->longer = NULL;
    l->longer_n = l->longer_cap = 0;
}

static int longer_reserve(struct latency *l, size_t more)
{
    if (l->longer_cap - l->longer_n >= more)
        return 0;
    size_t cap = l->longer_cap * 2 > l->longer_n + more ? l->longer_cap * 2 : l->longer_n + more + 64;
    uint32_t *p = realloc(l->longer, cap * sizeof *p);
    if (p == NULL)
        return DFS_ENOMEM;
    l->longer = p;
    l->longer_cap = cap;
    return 0;
}

/* Below 2^8 the number itself; above, the eight bits behind the leading one, in the row of that power of two. */
static size_t fine_index(uint64_t ns)
{
    if (ns >> LATENCY_FINE_TOP != 0)
        ns = (1ull << LATENCY_FINE_TOP) - 1;
    if (ns >> LATENCY_FINE_BITS == 0)
        return (size_t)ns;
    unsigned shift = 63u - (unsigned)__builtin_clzll(ns) - LATENCY_FINE_BITS;
    return ((size_t)(shift + 1) << LATENCY_FINE_BITS) + (size_t)((ns >> shift) - (1u << LATENCY_FINE_BITS));
}

/* The middle of a bucket. */
static double fine_value_ns(size_t index)
{
    size_t row = index >> LATENCY_FINE_BITS, at = index & ((1u << LATENCY_FINE_BITS) - 1);
    if (row == 0)
        return (double)at;
    return (double)((uint64_t)(at + (1u << LATENCY_FINE_BITS)) << (row - 1)) + (double)((1ull << (row - 1)) - 1) / 2;
}

void latency_add(struct latency *l, uint64_t ns)
{
    uint64_t bucket = ns / LATENCY_BUCKET_NS;

    if (bucket < LATENCY_BUCKETS)
        l->buckets[bucket]++;
    else if (longer_reserve(l, 1) == 0)
        l->longer[l->longer_n++] = bucket > UINT32_MAX ? UINT32_MAX : (uint32_t)bucket;
    else
        l->buckets[LATENCY_BUCKETS - 1]++;
    l->fine[fine_index(ns)]++;
    l->count++;
    l->sum_ns += ns;
    l->sum_squares_ns2 += (unsigned __int128)ns * ns;
    if (ns < l->min_ns)
        l->min_ns = ns;
    if (ns > l->max_ns)
        l->max_ns = ns;
}

int latency_merge(struct latency *into, const struct latency *from)
{
    int rc = longer_reserve(into, from->longer_n);
    if (rc != 0)
        return rc;
    if (from->longer_n > 0)
        memcpy(into->longer + into->longer_n, from->longer, from->longer_n * sizeof *from->longer);
    into->longer_n += from->longer_n;
    for (size_t i = 0; i < LATENCY_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
    for (size_t i = 0; i < LATENCY_FINE_BUCKETS; i++)
        into->fine[i] += from->fine[i];
    into->count += from->count;
    into->sum_ns += from->sum_ns;
    into->sum_squares_ns2 += from->sum_squares_ns2;
    if (from->min_ns < into->min_ns)
        into->min_ns = from->min_ns;
    if (from->max_ns > into->max_ns)
        into->max_ns = from->max_ns;
    return 0;
}

/* ---- coarse ---- */

static void coarse_sample(double bucket, double times, double *min, double *max, double *sum, double *squares)
{
    if (bucket < *min)
        *min = bucket;
    if (bucket > *max)
        *max = bucket;
    *sum += bucket * times;
    *squares += bucket * bucket * times;
}

struct latency_summary latency_coarse_summary(const struct latency *l)
{
    double min = INFINITY, max = 0, sum = 0, squares = 0;
    if (l->count == 0)
        return (struct latency_summary){0};
    for (size_t i = 0; i < LATENCY_BUCKETS; i++)
        if (l->buckets[i] > 0)
            coarse_sample((double)i, (double)l->buckets[i], &min, &max, &sum, &squares);
    for (size_t i = 0; i < l->longer_n; i++)
        coarse_sample(l->longer[i], 1, &min, &max, &sum, &squares);
    double n = (double)l->count, avg = sum / n;
    double variance = squares / n - avg * avg;
    return (struct latency_summary){
        .count = l->count,
        .min_ms = min / 10,
        .avg_ms = avg / 10,
        .max_ms = max / 10,
        .std_ms = variance > 0 ? sqrt(variance) / 10 : 0,
    };
}

static int longer_order(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Which sample, counted from 1 in order of size. */
static uint64_t percentile_rank(uint64_t count, double percent)
{
    uint64_t rank = (uint64_t)((long double)count * (long double)percent / 100);
    return rank == 0 ? 1 : rank > count ? count : rank;
}

double latency_coarse_percentile_ms(struct latency *l, double percent)
{
    if (l->count == 0)
        return 0;
    uint64_t rank = percentile_rank(l->count, percent), seen = 0;
    for (size_t i = 0; i < LATENCY_BUCKETS; i++) {
        seen += l->buckets[i];
        if (seen >= rank)
            return (double)i / 10;
    }
    qsort(l->longer, l->longer_n, sizeof *l->longer, longer_order);
    return (double)l->longer[rank - seen - 1] / 10;
}

/* ---- fine ---- */

struct latency_summary latency_fine_summary(const struct latency *l)
{
    if (l->count == 0)
        return (struct latency_summary){0};
    double n = (double)l->count;
    double avg_ns = (double)l->sum_ns / n;
    double variance = (double)l->sum_squares_ns2 / n - avg_ns * avg_ns;
    return (struct latency_summary){
        .count = l->count,
        .min_ms = (double)l->min_ns / 1e6,
        .avg_ms = avg_ns / 1e6,
        .max_ms = (double)l->max_ns / 1e6,
        .std_ms = variance > 0 ? sqrt(variance) / 1e6 : 0,
    };
}

double latency_fine_percentile_ms(const struct latency *l, double percent)
{
    if (l->count == 0)
        return 0;
    uint64_t rank = percentile_rank(l->count, percent), seen = 0;
    if (rank == l->count)
        return (double)l->max_ns / 1e6;
    for (size_t i = 0; i < LATENCY_FINE_BUCKETS; i++) {
        seen += l->fine[i];
        if (seen >= rank) {
            double ns = fine_value_ns(i);
            ns = ns < (double)l->min_ns ? (double)l->min_ns : ns > (double)l->max_ns ? (double)l->max_ns : ns;
            return ns / 1e6;
        }
    }
    return (double)l->max_ns / 1e6;
}
