/* A blob whose content is records, as a copy of a volume is, or as somebody would send who wants other ids to be his: wherever it
 * is damaged or torn, and whatever is left of the index, none of them is ever served.  With a whole index the blob itself is right
 * or an error, never the older version that it stands over. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "needle/err.h"
#include "net/log.h"
#include "tests/support/tmpdir.h"
#include "tests/support/volume_rig.h"

/* Volumes opened at a time. */
#define BATCH 128u
#define KEYS 8u
#define BLOB_KEY 5u
/* Sizes: what is in the blob has one that nothing else has. */
#define INNER_BYTES 4000u
#define BEHIND_MAX 32u /* bytes of content behind the last record inside */

enum harm { WRECK, ZEROS, ONES, CUT, HARMS };
enum rows { ALL, NONE, UP_TO_BLOB };
enum place { AT_END, IN_THE_MIDDLE, IN_FRONT_OF_ZEROS, PLACES };

static const char *const harm_names[] = {"wreck", "zeros", "ones", "cut"};

struct state {
    uint8_t version;
    unsigned lead;   /* bytes of content in front of the records */
    unsigned behind; /* and behind them */
    enum place place;
    enum harm harm;
    enum rows rows;
    size_t at, n;    /* in the blob's record: what is damaged, or where it is cut */
};

struct batch {
    char *dir;
    uint32_t count;
    struct state states[BATCH];
};

static uint32_t failures;

/* Size of each key's last version; the blob's is not told here. */
static size_t truth(const struct state *t, uint64_t key)
{
    if (key == 7)
        return t->place == IN_THE_MIDDLE ? 77 : SIZE_MAX;
    return key <= 4 ? key * 10 : SIZE_MAX;
}

static void put_blob(struct rig_volume *v, const struct state *t)
{
    struct rig_volume inner;
    char *content;
    size_t n;

    vrig_volume_init(&inner, t->version, v->width);
    inner.next_ns = v->next_ns + 1000;
    vrig_put_n(&inner, 1, INNER_BYTES);
    vrig_delete(&inner, 3, RIG_COOKIE, 0x1234567);
    vrig_put_n(&inner, 6, INNER_BYTES); /* nobody's */
    vrig_put_n(&inner, 2, INNER_BYTES);
    n = t->lead + inner.dat_bytes - SUPERBLOCK_BYTES + t->behind;
    content = calloc(1, n);
    assert_non_null(content);
    if (t->lead >= 8) /* read as a record without a body, it has a time */
        content[0] = 0x20;
    memcpy(content + t->lead, inner.dat + SUPERBLOCK_BYTES, inner.dat_bytes - SUPERBLOCK_BYTES);
    vrig_put(v, BLOB_KEY, RIG_COOKIE, content, n);
    free(content);
    vrig_volume_release(&inner);
}

static void harm(struct rig_volume *v, uint64_t pos, const struct state *t)
{
    char *p = v->dat + pos + t->at;

    for (size_t i = 0; i < t->n; i++)
        p[i] = t->harm == ZEROS ? 0 : t->harm == ONES ? (char)0xff : (char)(p[i] ^ (0x5a + i));
    if (t->harm == CUT)
        v->dat_bytes = pos + t->at;
}

static void write_state(const char *dir, uint32_t id, const struct state *t)
{
    static const char zeros[4096];
    struct rig_volume v;
    char base[16];
    uint64_t pos;

    vrig_volume_init(&v, t->version, t->version == NEEDLE_V3 ? 5 : 4);
    for (uint64_t key = 1; key <= BLOB_KEY; key++)
        vrig_put_n(&v, key, key * 10);
    pos = v.dat_bytes;
    put_blob(&v, t);
    if (t->place == IN_THE_MIDDLE)
        vrig_put_n(&v, 7, 77);
    harm(&v, pos, t);
    if (t->place == IN_FRONT_OF_ZEROS)
        vrig_append(&v, zeros, sizeof zeros);
    if (t->rows != ALL)
        v.count = t->rows == NONE ? 0 : BLOB_KEY;
    (void)snprintf(base, sizeof base, "%u", id);
    vrig_write(&v, dir, base, true);
    vrig_volume_release(&v);
}

static bool key_right(const struct state *t, struct store *s, uint32_t id, uint64_t key, int *rc, size_t *n)
{
    size_t want = truth(t, key);

    *n = 0;
    *rc = vrig_get(s, id, key, RIG_COOKIE, NULL, NULL);
    if (*rc == 0) {
        char *data = NULL;

        (void)vrig_get(s, id, key, RIG_COOKIE, &data, n);
        free(data);
    }
    if (key == BLOB_KEY)
        return *rc != 0 ? t->rows != ALL || *rc != DFS_ENOTFOUND : *n > INNER_BYTES || (t->rows != ALL && *n == BLOB_KEY * 10);
    /* What stands behind damage may be lost to an index that is. */
    if (key == 7 && t->rows != ALL && *rc == DFS_ENOTFOUND)
        return true;
    return want == SIZE_MAX ? *rc == DFS_ENOTFOUND : *rc == 0 && *n == want;
}

static void flush(struct batch *b)
{
    for (int again = 0; again < 2 && b->count > 0; again++) {
        struct store *s = vrig_open(b->dir);

        for (uint32_t i = 0; i < b->count; i++)
            for (uint64_t key = 1; key <= KEYS; key++) {
                const struct state *t = &b->states[i];
                size_t n;
                int rc;

                if (key_right(t, s, i + 1, key, &rc, &n))
                    continue;
                failures++;
                print_error("version %u, %u bytes in front, %u behind, place %d, rows %d, %s of %zu at %zu, opened%s: key %" PRIu64
                            " is %d, %zu bytes\n", t->version, t->lead, t->behind, (int)t->place, (int)t->rows,
                            harm_names[t->harm], t->n, t->at, again ? " again" : "", key, rc, n);
            }
        vrig_close(s);
    }
    tmpdir_free(b->dir);
    b->dir = tmpdir_new("blobs");
    b->count = 0;
}

static void add(struct batch *b, const struct state *t)
{
    write_state(b->dir, b->count + 1, t);
    b->states[b->count++] = *t;
    if (b->count == BATCH)
        flush(b);
}

/* A Size of zero reads as an empty file, which has nothing that could speak against it but its row; a whole header of zeros at the
 * end was never written. */
static bool says_empty(const struct state *t)
{
    return t->harm == ZEROS && t->at <= 12 && t->at + t->n >= 16 && (t->rows != ALL || (t->at == 0 && t->place != IN_THE_MIDDLE));
}

static void damage_front(struct batch *b, struct state t)
{
    static const struct {
        size_t at, n;
    } hits[] = {{0, 16}, {0, 20}, {0, 24}, {4, 24}, {12, 4}, {12, 8}, {15, 1}, {16, 4}, {200, 1}, {0, 512}};

    for (t.harm = WRECK; t.harm < CUT; t.harm++)
        for (size_t i = 0; i < sizeof hits / sizeof hits[0]; i++) {
            t.at = hits[i].at;
            t.n = hits[i].n;
            if (!says_empty(&t))
                add(b, &t);
        }
    t.harm = CUT;
    t.n = 0;
    for (t.at = 24; t.at < 3 * INNER_BYTES && t.place == AT_END; t.at += 808)
        add(b, &t);
}

static void blobs(uint8_t version)
{
    /* The records begin on the grid of 8 bytes, right behind the header, or where a record without a body would end. */
    static const unsigned leads[] = {4, 12}, behinds[] = {0, 3, 8, 14, BEHIND_MAX};
    struct batch b = {.dir = tmpdir_new("blobs")};
    struct state t = {.version = version};

    failures = 0;
    for (size_t l = 0; l < sizeof leads / sizeof leads[0]; l++)
        for (size_t i = 0; i < sizeof behinds / sizeof behinds[0]; i++)
            for (t.place = 0; t.place < PLACES; t.place++)
                for (t.rows = ALL; t.rows <= UP_TO_BLOB; t.rows++) {
                    t.lead = leads[l];
                    t.behind = behinds[i];
                    damage_front(&b, t);
                }
    flush(&b);
    tmpdir_free(b.dir);
    assert_int_equal(failures, 0);
}

static void blobs_version_3(void **state)
{
    (void)state;
    blobs(NEEDLE_V3);
}

static void blobs_version_2(void **state)
{
    (void)state;
    blobs(NEEDLE_V2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(blobs_version_3), cmocka_unit_test(blobs_version_2)};

    log_threshold = getenv("DFS_TEST_LOG") != NULL ? LOG_INFO : LOG_ERROR + 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
