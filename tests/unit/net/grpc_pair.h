/* A server and a channel to it on one loop, for the tests of gRPC.  Each test runs the loop until its condition holds. */
#ifndef DFS_TESTS_GRPC_PAIR_H
#define DFS_TESTS_GRPC_PAIR_H

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/grpc.h"
#include "net/grpc_wire.h"
#include "net/h2.h"

#define PAIR_PATIENCE_MS 20000

struct pair {
    struct loop *loop;
    struct grpc_server *server;
    struct grpc_channel *ch;
    struct addr addr;
    struct loop_timer patience, nap;
    bool late;
    int ups, downs, down_rc;
    /* what the server's calls saw */
    int opened, messages, half_closed, closed;
    enum grpc_status closed_status;
    size_t bytes;
    struct grpc_call *hanging;
};

static inline uint16_t pair_free_port(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof in;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&in, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &len), 0);
    close(fd);
    return ntohs(in.sin_port);
}

static inline void pair_too_late(void *arg)
{
    struct pair *p = arg;
    p->late = true;
    loop_stop(p->loop);
}

static inline void pair_wake(void *arg)
{
    (void)arg;
}

/* Stops the loop from within; pair_run() goes on. */
static inline void pair_done(struct pair *p)
{
    loop_stop(p->loop);
}

static inline void pair_run(struct pair *p)
{
    loop_timer_set(&p->patience, PAIR_PATIENCE_MS);
    loop_run(p->loop);
    loop_timer_cancel(&p->patience);
    assert_false(p->late);
}

/* Lets the loop turn for a while. */
static inline void pair_nap_over(void *arg)
{
    pair_done(arg);
}

static inline void pair_nap(struct pair *p, uint64_t ms)
{
    p->nap.fn = pair_nap_over;
    loop_timer_set(&p->nap, ms);
    pair_run(p);
}

/* Turns the loop in short steps until *flag is at least n. */
static inline void pair_until(struct pair *p, const int *flag, int n)
{
    for (int i = 0; *flag < n; i++) {
        assert_true(i < PAIR_PATIENCE_MS / 2);
        pair_nap(p, 2);
    }
}

static inline void pair_on_up(void *arg, struct grpc_channel *ch)
{
    (void)ch;
    ((struct pair *)arg)->ups++;
}

static inline void pair_on_down(void *arg, struct grpc_channel *ch, int rc)
{
    (void)ch;
    struct pair *p = arg;
    p->downs++;
    p->down_rc = rc;
}

static inline void pair_listen(struct pair *p, const struct grpc_method *methods, uint32_t n)
{
    struct grpc_server_options o = {
        .loop = p->loop, .host = "127.0.0.1", .port = p->addr.grpc_port, .methods = methods, .method_count = n, .arg = p};
    assert_int_equal(grpc_server_new(&o, &p->server), 0);
}

static inline void pair_new(struct pair *p, const struct grpc_method *methods, uint32_t n)
{
    static const struct grpc_channel_ops ops = {.on_up = pair_on_up, .on_down = pair_on_down};
    *p = (struct pair){.addr = {.host = "127.0.0.1", .port = 1}};
    p->addr.grpc_port = pair_free_port();
    assert_int_equal(loop_new("test", &p->loop), 0);
    loop_timer_init(&p->patience, p->loop, pair_too_late, p);
    loop_timer_init(&p->nap, p->loop, pair_nap_over, p);
    pair_listen(p, methods, n);
    assert_int_equal(grpc_channel_new(p->loop, &p->addr, &ops, p, &p->ch), 0);
}

static inline void pair_free(struct pair *p)
{
    grpc_channel_free(p->ch);
    grpc_server_free(p->server);
    loop_timer_release(&p->patience);
    loop_timer_release(&p->nap);
    loop_free(p->loop);
}

/* ---- what a client's call saw ---- */

struct seen {
    struct pair *pair;
    struct grpc_call *call;
    int messages, writable, closed;
    size_t bytes, last_n;
    char last[64];
    enum grpc_status status;
    char text[3000];
    int stop_when_closed;
};

static inline void seen_message(struct grpc_call *call, struct bytes m)
{
    struct seen *s = grpc_call_user(call);
    s->messages++;
    s->bytes += m.n;
    s->last_n = m.n < sizeof s->last ? m.n : sizeof s->last;
    memcpy(s->last, m.p, s->last_n);
}

static inline void seen_writable(struct grpc_call *call)
{
    ((struct seen *)grpc_call_user(call))->writable++;
}

static inline void seen_closed(struct grpc_call *call, enum grpc_status status, struct bytes text)
{
    struct seen *s = grpc_call_user(call);
    s->closed++;
    s->status = status;
    snprintf(s->text, sizeof s->text, "%.*s", (int)text.n, text.p != NULL ? text.p : "");
    s->call = NULL;
    if (s->stop_when_closed)
        pair_done(s->pair);
}

static const struct grpc_call_ops seen_ops __attribute__((unused)) = {
    .on_message = seen_message, .on_writable = seen_writable, .on_closed = seen_closed};

static inline struct grpc_call *seen_start(struct pair *p, struct seen *s, const char *path, uint32_t deadline_ms)
{
    *s = (struct seen){.pair = p, .stop_when_closed = 1};
    assert_int_equal(grpc_call_start(p->ch, path, &seen_ops, s, deadline_ms, &s->call), 0);
    return s->call;
}

#endif
