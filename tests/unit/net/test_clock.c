/* The clock: real time moves forward, a replacement is seen by every reading. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/clock.h"

static uint64_t fake_wall(void *arg)
{
    return *(uint64_t *)arg * 1000000000u + 5;
}

static uint64_t fake_mono(void *arg)
{
    return *(uint64_t *)arg * 1000000u + 7;
}

static void fake_sleep(void *arg, uint64_t ms)
{
    *(uint64_t *)arg += ms;
}

static void test_real_clock(void **state)
{
    (void)state;
    uint64_t a = clock_mono_ns(), b = clock_mono_ns();
    assert_true(b >= a);
    assert_true(clock_wall_s() > 1600000000u);
    uint64_t before = clock_mono_ms();
    clock_sleep_ms(3);
    assert_true(clock_mono_ms() >= before + 2);
}

static void test_replaced_clock(void **state)
{
    (void)state;
    uint64_t now = 1234;
    struct clock_ops fake = {fake_wall, fake_mono, fake_sleep, &now};
    clock_set_ops(&fake);
    assert_int_equal(clock_wall_ns(), 1234000000005u);
    assert_int_equal(clock_wall_s(), 1234);
    assert_int_equal(clock_mono_ns(), 1234000007u);
    assert_int_equal(clock_mono_ms(), 1234);
    clock_sleep_ms(6);
    assert_int_equal(clock_wall_s(), 1240);
    clock_set_ops(NULL);
    assert_true(clock_wall_s() > 1600000000u);
}

static void test_partly_replaced_clock(void **state)
{
    (void)state;
    uint64_t now = 1;
    struct clock_ops fake = {.mono_ns = fake_mono, .arg = &now};
    clock_set_ops(&fake);
    assert_int_equal(clock_mono_ns(), 1000007);
    assert_true(clock_wall_s() > 1600000000u);
    clock_set_ops(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_real_clock),
        cmocka_unit_test(test_replaced_clock),
        cmocka_unit_test(test_partly_replaced_clock),
    };
    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
