/* A line a second, against texts. */
#include "tests/unit/bench/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "bench/second_table.h"

static char *text;
static size_t text_n;

static FILE *open_text(void)
{
    FILE *out = open_memstream(&text, &text_n);
    assert_non_null(out);
    return out;
}

static void close_and_check(FILE *out, const char *want)
{
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, want);
    free(text);
}

static struct load_second second(double at_s, double seconds)
{
    struct load_second s = {.at_s = at_s, .seconds = seconds, .finished = 60, .failed = 3, .bytes = 2 << 20, .in_flight = 16,
                            .latency_last_s = 0.25, .latency_avg_s = 0.125};
    s.kind_finished[LOAD_READ] = 30;
    s.kind_finished[LOAD_WRITE] = 10;
    s.kind_finished[LOAD_OVERWRITE] = 15;
    s.kind_finished[LOAD_DELETE] = 2;
    return s;
}

static void shows_a_second(void **state)
{
    struct load_second s = second(1, 0.5);
    struct second_table t;
    FILE *out = open_text();

    (void)state;
    second_table_begin(&t, out, "rewrite", false);
    second_table_line(&t, &s);
    s = (struct load_second){.at_s = 2, .seconds = 1, .latency_last_s = -1, .latency_avg_s = -1};
    second_table_line(&t, &s);
    close_and_check(out, "rewrite:\n"
                         "  sec Cur ops   reads/s  writes/s      MB/s  errors last lat(s)  avg lat(s)\n"
                         "    1      16        60        50         4       3        0.25       0.125\n"
                         "    2       0         0         0         0       0           -           -\n");
}

static void has_deletes(void **state)
{
    struct load_second s = second(3, 1);
    struct second_table t;
    FILE *out = open_text();

    (void)state;
    second_table_begin(&t, out, NULL, true);
    second_table_line(&t, &s);
    close_and_check(out, "  sec Cur ops   reads/s  writes/s deletes/s      MB/s  errors last lat(s)  avg lat(s)\n"
                         "    3      16        30        25         2         2       3        0.25       0.125\n");
}

/* What is shorter than half a second is none, and without one there is no head either. */
static void leaves_out_the_rest(void **state)
{
    struct load_second s = second(0.4, 0.4);
    struct second_table t;
    FILE *out = open_text();

    (void)state;
    second_table_begin(&t, out, "read", false);
    second_table_line(&t, &s);
    assert_int_equal(t.lines, 0);
    close_and_check(out, "");
}

static void repeats_its_head(void **state)
{
    struct load_second s = second(1, 1);
    struct second_table t;
    size_t heads = 0;
    FILE *out = open_text();

    (void)state;
    second_table_begin(&t, out, "read", false);
    for (uint32_t i = 0; i <= SECOND_TABLE_HEAD_EVERY; i++)
        second_table_line(&t, &s);
    assert_int_equal(fclose(out), 0);
    for (const char *p = strstr(text, "Cur ops"); p != NULL; p = strstr(p + 1, "Cur ops"))
        heads++;
    assert_int_equal(heads, 2);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shows_a_second),
        cmocka_unit_test(has_deletes),
        cmocka_unit_test(leaves_out_the_rest),
        cmocka_unit_test(repeats_its_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
