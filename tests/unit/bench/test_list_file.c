/* The list of ids: what is written is read back, by us and as others write it; what is no list is refused with a line. */
#include "tests/unit/bench/unit.h"

#include <pthread.h>
#include <unistd.h>

#include "bench/list_file.h"
#include "needle/err.h"
#include "tests/support/tmpdir.h"

static char *dir, *path;

static int setup(void **state)
{
    (void)state;
    dir = tmpdir_new("list");
    path = tmpdir_path(dir, "list.txt");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(path);
    tmpdir_free(dir);
    return 0;
}

static void put_file(const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int read_text(const char *text, struct list *l, char error[LIST_FILE_ERROR_MAX])
{
    put_file(text);
    list_init(l);
    error[0] = '\0';
    return list_read(l, path, error);
}

static void test_round_trip(void **state)
{
    (void)state;
    char error[LIST_FILE_ERROR_MAX];
    struct list_file f;
    struct list l;
    put_file("old lines\n");
    assert_int_equal(list_file_create(&f, path, 1024, error), 0);
    assert_int_equal(list_file_append(&f, BYTES_LIT("3,01637037d6\n")), 0);
    assert_int_equal(list_file_append(&f, BYTES_LIT("4,02aabbccdd\n5,03aabbccdd\n")), 0);
    /* On the file at once, before anyone closes it. */
    list_init(&l);
    assert_int_equal(list_read(&l, path, error), 0);
    assert_int_equal(l.count, 3);
    assert_false(l.foreign);
    assert_int_equal(l.size_bytes, 1024);
    assert_int_equal(l.fids[0].volume_id, 3);
    assert_int_equal(l.fids[0].key, 1);
    assert_int_equal(l.fids[0].cookie, 0x637037d6);
    assert_int_equal(l.fids[2].volume_id, 5);
    list_release(&l);
    list_file_close(&f);
    list_file_close(&f);
}

static void test_two_runs(void **state)
{
    (void)state;
    char error[LIST_FILE_ERROR_MAX];
    struct list_file a, b;
    struct list l;
    assert_int_equal(list_file_create(&a, path, 1, error), 0);
    assert_int_equal(list_file_append(&a, BYTES_LIT("3,01637037d6\n")), 0);
    assert_int_equal(list_file_create(&b, path, 1, error), DFS_EBUSY);
    assert_non_null(strstr(error, "another run is writing"));
    list_init(&l);
    assert_int_equal(list_read(&l, path, error), 0);
    assert_int_equal(l.count, 1); /* the first run's list is whole */
    list_release(&l);
    list_file_close(&a);
}

static void test_no_folder(void **state)
{
    (void)state;
    char error[LIST_FILE_ERROR_MAX] = "";
    char *missing = tmpdir_path(dir, "no/such/list");
    struct list_file f;
    struct list l;
    assert_int_equal(list_file_create(&f, missing, 1, error), DFS_ENOTFOUND);
    assert_non_null(strstr(error, "cannot write list"));
    assert_null(strchr(error, '\n'));
    list_init(&l);
    assert_int_equal(list_read(&l, missing, error), DFS_ENOTFOUND);
    free(missing);
}

static void test_foreign(void **state)
{
    (void)state;
    char error[LIST_FILE_ERROR_MAX];
    struct list l;
    assert_int_equal(read_text("3,01637037d6\r\n\n# a comment\n   \n  4,02aabbccdd \n5,03aabbccdd_2\n6,04aabbccdd", &l, error), 0);
    assert_true(l.foreign);
    assert_int_equal(l.count, 4);
    assert_int_equal(l.fids[2].key, 5);
    assert_int_equal(l.fids[3].volume_id, 6); /* by hand, without the last end of line */
    list_release(&l);
    assert_int_equal(read_text("", &l, error), 0);
    assert_int_equal(l.count, 0);
    list_release(&l);
    /* Not in front: an ordinary comment. */
    assert_int_equal(read_text("3,01637037d6\n# dfs benchmark: size=1024\n", &l, error), 0);
    assert_true(l.foreign);
    list_release(&l);
    assert_int_equal(read_text("# dfs benchmark: size=10x\n3,01637037d6\n", &l, error), 0);
    assert_true(l.foreign);
    list_release(&l);
}

static void test_torn(void **state)
{
    (void)state;
    char error[LIST_FILE_ERROR_MAX];
    struct list l;
    /* "4,02aabbccd" would be an id too, of another object. */
    assert_int_equal(read_text("# dfs benchmark: size=9\n3,01637037d6\n4,02aabbccd", &l, error), 0);
    assert_int_equal(l.count, 1);
    list_release(&l);
    assert_int_equal(read_text("3,01637037d6\n4,02a", &l, error), 0);
    assert_int_equal(l.count, 1);
    list_release(&l);
}

static void test_no_list(void **state)
{
    (void)state;
    char error[LIST_FILE_ERROR_MAX];
    struct list l;
    assert_int_equal(read_text("3,01637037d6\nhello\n4,02aabbccdd\n", &l, error), DFS_EINVAL);
    assert_non_null(strstr(error, "line 2 of list"));
    assert_non_null(strstr(error, "'hello'"));
    list_release(&l);
    static char huge[10000];
    memset(huge, 'a', sizeof huge - 1);
    assert_int_equal(read_text(huge, &l, error), DFS_EINVAL);
    list_release(&l);
    assert_int_equal(read_text("0,01637037d6\n", &l, error), DFS_EINVAL);
    list_release(&l);
}

struct writer {
    struct list_file *f;
    uint32_t volume;
};

static void *write_many(void *arg)
{
    struct writer *w = arg;
    for (int i = 0; i < 500; i++) {
        char lines[128];
        int n = snprintf(lines, sizeof lines, "%u,01637037d6\n%u,02637037d6\n", w->volume, w->volume);
        if (list_file_append(w->f, bytes_of(lines, (size_t)n)) != 0)
            return w;
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    char error[LIST_FILE_ERROR_MAX];
    struct list_file f;
    struct list l;
    pthread_t threads[4];
    struct writer w[4];
    assert_int_equal(list_file_create(&f, path, 1, error), 0);
    for (uint32_t i = 0; i < 4; i++) {
        w[i] = (struct writer){&f, i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, &w[i]), 0);
    }
    for (uint32_t i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    list_init(&l);
    assert_int_equal(list_read(&l, path, error), 0);
    assert_int_equal(l.count, 4000);
    list_release(&l);
    list_file_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(test_two_runs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_folder, setup, teardown),
        cmocka_unit_test_setup_teardown(test_foreign, setup, teardown),
        cmocka_unit_test_setup_teardown(test_torn, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_list, setup, teardown),
        cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
