/* needle/bytes.h: views, big-endian numbers at any address, the grid of eight. */
#include "needle_test.h"

static void numbers(void **state)
{
    uint8_t b[16];

    (void)state;
    for (size_t at = 0; at < 8; at++) {
        be16_put(b + at, 0x0102);
        assert_memory_equal(b + at, "\x01\x02", 2);
        assert_int_equal(be16_get(b + at), 0x0102);
        be32_put(b + at, 0xfefdfcfb);
        assert_memory_equal(b + at, "\xfe\xfd\xfc\xfb", 4);
        assert_int_equal(be32_get(b + at), 0xfefdfcfb);
        be64_put(b + at, 0x8182838485868788ull);
        assert_memory_equal(b + at, "\x81\x82\x83\x84\x85\x86\x87\x88", 8);
        assert_true(be64_get(b + at) == 0x8182838485868788ull);
    }
}

static void views(void **state)
{
    (void)state;
    assert_true(bytes_eq(BYTES_NONE, bytes_of("x", 0)));
    assert_true(bytes_eq(BYTES_LIT("ab"), bytes_str("ab")));
    assert_false(bytes_eq(BYTES_LIT("ab"), BYTES_LIT("abc")));
    assert_false(bytes_eq(BYTES_LIT("ab"), BYTES_LIT("ac")));
    assert_int_equal(bytes_str(NULL).n, 0);
}

static void grid(void **state)
{
    (void)state;
    assert_int_equal(align8_up(0), 0);
    assert_int_equal(align8_up(1), 8);
    assert_int_equal(align8_up(8), 8);
    assert_int_equal(align8_up(9), 16);
    assert_true(align8_up((1ull << 43) - 1) == 1ull << 43);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers), cmocka_unit_test(views), cmocka_unit_test(grid)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
