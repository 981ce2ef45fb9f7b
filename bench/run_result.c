/* The model of a finished run: making it, and taking it apart. */
#include "bench/run_result.h"

#include <stdlib.h>
#include <string.h>

#include "needle/check.h"
#include "needle/err.h"

void run_result_init(struct run_result *r)
{
    memset(r, 0, sizeof *r);
    r->resources = (struct run_resources){
        .server_disk_read_bytes = RUN_UNKNOWN,
        .server_sent_bytes = RUN_UNKNOWN,
        .dirty_bytes = RUN_UNKNOWN,
        .idle_s = RUN_UNKNOWN,
        .cpu_user_s = RUN_UNKNOWN,
        .cpu_system_s = RUN_UNKNOWN,
        .client_cpu_share = RUN_UNKNOWN,
    };
}

static void phase_free(struct run_phase *p)
{
    latency_release(&p->latency);
    free(p->series);
    free(p);
}

void run_result_release(struct run_result *r)
{
    for (uint32_t i = 0; i < r->phase_count; i++)
        phase_free(r->phases[i]);
    for (uint32_t i = 0; i < r->grid_count; i++) {
        free(r->grids[i]->cells);
        free(r->grids[i]);
    }
    run_result_init(r);
}

/* ---- texts ---- */

#define REPLACEMENT "\xef\xbf\xbd"

/* Length of the UTF-8 character at s, or 0 when it is none.  Reads no further than the closing zero. */
static size_t character_length(const unsigned char *s)
{
    unsigned char c = s[0];
    size_t len = c < 0x80 ? 1 : c >= 0xc2 && c <= 0xdf ? 2 : (c & 0xf0) == 0xe0 ? 3 : c >= 0xf0 && c <= 0xf4 ? 4 : 0;

    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((c == 0xe0 && s[1] < 0xa0) || (c == 0xed && s[1] > 0x9f) || (c == 0xf0 && s[1] < 0x90) || (c == 0xf4 && s[1] > 0x8f))
        return 0;
    return len;
}

/* Appends to out[*n], keeping a place for the closing zero; false: it does not fit. */
static bool text_add(char *out, size_t cap, size_t *n, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;

    while (*s != '\0') {
        size_t len = character_length(s);
        const char *from = len == 0 ? REPLACEMENT : *s < ' ' || *s == 0x7f ? " " : (const char *)s;
        size_t put = len == 0 ? sizeof REPLACEMENT - 1 : len;
        if (*n + put >= cap)
            return false;
        memcpy(out + *n, from, put);
        *n += put;
        s += len == 0 ? 1 : len;
    }
    return true;
}

void run_text_set(char *out, size_t cap, const char *text)
{
    size_t n = 0;

    CHECK(cap > 0);
    text_add(out, cap, &n, text != NULL ? text : "");
    memset(out + n, 0, cap - n);
}

void run_text_set_words(char *out, size_t cap, int argc, char *const *argv)
{
    size_t n = 0;
    bool fits = true;

    CHECK(cap > 0);
    for (int i = 0; i < argc && fits; i++) {
        const char *mark = argv[i][0] == '\0' || strpbrk(argv[i], " \t\n\"'") != NULL ? "'" : "";
        fits = (i == 0 || text_add(out, cap, &n, " ")) && text_add(out, cap, &n, mark) && text_add(out, cap, &n, argv[i]) &&
               text_add(out, cap, &n, mark);
    }
    memset(out + n, 0, cap - n);
}

const char *run_result_title(const struct run_result *r)
{
    return r->meta.label[0] != '\0' ? r->meta.label : r->meta.mode[0] != '\0' ? r->meta.mode : "benchmark";
}

/* ---- phases ---- */

int run_result_add_phase(struct run_result *r, const char *name, struct run_phase **out)
{
    struct run_phase *p;

    if (r->phase_count == RUN_PHASES_MAX)
        return DFS_ETOOBIG;
    p = calloc(1, sizeof *p);
    if (p == NULL)
        return DFS_ENOMEM;
    if (latency_init(&p->latency) != 0) {
        free(p);
        return DFS_ENOMEM;
    }
    run_text_set(p->name, sizeof p->name, name);
    p->verify_s = RUN_UNKNOWN;
    *out = r->phases[r->phase_count++] = p;
    return 0;
}

int run_phase_add_second(struct run_phase *p, const struct run_second *s)
{
    if (p->series_n == RUN_SECONDS_MAX)
        return DFS_ETOOBIG;
    if (p->series_n == p->series_cap) {
        size_t cap = p->series_cap == 0 ? 64 : p->series_cap * 2;
        struct run_second *more = realloc(p->series, cap * sizeof *more);
        if (more == NULL)
            return DFS_ENOMEM;
        p->series = more;
        p->series_cap = cap;
    }
    p->series[p->series_n++] = *s;
    return 0;
}

/* ---- grids ---- */

int run_result_add_grid(struct run_result *r, const char *name, const uint32_t *clients, uint32_t rows, const uint32_t *processes,
                        uint32_t cols, struct run_grid **out)
{
    struct run_grid *g;

    if (rows == 0 || cols == 0)
        return DFS_EINVAL;
    if (r->grid_count == RUN_GRIDS_MAX || rows > RUN_GRID_SIDE_MAX || cols > RUN_GRID_SIDE_MAX)
        return DFS_ETOOBIG;
    g = calloc(1, sizeof *g);
    if (g == NULL)
        return DFS_ENOMEM;
    g->cells = calloc((size_t)rows * cols, sizeof *g->cells);
    if (g->cells == NULL) {
        free(g);
        return DFS_ENOMEM;
    }
    run_text_set(g->name, sizeof g->name, name);
    g->rows = rows;
    g->cols = cols;
    memcpy(g->clients, clients, rows * sizeof *clients);
    memcpy(g->processes, processes, cols * sizeof *processes);
    for (size_t i = 0; i < (size_t)rows * cols; i++)
        g->cells[i].avg_us = g->cells[i].p99_us = RUN_UNKNOWN;
    *out = r->grids[r->grid_count++] = g;
    return 0;
}

struct run_cell *run_grid_cell(struct run_grid *g, uint32_t row, uint32_t col)
{
    CHECK(row < g->rows && col < g->cols);
    return &g->cells[(size_t)row * g->cols + col];
}
