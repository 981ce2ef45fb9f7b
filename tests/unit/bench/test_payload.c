/* Content from keys: the same in any pieces and on any machine, different for any two keys, and not compressible. */
#include "tests/unit/bench/unit.h"

#include <zlib.h>

#include "bench/payload.h"

#define BYTES 5000u

static void test_first_bytes_are_the_key(void **state)
{
    (void)state;
    unsigned char b[16];
    payload_fill(0x1122334455667788u, 0, b, sizeof b);
    const unsigned char want[8] = {0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
    assert_memory_equal(b, want, 8);
}

/* A change of these bytes makes lists of older runs unreadable. */
static void test_content_is_fixed(void **state)
{
    (void)state;
    unsigned char b[64];
    payload_fill(1, 0, b, sizeof b);
    const unsigned char want[24] = {0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xdc, 0x71, 0xee, 0x8c,
                                    0x03, 0x66, 0x14, 0x23, 0xc5, 0x47, 0x6b, 0x29, 0x3e, 0xad, 0x68, 0xb7};
    assert_memory_equal(b, want, sizeof want);
    assert_int_equal(payload_bytes(1, 1024), 1024 + 33);
}

static void test_pieces_make_the_whole(void **state)
{
    (void)state;
    static char whole[BYTES], pieces[BYTES];
    uint64_t seed = 7;
    payload_fill(42, 0, whole, BYTES);
    for (int round = 0; round < 200; round++) {
        size_t at = 0;
        memset(pieces, 0, sizeof pieces);
        while (at < BYTES) {
            size_t n = 1 + next_random(&seed) % (round % 2 == 0 ? 70 : 900);
            if (n > BYTES - at)
                n = BYTES - at;
            payload_fill(42, at, pieces + at, n);
            assert_true(payload_matches(42, at, whole + at, n));
            at += n;
        }
        assert_memory_equal(whole, pieces, BYTES);
    }
}

static uint64_t mix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* The content once more, a byte at a time. */
static unsigned char byte_at(uint64_t key, uint64_t at)
{
    uint64_t m = mix64(key);
    uint32_t x = (uint32_t)(at / 4) + (uint32_t)m;
    if (at < 8)
        return (unsigned char)(key >> 8 * at);
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15 ^ (uint32_t)(m >> 32)) * 0x846ca68bu;
    x ^= x >> 16;
    return (unsigned char)(x >> 8 * (at % 4));
}

static void test_vectors_equal_scalars(void **state)
{
    (void)state;
    static unsigned char a[BYTES];
    uint64_t seed = 3;
    for (int i = 0; i < 300; i++) {
        uint64_t key = next_random(&seed), at = next_random(&seed) % 100000;
        size_t n = next_random(&seed) % BYTES;
        payload_fill(key, at, a, n);
        for (size_t j = 0; j < n; j++)
            assert_int_equal(a[j], byte_at(key, at + j));
        payload_fill(key, 0, a, 40);
        for (size_t j = 0; j < 40; j++)
            assert_int_equal(a[j], byte_at(key, j));
    }
}

static void test_every_wrong_byte_is_seen(void **state)
{
    (void)state;
    static char b[300];
    for (size_t n = 0; n <= sizeof b; n += 37) {
        payload_fill(9, 3, b, n);
        assert_true(payload_matches(9, 3, b, n));
        for (size_t i = 0; i < n; i++) {
            b[i] ^= (char)(1 << i % 8);
            assert_false(payload_matches(9, 3, b, n));
            b[i] ^= (char)(1 << i % 8);
        }
    }
}

static void test_wrong_key_or_place_is_seen(void **state)
{
    (void)state;
    static char b[1024];
    payload_fill(5, 0, b, sizeof b);
    assert_false(payload_matches(6, 0, b, sizeof b));
    assert_false(payload_matches(5, 32, b, sizeof b));
    /* Behind the key too. */
    assert_false(payload_matches(6, 8, b + 8, sizeof b - 8));
}

static void test_lengths(void **state)
{
    (void)state;
    uint32_t seen[PAYLOAD_EXTRA_MAX + 1] = {0};
    for (uint64_t key = 0; key < 64000; key++) {
        uint64_t n = payload_bytes(key, 1024);
        assert_in_range(n, 1024, 1024 + PAYLOAD_EXTRA_MAX);
        assert_int_equal(n - 1024, payload_bytes(key, 1000000) - 1000000);
        seen[n - 1024]++;
    }
    for (size_t i = 0; i <= PAYLOAD_EXTRA_MAX; i++)
        assert_in_range(seen[i], 700, 1300);
}

static void test_not_compressible(void **state)
{
    (void)state;
    enum { OBJECTS = 256, SIZE = 1024 };
    static unsigned char in[OBJECTS * SIZE], out[OBJECTS * SIZE * 2];
    uLongf n = sizeof out;
    for (uint64_t i = 0; i < OBJECTS; i++)
        payload_fill(1000 + i, 0, in + i * SIZE, SIZE);
    assert_int_equal(compress2(out, &n, in, sizeof in, 9), Z_OK);
    assert_true(n > sizeof in * 98 / 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_bytes_are_the_key),
        cmocka_unit_test(test_content_is_fixed),
        cmocka_unit_test(test_pieces_make_the_whole),
        cmocka_unit_test(test_vectors_equal_scalars),
        cmocka_unit_test(test_every_wrong_byte_is_seen),
        cmocka_unit_test(test_wrong_key_or_place_is_seen),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_not_compressible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
