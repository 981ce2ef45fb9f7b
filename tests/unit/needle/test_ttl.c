/* needle/ttl.c: a TTL is what was asked for, or refused. */
#include "needle_test.h"

#include "needle/ttl.h"

static const char letters[] = "?mhdwMy";
static const uint32_t minutes_of[] = {0, 1, 60, 1440, 10080, 43200, 525600};

static void known_texts(void **state)
{
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"", ""},       {"5", "5m"},     {"5m", "5m"},     {"60m", "1h"},  {"90m", "90m"},  {"24h", "1d"},
        {"1440m", "1d"}, {"300m", "5h"}, {"7d", "1w"},     {"14d", "2w"},  {"30d", "1M"},   {"365d", "1y"},
        {"12M", "12M"}, {"52w", "52w"},  {"30w", "7M"},    {"4w", "4w"},   {"100y", "100y"}, {"3M", "3M"},
        {"255y", "255y"}, {"254h", "254h"}, {"255m", "255m"}, {"05m", "5m"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[TTL_TEXT_MAX];
        struct ttl ttl;
        if (ttl_parse(bytes_str(rows[i].in), &ttl) != 0)
            fail_msg("'%s' refused", rows[i].in);
        assert_int_equal(ttl_format(ttl, text), strlen(rows[i].out));
        assert_string_equal(text, rows[i].out);
    }
}

static void refused_texts(void **state)
{
    static const char *const rows[] = {
        "0", "0m", "0y", "256y", "1439m", "256d", "257m", "30s", "m", "y", "3 m", " 3m", "3m ", "3mm", "-3m", "+3m", "3.5h",
        "3x", "3Y", "3H", "abc", "99999999999999999999m", "18446744073709551617", "4294967296m", "4294967295y", "3m\n",
    };
    struct ttl ttl = {77, 1};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (ttl_parse(bytes_str(rows[i]), &ttl) != DFS_EINVAL)
            fail_msg("'%s' was taken for %u%c", rows[i], ttl.count, letters[ttl.unit]);
        assert_int_equal(ttl.count, 77);
    }
    assert_int_equal(ttl_parse(bytes_of("3\0m", 3), &ttl), DFS_EINVAL);
}

/* Every count of every unit: the same minutes come back, what is shown parses to itself, and no larger unit fits. */
static void every_count_and_unit(void **state)
{
    (void)state;
    for (unsigned unit = TTL_MINUTE; unit <= TTL_YEAR; unit++) {
        for (unsigned count = 1; count <= 255; count++) {
            char in[TTL_TEXT_MAX], out[TTL_TEXT_MAX], again[TTL_TEXT_MAX];
            struct ttl ttl, ttl2;
            uint32_t minutes = count * minutes_of[unit];
            snprintf(in, sizeof in, "%u%c", count, letters[unit]);
            assert_int_equal(ttl_parse(bytes_str(in), &ttl), 0);
            assert_int_equal(ttl_minutes(ttl), minutes);
            for (unsigned larger = ttl.unit + 1u; larger <= TTL_YEAR; larger++)
                assert_true(minutes % minutes_of[larger] != 0 || minutes / minutes_of[larger] > 255);
            ttl_format(ttl, out);
            assert_int_equal(ttl_parse(bytes_str(out), &ttl2), 0);
            ttl_format(ttl2, again);
            assert_string_equal(out, again);
            if (ttl.unit == unit)
                assert_string_equal(in, out);
        }
    }
}

/* Minutes 1 to 800,000: exact, or refused, never something near it. */
static void exact_or_refused(void **state)
{
    char text[24];

    (void)state;
    for (uint32_t m = 1; m < 800000; m += m < 20000 ? 1 : 7) {
        struct ttl ttl;
        bool sayable = false;
        for (unsigned unit = TTL_MINUTE; unit <= TTL_YEAR; unit++)
            sayable |= m % minutes_of[unit] == 0 && m / minutes_of[unit] <= 255;
        snprintf(text, sizeof text, "%u", m);
        assert_int_equal(ttl_parse(bytes_str(text), &ttl), sayable ? 0 : DFS_EINVAL);
        if (sayable)
            assert_int_equal(ttl_minutes(ttl), m);
    }
}

static void bytes_and_numbers(void **state)
{
    (void)state;
    for (unsigned v = 0; v < 65536; v++) {
        uint8_t b[2] = {(uint8_t)(v >> 8), (uint8_t)v}, back[2];
        struct ttl ttl = ttl_from_bytes(b), from_u32 = ttl_from_u32(v);
        char text[TTL_TEXT_MAX];
        bool none = b[0] == 0 || b[1] == 0 || b[1] > 6;
        assert_int_equal(ttl_is_none(ttl), none);
        assert_true(ttl.count == from_u32.count && ttl.unit == from_u32.unit);
        assert_int_equal(ttl_to_u32(ttl), none ? 0 : v);
        ttl_to_bytes(ttl, back);
        assert_int_equal(be16_get(back), none ? 0 : v);
        assert_int_equal(ttl_format(ttl, text) == 0, none);
        assert_int_equal(ttl_minutes(ttl) == 0, none);
    }
    assert_true(ttl_is_none(ttl_from_u32(0x10501)));
    assert_true(ttl_is_none(ttl_from_u32(UINT32_MAX)));
    assert_int_equal(ttl_minutes((struct ttl){3, 200}), 0);
    assert_int_equal(ttl_format((struct ttl){3, 200}, (char[TTL_TEXT_MAX]){0}), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_texts),      cmocka_unit_test(refused_texts),     cmocka_unit_test(every_count_and_unit),
        cmocka_unit_test(exact_or_refused), cmocka_unit_test(bytes_and_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
