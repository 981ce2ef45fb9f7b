/* gzip: limits, members, cuts, slices. */
#include <stdlib.h>
#include <string.h>
#include "tests/unit/net/unit.h"

#include "needle/err.h"
#include "net/gzip.h"

static char *text_of(size_t n)
{
    char *p = malloc(n + 1);
    uint32_t x = 7;
    assert_non_null(p);
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        p[i] = (char)('a' + (x >> 28));
    }
    return p;
}

static void round_trip(size_t n, int level)
{
    char *in = text_of(n), *packed = malloc(n + 100), *out = NULL;
    size_t packed_n = 0, out_n = 0;
    uint64_t length = 0;
    assert_int_equal(gzip_compress(bytes_of(in, n), level, packed, n + 100, &packed_n), 0);
    assert_true(gzip_looks_like(bytes_of(packed, packed_n)));
    assert_int_equal(gzip_inflate_all(bytes_of(packed, packed_n), n, &out, &out_n), 0);
    assert_int_equal(out_n, n);
    assert_memory_equal(out, in, n);
    free(out);
    assert_int_equal(gzip_inflated_bytes(bytes_of(packed, packed_n), n, &length), 0);
    assert_int_equal(length, n);
    if (n > 0) {
        assert_int_equal(gzip_inflate_all(bytes_of(packed, packed_n), n - 1, &out, &out_n), DFS_ETOOBIG);
        assert_int_equal(gzip_inflated_bytes(bytes_of(packed, packed_n), n - 1, &length), DFS_ETOOBIG);
        assert_int_equal(gzip_inflated_bytes(bytes_of(packed, packed_n), 0, &length), DFS_ETOOBIG);
    }
    /* Room that does not do. */
    size_t same = 99;
    assert_int_equal(gzip_compress(bytes_of(in, n), level, packed, packed_n - 1, &same), DFS_ETOOBIG);
    assert_int_equal(same, 99);
    assert_int_equal(gzip_compress(bytes_of(in, n), level, packed, packed_n, &same), 0);
    assert_int_equal(same, packed_n);
    assert_int_equal(gzip_compress(bytes_of(in, n), level, packed, 0, &same), DFS_ETOOBIG);
    free(in);
    free(packed);
}

static void test_round_trip(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 100, 4095, 4096, 4097, 65536, 65537, 300000};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        for (int level = 1; level <= 9; level += 4)
            round_trip(sizes[i], level);
}

/* Members a, b and padding in one buffer; *n its length. */
static char *two_members(size_t padding, size_t *n)
{
    char *p = calloc(1, 400 + padding);
    size_t a, b;
    assert_non_null(p);
    assert_int_equal(gzip_compress(BYTES_LIT("hello, "), 6, p, 200, &a), 0);
    assert_int_equal(gzip_compress(BYTES_LIT("world"), 6, p + a, 200, &b), 0);
    *n = a + b + padding;
    return p;
}

static void test_members(void **state)
{
    (void)state;
    size_t n, got;
    char *out;
    for (size_t padding = 0; padding < 3; padding++) {
        char *p = two_members(padding, &n);
        assert_int_equal(gzip_inflate_all(bytes_of(p, n), 12, &out, &got), 0);
        assert_bytes(bytes_of(out, got), "hello, world");
        free(out);
        assert_int_equal(gzip_inflate_all(bytes_of(p, n), 11, &out, &got), DFS_ETOOBIG);
        assert_int_equal(gzip_inflate_all(bytes_of(p, n), 7, &out, &got), DFS_ETOOBIG);
        free(p);
    }
    char *p = two_members(4, &n);
    p[n - 1] = 'x'; /* something behind the padding */
    assert_int_equal(gzip_inflate_all(bytes_of(p, n), 100, &out, &got), DFS_ECORRUPT);
    p[n - 4] = 'x'; /* something behind the member */
    assert_int_equal(gzip_inflate_all(bytes_of(p, n), 100, &out, &got), DFS_ECORRUPT);
    free(p);
}

static void test_corrupt(void **state)
{
    (void)state;
    size_t n, got;
    char *out;
    char *p = two_members(0, &n);
    size_t first;
    char one[200];
    assert_int_equal(gzip_compress(BYTES_LIT("hello, "), 6, one, sizeof one, &first), 0);
    for (size_t cut = 0; cut < n; cut++) {
        int rc = gzip_inflate_all(bytes_of(p, cut), 100, &out, &got);
        assert_int_equal(rc, cut == first ? 0 : DFS_ECORRUPT);
        if (rc == 0)
            free(out);
    }
    /* Its own length and check sum are not believed. */
    for (size_t i = 1; i <= 8; i++) {
        p[n - i] ^= 0x55;
        assert_int_equal(gzip_inflate_all(bytes_of(p, n), 100, &out, &got), DFS_ECORRUPT);
        p[n - i] ^= 0x55;
    }
    free(p);
    assert_int_equal(gzip_inflate_all(BYTES_LIT("not gzip at all"), 100, &out, &got), DFS_ECORRUPT);
    assert_int_equal(gzip_inflate_all(BYTES_LIT("\0\0\0"), 100, &out, &got), DFS_ECORRUPT);
    assert_false(gzip_looks_like(BYTES_LIT("\x1f\x8b")));
    assert_false(gzip_looks_like(BYTES_LIT("hello")));
    assert_false(gzip_looks_like(BYTES_NONE));
}

static void test_bomb(void **state)
{
    (void)state;
    size_t n = 64u << 20, packed_n, got;
    char *zeros = calloc(1, n), *packed = malloc(1u << 20), *out;
    uint64_t length;
    assert_non_null(zeros);
    assert_non_null(packed);
    assert_int_equal(gzip_compress(bytes_of(zeros, n), 1, packed, 1u << 20, &packed_n), 0);
    assert_int_equal(gzip_inflate_all(bytes_of(packed, packed_n), 8u << 20, &out, &got), DFS_ETOOBIG);
    assert_int_equal(gzip_inflated_bytes(bytes_of(packed, packed_n), 8u << 20, &length), DFS_ETOOBIG);
    assert_int_equal(gzip_inflated_bytes(bytes_of(packed, packed_n), n, &length), 0);
    assert_int_equal(length, n);
    free(zeros);
    free(packed);
}

/* Any sizes of slices in and out give the same text. */
static void test_slices(void **state)
{
    (void)state;
    size_t n = 5000, packed_n;
    char *in = text_of(n), packed[8192], out[6000];
    assert_int_equal(gzip_compress(bytes_of(in, n), 6, packed, sizeof packed, &packed_n), 0);
    size_t more;
    assert_int_equal(gzip_compress(BYTES_LIT("tail"), 6, packed + packed_n, sizeof packed - packed_n, &more), 0);
    packed_n += more;
    static const size_t slices[] = {1, 2, 3, 17, 100, 1000, 8192};
    for (size_t a = 0; a < ARRAY_LEN(slices); a++)
        for (size_t b = 0; b < ARRAY_LEN(slices); b++) {
            struct gzip_inflate *g;
            size_t at = 0, len = 0, got;
            struct bytes view = BYTES_NONE;
            int rc = 0;
            assert_int_equal(gzip_inflate_new(100000, &g), 0);
            while (rc == 0) {
                if (view.n == 0 && at < packed_n) {
                    size_t take = packed_n - at < slices[a] ? packed_n - at : slices[a];
                    view = bytes_of(packed + at, take);
                    at += take;
                }
                char slice[8192];
                rc = gzip_inflate_step(g, &view, at == packed_n, slice, slices[b], &got);
                assert_true(got <= slices[b] && len + got <= sizeof out);
                memcpy(out + len, slice, got);
                len += got;
            }
            assert_int_equal(rc, 1);
            assert_int_equal(len, n + 4);
            assert_int_equal(gzip_inflate_total(g), n + 4);
            assert_memory_equal(out, in, n);
            assert_memory_equal(out + n, "tail", 4);
            assert_int_equal(gzip_inflate_step(g, &view, true, out, 1, &got), 1);
            gzip_inflate_free(g);
        }
    /* Errors stick. */
    struct gzip_inflate *g;
    size_t got;
    struct bytes bad = BYTES_LIT("garbage garbage");
    assert_int_equal(gzip_inflate_new(10, &g), 0);
    assert_int_equal(gzip_inflate_step(g, &bad, true, out, 10, &got), DFS_ECORRUPT);
    bad = bytes_of(packed, packed_n);
    assert_int_equal(gzip_inflate_step(g, &bad, true, out, 10, &got), DFS_ECORRUPT);
    gzip_inflate_free(g);
    gzip_inflate_free(NULL);
    free(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_members), cmocka_unit_test(test_corrupt),
        cmocka_unit_test(test_bomb),       cmocka_unit_test(test_slices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
