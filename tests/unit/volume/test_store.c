/* The store as servers use it: volumes that come and go, marks, limits, what is told of it all. */
#include "volume/store.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"
#include "net/log.h"
#include "net/rand.h"
#include "tests/support/fault.h"
#include "tests/support/tmpdir.h"
#include "tests/support/volume_rig.h"
#include "volume/needle_io.h"
#include "volume/store_internal.h"
#include "volume/volume_vif.h"

static char *dir;

static int setup(void **state)
{
    (void)state;
    log_threshold = LOG_ERROR + 1;
    assert_int_equal(rand_init(), 0);
    dir = tmpdir_new("store");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fault_remove();
    clock_set_ops(NULL);
    tmpdir_free(dir);
    return 0;
}

static const struct replica_placement no_copies;
static const struct ttl no_ttl;

static int allocate(struct store *s, uint32_t id, const char *collection)
{
    char reason[256];

    return store_allocate(s, id, bytes_str(collection), no_copies, no_ttl, 0, 0, reason);
}

static bool has(struct store *s, uint32_t id)
{
    struct volume *v = store_get(s, id);

    volume_unref(v);
    return v != NULL;
}

static void write_volume(const char *base, uint64_t keys, unsigned width)
{
    struct rig_volume b;

    vrig_volume_init(&b, NEEDLE_V3, width);
    for (uint64_t key = 1; key <= keys; key++)
        vrig_put_n(&b, key, 100);
    vrig_write(&b, dir, base, true);
    vrig_volume_release(&b);
}

/* ---- new volumes ---- */

static void test_allocate(void **state)
{
    struct replica_placement rp = {0, 1, 0};
    struct ttl ttl = {3, TTL_DAY};
    struct volume_info info;
    struct volume_vif vif;
    char reason[256], *path = tmpdir_path(dir, "pics_9.vif"), *dat = tmpdir_path(dir, "pics_9.dat"), *head;
    struct store *s = vrig_open(dir);
    struct stat st;
    size_t n;

    (void)state;
    umask(0);
    assert_int_equal(store_allocate(s, 9, BYTES_LIT("pics"), rp, ttl, 0, 0, reason), 0);
    assert_int_equal(allocate(s, 9, ""), DFS_EEXIST);
    assert_int_equal(allocate(s, 10, ""), 0);
    for (int again = 0; again < 2; again++) {
        vrig_info(s, 9, &info);
        assert_string_equal(info.collection, "pics");
        assert_int_equal(info.no_write, 0);
        assert_int_equal(info.version, 3);
        assert_int_equal(info.dat_bytes, SUPERBLOCK_BYTES);
        assert_int_equal(info.placement.other_racks, 1);
        assert_int_equal(info.ttl.unit, TTL_DAY);
        assert_true(has(s, 10));
        vrig_close(s);
        s = vrig_open(dir);
    }
    vrig_close(s);
    head = vrig_read_file(dir, "pics_9.dat", &n);
    assert_int_equal(n, 8);
    assert_memory_equal(head, "\3\12\3\3\0\0\0\0", 8);
    free(head);
    assert_int_equal(vrig_file_bytes(dir, "pics_9.idx"), 0);
    assert_int_equal(volume_vif_read(path, &vif), 0);
    assert_int_equal(vif.version, 3);
    assert_int_equal(vif.offset_width, 5);
    assert_true(vif.expire_at_s > clock_wall_s() + 86400);
    assert_int_equal(stat(dat, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    free(path);
    free(dat);
}

static void test_allocate_refused(void **state)
{
    struct store *s = vrig_open(dir);
    char reason[256];

    (void)state;
    assert_int_equal(allocate(s, 0, ""), DFS_EINVAL);
    assert_int_equal(allocate(s, 1, "../x"), DFS_EINVAL);
    assert_int_equal(allocate(s, 1, "a/b"), DFS_EINVAL);
    assert_int_equal(store_allocate(s, 1, BYTES_NONE, no_copies, no_ttl, 4, 0, reason), DFS_EINVAL);
    assert_true(reason[0] != '\0');
    vrig_close(s);
}

static void test_slots_run_out(void **state)
{
    char *a = tmpdir_path(dir, "a"), *b = tmpdir_path(dir, "b"), reason[256];
    struct store_options o;
    struct store *s;

    (void)state;
    store_options_init(&o);
    o.dirs[0] = a;
    o.dirs[1] = b;
    o.max_volumes[0] = 2;
    o.max_volumes[1] = 3;
    o.dir_count = 2;
    o.pool_bytes = 8 << 20;
    o.min_free_percent = 0;
    assert_int_equal(store_open(&o, &s), 0);
    assert_int_equal(store_load_start(s), 0);
    store_load_wait(s);
    for (uint32_t id = 1; id <= 5; id++)
        assert_int_equal(allocate(s, id, ""), 0);
    assert_int_equal(store_allocate(s, 6, BYTES_NONE, no_copies, no_ttl, 3, 0, reason), DFS_ENOSPC);
    assert_non_null(strstr(reason, "2 have all slots taken"));
    assert_int_equal(store_delete_volume(s, 1, true), 0);
    assert_int_equal(allocate(s, 6, ""), 0);
    vrig_close(s);
    free(a);
    free(b);
}

static void test_width_of_new_volumes(void **state)
{
    struct store *s;
    struct volume *v;

    (void)state;
    write_volume("7", 3, 4);
    write_volume("8", 3, 4);
    s = vrig_open(dir);
    assert_int_equal(allocate(s, 9, ""), 0);
    v = store_get(s, 9);
    assert_int_equal(v->offset_width, 4);
    volume_unref(v);
    vrig_close(s);
    write_volume("8", 3, 5);
    s = vrig_open(dir);
    assert_int_equal(allocate(s, 10, ""), 0);
    v = store_get(s, 10);
    assert_int_equal(v->offset_width, 5);
    volume_unref(v);
    vrig_close(s);
}

static uint64_t blocks_of(const char *name)
{
    char *path = tmpdir_path(dir, name);
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    free(path);
    return (uint64_t)st.st_blocks * 512;
}

static void test_preallocation(void **state)
{
    struct store *s;
    char reason[256];
    int id;

    (void)state;
    fault_install(NULL);
    s = vrig_open(dir);
    assert_int_equal(store_allocate(s, 1, BYTES_NONE, no_copies, no_ttl, 3, 4 << 20, reason), 0);
    assert_int_equal(vrig_file_bytes(dir, "1.dat"), 8);
    assert_true(blocks_of("1.dat") >= 4 << 20 && blocks_of("1.dat") < 5 << 20);
    /* Far more than there is: not even tried. */
    uint64_t before = fault_count(FAULT_FALLOCATE);
    assert_int_equal(store_allocate(s, 2, BYTES_NONE, no_copies, no_ttl, 3, (uint64_t)1 << 60, reason), 0);
    assert_int_equal(fault_count(FAULT_FALLOCATE), before);
    /* It ran out on the way: given back, and the volume is there. */
    id = fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FALLOCATE), .path_has = "3.dat", .err = ENOSPC});
    assert_int_equal(store_allocate(s, 3, BYTES_NONE, no_copies, no_ttl, 3, 4 << 20, reason), 0);
    assert_int_equal(fault_hits(id), 1);
    assert_true(blocks_of("3.dat") < 1 << 20);
    assert_int_equal(vrig_file_bytes(dir, "3.dat"), 8);
    vrig_close(s);
}

/* A disk of a given room: statvfs tells it, fallocate takes of it and dawdles first, as a large one does. */
static struct {
    struct disk_ops ops;
    _Atomic int64_t free_bytes;
    atomic_uint refused;
} room;

#define ROOM_BLOCK_BYTES 4096

static int room_statvfs(const char *path, struct statvfs *out)
{
    int rc = disk_system_ops()->statvfs(path, out);

    out->f_frsize = ROOM_BLOCK_BYTES;
    out->f_bavail = (fsblkcnt_t)(atomic_load(&room.free_bytes) / ROOM_BLOCK_BYTES);
    out->f_blocks = (64 << 20) / ROOM_BLOCK_BYTES;
    return rc;
}

static int room_fallocate(int fd, int mode, off_t pos, off_t bytes)
{
    (void)fd;
    (void)mode;
    (void)pos;
    (void)usleep(20000);
    if (atomic_fetch_sub(&room.free_bytes, bytes) >= bytes)
        return 0;
    atomic_fetch_add(&room.free_bytes, bytes);
    atomic_fetch_add(&room.refused, 1);
    errno = ENOSPC;
    return -1;
}

struct growth {
    pthread_t thread;
    struct store *s;
    uint32_t id;
    int rc;
};

static void *grow_one(void *arg)
{
    struct growth *g = arg;
    char reason[256];

    g->rc = store_allocate(g->s, g->id, BYTES_NONE, no_copies, no_ttl, 3, 16 << 20, reason);
    return NULL;
}

/* A master asks for several at once.  One that finds the room that another is about to take would fill the disk up. */
static void test_preallocation_at_once(void **state)
{
    struct growth all[4];
    char *own = tmpdir_new("room");
    struct store *s;

    (void)state;
    room.ops = *disk_system_ops();
    room.ops.statvfs = room_statvfs;
    room.ops.fallocate = room_fallocate;
    atomic_store(&room.refused, 0);
    atomic_store(&room.free_bytes, 60 << 20); /* three would fit, the third without a reserve */
    fault_remove();
    disk_set_ops(&room.ops);
    s = vrig_open(own);
    s->options.stage_bytes = 0;
    s->options.min_free_percent = 0;
    s->options.min_free_bytes = 20 << 20;
    atomic_store(&room.free_bytes, 60 << 20); /* the ballast took some */
    for (uint32_t i = 0; i < ARRAY_LEN(all); i++) {
        all[i] = (struct growth){.s = s, .id = i + 1};
        assert_int_equal(pthread_create(&all[i].thread, NULL, grow_one, &all[i]), 0);
    }
    for (uint32_t i = 0; i < ARRAY_LEN(all); i++) {
        (void)pthread_join(all[i].thread, NULL);
        assert_int_equal(all[i].rc, 0);
        assert_true(has(s, i + 1));
    }
    assert_int_equal(atomic_load(&room.refused), 0);
    assert_int_equal(atomic_load(&room.free_bytes), 28 << 20);
    vrig_close(s);
    disk_set_ops(NULL);
    tmpdir_free(own);
}

/* Each call of it fails once: either there is a volume, or nothing of one. */
static void test_every_call_of_allocate_fails(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth < 60; nth++) {
        char *own = tmpdir_new("alloc");
        struct store *s;
        int id, rc;

        fault_install(NULL);
        s = vrig_open(own);
        id = fault_add(&(struct fault_rule){.calls = FAULT_ANY, .path_has = "/5.", .first = nth, .err = EIO});
        rc = allocate(s, 5, "");
        uint64_t hits = fault_hits(id);
        fault_clear();
        if (rc == 0) {
            assert_true(has(s, 5));
        } else {
            assert_false(has(s, 5));
            /* Unless the removal itself is what failed. */
            assert_int_equal(allocate(s, 6, ""), 0);
        }
        vrig_close(s);
        fault_remove();
        s = vrig_open(own);
        if (rc == 0) {
            struct volume_info info;

            vrig_info(s, 5, &info);
            assert_int_equal(info.no_write, 0);
        } else {
            assert_false(has(s, 5));
            assert_int_equal(allocate(s, 5, ""), 0);
        }
        vrig_close(s);
        tmpdir_free(own);
        if (hits == 0) {
            assert_true(nth > 5);
            return;
        }
    }
    fail_msg("it never succeeded");
}

static void test_index_without_its_dat(void **state)
{
    struct store *s;

    (void)state;
    vrig_write_file(dir, "5.idx", "0123456789abcdefg", 17);
    s = vrig_open(dir);
    assert_int_equal(allocate(s, 5, ""), 0);
    vrig_close(s);
    assert_int_equal(vrig_file_bytes(dir, "5.idx"), 0);
    assert_int_equal(vrig_file_bytes(dir, "5.idx.orphan"), 17);
}

/* ---- volumes that go ---- */

static void test_delete(void **state)
{
    static const char *const files[] = {"7.dat", "7.idx", "7.vif", "7.ckp"};
    struct store *s;

    (void)state;
    write_volume("7", 3, 5);
    write_volume("x_77", 3, 5);
    s = vrig_open(dir);
    vrig_close(s);
    s = vrig_open(dir);
    assert_int_equal(store_delete_volume(s, 6, false), DFS_ENOVOLUME);
    assert_int_equal(store_delete_volume(s, 7, true), DFS_EBUSY);
    assert_true(vrig_holds(s, 7, 1, 100));
    assert_int_equal(store_delete_volume(s, 7, false), 0);
    assert_false(has(s, 7));
    for (size_t i = 0; i < 4; i++)
        assert_false(vrig_exists(dir, files[i]));
    assert_true(vrig_holds(s, 77, 1, 100));
    assert_int_equal(allocate(s, 7, ""), 0);
    assert_int_equal(store_delete_volume(s, 7, true), 0);
    vrig_close(s);
    s = vrig_open(dir);
    assert_false(has(s, 7));
    assert_true(vrig_holds(s, 77, 1, 100));
    vrig_close(s);
}

static void test_delete_that_fails(void **state)
{
    struct store *s;
    struct volume_info info;

    (void)state;
    write_volume("7", 3, 5);
    fault_install(NULL);
    s = vrig_open(dir);
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_UNLINK), .path_has = "7.dat", .err = EIO});
    assert_int_equal(store_delete_volume(s, 7, false), DFS_EIO);
    vrig_info(s, 7, &info);
    assert_int_equal(info.no_write, 0);
    assert_true(vrig_holds(s, 7, 1, 100));
    assert_int_equal(store_delete_volume(s, 7, false), 0);
    vrig_close(s);
}

static void test_delete_collection(void **state)
{
    struct store *s;
    uint32_t deleted = 99;

    (void)state;
    write_volume("a_1", 3, 5);
    write_volume("a_2", 3, 5);
    write_volume("b_3", 3, 5);
    write_volume("4", 3, 5);
    s = vrig_open(dir);
    assert_int_equal(store_delete_collection(s, BYTES_NONE, &deleted), DFS_EINVAL);
    assert_int_equal(deleted, 99);
    assert_int_equal(store_delete_collection(s, BYTES_LIT("nope"), &deleted), 0);
    assert_int_equal(deleted, 0);
    assert_int_equal(store_delete_collection(s, BYTES_LIT("a"), &deleted), 0);
    assert_int_equal(deleted, 2);
    assert_false(has(s, 1) || has(s, 2));
    assert_true(has(s, 3) && has(s, 4));
    vrig_close(s);
}

static void test_unmount_and_mount(void **state)
{
    (void)state;
    for (int kind = NEEDLE_MAP_MEMORY; kind <= NEEDLE_MAP_LEVELDB; kind++) {
        struct store *s;

        write_volume("c_7", 3, 5);
        s = vrig_open_kind(dir, (enum needle_map_kind)kind);
        assert_int_equal(store_mount(s, 7), 0); /* it is */
        assert_int_equal(store_unmount(s, 7), 0);
        assert_false(has(s, 7));
        assert_int_equal(store_unmount(s, 7), DFS_ENOVOLUME);
        assert_true(vrig_exists(dir, "c_7.dat"));
        assert_int_equal(store_mount(s, 7), 0);
        assert_true(vrig_holds(s, 7, 1, 100));
        assert_int_equal(store_mount(s, 8), DFS_ENOVOLUME);
        assert_int_equal(store_delete_volume(s, 7, false), 0);
        vrig_close(s);
    }
}

static void test_broken_volume_is_mended(void **state)
{
    struct rig_volume b;
    struct store *s;

    (void)state;
    vrig_volume_init(&b, NEEDLE_V3, 5);
    vrig_put_n(&b, 1, 100);
    b.dat[0] = 9;
    vrig_write(&b, dir, "7", true);
    s = vrig_open(dir);
    assert_int_equal(vrig_get(s, 7, 1, RIG_COOKIE, NULL, NULL), DFS_EUNAVAILABLE);
    assert_int_not_equal(store_mount(s, 7), 0);
    vrig_overwrite(dir, "7.dat", 0, "\3", 1);
    assert_int_equal(store_mount(s, 7), 0);
    assert_true(vrig_holds(s, 7, 1, 100));
    vrig_close(s);
    vrig_volume_release(&b);
}

/* ---- marks and limits ---- */

static void test_mark_readonly(void **state)
{
    struct store *s;
    struct volume_info info;

    (void)state;
    write_volume("7", 3, 5);
    s = vrig_open(dir);
    assert_int_equal(store_mark_readonly(s, 8, true, true), DFS_ENOVOLUME);
    assert_int_equal(store_mark_readonly(s, 7, true, false), 0);
    vrig_info(s, 7, &info);
    assert_int_equal(info.no_write, VOLUME_MARKED);
    vrig_close(s);
    s = vrig_open(dir);
    vrig_info(s, 7, &info);
    assert_int_equal(info.no_write, 0);
    assert_int_equal(store_mark_readonly(s, 7, true, true), 0);
    vrig_close(s);
    s = vrig_open(dir);
    vrig_info(s, 7, &info);
    assert_int_equal(info.no_write, VOLUME_MARKED);
    assert_int_equal(store_mark_readonly(s, 7, false, true), 0);
    vrig_info(s, 7, &info);
    assert_int_equal(info.no_write, 0);
    vrig_close(s);
    s = vrig_open(dir);
    vrig_info(s, 7, &info);
    assert_int_equal(info.no_write, 0);
    vrig_close(s);
}

static void test_configure(void **state)
{
    struct replica_placement rp = {0, 0, 1};
    struct store *s;
    struct volume_info info;
    size_t n;
    char *dat;

    (void)state;
    write_volume("7", 3, 5);
    s = vrig_open(dir);
    assert_int_equal(store_configure(s, 7, rp), 0);
    vrig_info(s, 7, &info);
    assert_int_equal(info.placement.same_rack, 1);
    vrig_close(s);
    s = vrig_open(dir);
    vrig_info(s, 7, &info);
    assert_int_equal(info.placement.same_rack, 1);
    assert_true(vrig_holds(s, 7, 3, 100));
    vrig_close(s);
    dat = vrig_read_file(dir, "7.dat", &n);
    assert_int_equal(dat[1], 1);
    free(dat);
}

static int nothing(struct volume *v, void *arg)
{
    (void)v;
    (void)arg;
    return 0;
}

static void test_size_limit(void **state)
{
    struct store *s;
    struct volume_info info;
    struct volume *v;

    (void)state;
    write_volume("7", 30, 5);
    s = vrig_open(dir);
    v = store_get(s, 7);
    store_set_size_limit(s, 1000);
    assert_int_equal(store_on_writer(v, nothing, NULL), 0);
    vrig_info(s, 7, &info);
    assert_int_equal(info.no_write, VOLUME_SEALED);
    store_set_size_limit(s, 1 << 20);
    assert_int_equal(store_on_writer(v, nothing, NULL), 0);
    vrig_info(s, 7, &info);
    assert_int_equal(info.no_write, 0);
    volume_unref(v);
    vrig_close(s);
}

/* ---- writing through the front door ---- */

struct rig_loop {
    struct loop *loop;
    struct store *store;
    int attach_rc;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    struct loop_msg msg;
    void (*fn)(struct rig_loop *l);
    bool done;
    struct needle_write write;
    int rc;
};

static void finish(struct rig_loop *l)
{
    pthread_mutex_lock(&l->lock);
    l->done = true;
    pthread_cond_signal(&l->cond);
    pthread_mutex_unlock(&l->lock);
}

static void run_fn(struct loop_msg *msg)
{
    struct rig_loop *l = CONTAINER_OF(msg, struct rig_loop, msg);

    l->fn(l);
}

static void on_loop(struct rig_loop *l, void (*fn)(struct rig_loop *l))
{
    l->done = false;
    l->fn = fn;
    l->msg.run = run_fn;
    loop_post(l->loop, &l->msg);
    pthread_mutex_lock(&l->lock);
    while (!l->done)
        pthread_cond_wait(&l->cond, &l->lock);
    pthread_mutex_unlock(&l->lock);
}

static void attach(struct rig_loop *l)
{
    l->attach_rc = store_loop_attach(l->store, l->loop);
    finish(l);
}

static void loop_up(struct rig_loop *l, struct store *s)
{
    memset(l, 0, sizeof *l);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->cond, NULL);
    l->store = s;
    assert_int_equal(loop_new("test", &l->loop), 0);
    assert_int_equal(loop_start(l->loop), 0);
    on_loop(l, attach);
    assert_int_equal(l->attach_rc, 0);
}

static void loop_down(struct rig_loop *l)
{
    loop_stop(l->loop);
    loop_join(l->loop);
}

static void on_written(struct needle_write *w, int rc)
{
    struct rig_loop *l = CONTAINER_OF(w, struct rig_loop, write);

    l->rc = rc;
    finish(l);
}

static void start_write(struct rig_loop *l)
{
    l->rc = needle_write_start(&l->write);
    if (l->rc != 0)
        finish(l);
}

static int delete_needle(struct rig_loop *l, uint32_t id, uint64_t key)
{
    memset(&l->write, 0, sizeof l->write);
    l->write.store = l->store;
    l->write.loop = l->loop;
    l->write.fid = (struct fid){id, RIG_COOKIE, key};
    l->write.is_delete = true;
    l->write.done = on_written;
    on_loop(l, start_write);
    return l->rc;
}

/* Deleting on a sealed volume appends to its index, and does not write over it (G42). */
static void test_delete_on_a_sealed_volume(void **state)
{
    struct rig_loop l;
    struct store *s;
    struct volume *v;
    struct volume_info before, after;
    char *idx, *idx_after;
    size_t n, n_after;

    (void)state;
    write_volume("7", 30, 5);
    s = vrig_open(dir);
    loop_up(&l, s);
    v = store_get(s, 7);
    store_set_size_limit(s, 1000);
    assert_int_equal(store_on_writer(v, nothing, NULL), 0);
    volume_unref(v);
    idx = vrig_read_file(dir, "7.idx", &n);
    for (uint64_t key = 10; key < 13; key++)
        assert_int_equal(delete_needle(&l, 7, key), 0);
    assert_int_equal(delete_needle(&l, 7, 10), DFS_ENOTFOUND);
    vrig_info(s, 7, &before);
    loop_down(&l);
    vrig_close(s);
    loop_free(l.loop);
    idx_after = vrig_read_file(dir, "7.idx", &n_after);
    assert_int_equal(n_after, n + 3 * 17);
    assert_memory_equal(idx, idx_after, n);
    free(idx);
    free(idx_after);
    s = vrig_open(dir);
    for (uint64_t key = 1; key <= 30; key++) {
        if (key >= 10 && key < 13)
            assert_int_equal(vrig_get(s, 7, key, RIG_COOKIE, NULL, NULL), DFS_ENOTFOUND);
        else
            assert_true(vrig_holds(s, 7, key, 100));
    }
    vrig_info(s, 7, &after);
    assert_int_equal(after.delete_count, before.delete_count);
    assert_int_equal(after.deleted_bytes, before.deleted_bytes);
    assert_int_equal(after.file_count, before.file_count);
    assert_int_equal(after.dat_bytes, before.dat_bytes);
    assert_int_equal(after.last_append_ns, before.last_append_ns);
    vrig_close(s);
}

/* ---- looking things up while they change ---- */

static atomic_bool looking;

static void look(struct rig_loop *l)
{
    uint64_t seen = 0;

    for (uint32_t i = 0; i < 64; i++) {
        struct volume *v = store_find(l->store, i);
        struct volume_gen *g = v != NULL ? volume_gen_peek(v) : NULL;

        if (g != NULL)
            seen += g->revision + v->id;
    }
    l->rc = (int)seen;
    if (atomic_load(&looking))
        loop_post(l->loop, &l->msg);
    else
        finish(l);
}

static void *run_look(void *arg)
{
    on_loop(arg, look);
    return NULL;
}

static void test_look_ups_beside_changes(void **state)
{
    struct rig_loop l;
    struct store *s = vrig_open(dir);
    pthread_t thread;

    (void)state;
    loop_up(&l, s);
    atomic_store(&looking, true);
    assert_int_equal(pthread_create(&thread, NULL, run_look, &l), 0);
    for (int round = 0; round < 6; round++) {
        for (uint32_t id = 1; id < 8; id++)
            assert_int_equal(allocate(s, id, "c"), 0);
        for (uint32_t id = 1; id < 8; id++)
            assert_int_equal(store_delete_volume(s, id, true), 0);
    }
    atomic_store(&looking, false);
    assert_int_equal(pthread_join(thread, NULL), 0);
    loop_down(&l);
    vrig_close(s);
    loop_free(l.loop);
}

static atomic_int told;

static void on_change(void *arg)
{
    (void)arg;
    atomic_fetch_add(&told, 1);
}

static void nop(struct rig_loop *l)
{
    finish(l);
}

static void test_changes_are_told(void **state)
{
    struct rig_loop l;
    struct store *s = vrig_open(dir);
    int first;

    (void)state;
    loop_up(&l, s);
    atomic_store(&told, 0);
    store_on_change(s, l.loop, on_change, NULL);
    assert_int_equal(allocate(s, 1, ""), 0);
    on_loop(&l, nop);
    first = atomic_load(&told);
    assert_true(first > 0);
    assert_int_equal(store_mark_readonly(s, 1, true, false), 0);
    on_loop(&l, nop);
    assert_true(atomic_load(&told) > first);
    first = atomic_load(&told);
    assert_int_equal(store_mark_readonly(s, 1, true, false), 0); /* nothing new */
    on_loop(&l, nop);
    assert_int_equal(atomic_load(&told), first);
    loop_down(&l);
    vrig_close(s);
    loop_free(l.loop);
}

/* ---- ttl volumes ---- */

static _Atomic uint64_t fake_now_s;

static uint64_t fake_wall_ns(void *arg)
{
    (void)arg;
    return fake_now_s * 1000000000u;
}

static uint64_t real_mono_ns(void *arg)
{
    struct timespec ts;

    (void)arg;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void real_sleep_ms(void *arg, uint64_t ms)
{
    (void)arg;
    usleep((useconds_t)ms * 1000);
}

static void test_ttl_volume_expires(void **state)
{
    static const struct clock_ops ops = {fake_wall_ns, real_mono_ns, real_sleep_ms, NULL};
    struct volume_info *infos;
    struct rig_volume b;
    struct store *s;
    uint32_t count;
    struct volume_info info;

    (void)state;
    vrig_volume_init(&b, NEEDLE_V3, 5);
    b.dat[2] = 30; /* 30 minutes */
    b.dat[3] = TTL_MINUTE;
    vrig_write(&b, dir, "8", true); /* without needles: never */
    vrig_put_n(&b, 1, 100);
    vrig_write(&b, dir, "7", true);
    vrig_volume_release(&b);
    write_volume("9", 1, 5);
    fake_now_s = clock_wall_s();
    clock_set_ops(&ops); /* before there are threads */
    s = vrig_open(dir);
    vrig_info(s, 7, &info);
    fake_now_s = info.last_modified_s + 30 * 60 + 59;
    assert_int_equal(store_snapshot(s, &infos, &count), 0);
    free(infos);
    assert_int_equal(count, 3);
    fake_now_s += 1;
    assert_int_equal(store_snapshot(s, &infos, &count), 0);
    free(infos);
    assert_int_equal(count, 2); /* not announced, not gone */
    store_maintain(s);
    assert_true(has(s, 7));
    fake_now_s = info.last_modified_s + 34 * 60;
    store_maintain(s);
    assert_false(has(s, 7));
    assert_false(vrig_exists(dir, "7.dat"));
    assert_true(has(s, 8) && has(s, 9));
    vrig_close(s);
    clock_set_ops(NULL);
}

/* ---- numbers ---- */

static void expect_line(const char *text, const char *line)
{
    const char *at = strstr(text, line);

    if (at == NULL || (at != text && at[-1] != '\n') || at[strlen(line)] != '\n')
        fail_msg("'%s' is not in:\n%s", line, text);
}

static void test_metrics(void **state)
{
    struct metric_text t = {0};
    struct location_info l;
    char line[8192];
    struct store *s;

    (void)state;
    write_volume("7", 3, 5);
    write_volume("pics_8", 3, 5);
    write_volume("pics_9", 3, 5);
    s = vrig_open(dir);
    assert_int_equal(store_mark_readonly(s, 9, true, false), 0);
    store_metrics(s, &t);
    assert_int_equal(t.failed, 0);
    expect_line(t.data, "SeaweedFS_volumeServer_volumes{collection=\"\",type=\"volume\"} 1");
    expect_line(t.data, "SeaweedFS_volumeServer_volumes{collection=\"pics\",type=\"volume\"} 2");
    expect_line(t.data, "SeaweedFS_volumeServer_read_only_volumes{collection=\"pics\",type=\"IsReadOnly\"} 1");
    expect_line(t.data, "SeaweedFS_volumeServer_read_only_volumes{collection=\"\",type=\"IsReadOnly\"} 0");
    store_location_info(s, 0, &l);
    snprintf(line, sizeof line, "SeaweedFS_volumeServer_resource{name=\"%s\",type=\"free\"} %llu", dir,
             (unsigned long long)l.free_bytes);
    expect_line(t.data, line);
    snprintf(line, sizeof line, "SeaweedFS_volumeServer_resource{name=\"%s\",type=\"used\"} %llu", dir,
             (unsigned long long)(l.total_bytes - l.free_bytes));
    expect_line(t.data, line);
    snprintf(line, sizeof line, "SeaweedFS_volumeServer_max_volumes %u", l.max_volumes);
    expect_line(t.data, line);
    metric_text_release(&t);
    assert_int_equal(store_max_key(s), 3);
    vrig_close(s);
}

static void test_many_volumes(void **state)
{
    struct store_options o;
    struct store *s;
    char base[32];

    (void)state;
    for (unsigned i = 1; i <= 300; i++) {
        snprintf(base, sizeof base, "%u", i * 7);
        write_volume(base, 1, 5);
    }
    store_options_init(&o);
    o.dirs[0] = dir;
    o.max_volumes[0] = 400;
    o.dir_count = 1;
    o.pool_bytes = 8 << 20;
    o.min_free_percent = 0;
    assert_int_equal(store_open(&o, &s), 0);
    /* Known before they are open. */
    for (unsigned i = 1; i <= 300; i++) {
        struct volume *v = store_get(s, i * 7);

        assert_non_null(v);
        assert_int_equal(atomic_load(&v->no_write), VOLUME_LOADING);
        volume_unref(v);
    }
    assert_int_equal(store_delete_volume(s, 7, false), DFS_ELOADING);
    assert_int_equal(store_load_start(s), 0);
    store_load_wait(s);
    assert_false(store_loading(s));
    for (unsigned i = 1; i <= 300; i++)
        assert_true(vrig_holds(s, i * 7, 1, 100));
    for (unsigned i = 1; i <= 300; i += 2)
        assert_int_equal(store_delete_volume(s, i * 7, false), 0);
    for (unsigned i = 1; i <= 300; i++)
        assert_int_equal(has(s, i * 7), i % 2 == 0);
    vrig_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        T(test_allocate),
        T(test_allocate_refused),
        T(test_slots_run_out),
        T(test_width_of_new_volumes),
        T(test_preallocation),
        T(test_preallocation_at_once),
        T(test_every_call_of_allocate_fails),
        T(test_index_without_its_dat),
        T(test_delete),
        T(test_delete_that_fails),
        T(test_delete_collection),
        T(test_unmount_and_mount),
        T(test_broken_volume_is_mended),
        T(test_mark_readonly),
        T(test_configure),
        T(test_size_limit),
        T(test_delete_on_a_sealed_volume),
        T(test_look_ups_beside_changes),
        T(test_changes_are_told),
        T(test_ttl_volume_expires),
        T(test_metrics),
        T(test_many_volumes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
