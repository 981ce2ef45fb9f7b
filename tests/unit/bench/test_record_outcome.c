/* Outcomes of several clients, sent as JSON and merged, are what one client would have counted. */
#include "tests/unit/bench/unit.h"

#include "bench/record_outcome.h"
#include "needle/err.h"

#define CLIENTS 3

static void fill(struct record_outcome *o, struct latency *all, uint64_t *seed, uint32_t n)
{
    struct run_phase *p = &o->sides[RECORD_READS];

    assert_int_equal(record_outcome_init(o), 0);
    o->seconds = p->seconds = 2.5;
    o->jobs = 4;
    o->jobs_sum = 400;
    o->jobs_min = 90 + n % 7;
    o->jobs_max = 110;
    o->jobs_s = 2.4;
    o->loops = 1;
    o->ran_out = true;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t ns = 20000 + next_random(seed) % (i % 50 == 0 ? 3000000000u : 2000000u);
        latency_add(&p->latency, ns);
        latency_add(all, ns);
        p->completed++;
        p->bytes += 4096;
    }
    for (int i = 0; i < 2; i++) {
        struct run_second s = {1, 10 + n, i, 4096 * (10 + n), 2 + i, 5};
        assert_int_equal(run_phase_add_second(p, &s), 0);
    }
}

static int pass_on(const struct record_outcome *from, struct record_outcome *to)
{
    struct jsonw w;
    struct bytes text;
    json_t *doc;
    int rc;

    jsonw_init(&w, false);
    jsonw_object(&w);
    assert_int_equal(record_outcome_put(&w, "outcome", from), 0);
    jsonw_object_end(&w);
    assert_int_equal(jsonw_done(&w, &text), 0);
    doc = json_loadb(text.p, text.n, 0, NULL);
    assert_non_null(doc);
    jsonw_release(&w);
    assert_int_equal(record_outcome_init(to), 0);
    rc = record_outcome_read(json_object_get(doc, "outcome"), to);
    json_decref(doc);
    return rc;
}

static void test_merged_is_as_one(void **state)
{
    static const double percents[] = {1, 25, 50, 75, 90, 99, 99.9, 99.99, 100};
    struct record_outcome sum;
    struct latency all;
    const struct run_phase *p = &sum.sides[RECORD_READS];
    uint64_t seed = 42, n = 0;

    (void)state;
    assert_int_equal(latency_init(&all), 0);
    assert_int_equal(record_outcome_init(&sum), 0);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        struct record_outcome one, there;
        fill(&one, &all, &seed, 1000 + 500 * i);
        n += 1000 + 500 * i;
        assert_int_equal(pass_on(&one, &there), 0);
        assert_int_equal(record_outcome_merge(&sum, &there), 0);
        record_outcome_release(&one);
        record_outcome_release(&there);
    }
    assert_int_equal(record_outcome_completed(&sum), n);
    assert_int_equal(p->bytes, n * 4096);
    assert_int_equal(p->latency.count, all.count);
    assert_memory_equal(p->latency.fine, all.fine, LATENCY_FINE_BUCKETS * sizeof *all.fine);
    assert_true(p->latency.sum_ns == all.sum_ns && p->latency.sum_squares_ns2 == all.sum_squares_ns2);
    for (size_t i = 0; i < sizeof percents / sizeof percents[0]; i++) {
        assert_true(latency_fine_percentile_ms(&p->latency, percents[i]) == latency_fine_percentile_ms(&all, percents[i]));
        assert_true(latency_coarse_percentile_ms(&sum.sides[RECORD_READS].latency, percents[i]) ==
                    latency_coarse_percentile_ms(&all, percents[i]));
    }
    assert_int_equal(sum.jobs, 4 * CLIENTS);
    assert_true(sum.jobs_sum == 1200 && sum.jobs_max == 110 && sum.jobs_min == 90 + 1500 % 7 && sum.seconds == 2.5);
    assert_true(sum.ran_out);
    assert_int_equal(p->series_n, 2);
    assert_int_equal(p->series[0].completed, 30 + n);
    assert_int_equal(p->series[1].failed, CLIENTS);
    assert_true(p->series[0].avg_ms == 2 && p->series[1].avg_ms == 3);
    record_outcome_release(&sum);
    latency_release(&all);
}

static void test_moves_into_a_result(void **state)
{
    struct record_outcome o;
    struct run_result r;
    struct latency all;
    uint64_t seed = 1;

    (void)state;
    run_result_init(&r);
    assert_int_equal(latency_init(&all), 0);
    fill(&o, &all, &seed, 100);
    assert_int_equal(record_outcome_move(&o, &r, "", 1.5), 0);
    record_outcome_release(&o);
    assert_int_equal(r.phase_count, 1);
    assert_string_equal(r.phases[0]->name, "read");
    assert_int_equal(r.phases[0]->latency.count, 100);
    fill(&o, &all, &seed, 100);
    o.sides[RECORD_WRITES].failed = 1;
    assert_int_equal(record_outcome_move(&o, &r, "2 clients", 1.5), 0);
    record_outcome_release(&o);
    assert_string_equal(r.phases[1]->name, "2 clients read");
    assert_string_equal(r.phases[2]->name, "2 clients write");
    /* more than find room are dropped, not an error */
    while (r.phase_count < RUN_PHASES_MAX) {
        fill(&o, &all, &seed, 1);
        assert_int_equal(record_outcome_move(&o, &r, "x", 0), 0);
        record_outcome_release(&o);
    }
    fill(&o, &all, &seed, 1);
    assert_int_equal(record_outcome_move(&o, &r, "x", 0), 0);
    record_outcome_release(&o);
    run_result_release(&r);
    latency_release(&all);
}

/* Whatever an agent says, it is taken or refused, and what was begun can be released. */
static void test_bad_documents(void **state)
{
    static const char *const bad[] = {"{}", "[]", "1", "null", "{\"seconds\": -1}", "{\"seconds\": \"1\"}"};
    struct record_outcome one, there;
    struct latency all;
    struct jsonw w;
    struct bytes text;
    uint64_t seed = 3;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        json_t *doc = json_loads(bad[i], JSON_DECODE_ANY, NULL);
        assert_int_equal(record_outcome_init(&there), 0);
        assert_int_equal(record_outcome_read(doc, &there), DFS_ECORRUPT);
        record_outcome_release(&there);
        json_decref(doc);
    }
    /* each field in turn: missing, then of a wrong type */
    assert_int_equal(latency_init(&all), 0);
    fill(&one, &all, &seed, 50);
    jsonw_init(&w, false);
    jsonw_object(&w);
    assert_int_equal(record_outcome_put(&w, "outcome", &one), 0);
    jsonw_object_end(&w);
    assert_int_equal(jsonw_done(&w, &text), 0);
    json_t *whole = json_loadb(text.p, text.n, 0, NULL), *value;
    const char *key;
    json_object_foreach(json_object_get(whole, "outcome"), key, value) {
        for (int wrong = 0; wrong < 2; wrong++) {
            json_t *copy = json_deep_copy(json_object_get(whole, "outcome"));
            if (wrong == 0)
                json_object_del(copy, key);
            else
                json_object_set_new(copy, key, json_string("x"));
            assert_int_equal(record_outcome_init(&there), 0);
            assert_int_equal(record_outcome_read(copy, &there), DFS_ECORRUPT);
            record_outcome_release(&there);
            json_decref(copy);
        }
    }
    json_object_foreach(json_object_get(json_object_get(whole, "outcome"), "read"), key, value) {
        json_t *copy = json_deep_copy(json_object_get(whole, "outcome"));
        json_object_set_new(json_object_get(copy, "read"), key, json_true());
        assert_int_equal(record_outcome_init(&there), 0);
        assert_int_equal(record_outcome_read(copy, &there), DFS_ECORRUPT);
        record_outcome_release(&there);
        json_decref(copy);
    }
    json_decref(whole);
    jsonw_release(&w);
    record_outcome_release(&one);
    latency_release(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merged_is_as_one), cmocka_unit_test(test_moves_into_a_result), cmocka_unit_test(test_bad_documents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
