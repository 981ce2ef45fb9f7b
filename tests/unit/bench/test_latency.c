/* Histograms against a sort of the raw samples. */
#include "tests/unit/bench/unit.h"

#include <math.h>

#include "bench/latency.h"
#include "bench/report.h"

#define SAMPLES 20000u

static uint64_t raw[SAMPLES];

static int order(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* From 20 us to 5 s, most of them small. */
static void fill(struct latency *l, uint32_t n, uint64_t seed)
{
    assert_int_equal(latency_init(l), 0);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t r = next_random(&seed);
        raw[i] = 20000 + r % 3000000;
        if (r % 7 == 0)
            raw[i] += next_random(&seed) % 300000000;
        if (r % 50 == 0)
            raw[i] += next_random(&seed) % 5000000000u;
        latency_add(l, raw[i]);
    }
    qsort(raw, n, sizeof raw[0], order);
}

static uint64_t rank_of(uint32_t n, int percent)
{
    uint64_t rank = (uint64_t)n * (uint64_t)percent / 100;
    return rank > 0 ? rank : 1;
}

static void check_percentiles(uint32_t n, uint64_t seed)
{
    struct latency l;
    fill(&l, n, seed);
    for (int i = 0; i < REPORT_PERCENTILES; i++) {
        uint64_t want_ns = raw[rank_of(n, report_percentiles[i]) - 1];
        double coarse = latency_coarse_percentile_ms(&l, report_percentiles[i]);
        double fine = latency_fine_percentile_ms(&l, report_percentiles[i]);
        assert_true(coarse == (double)(want_ns / LATENCY_BUCKET_NS) / 10);
        assert_true(fabs(fine - (double)want_ns / 1e6) <= (double)want_ns / 1e6 / 256);
    }
    latency_release(&l);
}

static void test_percentiles(void **state)
{
    (void)state;
    check_percentiles(SAMPLES, 1);
    check_percentiles(1, 2);
    check_percentiles(2, 3);
    check_percentiles(99, 4);
    check_percentiles(101, 5);
}

static void test_summaries(void **state)
{
    (void)state;
    struct latency l;
    double sum = 0, squares = 0, coarse_sum = 0, coarse_squares = 0;
    fill(&l, SAMPLES, 11);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        double ms = (double)raw[i] / 1e6, bucket = (double)(raw[i] / LATENCY_BUCKET_NS) / 10;
        sum += ms;
        squares += ms * ms;
        coarse_sum += bucket;
        coarse_squares += bucket * bucket;
    }
    struct latency_summary fine = latency_fine_summary(&l), coarse = latency_coarse_summary(&l);
    assert_int_equal(fine.count, SAMPLES);
    assert_true(fine.min_ms == (double)raw[0] / 1e6 && fine.max_ms == (double)raw[SAMPLES - 1] / 1e6);
    assert_true(fabs(fine.avg_ms - sum / SAMPLES) < 1e-6);
    assert_true(fabs(fine.std_ms - sqrt(squares / SAMPLES - sum / SAMPLES * sum / SAMPLES)) < 1e-6);
    assert_int_equal(coarse.count, SAMPLES);
    assert_true(coarse.min_ms == (double)(raw[0] / LATENCY_BUCKET_NS) / 10);
    assert_true(coarse.max_ms == (double)(raw[SAMPLES - 1] / LATENCY_BUCKET_NS) / 10);
    assert_true(fabs(coarse.avg_ms - coarse_sum / SAMPLES) < 1e-6);
    assert_true(fabs(coarse.std_ms - sqrt(coarse_squares / SAMPLES - coarse_sum / SAMPLES * coarse_sum / SAMPLES)) < 1e-6);
    latency_release(&l);
}

static void test_merge_is_as_one(void **state)
{
    (void)state;
    struct latency one, a, b;
    uint64_t seed = 77;
    assert_int_equal(latency_init(&one), 0);
    assert_int_equal(latency_init(&a), 0);
    assert_int_equal(latency_init(&b), 0);
    for (uint32_t i = 0; i < 5000; i++) {
        uint64_t ns = next_random(&seed) % 2500000000u;
        latency_add(&one, ns);
        latency_add(i % 3 == 0 ? &a : &b, ns);
    }
    assert_int_equal(latency_merge(&a, &b), 0);
    struct latency_summary x = latency_fine_summary(&one), y = latency_fine_summary(&a);
    assert_memory_equal(&x, &y, sizeof x);
    for (int p = 1; p <= 100; p++) {
        assert_true(latency_coarse_percentile_ms(&one, p) == latency_coarse_percentile_ms(&a, p));
        assert_true(latency_fine_percentile_ms(&one, p) == latency_fine_percentile_ms(&a, p));
    }
    latency_release(&one);
    latency_release(&a);
    latency_release(&b);
}

static void test_no_samples(void **state)
{
    (void)state;
    struct latency l;
    assert_int_equal(latency_init(&l), 0);
    struct latency_summary s = latency_coarse_summary(&l);
    assert_true(s.min_ms == 0 && s.avg_ms == 0 && s.max_ms == 0 && s.std_ms == 0);
    s = latency_fine_summary(&l);
    assert_true(s.min_ms == 0 && s.avg_ms == 0 && s.max_ms == 0 && s.std_ms == 0);
    assert_true(latency_coarse_percentile_ms(&l, 50) == 0 && latency_fine_percentile_ms(&l, 100) == 0);
    latency_release(&l);
}

static void test_extremes(void **state)
{
    (void)state;
    struct latency l;
    assert_int_equal(latency_init(&l), 0);
    latency_add(&l, 0);
    latency_add(&l, UINT64_MAX / 4);
    assert_true(latency_fine_percentile_ms(&l, 50) == 0);
    assert_true(latency_coarse_percentile_ms(&l, 100) == (double)UINT32_MAX / 10);
    assert_true(latency_fine_percentile_ms(&l, 100) == (double)(UINT64_MAX / 4) / 1e6);
    /* The last bucket below a second, and the first beyond. */
    latency_release(&l);
    assert_int_equal(latency_init(&l), 0);
    latency_add(&l, 999999999);
    latency_add(&l, 1000000000);
    assert_true(latency_coarse_percentile_ms(&l, 50) == 999.9);
    assert_true(latency_coarse_percentile_ms(&l, 100) == 1000.0);
    latency_release(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percentiles), cmocka_unit_test(test_summaries), cmocka_unit_test(test_merge_is_as_one),
        cmocka_unit_test(test_no_samples),  cmocka_unit_test(test_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
