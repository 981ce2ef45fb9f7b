/* The report's text, to the byte: scripts cut it apart. */
#include "tests/unit/bench/unit.h"

#include "bench/report.h"

static void test_version_and_titles(void **state)
{
    (void)state;
    struct text t;
    text_open(&t);
    report_version(t.f, "0.1.0 linux amd64");
    report_title(t.f, REPORT_WRITE);
    report_title(t.f, REPORT_READ);
    text_expect(&t, "This is dfs version 0.1.0 linux amd64\n"
                    "\n------------ Writing Benchmark ----------\n"
                    "\n------------ Randomly Reading Benchmark ----------\n");
}

static void test_progress(void **state)
{
    (void)state;
    struct text t;
    struct report_progress p = {
        .completed = 1066,
        .transferred_bytes = 1125000,
        .total = 3108,
        .interval_s = 1.0,
    };
    text_open(&t);
    report_progress_line(t.f, &p);
    p.last_completed = p.completed;
    p.last_transferred_bytes = p.transferred_bytes;
    report_progress_line(t.f, &p); /* a second of nothing is a line as well */
    p.completed = 3108;
    p.interval_s = 1.5;
    report_progress_line(t.f, &p);
    text_expect(&t, "Completed 1066 of 3108 requests, 34.3% 1066.0/s 1.1MB/s\n"
                    "Completed 1066 of 3108 requests, 34.3% 0.0/s 0.0MB/s\n"
                    "Completed 3108 of 3108 requests, 100.0% 1361.3/s 0.0MB/s\n");
}

static void add(struct latency *l, uint32_t times, double ms)
{
    while (times-- > 0)
        latency_add(l, (uint64_t)(ms * 1e6 + 0.5));
}

static void samples(struct latency *l)
{
    assert_int_equal(latency_init(l), 0);
    add(l, 70, 0.3);
    add(l, 20, 1.25);
    add(l, 9, 14.81);
    add(l, 1, 4373.39);
}

static const struct report_result result = {
    .phase = REPORT_WRITE,
    .concurrency = 16,
    .completed = 100,
    .failed = 3,
    .transferred_bytes = 105532,
    .seconds = 1.25,
};

static void test_summary(void **state)
{
    (void)state;
    struct latency l;
    struct text t;
    samples(&l);
    text_open(&t);
    report_summary(t.f, &result, &l, false);
    text_expect(&t, "\nConcurrency Level:      16\n"
                    "Time taken for tests:   1.250 seconds\n"
                    "Complete requests:      100\n"
                    "Failed requests:        3\n"
                    "Total transferred:      105532 bytes\n"
                    "Requests per second:    80.00 [#/sec]\n"
                    "Transfer rate:          82.45 [Kbytes/sec]\n"
                    "\nConnection Times (ms)\n"
                    "              min      avg        max      std\n"
                    "Total:        0.3      45.5       4373.3      435.0\n"
                    "\nPercentage of the requests served within a certain time (ms)\n"
                    "   50%      0.3 ms\n"
                    "   66%      0.3 ms\n"
                    "   75%      1.2 ms\n"
                    "   80%      1.2 ms\n"
                    "   90%      1.2 ms\n"
                    "   95%     14.8 ms\n"
                    "   98%     14.8 ms\n"
                    "   99%     14.8 ms\n"
                    "  100%    4373.3 ms\n");
    latency_release(&l);
}

static void test_precise(void **state)
{
    (void)state;
    struct latency l;
    struct text t;
    assert_int_equal(latency_init(&l), 0);
    add(&l, 10, 2.5);
    text_open(&t);
    report_summary(t.f, &result, &l, true);
    text_expect(&t, "\nConcurrency Level:      16\n"
                    "Time taken for tests:   1.250 seconds\n"
                    "Complete requests:      100\n"
                    "Failed requests:        3\n"
                    "Total transferred:      105532 bytes\n"
                    "Requests per second:    80.00 [#/sec]\n"
                    "Transfer rate:          82.45 [Kbytes/sec]\n"
                    "\nConnection Times (ms)\n"
                    "              min      avg        max      std\n"
                    "Total:        2.500      2.500       2.500      0.000\n"
                    "\nPercentage of the requests served within a certain time (ms)\n"
                    "   50%      2.500 ms\n"
                    "   66%      2.500 ms\n"
                    "   75%      2.500 ms\n"
                    "   80%      2.500 ms\n"
                    "   90%      2.500 ms\n"
                    "   95%      2.500 ms\n"
                    "   98%      2.500 ms\n"
                    "   99%      2.500 ms\n"
                    "  100%      2.500 ms\n");
    latency_release(&l);
}

/* Nothing succeeded: numbers, not NaN, and all lines. */
static void test_empty(void **state)
{
    (void)state;
    struct latency l;
    struct text t;
    struct report_result r = {.phase = REPORT_READ, .concurrency = 1, .failed = 5};
    assert_int_equal(latency_init(&l), 0);
    text_open(&t);
    report_summary(t.f, &r, &l, false);
    fclose(t.f);
    assert_non_null(strstr(t.p, "Complete requests:      0\nFailed requests:        5\n"));
    assert_non_null(strstr(t.p, "Requests per second:    0.00 [#/sec]\n"));
    assert_non_null(strstr(t.p, "Total:        0.0      0.0       0.0      0.0\n"));
    assert_non_null(strstr(t.p, "  100%      0.0 ms\n"));
    assert_null(strstr(t.p, "nan"));
    free(t.p);
    latency_release(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_version_and_titles), cmocka_unit_test(test_progress), cmocka_unit_test(test_summary),
        cmocka_unit_test(test_precise),            cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
