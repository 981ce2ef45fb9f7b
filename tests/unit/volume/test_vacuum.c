/* Vacuum: what is live stays, what is dead goes, and whatever fails in the middle leaves the volume as it was. */
#include "volume/vacuum.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"
#include "net/log.h"
#include "net/rand.h"
#include "tests/support/engine.h"
#include "tests/support/fault.h"
#include "tests/support/tmpdir.h"
#include "volume/disk_location.h"
#include "volume/store_internal.h"
#include "volume/volume.h"

#define VOLUME 3u
#define KEYS 200u
#define DATA_MAX 2000000u

struct fixture {
    char *dir;
    char *data;
    struct store_options o;
    struct engine e;
    uint32_t version[KEYS + 1]; /* 0 = not there */
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    f->dir = tmpdir_new("vacuum");
    f->data = malloc(DATA_MAX + 65536);
    engine_fill(f->data, DATA_MAX + 65536, 11);
    engine_options(&f->o, f->dir);
    f->o.durability = DURABILITY_NONE;
    fault_install(NULL);
    engine_open(&f->e, &f->o, 2);
    assert_int_equal(engine_allocate(&f->e, VOLUME), 0);
    *state = f;
    return 0;
}

static int setup_leveldb(void **state)
{
    struct fixture *f;

    setup(state);
    f = *state;
    engine_close(&f->e);
    f->o.index_kind = NEEDLE_MAP_LEVELDB;
    engine_open(&f->e, &f->o, 2);
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    fault_clear();
    fault_release();
    engine_close(&f->e);
    fault_remove();
    tmpdir_free(f->dir);
    free(f->data);
    free(f);
    return 0;
}

static void reopen(struct fixture *f)
{
    engine_close(&f->e);
    engine_open(&f->e, &f->o, 2);
}

static struct fid fid_of(uint64_t key)
{
    return (struct fid){VOLUME, 0x77, key};
}

static size_t bytes_of_key(uint64_t key, uint32_t version)
{
    if (key == 7)
        return 1500000 + version; /* longer than what is copied at once */
    return key == 9 ? 0 : 100 + (key * 37 + version * 11) % 3000;
}

static void put(struct fixture *f, uint64_t key)
{
    uint32_t version = ++f->version[key];

    assert_int_equal(engine_put(&f->e, fid_of(key), f->data + key * 13 + version, bytes_of_key(key, version)), 0);
}

static void del(struct fixture *f, uint64_t key)
{
    assert_int_equal(engine_delete(&f->e, fid_of(key)), 0);
    f->version[key] = 0;
}

static void check_all(struct fixture *f)
{
    uint64_t live = 0;
    struct volume *v = store_get(f->e.store, VOLUME);
    struct volume_info i;

    for (uint64_t key = 1; key <= KEYS; key++) {
        uint32_t version = f->version[key];
        int rc = engine_check(&f->e, fid_of(key), f->data + key * 13 + version, bytes_of_key(key, version));
        assert_int_equal(rc, version == 0 ? DFS_ENOTFOUND : 0);
        live += version != 0;
    }
    assert_non_null(v);
    volume_info_get(v, &i);
    volume_unref(v);
    assert_int_equal(i.live_count, live);
}

static struct volume_info info(struct fixture *f)
{
    struct volume *v = store_get(f->e.store, VOLUME);
    struct volume_info i;

    volume_info_get(v, &i);
    volume_unref(v);
    return i;
}

static bool exists(struct fixture *f, const char *suffix)
{
    char path[4200];

    snprintf(path, sizeof path, "%s/%u%s", f->dir, VOLUME, suffix);
    return access(path, F_OK) == 0;
}

static bool no_leftovers(struct fixture *f)
{
    return !exists(f, VACUUM_DAT_SUFFIX) && !exists(f, VACUUM_IDX_SUFFIX) && !exists(f, VACUUM_COMMIT_SUFFIX);
}

/* About half of it garbage, in every way garbage comes about. */
static void fill(struct fixture *f)
{
    for (uint64_t key = 1; key <= KEYS; key++)
        put(f, key);
    for (uint64_t key = 1; key <= KEYS; key += 3)
        if (key != 9)
            put(f, key);
    for (uint64_t key = 2; key <= KEYS; key += 4)
        del(f, key);
    put(f, 2);
}

/* With leveldb a run has to wait for the last reader of the generation before the present one, whose folder it takes: on a machine
 * that is busy with other things longer than it does by itself. */
#define BUSY_TRIES 300

static int vacuum(struct fixture *f)
{
    int rc = DFS_EBUSY;

    for (int i = 0; rc == DFS_EBUSY && i < BUSY_TRIES; i++) {
        if (i > 0)
            clock_sleep_ms(100);
        rc = store_vacuum_compact(f->e.store, VOLUME, 0, NULL, NULL, NULL);
    }
    return rc != 0 ? rc : store_vacuum_commit(f->e.store, VOLUME, 0, NULL);
}

/* ---- what it does ---- */

static void live_stays_and_dead_goes(void **state)
{
    struct fixture *f = *state;
    struct volume_info before, after;
    struct vacuum_outcome out = {.read_only = true};
    double ratio;

    fill(f);
    before = info(f);
    assert_int_equal(store_vacuum_check(f->e.store, VOLUME, &ratio), 0);
    assert_true(ratio > 0.3 && ratio < 1);
    assert_int_equal(store_vacuum_compact(f->e.store, VOLUME, 0, NULL, NULL, NULL), 0);
    assert_true(exists(f, VACUUM_DAT_SUFFIX));
    assert_int_equal(store_vacuum_commit(f->e.store, VOLUME, 0, &out), 0);
    after = info(f);
    assert_false(out.read_only);
    assert_int_equal(out.dat_bytes, after.dat_bytes);
    assert_true(after.dat_bytes < before.dat_bytes);
    assert_int_equal(after.live_count, before.live_count);
    assert_int_equal(after.deleted_bytes, 0);
    assert_int_equal(after.compact_revision, before.compact_revision + 1);
    assert_true(no_leftovers(f));
    assert_int_equal(store_vacuum_check(f->e.store, VOLUME, &ratio), 0);
    assert_true(ratio == 0);
    check_all(f);
    put(f, 1);
    put(f, 150);
    del(f, 3);
    check_all(f);
    reopen(f);
    check_all(f);
    assert_int_equal(info(f).no_write, 0);
    assert_int_equal(info(f).compact_revision, before.compact_revision + 1);
    assert_int_equal(vacuum(f), 0);
    check_all(f);
}

static void writes_between_copy_and_commit_are_in_it(void **state)
{
    struct fixture *f = *state;

    fill(f);
    assert_int_equal(store_vacuum_compact(f->e.store, VOLUME, 0, NULL, NULL, NULL), 0);
    put(f, 1);   /* overwritten */
    del(f, 3);   /* deleted */
    put(f, 6);   /* was deleted */
    del(f, 6);
    put(f, 7);   /* large */
    del(f, 11);
    put(f, 11);
    assert_int_equal(store_vacuum_commit(f->e.store, VOLUME, 0, NULL), 0);
    check_all(f);
    reopen(f);
    check_all(f);
}

struct writer {
    struct fixture *f;
    pthread_t thread;
    atomic_bool stop;
    uint32_t writes;
};

static void *writer_main(void *arg)
{
    struct writer *w = arg;

    for (uint64_t i = 0; !atomic_load(&w->stop); i++, w->writes++) {
        uint64_t key = 1 + i * 7 % KEYS;
        if (i % 5 == 4 && w->f->version[key] != 0)
            del(w->f, key);
        else if (key != 7 && key != 9)
            put(w->f, key);
    }
    return NULL;
}

static void writes_go_on_meanwhile(void **state)
{
    struct fixture *f = *state;
    struct writer w = {.f = f};

    fill(f);
    assert_int_equal(pthread_create(&w.thread, NULL, writer_main, &w), 0);
    for (int i = 0; i < 15; i++)
        assert_int_equal(vacuum(f), 0);
    atomic_store(&w.stop, true);
    pthread_join(w.thread, NULL);
    assert_true(w.writes > 0);
    check_all(f);
    assert_int_equal(info(f).compact_revision, 15);
    reopen(f);
    check_all(f);
}

static void readers_of_the_old_one_go_on(void **state)
{
    struct fixture *f = *state;
    struct engine_op ops[32];

    fill(f);
    for (int round = 0; round < 5; round++) {
        for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
            ops[i] = (struct engine_op){.kind = ENGINE_GET, .fid = fid_of(i % 2 == 0 ? 7 : 1)};
            engine_start(&f->e, (uint32_t)i % 2, &ops[i]);
        }
        assert_int_equal(vacuum(f), 0);
        for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
            assert_int_equal(engine_wait(&ops[i]), 0);
            assert_int_equal(ops[i].got_n, bytes_of_key(ops[i].fid.key, f->version[ops[i].fid.key]));
            engine_release(&ops[i]);
        }
    }
}

static void every_version_is_kept(void **state)
{
    struct fixture *f = *state;
    char reason[256];

    for (uint8_t version = 1; version <= 3; version++) {
        uint32_t id = 10u + version;
        struct fid a = {id, 1, 1}, b = {id, 1, 2}, c = {id, 1, 3};
        struct volume *v;
        struct volume_info i;

        assert_int_equal(store_allocate(f->e.store, id, BYTES_NONE, (struct replica_placement){0, 0, 1}, (struct ttl){0}, version, 0,
                                        reason), 0);
        assert_int_equal(engine_put(&f->e, a, f->data, 5000), 0);
        assert_int_equal(engine_put(&f->e, b, f->data, 1200000), 0);
        assert_int_equal(engine_put(&f->e, c, f->data, 10), 0);
        assert_int_equal(engine_delete(&f->e, a), 0);
        assert_int_equal(store_vacuum_compact(f->e.store, id, 0, NULL, NULL, NULL), 0);
        assert_int_equal(store_vacuum_commit(f->e.store, id, 0, NULL), 0);
        v = store_get(f->e.store, id);
        volume_info_get(v, &i);
        volume_unref(v);
        assert_int_equal(i.version, version);
        assert_int_equal(i.placement.same_rack, 1);
        assert_int_equal(engine_check(&f->e, a, f->data, 5000), DFS_ENOTFOUND);
        assert_int_equal(engine_check(&f->e, b, f->data, 1200000), 0);
        assert_int_equal(engine_check(&f->e, c, f->data, 10), 0);
    }
}

/* ---- expiry ---- */

static uint64_t wall_shift_ns;

static uint64_t shifted_wall(void *arg)
{
    struct timespec ts;

    (void)arg;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec + __atomic_load_n(&wall_shift_ns, __ATOMIC_RELAXED);
}

static uint64_t real_mono(void *arg)
{
    struct timespec ts;

    (void)arg;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void real_sleep(void *arg, uint64_t ms)
{
    (void)arg;
    usleep((useconds_t)ms * 1000);
}

static int put_ttl(struct fixture *f, uint64_t key, uint8_t minutes, size_t n)
{
    struct engine_op op = {.kind = ENGINE_PUT, .fid = fid_of(key), .data = f->data, .n = n};
    int rc;

    op.write.meta = (struct needle){.flags = NEEDLE_HAS_TTL | NEEDLE_HAS_LAST_MODIFIED, .ttl = {minutes, TTL_MINUTE},
                                    .last_modified_s = clock_wall_s()};
    engine_start(&f->e, 0, &op);
    rc = engine_wait(&op);
    engine_release(&op);
    return rc;
}

/* What is expired goes, small or large; what was expired and written again stays; and the counts still agree. */
static void the_expired_go(void **state)
{
    struct fixture *f = *state;

    for (uint64_t key = 1; key <= 40; key++)
        assert_int_equal(put_ttl(f, key, key % 2 == 0 ? 1 : 100, key == 8 || key == 9 ? 1300000 : 300), 0);
    __atomic_store_n(&wall_shift_ns, 120ull * 1000000000u, __ATOMIC_RELAXED);
    assert_int_equal(store_vacuum_compact(f->e.store, VOLUME, 0, NULL, NULL, NULL), 0);
    assert_int_equal(put_ttl(f, 2, 50, 77), 0);
    assert_int_equal(engine_delete(&f->e, fid_of(4)), 0);
    assert_int_equal(store_vacuum_commit(f->e.store, VOLUME, 0, NULL), 0);
    assert_int_equal(info(f).live_count, 21);
    for (uint64_t key = 1; key <= 40; key++) {
        size_t n = key == 2 ? 77 : key == 9 ? 1300000 : 300;
        assert_int_equal(engine_check(&f->e, fid_of(key), f->data, n), key % 2 == 1 || key == 2 ? 0 : DFS_ENOTFOUND);
    }
    reopen(f);
    assert_int_equal(info(f).live_count, 21);
    __atomic_store_n(&wall_shift_ns, 0, __ATOMIC_RELAXED);
}

/* ---- damage ---- */

static void flip(struct fixture *f, uint64_t pos)
{
    char path[4200], byte;
    int fd;

    snprintf(path, sizeof path, "%s/%u.dat", f->dir, VOLUME);
    fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, &byte, 1, (off_t)pos), 1);
    byte ^= 0x55;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)pos), 1);
    close(fd);
}

static uint64_t place_of(struct fixture *f, uint64_t key)
{
    struct volume *v = store_get(f->e.store, VOLUME);
    struct volume_gen *g = volume_gen_ref(v);
    struct needle_value value;

    assert_int_equal(needle_map_get(g->map, key, &value), 0);
    volume_gen_unref(g);
    volume_unref(v);
    return needle_offset_bytes(value.offset);
}

static void a_corrupt_record_stops_nothing_and_is_not_lost(void **state)
{
    static const uint64_t bad[] = {5, 7, 11, 12};
    struct fixture *f = *state;
    char *got = NULL;
    size_t n;

    fill(f);
    flip(f, place_of(f, 5) + 40);       /* data */
    flip(f, place_of(f, 7) + 1000000);  /* data of a large one */
    flip(f, place_of(f, 11) + 5);       /* key */
    flip(f, place_of(f, 12) + 15);      /* size */
    assert_int_equal(vacuum(f), 0);
    assert_true(info(f).corrupt_count >= 4);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(engine_get(&f->e, fid_of(bad[i]), &got, &n), DFS_ECORRUPT);
        /* The very bytes are there: flipped back, it is whole again. */
        flip(f, place_of(f, bad[i]) + (bad[i] == 5 ? 40 : bad[i] == 7 ? 1000000 : bad[i] == 11 ? 5 : 15));
    }
    check_all(f);
}

/* ---- sealed ---- */

static void a_sealed_volume_that_shrinks_takes_writes_again(void **state)
{
    struct fixture *f = *state;

    store_set_size_limit(f->e.store, 500000);
    for (uint64_t key = 1; key <= KEYS; key++)
        if (engine_put(&f->e, fid_of(key), f->data, 50000) != 0)
            break;
    assert_int_equal(engine_put(&f->e, fid_of(150), f->data, 50000), DFS_EFULL);
    assert_int_equal(vacuum(f), 0);
    assert_int_equal(engine_put(&f->e, fid_of(150), f->data, 50000), DFS_EFULL);
    for (uint64_t key = 1; key <= 4; key++)
        assert_int_equal(engine_delete(&f->e, fid_of(key)), 0);
    assert_int_equal(vacuum(f), 0);
    assert_int_equal(engine_put(&f->e, fid_of(150), f->data, 50000), 0);
}

/* ---- room ---- */

/* A disk that runs out half way through: what it gave stays given. */
static int half_fallocate(int fd, int mode, off_t pos, off_t n)
{
    if (disk_system_ops()->fallocate(fd, mode, pos, n / 2) != 0)
        return -1;
    errno = ENOSPC;
    return -1;
}

static uint64_t blocks_bytes(const struct fixture *f, const char *name)
{
    char *path = tmpdir_path(f->dir, name);
    struct stat st;

    assert_int_equal(disk_stat(path, &st), 0);
    free(path);
    return (uint64_t)st.st_blocks * 512;
}

static void room_that_ran_out_is_given_back(void **state)
{
    static const uint64_t room_bytes = 64u << 20;
    const uint32_t id = 9;
    struct fid kept = {id, 1, 1}, gone = {id, 1, 2}, new = {id, 1, 3};
    struct fixture *f = *state;
    struct disk_ops half = *disk_system_ops();
    char reason[256];

    half.fallocate = half_fallocate;
    f->o.durability = DURABILITY_GROUP;
    f->o.zero_ahead_bytes = 1u << 20;
    reopen(f);
    assert_int_equal(store_allocate(f->e.store, id, BYTES_NONE, (struct replica_placement){0, 0, 0}, (struct ttl){0}, 3, room_bytes,
                                    reason), 0);
    if (blocks_bytes(f, "9.dat") < room_bytes) {
        skip(); /* a file system that does not preallocate */
        return;
    }
    assert_int_equal(engine_put(&f->e, kept, f->data, 5000), 0);
    assert_int_equal(engine_put(&f->e, gone, f->data, 50000), 0);
    assert_int_equal(engine_delete(&f->e, gone), 0);
    assert_int_equal(store_vacuum_compact(f->e.store, id, 0, NULL, NULL, NULL), 0);
    fault_install(&half);
    assert_int_equal(store_vacuum_commit(f->e.store, id, 0, NULL), 0);
    fault_install(NULL);
    assert_true(blocks_bytes(f, "9.dat") < 1u << 20);
    assert_int_equal(engine_put(&f->e, new, f->data + 7, 6000), 0);
    reopen(f);
    assert_int_equal(engine_check(&f->e, kept, f->data, 5000), 0);
    assert_int_equal(engine_check(&f->e, new, f->data + 7, 6000), 0);
}

/* ---- one at a time ---- */

static void order_is_kept(void **state)
{
    struct fixture *f = *state;

    fill(f);
    assert_int_equal(store_vacuum_commit(f->e.store, VOLUME, 0, NULL), DFS_ESTALE);
    assert_int_equal(store_vacuum_compact(f->e.store, VOLUME, 0, NULL, NULL, NULL), 0);
    assert_int_equal(store_vacuum_compact(f->e.store, VOLUME, 0, NULL, NULL, NULL), DFS_EBUSY);
    assert_int_equal(store_vacuum_cleanup(f->e.store, VOLUME, 0, NULL), 0);
    assert_true(no_leftovers(f));
    assert_int_equal(store_vacuum_commit(f->e.store, VOLUME, 0, NULL), DFS_ESTALE);
    assert_int_equal(vacuum(f), 0);
    assert_int_equal(store_vacuum_commit(f->e.store, VOLUME, 0, NULL), DFS_ESTALE);
    assert_int_equal(store_vacuum_cleanup(f->e.store, VOLUME, 0, NULL), 0);
    assert_int_equal(store_vacuum_compact(f->e.store, 99, 0, NULL, NULL, NULL), DFS_ENOVOLUME);
    assert_int_equal(store_vacuum_commit(f->e.store, 99, 0, NULL), DFS_ENOVOLUME);
    check_all(f);
}

/* Only who made a copy may put it in the volume's place or take it away, and only once (FIELD G66). */
static void a_commit_belongs_to_its_run(void **state)
{
    struct fixture *f = *state;
    struct vacuum_outcome out;
    uint64_t revision;

    fill(f);
    revision = info(f).compact_revision;
    assert_int_equal(store_vacuum_compact(f->e.store, VOLUME, 11, NULL, NULL, NULL), 0);
    assert_int_equal(store_vacuum_compact(f->e.store, VOLUME, 11, NULL, NULL, NULL), DFS_EBUSY);
    assert_int_equal(store_vacuum_compact(f->e.store, VOLUME, 0, NULL, NULL, NULL), DFS_EBUSY);
    assert_int_equal(store_vacuum_commit(f->e.store, VOLUME, 12, &out), DFS_ESTALE);
    assert_string_equal(out.why, "the commit of run 000000000000000c of the vacuum of volume 3 is refused: the copy there is that "
                                 "of run 000000000000000b");
    assert_int_equal(store_vacuum_cleanup(f->e.store, VOLUME, 12, &out), DFS_ESTALE);
    assert_non_null(strstr(out.why, "the cleanup of run 000000000000000c"));
    assert_true(exists(f, VACUUM_DAT_SUFFIX));
    /* A second master begins anew; what the first one still has to say comes too late. */
    assert_int_equal(store_vacuum_compact(f->e.store, VOLUME, 12, NULL, NULL, NULL), 0);
    assert_int_equal(store_vacuum_commit(f->e.store, VOLUME, 11, &out), DFS_ESTALE);
    assert_int_equal(store_vacuum_cleanup(f->e.store, VOLUME, 11, NULL), DFS_ESTALE);
    assert_int_equal(info(f).compact_revision, revision);
    assert_int_equal(store_vacuum_commit(f->e.store, VOLUME, 12, &out), 0);
    assert_string_equal(out.why, "");
    assert_int_equal(info(f).compact_revision, revision + 1);
    assert_int_equal(store_vacuum_commit(f->e.store, VOLUME, 12, &out), DFS_ESTALE);
    assert_non_null(strstr(out.why, "there is no finished copy"));
    assert_int_equal(store_vacuum_commit(f->e.store, VOLUME, 0, NULL), DFS_ESTALE);
    assert_int_equal(store_vacuum_cleanup(f->e.store, VOLUME, 12, NULL), 0); /* nothing is anybody's */
    /* A restart takes the copy away, so its commit finds nothing. */
    assert_int_equal(store_vacuum_compact(f->e.store, VOLUME, 13, NULL, NULL, NULL), 0);
    reopen(f);
    assert_int_equal(store_vacuum_commit(f->e.store, VOLUME, 13, &out), DFS_ESTALE);
    assert_int_equal(info(f).compact_revision, revision + 1);
    /* Who knows of no tokens commits and clears whatever there is. */
    assert_int_equal(store_vacuum_compact(f->e.store, VOLUME, 14, NULL, NULL, NULL), 0);
    assert_int_equal(store_vacuum_cleanup(f->e.store, VOLUME, 0, NULL), 0);
    assert_int_equal(store_vacuum_compact(f->e.store, VOLUME, 15, NULL, NULL, NULL), 0);
    assert_int_equal(store_vacuum_commit(f->e.store, VOLUME, 0, NULL), 0);
    assert_int_equal(info(f).compact_revision, revision + 2);
    assert_true(no_leftovers(f));
    check_all(f);
}

struct late_comer {
    struct engine *e;
    int compact_rc, commit_rc, cleanup_rc;
};

static int come_late(void *arg, uint64_t bytes)
{
    struct late_comer *l = arg;

    (void)bytes;
    if (l->compact_rc != 0)
        return 0;
    l->compact_rc = store_vacuum_compact(l->e->store, VOLUME, 22, NULL, NULL, NULL);
    l->commit_rc = store_vacuum_commit(l->e->store, VOLUME, 22, NULL);
    l->cleanup_rc = store_vacuum_cleanup(l->e->store, VOLUME, 22, NULL);
    return 0;
}

/* A copy that is being made is nobody else's to stop. */
static void a_run_under_way_is_left_alone(void **state)
{
    struct fixture *f = *state;
    struct late_comer l = {.e = &f->e};

    fill(f);
    assert_int_equal(store_vacuum_compact(f->e.store, VOLUME, 21, come_late, &l, NULL), 0);
    assert_int_equal(l.compact_rc, DFS_EBUSY);
    assert_int_equal(l.commit_rc, DFS_ESTALE);
    assert_int_equal(l.cleanup_rc, DFS_ESTALE);
    assert_int_equal(store_vacuum_commit(f->e.store, VOLUME, 21, NULL), 0);
    assert_true(no_leftovers(f));
    check_all(f);
}

static int give_up_at_once(void *arg, uint64_t bytes)
{
    (void)arg;
    (void)bytes;
    return 1;
}

static void a_cancelled_run_leaves_nothing(void **state)
{
    struct fixture *f = *state;

    fill(f);
    assert_int_equal(store_vacuum_compact(f->e.store, VOLUME, 0, give_up_at_once, NULL, NULL), DFS_ECANCELLED);
    assert_true(no_leftovers(f));
    assert_int_equal(store_vacuum_commit(f->e.store, VOLUME, 0, NULL), DFS_ESTALE);
    check_all(f);
    assert_int_equal(vacuum(f), 0);
}

struct stopped_run {
    struct engine *e;
    pthread_t thread;
    atomic_bool copying;
    int rc;
};

/* Goes on copying until the stop has begun. */
static int until_the_stop(void *arg, uint64_t bytes)
{
    struct stopped_run *x = arg;

    (void)bytes;
    atomic_store(&x->copying, true);
    while (!atomic_load(&x->e->store->stopping))
        clock_sleep_ms(1);
    return 0;
}

static void *stopped_main(void *arg)
{
    struct stopped_run *x = arg;

    x->rc = store_vacuum_compact(x->e->store, VOLUME, 0, until_the_stop, x, NULL);
    return NULL;
}

/* A stop in the middle of a copy ends the copy first: the volume is closed as cleanly as any. */
static void a_stop_ends_the_run_and_closes_cleanly(void **state)
{
    struct fixture *f = *state;
    struct stopped_run x = {.e = &f->e};

    fill(f);
    assert_int_equal(pthread_create(&x.thread, NULL, stopped_main, &x), 0);
    while (!atomic_load(&x.copying))
        clock_sleep_ms(1);
    store_stop(f->e.store);
    assert_true(exists(f, VOLUME_CHECKPOINT_SUFFIX));
    assert_true(no_leftovers(f));
    assert_int_equal(pthread_join(x.thread, NULL), 0);
    assert_true(x.rc == DFS_ECANCELLED);
    reopen(f);
    check_all(f);
}

static void a_finished_copy_goes_with_the_volume(void **state)
{
    struct fixture *f = *state;

    fill(f);
    assert_int_equal(store_vacuum_compact(f->e.store, VOLUME, 0, NULL, NULL, NULL), 0);
    engine_close(&f->e);
    assert_true(no_leftovers(f));
    engine_open(&f->e, &f->o, 2);
    check_all(f);
}

static void too_little_room_is_said_before(void **state)
{
    struct fixture *f = *state;
    int id;

    fill(f);
    id = fault_add(&(struct fault_rule){.calls = FAULT(FAULT_STATVFS), .first = 1, .every = 1, .err = EIO});
    assert_int_equal(store_vacuum_compact(f->e.store, VOLUME, 0, NULL, NULL, NULL), DFS_EIO);
    assert_true(fault_hits(id) > 0);
    fault_clear();
    assert_true(no_leftovers(f));
    check_all(f);
}

static atomic_ullong fake_free_bytes;

static int fake_statvfs(const char *path, struct statvfs *out)
{
    int rc = disk_system_ops()->statvfs(path, out);

    out->f_bavail = atomic_load(&fake_free_bytes) / out->f_frsize;
    return rc;
}

/* What is free and what is held back are for the copy when it fits into both; otherwise the reserve stays for deletes. */
static void the_reserve_is_given_for_a_copy_that_fits(void **state)
{
    struct fixture *f = *state;
    struct disk_ops ops = *disk_system_ops();
    struct disk_location *loc = f->e.store->locations[0];
    struct vacuum_outcome out;

    fill(f);
    if (location_ballast_bytes(loc) == 0)
        return; /* a file system without fallocate, or a full one */
    (void)location_ballast_release(loc);
    location_ballast_setup(loc, 4u << 20); /* 512 KB, as on a small disk */
    assert_int_equal(location_ballast_bytes(loc), 512u << 10);
    ops.statvfs = fake_statvfs;
    fault_install(&ops);
    atomic_store(&fake_free_bytes, 0);
    assert_int_equal(store_vacuum_compact(f->e.store, VOLUME, 0, NULL, NULL, &out), DFS_ENOSPC);
    assert_non_null(strstr(out.why, "no space left: the copy may need "));
    assert_non_null(strstr(out.why, " 524288 held back"));
    assert_int_equal(location_ballast_bytes(loc), 512u << 10);
    assert_true(no_leftovers(f));
    for (uint64_t key = 1; key <= KEYS; key++)
        if (f->version[key] != 0 && key % 10 != 0)
            del(f, key);
    assert_int_equal(store_vacuum_compact(f->e.store, VOLUME, 0, NULL, NULL, &out), 0);
    assert_string_equal(out.why, "");
    assert_int_equal(location_ballast_bytes(loc), 0);
    assert_int_equal(store_vacuum_commit(f->e.store, VOLUME, 0, NULL), 0);
    check_all(f);
    fault_install(NULL);
}

/* ---- each call fails once ---- */

/* A vacuum whose n-th changing call fails, for each n until none does: either it went through, or everything is as it was; the
 * volume is right in memory, and after a restart. */
static void any_failing_call_leaves_a_right_volume(void **state)
{
    static const int errs[] = {EIO, ENOSPC};
    struct fixture *f = *state;
    bool failed = true;

    fill(f);
    for (uint64_t n = 1; failed; n++) {
        int id, rc;

        assert_true(n < 200);
        put(f, 1 + n % 5);
        id = fault_add(&(struct fault_rule){.calls = FAULT_MUTATING | FAULT(FAULT_OPEN), .first = n, .err = errs[n % 2]});
        rc = vacuum(f);
        failed = fault_hits(id) > 0;
        fault_clear();
        if (rc == 0 && failed)
            print_message("call %llu failed and did no harm\n", (unsigned long long)n);
        (void)store_vacuum_cleanup(f->e.store, VOLUME, 0, NULL);
        check_all(f);
        reopen(f);
        assert_true(no_leftovers(f));
        assert_int_equal(info(f).no_write, 0);
        check_all(f);
    }
}

/* ---- what a crash leaves ---- */

static void write_file(struct fixture *f, const char *suffix, const char *text)
{
    char path[4200];
    FILE *file;

    snprintf(path, sizeof path, "%s/%u%s", f->dir, VOLUME, suffix);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void copy_file(struct fixture *f, const char *from, const char *to)
{
    char cmd[9000];

    snprintf(cmd, sizeof cmd, "cp '%s/%u%s' '%s/%u%s'", f->dir, VOLUME, from, f->dir, VOLUME, to);
    assert_int_equal(system(cmd), 0);
}

static void recovery_finishes_or_clears(void **state)
{
    struct fixture *f = *state;

    fill(f);
    engine_close(&f->e);
    /* No marker: whatever the copy holds, it goes. */
    write_file(f, VACUUM_DAT_SUFFIX, "half a copy");
    write_file(f, VACUUM_IDX_SUFFIX, "");
    engine_open(&f->e, &f->o, 2);
    assert_true(no_leftovers(f));
    check_all(f);
    assert_int_equal(store_vacuum_compact(f->e.store, VOLUME, 0, NULL, NULL, NULL), 0);
    copy_file(f, VACUUM_DAT_SUFFIX, ".keepd");
    copy_file(f, VACUUM_IDX_SUFFIX, ".keepx");
    engine_close(&f->e);
    /* A marker: the copy takes the names, however far that had come. */
    for (int done = 0; done < 3; done++) {
        copy_file(f, ".keepd", done >= 2 ? ".dat" : VACUUM_DAT_SUFFIX);
        copy_file(f, ".keepx", done >= 1 ? ".idx" : VACUUM_IDX_SUFFIX);
        write_file(f, VACUUM_COMMIT_SUFFIX, "");
        engine_open(&f->e, &f->o, 2);
        assert_true(no_leftovers(f));
        assert_int_equal(info(f).compact_revision, 1);
        assert_int_equal(info(f).no_write, 0);
        check_all(f);
        engine_close(&f->e);
    }
    engine_open(&f->e, &f->o, 2);
}

int main(void)
{
    static const struct clock_ops clock = {.wall_ns = shifted_wall, .mono_ns = real_mono, .sleep_ms = real_sleep};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(live_stays_and_dead_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(writes_between_copy_and_commit_are_in_it, setup, teardown),
        cmocka_unit_test_setup_teardown(writes_go_on_meanwhile, setup, teardown),
        cmocka_unit_test_setup_teardown(readers_of_the_old_one_go_on, setup, teardown),
        cmocka_unit_test_setup_teardown(every_version_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(the_expired_go, setup, teardown),
        cmocka_unit_test_setup_teardown(a_corrupt_record_stops_nothing_and_is_not_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(a_sealed_volume_that_shrinks_takes_writes_again, setup, teardown),
        cmocka_unit_test_setup_teardown(room_that_ran_out_is_given_back, setup, teardown),
        cmocka_unit_test_setup_teardown(order_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(a_commit_belongs_to_its_run, setup, teardown),
        cmocka_unit_test_setup_teardown(a_run_under_way_is_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cancelled_run_leaves_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_finished_copy_goes_with_the_volume, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stop_ends_the_run_and_closes_cleanly, setup, teardown),
        cmocka_unit_test_setup_teardown(too_little_room_is_said_before, setup, teardown),
        cmocka_unit_test_setup_teardown(the_reserve_is_given_for_a_copy_that_fits, setup, teardown),
        cmocka_unit_test_setup_teardown(any_failing_call_leaves_a_right_volume, setup, teardown),
        cmocka_unit_test_setup_teardown(recovery_finishes_or_clears, setup, teardown),
        {"live_stays_and_dead_goes, leveldb", live_stays_and_dead_goes, setup_leveldb, teardown, NULL},
        {"writes_between_copy_and_commit_are_in_it, leveldb", writes_between_copy_and_commit_are_in_it, setup_leveldb, teardown,
         NULL},
        {"writes_go_on_meanwhile, leveldb", writes_go_on_meanwhile, setup_leveldb, teardown, NULL},
        {"readers_of_the_old_one_go_on, leveldb", readers_of_the_old_one_go_on, setup_leveldb, teardown, NULL},
    };

    log_threshold = getenv("DFS_TEST_LOG") != NULL ? LOG_INFO : LOG_ERROR + 1;
    clock_set_ops(&clock);
    if (rand_init() != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
