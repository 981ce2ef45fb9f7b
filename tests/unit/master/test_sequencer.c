/* Keys and volume ids: never twice, whatever happens to the process or the disk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "master/sequencer.h"
#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"
#include "net/rand.h"
#include "tests/support/tmpdir.h"

struct rig {
    char *dir;
    struct loop *loop;
    struct work_pool *pool;
    struct sequencer *seq;
};

static void rig_open(struct rig *r)
{
    assert_int_equal(loop_new("test", &r->loop), 0);
    assert_int_equal(work_pool_new("test", 1, &r->pool), 0);
    assert_int_equal(sequencer_open(r->dir, r->loop, r->pool, &r->seq), 0);
}

/* As a process ends that is killed: nothing is written on the way out. */
static void rig_close(struct rig *r)
{
    sequencer_stop(r->seq);
    work_pool_free(r->pool);
    loop_run_posted(r->loop);
    sequencer_free(r->seq);
    loop_free(r->loop);
}

static int setup(void **state)
{
    struct rig *r = calloc(1, sizeof *r);

    r->dir = tmpdir_new("sequencer");
    rig_open(r);
    *state = r;
    return 0;
}

static int teardown(void **state)
{
    struct rig *r = *state;

    rig_close(r);
    tmpdir_free(r->dir);
    free(r);
    return 0;
}

struct wait {
    struct sequencer_waiter w;
    struct loop *loop;
    int rc, calls;
};

static void on_written(struct sequencer_waiter *w, int rc)
{
    struct wait *x = CONTAINER_OF(w, struct wait, w);

    x->rc = rc;
    x->calls++;
    loop_stop(x->loop);
}

static int wait_written(struct rig *r)
{
    struct wait x = {.w = {.fn = on_written}, .loop = r->loop};

    sequencer_wait(r->seq, &x.w);
    loop_run(r->loop);
    assert_int_equal(x.calls, 1);
    return x.rc;
}

/* Takes keys, waiting for the state as an assign does. */
static uint64_t take(struct rig *r, uint64_t count)
{
    uint64_t first = 0;
    int rc = sequencer_keys(r->seq, count, &first);

    if (rc == DFS_EAGAIN) {
        assert_int_equal(wait_written(r), 0);
        rc = sequencer_keys(r->seq, count, &first);
    }
    assert_int_equal(rc, 0);
    return first;
}

static void keys_rise_without_gaps_or_repeats(void **state)
{
    struct rig *r = *state;
    uint64_t next = take(r, 1) + 1;

    assert_int_equal(next, 2);
    for (int i = 0; i < 1000; i++) {
        uint64_t count = 1 + rand_below(50000), first = take(r, count);

        assert_int_equal(first, next);
        next = first + count;
    }
}

static void a_killed_master_repeats_no_key(void **state)
{
    struct rig *r = *state;
    uint64_t greatest = 0;

    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 50; i++) {
            uint64_t count = 1 + rand_below(9000), first = take(r, count);

            assert_true(first > greatest);
            greatest = first + count - 1;
        }
        rig_close(r);
        rig_open(r);
    }
}

static void a_count_larger_than_a_block_is_covered_first(void **state)
{
    struct rig *r = *state;
    uint64_t first = take(r, 3 * SEQUENCER_BLOCK + 7);

    rig_close(r);
    rig_open(r);
    assert_true(take(r, 1) > first + 3 * SEQUENCER_BLOCK + 6);
    assert_int_equal(sequencer_keys(r->seq, SEQUENCER_COUNT_MAX + 1, &first), DFS_ETOOBIG);
    assert_int_equal(sequencer_keys(r->seq, 0, &first), DFS_EINVAL);
}

static void keys_seen_at_servers_are_left_out(void **state)
{
    struct rig *r = *state;

    sequencer_saw_key(r->seq, 5000000);
    assert_int_equal(take(r, 1), 5000001);
    sequencer_saw_key(r->seq, 17);
    assert_int_equal(take(r, 1), 5000002);
    sequencer_saw_key(r->seq, UINT64_MAX); /* a key of a client's own must not use the numbers up */
    sequencer_saw_key(r->seq, UINT64_MAX - 1);
    sequencer_saw_key(r->seq, SEQUENCER_KEY_END);
    assert_int_equal(take(r, 1), 5000003);
    rig_close(r);
    rig_open(r);
    assert_true(take(r, 1) > 5000003);
}

static void at_the_last_key_it_ends(void **state)
{
    struct rig *r = *state;
    uint64_t first;

    sequencer_saw_key(r->seq, SEQUENCER_KEY_END - 3);
    assert_int_equal(take(r, 1), SEQUENCER_KEY_END - 2);
    assert_int_equal(sequencer_keys(r->seq, 2, &first), DFS_ENOSPC);
    assert_int_equal(take(r, 1), SEQUENCER_KEY_END - 1);
    assert_int_equal(sequencer_keys(r->seq, 1, &first), DFS_ENOSPC);
    for (int i = 0; i < 3; i++) {
        rig_close(r);
        rig_open(r);
        assert_int_equal(sequencer_keys(r->seq, 1, &first), DFS_ENOSPC);
    }
}

struct waits {
    struct sequencer *seq;
    struct sequencer_waiter w[4];
    int calls[4], rc[4];
};

static struct waits waits;

static void on_one_of(struct sequencer_waiter *w, int rc)
{
    size_t i = (size_t)(w - waits.w);

    waits.calls[i]++;
    waits.rc[i] = rc;
    if (i == 1) /* the third is being called too, the fourth waits for the next write */
        for (size_t k = 2; k < 4; k++)
            sequencer_unwait(waits.seq, &waits.w[k]);
}

static void who_went_away_is_not_called(void **state)
{
    struct rig *r = *state;

    memset(&waits, 0, sizeof waits);
    waits.seq = r->seq;
    sequencer_set_servers(r->seq, 3); /* a write is under way: the waiters are for the next one */
    for (size_t i = 0; i < 4; i++) {
        waits.w[i].fn = on_one_of;
        sequencer_wait(r->seq, &waits.w[i]);
    }
    sequencer_unwait(r->seq, &waits.w[0]);
    assert_int_equal(wait_written(r), 0);
    assert_int_equal(waits.calls[0], 0);
    assert_int_equal(waits.calls[1], 1);
    assert_int_equal(waits.calls[2], 0);
    assert_int_equal(waits.calls[3], 0);
}

static void a_stop_calls_who_waits_and_nobody_later(void **state)
{
    struct rig *r = *state;
    uint64_t first;

    memset(&waits, 0, sizeof waits);
    waits.seq = r->seq;
    for (size_t i = 0; i < 4; i++)
        waits.w[i].fn = on_one_of;
    sequencer_wait(r->seq, &waits.w[0]); /* being written */
    sequencer_wait(r->seq, &waits.w[3]); /* not yet */
    sequencer_stop(r->seq);
    assert_int_equal(waits.calls[0], 1);
    assert_int_equal(waits.rc[0], DFS_ECANCELLED);
    assert_int_equal(waits.calls[3], 1);
    assert_int_equal(sequencer_keys(r->seq, 1, &first), DFS_ECANCELLED);
    assert_int_equal(sequencer_volume_id(r->seq, &waits.w[0]), 0);
    rig_close(r);
    assert_int_equal(waits.calls[0], 1);
    rig_open(r);
}

static void volume_ids_are_on_the_disk_before_use(void **state)
{
    struct rig *r = *state;
    uint32_t last = 0;

    for (int round = 0; round < 5; round++) {
        struct wait x = {.w = {.fn = on_written}, .loop = r->loop};
        uint32_t id = sequencer_volume_id(r->seq, &x.w);

        assert_true(id > last);
        assert_int_equal(x.calls, 0);
        loop_run(r->loop);
        assert_int_equal(x.rc, 0);
        last = id;
        rig_close(r);
        rig_open(r);
        assert_int_equal(sequencer_max_volume_id(r->seq), id);
    }
    sequencer_saw_volume(r->seq, 900);
    assert_int_equal(sequencer_max_volume_id(r->seq), 900);
}

static void overwrite(const char *path, const char *text);

static uint32_t next_volume(struct rig *r)
{
    struct wait x = {.w = {.fn = on_written}, .loop = r->loop};
    uint32_t id = sequencer_volume_id(r->seq, &x.w);

    if (id == 0)
        assert_int_equal(x.calls, 0);
    else
        loop_run(r->loop);
    return id;
}

/* A volume that somebody numbered himself uses no ids up, and is not handed out when the sequence comes to it. */
static void a_far_volume_does_not_move_the_sequence(void **state)
{
    static const uint32_t far[] = {UINT32_MAX, UINT32_MAX - 1, 1u << 31, 900 + SEQUENCER_VOLUME_LEAP + 1};
    struct rig *r = *state;

    sequencer_saw_volume(r->seq, 900);
    for (size_t i = 0; i < ARRAY_LEN(far); i++) {
        sequencer_saw_volume(r->seq, far[i]);
        assert_int_equal(sequencer_max_volume_id(r->seq), 900);
    }
    assert_int_equal(next_volume(r), 901);
    sequencer_saw_volume(r->seq, far[3]); /* near now */
    assert_int_equal(next_volume(r), far[3] + 1);
}

static void at_the_last_volume_id_it_ends(void **state)
{
    struct rig *r = *state;
    char *path = tmpdir_path(r->dir, "state");

    rig_close(r);
    overwrite(path, "{\"format\": 1, \"cluster_id\": \"0123456789abcdef0123456789abcdef0123\", \"key_ceiling\": \"9\", "
                    "\"max_volume_id\": 4294967293}");
    rig_open(r);
    assert_int_equal(next_volume(r), UINT32_MAX - 1);
    sequencer_saw_volume(r->seq, UINT32_MAX);
    assert_int_equal(next_volume(r), 0);
    free(path);
}

static void one_folder_takes_one_master(void **state)
{
    struct rig *r = *state;
    struct sequencer *second = NULL;

    assert_int_equal(sequencer_open(r->dir, r->loop, r->pool, &second), DFS_EBUSY);
    assert_null(second);
}

static void overwrite(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void a_state_that_cannot_be_read_is_left_alone(void **state)
{
    static const char *const bad[] = {
        "", "{", "{}", "null", "[1]",
        "{\"format\": 2, \"cluster_id\": \"0123456789abcdef0123456789abcdef0123\", \"key_ceiling\": \"9\", \"max_volume_id\": 1}",
        "{\"format\": 1, \"cluster_id\": \"short\", \"key_ceiling\": \"9\", \"max_volume_id\": 1}",
        "{\"format\": 1, \"cluster_id\": \"0123456789abcdef0123456789abcdef0123\", \"key_ceiling\": 9, \"max_volume_id\": 1}",
        "{\"format\": 1, \"cluster_id\": \"0123456789abcdef0123456789abcdef0123\", \"key_ceiling\": \"-9\", \"max_volume_id\": 1}",
        "{\"format\": 1, \"cluster_id\": \"0123456789abcdef0123456789abcdef0123\", \"key_ceiling\": \"9\", \"max_volume_id\": -1}",
    };
    struct rig *r = *state;
    char *path = tmpdir_path(r->dir, "state");

    sequencer_free(r->seq);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct sequencer *s = NULL;
        char back[512] = "";
        FILE *f;

        overwrite(path, bad[i]);
        assert_int_equal(sequencer_open(r->dir, r->loop, r->pool, &s), DFS_ECORRUPT);
        f = fopen(path, "r");
        assert_non_null(f);
        assert_int_equal(fread(back, 1, sizeof back - 1, f), strlen(bad[i]));
        fclose(f);
        assert_string_equal(back, bad[i]);
    }
    unlink(path);
    assert_int_equal(sequencer_open(r->dir, r->loop, r->pool, &r->seq), 0);
    free(path);
}

/* A folder where the temporary file should be: no write can succeed, while all else in the folder works. */
static char *break_writes(struct rig *r)
{
    char *path = tmpdir_path(r->dir, "state.tmp");

    assert_int_equal(mkdir(path, 0700), 0);
    return path;
}

static void mend_writes(char *path)
{
    assert_int_equal(rmdir(path), 0);
    free(path);
}

/* The next demand tries only after the pause. */
static int wait_after_pause(struct rig *r, uint64_t count)
{
    uint64_t first = 0;

    clock_sleep_ms(SEQUENCER_RETRY_MS + 1);
    assert_int_equal(sequencer_keys(r->seq, count, &first), DFS_EAGAIN);
    return wait_written(r);
}

static void a_failed_write_hands_nothing_out_and_heals(void **state)
{
    struct rig *r = *state;
    char *broken = break_writes(r);
    uint64_t first = 0;

    assert_int_equal(sequencer_keys(r->seq, 2 * SEQUENCER_BLOCK, &first), DFS_EAGAIN);
    assert_int_not_equal(wait_written(r), 0);
    assert_string_not_equal(sequencer_trouble(r->seq), "");
    assert_int_not_equal(wait_after_pause(r, 2 * SEQUENCER_BLOCK), 0);
    mend_writes(broken);
    assert_int_equal(wait_after_pause(r, 2 * SEQUENCER_BLOCK), 0);
    take(r, 2 * SEQUENCER_BLOCK);
    assert_string_equal(sequencer_trouble(r->seq), "");
}

/* As on a full disk: the master starts, knows what it knew, and hands no key out until one write worked; none twice then. */
static void a_start_without_a_write_refuses_keys_until_one_works(void **state)
{
    struct rig *r = *state;
    uint64_t greatest = take(r, 7) + 6, first = 0;
    char id[SEQUENCER_ID_BYTES + 1], *broken;

    sequencer_saw_volume(r->seq, 17);
    assert_int_equal(wait_written(r), 0);
    snprintf(id, sizeof id, "%s", sequencer_cluster_id(r->seq));
    rig_close(r);
    broken = break_writes(r);
    for (int i = 0; i < 3; i++) {
        rig_open(r);
        assert_string_equal(sequencer_cluster_id(r->seq), id);
        assert_int_equal(sequencer_max_volume_id(r->seq), 17);
        assert_string_not_equal(sequencer_trouble(r->seq), "");
        assert_int_not_equal(wait_after_pause(r, 1), 0);
        assert_int_not_equal(sequencer_keys(r->seq, 1, &first), 0);
        if (i < 2)
            rig_close(r);
    }
    mend_writes(broken);
    assert_int_equal(wait_after_pause(r, 1), 0);
    assert_true(take(r, 1) > greatest);
    greatest = take(r, 1);
    rig_close(r);
    rig_open(r);
    assert_true(take(r, 1) > greatest);
}

/* The first start of all. */
static void a_first_start_without_a_write_begins_at_one(void **state)
{
    struct rig *r = *state;
    char *path = tmpdir_path(r->dir, "state"), *broken;
    uint64_t first = 0;

    rig_close(r);
    unlink(path);
    broken = break_writes(r);
    rig_open(r);
    assert_int_not_equal(sequencer_keys(r->seq, 1, &first), 0);
    assert_int_equal(strlen(sequencer_cluster_id(r->seq)), SEQUENCER_ID_BYTES);
    mend_writes(broken);
    assert_int_equal(wait_after_pause(r, 1), 0);
    assert_int_equal(take(r, 1), 1);
    free(path);
}

static void files_are_not_for_everyone(void **state)
{
    struct rig *r = *state;
    char *path = tmpdir_path(r->dir, "state");
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07, 0);
    free(path);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(keys_rise_without_gaps_or_repeats), TEST(a_killed_master_repeats_no_key),
        TEST(a_count_larger_than_a_block_is_covered_first), TEST(keys_seen_at_servers_are_left_out),
        TEST(volume_ids_are_on_the_disk_before_use), TEST(one_folder_takes_one_master),
        TEST(a_state_that_cannot_be_read_is_left_alone), TEST(a_failed_write_hands_nothing_out_and_heals),
        TEST(files_are_not_for_everyone), TEST(at_the_last_key_it_ends), TEST(who_went_away_is_not_called),
        TEST(a_stop_calls_who_waits_and_nobody_later), TEST(a_start_without_a_write_refuses_keys_until_one_works),
        TEST(a_far_volume_does_not_move_the_sequence), TEST(at_the_last_volume_id_it_ends),
        TEST(a_first_start_without_a_write_begins_at_one),
    };

    if (rand_init() != 0)
        return 1;
    rand_seed_for_tests(20261130);
    printf("seed 20261130\n");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
