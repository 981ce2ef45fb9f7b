/* Chunked framing: whole, cut at every place, byte by byte; what must be refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "needle/err.h"
#include "net/http_parse.h"

static char got[65536];
static size_t got_n, used_n;

static int feed(struct http_chunked *c, struct bytes in)
{
    while (in.n > 0) {
        struct bytes data;
        size_t consumed = 0;
        int rc = http_chunked_feed(c, in, &data, &consumed);
        if (rc < 0)
            return rc;
        assert_true(consumed <= in.n);
        memcpy(got + got_n, data.p != NULL ? data.p : "", data.n);
        got_n += data.n;
        used_n += consumed;
        in = bytes_of(in.p + consumed, in.n - consumed);
        if (rc == 1)
            return 1;
    }
    return 0;
}

/* In pieces of `step` bytes. */
static int feed_in_steps(struct bytes in, size_t step)
{
    struct http_chunked c;
    http_chunked_init(&c);
    got_n = used_n = 0;
    int rc = 0;
    for (size_t at = 0; at < in.n && rc == 0; at += step)
        rc = feed(&c, bytes_of(in.p + at, in.n - at < step ? in.n - at : step));
    return rc;
}

static void test_good(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out, *rest;
    } t[] = {
        {"0\r\n\r\n", "", ""},
        {"5\r\nhello\r\n0\r\n\r\n", "hello", ""},
        {"5\r\nhello\r\n7\r\n, chunk\r\n0\r\n\r\nGET /", "hello, chunk", "GET /"},
        {"A\r\n0123456789\r\n00000\r\n\r\n", "0123456789", ""},
        {"a;x=y\r\n0123456789\r\n0 ; last\r\n\r\n", "0123456789", ""},
        {"3\r\nabc\r\n0\r\nX-Trailer: 1\r\nY: 2\r\n\r\nz", "abc", "z"},
        {"4\r\n\r\n\r\n\r\n0\r\n\r\n", "\r\n\r\n", ""},
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        size_t all = strlen(t[i].in);
        for (size_t step = 1; step <= all; step++) {
            assert_int_equal(feed_in_steps(bytes_str(t[i].in), step), 1);
            assert_int_equal(got_n, strlen(t[i].out));
            assert_memory_equal(got, t[i].out, got_n);
            assert_int_equal(used_n, all - strlen(t[i].rest));
        }
        /* Cut anywhere, it is not complete. */
        for (size_t n = 0; n < all - strlen(t[i].rest); n++)
            assert_int_equal(feed_in_steps(bytes_of(t[i].in, n), 3), 0);
    }
}

static void test_bad(void **state)
{
    (void)state;
    static const struct bytes t[] = {
        BYTES_LIT("zz\r\nabc\r\n"),
        BYTES_LIT("\r\n"),
        BYTES_LIT("-1\r\n"),
        BYTES_LIT("+1\r\na\r\n"),
        BYTES_LIT("0x3\r\nabc\r\n"),
        BYTES_LIT("3\nabc\n0\n\n"),
        BYTES_LIT("3\r\nabcdef\r\n0\r\n\r\n"),
        BYTES_LIT("3\r\nabc0\r\n\r\n"),
        BYTES_LIT("3\r\nabc\n0\r\n\r\n"),
        BYTES_LIT("3\rabc\r\n"),
        BYTES_LIT("3;\0\r\nabc"),
        BYTES_LIT("3;a\nabc"),
        BYTES_LIT("ffffffffffffffff\r\n"),
        BYTES_LIT("8000000000000000\r\n"),
        BYTES_LIT("10000000000000000\r\n"),
        BYTES_LIT("0\r\n\n"),
        BYTES_LIT("0\r\nA: b\n\r\n"),
        BYTES_LIT("0\r\nA: \0\r\n\r\n"),
        BYTES_LIT("0\r\n\rX"),
        BYTES_LIT(" 3\r\nabc"),
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++)
        for (size_t step = 1; step <= t[i].n; step++)
            assert_int_equal(feed_in_steps(t[i], step), DFS_EPROTO);
}

static void test_limits(void **state)
{
    (void)state;
    char line[HTTP_CHUNK_LINE_MAX + 64], *p = stpcpy(line, "1;");
    memset(p, 'e', HTTP_CHUNK_LINE_MAX);
    strcpy(p + HTTP_CHUNK_LINE_MAX - 3, "\r\na\r\n0\r\n\r\n"); /* with its CR exactly the limit */
    assert_int_equal(feed_in_steps(bytes_str(line), 7), 1);
    memset(p, 'e', HTTP_CHUNK_LINE_MAX);
    strcpy(p + HTTP_CHUNK_LINE_MAX - 2, "\r\na\r\n0\r\n\r\n");
    assert_int_equal(feed_in_steps(bytes_str(line), 7), DFS_EPROTO);

    static char trailers[HTTP_TRAILERS_MAX + 4096];
    p = stpcpy(trailers, "0\r\n");
    while (p < trailers + HTTP_TRAILERS_MAX + 64)
        p = stpcpy(p, "X: y\r\n");
    assert_int_equal(feed_in_steps(bytes_str(trailers), 100), DFS_EPROTO);

    /* A size that is all zeros does not go on for ever either. */
    memset(line, '0', sizeof line);
    assert_int_equal(feed_in_steps(bytes_of(line, sizeof line), 11), DFS_EPROTO);
}

static void test_large_chunk_is_one_run(void **state)
{
    (void)state;
    struct http_chunked c;
    static char big[10000];
    struct bytes data;
    size_t consumed;
    http_chunked_init(&c);
    memset(big, 'x', sizeof big);
    memcpy(big, "7fffffffffffffff\r\n", 18);
    assert_int_equal(http_chunked_feed(&c, bytes_of(big, sizeof big), &data, &consumed), 0);
    assert_int_equal(consumed, sizeof big);
    assert_int_equal(data.n, sizeof big - 18);
    assert_ptr_equal(data.p, big + 18);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_large_chunk_is_one_run),
    };
    return cmocka_run_group_tests_name("http_chunked", tests, NULL, NULL);
}
