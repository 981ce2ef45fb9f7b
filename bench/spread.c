/* One pass that loses nothing to large means. */
#include "bench/spread.h"

#include <math.h>

void spread_add(struct spread *s, double v)
{
    double distance = v - s->mean;
    s->n++;
    s->mean += distance / (double)s->n;
    s->squares += distance * (v - s->mean);
    s->min = s->n == 1 || v < s->min ? v : s->min;
    s->max = s->n == 1 || v > s->max ? v : s->max;
}

double spread_std(const struct spread *s)
{
    return s->n > 1 && s->squares > 0 ? sqrt(s->squares / (double)(s->n - 1)) : 0;
}
