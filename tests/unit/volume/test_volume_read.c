/* Reading needles: who gets what, hot and cold, small and large; a flipped byte is never given out. */
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

#include "needle/check.h"
#include "needle/crc.h"
#include "needle/err.h"
#include "net/log.h"
#include "net/rand.h"
#include "tests/support/engine.h"
#include "tests/support/fault.h"
#include "tests/support/tmpdir.h"
#include "volume/disk_location.h"
#include "volume/volume.h"

#define VOLUME 3u
#define COOKIE 0x77u
#define DATA_MAX (20u << 20)

struct fixture {
    char *dir;
    char *data;
    struct store_options o;
    struct engine e;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    f->dir = tmpdir_new("read");
    f->data = malloc(DATA_MAX);
    engine_fill(f->data, DATA_MAX, 12);
    engine_options(&f->o, f->dir);
    fault_install(NULL);
    engine_open(&f->e, &f->o, 2);
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

static void reopen(struct fixture *f)
{
    engine_close(&f->e);
    engine_open(&f->e, &f->o, 2);
}

static struct fid fid_of(uint64_t key)
{
    return (struct fid){VOLUME, COOKIE, key};
}

static void put(struct fixture *f, uint64_t key, size_t n)
{
    assert_int_equal(engine_put(&f->e, fid_of(key), f->data + key, n), 0);
}

static int get(struct fixture *f, struct engine_op *op)
{
    engine_start(&f->e, 0, op);
    return engine_wait(op);
}

static uint64_t corrupt_count(struct fixture *f)
{
    struct volume *v = store_get(f->e.store, VOLUME);
    struct volume_info i;

    volume_info_get(v, &i);
    volume_unref(v);
    return i.corrupt_count;
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

static int open_dat(struct fixture *f)
{
    char path[4200];
    int fd;

    snprintf(path, sizeof path, "%s/%u.dat", f->dir, VOLUME);
    fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    return fd;
}

static void flip(struct fixture *f, uint64_t pos)
{
    char byte;
    int fd = open_dat(f);

    assert_int_equal(pread(fd, &byte, 1, (off_t)pos), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)pos), 1);
    close(fd);
}

/* Out of the page cache, as far as the file system lets us. */
static void chill(struct fixture *f)
{
    int fd = open_dat(f);

    assert_int_equal(fdatasync(fd), 0);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

/* ---- who gets what ---- */

static void what_is_not_there_is_said_so(void **state)
{
    struct fixture *f = *state;
    char *got = NULL;
    size_t n;

    put(f, 1, 100);
    assert_int_equal(engine_get(&f->e, fid_of(2), &got, &n), DFS_ENOTFOUND);
    assert_int_equal(engine_get(&f->e, (struct fid){VOLUME, COOKIE ^ 1, 1}, &got, &n), DFS_ECOOKIE);
    assert_int_equal(engine_get(&f->e, (struct fid){99, COOKIE, 1}, &got, &n), DFS_ENOVOLUME);
    assert_int_equal(engine_delete(&f->e, fid_of(1)), 0);
    assert_int_equal(engine_get(&f->e, fid_of(1), &got, &n), DFS_ENOTFOUND);
}

static void the_deleted_can_be_asked_for(void **state)
{
    struct fixture *f = *state;
    struct engine_op op;

    for (uint64_t key = 1; key <= 2; key++) {
        size_t n = key == 1 ? 100 : 700000;
        put(f, key, n);
        assert_int_equal(engine_delete(&f->e, fid_of(key)), 0);
        op = (struct engine_op){.kind = ENGINE_GET, .fid = fid_of(key), .read.read_deleted = true};
        assert_int_equal(get(f, &op), 0);
        assert_int_equal(op.got_n, n);
        assert_memory_equal(op.got, f->data + key, n);
        engine_release(&op);
    }
    op = (struct engine_op){.kind = ENGINE_GET, .fid = {VOLUME, COOKIE ^ 1, 1}, .read.read_deleted = true};
    assert_int_equal(get(f, &op), DFS_ECOOKIE);
    engine_release(&op);
    op = (struct engine_op){.kind = ENGINE_GET, .fid = {VOLUME, COOKIE ^ 1, 1}, .read.read_deleted = true,
                            .read.skip_cookie = true};
    assert_int_equal(get(f, &op), 0);
    engine_release(&op);
}

static void states_are_told_apart(void **state)
{
    static const struct {
        unsigned bit;
        int rc;
    } table[] = {
        {VOLUME_LOADING, DFS_ELOADING},     {VOLUME_BROKEN, DFS_EIO},   {VOLUME_OFFLINE, DFS_EUNAVAILABLE},
        {VOLUME_UNMOUNTED, DFS_ENOVOLUME},  {VOLUME_SEALED, 0},         {VOLUME_MARKED, 0},
        {VOLUME_DAMAGED, 0},                {VOLUME_FLUSH_FAILED, 0},   {VOLUME_DISK_LOW, 0},
    };
    struct fixture *f = *state;
    struct volume *v = store_get(f->e.store, VOLUME);

    put(f, 1, 100);
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        volume_set_no_write(v, table[i].bit, NULL);
        assert_int_equal(engine_check(&f->e, fid_of(1), f->data + 1, 100), table[i].rc);
        volume_clear_no_write(v, table[i].bit);
    }
    volume_unref(v);
}

static void a_head_reads_no_data(void **state)
{
    struct fixture *f = *state;
    struct engine_op op;

    put(f, 1, 100);
    put(f, 2, 10000000);
    flip(f, place_of(f, 2) + 5000000); /* nobody looks */
    for (uint64_t key = 1; key <= 2; key++) {
        uint64_t n = key == 1 ? 100 : 10000000;
        op = (struct engine_op){.kind = ENGINE_GET, .fid = fid_of(key), .read.meta_only = true};
        assert_int_equal(get(f, &op), 0);
        assert_int_equal(op.got_n, n);
        assert_int_equal(op.data_crc, crc32c(0, f->data + key, n));
        engine_release(&op);
    }
}

/* ---- hot, cold, by file or not ---- */

static void what_was_written_goes_out_by_file(void **state)
{
    struct fixture *f = *state;
    struct engine_op op = {.kind = ENGINE_GET, .fid = fid_of(1)};
    uint64_t reads;

    put(f, 1, 3000000);
    reads = fault_count(FAULT_READ);
    assert_int_equal(get(f, &op), 0);
    assert_true(op.by_file);
    assert_memory_equal(op.got, f->data + 1, 3000000);
    engine_release(&op);
    assert_true(fault_count(FAULT_READ) - reads <= 2); /* header and trailer */
}

static void after_a_start_bytes_are_checked_once(void **state)
{
    static const size_t sizes[] = {300000, 3000000, 18000000};
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        put(f, i + 1, sizes[i]);
    reopen(f);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        uint64_t pieces = (sizes[i] + CHUNK_BYTES - 1) / CHUNK_BYTES, reads[3];
        for (int round = 0; round < 2; round++) {
            reads[round] = fault_count(FAULT_READ);
            assert_int_equal(engine_check(&f->e, fid_of(i + 1), f->data + i + 1, sizes[i]), 0);
        }
        reads[2] = fault_count(FAULT_READ);
        assert_true(reads[1] - reads[0] >= pieces);
        assert_true(reads[2] - reads[1] <= 2);
    }
}

static void cold_ones_come_back_too(void **state)
{
    static const size_t sizes[] = {1, 1000, 100000, 262144, 3000000, 18000000};
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        put(f, i + 1, sizes[i]);
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
            chill(f);
            assert_int_equal(engine_check(&f->e, fid_of(i + 1), f->data + i + 1, sizes[i]), 0);
        }
}

/* mincore that knows nothing: everything goes through memory, and checked. */
static void where_nothing_is_known_memory_does(void **state)
{
    struct fixture *f = *state;
    struct engine_op op = {.kind = ENGINE_GET, .fid = fid_of(1)};

    put(f, 1, 3000000);
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_MINCORE) | FAULT(FAULT_MAP), .first = 1, .every = 1, .err = ENOMEM});
    assert_int_equal(get(f, &op), 0);
    assert_false(op.by_file);
    assert_memory_equal(op.got, f->data + 1, 3000000);
    engine_release(&op);
}

/* The page cache loses pieces while they are sent. */
static void pieces_that_leave_are_read_again(void **state)
{
    struct fixture *f = *state;
    struct engine_op op = {.kind = ENGINE_GET, .fid = fid_of(1)};

    put(f, 1, 3000000);
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_MINCORE), .first = 4, .every = 3, .err = ENOMEM});
    assert_int_equal(get(f, &op), 0);
    assert_memory_equal(op.got, f->data + 1, 3000000);
    engine_release(&op);
}

/* ---- damage ---- */

static void a_flipped_byte_is_never_given_out(void **state)
{
    static const size_t sizes[] = {1000, 200000, 3000000, 18000000};
    struct fixture *f = *state;
    char *got = NULL;
    size_t n;

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        put(f, i + 1, sizes[i]);
    reopen(f);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        uint64_t place = place_of(f, i + 1), at[4] = {place + 4, place + 12, place + 20 + sizes[i] / 2, place + 20 + sizes[i] - 1};
        for (size_t j = 0; j < ARRAY_LEN(at); j++) {
            uint64_t before = corrupt_count(f);
            flip(f, at[j]);
            assert_int_equal(engine_get(&f->e, fid_of(i + 1), &got, &n), DFS_ECORRUPT);
            assert_true(corrupt_count(f) > before);
            flip(f, at[j]);
        }
        assert_int_equal(engine_check(&f->e, fid_of(i + 1), f->data + i + 1, sizes[i]), 0);
    }
}

/* Its pages left memory, as a sweep saw, and somebody else brought bad ones in. */
static void what_left_memory_is_known_no_longer(void **state)
{
    static const size_t sizes[] = {300000, 3000000, 18000000};
    struct fixture *f = *state;
    char *got = NULL;
    size_t n;

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        put(f, i + 1, sizes[i]);
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_MINCORE), .first = 1, .every = 1, .err = ENOMEM});
    store_maintain(f->e.store);
    fault_clear();
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        flip(f, place_of(f, i + 1) + 20 + sizes[i] / 2);
        assert_int_equal(engine_get(&f->e, fid_of(i + 1), &got, &n), DFS_ECORRUPT);
    }
}

static void read_check_always_finds_hot_damage(void **state)
{
    struct fixture *f = *state;
    char *got = NULL;
    size_t n;

    f->o.read_check_always = true;
    reopen(f);
    put(f, 1, 3000000);
    assert_int_equal(engine_check(&f->e, fid_of(1), f->data + 1, 3000000), 0);
    flip(f, place_of(f, 1) + 1000000);
    assert_int_equal(engine_get(&f->e, fid_of(1), &got, &n), DFS_ECORRUPT);
}

static void a_disk_that_cannot_read_says_so(void **state)
{
    static const size_t sizes[] = {1000, 3000000};
    struct fixture *f = *state;
    char *got = NULL;
    size_t n;

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        put(f, i + 1, sizes[i]);
        fault_add(&(struct fault_rule){.calls = FAULT(FAULT_READ), .path_has = ".dat", .first = 1, .every = 1, .err = EIO});
        assert_int_equal(engine_get(&f->e, fid_of(i + 1), &got, &n), DFS_EIO);
        fault_clear();
        assert_int_equal(engine_check(&f->e, fid_of(i + 1), f->data + i + 1, sizes[i]), 0);
    }
    assert_int_equal(corrupt_count(f), 0);
}

/* A failing read in any place: the right bytes or an error, never others. */
static void any_failing_read_is_an_error(void **state)
{
    struct fixture *f = *state;

    put(f, 1, 1500000);
    for (uint64_t n = 1; n < 30; n++) {
        int rc;
        reopen(f);
        chill(f);
        fault_add(&(struct fault_rule){.calls = FAULT(FAULT_READ) | FAULT(FAULT_MINCORE), .path_has = ".dat", .first = n, .err = EIO});
        rc = engine_check(&f->e, fid_of(1), f->data + 1, 1500000);
        fault_clear();
        assert_true(rc == 0 || rc == DFS_EIO);
    }
}

/* ---- what a power cut may leave behind the acknowledged ---- */

static void append_raw(struct fixture *f, const void *p, size_t n)
{
    int fd = open_dat(f);
    off_t end = lseek(fd, 0, SEEK_END);

    assert_int_equal(pwrite(fd, p, n, end), (ssize_t)n);
    close(fd);
}

/* A record of key 1 with its sectors in every state: whole, but nobody was told; each 8-byte part of the header lost. */
static void a_torn_header_hides_nothing(void **state)
{
    struct fixture *f = *state;
    struct needle n = {.cookie = COOKIE, .key = 1, .data_bytes = 500, .append_at_ns = UINT64_MAX / 4};
    uint8_t rec[NEEDLE_TRAILER_MAX + 600];

    for (size_t lost = 0; lost <= 24; lost += 8) {
        size_t at;
        put(f, 1, 300);
        engine_close(&f->e);
        assert_int_equal(needle_body_bytes(NEEDLE_V3, &n, &n.body_bytes), 0);
        n.checksum = crc32c(0, f->data + 5000, 500);
        at = needle_encode_head(NEEDLE_V3, &n, rec);
        memcpy(rec + at, f->data + 5000, 500);
        at += 500;
        at += needle_encode_trail(NEEDLE_V3, &n, rec + at);
        memset(rec, 0, lost);
        append_raw(f, rec, at);
        engine_open(&f->e, &f->o, 2);
        if (lost == 0) /* on the disk and right: it counts, told or not */
            assert_int_equal(engine_check(&f->e, fid_of(1), f->data + 5000, 500), 0);
        else
            assert_int_equal(engine_check(&f->e, fid_of(1), f->data + 1, 300), 0);
        assert_int_equal(engine_delete(&f->e, fid_of(1)), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_not_there_is_said_so, setup, teardown),
        cmocka_unit_test_setup_teardown(the_deleted_can_be_asked_for, setup, teardown),
        cmocka_unit_test_setup_teardown(states_are_told_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(a_head_reads_no_data, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_written_goes_out_by_file, setup, teardown),
        cmocka_unit_test_setup_teardown(after_a_start_bytes_are_checked_once, setup, teardown),
        cmocka_unit_test_setup_teardown(cold_ones_come_back_too, setup, teardown),
        cmocka_unit_test_setup_teardown(where_nothing_is_known_memory_does, setup, teardown),
        cmocka_unit_test_setup_teardown(pieces_that_leave_are_read_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_flipped_byte_is_never_given_out, setup, teardown),
        cmocka_unit_test_setup_teardown(what_left_memory_is_known_no_longer, setup, teardown),
        cmocka_unit_test_setup_teardown(read_check_always_finds_hot_damage, setup, teardown),
        cmocka_unit_test_setup_teardown(a_disk_that_cannot_read_says_so, setup, teardown),
        cmocka_unit_test_setup_teardown(any_failing_read_is_an_error, setup, teardown),
        cmocka_unit_test_setup_teardown(a_torn_header_hides_nothing, setup, teardown),
    };

    log_threshold = getenv("DFS_TEST_LOG") != NULL ? LOG_INFO : LOG_ERROR + 1;
    if (rand_init() != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
