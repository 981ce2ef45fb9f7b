/* Opening volumes that something happened to.  Those that the peer wrote are in test_volume_peer.c. */
#include "volume/volume.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "needle/err.h"
#include "needle/needle.h"
#include "net/log.h"
#include "tests/support/tmpdir.h"
#include "tests/support/volume_rig.h"

/* Big enough to be looked at as a whole, and not so big that a run over every damage takes long. */
#define SIZE(key) (100 + (size_t)(key) * 7 % 400)

static char *dir;

static int setup(void **state)
{
    (void)state;
    log_threshold = getenv("DFS_TEST_LOG") != NULL ? LOG_INFO : LOG_ERROR + 1;
    dir = tmpdir_new("load");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tmpdir_free(dir);
    return 0;
}

/* ---- made by hand ---- */

#define N 40u

static void build(struct rig_volume *b, uint8_t version, unsigned width)
{
    vrig_volume_init(b, version, width);
    for (uint64_t key = 1; key <= N; key++)
        vrig_put_n(b, key, SIZE(key));
}

/* Opens the folder twice (a repair must hold), expects keys 1 to N but those in `gone`, and returns the info of volume 7. */
static void expect(const uint64_t *gone, size_t gone_count, struct volume_info *info)
{
    for (int again = 0; again < 2; again++) {
        struct store *s = vrig_open(dir);

        for (uint64_t key = 1; key <= N; key++) {
            bool is_gone = false;

            for (size_t i = 0; i < gone_count; i++)
                is_gone |= gone[i] == key;
            if (is_gone ? vrig_get(s, 7, key, RIG_COOKIE, NULL, NULL) == 0 : !vrig_holds(s, 7, key, SIZE(key)))
                fail_msg("key %" PRIu64 " is %s, opening %d", key, is_gone ? "there" : "not there", again);
        }
        vrig_info(s, 7, info);
        vrig_close(s);
    }
}

static void remove_file(const char *name)
{
    char *path = tmpdir_path(dir, name);

    assert_int_equal(unlink(path), 0);
    free(path);
}

static void test_key_sorted_index(void **state)
{
    struct rig_volume b;
    struct volume_info info;
    unsigned char before[32], after[32];

    (void)state;
    vrig_volume_init(&b, NEEDLE_V3, 5);
    for (uint64_t key = N; key >= 1; key--)
        vrig_put_n(&b, key, SIZE(key));
    vrig_sort_rows(&b, true);
    vrig_write(&b, dir, "7", true);
    vrig_hash(dir, "7.idx", before);
    expect(NULL, 0, &info);
    assert_int_equal(info.no_write, 0);
    assert_int_equal(info.file_count, N);
    vrig_hash(dir, "7.idx", after);
    assert_memory_equal(before, after, 32); /* it covers the data: nothing to write anew */
    vrig_volume_release(&b);
}

/* As `weed fix` leaves it: one row for each live id; superseded records and tombstones are gaps. */
static void fixed_index(bool by_key)
{
    static const uint64_t gone[] = {3, 17};
    struct rig_volume b;
    struct volume_info info;
    struct idx_row live[N + 1];
    uint32_t n = 0;
    char old[50];

    build(&b, NEEDLE_V3, 5);
    memset(old, 'x', sizeof old);
    vrig_volume_release(&b);
    vrig_volume_init(&b, NEEDLE_V3, 5);
    for (uint64_t key = 1; key <= N; key++)
        vrig_put(&b, key, RIG_COOKIE, old, sizeof old); /* all superseded */
    for (uint64_t key = N; key >= 1; key--)
        vrig_put_n(&b, key, SIZE(key));
    vrig_delete(&b, 3, RIG_COOKIE, 77);
    vrig_delete(&b, 17, 0, 0);
    for (uint32_t i = N; i < 2 * N; i++)
        if (b.rows[i].key != 3 && b.rows[i].key != 17)
            live[n++] = b.rows[i];
    memcpy(b.rows, live, n * sizeof *live);
    b.count = n;
    vrig_sort_rows(&b, by_key);
    vrig_write(&b, dir, "7", true);
    expect(gone, 2, &info);
    assert_int_equal(info.no_write, 0);
    assert_int_equal(info.live_count, N - 2);
    assert_int_equal(info.file_count, 2 * N);
    assert_int_equal(info.delete_count, N + 2);
    assert_true(vrig_tiles(dir, "7", NEEDLE_V3, 5));
    vrig_volume_release(&b);
}

static void test_fixed_index_by_key(void **state)
{
    (void)state;
    fixed_index(true);
}

static void test_fixed_index_by_offset(void **state)
{
    (void)state;
    fixed_index(false);
}

/* Rows (id, 0, -1): the id is deleted, and its old records must not come back from gaps. */
static void test_tombstone_without_place(void **state)
{
    static const uint64_t gone[] = {5, 6};
    struct rig_volume b;
    struct volume_info info;

    (void)state;
    build(&b, NEEDLE_V3, 5);
    vrig_add_row(&b, 5, 0, IDX_SIZE_TOMBSTONE); /* its put has a row */
    memmove(&b.rows[5], &b.rows[6], (b.count - 6) * sizeof *b.rows);
    b.count--;
    vrig_add_row(&b, 6, 0, IDX_SIZE_TOMBSTONE); /* its put is a gap */
    vrig_write(&b, dir, "7", true);
    expect(gone, 2, &info);
    assert_int_equal(info.no_write, 0);
    vrig_volume_release(&b);
}

/* Written again after such a tombstone, and the row of that was lost. */
static void test_put_after_tombstone_without_place(void **state)
{
    struct rig_volume b;
    struct volume_info info;
    char old[50] = "old";

    (void)state;
    vrig_volume_init(&b, NEEDLE_V3, 5);
    vrig_put(&b, 9, RIG_COOKIE, old, sizeof old);
    vrig_add_row(&b, 9, 0, IDX_SIZE_TOMBSTONE);
    for (uint64_t key = 1; key <= N; key++)
        vrig_put_n(&b, key, SIZE(key));
    for (uint32_t i = 0; i < b.count; i++)
        if (b.rows[i].key == 9 && needle_offset_bytes(b.rows[i].offset) > 100) {
            memmove(&b.rows[i], &b.rows[i + 1], (b.count - i - 1) * sizeof *b.rows);
            b.count--;
            break;
        }
    vrig_write(&b, dir, "7", true);
    expect(NULL, 0, &info);
    assert_int_equal(info.no_write, 0);
    vrig_volume_release(&b);
}

static void test_cookie_zero_tombstone_in_tail(void **state)
{
    static const uint64_t gone[] = {11, 12, 13};
    struct rig_volume b;
    struct volume_info info;

    (void)state;
    build(&b, NEEDLE_V3, 5);
    vrig_delete(&b, 11, NEEDLE_COOKIE_BATCH_DELETE, 0);
    vrig_drop_row(&b);
    vrig_delete(&b, 12, NEEDLE_COOKIE_CATCH_UP, 0);
    vrig_drop_row(&b);
    vrig_delete(&b, 13, RIG_COOKIE, 1234);
    vrig_drop_row(&b);
    vrig_write(&b, dir, "7", true);
    expect(gone, 3, &info);
    assert_int_equal(info.no_write, 0);
    assert_int_equal(info.delete_count, 3);
    assert_true(vrig_tiles(dir, "7", NEEDLE_V3, 5));
    vrig_volume_release(&b);
}

/* The size of a row lies in a sector that was not written: the row of a tombstone reads as that of an empty file, and a tombstone
 * has the shape of one.  What stood behind it in that sector is gone as well. */
enum behind_torn { NOTHING, ZEROS, SECTOR_END, BEHIND_KINDS };

static void tombstone_row_torn(enum behind_torn behind, uint32_t cookie, uint32_t checksum)
{
    static const uint64_t gone[] = {11};
    struct rig_volume b;
    struct volume_info info;

    build(&b, NEEDLE_V3, 5);
    /* The size of row 451 begins at a multiple of 512. */
    for (uint64_t key = 2000; behind == SECTOR_END && b.count < 451; key++)
        vrig_put_n(&b, key, 10);
    vrig_delete(&b, 11, cookie, checksum);
    b.rows[b.count - 1].size = 0;
    if (behind == ZEROS)
        vrig_add_row(&b, 0, 0, 0);
    if (behind != NOTHING)
        vrig_put(&b, 1000, RIG_COOKIE, "", 0); /* this one is an empty file */
    vrig_write(&b, dir, "7", true);
    expect(gone, 1, &info);
    if (behind != NOTHING) {
        struct store *s = vrig_open(dir);

        assert_true(vrig_holds(s, 7, 1000, 0));
        vrig_close(s);
    }
    assert_true(vrig_tiles(dir, "7", NEEDLE_V3, 5));
    vrig_volume_release(&b);
}

static void test_tombstone_row_torn_to_zero(void **state)
{
    (void)state;
    for (enum behind_torn behind = 0; behind < BEHIND_KINDS; behind++) {
        tombstone_row_torn(behind, RIG_COOKIE, 1234);
        tombstone_row_torn(behind, NEEDLE_COOKIE_BATCH_DELETE, 0);
    }
}

static void test_empty_file_in_tail(void **state)
{
    struct rig_volume b;
    struct volume_info info;
    struct store *s;

    (void)state;
    build(&b, NEEDLE_V3, 5);
    vrig_put(&b, 1000, RIG_COOKIE, "", 0);
    vrig_drop_row(&b);
    vrig_write(&b, dir, "7", true);
    expect(NULL, 0, &info);
    s = vrig_open(dir);
    assert_int_equal(vrig_get(s, 7, 1000, RIG_COOKIE, NULL, NULL), 0);
    vrig_close(s);
    vrig_volume_release(&b);
}

/* Each length that a crash may leave of the last record, with and without its row. */
static void torn_tail(uint8_t version, unsigned width, bool with_row)
{
    static const uint64_t gone[] = {N};
    struct rig_volume b;

    build(&b, version, width);
    if (!with_row)
        vrig_drop_row(&b);
    uint64_t last = needle_offset_bytes(b.rows[N - 1].offset);
    for (uint64_t cut = last + 1; cut < b.dat_bytes; cut += cut < last + 40 || cut + 40 > b.dat_bytes ? 1 : 29) {
        struct volume_info info;
        char *own = tmpdir_new("torn"), *saved = dir;

        dir = own;
        vrig_write(&b, dir, "7", version == NEEDLE_V3);
        vrig_truncate(dir, "7.dat", cut);
        expect(gone, 1, &info);
        assert_int_equal(info.no_write, 0);
        assert_int_equal(vrig_file_bytes(dir, "7.dat"), last);
        assert_true(vrig_tiles(dir, "7", version, width));
        assert_int_equal(info.cut_bytes, cut - last);
        dir = saved;
        tmpdir_free(own);
    }
    vrig_volume_release(&b);
}

static void test_torn_tail(void **state)
{
    (void)state;
    torn_tail(NEEDLE_V3, 5, true);
    torn_tail(NEEDLE_V3, 5, false);
    torn_tail(NEEDLE_V3, 4, true);
    torn_tail(NEEDLE_V2, 4, true);
    torn_tail(NEEDLE_V2, 4, false);
    torn_tail(NEEDLE_V1, 4, true);
}

static void test_zero_tail(void **state)
{
    static const char zeros[9000];
    struct rig_volume b;
    struct volume_info info;
    struct store *s;
    uint64_t end;

    (void)state;
    build(&b, NEEDLE_V3, 5);
    end = b.dat_bytes;
    vrig_append(&b, zeros, sizeof zeros);
    vrig_write(&b, dir, "7", true);
    /* Each killed server leaves some: nothing was torn. */
    s = vrig_open(dir);
    vrig_info(s, 7, &info);
    assert_non_null(strstr(info.reason, "zeros ahead of the data"));
    vrig_close(s);
    expect(NULL, 0, &info);
    assert_int_equal(info.no_write, 0);
    assert_int_equal(vrig_file_bytes(dir, "7.dat"), end);
    assert_int_equal(info.cut_bytes, 0);
    vrig_volume_release(&b);
}

/* A byte in the last record's data, which has no row: torn.  With a row: it was whole once, and stays. */
static void test_flip_in_last(void **state)
{
    static const uint64_t gone[] = {N};
    struct rig_volume b;
    struct volume_info info;
    uint64_t last;

    (void)state;
    build(&b, NEEDLE_V3, 5);
    last = needle_offset_bytes(b.rows[N - 1].offset);
    b.dat[last + 40] ^= 1;
    vrig_write(&b, dir, "7", true);
    expect(gone, 1, &info);
    assert_int_equal(vrig_file_bytes(dir, "7.dat"), b.dat_bytes);
    assert_int_equal(info.live_count, N);
    vrig_truncate(dir, "7.idx", (N - 1) * 17);
    expect(gone, 1, &info);
    assert_int_equal(vrig_file_bytes(dir, "7.dat"), last);
    assert_int_equal(info.no_write, 0);
    vrig_volume_release(&b);
}

/* ---- damage in the middle, the index missing (G06, G40) ---- */

static void test_missing_index(void **state)
{
    static const uint64_t gone[] = {2, 30};
    struct rig_volume b;
    struct volume_info with, without;

    (void)state;
    build(&b, NEEDLE_V3, 5);
    vrig_delete(&b, 2, RIG_COOKIE, 99);
    vrig_put_n(&b, 4, SIZE(4));
    vrig_delete(&b, 30, RIG_COOKIE, 98);
    vrig_write(&b, dir, "7", true);
    expect(gone, 2, &with);
    remove_file("7.idx");
    expect(gone, 2, &without);
    assert_int_equal(without.no_write, 0);
    assert_int_equal(with.file_count, without.file_count);
    assert_int_equal(with.delete_count, without.delete_count);
    assert_int_equal(with.deleted_bytes, without.deleted_bytes);
    assert_int_equal(with.file_bytes, without.file_bytes);
    vrig_volume_release(&b);
}

static void test_header_destroyed_without_index(void **state)
{
    static const uint64_t gone[] = {20};
    struct rig_volume b;
    struct volume_info info;
    unsigned char before[32], after[32];

    (void)state;
    build(&b, NEEDLE_V3, 5);
    memset(b.dat + needle_offset_bytes(b.rows[19].offset), 0xff, 40);
    b.count = 0;
    vrig_write(&b, dir, "7", true);
    remove_file("7.idx");
    vrig_hash(dir, "7.dat", before);
    expect(gone, 1, &info);
    assert_true((info.no_write & VOLUME_DAMAGED) != 0);
    assert_true(info.reason[0] != '\0');
    vrig_hash(dir, "7.dat", after);
    assert_memory_equal(before, after, 32);
    vrig_volume_release(&b);
}

static void test_header_destroyed_with_index(void **state)
{
    static const uint64_t gone[] = {20};
    struct rig_volume b;
    struct volume_info info;
    unsigned char before[2][32], after[2][32];

    (void)state;
    build(&b, NEEDLE_V3, 5);
    memset(b.dat + needle_offset_bytes(b.rows[19].offset), 0xff, 40);
    vrig_write(&b, dir, "7", true);
    vrig_hash(dir, "7.dat", before[0]);
    vrig_hash(dir, "7.idx", before[1]);
    expect(gone, 1, &info);
    assert_int_equal(info.live_count, N); /* listed, and an error when read */
    vrig_hash(dir, "7.dat", after[0]);
    vrig_hash(dir, "7.idx", after[1]);
    assert_memory_equal(before, after, 64);
    vrig_volume_release(&b);
}

static void test_flip_in_middle_without_index(void **state)
{
    static const uint64_t gone[] = {20, 21};
    struct rig_volume b;
    struct volume_info info;

    (void)state;
    build(&b, NEEDLE_V3, 5);
    b.dat[needle_offset_bytes(b.rows[19].offset) + 50] ^= 4;
    b.dat[needle_offset_bytes(b.rows[20].offset) + 50] ^= 4;
    b.count = 0;
    vrig_write(&b, dir, "7", true);
    remove_file("7.idx");
    expect(gone, 2, &info);
    assert_int_equal(info.no_write, 0);
    assert_int_equal(info.live_count, N); /* known, and an error when read, so that a sister can mend it */
    assert_true(vrig_tiles(dir, "7", NEEDLE_V3, 5));
    vrig_volume_release(&b);
}

/* A page that was lost. */
static void test_zero_page_in_dat(void **state)
{
    struct rig_volume b;
    struct volume_info info;
    uint64_t gone[N];
    size_t gone_count = 0;

    (void)state;
    build(&b, NEEDLE_V3, 5);
    memset(b.dat + 4096, 0, 4096);
    for (uint32_t i = 0; i < N; i++) {
        uint64_t from = needle_offset_bytes(b.rows[i].offset), to = from + needle_record_bytes(NEEDLE_V3, b.rows[i].size);
        if (to > 4096 && from < 8192)
            gone[gone_count++] = b.rows[i].key;
    }
    vrig_write(&b, dir, "7", true);
    expect(gone, gone_count, &info);
    assert_int_equal(info.no_write, 0);
    assert_int_equal(info.live_count, N);
    vrig_truncate(dir, "7.idx", 0);
    vrig_truncate(dir, "7.ckp", 0);
    expect(gone, gone_count, &info); /* those behind are found, the others are not made up */
    vrig_volume_release(&b);
}

/* ---- a blob that contains a volume ---- */

static void inner_volume(struct rig_volume *inner)
{
    vrig_volume_init(inner, NEEDLE_V3, 5);
    for (uint64_t key = 1; key <= 10; key++)
        vrig_put(inner, key, RIG_COOKIE, "EVIL EVIL EVIL EVIL", 19);
    for (uint64_t key = 2000; key <= 2010; key++)
        vrig_put(inner, key, RIG_COOKIE, "EVIL EVIL EVIL EVIL", 19);
    vrig_delete(inner, 11, RIG_COOKIE, 5);
}

static void expect_no_evil(const uint64_t *gone, size_t gone_count)
{
    struct volume_info info;
    struct store *s;

    expect(gone, gone_count, &info);
    s = vrig_open(dir);
    for (uint64_t key = 2000; key <= 2010; key++)
        assert_int_equal(vrig_get(s, 7, key, RIG_COOKIE, NULL, NULL), DFS_ENOTFOUND);
    vrig_close(s);
}

static void test_blob_with_a_volume_inside(void **state)
{
    (void)state;
    for (int damage = 0; damage < 6; damage++) {
        for (int round = 0; round < 4; round++) {
            int where = round & 1;      /* in the middle, last */
            int missing = round >> 1;   /* no rows, or no file of them */
            struct rig_volume b, inner;
            uint64_t pos = 0;
            char *own = tmpdir_new("blob"), *saved = dir;

            dir = own;
            inner_volume(&inner);
            vrig_volume_init(&b, NEEDLE_V3, 5);
            for (uint64_t key = 1; key <= N; key++) {
                if (key == 20 && where == 0)
                    pos = vrig_put(&b, 500, RIG_COOKIE, inner.dat, inner.dat_bytes);
                vrig_put_n(&b, key, SIZE(key));
            }
            if (where == 1)
                pos = vrig_put(&b, 500, RIG_COOKIE, inner.dat, inner.dat_bytes);
            if (damage >= 1)
                b.count = 0; /* no index */
            if (damage == 2)
                memset(b.dat + pos, 0xff, 16); /* its header gone */
            if (damage == 3)
                b.dat[pos + 100] ^= 1;
            if (damage == 4)
                be32_put(b.dat + pos + 12, be32_get(b.dat + pos + 12) - 8); /* a Size that is not */
            if (damage == 5)
                memset(b.dat + pos, 0, 20);
            vrig_write(&b, dir, "7", true);
            if (damage >= 1 && missing == 1)
                remove_file("7.idx");
            expect_no_evil(NULL, 0);
            vrig_volume_release(&b);
            vrig_volume_release(&inner);
            dir = saved;
            tmpdir_free(own);
        }
    }
}

/* The same blob, torn at each of its records' ends and elsewhere: what was inside is not served. */
static void test_torn_blob_with_a_volume_inside(void **state)
{
    struct rig_volume b, inner;
    uint64_t pos;

    (void)state;
    inner_volume(&inner);
    build(&b, NEEDLE_V3, 5);
    pos = vrig_put(&b, 500, RIG_COOKIE, inner.dat, inner.dat_bytes);
    vrig_drop_row(&b);
    for (uint64_t cut = pos + 8; cut < b.dat_bytes; cut += 4) {
        char *own = tmpdir_new("blob"), *saved = dir;

        dir = own;
        vrig_write(&b, dir, "7", true);
        vrig_truncate(dir, "7.dat", cut);
        expect_no_evil(NULL, 0);
        assert_int_equal(vrig_file_bytes(dir, "7.dat"), pos);
        dir = saved;
        tmpdir_free(own);
    }
    vrig_volume_release(&b);
    vrig_volume_release(&inner);
}

/* ---- rows that are wrong ---- */

static void test_rows_past_the_end(void **state)
{
    struct rig_volume b;
    struct volume_info info;

    (void)state;
    build(&b, NEEDLE_V3, 5);
    vrig_add_row(&b, 900, b.dat_bytes, 100);
    vrig_add_row(&b, 901, (uint64_t)1 << 39, 100);
    vrig_write(&b, dir, "7", true);
    expect(NULL, 0, &info);
    assert_int_equal(info.no_write, 0);
    assert_int_equal(info.live_count, N);
    assert_true(vrig_tiles(dir, "7", NEEDLE_V3, 5));
    vrig_volume_release(&b);
}

static void test_duplicate_rows(void **state)
{
    struct rig_volume b;
    struct volume_info info;

    (void)state;
    build(&b, NEEDLE_V3, 5);
    for (uint32_t i = 0; i < N; i += 3)
        vrig_add_row(&b, b.rows[i].key, needle_offset_bytes(b.rows[i].offset), b.rows[i].size);
    vrig_write(&b, dir, "7", true);
    expect(NULL, 0, &info);
    assert_int_equal(info.file_count, N);
    assert_int_equal(info.delete_count, 0);
    assert_true(vrig_tiles(dir, "7", NEEDLE_V3, 5));
    vrig_volume_release(&b);
}

static void test_wrong_size(void **state)
{
    (void)state;
    for (int delta = -64; delta <= 64; delta += 8) {
        for (uint32_t i = 0; i < N; i += N - 1) {
            struct rig_volume b;
            struct volume_info info;
            char *own = tmpdir_new("size"), *saved = dir;

            dir = own;
            build(&b, NEEDLE_V3, 5);
            b.rows[i].size += (uint32_t)delta;
            vrig_write(&b, dir, "7", true);
            expect(NULL, 0, &info);
            assert_int_equal(info.no_write, 0);
            assert_int_equal(info.live_count, N);
            assert_true(vrig_tiles(dir, "7", NEEDLE_V3, 5));
            vrig_volume_release(&b);
            dir = saved;
            tmpdir_free(own);
        }
    }
}

static void test_partial_row(void **state)
{
    (void)state;
    for (unsigned cut = 1; cut <= 40; cut++) {
        struct rig_volume b;
        struct volume_info info;
        char *own = tmpdir_new("partial"), *saved = dir;

        dir = own;
        build(&b, NEEDLE_V3, cut % 2 == 0 ? 4 : 5);
        vrig_write(&b, dir, "7", true);
        vrig_truncate(dir, "7.idx", vrig_file_bytes(dir, "7.idx") - cut);
        expect(NULL, 0, &info);
        assert_int_equal(info.no_write, 0);
        assert_int_equal(info.live_count, N);
        assert_true(vrig_tiles(dir, "7", NEEDLE_V3, b.width));
        vrig_volume_release(&b);
        dir = saved;
        tmpdir_free(own);
    }
}

/* Pages of an index that were lost, at every offset of a row. */
static void test_zeros_in_index(void **state)
{
    static const uint64_t gone[] = {4};
    static const char zeros[8192];

    (void)state;
    for (unsigned from = 0; from <= 17 * 5; from++) {
        for (unsigned n = 5; n < 17 * 20; n += 31) {
            struct rig_volume b;
            struct volume_info info;
            char *own = tmpdir_new("zeros"), *saved = dir;

            if (n % 3 != 0 && from % 4 != 0)
                goto next;
            dir = own;
            build(&b, NEEDLE_V3, 5);
            vrig_delete(&b, 4, RIG_COOKIE, 5);
            vrig_write(&b, dir, "7", true);
            vrig_overwrite(dir, "7.idx", 17 * 10 + from, zeros, n);
            expect(gone, 1, &info);
            assert_int_equal(info.no_write, 0);
            assert_int_equal(info.live_count, N - 1);
            vrig_volume_release(&b);
            dir = saved;
        next:
            tmpdir_free(own);
        }
    }
}

/* Sectors of it that hold anything. */
static void test_garbage_in_index(void **state)
{
    static const uint64_t gone[] = {4};
    uint32_t r = 12345;

    (void)state;
    for (unsigned round = 0; round < 400; round++) {
        struct rig_volume b;
        struct volume_info info;
        char *own = tmpdir_new("garbage"), *saved = dir, junk[170];
        unsigned at, n;

        dir = own;
        for (size_t i = 0; i < sizeof junk; i++) {
            r = r * 1664525u + 1013904223u;
            junk[i] = (char)(r >> 24);
        }
        at = round % 171;
        n = 20 + (r >> 8) % 150;
        build(&b, NEEDLE_V3, 5);
        vrig_delete(&b, 4, RIG_COOKIE, 5);
        vrig_write(&b, dir, "7", true);
        vrig_overwrite(dir, "7.idx", 170 + at, junk, n);
        expect(gone, 1, &info);
        assert_int_equal(info.no_write, 0);
        assert_int_equal(info.live_count, N - 1);
        vrig_volume_release(&b);
        dir = saved;
        tmpdir_free(own);
    }
}

/* Rows that say id A for a record of id B (a torn page again): the record decides. */
static void test_index_of_another_volume(void **state)
{
    struct rig_volume b, other;
    struct volume_info info;

    (void)state;
    build(&b, NEEDLE_V3, 5);
    vrig_volume_init(&other, NEEDLE_V3, 5);
    for (uint64_t key = 100; key < 130; key++)
        vrig_put_n(&other, key, 333);
    vrig_write(&other, dir, "7", true);
    vrig_write_file(dir, "7.dat", b.dat, b.dat_bytes);
    expect(NULL, 0, &info);
    assert_int_equal(info.live_count, N);
    vrig_volume_release(&b);
    vrig_volume_release(&other);
}

/* ---- how wide? ---- */

static void test_width_without_vif(void **state)
{
    (void)state;
    for (unsigned width = 4; width <= 5; width++) {
        for (unsigned count = 1; count <= N; count += 13) {
            struct rig_volume b;
            struct store *s;
            char *own = tmpdir_new("width");

            vrig_volume_init(&b, NEEDLE_V3, width);
            for (uint64_t key = 1; key <= count; key++)
                vrig_put_n(&b, key, SIZE(key));
            vrig_write(&b, own, "7", false);
            for (int again = 0; again < 2; again++) {
                s = vrig_open(own);
                for (uint64_t key = 1; key <= count; key++)
                    assert_true(vrig_holds(s, 7, key, SIZE(key)));
                vrig_close(s);
            }
            assert_true(vrig_tiles(own, "7", NEEDLE_V3, width));
            vrig_volume_release(&b);
            tmpdir_free(own);
        }
    }
}

static void test_vif_with_the_wrong_width(void **state)
{
    static const char vif[] = "{\"version\": 3, \"bytesOffset\": 5}";
    struct rig_volume b;
    struct volume_info info;

    (void)state;
    build(&b, NEEDLE_V3, 4);
    vrig_write(&b, dir, "7", false);
    vrig_write_file(dir, "7.vif", vif, sizeof vif - 1);
    expect(NULL, 0, &info);
    assert_int_equal(info.no_write, 0);
    assert_true(vrig_tiles(dir, "7", NEEDLE_V3, 5));
    vrig_volume_release(&b);
}

/* ---- one bad volume is one bad volume (G11, G52) ---- */

static void test_stumps(void **state)
{
    static const char *const names[] = {"7.dat", "7.idx", "7.vif", "7.ckp", "7.cpd", "7.cpx", "7.cpc", "vol_dir.uuid"};
    static const char zeros[8];

    (void)state;
    for (size_t which = 0; which < sizeof names / sizeof *names; which++) {
        for (size_t n = 0; n <= 8; n++) {
            struct rig_volume b, other;
            struct store *s;
            char *own = tmpdir_new("stump");
            size_t got;
            char *left;

            build(&b, NEEDLE_V3, 5);
            vrig_write(&b, own, "7", true);
            vrig_volume_init(&other, NEEDLE_V3, 5);
            vrig_put_n(&other, 77, 100);
            vrig_write(&other, own, "x_8", true);
            vrig_write_file(own, names[which], zeros, n);
            s = vrig_open(own);
            assert_true(vrig_holds(s, 8, 77, 100));
            if (which == 0)
                assert_int_equal(vrig_get(s, 7, 1, RIG_COOKIE, NULL, NULL), DFS_EUNAVAILABLE);
            else
                for (uint64_t key = 1; key <= N; key++)
                    assert_true(vrig_holds(s, 7, key, SIZE(key)));
            vrig_close(s);
            if (which == 0) { /* not touched */
                left = vrig_read_file(own, "7.dat", &got);
                assert_int_equal(got, n);
                assert_memory_equal(left, zeros, n);
                free(left);
            }
            vrig_volume_release(&b);
            vrig_volume_release(&other);
            tmpdir_free(own);
        }
    }
}

static void test_unknown_version(void **state)
{
    struct rig_volume b;
    struct volume_info info;
    struct store *s;
    unsigned char before[32], after[32];

    (void)state;
    build(&b, NEEDLE_V3, 5);
    b.dat[0] = 9;
    vrig_write(&b, dir, "7", true);
    vrig_hash(dir, "7.dat", before);
    s = vrig_open(dir);
    vrig_info(s, 7, &info);
    assert_true((info.no_write & VOLUME_BROKEN) != 0);
    assert_non_null(strstr(info.reason, "version 9"));
    vrig_close(s);
    vrig_hash(dir, "7.dat", after);
    assert_memory_equal(before, after, 32);
    vrig_volume_release(&b);
}

/* Every byte of a small volume's .dat flipped, with and without the index: no crash, every other needle served, and what is
 * served is right. */
static void test_every_byte_flipped(void **state)
{
    (void)state;
    for (int with_index = 0; with_index < 2; with_index++) {
        struct rig_volume b;

        vrig_volume_init(&b, NEEDLE_V3, 5);
        for (uint64_t key = 1; key <= 4; key++)
            vrig_put_n(&b, key, 30 + key);
        if (with_index == 0)
            b.count = 0;
        for (size_t at = 0; at < b.dat_bytes; at++) {
            char *own = tmpdir_new("flip");
            struct store *s;
            unsigned served = 0;

            b.dat[at] ^= 0x10;
            vrig_write(&b, own, "7", true);
            b.dat[at] ^= 0x10;
            s = vrig_open(own);
            for (uint64_t key = 1; key <= 4; key++) {
                char *data = NULL, want[64];
                size_t n = 0;

                vrig_fill(key, want, 30 + key);
                if (vrig_get(s, 7, key, RIG_COOKIE, &data, &n) == 0) {
                    served++;
                    assert_int_equal(n, 30 + key);
                    assert_memory_equal(data, want, n);
                }
                free(data);
            }
            if (at >= SUPERBLOCK_BYTES && served < 3)
                fail_msg("byte %zu: %u served", at, served);
            vrig_close(s);
            tmpdir_free(own);
        }
        vrig_volume_release(&b);
    }
}

/* ---- dead bytes in the middle ---- */

static void test_dead_bytes_are_covered(void **state)
{
    (void)state;
    for (size_t n = 40; n < 400; n += 56) {
        for (int kind = 0; kind < 2; kind++) {
            struct rig_volume b;
            struct volume_info info;
            char *own = tmpdir_new("dead"), *saved = dir;
            char dead[400];

            dir = own;
            memset(dead, 0, sizeof dead);
            vrig_volume_init(&b, NEEDLE_V3, 5);
            for (uint64_t key = 1; key <= N; key++) {
                if (key == 10) {
                    if (kind == 1) { /* the front of a record that was given up */
                        struct needle_header h = {RIG_COOKIE, 555, 1000};
                        needle_header_encode(&h, (uint8_t *)dead);
                        be32_put(dead + 16, 990);
                        memset(dead + 20, 0x5a, n - 20);
                    }
                    vrig_append(&b, dead, n);
                }
                vrig_put_n(&b, key, SIZE(key));
            }
            vrig_write(&b, dir, "7", true);
            expect(NULL, 0, &info);
            assert_int_equal(info.no_write, 0);
            assert_int_equal(info.live_count, N);
            assert_true(vrig_tiles(dir, "7", NEEDLE_V3, 5));
            assert_int_equal(info.cut_bytes, kind == 1 ? n : 0);
            vrig_volume_release(&b);
            dir = saved;
            tmpdir_free(own);
        }
    }
}

/* What a power cut leaves of a batch that nobody was told of: sectors of it, in any selection.  The volume goes on, and no id that
 * was there before is touched. */
static void test_torn_batch(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 150; seed++) {
        struct rig_volume b;
        struct volume_info info;
        uint64_t tail;
        uint32_t r = seed * 2654435761u;
        char *own = tmpdir_new("batch"), *saved = dir;

        dir = own;
        build(&b, NEEDLE_V3, 5);
        tail = b.dat_bytes;
        for (uint64_t i = 0; i < 12; i++) {
            if (i % 3 == 1)
                vrig_put(&b, 1 + i, RIG_COOKIE, "other", 5); /* over an id that is there */
            else
                vrig_put_n(&b, 100 + i, 700 + i * 31);
            vrig_drop_row(&b);
        }
        for (uint64_t at = (tail + 511) / 512 * 512; at + 512 <= b.dat_bytes; at += 512) {
            r = r * 1664525u + 1013904223u;
            if (r >> 29 == 0)
                memset(b.dat + at, 0, 512);
            else if (r >> 29 == 1)
                memset(b.dat + at, (int)(r >> 20), 512);
        }
        vrig_write(&b, dir, "7", true);
        struct store *s = vrig_open(dir);
        for (uint64_t key = 1; key <= N; key++) {
            char *data = NULL;
            size_t n = 0;
            bool maybe_new = key <= 12 && (key - 1) % 3 == 1;

            assert_int_equal(vrig_get(s, 7, key, RIG_COOKIE, &data, &n), 0);
            if (!vrig_holds(s, 7, key, SIZE(key)) && !(maybe_new && n == 5 && memcmp(data, "other", 5) == 0))
                fail_msg("seed %u: key %u", seed, (unsigned)key);
            free(data);
        }
        for (uint64_t i = 0; i < 12; i++)
            if (i % 3 != 1 && vrig_get(s, 7, 100 + i, RIG_COOKIE, NULL, NULL) == 0)
                assert_true(vrig_holds(s, 7, 100 + i, 700 + i * 31));
        vrig_info(s, 7, &info);
        if (info.no_write != 0)
            fail_msg("seed %u: %s", seed, info.reason);
        vrig_close(s);
        assert_true(vrig_tiles(dir, "7", NEEDLE_V3, 5));
        vrig_volume_release(&b);
        dir = saved;
        tmpdir_free(own);
    }
}

/* ---- numbers (G45) and checkpoints ---- */

static void test_numbers_do_not_change(void **state)
{
    struct rig_volume b;
    struct volume_info first, second;
    struct store *s;

    (void)state;
    vrig_volume_init(&b, NEEDLE_V3, 5);
    for (uint64_t key = 1; key <= 10; key++)
        vrig_put_n(&b, key, 100);
    for (uint64_t key = 1; key <= 10; key++)
        vrig_delete(&b, key, RIG_COOKIE, 1);
    vrig_write(&b, dir, "7", true);
    s = vrig_open(dir);
    vrig_info(s, 7, &first);
    vrig_close(s);
    s = vrig_open(dir);
    vrig_info(s, 7, &second);
    vrig_close(s);
    assert_int_equal(first.file_count, 10);
    assert_int_equal(first.delete_count, 10);
    assert_int_equal(first.live_count, 0);
    assert_int_equal(first.deleted_bytes, first.file_bytes);
    assert_int_equal(first.file_bytes, 10 * (100 + 4 + 1 + 5));
    assert_memory_equal(&first.dat_bytes, &second.dat_bytes, sizeof first - offsetof(struct volume_info, dat_bytes) -
                                                                 sizeof first + offsetof(struct volume_info, memory_bytes));
    vrig_volume_release(&b);
}

static void test_checkpoint_of_other_files(void **state)
{
    struct rig_volume b;
    struct volume_info info;
    size_t ckp_bytes;
    char *ckp;

    (void)state;
    build(&b, NEEDLE_V3, 5);
    vrig_write(&b, dir, "7", true);
    expect(NULL, 0, &info);
    ckp = vrig_read_file(dir, "7.ckp", &ckp_bytes);
    assert_non_null(ckp);
    /* The same length, another content. */
    vrig_volume_release(&b);
    vrig_volume_init(&b, NEEDLE_V3, 5);
    for (uint64_t key = N; key >= 1; key--)
        vrig_put_n(&b, key, SIZE(key));
    vrig_write(&b, dir, "7", true);
    vrig_write_file(dir, "7.ckp", ckp, ckp_bytes);
    expect(NULL, 0, &info);
    free(ckp);
    vrig_volume_release(&b);
}

/* Rows that were appended behind a checkpoint and a torn one behind those. */
static void test_damage_behind_a_checkpoint(void **state)
{
    struct rig_volume b;
    struct volume_info info;
    size_t ckp_bytes;
    char *ckp;

    (void)state;
    build(&b, NEEDLE_V3, 5);
    vrig_write(&b, dir, "7", true);
    expect(NULL, 0, &info);
    ckp = vrig_read_file(dir, "7.ckp", &ckp_bytes);
    vrig_put_n(&b, 100, 300);
    vrig_delete(&b, 100, RIG_COOKIE, 3);
    vrig_put_n(&b, 101, 300);
    vrig_drop_row(&b);
    vrig_append(&b, "\1\2\3\4\5\6\7\10", 8);
    vrig_write(&b, dir, "7", true);
    vrig_write_file(dir, "7.ckp", ckp, ckp_bytes);
    expect(NULL, 0, &info);
    assert_int_equal(info.no_write, 0);
    assert_int_equal(info.live_count, N + 1);
    assert_true(vrig_tiles(dir, "7", NEEDLE_V3, 5));
    free(ckp);
    vrig_volume_release(&b);
}

/* A big record is checked in pieces, and torn like any other. */
static void test_large_record(void **state)
{
    const size_t big = 5u << 20;
    struct rig_volume b;
    struct volume_info info;
    uint64_t pos;
    struct store *s;

    (void)state;
    build(&b, NEEDLE_V3, 5);
    vrig_put_n(&b, 300, big);
    pos = vrig_put_n(&b, 301, big);
    b.count = 0;
    vrig_write(&b, dir, "7", true);
    expect(NULL, 0, &info);
    s = vrig_open(dir);
    assert_true(vrig_holds(s, 7, 300, big));
    assert_true(vrig_holds(s, 7, 301, big));
    vrig_close(s);
    vrig_truncate(dir, "7.dat", pos + big);
    vrig_truncate(dir, "7.idx", 0);
    expect(NULL, 0, &info);
    assert_int_equal(vrig_file_bytes(dir, "7.dat"), pos);
    vrig_volume_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        T(test_key_sorted_index),
        T(test_fixed_index_by_key),
        T(test_fixed_index_by_offset),
        T(test_tombstone_without_place),
        T(test_put_after_tombstone_without_place),
        T(test_cookie_zero_tombstone_in_tail),
        T(test_tombstone_row_torn_to_zero),
        T(test_empty_file_in_tail),
        T(test_torn_tail),
        T(test_zero_tail),
        T(test_flip_in_last),
        T(test_missing_index),
        T(test_header_destroyed_without_index),
        T(test_header_destroyed_with_index),
        T(test_flip_in_middle_without_index),
        T(test_zero_page_in_dat),
        T(test_blob_with_a_volume_inside),
        T(test_torn_blob_with_a_volume_inside),
        T(test_rows_past_the_end),
        T(test_duplicate_rows),
        T(test_wrong_size),
        T(test_partial_row),
        T(test_zeros_in_index),
        T(test_garbage_in_index),
        T(test_index_of_another_volume),
        T(test_width_without_vif),
        T(test_vif_with_the_wrong_width),
        T(test_stumps),
        T(test_unknown_version),
        T(test_every_byte_flipped),
        T(test_dead_bytes_are_covered),
        T(test_torn_batch),
        T(test_numbers_do_not_change),
        T(test_checkpoint_of_other_files),
        T(test_damage_behind_a_checkpoint),
        T(test_large_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
