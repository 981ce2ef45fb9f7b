/* Throughput second by second, stalls shaded. */
#include <math.h>

#include "bench/plot_page.h"

#define MIB 1048576.0
/* Longer series are drawn as the least and the most of each group of seconds, so that no stall gets lost. */
#define GROUPS_MAX 700u
#define DOT_PX_MIN 5.0       /* with a dot for each second where there is room for it */
#define STALL_PX_MIN 2.0
#define STALL_OPACITY 0.18

struct scale {
    struct axis x, y;
    double x_unit_s, y_unit;  /* values are divided by them */
    const char *x_title, *y_title;
    bool is_solid;            /* dashes are not needed, and a jagged line is hard to read with them */
};

static double line_end_s(const struct plot_line *l)
{
    double end_s = l->phase->start_s;

    if (l->phase->series_n == 0)
        return end_s + l->phase->seconds;
    for (size_t i = 0; i < l->phase->series_n; i++)
        end_s += l->phase->series[i].seconds;
    return end_s;
}

static double line_top(const struct plot_line *l, enum run_measure m)
{
    size_t n = run_phase_whole_seconds(l->phase);
    double top = n == 0 ? run_phase_rate(l->phase, m) : 0;

    for (size_t i = 0; i < n; i++)
        top = fmax(top, run_second_rate(&l->phase->series[i], m));
    return top;
}

static void choose_scale(const struct page *pg, struct scale *sc)
{
    double end_s = 0, top = 0;

    for (uint32_t i = 0; i < pg->line_count; i++) {
        end_s = fmax(end_s, line_end_s(&pg->lines[i]));
        top = fmax(top, line_top(&pg->lines[i], pg->measure));
    }
    sc->x_unit_s = end_s > 3 * 3600 ? 3600 : end_s > 900 ? 60 : 1;
    sc->x_title = end_s > 3 * 3600 ? "time since the start of the run (hours)" :
        end_s > 900 ? "time since the start of the run (minutes)" : "time since the start of the run (s)";
    axis_to(&sc->x, end_s / sc->x_unit_s, 10);
    if (pg->measure == RUN_REQUESTS) {
        sc->y_unit = 1;
        sc->y_title = "requests/s";
    } else {
        sc->y_unit = top >= 10 * 1024 * MIB ? 1024 * MIB : top >= MIB ? MIB : 1024;
        sc->y_title = sc->y_unit > MIB ? "GiB/s" : sc->y_unit < MIB ? "KiB/s" : "MiB/s";
    }
    axis_linear(&sc->y, top / sc->y_unit, 6);
}

static double x_px(const struct scale *sc, double at_s)
{
    return axis_px(&sc->x, at_s / sc->x_unit_s);
}

static double y_px(const struct scale *sc, double rate)
{
    return axis_px(&sc->y, rate / sc->y_unit);
}

/* Stalls that share a pixel are one rectangle: many pale ones on top of one another would be a dark one. */
static void put_stalls(struct page *pg, const struct scale *sc, const struct plot_line *l)
{
    double height = sc->y.from_px - sc->y.to_px;

    for (size_t i = 0; i < l->stall_count;) {
        double from = x_px(sc, l->phase->start_s + l->stalls[i].from_s), to = from;
        while (i < l->stall_count && x_px(sc, l->phase->start_s + l->stalls[i].from_s) <= to) {
            to = fmax(fmax(to, from + STALL_PX_MIN), x_px(sc, l->phase->start_s + l->stalls[i].to_s));
            i++;
        }
        svg_rect(&pg->svg, from, sc->y.to_px, fmin(to, sc->x.to_px) - from, height, l->color, STALL_OPACITY);
    }
}

/* The seconds [from, to) as one place: its middle, and the least and the most in it, which of the two came first. */
struct group {
    double middle_s, end_s;
    double first, second;
    size_t members;
};

static void take_group(const struct run_phase *p, enum run_measure m, size_t from, size_t to, double start_s, struct group *g)
{
    size_t least = from, most = from;

    g->end_s = start_s;
    for (size_t i = from; i < to; i++) {
        if (run_second_rate(&p->series[i], m) < run_second_rate(&p->series[least], m))
            least = i;
        if (run_second_rate(&p->series[i], m) > run_second_rate(&p->series[most], m))
            most = i;
        g->end_s += p->series[i].seconds;
    }
    g->middle_s = (start_s + g->end_s) / 2;
    g->first = run_second_rate(&p->series[least < most ? least : most], m);
    g->second = run_second_rate(&p->series[least < most ? most : least], m);
    g->members = to - from;
}

/* A phase without whole seconds is its mean, from start to end. */
static void put_mean(struct page *pg, const struct scale *sc, const struct plot_line *l)
{
    double y = y_px(sc, run_phase_rate(l->phase, pg->measure));

    svg_path_begin(&pg->svg);
    svg_path_point(&pg->svg, x_px(sc, l->phase->start_s), y);
    svg_path_point(&pg->svg, x_px(sc, line_end_s(l)), y);
    svg_path_end(&pg->svg, l->color, 1.6, l->dash);
}

static void put_dots(struct page *pg, const struct scale *sc, const struct plot_line *l, size_t n)
{
    double at_s = l->phase->start_s, second_px = x_px(sc, 1) - x_px(sc, 0);

    for (size_t i = 0; i < n && second_px >= DOT_PX_MIN; i++) {
        const struct run_second *s = &l->phase->series[i];
        svg_dot(&pg->svg, x_px(sc, at_s + s->seconds / 2), y_px(sc, run_second_rate(s, pg->measure)), second_px < 12 ? 1.8 : 2.5,
                l->color);
        at_s += s->seconds;
    }
}

static void put_line(struct page *pg, const struct scale *sc, const struct plot_line *l)
{
    const struct run_phase *p = l->phase;
    size_t n = run_phase_whole_seconds(p), size = (n + GROUPS_MAX - 1) / GROUPS_MAX;
    double at_s = p->start_s;

    if (n == 0) {
        put_mean(pg, sc, l);
        return;
    }
    svg_path_begin(&pg->svg);
    for (size_t i = 0; i < n; i += size) {
        struct group g;
        take_group(p, pg->measure, i, i + size < n ? i + size : n, at_s, &g);
        svg_path_point(&pg->svg, x_px(sc, g.middle_s), y_px(sc, g.first));
        if (g.members > 1)
            svg_path_point(&pg->svg, x_px(sc, g.middle_s), y_px(sc, g.second));
        at_s = g.end_s;
    }
    svg_path_end(&pg->svg, l->color, size > 1 ? 0.6 : n > 200 ? 1.1 : 1.6, sc->is_solid ? "" : l->dash);
    put_dots(pg, sc, l, n);
}

/* Whether two phases of a run lie side by side: then only dashes tell them apart. */
static bool any_at_once(const struct page *pg)
{
    for (uint32_t i = 1; i < pg->line_count; i++)
        if (pg->lines[i].run == pg->lines[i - 1].run && pg->lines[i].phase->start_s < line_end_s(&pg->lines[i - 1]))
            return true;
    return false;
}

int plot_throughput(struct page *pg)
{
    struct scale sc;
    bool any_stalls = false;

    if (pg->line_count == 0)
        return 0;
    choose_scale(pg, &sc);
    sc.is_solid = !any_at_once(pg);
    pg->y += 26;
    svg_text(&pg->svg, PAGE_LEFT, pg->y, SIZE_PANEL, SVG_START, NULL, "Throughput");
    for (uint32_t i = 0; i < pg->line_count; i++)
        any_stalls = any_stalls || pg->lines[i].stall_count > 0;
    if (any_stalls)
        svg_text(&pg->svg, PAGE_RIGHT, pg->y, SIZE_TEXT, SVG_END, COLOR_SOFT,
                 "shaded: stalled, seconds at or below 10 % of the median");
    sc.x.from_px = PLOT_LEFT;
    sc.x.to_px = PAGE_RIGHT;
    sc.y.to_px = pg->y + 14;
    sc.y.from_px = sc.y.to_px + PLOT_HEIGHT;
    plot_frame(pg, &sc.x, &sc.y, sc.x_title, sc.y_title);
    for (uint32_t i = 0; i < pg->line_count; i++)
        put_stalls(pg, &sc, &pg->lines[i]);
    for (uint32_t i = 0; i < pg->line_count; i++)
        put_line(pg, &sc, &pg->lines[i]);
    pg->y = sc.y.from_px + 42;
    return 0;
}
