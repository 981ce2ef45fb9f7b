/* needle/crc.c: known values, both implementations against each other and against a bit-by-bit one. */
#include "needle_test.h"

#include <sys/mman.h>
#include <unistd.h>

static uint32_t crc_by_bits(uint32_t crc, const uint8_t *p, size_t n)
{
    crc = ~crc;
    for (; n > 0; n--) {
        crc ^= *p++;
        for (int i = 0; i < 8; i++)
            crc = crc >> 1 ^ (0x82f63b78u & -(crc & 1));
    }
    return ~crc;
}

static void known_values(void **state)
{
    uint8_t bytes[1024];

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c(0, "hello world\n", 12), 0xf0ff7292);
    assert_int_equal(crc32c(0, NULL, 0), 0);
    assert_int_equal(crc32c(0xdeadbeef, NULL, 0), 0xdeadbeef);
    assert_int_equal(crc32c(0, bytes, sizeof bytes), 0x2cdf6e8f);
    assert_int_equal(crc32c_zeros(0, 1080), 0xbb25a722);
    assert_int_equal(crc32c_mask(0xe3069283), 0xc78ab0e5);
    assert_int_equal(crc32c_mask(0), 0xa282ead8);
    assert_int_equal(crc32c_mask(0x2cdf6e8f), 0x7fa14496);
    assert_int_equal(crc32c_mask(0x44606d7d), 0x7d7d7398);
    assert_int_equal(crc32c_mask(0xbb25a722), 0xf0c86123);
}

static void implementations_agree(void **state)
{
    uint64_t seed = test_seed();
    uint8_t buf[5000];

    (void)state;
    rnd_fill(&seed, buf, sizeof buf);
    for (size_t n = 0; n < 600; n++) {
        size_t at = rnd_below(&seed, 64);
        uint32_t start = (uint32_t)rnd(&seed);
        uint32_t right = crc_by_bits(start, buf + at, n);
        assert_int_equal(crc32c(start, buf + at, n), right);
        assert_int_equal(crc32c_portable(start, buf + at, n), right);
    }
    for (int i = 0; i < 200; i++) {
        size_t n = rnd_below(&seed, sizeof buf);
        assert_int_equal(crc32c(0, buf, n), crc32c_portable(0, buf, n));
    }
}

static void pieces_and_combination(void **state)
{
    uint64_t seed = test_seed();
    uint8_t buf[3000], zeros[3000] = {0};

    (void)state;
    rnd_fill(&seed, buf, sizeof buf);
    for (int i = 0; i < 500; i++) {
        size_t n = rnd_below(&seed, sizeof buf), cut = rnd_below(&seed, n + 1);
        uint32_t a = crc32c(0, buf, cut), b = crc32c(0, buf + cut, n - cut), whole = crc32c(0, buf, n);
        assert_int_equal(crc32c(a, buf + cut, n - cut), whole);
        assert_int_equal(crc32c_combine(a, b, n - cut), whole);
        assert_int_equal(crc32c_zeros(a, n), crc32c(a, zeros, n));
    }
    assert_int_equal(crc32c_zeros(crc32c_zeros(5, (uint64_t)1 << 40), 77), crc32c_zeros(5, ((uint64_t)1 << 40) + 77));
}

static void masks_round_trip(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int i = 0; i < 10000; i++) {
        uint32_t crc = (uint32_t)rnd(&seed);
        assert_int_equal(crc32c_unmask(crc32c_mask(crc)), crc);
        assert_true(crc32c_matches(crc, crc));
        assert_true(crc32c_matches(crc32c_mask(crc), crc));
        assert_false(crc32c_matches(crc ^ 1u << (i % 32), crc));
    }
}

/* The vector code must not look behind the last byte: put it against a page that cannot be read. */
static void stays_inside_its_bytes(void **state)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *p = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    assert_true(p != MAP_FAILED);
    assert_int_equal(mprotect(p + page, page, PROT_READ | PROT_WRITE), 0);
    memset(p + page, 0xa5, page);
    for (size_t n = 0; n <= 1100; n++) {
        assert_int_equal(crc32c(0, p + 2 * page - n, n), crc32c_portable(0, p + 2 * page - n, n));
        assert_int_equal(crc32c(0, p + page, n), crc32c_portable(0, p + page, n));
    }
    munmap(p, 3 * page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values),           cmocka_unit_test(implementations_agree),
        cmocka_unit_test(pieces_and_combination), cmocka_unit_test(masks_round_trip),
        cmocka_unit_test(stays_inside_its_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
