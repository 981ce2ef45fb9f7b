/* Requests over a real socket: shapes good and bad, keep-alive, pipelining, clients that drip, half-close, reset or vanish. */
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

static struct rig rig;

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

static void test_keep_alive(void **state)
{
    (void)state;
    int fd = rig_connect(&rig);
    for (int i = 0; i < 20; i++) {
        rig_send(fd, "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n");
        rig_expect(fd, 200, "hello");
        rig_send(fd, "PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n%05d", i);
        rig_expect(fd, 200, NULL);
    }
    rig_close(fd);
    rig_wait_for(&rig_closed, 40);
    assert_int_equal(rig_count(&rig_died), 0);
}

static void check_connection(const char *request, bool stays, const char *version, const char *connection)
{
    int fd = rig_connect(&rig);
    struct rig_answer a;
    rig_send(fd, "%s", request);
    rig_read(fd, false, &a);
    assert_int_equal(a.head.status, 200);
    assert_memory_equal(a.text, version, 8);
    assert_string_equal(rig_header(&a, "connection"), connection);
    if (stays)
        rig_expect_silence(fd, 20);
    else
        rig_expect_closed(fd, false);
    rig_answer_free(&a);
    rig_close(fd);
}

static void test_versions_and_connection(void **state)
{
    (void)state;
    check_connection("GET /hello HTTP/1.1\r\nHost: h\r\n\r\n", true, "HTTP/1.1", "");
    check_connection("GET /hello HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", false, "HTTP/1.1", "close");
    check_connection("GET /hello HTTP/1.0\r\n\r\n", false, "HTTP/1.0", "close");
    check_connection("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true, "HTTP/1.0", "keep-alive");
    check_connection("GET /close HTTP/1.1\r\nHost: h\r\n\r\n", false, "HTTP/1.1", "close");
    check_connection("OPTIONS /hello HTTP/1.0\r\n\r\n", false, "HTTP/1.0", "close");
}

/* What is sent, and the statuses that come back; '!' at the end: the connection is closed then. */
static const struct {
    struct bytes in;
    const char *want;
} shapes[] = {
#define S(want, text) {BYTES_LIT(text), want}
#define H " HTTP/1.1\r\nHost: h\r\n"
    S("200", "GET /hello" H "\r\n"),
    S("200 200 200", "GET /hello" H "\r\nGET /hello" H "\r\nGET /hello" H "\r\n"),
    S("200 200", "PUT /echo" H "Content-Length: 5\r\n\r\nhelloGET /hello" H "\r\n"),
    S("200 200", "PUT /echo" H "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nGET /hello" H "\r\n"),
    S("200 200", "GET /hello" H "Content-Length: 30\r\n\r\nGET /status HTTP/1.1\r\nX: 1\r\n\r\nGET /hello" H "\r\n"),
    S("200 200", "\r\nGET /hello" H "\r\n\r\nGET /hello" H "\r\n"),
    S("200 200", "PUT /echo" H "Content-Length: 5\r\nExpect: 100-continue\r\n\r\nhelloGET /hello" H "\r\n"),
    S("200", "PATCH /echo" H "\r\n"),
    S("417!", "PUT /echo" H "Content-Length: 5\r\nExpect: tea\r\n\r\nhello"),
    S("400!", "PUT /echo" H "Content-Length: 55\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET /hello" H "\r\n"),
    S("400!", "PUT /echo" H "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"),
    S("400!", "PUT /echo" H "Content-Length: -5\r\n\r\nhello"),
    S("400!", "PUT /echo" H "Content-Length: 99999999999999999999\r\n\r\nhello"),
    S("400!", "PUT /echo" H "Content-Length : 5\r\n\r\nhello"),
    S("501!", "PUT /echo" H "Transfer-Encoding: gzip\r\n\r\nhello"),
    S("400!", "PUT /echo" H "Transfer-Encoding: chunked\r\n\r\nxyz\r\nhello\r\n0\r\n\r\n"),
    S("400!", "PUT /echo" H "Transfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n0\r\n\r\n"),
    S("400!", "GET /hello HTTP/1.1\r\n\r\n"),
    S("400!", "GET /hello\r\n"),
    S("400!", "GET /hel\0lo" H "\r\n"),
    S("400!", "GET /hello" H "X: a\0b\r\n\r\n"),
    S("400!", "GET /hello" H "no colon here\r\n\r\n"),
    S("400!", "\x01\x02\x03 garbage\r\n\r\n"),
    S("400!", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x10\x20"),
    S("505!", "GET /hello HTTP/9.9\r\nHost: h\r\n\r\n"),
    S("200 400!", "GET /hello" H "\r\nGET /hello HTTP/1.1\nHost: h\n\n"),
    S("200!", "GET /hello" H "Connection: close\r\n\r\nGET /hello" H "\r\n"),
    S("500", "GET /forgotten" H "\r\n"),
    S("500 200", "GET /dropped" H "\r\nGET /hello" H "\r\n"),
    S("200 200", "GET /later" H "\r\nGET /hello" H "\r\n"),
    S("413 200", "PUT /early" H "Content-Length: 5\r\n\r\nhelloGET /hello" H "\r\n"),
    S("413 200", "PUT /early" H "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nGET /hello" H "\r\n"),
    S("400 200", "PUT /mid" H "Content-Length: 5\r\n\r\nhelloGET /hello" H "\r\n"),
    S("400 200", "PUT /mid0" H "Content-Length: 5\r\n\r\nhelloGET /hello" H "\r\n"),
    S("200 200", "PUT /pause" H "Content-Length: 5\r\n\r\nhelloGET /hello" H "\r\n"),
    S("200 200", "PUT /resume-inside" H "Content-Length: 5\r\n\r\nhelloGET /hello" H "\r\n"),
    S("!", "PUT /broken" H "Content-Length: 5\r\n\r\nhello"),
    S("!", "GET /abort" H "\r\nGET /hello" H "\r\n"),
    S("!", "PUT /abort-body" H "Content-Length: 5\r\n\r\nhello"),
    S("!", "PUT /abort-end" H "Content-Length: 5\r\n\r\nhello"),
#undef S
};

static void check_answers(int fd, const char *want)
{
    char got[128] = "", *p = got;
    const char *at = want;
    while (*at >= '0' && *at <= '9') {
        struct rig_answer a;
        rig_read(fd, false, &a);
        if (a.head.status != 100) {
            p += sprintf(p, "%s%d", p == got ? "" : " ", a.head.status);
            at += at[3] == ' ' ? 4 : 3;
        }
        rig_answer_free(&a);
    }
    assert_memory_equal(got, want, strlen(got));
    if (*at == '!')
        rig_expect_closed(fd, true);
    else
        rig_expect_silence(fd, 5);
}

static void test_shapes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        int fd = rig_connect(&rig);
        rig_send_bytes(fd, shapes[i].in.p, shapes[i].in.n);
        check_answers(fd, shapes[i].want);
        rig_close(fd);
    }
}

/* Byte by byte the verdicts are the same (the client may find the door shut before it has sent everything). */
static void test_dripped_shapes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        if (strcmp(shapes[i].want, "!") == 0)
            continue;
        int fd = rig_connect(&rig);
        for (size_t k = 0; k < shapes[i].in.n; k++) {
            if (!rig_try_send(fd, shapes[i].in.p + k, 1))
                break;
            if (k % 16 == 0)
                usleep(200); /* so that pieces arrive apart, at least now and then */
        }
        check_answers(fd, shapes[i].want);
        rig_close(fd);
    }
}

/* The client ends its direction behind the request: what is whole is still answered, what is not is refused. */
static void test_half_close(void **state)
{
    (void)state;
    static const struct {
        const char *in, *want;
    } t[] = {
        {"GET /hello" H "\r\n", "200!"},
        {"GET /later" H "\r\n", "200!"},
        {"GET /hello" H "\r\nGET /later" H "\r\n", "200 200!"},
        {"PUT /echo" H "Content-Length: 5\r\n\r\nhello", "200!"},
        {"PUT /pause" H "Content-Length: 5\r\n\r\nhello", "200!"},
        {"PUT /echo" H "Content-Length: 50\r\n\r\nhello", "400!"},
        {"PUT /pause" H "Content-Length: 50\r\n\r\nhello", "400!"},
        {"PUT /echo" H "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "400!"},
        {"PUT /early" H "Content-Length: 5000\r\n\r\nhello", "413!"},
        {"PUT /mid" H "Content-Length: 5000\r\n\r\nhello", "400!"},
        {"GET /hello" H "X: ", "!"},
        {"", "!"},
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        int fd = rig_connect(&rig);
        rig_send(fd, "%s", t[i].in);
        shutdown(fd, SHUT_WR);
        check_answers(fd, t[i].want);
        rig_close(fd);
    }
}

static void test_reset_in_body(void **state)
{
    (void)state;
    static const char *const in[] = {
        "PUT /echo" H "Content-Length: 100000\r\n\r\nxxxxxxxx",
        "PUT /echo" H "Transfer-Encoding: chunked\r\n\r\n64\r\nxxxxxxxx",
        "PUT /pause" H "Content-Length: 100000\r\n\r\nxxxxxxxx",
    };
    for (size_t i = 0; i < 3; i++) {
        int fd = rig_connect(&rig);
        rig_send(fd, "%s", in[i]);
        rig_wait_for(&rig_opened, i + 1);
        rig_reset(fd);
        rig_wait_for(&rig_closed, i + 1);
    }
    assert_int_equal(rig_count(&rig_ended), 0);
    assert_int_equal(rig_count(&rig_died), 3);
}

/* The client is gone while the work goes on elsewhere: the request lives until the last drop, its reply is swallowed. */
static void test_client_dies_while_held(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        int fd = rig_connect(&rig);
        rig_send(fd, "GET /later?ms=20" H "\r\nGET /hello" H "\r\n");
        rig_wait_for(&rig_ended, (uint64_t)i + 1);
        rig_reset(fd);
    }
    rig_wait_for(&rig_closed, 10);
    assert_int_equal(rig_count(&rig_ended), 10); /* the pipelined second one is not started for the dead */
}

static void test_reset_while_reply_is_stuck(void **state)
{
    (void)state;
    int fd = rig_connect(&rig);
    rig_send(fd, "GET /big?n=20000000" H "\r\n");
    rig_wait_for(&rig_opened, 1);
    char some[1000];
    assert_true(recv(fd, some, sizeof some, 0) > 0);
    rig_reset(fd);
    rig_wait_for(&rig_closed, 1);
    assert_int_equal(rig_count(&rig_died), 1);
}

static void test_many_pipelined(void **state)
{
    (void)state;
    int fd = rig_connect(&rig);
    enum { MANY = 500 };
    for (int i = 0; i < MANY; i++)
        rig_send(fd, i % 7 == 0 ? "PUT /echo" H "Content-Length: 4\r\n\r\nlong" : "GET /hello" H "\r\n");
    for (int i = 0; i < MANY; i++)
        rig_expect(fd, 200, i % 7 == 0 ? "long" : "hello");
    rig_expect_silence(fd, 5);
    rig_close(fd);
}

/* One that pipelines without end does not keep another from being served. */
static void test_pipeliner_and_neighbour(void **state)
{
    (void)state;
    int greedy = rig_connect(&rig), other = rig_connect(&rig);
    for (int i = 0; i < 2000; i++)
        rig_send(greedy, "GET /hello" H "\r\n");
    rig_send(other, "GET /hello" H "\r\n");
    rig_expect(other, 200, "hello");
    rig_close(other);
    for (int i = 0; i < 2000; i++)
        rig_expect(greedy, 200, "hello");
    rig_close(greedy);
}

static void test_large_heads(void **state)
{
    (void)state;
    static const struct {
        size_t n;
        int status;
    } t[] = {{10000, 200}, {16384, 200}, {60000, 200}, {65000, 200}, {70000, 431}, {3000000, 431}};
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        int fd = rig_connect(&rig);
        char *big = malloc(t[i].n);
        memset(big, 'b', t[i].n);
        rig_send(fd, "GET /hello" H "X-Big: ");
        if (rig_try_send(fd, big, t[i].n))
            rig_try_send(fd, "\r\n\r\n", 4);
        rig_expect(fd, t[i].status, NULL);
        if (t[i].status == 200) {
            rig_send(fd, "PUT /echo" H "Content-Length: 2\r\n\r\nhi");
            rig_expect(fd, 200, "hi");
        } else {
            rig_expect_closed(fd, true);
        }
        free(big);
        rig_close(fd);
    }
}

static void test_many_headers(void **state)
{
    (void)state;
    static const int counts[] = {126, 127, 10000};
    for (int i = 0; i < 3; i++) {
        int fd = rig_connect(&rig);
        rig_send(fd, "GET /hello" H);
        bool open = true;
        for (int k = 0; k < counts[i] && open; k++)
            open = rig_try_send(fd, "X-H: v\r\n", 8);
        if (open)
            rig_try_send(fd, "\r\n", 2);
        rig_expect(fd, counts[i] < 128 ? 200 : 431, NULL);
        rig_close(fd);
    }
}

/* Head views stay valid to the end, wherever the body's leftovers have to go. */
static void test_large_head_and_paused_body(void **state)
{
    (void)state;
    for (size_t head_n = 100; head_n < 60000; head_n += 9000) {
        int fd = rig_connect(&rig);
        char *big = malloc(200000);
        memset(big, 'b', head_n);
        rig_send(fd, "PUT /pause" H "X-Big: ");
        rig_send_bytes(fd, big, head_n);
        rig_send(fd, "\r\nContent-Length: 200000\r\n\r\n");
        for (size_t i = 0; i < 200000; i++)
            big[i] = rig_pattern(i);
        rig_send_bytes(fd, big, 200000);
        rig_send(fd, "GET /hello" H "\r\n");
        struct rig_answer a;
        rig_read(fd, false, &a);
        assert_int_equal(a.body_n, 200000);
        assert_memory_equal(a.body, big, 200000);
        rig_answer_free(&a);
        rig_expect(fd, 200, "hello");
        free(big);
        rig_close(fd);
    }
}

static void test_peer_and_alloc(void **state)
{
    (void)state;
    int fd = rig_connect(&rig);
    rig_send(fd, "GET /peer" H "\r\nGET /alloc" H "\r\nGET /alloc" H "\r\n");
    rig_expect(fd, 200, "127.0.0.1");
    struct rig_answer a;
    rig_read(fd, false, &a);
    assert_in_range(atoi(a.body), 255, HTTP_REQ_ARENA_MAX / 1000);
    rig_answer_free(&a);
    rig_expect(fd, 200, NULL);
    rig_close(fd);
}

static void test_stats(void **state)
{
    (void)state;
    struct http_server_stats s;
    int fd = rig_connect(&rig);
    rig_send(fd, "GET /hello" H "\r\nGET /forgotten" H "\r\nGET /headers" H "\r\nbad\r\n\r\n");
    rig_expect(fd, 200, NULL);
    rig_expect(fd, 500, NULL);
    rig_expect(fd, 200, NULL);
    rig_expect(fd, 400, NULL);
    http_server_stats(rig.server, &s);
    assert_int_equal(s.requests, 3);
    assert_int_equal(s.bad_requests, 1);
    assert_int_equal(s.unanswered, 1);
    assert_int_equal(s.dropped_headers, 7);
    assert_int_equal(s.refused + s.timeouts, 0);
    assert_int_equal(s.connections, 1);
    rig_close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_keep_alive),
        T(test_versions_and_connection),
        T(test_shapes),
        T(test_dripped_shapes),
        T(test_half_close),
        T(test_reset_in_body),
        T(test_client_dies_while_held),
        T(test_reset_while_reply_is_stuck),
        T(test_many_pipelined),
        T(test_pipeliner_and_neighbour),
        T(test_large_heads),
        T(test_many_headers),
        T(test_large_head_and_paused_body),
        T(test_peer_and_alloc),
        T(test_stats),
    };
    return cmocka_run_group_tests_name("http_conn", tests, NULL, NULL);
}
