/* A run as JSON; bench/REPORT.md says what each field is. */
#include <math.h>

#include "bench/run_histogram.h"
#include "bench/run_json.h"
#include "bench/run_stats.h"
#include "needle/check.h"
#include "needle/err.h"
#include "net/jsonw.h"

static const struct {
    double percent;
    const char *key;
} percentiles[] = {
    {50, "50"}, {66, "66"}, {75, "75"}, {80, "80"}, {90, "90"}, {95, "95"}, {98, "98"}, {99, "99"}, {99.9, "99.9"},
    {99.99, "99.99"}, {100, "100"},
};

/* Counts beyond what readers of JSON hold are not met; a clamped one still reads back. */
static void put_count(struct jsonw *w, const char *key, uint64_t v)
{
    jsonw_put_u64(w, key, v < (uint64_t)RUN_NUMBER_MAX ? v : (uint64_t)RUN_NUMBER_MAX);
}

static void put_real(struct jsonw *w, const char *key, double v)
{
    jsonw_put_double(w, key, !isfinite(v) || v < 0 ? 0 : v > RUN_REAL_MAX ? RUN_REAL_MAX : v + 0.0);
}

/* null when it is unknown. */
static void put_real_or_null(struct jsonw *w, const char *key, double v)
{
    jsonw_put_double(w, key, !isfinite(v) || v < 0 || v > RUN_REAL_MAX ? (double)NAN : v + 0.0);
}

static void put_count_or_null(struct jsonw *w, const char *key, int64_t v)
{
    if (v >= 0) {
        jsonw_put_i64(w, key, v);
    } else {
        jsonw_key(w, key);
        jsonw_null(w);
    }
}

static void put_load(struct jsonw *w, const struct run_meta *m)
{
    jsonw_put_object(w, "load");
    jsonw_put_printf(w, "seed", "%llu", (unsigned long long)m->seed);
    put_count(w, "object_bytes", m->object_bytes);
    put_count(w, "request_bytes", m->request_bytes);
    jsonw_put_u64(w, "concurrency", m->concurrency);
    jsonw_put_u64(w, "loops", m->loops);
    put_real(w, "rate", m->rate);
    jsonw_put_bool(w, "fsync", m->fsync);
    jsonw_put_str(w, "collection", m->collection);
    jsonw_put_str(w, "replication", m->replication);
    jsonw_object_end(w);
}

static void put_meta(struct jsonw *w, const struct run_meta *m)
{
    jsonw_put_u64(w, "schema", RUN_JSON_SCHEMA);
    jsonw_put_str(w, "tool", RUN_JSON_TOOL);
    jsonw_put_str(w, "version", m->version);
    jsonw_put_str(w, "mode", m->mode);
    jsonw_put_str(w, "label", m->label);
    jsonw_put_bool(w, "good", m->good);
    jsonw_put_str(w, "command", m->command);
    put_count(w, "started_unix_s", m->started_unix_s);
    jsonw_put_object(w, "machine");
    jsonw_put_str(w, "host", m->host);
    jsonw_put_u64(w, "cores", m->cores);
    jsonw_object_end(w);
    put_load(w, m);
    jsonw_put_object(w, "server");
    jsonw_put_str(w, "address", m->server);
    jsonw_put_str(w, "version", m->server_version);
    jsonw_put_str(w, "durability", m->durability);
    jsonw_put_bool(w, "local", m->server_is_local);
    jsonw_object_end(w);
}

void run_json_put_resources(struct jsonw *w, const struct run_resources *s)
{
    jsonw_put_object(w, "resources");
    put_count_or_null(w, "server_disk_read_bytes", s->server_disk_read_bytes);
    put_count_or_null(w, "server_sent_bytes", s->server_sent_bytes);
    put_count_or_null(w, "dirty_bytes", s->dirty_bytes);
    put_real_or_null(w, "idle_s", s->idle_s);
    put_real_or_null(w, "cpu_user_s", s->cpu_user_s);
    put_real_or_null(w, "cpu_system_s", s->cpu_system_s);
    put_real_or_null(w, "client_cpu_share", s->client_cpu_share);
    jsonw_object_end(w);
}

int run_json_put_latency(struct jsonw *w, const struct latency *l)
{
    struct latency_summary s = latency_fine_summary(l);
    int rc;

    jsonw_put_object(w, "latency_ms");
    put_count(w, "samples", s.count);
    put_real(w, "min", s.min_ms);
    put_real(w, "avg", s.avg_ms);
    put_real(w, "max", s.max_ms);
    put_real(w, "std", s.std_ms);
    jsonw_put_object(w, "percentiles");
    for (size_t i = 0; i < ARRAY_LEN(percentiles); i++)
        put_real(w, percentiles[i].key, latency_fine_percentile_ms(l, percentiles[i].percent));
    jsonw_object_end(w);
    rc = run_histogram_put(w, "histogram", l);
    jsonw_object_end(w);
    return rc;
}

static int put_steadiness(struct jsonw *w, const struct run_phase *p)
{
    struct run_steadiness s;
    int rc = run_phase_steadiness(p, RUN_REQUESTS, &s);

    if (rc != 0)
        return rc;
    jsonw_put_object(w, "steadiness");
    put_real_or_null(w, "worst_second", s.worst);
    put_real_or_null(w, "median_second", s.median);
    put_count(w, "seconds_at_zero", s.seconds_at_zero);
    put_real_or_null(w, "last_third_to_first_third", s.last_to_first);
    jsonw_object_end(w);
    return 0;
}

/* One line a second. */
static int put_second(struct jsonw *w, const struct run_second *s)
{
    struct jsonw line;
    struct bytes text;
    int rc;

    jsonw_init(&line, false);
    jsonw_object(&line);
    put_real(&line, "seconds", s->seconds);
    put_count(&line, "completed", s->completed);
    put_count(&line, "failed", s->failed);
    put_count(&line, "bytes", s->bytes);
    put_real_or_null(&line, "avg_ms", s->avg_ms);
    put_real_or_null(&line, "max_ms", s->max_ms);
    jsonw_object_end(&line);
    rc = jsonw_done(&line, &text);
    if (rc == 0)
        jsonw_raw(w, text);
    jsonw_release(&line);
    return rc;
}

static int put_series(struct jsonw *w, const struct run_phase *p)
{
    int rc = 0;

    jsonw_put_array(w, "series");
    for (size_t i = 0; i < p->series_n && rc == 0; i++)
        rc = put_second(w, &p->series[i]);
    jsonw_array_end(w);
    return rc;
}

static void put_counts(struct jsonw *w, const struct run_phase *p)
{
    jsonw_put_str(w, "name", p->name);
    put_real(w, "start_s", p->start_s);
    put_real(w, "seconds", p->seconds);
    put_count(w, "completed", p->completed);
    put_count(w, "failed", p->failed);
    put_count(w, "corrupt", p->corrupt);
    put_count(w, "missed", p->missed);
    put_count(w, "transferred_bytes", p->bytes);
    put_real_or_null(w, "verify_s", p->verify_s);
    jsonw_put_str(w, "ended_early", p->ended_early);
    jsonw_put_str(w, "first_error", p->first_error);
    put_real(w, "requests_per_s", run_phase_rate(p, RUN_REQUESTS));
    put_real(w, "bytes_per_s", run_phase_rate(p, RUN_BYTES));
}

static int put_phase(struct jsonw *w, const struct run_phase *p)
{
    int rc;

    jsonw_object(w);
    put_counts(w, p);
    rc = run_json_put_latency(w, &p->latency);
    if (rc == 0)
        rc = put_steadiness(w, p);
    if (rc == 0)
        rc = put_series(w, p);
    jsonw_object_end(w);
    return rc;
}

static void put_side(struct jsonw *w, const char *key, const uint32_t *v, uint32_t n)
{
    jsonw_put_array(w, key);
    for (uint32_t i = 0; i < n; i++)
        jsonw_u64(w, v[i]);
    jsonw_array_end(w);
}

static void put_cell(struct jsonw *w, const struct run_cell *c)
{
    if (!c->known) {
        jsonw_null(w);
        return;
    }
    jsonw_object(w);
    put_real(w, "bytes_per_s", c->bytes_per_s);
    put_real(w, "requests_per_s", c->requests_per_s);
    put_real_or_null(w, "avg_us", c->avg_us);
    put_real_or_null(w, "p99_us", c->p99_us);
    jsonw_object_end(w);
}

static void put_grid(struct jsonw *w, const struct run_grid *g)
{
    jsonw_object(w);
    jsonw_put_str(w, "name", g->name);
    put_side(w, "clients", g->clients, g->rows);
    put_side(w, "processes", g->processes, g->cols);
    jsonw_put_array(w, "cells");
    for (uint32_t row = 0; row < g->rows; row++) {
        jsonw_array(w);
        for (uint32_t col = 0; col < g->cols; col++)
            put_cell(w, &g->cells[row * g->cols + col]);
        jsonw_array_end(w);
    }
    jsonw_array_end(w);
    jsonw_object_end(w);
}

static int put_run(struct jsonw *w, const struct run_result *r)
{
    int rc = 0;

    jsonw_object(w);
    put_meta(w, &r->meta);
    run_json_put_resources(w, &r->resources);
    jsonw_put_array(w, "phases");
    for (uint32_t i = 0; i < r->phase_count && rc == 0; i++)
        rc = put_phase(w, r->phases[i]);
    jsonw_array_end(w);
    if (r->grid_count > 0) {
        jsonw_put_array(w, "grids");
        for (uint32_t i = 0; i < r->grid_count; i++)
            put_grid(w, r->grids[i]);
        jsonw_array_end(w);
    }
    jsonw_object_end(w);
    return rc;
}

int run_json_finish(struct jsonw *w, FILE *out)
{
    struct bytes text;
    int rc = jsonw_done(w, &text);

    if (rc == 0 && (fwrite(text.p, 1, text.n, out) != text.n || fputc('\n', out) == EOF || fflush(out) != 0))
        rc = DFS_EIO;
    return rc;
}

int run_json_write(FILE *out, const struct run_result *r)
{
    struct jsonw w;
    int rc;

    jsonw_init(&w, true);
    rc = put_run(&w, r);
    if (rc == 0)
        rc = run_json_finish(&w, out);
    jsonw_release(&w);
    return rc;
}
