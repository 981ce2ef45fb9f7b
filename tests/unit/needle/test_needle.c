/* needle/needle.c: golden records, round trips, every cut and every flipped byte, tombstones, fillers, expiry. */
#include "needle_test.h"

#define NOW_NS 1796059253727678173ull

/* ---- golden ---- */

static void golden_v3(void **state)
{
    uint8_t rec[128], tomb[NEEDLE_TOMBSTONE_MAX];
    size_t n = from_hex("bd7a017f 000000000000000d 00000027 0000000c 68656c6c6f20776f726c640a 0e 05 682e747874"
                        "0a 746578742f706c61696e 00 6b0dad46 f0ff7292 18ece1a23b262c67 0000002700",
                        rec, sizeof rec);
    struct needle needle;
    struct bytes data;

    (void)state;
    assert_int_equal(n, 0x50 - 0x08);
    assert_int_equal(needle_decode(NEEDLE_V3, bytes_of(rec, n), &needle, &data), 0);
    assert_int_equal(needle.cookie, 0xbd7a017f);
    assert_int_equal(needle.key, 0x0d);
    assert_int_equal(needle.body_bytes, 39);
    assert_int_equal(needle.flags, NEEDLE_HAS_NAME | NEEDLE_HAS_MIME | NEEDLE_HAS_LAST_MODIFIED);
    assert_true(bytes_eq(data, BYTES_LIT("hello world\n")));
    assert_true(bytes_eq(needle.name, BYTES_LIT("h.txt")));
    assert_true(bytes_eq(needle.mime, BYTES_LIT("text/plain")));
    assert_int_equal(needle.last_modified_s, 0x6b0dad46);
    assert_int_equal(needle.checksum, 0xf0ff7292);
    assert_true(needle.append_at_ns == 0x18ece1a23b262c67ull);
    assert_int_equal(needle_verify(&needle, data), 0);
    assert_int_equal(needle_record_bytes(NEEDLE_V3, 39), n);

    n = needle_encode_tombstone(NEEDLE_V3, &(struct needle_header){0xbd7a017f, 0x0d, 39}, 0xf0ff7292,
                                0x18ece1a25ab35a2dull, tomb);
    assert_int_equal(n, 32);
    from_hex("bd7a017f 000000000000000d 00000000 f0ff7292 18ece1a25ab35a2d 00000000", rec, sizeof rec);
    assert_memory_equal(rec, tomb, 32);
}

static void golden_v2(void **state)
{
    uint8_t rec[128], tomb[NEEDLE_TOMBSTONE_MAX];
    size_t n = from_hex("c5f61f6b 000000000000000b 0000003f"
                        "00000024 1f8b08000000000002ffca48cdc9c95728cf2fca49e102040000ffff2d3b08af0c000000 0f"
                        "05 682e747874 0a 746578742f706c61696e 00 6b0daea9 7d7d7398 6b0daea900",
                        rec, sizeof rec);
    struct needle needle;
    struct bytes data;

    (void)state;
    assert_int_equal(n, 0x60 - 0x08);
    assert_int_equal(needle_record_bytes(NEEDLE_V2, 63), n);
    assert_int_equal(needle_decode(NEEDLE_V2, bytes_of(rec, n), &needle, &data), 0);
    assert_int_equal(needle.flags, 0x0f);
    assert_int_equal(data.n, 36);
    assert_int_equal(needle.checksum, 0x7d7d7398);
    assert_int_equal(crc32c_unmask(needle.checksum), 0x44606d7d);
    assert_int_equal(needle_checksum_for(NEEDLE_V2, 0x44606d7d), 0x7d7d7398);
    assert_int_equal(needle.append_at_ns, 0);
    assert_int_equal(needle_verify(&needle, data), 0);
    needle.checksum = 0x44606d7d; /* the raw form is as good */
    assert_int_equal(needle_verify(&needle, data), 0);

    n = needle_encode_tombstone(NEEDLE_V2, &(struct needle_header){0xc5f61f6b, 0x0b, 63}, 0x7d7d7398, 0, tomb);
    assert_int_equal(n, 24);
    from_hex("c5f61f6b 000000000000000b 00000000 7d7d7398 00000000", rec, sizeof rec);
    assert_memory_equal(rec, tomb, 24);
}

static void golden_benchmark_record(void **state)
{
    struct needle n = {.cookie = 1, .key = 1, .flags = 0x0e, .name = BYTES_LIT("."), .last_modified_s = 0x6b0daf35};
    char zeros[1080] = {0};
    uint8_t trail[NEEDLE_TRAILER_MAX], expected[32];
    size_t used;

    (void)state;
    seal_needle(NEEDLE_V2, &n, bytes_of(zeros, sizeof zeros));
    assert_int_equal(n.body_bytes, 1093);
    assert_int_equal(n.checksum, 0xf0c86123);
    used = from_hex("0e 01 2e 00 00 6b0daf35 f0c86123", expected, sizeof expected);
    assert_true(needle_encode_trail(NEEDLE_V2, &n, trail) > used);
    assert_memory_equal(trail, expected, used);
}

static void record_sizes(void **state)
{
    static const struct {
        uint8_t version;
        uint32_t body;
        uint64_t record;
    } rows[] = {
        {1, 0, 24},  {2, 0, 24},  {3, 0, 32},   {2, 3, 24},  {2, 4, 32},  {3, 3, 32},  {3, 4, 40},
        {3, 11, 40}, {3, 12, 48}, {2, 39, 64},  {3, 39, 72}, {1, 12, 40}, {3, NEEDLE_BODY_MAX, 0x80000020},
        {2, NEEDLE_BODY_MAX, 0x80000018},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_true(needle_record_bytes(rows[i].version, rows[i].body) == rows[i].record);
    assert_int_equal(needle_record_bytes_min(NEEDLE_V3), 32);
    assert_int_equal(needle_record_bytes_min(NEEDLE_V2), 24);
}

/* ---- round trips ---- */

static void assert_same_needle(const struct needle *a, const struct needle *b)
{
    assert_int_equal(a->cookie, b->cookie);
    assert_true(a->key == b->key);
    assert_int_equal(a->body_bytes, b->body_bytes);
    assert_int_equal(a->data_bytes, b->data_bytes);
    assert_int_equal(a->checksum, b->checksum);
    assert_true(a->append_at_ns == b->append_at_ns);
    if (a->body_bytes == 0)
        return;
    assert_int_equal(a->flags, b->flags);
    assert_true(bytes_eq(a->name, b->name) && bytes_eq(a->mime, b->mime) && bytes_eq(a->pairs, b->pairs));
    assert_true(a->last_modified_s == b->last_modified_s);
    assert_true(a->ttl.count == b->ttl.count && a->ttl.unit == b->ttl.unit);
}

static void round_trip(void **state)
{
    uint64_t seed = test_seed();
    uint8_t texts[NEEDLE_TRAILER_MAX];

    (void)state;
    for (int i = 0; i < 3000; i++) {
        uint8_t version = (uint8_t)(1 + rnd_below(&seed, 3));
        struct needle in = random_needle(&seed, version, texts), out, split;
        size_t data_n = rnd_below(&seed, 5) == 0 ? 0 : rnd_below(&seed, 300);
        char *blob = must_alloc(data_n);
        struct bytes data = bytes_of(blob, data_n), back;
        uint64_t whole, trail_at;
        uint8_t *rec;

        rnd_fill(&seed, blob, data_n);
        seal_needle(version, &in, data);
        whole = needle_record_bytes(version, in.body_bytes);
        assert_int_equal(whole % 8, 0);
        rec = must_alloc(whole);
        put_record(version, &in, data, rec);
        assert_int_equal(needle_decode(version, bytes_of(rec, whole), &out, &back), 0);
        assert_same_needle(&in, &out);
        assert_true(bytes_eq(data, back));
        assert_int_equal(needle_verify(&out, back), 0);
        trail_at = needle_trail_offset(version, in.body_bytes, in.data_bytes);
        assert_int_equal(trail_at - in.data_bytes, data_n > 0 ? needle_data_offset(version) : 16);
        assert_int_equal(needle_decode_split(version, bytes_of(rec, trail_at < 20 ? trail_at : 20),
                                             bytes_of(rec + trail_at, whole - trail_at), &split), 0);
        assert_same_needle(&in, &split);
        free(rec);
        free(blob);
    }
}

/* ---- hostile bytes ---- */

/* A record with every field, in memory that ends with it. */
static uint8_t *full_record(uint8_t version, size_t *n)
{
    struct needle needle = {
        .cookie = 0x01020304,
        .key = 0x1122334455667788,
        .flags = 0x3e,
        .ttl = {3, TTL_DAY},
        .name = BYTES_LIT("name.txt"),
        .mime = BYTES_LIT("text/plain"),
        .pairs = BYTES_LIT("{\"a\":\"b\"}"),
        .last_modified_s = 0x0123456789,
        .append_at_ns = version == NEEDLE_V3 ? NOW_NS : 0,
    };
    uint8_t *rec;

    seal_needle(version, &needle, BYTES_LIT("forty two bytes that are worth keeping ..."));
    *n = needle_record_bytes(version, needle.body_bytes);
    rec = must_alloc(*n);
    put_record(version, &needle, BYTES_LIT("forty two bytes that are worth keeping ..."), rec);
    return rec;
}

static void every_cut(void **state)
{
    (void)state;
    for (uint8_t version = 1; version <= 3; version++) {
        size_t whole;
        uint8_t *rec = full_record(version, &whole);
        uint32_t body = be32_get(rec + 12);
        size_t used = 16 + body + 4 + (version == NEEDLE_V3 ? 8 : 0);
        for (size_t n = 0; n <= whole; n++) {
            uint8_t *cut = must_alloc(n);
            struct needle needle;
            struct bytes data;
            memcpy(cut, rec, n);
            assert_int_equal(needle_decode(version, bytes_of(cut, n), &needle, &data), n < used ? DFS_ESHORT : 0);
            free(cut);
        }
        free(rec);
    }
}

/* Whatever single byte is wrong: no crash, and what decodes and verifies has the right data. */
static void every_flipped_byte(void **state)
{
    (void)state;
    for (uint8_t version = 1; version <= 3; version++) {
        size_t whole;
        uint8_t *rec = full_record(version, &whole);
        for (size_t at = 0; at < whole; at++) {
            for (unsigned mask = 1; mask < 256; mask++) {
                struct needle needle;
                struct bytes data;
                rec[at] ^= (uint8_t)mask;
                if (needle_decode(version, bytes_of(rec, whole), &needle, &data) == 0 &&
                    needle_verify(&needle, data) == 0 && needle.body_bytes != 0)
                    assert_true(bytes_eq(data, BYTES_LIT("forty two bytes that are worth keeping ...")));
                rec[at] ^= (uint8_t)mask;
            }
        }
        free(rec);
    }
}

/* A body cut between two fields reads as far as it goes; cut inside a field it is corrupt. */
static void bodies_that_end_early(void **state)
{
    static const size_t boundaries[] = {0, 1, 1 + 9, 1 + 9 + 11, 1 + 9 + 11 + 5, 1 + 9 + 11 + 5 + 2, 1 + 9 + 11 + 5 + 2 + 11};
    static const uint8_t flags_left[] = {0, 0, 0x02, 0x06, 0x0e, 0x1e, 0x3e};
    size_t whole;
    uint8_t *rec = full_record(NEEDLE_V3, &whole);
    const size_t data_n = 42;

    (void)state;
    for (size_t meta = 0; meta <= 39; meta++) {
        uint8_t *cut = must_alloc(whole);
        struct needle needle;
        struct bytes data;
        size_t field = ARRAY_LEN(boundaries);
        int rc;
        memcpy(cut, rec, whole);
        be32_put(cut + 12, (uint32_t)(4 + data_n + meta));
        rc = needle_decode(NEEDLE_V3, bytes_of(cut, whole), &needle, &data);
        for (size_t i = 0; i < ARRAY_LEN(boundaries); i++)
            if (boundaries[i] == meta)
                field = i;
        assert_int_equal(rc, field < ARRAY_LEN(boundaries) ? 0 : DFS_ECORRUPT);
        if (rc == 0)
            assert_int_equal(needle.flags, flags_left[field]);
        free(cut);
    }
    free(rec);
}

static void lengths_that_contradict(void **state)
{
    static const struct {
        uint32_t body, data;
        int rc;
    } rows[] = {
        {1, 0, DFS_ECORRUPT},           {3, 0, DFS_ECORRUPT},
        {4, 0, DFS_ECORRUPT},           {5, 0, DFS_ECORRUPT}, /* without data no body */
        {5, 1, 0},                      {5, 2, DFS_ECORRUPT},
        {5, UINT32_MAX, DFS_ECORRUPT},  {NEEDLE_BODY_MAX, NEEDLE_BODY_MAX - 4, 0},
        {NEEDLE_BODY_MAX, NEEDLE_BODY_MAX - 3, DFS_ECORRUPT},
        {0x80000000, 5, DFS_ECORRUPT},  {UINT32_MAX, 5, DFS_ECORRUPT},
        {5 + NEEDLE_META_MAX, 1, 0},    {5 + NEEDLE_META_MAX + 1, 1, DFS_ECORRUPT},
    };
    uint8_t head[20] = {0};
    uint32_t data_bytes;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        be32_put(head + 12, rows[i].body);
        be32_put(head + 16, rows[i].data);
        assert_int_equal(needle_data_bytes(NEEDLE_V2, bytes_of(head, 20), &data_bytes), rows[i].rc);
        if (rows[i].rc == 0)
            assert_int_equal(data_bytes, rows[i].data);
    }
    be32_put(head + 12, 9);
    assert_int_equal(needle_data_bytes(NEEDLE_V2, bytes_of(head, 19), &data_bytes), DFS_ESHORT);
    assert_int_equal(needle_data_bytes(NEEDLE_V1, bytes_of(head, 16), &data_bytes), 0);
    assert_int_equal(data_bytes, 9);
    assert_int_equal(needle_data_bytes(NEEDLE_V1, bytes_of(head, 15), &data_bytes), DFS_ESHORT);
    be32_put(head + 12, 0);
    assert_int_equal(needle_data_bytes(NEEDLE_V3, bytes_of(head, 16), &data_bytes), 0);
    assert_int_equal(data_bytes, 0);
}

static void random_bytes(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int i = 0; i < 50000; i++) {
        size_t n = rnd_below(&seed, 200);
        uint8_t *p = must_alloc(n);
        uint8_t version = (uint8_t)(1 + rnd_below(&seed, 3));
        struct needle needle;
        struct bytes data;
        rnd_fill(&seed, p, n);
        if (n >= 20 && rnd_below(&seed, 4) != 0) {
            be32_put(p + 12, (uint32_t)rnd_below(&seed, 200));
            be32_put(p + 16, (uint32_t)rnd_below(&seed, 200));
        }
        if (needle_decode(version, bytes_of(p, n), &needle, &data) == 0 && needle.body_bytes != 0)
            assert_int_equal(needle_verify(&needle, data), DFS_ECORRUPT);
        free(p);
    }
}

static void too_long_to_say(void **state)
{
    static char text[70000];
    struct needle n = {.data_bytes = 1, .flags = 0x22, .name = bytes_of(text, 255), .pairs = bytes_of(text, 65535)};
    uint32_t body = 77;

    (void)state;
    assert_int_equal(needle_body_bytes(NEEDLE_V3, &n, &body), 0);
    assert_int_equal(body, 4 + 1 + 1 + 256 + 65537);
    n.name.n = 256;
    assert_int_equal(needle_body_bytes(NEEDLE_V3, &n, &body), DFS_ETOOBIG);
    n.name.n = 0;
    n.pairs.n = 65536;
    assert_int_equal(needle_body_bytes(NEEDLE_V3, &n, &body), DFS_ETOOBIG);
    n.pairs.n = 0;
    n.mime = bytes_of(text, 256);
    assert_int_equal(needle_body_bytes(NEEDLE_V3, &n, &body), DFS_ETOOBIG);
    n = (struct needle){.data_bytes = NEEDLE_BODY_MAX - 5};
    assert_int_equal(needle_body_bytes(NEEDLE_V3, &n, &body), 0);
    assert_int_equal(body, NEEDLE_BODY_MAX);
    n.data_bytes++;
    assert_int_equal(needle_body_bytes(NEEDLE_V3, &n, &body), DFS_ETOOBIG);
    n.data_bytes = UINT32_MAX;
    assert_int_equal(needle_body_bytes(NEEDLE_V1, &n, &body), DFS_ETOOBIG);
}

static void names_cut_between_characters(void **state)
{
    char text[300];
    static const struct {
        const char *tail; /* behind 252 letters */
        size_t kept;
    } rows[] = {
        {"abc", 255},                       {"abcd", 255},
        {"a\xc3\xa9\xc3\xa9", 255},         {"\xc3\xa9\xc3\xa9", 254},
        {"\xe2\x82\xac\xe2\x82\xac", 255},  {"a\xe2\x82\xac\xe2\x82\xac", 253},
        {"ab\xe2\x82\xac", 254},            {"\xf0\x9f\x98\x80", 252},
        {"ab\xf0\x9f\x98\x80", 254},        {"\x80\x80\x80\x80\x80", 255},
    };

    (void)state;
    memset(text, 'x', sizeof text);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t n = 252 + strlen(rows[i].tail);
        char *p = must_alloc(n);
        struct bytes fit;
        memcpy(p, text, 252);
        memcpy(p + 252, rows[i].tail, n - 252);
        fit = needle_text_fit(bytes_of(p, n), NEEDLE_NAME_MAX);
        assert_ptr_equal(fit.p, p);
        assert_int_equal(fit.n, rows[i].kept);
        free(p);
    }
    assert_int_equal(needle_text_fit(BYTES_NONE, 255).n, 0);
    assert_int_equal(needle_text_fit(BYTES_LIT("\xc3\xa9"), 1).n, 0);
    assert_int_equal(needle_text_fit(BYTES_LIT("abc"), 0).n, 0);
}

/* ---- tombstones, fillers, expiry ---- */

static void tombstone_or_empty_file(void **state)
{
    static const struct {
        uint32_t body, checksum, cookie;
        bool earlier;
        uint32_t known;
        bool live_empty, deleted;
    } rows[] = {
        {5, 0, 7, false, 0, false, false},           /* has a body */
        {0, 0xf0ff7292, 7, true, 7, false, true},    /* checksum of what it deletes */
        {0, 0xffffffff, 7, true, 7, true, true},     /* of an empty file */
        {0, 0, 7, false, 0, false, false},           /* empty file */
        {0, 0xa282ead8, 7, false, 0, false, false},  /* the same, masked */
        {0, 0, 7, true, 7, false, false},            /* overwritten with nothing */
        {0, 0, 7, true, 8, false, true},             /* another's cookie */
        {0, 0, 7, true, 7, true, true},              /* empty already: only deleting makes sense */
        {0, 0, NEEDLE_COOKIE_BATCH_DELETE, false, 0, false, true},
        {0, 0, NEEDLE_COOKIE_CATCH_UP, false, 0, false, true},
        {0, 0, NEEDLE_COOKIE_CATCH_UP, true, NEEDLE_COOKIE_CATCH_UP, false, true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct needle n = {.body_bytes = rows[i].body, .checksum = rows[i].checksum, .cookie = rows[i].cookie};
        assert_int_equal(needle_looks_deleted(&n, rows[i].earlier, rows[i].known, rows[i].live_empty), rows[i].deleted);
    }
}

/* Our own empty files and tombstones are told apart without any context, in every version. */
static void own_tombstones_are_unambiguous(void **state)
{
    static const uint32_t checksums[] = {0, 1, 0xa282ead8, 0xffffffff, 0xf0ff7292};

    (void)state;
    for (uint8_t version = 1; version <= 3; version++) {
        for (size_t i = 0; i < ARRAY_LEN(checksums); i++) {
            uint8_t rec[NEEDLE_TOMBSTONE_MAX];
            struct needle n;
            struct bytes data;
            size_t len = needle_encode_tombstone(version, &(struct needle_header){7, 9, 5}, checksums[i], NOW_NS, rec);
            assert_int_equal(needle_decode(version, bytes_of(rec, len), &n, &data), 0);
            assert_int_equal(len, needle_record_bytes_min(version));
            assert_true(needle_looks_deleted(&n, false, 0, false));
            assert_true(needle_looks_deleted(&n, true, 7, false));
            assert_true(n.append_at_ns == (version == NEEDLE_V3 ? NOW_NS : 0));
        }
    }
}

static void fillers(void **state)
{
    (void)state;
    for (uint8_t version = 1; version <= 3; version++) {
        uint64_t min = needle_record_bytes_min(version);
        for (uint64_t gap = 0; gap < 2000; gap++) {
            struct needle_filler f = {.record_bytes = 1};
            struct needle n;
            struct bytes data;
            uint8_t *rec;
            int rc = needle_filler_make(version, gap, NOW_NS, &f);
            if (gap % 8 != 0 || gap < min) {
                assert_int_equal(rc, DFS_EINVAL);
                assert_int_equal(f.record_bytes, 1);
                continue;
            }
            assert_int_equal(rc, 0);
            assert_int_equal(f.record_bytes, gap);
            assert_int_equal(f.head_bytes + f.needle.data_bytes + f.trail_bytes, gap);
            rec = must_alloc(gap);
            memset(rec, 0, gap);
            memcpy(rec, f.head, f.head_bytes);
            memcpy(rec + gap - f.trail_bytes, f.trail, f.trail_bytes);
            assert_int_equal(needle_decode(version, bytes_of(rec, gap), &n, &data), 0);
            assert_int_equal(needle_record_bytes(version, n.body_bytes), gap);
            assert_int_equal(needle_verify(&n, data), 0);
            assert_int_equal(data.n, f.needle.data_bytes);
            assert_int_equal(n.body_bytes, f.needle.body_bytes);
            assert_true(needle_is_filler(&(struct needle_header){n.cookie, n.key, n.body_bytes}));
            free(rec);
        }
    }
}

/* A gap longer than any record is filled by several, none of which leaves a rest too short for the next. */
static void huge_fillers(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int i = 0; i < 3000; i++) {
        uint8_t version = (uint8_t)(1 + rnd_below(&seed, 3));
        uint64_t gap = 0x80000000ull + 8 * rnd_below(&seed, 64) + (i % 3) * 0x7ffffff8ull, left = gap;
        struct needle_filler f;
        while (left > 0) {
            assert_int_equal(needle_filler_make(version, left, NOW_NS, &f), 0);
            assert_true(f.record_bytes <= left && f.needle.body_bytes <= NEEDLE_BODY_MAX);
            assert_true(f.record_bytes == needle_record_bytes(version, f.needle.body_bytes));
            left -= f.record_bytes;
        }
    }
}

static void expiry(void **state)
{
    const uint64_t born_s = 1700000000;
    struct needle n = {.flags = NEEDLE_HAS_TTL | NEEDLE_HAS_LAST_MODIFIED, .ttl = {3, TTL_MINUTE}};

    (void)state;
    n.append_at_ns = born_s * 1000000000 + 999999999;
    n.last_modified_s = born_s - 1000;
    assert_false(needle_expired(NEEDLE_V3, &n, born_s + 179));
    assert_true(needle_expired(NEEDLE_V3, &n, born_s + 180));
    assert_true(needle_expired(NEEDLE_V2, &n, born_s)); /* by its last modified time */
    n.last_modified_s = born_s;
    assert_false(needle_expired(NEEDLE_V2, &n, born_s + 179));
    assert_true(needle_expired(NEEDLE_V2, &n, born_s + 180));
    n.append_at_ns = 0;
    assert_true(needle_expired(NEEDLE_V3, &n, born_s + 180));
    n.flags = NEEDLE_HAS_TTL;
    assert_false(needle_expired(NEEDLE_V3, &n, UINT64_MAX));
    n.flags = NEEDLE_HAS_LAST_MODIFIED;
    assert_false(needle_expired(NEEDLE_V2, &n, UINT64_MAX));
    n.flags |= NEEDLE_HAS_TTL;
    n.ttl = (struct ttl){255, TTL_YEAR};
    assert_false(needle_expired(NEEDLE_V2, &n, born_s + 255ull * 365 * 86400 - 1));
    assert_true(needle_expired(NEEDLE_V2, &n, born_s + 255ull * 365 * 86400));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_v3),
        cmocka_unit_test(golden_v2),
        cmocka_unit_test(golden_benchmark_record),
        cmocka_unit_test(record_sizes),
        cmocka_unit_test(round_trip),
        cmocka_unit_test(every_cut),
        cmocka_unit_test(every_flipped_byte),
        cmocka_unit_test(bodies_that_end_early),
        cmocka_unit_test(lengths_that_contradict),
        cmocka_unit_test(random_bytes),
        cmocka_unit_test(too_long_to_say),
        cmocka_unit_test(names_cut_between_characters),
        cmocka_unit_test(tombstone_or_empty_file),
        cmocka_unit_test(own_tombstones_are_unambiguous),
        cmocka_unit_test(fillers),
        cmocka_unit_test(huge_fillers),
        cmocka_unit_test(expiry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
