/* The log: form of a line, one line whatever is quoted, truncation, reopening, the gate for repeats. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "needle/err.h"
#include "net/clock.h"
#include "net/log.h"

static char dir[] = "/tmp/dfs-test-log-XXXXXX";
static char path[64], moved[64];

static size_t read_file(const char *name, char *out, size_t cap)
{
    FILE *f = fopen(name, "r");
    assert_non_null(f);
    size_t n = fread(out, 1, cap - 1, f);
    out[n] = '\0';
    fclose(f);
    return n;
}

static int setup(void **state)
{
    (void)state;
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/log", dir);
    snprintf(moved, sizeof moved, "%s/log.1", dir);
    return log_open(path);
}

static int teardown(void **state)
{
    (void)state;
    log_open(NULL);
    unlink(path);
    unlink(moved);
    return rmdir(dir);
}

static void test_line(void **state)
{
    (void)state;
    char text[8192];
    log_printf(LOG_WARNING, "some/where/file.c", 42, "cannot open '%s'", "x");
    read_file(path, text, sizeof text);
    unsigned mon, day, h, m, s, us;
    char rest[256];
    assert_int_equal(sscanf(text, "W%2u%2u %2u:%2u:%2u.%6u %255[^\n]", &mon, &day, &h, &m, &s, &us, rest), 7);
    assert_in_range(mon, 1, 12);
    assert_in_range(day, 1, 31);
    assert_string_equal(rest, "file.c:42 cannot open 'x'");
}

static void test_threshold_and_levels(void **state)
{
    (void)state;
    char text[8192];
    assert_int_equal(truncate(path, 0), 0);
    log_debug("not shown");
    log_info("i");
    log_error("e");
    log_threshold = LOG_ERROR;
    log_warning("not shown");
    log_threshold = LOG_INFO;
    read_file(path, text, sizeof text);
    assert_null(strstr(text, "not shown"));
    assert_int_equal(text[0], 'I');
    assert_non_null(strstr(text, "\nE"));
}

static void test_quoted_bytes_cannot_make_lines(void **state)
{
    (void)state;
    char text[8192];
    assert_int_equal(truncate(path, 0), 0);
    log_info("got '%s'", "a\nE0101 forged\r\x1b[2J\x7f\tend");
    size_t n = read_file(path, text, sizeof text);
    assert_ptr_equal(strchr(text, '\n'), text + n - 1);
    assert_null(strchr(text, '\x1b'));
    assert_non_null(strstr(text, "got 'a?E0101 forged??[2J?\tend'"));
}

static void test_long_line_is_cut(void **state)
{
    (void)state;
    static char big[20000], text[16384];
    memset(big, 'b', sizeof big - 1);
    assert_int_equal(truncate(path, 0), 0);
    log_info("%s", big);
    log_info("next");
    size_t n = read_file(path, text, sizeof text);
    assert_true(n < 5000);
    assert_non_null(strstr(text, "bbb...\nI"));
    assert_non_null(strstr(text, "next\n"));
}

static void test_reopen(void **state)
{
    (void)state;
    char text[8192];
    assert_int_equal(rename(path, moved), 0);
    log_info("into the old");
    assert_int_equal(log_open(path), 0);
    log_info("into the new");
    read_file(path, text, sizeof text);
    assert_null(strstr(text, "old"));
    assert_non_null(strstr(text, "into the new"));
    read_file(moved, text, sizeof text);
    assert_non_null(strstr(text, "into the old"));
    assert_int_not_equal(log_open("/nowhere/at/all"), 0);
    log_info("still the new");
    read_file(path, text, sizeof text);
    assert_non_null(strstr(text, "still the new"));
}

static uint64_t fake_mono(void *arg)
{
    return *(uint64_t *)arg * 1000000u;
}

static void test_gate(void **state)
{
    (void)state;
    uint64_t now_ms = 5, swallowed = 99;
    struct clock_ops fake = {.mono_ns = fake_mono, .arg = &now_ms};
    struct log_gate gate = {0};
    clock_set_ops(&fake);
    assert_true(log_every(&gate, 100, &swallowed));
    assert_int_equal(swallowed, 0);
    now_ms = 104;
    assert_false(log_every(&gate, 100, &swallowed));
    assert_false(log_every(&gate, 100, &swallowed));
    now_ms = 105;
    assert_true(log_every(&gate, 100, &swallowed));
    assert_int_equal(swallowed, 2);
    now_ms = 300;
    assert_true(log_every(&gate, 100, NULL));
    clock_set_ops(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line),
        cmocka_unit_test(test_threshold_and_levels),
        cmocka_unit_test(test_quoted_bytes_cannot_make_lines),
        cmocka_unit_test(test_long_line_is_cut),
        cmocka_unit_test(test_reopen),
        cmocka_unit_test(test_gate),
    };
    return cmocka_run_group_tests_name("log", tests, setup, teardown);
}
