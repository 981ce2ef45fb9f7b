/* The figures of the seconds against the textbook's two passes. */
#include "tests/unit/bench/unit.h"

#include <math.h>

#include "bench/spread.h"

static void check(const double *v, uint32_t n)
{
    struct spread s = {0};
    double sum = 0, squares = 0, min = v[0], max = v[0];

    for (uint32_t i = 0; i < n; i++) {
        spread_add(&s, v[i]);
        sum += v[i];
        min = v[i] < min ? v[i] : min;
        max = v[i] > max ? v[i] : max;
    }
    for (uint32_t i = 0; i < n; i++)
        squares += (v[i] - sum / n) * (v[i] - sum / n);
    assert_int_equal(s.n, n);
    assert_true(s.min == min && s.max == max);
    assert_true(fabs(s.mean - sum / n) <= fabs(sum / n) * 1e-12);
    assert_true(fabs(spread_std(&s) - (n > 1 ? sqrt(squares / (n - 1)) : 0)) <= 1e-9 * fabs(max));
}

static void test_spread(void **state)
{
    /* Of a published run: 110 and 65 operations a second among others. */
    static const double seconds[] = {95, 110, 65, 102, 99, 88, 97, 104, 92, 108};
    static double many[1000];
    uint64_t seed = 7;

    (void)state;
    check(seconds, 10);
    check(seconds, 1);
    check(seconds, 2);
    for (int i = 0; i < 1000; i++)
        many[i] = 1e9 + (double)(next_random(&seed) % 1000);
    check(many, 1000);
    struct spread none = {0};
    assert_true(spread_std(&none) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
