/* What is remembered of deletes: each key's newest, and where too many came, that one may have been forgotten. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/rand.h"
#include "volume/recent_deletes.h"

static struct recent_deletes d;

static int setup(void **state)
{
    (void)state;
    memset(&d, 0, sizeof d);
    return 0;
}

static void the_newest_of_a_key_counts(void **state)
{
    (void)state;
    assert_int_equal(recent_deletes_at(NULL, 7), 0);
    assert_false(recent_deletes_after(NULL, 7, 0));
    assert_int_equal(recent_deletes_at(&d, 7), 0);
    assert_false(recent_deletes_after(&d, 7, 0));
    recent_deletes_note(&d, 7, 100);
    assert_int_equal(recent_deletes_at(&d, 7), 100);
    assert_true(recent_deletes_after(&d, 7, 99));
    assert_false(recent_deletes_after(&d, 7, 100));
    assert_false(recent_deletes_after(&d, 7, 101));
    recent_deletes_note(&d, 7, 90); /* arrived late */
    assert_int_equal(recent_deletes_at(&d, 7), 100);
    recent_deletes_note(&d, 7, 110);
    assert_int_equal(recent_deletes_at(&d, 7), 110);
    recent_deletes_note(&d, 0, 5); /* key 0 is a key like others */
    assert_int_equal(recent_deletes_at(&d, 0), 5);
}

/* Whatever was noted is never taken for something that is still in order. */
static void what_is_forgotten_is_not_trusted(void **state)
{
    static uint64_t last[20000];
    uint64_t seed = 20240611, wrong = 0, refused = 0;

    (void)state;
    memset(last, 0, sizeof last);
    for (uint64_t now = 1; now <= 60000; now++) {
        uint64_t key = rand_mix64(seed += now) % 20000, look = rand_mix64(seed ^ now) % 20000, at = now - rand_mix64(now) % now;

        recent_deletes_note(&d, key, now);
        last[key] = now;
        if (last[look] > at && !recent_deletes_after(&d, look, at))
            wrong++;
        refused += last[look] <= now && recent_deletes_after(&d, look, now); /* newer than everything: never refused */
    }
    assert_int_equal(wrong, 0);
    assert_int_equal(refused, 0);
}

/* As many as there are places are remembered for sure when they are spread, and those of one set are not mixed up. */
static void a_few_are_remembered_exactly(void **state)
{
    (void)state;
    for (uint64_t key = 1; key <= RECENT_DELETES_WAYS; key++)
        recent_deletes_note(&d, key, 1000 + key);
    for (uint64_t key = 1; key <= RECENT_DELETES_WAYS; key++)
        assert_int_equal(recent_deletes_at(&d, key), 1000 + key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_newest_of_a_key_counts, setup),
        cmocka_unit_test_setup(what_is_forgotten_is_not_trusted, setup),
        cmocka_unit_test_setup(a_few_are_remembered_exactly, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
