/* Zeros ahead of a volume's data: where there are any, and that no close, seal, mark, vacuum, failure or kill leaves one. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "needle/err.h"
#include "net/log.h"
#include "net/rand.h"
#include "tests/support/engine.h"
#include "tests/support/fault.h"
#include "tests/support/tmpdir.h"
#include "volume/volume.h"

#define VOLUME 3u
#define WINDOW ((uint64_t)1 << 20)
#define LARGE_BYTES 300000u

struct fixture {
    char *dir;
    struct store_options o;
    struct engine e;
    char *large;
};

static struct fid fid_of(uint64_t key)
{
    return (struct fid){VOLUME, 0x1234abcd, key};
}

static void open_with(struct fixture *f, uint64_t zero_ahead_bytes)
{
    f->o.zero_ahead_bytes = zero_ahead_bytes;
    engine_open(&f->e, &f->o, 1);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    f->dir = tmpdir_new("zeros");
    f->large = malloc(LARGE_BYTES);
    engine_fill(f->large, LARGE_BYTES, 5);
    engine_options(&f->o, f->dir);
    fault_install(NULL);
    open_with(f, WINDOW);
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
    assert_int_equal(engine_put(&f->e, fid_of(key), f->large + key % 1000, n), 0);
}

static void check(struct fixture *f, uint64_t key, size_t n)
{
    assert_int_equal(engine_check(&f->e, fid_of(key), f->large + key % 1000, n), 0);
}

static uint64_t file_bytes(const struct fixture *f)
{
    char *path = tmpdir_path(f->dir, "3.dat");
    struct stat st;

    assert_int_equal(disk_stat(path, &st), 0);
    free(path);
    return (uint64_t)st.st_size;
}

static uint64_t data_bytes(struct fixture *f)
{
    struct volume *v = store_get(f->e.store, VOLUME);
    uint64_t n = atomic_load(&v->dat_bytes);

    volume_unref(v);
    return n;
}

static uint64_t ahead(struct fixture *f)
{
    assert_true(file_bytes(f) >= data_bytes(f));
    return file_bytes(f) - data_bytes(f);
}

static void small_flushed_writes_have_a_window_that_grows_to_its_bound(void **state)
{
    struct fixture *f = *state;
    uint64_t most = 0, first;

    put(f, 1, 1000);
    first = ahead(f);
    assert_true(first > 0 && first < WINDOW);
    for (uint64_t key = 2; key < 400; key++) {
        put(f, key, 9000);
        most = ahead(f) > most ? ahead(f) : most;
        assert_true(ahead(f) <= WINDOW);
    }
    assert_true(most > WINDOW / 2);
    for (uint64_t key = 2; key < 400; key++)
        check(f, key, 9000);
    engine_close(&f->e);
    first = file_bytes(f);
    open_with(f, WINDOW);
    assert_int_equal(data_bytes(f), first); /* not a zero was left */
    check(f, 1, 1000);
}

static void large_and_unflushed_writes_and_answers_have_none(void **state)
{
    struct fixture *f = *state;

    put(f, 1, LARGE_BYTES - 1000);
    put(f, 1, LARGE_BYTES - 1000); /* the same again: nothing is written */
    assert_int_equal(ahead(f), 0);
    engine_close(&f->e);
    f->o.durability = DURABILITY_NONE;
    open_with(f, WINDOW);
    put(f, 2, 1000);
    assert_int_equal(ahead(f), 0);
    engine_close(&f->e);
    f->o.durability = DURABILITY_GROUP;
    open_with(f, 0);
    put(f, 3, 1000);
    assert_int_equal(ahead(f), 0);
}

static void a_large_write_in_a_window_and_past_it(void **state)
{
    struct fixture *f = *state;

    put(f, 1, 1000);
    put(f, 2, LARGE_BYTES - 1000); /* longer than what is left of it */
    put(f, 3, 1000);
    assert_true(ahead(f) > 0);
    check(f, 1, 1000);
    check(f, 2, LARGE_BYTES - 1000);
    check(f, 3, 1000);
}

static void a_mark_cuts_it(void **state)
{
    struct fixture *f = *state;

    put(f, 1, 1000);
    assert_true(ahead(f) > 0);
    assert_int_equal(store_mark_readonly(f->e.store, VOLUME, true, true), 0);
    assert_int_equal(ahead(f), 0);
    assert_int_equal(store_mark_readonly(f->e.store, VOLUME, false, true), 0);
    put(f, 2, 1000);
    check(f, 1, 1000);
    check(f, 2, 1000);
}

static void a_volume_ends_without_one(void **state)
{
    struct fixture *f = *state;
    int rc = 0;

    engine_close(&f->e);
    f->o.size_limit_bytes = 1u << 20;
    open_with(f, WINDOW);
    for (uint64_t key = 1; rc == 0 && key < 1000; key++)
        rc = engine_put(&f->e, fid_of(key), f->large, 9000);
    assert_int_equal(rc, DFS_EFULL);
    assert_int_equal(ahead(f), 0);
}

static void a_vacuum_starts_anew(void **state)
{
    struct fixture *f = *state;

    for (uint64_t key = 1; key < 50; key++)
        put(f, key, 2000);
    for (uint64_t key = 1; key < 40; key++)
        assert_int_equal(engine_delete(&f->e, fid_of(key)), 0);
    assert_int_equal(store_vacuum_compact(f->e.store, VOLUME, 0, NULL, NULL, NULL), 0);
    assert_int_equal(store_vacuum_commit(f->e.store, VOLUME, 0, NULL), 0);
    assert_int_equal(ahead(f), 0);
    put(f, 60, 2000);
    assert_true(ahead(f) > 0);
    check(f, 45, 2000);
    check(f, 60, 2000);
}

/* No room for zeros is no reason to refuse what there is room for; a failed batch takes its zeros with it. */
static void without_room_the_file_grows_with_its_data(void **state)
{
    struct fixture *f = *state;

    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_WRITE), .path_has = ".dat", .first = 1, .err = ENOSPC, .tear = true,
                                   .tear_bytes = 5000});
    put(f, 1, 1000);
    assert_int_equal(ahead(f), 0);
    fault_clear();
    put(f, 2, 1000);
    assert_true(ahead(f) > 0);
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_WRITE), .path_has = ".dat", .first = 1, .err = EIO, .tear = true,
                                   .tear_bytes = 100});
    assert_int_equal(engine_put(&f->e, fid_of(3), f->large, 1000), DFS_EIO);
    fault_clear();
    assert_int_equal(ahead(f), 0);
    put(f, 4, 1000);
    check(f, 1, 1000);
    check(f, 2, 1000);
    check(f, 4, 1000);
    assert_int_equal(engine_check(&f->e, fid_of(3), "", 0), DFS_ENOTFOUND);
}

static void copy(const char *from_dir, const char *to_dir, const char *name)
{
    char *from = tmpdir_path(from_dir, name), *to = tmpdir_path(to_dir, name), *buf = NULL;
    size_t n = 0;

    if (disk_read_file(from, 64u << 20, &buf, &n) == 0)
        assert_int_equal(disk_replace_file(to, buf, n), 0);
    free(buf);
    free(from);
    free(to);
}

/* What a kill leaves: the files as they are.  All rows there, and without the last, whose record then has to be found. */
static void a_kill_leaves_zeros_that_opening_cuts(void **state)
{
    static const char *const names[] = {"3.dat", "3.idx", "3.vif", "3.ckp"};
    struct fixture *f = *state;

    for (uint64_t key = 1; key <= 20; key++)
        put(f, key, 3000);
    assert_true(ahead(f) > 0);
    for (int rows_lost = 0; rows_lost <= 1; rows_lost++) {
        struct fixture g = {.dir = tmpdir_new("killed"), .large = f->large};
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            copy(f->dir, g.dir, names[i]);
        if (rows_lost != 0) {
            char *idx = tmpdir_path(g.dir, "3.idx");
            struct stat st;
            int fd = -1;
            assert_int_equal(disk_stat(idx, &st), 0);
            assert_int_equal(disk_open(idx, O_RDWR, &fd), 0);
            assert_int_equal(disk_truncate(fd, (uint64_t)st.st_size - 3), 0);
            disk_close(&fd);
            free(idx);
        }
        engine_options(&g.o, g.dir);
        open_with(&g, WINDOW);
        assert_int_equal(ahead(&g), 0);
        assert_int_equal(data_bytes(&g), data_bytes(f));
        for (uint64_t key = 1; key <= 20; key++)
            check(&g, key, 3000);
        put(&g, 21, 3000);
        check(&g, 21, 3000);
        engine_close(&g.e);
        tmpdir_free(g.dir);
    }
}

#define RESERVED ((uint64_t)8 << 20)

static void reserve(const char *dir)
{
    char *path = tmpdir_path(dir, "3.dat");
    int fd = -1;

    assert_int_equal(disk_open(path, O_RDWR, &fd), 0);
    assert_int_equal(disk_preallocate(fd, 0, RESERVED), 0);
    disk_close(&fd);
    free(path);
}

static uint64_t reserved_bytes(const struct fixture *f)
{
    char *path = tmpdir_path(f->dir, "3.dat");
    struct stat st;

    assert_int_equal(disk_stat(path, &st), 0);
    free(path);
    return (uint64_t)st.st_blocks * 512;
}

/* A cut gives up the blocks behind it: they are asked for again, as long as the volume is written to. */
static void what_was_reserved_stays_so_when_zeros_are_cut(void **state)
{
    struct fixture *f = *state;
    struct fixture g = {.dir = tmpdir_new("killed"), .large = f->large};

    engine_close(&f->e);
    reserve(f->dir);
    open_with(f, WINDOW);
    put(f, 1, 1000);
    assert_true(ahead(f) > 0);
    copy(f->dir, g.dir, "3.dat");
    copy(f->dir, g.dir, "3.idx");
    reserve(g.dir);
    engine_close(&f->e);
    open_with(f, WINDOW);
    assert_int_equal(ahead(f), 0);
    assert_true(reserved_bytes(f) >= RESERVED);
    assert_int_equal(store_mark_readonly(f->e.store, VOLUME, true, true), 0);
    assert_true(reserved_bytes(f) < RESERVED);
    check(f, 1, 1000);

    engine_options(&g.o, g.dir);
    open_with(&g, WINDOW);
    assert_int_equal(ahead(&g), 0);
    assert_true(reserved_bytes(&g) >= RESERVED);
    put(&g, 2, 1000);
    check(&g, 1, 1000);
    engine_close(&g.e);
    assert_true(reserved_bytes(&g) >= RESERVED);
    tmpdir_free(g.dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(small_flushed_writes_have_a_window_that_grows_to_its_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(large_and_unflushed_writes_and_answers_have_none, setup, teardown),
        cmocka_unit_test_setup_teardown(a_large_write_in_a_window_and_past_it, setup, teardown),
        cmocka_unit_test_setup_teardown(a_mark_cuts_it, setup, teardown),
        cmocka_unit_test_setup_teardown(a_volume_ends_without_one, setup, teardown),
        cmocka_unit_test_setup_teardown(a_vacuum_starts_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(without_room_the_file_grows_with_its_data, setup, teardown),
        cmocka_unit_test_setup_teardown(a_kill_leaves_zeros_that_opening_cuts, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_reserved_stays_so_when_zeros_are_cut, setup, teardown),
    };

    log_threshold = LOG_ERROR + 1;
    if (rand_init() != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
