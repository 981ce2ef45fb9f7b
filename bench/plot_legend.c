/* The legend is a table: what each line is, and the figures that one would ask for next. */
#include <string.h>

#include "bench/plot_page.h"

#define ROW_HEIGHT 18.0
#define SWATCH_WIDTH 26.0
#define NAME_X (PAGE_LEFT + SWATCH_WIDTH + 8)
/* Right ends of the columns of figures; the phase of one of several runs has a column of its own. */
#define PHASE_X 372.0
#define PHASE_WIDTH 86.0
#define MEAN_X 548.0
#define P50_X 620.0
#define P99_X 692.0

static void put_heads(struct page *pg, bool any_stalls)
{
    static const struct {
        double x;
        const char *text;
    } heads[] = {{MEAN_X, "mean"}, {P50_X, "p50"}, {P99_X, "p99"}};

    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++)
        svg_text(&pg->svg, heads[i].x, pg->y + 12, SIZE_TEXT, SVG_END, COLOR_SOFT, heads[i].text);
    if (any_stalls)
        svg_text(&pg->svg, PAGE_RIGHT, pg->y + 12, SIZE_TEXT, SVG_END, COLOR_SOFT, "stalled");
    pg->y += ROW_HEIGHT;
}

static void put_percentile(struct page *pg, const struct plot_line *l, double x, double percent)
{
    char text[AXIS_LABEL_MAX];

    if (l->phase->latency.count == 0)
        return;
    axis_time_ms(latency_fine_percentile_ms(&l->phase->latency, percent), text);
    svg_text(&pg->svg, x, pg->y + 12, SIZE_TEXT, SVG_END, NULL, text);
}

static void put_stalled(struct page *pg, const struct plot_line *l)
{
    double stalled_s = 0;
    char text[AXIS_LABEL_MAX];

    for (size_t i = 0; i < l->stall_count; i++)
        stalled_s += l->stalls[i].to_s - l->stalls[i].from_s;
    axis_time_ms(stalled_s * 1000, text);
    svg_text(&pg->svg, PAGE_RIGHT, pg->y + 12, SIZE_TEXT, SVG_END, NULL, stalled_s > 0 ? text : "0");
}

static void put_row(struct page *pg, const struct plot_line *l, bool any_stalls)
{
    struct svg *s = &pg->svg;
    char rate[AXIS_LABEL_MAX * 2];
    double y = pg->y + 12;

    svg_path_begin(s);
    svg_path_point(s, PAGE_LEFT, y - 4);
    svg_path_point(s, PAGE_LEFT + SWATCH_WIDTH, y - 4);
    svg_path_end(s, l->color, 2.5, l->dash);
    if (pg->run_count == 1) {
        svg_text_cut(s, NAME_X, y, SIZE_TEXT, SVG_START, NULL, PHASE_X + PHASE_WIDTH - NAME_X, l->phase->name);
    } else {
        svg_text_cut(s, NAME_X, y, SIZE_TEXT, SVG_START, NULL, PHASE_X - 14 - NAME_X, run_result_title(l->run));
        svg_text_cut(s, PHASE_X, y, SIZE_TEXT, SVG_START, NULL, PHASE_WIDTH, l->phase->name);
    }
    plot_rate_text(run_phase_rate(l->phase, pg->measure), pg->measure, rate);
    svg_text(s, MEAN_X, y, SIZE_TEXT, SVG_END, NULL, rate);
    put_percentile(pg, l, P50_X, 50);
    put_percentile(pg, l, P99_X, 99);
    if (any_stalls)
        put_stalled(pg, l);
    pg->y += ROW_HEIGHT;
}

void plot_legend(struct page *pg)
{
    bool any_stalls = false;
    char text[64];

    if (pg->line_count == 0)
        return;
    for (uint32_t i = 0; i < pg->line_count; i++)
        any_stalls = any_stalls || pg->lines[i].stall_count > 0;
    pg->y += 6;
    put_heads(pg, any_stalls);
    for (uint32_t i = 0; i < pg->line_count; i++)
        put_row(pg, &pg->lines[i], any_stalls);
    if (pg->left_out > 0) {
        snprintf(text, sizeof text, "%u more phases are not shown", pg->left_out);
        svg_text(&pg->svg, NAME_X, pg->y + 12, SIZE_TEXT, SVG_START, COLOR_SOFT, text);
        pg->y += ROW_HEIGHT;
    }
}
