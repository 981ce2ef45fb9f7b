/* A sister that did not answer is left alone for a while, and asked again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "needle/err.h"
#include "volume/replica_suspects.h"

static void only_silence_counts(void **state)
{
    static const int fine[] = {0, DFS_EUNAVAILABLE, DFS_ESTALE, DFS_EIO, DFS_ECLOSED};
    struct replica_suspects t = {.count = 0};
    uint64_t silent_ms;

    (void)state;
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        replica_suspects_note(&t, "a:1", fine[i], 1000, 1001);
        assert_false(replica_suspects_hold(&t, "a:1", 1002, &silent_ms));
    }
    replica_suspects_note(&t, "a:1", DFS_ETIMEOUT, 1000, 3500);
    assert_true(replica_suspects_hold(&t, "a:1", 3501, &silent_ms));
    assert_int_equal(silent_ms, 2501);
    assert_false(replica_suspects_hold(&t, "b:1", 3501, &silent_ms));
    replica_suspects_note(&t, "a:1", 0, 3000, 3502);
    assert_false(replica_suspects_hold(&t, "a:1", 3503, &silent_ms));
}

static void one_finds_out(void **state)
{
    struct replica_suspects t = {.count = 0};
    uint64_t silent_ms, now = 3500;

    (void)state;
    replica_suspects_note(&t, "a:1", DFS_ETIMEOUT, 1000, now);
    for (int round = 0; round < 3; round++) {
        assert_true(replica_suspects_hold(&t, "a:1", now + REPLICA_PROBE_MS - 1, &silent_ms));
        now += REPLICA_PROBE_MS;
        assert_false(replica_suspects_hold(&t, "a:1", now, &silent_ms));
        assert_true(replica_suspects_hold(&t, "a:1", now, &silent_ms));
        now += 2500;
        replica_suspects_note(&t, "a:1", DFS_ETIMEOUT, now - 2500, now);
        assert_true(replica_suspects_hold(&t, "a:1", now, &silent_ms));
        assert_int_equal(silent_ms, now - 1000);
    }
}

static void no_more_than_fit(void **state)
{
    struct replica_suspects t = {.count = 0};
    uint64_t silent_ms;
    char url[32];

    (void)state;
    for (unsigned i = 0; i < REPLICA_SUSPECTS_MAX + 3; i++) {
        snprintf(url, sizeof url, "host%u:8080", i);
        replica_suspects_note(&t, url, DFS_ETIMEOUT, 1000 + i, 4000);
    }
    assert_int_equal(t.count, REPLICA_SUSPECTS_MAX);
    assert_false(replica_suspects_hold(&t, "host2:8080", 4001, &silent_ms)); /* the longest silent were forgotten */
    assert_true(replica_suspects_hold(&t, "host3:8080", 4001, &silent_ms));
    assert_true(replica_suspects_hold(&t, url, 4001, &silent_ms));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_silence_counts),
        cmocka_unit_test(one_finds_out),
        cmocka_unit_test(no_more_than_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
