/* Runs: texts, histograms bucket by bucket, the JSON and CSV they become, what is refused, and where a phase stood still. */
#include "tests/unit/bench/unit.h"

#include <math.h>

#include "bench/run_csv.h"
#include "bench/run_json.h"
#include "bench/run_result.h"
#include "bench/run_stats.h"
#include "needle/bytes.h"
#include "needle/err.h"

#define SEED 7u

static struct run_phase *add_phase(struct run_result *r, const char *name)
{
    struct run_phase *p;

    assert_int_equal(run_result_add_phase(r, name, &p), 0);
    return p;
}

static void add_seconds(struct run_phase *p, const uint64_t *completed, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct run_second s = {.seconds = 1, .completed = completed[i], .bytes = completed[i] * 10, .avg_ms = 2, .max_ms = RUN_UNKNOWN};
        assert_int_equal(run_phase_add_second(p, &s), 0);
        p->completed += s.completed;
        p->bytes += s.bytes;
        p->seconds += 1;
    }
}

static void add_samples(struct latency *l, uint32_t n, uint64_t *state)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t r = next_random(state);
        latency_add(l, r % 64 == 0 ? r % 90000000000u : r % 5 == 0 ? r % 900000000 : r % 4000000);
    }
}

static void fill(struct run_result *r)
{
    static const uint64_t seconds[] = {100, 110, 0, 90, 105, 3};
    static const uint32_t clients[] = {1, 2}, processes[] = {1, 4, 16};
    uint64_t state = SEED;
    struct run_phase *p;
    struct run_grid *g;

    run_result_init(r);
    run_text_set(r->meta.label, sizeof r->meta.label, "a \"b\" <c> & \xc3\xa9\n\x01 \xff");
    run_text_set(r->meta.mode, sizeof r->meta.mode, "objects");
    r->meta.seed = UINT64_MAX;
    r->meta.rate = 0.1;
    r->resources.idle_s = 1.25;
    r->resources.dirty_bytes = INT64_MAX;
    p = add_phase(r, "write");
    add_seconds(p, seconds, ARRAY_LEN(seconds));
    add_samples(&p->latency, 5000, &state);
    p->series[1].seconds = 1.0000000000000002;
    add_phase(r, "nothing");
    assert_int_equal(run_result_add_grid(r, "read 4k", clients, 2, processes, 3, &g), 0);
    *run_grid_cell(g, 1, 2) = (struct run_cell){.known = true, .bytes_per_s = 1e9 / 3, .requests_per_s = 7, .avg_us = 0.3,
                                                .p99_us = RUN_UNKNOWN};
}

/* The caller frees. */
static char *json_of(const struct run_result *r, size_t *n)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, n);

    assert_non_null(f);
    assert_int_equal(run_json_write(f, r), 0);
    fclose(f);
    return text;
}

static void writes_reads_and_writes_the_same(void **state)
{
    struct run_result r, back;
    char error[RUN_JSON_ERROR_MAX] = "", *first, *second;
    size_t n, m;

    (void)state;
    fill(&r);
    first = json_of(&r, &n);
    assert_int_equal(run_json_parse(bytes_of(first, n), &back, error), 0);
    assert_string_equal(error, "");
    second = json_of(&back, &m);
    assert_int_equal(n, m);
    assert_memory_equal(first, second, n);
    assert_true(back.meta.seed == UINT64_MAX && back.resources.dirty_bytes == INT64_MAX);
    assert_string_equal(back.meta.label, "a \"b\" <c> & \xc3\xa9   \xef\xbf\xbd");
    assert_true(back.phases[0]->latency.sum_squares_ns2 == r.phases[0]->latency.sum_squares_ns2);
    assert_memory_equal(back.phases[0]->latency.fine, r.phases[0]->latency.fine, LATENCY_FINE_BUCKETS * sizeof(uint64_t));
    assert_true(back.phases[1]->latency.min_ns == UINT64_MAX);
    assert_true(run_grid_cell(back.grids[0], 1, 2)->known && !run_grid_cell(back.grids[0], 0, 0)->known);
    free(first);
    free(second);
    run_result_release(&r);
    run_result_release(&back);
}

/* Two halves, written, read and merged, are the whole. */
static void merges_what_was_read(void **state)
{
    struct run_result half[2], whole, back[2];
    uint64_t random = SEED, again = SEED;
    char error[RUN_JSON_ERROR_MAX];
    struct run_phase *all;

    (void)state;
    run_result_init(&whole);
    all = add_phase(&whole, "read");
    add_samples(&all->latency, 3000, &again);
    for (int i = 0; i < 2; i++) {
        size_t n;
        run_result_init(&half[i]);
        add_samples(&add_phase(&half[i], "read")->latency, 1500, &random);
        char *text = json_of(&half[i], &n);
        assert_int_equal(run_json_parse(bytes_of(text, n), &back[i], error), 0);
        free(text);
    }
    struct latency *l = &back[0].phases[0]->latency;
    assert_int_equal(latency_merge(l, &back[1].phases[0]->latency), 0);
    assert_true(l->count == 3000 && l->sum_ns == all->latency.sum_ns && l->max_ns == all->latency.max_ns);
    for (double p = 0.5; p <= 100; p += 0.5) {
        assert_true(latency_fine_percentile_ms(l, p) == latency_fine_percentile_ms(&all->latency, p));
        assert_true(latency_coarse_percentile_ms(l, p) == latency_coarse_percentile_ms(&all->latency, p));
    }
    for (int i = 0; i < 2; i++) {
        run_result_release(&half[i]);
        run_result_release(&back[i]);
    }
    run_result_release(&whole);
}

static void expect_refused(const char *text, int want, const char *word)
{
    char error[RUN_JSON_ERROR_MAX] = "";
    struct run_result r;

    assert_int_equal(run_json_parse(bytes_str(text), &r, error), want);
    assert_true(r.phase_count == 0 && r.grid_count == 0);
    if (strstr(error, word) == NULL || strchr(error, '\n') != NULL)
        fail_msg("'%s' does not say '%s' on one line", error, word);
}

#define HEAD "{\"schema\": 1, \"tool\": \"dfs benchmark\", "
#define PHASE(seconds, more) HEAD "\"phases\": [{\"name\": \"w\", \"seconds\": " seconds ", \"completed\": 1, \"failed\": 0, " \
    "\"transferred_bytes\": 5" more "}]}"

static void refuses_what_is_no_report(void **state)
{
    (void)state;
    expect_refused("", DFS_ECORRUPT, "line");
    expect_refused("[1]", DFS_ECORRUPT, "no report");
    expect_refused("{\"tool\": \"fio\", \"schema\": 1}", DFS_ECORRUPT, "no report");
    expect_refused("{\"tool\": \"dfs benchmark\", \"schema\": 2, \"phases\": []}", DFS_EVERSION, "schema 2");
    expect_refused(HEAD "\"a\": 1}", DFS_ECORRUPT, "phases is missing");
    expect_refused(HEAD "\"phases\": [], \"phases\": []}", DFS_ECORRUPT, "duplicate");
    expect_refused(HEAD "\"phases\": [5]}", DFS_ECORRUPT, "phases[0].name is missing");
    expect_refused(PHASE("-1", ", \"series\": []"), DFS_ECORRUPT, "phases[0].seconds");
    expect_refused(PHASE("1e300", ", \"series\": []"), DFS_ECORRUPT, "phases[0].seconds");
    expect_refused(PHASE("1", ""), DFS_ECORRUPT, "phases[0].series is missing");
    expect_refused(PHASE("1", ", \"series\": [{\"seconds\": 1}]"), DFS_ECORRUPT, "phases[0].series[0].completed");
    expect_refused(PHASE("1", ", \"series\": [], \"latency_ms\": {\"histogram\": 1}"), DFS_ECORRUPT, "histogram");
    /* One that would take 40 GB to hold. */
    expect_refused(PHASE("1", ", \"series\": [], \"latency_ms\": {\"histogram\": {\"samples\": 10000000000, \"min_ns\": 0, "
                              "\"max_ns\": 9000000000, \"sum_ns\": \"10000000000\", \"sum_squares_ns2\": \"10000000000\", "
                              "\"fine\": [1, 10000000000], \"coarse\": [20000, 10000000000]}}"), DFS_ECORRUPT, "coarse");
}

/* The report of `dfs benchmark` alone has fewer fields. */
static void reads_reports_without_the_fields_of_modes(void **state)
{
    static const char text[] = PHASE("2.5", ", \"started_unix_s\": 100, \"series\": [{\"seconds\": 1, \"completed\": 1, "
                                            "\"failed\": 0, \"bytes\": 5}]");
    char error[RUN_JSON_ERROR_MAX];
    struct run_result r;

    (void)state;
    assert_int_equal(run_json_parse(bytes_str(text), &r, error), 0);
    assert_int_equal(r.phase_count, 1);
    assert_true(r.meta.started_unix_s == 100 && r.phases[0]->seconds == 2.5 && r.phases[0]->latency.count == 0);
    assert_true(r.phases[0]->series[0].avg_ms == RUN_UNKNOWN && r.resources.idle_s == RUN_UNKNOWN);
    run_result_release(&r);
}

/* Whole seconds cannot tell which of two short phases came first; they are drawn one after the other all the same. */
static void puts_short_phases_behind_one_another(void **state)
{
#define SHORT(name) "{\"name\": \"" name "\", \"started_unix_s\": 100, \"seconds\": 0.25, \"completed\": 1, \"failed\": 0, " \
    "\"transferred_bytes\": 5, \"series\": []}"
    static const char text[] = HEAD "\"phases\": [" SHORT("write") ", " SHORT("read") "]}";
    char error[RUN_JSON_ERROR_MAX];
    struct run_result r;

    (void)state;
    assert_int_equal(run_json_parse(bytes_str(text), &r, error), 0);
    assert_int_equal(r.phase_count, 2);
    assert_true(r.phases[0]->start_s == 0 && r.phases[1]->start_s == 0.25);
    run_result_release(&r);
}

static void cuts_texts_between_characters(void **state)
{
    char out[6];

    (void)state;
    run_text_set(out, sizeof out, "abc\xc3\xa9" "def");
    assert_string_equal(out, "abc\xc3\xa9");
    run_text_set(out, sizeof out, "abcd\xc3\xa9");
    assert_string_equal(out, "abcd");
    run_text_set(out, sizeof out, NULL);
    assert_string_equal(out, "");
}

static void finds_stalls(void **state)
{
    /* The median is 100: 10 is a stall, 11 is none. */
    static const uint64_t seconds[] = {100, 0, 10, 100, 11, 100, 100, 120, 0};
    struct run_result r;
    struct run_phase *p;
    struct run_stall *stalls;
    struct run_steadiness s;
    size_t n;

    (void)state;
    run_result_init(&r);
    p = add_phase(&r, "write");
    add_seconds(p, seconds, ARRAY_LEN(seconds));
    assert_int_equal(run_phase_add_second(p, &(struct run_second){.seconds = 0.4}), 0);
    assert_int_equal(run_phase_stalls(p, RUN_REQUESTS, &stalls, &n), 0);
    assert_int_equal(n, 2);
    assert_true(stalls[0].from_s == 1 && stalls[0].to_s == 3 && stalls[1].from_s == 8 && stalls[1].to_s == 9);
    free(stalls);
    assert_int_equal(run_phase_steadiness(p, RUN_REQUESTS, &s), 0);
    assert_true(s.median == 100 && s.worst == 0 && s.seconds_at_zero == 2);
    assert_true(fabs(s.last_to_first - 2.0) < 1e-12);
    p = add_phase(&r, "empty");
    assert_int_equal(run_phase_stalls(p, RUN_BYTES, &stalls, &n), 0);
    assert_int_equal(n, 0);
    free(stalls);
    run_result_release(&r);
}

static void writes_seconds_as_csv(void **state)
{
    static const uint64_t seconds[] = {3, 4};
    struct run_result r;
    struct text t;

    (void)state;
    run_result_init(&r);
    add_seconds(add_phase(&r, "=a,\"b\""), seconds, 2);
    assert_int_equal(run_csv_write(text_open(&t), &r), 0);
    text_expect(&t, "phase,second,seconds,completed,failed,bytes,avg_ms,max_ms\n"
                    "\"'=a,\"\"b\"\"\",1.000,1.000,3,0,30,2,\n\"'=a,\"\"b\"\"\",2.000,1.000,4,0,40,2,\n");
    run_result_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_reads_and_writes_the_same),
        cmocka_unit_test(merges_what_was_read),
        cmocka_unit_test(refuses_what_is_no_report),
        cmocka_unit_test(reads_reports_without_the_fields_of_modes),
        cmocka_unit_test(puts_short_phases_behind_one_another),
        cmocka_unit_test(cuts_texts_between_characters),
        cmocka_unit_test(finds_stalls),
        cmocka_unit_test(writes_seconds_as_csv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
