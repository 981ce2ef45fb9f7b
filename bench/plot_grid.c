/* The grids: bandwidth, requests and latency over processes, a line for each number of clients. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/plot_page.h"

#define MIB 1048576.0
#define SIDE_MAX (2 * RUN_GRID_SIDE_MAX) /* of all runs together; more are left out */
#define PANELS 3
#define PANEL_WIDTH 251.0
#define PANEL_INNER 48.0                 /* of its left edge for labels */
#define PANEL_HEIGHT 170.0
#define SWATCH_WIDTH 22.0
#define ROW_HEIGHT 18.0

/* All that is called the same in all runs. */
struct family {
    const char *name;
    const struct run_grid *grids[PLOT_RUNS_MAX]; /* NULL: this run has none */
    uint32_t clients[SIDE_MAX], processes[SIDE_MAX];
    uint32_t rows, cols;
};

enum figure { BANDWIDTH, REQUESTS, LATENCY };

static void add_to_side(uint32_t side[SIDE_MAX], uint32_t *n, uint32_t v)
{
    uint32_t at = 0;

    while (at < *n && side[at] < v)
        at++;
    if ((at < *n && side[at] == v) || *n == SIDE_MAX)
        return;
    memmove(side + at + 1, side + at, (*n - at) * sizeof *side);
    side[at] = v;
    (*n)++;
}

/* Its place, or -1. */
static int on_side(const uint32_t *side, uint32_t n, uint32_t v)
{
    for (uint32_t i = 0; i < n; i++)
        if (side[i] == v)
            return (int)i;
    return -1;
}

static void gather(const struct page *pg, const char *name, struct family *f)
{
    memset(f, 0, sizeof *f);
    f->name = name;
    for (uint32_t i = 0; i < pg->run_count; i++) {
        const struct run_result *r = pg->runs[i];
        for (uint32_t k = 0; k < r->grid_count && f->grids[i] == NULL; k++)
            if (strcmp(r->grids[k]->name, name) == 0)
                f->grids[i] = r->grids[k];
        const struct run_grid *g = f->grids[i];
        for (uint32_t k = 0; g != NULL && k < g->rows; k++)
            add_to_side(f->clients, &f->rows, g->clients[k]);
        for (uint32_t k = 0; g != NULL && k < g->cols; k++)
            add_to_side(f->processes, &f->cols, g->processes[k]);
    }
}

/* RUN_UNKNOWN where there is none. */
static double figure_of(const struct run_cell *c, enum figure figure)
{
    if (!c->known)
        return RUN_UNKNOWN;
    return figure == BANDWIDTH ? c->bytes_per_s : figure == REQUESTS ? c->requests_per_s : c->avg_us > 0 ? c->avg_us / 1000 :
        RUN_UNKNOWN;
}

static void range(const struct family *f, enum figure figure, double *min, double *max)
{
    *min = INFINITY;
    *max = 0;
    for (uint32_t i = 0; i < PLOT_RUNS_MAX; i++) {
        const struct run_grid *g = f->grids[i];
        for (size_t k = 0; g != NULL && k < (size_t)g->rows * g->cols; k++) {
            double v = figure_of(&g->cells[k], figure);
            if (v >= 0) {
                *min = fmin(*min, v);
                *max = fmax(*max, v);
            }
        }
    }
}

/* ---- one panel ---- */

/* Where column `col` of all stands: in the middle of its share of the width. */
static double column_px(const struct axis *x, const struct family *f, int col)
{
    return x->from_px + (x->to_px - x->from_px) * (col + 0.5) / f->cols;
}

static void put_processes(struct page *pg, const struct axis *x, const struct axis *y, const struct family *f)
{
    double last = -INFINITY;
    char text[16];

    for (uint32_t i = 0; i < f->cols; i++) {
        double px = column_px(x, f, (int)i), half;
        snprintf(text, sizeof text, "%u", f->processes[i]);
        half = svg_text_width(text, SIZE_TEXT) / 2;
        svg_line(&pg->svg, px, y->from_px, px, y->from_px + 4, COLOR_AXIS);
        if (px - half < last + 4)
            continue;
        svg_text(&pg->svg, px, y->from_px + 17, SIZE_TEXT, SVG_MIDDLE, NULL, text);
        last = px + half;
    }
    svg_text(&pg->svg, (x->from_px + x->to_px) / 2, y->from_px + 34, SIZE_TEXT, SVG_MIDDLE, COLOR_SOFT, "processes of each client");
}

static void put_row(struct page *pg, const struct axis *x, const struct axis *y, const struct family *f, uint32_t run, uint32_t row,
                    enum figure figure, double unit)
{
    const struct run_grid *g = f->grids[run];
    const char *color = plot_color((uint32_t)on_side(f->clients, f->rows, g->clients[row]));

    for (int pass = 0; pass < 2; pass++) {
        if (pass == 0)
            svg_path_begin(&pg->svg);
        for (uint32_t i = 0; i < f->cols; i++) {
            int col = on_side(g->processes, g->cols, f->processes[i]);
            double v = col >= 0 ? figure_of(&g->cells[row * g->cols + (uint32_t)col], figure) : RUN_UNKNOWN;
            if (v < 0)
                continue;
            if (pass == 0)
                svg_path_point(&pg->svg, column_px(x, f, (int)i), axis_px(y, v / unit));
            else
                svg_dot(&pg->svg, column_px(x, f, (int)i), axis_px(y, v / unit), 2.5, color);
        }
        if (pass == 0)
            svg_path_end(&pg->svg, color, 1.8, plot_dash(run));
    }
}

static void put_panel(struct page *pg, const struct family *f, enum figure figure, double left)
{
    double min, max, unit = 1;
    const char *title = "requests/s";
    struct axis x = {.from_px = left + PANEL_INNER, .to_px = left + PANEL_WIDTH - 8}, y;

    range(f, figure, &min, &max);
    if (figure == LATENCY) {
        axis_log_ms(&y, min, max);
        title = "average latency";
    } else if (figure == BANDWIDTH) {
        unit = max >= 10 * 1024 * MIB ? 1024 * MIB : max >= MIB || max <= 0 ? MIB : 1024;
        title = unit > MIB ? "GiB/s" : unit < MIB ? "KiB/s" : "MiB/s";
    }
    if (figure != LATENCY)
        axis_linear(&y, max / unit, 5);
    y.to_px = pg->y + 22;
    y.from_px = y.to_px + PANEL_HEIGHT;
    plot_frame(pg, &x, &y, "", "");
    svg_text(&pg->svg, x.from_px, pg->y + 12, SIZE_TEXT, SVG_START, COLOR_SOFT, title);
    put_processes(pg, &x, &y, f);
    for (uint32_t i = 0; i < pg->run_count; i++)
        for (uint32_t row = 0; f->grids[i] != NULL && row < f->grids[i]->rows; row++)
            if (on_side(f->clients, f->rows, f->grids[i]->clients[row]) >= 0)
                put_row(pg, &x, &y, f, i, row, figure, unit);
}

/* ---- legend ---- */

/* Side by side, on a new row when there is no room. */
static void put_entry(struct page *pg, double *x, const char *color, const char *dash, const char *text)
{
    double width = fmin(svg_text_width(text, SIZE_TEXT), PAGE_RIGHT - PAGE_LEFT - SWATCH_WIDTH - 6);

    if (*x > PAGE_LEFT && *x + SWATCH_WIDTH + 6 + width > PAGE_RIGHT) {
        *x = PAGE_LEFT;
        pg->y += ROW_HEIGHT;
    }
    svg_path_begin(&pg->svg);
    svg_path_point(&pg->svg, *x, pg->y + 8);
    svg_path_point(&pg->svg, *x + SWATCH_WIDTH, pg->y + 8);
    svg_path_end(&pg->svg, color, 2.2, dash);
    svg_text_cut(&pg->svg, *x + SWATCH_WIDTH + 6, pg->y + 12, SIZE_TEXT, SVG_START, NULL, width + 1, text);
    *x += SWATCH_WIDTH + 6 + width + 18;
}

static void put_legend(struct page *pg, const struct family *f)
{
    double x = PAGE_LEFT;
    char text[32];

    for (uint32_t i = 0; i < f->rows; i++) {
        snprintf(text, sizeof text, "%u client%s", f->clients[i], f->clients[i] == 1 ? "" : "s");
        put_entry(pg, &x, plot_color(i), "", text);
    }
    pg->y += ROW_HEIGHT;
    if (pg->run_count == 1)
        return;
    x = PAGE_LEFT;
    for (uint32_t i = 0; i < pg->run_count; i++)
        if (f->grids[i] != NULL)
            put_entry(pg, &x, COLOR_TEXT, plot_dash(i), run_result_title(pg->runs[i]));
    pg->y += ROW_HEIGHT;
}

static void put_family(struct page *pg, const struct family *f)
{
    pg->y += 26;
    svg_text_cut(&pg->svg, PAGE_LEFT, pg->y, SIZE_PANEL, SVG_START, NULL, PAGE_RIGHT - PAGE_LEFT, f->name);
    pg->y += 8;
    put_legend(pg, f);
    for (int i = 0; i < PANELS; i++)
        put_panel(pg, f, (enum figure)i, PAGE_LEFT + i * PANEL_WIDTH);
    pg->y += 22 + PANEL_HEIGHT + 42;
}

/* Whether an earlier run, or an earlier grid of this one, has one of that name. */
static bool is_repeated(const struct page *pg, uint32_t run, uint32_t grid)
{
    const char *name = pg->runs[run]->grids[grid]->name;

    for (uint32_t i = 0; i <= run; i++)
        for (uint32_t k = 0; k < (i < run ? pg->runs[i]->grid_count : grid); k++)
            if (strcmp(pg->runs[i]->grids[k]->name, name) == 0)
                return true;
    return false;
}

void plot_grids(struct page *pg)
{
    struct family f;

    for (uint32_t i = 0; i < pg->run_count; i++)
        for (uint32_t k = 0; k < pg->runs[i]->grid_count; k++)
            if (!is_repeated(pg, i, k)) {
                gather(pg, pg->runs[i]->grids[k]->name, &f);
                put_family(pg, &f);
            }
}
