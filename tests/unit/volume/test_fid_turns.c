/* Turns: in order, one at a time for each needle, whichever loop asks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cmocka.h>

#include "net/clock.h"
#include "net/rand.h"
#include "volume/fid_turns.h"

#define LOOPS 3u
#define NEEDLES 5u
#define ASKERS 600u
#define WAIT_MS 20000

static struct loop *loops[LOOPS];
static struct fid_turns *turns;

static int setup(void **state)
{
    (void)state;
    assert_int_equal(fid_turns_new(&turns), 0);
    for (unsigned i = 0; i < LOOPS; i++) {
        assert_int_equal(loop_new("turns", &loops[i]), 0);
        assert_int_equal(loop_start(loops[i]), 0);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (unsigned i = 0; i < LOOPS; i++) {
        loop_stop(loops[i]);
        loop_join(loops[i]);
        loop_free(loops[i]);
    }
    fid_turns_free(turns);
    return 0;
}

/* ---- in the test's thread alone: order ---- */

static unsigned came[8];
static atomic_uint came_count;

struct named {
    struct fid_turn turn;
    unsigned name;
};

static void on_named(struct fid_turn *turn)
{
    unsigned at = atomic_load(&came_count);

    came[at] = ((struct named *)turn)->name;
    atomic_store(&came_count, at + 1);
}

static void wait_for_count(unsigned n)
{
    for (int i = 0; i < WAIT_MS && atomic_load(&came_count) < n; i++)
        clock_sleep_ms(1);
    assert_int_equal(atomic_load(&came_count), n);
}

static void turns_come_in_order(void **state)
{
    struct named a[4];

    (void)state;
    atomic_store(&came_count, 0);
    for (unsigned i = 0; i < 4; i++)
        a[i] = (struct named){.turn = {.loop = loops[0], .volume_id = 3, .key = 9, .run = on_named}, .name = i};
    struct named other_key = {.turn = {.loop = loops[0], .volume_id = 3, .key = 10, .run = on_named}};
    struct named other_volume = {.turn = {.loop = loops[0], .volume_id = 4, .key = 9, .run = on_named}};
    assert_true(fid_turn_take(turns, &a[0].turn));
    for (unsigned i = 1; i < 4; i++)
        assert_false(fid_turn_take(turns, &a[i].turn));
    assert_true(fid_turn_take(turns, &other_key.turn));
    assert_true(fid_turn_take(turns, &other_volume.turn));
    for (unsigned i = 0; i < 4; i++) {
        clock_sleep_ms(2);
        assert_int_equal(atomic_load(&came_count), i); /* never before it was given */
        fid_turn_give(turns, &a[i].turn);
        if (i < 3)
            wait_for_count(i + 1);
    }
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(came[i], i + 1);
    fid_turn_give(turns, &other_key.turn);
    fid_turn_give(turns, &other_volume.turn);
    assert_true(fid_turn_take(turns, &a[0].turn));
    fid_turn_give(turns, &a[0].turn);
}

/* ---- many loops ---- */

static atomic_uint inside[NEEDLES], done, overlaps;

struct asker {
    struct loop_msg msg;
    struct fid_turn turn;
};

static void go(struct asker *a)
{
    if (atomic_fetch_add(&inside[a->turn.key], 1) != 0)
        atomic_fetch_add(&overlaps, 1);
    for (volatile int i = 0; i < 200; i++)
        ;
    atomic_fetch_sub(&inside[a->turn.key], 1);
    fid_turn_give(turns, &a->turn);
    atomic_fetch_add(&done, 1);
}

static void on_turn(struct fid_turn *turn)
{
    go((struct asker *)((char *)turn - offsetof(struct asker, turn)));
}

static void on_ask(struct loop_msg *msg)
{
    struct asker *a = (struct asker *)((char *)msg - offsetof(struct asker, msg));

    if (fid_turn_take(turns, &a->turn))
        go(a);
}

static void one_at_a_time_from_all_loops(void **state)
{
    struct asker *all = calloc(ASKERS, sizeof *all);

    (void)state;
    for (unsigned i = 0; i < ASKERS; i++) {
        struct loop *loop = loops[i % LOOPS];
        all[i].turn = (struct fid_turn){.loop = loop, .volume_id = 1, .key = rand_mix64(i) % NEEDLES, .run = on_turn};
        all[i].msg.run = on_ask;
        loop_post(loop, &all[i].msg);
    }
    for (int i = 0; i < WAIT_MS && atomic_load(&done) < ASKERS; i++)
        clock_sleep_ms(1);
    assert_int_equal(atomic_load(&done), ASKERS);
    assert_int_equal(atomic_load(&overlaps), 0);
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(turns_come_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(one_at_a_time_from_all_loops, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
