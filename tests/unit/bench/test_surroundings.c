/* The texts that a run's surroundings are read from. */
#include "tests/unit/bench/unit.h"

#include "bench/surroundings.h"

static void test_metric(void **state)
{
    static const char text[] = "# HELP a_total b\n# TYPE a_total counter\na_total_more 5\na_total{x=\"1\"} 6\n"
                               "a_total 1.2345e+06\nz 1\nbad x\n";
    (void)state;
    assert_int_equal(surroundings_metric(text, "a_total"), 1234500);
    assert_int_equal(surroundings_metric(text, "z"), 1);
    assert_int_equal(surroundings_metric(text, "bad"), SURROUNDINGS_UNKNOWN);
    assert_int_equal(surroundings_metric(text, "none"), SURROUNDINGS_UNKNOWN);
    assert_int_equal(surroundings_metric("", "z"), SURROUNDINGS_UNKNOWN);
}

static void test_field(void **state)
{
    static const char text[] = "rchar: 1\nread_bytes: 4096\nMemTotal:       24588704 kB\nDirty:               196 kB\nDirtyMore: 7\n";
    (void)state;
    assert_int_equal(surroundings_field(text, "read_bytes"), 4096);
    assert_int_equal(surroundings_field(text, "Dirty"), 196);
    assert_int_equal(surroundings_field(text, "MemTotal"), 24588704);
    assert_int_equal(surroundings_field(text, "bytes"), SURROUNDINGS_UNKNOWN);
    assert_int_equal(surroundings_field("x:", "x"), SURROUNDINGS_UNKNOWN);
    assert_int_equal(surroundings_field("x: -3", "x"), SURROUNDINGS_UNKNOWN);
}

static void test_disk(void **state)
{
    static const char text[] = "   7       0 loop0 1 2 3 4 5 6 7 8 9 10 11 0 0 0 0 0 0\n"
                               " 254       0 vda 100 1 2 3 200 4 5 6 3 8 9 0 0 0 0 0 0\nrubbish\n 254 1 vda1 10 1 2 3 20 4 5 6 0 8 9\n";
    uint64_t done = 9, busy = 9;
    (void)state;
    assert_true(surroundings_disk(text, 254, 0, &done, &busy));
    assert_int_equal(done, 300);
    assert_int_equal(busy, 3);
    assert_true(surroundings_disk(text, 254, 1, &done, &busy));
    assert_int_equal(done, 30);
    assert_int_equal(busy, 0);
    assert_false(surroundings_disk(text, 8, 0, &done, &busy));
    assert_false(surroundings_disk("", 8, 0, &done, &busy));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metric),
        cmocka_unit_test(test_field),
        cmocka_unit_test(test_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
