/* Randomness: every size is filled, results of rand_below stay below, a seed repeats. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "net/rand.h"

static void test_every_size_is_filled(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 4, 7, 8, 63, 255, 256, 257, 512, 513, 5000};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        /* Each byte must become non-zero in one of 200 tries: the odds against are 256^-200. */
        unsigned char seen[5001] = {0}, got[5001];
        for (int i = 0; i < 200; i++) {
            memset(got, 0, sizeof got);
            rand_bytes(got, sizes[s]);
            for (size_t b = 0; b < sizeof got; b++)
                seen[b] |= got[b];
        }
        for (size_t b = 0; b < sizes[s]; b++)
            assert_int_not_equal(seen[b], 0);
        assert_int_equal(seen[sizes[s]], 0);
    }
}

static void test_no_repeats(void **state)
{
    (void)state;
    uint64_t got[300];
    for (int i = 0; i < 300; i++) {
        got[i] = rand_u64();
        for (int k = 0; k < i; k++)
            assert_true(got[i] != got[k]);
    }
}

static void test_below(void **state)
{
    (void)state;
    uint32_t counts[7] = {0};
    for (int i = 0; i < 7000; i++) {
        uint32_t v = rand_below(7);
        assert_true(v < 7);
        counts[v]++;
    }
    for (int i = 0; i < 7; i++)
        assert_true(counts[i] > 700); /* expected 1000, deviation 29 */
    assert_int_equal(rand_below(1), 0);
    for (int i = 0; i < 100; i++)
        assert_true(rand_below(0x80000001u) <= 0x80000000u);
}

static void test_seed_repeats(void **state)
{
    (void)state;
    unsigned char a[100], b[100];
    rand_seed_for_tests(42);
    rand_bytes(a, sizeof a);
    uint32_t x = rand_below(1000);
    rand_seed_for_tests(42);
    rand_bytes(b, sizeof b);
    assert_memory_equal(a, b, sizeof a);
    assert_int_equal(rand_below(1000), x);
    rand_seed_for_tests(43);
    rand_bytes(b, sizeof b);
    assert_memory_not_equal(a, b, sizeof a);
}

int main(void)
{
    if (rand_init() != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_size_is_filled),
        cmocka_unit_test(test_no_repeats),
        cmocka_unit_test(test_below),
        cmocka_unit_test(test_seed_repeats), /* last: it stays seeded */
    };
    return cmocka_run_group_tests_name("rand", tests, NULL, NULL);
}
