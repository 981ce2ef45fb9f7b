/* Puts and deletes through the whole engine: what is stored, what is refused and why, what a failing disk leaves. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "needle/check.h"
#include "needle/crc.h"
#include "needle/err.h"
#include "net/clock.h"
#include "net/log.h"
#include "net/rand.h"
#include "tests/support/engine.h"
#include "tests/support/fault.h"
#include "tests/support/tmpdir.h"
#include "volume/disk_location.h"
#include "volume/volume.h"

#define VOLUME 3u
#define COOKIE 0x1234abcdu

struct fixture {
    char *dir;
    struct store_options o;
    struct engine e;
};

static struct fid fid_of(uint64_t key)
{
    return (struct fid){VOLUME, COOKIE, key};
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    f->dir = tmpdir_new("write");
    engine_options(&f->o, f->dir);
    f->o.stage_bytes = 1u << 20;
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
    fault_release();
    engine_close(&f->e);
    fault_remove();
    tmpdir_free(f->dir);
    free(f);
    return 0;
}

static void reopen(struct fixture *f)
{
    engine_close(&f->e);
    engine_open(&f->e, &f->o, 2);
}

static struct volume_info info(struct fixture *f, uint32_t id)
{
    struct volume *v = store_get(f->e.store, id);
    struct volume_info i;

    assert_non_null(v);
    volume_info_get(v, &i);
    volume_unref(v);
    return i;
}

/* Starts, waits; the op stays to be looked at. */
static int run(struct fixture *f, struct engine_op *op)
{
    engine_start(&f->e, 0, op);
    return engine_wait(op);
}

static struct engine_op put_op(uint64_t key, const char *data, size_t n)
{
    return (struct engine_op){.kind = ENGINE_PUT, .fid = fid_of(key), .data = data, .n = n};
}

static struct engine_op delete_op(uint64_t key)
{
    return (struct engine_op){.kind = ENGINE_DELETE, .fid = fid_of(key)};
}

/* ---- what is stored ---- */

static void every_size_comes_back(void **state)
{
    static const size_t sizes[] = {0, 1, 3, 4, 7, 8, 100, 4096, 16383, 16384, 16385, 20000, 262143, 262144, 262145, 300000,
                                   524288, 1048575, 1048576, 1048577, 3000000, 5242880};
    struct fixture *f = *state;
    char *data = malloc(5242880);

    engine_fill(data, 5242880, 1);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        assert_int_equal(engine_put(&f->e, fid_of(i + 1), data + i, sizes[i] - (sizes[i] > i ? i : 0)), 0);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
            assert_int_equal(engine_check(&f->e, fid_of(i + 1), data + i, sizes[i] - (sizes[i] > i ? i : 0)), 0);
        reopen(f);
    }
    assert_int_equal(info(f, VOLUME).live_count, ARRAY_LEN(sizes));
    free(data);
}

static void every_version_comes_back(void **state)
{
    struct fixture *f = *state;
    char reason[256], data[70000];

    engine_fill(data, sizeof data, 2);
    for (uint8_t version = 1; version <= 3; version++) {
        struct fid a = {10u + version, COOKIE, 1}, b = {10u + version, COOKIE, 2};
        assert_int_equal(store_allocate(f->e.store, 10u + version, BYTES_NONE, (struct replica_placement){0},
                                        (struct ttl){0}, version, 0, reason), 0);
        assert_int_equal(engine_put(&f->e, a, data, 1000), 0);
        assert_int_equal(engine_put(&f->e, b, data, sizeof data), 0);
        assert_int_equal(engine_put(&f->e, a, data, 999), 0);
        assert_int_equal(engine_delete(&f->e, b), 0);
    }
    reopen(f);
    for (uint8_t version = 1; version <= 3; version++) {
        assert_int_equal(engine_check(&f->e, (struct fid){10u + version, COOKIE, 1}, data, 999), 0);
        assert_int_equal(engine_check(&f->e, (struct fid){10u + version, COOKIE, 2}, data, 1), DFS_ENOTFOUND);
    }
}

static void what_is_said_of_it_is_kept(void **state)
{
    struct fixture *f = *state;
    struct engine_op put = put_op(1, "text", 4), get = {.kind = ENGINE_GET, .fid = fid_of(1)};

    put.write.meta = (struct needle){.flags = NEEDLE_HAS_NAME | NEEDLE_HAS_MIME | NEEDLE_HAS_LAST_MODIFIED,
                                     .name = BYTES_LIT("a.txt"), .mime = BYTES_LIT("text/x"), .last_modified_s = 1234567};
    assert_int_equal(run(f, &put), 0);
    assert_int_equal(put.write.data_crc, crc32c(0, "text", 4));
    assert_true(put.write.stamped_ns > 0 && put.write.last_ns == put.write.stamped_ns);
    assert_int_equal(run(f, &get), 0);
    assert_string_equal(get.name, "a.txt");
    assert_string_equal(get.mime, "text/x");
    assert_int_equal(get.append_at_ns, put.write.stamped_ns);
    assert_int_equal(get.data_crc, put.write.data_crc);
    engine_release(&put);
    engine_release(&get);
}

static void a_needle_inherits_the_ttl(void **state)
{
    struct fixture *f = *state;
    char reason[256];
    struct engine_op put = put_op(1, "x", 1), get = {.kind = ENGINE_GET};

    assert_int_equal(store_allocate(f->e.store, 8, BYTES_NONE, (struct replica_placement){0},
                                    (struct ttl){5, TTL_MINUTE}, 3, 0, reason), 0);
    put.fid.volume_id = 8;
    assert_int_equal(run(f, &put), 0);
    get.fid = put.fid;
    assert_int_equal(run(f, &get), 0);
    assert_true((get.flags & NEEDLE_HAS_TTL) != 0);
    assert_int_equal(get.read.needle.ttl.count, 5);
    engine_release(&put);
    engine_release(&get);
}

/* ---- cookies ---- */

static void a_wrong_cookie_changes_nothing(void **state)
{
    struct fixture *f = *state;
    struct fid right = fid_of(1), wrong = {VOLUME, COOKIE + 1, 1};
    struct engine_op trusted = delete_op(1);

    assert_int_equal(engine_put(&f->e, right, "one", 3), 0);
    assert_int_equal(engine_put(&f->e, wrong, "two", 3), DFS_ECOOKIE);
    assert_int_equal(engine_put(&f->e, wrong, "longer", 6), DFS_ECOOKIE);
    assert_int_equal(engine_delete(&f->e, wrong), DFS_ECOOKIE);
    assert_int_equal(engine_check(&f->e, right, "one", 3), 0);
    assert_int_equal(engine_check(&f->e, wrong, "one", 3), DFS_ECOOKIE);
    trusted.fid = wrong;
    trusted.write.skip_cookie = true;
    assert_int_equal(run(f, &trusted), 0);
    assert_int_equal(trusted.write.old_body_bytes, 8); /* 4 + 3 + flags */
    engine_release(&trusted);
    assert_int_equal(engine_check(&f->e, right, "one", 3), DFS_ENOTFOUND);
    assert_int_equal(engine_delete(&f->e, right), DFS_ENOTFOUND);
}

/* ---- unchanged ---- */

static bool appends(struct fixture *f, struct engine_op *op)
{
    uint64_t before = info(f, op->fid.volume_id).dat_bytes;
    bool grew;

    assert_int_equal(run(f, op), 0);
    grew = info(f, op->fid.volume_id).dat_bytes > before;
    assert_int_equal(grew, !op->write.unchanged);
    engine_release(op);
    return grew;
}

static void the_same_again_is_not_appended(void **state)
{
    struct fixture *f = *state;
    char *big = malloc(2000000);
    struct engine_op op;

    engine_fill(big, 2000000, 3);
    op = put_op(1, "abc", 3);
    op.write.meta = (struct needle){.flags = NEEDLE_HAS_LAST_MODIFIED, .last_modified_s = 5};
    assert_true(appends(f, &op));
    op = put_op(1, "abc", 3);
    op.write.meta = (struct needle){.flags = NEEDLE_HAS_LAST_MODIFIED, .last_modified_s = 99};
    assert_false(appends(f, &op));
    op = put_op(1, "abc", 3);
    op.write.meta = (struct needle){.flags = NEEDLE_HAS_LAST_MODIFIED, .last_modified_s = 7};
    op.write.explicit_ts = true;
    assert_true(appends(f, &op));
    op = put_op(1, "abd", 3);
    op.write.meta = (struct needle){.flags = NEEDLE_HAS_LAST_MODIFIED, .last_modified_s = 7};
    assert_true(appends(f, &op));
    op = put_op(1, "abd", 3);
    op.write.meta = (struct needle){.flags = NEEDLE_HAS_LAST_MODIFIED | NEEDLE_COMPRESSED};
    assert_true(appends(f, &op));

    op = put_op(2, big, 2000000); /* from a file */
    assert_true(appends(f, &op));
    op = put_op(2, big, 2000000);
    assert_false(appends(f, &op));
    big[1999999]++;
    op = put_op(2, big, 2000000);
    assert_true(appends(f, &op));

    op = put_op(3, "", 0);
    assert_true(appends(f, &op));
    op = put_op(3, "", 0);
    op.write.explicit_ts = true;
    assert_false(appends(f, &op));
    free(big);
}

static void ttl_makes_every_rewrite_a_change(void **state)
{
    struct fixture *f = *state;
    struct engine_op op;

    for (int i = 0; i < 2; i++) {
        op = put_op(1, "abc", 3);
        op.write.meta = (struct needle){.flags = NEEDLE_HAS_TTL, .ttl = {1, TTL_DAY}};
        assert_true(appends(f, &op));
    }
}

/* ---- times ---- */

static void times_rise_and_given_ones_are_kept(void **state)
{
    struct fixture *f = *state;
    uint64_t now = clock_wall_ns(), last = 0, given;
    struct engine_op op;

    for (uint64_t key = 1; key <= 5; key++) {
        op = put_op(key, "x", 1);
        assert_int_equal(run(f, &op), 0);
        assert_true(op.write.stamped_ns > last && op.write.stamped_ns >= now);
        last = op.write.stamped_ns;
        engine_release(&op);
    }
    given = last + 3600ull * 1000000000;
    op = put_op(9, "y", 1);
    op.write.append_at_ns = given;
    assert_int_equal(run(f, &op), 0);
    assert_int_equal(op.write.stamped_ns, given);
    engine_release(&op);
    op = put_op(10, "z", 1);
    op.write.append_at_ns = given;
    assert_int_equal(run(f, &op), DFS_ESTALE);
    assert_int_equal(op.write.last_ns, given);
    engine_release(&op);
    /* The very version that is here: a retry, not a conflict. */
    op = put_op(9, "y", 1);
    op.write.append_at_ns = given;
    assert_int_equal(run(f, &op), 0);
    assert_true(op.write.unchanged);
    assert_int_equal(op.write.stamped_ns, given);
    engine_release(&op);
    op = put_op(11, "a", 1);
    assert_int_equal(run(f, &op), 0);
    assert_int_equal(op.write.stamped_ns, given + 1);
    engine_release(&op);
    reopen(f);
    op = put_op(12, "a", 1);
    assert_int_equal(run(f, &op), 0);
    assert_int_equal(op.write.stamped_ns, given + 2);
    engine_release(&op);
}

/* ---- one key, many writes at once ---- */

#define CROWD 64

static void writes_of_one_key_have_an_order(void **state)
{
    struct fixture *f = *state;
    struct engine_op *ops = calloc(CROWD, sizeof *ops);
    char (*data)[16] = calloc(CROWD, sizeof *data);
    uint64_t newest = 0;
    int winner = -1, replaced = 0;

    for (int i = 0; i < CROWD; i++) {
        snprintf(data[i], sizeof data[i], "content %02d", i % 100);
        ops[i] = put_op(1, data[i], strlen(data[i]));
        engine_start(&f->e, (uint32_t)i % 2, &ops[i]);
    }
    for (int i = 0; i < CROWD; i++) {
        assert_int_equal(engine_wait(&ops[i]), 0);
        replaced += ops[i].write.replaced;
        if (ops[i].write.stamped_ns > newest) {
            newest = ops[i].write.stamped_ns;
            winner = i;
        }
        engine_release(&ops[i]);
    }
    assert_int_equal(replaced, CROWD - 1);
    assert_int_equal(engine_check(&f->e, fid_of(1), data[winner], strlen(data[winner])), 0);
    assert_int_equal(info(f, VOLUME).live_count, 1);
    assert_int_equal(info(f, VOLUME).delete_count, CROWD - 1);
    reopen(f);
    assert_int_equal(engine_check(&f->e, fid_of(1), data[winner], strlen(data[winner])), 0);
    free(ops);
    free(data);
}

static void a_put_of_another_cookie_loses_in_the_same_batch(void **state)
{
    struct fixture *f = *state;
    struct engine_op hold = put_op(99, "hold", 4), first = put_op(1, "first", 5), second = put_op(1, "second", 6),
                     del = delete_op(1);
    int id;

    /* While a sync is held, what comes makes one batch. */
    id = fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FDATASYNC), .path_has = ".dat", .first = 1,
                                        .delay_ms = FAULT_UNTIL_RELEASED});
    engine_start(&f->e, 0, &hold);
    while (fault_held() == 0)
        clock_sleep_ms(1);
    second.fid.cookie++;
    engine_start(&f->e, 0, &first);
    engine_start(&f->e, 0, &second);
    engine_start(&f->e, 0, &del);
    clock_sleep_ms(20);
    fault_clear();
    fault_release();
    assert_int_equal(engine_wait(&hold), 0);
    assert_int_equal(engine_wait(&first), 0);
    assert_int_equal(engine_wait(&second), DFS_ECOOKIE);
    assert_int_equal(engine_wait(&del), 0);
    assert_int_equal(engine_check(&f->e, fid_of(1), "first", 5), DFS_ENOTFOUND);
    (void)id;
}

static void what_comes_during_a_sync_is_one_batch(void **state)
{
    struct fixture *f = *state;
    struct engine_op *ops = calloc(CROWD, sizeof *ops), hold = put_op(999, "hold", 4);
    uint64_t syncs, writes;

    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FDATASYNC), .path_has = ".dat", .first = 1,
                                   .delay_ms = FAULT_UNTIL_RELEASED});
    engine_start(&f->e, 0, &hold);
    while (fault_held() == 0)
        clock_sleep_ms(1);
    for (int i = 0; i < CROWD; i++) {
        ops[i] = put_op((uint64_t)i + 1, "0123456789", 10);
        engine_start(&f->e, (uint32_t)i % 2, &ops[i]);
    }
    clock_sleep_ms(50); /* all of them are queued; if not, there are two batches, never one answered early */
    syncs = fault_count(FAULT_FDATASYNC);
    writes = fault_count(FAULT_WRITE);
    fault_clear();
    fault_release();
    assert_int_equal(engine_wait(&hold), 0);
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(engine_wait(&ops[i]), 0);
    assert_true(fault_count(FAULT_FDATASYNC) - syncs <= 3);
    assert_true(fault_count(FAULT_WRITE) - writes <= 7); /* rows of the first, then data and rows of each */
    free(ops);
}

/* ---- limits and states ---- */

static void a_volume_ends_at_its_limit(void **state)
{
    struct fixture *f = *state;
    char data[10000];
    uint64_t key = 1;
    int rc;

    engine_fill(data, sizeof data, 4);
    store_set_size_limit(f->e.store, 100000);
    while ((rc = engine_put(&f->e, fid_of(key), data, sizeof data)) == 0)
        key++;
    assert_int_equal(rc, DFS_EFULL);
    assert_int_equal(key, 11);
    assert_in_range(info(f, VOLUME).dat_bytes, 100000, 100000 + sizeof data + 100); /* one record past it at most */
    assert_true((info(f, VOLUME).no_write & VOLUME_SEALED) != 0);
    assert_int_equal(engine_put(&f->e, fid_of(100), "x", 1), DFS_EFULL);
    assert_int_equal(engine_delete(&f->e, fid_of(1)), 0);
    assert_int_equal(engine_check(&f->e, fid_of(1), data, 1), DFS_ENOTFOUND);
    assert_int_equal(engine_check(&f->e, fid_of(2), data, sizeof data), 0);
}

static void what_fits_in_no_volume_has_one_to_itself(void **state)
{
    struct fixture *f = *state;
    char *data = malloc(300000);

    engine_fill(data, 300000, 5);
    store_set_size_limit(f->e.store, 100000);
    assert_int_equal(engine_put(&f->e, fid_of(1), data, 300000), 0);
    assert_int_equal(engine_put(&f->e, fid_of(2), data, 300000), DFS_EFULL);
    assert_int_equal(engine_check(&f->e, fid_of(1), data, 300000), 0);
    free(data);
}

static void states_refuse_what_they_must(void **state)
{
    static const struct {
        unsigned bit;
        int put, del;
    } table[] = {
        {VOLUME_SEALED, DFS_EFULL, 0},
        {VOLUME_DISK_LOW, DFS_ENOSPC, 0},
        {VOLUME_MARKED, DFS_EREADONLY, DFS_EREADONLY},
        {VOLUME_DAMAGED, DFS_EREADONLY, DFS_EREADONLY},
        {VOLUME_FLUSH_FAILED, DFS_EREADONLY, DFS_EREADONLY},
        {VOLUME_OFFLINE, DFS_EUNAVAILABLE, DFS_EUNAVAILABLE},
        {VOLUME_CLOSING, DFS_EUNAVAILABLE, DFS_EUNAVAILABLE},
        {VOLUME_LOADING, DFS_ELOADING, DFS_ELOADING},
        {VOLUME_UNMOUNTED, DFS_ENOVOLUME, DFS_ENOVOLUME},
        {VOLUME_BROKEN, DFS_EIO, DFS_EIO},
    };
    struct fixture *f = *state;
    struct volume *v = store_get(f->e.store, VOLUME);

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        uint64_t key = 1 + i;
        assert_int_equal(engine_put(&f->e, fid_of(key), "x", 1), 0);
        volume_set_no_write(v, table[i].bit, NULL);
        assert_int_equal(engine_put(&f->e, fid_of(key + 100), "x", 1), table[i].put);
        assert_int_equal(engine_delete(&f->e, fid_of(key)), table[i].del);
        volume_clear_no_write(v, table[i].bit);
    }
    volume_unref(v);
    assert_int_equal(engine_put(&f->e, (struct fid){77, 1, 1}, "x", 1), DFS_ENOVOLUME);
    assert_int_equal(engine_delete(&f->e, (struct fid){77, 1, 1}), DFS_ENOVOLUME);
}

/* ---- a failing disk ---- */

static void a_failed_write_leaves_no_trace(void **state)
{
    static const int errs[] = {EIO, ENOSPC};
    static const int codes[] = {DFS_EIO, DFS_ENOSPC};
    struct fixture *f = *state;
    char *big = malloc(1500000);
    struct volume_info before;

    engine_fill(big, 1500000, 6);
    assert_int_equal(engine_put(&f->e, fid_of(1), "old", 3), 0);
    before = info(f, VOLUME);
    for (size_t i = 0; i < 4; i++) {
        uint64_t asked = fault_count(FAULT_STATVFS);
        /* The first write, or one in the middle; whole or torn. */
        fault_add(&(struct fault_rule){.calls = FAULT(FAULT_WRITE), .path_has = ".dat", .first = i < 2 ? 1 : 3,
                                       .err = errs[i % 2], .tear = true, .tear_bytes = 1000});
        assert_int_equal(engine_put(&f->e, fid_of(1), big, 1500000), codes[i % 2]);
        /* What the refusal says of the free space is of now. */
        assert_true(errs[i % 2] != ENOSPC || fault_count(FAULT_STATVFS) > asked);
        fault_clear();
        assert_int_equal(engine_check(&f->e, fid_of(1), "old", 3), 0);
        assert_int_equal(info(f, VOLUME).dat_bytes, before.dat_bytes);
        assert_int_equal(info(f, VOLUME).file_count, before.file_count);
        assert_int_equal(info(f, VOLUME).no_write, 0);
    }
    assert_int_equal(engine_put(&f->e, fid_of(2), big, 1500000), 0);
    assert_int_equal(engine_check(&f->e, fid_of(2), big, 1500000), 0);
    reopen(f);
    assert_int_equal(info(f, VOLUME).no_write, 0);
    assert_int_equal(engine_check(&f->e, fid_of(1), "old", 3), 0);
    assert_int_equal(engine_check(&f->e, fid_of(2), big, 1500000), 0);
    free(big);
}

static void a_failed_flush_takes_back_and_closes_for_writing(void **state)
{
    struct fixture *f = *state;
    struct volume_info before;

    assert_int_equal(engine_put(&f->e, fid_of(1), "old", 3), 0);
    before = info(f, VOLUME);
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FDATASYNC), .path_has = ".dat", .first = 1, .err = EIO});
    assert_int_equal(engine_put(&f->e, fid_of(1), "new", 3), DFS_EIO);
    fault_clear();
    assert_int_equal(engine_check(&f->e, fid_of(1), "old", 3), 0);
    assert_int_equal(info(f, VOLUME).dat_bytes, before.dat_bytes);
    assert_int_equal(info(f, VOLUME).file_count, before.file_count);
    assert_int_equal(info(f, VOLUME).delete_count, before.delete_count);
    assert_true((info(f, VOLUME).no_write & VOLUME_FLUSH_FAILED) != 0);
    assert_int_equal(engine_put(&f->e, fid_of(2), "more", 4), DFS_EREADONLY);
    reopen(f);
    assert_int_equal(engine_check(&f->e, fid_of(1), "old", 3), 0);
    assert_int_equal(engine_check(&f->e, fid_of(2), "more", 4), DFS_ENOTFOUND);
}

static void a_volume_that_cannot_be_cut_is_closed_for_writing(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(engine_put(&f->e, fid_of(1), "old", 3), 0);
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_WRITE), .path_has = ".dat", .first = 1, .err = EIO, .tear = true,
                                   .tear_bytes = 20});
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FTRUNCATE), .path_has = ".dat", .first = 1, .err = EIO});
    assert_int_equal(engine_put(&f->e, fid_of(2), "torn", 4), DFS_EIO);
    fault_clear();
    assert_true((info(f, VOLUME).no_write & VOLUME_FLUSH_FAILED) != 0);
    reopen(f);
    assert_int_equal(engine_check(&f->e, fid_of(1), "old", 3), 0);
    assert_int_equal(engine_check(&f->e, fid_of(2), "torn", 4), DFS_ENOTFOUND);
    assert_int_equal(engine_put(&f->e, fid_of(3), "again", 5), 0);
}

static void rows_that_cannot_be_written_wait(void **state)
{
    struct fixture *f = *state;

    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_WRITE), .path_has = ".idx", .first = 1, .every = 1, .err = ENOSPC});
    for (uint64_t key = 1; key <= 5; key++)
        assert_int_equal(engine_put(&f->e, fid_of(key), "data", 4), 0);
    fault_clear();
    assert_int_equal(engine_put(&f->e, fid_of(6), "data", 4), 0);
    reopen(f);
    for (uint64_t key = 1; key <= 6; key++)
        assert_int_equal(engine_check(&f->e, fid_of(key), "data", 4), 0);
}

static void deletes_survive_a_full_disk(void **state)
{
    struct fixture *f = *state;
    char data[50000];
    struct engine_op hold = put_op(99, "hold", 4), put = put_op(2, data, sizeof data), del = delete_op(1);

    engine_fill(data, sizeof data, 7);
    assert_int_equal(engine_put(&f->e, fid_of(1), data, sizeof data), 0);
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FDATASYNC), .path_has = ".dat", .first = 1,
                                   .delay_ms = FAULT_UNTIL_RELEASED});
    engine_start(&f->e, 0, &hold);
    while (fault_held() == 0)
        clock_sleep_ms(1);
    engine_start(&f->e, 0, &put);
    engine_start(&f->e, 0, &del);
    clock_sleep_ms(20);
    fault_clear();
    /* The batch of both does not fit; alone the tombstone does. */
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_WRITE), .path_has = ".dat", .first = 1, .err = ENOSPC});
    fault_release();
    assert_int_equal(engine_wait(&hold), 0);
    assert_int_equal(engine_wait(&put), DFS_ENOSPC);
    assert_int_equal(engine_wait(&del), 0);
    assert_int_equal(engine_check(&f->e, fid_of(1), data, sizeof data), DFS_ENOTFOUND);
    assert_int_equal(engine_check(&f->e, fid_of(99), "hold", 4), 0);
}

/* ---- durability ---- */

static uint64_t syncs_of(struct fixture *f, struct engine_op *op)
{
    uint64_t before = fault_count(FAULT_FDATASYNC);

    assert_int_equal(run(f, op), 0);
    engine_release(op);
    return fault_count(FAULT_FDATASYNC) - before;
}

static void the_mode_says_who_waits_for_a_sync(void **state)
{
    struct fixture *f = *state;
    struct engine_op op = put_op(1, "a", 1);

    assert_int_equal(syncs_of(f, &op), 1); /* group */
    engine_close(&f->e);
    f->o.durability = DURABILITY_NONE;
    engine_open(&f->e, &f->o, 2);
    op = put_op(2, "a", 1);
    assert_int_equal(syncs_of(f, &op), 0);
    op = put_op(3, "a", 1);
    op.write.durability = DURABILITY_GROUP;
    assert_int_equal(syncs_of(f, &op), 1);
    /* Unchanged, but not known to be on the disk. */
    op = put_op(4, "abc", 3);
    assert_int_equal(syncs_of(f, &op), 0);
    op = put_op(4, "abc", 3);
    assert_int_equal(syncs_of(f, &op), 0);
    op = put_op(4, "abc", 3);
    op.write.durability = DURABILITY_GROUP;
    assert_int_equal(syncs_of(f, &op), 1);
    op = put_op(4, "abc", 3);
    op.write.durability = DURABILITY_GROUP;
    assert_int_equal(syncs_of(f, &op), 0);
    op = delete_op(4);
    op.write.durability = DURABILITY_GROUP;
    assert_int_equal(syncs_of(f, &op), 1);
}

static void what_is_queued_is_answered_before_the_end(void **state)
{
    struct fixture *f = *state;
    struct engine_op *ops = calloc(CROWD, sizeof *ops);
    int stored = 0;

    for (int i = 0; i < CROWD; i++) {
        ops[i] = put_op((uint64_t)i + 1, "queued", 6);
        engine_start(&f->e, (uint32_t)i % 2, &ops[i]);
    }
    assert_int_equal(engine_wait(&ops[0]), 0);
    sem_post(&ops[0].done);
    store_stop(f->e.store);
    for (int i = 0; i < CROWD; i++) {
        int rc = engine_wait(&ops[i]);
        assert_true(rc == 0 || rc == DFS_EUNAVAILABLE);
    }
    reopen(f);
    for (int i = 0; i < CROWD; i++) {
        int rc = engine_check(&f->e, fid_of((uint64_t)i + 1), "queued", 6);
        assert_int_equal(rc, ops[i].rc == 0 ? 0 : DFS_ENOTFOUND);
        stored += rc == 0;
        engine_release(&ops[i]);
    }
    print_message("%d of %d were stored\n", stored, CROWD);
    free(ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_size_comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(every_version_comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_said_of_it_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(a_needle_inherits_the_ttl, setup, teardown),
        cmocka_unit_test_setup_teardown(a_wrong_cookie_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(the_same_again_is_not_appended, setup, teardown),
        cmocka_unit_test_setup_teardown(ttl_makes_every_rewrite_a_change, setup, teardown),
        cmocka_unit_test_setup_teardown(times_rise_and_given_ones_are_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(writes_of_one_key_have_an_order, setup, teardown),
        cmocka_unit_test_setup_teardown(a_put_of_another_cookie_loses_in_the_same_batch, setup, teardown),
        cmocka_unit_test_setup_teardown(what_comes_during_a_sync_is_one_batch, setup, teardown),
        cmocka_unit_test_setup_teardown(a_volume_ends_at_its_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(what_fits_in_no_volume_has_one_to_itself, setup, teardown),
        cmocka_unit_test_setup_teardown(states_refuse_what_they_must, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_write_leaves_no_trace, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_flush_takes_back_and_closes_for_writing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_volume_that_cannot_be_cut_is_closed_for_writing, setup, teardown),
        cmocka_unit_test_setup_teardown(rows_that_cannot_be_written_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(deletes_survive_a_full_disk, setup, teardown),
        cmocka_unit_test_setup_teardown(the_mode_says_who_waits_for_a_sync, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_queued_is_answered_before_the_end, setup, teardown),
    };

    log_threshold = LOG_ERROR + 1;
    if (rand_init() != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
