/* needle/idx.c: rows of both widths, and telling them apart without ever being wrong. */
#include "needle_test.h"

#include "needle/idx.h"

static void golden_rows(void **state)
{
    static const struct {
        unsigned width;
        const char *hex;
        struct idx_row row;
        bool deletes;
    } rows[] = {
        {5, "000000000000000d 00000001 00 00000027", {0x0d, {1}, 0x27}, false},
        {5, "000000000000000d 0000000a 00 ffffffff", {0x0d, {10}, IDX_SIZE_TOMBSTONE}, true},
        {4, "000000000000000b 00000001 0000003f", {0x0b, {1}, 0x3f}, false},
        {4, "000000000000000b 0000000c ffffffff", {0x0b, {12}, IDX_SIZE_TOMBSTONE}, true},
        {5, "0102030405060708 11223344 aa 00000001", {0x0102030405060708, {0xaa11223344}, 1}, false},
        {4, "0000000000000001 00000000 00000005", {1, {0}, 5}, true},
        {4, "0000000000000001 00000002 80000000", {1, {2}, 0x80000000}, true},
        {4, "0000000000000001 00000002 00000000", {1, {2}, 0}, false},
        {4, "0000000000000001 ffffffff 7fffffff", {1, {UINT32_MAX}, 0x7fffffff}, false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint8_t in[IDX_ROW_BYTES_MAX], out[IDX_ROW_BYTES_MAX] = {0};
        struct idx_row row;
        size_t n = from_hex(rows[i].hex, in, sizeof in);
        assert_int_equal(n, idx_row_bytes(rows[i].width));
        idx_row_decode(rows[i].width, in, &row);
        assert_true(row.key == rows[i].row.key && row.offset.units8 == rows[i].row.offset.units8);
        assert_int_equal(row.size, rows[i].row.size);
        assert_int_equal(idx_row_deletes(&row), rows[i].deletes);
        assert_int_equal(idx_row_encode(rows[i].width, &row, out), n);
        assert_memory_equal(in, out, n);
    }
}

/* G60: a row of five-byte offsets is written and read whole on both sides of each border where a byte more is needed. */
static void borders_of_the_offset(void **state)
{
    static const uint64_t borders[] = {1ull << 24, 1ull << 29, 1ull << 32, 1ull << 35, 1ull << 37, 1ull << 40};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(borders); i++) {
        for (int side = -1; side <= 1; side++) {
            uint64_t at = borders[i] + (uint64_t)(int64_t)(8 * side);
            struct idx_row in = {0x1122334455667788, needle_offset_of(at), 77}, out;
            uint8_t row[IDX_ROW_BYTES_MAX];

            assert_int_equal(idx_row_encode(5, &in, row), idx_row_bytes(5));
            idx_row_decode(5, row, &out);
            assert_true(needle_offset_bytes(out.offset) == at && out.key == in.key && out.size == in.size);
        }
    }
}

static void round_trip(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int i = 0; i < 20000; i++) {
        unsigned width = 4 + (unsigned)(i & 1);
        struct idx_row in = {rnd(&seed), {rnd(&seed) >> (64 - 8 * width)}, (uint32_t)rnd(&seed)}, out;
        uint8_t *p = must_alloc(idx_row_bytes(width)), row[IDX_ROW_BYTES_MAX];
        memcpy(p, row, idx_row_encode(width, &in, row));
        idx_row_decode(width, p, &out);
        assert_true(in.key == out.key && in.offset.units8 == out.offset.units8 && in.size == out.size);
        free(p);
    }
    assert_true(idx_addressable_end(4) == 34359738368ull);
    assert_true(idx_addressable_end(5) == 8796093022208ull);
    assert_true(needle_offset_bytes(needle_offset_of(34359738360ull)) == 34359738360ull);
}

/* A made-up volume: rows in log order, and how long its .dat is. */
struct made {
    struct idx_row rows[400];
    size_t n;
    uint64_t dat_bytes;
};

static void make_volume(uint64_t *seed, uint8_t version, unsigned width, struct made *m)
{
    uint64_t at = 8, end = idx_addressable_end(width);
    uint64_t size_max = 1ull << (4 + rnd_below(seed, 24));
    size_t rows = 1 + rnd_below(seed, rnd_below(seed, 2) == 0 ? 6 : ARRAY_LEN(m->rows));

    if (width == 5 && rnd_below(seed, 4) == 0)
        at = 8 * (1ull << 32) + 8 * rnd_below(seed, 1u << 30); /* rows behind a long volume's start */
    m->n = 0;
    for (size_t i = 0; i < rows; i++) {
        bool deletes = rnd_below(seed, 6) == 0;
        uint32_t size = deletes ? IDX_SIZE_TOMBSTONE : (uint32_t)rnd_below(seed, size_max);
        uint64_t bytes = needle_record_bytes(version, deletes ? 0 : size);
        if (at + bytes > end)
            break;
        m->rows[m->n++] = (struct idx_row){rnd(seed) >> rnd_below(seed, 64), needle_offset_of(at), size};
        if (deletes && rnd_below(seed, 8) == 0)
            m->rows[m->n - 1].offset.units8 = 0;
        at += bytes;
    }
    m->dat_bytes = at;
}

static int by_key(const void *a, const void *b)
{
    uint64_t x = ((const struct idx_row *)a)->key, y = ((const struct idx_row *)b)->key;

    return x < y ? -1 : x > y;
}

/* Whole indexes, key-sorted ones, torn ends, stale rows, records without a row: right or "cannot tell", never wrong. */
static void guesses_are_never_wrong(void **state)
{
    uint64_t seed = test_seed();
    unsigned unknown[2] = {0, 0}, total[2] = {0, 0};

    (void)state;
    for (int i = 0; i < 20000; i++) {
        uint8_t version = (uint8_t)(1 + rnd_below(&seed, 3));
        unsigned width = 4 + (unsigned)rnd_below(&seed, 2), guess;
        bool plain = rnd_below(&seed, 2) == 0;
        struct made m;
        uint8_t *idx;
        size_t n = 0;

        make_volume(&seed, version, width, &m);
        if (!plain && rnd_below(&seed, 3) == 0)
            qsort(m.rows, m.n, sizeof m.rows[0], by_key);
        idx = must_alloc(m.n * IDX_ROW_BYTES_MAX);
        for (size_t r = 0; r < m.n; r++)
            n += idx_row_encode(width, &m.rows[r], idx + n);
        if (!plain && rnd_below(&seed, 3) == 0)
            n -= rnd_below(&seed, n + 1 < 40 ? n + 1 : 40); /* torn */
        if (!plain && rnd_below(&seed, 3) == 0)
            m.dat_bytes -= 8 * rnd_below(&seed, 1 + (m.dat_bytes - 8 < 800 ? (m.dat_bytes - 8) / 8 : 100)); /* cut .dat */
        if (!plain && rnd_below(&seed, 3) == 0)
            m.dat_bytes += 8 * rnd_below(&seed, 1000);
        guess = idx_guess_width(bytes_of(idx, n), version, m.dat_bytes);
        if (guess != 0 && guess != width)
            fail_msg("case %d: width %u of %zu rows (%zu bytes) taken for %u", i, width, m.n, n, guess);
        total[plain] += 1;
        unknown[plain] += guess == 0;
        free(idx);
    }
    printf("# cannot tell: %u of %u whole, %u of %u damaged\n", unknown[1], total[1], unknown[0], total[0]);
    assert_true(unknown[1] * 100 < total[1]);
    assert_true(unknown[0] * 3 < total[0]);
}

static void nothing_to_go_by(void **state)
{
    uint8_t zeros[17 * 16] = {0};
    uint8_t tombstones[16 * 17];

    (void)state;
    assert_int_equal(idx_guess_width(BYTES_NONE, 3, 8), 0);
    assert_int_equal(idx_guess_width(BYTES_NONE, 3, 1000000), 0);
    assert_int_equal(idx_guess_width(bytes_of(zeros, 5), 3, 1000), 0);
    assert_int_equal(idx_guess_width(bytes_of(zeros, sizeof zeros), 3, 1000), 0);
    assert_int_equal(idx_guess_width(bytes_of(zeros, 16), 3, 1000), 0);
    memset(tombstones, 0xff, sizeof tombstones);
    assert_int_equal(idx_guess_width(bytes_of(tombstones, sizeof tombstones), 3, 1000), 0);
}

static void golden_indexes(void **state)
{
    static const struct {
        const char *idx, *dat;
        unsigned width;
    } rows[] = {
        {"mixed/2", "mixed/2", 5},         {"mixed-idx16/2", "mixed/2", 4},       {"deleted/5", "deleted/5", 5},
        {"deleted-idx16/5", "deleted/5", 4}, {"vacuumed/1", "vacuumed/1", 5},     {"torn-tail/14", "torn-tail/14", 5},
        {"v2-mixed/4", "v2-mixed/4", 4},   {"v2-ttl/5", "v2-ttl/5", 4},           {"v2-vacuumed/3", "v2-vacuumed/3", 4},
        {"ttl-8y/7", "ttl-8y/7", 5},       {"flipped-byte/17", "flipped-byte/17", 5},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char path[200];
        struct bytes idx, dat;
        snprintf(path, sizeof path, "tests/fixtures/volumes/%s.idx", rows[i].idx);
        idx = read_file(path);
        snprintf(path, sizeof path, "tests/fixtures/volumes/%s.dat", rows[i].dat);
        dat = read_file(path);
        if (idx_guess_width(idx, (uint8_t)dat.p[0], dat.n) != rows[i].width)
            fail_msg("%s: %u", rows[i].idx, idx_guess_width(idx, (uint8_t)dat.p[0], dat.n));
        /* torn by any number of bytes: still never the other */
        for (size_t n = 0; n <= idx.n; n++) {
            unsigned guess = idx_guess_width(bytes_of(idx.p, n), (uint8_t)dat.p[0], dat.n);
            if (guess != 0 && guess != rows[i].width)
                fail_msg("%s cut to %zu bytes taken for %u", rows[i].idx, n, guess);
        }
        free((void *)(uintptr_t)idx.p);
        free((void *)(uintptr_t)dat.p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_rows),      cmocka_unit_test(borders_of_the_offset),   cmocka_unit_test(round_trip),
        cmocka_unit_test(nothing_to_go_by), cmocka_unit_test(guesses_are_never_wrong), cmocka_unit_test(golden_indexes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
