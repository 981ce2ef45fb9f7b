/* Latency against percentile, linear in the nines: what a mean hides is on the right. */
#include <math.h>

#include "bench/plot_page.h"

#define STEPS 240
/* A few very fast requests would take up half of the axis. */
#define LEAST_PERCENT 1.0

static void choose_axes(const struct page *pg, struct axis *x, struct axis *y)
{
    double min = INFINITY, max = 0;
    uint64_t samples = 0;

    for (uint32_t i = 0; i < pg->line_count; i++) {
        const struct latency *l = &pg->lines[i].phase->latency;
        if (l->count == 0)
            continue;
        samples = l->count > samples ? l->count : samples;
        min = fmin(min, latency_fine_percentile_ms(l, LEAST_PERCENT));
        max = fmax(max, (double)l->max_ns / 1e6);
    }
    axis_percentile(x, samples);
    axis_log_ms(y, min, max);
}

/* Up to its own last sample, which gets a dot. */
static void put_line(struct page *pg, const struct axis *x, const struct axis *y, const struct plot_line *line)
{
    const struct latency *l = &line->phase->latency;
    double end = fmin(log10((double)l->count), x->high), max_ms = (double)l->max_ns / 1e6;

    svg_path_begin(&pg->svg);
    for (int i = 0; i <= STEPS; i++) {
        double percent = 100 - 100 * pow(10, -end * i / STEPS);
        double ms = latency_fine_percentile_ms(l, fmax(percent, LEAST_PERCENT));
        svg_path_point(&pg->svg, axis_px(x, percent), axis_px(y, ms));
    }
    svg_path_point(&pg->svg, axis_px(x, 100 - 100 * pow(10, -end)), axis_px(y, max_ms));
    svg_path_end(&pg->svg, line->color, 1.8, line->dash);
    svg_dot(&pg->svg, axis_px(x, 100 - 100 * pow(10, -end)), axis_px(y, max_ms), 3, line->color);
}

void plot_latency(struct page *pg)
{
    struct axis x, y;
    bool any = false;

    for (uint32_t i = 0; i < pg->line_count; i++)
        any = any || pg->lines[i].phase->latency.count > 0;
    if (!any)
        return;
    choose_axes(pg, &x, &y);
    pg->y += 26;
    svg_text(&pg->svg, PAGE_LEFT, pg->y, SIZE_PANEL, SVG_START, NULL, "Latency");
    svg_text(&pg->svg, PAGE_RIGHT, pg->y, SIZE_TEXT, SVG_END, COLOR_SOFT, "dot: the slowest request");
    x.from_px = PLOT_LEFT;
    x.to_px = PAGE_RIGHT;
    y.to_px = pg->y + 14;
    y.from_px = y.to_px + PLOT_HEIGHT;
    plot_frame(pg, &x, &y, "percentile of requests (%)", "latency");
    for (uint32_t i = 0; i < pg->line_count; i++)
        if (pg->lines[i].phase->latency.count > 0)
            put_line(pg, &x, &y, &pg->lines[i]);
    pg->y = y.from_px + 42;
}
