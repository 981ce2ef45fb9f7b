/* needle/replica_placement.c: text, byte, copies. */
#include "needle_test.h"

#include "needle/replica_placement.h"

static void texts(void **state)
{
    static const struct {
        const char *in, *out; /* out NULL: refused */
        unsigned copies;
    } rows[] = {
        {"", "000", 1},    {"0", "000", 1},   {"1", "001", 2},    {"01", "001", 2},  {"001", "001", 2},
        {"010", "010", 2}, {"10", "010", 2},  {"100", "100", 2},  {"200", "200", 3}, {"110", "110", 3},
        {"255", "255", 13}, {"099", "099", 19}, {"256", NULL, 0}, {"300", NULL, 0},  {"999", NULL, 0},
        {"0001", NULL, 0}, {"-01", NULL, 0},  {"0 1", NULL, 0},   {"a", NULL, 0},    {"1.0", NULL, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct replica_placement rp;
        char text[4];
        int rc = replica_placement_parse(bytes_str(rows[i].in), &rp);
        assert_int_equal(rc, rows[i].out == NULL ? DFS_EINVAL : 0);
        if (rc != 0)
            continue;
        replica_placement_format(rp, text);
        assert_string_equal(text, rows[i].out);
        assert_int_equal(replica_placement_copies(rp), rows[i].copies);
    }
}

static void every_byte(void **state)
{
    (void)state;
    for (unsigned b = 0; b < 256; b++) {
        struct replica_placement rp, again;
        char text[4], expected[8];
        assert_int_equal(replica_placement_from_byte((uint8_t)b, &rp), 0);
        assert_int_equal(replica_placement_to_byte(rp), b);
        snprintf(expected, sizeof expected, "%03u", b);
        replica_placement_format(rp, text);
        assert_string_equal(text, expected);
        assert_int_equal(replica_placement_parse(bytes_str(text), &again), 0);
        assert_memory_equal(&rp, &again, sizeof rp);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts), cmocka_unit_test(every_byte)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
