/* For each operation its 1st, 2nd, 3rd ... file call fails, until none does, and each time the promises are looked at:
 *
 *   - what was answered with success is there, now and after a restart; what was refused is not, and the former content is;
 *   - numbers are those of what is there;
 *   - the next write succeeds, or the volume says that it takes none. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/log.h"
#include "net/rand.h"
#include "tests/support/engine.h"
#include "tests/support/fault.h"
#include "tests/support/tmpdir.h"
#include "volume/volume.h"

#define VOLUME 3u
#define LARGE 1500000u
#define CALLS_MAX 100

/* Reads and writes, and what surrounds them; not the look at free space, which goes on by itself. */
#define CALLS (FAULT_ANY & ~(FAULT(FAULT_STATVFS) | FAULT(FAULT_STAT) | FAULT(FAULT_CALLS)))

enum kind { PUT_NEW, PUT_OVER, PUT_SAME, PUT_LARGE, DELETE, KINDS };
static const char *const kind_names[] = {"put", "overwrite", "same again", "large put", "delete"};

struct fixture {
    char *dir, *data;
    struct store_options o;
    struct engine e;
};

static struct fid fid_of(uint64_t key)
{
    return (struct fid){VOLUME, 0x55, key};
}

static void open_store(struct fixture *f)
{
    engine_open(&f->e, &f->o, 1);
}

static struct volume_info info(struct fixture *f)
{
    struct volume *v = store_get(f->e.store, VOLUME);
    struct volume_info i;

    assert_non_null(v);
    volume_info_get(v, &i);
    volume_unref(v);
    return i;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    f->dir = tmpdir_new("fault");
    f->data = malloc(LARGE + 1000);
    engine_fill(f->data, LARGE + 1000, 21);
    engine_options(&f->o, f->dir);
    f->o.stage_bytes = 512u << 10; /* the large one goes through a file */
    fault_install(NULL);
    open_store(f);
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
    free(f->data);
    free(f);
    return 0;
}

/* What key 1 holds. */
struct content {
    const char *p;
    size_t n; /* SIZE_MAX: nothing */
};

static int look(struct fixture *f, struct content c)
{
    int rc = engine_check(&f->e, fid_of(1), c.p, c.n == SIZE_MAX ? 0 : c.n);

    return c.n == SIZE_MAX && rc == DFS_ENOTFOUND ? 0 : rc;
}

static void before_and_after(struct fixture *f, enum kind kind, struct content *before, struct content *after)
{
    *before = (struct content){f->data, kind == PUT_NEW || kind == PUT_LARGE ? SIZE_MAX : 300};
    *after = (struct content){f->data + 7, 500};
    if (kind == PUT_SAME)
        *after = *before;
    if (kind == PUT_LARGE)
        after->n = LARGE;
    if (kind == DELETE)
        after->n = SIZE_MAX;
}

static void prepare(struct fixture *f, struct content before)
{
    int rc = engine_delete(&f->e, fid_of(1));

    assert_true(rc == 0 || rc == DFS_ENOTFOUND);
    if (before.n != SIZE_MAX)
        assert_int_equal(engine_put(&f->e, fid_of(1), before.p, before.n), 0);
}

static int operate(struct fixture *f, enum kind kind, struct content after)
{
    return kind == DELETE ? engine_delete(&f->e, fid_of(1)) : engine_put(&f->e, fid_of(1), after.p, after.n);
}

static unsigned lives(struct fixture *f, uint64_t key)
{
    char *got = NULL;
    size_t n;
    int rc = engine_get(&f->e, fid_of(key), &got, &n);

    free(got);
    return rc == 0;
}

/* One operation with its n-th call failing; false when it had no n-th call. */
static bool one(struct fixture *f, enum kind kind, uint64_t n, int err, bool tear)
{
    struct content before, after;
    struct volume_info was, is;
    bool hit;
    int id, rc, next;

    before_and_after(f, kind, &before, &after);
    prepare(f, before);
    was = info(f);
    id = fault_add(&(struct fault_rule){.calls = CALLS, .first = n, .err = err, .tear = tear, .tear_bytes = 24});
    rc = operate(f, kind, after);
    hit = fault_hits(id) > 0;
    fault_clear();

    assert_int_equal(look(f, rc == 0 ? after : before), 0);
    is = info(f);
    if (rc != 0) {
        assert_int_equal(is.file_count, was.file_count);
        assert_int_equal(is.delete_count, was.delete_count);
        assert_int_equal(is.live_count, was.live_count);
        assert_int_equal(is.dat_bytes, was.dat_bytes);
    }
    next = engine_put(&f->e, fid_of(2), f->data + n, 100);
    assert_int_equal(next == 0, is.no_write == 0);

    engine_close(&f->e);
    open_store(f);
    is = info(f);
    assert_int_equal(is.no_write, 0);
    assert_int_equal(look(f, rc == 0 ? after : before), 0);
    if (next == 0)
        assert_int_equal(engine_check(&f->e, fid_of(2), f->data + n, 100), 0);
    assert_int_equal(is.live_count, lives(f, 1) + lives(f, 2));
    return hit;
}

static void each_call_may_fail(void **state)
{
    static const int errs[] = {EIO, ENOSPC};
    struct fixture *f = *state;

    for (int kind = 0; kind < KINDS; kind++)
        for (size_t i = 0; i < ARRAY_LEN(errs) * 2; i++) {
            uint64_t n = 1;
            while (one(f, (enum kind)kind, n, errs[i % 2], i >= 2)) {
                n++;
                assert_true(n < CALLS_MAX);
            }
            print_message("%s: %llu calls failed with %s%s\n", kind_names[kind], (unsigned long long)n - 1, strerror(errs[i % 2]),
                          i >= 2 ? ", torn" : "");
        }
}

/* A disk that does not come back: every call fails from the n-th on.  Nothing hangs, nothing that was refused is there. */
static void the_disk_goes_for_good(void **state)
{
    struct fixture *f = *state;

    for (uint64_t n = 1; n < 12; n++) {
        struct content before, after;
        int rc;

        before_and_after(f, PUT_OVER, &before, &after);
        prepare(f, before);
        fault_add(&(struct fault_rule){.calls = CALLS, .first = n, .every = 1, .err = EIO});
        rc = operate(f, PUT_OVER, after);
        (void)engine_put(&f->e, fid_of(3), f->data, 1000);
        engine_close(&f->e);
        fault_clear();
        open_store(f);
        /* It could not be cut, so what was refused may be found at the next start; what was promised must be. */
        if (rc == 0)
            assert_int_equal(look(f, after), 0);
        else
            assert_true(look(f, before) == 0 || look(f, after) == 0);
        assert_int_equal(info(f).no_write, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_call_may_fail, setup, teardown),
        cmocka_unit_test_setup_teardown(the_disk_goes_for_good, setup, teardown),
    };

    log_threshold = getenv("DFS_TEST_LOG") != NULL ? LOG_INFO : LOG_ERROR + 1;
    if (rand_init() != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
