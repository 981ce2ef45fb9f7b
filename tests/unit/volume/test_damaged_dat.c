/* One damaged byte of a .dat, or a damaged header, or a lost end; at every place that a checksum does not cover and in some that
 * one does, with and without an index: what is whole is served right, and nobody gets a file as it was before.
 *
 * With an index the damaged file itself is right, an error, or (a tombstone) still deleted.  Without one the header is all that
 * knows an id: where the damage hits id or cookie, that file alone may be anything; where it hits anything else, it may not be an
 * older version. */
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

/* Volumes opened at a time. */
#define BATCH 256u
#define RECORDS_MAX 32u
#define KEYS 12u
#define DELETED SIZE_MAX
#define NEVER (SIZE_MAX - 1)

/* From a record's front and end, so many bytes are damaged; all of a short one. */
#define FRONT_BYTES 26u
#define BACK_BYTES 28u

struct history {
    struct rig_volume v;
    uint64_t pos[RECORDS_MAX], key[RECORDS_MAX];
    uint32_t count;
    size_t truth[KEYS + 1];          /* size of its last version, DELETED, NEVER */
    uint32_t newest[KEYS + 1];       /* its record */
};

/* What the damage does. */
enum harm {
    FLIP,  /* one byte */
    WRECK, /* the whole header */
    CUT,   /* the file ends there; the index is whole */
    ROW,   /* one byte of the index; the .dat is whole */
};

static const char *const harm_names[] = {"flip", "wreck", "cut", "row"};

struct hit {
    enum harm harm;
    uint32_t record;
    size_t at;     /* in the record */
    uint8_t mask;
    bool with_index;
    uint32_t rows;
};

struct batch {
    char *dir;
    const struct history *h;
    uint32_t count;
    struct hit hits[BATCH];
};

static uint32_t failures, opened;

static void note(struct history *h, uint64_t key, uint64_t pos, size_t truth)
{
    assert_true(h->count < RECORDS_MAX);
    h->pos[h->count] = pos;
    h->key[h->count] = key;
    h->newest[key] = h->count++;
    h->truth[key] = truth;
}

/* Nobody else's: it tells whose a record is. */
static uint32_t cookie_of(uint64_t key)
{
    return RIG_COOKIE + (uint32_t)key * 0x01030507u;
}

static void put(struct history *h, uint64_t key, size_t n)
{
    char data[512];

    vrig_fill(key, data, n);
    note(h, key, vrig_put(&h->v, key, cookie_of(key), data, n), n);
}

static void delete(struct history *h, uint64_t key, uint32_t cookie, uint32_t checksum)
{
    note(h, key, vrig_delete(&h->v, key, cookie, checksum), DELETED);
}

static void history_init(struct history *h, uint8_t version, unsigned width)
{
    *h = (struct history){.count = 0};
    for (uint32_t key = 0; key <= KEYS; key++)
        h->truth[key] = NEVER;
    vrig_volume_init(&h->v, version, width);
    put(h, 1, 100);
    put(h, 2, 200);
    put(h, 3, 300);
    put(h, 4, 0);
    put(h, 5, 0);
    delete(h, 3, cookie_of(3), 0x1234567);
    put(h, 2, 210); /* over an older one */
    put(h, 6, 60);
    delete(h, 5, cookie_of(5), needle_tombstone_checksum(0)); /* of an empty file */
    delete(h, 6, cookie_of(6), 0x7654321);
    put(h, 7, 70);
    put(h, 6, 130); /* deleted and there again */
    put(h, 8, 80);
    put(h, 7, 40);
    put(h, 9, 90);
    delete(h, 8, NEEDLE_COOKIE_BATCH_DELETE, 0xfefefefe);
    put(h, 9, 0); /* an empty one over an older one */
    put(h, 10, 20);
    put(h, 10, 21); /* the last record is one over an older one */
}

/* The id that the damaged header tells. */
static uint64_t misnamed(const struct hit *t, uint64_t key)
{
    return t->harm != FLIP || t->at < 4 || t->at >= 12 ? key : key ^ (uint64_t)t->mask << 8 * (11 - t->at);
}

/* The id that the damaged row tells. */
static uint64_t row_key(const struct history *h, const struct hit *t)
{
    return h->key[t->record] ^ (uint64_t)t->mask << 8 * (7 - t->at);
}

static bool is_anybodys(const struct history *h, const struct hit *t)
{
    return memcmp(h->v.dat + h->pos[t->record], "\0\0\0\0", 4) == 0;
}

/* What stands last, without a row, and does not verify was never whole. */
static bool looks_torn(const struct history *h, const struct hit *t, uint64_t key)
{
    return t->record == h->count - 1 && key == h->key[t->record];
}

/* An empty file and a tombstone differ by their checksum. */
static bool looks_deleted(const struct history *h, const struct hit *t, uint64_t key)
{
    return h->truth[key] == 0 && t->at >= NEEDLE_HEADER_BYTES && t->at < NEEDLE_HEADER_BYTES + NEEDLE_CHECKSUM_BYTES;
}

/* The only record of its id: no older version can come back in its place. */
static bool is_only_one(const struct history *h, uint64_t key)
{
    uint32_t records = 0;

    for (uint32_t i = 0; i < h->count; i++)
        records += h->key[i] == key;
    return records == 1;
}

static bool is_truth(const struct history *h, uint64_t key, int rc, const char *data, size_t n)
{
    char want[512];

    if (h->truth[key] == DELETED || h->truth[key] == NEVER)
        return rc == DFS_ENOTFOUND;
    vrig_fill(key, want, h->truth[key]);
    return rc == 0 && n == h->truth[key] && memcmp(data, want, n) == 0;
}

/* What of the damaged file itself may be answered beside the truth. */
static bool is_excused(const struct history *h, const struct hit *t, uint64_t key, int rc)
{
    bool newest = h->key[t->record] == key && h->newest[key] == t->record;
    bool id_hit = t->at < NEEDLE_HEADER_BYTES - 4;

    if (t->harm == ROW) /* the .dat is whole; only a tombstone without a cookie may be anybody's */
        return is_anybodys(h, t) && t->at < 8 && (h->key[t->record] == key || row_key(h, t) == key);
    if (!t->with_index && id_hit) /* no telling whose it was */
        return h->key[t->record] == key || misnamed(t, h->key[t->record]) == key;
    if (misnamed(t, h->key[t->record]) == key && h->truth[key] == NEVER && rc == DFS_ECOOKIE) /* nobody has that fid */
        return true;
    if (!newest)
        return false;
    if (h->truth[key] != DELETED && rc != 0 && (rc != DFS_ENOTFOUND || (id_hit && is_only_one(h, key))))
        return true;
    return !t->with_index && (looks_torn(h, t, key) || looks_deleted(h, t, key));
}

static void judge_key(const struct batch *b, uint32_t i, struct store *s, uint64_t key, const char *when)
{
    const struct history *h = b->h;
    const struct hit *t = &b->hits[i];
    char *data = NULL;
    size_t n = 0;
    int rc = vrig_get(s, i + 1, key, cookie_of(key), &data, &n);

    if (!is_truth(h, key, rc, data, n) && !is_excused(h, t, key, rc)) {
        failures++;
        print_error("version %u, %s, %s index, record %u (key %" PRIu64 "%s) byte %zu ^ %02x, %s: key %" PRIu64
                    " is %d, %zu bytes\n",
                    h->v.version, harm_names[t->harm], t->with_index ? "with" : "without", t->record, h->key[t->record],
                    h->newest[h->key[t->record]] == t->record ? "" : ", an old one", t->at, t->mask, when, key, rc, n);
    }
    free(data);
}

static void flush(struct batch *b)
{
    for (int again = 0; again < 2 && b->count > 0; again++) {
        struct store *s = vrig_open(b->dir);

        for (uint32_t i = 0; i < b->count; i++)
            for (uint64_t key = 1; key <= KEYS; key++)
                judge_key(b, i, s, key, again ? "opened again" : "opened");
        vrig_close(s);
    }
    tmpdir_free(b->dir);
    b->dir = tmpdir_new("damaged");
    opened += b->count;
    b->count = 0;
}

static void remove_index(const char *dir, const char *base)
{
    char path[512];

    (void)snprintf(path, sizeof path, "%s/%s.idx", dir, base);
    assert_int_equal(unlink(path), 0);
}

static void flip(char *at, size_t n, uint8_t mask)
{
    for (size_t i = 0; i < n; i++)
        at[i] = (char)(at[i] ^ mask);
}

static void flip_in_index(const char *dir, const char *base, const struct hit *t)
{
    char name[32];
    char *idx;
    size_t n = 0;

    (void)snprintf(name, sizeof name, "%s.idx", base);
    idx = vrig_read_file(dir, name, &n);
    assert_non_null(idx);
    flip(idx + t->record * (n / t->rows) + t->at, 1, t->mask);
    vrig_write_file(dir, name, idx, n);
    free(idx);
}

static void add(struct batch *b, const struct hit *t)
{
    struct rig_volume v = b->h->v;
    char base[16];
    char *at = v.dat + b->h->pos[t->record] + (t->harm == ROW ? 0 : t->at);
    size_t n = t->harm == FLIP ? 1 : t->harm == WRECK ? NEEDLE_HEADER_BYTES : 0;

    (void)snprintf(base, sizeof base, "%u", b->count + 1);
    if (t->harm == CUT)
        v.dat_bytes = b->h->pos[t->record] + t->at;
    flip(at, n, t->mask);
    vrig_write(&v, b->dir, base, true);
    flip(at, n, t->mask);
    if (!t->with_index)
        remove_index(b->dir, base);
    if (t->harm == ROW)
        flip_in_index(b->dir, base, t);
    b->hits[b->count++] = *t;
    if (b->count == BATCH)
        flush(b);
}

static void damage_everywhere(uint8_t version, unsigned width)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    static const uint8_t masks[] = {0x01};
#else
    static const uint8_t masks[] = {0x01, 0xff};
#endif
    struct batch b = {.dir = tmpdir_new("damaged")};
    struct history h;

    history_init(&h, version, width);
    b.h = &h;
    failures = 0;
    for (int with = 0; with < 2; with++)
        for (uint32_t r = 0; r < h.count; r++) {
            size_t bytes = (size_t)((r + 1 < h.count ? h.pos[r + 1] : h.v.dat_bytes) - h.pos[r]);

            for (size_t at = 0; at < bytes; at++)
                for (size_t m = 0; m < sizeof masks; m++)
                    if (at < FRONT_BYTES || at + BACK_BYTES >= bytes)
                        add(&b, &(struct hit){FLIP, r, at, masks[m], with == 1, h.count});
            for (size_t m = 0; m < sizeof masks; m++)
                add(&b, &(struct hit){WRECK, r, 0, masks[m], with == 1, h.count});
        }
    for (size_t at = NEEDLE_HEADER_BYTES; at < h.v.dat_bytes - h.pos[h.count - 1]; at++)
        add(&b, &(struct hit){CUT, h.count - 1, at, 0, true, h.count});
    for (uint32_t r = 0; r < h.count; r++)
        for (size_t at = 0; at < idx_row_bytes(width); at++)
            for (size_t m = 0; m < sizeof masks; m++)
                add(&b, &(struct hit){ROW, r, at, masks[m], true, h.count});
    flush(&b);
    tmpdir_free(b.dir);
    vrig_volume_release(&h.v);
    assert_int_equal(failures, 0);
}

static void damaged_version_3(void **state)
{
    (void)state;
    damage_everywhere(NEEDLE_V3, 5);
}

static void damaged_version_2(void **state)
{
    (void)state;
    damage_everywhere(NEEDLE_V2, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(damaged_version_3), cmocka_unit_test(damaged_version_2)};

    log_threshold = getenv("DFS_TEST_LOG") != NULL ? LOG_INFO : LOG_ERROR + 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
