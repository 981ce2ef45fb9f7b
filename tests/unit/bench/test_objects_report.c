/* The table and the summary, to the letter. */
#include "tests/unit/bench/unit.h"

#include "bench/objects_report.h"

static void test_table(void **state)
{
    struct objects_table t;
    struct text x;
    struct load_second s = {.at_s = 1.0, .seconds = 1.0, .started = 122, .finished = 106, .bytes = 106ull << 22, .in_flight = 16,
                            .latency_last_s = 0.130484, .latency_avg_s = 0.139937};

    (void)state;
    objects_table_begin(&t, text_open(&x), false);
    objects_table_line(&t, &s);
    /* Nothing finished: no last latency, but an average. */
    s = (struct load_second){.at_s = 2.001, .seconds = 1.001, .in_flight = 16, .latency_last_s = -1, .latency_avg_s = 0.139937};
    objects_table_line(&t, &s);
    /* What is left over at the end is no second, but counts. */
    s = (struct load_second){.at_s = 2.1, .seconds = 0.1, .finished = 16, .bytes = 16ull << 22, .latency_last_s = 1};
    objects_table_line(&t, &s);
    assert_int_equal(t.finished, 122);
    text_expect(&x, "  sec Cur ops   started  finished  avg MB/s  cur MB/s last lat(s)  avg lat(s)\n"
                    "    0       0         0         0         0         0           -           0\n"
                    "    1      16       122       106       424       424    0.130484    0.139937\n"
                    "    2      16       122       106   211.894         0           -    0.139937\n");
}

static void fill(struct run_result *r, struct run_phase **p)
{
    static const uint64_t finished[] = {95, 110, 65};
    run_result_init(r);
    assert_int_equal(run_result_add_phase(r, "write", p), 0);
    for (int i = 0; i < 3; i++) {
        struct run_second s = {.seconds = 1, .completed = finished[i], .bytes = finished[i] << 22, .avg_ms = 1, .max_ms = 1};
        assert_int_equal(run_phase_add_second(*p, &s), 0);
        (*p)->completed += finished[i];
        (*p)->bytes += finished[i] << 22;
    }
    latency_add(&(*p)->latency, 100000000);
    latency_add(&(*p)->latency, 300000000);
    (*p)->seconds = 3.2;
}

static void test_summary(void **state)
{
    struct objects_summary s = {true, 4u << 20, 4u << 20};
    struct run_result r;
    struct run_phase *p;
    struct text x;

    (void)state;
    fill(&r, &p);
    objects_summary_print(text_open(&x), &s, p);
    text_expect(&x, "Total time run:         3.2\nTotal writes made:      270\nWrite size:             4194304\n"
                    "Object size:            4194304\nBandwidth (MB/sec):     337.5\nStddev Bandwidth:       91.6515\n"
                    "Max bandwidth (MB/sec): 440\nMin bandwidth (MB/sec): 260\nAverage IOPS:           84\n"
                    "Stddev IOPS:            22.9129\nMax IOPS:               110\nMin IOPS:               65\n"
                    "Average Latency(s):     0.2\nStddev Latency(s):      0.1\nMax latency(s):         0.3\n"
                    "Min latency(s):         0.1\n");
    s = (struct objects_summary){false, 65536, 4u << 20};
    objects_summary_print(text_open(&x), &s, p);
    text_expect(&x, "Total time run:         3.2\nTotal reads made:       270\nRead size:              65536\n"
                    "Object size:            4194304\nBandwidth (MB/sec):     337.5\nAverage IOPS:           84\n"
                    "Stddev IOPS:            22.9129\nMax IOPS:               110\nMin IOPS:               65\n"
                    "Average Latency(s):     0.2\nMax latency(s):         0.3\nMin latency(s):         0.1\n");
    run_result_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_summary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
