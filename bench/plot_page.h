/* What the parts of a picture share: the page that grows downwards, the lines on it, their colours.  The plot_*.c files only. */
#ifndef DFS_BENCH_PLOT_PAGE_H
#define DFS_BENCH_PLOT_PAGE_H

#include <stdbool.h>

#include "bench/axis.h"
#include "bench/plot.h"
#include "bench/run_stats.h"
#include "bench/svg.h"

#define PAGE_WIDTH 800.0
#define PAGE_LEFT 24.0       /* of titles and legends */
#define PAGE_RIGHT 776.0
#define PLOT_LEFT 78.0       /* of what is inside the axes */
#define PLOT_HEIGHT 230.0
#define COLOR_TEXT "#222"
#define COLOR_SOFT "#666"    /* notes and column heads */
#define COLOR_GRID "#e4e4e4"
#define COLOR_AXIS "#888"
#define SIZE_TITLE 18.0
#define SIZE_PANEL 14.0
#define SIZE_TEXT 12.0

/* One phase of one run. */
struct plot_line {
    const struct run_result *run;
    const struct run_phase *phase;
    const char *color, *dash;
    struct run_stall *stalls;
    size_t stall_count;
};

struct page {
    struct svg svg;
    double y;                /* where the next part begins */
    struct run_result *const *runs;
    uint32_t run_count;
    struct plot_line lines[PLOT_LINES_MAX];
    uint32_t line_count, left_out;
    enum run_measure measure; /* of the throughput */
};

/* A colour that people with any eyes tell from the others, and a dash; both begin again after eight and five. */
const char *plot_color(uint32_t i);
const char *plot_dash(uint32_t i);

/* A number and its unit, of the measure: "412 MiB/s". */
void plot_rate_text(double rate, enum run_measure m, char out[AXIS_LABEL_MAX * 2]);

/* Frame, lines and labels of a plot whose axes know their pixels; x_title below, y_title beside it, "" = none. */
void plot_frame(struct page *pg, const struct axis *x, const struct axis *y, const char *x_title, const char *y_title);

/* The parts, each at pg->y, which it moves on; they draw nothing when there is nothing to show.  0 or DFS_ENOMEM. */
void plot_legend(struct page *pg);
int plot_throughput(struct page *pg);
void plot_latency(struct page *pg);
void plot_grids(struct page *pg);

#endif
