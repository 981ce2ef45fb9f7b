/* Volumes that reach the end of what offsets of 4 bytes can say (32 GiB), and volumes with offsets of 5 bytes past it (FIELD G44).
 *
 * The files are sparse: fillers up to shortly before the end, then needles. */
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
#include "needle/needle.h"
#include "needle/superblock.h"
#include "net/log.h"
#include "net/rand.h"
#include "tests/support/engine.h"
#include "tests/support/tmpdir.h"
#include "volume/volume.h"
#include "volume/volume_vif.h"

#define VOLUME 3u
#define END_4 ((uint64_t)1 << 35)
#define DATA_BYTES 1000u
#define FIRST_TIME_NS 1700000000000000000ull
#define KEYS_MAX 200u

struct fixture {
    char *dir;
    struct store_options o;
    struct engine e;
    char data[DATA_BYTES + KEYS_MAX];
    uint64_t keys; /* 1 to keys were put */
};

static struct fid fid_of(uint64_t key)
{
    return (struct fid){VOLUME, 0x1234abcd, key};
}

static int open_file(const struct fixture *f, const char *name)
{
    char *path = tmpdir_path(f->dir, name);
    int fd = open(path, O_RDWR | O_CREAT, 0640);

    assert_true(fd >= 0);
    free(path);
    return fd;
}

static void write_at(int fd, const void *p, size_t n, uint64_t pos)
{
    assert_int_equal(pwrite(fd, p, n, (off_t)pos), n);
}

/* One filler at pos; returns where it ends. */
static uint64_t add_filler(int dat, int idx, unsigned width, uint64_t pos, uint64_t gap_bytes, uint64_t *idx_bytes)
{
    uint8_t buf[IDX_ROW_BYTES_MAX];
    struct needle_filler fill;
    struct idx_row row = {.offset = needle_offset_of(pos)};
    size_t n;

    assert_int_equal(needle_filler_make(NEEDLE_V3, gap_bytes, FIRST_TIME_NS, &fill), 0);
    write_at(dat, fill.head, fill.head_bytes, pos);
    write_at(dat, fill.trail, fill.trail_bytes, pos + fill.record_bytes - fill.trail_bytes);
    row.size = fill.needle.body_bytes;
    n = idx_row_encode(width, &row, buf);
    write_at(idx, buf, n, *idx_bytes);
    *idx_bytes += n;
    return pos + fill.record_bytes;
}

/* A volume whose data end at `end`; false where files cannot be so long. */
static bool make_volume(const struct fixture *f, unsigned width, uint64_t end)
{
    struct superblock sb = {.version = NEEDLE_V3};
    struct volume_vif vif;
    uint8_t block[SUPERBLOCK_BYTES];
    uint64_t idx_bytes = 0;
    int dat = open_file(f, "3.dat"), idx = open_file(f, "3.idx");
    char *path = tmpdir_path(f->dir, "3.vif");
    bool fits = ftruncate(dat, (off_t)end) == 0;

    superblock_encode(&sb, block);
    write_at(dat, block, sizeof block, 0);
    for (uint64_t pos = SUPERBLOCK_BYTES; fits && pos < end;)
        pos = add_filler(dat, idx, width, pos, end - pos, &idx_bytes);
    volume_vif_init(&vif);
    vif.version = NEEDLE_V3;
    vif.offset_width = width;
    assert_int_equal(volume_vif_write(path, &vif), 0);
    free(path);
    close(dat);
    close(idx);
    return fits;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    f->dir = tmpdir_new("end");
    engine_fill(f->data, sizeof f->data, 7);
    engine_options(&f->o, f->dir);
    f->o.size_limit_bytes = 60000ull << 20;
    f->o.zero_ahead_bytes = 1u << 20;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    if (f->e.store != NULL)
        engine_close(&f->e);
    tmpdir_free(f->dir);
    free(f);
    return 0;
}

static void open_volume(struct fixture *f, unsigned width)
{
    struct volume *v;

    engine_open(&f->e, &f->o, 1);
    v = store_get(f->e.store, VOLUME);
    assert_non_null(v);
    assert_int_equal(v->offset_width, width);
    assert_int_equal(atomic_load(&v->no_write) & VOLUME_DAMAGED, 0);
    volume_unref(v);
}

static struct volume_info info(struct fixture *f)
{
    struct volume *v = store_get(f->e.store, VOLUME);
    struct volume_info i;

    volume_info_get(v, &i);
    volume_unref(v);
    return i;
}

static uint64_t file_bytes(const struct fixture *f)
{
    int fd = open_file(f, "3.dat");
    off_t n = lseek(fd, 0, SEEK_END);

    close(fd);
    return (uint64_t)n;
}

static int put(struct fixture *f, uint64_t key)
{
    return engine_put(&f->e, fid_of(key), f->data + key % KEYS_MAX, DATA_BYTES);
}

static void check_all(struct fixture *f, uint64_t from)
{
    for (uint64_t key = from; key <= f->keys; key++)
        assert_int_equal(engine_check(&f->e, fid_of(key), f->data + key % KEYS_MAX, DATA_BYTES), 0);
}

static void four_bytes_end_at_32_gib(void **state)
{
    struct fixture *f = *state;
    uint64_t deleted, before;
    int rc = 0;

    if (!make_volume(f, 4, END_4 - 100000)) {
        skip();
        return;
    }
    open_volume(f, 4);
    while (rc == 0 && f->keys < KEYS_MAX) {
        rc = put(f, f->keys + 1);
        f->keys += rc == 0;
        assert_true(file_bytes(f) <= END_4); /* zeros ahead included: a killed server leaves them */
    }
    assert_int_equal(rc, DFS_EFULL);
    assert_true(f->keys > 50);
    assert_true(info(f).dat_bytes + f->keys * NEEDLE_TOMBSTONE_MAX <= END_4); /* room to delete each */
    assert_true(info(f).dat_bytes + DATA_BYTES + 2 * NEEDLE_TRAILER_MAX + (f->keys + 1) * NEEDLE_TOMBSTONE_MAX > END_4);
    assert_true((info(f).no_write & VOLUME_SEALED) != 0);
    assert_non_null(strstr(info(f).reason, "its offsets of 4 bytes end at 34359738368"));
    check_all(f, 1);
    deleted = f->keys / 2;
    for (uint64_t key = 1; key <= deleted; key++)
        assert_int_equal(engine_delete(&f->e, fid_of(key)), 0);
    before = info(f).dat_bytes;
    assert_true(before <= END_4);
    for (int again = 0; again < 2; again++) {
        check_all(f, deleted + 1);
        for (uint64_t key = 1; key <= deleted; key++)
            assert_int_equal(engine_check(&f->e, fid_of(key), "", 0), DFS_ENOTFOUND);
        assert_int_equal(put(f, f->keys + 1), DFS_EFULL);
        engine_close(&f->e);
        open_volume(f, 4);
        assert_int_equal(info(f).dat_bytes, before);
        assert_int_equal(info(f).reason[0], '\0'); /* nothing had to be mended */
    }
    /* All of them, and not one more. */
    for (uint64_t key = deleted + 1; key <= f->keys; key++)
        assert_int_equal(engine_delete(&f->e, fid_of(key)), 0);
    assert_true(info(f).dat_bytes <= END_4);
    assert_int_equal(info(f).live_count, 0);
}

static void five_bytes_go_on_behind_it(void **state)
{
    struct fixture *f = *state;
    uint64_t start = END_4 - 40000;

    if (!make_volume(f, 5, start)) {
        skip();
        return;
    }
    open_volume(f, 5);
    for (f->keys = 0; f->keys < KEYS_MAX - 1; f->keys++)
        assert_int_equal(put(f, f->keys + 1), 0);
    assert_true(info(f).dat_bytes > END_4 + 100000);
    for (int again = 0; again < 2; again++) {
        check_all(f, 1);
        engine_close(&f->e);
        open_volume(f, 5);
        assert_int_equal(info(f).live_count, f->keys);
    }
    assert_int_equal(engine_delete(&f->e, fid_of(f->keys)), 0);
    assert_int_equal(engine_check(&f->e, fid_of(f->keys), "", 0), DFS_ENOTFOUND);
    f->keys--;
    check_all(f, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(four_bytes_end_at_32_gib, setup, teardown),
        cmocka_unit_test_setup_teardown(five_bytes_go_on_behind_it, setup, teardown),
    };

    log_threshold = getenv("DFS_TEST_LOG") != NULL ? LOG_INFO : LOG_ERROR + 1;
    if (rand_init() != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
