/* Evenly spaced arrivals. */
#include "bench/arrivals.h"

#include <math.h>

void arrivals_init(struct arrivals *a, uint64_t start_ns, double rate, double seconds)
{
    a->start_ns = start_ns;
    a->end_ns = seconds > 0 ? start_ns + (uint64_t)(seconds * 1e9) : UINT64_MAX;
    a->next = 0;
    a->interval_ns = 1e9 / rate;
}

/* Reckoned from the number each time: a sum of intervals would drift. */
static uint64_t due_of(const struct arrivals *a, uint64_t number)
{
    return a->start_ns + (uint64_t)((double)number * a->interval_ns);
}

bool arrivals_take(struct arrivals *a, uint64_t *due_ns)
{
    uint64_t due = due_of(a, a->next);
    if (due >= a->end_ns)
        return false;
    a->next++;
    *due_ns = due;
    return true;
}

uint64_t arrivals_missed(const struct arrivals *a, uint64_t now_ns)
{
    uint64_t until = now_ns < a->end_ns ? now_ns : a->end_ns;
    if (until <= a->start_ns)
        return 0;
    /* Numbers with due_of() < until. */
    uint64_t n = (uint64_t)ceil((double)(until - a->start_ns) / a->interval_ns);
    while (n > 0 && due_of(a, n - 1) >= until)
        n--;
    while (due_of(a, n) < until)
        n++;
    return n > a->next ? n - a->next : 0;
}
