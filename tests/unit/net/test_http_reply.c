/* Replies: heads, bodies of every size and kind, sources from memory and files, slow readers, sources that wait or fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "needle/err.h"
#include "net/clock.h"
#include "tests/support/http_rig.h"

#define H " HTTP/1.1\r\nHost: h\r\n"

static struct rig rig;
static char *pattern;
#define PATTERN_BYTES (8u << 20)

static int setup(void **state)
{
    (void)state;
    rig_init(&rig, 1);
    rig_start(&rig);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rig_stop(&rig);
    return 0;
}

static void expect_pattern(int fd, size_t n)
{
    struct rig_answer a;
    rig_read(fd, false, &a);
    assert_int_equal(a.head.status, 200);
    assert_true(a.whole);
    assert_int_equal(a.body_n, n);
    assert_memory_equal(a.body, pattern, n);
    rig_answer_free(&a);
}

static void test_head_of_a_reply(void **state)
{
    (void)state;
    struct rig_answer a;
    int fd = rig_connect(&rig);
    rig_send(fd, "GET /headers" H "\r\n");
    rig_read(fd, false, &a);
    assert_int_equal(strncmp(a.text, "HTTP/1.1 200 OK\r\n", 17), 0);
    assert_string_equal(a.body, "headers");
    assert_string_equal(rig_header(&a, "server"), "dfs test");
    assert_int_equal(strlen(rig_header(&a, "date")), 29);
    assert_string_equal(rig_header(&a, "x-good"), "a \"b\" \xc3\xa4");
    assert_string_equal(rig_header(&a, "x-number"), "42-x");
    assert_string_equal(rig_header(&a, "content-length"), "7");
    assert_null(strstr(a.text, "X-Injected"));
    assert_null(strstr(a.text, "X-Evil"));
    assert_null(strstr(a.text, "X-Nul"));
    assert_null(strcasestr(a.text, "transfer-encoding"));
    assert_null(strcasestr(a.text, "connection"));
    rig_answer_free(&a);
    rig_close(fd);
}

static void test_many_reply_headers(void **state)
{
    (void)state;
    struct rig_answer a;
    int fd = rig_connect(&rig);
    rig_send(fd, "GET /headers?n=100" H "\r\n");
    rig_read(fd, false, &a);
    assert_int_equal(a.head.header_count, 105);
    assert_string_equal(rig_header(&a, "x-many-99"), "0123456789012345678901234567890123456789");
    rig_answer_free(&a);
    /* Far more than a head may hold: what does not fit is left out, the rest is whole. */
    rig_send(fd, "GET /headers?n=4000" H "\r\n");
    char text[262144];
    size_t n = 0;
    while (n < 7 || memcmp(text + n - 7, "headers", 7) != 0) {
        ssize_t got = recv(fd, text + n, sizeof text - n, 0);
        assert_true(got > 0);
        n += (size_t)got;
    }
    text[n] = '\0';
    assert_true(n < 140000);
    assert_non_null(strstr(text, "\r\n\r\nheaders"));
    rig_close(fd);
}

static void check_empty(int fd, const char *method, int status, bool length_said)
{
    struct rig_answer a;
    rig_send(fd, "%s /empty?status=%d" H "\r\n", method, status);
    rig_read(fd, true, &a);
    assert_int_equal(a.head.status, status);
    assert_string_equal(rig_header(&a, "content-length"), length_said ? "0" : "");
    rig_answer_free(&a);
}

static void test_replies_without_body(void **state)
{
    (void)state;
    int fd = rig_connect(&rig);
    check_empty(fd, "GET", 200, true);
    check_empty(fd, "GET", 204, false);
    check_empty(fd, "GET", 304, false);
    check_empty(fd, "HEAD", 200, true);
    check_empty(fd, "DELETE", 404, true);
    rig_send(fd, "GET /hello" H "\r\n");
    rig_expect(fd, 200, "hello");
    rig_close(fd);
}

static void check_head(int fd, const char *path, const char *length)
{
    struct rig_answer a;
    rig_send(fd, "HEAD %s" H "\r\nGET /hello" H "\r\n", path);
    rig_read(fd, true, &a);
    assert_int_equal(a.head.status, 200);
    assert_string_equal(rig_header(&a, "content-length"), length);
    assert_false(a.head.chunked);
    rig_answer_free(&a);
    rig_expect(fd, 200, "hello"); /* not a byte of body in between */
}

static void test_head_requests(void **state)
{
    (void)state;
    int fd = rig_connect(&rig);
    check_head(fd, "/hello", "5");
    check_head(fd, "/big?n=100000", "100000");
    check_head(fd, "/iov", "13");
    check_head(fd, "/source?len=5000", "5000");
    check_head(fd, "/source?len=5000&file=1", "5000");
    check_head(fd, "/source?len=5000&chunked=1", "");
    rig_close(fd);
}

static void test_error_text(void **state)
{
    (void)state;
    struct rig_answer a;
    int fd = rig_connect(&rig);
    rig_send(fd, "GET /early" H "\r\n");
    rig_read(fd, false, &a);
    assert_string_equal(a.body, "{\"error\":\"too \\\"much\\\"\"}");
    assert_string_equal(rig_header(&a, "content-type"), "application/json");
    assert_string_equal(rig_header(&a, "retry-after"), "");
    rig_answer_free(&a);
    rig_send(fd, "GET /busy" H "\r\n");
    rig_read(fd, false, &a);
    assert_string_equal(a.body, "{\"error\":\"no room for \xef\xbf\xbd\\u0001 now\"}");
    assert_string_equal(rig_header(&a, "retry-after"), "1");
    rig_answer_free(&a);
    rig_send(fd, "GET /iov" H "\r\n");
    rig_expect(fd, 200, "one two three");
    rig_close(fd);
}

static void test_sizes_from_memory(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 1000, 65536, 300000, 5000000};
    int fd = rig_connect(&rig);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        rig_send(fd, "GET /big?n=%zu" H "\r\nGET /hello" H "\r\n", sizes[i]);
        expect_pattern(fd, sizes[i]);
        rig_expect(fd, 200, "hello");
    }
    rig_close(fd);
}

/* All kinds of source: from memory and file, length told and not, pieces of many sizes, with waits of both kinds. */
static void test_sources(void **state)
{
    (void)state;
    static const char *const lens[] = {"0", "1", "5000", "262144", "1500000"};
    static const char *const pieces[] = {"999", "65536", "9000000"};
    static const char *const waits[] = {"", "&again=1", "&again=2&slow=1", "&again=1&slow=1"};
    int fd = rig_connect(&rig);
    for (int l = 0; l < 5; l++)
        for (int p = 0; p < 3; p++)
            for (int w = 0; w < 4; w++)
                for (int kind = 0; kind < 4; kind++) {
                    if (atol(lens[l]) / atol(pieces[p]) > (w < 2 ? 300 : 10))
                        continue;
                    rig_send(fd, "GET /source?len=%s&piece=%s%s%s%s" H "\r\n", lens[l], pieces[p], waits[w],
                             kind & 1 ? "&file=1" : "", kind & 2 ? "&chunked=1" : "");
                    expect_pattern(fd, (size_t)atol(lens[l]));
                }
    rig_send(fd, "GET /hello" H "\r\n");
    rig_expect(fd, 200, "hello");
    rig_close(fd);
}

static void test_old_clients_get_no_chunks(void **state)
{
    (void)state;
    for (int keep = 0; keep < 2; keep++) {
        struct rig_answer a;
        int fd = rig_connect(&rig);
        rig_send(fd, "GET /source?len=300000&chunked=1 HTTP/1.0\r\n%s\r\n", keep ? "Connection: keep-alive\r\n" : "");
        rig_read(fd, false, &a);
        assert_false(a.head.chunked || a.head.has_length);
        assert_string_equal(rig_header(&a, "connection"), "close");
        assert_int_equal(a.body_n, 300000);
        assert_memory_equal(a.body, pattern, 300000);
        rig_answer_free(&a);
        rig_expect_closed(fd, false);
        rig_close(fd);
        fd = rig_connect(&rig);
        rig_send(fd, "GET /source?len=3000 HTTP/1.0\r\n%s\r\n", keep ? "Connection: keep-alive\r\n" : "");
        expect_pattern(fd, 3000);
        if (keep)
            rig_expect_silence(fd, 10);
        else
            rig_expect_closed(fd, false);
        rig_close(fd);
    }
}

/* A body that cannot be finished is never taken for a whole one. */
static void test_source_fails_half_way(void **state)
{
    (void)state;
    static const char *const queries[] = {
        "len=3000000&piece=100000&fail=5", "len=3000000&piece=100000&fail=5&file=1",
        "len=3000000&piece=100000&fail=5&chunked=1",
        "len=3000&short=1",              /* ends before what was said */
        "len=20000000&piece=20000000&file=1", /* the file is shorter than that */
        "len=9000000&piece=1000000&file=1&chunked=1",
    };
    for (int i = 0; i < 6; i++) {
        int fd = rig_connect(&rig);
        char buf[65536];
        ssize_t n;
        size_t all = 0;
        rig_send(fd, "GET /source?%s" H "\r\n", queries[i]);
        while ((n = recv(fd, buf, sizeof buf, 0)) > 0)
            all += (size_t)n;
        assert_int_equal(n, -1); /* a reset, not an end */
        assert_true(all < 9000000);
        rig_close(fd);
    }
    /* By 1.0, where the end of the stream is the end of the body, above all. */
    int fd = rig_connect(&rig);
    char buf[65536];
    ssize_t n;
    rig_send(fd, "GET /source?len=3000000&piece=100000&fail=5&chunked=1 HTTP/1.0\r\n\r\n");
    while ((n = recv(fd, buf, sizeof buf, 0)) > 0)
        ;
    assert_int_equal(n, -1);
    rig_close(fd);
}

static void test_source_fails_at_once(void **state)
{
    (void)state;
    static const char *const queries[] = {"len=3000&fail=1", "len=3000&fail=1&chunked=1", "len=3000&fail=2&again=1&slow=1"};
    int fd = rig_connect(&rig);
    for (int i = 0; i < 3; i++) {
        rig_send(fd, "GET /source?%s" H "\r\n", queries[i]);
        rig_expect(fd, 500, "{\"error\":\"cannot read the body: corrupt data\"}");
    }
    rig_send(fd, "GET /hello" H "\r\n");
    rig_expect(fd, 200, "hello");
    rig_close(fd);
}

/* A client that reads slowly through a small window gets all of it. */
static void test_slow_reader(void **state)
{
    (void)state;
    static const char *const paths[] = {"/big?n=400000", "/source?len=400000&file=1", "/source?len=400000&chunked=1"};
    for (int i = 0; i < 3; i++) {
        int fd = rig_connect(&rig);
        int small = 32768;
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
        rig_send(fd, "GET %s" H "\r\nGET /hello" H "\r\n", paths[i]);
        usleep(20000);
        expect_pattern(fd, 400000);
        rig_expect(fd, 200, "hello");
        rig_close(fd);
    }
}

static void test_reader_leaves(void **state)
{
    (void)state;
    static const char *const paths[] = {"/big?n=8000000", "/source?len=8000000&file=1", "/source?len=8000000&chunked=1",
                                        "/source?len=8000000&piece=100000&again=3&slow=5"};
    for (int i = 0; i < 4; i++) {
        int fd = rig_connect(&rig);
        char byte;
        rig_send(fd, "GET %s" H "\r\n", paths[i]);
        assert_int_equal(recv(fd, &byte, 1, 0), 1);
        rig_reset(fd);
        rig_wait_for(&rig_closed, (uint64_t)i + 1);
    }
    assert_int_equal(rig_count(&rig_died), 4);
}

static void test_readers_side_by_side(void **state)
{
    (void)state;
    enum { N = 16 };
    int fds[N];
    for (int i = 0; i < N; i++) {
        fds[i] = rig_connect(&rig);
        rig_send(fds[i], "GET /source?len=2000000&%s" H "\r\n", i % 2 ? "file=1" : "piece=70000");
    }
    for (int i = 0; i < N; i++) {
        expect_pattern(fds[i], 2000000);
        rig_close(fds[i]);
    }
}

/* Everything that can be wrong has a status of its own, and a text. */
static void test_status_table(void **state)
{
    (void)state;
    static const struct {
        int rc, status;
    } t[] = {
        {DFS_OK, 200},        {DFS_EINVAL, 400},   {DFS_ENOMEM, 503},    {DFS_EIO, 500},       {DFS_ENOSPC, 507},
        {DFS_ECORRUPT, 500},  {DFS_ENOTFOUND, 404}, {DFS_EEXIST, 409},   {DFS_EREADONLY, 500}, {DFS_ECOOKIE, 404},
        {DFS_EAGAIN, 503},    {DFS_ETOOBIG, 413},  {DFS_ENOVOLUME, 404}, {DFS_ELOADING, 503},  {DFS_EFULL, 507},
        {DFS_EBUSY, 503},     {DFS_EPROTO, 400},   {DFS_EUNSUPPORTED, 501}, {DFS_EDENIED, 401}, {DFS_ETIMEOUT, 504},
        {-9999, 500},
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++)
        assert_int_equal(http_status_from_err(t[i].rc), t[i].status);
#define X(name, value, text, retryable) assert_string_not_equal(http_status_text(http_status_from_err(name)), "Unknown");
    DFS_ERR_TABLE(X)
#undef X
    assert_string_equal(http_status_text(200), "OK");
    assert_string_equal(http_status_text(799), "Unknown");
}

int main(void)
{
    pattern = malloc(PATTERN_BYTES);
    for (size_t i = 0; i < PATTERN_BYTES; i++)
        pattern[i] = rig_pattern(i);
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_head_of_a_reply),
        T(test_many_reply_headers),
        T(test_replies_without_body),
        T(test_head_requests),
        T(test_error_text),
        T(test_sizes_from_memory),
        T(test_sources),
        T(test_old_clients_get_no_chunks),
        T(test_source_fails_half_way),
        T(test_source_fails_at_once),
        T(test_slow_reader),
        T(test_reader_leaves),
        T(test_readers_side_by_side),
        cmocka_unit_test(test_status_table),
    };
    int rc = cmocka_run_group_tests_name("http_reply", tests, NULL, NULL);
    free(pattern);
    return rc;
}
