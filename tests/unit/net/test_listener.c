/* The listener: dealing in turn and by load, every kind of address, running out of descriptors, stopping. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "needle/err.h"
#include "net/clock.h"
#include "net/listener.h"

#define WAIT_MS 10000

static struct loop *loops[2];
static struct listener *listener;
static uint32_t dealt[2], wrong, accepted;

static void on_accept(void *arg, struct loop *loop, int fd, const struct sockaddr_storage *peer)
{
    int nodelay = 0;
    socklen_t len = sizeof nodelay;
    getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &nodelay, &len);
    bool right = arg == loops && loop_is_current(loop) && nodelay != 0 && (fcntl(fd, F_GETFL) & O_NONBLOCK) &&
                 (fcntl(fd, F_GETFD) & FD_CLOEXEC) && peer->ss_family == AF_INET;
    if (!right)
        __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&dealt[loop == loops[1]], 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&accepted, 1, __ATOMIC_RELAXED);
    ssize_t n = send(fd, "!", 1, MSG_NOSIGNAL);
    (void)n;
    close(fd);
}

static int make(const char *host, uint16_t port, struct listener **out)
{
    struct listener_options o = {.accept_loop = loops[0], .loops = loops, .loop_count = 2, .host = host, .port = port,
                                 .on_accept = on_accept, .arg = loops};
    return listener_new(&o, out);
}

static void start(void)
{
    for (int i = 0; i < 2; i++)
        assert_int_equal(loop_start(loops[i]), 0);
}

static int setup(void **state)
{
    (void)state;
    dealt[0] = dealt[1] = wrong = accepted = 0;
    for (int i = 0; i < 2; i++)
        if (loop_new("listen", &loops[i]) != 0)
            return -1;
    return make("127.0.0.1", 0, &listener);
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        loop_stop(loops[i]);
    for (int i = 0; i < 2; i++)
        loop_join(loops[i]);
    listener_free(listener);
    for (int i = 0; i < 2; i++) {
        loop_run_posted(loops[i]);
        loop_free(loops[i]);
    }
    return wrong == 0 ? 0 : -1;
}

static int dial(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd != -1 && connect(fd, (struct sockaddr *)&to, sizeof to) == -1) {
        close(fd);
        return -1;
    }
    return fd;
}

/* 1: the greeting came; 0: closed without one; -1: neither. */
static int greeted(int fd)
{
    char byte;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (poll(&p, 1, WAIT_MS) != 1)
        return -1;
    return recv(fd, &byte, 1, 0) == 1 ? 1 : 0;
}

static void test_deals_in_turn(void **state)
{
    (void)state;
    start();
    for (int i = 0; i < 40; i++) {
        int fd = dial(listener_port(listener));
        assert_int_equal(greeted(fd), 1);
        close(fd);
    }
    assert_int_equal(__atomic_load_n(&dealt[0], __ATOMIC_RELAXED), 20);
    assert_int_equal(__atomic_load_n(&dealt[1], __ATOMIC_RELAXED), 20);
}

static uint32_t pretended[2];

static uint32_t pretended_load(void *arg, uint32_t loop)
{
    (void)arg;
    return pretended[loop];
}

/* Ten connections to a listener that believes the loops to have so many already: how many of them each loop got. */
static void deal_ten(uint32_t first, uint32_t second, uint32_t gather_local, uint32_t got[2])
{
    struct listener_options o = {.accept_loop = loops[0], .loops = loops, .loop_count = 2, .host = "127.0.0.1", .arg = loops,
                                 .on_accept = on_accept, .load = pretended_load, .gather_local = gather_local};
    pretended[0] = first;
    pretended[1] = second;
    dealt[0] = dealt[1] = 0;
    listener_free(listener);
    assert_int_equal(listener_new(&o, &listener), 0);
    start();
    for (int i = 0; i < 10; i++) {
        int fd = dial(listener_port(listener));
        assert_int_equal(greeted(fd), 1);
        close(fd);
    }
    for (int i = 0; i < 2; i++)
        got[i] = __atomic_load_n(&dealt[i], __ATOMIC_RELAXED);
}

static void test_deals_to_the_least_loaded(void **state)
{
    uint32_t got[2];
    (void)state;
    deal_ten(20, 40, 0, got);
    assert_int_equal(got[0], 10);
}

static void test_deals_to_the_least_loaded_other(void **state)
{
    uint32_t got[2];
    (void)state;
    deal_ten(40, 20, 0, got);
    assert_int_equal(got[1], 10);
}

static void test_gathers_local_clients(void **state)
{
    uint32_t got[2];
    (void)state;
    deal_ten(40, 20, 60, got);
    assert_int_equal(got[0], 10);
}

static void test_gathers_only_so_many(void **state)
{
    uint32_t got[2];
    (void)state;
    deal_ten(60, 40, 60, got);
    assert_int_equal(got[1], 10);
}

static void test_a_burst_before_the_loop_runs(void **state)
{
    (void)state;
    int fds[200];
    for (int i = 0; i < 200; i++)
        assert_true((fds[i] = dial(listener_port(listener))) != -1);
    start();
    for (int i = 0; i < 200; i++) {
        assert_int_equal(greeted(fds[i]), 1);
        close(fds[i]);
    }
}

static void test_addresses(void **state)
{
    (void)state;
    struct listener *other;
    static const char *const hosts[] = {"", "0.0.0.0", NULL, "localhost"};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(make(hosts[i], 0, &other), 0);
        assert_int_not_equal(listener_port(other), 0);
        listener_free(other);
    }
    assert_int_equal(make("127.0.0.1", listener_port(listener), &other), DFS_EBUSY);
    assert_int_equal(make("nobody.invalid", 0, &other), DFS_EINVAL);
    assert_int_equal(make("not a name", 0, &other), DFS_EINVAL);
    listener_free(NULL);
}

static struct loop_msg stop_msg;
static void run_stop(struct loop_msg *msg)
{
    (void)msg;
    listener_stop(listener);
    listener_stop(listener);
}

static void test_stop(void **state)
{
    (void)state;
    uint16_t port = listener_port(listener);
    start();
    int fd = dial(port);
    assert_int_equal(greeted(fd), 1);
    close(fd);
    stop_msg.run = run_stop;
    loop_post(loops[0], &stop_msg);
    for (int i = 0; i < WAIT_MS && (fd = dial(port)) != -1; i++) {
        close(fd);
        clock_sleep_ms(1);
    }
    assert_int_equal(fd, -1);
}

/* Sockets on their way to another loop when the listener goes are still delivered. */
static void test_freed_while_sockets_are_on_their_way(void **state)
{
    (void)state;
    int fds[10];
    assert_int_equal(loop_start(loops[0]), 0); /* the other one does not run: its sockets wait in the mailbox */
    for (int i = 0; i < 10; i++)
        fds[i] = dial(listener_port(listener));
    for (int i = 0; i < 10; i += 2)
        assert_int_equal(greeted(fds[i]), 1);
    stop_msg.run = run_stop;
    loop_post(loops[0], &stop_msg);
    loop_stop(loops[0]);
    loop_join(loops[0]);
    listener_free(listener);
    listener = NULL;
    assert_int_equal(loop_start(loops[1]), 0);
    for (int i = 1; i < 10; i += 2)
        assert_int_equal(greeted(fds[i]), 1);
    for (int i = 0; i < 10; i++)
        close(fds[i]);
}

/* With no descriptor left the client is told by a close, and service returns. */
static void test_out_of_descriptors(void **state)
{
    (void)state;
    struct rlimit before, now;
    int waiting[30], fill[2000], n = 0;
    getrlimit(RLIMIT_NOFILE, &before);
    for (int i = 0; i < 30; i++)
        assert_true((waiting[i] = dial(listener_port(listener))) != -1);
    now = before;
    now.rlim_cur = 600;
    setrlimit(RLIMIT_NOFILE, &now);
    while (n < 2000 && (fill[n] = dup(0)) != -1)
        n++;
    assert_int_equal(errno, EMFILE);
    start();
    for (int i = 0; i < 30; i++)
        assert_int_equal(greeted(waiting[i]), 0);
    while (n > 0)
        close(fill[--n]);
    setrlimit(RLIMIT_NOFILE, &before);
    for (int i = 0; i < 30; i++)
        close(waiting[i]);
    int fd = dial(listener_port(listener));
    assert_int_equal(greeted(fd), 1);
    close(fd);
    assert_int_equal(__atomic_load_n(&accepted, __ATOMIC_RELAXED), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(test_deals_in_turn),
        T(test_deals_to_the_least_loaded),
        T(test_deals_to_the_least_loaded_other),
        T(test_gathers_local_clients),
        T(test_gathers_only_so_many),
        T(test_a_burst_before_the_loop_runs),
        T(test_addresses),
        T(test_stop),
        T(test_freed_while_sockets_are_on_their_way),
        T(test_out_of_descriptors),
    };
    return cmocka_run_group_tests_name("listener", tests, NULL, NULL);
}
