/* The timer wheel: never early, in any order, set and cancelled from inside. */
#include <stdlib.h>
#include "tests/unit/net/unit.h"

#include "net/clock.h"
#include "net/wheel.h"

static uint64_t now_ms = 1000000;
static struct wheel wheel;
static struct loop *loop;

static uint64_t fake_mono_ns(void *arg)
{
    (void)arg;
    return now_ms * 1000000;
}

static const struct clock_ops ops = {.mono_ns = fake_mono_ns};

/* The wheel without its loop: time is set, then the timer's function is run as the loop would. */
static void advance(uint64_t ms)
{
    now_ms += ms;
    if (loop_timer_pending(&wheel.timer)) {
        uint64_t at = wheel.timer_tick * WHEEL_TICK_MS;
        if (at <= now_ms)
            wheel.timer.fn(wheel.timer.arg);
    }
}

struct item {
    struct wheel_node node;
    uint64_t due_ms, fired_ms;
    int again;
    struct item *victim;
};

static uint32_t fired;

static void on_fire(struct wheel_node *node)
{
    struct item *it = CONTAINER_OF(node, struct item, node);
    assert_false(wheel_pending(node));
    it->fired_ms = now_ms;
    fired++;
    if (it->victim != NULL)
        wheel_cancel(&wheel, &it->victim->node);
    if (it->again-- > 0)
        wheel_set(&wheel, node, 10);
}

static int setup(void **state)
{
    (void)state;
    clock_set_ops(&ops);
    assert_int_equal(loop_new("wheel", &loop), 0);
    wheel_init(&wheel, loop);
    fired = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    wheel_release(&wheel);
    loop_free(loop);
    clock_set_ops(NULL);
    return 0;
}

static void test_order(void **state)
{
    (void)state;
    static struct item it[2000];
    uint32_t x = 99;
    for (size_t i = 0; i < ARRAY_LEN(it); i++) {
        x = x * 1664525u + 1013904223u;
        it[i] = (struct item){.node.fn = on_fire, .due_ms = now_ms + (x >> 8) % 20000};
        wheel_set(&wheel, &it[i].node, it[i].due_ms - now_ms);
    }
    for (int step = 0; step < 20100; step++)
        advance(1);
    assert_int_equal(fired, ARRAY_LEN(it));
    for (size_t i = 0; i < ARRAY_LEN(it); i++) {
        assert_true(it[i].fired_ms >= it[i].due_ms);
        assert_true(it[i].fired_ms <= it[i].due_ms + WHEEL_TICK_MS);
    }
    assert_int_equal(wheel.count, 0);
    assert_false(loop_timer_pending(&wheel.timer));
}

/* A loop that was held up for long fires everything at once, and goes on. */
static void test_late(void **state)
{
    (void)state;
    static struct item it[100];
    for (size_t i = 0; i < ARRAY_LEN(it); i++) {
        it[i] = (struct item){.node.fn = on_fire};
        wheel_set(&wheel, &it[i].node, i * 100);
    }
    advance(1000000);
    assert_int_equal(fired, ARRAY_LEN(it));
    wheel_set(&wheel, &it[0].node, 5);
    advance(4);
    assert_int_equal(fired, ARRAY_LEN(it));
    advance(12);
    assert_int_equal(fired, ARRAY_LEN(it) + 1);
}

static void test_inside(void **state)
{
    (void)state;
    static struct item a = {.node.fn = on_fire, .again = 3}, b = {.node.fn = on_fire}, c = {.node.fn = on_fire};
    a.victim = &b; /* in the same slot, behind it */
    wheel_set(&wheel, &a.node, 1);
    wheel_set(&wheel, &b.node, 1);
    wheel_set(&wheel, &c.node, 1);
    for (int i = 0; i < 100; i++)
        advance(1);
    assert_int_equal(fired, 4 + 1);
    assert_int_equal(b.fired_ms, 0);
    assert_true(c.fired_ms != 0);
    /* Cancelled and set anew. */
    wheel_set(&wheel, &b.node, 20);
    wheel_set(&wheel, &b.node, 2000);
    for (int i = 0; i < 1999; i++)
        advance(1);
    assert_int_equal(b.fired_ms, 0);
    advance(10);
    assert_true(b.fired_ms != 0);
    wheel_cancel(&wheel, &b.node);
    wheel_set(&wheel, &b.node, 1);
    wheel_cancel(&wheel, &b.node);
    assert_int_equal(wheel.count, 0);
    advance(100);
    assert_int_equal(fired, 6);
    wheel_set(&wheel, &b.node, 1); /* left to teardown */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_late, setup, teardown),
        cmocka_unit_test_setup_teardown(test_inside, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
