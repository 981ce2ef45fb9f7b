/* needle/superblock.c: the first eight bytes, every value of them. */
#include "needle_test.h"

#include "needle/superblock.h"

static void known(void **state)
{
    static const uint8_t b[8] = {3, 0x0a, 5, 3, 0x01, 0x02, 0, 0};
    struct superblock sb;
    uint8_t out[8];

    (void)state;
    assert_int_equal(superblock_decode(bytes_of(b, 8), &sb), 0);
    assert_int_equal(sb.version, NEEDLE_V3);
    assert_int_equal(sb.placement.other_racks, 1);
    assert_int_equal(ttl_minutes(sb.ttl), 5 * 1440);
    assert_int_equal(sb.compact_revision, 0x102);
    assert_int_equal(superblock_end(&sb), 8);
    superblock_encode(&sb, out);
    assert_memory_equal(b, out, 8);
}

static void extra_block(void **state)
{
    static const struct {
        uint8_t version;
        uint16_t extra;
        uint64_t end;
    } rows[] = {{3, 0, 8}, {3, 1, 16}, {3, 8, 16}, {2, 9, 24}, {3, 65535, 65544}, {1, 65535, 8}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint8_t b[8] = {rows[i].version, 0, 0, 0, 0, 0, (uint8_t)(rows[i].extra >> 8), (uint8_t)rows[i].extra};
        struct superblock sb;
        assert_int_equal(superblock_decode(bytes_of(b, 8), &sb), 0);
        assert_int_equal(superblock_end(&sb), rows[i].end);
        assert_true(superblock_end(&sb) <= align8_up(SUPERBLOCK_BYTES_MAX));
    }
}

static void refused(void **state)
{
    uint8_t b[8] = {3};
    struct superblock sb = {.version = 77};

    (void)state;
    for (size_t n = 0; n < 8; n++) {
        uint8_t *p = must_alloc(n);
        memcpy(p, b, n);
        assert_int_equal(superblock_decode(bytes_of(p, n), &sb), DFS_ESHORT);
        free(p);
    }
    for (unsigned v = 0; v < 256; v++) {
        b[0] = (uint8_t)v;
        if (v >= 1 && v <= 3)
            continue;
        assert_int_equal(superblock_decode(bytes_of(b, 8), &sb), DFS_EVERSION);
    }
    assert_int_equal(sb.version, 77);
}

/* What decodes encodes to the same bytes, but for a ttl that is none and version 1's unused bytes. */
static void round_trip(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int i = 0; i < 20000; i++) {
        uint8_t b[8], out[8];
        struct superblock sb;
        rnd_fill(&seed, b, sizeof b);
        b[0] = (uint8_t)(1 + rnd_below(&seed, 3));
        assert_int_equal(superblock_decode(bytes_of(b, 8), &sb), 0);
        superblock_encode(&sb, out);
        if (ttl_is_none(sb.ttl))
            b[2] = b[3] = 0;
        if (b[0] == NEEDLE_V1)
            b[6] = b[7] = 0;
        assert_memory_equal(b, out, 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known),
        cmocka_unit_test(extra_block),
        cmocka_unit_test(refused),
        cmocka_unit_test(round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
