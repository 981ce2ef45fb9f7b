/* Which large records are known, for how long, and what a sweep asks about. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/fault.h"
#include "tests/support/tmpdir.h"
#include "volume/known_records.h"

#define BLOCK ((uint64_t)KNOWN_BLOCK_BYTES)
#define FILE_BLOCKS 40u
#define ALL UINT64_MAX

struct fixture {
    char *dir;
    int fd;
    struct disk_residency *residency;
    struct known_records known;
    uint64_t at;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    char *path, *block = calloc(1, KNOWN_BLOCK_BYTES);

    fault_install(NULL);
    f->dir = tmpdir_new("known");
    path = tmpdir_path(f->dir, "1.dat");
    assert_int_equal(disk_open(path, O_RDWR | O_CREAT, &f->fd), 0);
    for (uint64_t i = 0; i < FILE_BLOCKS; i++)
        assert_int_equal(disk_write(f->fd, block, KNOWN_BLOCK_BYTES, i * BLOCK), 0);
    assert_int_equal(disk_residency_new(f->fd, &f->residency), 0);
    assert_int_equal(known_records_init(&f->known, 64 * BLOCK), 0);
    free(path);
    free(block);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    known_records_release(&f->known);
    disk_residency_free(f->residency);
    disk_close(&f->fd);
    fault_remove();
    tmpdir_free(f->dir);
    free(f);
    return 0;
}

static uint64_t sweep(struct fixture *f, uint64_t budget)
{
    return known_records_sweep(&f->known, f->residency, FILE_BLOCKS * BLOCK, &f->at, budget);
}

static void a_record_is_known_by_the_block_it_starts_in(void **state)
{
    struct fixture *f = *state;

    assert_false(known_records_has(&f->known, 5 * BLOCK));
    known_records_add(&f->known, 5 * BLOCK + 8, BLOCK + 100);
    assert_true(known_records_has(&f->known, 5 * BLOCK + 8));
    assert_false(known_records_has(&f->known, 6 * BLOCK));
    assert_false(known_records_has(&f->known, 4 * BLOCK));
    known_records_add(&f->known, 1000 * BLOCK, 2 * BLOCK); /* behind what is remembered */
    assert_false(known_records_has(&f->known, 1000 * BLOCK));
}

static void what_is_in_memory_stays_known(void **state)
{
    struct fixture *f = *state;

    known_records_add(&f->known, 0, 3 * BLOCK);
    known_records_add(&f->known, 7 * BLOCK + 16, 2 * BLOCK);
    known_records_add(&f->known, 38 * BLOCK, 2 * BLOCK);
    known_records_add(&f->known, 39 * BLOCK + 4096, BLOCK + 1); /* its last block ends with the file */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sweep(f, ALL), 3 + 3 + 2 + 2);
        assert_int_equal(f->at, 0);
    }
    assert_true(known_records_has(&f->known, 0));
    assert_true(known_records_has(&f->known, 7 * BLOCK));
    assert_true(known_records_has(&f->known, 38 * BLOCK));
    assert_true(known_records_has(&f->known, 39 * BLOCK));
}

/* Whichever of its pages it was. */
static void one_absent_page_is_enough(void **state)
{
    struct fixture *f = *state;
    uint64_t asked;

    for (uint64_t absent = 1; absent <= 4; absent++) { /* the n-th look at a stretch of a MB */
        known_records_add(&f->known, 0, 14 * BLOCK);
        fault_add(&(struct fault_rule){.calls = FAULT(FAULT_MINCORE), .first = absent, .err = ENOMEM});
        asked = sweep(f, ALL);
        assert_int_equal(asked, 14);
        assert_false(known_records_has(&f->known, 0));
        assert_int_equal(sweep(f, ALL), 0);
        fault_clear();
    }
}

static void a_sweep_goes_on_where_the_last_one_stopped(void **state)
{
    struct fixture *f = *state;

    for (uint64_t i = 0; i < 10; i++)
        known_records_add(&f->known, i * 4 * BLOCK, 3 * BLOCK);
    assert_int_equal(sweep(f, 5), 6);
    assert_int_equal(f->at, 5);
    assert_int_equal(sweep(f, 12), 12);
    assert_int_equal(f->at, 21);
    assert_int_equal(sweep(f, ALL), 12);
    assert_int_equal(f->at, 0);
    f->at = 5000; /* of a longer file, before a vacuum */
    assert_int_equal(sweep(f, ALL), 0);
    assert_int_equal(f->at, 0);
}

/* Lengths that no byte can hold are rounded up, never down. */
static void long_records_are_asked_about_to_their_end(void **state)
{
    static const uint64_t blocks[] = {1, 2, 199, 200, 201, 400, 401, 5000, 1 << 20};
    struct fixture *f = *state;

    (void)f;
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        struct known_records k;
        uint64_t at = 0, asked;

        assert_int_equal(known_records_init(&k, BLOCK), 0);
        known_records_add(&k, 0, blocks[i] * BLOCK);
        asked = known_records_sweep(&k, NULL, ALL, &at, ALL);
        assert_true(asked >= blocks[i]);
        assert_true(blocks[i] <= 200 ? asked == blocks[i] : asked < 2 * blocks[i]);
        assert_false(known_records_has(&k, 0)); /* nobody could say that it is there */
        known_records_release(&k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_record_is_known_by_the_block_it_starts_in, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_in_memory_stays_known, setup, teardown),
        cmocka_unit_test_setup_teardown(one_absent_page_is_enough, setup, teardown),
        cmocka_unit_test_setup_teardown(a_sweep_goes_on_where_the_last_one_stopped, setup, teardown),
        cmocka_unit_test_setup_teardown(long_records_are_asked_about_to_their_end, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
