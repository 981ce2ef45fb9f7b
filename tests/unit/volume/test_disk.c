/* The disk door: whole reads and writes over calls that do less than asked, codes, and small files that are old or new. */
#include "volume/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "needle/check.h"
#include "needle/err.h"
#include "tests/support/fault.h"
#include "tests/support/tmpdir.h"

static char *dir;

static int setup(void **state)
{
    (void)state;
    dir = tmpdir_new("disk");
    fault_install(NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fault_remove();
    tmpdir_free(dir);
    return 0;
}

static int open_in(const char *name, int flags)
{
    char *path = tmpdir_path(dir, name);
    int fd = -1;
    assert_int_equal(disk_open(path, flags, &fd), 0);
    free(path);
    return fd;
}

static void open_says_what_is_wrong_and_leaves_fd(void **state)
{
    (void)state;
    char *path = tmpdir_path(dir, "a");
    int fd = 1234;
    assert_int_equal(disk_open(path, O_RDONLY, &fd), DFS_ENOTFOUND);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(fd, 1234);
    assert_int_equal(disk_open(path, O_RDWR | O_CREAT | O_EXCL, &fd), 0);
    struct stat st;
    assert_int_equal(disk_fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 0777 & ~0640, 0);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    disk_close(&fd);
    assert_int_equal(fd, -1);
    disk_close(&fd);
    assert_int_equal(disk_open(path, O_RDWR | O_CREAT | O_EXCL, &fd), DFS_EEXIST);
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_OPEN), .err = EINTR});
    assert_int_equal(disk_open(path, O_RDWR, &fd), 0);
    disk_close(&fd);
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_OPEN), .err = EMFILE});
    assert_int_equal(disk_open(path, O_RDWR, &fd), DFS_ENOFILES);
    assert_int_equal(errno, EMFILE);
    free(path);
}

static void reads_and_writes_are_finished(void **state)
{
    (void)state;
    char out[10000], in[10000];
    for (size_t i = 0; i < sizeof out; i++)
        out[i] = (char)(i * 7 + i / 256);
    int fd = open_in("a", O_RDWR | O_CREAT);
    /* Every call does 999 bytes, and every third is interrupted. */
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_WRITE) | FAULT(FAULT_READ), .first = 3, .every = 3, .err = EINTR});
    fault_add(&(struct fault_rule){
        .calls = FAULT(FAULT_WRITE) | FAULT(FAULT_READ), .every = 1, .tear = true, .tear_bytes = 999});
    struct iovec iov[] = {{out, 1}, {NULL, 0}, {out + 1, 4999}, {out + 5000, 5000}, {NULL, 0}};
    assert_int_equal(disk_writev(fd, iov, ARRAY_LEN(iov), 5), 0);
    assert_true(fault_count(FAULT_WRITE) >= 11);
    size_t got = 0;
    assert_int_equal(disk_read(fd, in, sizeof in, 5, &got), 0);
    assert_int_equal(got, sizeof in);
    assert_memory_equal(in, out, sizeof in);
    fault_clear();

    /* The end of the file. */
    assert_int_equal(disk_read(fd, in, 100, 10000, &got), DFS_ESHORT);
    assert_int_equal(got, 5);
    assert_memory_equal(in, out + 9995, 5);
    assert_int_equal(disk_read(fd, in, 1, 999999, &got), DFS_ESHORT);
    assert_int_equal(got, 0);
    assert_int_equal(disk_read(fd, in, 1, 999999, NULL), DFS_ESHORT);
    assert_int_equal(disk_read(fd, in, 0, 0, &got), 0);
    uint64_t size = 0;
    assert_int_equal(disk_size(fd, &size), 0);
    assert_int_equal(size, 10005);

    /* An error after a part, no progress without a cause. */
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_READ), .tear = true, .tear_bytes = 10});
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_READ), .first = 2, .err = EIO});
    assert_int_equal(disk_read(fd, in, 100, 0, &got), DFS_EIO);
    assert_int_equal(errno, EIO);
    assert_int_equal(got, 10);
    fault_clear();
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_WRITE), .tear = true, .tear_bytes = 0});
    assert_int_equal(disk_write(fd, out, 100, 0), DFS_EIO);
    assert_int_equal(errno, EIO);
    fault_clear();
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_WRITE), .err = ENOSPC, .tear = true, .tear_bytes = 50});
    assert_int_equal(disk_write(fd, out, 100, 20000), DFS_ENOSPC);
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(disk_size(fd, &size), 0);
    assert_int_equal(size, 20050); /* the torn part is there: the caller cuts it */
    disk_close(&fd);
}

static void any_number_of_pieces_is_written(void **state)
{
    (void)state;
    enum { PIECES = 3 * IOV_MAX + 7 };
    struct iovec *iov = calloc(PIECES, sizeof *iov);
    char *out = malloc(PIECES * 3), *in = malloc(PIECES * 3);
    for (size_t i = 0; i < PIECES; i++) {
        memcpy(out + 3 * i, (char[]){(char)i, (char)(i >> 8), 'x'}, 3);
        iov[i] = (struct iovec){out + 3 * i, 3};
    }
    int fd = open_in("a", O_RDWR | O_CREAT);
    assert_int_equal(disk_writev(fd, iov, PIECES, 0), 0);
    assert_int_equal(disk_read(fd, in, PIECES * 3, 0, NULL), 0);
    assert_memory_equal(in, out, PIECES * 3);
    disk_close(&fd);
    free(iov);
    free(out);
    free(in);
}

static void cached_reads_never_wait(void **state)
{
    (void)state;
    static char buf[64 * 1024];
    struct disk_residency *r = NULL;
    int fd = open_in("a", O_RDWR | O_CREAT);
    memset(buf, 'x', sizeof buf);
    assert_int_equal(disk_write(fd, buf, sizeof buf, 0), 0);
    assert_int_equal(disk_residency_new(fd, &r), 0);
    assert_true(disk_resident(r, 0, sizeof buf));
    assert_true(disk_resident(r, 5000, 0));
    assert_false(disk_resident(r, sizeof buf, 1));
    assert_false(disk_resident(r, sizeof buf - 1, 8192));
    assert_false(disk_resident(r, (uint64_t)1 << 40, 1));
    assert_false(disk_resident(r, (uint64_t)1 << 50, 1));
    assert_false(disk_resident(r, UINT64_MAX, 10));
    int rc = disk_read_cached(fd, buf, sizeof buf, 0);
    assert_true(rc == 0 || rc == DFS_EAGAIN); /* some file systems cannot */
    assert_int_equal(disk_read_cached(fd, buf, 100, sizeof buf - 50), DFS_EAGAIN);

    /* The file grows beyond what was there when the residency was made. */
    assert_int_equal(disk_write(fd, buf, 4096, 1 << 20), 0);
    assert_true(disk_resident(r, 1 << 20, 4096));
    assert_false(disk_resident(r, 0, (1 << 20) + 4096)); /* a hole */

    assert_int_equal(disk_datasync(fd), 0);
    disk_drop_cache(fd, 0, sizeof buf);
    rc = disk_read_cached(fd, buf, sizeof buf, 0); /* the kernel may begin to read, and a fast disk be done by then */
    assert_true(rc == 0 || rc == DFS_EAGAIN);

    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_MINCORE), .err = ENOMEM});
    assert_false(disk_resident(r, 1 << 20, 4096));
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_READ), .err = EIO});
    assert_int_equal(disk_read_cached(fd, buf, 10, 0), DFS_EIO);
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_READ), .err = EOPNOTSUPP});
    assert_int_equal(disk_read_cached(fd, buf, 10, 0), DFS_EAGAIN);
    disk_residency_free(r);
    disk_residency_free(NULL);

    assert_int_equal(disk_residency_new(fd, &r), 0);
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_MAP), .err = ENOMEM});
    assert_false(disk_resident(r, 1 << 20, 4096));
    assert_true(disk_resident(r, 1 << 20, 4096)); /* and tries again */
    disk_residency_free(r);
    disk_close(&fd);
}

/* ThreadSanitizer leaves no room in the address space for terabytes. */
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define FARTHEST ((uint64_t)1 << 33)
#else
#define FARTHEST ((uint64_t)1 << 42)
#endif

/* Across the places where one mapping ends and the next one begins. */
static void residency_of_far_places(void **state)
{
    (void)state;
    static const uint64_t borders[] = {(uint64_t)1 << 32, (uint64_t)1 << 33, (uint64_t)1 << 35, (uint64_t)1 << 42};
    struct disk_residency *r = NULL;
    char buf[16384];
    memset(buf, 'x', sizeof buf);
    int fd = open_in("sparse", O_RDWR | O_CREAT);
    assert_int_equal(disk_residency_new(fd, &r), 0);
    for (size_t i = 0; i < ARRAY_LEN(borders) && borders[i] <= FARTHEST; i++) {
        if (disk_write(fd, buf, sizeof buf, borders[i] - 8192) != 0)
            break; /* this file system ends earlier */
        assert_true(disk_resident(r, borders[i] - 8192, 16384));
        assert_true(disk_resident(r, borders[i] - 1, 2));
        assert_false(disk_resident(r, borders[i] - 8193, 2));
        assert_false(disk_resident(r, borders[i] + 8191, 2));
    }
    disk_residency_free(r);
    disk_close(&fd);
}

static void flushes_fail_once_and_are_not_repeated(void **state)
{
    (void)state;
    int fd = open_in("a", O_RDWR | O_CREAT);
    assert_int_equal(disk_write(fd, "hello", 5, 0), 0);
    static const int errors[] = {EIO, ENOSPC, EINTR};
    for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
        uint64_t before = fault_count(FAULT_FDATASYNC) + fault_count(FAULT_FSYNC);
        fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FDATASYNC), .err = errors[i]});
        assert_int_equal(disk_datasync(fd), dfs_err_from_errno(errors[i]));
        assert_int_equal(errno, errors[i]);
        fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FSYNC), .err = errors[i]});
        assert_int_equal(disk_sync(fd), dfs_err_from_errno(errors[i]));
        assert_int_equal(fault_count(FAULT_FDATASYNC) + fault_count(FAULT_FSYNC), before + 2);
    }
    fault_clear();
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_SYNC_FILE_RANGE), .first = 1, .every = 1, .err = EIO});
    assert_int_equal(disk_writeback_start(fd, 0, 5), DFS_EIO);
    assert_int_equal(disk_writeback_wait(fd, 0, 5), DFS_EIO);
    assert_int_equal(disk_writeback_wait(fd, 0, 0), 0);
    fault_clear();
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_SYNC_FILE_RANGE), .every = 1, .err = ENOSYS});
    assert_int_equal(disk_writeback_start(fd, 0, 5), 0);
    fault_clear();
    assert_int_equal(disk_writeback_wait(fd, 0, 5), 0);
    assert_int_equal(disk_datasync(fd), 0);
    disk_close(&fd);
}

static void preallocation_keeps_the_size(void **state)
{
    (void)state;
    uint64_t size = 1;
    struct stat st;
    int fd = open_in("a", O_RDWR | O_CREAT);
    int rc = disk_preallocate(fd, 0, 1 << 20);
    assert_true(rc == 0 || rc == DFS_EUNSUPPORTED);
    assert_int_equal(disk_size(fd, &size), 0);
    assert_int_equal(size, 0);
    assert_int_equal(disk_fstat(fd, &st), 0);
    if (rc == 0)
        assert_true(st.st_blocks * 512 >= 1 << 20);
    assert_int_equal(disk_truncate(fd, 10), 0);
    assert_int_equal(disk_size(fd, &size), 0);
    assert_int_equal(size, 10);
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FALLOCATE), .err = EOPNOTSUPP});
    assert_int_equal(disk_preallocate(fd, 0, 10), DFS_EUNSUPPORTED);
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FALLOCATE), .err = ENOSPC});
    assert_int_equal(disk_preallocate(fd, 0, 10), DFS_ENOSPC);
    assert_int_equal(disk_preallocate(fd, 0, 0), 0);
    disk_close(&fd);

    struct disk_space space = {0};
    assert_int_equal(disk_space(dir, &space), 0);
    assert_true(space.total_bytes >= space.free_bytes && space.free_bytes > 0 && space.files_free > 0);
    assert_int_equal(disk_space("/nowhere/at/all", &space), DFS_ENOTFOUND);
}

static void names(void **state)
{
    (void)state;
    char *a = tmpdir_path(dir, "a"), *b = tmpdir_path(dir, "b"), *sub = tmpdir_path(dir, "sub");
    struct stat st = {.st_size = 77};
    assert_int_equal(disk_stat(a, &st), DFS_ENOTFOUND);
    assert_int_equal(st.st_size, 77);
    int fd = open_in("a", O_RDWR | O_CREAT);
    disk_close(&fd);
    assert_int_equal(disk_link(a, b), 0);
    assert_int_equal(disk_link(a, b), DFS_EEXIST);
    assert_int_equal(disk_unlink(a), 0);
    assert_int_equal(disk_unlink(a), 0); /* a missing file is fine */
    assert_int_equal(disk_rename(b, a), 0);
    assert_int_equal(disk_rename(b, a), DFS_ENOTFOUND);
    assert_int_equal(disk_mkdir(sub), 0);
    assert_int_equal(disk_mkdir(sub), 0);
    assert_int_equal(disk_mkdir(a), DFS_EEXIST); /* a file of that name is not */
    assert_int_equal(disk_rmdir(dir), DFS_EEXIST); /* not empty */
    assert_int_equal(disk_rmdir(sub), 0);
    assert_int_equal(disk_sync_folder(dir), 0);
    assert_int_equal(disk_sync_folder(sub), DFS_ENOTFOUND);
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FSYNC), .err = EINVAL});
    assert_int_equal(disk_sync_folder(dir), 0); /* a file system without such a call */
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FSYNC), .err = EIO});
    assert_int_equal(disk_sync_folder(dir), DFS_EIO);
    assert_int_equal(errno, EIO);
    free(a);
    free(b);
    free(sub);
}

static int collect(const char *name, void *arg)
{
    char *text = arg;
    strcat(strcat(text, name), ",");
    return strcmp(name, "stop") == 0 ? 9 : 0;
}

static void listing_is_complete_and_sorted(void **state)
{
    (void)state;
    char text[400] = "";
    assert_int_equal(disk_list(dir, collect, text), 0);
    assert_string_equal(text, "");
    static const char *const made[] = {"zz", "7.dat", "10.dat", "stop", ".hidden"};
    for (size_t i = 0; i < ARRAY_LEN(made); i++) {
        int fd = open_in(made[i], O_RDWR | O_CREAT);
        disk_close(&fd);
    }
    assert_int_equal(disk_list(dir, collect, text), 9);
    assert_string_equal(text, ".hidden,10.dat,7.dat,stop,");
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_LIST), .err = EIO});
    assert_int_equal(disk_list(dir, collect, text), DFS_EIO);
    assert_int_equal(disk_list("/nowhere", collect, text), DFS_ENOTFOUND);
}

static void one_holds_the_lock(void **state)
{
    (void)state;
    char *path = tmpdir_path(dir, "lock");
    int first = -1, second = -1;
    assert_int_equal(disk_lock(path, &first), 0);
    assert_int_equal(disk_lock(path, &second), DFS_EBUSY);
    assert_int_equal(second, -1);
    disk_close(&first);
    assert_int_equal(disk_lock(path, &second), 0);
    disk_close(&second);
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FLOCK), .err = ENOLCK});
    assert_int_equal(disk_lock(path, &second), DFS_EIO);
    free(path);
}

static void small_files_are_read_whole(void **state)
{
    (void)state;
    char *path = tmpdir_path(dir, "a"), *buf = NULL;
    size_t n = 0;
    assert_int_equal(disk_read_file(path, 100, &buf, &n), DFS_ENOTFOUND);
    assert_int_equal(disk_replace_file(path, "", 0), 0);
    assert_int_equal(disk_read_file(path, 0, &buf, &n), 0);
    assert_int_equal(n, 0);
    assert_string_equal(buf, "");
    free(buf);
    assert_int_equal(disk_replace_file(path, "hello", 5), 0);
    assert_int_equal(disk_read_file(path, 5, &buf, &n), 0);
    assert_int_equal(n, 5);
    assert_string_equal(buf, "hello");
    free(buf);
    buf = NULL;
    assert_int_equal(disk_read_file(path, 4, &buf, &n), DFS_ETOOBIG);
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_READ), .err = EIO});
    assert_int_equal(disk_read_file(path, 5, &buf, &n), DFS_EIO);
    assert_null(buf);
    free(path);
}

/* Each call of a replacement fails in turn: the file is the old or the new one, an error was told, nothing is left over. */
static void replacing_survives_any_failing_call(void **state)
{
    (void)state;
    char *path = tmpdir_path(dir, "state"), *tmp = tmpdir_path(dir, "state.tmp");
    unsigned failures = 0;
    for (uint64_t n = 1;; n++) {
        char *buf = NULL;
        size_t bytes = 0;
        struct stat st;
        fault_clear();
        assert_int_equal(disk_replace_file(path, "old", 3), 0);
        int rule = fault_add(&(struct fault_rule){.calls = FAULT_ANY, .first = n, .err = EIO});
        int rc = disk_replace_file(path, "brand new", 9);
        int cause = errno;
        bool struck = fault_hits(rule) == 1;
        fault_clear();
        assert_int_equal(disk_read_file(path, 100, &buf, &bytes), 0);
        bool is_new = bytes == 9 && strcmp(buf, "brand new") == 0;
        assert_true(is_new || (bytes == 3 && strcmp(buf, "old") == 0));
        free(buf);
        if (rc == 0)
            assert_true(is_new);
        else
            assert_true(rc == DFS_EIO && cause == EIO);
        assert_int_equal(disk_stat(tmp, &st), DFS_ENOTFOUND);
        failures += rc != 0;
        if (!struck)
            break;
    }
    assert_true(failures >= 6);
    assert_int_equal(disk_replace_file("/nowhere/state", "x", 1), DFS_ENOTFOUND);
    free(path);
    free(tmp);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(open_says_what_is_wrong_and_leaves_fd),
        TEST(reads_and_writes_are_finished),
        TEST(any_number_of_pieces_is_written),
        TEST(cached_reads_never_wait),
        TEST(residency_of_far_places),
        TEST(flushes_fail_once_and_are_not_repeated),
        TEST(preallocation_keeps_the_size),
        TEST(names),
        TEST(listing_is_complete_and_sorted),
        TEST(one_holds_the_lock),
        TEST(small_files_are_read_whole),
        TEST(replacing_survives_any_failing_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
