/* Pictures: ticks that people would choose, labels, texts that are escaped and cut, and pages that end whatever was measured. */
#include "tests/unit/bench/unit.h"

#include <math.h>

#include "bench/axis.h"
#include "bench/plot.h"
#include "bench/progress.h"
#include "bench/svg.h"

static void expect_labels(const struct axis *a, const char *want)
{
    char got[1024] = "";

    for (uint32_t i = 0; i < a->tick_count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", i > 0 ? "|" : "", a->labels[i]);
    assert_string_equal(got, want);
}

static void chooses_ticks(void **state)
{
    struct axis a;

    (void)state;
    axis_linear(&a, 1143, 6);
    expect_labels(&a, "0|200|400|600|800|1000|1200");
    axis_linear(&a, 0, 5);
    expect_labels(&a, "0|0.2|0.4|0.6|0.8|1.0");
    axis_linear(&a, 149000, 5);
    expect_labels(&a, "0|50k|100k|150k");
    axis_to(&a, 3.2, 10);
    expect_labels(&a, "0|0.5|1.0|1.5|2.0|2.5|3.0");
    axis_to(&a, 600, 10);
    expect_labels(&a, "0|100|200|300|400|500|600");
    axis_log_ms(&a, 3.3, 5000);
    expect_labels(&a, "3 ms|10 ms|30 ms|100 ms|300 ms|1 s|3 s|10 s");
    axis_log_ms(&a, 0.2, 0.2);
    assert_true(a.low <= 0.2 && a.high > a.low);
    axis_percentile(&a, 5000);
    expect_labels(&a, "50|90|99|99.9");
    axis_percentile(&a, 0);
    expect_labels(&a, "50|90|99");
}

/* Whatever the numbers: a few ticks, in order, that hold what is shown. */
static void holds_any_range(void **state)
{
    (void)state;
    for (double max = 1e-9; max < 1e15; max *= 1.37) {
        struct axis a;
        axis_linear(&a, max, 6);
        assert_true(a.tick_count >= 2 && a.tick_count <= 8 && a.high >= max * (1 - 1e-9));
        axis_log_ms(&a, max / 1e7, max);
        assert_true(a.tick_count >= 2 && a.low < a.high);
        for (uint32_t i = 1; i < a.tick_count; i++)
            assert_true(a.ticks[i] > a.ticks[i - 1]);
    }
    struct axis a;
    axis_log_ms(&a, NAN, INFINITY);
    assert_true(a.low < a.high);
}

static void finds_places(void **state)
{
    struct axis a;

    (void)state;
    axis_linear(&a, 100, 5);
    a.from_px = 300;
    a.to_px = 100;
    assert_true(axis_px(&a, 50) == 200 && axis_px(&a, -5) == 300 && axis_px(&a, 1e9) == 100);
    axis_percentile(&a, 100000);
    a.from_px = 0;
    a.to_px = 500;
    assert_true(fabs(axis_px(&a, 90) - 100) < 1e-6 && fabs(axis_px(&a, 99.9) - 300) < 1e-6 && axis_px(&a, 100) == 500);
}

static void escapes_texts(void **state)
{
    struct svg s;

    (void)state;
    svg_init(&s);
    svg_escaped(&s, "a<b>&\"c\"\x01\xc3\xa9\xff\xef\xbf\xbf");
    assert_int_equal(s.rc, 0);
    svg_add(&s, "%c", '\0');
    assert_string_equal(s.p, "a&lt;b&gt;&amp;&quot;c&quot; \xc3\xa9\xef\xbf\xbd\xef\xbf\xbd");
    svg_release(&s);
    assert_int_equal(svg_text_fit("abcd", 10, 0), 0);
    assert_int_equal(svg_text_fit("abcd", 10, 1000), 4);
}

static char *page_of(struct run_result *const *runs, uint32_t n)
{
    struct text t;

    assert_int_equal(plot_write(text_open(&t), runs, n), 0);
    fclose(t.f);
    assert_non_null(strstr(t.p, "</svg>\n"));
    assert_null(strstr(t.p, "nan"));
    return t.p;
}

static void draws_stalls_and_nothing(void **state)
{
    struct run_result r, *runs[PLOT_RUNS_MAX];
    struct run_phase *p;
    char *page;

    (void)state;
    run_result_init(&r);
    run_text_set(r.meta.label, sizeof r.meta.label, "<script>alert(1)</script>");
    runs[0] = &r;
    page = page_of(runs, 1);
    assert_null(strstr(page, "<script"));
    assert_non_null(strstr(page, "nothing was measured"));
    free(page);
    assert_int_equal(run_result_add_phase(&r, "write", &p), 0);
    for (uint64_t i = 0; i < 2000; i++)
        assert_int_equal(run_phase_add_second(p, &(struct run_second){.seconds = 1, .completed = i % 500 == 7 ? 0 : 50}), 0);
    p->completed = 100000;
    p->seconds = 2000;
    page = page_of(runs, 1);
    assert_non_null(strstr(page, "fill-opacity")); /* four seconds in groups of three are still there */
    assert_non_null(strstr(page, "4 s"));
    free(page);
    for (uint32_t i = 0; i < PLOT_RUNS_MAX; i++)
        runs[i] = &r;
    free(page_of(runs, PLOT_RUNS_MAX));
    run_result_release(&r);
}

static void tells_progress(void **state)
{
    struct progress_state s = {.what = "write", .share = 0.25, .elapsed_s = 10, .requests_per_s = 95, .bytes_per_s = 95 * 4194304.0,
                               .completed = 950};
    char line[PROGRESS_LINE_MAX];
    size_t n;

    (void)state;
    n = progress_line(&s, 80, line);
    assert_int_equal(n, strlen(line));
    assert_string_equal(line, "write [======>                   ]  25%  380.0 MiB/s, 95/s, 950 done, 30 s left");
    s.share = -1;
    s.bytes_per_s = -1;
    s.failed = 2;
    progress_line(&s, 80, line);
    assert_string_equal(line, "write  95/s, 950 done, 2 failed");
    assert_true(progress_line(&s, 20, line) < 20);
    assert_string_equal(line, "write  2 failed");
    /* What matters most stays: how far, and how long still. */
    s = (struct progress_state){.what = "write", .share = 0.25, .elapsed_s = 10, .requests_per_s = 95, .bytes_per_s = 95 * 4194304.0,
                                .completed = 950};
    progress_line(&s, 40, line);
    assert_string_equal(line, "write  25%  95/s, 950 done, 30 s left");
    progress_line(&s, 32, line);
    assert_string_equal(line, "write  25%  95/s, 30 s left");
    progress_line(&s, 24, line);
    assert_string_equal(line, "write  25%  30 s left");
    for (uint32_t columns = PROGRESS_COLUMNS_MIN; columns < 200; columns++) {
        n = progress_line(&s, columns, line);
        assert_true(n < columns && n == strlen(line) && strstr(line, "25%  ") != NULL && strstr(line, " s left") != NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chooses_ticks),  cmocka_unit_test(holds_any_range),          cmocka_unit_test(finds_places),
        cmocka_unit_test(escapes_texts),  cmocka_unit_test(draws_stalls_and_nothing), cmocka_unit_test(tells_progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
