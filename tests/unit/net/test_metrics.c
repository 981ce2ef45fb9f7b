/* Counters, histograms, the text that dashboards read; numbers as text. */
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "tests/unit/net/unit.h"

#include "needle/err.h"
#include "net/metrics.h"
#include "net/number_text.h"

static void test_counter(void **state)
{
    (void)state;
    static struct metric_counter c;
    assert_int_equal(metric_value(&c), 0);
    metric_add(&c, 5);
    metric_add(&c, 7);
    assert_int_equal(metric_value(&c), 12);
    metric_sub(&c, 20);
    assert_true((int64_t)metric_value(&c) == -8);
}

static struct metric_counter shared;
static struct metric_histogram shared_times;

static void *count_up(void *arg)
{
    (void)arg;
    for (int i = 0; i < 10000; i++) {
        metric_add(&shared, 1);
        metric_observe_ns(&shared_times, 1000);
    }
    return NULL;
}

/* More threads than cells: nothing is lost. */
static void test_threads(void **state)
{
    (void)state;
    pthread_t t[METRICS_CELLS + 4];
    for (size_t i = 0; i < ARRAY_LEN(t); i++)
        assert_int_equal(pthread_create(&t[i], NULL, count_up, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(t); i++)
        pthread_join(t[i], NULL);
    assert_int_equal(metric_value(&shared), 10000 * ARRAY_LEN(t));
    assert_int_equal(metric_observed(&shared_times), 10000 * ARRAY_LEN(t));
    assert_int_equal(metric_observed_ns(&shared_times), UINT64_C(10000000) * ARRAY_LEN(t));
}

static void test_histogram(void **state)
{
    (void)state;
    static struct metric_histogram h;
    assert_int_equal(metric_quantile_ns(&h, 0.5), 0);
    metric_observe_ns(&h, 0);
    metric_observe_ns(&h, 100000); /* on the bound belongs below it */
    assert_int_equal(metric_quantile_ns(&h, 1), 100000);
    metric_observe_ns(&h, 100001);
    metric_observe_ns(&h, 200000);
    assert_int_equal(metric_quantile_ns(&h, 0.5), 100000);
    assert_int_equal(metric_quantile_ns(&h, 0.51), 200000);
    assert_int_equal(metric_quantile_ns(&h, 0), 100000);
    metric_observe_ns(&h, 200001);
    assert_int_equal(metric_quantile_ns(&h, 1), 400000);
    metric_observe_ns(&h, UINT64_C(838860800000));
    assert_int_equal(metric_quantile_ns(&h, 1), UINT64_C(838860800000));
    metric_observe_ns(&h, UINT64_C(838860800001));
    assert_int_equal(metric_quantile_ns(&h, 1), UINT64_C(838860800000));
    assert_int_equal(metric_observed(&h), 7);
    assert_int_equal(metric_observed_ns(&h), UINT64_C(1677721600001) + 600002);
}

static void collect(struct metric_text *out, void *arg)
{
    char label[64], esc[32];
    snprintf(label, sizeof label, "name=\"%s\",type=\"all\"", metric_label_escape(bytes_str(arg), esc, sizeof esc));
    metric_text_head(out, "res", "gauge", "Disk.");
    metric_text_u64(out, "res", label, UINT64_C(18446744073709551615));
    metric_text_double(out, "res", "", 0.1);
    metric_text_i64(out, "res", "a=\"b\"", -3);
}

static void test_render(void **state)
{
    (void)state;
    static struct metric_counter get, post, up, down;
    static struct metric_histogram h, plain;
    struct metrics *m;
    struct metric_text t = {0};
    char dir[] = "./v/\\x\"y";
    assert_int_equal(metrics_new(&m), 0);
    assert_int_equal(metrics_counter(m, "req_total", "code=\"200\",type=\"GET\"", "Requests.", &get), 0);
    assert_int_equal(metrics_gauge(m, "in_flight", "", "Now.", &up), 0);
    assert_int_equal(metrics_counter(m, "req_total", "code=\"201\",type=\"POST\"", "Requests.", &post), 0);
    assert_int_equal(metrics_gauge(m, "in_flight", "x=\"y\"", "Now.", &down), 0);
    assert_int_equal(metrics_histogram(m, "secs", "type=\"GET\"", "Time.", &h), 0);
    assert_int_equal(metrics_histogram(m, "plain", "", "Time.", &plain), 0);
    assert_int_equal(metrics_collector(m, collect, dir), 0);
    metric_add(&get, 3);
    metric_sub(&down, 2);
    metric_observe_ns(&h, 150000);
    metric_observe_ns(&h, UINT64_C(2000000000));
    metrics_render(m, &t);
    assert_int_equal(t.failed, 0);
    assert_int_equal(strlen(t.data), t.len);
    assert_ptr_equal(strstr(t.data, "# HELP req_total Requests.\n# TYPE req_total counter\n"
                                    "req_total{code=\"200\",type=\"GET\"} 3\nreq_total{code=\"201\",type=\"POST\"} 0\n"
                                    "# HELP in_flight Now.\n# TYPE in_flight gauge\nin_flight 0\nin_flight{x=\"y\"} -2\n"
                                    "# HELP secs Time.\n# TYPE secs histogram\nsecs_bucket{type=\"GET\",le=\"0.0001\"} 0\n"
                                    "secs_bucket{type=\"GET\",le=\"0.0002\"} 1\n"), t.data);
    assert_non_null(strstr(t.data, "\nsecs_bucket{type=\"GET\",le=\"1.6384\"} 1\nsecs_bucket{type=\"GET\",le=\"3.2768\"} 2\n"));
    assert_non_null(strstr(t.data, "\nsecs_bucket{type=\"GET\",le=\"838.8608\"} 2\nsecs_bucket{type=\"GET\",le=\"+Inf\"} 2\n"
                                   "secs_sum{type=\"GET\"} 2.00015\nsecs_count{type=\"GET\"} 2\n"));
    assert_non_null(strstr(t.data, "\nplain_bucket{le=\"0.0001\"} 0\n"));
    assert_non_null(strstr(t.data, "\nplain_sum 0\nplain_count 0\n# HELP res Disk.\n# TYPE res gauge\n"
                                   "res{name=\"./v/\\\\x\\\"y\",type=\"all\"} 18446744073709551615\nres 0.1\nres{a=\"b\"} -3\n"));
    /* Again into the same text: appended. */
    size_t once = t.len;
    metrics_render(m, &t);
    assert_int_equal(t.len, 2 * once);
    metric_text_release(&t);
    metrics_free(m);
    metrics_free(NULL);
}

static void test_text_bounds(void **state)
{
    (void)state;
    struct metric_text t = {0};
    char *big = malloc(1000001);
    assert_non_null(big);
    memset(big, 'x', 1000000);
    big[1000000] = '\0';
    metric_text_printf(&t, "%s", big);
    assert_int_equal(t.len, 1000000);
    for (int i = 0; i < 70; i++)
        metric_text_printf(&t, "%s", big);
    assert_int_equal(t.failed, 1);
    assert_true(t.len <= METRIC_TEXT_MAX);
    assert_int_equal(strlen(t.data), t.len);
    size_t n = t.len;
    metric_text_u64(&t, "a", "", 1);
    assert_int_equal(t.len, n);
    metric_text_release(&t);
    free(big);

    char esc[8];
    assert_string_equal(metric_label_escape(bytes_str("ab\nc"), esc, sizeof esc), "ab\\nc");
    assert_string_equal(metric_label_escape(bytes_str("abcdefghij"), esc, sizeof esc), "abcdefg");
    assert_string_equal(metric_label_escape(bytes_str("abcdef\""), esc, sizeof esc), "abcdef");
    assert_string_equal(metric_label_escape(bytes_str("abcdef\xc3\xa9"), esc, sizeof esc), "abcdef");
    assert_string_equal(metric_label_escape(bytes_str("x"), esc, 1), "");
}

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        double v;
        const char *text;
    } row[] = {
        {0, "0"}, {1, "1"}, {-1.5, "-1.5"}, {0.1, "0.1"}, {0.0001, "0.0001"}, {1e21, "1e+21"}, {1e-7, "1e-07"},
        {1.0 / 3, "0.3333333333333333"}, {0.1 + 0.2, "0.30000000000000004"}, {123456789012, "123456789012"},
        {DBL_MAX, "1.7976931348623157e+308"}, {NAN, "NaN"}, {INFINITY, "+Inf"}, {-INFINITY, "-Inf"},
    };
    char out[NUMBER_TEXT_MAX];
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        assert_int_equal(number_text_double(row[i].v, out), strlen(row[i].text));
        assert_string_equal(out, row[i].text);
    }
    number_text_u64(UINT64_MAX, out);
    assert_string_equal(out, "18446744073709551615");
    number_text_u64(0, out);
    assert_string_equal(out, "0");
    number_text_i64(INT64_MIN, out);
    assert_string_equal(out, "-9223372036854775808");
    number_text_i64(-1, out);
    assert_string_equal(out, "-1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counter),     cmocka_unit_test(test_threads), cmocka_unit_test(test_histogram),
        cmocka_unit_test(test_render),      cmocka_unit_test(test_text_bounds), cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
