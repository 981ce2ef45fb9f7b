/* A vacuum that fails is tried less and less often, never not at all, and told of once. */
#include "master/vacuum_backoff.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define INTERVAL_MS 840000u

static void a_pause_doubles_up_to_a_day(void **state)
{
    struct vacuum_backoff b = {0};
    uint64_t now_ms = 5, pause_ms = INTERVAL_MS;

    (void)state;
    assert_false(vacuum_backoff_waits(&b, now_ms));
    for (int i = 0; i < 100; i++) {
        pause_ms = 2 * pause_ms < VACUUM_BACKOFF_MAX_MS ? 2 * pause_ms : VACUUM_BACKOFF_MAX_MS;
        assert_int_equal(vacuum_backoff_failed(&b, now_ms, INTERVAL_MS, "no room"), i == 0);
        assert_int_equal(b.failures, i + 1);
        assert_int_equal(b.until_ms, now_ms + pause_ms);
        assert_true(vacuum_backoff_waits(&b, now_ms + pause_ms - 1));
        now_ms += pause_ms;
        assert_false(vacuum_backoff_waits(&b, now_ms));
    }
    assert_int_equal(pause_ms, VACUUM_BACKOFF_MAX_MS);
}

static void intervals_of_any_length_have_a_pause(void **state)
{
    static const uint64_t intervals_ms[] = {0, 1, 1000, VACUUM_BACKOFF_MAX_MS / 2, VACUUM_BACKOFF_MAX_MS, UINT64_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof intervals_ms / sizeof intervals_ms[0]; i++) {
        struct vacuum_backoff b = {.failures = i % 2 == 0 ? 0 : UINT32_MAX};

        vacuum_backoff_failed(&b, 100, intervals_ms[i], "x");
        assert_true(b.until_ms >= 100 + 2000 && b.until_ms <= 100 + VACUUM_BACKOFF_MAX_MS);
        assert_true(b.failures != 0);
    }
}

static void another_reason_is_news_and_so_is_the_end(void **state)
{
    struct vacuum_backoff b = {0};
    char longer[2 * VACUUM_WHY_BYTES];

    (void)state;
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    assert_false(vacuum_backoff_clear(&b));
    assert_true(vacuum_backoff_failed(&b, 0, INTERVAL_MS, "a"));
    assert_false(vacuum_backoff_failed(&b, 0, INTERVAL_MS, "a"));
    assert_true(vacuum_backoff_failed(&b, 0, INTERVAL_MS, longer));
    assert_false(vacuum_backoff_failed(&b, 0, INTERVAL_MS, longer));
    assert_int_equal(strlen(b.why), VACUUM_WHY_BYTES - 1);
    assert_true(vacuum_backoff_clear(&b));
    assert_int_equal(b.failures, 0);
    assert_false(vacuum_backoff_waits(&b, 0));
    assert_false(vacuum_backoff_clear(&b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pause_doubles_up_to_a_day),
        cmocka_unit_test(intervals_of_any_length_have_a_pause),
        cmocka_unit_test(another_reason_is_news_and_so_is_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
