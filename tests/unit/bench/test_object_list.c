/* Lists of runs: written, read back, cut off, damaged, locked. */
#include "tests/unit/bench/unit.h"

#include <sys/stat.h>
#include <unistd.h>

#include "bench/object_list.h"
#include "needle/err.h"

static char folder[64];

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/dfs-lists-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int teardown(void **state)
{
    (void)state;
    char path[128];
    snprintf(path, sizeof path, "%s/deep/r.fids", folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/deep", folder);
    rmdir(path);
    return rmdir(folder);
}

static void locate(struct object_list *l)
{
    char dir[96], error[LIST_FILE_ERROR_MAX];
    snprintf(dir, sizeof dir, "%s/deep", folder);
    object_list_init(l);
    assert_int_equal(object_list_locate(l, dir, "r", error), 0);
}

static void write_text(const char *path, const char *text, size_t n)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    fclose(f);
}

static void test_round_trip(void **state)
{
    struct object_list l, r, other;
    char error[LIST_FILE_ERROR_MAX];

    (void)state;
    locate(&l);
    assert_int_equal(object_list_create(&l, 4096, 77, error), 0);
    for (uint64_t i = 0; i < 1000; i++) {
        struct fid fid = {3, (uint32_t)(i * 7919), i + 1};
        assert_int_equal(object_list_add(&l, &fid), 0);
    }
    /* Under way: nobody else may read it or begin another of that name; ended: the name is still taken. */
    locate(&other);
    assert_int_equal(object_list_open(&other, false, error), DFS_EBUSY);
    object_list_release(&other);
    locate(&other);
    assert_int_equal(object_list_create(&other, 1, 1, error), DFS_EBUSY);
    object_list_release(&other);
    assert_int_equal(object_list_seal(&l), 0);
    object_list_release(&l);
    locate(&other);
    assert_int_equal(object_list_create(&other, 1, 1, error), DFS_EEXIST);
    object_list_release(&other);

    locate(&r);
    assert_int_equal(object_list_open(&r, false, error), 0);
    assert_int_equal(r.size_bytes, 4096);
    assert_int_equal(r.seed, 77);
    assert_int_equal(r.count, 1000);
    assert_int_equal(r.pid, getpid());
    assert_int_equal(r.ids.count, 1000);
    for (uint64_t i = 0; i < 1000; i++) {
        assert_int_equal(r.ids.fids[i].key, i + 1);
        assert_int_equal(r.ids.fids[i].cookie, (uint32_t)(i * 7919));
    }
    /* Read by two, deleted by neither meanwhile. */
    locate(&other);
    assert_int_equal(object_list_open(&other, false, error), 0);
    object_list_release(&other);
    locate(&other);
    assert_int_equal(object_list_open(&other, true, error), DFS_EBUSY);
    object_list_release(&other);
    assert_int_equal(object_list_unlink(&r), 0);
    object_list_release(&r);
    object_list_release(&r);
    locate(&r);
    assert_int_equal(object_list_open(&r, false, error), DFS_ENOTFOUND);
    object_list_release(&r);
}

/* Of a list that a kill left, each prefix: whole lines count, a part of one never does; of a sealed one, what is missing is said. */
static void test_every_prefix(void **state)
{
    static const char head[] = "# dfs objects: host=h pid=1 size=4096 count=%020d seed=5\n";
    char text[512], error[LIST_FILE_ERROR_MAX];
    struct object_list l;

    (void)state;
    for (int sealed = 0; sealed <= 1; sealed++) {
        size_t n = (size_t)snprintf(text, sizeof text, head, sealed ? 3 : 0), front = n;
        n += (size_t)snprintf(text + n, sizeof text - n, "3,01637037d6\n3,0263703711\n4,0a63703722\n");
        for (size_t cut = 0; cut <= n; cut++) {
            uint64_t lines = 0;
            for (size_t i = front; i < cut; i++)
                lines += text[i] == '\n';
            locate(&l);
            write_text(l.path, text, cut);
            int rc = object_list_open(&l, false, error);
            /* The head is whole without its newline. */
            if (cut + 1 < front)
                assert_int_equal(rc, DFS_EINVAL);
            else if (sealed && lines < 3)
                assert_int_equal(rc, DFS_EINVAL);
            else
                assert_int_equal(rc, 0);
            if (rc == 0)
                assert_int_equal(l.ids.count, lines);
            object_list_release(&l);
        }
    }
}

static void test_rubbish(void **state)
{
    static const char *const bad[] = {
        "",
        "no list\n",
        "# dfs benchmark: size=1024\n3,01637037d6\n",
        "# dfs objects: host=h pid=1 size=4096 count=0 seed=5 more\n",
        "# dfs objects: host=h pid=1 size=x count=0 seed=5\n",
        "# dfs objects: host=h pid=1 size=4096 count=0 seed=5\nno id\n3,01637037d6\n",
    };
    char error[LIST_FILE_ERROR_MAX];
    struct object_list l;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        locate(&l);
        write_text(l.path, bad[i], strlen(bad[i]));
        error[0] = '\0';
        if (object_list_open(&l, false, error) != DFS_EINVAL || error[0] == '\0')
            fail_msg("taken: '%s'", bad[i]);
        object_list_release(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_prefix, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rubbish, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
