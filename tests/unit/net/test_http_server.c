/* The server as a whole: limits on connections, timeouts, drain, idle cost, several loops. */
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

#include <fcntl.h>
#include <sys/resource.h>

#define H " HTTP/1.1\r\nHost: h\r\n"

static struct rig rig;

static int teardown(void **state)
{
    (void)state;
    rig_stop(&rig);
    return 0;
}

static void start(uint32_t loops)
{
    rig_init(&rig, loops);
    rig_start(&rig);
}

static struct http_server_stats stats(void)
{
    struct http_server_stats s;
    http_server_stats(rig.server, &s);
    return s;
}

static void wait_for_connections(uint32_t n)
{
    for (int i = 0; i < RIG_WAIT_MS && http_server_connections(rig.server) != n; i++)
        clock_sleep_ms(1);
    assert_int_equal(http_server_connections(rig.server), n);
}

static void test_limit_of_connections(void **state)
{
    (void)state;
    rig_init(&rig, 1);
    rig.opts.max_connections = 3;
    rig_start(&rig);
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = rig_connect(&rig);
        rig_send(fds[i], "GET /hello" H "\r\n");
        rig_expect(fds[i], 200, "hello");
    }
    for (int i = 0; i < 5; i++) {
        struct rig_answer a;
        int fd = rig_connect(&rig);
        rig_try_send(fd, "GET /hello" H "\r\n", 1);
        rig_read(fd, false, &a);
        assert_int_equal(a.head.status, 503);
        assert_string_equal(rig_header(&a, "retry-after"), "1");
        assert_string_equal(rig_header(&a, "connection"), "close");
        assert_true(a.whole);
        rig_answer_free(&a);
        rig_expect_closed(fd, true);
        rig_close(fd);
    }
    assert_int_equal(stats().refused, 5);
    rig_close(fds[0]);
    wait_for_connections(2);
    fds[0] = rig_connect(&rig);
    rig_send(fds[0], "GET /hello" H "\r\n");
    rig_expect(fds[0], 200, "hello");
    for (int i = 0; i < 3; i++)
        rig_close(fds[i]);
}

static void test_idle_timeout(void **state)
{
    (void)state;
    rig_init(&rig, 1);
    rig.opts.idle_timeout_ms = 60;
    rig_start(&rig);
    int never = rig_connect(&rig), once = rig_connect(&rig);
    rig_send(once, "GET /hello" H "\r\n");
    rig_expect(once, 200, "hello");
    rig_expect_closed(never, false);
    rig_expect_closed(once, false);
    assert_int_equal(stats().timeouts, 0); /* idle ones are not counted as slow */
    wait_for_connections(0);
    rig_close(never);
    rig_close(once);
}

/* A head must be whole in its time, however busily it drips. */
static void test_slow_head(void **state)
{
    (void)state;
    rig_init(&rig, 1);
    rig.opts.head_timeout_ms = 80;
    rig_start(&rig);
    int fd = rig_connect(&rig);
    rig_send(fd, "GET /hello" H);
    for (int i = 0; i < 1000 && rig_try_send(fd, "X: y\r\n", 6); i++)
        clock_sleep_ms(10);
    rig_expect(fd, 408, NULL);
    rig_expect_closed(fd, true);
    assert_int_equal(stats().timeouts, 1);
    rig_close(fd);
}

/* A body that makes progress is served, one that does not is not. */
static void test_slow_body(void **state)
{
    (void)state;
    rig_init(&rig, 1);
    rig.opts.body_timeout_ms = 150;
    rig_start(&rig);
    int drip = rig_connect(&rig), stuck = rig_connect(&rig);
    rig_send(stuck, "PUT /echo" H "Content-Length: 30\r\n\r\nabc");
    rig_send(drip, "PUT /echo" H "Content-Length: 12\r\n\r\n");
    for (int i = 0; i < 12; i++) {
        clock_sleep_ms(25);
        rig_send(drip, "x");
    }
    rig_expect(drip, 200, "xxxxxxxxxxxx");
    rig_expect(stuck, 408, NULL);
    rig_expect_closed(stuck, true);
    rig_wait_for(&rig_closed, 2);
    assert_int_equal(rig_count(&rig_died), 1);
    rig_close(drip);
    rig_close(stuck);
}

/* A handler's own time is not the client's: nothing runs out while it works. */
static void test_held_request_has_no_timeout(void **state)
{
    (void)state;
    rig_init(&rig, 1);
    rig.opts.body_timeout_ms = rig.opts.idle_timeout_ms = rig.opts.head_timeout_ms = 20;
    rig_start(&rig);
    int fd = rig_connect(&rig);
    rig_send(fd, "GET /later?ms=200" H "\r\n");
    rig_expect(fd, 200, "later");
    rig_close(fd);
}

static void test_reader_that_stops(void **state)
{
    (void)state;
    rig_init(&rig, 1);
    rig.opts.body_timeout_ms = 100;
    rig_start(&rig);
    int fd = rig_connect(&rig);
    rig_send(fd, "GET /source?len=8000000&file=1&piece=8000000" H "\r\n");
    rig_wait_for(&rig_closed, 1);
    assert_int_equal(stats().timeouts, 1);
    wait_for_connections(0);
    rig_close(fd);
}

/* Who is refused and neither reads nor goes is not waited for without end. */
static void test_lingering_ends(void **state)
{
    (void)state;
    start(1);
    int fd = rig_connect(&rig), talker = rig_connect(&rig);
    rig_send(fd, "bad\r\n\r\n");
    rig_send(talker, "bad\r\n\r\n");
    for (int i = 0; i < 200 && rig_try_send(talker, "more\r\n", 6); i++)
        clock_sleep_ms(25);
    wait_for_connections(0);
    rig_close(fd);
    rig_close(talker);
}

static void test_slowloris_beside_an_honest_client(void **state)
{
    (void)state;
    enum { N = 50 };
    start(1);
    int fds[N], fd = rig_connect(&rig);
    for (int i = 0; i < N; i++)
        fds[i] = rig_connect(&rig);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < N; i++)
            rig_send(fds[i], "%c", "GET /hello"[round]);
        rig_send(fd, "GET /hello" H "\r\n");
        rig_expect(fd, 200, "hello");
    }
    for (int i = 0; i < N; i++)
        rig_close(fds[i]);
    rig_close(fd);
}

static struct loop_msg drain_msg;
static void run_drain(struct loop_msg *msg)
{
    (void)msg;
    http_server_drain(rig.server);
}

static void drain(void)
{
    drain_msg.run = run_drain;
    loop_post(rig.loops[0], &drain_msg);
}

static void test_drain(void **state)
{
    (void)state;
    start(2);
    int idle[4], busy[4], half[2];
    struct rig_answer a;
    for (int i = 0; i < 4; i++) {
        idle[i] = rig_connect(&rig);
        rig_send(idle[i], "GET /hello" H "\r\n");
        rig_expect(idle[i], 200, "hello");
        busy[i] = rig_connect(&rig);
        rig_send(busy[i], "GET /later?ms=100" H "\r\nGET /hello" H "\r\n");
    }
    for (int i = 0; i < 2; i++) {
        half[i] = rig_connect(&rig);
        rig_send(half[i], i == 0 ? "GET /hel" : "PUT /echo" H "Content-Length: 5\r\n\r\nhe");
    }
    rig_wait_for(&rig_ended, 4);
    rig_wait_for(&rig_opened, 9); /* which the half-sent head is not among */
    wait_for_connections(10);
    clock_sleep_ms(10);
    drain();
    for (int i = 0; i < 4; i++)
        rig_expect_closed(idle[i], false);
    for (int i = 0; i < 4; i++) {
        rig_read(busy[i], false, &a);
        assert_string_equal(a.body, "later");
        assert_string_equal(rig_header(&a, "connection"), "close");
        rig_answer_free(&a);
        rig_expect_closed(busy[i], true);
    }
    rig_send(half[0], "lo" H "\r\n");
    rig_send(half[1], "llo");
    rig_expect(half[0], 200, "hello");
    rig_expect(half[1], 200, "hello");
    rig_expect_closed(half[0], false);
    rig_expect_closed(half[1], false);
    for (int i = 0; i < 4; i++) {
        rig_close(idle[i]);
        rig_close(busy[i]);
    }
    rig_close(half[0]);
    rig_close(half[1]);
    wait_for_connections(0);
    drain(); /* twice is once */
    clock_sleep_ms(5);
    assert_int_equal(http_server_port(rig.server), 0);
}

/* Freed in the middle of everything: nothing leaks, every on_close comes. */
static void test_end_in_the_middle(void **state)
{
    (void)state;
    start(2);
    int fds[12];
    static const char *const requests[] = {
        "GET /hello" H "\r\n", "PUT /echo" H "Content-Length: 50\r\n\r\nabc", "GET /big?n=9000000" H "\r\n",
        "GET /source?len=8000000" H "\r\n", "GET /hel", "GET / " H "bad\r\n\r\n",
    };
    for (int i = 0; i < 12; i++) {
        fds[i] = rig_connect(&rig);
        rig_send(fds[i], "%s", requests[i % 6]);
    }
    rig_wait_for(&rig_opened, 8);
    rig_stop(&rig);
    for (int i = 0; i < 12; i++)
        rig_close(fds[i]);
    start(1);
}

static void test_two_loops_share_evenly(void **state)
{
    (void)state;
    start(2);
    enum { N = 16 };
    int fds[N];
    for (int round = 0; round < 20; round++)
        for (int i = 0; i < N; i++) {
            if (round == 0)
                fds[i] = rig_connect(&rig);
            rig_send(fds[i], i % 3 ? "GET /hello" H "\r\n" : "PUT /later?ms=1" H "Content-Length: 3\r\n\r\nabc");
            if (i % 2)
                rig_expect(fds[i], 200, NULL);
            else if (round > 0)
                rig_expect(fds[i], 200, NULL); /* the one of the round before */
        }
    for (int i = 0; i < N; i++)
        rig_close(fds[i]);
    rig_wait_for(&rig_opened, N * 20);
}

static size_t resident_bytes(void)
{
    char text[128] = "";
    int fd = open("/proc/self/statm", O_RDONLY);
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    unsigned long size, pages = 0;
    assert_true(n > 0 && sscanf(text, "%lu %lu", &size, &pages) == 2);
    return pages * 4096;
}

/* Thousands of idle keep-alive connections, each of which was served once, cost little. */
static void test_idle_connections_are_cheap(void **state)
{
    (void)state;
    struct rlimit lim;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &lim), 0);
    lim.rlim_cur = lim.rlim_max;
    setrlimit(RLIMIT_NOFILE, &lim);
    getrlimit(RLIMIT_NOFILE, &lim);
    /* Both ends are ours, so half of what we may open. */
    size_t n = lim.rlim_cur > 22000 ? 10000 : (size_t)lim.rlim_cur / 2 - 100;
    int *fds = calloc(n, sizeof *fds);
    start(1);
    for (size_t i = 0; i < 100; i++) {
        fds[i] = rig_connect(&rig);
        rig_send(fds[i], "GET /hello" H "\r\n");
        rig_expect(fds[i], 200, "hello");
    }
    size_t before = resident_bytes();
    for (size_t i = 100; i < n; i++) {
        fds[i] = rig_connect(&rig);
        rig_send(fds[i], "GET /hello" H "\r\n");
        rig_expect(fds[i], 200, "hello");
    }
    size_t each = (resident_bytes() - before) / (n - 100);
    print_message("%zu idle connections: %zu bytes each\n", n, each);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
    assert_true(each <= 1024);
#endif
    assert_int_equal(http_server_connections(rig.server), n);
    for (size_t i = 0; i < n; i++)
        rig_close(fds[i]);
    free(fds);
    wait_for_connections(0);
}

static void test_address_in_use(void **state)
{
    (void)state;
    start(1);
    struct http_server *second = (void *)&rig;
    struct http_server_options o = rig.opts;
    o.port = rig.port;
    assert_int_equal(http_server_new(&o, &second), DFS_EBUSY);
    assert_ptr_equal(second, &rig); /* untouched */
    o.host = "no such host.invalid";
    assert_int_equal(http_server_new(&o, &second), DFS_EINVAL);
    o.host = "192.0.2.1"; /* nobody's */
    assert_int_equal(http_server_new(&o, &second), DFS_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_teardown(name, teardown)
        T(test_limit_of_connections),
        T(test_idle_timeout),
        T(test_slow_head),
        T(test_slow_body),
        T(test_held_request_has_no_timeout),
        T(test_reader_that_stops),
        T(test_lingering_ends),
        T(test_slowloris_beside_an_honest_client),
        T(test_drain),
        T(test_end_in_the_middle),
        T(test_two_loops_share_evenly),
        T(test_idle_connections_are_cheap),
        T(test_address_in_use),
    };
    return cmocka_run_group_tests_name("http_server", tests, NULL, NULL);
}
