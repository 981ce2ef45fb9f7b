/* A leveldb map whose files turn out damaged while they are used: the volume says "loading" for a moment, and then serves every
 * needle as before.  Whatever is damaged, nothing but "loading" may be answered in between. */
#include "volume/volume.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "needle/err.h"
#include "net/clock.h"
#include "tests/support/engine.h"
#include "tests/support/fault.h"
#include "tests/support/tmpdir.h"
#include "volume/disk_location.h"
#include "volume/store_internal.h"

#define VOLUME 3u
#define KEYS 300u
#define DATA_BYTES 2000u
#define BIG_KEY 5000u
#define BIG_BYTES (3u << 20)
#define TRIES_MAX 2000

struct fixture {
    char *dir;
    char *data, *big;
    struct store_options o;
    struct engine e;
    uint64_t damaged; /* files */
};

static struct fid fid_of(uint64_t key)
{
    return (struct fid){VOLUME, 0x1234abcd, key};
}

static const char *data_of(const struct fixture *f, uint64_t key)
{
    return f->data + key % DATA_BYTES;
}

static int put(struct fixture *f, uint64_t key)
{
    return engine_put(&f->e, fid_of(key), data_of(f, key), DATA_BYTES);
}

static int check(struct fixture *f, uint64_t key)
{
    return engine_check(&f->e, fid_of(key), data_of(f, key), DATA_BYTES);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    f->dir = tmpdir_new("rebuild");
    f->data = malloc(2 * DATA_BYTES);
    f->big = malloc(BIG_BYTES);
    engine_fill(f->data, 2 * DATA_BYTES, 5);
    engine_fill(f->big, BIG_BYTES, 6);
    fault_install(NULL);
    engine_options(&f->o, f->dir);
    f->o.durability = DURABILITY_NONE;
    f->o.index_kind = NEEDLE_MAP_LEVELDB;
    engine_open(&f->e, &f->o, 2);
    assert_int_equal(engine_allocate(&f->e, VOLUME), 0);
    for (uint64_t key = 1; key <= KEYS; key++)
        assert_int_equal(put(f, key), 0);
    for (uint64_t key = 3; key <= KEYS; key += 7)
        assert_int_equal(engine_delete(&f->e, fid_of(key)), 0);
    assert_int_equal(engine_put(&f->e, fid_of(BIG_KEY), f->big, BIG_BYTES), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    engine_close(&f->e);
    fault_remove();
    tmpdir_free(f->dir);
    free(f->data);
    free(f->big);
    free(f);
    return 0;
}

static void reopen(struct fixture *f)
{
    engine_open(&f->e, &f->o, 2);
}

/* ---- damage ---- */

enum damage { FLIP_MIDDLE, FLIP_EVERY_64, CUT_HALF, EMPTY, GARBAGE };


static void damage_file(const char *path, enum damage how)
{
    struct stat st;
    int fd = open(path, O_RDWR);
    uint8_t byte;

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    switch (how) {
    case FLIP_MIDDLE:
    case FLIP_EVERY_64:
        for (off_t at = how == FLIP_MIDDLE ? st.st_size / 2 : 0; at < st.st_size; at += how == FLIP_MIDDLE ? st.st_size : 64) {
            assert_int_equal(pread(fd, &byte, 1, at), 1);
            byte ^= 0x40;
            assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        }
        break;
    case CUT_HALF:
        assert_int_equal(ftruncate(fd, st.st_size / 2), 0);
        break;
    case EMPTY:
        assert_int_equal(ftruncate(fd, 0), 0);
        break;
    case GARBAGE:
        assert_int_equal(pwrite(fd, "garbage", 7, 0), 7);
        break;
    }
    close(fd);
}

/* Each file of the map whose name holds `what`. */
static void damage(struct fixture *f, const char *suffix, const char *what, enum damage how)
{
    char folder[4096], path[8192];
    struct dirent *e;
    DIR *d;

    (void)snprintf(folder, sizeof folder, "%s/%u%s", f->dir, VOLUME, suffix);
    d = opendir(folder);
    assert_non_null(d);
    while ((e = readdir(d)) != NULL) {
        struct stat st;
        (void)snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (strstr(e->d_name, what) == NULL || stat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
            continue;
        damage_file(path, how);
        f->damaged++;
    }
    closedir(d);
}

/* ---- what has to hold ---- */

/* Until it is no more loading. */
static int settled(struct fixture *f, int (*ask)(struct fixture *f, uint64_t key), uint64_t key)
{
    int rc = DFS_ELOADING;

    for (int i = 0; i < TRIES_MAX && rc == DFS_ELOADING; i++) {
        rc = ask(f, key);
        if (rc == DFS_ELOADING)
            clock_sleep_ms(2);
    }
    return rc;
}

static bool deleted(uint64_t key)
{
    return key % 7 == 3;
}

static void all_is_served(struct fixture *f)
{
    for (uint64_t key = 1; key <= KEYS; key++)
        assert_int_equal(settled(f, check, key), deleted(key) ? DFS_ENOTFOUND : 0);
    assert_int_equal(engine_check(&f->e, fid_of(BIG_KEY), f->big, BIG_BYTES), 0);
}

static int put_one(struct fixture *f, uint64_t key)
{
    int rc = put(f, key);

    return rc == DFS_EUNAVAILABLE ? DFS_ELOADING : rc;
}

static int delete_one(struct fixture *f, uint64_t key)
{
    int rc = engine_delete(&f->e, fid_of(key));

    return rc == DFS_EUNAVAILABLE ? DFS_ELOADING : rc;
}

/* It is a volume like any other: no bit is left. */
static void takes_writes(struct fixture *f)
{
    struct volume *v;

    store_load_wait(f->e.store);
    v = store_get(f->e.store, VOLUME);
    assert_non_null(v);
    assert_int_equal(atomic_load(&v->no_write), 0);
    volume_unref(v);
    for (uint64_t key = 1001; key < 1020; key++) {
        assert_int_equal(settled(f, put_one, key), 0);
        assert_int_equal(settled(f, check, key), 0);
    }
    assert_int_equal(settled(f, delete_one, 1001), 0);
    assert_int_equal(settled(f, check, 1001), DFS_ENOTFOUND);
    assert_int_equal(put(f, 1001), 0);
}

static uint64_t rebuilds(struct fixture *f)
{
    return atomic_load(&f->e.store->map_rebuilds);
}

static enum needle_map_kind kind(struct fixture *f)
{
    struct volume *v = store_get(f->e.store, VOLUME);
    struct volume_gen *g = volume_gen_ref(v);
    enum needle_map_kind k;

    assert_non_null(g);
    k = needle_map_kind_of(g->map);
    volume_gen_unref(g);
    volume_unref(v);
    return k;
}

/* ---- the tests ---- */

static void test_reads_find_it(void **state)
{
    struct fixture *f = *state;
    static const enum damage how[] = {FLIP_MIDDLE, FLIP_EVERY_64};

    for (size_t i = 0; i < sizeof how / sizeof how[0]; i++) {
        engine_close(&f->e);
        f->damaged = 0;
        damage(f, ".ldb", ".ldb", how[i]);
        damage(f, ".ldb", ".log", how[i]);
        assert_true(f->damaged > 0);
        reopen(f);
        all_is_served(f);
        takes_writes(f);
        assert_int_equal(rebuilds(f), 1);
        assert_int_equal(kind(f), NEEDLE_MAP_LEVELDB);
        all_is_served(f);
    }
    /* What was built is closed cleanly, and is there at the next start. */
    engine_close(&f->e);
    reopen(f);
    all_is_served(f);
    assert_int_equal(rebuilds(f), 0);
}

static void test_writes_find_it(void **state)
{
    struct fixture *f = *state;

    engine_close(&f->e);
    damage(f, ".ldb", ".ldb", FLIP_EVERY_64);
    reopen(f);
    assert_int_equal(settled(f, put_one, 1), 0);
    assert_int_equal(settled(f, check, 1), 0);
    assert_int_equal(rebuilds(f), 1);
    all_is_served(f);
    takes_writes(f);

    engine_close(&f->e);
    damage(f, ".ldb", ".ldb", FLIP_EVERY_64);
    reopen(f);
    assert_int_equal(settled(f, delete_one, 2), 0);
    assert_int_equal(settled(f, check, 2), DFS_ENOTFOUND);
    assert_int_equal(put(f, 2), 0);
    assert_int_equal(rebuilds(f), 1);
    all_is_served(f);
}

static void test_many_at_once(void **state)
{
    struct fixture *f = *state;
    struct engine_op *ops = calloc(2 * KEYS, sizeof *ops);

    engine_close(&f->e);
    damage(f, ".ldb", ".ldb", FLIP_EVERY_64);
    reopen(f);
    for (uint64_t i = 0; i < 2 * KEYS; i++) {
        ops[i].kind = i % 2 == 0 ? ENGINE_GET : ENGINE_PUT;
        ops[i].fid = fid_of(i % 2 == 0 ? i / 2 + 1 : 2000 + i);
        ops[i].data = data_of(f, 2000 + i);
        ops[i].n = DATA_BYTES;
        engine_start(&f->e, (uint32_t)i % 2, &ops[i]);
    }
    for (uint64_t i = 0; i < 2 * KEYS; i++) {
        int rc = engine_wait(&ops[i]);
        if (i % 2 == 0)
            assert_true(rc == 0 || rc == DFS_ELOADING || (rc == DFS_ENOTFOUND && deleted(i / 2 + 1)));
        else
            assert_true(rc == 0 || rc == DFS_ELOADING || rc == DFS_EUNAVAILABLE);
    }
    store_load_wait(f->e.store);
    for (uint64_t i = 1; i < 2 * KEYS; i += 2)
        if (ops[i].rc == 0)
            assert_int_equal(settled(f, check, 2000 + i), 0);
    for (uint64_t i = 0; i < 2 * KEYS; i++)
        engine_release(&ops[i]);
    free(ops);
    all_is_served(f);
    takes_writes(f);
    assert_int_equal(rebuilds(f), 1);
}

/* Found at opening. */
static void test_at_start(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *what;
        enum damage how;
    } cases[] = {
        {"CURRENT", EMPTY},  {"CURRENT", GARBAGE},   {"CURRENT", CUT_HALF}, {"MANIFEST", FLIP_MIDDLE},
        {"MANIFEST", EMPTY}, {"MANIFEST", CUT_HALF}, {"CLEAN", FLIP_MIDDLE}, {".ldb", EMPTY}, {".ldb", CUT_HALF},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        engine_close(&f->e);
        f->damaged = 0;
        damage(f, ".ldb", cases[i].what, cases[i].how);
        assert_true(f->damaged > 0);
        reopen(f);
        all_is_served(f);
        assert_int_equal(rebuilds(f), 0);
    }
    takes_writes(f);
}

/* Found while the rows behind the last clean close are applied. */
static void test_while_loading(void **state)
{
    struct fixture *f = *state;
    char from[4096], to[4096], command[16384];

    (void)snprintf(from, sizeof from, "%s/%u.ldb", f->dir, VOLUME);
    (void)snprintf(to, sizeof to, "%s/old", f->dir);
    engine_close(&f->e);
    (void)snprintf(command, sizeof command, "cp -r '%s' '%s'", from, to);
    assert_int_equal(system(command), 0);
    reopen(f);
    for (uint64_t key = 1; key <= KEYS; key++)
        if (!deleted(key))
            assert_int_equal(put(f, key), 0);
    assert_int_equal(engine_delete(&f->e, fid_of(10)), DFS_ENOTFOUND);
    assert_int_equal(put(f, 1500), 0);
    assert_int_equal(engine_delete(&f->e, fid_of(1)), 0);
    engine_close(&f->e);
    (void)snprintf(command, sizeof command, "rm -r '%s' && mv '%s' '%s'", from, to, from);
    assert_int_equal(system(command), 0);
    damage(f, ".ldb", ".ldb", FLIP_EVERY_64);
    reopen(f);
    assert_int_equal(settled(f, check, 1), DFS_ENOTFOUND);
    assert_int_equal(put(f, 1), 0);
    all_is_served(f);
    assert_int_equal(settled(f, check, 1500), 0);
    takes_writes(f);
}

/* No leveldb can be had, nor its folder be cleared: better from memory than not at all. */
static void test_no_leveldb(void **state)
{
    struct fixture *f = *state;
    char folder[4096], lock[4200], inner[4300];

    (void)snprintf(folder, sizeof folder, "%s/%u.ldb", f->dir, VOLUME);
    (void)snprintf(lock, sizeof lock, "%s/LOCK", folder);
    (void)snprintf(inner, sizeof inner, "%s/inner", lock);
    engine_close(&f->e);
    assert_int_equal(unlink(lock), 0);
    assert_int_equal(mkdir(lock, 0755), 0);
    assert_int_equal(mkdir(inner, 0755), 0);
    reopen(f);
    assert_int_equal(kind(f), NEEDLE_MAP_MEMORY);
    all_is_served(f);
    takes_writes(f);
    engine_close(&f->e);
    assert_int_equal(rmdir(inner), 0);
    assert_int_equal(rmdir(lock), 0);
    reopen(f);
    assert_int_equal(kind(f), NEEDLE_MAP_LEVELDB);
    all_is_served(f);
}

/* A map that is spoiled again and again stays in memory in the end. */
static void test_again_and_again(void **state)
{
    struct fixture *f = *state;

    for (uint64_t i = 1; i <= 5; i++) {
        struct volume *v = store_get(f->e.store, VOLUME);
        struct volume_gen *g = volume_gen_ref(v);

        volume_map_suspect(g);
        volume_gen_unref(g);
        volume_unref(v);
        store_load_wait(f->e.store);
        assert_int_equal(rebuilds(f), i);
        all_is_served(f);
        assert_int_equal(kind(f), i <= 3 ? NEEDLE_MAP_LEVELDB : NEEDLE_MAP_MEMORY);
    }
    takes_writes(f);
}

/* The .dat cannot be opened for a while: no reason to give the volume up. */
static void test_retry(void **state)
{
    struct fixture *f = *state;
    struct volume *v = store_get(f->e.store, VOLUME);
    struct volume_gen *g = volume_gen_ref(v);
    int id = fault_add(&(struct fault_rule){.calls = FAULT(FAULT_OPEN), .path_has = ".dat", .first = 1, .every = 1,
                                            .err = EMFILE});

    volume_map_suspect(g);
    volume_gen_unref(g);
    store_load_wait(f->e.store);
    assert_true(fault_hits(id) > 0);
    assert_int_equal(atomic_load(&v->no_write), VOLUME_LOADING);
    assert_int_equal(check(f, 1), DFS_ELOADING);
    store_maintain(f->e.store);
    store_load_wait(f->e.store);
    assert_int_equal(check(f, 1), DFS_ELOADING);
    fault_remove();
    fault_install(NULL);
    store_maintain(f->e.store);
    store_load_wait(f->e.store);
    volume_unref(v);
    all_is_served(f);
    takes_writes(f);
}

/* Somebody reads slowly and keeps the old generation: its map must not keep the folder. */
static void test_held_generation(void **state)
{
    struct fixture *f = *state;
    struct volume *v = store_get(f->e.store, VOLUME);
    struct volume_gen *g = volume_gen_ref(v);
    struct needle_value value;
    char head[16];

    volume_map_suspect(g);
    store_load_wait(f->e.store);
    assert_int_equal(kind(f), NEEDLE_MAP_LEVELDB);
    all_is_served(f);
    assert_int_equal(volume_gen_find(g, 1, &value), DFS_ELOADING);
    assert_int_equal(disk_read(g->fd, head, sizeof head, 8, NULL), 0);
    assert_int_equal(rebuilds(f), 1);
    volume_gen_unref(g);
    volume_unref(v);
    takes_writes(f);
}

static void vacuum(struct fixture *f)
{
    assert_int_equal(store_vacuum_compact(f->e.store, VOLUME, 0, NULL, NULL, NULL), 0);
    assert_int_equal(store_vacuum_commit(f->e.store, VOLUME, 0, NULL), 0);
}

/* The map is in the other folder then. */
static void test_after_vacuum(void **state)
{
    struct fixture *f = *state;
    struct volume *v = store_get(f->e.store, VOLUME);
    struct volume_gen *g;

    vacuum(f);
    g = volume_gen_ref(v);
    volume_map_suspect(g);
    volume_gen_unref(g);
    store_load_wait(f->e.store);
    all_is_served(f);
    assert_true(v->ldb_other);
    /* A copy that is thrown away must not make it forget where its map is. */
    assert_int_equal(store_vacuum_compact(f->e.store, VOLUME, 0, NULL, NULL, NULL), 0);
    assert_int_equal(store_vacuum_cleanup(f->e.store, VOLUME, 0, NULL), 0);
    assert_true(v->ldb_other);
    vacuum(f);
    assert_false(v->ldb_other);
    volume_unref(v);
    all_is_served(f);
    takes_writes(f);
    assert_int_equal(rebuilds(f), 1);
    engine_close(&f->e);
    reopen(f);
    all_is_served(f);
}

/* A finished copy, and a vacuum that meets the damage itself. */
static void test_vacuum_meets_it(void **state)
{
    struct fixture *f = *state;
    struct volume *v;
    struct volume_gen *g;
    int rc;

    assert_int_equal(store_vacuum_compact(f->e.store, VOLUME, 0, NULL, NULL, NULL), 0);
    v = store_get(f->e.store, VOLUME);
    g = volume_gen_ref(v);
    volume_map_suspect(g);
    volume_gen_unref(g);
    volume_unref(v);
    store_load_wait(f->e.store);
    assert_int_equal(store_vacuum_commit(f->e.store, VOLUME, 0, NULL), DFS_ESTALE);
    all_is_served(f);

    engine_close(&f->e);
    damage(f, ".ldb", ".ldb", FLIP_EVERY_64);
    reopen(f);
    rc = store_vacuum_compact(f->e.store, VOLUME, 0, NULL, NULL, NULL);
    assert_int_equal(rc, DFS_ELOADING);
    store_load_wait(f->e.store);
    assert_int_equal(rebuilds(f), 1);
    all_is_served(f);
    vacuum(f);
    all_is_served(f);
    takes_writes(f);
}

static void test_stop_meanwhile(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 5; i++) {
        struct engine_op op = {.kind = ENGINE_GET, .fid = fid_of(1)};

        engine_close(&f->e);
        damage(f, ".ldb", ".ldb", FLIP_EVERY_64);
        reopen(f);
        engine_start(&f->e, 0, &op);
        (void)engine_wait(&op);
        engine_release(&op);
    }
    all_is_served(f);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_reads_find_it), TEST(test_writes_find_it), TEST(test_many_at_once),    TEST(test_at_start),
        TEST(test_while_loading), TEST(test_no_leveldb),     TEST(test_again_and_again), TEST(test_retry),
        TEST(test_held_generation), TEST(test_after_vacuum), TEST(test_vacuum_meets_it), TEST(test_stop_meanwhile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
