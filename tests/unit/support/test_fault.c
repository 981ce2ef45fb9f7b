/* The fault counter does what its rules say: which call, how often, how much of it, how long. */
#include "tests/support/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "needle/err.h"
#include "net/clock.h"
#include "tests/support/tmpdir.h"

static char *dir;
static int fd_a, fd_b;

static int open_in(const char *name)
{
    char *path = tmpdir_path(dir, name);
    int fd = -1;
    assert_int_equal(disk_open(path, O_RDWR | O_CREAT, &fd), 0);
    free(path);
    return fd;
}

static int setup(void **state)
{
    (void)state;
    dir = tmpdir_new("fault");
    fault_install(NULL);
    fd_a = open_in("a.dat");
    fd_b = open_in("b.idx");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    disk_close(&fd_a);
    disk_close(&fd_b);
    fault_remove();
    tmpdir_free(dir);
    return 0;
}

/* One letter for each of n syncs of a file. */
static const char *syncs(int fd, int n)
{
    static char text[32];
    for (int i = 0; i < n; i++)
        text[i] = disk_datasync(fd) == 0 ? '.' : 'x';
    text[n] = '\0';
    return text;
}

static void rules_say_which_calls(void **state)
{
    (void)state;
    int id = fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FDATASYNC), .first = 3, .err = EIO});
    assert_string_equal(syncs(fd_a, 6), "..x...");
    assert_int_equal(fault_hits(id), 1);
    fault_clear();
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FDATASYNC), .err = EIO});
    assert_string_equal(syncs(fd_a, 3), "x..");
    fault_clear();
    id = fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FDATASYNC), .first = 2, .every = 1, .err = EIO});
    assert_string_equal(syncs(fd_a, 5), ".xxxx");
    assert_int_equal(fault_hits(id), 4);
    fault_clear();
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FDATASYNC), .first = 2, .every = 3, .err = ENOSPC});
    assert_string_equal(syncs(fd_a, 9), ".x..x..x.");
    assert_int_equal(fault_count(FAULT_FDATASYNC), 23);
    assert_int_equal(fault_count(FAULT_FSYNC), 0);
    assert_int_equal(disk_sync(fd_a), 0); /* another kind */
}

static void rules_may_name_files(void **state)
{
    (void)state;
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FDATASYNC), .path_has = ".idx", .first = 2, .every = 1, .err = EIO});
    assert_string_equal(syncs(fd_a, 3), "...");
    assert_string_equal(syncs(fd_b, 3), ".xx");
    fault_clear();
    char *a = tmpdir_path(dir, "a.dat"), *c = tmpdir_path(dir, "c.dat");
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_RENAME), .path_has = "c.dat", .every = 1, .err = EIO});
    assert_int_equal(disk_rename(a, c), DFS_EIO); /* either name counts */
    fault_clear();
    assert_int_equal(disk_rename(a, c), 0);
    free(a);
    free(c);
}

static void writes_and_reads_tear(void **state)
{
    (void)state;
    char buf[16];
    struct iovec iov[] = {{(char[]){'a', 'b', 'c'}, 3}, {(char[]){'d', 'e', 'f'}, 3}};
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_WRITE), .tear = true, .tear_bytes = 4, .err = EIO});
    assert_int_equal(fault_ops()->pwritev(fd_a, iov, 2, 0), -1);
    assert_int_equal(errno, EIO);
    assert_int_equal(disk_read(fd_a, buf, 6, 0, NULL), DFS_ESHORT);
    assert_memory_equal(buf, "abcd", 4);
    fault_clear();
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_WRITE), .tear = true, .tear_bytes = 5});
    assert_int_equal(fault_ops()->pwritev(fd_a, iov, 2, 0), 5);
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_READ), .tear = true, .tear_bytes = 2});
    struct iovec in = {buf, 5};
    assert_int_equal(fault_ops()->preadv2(fd_a, &in, 1, 0, 0), 2);
    assert_int_equal(fault_ops()->preadv2(fd_a, &in, 1, 0, 0), 5);
}

static void *sync_thread(void *arg)
{
    return disk_datasync(*(int *)arg) == 0 ? arg : NULL;
}

static void calls_can_be_held(void **state)
{
    (void)state;
    pthread_t thread[2];
    void *result;
    int id = fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FDATASYNC), .every = 1, .delay_ms = FAULT_UNTIL_RELEASED});
    assert_int_equal(pthread_create(&thread[0], NULL, sync_thread, &fd_a), 0);
    assert_int_equal(pthread_create(&thread[1], NULL, sync_thread, &fd_b), 0);
    while (fault_held() < 2)
        clock_sleep_ms(1);
    assert_int_equal(fault_hits(id), 2);
    assert_int_equal(disk_sync(fd_a), 0); /* others go on */
    fault_release();
    for (int i = 0; i < 2; i++) {
        pthread_join(thread[i], &result);
        assert_non_null(result);
    }
    assert_int_equal(fault_held(), 0);
    assert_string_equal(syncs(fd_a, 2), ".."); /* released is released */

    fault_clear();
    uint64_t before = clock_mono_ms();
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FDATASYNC), .delay_ms = 30, .err = EIO});
    assert_string_equal(syncs(fd_a, 2), "x.");
    assert_true(clock_mono_ms() - before >= 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rules_say_which_calls, setup, teardown),
        cmocka_unit_test_setup_teardown(rules_may_name_files, setup, teardown),
        cmocka_unit_test_setup_teardown(writes_and_reads_tear, setup, teardown),
        cmocka_unit_test_setup_teardown(calls_can_be_held, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
