/* The report for machines; bench/REPORT.md says what each field is. */
#include <unistd.h>

#include "bench/benchmark_run.h"
#include "bench/run_json.h"
#include "needle/check.h"
#include "needle/err.h"
#include "net/jsonw.h"

static void put_options(struct jsonw *w, const struct bench_run *run)
{
    const struct benchmark_options *o = run->o;
    jsonw_put_object(w, "options");
    jsonw_put_str(w, "server", o->server);
    jsonw_put_u64(w, "c", o->concurrency);
    jsonw_put_u64(w, "n", o->count);
    jsonw_put_u64(w, "size", o->size_bytes);
    jsonw_put_str(w, "list", run->list);
    jsonw_put_str(w, "collection", o->collection);
    jsonw_put_str(w, "replication", o->replication);
    jsonw_put_str(w, "ttl", o->ttl);
    jsonw_put_str(w, "disk", o->disk);
    jsonw_put_bool(w, "fsync", o->fsync);
    jsonw_put_u64(w, "deletePercent", o->delete_percent);
    jsonw_put_bool(w, "readSequentially", o->read_sequentially);
    jsonw_put_u64(w, "assignBatch", o->assign_batch);
    jsonw_put_u64(w, "loops", run->loops);
    jsonw_object_end(w);
}

static void put_server(struct jsonw *w, const struct bench_run *run)
{
    const struct bench_server *s = &run->server;

    jsonw_put_object(w, "server");
    jsonw_put_str(w, "address", s->address);
    jsonw_put_str(w, "version", run->around.version);
    jsonw_put_str(w, "durability", run->around.durability);
    jsonw_put_bool(w, "local", s->is_local);
    jsonw_object_end(w);
}

/* From whole tenths of a millisecond, as the text prints them. */
static void put_printed_latency(struct jsonw *w, struct latency *l)
{
    struct latency_summary s = latency_coarse_summary(l);

    jsonw_put_object(w, "latency_printed_ms");
    jsonw_put_u64(w, "samples", s.count);
    jsonw_put_double(w, "min", s.min_ms);
    jsonw_put_double(w, "avg", s.avg_ms);
    jsonw_put_double(w, "max", s.max_ms);
    jsonw_put_double(w, "std", s.std_ms);
    jsonw_put_object(w, "percentiles");
    for (int i = 0; i < REPORT_PERCENTILES; i++) {
        char key[8];
        snprintf(key, sizeof key, "%d", report_percentiles[i]);
        jsonw_put_double(w, key, latency_coarse_percentile_ms(l, report_percentiles[i]));
    }
    jsonw_object_end(w);
    jsonw_object_end(w);
}

static double rate(uint64_t n, double seconds)
{
    return seconds > 0 ? (double)n / seconds : 0;
}

static void put_known(struct jsonw *w, const char *key, double v)
{
    jsonw_key(w, key);
    if (v < 0)
        jsonw_null(w);
    else
        jsonw_double(w, v);
}

/* How even the phase was: the numbers that show a cliff. */
static void put_steadiness(struct jsonw *w, const struct bench_outcome *o)
{
    struct run_steadiness s = bench_steadiness(o);

    jsonw_put_object(w, "steadiness");
    put_known(w, "worst_second", s.worst);
    jsonw_put_u64(w, "seconds_at_zero", s.seconds_at_zero);
    put_known(w, "last_third_to_first_third", s.last_to_first);
    jsonw_object_end(w);
}

static void put_series(struct jsonw *w, const struct bench_outcome *o)
{
    jsonw_put_array(w, "series");
    for (size_t i = 0; i < o->series_n; i++) {
        const struct bench_second *s = &o->series[i];
        jsonw_object(w);
        jsonw_put_double(w, "seconds", s->seconds);
        jsonw_put_u64(w, "completed", s->completed);
        jsonw_put_u64(w, "failed", s->failed);
        jsonw_put_u64(w, "bytes", s->bytes);
        jsonw_object_end(w);
    }
    jsonw_array_end(w);
}

static void put_phase(struct jsonw *w, struct bench_outcome *o)
{
    const struct report_result *r = &o->result;
    uint64_t done = r->completed + r->failed;

    jsonw_object(w);
    jsonw_put_str(w, "name", r->phase == REPORT_WRITE ? "write" : "read");
    jsonw_put_u64(w, "started_unix_s", o->started_s);
    jsonw_put_double(w, "seconds", r->seconds);
    jsonw_put_u64(w, "requests", o->requests);
    jsonw_put_u64(w, "deletes", o->deletes);
    jsonw_put_u64(w, "completed", r->completed);
    jsonw_put_u64(w, "failed", r->failed);
    jsonw_put_u64(w, "corrupt", o->corrupt);
    jsonw_put_str(w, "first_error", o->first_error);
    jsonw_put_u64(w, "transferred_bytes", r->transferred_bytes);
    jsonw_put_double(w, "requests_per_s", rate(r->completed, r->seconds));
    jsonw_put_double(w, "bytes_per_s", rate(r->transferred_bytes, r->seconds));
    /* Its histogram is for `dfs benchmark plot`; without memory for it the report has none, and stays one. */
    (void)run_json_put_latency(w, &o->latency);
    put_printed_latency(w, &o->latency);
    put_steadiness(w, o);
    jsonw_put_object(w, "client");
    jsonw_put_double(w, "cpu_user_s", o->user_s);
    jsonw_put_double(w, "cpu_system_s", o->system_s);
    jsonw_put_double(w, "cpu_us_per_request", done > 0 ? (o->user_s + o->system_s) * 1e6 / (double)done : 0);
    jsonw_put_i64(w, "context_switches_voluntary", o->waits);
    jsonw_put_i64(w, "context_switches_forced", o->preemptions);
    jsonw_object_end(w);
    put_series(w, o);
    jsonw_object_end(w);
}

int report_json_write(FILE *out, struct bench_run *run)
{
    struct jsonw w;
    char host[256] = "";
    int rc;

    gethostname(host, sizeof host - 1);
    jsonw_init(&w, true);
    jsonw_object(&w);
    jsonw_put_u64(&w, "schema", RUN_JSON_SCHEMA);
    jsonw_put_str(&w, "tool", RUN_JSON_TOOL);
    jsonw_put_str(&w, "version", benchmark_version_text);
    jsonw_put_bool(&w, "good", run->good);
    jsonw_put_str(&w, "label", run->o->label);
    jsonw_put_object(&w, "machine");
    jsonw_put_str(&w, "host", host);
    jsonw_put_u64(&w, "cores", run->cores);
    jsonw_object_end(&w);
    put_options(&w, run);
    put_server(&w, run);
    run_json_put_resources(&w, &run->resources);
    jsonw_put_array(&w, "phases");
    for (uint32_t i = 0; i < run->outcome_count; i++)
        put_phase(&w, &run->outcomes[i]);
    jsonw_array_end(&w);
    jsonw_object_end(&w);
    rc = run_json_finish(&w, out);
    jsonw_release(&w);
    return rc;
}
