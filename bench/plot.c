/* The page: title, legend, then the parts from top to bottom. */
#include "bench/plot.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/plot_page.h"
#include "needle/check.h"
#include "needle/err.h"

#define MIB 1048576.0
/* From requests of this size on, bytes say more than requests. */
#define LARGE_REQUEST_BYTES 65536.0

void plot_options_init(struct plot_options *o)
{
    *o = (struct plot_options){.svg = "", .png = "", .csv = ""};
}

const char *plot_color(uint32_t i)
{
    static const char *const colors[] = {"#0072b2", "#d55e00", "#009e73", "#b0479a", "#e69f00", "#56b4e9", "#222222", "#8a6d3b"};

    return colors[i % ARRAY_LEN(colors)];
}

const char *plot_dash(uint32_t i)
{
    static const char *const dashes[] = {"", "7 3", "2 2", "9 3 2 3", "4 4"};

    return dashes[i % ARRAY_LEN(dashes)];
}

void plot_rate_text(double rate, enum run_measure m, char out[AXIS_LABEL_MAX * 2])
{
    char number[AXIS_LABEL_MAX];
    double unit = m == RUN_REQUESTS ? 1 : rate >= 10 * 1024 * MIB ? 1024 * MIB : rate >= MIB || rate <= 0 ? MIB : 1024;

    if (m == RUN_BYTES && rate / unit >= 999.5 && rate / unit < 1e6)
        snprintf(number, sizeof number, "%.0f", rate / unit); /* "1040 MiB/s", not "1.04k MiB/s" */
    else
        axis_number(rate / unit, number);
    snprintf(out, AXIS_LABEL_MAX * 2, "%s%s", number,
             m == RUN_REQUESTS ? "/s" : unit > MIB ? " GiB/s" : unit < MIB ? " KiB/s" : " MiB/s");
}

/* ---- frame ---- */

static void frame_x(struct page *pg, const struct axis *x, const struct axis *y, const char *title)
{
    struct svg *s = &pg->svg;

    for (uint32_t i = 0; i < x->tick_count; i++) {
        double px = axis_px(x, x->ticks[i]);
        svg_line(s, px, y->from_px, px, y->to_px, COLOR_GRID);
        svg_line(s, px, y->from_px, px, y->from_px + 4, COLOR_AXIS);
        svg_text(s, px, y->from_px + 17, SIZE_TEXT, SVG_MIDDLE, NULL, x->labels[i]);
    }
    if (title[0] != '\0')
        svg_text(s, (x->from_px + x->to_px) / 2, y->from_px + 35, SIZE_TEXT, SVG_MIDDLE, COLOR_SOFT, title);
}

void plot_frame(struct page *pg, const struct axis *x, const struct axis *y, const char *x_title, const char *y_title)
{
    struct svg *s = &pg->svg;

    frame_x(pg, x, y, x_title);
    for (uint32_t i = 0; i < y->tick_count; i++) {
        double px = axis_px(y, y->ticks[i]);
        svg_line(s, x->from_px, px, x->to_px, px, COLOR_GRID);
        svg_text(s, x->from_px - 6, px + 4, SIZE_TEXT, SVG_END, NULL, y->labels[i]);
    }
    svg_line(s, x->from_px, y->from_px, x->to_px, y->from_px, COLOR_AXIS);
    svg_line(s, x->from_px, y->from_px, x->from_px, y->to_px, COLOR_AXIS);
    if (y_title[0] != '\0')
        svg_text_upwards(s, PAGE_LEFT - 7, (y->from_px + y->to_px) / 2, SIZE_TEXT, y_title);
}

/* ---- title ---- */

static void size_text(uint64_t bytes, char *out, size_t cap)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    double v = (double)bytes;
    int unit = 0;
    char number[AXIS_LABEL_MAX];

    while (v >= 1024 && unit < 3) {
        v /= 1024;
        unit++;
    }
    axis_number(v, number);
    snprintf(out, cap, "%s %s", number, units[unit]);
}

/* " · " between two. */
static void add_note(char *out, size_t cap, const char *text)
{
    size_t n = strlen(out);

    if (text[0] != '\0')
        snprintf(out + n, cap - n, "%s%s", n > 0 ? " \xc2\xb7 " : "", text);
}

/* What a reader of a single run must know to believe it. */
static void describe(const struct run_meta *m, char *out, size_t cap)
{
    char text[RUN_TEXT_MAX + 64], size[64];
    time_t at = (time_t)m->started_unix_s;
    struct tm tm;

    out[0] = '\0';
    if (m->label[0] != '\0')
        add_note(out, cap, m->mode);
    if (m->object_bytes > 0) {
        size_text(m->object_bytes, size, sizeof size);
        snprintf(text, sizeof text, "%s objects", size);
        add_note(out, cap, text);
    }
    if (m->request_bytes > 0 && m->request_bytes != m->object_bytes) {
        size_text(m->request_bytes, size, sizeof size);
        snprintf(text, sizeof text, "%s requests", size);
        add_note(out, cap, text);
    }
    if (m->concurrency > 0) {
        snprintf(text, sizeof text, "%u at once", m->concurrency);
        add_note(out, cap, text);
    }
    if (m->rate > 0) {
        snprintf(text, sizeof text, "%.6g requests/s asked for", m->rate);
        add_note(out, cap, text);
    }
    if (m->durability[0] != '\0') {
        snprintf(text, sizeof text, "durability %.80s", m->durability);
        add_note(out, cap, text);
    }
    if (m->started_unix_s > 0 && gmtime_r(&at, &tm) != NULL && strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &tm) > 0)
        add_note(out, cap, text);
    if (m->host[0] != '\0') {
        snprintf(text, sizeof text, "%.60s", m->host);
        add_note(out, cap, text);
    }
}

static void put_title(struct page *pg)
{
    char title[RUN_TEXT_MAX], note[RUN_TEXT_MAX * 4];

    if (pg->run_count == 1) {
        snprintf(title, sizeof title, "%s", run_result_title(pg->runs[0]));
        describe(&pg->runs[0]->meta, note, sizeof note);
    } else {
        snprintf(title, sizeof title, "%u runs of dfs benchmark", pg->run_count);
        note[0] = '\0';
    }
    svg_add(&pg->svg, "<g font-weight=\"bold\">");
    svg_text_cut(&pg->svg, PAGE_LEFT, 32, SIZE_TITLE, SVG_START, NULL, (PAGE_RIGHT - PAGE_LEFT) / 1.06, title);
    svg_add(&pg->svg, "</g>\n");
    pg->y = 40;
    if (note[0] != '\0') {
        svg_text_cut(&pg->svg, PAGE_LEFT, 52, SIZE_TEXT, SVG_START, COLOR_SOFT, PAGE_RIGHT - PAGE_LEFT, note);
        pg->y = 60;
    }
}

/* ---- lines ---- */

static bool has_something(const struct run_phase *p)
{
    return p->completed + p->failed > 0 || p->series_n > 0;
}

/* One run: a colour for each phase.  Several: a colour for each run, a dash for each of its phases. */
static void collect_lines(struct page *pg)
{
    for (uint32_t i = 0; i < pg->run_count; i++) {
        const struct run_result *r = pg->runs[i];
        for (uint32_t k = 0, shown = 0; k < r->phase_count; k++) {
            if (!has_something(r->phases[k]))
                continue;
            if (pg->line_count == PLOT_LINES_MAX) {
                pg->left_out++;
                continue;
            }
            pg->lines[pg->line_count++] = (struct plot_line){
                .run = r,
                .phase = r->phases[k],
                .color = plot_color(pg->run_count == 1 ? shown : i),
                .dash = plot_dash(pg->run_count == 1 ? shown / 8 : i / 8 + shown),
            };
            shown++;
        }
    }
}

/* Bytes where all lines carry some and requests are large. */
static enum run_measure choose_measure(const struct page *pg)
{
    double bytes = 0, requests = 0;

    for (uint32_t i = 0; i < pg->line_count; i++) {
        const struct run_phase *p = pg->lines[i].phase;
        if (p->bytes == 0 && p->completed > 0)
            return RUN_REQUESTS;
        bytes += (double)p->bytes;
        requests += (double)p->completed;
    }
    return requests > 0 && bytes / requests >= LARGE_REQUEST_BYTES ? RUN_BYTES : RUN_REQUESTS;
}

static int find_stalls(struct page *pg)
{
    for (uint32_t i = 0; i < pg->line_count; i++) {
        struct plot_line *l = &pg->lines[i];
        int rc = run_phase_stalls(l->phase, pg->measure, &l->stalls, &l->stall_count);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int draw(struct page *pg)
{
    int rc;

    collect_lines(pg);
    pg->measure = choose_measure(pg);
    rc = find_stalls(pg);
    if (rc != 0)
        return rc;
    put_title(pg);
    plot_legend(pg);
    rc = plot_throughput(pg);
    if (rc != 0)
        return rc;
    plot_latency(pg);
    plot_grids(pg);
    if (pg->line_count == 0 && pg->y < 80)
        svg_text(&pg->svg, PAGE_LEFT, (pg->y += 30) - 6, SIZE_TEXT, SVG_START, COLOR_SOFT, "nothing was measured");
    return 0;
}

/* The height is known at the end only. */
static int write_page(struct page *pg, FILE *out)
{
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
                 "font-family=\"%s\" fill=\"%s\">\n<rect width=\"%.0f\" height=\"%.0f\" fill=\"#fff\"/>\n",
            PAGE_WIDTH, pg->y + 8, PAGE_WIDTH, pg->y + 8, SVG_FONT, COLOR_TEXT, PAGE_WIDTH, pg->y + 8);
    int rc = svg_write(&pg->svg, out);
    if (rc == 0 && (fputs("</svg>\n", out) == EOF || fflush(out) != 0 || ferror(out)))
        rc = DFS_EIO;
    return rc;
}

int plot_write(FILE *out, struct run_result *const *runs, uint32_t count)
{
    struct page *pg;
    int rc;

    CHECK(count >= 1 && count <= PLOT_RUNS_MAX);
    pg = calloc(1, sizeof *pg);
    if (pg == NULL)
        return DFS_ENOMEM;
    svg_init(&pg->svg);
    pg->runs = runs;
    pg->run_count = count;
    rc = draw(pg);
    if (rc == 0)
        rc = pg->svg.rc;
    if (rc == 0)
        rc = write_page(pg, out);
    for (uint32_t i = 0; i < pg->line_count; i++)
        free(pg->lines[i].stalls);
    svg_release(&pg->svg);
    free(pg);
    return rc;
}
