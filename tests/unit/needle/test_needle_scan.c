/* needle/needle_scan.c: runs of records, zeros, damage of every kind, hostile content. */
#include "needle_test.h"

#include "needle/needle_scan.h"

/* A .dat file in memory that grows record by record. */
struct dat {
    uint8_t version;
    uint8_t *p;
    size_t n, max;
    size_t starts[256];
    size_t records;
};

static void dat_init(struct dat *d, uint8_t version, size_t max)
{
    *d = (struct dat){.version = version, .p = must_alloc(max), .n = 8, .max = max};
    memset(d->p, 0, max);
    d->p[0] = version;
}

static void dat_release(struct dat *d)
{
    free(d->p);
}

static void dat_put(struct dat *d, const struct needle *n, struct bytes data)
{
    assert_true(d->n + needle_record_bytes(d->version, n->body_bytes) <= d->max);
    assert_true(d->records < ARRAY_LEN(d->starts));
    d->starts[d->records++] = d->n;
    d->n += put_record(d->version, n, data, d->p + d->n);
}

/* A plain record with so many data bytes. */
static void dat_put_plain(struct dat *d, uint64_t key, size_t data_n, uint64_t *seed)
{
    struct needle n = {.key = key, .cookie = (uint32_t)rnd(seed) | 1, .append_at_ns = d->version == NEEDLE_V3 ? 7 + key : 0};
    char *data = must_alloc(data_n);

    rnd_fill(seed, data, data_n);
    seal_needle(d->version, &n, bytes_of(data, data_n));
    if (data_n == 0)
        n.checksum = needle_tombstone_checksum(5);
    dat_put(d, &n, bytes_of(data, data_n));
    free(data);
}

static struct bytes view(const struct dat *d, size_t from)
{
    return bytes_of(d->p + from, d->n - from);
}

static void step_at(const struct dat *d, size_t at, struct needle_scan_item *item)
{
    needle_scan_step(d->version, view(d, at), at, d->n, item);
}

/* ---- steps ---- */

static void runs_tile(void **state)
{
    uint64_t seed = test_seed();
    uint8_t texts[NEEDLE_TRAILER_MAX];

    (void)state;
    for (int round = 0; round < 60; round++) {
        struct dat d;
        size_t at = 8;
        dat_init(&d, (uint8_t)(1 + round % 3), 4 << 20);
        for (size_t i = 0; i < 30; i++) {
            struct needle n = random_needle(&seed, d.version, texts);
            char data[500];
            size_t data_n = rnd_below(&seed, 4) == 0 ? 0 : rnd_below(&seed, sizeof data);
            rnd_fill(&seed, data, data_n);
            seal_needle(d.version, &n, bytes_of(data, data_n));
            dat_put(&d, &n, bytes_of(data, data_n));
        }
        for (size_t i = 0; i < d.records; i++) {
            struct needle_scan_item item, header;
            assert_int_equal(at, d.starts[i]);
            step_at(&d, at, &item);
            assert_int_equal(item.kind, NEEDLE_SCAN_RECORD);
            assert_int_equal(item.needle.body_bytes, item.header.size);
            assert_true(item.needle.key == item.header.key);
            assert_int_equal(item.data.n, item.needle.data_bytes);
            needle_scan_header(d.version, bytes_of(d.p + at, 16), at, d.n, &header);
            assert_int_equal(header.kind, NEEDLE_SCAN_RECORD);
            assert_int_equal(header.record_bytes, item.record_bytes);
            at += item.record_bytes;
        }
        assert_int_equal(at, d.n);
        dat_release(&d);
    }
}

/* The window grows byte by byte: MORE until the record is whole, asking for what suffices. */
static void short_windows(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (uint8_t version = 1; version <= 3; version++) {
        struct dat d;
        size_t whole;
        dat_init(&d, version, 4096);
        dat_put_plain(&d, 1, 100, &seed);
        dat_put_plain(&d, 2, 0, &seed);
        whole = d.starts[1] - 8;
        for (size_t n = 0; n < whole; n++) {
            struct needle_scan_item item;
            uint8_t *window = must_alloc(n);
            memcpy(window, d.p + 8, n);
            needle_scan_step(version, bytes_of(window, n), 8, d.n, &item);
            assert_int_equal(item.kind, NEEDLE_SCAN_MORE);
            assert_true(item.record_bytes > n);
            assert_int_equal(item.record_bytes, n < 16 ? 16 : whole);
            free(window);
        }
        dat_release(&d);
    }
}

/* The file ends at every byte of its last record. */
static void torn_tails(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (uint8_t version = 1; version <= 3; version++) {
        struct dat d;
        size_t from, whole;
        dat_init(&d, version, 4096);
        dat_put_plain(&d, 1, 40, &seed);
        dat_put_plain(&d, 2, 100, &seed);
        from = d.starts[1];
        whole = d.n;
        for (size_t end = from; end < whole; end++) {
            struct needle_scan_item item;
            uint8_t *window = must_alloc(end - from);
            memcpy(window, d.p + from, end - from);
            needle_scan_step(version, bytes_of(window, end - from), from, end, &item);
            if (end == from) {
                assert_int_equal(item.kind, NEEDLE_SCAN_ZEROS);
            } else {
                assert_int_equal(item.kind, NEEDLE_SCAN_GARBAGE);
                assert_int_equal(item.torn, end - from >= 16);
                if (item.torn)
                    assert_int_equal(item.record_bytes, whole - from);
            }
            free(window);
        }
        dat_release(&d);
    }
}

static void zeros_are_no_records(void **state)
{
    char zeros[4096] = {0};

    (void)state;
    for (uint8_t version = 1; version <= 3; version++) {
        for (size_t n = 0; n <= 64; n++) {
            struct needle_scan_item item;
            size_t found, resume;
            needle_scan_step(version, bytes_of(zeros, n), 8, 8 + n, &item);
            assert_int_equal(item.kind, NEEDLE_SCAN_ZEROS);
            needle_scan_header(version, bytes_of(zeros, n), 8, 8 + n, &item);
            assert_int_equal(item.kind, NEEDLE_SCAN_ZEROS);
            assert_false(needle_scan_resync(version, bytes_of(zeros, n), 0, 8, 8 + n, &found, &resume));
            assert_int_equal(resume, align8_up(n));
        }
        for (size_t at = 0; at < sizeof zeros; at += 8) { /* ones elsewhere do not help */
            struct needle_scan_item item;
            zeros[at] = 1;
            needle_scan_step(version, bytes_of(zeros, sizeof zeros), 8, 8 + sizeof zeros, &item);
            if (at >= 32)
                assert_int_equal(item.kind, NEEDLE_SCAN_ZEROS);
            zeros[at] = 0;
        }
    }
}

static void zero_bytes_counted(void **state)
{
    char p[2000] = {0};

    (void)state;
    for (size_t n = 0; n < 1100; n += 7) {
        p[n] = 1;
        assert_int_equal(needle_scan_zero_bytes(bytes_of(p, sizeof p)), n / 8 * 8);
        assert_int_equal(needle_scan_zero_bytes(bytes_of(p, n)), n);
        p[n] = 0;
    }
}

static void fillers_are_stepped_over(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (uint8_t version = 1; version <= 3; version++) {
        for (size_t gap = needle_record_bytes_min(version); gap < 400; gap += 8) {
            struct needle_filler f;
            struct needle_scan_item item;
            struct dat d;
            dat_init(&d, version, 4096);
            assert_int_equal(needle_filler_make(version, gap, 99, &f), 0);
            memcpy(d.p + 8, f.head, f.head_bytes);
            memcpy(d.p + 8 + gap - f.trail_bytes, f.trail, f.trail_bytes);
            d.n += gap;
            dat_put_plain(&d, 1, 10, &seed);
            step_at(&d, 8, &item);
            assert_int_equal(item.kind, NEEDLE_SCAN_RECORD);
            assert_int_equal(item.record_bytes, gap);
            assert_true(needle_is_filler(&item.header));
            needle_scan_header(version, bytes_of(d.p + 8, NEEDLE_SCAN_HEADER_BYTES), 8, d.n, &item);
            assert_int_equal(item.kind, NEEDLE_SCAN_RECORD);
            assert_int_equal(item.record_bytes, gap);
            dat_release(&d);
        }
    }
}

static void bad_bodies(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (uint8_t version = 1; version <= 3; version++) {
        struct needle_scan_item item;
        struct dat d;
        dat_init(&d, version, 4096);
        dat_put_plain(&d, 1, 100, &seed);
        dat_put_plain(&d, 2, 100, &seed);
        for (size_t at = 8 + needle_data_offset(version); at < 8 + needle_data_offset(version) + 100; at++) {
            d.p[at] ^= 0x40;
            step_at(&d, 8, &item);
            assert_int_equal(item.kind, NEEDLE_SCAN_BAD_DATA);
            assert_int_equal(item.record_bytes, d.starts[1] - 8);
            assert_true(item.header.key == 1 && item.data.p == NULL && item.needle.key == 0);
            d.p[at] ^= 0x40;
        }
        if (version != NEEDLE_V1) { /* a data size that contradicts Size is seen in the first 20 bytes */
            be32_put(d.p + 8 + 16, 5000000);
            needle_scan_header(version, bytes_of(d.p + 8, 20), 8, d.n, &item);
            assert_int_equal(item.kind, NEEDLE_SCAN_BAD_DATA);
        }
        be32_put(d.p + 8 + 12, 0x80000000); /* a Size that is none */
        step_at(&d, 8, &item);
        assert_int_equal(item.kind, NEEDLE_SCAN_GARBAGE);
        assert_false(item.torn);
        dat_release(&d);
    }
}

/* Every byte of a run of records is flipped in turn: whatever is called a record is one of ours or is a record without data. */
static void every_flipped_byte(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (uint8_t version = 1; version <= 3; version++) {
        struct dat d;
        dat_init(&d, version, 4096);
        for (uint64_t key = 1; key <= 4; key++)
            dat_put_plain(&d, key, key == 3 ? 0 : 30, &seed);
        for (size_t flip = 8; flip < d.n; flip++) {
            d.p[flip] ^= 0x11;
            for (size_t at = 8; at < d.n;) {
                struct needle_scan_item item;
                size_t found, resume;
                step_at(&d, at, &item);
                if (item.kind == NEEDLE_SCAN_RECORD) {
                    size_t data_at = item.data.p == NULL ? 0 : (size_t)((const uint8_t *)item.data.p - d.p);
                    if (item.data.n > 0)
                        assert_false(flip >= data_at && flip < data_at + item.data.n);
                    at += item.record_bytes;
                } else if (needle_scan_resync(version, view(&d, at), 8, at, d.n, &found, &resume)) {
                    assert_true(found >= 8);
                    at += found;
                } else {
                    assert_true(at + resume >= d.n);
                    break;
                }
            }
            d.p[flip] ^= 0x11;
        }
        dat_release(&d);
    }
}

/* ---- resync ---- */

/* Garbage of any length in the middle: the next record is found. */
static void resync_finds_the_next_record(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int round = 0; round < 300; round++) {
        struct dat d;
        size_t garbage = 8 * (1 + rnd_below(&seed, 200)), at, found, resume;
        dat_init(&d, (uint8_t)(1 + round % 3), 64 << 10);
        dat_put_plain(&d, 1, 50, &seed);
        at = d.n;
        rnd_fill(&seed, d.p + at, garbage);
        if (rnd_below(&seed, 3) == 0)
            memset(d.p + at, 0, garbage);
        d.n += garbage;
        dat_put_plain(&d, 2, 1 + rnd_below(&seed, 3000), &seed);
        dat_put_plain(&d, 3, 10, &seed);
        assert_true(needle_scan_resync(d.version, view(&d, at), 0, at, d.n, &found, &resume));
        assert_int_equal(at + found, d.starts[1]);
        assert_true(needle_scan_resync(d.version, view(&d, 0), at, 0, d.n, &found, &resume));
        assert_int_equal(found, d.starts[1]);
        dat_release(&d);
    }
}

/* Tombstones behind damage count when they lead to something that verifies, or to the end of the file. */
static void resync_over_tombstones(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (uint8_t version = 1; version <= 3; version++) {
        for (int tombstones = 1; tombstones <= 18; tombstones++) {
            for (int ending = 0; ending < 3; ending++) { /* end of file, a record, garbage */
                struct dat d;
                size_t found, resume;
                bool ok;
                dat_init(&d, version, 8192);
                memset(d.p + 8, 0xee, 64);
                d.n += 64;
                for (int i = 0; i < tombstones; i++)
                    dat_put_plain(&d, 2 + (uint64_t)i, 0, &seed);
                if (ending == 1)
                    dat_put_plain(&d, 1, 20, &seed);
                if (ending == 2) {
                    memset(d.p + d.n, 0xee, 64);
                    d.n += 64;
                }
                ok = needle_scan_resync(version, view(&d, 8), 0, 8, d.n, &found, &resume);
                assert_int_equal(ok, ending != 2);
                if (ok && tombstones < 16)
                    assert_int_equal(8 + found, d.starts[0]);
                else if (ok) /* a run longer than is looked at is entered behind its start */
                    assert_true(8 + found >= d.starts[0] && (8 + found - d.starts[0]) % needle_record_bytes_min(version) == 0);
                dat_release(&d);
            }
        }
    }
}

/* The window slides over the file in pieces: what is found is the same as with all of it at once. */
static void resync_in_windows(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int round = 0; round < 200; round++) {
        struct dat d;
        size_t garbage = 8 * (1 + rnd_below(&seed, 100)), pos = 8, length = 64, found, resume;
        dat_init(&d, (uint8_t)(1 + round % 3), 64 << 10);
        rnd_fill(&seed, d.p + 8, garbage);
        d.n += garbage;
        dat_put_plain(&d, 2, 1 + rnd_below(&seed, 3000), &seed);
        for (;;) {
            size_t n = d.n - pos < length ? d.n - pos : length;
            assert_true(n > 0);
            if (needle_scan_resync(d.version, bytes_of(d.p + pos, n), 0, pos, d.n, &found, &resume))
                break;
            assert_true(resume > 0 || n == length); /* no progress only for want of window */
            if (resume == 0)
                length *= 2;
            pos += resume;
        }
        assert_int_equal(pos + found, d.starts[0]);
        dat_release(&d);
    }
}

/* A stretch of zeros of any length is jumped over, and what stands behind it is not, be it a filler of zeros. */
static void resync_behind_zeros(void **state)
{
    (void)state;
    for (uint8_t version = 1; version <= 3; version++) {
        for (size_t zeros = 0; zeros < 1300; zeros += 8) {
            for (int kind = 0; kind < 3; kind++) {
                struct needle n = {.cookie = kind == 0 ? 0 : 5, .key = kind == 2 ? 0x0100000000000000 : 1};
                struct needle_filler f;
                struct dat d;
                size_t found, resume, wanted = 8 + zeros;
                n.append_at_ns = version == NEEDLE_V3 ? 1 : 0;
                dat_init(&d, version, 8192);
                d.n += zeros;
                if (kind == 1) {
                    assert_int_equal(needle_filler_make(version, needle_record_bytes_min(version), 1, &f), 0);
                    memcpy(d.p + d.n, f.head, f.head_bytes);
                    memcpy(d.p + d.n + f.head_bytes, f.trail, f.trail_bytes);
                    d.n += f.record_bytes;
                }
                seal_needle(version, &n, BYTES_LIT("data"));
                dat_put(&d, &n, BYTES_LIT("data"));
                assert_true(needle_scan_resync(version, view(&d, 8), 0, 8, d.n, &found, &resume));
                assert_int_equal(8 + found, wanted);
                dat_release(&d);
            }
        }
    }
}

static void torn_record_with_a_dat_inside(void **state)
{
    uint64_t seed = test_seed();
    struct dat inner, d;
    struct needle n = {.key = 9, .cookie = 9, .append_at_ns = 9};
    struct needle_scan_item item;

    (void)state;
    dat_init(&inner, NEEDLE_V3, 4096);
    dat_put_plain(&inner, 1, 50, &seed);
    dat_init(&d, NEEDLE_V3, 8192);
    seal_needle(NEEDLE_V3, &n, bytes_of(inner.p, inner.n));
    dat_put(&d, &n, bytes_of(inner.p, inner.n));
    d.n -= 8;
    step_at(&d, 8, &item);
    assert_int_equal(item.kind, NEEDLE_SCAN_GARBAGE);
    assert_true(item.torn);
    dat_release(&d);
    dat_release(&inner);
}

/* Each eighth byte is the header of a record that reaches far: few of them are checked, and the pass ends. */
static void hostile_headers(void **state)
{
    const size_t n = 4 << 20;
    uint8_t *p = must_alloc(n);

    (void)state;
    for (uint8_t version = 1; version <= 3; version++) {
        struct needle_resync r;
        size_t found, resume;
        memset(p, 0xee, n); /* the end must not look like that of a run of tombstones */
        for (size_t at = 0; at + 100 <= n; at += 24) {
            uint32_t size = (uint32_t)(n - at - 64);
            be32_put(p + at, 1);
            be64_put(p + at + 4, 2);
            be32_put(p + at + 12, size);
            be32_put(p + at + 16, size - 5);
            be32_put(p + at + 20, size);
        }
        needle_resync_init(&r, n);
        assert_true(r.crc_bytes_left <= 8 * n + (1 << 20));
        assert_false(needle_resync_next(&r, version, bytes_of(p, n), 0, 8, 8 + n, &found, &resume));
        assert_true(resume >= n);
        assert_true(r.skipped > 0);
    }
    free(p);
}

static void budget_runs_out_and_stays_at_zero(void **state)
{
    struct needle_resync r;

    (void)state;
    needle_resync_init(&r, 1000);
    assert_int_equal(r.crc_bytes_left, 8000 + (1 << 20));
    assert_true(needle_resync_affords(&r, r.crc_bytes_left / 2));
    assert_false(needle_resync_affords(&r, r.crc_bytes_left / 2 + 1));
    assert_int_equal(r.skipped, 1);
    needle_resync_charge(&r, r.crc_bytes_left - 10);
    assert_true(needle_resync_affords(&r, 5));
    needle_resync_charge(&r, 11);
    assert_int_equal(r.crc_bytes_left, 0);
    assert_true(needle_resync_affords(&r, 0));
    assert_false(needle_resync_affords(&r, 1));
}

/* A long genuine record is found however much of the budget shorter false ones have eaten before, within its bound. */
static void honest_record_behind_false_ones(void **state)
{
    uint64_t seed = test_seed();
    struct dat d;
    size_t found, resume;

    (void)state;
    dat_init(&d, NEEDLE_V3, 4 << 20);
    for (int i = 0; i < 200; i++) {
        uint8_t *h = d.p + d.n;
        memset(h, 0, 64);
        be32_put(h, 1);
        be64_put(h + 4, 2);
        be32_put(h + 12, 10005);
        be32_put(h + 16, 10000);
        d.n += 64;
    }
    dat_put_plain(&d, 7, 1 << 20, &seed);
    assert_true(needle_scan_resync(NEEDLE_V3, view(&d, 8), 0, 8, d.n, &found, &resume));
    assert_int_equal(8 + found, d.starts[0]);
    dat_release(&d);
}

static void random_windows(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int i = 0; i < 30000; i++) {
        size_t n = rnd_below(&seed, 300);
        uint64_t file = 8 + n + (rnd_below(&seed, 2) == 0 ? 0 : rnd_below(&seed, 1000000));
        uint8_t version = (uint8_t)(1 + rnd_below(&seed, 3)), *p = must_alloc(n);
        struct needle_scan_item item;
        size_t found, resume;
        rnd_fill(&seed, p, n);
        for (size_t k = rnd_below(&seed, 40); n > 0 && k > 0; k--)
            p[rnd_below(&seed, n)] = 0;
        needle_scan_step(version, bytes_of(p, n), 8, file, &item);
        if (item.kind == NEEDLE_SCAN_MORE)
            assert_true(item.record_bytes > n && 8 + item.record_bytes <= file);
        if (item.kind == NEEDLE_SCAN_RECORD)
            assert_true(item.record_bytes <= n && item.record_bytes % 8 == 0);
        if (!needle_scan_resync(version, bytes_of(p, n), 0, 8, file, &found, &resume))
            assert_true(resume <= align8_up(n) && resume % 8 == 0);
        needle_scan_step(version, bytes_of(p, n), 8, 4, &item); /* a file shorter than where we stand */
        free(p);
    }
}

/* The sector that began with the Size was not written: cookie and key, then zeros. */
static void a_header_torn_behind_its_key_is_no_empty_file(void **state)
{
    for (uint8_t version = 1; version <= 3; version++) {
        struct needle_scan_item item;
        uint64_t seed = 5;
        struct dat d;

        dat_init(&d, version, 4096);
        dat_put_plain(&d, 1, 100, &seed);
        memset(d.p + d.starts[0] + 12, 0, d.n - d.starts[0] - 12);
        step_at(&d, d.starts[0], &item);
        /* Versions 1 and 2 have nothing that tells. */
        assert_int_equal(item.kind, version == NEEDLE_V3 ? NEEDLE_SCAN_BAD_DATA : NEEDLE_SCAN_RECORD);
        dat_release(&d);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_torn_behind_its_key_is_no_empty_file),
        cmocka_unit_test(runs_tile),
        cmocka_unit_test(short_windows),
        cmocka_unit_test(torn_tails),
        cmocka_unit_test(zeros_are_no_records),
        cmocka_unit_test(zero_bytes_counted),
        cmocka_unit_test(fillers_are_stepped_over),
        cmocka_unit_test(bad_bodies),
        cmocka_unit_test(every_flipped_byte),
        cmocka_unit_test(resync_finds_the_next_record),
        cmocka_unit_test(resync_over_tombstones),
        cmocka_unit_test(resync_in_windows),
        cmocka_unit_test(resync_behind_zeros),
        cmocka_unit_test(torn_record_with_a_dat_inside),
        cmocka_unit_test(hostile_headers),
        cmocka_unit_test(budget_runs_out_and_stays_at_zero),
        cmocka_unit_test(honest_record_behind_false_ones),
        cmocka_unit_test(random_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
