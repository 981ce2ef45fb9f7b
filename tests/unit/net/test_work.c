/* The pool: order, the privileged share, results posted to the asking loop, and an end that loses nothing. */
#include "net/work.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"

/* Items that run until they are let go. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool open_gate;
static unsigned running, ran;

struct item {
    struct work work;
    unsigned when; /* place in the order of starting, 1 = first */
    bool on_loop;
    atomic_bool done;
};

static int setup(void **state)
{
    (void)state;
    open_gate = false;
    running = ran = 0;
    return 0;
}

static void set_gate(bool open)
{
    pthread_mutex_lock(&lock);
    open_gate = open;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void run_held(struct work *w)
{
    struct item *i = (struct item *)w;
    pthread_mutex_lock(&lock);
    i->when = ++ran;
    running++;
    pthread_cond_broadcast(&changed);
    while (!open_gate)
        pthread_cond_wait(&changed, &lock);
    running--;
    pthread_mutex_unlock(&lock);
}

static void run_free(struct work *w)
{
    struct item *i = (struct item *)w;
    pthread_mutex_lock(&lock);
    i->when = ++ran;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void wait_ran(unsigned n)
{
    pthread_mutex_lock(&lock);
    while (ran < n)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static unsigned ran_now(void)
{
    pthread_mutex_lock(&lock);
    unsigned n = ran;
    pthread_mutex_unlock(&lock);
    return n;
}

static void submit(struct work_pool *pool, struct item *i, void (*run)(struct work *w), bool privileged)
{
    memset(i, 0, sizeof *i);
    i->work.run = run;
    i->work.privileged = privileged;
    work_submit(pool, &i->work);
}

static void items_run_in_order(void **state)
{
    (void)state;
    struct work_pool *pool;
    struct item first, item[50];
    assert_int_equal(work_pool_new("test", 1, &pool), 0);
    submit(pool, &first, run_held, false);
    wait_ran(1);
    for (int i = 0; i < 50; i++)
        submit(pool, &item[i], run_free, false);
    assert_int_equal(work_pending(pool), 51);
    set_gate(true);
    work_pool_free(pool);
    for (int i = 0; i < 50; i++)
        assert_int_equal(item[i].when, i + 2);
}

/* However much normal work is stuck, privileged work gets its threads; and no thread idles while there is work for it. */
static void a_share_is_kept_for_privileged_items(void **state)
{
    (void)state;
    static const struct {
        uint32_t threads, normal;
    } sizes[] = {{2, 1}, {4, 3}, {8, 6}};
    for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
        struct work_pool *pool;
        struct item stuck[32], privileged[20];
        setup(NULL);
        assert_int_equal(work_pool_new("test", sizes[s].threads, &pool), 0);
        for (int i = 0; i < 32; i++)
            submit(pool, &stuck[i], run_held, false);
        wait_ran(sizes[s].normal);
        clock_sleep_ms(20);
        assert_int_equal(ran_now(), sizes[s].normal);
        for (int i = 0; i < 20; i++)
            submit(pool, &privileged[i], run_free, true);
        wait_ran(sizes[s].normal + 20);
        set_gate(true);
        work_pool_free(pool);
        assert_int_equal(ran_now(), 52);
    }
}

static void privileged_items_use_every_thread(void **state)
{
    (void)state;
    struct work_pool *pool;
    struct item item[8];
    assert_int_equal(work_pool_new("test", 4, &pool), 0);
    for (int i = 0; i < 8; i++)
        submit(pool, &item[i], run_held, true);
    wait_ran(4);
    set_gate(true);
    work_pool_free(pool);
    assert_int_equal(ran_now(), 8);
}

/* One thread has no share to keep, so both kinds take turns. */
static void kinds_take_turns_on_one_thread(void **state)
{
    (void)state;
    struct work_pool *pool;
    struct item first, normal[10], privileged[10];
    assert_int_equal(work_pool_new("test", 1, &pool), 0);
    submit(pool, &first, run_held, false);
    wait_ran(1);
    for (int i = 0; i < 10; i++)
        submit(pool, &normal[i], run_free, false);
    for (int i = 0; i < 10; i++)
        submit(pool, &privileged[i], run_free, true);
    set_gate(true);
    work_pool_free(pool);
    for (int i = 0; i < 10; i++) {
        assert_in_range(normal[i].when, 2 * i + 2, 2 * i + 3);
        assert_in_range(privileged[i].when, 2 * i + 2, 2 * i + 3);
    }
}

static void on_done(struct work *w)
{
    struct item *i = (struct item *)w;
    i->on_loop = loop_is_current(w->loop);
    atomic_store(&i->done, true);
}

static void results_come_to_the_asking_loop(void **state)
{
    (void)state;
    struct work_pool *pool;
    struct loop *loop;
    struct item item[100];
    assert_int_equal(loop_new("asker", &loop), 0);
    assert_int_equal(loop_start(loop), 0);
    assert_int_equal(work_pool_new("test", 3, &pool), 0);
    for (int i = 0; i < 100; i++) {
        memset(&item[i], 0, sizeof item[i]);
        item[i].work.run = run_free;
        item[i].work.done = on_done;
        item[i].work.loop = loop;
        item[i].work.privileged = i % 3 == 0;
        work_submit(pool, &item[i].work);
    }
    work_pool_free(pool);
    loop_stop(loop); /* what was posted before is still run */
    loop_join(loop);
    for (int i = 0; i < 100; i++) {
        assert_true(atomic_load(&item[i].done));
        assert_true(item[i].on_loop);
    }
    loop_free(loop);
}

static void run_and_give_back(struct work *w)
{
    run_free(w);
    free(w);
}

static void items_without_done_may_free_themselves(void **state)
{
    (void)state;
    struct work_pool *pool;
    assert_int_equal(work_pool_new("test", 2, &pool), 0);
    for (int i = 0; i < 1000; i++) {
        struct item *item = malloc(sizeof *item);
        assert_non_null(item);
        submit(pool, item, run_and_give_back, i % 2 == 0);
    }
    work_pool_free(pool);
    assert_int_equal(ran_now(), 1000);
}

static struct work_pool *chain_pool;

static void run_chain(struct work *w)
{
    struct item *i = (struct item *)w;
    run_free(w);
    if (i->when < 200) {
        w->privileged = !w->privileged;
        work_submit(chain_pool, w);
    }
}

/* An item that brings itself again while the pool is being freed. */
static void freeing_runs_what_items_bring(void **state)
{
    (void)state;
    struct item item;
    assert_int_equal(work_pool_new("test", 4, &chain_pool), 0);
    submit(chain_pool, &item, run_chain, false);
    work_pool_free(chain_pool);
    assert_int_equal(ran_now(), 200);
    work_pool_free(NULL);
}

static void *submitter(void *arg)
{
    struct item *item = arg;
    for (int i = 0; i < 500; i++)
        submit(chain_pool, &item[i], run_free, i % 4 == 0);
    return NULL;
}

static void any_thread_may_submit(void **state)
{
    (void)state;
    pthread_t thread[4];
    struct item *item = calloc(4 * 500, sizeof *item);
    assert_int_equal(work_pool_new("test", 3, &chain_pool), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, submitter, item + (size_t)i * 500), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    wait_ran(2000);
    work_pool_free(chain_pool);
    assert_int_equal(ran_now(), 2000);
    free(item);
}

/* The sanitizers need address space without bounds. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* More stacks than there may be memory for. */
static void a_thread_that_cannot_be_had_is_named(void **state)
{
    struct work_pool *pool = NULL;
    struct rlimit before, now;
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    (void)state;
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu", &pages), 1);
    fclose(f);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    now = before;
    now.rlim_cur = pages * (rlim_t)sysconf(_SC_PAGESIZE) + (4u << 20);
    assert_int_equal(setrlimit(RLIMIT_AS, &now), 0);
    assert_int_equal(work_pool_new("test", 64, &pool), DFS_ENOTHREAD);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_null(pool);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(items_run_in_order, setup),
        cmocka_unit_test_setup(a_share_is_kept_for_privileged_items, setup),
        cmocka_unit_test_setup(privileged_items_use_every_thread, setup),
        cmocka_unit_test_setup(kinds_take_turns_on_one_thread, setup),
        cmocka_unit_test_setup(results_come_to_the_asking_loop, setup),
        cmocka_unit_test_setup(items_without_done_may_free_themselves, setup),
        cmocka_unit_test_setup(freeing_runs_what_items_bring, setup),
        cmocka_unit_test_setup(any_thread_may_submit, setup),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        cmocka_unit_test(a_thread_that_cannot_be_had_is_named),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
