/* An open loop against a clock that the test turns. */
#include "tests/unit/bench/unit.h"

#include <math.h>

#include "bench/arrivals.h"

#define START 5000000000u

static void test_times(void **state)
{
    struct arrivals a;
    uint64_t due, last = 0, n = 0;

    (void)state;
    /* 3 a second for 10 s: 30, none of them beyond the end, and none drifts. */
    arrivals_init(&a, START, 3, 10);
    while (arrivals_take(&a, &due)) {
        assert_true(due >= START && due < START + 10000000000u);
        assert_true(n == 0 || due > last);
        assert_true(fabs((double)(due - START) - (double)n * 1e9 / 3) < 2);
        last = due;
        n++;
    }
    assert_int_equal(n, 30);
    assert_false(arrivals_take(&a, &due));
    assert_int_equal(arrivals_missed(&a, UINT64_MAX), 0);
    arrivals_init(&a, START, 1e6, 0);
    for (n = 0; n < 2500000; n++)
        assert_true(arrivals_take(&a, &due));
    assert_int_equal(due, START + 2499999000u);
}

static void test_missed(void **state)
{
    struct arrivals a;
    uint64_t due;

    (void)state;
    arrivals_init(&a, START, 100, 2);
    assert_int_equal(arrivals_missed(&a, START), 0);
    assert_int_equal(arrivals_missed(&a, START - 1), 0);
    assert_int_equal(arrivals_missed(&a, START + 1), 1);
    for (int i = 0; i < 50; i++)
        assert_true(arrivals_take(&a, &due));
    assert_int_equal(arrivals_missed(&a, START + 500000000u), 0);
    assert_int_equal(arrivals_missed(&a, START + 1000000000u), 50);
    assert_int_equal(arrivals_missed(&a, START + 9000000000u), 150);
}

/* One slot, 100 arrivals a second, each served in 5 ms but for one that takes a second: those behind it have waited, and the
 * time they waited is counted, as no closed loop would. */
static void test_waiting_counts(void **state)
{
    struct arrivals a;
    uint64_t due, now = START, late = 0, longest = 0, n = 0;

    (void)state;
    arrivals_init(&a, START, 100, 10);
    while (now < START + 10000000000u && arrivals_take(&a, &due)) {
        if (now < due)
            now = due;
        now += n == 300 ? 1000000000u : 5000000u;
        late += now - due > 100000000u;
        longest = now - due > longest ? now - due : longest;
        n++;
    }
    assert_int_equal(n, 1000);
    assert_int_equal(longest, 1000000000u);
    /* Number k behind the slow one is done 1000 - 5k ms after it was due: more than 100 ms up to k = 179. */
    assert_int_equal(late, 180);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_missed),
        cmocka_unit_test(test_waiting_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
