/* Blocks ahead of large appends: where there are any, how many, and that no close, mark, limit or failure leaves them behind. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#include <cmocka.h>

#include "needle/err.h"
#include "net/log.h"
#include "net/rand.h"
#include "tests/support/engine.h"
#include "tests/support/fault.h"
#include "tests/support/tmpdir.h"
#include "volume/preallocate.h"
#include "volume/volume.h"

#define VOLUME 3u
#define LARGE_BYTES 300000u
#define SMALL_BYTES 1000u
/* What a file system may add to a file's own blocks: the last one's rest and those that list the others. */
#define SLACK_BYTES (64u * 1024u)
#define EXT4_MAGIC 0xef53

struct fixture {
    char *dir;
    struct store_options o;
    struct engine e;
    char *large;
    bool ext4; /* others give blocks of their own accord, or none at all: nothing is said about them */
};

static struct fid fid_of(uint64_t key)
{
    return (struct fid){VOLUME, 0x1234abcd, key};
}

static bool is_roomy_ext4(const char *dir)
{
    struct statfs fs;

    assert_int_equal(statfs(dir, &fs), 0);
    return fs.f_type == EXT4_MAGIC && (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize > 100 * VOLUME_ROOM_MAX;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    f->dir = tmpdir_new("ahead");
    f->ext4 = is_roomy_ext4(f->dir);
    f->large = malloc(LARGE_BYTES);
    engine_fill(f->large, LARGE_BYTES, 5);
    engine_options(&f->o, f->dir);
    f->o.zero_ahead_bytes = 0;
    fault_install(NULL);
    engine_open(&f->e, &f->o, 1);
    assert_int_equal(engine_allocate(&f->e, VOLUME), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    fault_clear();
    engine_close(&f->e);
    fault_remove();
    tmpdir_free(f->dir);
    free(f->large);
    free(f);
    return 0;
}

static void put(struct fixture *f, uint64_t key, size_t n)
{
    f->large[0] = (char)key;
    assert_int_equal(engine_put(&f->e, fid_of(key), f->large, n), 0);
}

static void check(struct fixture *f, uint64_t key, size_t n)
{
    f->large[0] = (char)key;
    assert_int_equal(engine_check(&f->e, fid_of(key), f->large, n), 0);
}

static struct stat stat_of(const struct fixture *f)
{
    char *path = tmpdir_path(f->dir, "3.dat");
    struct stat st;

    assert_int_equal(disk_stat(path, &st), 0);
    free(path);
    return st;
}

/* Bytes of blocks past the end of the file. */
static uint64_t ahead(const struct fixture *f)
{
    struct stat st = stat_of(f);
    uint64_t blocks = (uint64_t)st.st_blocks * 512, need = (uint64_t)st.st_size + SLACK_BYTES;

    return f->ext4 && blocks > need ? blocks - need : 0;
}

static void large_writes_have_some_that_grow_to_a_bound(void **state)
{
    struct fixture *f = *state;
    uint64_t most = 0, size;

    put(f, 1, SMALL_BYTES);
    assert_int_equal(ahead(f), 0);
    put(f, 2, LARGE_BYTES);
    if (!f->ext4)
        skip();
    assert_true(ahead(f) > 0 && ahead(f) < VOLUME_ROOM_MAX / 2);
    size = (uint64_t)stat_of(f).st_size;
    assert_true(size < 2 * LARGE_BYTES); /* the length is that of the data */
    for (uint64_t key = 3; key < 100; key++) {
        put(f, key, LARGE_BYTES);
        most = ahead(f) > most ? ahead(f) : most;
        assert_true(ahead(f) <= VOLUME_ROOM_MAX);
    }
    assert_true(most > VOLUME_ROOM_MAX / 8);
    check(f, 2, LARGE_BYTES);
    check(f, 99, LARGE_BYTES);
    engine_close(&f->e);
    assert_int_equal(ahead(f), 0);
    engine_open(&f->e, &f->o, 1);
    check(f, 1, SMALL_BYTES);
    check(f, 99, LARGE_BYTES);
}

static void a_mark_gives_it_back(void **state)
{
    struct fixture *f = *state;

    put(f, 1, LARGE_BYTES);
    assert_int_equal(store_mark_readonly(f->e.store, VOLUME, true, true), 0);
    assert_int_equal(ahead(f), 0);
    assert_int_equal(store_mark_readonly(f->e.store, VOLUME, false, true), 0);
    put(f, 2, LARGE_BYTES);
    assert_true(!f->ext4 || ahead(f) > 0);
    check(f, 1, LARGE_BYTES);
    check(f, 2, LARGE_BYTES);
}

static void never_past_the_limit(void **state)
{
    struct fixture *f = *state;
    int rc = 0;

    engine_close(&f->e);
    f->o.size_limit_bytes = 6u << 20;
    engine_open(&f->e, &f->o, 1);
    for (uint64_t key = 1; rc == 0 && key < 100; key++) {
        rc = engine_put(&f->e, fid_of(key), f->large, LARGE_BYTES);
        assert_true((uint64_t)stat_of(f).st_size + ahead(f) <= f->o.size_limit_bytes + LARGE_BYTES + SLACK_BYTES);
    }
    assert_int_equal(rc, DFS_EFULL);
    assert_int_equal(ahead(f), 0);
}

static void without_it_the_file_grows_with_its_data(void **state)
{
    static const int errs[] = {EOPNOTSUPP, ENOSPC, EIO};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof errs / sizeof errs[0]; i++) {
        fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FALLOCATE), .path_has = ".dat", .first = 1, .every = 1, .err = errs[i]});
        put(f, 1 + i, LARGE_BYTES);
        assert_int_equal(ahead(f), 0);
        fault_clear();
        /* what has been asked for once is asked for again when the file has been cut */
        assert_int_equal(store_mark_readonly(f->e.store, VOLUME, true, true), 0);
        assert_int_equal(store_mark_readonly(f->e.store, VOLUME, false, true), 0);
        check(f, 1 + i, LARGE_BYTES);
    }
}

static void a_failed_batch_gives_it_back(void **state)
{
    struct fixture *f = *state;

    put(f, 1, SMALL_BYTES);
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_WRITE), .path_has = ".dat", .first = 1, .err = EIO, .tear = true,
                                   .tear_bytes = 5000});
    assert_int_equal(engine_put(&f->e, fid_of(2), f->large, LARGE_BYTES), DFS_EIO);
    fault_clear();
    assert_int_equal(ahead(f), 0);
    put(f, 3, LARGE_BYTES);
    check(f, 1, SMALL_BYTES);
    check(f, 3, LARGE_BYTES);
}

static void a_vacuum_leaves_none(void **state)
{
    struct fixture *f = *state;

    for (uint64_t key = 1; key < 10; key++)
        put(f, key, LARGE_BYTES);
    for (uint64_t key = 1; key < 8; key++)
        assert_int_equal(engine_delete(&f->e, fid_of(key)), 0);
    assert_int_equal(store_vacuum_compact(f->e.store, VOLUME, 0, NULL, NULL, NULL), 0);
    assert_int_equal(store_vacuum_commit(f->e.store, VOLUME, 0, NULL), 0);
    assert_int_equal(ahead(f), 0);
    put(f, 20, LARGE_BYTES);
    assert_true(!f->ext4 || ahead(f) > 0);
    check(f, 9, LARGE_BYTES);
    check(f, 20, LARGE_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(large_writes_have_some_that_grow_to_a_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(a_mark_gives_it_back, setup, teardown),
        cmocka_unit_test_setup_teardown(never_past_the_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(without_it_the_file_grows_with_its_data, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_batch_gives_it_back, setup, teardown),
        cmocka_unit_test_setup_teardown(a_vacuum_leaves_none, setup, teardown),
    };

    log_threshold = LOG_ERROR + 1;
    if (rand_init() != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
