/* The kernel tells the loss of a page once for each open file.  Whoever is told while a batch is at its own fdatasync, that batch must
 * not be acknowledged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cmocka.h>

#include "needle/err.h"
#include "net/clock.h"
#include "net/log.h"
#include "tests/support/engine.h"
#include "tests/support/fault.h"
#include "tests/support/tmpdir.h"
#include "volume/volume.h"

#define VOLUME 3u
#define LARGE_BYTES (1u << 20)
#define WAIT_MS 20000

static const struct fid precious = {VOLUME, 0x55, 1000};

struct fixture {
    char *dir, *data;
    struct store_options o;
    struct engine e;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    f->dir = tmpdir_new("told");
    f->data = malloc(LARGE_BYTES);
    engine_fill(f->data, LARGE_BYTES, 4);
    engine_options(&f->o, f->dir);
    fault_install(NULL);
    engine_open(&f->e, &f->o, 1);
    assert_int_equal(engine_allocate(&f->e, VOLUME), 0);
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
    free(f);
    return 0;
}

static void wait_for_held(uint32_t n)
{
    for (int i = 0; i < WAIT_MS && fault_held() < n; i++)
        clock_sleep_ms(1);
    assert_int_equal(fault_held(), n);
}

/* A put whose fdatasync is held and will say 0; `other` syncs meanwhile and is told EIO. */
static void acknowledges_nothing_when_another_is_told(struct fixture *f, void (*other)(struct fixture *f))
{
    struct engine_op op = {.engine = &f->e, .kind = ENGINE_PUT, .fid = precious, .data = "precious", .n = 8};
    struct volume_info info;
    struct volume *v = store_get(f->e.store, VOLUME);
    int told;

    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FDATASYNC), .path_has = ".dat", .first = 1,
                                   .delay_ms = FAULT_UNTIL_RELEASED});
    told = fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FDATASYNC), .path_has = ".dat", .first = 2, .err = EIO});
    engine_start(&f->e, 0, &op);
    wait_for_held(1);
    other(f);
    assert_int_equal(fault_hits(told), 1);
    fault_release();
    assert_int_equal(engine_wait(&op), DFS_EIO);
    engine_release(&op);
    fault_clear();
    volume_info_get(v, &info);
    volume_unref(v);
    assert_true((info.no_write & VOLUME_FLUSH_FAILED) != 0);
    assert_int_equal(engine_check(&f->e, precious, "precious", 8), DFS_ENOTFOUND);
    assert_int_not_equal(engine_put(&f->e, (struct fid){VOLUME, 0x55, 1001}, "x", 1), 0);
}

static void maintain(struct fixture *f)
{
    store_maintain(f->e.store);
}

static void the_sync_ahead_of_a_checkpoint_is_told(void **state)
{
    struct fixture *f = *state;

    for (uint64_t key = 1; key <= 66; key++) /* past what a checkpoint waits for */
        assert_int_equal(engine_put(&f->e, (struct fid){VOLUME, 0x55, key}, f->data, LARGE_BYTES), 0);
    acknowledges_nothing_when_another_is_told(f, maintain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_sync_ahead_of_a_checkpoint_is_told, setup, teardown),
    };

    log_threshold = LOG_ERROR + 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
