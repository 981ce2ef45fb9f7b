/* Medians, thirds and stalls of a series. */
#include "bench/run_stats.h"

#include <stdlib.h>

#include "needle/err.h"

#define WHOLE_SECOND_S 0.5

double run_second_rate(const struct run_second *s, enum run_measure m)
{
    return s->seconds > 0 ? (double)(m == RUN_BYTES ? s->bytes : s->completed) / s->seconds : 0;
}

double run_phase_rate(const struct run_phase *p, enum run_measure m)
{
    return p->seconds > 0 ? (double)(m == RUN_BYTES ? p->bytes : p->completed) / p->seconds : 0;
}

size_t run_phase_whole_seconds(const struct run_phase *p)
{
    return p->series_n > 0 && p->series[p->series_n - 1].seconds < WHOLE_SECOND_S ? p->series_n - 1 : p->series_n;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The upper one of two in the middle: with half of the seconds at zero the phase still has a rate. */
static int median_rate(const struct run_phase *p, enum run_measure m, size_t n, double *out)
{
    double *rates = malloc(n * sizeof *rates);

    if (rates == NULL)
        return DFS_ENOMEM;
    for (size_t i = 0; i < n; i++)
        rates[i] = run_second_rate(&p->series[i], m);
    qsort(rates, n, sizeof *rates, by_value);
    *out = rates[n / 2];
    free(rates);
    return 0;
}

/* Rate over the seconds [from, to) together. */
static double mean_rate(const struct run_phase *p, enum run_measure m, size_t from, size_t to)
{
    struct run_second sum = {0};

    for (size_t i = from; i < to; i++) {
        sum.seconds += p->series[i].seconds;
        sum.completed += p->series[i].completed;
        sum.bytes += p->series[i].bytes;
    }
    return run_second_rate(&sum, m);
}

int run_phase_steadiness(const struct run_phase *p, enum run_measure m, struct run_steadiness *out)
{
    size_t n = run_phase_whole_seconds(p), third = n / 3;
    double first;
    int rc;

    *out = (struct run_steadiness){.median = RUN_UNKNOWN, .worst = RUN_UNKNOWN, .last_to_first = RUN_UNKNOWN};
    if (n == 0)
        return 0;
    rc = median_rate(p, m, n, &out->median);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < n; i++) {
        double rate = run_second_rate(&p->series[i], m);
        if (i == 0 || rate < out->worst)
            out->worst = rate;
        out->seconds_at_zero += rate <= 0;
    }
    first = mean_rate(p, m, 0, third);
    if (third > 0 && first > 0)
        out->last_to_first = mean_rate(p, m, n - third, n) / first;
    return 0;
}

int run_phase_stalls(const struct run_phase *p, enum run_measure m, struct run_stall **out, size_t *count)
{
    size_t n = run_phase_whole_seconds(p), found = 0;
    struct run_stall *stalls = malloc((n > 0 ? n : 1) * sizeof *stalls);
    double at_s = 0, median = 0;
    bool in_stall = false;

    if (stalls == NULL)
        return DFS_ENOMEM;
    if (n > 0 && median_rate(p, m, n, &median) != 0) {
        free(stalls);
        return DFS_ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        const struct run_second *s = &p->series[i];
        bool stalled = run_second_rate(s, m) <= RUN_STALL_SHARE * median;
        if (stalled && !in_stall)
            stalls[found++].from_s = at_s;
        at_s += s->seconds;
        if (stalled)
            stalls[found - 1].to_s = at_s;
        in_stall = stalled;
    }
    *out = stalls;
    *count = found;
    return 0;
}
