/* A random order visits everything once, differs from seed to seed, and is spread. */
#include "tests/unit/bench/unit.h"

#include "bench/record_order.h"

static void check_permutation(uint64_t n, uint64_t seed)
{
    unsigned char *seen = calloc(n, 1);
    struct record_order o;

    assert_non_null(seen);
    record_order_init(&o, n, seed);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = record_order_at(&o, i);
        assert_true(at < n);
        assert_int_equal(seen[at], 0);
        seen[at] = 1;
    }
    free(seen);
}

static void test_every_one_once(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 300; n++)
        for (uint64_t seed = 0; seed < 5; seed++)
            check_permutation(n, seed);
    check_permutation(65535, 7);
    check_permutation(65536, 7);
    check_permutation(65537, 7);
    check_permutation(1000003, 11);
}

static void test_far_ends(void **state)
{
    struct record_order o;

    (void)state;
    record_order_init(&o, 1ull << 60, 3);
    for (uint64_t i = 0; i < 1000; i++)
        assert_true(record_order_at(&o, (1ull << 60) - 1 - i) < 1ull << 60);
}

static void test_seeds_differ(void **state)
{
    struct record_order a, b, c;
    uint32_t same_b = 0, same_c = 0;

    (void)state;
    record_order_init(&a, 10000, 1);
    record_order_init(&b, 10000, 2);
    record_order_init(&c, 10000, 1);
    for (uint64_t i = 0; i < 10000; i++) {
        same_b += record_order_at(&a, i) == record_order_at(&b, i);
        same_c += record_order_at(&a, i) == record_order_at(&c, i);
    }
    assert_true(same_b < 20); /* one is to be expected */
    assert_int_equal(same_c, 10000);
}

/* Neither in order nor in runs: the first tenth of the visits falls into each tenth of the places alike. */
static void test_is_spread(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct record_order o;
        uint32_t tenth[10] = {0}, next_door = 0;
        uint64_t last = 0;
        record_order_init(&o, 100000, seed);
        for (uint64_t i = 0; i < 10000; i++) {
            uint64_t at = record_order_at(&o, i);
            tenth[at / 10000]++;
            next_door += i > 0 && at == last + 1;
            last = at;
        }
        for (int t = 0; t < 10; t++)
            assert_in_range(tenth[t], 800, 1200);
        assert_true(next_door < 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_one_once), cmocka_unit_test(test_far_ends), cmocka_unit_test(test_seeds_differ),
        cmocka_unit_test(test_is_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
