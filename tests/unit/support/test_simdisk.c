/* The simulated disk must lose what a real one may lose, and nothing else; a simulation that loses nothing proves nothing. */
#include "tests/support/simdisk.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "needle/err.h"
#include "tests/support/tmpdir.h"

#define SEEDS 200

struct world {
    char *top, *root;
    struct simdisk *sim;
};

static void world_open(struct world *w)
{
    w->top = tmpdir_new("simdisk");
    w->root = tmpdir_path(w->top, "disk");
    assert_int_equal(mkdir(w->root, 0750), 0);
    w->sim = simdisk_new(w->root);
    simdisk_activate(w->sim);
}

static void world_close(struct world *w)
{
    simdisk_free(w->sim);
    free(w->root);
    tmpdir_free(w->top);
}

static char *in_root(const struct world *w, const char *name)
{
    return tmpdir_path(w->root, name);
}

static int make_file(const struct world *w, const char *name, int flags)
{
    char *path = in_root(w, name);
    int fd = -1;
    assert_int_equal(disk_open(path, O_RDWR | O_CREAT | flags, &fd), 0);
    free(path);
    return fd;
}

static void sync_root(const struct world *w)
{
    assert_int_equal(disk_sync_folder(w->root), 0);
}

static void write_at(int fd, uint64_t pos, int byte, size_t n)
{
    char *buf = malloc(n);
    memset(buf, byte, n);
    assert_int_equal(disk_write(fd, buf, n, pos), 0);
    free(buf);
}

/* A crash into <top>/after, read past the simulation. */
struct after {
    char *folder;
};

static struct after crash(const struct world *w, uint64_t seed, enum simdisk_mode mode)
{
    struct after a = {tmpdir_path(w->top, "after")};
    tmpdir_remove(a.folder);
    simdisk_crash(w->sim, seed, mode, a.folder);
    return a;
}

static void after_done(struct after *a)
{
    tmpdir_remove(a->folder);
    free(a->folder);
}

/* Bytes of a file after the crash, -1 when it is not there. */
static long after_read(const struct after *a, const char *name, char *buf, size_t max)
{
    char *path = tmpdir_path(a->folder, name);
    int fd = open(path, O_RDONLY);
    free(path);
    if (fd == -1)
        return -1;
    memset(buf, 0, max);
    ssize_t n = read(fd, buf, max);
    close(fd);
    assert_true(n >= 0);
    return (long)n;
}

static bool after_exists(const struct after *a, const char *name)
{
    char *path = tmpdir_path(a->folder, name);
    bool there = access(path, F_OK) == 0;
    free(path);
    return there;
}

static void synced_data_stays(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    int fd = make_file(&w, "a", 0);
    write_at(fd, 0, 'x', 5000);
    assert_int_equal(disk_datasync(fd), 0);
    sync_root(&w);
    assert_int_equal(simdisk_unsynced_bytes(w.sim), 0);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        char buf[8192];
        struct after a = crash(&w, seed, SIMDISK_RANDOM);
        assert_int_equal(after_read(&a, "a", buf, sizeof buf), 5000);
        for (int i = 0; i < 5000; i++)
            assert_int_equal(buf[i], 'x');
        after_done(&a);
    }
    disk_close(&fd);
    world_close(&w);
}

/* Each thing that may become of un-synced appended data does become of it for some seed, and nothing else. */
static void unsynced_append_is_kept_dropped_or_torn(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    int fd = make_file(&w, "a", 0);
    write_at(fd, 0, 'x', 1000);
    assert_int_equal(disk_datasync(fd), 0);
    sync_root(&w);
    write_at(fd, 1000, 'y', 4000);
    assert_int_equal(simdisk_unsynced_bytes(w.sim), 4000);

    int whole = 0, none = 0, shorter = 0, torn = 0, zeros = 0, garbage = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        char buf[8192];
        struct after a = crash(&w, seed, SIMDISK_RANDOM);
        long n = after_read(&a, "a", buf, sizeof buf);
        assert_true(n >= 1000 && n <= 5000);
        for (int i = 0; i < 1000; i++)
            assert_int_equal(buf[i], 'x');
        int y = 0, zero = 0;
        for (int i = 1000; i < n; i++) {
            y += buf[i] == 'y';
            zero += buf[i] == 0;
        }
        whole += y == 4000;
        none += n == 1000;
        shorter += n > 1000 && n < 5000;
        torn += y > 0 && y < 4000;
        zeros += n == 5000 && zero == 4000;
        garbage += n - 1000 - y - zero > 100;
        after_done(&a);
    }
    print_message("whole %d none %d shorter %d torn %d zeros %d garbage %d\n", whole, none, shorter, torn, zeros, garbage);
    assert_true(whole > 0 && none > 0 && shorter > 0 && torn > 0 && zeros > 0 && garbage > 0);
    disk_close(&fd);
    world_close(&w);
}

static void unsynced_overwrite_shows_old_or_new_by_sectors(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    int fd = make_file(&w, "a", 0);
    write_at(fd, 0, 'x', 4096);
    assert_int_equal(disk_sync(fd), 0);
    sync_root(&w);
    write_at(fd, 700, 'y', 2000);
    write_at(fd, 1000, 'z', 100);

    int old = 0, new = 0, between = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        char buf[8192];
        struct after a = crash(&w, seed, SIMDISK_RANDOM);
        assert_int_equal(after_read(&a, "a", buf, sizeof buf), 4096);
        for (int i = 0; i < 4096; i++)
            assert_true(buf[i] == 'x' || (i >= 700 && i < 2700));
        /* A sector is old or new as a whole: [1536, 2048) lies inside the first write alone. */
        int in_x = 0, in_y = 0;
        for (int i = 1536; i < 2048; i++) {
            in_x += buf[i] == 'x';
            in_y += buf[i] == 'y';
        }
        assert_true(in_x == 512 || in_y == 512 || in_x + in_y < 32 /* zeros or garbage */);
        int y = 0, z = 0, x = 0;
        for (int i = 0; i < 4096; i++) {
            x += buf[i] == 'x';
            y += buf[i] == 'y';
            z += buf[i] == 'z';
        }
        old += x == 4096;
        new += y == 1900 && z == 100;
        between += !(x == 4096) && !(y == 1900 && z == 100);
        after_done(&a);
    }
    print_message("old %d new %d between %d\n", old, new, between);
    assert_true(old > 0 && new > 0 && between > 0);
    disk_close(&fd);
    world_close(&w);
}

static void drop_all_and_keep_all_are_exact(void **state)
{
    (void)state;
    struct world w;
    char buf[16384];
    world_open(&w);
    int fd = make_file(&w, "a", 0);
    write_at(fd, 0, 'x', 3000);
    assert_int_equal(disk_datasync(fd), 0);
    sync_root(&w);
    write_at(fd, 1000, 'y', 5000);
    assert_int_equal(disk_truncate(fd, 2000), 0);
    write_at(fd, 2500, 'z', 100);
    assert_int_equal(disk_truncate(fd, 9000), 0);
    int other = make_file(&w, "b", 0);

    struct after a = crash(&w, 1, SIMDISK_DROP_ALL);
    assert_int_equal(after_read(&a, "a", buf, sizeof buf), 3000);
    for (int i = 0; i < 3000; i++)
        assert_int_equal(buf[i], 'x');
    assert_false(after_exists(&a, "b"));
    after_done(&a);

    a = crash(&w, 1, SIMDISK_KEEP_ALL);
    assert_int_equal(after_read(&a, "a", buf, sizeof buf), 9000);
    for (int i = 0; i < 9000; i++)
        assert_int_equal(buf[i], i < 1000 ? 'x' : i < 2000 ? 'y' : i >= 2500 && i < 2600 ? 'z' : 0);
    assert_int_equal(after_read(&a, "b", buf, sizeof buf), 0);
    after_done(&a);
    disk_close(&fd);
    disk_close(&other);
    world_close(&w);
}

/* What comes after a truncation, and beyond its end, is never there without it. */
static void truncation_comes_before_what_follows(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    int fd = make_file(&w, "a", 0);
    write_at(fd, 0, 'x', 2048);
    assert_int_equal(disk_datasync(fd), 0);
    sync_root(&w);
    assert_int_equal(disk_truncate(fd, 512), 0);
    write_at(fd, 512, 'y', 512);
    int long_x = 0, cut = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        char buf[8192];
        struct after a = crash(&w, seed, SIMDISK_RANDOM);
        long n = after_read(&a, "a", buf, sizeof buf);
        assert_true(n == 2048 || (n >= 512 && n <= 1024));
        for (int i = 0; i < (n == 2048 ? 2048 : 512); i++)
            assert_int_equal(buf[i], 'x');
        long_x += n == 2048;
        cut += n != 2048;
        after_done(&a);
    }
    assert_true(long_x > 0 && cut > 0);
    disk_close(&fd);
    world_close(&w);
}

static void names_need_the_folder_synced(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    int fd = make_file(&w, "a", 0);
    write_at(fd, 0, 'x', 100);
    assert_int_equal(disk_sync(fd), 0);
    int there = 0, gone = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        char buf[256];
        struct after a = crash(&w, seed, SIMDISK_RANDOM);
        long n = after_read(&a, "a", buf, sizeof buf);
        assert_true(n == -1 || n == 100);
        there += n == 100;
        gone += n == -1;
        after_done(&a);
    }
    assert_true(there > 0 && gone > 0);
    disk_close(&fd);
    world_close(&w);
}

/* A replaced file is the old or the new one, whole; forgetting to sync the new one first shows as a bad file. */
static void replaced_by_rename(struct world *w, bool sync_file, bool sync_folder, int *old, int *new, int *bad)
{
    world_open(w);
    int fd = make_file(w, "a", 0);
    write_at(fd, 0, 'x', 1000);
    assert_int_equal(disk_sync(fd), 0);
    sync_root(w);
    disk_close(&fd);
    fd = make_file(w, "a.tmp", 0);
    write_at(fd, 0, 'y', 2000);
    if (sync_file)
        assert_int_equal(disk_sync(fd), 0);
    disk_close(&fd);
    char *from = in_root(w, "a.tmp"), *to = in_root(w, "a");
    assert_int_equal(disk_rename(from, to), 0);
    if (sync_folder)
        sync_root(w);
    *old = *new = *bad = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        char buf[4096];
        struct after a = crash(w, seed, SIMDISK_RANDOM);
        long n = after_read(&a, "a", buf, sizeof buf);
        assert_true(n >= 0); /* never neither */
        int x = 0, y = 0;
        for (int i = 0; i < n; i++) {
            x += buf[i] == 'x';
            y += buf[i] == 'y';
        }
        bool is_old = n == 1000 && x == 1000, is_new = n == 2000 && y == 2000;
        *old += is_old;
        *new += is_new;
        *bad += !is_old && !is_new;
        if (sync_folder)
            assert_false(after_exists(&a, "a.tmp"));
        after_done(&a);
    }
    print_message("old %d new %d bad %d\n", *old, *new, *bad);
    free(from);
    free(to);
    world_close(w);
}

static void rename_is_atomic(void **state)
{
    (void)state;
    struct world w;
    int old, new, bad;
    replaced_by_rename(&w, true, true, &old, &new, &bad);
    assert_int_equal(new, SEEDS);
    replaced_by_rename(&w, true, false, &old, &new, &bad);
    assert_true(old > 0 && new > 0);
    assert_int_equal(bad, 0);
    replaced_by_rename(&w, false, true, &old, &new, &bad);
    assert_true(bad > 0);
}

static void removed_file_may_come_back_whole(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    int fd = make_file(&w, "a", 0);
    write_at(fd, 0, 'x', 100);
    assert_int_equal(disk_sync(fd), 0);
    disk_close(&fd);
    sync_root(&w);
    char *path = in_root(&w, "a");
    struct stat st;
    assert_int_equal(disk_stat(path, &st), 0);
    assert_int_equal(st.st_nlink, 1); /* the link that keeps it alive is hidden */
    assert_int_equal(disk_unlink(path), 0);
    /* Another file under the same name, and perhaps the same inode number, is another file. */
    fd = make_file(&w, "a", 0);
    write_at(fd, 0, 'y', 50);
    assert_int_equal(disk_sync(fd), 0);
    int first = 0, second = 0, none = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        char buf[256];
        struct after a = crash(&w, seed, SIMDISK_RANDOM);
        long n = after_read(&a, "a", buf, sizeof buf);
        assert_true(n == 100 || n == 50 || n == -1);
        first += n == 100 && buf[99] == 'x';
        second += n == 50 && buf[49] == 'y';
        none += n == -1;
        after_done(&a);
    }
    assert_int_equal(first + second + none, SEEDS);
    assert_true(first > 0 && second > 0 && none > 0);
    free(path);
    disk_close(&fd);
    world_close(&w);
}

static void folders_and_moves_between_them(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    char *sub = in_root(&w, "sub"), *inner = in_root(&w, "sub/inner"), *moved = in_root(&w, "moved");
    assert_int_equal(disk_mkdir(sub), 0);
    int fd = make_file(&w, "sub/inner", 0);
    write_at(fd, 0, 'x', 10);
    assert_int_equal(disk_sync(fd), 0);
    assert_int_equal(disk_sync_folder(sub), 0);
    /* The folder's own name is not sure, so all in it may be gone. */
    int there = 0, gone = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct after a = crash(&w, seed, SIMDISK_RANDOM);
        assert_true(after_exists(&a, "sub") == after_exists(&a, "sub/inner"));
        there += after_exists(&a, "sub");
        gone += !after_exists(&a, "sub");
        after_done(&a);
    }
    assert_true(there > 0 && gone > 0);
    disk_close(&fd);
    world_close(&w);
    free(sub);
    free(inner);
    free(moved);

    world_open(&w);
    sub = in_root(&w, "sub"), inner = in_root(&w, "sub/inner"), moved = in_root(&w, "moved");
    assert_int_equal(disk_mkdir(sub), 0);
    sync_root(&w);
    fd = make_file(&w, "sub/inner", 0);
    assert_int_equal(disk_sync_folder(sub), 0);
    assert_int_equal(disk_rename(inner, moved), 0);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct after a = crash(&w, seed, SIMDISK_RANDOM);
        assert_int_equal(after_exists(&a, "moved") + after_exists(&a, "sub/inner"), 1);
        after_done(&a);
    }
    free(sub);
    free(inner);
    free(moved);
    disk_close(&fd);
    world_close(&w);
}

static void unnamed_files_are_gone(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    int fd = -1;
    assert_int_equal(disk_open(w.root, O_RDWR | O_TMPFILE, &fd), 0);
    write_at(fd, 0, 'x', 100);
    assert_int_equal(disk_sync(fd), 0);
    sync_root(&w);
    struct after a = crash(&w, 1, SIMDISK_KEEP_ALL);
    char *names = NULL;
    size_t bytes = 1;
    assert_int_equal(disk_system_ops()->list(a.folder, &names, &bytes), 0);
    assert_int_equal(bytes, 0);
    free(names);
    after_done(&a);
    disk_close(&fd);
    world_close(&w);
}

static void everything_fails_after_the_crash(void **state)
{
    (void)state;
    struct world w;
    char buf[8];
    struct stat st;
    world_open(&w);
    int fd = make_file(&w, "a", 0);
    write_at(fd, 0, 'x', 8);
    char *path = in_root(&w, "a"), *path2 = in_root(&w, "b");
    struct after a = crash(&w, 1, SIMDISK_RANDOM);
    assert_true(simdisk_dead(w.sim));
    int other = -1;
    assert_int_equal(disk_open(path, O_RDONLY, &other), DFS_EIO);
    assert_int_equal(disk_read(fd, buf, 8, 0, NULL), DFS_EIO);
    assert_int_equal(disk_read_cached(fd, buf, 8, 0), DFS_EIO);
    assert_int_equal(disk_write(fd, buf, 8, 0), DFS_EIO);
    assert_int_equal(disk_datasync(fd), DFS_EIO);
    assert_int_equal(disk_sync(fd), DFS_EIO);
    assert_int_equal(disk_truncate(fd, 0), DFS_EIO);
    assert_int_equal(disk_writeback_start(fd, 0, 8), DFS_EIO);
    assert_int_equal(disk_fstat(fd, &st), DFS_EIO);
    assert_int_equal(disk_stat(path, &st), DFS_EIO);
    assert_int_equal(disk_rename(path, path2), DFS_EIO);
    assert_int_equal(disk_unlink(path), DFS_EIO);
    assert_int_equal(disk_mkdir(path2), DFS_EIO);
    assert_int_equal(disk_sync_folder(w.root), DFS_EIO);
    disk_close(&fd);
    assert_int_equal(fd, -1);
    free(path);
    free(path2);
    after_done(&a);
    world_close(&w);
}

/* The power goes at each call in turn of a small careful program; what it acknowledged is there. */
static void power_cut_at_each_call(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        struct world w;
        world_open(&w);
        simdisk_crash_after(w.sim, n);
        char *path = in_root(&w, "state");
        int acked = 0;
        for (int v = 1; v <= 3; v++) {
            char text[2000];
            memset(text, '0' + v, sizeof text);
            if (disk_replace_file(path, text, sizeof text) != 0)
                break;
            acked = v;
        }
        bool cut = simdisk_dead(w.sim);
        for (uint64_t seed = 0; seed < 20; seed++) {
            char buf[4096];
            struct after a = crash(&w, seed, SIMDISK_RANDOM);
            long got = after_read(&a, "state", buf, sizeof buf);
            if (acked > 0)
                assert_true(got == 2000);
            if (got != -1) {
                assert_int_equal(got, 2000);
                assert_true(buf[0] >= '0' + acked && buf[0] <= '1' + acked);
                for (int i = 1; i < 2000; i++)
                    assert_int_equal(buf[i], buf[0]);
            }
            after_done(&a);
        }
        free(path);
        world_close(&w);
        if (!cut) {
            assert_true(n > 12);
            assert_int_equal(acked, 3);
            break;
        }
    }
}

/* The switches for breaking the disk on purpose do break it. */
static int lost_with_lies(unsigned lies)
{
    struct world w;
    world_open(&w);
    simdisk_lie(w.sim, lies);
    char *path = in_root(&w, "state");
    assert_int_equal(disk_replace_file(path, "hello", 5), 0);
    int fd = -1;
    assert_int_equal(disk_open(path, O_RDWR, &fd), 0);
    assert_int_equal(disk_write(fd, "world", 5, 5), 0);
    assert_int_equal(disk_datasync(fd), 0);
    disk_close(&fd);
    int lost = 0;
    for (uint64_t seed = 0; seed < 50; seed++) {
        char buf[64];
        struct after a = crash(&w, seed, SIMDISK_RANDOM);
        lost += after_read(&a, "state", buf, sizeof buf) != 10 || memcmp(buf, "helloworld", 10) != 0;
        after_done(&a);
    }
    free(path);
    world_close(&w);
    return lost;
}

static void lies_lose_data(void **state)
{
    (void)state;
    assert_int_equal(lost_with_lies(0), 0);
    assert_true(lost_with_lies(SIMDISK_LIE_FDATASYNC) > 0);
    assert_true(lost_with_lies(SIMDISK_LIE_FOLDER_FSYNC) > 0);
    assert_true(lost_with_lies(SIMDISK_LIE_FSYNC | SIMDISK_LIE_FDATASYNC) > 0);
}

/* After a failed sync a second one succeeds and proves nothing: what was written before the failure is gone, what came after
 * it is there. */
static void failed_sync_loses_for_good(void **state)
{
    (void)state;
    struct world w;
    char buf[64];
    world_open(&w);
    int fd = make_file(&w, "a", 0);
    sync_root(&w);
    write_at(fd, 0, 'x', 8);
    assert_int_equal(disk_datasync(fd), 0);
    simdisk_fail_sync(w.sim, 1);
    write_at(fd, 8, 'y', 8);
    assert_int_equal(disk_datasync(fd), DFS_EIO);
    write_at(fd, 16, 'z', 8);
    assert_int_equal(disk_datasync(fd), 0);
    assert_int_equal(disk_read(fd, buf, 24, 0, NULL), 0);
    assert_memory_equal(buf, "xxxxxxxxyyyyyyyyzzzzzzzz", 24);
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct after a = crash(&w, seed, SIMDISK_RANDOM);
        assert_int_equal(after_read(&a, "a", buf, sizeof buf), 24);
        assert_memory_equal(buf, "xxxxxxxx\0\0\0\0\0\0\0\0zzzzzzzz", 24);
        after_done(&a);
    }
    disk_close(&fd);
    world_close(&w);
}

static void same_seed_same_state(void **state)
{
    (void)state;
    char first[20000], second[20000];
    for (int run = 0; run < 2; run++) {
        struct world w;
        world_open(&w);
        int fd = make_file(&w, "a", 0);
        sync_root(&w);
        for (int i = 0; i < 20; i++)
            write_at(fd, (uint64_t)i * 700, 'a' + i, 900);
        struct after a = crash(&w, 4711, SIMDISK_RANDOM);
        long n = after_read(&a, "a", run == 0 ? first : second, sizeof first);
        assert_true(n >= 0);
        after_done(&a);
        disk_close(&fd);
        world_close(&w);
    }
    assert_memory_equal(first, second, sizeof first);
}

/* A crashed folder is a disk again, with what is there durable. */
static void life_goes_on_after_a_crash(void **state)
{
    (void)state;
    struct world w;
    char buf[64];
    world_open(&w);
    int fd = make_file(&w, "a", 0);
    sync_root(&w);
    write_at(fd, 0, 'x', 8);
    assert_int_equal(disk_sync(fd), 0);
    char *second_root = tmpdir_path(w.top, "second");
    simdisk_crash(w.sim, 7, SIMDISK_RANDOM, second_root);
    disk_close(&fd);

    struct simdisk *second = simdisk_new(second_root);
    simdisk_activate(second);
    char *path = tmpdir_path(second_root, "a");
    assert_int_equal(disk_open(path, O_RDWR, &fd), 0);
    write_at(fd, 4, 'y', 8);
    char *third_root = tmpdir_path(w.top, "third");
    simdisk_crash(second, 7, SIMDISK_DROP_ALL, third_root);
    struct after a = {third_root};
    assert_int_equal(after_read(&a, "a", buf, sizeof buf), 8);
    assert_memory_equal(buf, "xxxxxxxx", 8);
    disk_close(&fd);
    simdisk_free(second);
    free(path);
    free(second_root);
    free(third_root);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(synced_data_stays),
        cmocka_unit_test(unsynced_append_is_kept_dropped_or_torn),
        cmocka_unit_test(unsynced_overwrite_shows_old_or_new_by_sectors),
        cmocka_unit_test(drop_all_and_keep_all_are_exact),
        cmocka_unit_test(truncation_comes_before_what_follows),
        cmocka_unit_test(names_need_the_folder_synced),
        cmocka_unit_test(rename_is_atomic),
        cmocka_unit_test(removed_file_may_come_back_whole),
        cmocka_unit_test(folders_and_moves_between_them),
        cmocka_unit_test(unnamed_files_are_gone),
        cmocka_unit_test(everything_fails_after_the_crash),
        cmocka_unit_test(power_cut_at_each_call),
        cmocka_unit_test(lies_lose_data),
        cmocka_unit_test(failed_sync_loses_for_good),
        cmocka_unit_test(same_seed_same_state),
        cmocka_unit_test(life_goes_on_after_a_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
