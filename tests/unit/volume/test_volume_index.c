/* Rows behind the writer: what a failed write leaves, and what a checkpoint promises. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "needle/crc.h"
#include "needle/err.h"
#include "net/log.h"
#include "tests/support/fault.h"
#include "tests/support/tmpdir.h"
#include "tests/support/volume_rig.h"
#include "volume/store_internal.h"

static char *dir;

static int setup(void **state)
{
    (void)state;
    log_threshold = LOG_ERROR + 1;
    dir = tmpdir_new("index");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fault_remove();
    tmpdir_free(dir);
    return 0;
}

static void write_volume(uint64_t keys)
{
    struct rig_volume b;

    vrig_volume_init(&b, NEEDLE_V3, 5);
    for (uint64_t key = 1; key <= keys; key++)
        vrig_put_n(&b, key, 100);
    vrig_write(&b, dir, "7", true);
    vrig_volume_release(&b);
}

/* Appends records the way that the writer does: bytes, map, row.  On the writer thread. */
struct appending {
    uint64_t first, last;
};

static int append_on_writer(struct volume *v, void *arg)
{
    struct appending *a = arg;
    struct volume_gen *g = volume_gen_peek(v);

    for (uint64_t key = a->first; key <= a->last; key++) {
        struct rig_volume b;
        struct idx_row row;
        size_t n;

        vrig_volume_init(&b, NEEDLE_V3, 5);
        b.next_ns += key;
        vrig_put_n(&b, key, 100);
        n = b.dat_bytes - SUPERBLOCK_BYTES;
        if (disk_write(g->fd, b.dat + SUPERBLOCK_BYTES, n, v->append_pos) != 0)
            return DFS_EIO;
        row = (struct idx_row){key, needle_offset_of(v->append_pos), b.rows[0].size};
        if (needle_map_put(g->map, key, row.offset, row.size, NULL, NULL) != 0 || volume_index_add(v, &row) != 0)
            return DFS_ENOMEM;
        v->append_pos += n;
        v->last_append_ns = b.next_ns;
        vrig_volume_release(&b);
    }
    atomic_store(&v->dat_bytes, v->append_pos);
    volume_index_flush(v);
    return 0;
}

static void append(struct store *s, uint64_t first, uint64_t last)
{
    struct volume *v = store_get(s, 7);
    struct appending a = {first, last};

    assert_int_equal(store_on_writer(v, append_on_writer, &a), 0);
    volume_unref(v);
}

static void expect_keys(struct store *s, uint64_t last)
{
    for (uint64_t key = 1; key <= last; key++)
        if (!vrig_holds(s, 7, key, 100))
            fail_msg("key %u is not there", (unsigned)key);
}

static void test_rows_are_appended(void **state)
{
    struct store *s;

    (void)state;
    write_volume(3);
    s = vrig_open(dir);
    append(s, 4, 1000);
    assert_int_equal(vrig_file_bytes(dir, "7.idx"), 1000 * 17);
    vrig_close(s);
    assert_true(vrig_tiles(dir, "7", NEEDLE_V3, 5));
    s = vrig_open(dir);
    expect_keys(s, 1000);
    vrig_close(s);
}

/* A row that cannot be written waits; the request is on the disk all the same. */
static void test_rows_that_cannot_be_written_wait(void **state)
{
    struct store *s;
    struct volume *v;
    struct volume_info info;

    (void)state;
    for (int tear = 0; tear < 2; tear++) {
        write_volume(3);
        fault_install(NULL); /* before the files are opened, so that it knows their names */
        s = vrig_open(dir);
        fault_add(&(struct fault_rule){.calls = FAULT(FAULT_WRITE), .path_has = ".idx", .every = 1, .err = ENOSPC,
                                       .tear = tear == 1, .tear_bytes = 5});
        append(s, 4, 5);
        append(s, 6, 700);
        v = store_get(s, 7);
        assert_true(v->idx_behind);
        assert_int_equal(v->idx_pending_count, 697);
        vrig_info(s, 7, &info);
        assert_int_equal(info.no_write, 0);
        expect_keys(s, 700);
        fault_clear();
        append(s, 701, 702);
        assert_false(v->idx_behind);
        volume_unref(v);
        assert_int_equal(vrig_file_bytes(dir, "7.idx"), 702 * 17);
        vrig_close(s);
        fault_remove();
        assert_true(vrig_tiles(dir, "7", NEEDLE_V3, 5));
    }
}

/* Lost at the end: found in the .dat at the next opening. */
static void test_rows_that_never_got_written(void **state)
{
    struct store *s;
    struct volume_info info;

    (void)state;
    write_volume(3);
    fault_install(NULL);
    s = vrig_open(dir);
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_WRITE), .path_has = ".idx", .first = 2, .every = 1, .err = EIO,
                                   .tear = true, .tear_bytes = 23});
    append(s, 4, 10);
    append(s, 11, 40);
    vrig_close(s);
    fault_remove();
    s = vrig_open(dir);
    expect_keys(s, 40);
    vrig_info(s, 7, &info);
    assert_int_equal(info.no_write, 0);
    assert_int_equal(info.file_count, 40);
    vrig_close(s);
    assert_true(vrig_tiles(dir, "7", NEEDLE_V3, 5));
}

static void test_too_many_rows_wait(void **state)
{
    struct volume *v = calloc(1, sizeof *v);
    struct idx_row row = {1, {1}, 8};

    (void)state;
    assert_non_null(v);
    v->idx_fd = -1;
    v->offset_width = 5;
    for (uint32_t i = 0; i < VOLUME_INDEX_PENDING_MAX; i++)
        assert_int_equal(volume_index_add(v, &row), 0);
    assert_int_equal(volume_index_add(v, &row), DFS_ENOSPC);
    free(v->idx_pending);
    free(v);
}

/* ---- checkpoints ---- */

static void test_checkpoint_file(void **state)
{
    struct volume_checkpoint c = {.idx_bytes = 17, .dat_bytes = 48, .last_append_ns = 5, .idx_crc = 0xdeadbeef, .revision = 3,
                                  .offset_width = 5, .version = 3, .damaged = true};
    struct volume_checkpoint got;
    char *base = tmpdir_path(dir, "7"), *file;
    size_t n;

    (void)state;
    assert_int_equal(volume_checkpoint_read(base, &got), DFS_ENOTFOUND);
    assert_int_equal(volume_checkpoint_write(base, &c), 0);
    assert_int_equal(volume_checkpoint_read(base, &got), 0);
    assert_int_equal(got.idx_bytes, 17);
    assert_int_equal(got.dat_bytes, 48);
    assert_int_equal(got.last_append_ns, 5);
    assert_int_equal(got.idx_crc, 0xdeadbeef);
    assert_int_equal(got.revision, 3);
    assert_int_equal(got.offset_width, 5);
    assert_true(got.damaged);
    file = vrig_read_file(dir, "7.ckp", &n);
    assert_int_equal(n, 64);
    for (size_t i = 0; i < n; i++) {
        file[i] ^= 1;
        vrig_write_file(dir, "7.ckp", file, n);
        assert_int_equal(volume_checkpoint_read(base, &got), DFS_ECORRUPT);
        file[i] ^= 1;
        vrig_write_file(dir, "7.ckp", file, i);
        assert_int_equal(volume_checkpoint_read(base, &got), DFS_ECORRUPT);
    }
    vrig_write_file(dir, "7.ckp", file, n);
    assert_int_equal(volume_checkpoint_read(base, &got), 0);
    free(file);
    free(base);
}

static int checkpoint_on_writer(struct volume *v, void *arg)
{
    (void)arg;
    return volume_index_checkpoint(v);
}

static int checkpoint(struct store *s)
{
    struct volume *v = store_get(s, 7);
    int rc = store_on_writer(v, checkpoint_on_writer, NULL);

    volume_unref(v);
    return rc;
}

static void read_checkpoint(struct volume_checkpoint *c)
{
    char *base = tmpdir_path(dir, "7");

    assert_int_equal(volume_checkpoint_read(base, c), 0);
    free(base);
}

static void test_checkpoint_covers_what_is_there(void **state)
{
    struct volume_checkpoint c;
    struct store *s;
    size_t n;
    char *idx;

    (void)state;
    write_volume(3);
    s = vrig_open(dir);
    append(s, 4, 50);
    assert_int_equal(checkpoint(s), 0);
    read_checkpoint(&c);
    assert_int_equal(c.idx_bytes, 50 * 17);
    assert_int_equal(c.dat_bytes, vrig_file_bytes(dir, "7.dat"));
    idx = vrig_read_file(dir, "7.idx", &n);
    assert_int_equal(c.idx_crc, crc32c(0, idx, n));
    free(idx);
    append(s, 51, 60);
    vrig_close(s);
    read_checkpoint(&c);
    assert_int_equal(c.idx_bytes, 60 * 17);
}

/* Order: .dat synced, .idx synced, then the promise; nothing synced is no promise. */
static void test_no_checkpoint_without_syncs(void **state)
{
    static const char *const files[] = {"7.dat", "7.idx"};
    struct volume_checkpoint before, after;
    struct volume_info info;

    (void)state;
    for (int which = 0; which < 2; which++) {
        struct store *s;

        write_volume(3);
        fault_install(NULL);
        s = vrig_open(dir);
        assert_int_equal(checkpoint(s), 0);
        read_checkpoint(&before);
        append(s, 4, 6);
        fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FDATASYNC) | FAULT(FAULT_FSYNC), .path_has = files[which], .every = 1,
                                       .err = EIO});
        assert_int_not_equal(checkpoint(s), 0);
        vrig_info(s, 7, &info);
        assert_int_equal((info.no_write & VOLUME_FLUSH_FAILED) != 0, which == 0);
        fault_clear();
        /* A flush that failed may have lost bytes: later ones prove nothing. */
        assert_int_equal(checkpoint(s) == 0, which == 1);
        vrig_close(s);
        read_checkpoint(&after);
        assert_int_equal(after.idx_bytes == before.idx_bytes, which == 0);
        fault_remove();
    }
}

/* Each call of a checkpoint may fail: the volume opens the same afterwards. */
static void test_every_call_of_a_checkpoint_fails(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth < 40; nth++) {
        struct store *s;
        int id, rc;

        write_volume(3);
        s = vrig_open(dir);
        append(s, 4, 30);
        fault_install(NULL);
        id = fault_add(&(struct fault_rule){.calls = FAULT_MUTATING | FAULT(FAULT_OPEN), .first = nth, .err = EIO});
        rc = checkpoint(s);
        if (fault_hits(id) == 0)
            assert_int_equal(rc, 0);
        fault_remove();
        vrig_close(s);
        s = vrig_open(dir);
        expect_keys(s, 30);
        vrig_close(s);
        if (rc == 0)
            return;
    }
    fail_msg("it never succeeded");
}

static void test_leveldb_replays_only_what_is_new(void **state)
{
    struct store *s;
    struct volume *v;
    uint64_t replayed;

    (void)state;
    write_volume(25000);
    s = vrig_open_kind(dir, NEEDLE_MAP_LEVELDB);
    v = store_get(s, 7);
    assert_int_equal(atomic_load(&v->idx_rows_replayed), 25000);
    volume_unref(v);
    vrig_close(s);
    s = vrig_open_kind(dir, NEEDLE_MAP_LEVELDB);
    v = store_get(s, 7);
    replayed = atomic_load(&v->idx_rows_replayed);
    volume_unref(v);
    assert_int_equal(replayed, 0);
    assert_true(vrig_holds(s, 7, 1, 100));
    assert_true(vrig_holds(s, 7, 25000, 100));
    vrig_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        T(test_rows_are_appended),
        T(test_rows_that_cannot_be_written_wait),
        T(test_rows_that_never_got_written),
        T(test_too_many_rows_wait),
        T(test_checkpoint_file),
        T(test_checkpoint_covers_what_is_there),
        T(test_no_checkpoint_without_syncs),
        T(test_every_call_of_a_checkpoint_fails),
        T(test_leveldb_replays_only_what_is_new),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
