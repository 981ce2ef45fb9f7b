/* Reading a report back.  Every value is looked at once, by one of the get_* functions: a wrong one makes the whole report an
 * error that names its place. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "bench/run_histogram.h"
#include "bench/run_json.h"
#include "needle/check.h"
#include "needle/err.h"
#include "net/ascii.h"

/* Where we are, and the first thing that was wrong; after it the get_* functions do nothing. */
struct reader {
    char where[128];        /* "phases[1]", "" at the top */
    uint64_t long_budget;
    int rc;
    char *error;
};

static void fail(struct reader *rd, int rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void fail(struct reader *rd, int rc, const char *fmt, ...)
{
    char line[RUN_JSON_ERROR_MAX];
    va_list ap;

    if (rd->rc != 0)
        return;
    rd->rc = rc;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    run_text_set(rd->error, RUN_JSON_ERROR_MAX, line);
}

static void fail_at(struct reader *rd, const char *key, const char *what)
{
    fail(rd, DFS_ECORRUPT, "%s%s%s %s", rd->where, rd->where[0] != '\0' ? "." : "", key, what);
}

/* ---- values ---- */

enum need { OPTIONAL, REQUIRED };

static const json_t *get(struct reader *rd, const json_t *in, const char *key, enum need need)
{
    const json_t *v = json_object_get(in, key);

    if (v == NULL && need == REQUIRED)
        fail_at(rd, key, "is missing");
    return v;
}

static uint64_t get_count(struct reader *rd, const json_t *in, const char *key, uint64_t max, enum need need)
{
    const json_t *v = get(rd, in, key, need);

    if (v == NULL)
        return 0;
    if (!json_is_integer(v) || json_integer_value(v) < 0 || (uint64_t)json_integer_value(v) > max) {
        char what[64];
        snprintf(what, sizeof what, "is no number between 0 and %" PRIu64, max);
        fail_at(rd, key, what);
        return 0;
    }
    return (uint64_t)json_integer_value(v);
}

static double get_real(struct reader *rd, const json_t *in, const char *key, enum need need)
{
    const json_t *v = get(rd, in, key, need);

    if (v == NULL)
        return 0;
    if (!json_is_number(v) || !(json_number_value(v) >= 0) || json_number_value(v) > RUN_REAL_MAX) {
        fail_at(rd, key, "is no number between 0 and 1e15");
        return 0;
    }
    return json_number_value(v) + 0.0;
}

static double get_real_or_null(struct reader *rd, const json_t *in, const char *key)
{
    const json_t *v = json_object_get(in, key);

    return v == NULL || json_is_null(v) ? RUN_UNKNOWN : get_real(rd, in, key, OPTIONAL);
}

static int64_t get_count_or_null(struct reader *rd, const json_t *in, const char *key)
{
    const json_t *v = json_object_get(in, key);

    return v == NULL || json_is_null(v) ? RUN_UNKNOWN : (int64_t)get_count(rd, in, key, RUN_NUMBER_MAX, OPTIONAL);
}

static bool get_bool(struct reader *rd, const json_t *in, const char *key)
{
    const json_t *v = json_object_get(in, key);

    if (v != NULL && !json_is_boolean(v))
        fail_at(rd, key, "is neither true nor false");
    return json_is_true(v);
}

/* Longer texts of other writers are cut. */
static void get_text(struct reader *rd, const json_t *in, const char *key, char *out, size_t cap, enum need need)
{
    const json_t *v = get(rd, in, key, need);

    if (v != NULL && !json_is_string(v))
        fail_at(rd, key, "is no text");
    run_text_set(out, cap, json_string_value(v));
}

/* NULL when it is not there, or is something else. */
static const json_t *get_object(struct reader *rd, const json_t *in, const char *key)
{
    const json_t *v = json_object_get(in, key);

    if (v == NULL || json_is_object(v))
        return v;
    fail_at(rd, key, "is no object");
    return NULL;
}

static const json_t *get_list(struct reader *rd, const json_t *in, const char *key, size_t max, enum need need)
{
    const json_t *v = get(rd, in, key, need);
    char what[64];

    if (v == NULL)
        return NULL;
    if (json_is_array(v) && json_array_size(v) <= max)
        return v;
    snprintf(what, sizeof what, "is no list of at most %zu", max);
    fail_at(rd, key, what);
    return NULL;
}

/* ---- parts ---- */

static void read_seed(struct reader *rd, const json_t *load, uint64_t *out)
{
    const char *text = json_string_value(json_object_get(load, "seed"));
    uint64_t v = 0;

    for (; text != NULL && *text != '\0'; text++) {
        unsigned digit = (unsigned)(*text - '0');
        if (!ascii_is_digit(*text) || v > (UINT64_MAX - digit) / 10) {
            fail_at(rd, "load.seed", "is no text of a number below 2^64");
            return;
        }
        v = v * 10 + digit;
    }
    *out = v;
}

static void read_meta(struct reader *rd, const json_t *root, struct run_meta *m)
{
    const json_t *machine = get_object(rd, root, "machine"), *load = get_object(rd, root, "load"),
                 *server = get_object(rd, root, "server");

    get_text(rd, root, "version", m->version, sizeof m->version, OPTIONAL);
    get_text(rd, root, "mode", m->mode, sizeof m->mode, OPTIONAL);
    get_text(rd, root, "label", m->label, sizeof m->label, OPTIONAL);
    get_text(rd, root, "command", m->command, sizeof m->command, OPTIONAL);
    m->good = get_bool(rd, root, "good");
    m->started_unix_s = get_count(rd, root, "started_unix_s", RUN_NUMBER_MAX, OPTIONAL);
    get_text(rd, machine, "host", m->host, sizeof m->host, OPTIONAL);
    m->cores = (uint32_t)get_count(rd, machine, "cores", UINT32_MAX, OPTIONAL);
    read_seed(rd, load, &m->seed);
    m->object_bytes = get_count(rd, load, "object_bytes", RUN_NUMBER_MAX, OPTIONAL);
    m->request_bytes = get_count(rd, load, "request_bytes", RUN_NUMBER_MAX, OPTIONAL);
    m->concurrency = (uint32_t)get_count(rd, load, "concurrency", UINT32_MAX, OPTIONAL);
    m->loops = (uint32_t)get_count(rd, load, "loops", UINT32_MAX, OPTIONAL);
    m->rate = get_real(rd, load, "rate", OPTIONAL);
    m->fsync = get_bool(rd, load, "fsync");
    get_text(rd, load, "collection", m->collection, sizeof m->collection, OPTIONAL);
    get_text(rd, load, "replication", m->replication, sizeof m->replication, OPTIONAL);
    get_text(rd, server, "address", m->server, sizeof m->server, OPTIONAL);
    get_text(rd, server, "version", m->server_version, sizeof m->server_version, OPTIONAL);
    get_text(rd, server, "durability", m->durability, sizeof m->durability, OPTIONAL);
    m->server_is_local = get_bool(rd, server, "local");
}

static void read_resources(struct reader *rd, const json_t *root, struct run_resources *s)
{
    const json_t *in = get_object(rd, root, "resources");

    s->server_disk_read_bytes = get_count_or_null(rd, in, "server_disk_read_bytes");
    s->server_sent_bytes = get_count_or_null(rd, in, "server_sent_bytes");
    s->dirty_bytes = get_count_or_null(rd, in, "dirty_bytes");
    s->idle_s = get_real_or_null(rd, in, "idle_s");
    s->cpu_user_s = get_real_or_null(rd, in, "cpu_user_s");
    s->cpu_system_s = get_real_or_null(rd, in, "cpu_system_s");
    s->client_cpu_share = get_real_or_null(rd, in, "client_cpu_share");
}

static void read_series(struct reader *rd, const json_t *in, struct run_phase *p)
{
    const json_t *list = get_list(rd, in, "series", RUN_SECONDS_MAX, REQUIRED);
    char phase[sizeof rd->where];

    snprintf(phase, sizeof phase, "%s", rd->where);
    for (size_t i = 0; i < json_array_size(list) && rd->rc == 0; i++) {
        const json_t *s = json_array_get(list, i);
        snprintf(rd->where, sizeof rd->where, "%.80s.series[%zu]", phase, i);
        struct run_second second = {
            .seconds = get_real(rd, s, "seconds", REQUIRED),
            .completed = get_count(rd, s, "completed", RUN_NUMBER_MAX, REQUIRED),
            .failed = get_count(rd, s, "failed", RUN_NUMBER_MAX, REQUIRED),
            .bytes = get_count(rd, s, "bytes", RUN_NUMBER_MAX, REQUIRED),
            .avg_ms = get_real_or_null(rd, s, "avg_ms"),
            .max_ms = get_real_or_null(rd, s, "max_ms"),
        };
        int rc = rd->rc == 0 ? run_phase_add_second(p, &second) : 0;
        if (rc != 0)
            fail(rd, rc, "%s", dfs_err_text(rc));
    }
    snprintf(rd->where, sizeof rd->where, "%s", phase);
}

/* Reports of older versions have none: then there is no sample. */
static void read_latency(struct reader *rd, const json_t *in, struct run_phase *p)
{
    const json_t *histogram = json_object_get(get_object(rd, in, "latency_ms"), "histogram");
    const char *why = "";
    int rc = histogram != NULL ? run_histogram_read(histogram, &p->latency, &rd->long_budget, &why) : 0;

    if (rc == DFS_ECORRUPT)
        fail(rd, rc, "%s.latency_ms.histogram: %s", rd->where, why);
    else if (rc != 0)
        fail(rd, rc, "%s", dfs_err_text(rc));
}

/* Reports without start_s have whole seconds of Unix time; those of the run are then those of its first phase.  Their phases run
 * one after the other, so none begins before the end of the last one, however short both are. */
static double get_start(struct reader *rd, const json_t *in, struct run_result *r)
{
    uint64_t at = get_count(rd, in, "started_unix_s", RUN_NUMBER_MAX, OPTIONAL);
    const struct run_phase *last = r->phase_count > 1 ? r->phases[r->phase_count - 2] : NULL;
    double start_s;

    if (json_object_get(in, "start_s") != NULL || at == 0)
        return get_real(rd, in, "start_s", OPTIONAL);
    if (r->meta.started_unix_s == 0)
        r->meta.started_unix_s = at;
    start_s = at > r->meta.started_unix_s ? (double)(at - r->meta.started_unix_s) : 0;
    return fmin(last != NULL ? fmax(start_s, last->start_s + last->seconds) : start_s, RUN_REAL_MAX);
}

static void read_phase(struct reader *rd, const json_t *in, struct run_result *r)
{
    char name[RUN_TEXT_MAX];
    struct run_phase *p;
    int rc;

    get_text(rd, in, "name", name, sizeof name, REQUIRED);
    if (rd->rc != 0)
        return;
    rc = run_result_add_phase(r, name, &p);
    if (rc != 0) {
        fail(rd, rc, "%s", dfs_err_text(rc));
        return;
    }
    p->start_s = get_start(rd, in, r);
    p->seconds = get_real(rd, in, "seconds", REQUIRED);
    p->completed = get_count(rd, in, "completed", RUN_NUMBER_MAX, REQUIRED);
    p->failed = get_count(rd, in, "failed", RUN_NUMBER_MAX, REQUIRED);
    p->corrupt = get_count(rd, in, "corrupt", RUN_NUMBER_MAX, OPTIONAL);
    p->missed = get_count(rd, in, "missed", RUN_NUMBER_MAX, OPTIONAL);
    p->bytes = get_count(rd, in, "transferred_bytes", RUN_NUMBER_MAX, REQUIRED);
    p->verify_s = get_real_or_null(rd, in, "verify_s");
    get_text(rd, in, "ended_early", p->ended_early, sizeof p->ended_early, OPTIONAL);
    get_text(rd, in, "first_error", p->first_error, sizeof p->first_error, OPTIONAL);
    read_latency(rd, in, p);
    read_series(rd, in, p);
}

static uint32_t read_side(struct reader *rd, const json_t *in, const char *key, uint32_t out[RUN_GRID_SIDE_MAX])
{
    const json_t *list = get_list(rd, in, key, RUN_GRID_SIDE_MAX, REQUIRED);
    uint32_t n = (uint32_t)json_array_size(list);

    if (list != NULL && n == 0)
        fail_at(rd, key, "is empty");
    for (uint32_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > UINT32_MAX) {
            fail_at(rd, key, "is no list of numbers from 1 on");
            return 0;
        }
        out[i] = (uint32_t)json_integer_value(v);
    }
    return n;
}

static void read_cell(struct reader *rd, const json_t *in, struct run_cell *c)
{
    if (json_is_null(in))
        return;
    c->bytes_per_s = get_real(rd, in, "bytes_per_s", REQUIRED);
    c->requests_per_s = get_real(rd, in, "requests_per_s", REQUIRED);
    c->avg_us = get_real_or_null(rd, in, "avg_us");
    c->p99_us = get_real_or_null(rd, in, "p99_us");
    c->known = true;
}

static void read_cells(struct reader *rd, const json_t *in, struct run_grid *g)
{
    const json_t *cells = get_list(rd, in, "cells", RUN_GRID_SIDE_MAX, REQUIRED);

    if (rd->rc == 0 && json_array_size(cells) != g->rows)
        fail_at(rd, "cells", "has not a row for each of clients");
    for (uint32_t row = 0; row < g->rows && rd->rc == 0; row++) {
        const json_t *line = json_array_get(cells, row);
        if (!json_is_array(line) || json_array_size(line) != g->cols)
            fail_at(rd, "cells", "has a row without a cell for each of processes");
        for (uint32_t col = 0; col < g->cols && rd->rc == 0; col++)
            read_cell(rd, json_array_get(line, col), run_grid_cell(g, row, col));
    }
}

static void read_grid(struct reader *rd, const json_t *in, struct run_result *r)
{
    uint32_t clients[RUN_GRID_SIDE_MAX], processes[RUN_GRID_SIDE_MAX], rows, cols;
    char name[RUN_TEXT_MAX];
    struct run_grid *g;
    int rc;

    get_text(rd, in, "name", name, sizeof name, REQUIRED);
    rows = read_side(rd, in, "clients", clients);
    cols = read_side(rd, in, "processes", processes);
    if (rd->rc != 0)
        return;
    rc = run_result_add_grid(r, name, clients, rows, processes, cols, &g);
    if (rc != 0)
        fail(rd, rc, "%s", dfs_err_text(rc));
    else
        read_cells(rd, in, g);
}

static void read_each(struct reader *rd, const json_t *root, const char *key, size_t max, enum need need,
                      void (*read)(struct reader *rd, const json_t *in, struct run_result *r), struct run_result *r)
{
    const json_t *list = get_list(rd, root, key, max, need);

    for (size_t i = 0; i < json_array_size(list) && rd->rc == 0; i++) {
        snprintf(rd->where, sizeof rd->where, "%s[%zu]", key, i);
        read(rd, json_array_get(list, i), r);
    }
    rd->where[0] = '\0';
}

static void read_root(struct reader *rd, const json_t *root, struct run_result *r)
{
    const char *tool = json_string_value(json_object_get(root, "tool"));
    const json_t *schema = json_object_get(root, "schema");

    if (tool == NULL || strcmp(tool, RUN_JSON_TOOL) != 0)
        fail(rd, DFS_ECORRUPT, "no report of `" RUN_JSON_TOOL "`");
    else if (!json_is_integer(schema) || json_integer_value(schema) < 1)
        fail(rd, DFS_ECORRUPT, "schema is no number from 1 on");
    else if (json_integer_value(schema) > RUN_JSON_SCHEMA)
        fail(rd, DFS_EVERSION, "schema %lld is newer than this program, which reads %u", (long long)json_integer_value(schema),
             RUN_JSON_SCHEMA);
    if (rd->rc != 0)
        return;
    read_meta(rd, root, &r->meta);
    read_resources(rd, root, &r->resources);
    read_each(rd, root, "phases", RUN_PHASES_MAX, REQUIRED, read_phase, r);
    read_each(rd, root, "grids", RUN_GRIDS_MAX, OPTIONAL, read_grid, r);
}

/* Brackets and commas bound what the tree will cost; those inside texts count too, which is on the safe side. */
static bool is_too_rich(struct bytes text)
{
    size_t brackets = 0, values = 0;

    for (size_t i = 0; i < text.n; i++) {
        brackets += text.p[i] == '{' || text.p[i] == '[';
        values += text.p[i] == ',';
    }
    return brackets > RUN_JSON_BRACKETS_MAX || values > RUN_JSON_VALUES_MAX;
}

int run_json_parse(struct bytes text, struct run_result *r, char error[RUN_JSON_ERROR_MAX])
{
    struct reader rd = {.long_budget = RUN_LONG_SAMPLES_MAX, .error = error};
    json_error_t at;
    json_t *root;

    run_result_init(r);
    if (text.n > RUN_JSON_BYTES_MAX || is_too_rich(text)) {
        fail(&rd, DFS_ETOOBIG, "more than a report may be");
        return rd.rc;
    }
    root = json_loadb(text.p != NULL ? text.p : "", text.n, JSON_REJECT_DUPLICATES, &at);
    if (root == NULL) {
        bool memory = json_error_code(&at) == json_error_out_of_memory;
        fail(&rd, memory ? DFS_ENOMEM : DFS_ECORRUPT, "line %d: %s", at.line, memory ? dfs_err_text(DFS_ENOMEM) : at.text);
        return rd.rc;
    }
    read_root(&rd, root, r);
    json_decref(root);
    if (rd.rc != 0)
        run_result_release(r);
    return rd.rc;
}

/* ---- files ---- */

/* Devices and pipes have no size, so it is read until its end. */
static int read_all(FILE *f, char **out, size_t *n)
{
    size_t cap = 65536, got;
    char *p = malloc(cap), *more;

    for (*n = 0; p != NULL && *n <= RUN_JSON_BYTES_MAX; *n += got) {
        if (*n == cap) {
            more = realloc(p, cap *= 2);
            if (more == NULL)
                break;
            p = more;
        }
        got = fread(p + *n, 1, cap - *n, f);
        if (got == 0) {
            *out = p;
            return ferror(f) ? DFS_EIO : 0;
        }
    }
    *out = p;
    return p == NULL || *n <= RUN_JSON_BYTES_MAX ? DFS_ENOMEM : DFS_ETOOBIG;
}

int run_json_read_file(const char *path, struct run_result *r, char error[RUN_JSON_ERROR_MAX])
{
    char why[RUN_JSON_ERROR_MAX], line[RUN_JSON_ERROR_MAX + 256];
    FILE *f = fopen(path, "re");
    char *text = NULL;
    size_t n = 0;
    int rc;

    run_result_init(r);
    if (f == NULL) {
        rc = DFS_EIO;
        snprintf(why, sizeof why, "%s", strerror(errno));
    } else {
        errno = 0;
        rc = read_all(f, &text, &n);
        snprintf(why, sizeof why, "%s", rc == DFS_EIO && errno != 0 ? strerror(errno) : dfs_err_text(rc));
        fclose(f);
    }
    if (rc == 0)
        rc = run_json_parse(bytes_of(text, n), r, why);
    free(text);
    if (rc != 0) {
        snprintf(line, sizeof line, "cannot read '%.200s': %s", path, why);
        run_text_set(error, RUN_JSON_ERROR_MAX, line);
    }
    return rc;
}
