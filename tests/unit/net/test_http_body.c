/* Request bodies: every size and framing, back-pressure, early replies, expectations, what is left in the socket. */
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
#define PATTERN_BYTES (3u << 20)

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
    assert_int_equal(a.body_n, n);
    assert_memory_equal(a.body, pattern, n);
    rig_answer_free(&a);
}

/* Head and body in one send, so that their border falls anywhere in the server's reads. */
static void send_identity(int fd, const char *path, size_t n)
{
    char *all = malloc(n + 200);
    int head = sprintf(all, "PUT %s" H "Content-Length: %zu\r\n\r\n", path, n);
    memcpy(all + head, pattern, n);
    rig_send_bytes(fd, all, (size_t)head + n);
    free(all);
}

static void send_chunked(int fd, const char *path, size_t n, size_t chunk, bool trailers)
{
    char *all = malloc(n + (n / chunk + 2) * 24 + 400), *p = all;
    p += sprintf(p, "PUT %s" H "Transfer-Encoding: chunked\r\n\r\n", path);
    for (size_t at = 0; at < n; at += chunk) {
        size_t part = n - at < chunk ? n - at : chunk;
        p += sprintf(p, "%zx\r\n", part);
        memcpy(p, pattern + at, part);
        p += part;
        p += sprintf(p, "\r\n");
    }
    p += sprintf(p, "0\r\n%s\r\n", trailers ? "X-Sum: 1\r\n" : "");
    rig_send_bytes(fd, all, (size_t)(p - all));
    free(all);
}

static const size_t sizes[] = {0, 1, 5, 1000, 16000, 16299, 16384, 16385, 20000, 294912, 294913, 600000, PATTERN_BYTES};
#define SIZES (sizeof sizes / sizeof sizes[0])

static void test_identity_sizes(void **state)
{
    (void)state;
    static const char *const paths[] = {"/echo", "/pause", "/direct"};
    for (int k = 0; k < 3; k++) {
        int fd = rig_connect(&rig);
        for (size_t i = 0; i < SIZES; i++) {
            send_identity(fd, paths[k], sizes[i]);
            rig_send(fd, "GET /hello" H "\r\n");
            expect_pattern(fd, sizes[i]);
            rig_expect(fd, 200, "hello");
        }
        rig_close(fd);
    }
}

static void test_chunked_sizes(void **state)
{
    (void)state;
    static const char *const paths[] = {"/echo", "/pause", "/resume-inside", "/direct"};
    static const size_t chunks[] = {1, 7, 4096, 65536, 1 << 20};
    for (int k = 0; k < 4; k++)
        for (int c = 0; c < 5; c++) {
            int fd = rig_connect(&rig);
            for (size_t i = 0; i < SIZES; i++) {
                if (sizes[i] / chunks[c] > 100000)
                    continue;
                send_chunked(fd, paths[k], sizes[i], chunks[c], i % 2);
                rig_send(fd, "GET /hello" H "\r\n");
                expect_pattern(fd, sizes[i]);
                rig_expect(fd, 200, "hello");
            }
            rig_close(fd);
        }
}

static void test_body_in_many_pieces(void **state)
{
    (void)state;
    int fd = rig_connect(&rig);
    rig_send(fd, "PUT /echo" H "Content-Length: 3000\r\n\r\n");
    for (size_t i = 0; i < 3000; i += 100) {
        rig_send_bytes(fd, pattern + i, 100);
        usleep(300);
    }
    expect_pattern(fd, 3000);
    rig_close(fd);
}

static void test_head_views_outlive_the_body(void **state)
{
    (void)state;
    /* /pause looks at r->head.path in every call; the pieces it leaves are larger than the read buffer. */
    int fds[8];
    for (int i = 0; i < 8; i++) {
        fds[i] = rig_connect(&rig);
        send_chunked(fds[i], "/pause", 300000, 99999, true);
    }
    for (int i = 0; i < 8; i++) {
        expect_pattern(fds[i], 300000);
        rig_close(fds[i]);
    }
}

/* A handler that takes nothing: the server stops reading, the client's sends do not go through, nothing piles up. */
static void test_back_pressure_reaches_the_client(void **state)
{
    (void)state;
    int fd = rig_connect(&rig);
    int small = 65536;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    struct timeval tv = {.tv_usec = 200000};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv);
    rig_send(fd, "PUT /stuck" H "Content-Length: 100000000\r\n\r\n");
    size_t sent = 0;
    for (;;) {
        ssize_t n = send(fd, pattern, 100000, MSG_NOSIGNAL);
        if (n <= 0)
            break;
        sent += (size_t)n;
        assert_true(sent < 50000000);
    }
    rig_reset(fd);
    rig_stop(&rig); /* a request that waits for its handler does not keep the server from ending */
    rig_init(&rig, 1);
    rig_start(&rig);
}

static void test_expect_continue(void **state)
{
    (void)state;
    struct rig_answer a;
    int fd = rig_connect(&rig);
    /* Asked for: 100, then the body, then the answer. */
    rig_send(fd, "PUT /echo" H "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    rig_read(fd, false, &a);
    assert_int_equal(a.head.status, 100);
    rig_answer_free(&a);
    rig_send(fd, "hello");
    rig_expect(fd, 200, "hello");
    /* The body is there already: no 100. */
    rig_send(fd, "PUT /echo" H "Content-Length: 5\r\nExpect: 100-continue\r\n\r\nhello");
    rig_expect(fd, 200, "hello");
    /* No body at all: no 100. */
    rig_send(fd, "PUT /echo" H "Content-Length: 0\r\nExpect: 100-continue\r\n\r\n");
    rig_expect(fd, 200, "");
    /* Refused: no 100, and closed, as the next bytes could be the body or another request. */
    rig_send(fd, "PUT /early" H "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    rig_read(fd, false, &a);
    assert_int_equal(a.head.status, 413);
    assert_string_equal(rig_header(&a, "connection"), "close");
    rig_answer_free(&a);
    rig_expect_closed(fd, false);
    rig_close(fd);
    /* A 1.0 client is never sent one. */
    fd = rig_connect(&rig);
    rig_send(fd, "PUT /echo HTTP/1.0\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    rig_expect_silence(fd, 30);
    rig_send(fd, "hello");
    rig_expect(fd, 200, "hello");
    rig_close(fd);
}

/* A small unwanted rest is skipped and the connection goes on. */
static void test_small_rest_is_skipped(void **state)
{
    (void)state;
    static const char *const paths[] = {"/early", "/mid", "/mid0"};
    for (int k = 0; k < 3; k++)
        for (int late = 0; late < 2; late++)
            for (int chunked = 0; chunked < 2; chunked++) {
                int fd = rig_connect(&rig);
                size_t n = 200000;
                if (late) {
                    rig_send(fd, "PUT %s" H "%s\r\n\r\n", paths[k],
                             chunked ? "Transfer-Encoding: chunked" : "Content-Length: 200000");
                    if (chunked)
                        rig_send(fd, "30d40\r\n");
                    rig_send_bytes(fd, pattern, 1000);
                    rig_expect(fd, k == 0 ? 413 : 400, NULL);
                    rig_send_bytes(fd, pattern, n - 1000);
                    if (chunked)
                        rig_send(fd, "\r\n0\r\n\r\n");
                } else {
                    if (chunked)
                        send_chunked(fd, paths[k], n, 60000, true);
                    else
                        send_identity(fd, paths[k], n);
                    rig_expect(fd, k == 0 ? 413 : 400, NULL);
                }
                rig_send(fd, "GET /hello" H "\r\n");
                rig_expect(fd, 200, "hello");
                rig_close(fd);
            }
    assert_int_equal(rig_count(&rig_ended), 0); /* who has replied is not called any more */
}

/* A large one closes the connection, but in a way that a client who sends everything first still gets to read the answer. */
static void test_large_rest_closes_readably(void **state)
{
    (void)state;
    static const char *const paths[] = {"/early", "/mid"};
    for (int k = 0; k < 2; k++)
        for (int chunked = 0; chunked < 2; chunked++) {
            struct rig_answer a;
            int fd = rig_connect(&rig);
            rig_send(fd, "PUT %s" H "%s\r\n\r\n", paths[k],
                     chunked ? "Transfer-Encoding: chunked" : "Content-Length: 16000000");
            for (int i = 0; i < 160; i++) {
                if (chunked)
                    rig_send(fd, "186a0\r\n");
                rig_send_bytes(fd, pattern, 100000);
                if (chunked)
                    rig_send(fd, "\r\n");
            }
            rig_read(fd, false, &a);
            assert_int_equal(a.head.status, k == 0 ? 413 : 400);
            assert_true(a.whole);
            if (!chunked)
                assert_string_equal(rig_header(&a, "connection"), "close");
            rig_answer_free(&a);
            rig_expect_closed(fd, false);
            rig_close(fd);
        }
}

/* A refused head too: three megabytes are on their way, and the 4xx is read after all of them are sent. */
static void test_refusal_is_readable(void **state)
{
    (void)state;
    int fd = rig_connect(&rig);
    rig_send(fd, "GET / HTTP/1.1\r\nno colon\r\n\r\n");
    for (int i = 0; i < 30; i++)
        rig_send_bytes(fd, pattern, 100000);
    rig_expect(fd, 400, NULL);
    rig_expect_closed(fd, false);
    rig_close(fd);
}

static void test_uploads_side_by_side(void **state)
{
    (void)state;
    enum { N = 20 };
    int fds[N];
    for (int i = 0; i < N; i++) {
        fds[i] = rig_connect(&rig);
        rig_send(fds[i], "PUT /echo" H "Content-Length: 500000\r\n\r\n");
    }
    for (size_t at = 0; at < 500000; at += 50000)
        for (int i = 0; i < N; i++)
            rig_send_bytes(fds[i], pattern + at, 50000);
    for (int i = 0; i < N; i++) {
        expect_pattern(fds[i], 500000);
        rig_close(fds[i]);
    }
}

static void test_length_that_never_comes(void **state)
{
    (void)state;
    int fd = rig_connect(&rig);
    rig_send(fd, "PUT /count" H "Content-Length: 9000000000000000000\r\n\r\nabc");
    shutdown(fd, SHUT_WR);
    rig_expect(fd, 400, NULL);
    rig_expect_closed(fd, true);
    rig_close(fd);
}

int main(void)
{
    pattern = malloc(PATTERN_BYTES);
    for (size_t i = 0; i < PATTERN_BYTES; i++)
        pattern[i] = rig_pattern(i);
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_identity_sizes),
        T(test_chunked_sizes),
        T(test_body_in_many_pieces),
        T(test_head_views_outlive_the_body),
        T(test_back_pressure_reaches_the_client),
        T(test_expect_continue),
        T(test_small_rest_is_skipped),
        T(test_large_rest_closes_readably),
        T(test_refusal_is_readable),
        T(test_uploads_side_by_side),
        T(test_length_that_never_comes),
    };
    int rc = cmocka_run_group_tests_name("http_body", tests, NULL, NULL);
    free(pattern);
    return rc;
}
