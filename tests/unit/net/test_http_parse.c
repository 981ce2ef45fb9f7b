/* Heads of requests and responses: what is taken, what is refused and with which status, in one piece and byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "needle/err.h"
#include "net/http_parse.h"

static struct http_head head;

/* The bytes in a malloc of their exact size, so that the sanitizer sees a read beyond. */
static int parse_exact(struct bytes in, size_t *scanned, int *status)
{
    char *copy = malloc(in.n > 0 ? in.n : 1);
    memcpy(copy, in.p, in.n);
    int rc = http_parse_request(bytes_of(copy, in.n), scanned, &head, status);
    free(copy);
    return rc;
}

/* 0, or the status that the parser wants answered; -1 when it wants more bytes. */
static int verdict(struct bytes in)
{
    size_t scanned = 0;
    int status = 0;
    int rc = parse_exact(in, &scanned, &status);
    return rc == 0 ? 0 : rc == DFS_ESHORT ? -1 : status;
}

/* The same, fed one byte more at a time: the first verdict that is not "more". */
static int dripped_verdict(struct bytes in)
{
    size_t scanned = 0;
    for (size_t n = 1; n <= in.n; n++) {
        int status = 0;
        int rc = parse_exact(bytes_of(in.p, n), &scanned, &status);
        if (rc == 0)
            return 0;
        if (rc != DFS_ESHORT)
            return status;
        assert_true(scanned <= n);
    }
    return -1;
}

/* A head that stays valid for the caller's look at it. */
static void must_parse(const char *text)
{
    size_t scanned = 0;
    int status = 0;
    assert_int_equal(http_parse_request(bytes_str(text), &scanned, &head, &status), 0);
}

#define assert_bytes(b, text)                                  \
    do {                                                       \
        assert_int_equal((b).n, strlen(text));                 \
        assert_memory_equal((b).p, (text), strlen(text));      \
    } while (0)

static void test_simple_get(void **state)
{
    (void)state;
    must_parse("GET /3,01637037d6?a=b&c HTTP/1.1\r\nHost: h:1\r\nX-Empty:\r\nX-Blank: \t v w \t\r\n\r\nrest");
    assert_int_equal(head.method, HTTP_GET);
    assert_bytes(head.method_text, "GET");
    assert_bytes(head.target, "/3,01637037d6?a=b&c");
    assert_bytes(head.path, "/3,01637037d6");
    assert_bytes(head.query, "a=b&c");
    assert_int_equal(head.minor, 1);
    assert_int_equal(head.header_count, 3);
    assert_bytes(http_header_get(&head, "HOST"), "h:1");
    assert_bytes(http_header_get(&head, "x-empty"), "");
    assert_bytes(http_header_get(&head, "x-blank"), "v w");
    assert_null(http_header_get(&head, "x-absent").p);
    assert_true(head.keep_alive);
    assert_false(head.has_length || head.chunked || head.expect_continue || head.expect_other);
    assert_int_equal(head.head_bytes, strlen("GET /3,01637037d6?a=b&c HTTP/1.1\r\nHost: h:1\r\nX-Empty:\r\nX-Blank: \t v w \t\r\n\r\n"));
}

static void test_methods(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum http_method method;
    } m[] = {{"GET", HTTP_GET},       {"HEAD", HTTP_HEAD},   {"POST", HTTP_POST},   {"PUT", HTTP_PUT},
             {"DELETE", HTTP_DELETE}, {"OPTIONS", HTTP_OPTIONS}, {"PATCH", HTTP_OTHER}, {"get", HTTP_OTHER},
             {"M-SEARCH", HTTP_OTHER}};
    for (size_t i = 0; i < sizeof m / sizeof m[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s / HTTP/1.1\r\nHost: h\r\n\r\n", m[i].text);
        must_parse(text);
        assert_int_equal(head.method, m[i].method);
        assert_bytes(head.method_text, m[i].text);
    }
}

static void test_targets(void **state)
{
    (void)state;
    static const struct {
        const char *target, *path, *query;
    } t[] = {
        {"/", "/", ""},
        {"/a?", "/a", ""},
        {"/a?b?c", "/a", "b?c"},
        {"http://h/x?y", "/x", "y"},
        {"HTTP://h:80", "/", ""},
        {"http://h?q", "/", "q"},
        {"https://h/", "/", ""},
        {"/\xc3\xa4", "/\xc3\xa4", ""},
        {"/%zz", "/%zz", ""}, /* decoding is the handler's */
        {"//x", "//x", ""},
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        char text[128];
        snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", t[i].target);
        must_parse(text);
        assert_bytes(head.path, t[i].path);
        assert_bytes(head.query, t[i].query);
    }
    must_parse("OPTIONS * HTTP/1.0\r\n\r\n");
    assert_bytes(head.path, "*");
}

static void test_connection(void **state)
{
    (void)state;
    static const struct {
        const char *lines;
        bool keep, echo;
    } t[] = {
        {"HTTP/1.1\r\nHost: h\r\n", true, false},
        {"HTTP/1.1\r\nHost: h\r\nConnection: close\r\n", false, false},
        {"HTTP/1.1\r\nHost: h\r\nConnection: x, Close ,y\r\n", false, false},
        {"HTTP/1.1\r\nHost: h\r\nConnection: keep-alive\r\n", true, false},
        {"HTTP/1.1\r\nHost: h\r\nConnection: keep-alive\r\nConnection: close\r\n", false, false},
        {"HTTP/1.0\r\n", false, false},
        {"HTTP/1.0\r\nConnection: Keep-Alive\r\n", true, true},
        {"HTTP/1.0\r\nConnection: keep-alive, close\r\n", false, false},
        {"HTTP/1.7\r\nHost: h\r\n", true, false},
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        char text[256];
        snprintf(text, sizeof text, "GET / %s\r\n", t[i].lines);
        must_parse(text);
        assert_int_equal(head.keep_alive, t[i].keep);
        assert_int_equal(head.connection_keep_alive_sent, t[i].echo);
    }
}

static void test_framing_and_expectations(void **state)
{
    (void)state;
    must_parse("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 9223372036854775807\r\nExpect: 100-Continue\r\n\r\n");
    assert_true(head.has_length && head.content_length == INT64_MAX && head.expect_continue && !head.expect_other);
    must_parse("PUT / HTTP/1.1\r\nHost: h\r\ntransfer-encoding: Chunked\r\n\r\n");
    assert_true(head.chunked && !head.has_length);
    must_parse("PUT / HTTP/1.0\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n");
    assert_true(head.has_length && head.content_length == 0 && !head.expect_continue);
    must_parse("PUT / HTTP/1.1\r\nHost: h\r\nExpect: a miracle\r\n\r\n");
    assert_true(head.expect_other);
}

#define H "HTTP/1.1\r\nHost: h\r\n"

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        struct bytes text;
        int status;
    } t[] = {
#define R(s, text) {BYTES_LIT(text), s}
        R(400, "GET /\r\n"),
        R(400, "GET / HTTP/1.1\r\n\r\n"), /* no Host */
        R(400, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
        R(400, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
        R(400, "GET / HTTP/1.1\r\nHost: a,b\r\n\r\n"),
        R(400, "GET  / " H "\r\n"),
        R(400, "GET /a b " H "\r\n"),
        R(400, "GET / HTTP/1.1 \r\nHost: h\r\n\r\n"),
        R(400, "GET /\0x " H "\r\n"),
        R(400, "GET /\x01 " H "\r\n"),
        R(400, "GET /\x7f " H "\r\n"),
        R(400, "GET /\t " H "\r\n"),
        R(400, "GET x " H "\r\n"),
        R(400, "GET * " H "\r\n"),
        R(400, "GET http:// " H "\r\n"),
        R(400, "CONNECT h:443 " H "\r\n"),
        R(400, " GET / " H "\r\n"),
        R(400, "G@T / " H "\r\n"),
        R(400, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), /* TLS */
        R(400, "\x01\x02\x03 garbage\r\n\r\n"),
        R(400, "\nGET / " H "\r\n"),
        R(400, "GET / HTTP/1.1\nHost: h\n\n"),
        R(400, "GET / " H "A: b\n\r\n"),
        R(400, "GET / " H "A: b\rc\r\n\r\n"),
        R(400, "GET / " H "A: b\0c\r\n\r\n"),
        R(400, "GET / " H "A: b\x01\r\n\r\n"),
        R(400, "GET / " H "A: b\x7f\r\n\r\n"),
        R(400, "GET / " H "A : b\r\n\r\n"),
        R(400, "GET / " H " A: b\r\n\r\n"),
        R(400, "GET / " H "A: b\r\n folded\r\n\r\n"),
        R(400, "GET / " H ": b\r\n\r\n"),
        R(400, "GET / " H "no colon\r\n\r\n"),
        R(400, "GET / " H "A\xc3\xa4: b\r\n\r\n"),
        R(400, "GET / " H "A(b): c\r\n\r\n"),
        R(400, "GET / HTTP/1.x\r\nHost: h\r\n\r\n"),
        R(400, "GET / HTTPS/1.1\r\nHost: h\r\n\r\n"),
        R(400, "GET / HTTP/1.10\r\nHost: h\r\n\r\n"),
        R(505, "GET / HTTP/9.9\r\nHost: h\r\n\r\n"),
        R(505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        R(400, "PUT / " H "Content-Length: -1\r\n\r\n"),
        R(400, "PUT / " H "Content-Length: +1\r\n\r\n"),
        R(400, "PUT / " H "Content-Length: 1 \t2\r\n\r\n"),
        R(400, "PUT / " H "Content-Length: 0x10\r\n\r\n"),
        R(400, "PUT / " H "Content-Length:\r\n\r\n"),
        R(400, "PUT / " H "Content-Length: 9223372036854775808\r\n\r\n"),
        R(400, "PUT / " H "Content-Length: 99999999999999999999999\r\n\r\n"),
        R(400, "PUT / " H "Content-Length: 5\r\nContent-Length: 6\r\n\r\n"),
        R(400, "PUT / " H "Content-Length: 5\r\nContent-Length: 5\r\n\r\n"),
        R(400, "PUT / " H "Content-Length: 5, 5\r\n\r\n"),
        R(400, "PUT / " H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
        R(400, "PUT / " H "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"),
        R(400, "PUT / " H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
        R(400, "PUT / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
        R(501, "PUT / " H "Transfer-Encoding: gzip\r\n\r\n"),
        R(501, "PUT / " H "Transfer-Encoding: gzip, chunked\r\n\r\n"),
        R(501, "PUT / " H "Transfer-Encoding: xchunked\r\n\r\n"),
        R(501, "PUT / " H "Transfer-Encoding: \"chunked\"\r\n\r\n"),
        R(501, "PUT / " H "Transfer-Encoding:\r\n\r\n"),
        R(400, "\r\n\r\n\r\n\r\n\r\n\r\nGET / " H "\r\n"),
#undef R
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        int whole = verdict(t[i].text), dripped = dripped_verdict(t[i].text);
        if (whole != t[i].status || dripped != t[i].status)
            print_error("%.*s -> %d, dripped %d\n", (int)t[i].text.n, t[i].text.p, whole, dripped);
        assert_int_equal(whole, t[i].status);
        assert_int_equal(dripped, t[i].status);
    }
}

static void test_dripped_heads_are_taken(void **state)
{
    (void)state;
    static const char *const t[] = {
        "GET / " H "\r\n",
        "\r\nGET / " H "\r\n",
        "\r\n\r\nPUT /1,2 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n",
        "OPTIONS / HTTP/1.0\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        assert_int_equal(dripped_verdict(bytes_str(t[i])), 0);
        assert_int_equal(head.head_bytes, strlen(t[i]));
        /* Every shorter prefix asks for more. */
        for (size_t n = 0; n < strlen(t[i]); n++)
            assert_int_equal(verdict(bytes_of(t[i], n)), -1);
    }
}

static char *repeat(const char *front, const char *what, int times, const char *back)
{
    char *out = malloc(strlen(front) + strlen(what) * (size_t)times + strlen(back) + 1), *p = out;
    p = stpcpy(p, front);
    for (int i = 0; i < times; i++)
        p = stpcpy(p, what);
    stpcpy(p, back);
    return out;
}

static void check_repeat(int want, const char *front, const char *what, int times, const char *back)
{
    char *text = repeat(front, what, times, back);
    assert_int_equal(verdict(bytes_str(text)), want);
    free(text);
}

static void test_limits(void **state)
{
    (void)state;
    check_repeat(0, "GET /", "a", HTTP_TARGET_MAX - 1, " " H "\r\n");
    check_repeat(414, "GET /", "a", HTTP_TARGET_MAX, " " H "\r\n");
    check_repeat(414, "GET /", "a", 100000, " " H "\r\n");
    check_repeat(414, "GET /", "a", HTTP_TARGET_MAX + 100, ""); /* no need to wait for its end */
    check_repeat(0, "GET / " H, "A: b\r\n", HTTP_HEADERS_MAX - 1, "\r\n");
    check_repeat(431, "GET / " H, "A: b\r\n", HTTP_HEADERS_MAX, "\r\n");
    check_repeat(431, "GET / " H "A: ", "b", HTTP_HEAD_MAX, "\r\n\r\n");
    check_repeat(431, "GET / " H "A: ", "b", HTTP_HEAD_MAX, "");
    check_repeat(-1, "GET / " H "A: ", "b", HTTP_HEAD_MAX - 100, "");
    check_repeat(0, "GET / " H "A: ", "b", HTTP_HEAD_MAX - 100, "\r\n\r\n");
    check_repeat(400, "", "A", 33, "");
    check_repeat(400, "", "A", 33, " / " H "\r\n");
    check_repeat(0, "", "A", 32, " / " H "\r\n");
}

static int response(const char *text)
{
    size_t scanned = 0;
    return http_parse_response(bytes_str(text), &scanned, &head);
}

static void test_responses(void **state)
{
    (void)state;
    assert_int_equal(response("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"), 0);
    assert_int_equal(head.status, 200);
    assert_int_equal(head.content_length, 5);
    assert_true(head.keep_alive);
    assert_int_equal(response("HTTP/1.0 404 Not Found\r\n\r\n"), 0);
    assert_int_equal(head.status, 404);
    assert_false(head.keep_alive || head.has_length);
    assert_int_equal(response("HTTP/1.1 100 Continue\r\n\r\n"), 0);
    assert_int_equal(response("HTTP/1.1 299\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"), 0);
    assert_true(head.chunked && !head.keep_alive);
    static const char *const bad[] = {
        "HTTP/2.0 200 OK\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1  200 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n", "HTP", "x", "HTTP/1.1 200 OK\r\nA : b\r\n\r\n", "HTTP/1.1 200 OK\nA: b\n\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(response(bad[i]), DFS_EPROTO);
    static const char *const open[] = {"", "H", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nA: b\r\n"};
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++)
        assert_int_equal(response(open[i]), DFS_ESHORT);
}

static void test_lists(void **state)
{
    (void)state;
    static const struct {
        const char *value, *token;
        bool has;
    } t[] = {
        {"gzip", "gzip", true},           {"deflate, GZip", "gzip", true},
        {"deflate,gzip;q=0.5", "gzip", true}, {"gzip;q=0", "gzip", false},
        {"gzip; q=0.000", "gzip", false}, {"gzip;q=0.001", "gzip", true},
        {"gzip;q=1, *;q=0", "gzip", true}, {"x-gzip", "gzip", false},
        {"", "gzip", false},              {",, ,gzip", "gzip", true},
        {"gzipx", "gzip", false},         {"gzip;x=0", "gzip", true},
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++)
        assert_int_equal(http_list_has(bytes_str(t[i].value), t[i].token), t[i].has);
    assert_false(http_list_has(BYTES_NONE, "gzip"));
}

static void test_tokens_and_values(void **state)
{
    (void)state;
    assert_true(http_is_token(BYTES_LIT("X-Abc_1.2")));
    assert_false(http_is_token(BYTES_LIT("")));
    assert_false(http_is_token(BYTES_LIT("a b")));
    assert_false(http_is_token(BYTES_LIT("a:")));
    assert_true(http_is_value(BYTES_LIT("")));
    assert_true(http_is_value(BYTES_LIT("a\tb \xc3\xa4 \"x\"")));
    assert_false(http_is_value(BYTES_LIT("a\r\nSet-Cookie: x")));
    assert_false(http_is_value(BYTES_LIT("a\0b")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_simple_get),
        cmocka_unit_test(test_methods),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_connection),
        cmocka_unit_test(test_framing_and_expectations),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_dripped_heads_are_taken),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_responses),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_tokens_and_values),
    };
    return cmocka_run_group_tests_name("http_parse", tests, NULL, NULL);
}
