/* The loop: mailbox order and wake-ups, timers, hooks, stopping. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"
#include "net/loop.h"

#define SENDERS 3
#define PER_SENDER 5000

struct numbered {
    struct loop_msg msg;
    int sender, number;
};

static struct loop *loop;
static int last_number[SENDERS], received;
static struct numbered sent[SENDERS][PER_SENDER];

static void run_numbered(struct loop_msg *msg)
{
    struct numbered *n = CONTAINER_OF(msg, struct numbered, msg);
    assert_true(loop_is_current(loop));
    assert_ptr_equal(loop_current(), loop);
    assert_int_equal(n->number, last_number[n->sender] + 1);
    last_number[n->sender] = n->number;
    if (++received == SENDERS * PER_SENDER)
        loop_stop(loop);
}

static void *send_numbers(void *arg)
{
    int sender = (int)(intptr_t)arg;
    for (int i = 0; i < PER_SENDER; i++) {
        sent[sender][i] = (struct numbered){.msg.run = run_numbered, .sender = sender, .number = i};
        loop_post(loop, &sent[sender][i].msg);
    }
    return NULL;
}

static void test_posts_of_threads_keep_their_order(void **state)
{
    (void)state;
    pthread_t t[SENDERS];
    assert_int_equal(loop_new("test", &loop), 0);
    for (int i = 0; i < SENDERS; i++) {
        last_number[i] = -1;
        assert_int_equal(pthread_create(&t[i], NULL, send_numbers, (void *)(intptr_t)i), 0);
    }
    loop_run(loop);
    for (int i = 0; i < SENDERS; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(received, SENDERS * PER_SENDER);
    assert_null(loop_current());
    loop_free(loop);
}

/* A message that posts itself again must neither starve timers nor need a wake-up. */
static int self_posts;
static struct loop_msg self_msg;
static void run_self(struct loop_msg *msg)
{
    self_posts++;
    loop_post(loop, msg);
}
static void on_timer_stop(void *arg)
{
    (void)arg;
    loop_stop(loop);
}

static void test_self_posts_do_not_starve_timers(void **state)
{
    (void)state;
    struct loop_timer t;
    assert_int_equal(loop_new("test", &loop), 0);
    loop_timer_init(&t, loop, on_timer_stop, NULL);
    loop_timer_set(&t, 5);
    self_msg.run = run_self;
    loop_post(loop, &self_msg);
    loop_run(loop);
    assert_true(self_posts > 1);
    loop_timer_release(&t);
    loop_free(loop);
}

static int fired[3], fire_count;
static void on_fire(void *arg)
{
    fired[fire_count++] = (int)(intptr_t)arg;
    if (fire_count == 2)
        loop_stop(loop);
}

static void test_timers(void **state)
{
    (void)state;
    struct loop_timer a, b, c, never = {0};
    assert_int_equal(loop_new("test", &loop), 0);
    loop_timer_init(&a, loop, on_fire, (void *)1);
    loop_timer_init(&b, loop, on_fire, (void *)2);
    loop_timer_init(&c, loop, on_fire, (void *)3);
    loop_timer_set(&a, 20);
    loop_timer_set(&b, 0);
    loop_timer_set(&c, 1);
    assert_true(loop_timer_pending(&c));
    loop_timer_cancel(&c);
    assert_false(loop_timer_pending(&c));
    loop_timer_set(&a, 3); /* re-armed: the last word counts */
    loop_run(loop);
    assert_int_equal(fire_count, 2);
    assert_int_equal(fired[0], 2);
    assert_int_equal(fired[1], 1);
    assert_false(loop_timer_pending(&a));
    loop_timer_release(&a);
    loop_timer_release(&b);
    loop_timer_release(&c);
    loop_timer_cancel(&never);
    loop_timer_release(&never);
    assert_false(loop_timer_pending(&never));
    loop_free(loop);
}

static int hook_calls;
static struct loop_msg quiet_msg;
static bool in_callback;
static void on_hook(void *arg)
{
    assert_false(in_callback);
    assert_ptr_equal(arg, &hook_calls);
    if (++hook_calls == 3)
        loop_stop(loop);
    else
        loop_post(loop, &quiet_msg);
}
static void run_quiet(struct loop_msg *msg)
{
    (void)msg;
    in_callback = true;
    uint64_t a = loop_now_ms(loop), b = loop_now_ms(loop);
    assert_int_equal(a, b);
    assert_true(loop_wall_s(loop) > 1600000000u);
    in_callback = false;
}

static void test_hooks_run_between_callbacks(void **state)
{
    (void)state;
    assert_int_equal(loop_new("test", &loop), 0);
    assert_int_equal(loop_on_step(loop, on_hook, &hook_calls), 0);
    quiet_msg.run = run_quiet;
    loop_post(loop, &quiet_msg);
    loop_run(loop);
    assert_int_equal(hook_calls, 3);
    for (int i = 1; i < 8; i++)
        assert_int_equal(loop_on_step(loop, on_hook, NULL), 0);
    assert_int_equal(loop_on_step(loop, on_hook, NULL), DFS_ENOSPC);
    loop_free(loop);
}

static int ran;
static bool signals_blocked;
static void run_count(struct loop_msg *msg)
{
    (void)msg;
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    signals_blocked = sigismember(&now, SIGTERM) && sigismember(&now, SIGUSR1);
    ran++;
}

static void test_own_thread_and_stop(void **state)
{
    (void)state;
    struct loop_msg m[3] = {{.run = run_count}, {.run = run_count}, {.run = run_count}};
    assert_int_equal(loop_new("test", &loop), 0);
    loop_set_index(loop, 4);
    assert_int_equal(loop_index(loop), 4);
    assert_int_equal(loop_start(loop), 0);
    assert_false(loop_is_current(loop));
    loop_post(loop, &m[0]);
    loop_post(loop, &m[1]);
    loop_stop(loop);
    loop_join(loop);
    assert_int_equal(ran, 2); /* posted before the stop: still run */
    assert_true(signals_blocked);
    loop_post(loop, &m[2]);
    assert_int_equal(ran, 2);
    loop_run_posted(loop);
    assert_int_equal(ran, 3);
    loop_free(loop);
}

static void test_scratch(void **state)
{
    (void)state;
    assert_int_equal(loop_new("test", &loop), 0);
    char *p = loop_scratch(loop);
    assert_int_equal((uintptr_t)p % 4096, 0);
    memset(p, 1, LOOP_SCRATCH_BYTES);
    assert_ptr_equal(loop_scratch(loop), p);
    loop_free(loop);
    loop_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_posts_of_threads_keep_their_order),
        cmocka_unit_test(test_self_posts_do_not_starve_timers),
        cmocka_unit_test(test_timers),
        cmocka_unit_test(test_hooks_run_between_callbacks),
        cmocka_unit_test(test_own_thread_and_stop),
        cmocka_unit_test(test_scratch),
    };
    return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
