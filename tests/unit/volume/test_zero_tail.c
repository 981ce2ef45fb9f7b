/* Opening a volume whose .dat goes on in zeros behind its last row, as a killed process leaves it (zero_ahead.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/log.h"
#include "tests/support/fault.h"
#include "tests/support/tmpdir.h"
#include "tests/support/volume_rig.h"
#include "volume/volume.h"

#define N 40u
#define SIZE(key) (100 + (size_t)(key) * 7 % 400)

static char *dir;

/* One that takes the repairing way writes an index beside the old one. */
static bool open_repairs(enum needle_map_kind kind)
{
    int id = fault_add(&(struct fault_rule){.calls = FAULT(FAULT_OPEN), .path_has = ".idx.new", .first = 1, .every = 1});
    struct store *s = vrig_open_kind(dir, kind);
    bool repairs = fault_hits(id) != 0;

    vrig_close(s);
    fault_clear();
    return repairs;
}

enum behind_rows { ZEROS, ZEROS_AND_A_BYTE,
                   LAST_RECORD_FLIPPED, LAST_ROW_MISSING, LAST_ROW_WRONG, BEHIND_KINDS };

/* What a killed server may leave behind the rows; with an index that a clean stop spoke for, or without.  Returns where the data
 * that must stay ends. */
static uint64_t leave_behind_rows(enum behind_rows what, size_t zeros, size_t byte_at, uint64_t checkpoint_rows)
{
    struct rig_volume b;
    struct idx_row *last;
    uint64_t end;

    vrig_volume_init(&b, NEEDLE_V3, 5);
    for (uint64_t key = 1; key <= N; key++) {
        if (key == checkpoint_rows + 1 && checkpoint_rows != 0) {
            vrig_write(&b, dir, "7", true);
            vrig_close(vrig_open(dir)); /* leaves a .ckp */
        }
        vrig_put_n(&b, key, SIZE(key));
    }
    last = &b.rows[N - 1];
    end = b.dat_bytes;
    while (zeros-- > 0)
        vrig_append(&b, "", 1);
    if (what == ZEROS_AND_A_BYTE)
        b.dat[end + byte_at] = 1;
    if (what == LAST_RECORD_FLIPPED)
        b.dat[needle_offset_bytes(last->offset) + 60] ^= 1;
    if (what == LAST_ROW_WRONG)
        last->key++;
    if (what == LAST_ROW_MISSING)
        vrig_drop_row(&b);
    vrig_write(&b, dir, "7", true);
    vrig_volume_release(&b);
    return end;
}

static void look(bool last_is_bad)
{
    struct store *s = vrig_open(dir);
    struct volume_info info;

    for (uint64_t key = 1; key <= N; key++)
        assert_int_equal(vrig_holds(s, 7, key, SIZE(key)), key != N || !last_is_bad);
    vrig_info(s, 7, &info);
    assert_int_equal(info.no_write, 0);
    vrig_close(s);
}

static void behind_rows(enum behind_rows what, size_t zeros, size_t byte_at, uint64_t checkpoint_rows, enum needle_map_kind kind)
{
    uint64_t end;

    dir = tmpdir_new("behind");
    end = leave_behind_rows(what, zeros, byte_at, checkpoint_rows);
    assert_int_equal(open_repairs(kind), what != ZEROS);
    assert_int_equal(open_repairs(kind), false);
    assert_int_equal(vrig_file_bytes(dir, "7.dat"), end);
    look(what == LAST_RECORD_FLIPPED);
    assert_true(vrig_tiles(dir, "7", NEEDLE_V3, 5));
    tmpdir_free(dir);
}

static const size_t lengths[] = {1, 7, 8, 24, 4096, 100003};
#define LENGTHS (sizeof lengths / sizeof lengths[0])

static void zeros_alone_are_cut_without_a_look_at_all_rows(void **state)
{
    (void)state;
    for (int kind = NEEDLE_MAP_MEMORY; kind <= NEEDLE_MAP_LEVELDB; kind++)
        for (uint64_t checkpoint_rows = 0; checkpoint_rows <= N; checkpoint_rows += N / 2)
            for (size_t i = 0; i < LENGTHS; i++)
                behind_rows(ZEROS, lengths[i], 0, checkpoint_rows, (enum needle_map_kind)kind);
}

static void anything_but_zeros_is_looked_into(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTHS; i++) {
        behind_rows(ZEROS_AND_A_BYTE, lengths[i], 0, N / 2, NEEDLE_MAP_MEMORY);
        behind_rows(ZEROS_AND_A_BYTE, lengths[i], lengths[i] / 2, 0, NEEDLE_MAP_MEMORY);
        behind_rows(ZEROS_AND_A_BYTE, lengths[i], lengths[i] - 1, N / 2, NEEDLE_MAP_MEMORY);
    }
}

static void so_is_a_last_record_that_does_not_hold(void **state)
{
    (void)state;
    for (int what = LAST_RECORD_FLIPPED; what < BEHIND_KINDS; what++) {
        behind_rows((enum behind_rows)what, 4096, 0, 0, NEEDLE_MAP_MEMORY);
        behind_rows((enum behind_rows)what, 4096, 0, N / 2, NEEDLE_MAP_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zeros_alone_are_cut_without_a_look_at_all_rows),
        cmocka_unit_test(anything_but_zeros_is_looked_into),
        cmocka_unit_test(so_is_a_last_record_that_does_not_hold),
    };
    int rc;

    log_threshold = LOG_ERROR + 1;
    fault_install(NULL);
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    fault_remove();
    return rc;
}
