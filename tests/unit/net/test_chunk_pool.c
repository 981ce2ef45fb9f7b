/* The pool of chunks: bound, reserve, waiting in turn, promises, pages given back, several threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/chunkq.h"
#include "net/clock.h"

static struct chunk_pool *pool;
static struct loop *loop;

static int setup(void **state)
{
    (void)state;
    int rc = loop_new("test", &loop);
    return rc != 0 ? rc : chunk_pool_new(8 * CHUNK_BYTES, 2 * CHUNK_BYTES, &pool);
}

static int teardown(void **state)
{
    (void)state;
    chunk_pool_free(pool);
    loop_free(loop);
    return 0;
}

static void test_bound_and_reserve(void **state)
{
    (void)state;
    void *c[9];
    assert_int_equal(chunk_pool_bound_bytes(pool), 8 * CHUNK_BYTES);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(chunk_get(pool, false, &c[i]), 0);
        assert_int_equal((uintptr_t)c[i] % 4096, 0);
        memset(c[i], i, CHUNK_BYTES);
        for (int k = 0; k < i; k++)
            assert_ptr_not_equal(c[i], c[k]);
    }
    assert_int_equal(chunk_get(pool, false, &c[6]), DFS_EAGAIN);
    assert_int_equal(chunk_get(pool, true, &c[6]), 0);
    assert_int_equal(chunk_get(pool, true, &c[7]), 0);
    assert_int_equal(chunk_get(pool, true, &c[8]), DFS_EAGAIN);
    assert_int_equal(chunk_pool_used_bytes(pool), 8 * CHUNK_BYTES);
    chunk_put(pool, c[0]); /* an ordinary one back: anybody may have it */
    assert_int_equal(chunk_get(pool, true, &c[0]), 0);
    chunk_put(pool, c[1]);
    chunk_put(pool, c[0]);
    assert_int_equal(chunk_get(pool, false, &c[0]), 0);
    assert_int_equal(chunk_get(pool, false, &c[1]), 0);
    assert_int_equal(chunk_get(pool, false, &c[8]), DFS_EAGAIN);
    for (int i = 0; i < 8; i++)
        chunk_put(pool, c[i]);
    chunk_put(pool, NULL);
    assert_int_equal(chunk_pool_used_bytes(pool), 0);
    void *many[8];
    assert_int_equal(chunk_get_many(pool, false, many, 7), DFS_EAGAIN);
    assert_int_equal(chunk_pool_used_bytes(pool), 0);
    assert_int_equal(chunk_get_many(pool, false, many, 6), 0);
    for (int i = 0; i < 6; i++)
        chunk_put(pool, many[i]);
}

static void test_least_size(void **state)
{
    (void)state;
    struct chunk_pool *small;
    void *c[8];
    assert_int_equal(chunk_pool_new(1, SIZE_MAX / 2, &small), 0);
    assert_int_equal(chunk_pool_bound_bytes(small), 8 * CHUNK_BYTES);
    assert_int_equal(chunk_pool_takable(small, false), 1); /* never none: ordinary work must go on somehow */
    assert_int_equal(chunk_get(small, false, &c[0]), 0);
    assert_int_equal(chunk_get(small, false, &c[1]), DFS_EAGAIN);
    chunk_put(small, c[0]);
    chunk_pool_free(small);
    chunk_pool_free(NULL);
}

struct waiting {
    struct chunk_waiter w;
    int order;      /* when it was called, from 1 */
    uint32_t takes; /* how many it takes then */
    void *got[8];
    int rc;
};
static int calls;

static void on_free(struct loop_msg *msg)
{
    struct waiting *w = CONTAINER_OF(msg, struct waiting, w.msg);
    w->order = ++calls;
    w->rc = w->takes > 0 ? chunk_get_many(pool, w->w.privileged, w->got, w->takes) : 0;
}

static void wait_for(struct waiting *w, bool privileged, uint32_t want, uint32_t takes)
{
    *w = (struct waiting){.takes = takes, .rc = 1};
    w->w.loop = loop;
    w->w.privileged = privileged;
    w->w.want = want;
    w->w.msg.run = on_free;
    chunk_pool_wait(pool, &w->w);
}

static void test_waiting_in_turn(void **state)
{
    (void)state;
    void *c[6], *x;
    struct waiting a, b, p;
    calls = 0;
    assert_int_equal(chunk_get_many(pool, false, c, 6), 0);
    wait_for(&a, false, 0, 1);
    wait_for(&b, false, 0, 1);
    loop_run_posted(loop);
    assert_int_equal(calls, 0);
    chunk_put(pool, c[0]);
    /* It is kept for a, who has not run yet. */
    assert_int_equal(chunk_get(pool, false, &x), DFS_EAGAIN);
    loop_run_posted(loop);
    assert_int_equal(a.order, 1);
    assert_int_equal(a.rc, 0);
    assert_int_equal(b.order, 0);
    /* Privileged ones have their own share, and go first. */
    wait_for(&p, true, 0, 1);
    loop_run_posted(loop);
    assert_int_equal(p.order, 2);
    assert_int_equal(p.rc, 0);
    chunk_put(pool, c[1]);
    loop_run_posted(loop);
    assert_int_equal(b.order, 3);
    assert_int_equal(b.rc, 0);
    for (int i = 2; i < 6; i++)
        chunk_put(pool, c[i]);
    chunk_put(pool, a.got[0]);
    chunk_put(pool, b.got[0]);
    chunk_put(pool, p.got[0]);
}

static void test_what_a_waiter_leaves_goes_to_the_next(void **state)
{
    (void)state;
    void *c[6];
    struct waiting a, b;
    calls = 0;
    assert_int_equal(chunk_get_many(pool, false, c, 6), 0);
    wait_for(&a, false, 0, 0);
    wait_for(&b, false, 0, 1);
    chunk_put(pool, c[0]);
    loop_run_posted(loop);
    assert_int_equal(a.order, 1);
    loop_run_posted(loop);
    assert_int_equal(b.order, 2);
    assert_int_equal(b.rc, 0);
    chunk_put(pool, b.got[0]);
    for (int i = 1; i < 6; i++)
        chunk_put(pool, c[i]);
}

static void test_wanting_many(void **state)
{
    (void)state;
    void *c[6], *x;
    struct waiting big, small, giant;
    calls = 0;
    assert_int_equal(chunk_get_many(pool, false, c, 6), 0);
    wait_for(&big, false, 4, 4);
    wait_for(&small, false, 1, 1);
    for (int i = 0; i < 3; i++) {
        chunk_put(pool, c[i]);
        loop_run_posted(loop);
        assert_int_equal(calls, 0); /* small does not overtake, so big gets there */
    }
    chunk_put(pool, c[3]);
    chunk_put(pool, c[4]);
    loop_run_posted(loop);
    assert_int_equal(big.order, 1);
    assert_int_equal(big.rc, 0);
    assert_int_equal(small.order, 2);
    assert_int_equal(small.rc, 0);
    assert_int_equal(chunk_get(pool, false, &x), DFS_EAGAIN);
    chunk_put(pool, small.got[0]);
    chunk_put(pool, c[5]);
    for (int i = 0; i < 4; i++)
        chunk_put(pool, big.got[i]);
    /* More than there will ever be: called when all is free, to find out. */
    wait_for(&giant, false, 1000, 7);
    loop_run_posted(loop);
    assert_int_equal(giant.order, 3);
    assert_int_equal(giant.rc, DFS_EAGAIN);
}

static void test_unwait(void **state)
{
    (void)state;
    void *c[6];
    struct waiting a, b, d;
    calls = 0;
    assert_int_equal(chunk_get_many(pool, false, c, 6), 0);
    wait_for(&a, false, 3, 1);
    wait_for(&b, false, 1, 1);
    wait_for(&d, false, 1, 1);
    chunk_put(pool, c[0]);
    assert_int_equal(calls, 0);
    assert_true(chunk_pool_unwait(pool, &d.w));
    assert_true(chunk_pool_unwait(pool, &a.w)); /* b stood behind it and has enough */
    assert_false(chunk_pool_unwait(pool, &b.w));
    loop_run_posted(loop);
    assert_int_equal(calls, 1);
    assert_int_equal(b.rc, 0);
    assert_true(chunk_pool_unwait(pool, &b.w)); /* called already */
    chunk_put(pool, b.got[0]);
    for (int i = 1; i < 6; i++)
        chunk_put(pool, c[i]);
    assert_int_equal(a.order + d.order, 0);
}

static uint64_t fake_mono(void *arg)
{
    return *(uint64_t *)arg * 1000000u;
}

static bool resident(void *chunk)
{
    unsigned char vec[CHUNK_BYTES / 4096];
    assert_int_equal(mincore(chunk, CHUNK_BYTES, vec), 0);
    return vec[0] & 1;
}

static void test_unneeded_pages_go_back(void **state)
{
    (void)state;
    uint64_t now = 1000;
    struct clock_ops fake = {.mono_ns = fake_mono, .arg = &now};
    void *c[6];
    clock_set_ops(&fake);
    assert_int_equal(chunk_get_many(pool, false, c, 6), 0);
    for (int i = 0; i < 6; i++)
        memset(c[i], 1, CHUNK_BYTES);
    for (int i = 0; i < 6; i++)
        chunk_put(pool, c[i]);
    assert_true(resident(c[0]) && resident(c[5]));
    chunk_pool_trim(pool);
    assert_true(resident(c[0])); /* it was in use in this period */
    for (int k = 0; k < 4; k++) {
        now += 20000;
        chunk_pool_trim(pool);
    }
    for (int i = 0; i < 6; i++)
        assert_false(resident(c[i]));
    /* And they are as good as before. */
    assert_int_equal(chunk_get_many(pool, false, c, 6), 0);
    for (int i = 0; i < 6; i++) {
        memset(c[i], 2, CHUNK_BYTES);
        chunk_put(pool, c[i]);
    }
    clock_set_ops(NULL);
}

/* Two loops that fight for chunks: each takes two, gives them back, waits when there are none. */
struct fighter {
    struct chunk_waiter w;
    int rounds;
};
static int finished;

static void fight(struct fighter *f)
{
    while (f->rounds > 0) {
        void *c[2];
        if (chunk_get_many(pool, f->w.privileged, c, 2) == DFS_EAGAIN) {
            chunk_pool_wait(pool, &f->w);
            return;
        }
        *(volatile char *)c[0] = 1;
        *(volatile char *)c[1] = 1;
        chunk_put(pool, c[1]);
        chunk_put(pool, c[0]);
        f->rounds--;
    }
    __atomic_add_fetch(&finished, 1, __ATOMIC_RELAXED);
}

static void run_fight(struct loop_msg *msg)
{
    fight(CONTAINER_OF(msg, struct fighter, w.msg));
}

static void test_two_loops(void **state)
{
    (void)state;
    struct loop *other;
    struct fighter f[8];
    struct loop_msg start[8];
    finished = 0;
    (void)start;
    assert_int_equal(loop_new("other", &other), 0);
    void *held[4];
    assert_int_equal(chunk_get_many(pool, false, held, 4), 0); /* leaves two ordinary and two privileged */
    for (int i = 0; i < 8; i++) {
        f[i] = (struct fighter){.rounds = 2000};
        f[i].w.loop = i % 2 == 0 ? loop : other;
        f[i].w.privileged = i >= 6;
        f[i].w.want = 2;
        f[i].w.msg.run = run_fight;
        loop_post(f[i].w.loop, &f[i].w.msg);
    }
    assert_int_equal(loop_start(loop), 0);
    assert_int_equal(loop_start(other), 0);
    for (int i = 0; i < 10000 && __atomic_load_n(&finished, __ATOMIC_RELAXED) < 8; i++)
        clock_sleep_ms(1);
    loop_stop(loop);
    loop_stop(other);
    loop_join(loop);
    loop_join(other);
    assert_int_equal(finished, 8);
    for (int i = 0; i < 4; i++)
        chunk_put(pool, held[i]);
    loop_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bound_and_reserve, setup, teardown),
        cmocka_unit_test(test_least_size),
        cmocka_unit_test_setup_teardown(test_waiting_in_turn, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_a_waiter_leaves_goes_to_the_next, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wanting_many, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unwait, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unneeded_pages_go_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_two_loops, setup, teardown),
    };
    return cmocka_run_group_tests_name("chunk_pool", tests, NULL, NULL);
}
