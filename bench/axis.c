/* Ticks and labels. */
#include "bench/axis.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "needle/check.h"

#define NINES_MIN 2.0
#define NINES_MAX 7.0

/* ---- numbers as text ---- */

/* Three digits that matter, without zeros at the end. */
static void short_number(double v, char out[AXIS_LABEL_MAX])
{
    int decimals = v >= 99.95 ? 0 : v >= 9.995 ? 1 : v >= 0.9995 ? 2 : 3;

    snprintf(out, AXIS_LABEL_MAX, "%.*f", decimals, v);
    if (strchr(out, '.') == NULL)
        return;
    for (size_t n = strlen(out); out[n - 1] == '0' || out[n - 1] == '.'; n--) {
        bool is_point = out[n - 1] == '.';
        out[n - 1] = '\0';
        if (is_point)
            break;
    }
}

void axis_number(double v, char out[AXIS_LABEL_MAX])
{
    static const struct {
        double from;
        double unit;
        const char *suffix;
    } scales[] = {{9.995e11, 1e12, "T"}, {9.995e8, 1e9, "G"}, {9.995e5, 1e6, "M"}, {999.5, 1e3, "k"}};
    char text[AXIS_LABEL_MAX];

    for (size_t i = 0; i < ARRAY_LEN(scales); i++) {
        if (v >= scales[i].from) {
            short_number(v / scales[i].unit, text);
            snprintf(out, AXIS_LABEL_MAX, "%.24s%s", text, scales[i].suffix);
            return;
        }
    }
    short_number(v, out);
}

void axis_time_ms(double ms, char out[AXIS_LABEL_MAX])
{
    char text[AXIS_LABEL_MAX];
    double v = ms < 0.9995 ? ms * 1000 : ms < 999.5 ? ms : ms / 1000;

    short_number(v, text);
    snprintf(out, AXIS_LABEL_MAX, "%.24s %s", text, ms < 0.9995 ? "\xc2\xb5s" : ms < 999.5 ? "ms" : "s");
}

/* ---- linear ---- */

/* The smallest of 1, 2, 5 times a power of ten that takes no more than `want` steps to max. */
static double nice_step(double max, uint32_t want)
{
    double rough = max / want, power = pow(10, floor(log10(rough)));

    for (int i = 0; i < 4; i++) {
        double step = power * (double[]){1, 2, 5, 10}[i];
        if (step * want >= max * (1 - 1e-9))
            return step;
    }
    return power * 20;
}

/* All labels of an axis in the same unit with the same decimals. */
static void label_linear(struct axis *a, double step)
{
    double top = a->ticks[a->tick_count - 1];
    double unit = top >= 1e12 ? 1e12 : top >= 1e9 ? 1e9 : top >= 1e6 ? 1e6 : top >= 1e4 ? 1e3 : 1;
    const char *suffix = unit >= 1e12 ? "T" : unit >= 1e9 ? "G" : unit >= 1e6 ? "M" : unit >= 1e3 ? "k" : "";
    int decimals = (int)ceil(-log10(step / unit) - 1e-9);

    if (decimals < 0)
        decimals = 0;
    if (decimals > 9)
        decimals = 9;
    for (uint32_t i = 0; i < a->tick_count; i++) {
        if (i == 0)
            snprintf(a->labels[i], AXIS_LABEL_MAX, "0");
        else
            snprintf(a->labels[i], AXIS_LABEL_MAX, "%.*f%s", decimals, a->ticks[i] / unit, suffix);
    }
}

static double linear_ticks(struct axis *a, double max, uint32_t want)
{
    double step;

    CHECK(want >= 2 && want < AXIS_TICKS_MAX);
    memset(a, 0, sizeof *a);
    if (!(max > 0) || !isfinite(max))
        max = 1;
    step = nice_step(max, want);
    for (uint32_t i = 0; i <= want && i * step <= max * (1 + 1e-9); i++)
        a->ticks[a->tick_count++] = i * step;
    a->high = max;
    return step;
}

void axis_linear(struct axis *a, double max, uint32_t want)
{
    double step = linear_ticks(a, max, want);

    if (a->ticks[a->tick_count - 1] < a->high * (1 - 1e-9)) {
        a->ticks[a->tick_count] = a->tick_count * step;
        a->tick_count++;
    }
    a->high = a->ticks[a->tick_count - 1];
    label_linear(a, step);
}

void axis_to(struct axis *a, double max, uint32_t want)
{
    double step = linear_ticks(a, max, want);

    label_linear(a, step);
}

/* ---- logarithmic ---- */

static double usable_ms(double ms)
{
    return ms > 0 && isfinite(ms) ? fmin(fmax(ms, 1e-6), 1e12) : 1;
}

/* The digits in front of the power of ten that get a tick, fewer the more decades there are. */
static const char *digits_for(double decades)
{
    return decades < 1.05 ? "123457" : decades < 3.05 ? "125" : decades < 5.05 ? "13" : "1";
}

void axis_log_ms(struct axis *a, double min, double max)
{
    double lo = usable_ms(min), hi = fmax(usable_ms(max), lo);
    const char *digits = digits_for(log10(hi / lo));
    int first = (int)floor(log10(lo)) - 1, last = (int)ceil(log10(hi)) + 1;

    memset(a, 0, sizeof *a);
    a->kind = AXIS_LOG;
    /* The last tick at or below lo is the first one; the first at or above hi is the last. */
    for (int power = first; power <= last; power++) {
        for (const char *d = digits; *d != '\0'; d++) {
            double tick = (*d - '0') * pow(10, power);
            if (tick <= lo * (1 + 1e-9))
                a->tick_count = 0;
            else if (a->tick_count > 0 && a->ticks[a->tick_count - 1] >= hi * (1 - 1e-9))
                break;
            if (a->tick_count < AXIS_TICKS_MAX)
                a->ticks[a->tick_count++] = tick;
        }
    }
    if (a->tick_count == 1)
        a->ticks[a->tick_count++] = a->ticks[0] * 2;
    a->low = a->ticks[0];
    a->high = a->ticks[a->tick_count - 1];
    for (uint32_t i = 0; i < a->tick_count; i++)
        axis_time_ms(a->ticks[i], a->labels[i]);
}

static double nines(double percent)
{
    double rest = 1 - percent / 100;

    return rest <= 1e-12 ? 12 : -log10(rest);
}

void axis_percentile(struct axis *a, uint64_t samples)
{
    double most = samples > 0 ? log10((double)samples) : 0;

    memset(a, 0, sizeof *a);
    a->kind = AXIS_NINES;
    a->high = fmin(fmax(most, NINES_MIN), NINES_MAX);
    a->ticks[0] = 50;
    a->tick_count = 1;
    for (int n = 1; n <= (int)floor(a->high + 1e-9); n++)
        a->ticks[a->tick_count++] = 100 - pow(10, 2 - n);
    for (uint32_t i = 0; i < a->tick_count; i++)
        snprintf(a->labels[i], AXIS_LABEL_MAX, "%.*f", i > 2 ? (int)i - 2 : 0, a->ticks[i]);
}

/* ---- places ---- */

static double at_share(const struct axis *a, double share)
{
    share = share > 0 ? fmin(share, 1) : 0;
    return a->from_px + share * (a->to_px - a->from_px);
}

double axis_px(const struct axis *a, double value)
{
    switch (a->kind) {
    case AXIS_LINEAR:
        return at_share(a, (value - a->low) / (a->high - a->low));
    case AXIS_LOG:
        return at_share(a, value > 0 ? log(value / a->low) / log(a->high / a->low) : 0);
    case AXIS_NINES:
        return at_share(a, nines(value) / a->high);
    }
    return a->from_px;
}
