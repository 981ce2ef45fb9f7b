/* Nothing is freed under a reader, and nothing is kept once all of them have moved on. */
#include "volume/epoch.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "needle/check.h"
#include "needle/err.h"

static int freed[64];
static int free_order[64], free_count;

static void note_free(void *obj)
{
    int *p = obj;
    free_order[free_count++] = (int)(p - freed);
    (*p)++;
}

static int setup(void **state)
{
    (void)state;
    for (int i = 0; i < 64; i++)
        freed[i] = 0;
    free_count = 0;
    return 0;
}

static void without_readers_objects_go_at_once(void **state)
{
    (void)state;
    struct epoch *e;
    assert_int_equal(epoch_new(&e), 0);
    epoch_retire(e, &freed[0], note_free);
    assert_int_equal(freed[0], 1);
    assert_int_equal(epoch_reclaim(e), 0);
    epoch_free(e);
    epoch_free(NULL);
    assert_int_equal(freed[0], 1);
}

static void every_reader_must_have_passed(void **state)
{
    (void)state;
    struct epoch *e;
    struct epoch_slot *a, *b;
    assert_int_equal(epoch_new(&e), 0);
    assert_int_equal(epoch_register(e, &a), 0);
    assert_int_equal(epoch_register(e, &b), 0);
    epoch_retire(e, &freed[0], note_free);
    assert_int_equal(epoch_reclaim(e), 1);
    epoch_quiescent(a);
    epoch_quiescent(a);
    assert_int_equal(epoch_reclaim(e), 1);
    epoch_retire(e, &freed[1], note_free);
    assert_int_equal(epoch_reclaim(e), 2);
    epoch_quiescent(b);
    assert_int_equal(freed[0] + freed[1], 0); /* only reclaiming frees */
    assert_int_equal(epoch_reclaim(e), 1);    /* a has not passed since the second one */
    assert_int_equal(freed[0], 1);
    assert_int_equal(freed[1], 0);
    epoch_quiescent(a);
    assert_int_equal(epoch_reclaim(e), 0);
    assert_int_equal(freed[1], 1);
    epoch_unregister(e, a);
    epoch_unregister(e, b);
    epoch_free(e);
}

static void sleepers_hold_nobody_up(void **state)
{
    (void)state;
    struct epoch *e;
    struct epoch_slot *a, *b;
    assert_int_equal(epoch_new(&e), 0);
    assert_int_equal(epoch_register(e, &a), 0);
    epoch_offline(a);
    epoch_retire(e, &freed[0], note_free);
    assert_int_equal(freed[0], 1);
    epoch_online(a);
    epoch_retire(e, &freed[1], note_free);
    assert_int_equal(freed[1], 0);
    epoch_offline(a);
    assert_int_equal(epoch_reclaim(e), 0);
    assert_int_equal(freed[1], 1);

    /* One who comes after the retirement cannot have seen the object. */
    epoch_online(a);
    epoch_retire(e, &freed[2], note_free);
    assert_int_equal(epoch_register(e, &b), 0);
    epoch_quiescent(a);
    assert_int_equal(epoch_reclaim(e), 0);
    assert_int_equal(freed[2], 1);

    /* One who leaves holds nothing. */
    epoch_retire(e, &freed[3], note_free);
    epoch_unregister(e, a);
    epoch_unregister(e, b);
    assert_int_equal(epoch_reclaim(e), 0);
    assert_int_equal(freed[3], 1);
    epoch_free(e);
}

static void objects_go_in_the_order_of_retirement(void **state)
{
    (void)state;
    struct epoch *e;
    struct epoch_slot *a;
    assert_int_equal(epoch_new(&e), 0);
    assert_int_equal(epoch_register(e, &a), 0);
    for (int i = 0; i < 64; i++)
        epoch_retire(e, &freed[i], note_free);
    epoch_unregister(e, a);
    epoch_free(e); /* frees what waits */
    assert_int_equal(free_count, 64);
    for (int i = 0; i < 64; i++)
        assert_int_equal(free_order[i], i);
}

static struct epoch *nested_epoch;

static void retire_another(void *obj)
{
    note_free(obj);
    epoch_retire(nested_epoch, &freed[1], note_free);
}

static void what_is_freed_may_retire_something(void **state)
{
    (void)state;
    assert_int_equal(epoch_new(&nested_epoch), 0);
    struct epoch_slot *a;
    assert_int_equal(epoch_register(nested_epoch, &a), 0);
    epoch_retire(nested_epoch, &freed[0], retire_another);
    epoch_unregister(nested_epoch, a);
    epoch_free(nested_epoch);
    assert_int_equal(freed[0] + freed[1], 2);
}

static void slots_are_bounded_and_used_again(void **state)
{
    (void)state;
    struct epoch *e;
    struct epoch_slot *slot[EPOCH_THREADS_MAX], *more = NULL;
    assert_int_equal(epoch_new(&e), 0);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < EPOCH_THREADS_MAX; i++)
            assert_int_equal(epoch_register(e, &slot[i]), 0);
        assert_int_equal(epoch_register(e, &more), DFS_ENOSPC);
        assert_null(more);
        for (int i = 0; i < EPOCH_THREADS_MAX; i++)
            epoch_unregister(e, slot[i]);
    }
    epoch_free(e);
}

/* Readers follow a pointer that a writer replaces all the time; freed objects are marked, and nobody may meet a mark. */
#define LIVE 0x1234567890abcdefull

struct object {
    uint64_t mark;
};

static struct {
    struct epoch *e;
    _Atomic(struct object *) shared;
    atomic_bool stop;
    atomic_uint bad, freed;
} race;

static void free_object(void *obj)
{
    struct object *o = obj;
    o->mark = 0;
    free(o);
    atomic_fetch_add(&race.freed, 1);
}

static void *reader(void *arg)
{
    bool sleeps = arg != NULL;
    struct epoch_slot *slot;
    CHECK(epoch_register(race.e, &slot) == 0);
    while (!atomic_load_explicit(&race.stop, memory_order_relaxed)) {
        for (int i = 0; i < 10; i++) {
            struct object *o = atomic_load_explicit(&race.shared, memory_order_acquire);
            if (o->mark != LIVE)
                atomic_fetch_add(&race.bad, 1);
        }
        if (sleeps) {
            epoch_offline(slot);
            epoch_online(slot);
        } else {
            epoch_quiescent(slot);
        }
    }
    epoch_unregister(race.e, slot);
    return NULL;
}

static struct object *object_new(void)
{
    struct object *o = malloc(sizeof *o);
    CHECK(o != NULL);
    o->mark = LIVE;
    return o;
}

static void readers_never_meet_a_freed_object(void **state)
{
    (void)state;
    pthread_t thread[3];
    assert_int_equal(epoch_new(&race.e), 0);
    atomic_store(&race.shared, object_new());
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, reader, i == 0 ? &race : NULL), 0);
    for (int i = 0; i < 50000; i++) {
        struct object *old = atomic_exchange(&race.shared, object_new());
        epoch_retire(race.e, old, free_object);
    }
    atomic_store(&race.stop, true);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    epoch_free(race.e);
    assert_int_equal(atomic_load(&race.freed), 50000);
    assert_int_equal(atomic_load(&race.bad), 0);
    free(atomic_load(&race.shared));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(without_readers_objects_go_at_once, setup),
        cmocka_unit_test_setup(every_reader_must_have_passed, setup),
        cmocka_unit_test_setup(sleepers_hold_nobody_up, setup),
        cmocka_unit_test_setup(objects_go_in_the_order_of_retirement, setup),
        cmocka_unit_test_setup(what_is_freed_may_retire_something, setup),
        cmocka_unit_test_setup(slots_are_bounded_and_used_again, setup),
        cmocka_unit_test(readers_never_meet_a_freed_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
