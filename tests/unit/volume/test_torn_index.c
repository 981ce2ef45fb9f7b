/* Rows that a power cut tore, at every byte: whatever of them reached the disk, and whatever stands in the place of the rest, a
 * .dat that is whole says what each key is.  No checkpoint speaks for the rows: they are those since the last one. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "needle/err.h"
#include "needle/needle.h"
#include "net/log.h"
#include "tests/support/tmpdir.h"
#include "tests/support/volume_rig.h"

/* Volumes opened at a time. */
#define BATCH 256u
#define ROWS_WIDE 3u

enum wreck { ZEROS, GARBAGE, WRECKS };
enum part { TO_THE_END, FROM_THE_START, IN_THE_MIDDLE, PARTS };

static const char *const wreck_names[] = {"zeros", "garbage"};

/* What each key is in the end; SIZE_MAX: deleted. */
static const struct {
    uint64_t key;
    size_t size;
} truth[] = {
    {1, 100}, {2, 210}, {3, SIZE_MAX}, {4, 0}, {5, SIZE_MAX}, {6, 130}, {7, 40}, {8, SIZE_MAX}, {9, 0}, {10, 20},
};

struct torn {
    unsigned width;
    enum wreck wreck;
    enum part part;
    size_t from;
};

struct batch {
    char *dir;
    uint32_t count;
    struct torn torn[BATCH];
};

static uint32_t failures;

static void history(struct rig_volume *b, unsigned width)
{
    vrig_volume_init(b, NEEDLE_V3, width);
    vrig_put_n(b, 1, 100);
    vrig_put_n(b, 2, 200);
    vrig_put_n(b, 3, 300);
    vrig_put_n(b, 4, 0);
    vrig_put_n(b, 5, 0);
    vrig_delete(b, 3, RIG_COOKIE, 0x1234567);
    vrig_put_n(b, 2, 210); /* over an older one */
    vrig_put_n(b, 6, 60);
    vrig_delete(b, 5, RIG_COOKIE, needle_tombstone_checksum(0)); /* of an empty file */
    vrig_delete(b, 6, RIG_COOKIE, 0x7654321);
    vrig_put_n(b, 7, 70);
    vrig_put_n(b, 6, 130); /* deleted and there again */
    vrig_put_n(b, 8, 80);
    vrig_put_n(b, 7, 40);
    vrig_put_n(b, 9, 90);
    vrig_delete(b, 8, RIG_COOKIE, 0xfefefefe);
    vrig_put_n(b, 9, 0); /* an empty one over an older one */
    vrig_put_n(b, 10, 20);
}

static void damage(const char *dir, const char *name, const struct torn *t)
{
    size_t n = 0, from = t->from, to, row = idx_row_bytes(t->width);
    char *idx = vrig_read_file(dir, name, &n);
    uint64_t x = t->from * 0x9e3779b97f4a7c15u + 1;

    assert_non_null(idx);
    to = t->part == TO_THE_END ? n : from + ROWS_WIDE * row < n ? from + ROWS_WIDE * row : n;
    if (t->part == FROM_THE_START) {
        to = from;
        from = 0;
    }
    for (size_t i = from; i < to; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        idx[i] = t->wreck == ZEROS ? 0 : (char)(x >> 32);
    }
    vrig_write_file(dir, name, idx, n);
    free(idx);
}

static void judge(struct batch *b, struct store *s, const char *when)
{
    for (uint32_t i = 0; i < b->count; i++)
        for (size_t k = 0; k < sizeof truth / sizeof truth[0]; k++) {
            const struct torn *t = &b->torn[i];
            bool right = truth[k].size == SIZE_MAX ? vrig_get(s, i + 1, truth[k].key, RIG_COOKIE, NULL, NULL) == DFS_ENOTFOUND
                                                   : vrig_holds(s, i + 1, truth[k].key, truth[k].size);
            if (right)
                continue;
            failures++;
            print_error("rows of %zu bytes, %s in part %d at byte %zu (%zu of row %zu), %s: key %" PRIu64 " is not what it was\n",
                        idx_row_bytes(t->width), wreck_names[t->wreck], (int)t->part, t->from,
                        t->from % idx_row_bytes(t->width), t->from / idx_row_bytes(t->width), when, truth[k].key);
        }
}

static void flush(struct batch *b)
{
    for (int again = 0; again < 2 && b->count > 0; again++) {
        struct store *s = vrig_open(b->dir);

        judge(b, s, again ? "opened again" : "opened");
        vrig_close(s);
    }
    tmpdir_free(b->dir);
    b->dir = tmpdir_new("torn");
    b->count = 0;
}

static void add(struct batch *b, const struct rig_volume *v, const struct torn *t)
{
    char base[16], name[24];

    (void)snprintf(base, sizeof base, "%u", b->count + 1);
    (void)snprintf(name, sizeof name, "%s.idx", base);
    vrig_write(v, b->dir, base, true);
    damage(b->dir, name, t);
    b->torn[b->count++] = *t;
    if (b->count == BATCH)
        flush(b);
}

static void torn_rows_say_nothing_else(void **state)
{
    struct batch b = {.dir = tmpdir_new("torn")};

    (void)state;
    log_threshold = getenv("DFS_TEST_LOG") != NULL ? LOG_INFO : LOG_ERROR + 1;
    for (unsigned width = 4; width <= 5; width++) {
        struct rig_volume v;
        size_t bytes;

        history(&v, width);
        bytes = v.count * idx_row_bytes(width);
        for (struct torn t = {.width = width}; t.part < PARTS; t.part++)
            for (t.wreck = 0; t.wreck < WRECKS; t.wreck++)
                for (t.from = 0; t.from <= bytes; t.from++)
                    add(&b, &v, &t);
        vrig_volume_release(&v);
    }
    flush(&b);
    tmpdir_free(b.dir);
    assert_int_equal(failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(torn_rows_say_nothing_else)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
