/* dfs.ini: long lines, indentation, and what is refused with its line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "conf/config.h"
#include "conf/ini.h"
#include "conf/option.h"

static struct config config;

static int setup(void **state)
{
    (void)state;
    memset(&config, 0, sizeof config);
    master_options_init(&config.master);
    volume_options_init(&config.volume);
    benchmark_options_init(&config.bench);
    tool_options_init(&config.tool);
    config.given = calloc(option_count, 1);
    return option_defaults(&config);
}

static int teardown(void **state)
{
    (void)state;
    config_release(&config);
    return 0;
}

static int read_text(const char *text)
{
    char path[] = "/tmp/dfs-ini-XXXXXX";
    int rc, fd = mkstemp(path);

    assert_true(fd != -1);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    rc = ini_read(&config, CMD_SERVER, path);
    unlink(path);
    return rc;
}

/* Lists of every length around the pieces that they are cut into, between two other options. */
static void a_list_of_any_length_is_read_whole(void **state)
{
    static char list[4000], text[5000];

    (void)state;
    for (size_t entries = 1; entries < 200; entries++) {
        size_t n = 0;

        for (size_t i = 0; i < entries; i++)
            n += (size_t)snprintf(list + n, sizeof list - n, "%s10.%zu.0.%zu", i != 0 ? "," : "", i % 7, i);
        snprintf(text, sizeof text, "[common]\npulseSeconds = 7\nwhiteList = %s\nidleTimeout = 11\n[master]\nport = 1234\n", list);
        assert_int_equal(read_text(text), 0);
        assert_string_equal(config.common.white_list, list);
        assert_int_equal(config.common.pulse_s, 7);
        assert_int_equal(config.common.idle_timeout_s, 11);
        assert_int_equal(config.master.port, 1234);
    }
}

static void lines_may_be_indented(void **state)
{
    (void)state;
    assert_int_equal(read_text("[master]\n  port = 1234\n\tgrowth = 3\n  ; a comment\n\n  [volume]\n   port = 4321"), 0);
    assert_int_equal(config.master.port, 1234);
    assert_int_equal(config.master.growth, 3);
    assert_int_equal(config.volume.port, 4321);
}

static void what_is_wrong_is_refused(void **state)
{
    static char text[10000];
    static const char *const wrong[] = {
        "[common]\nwhiteList = 10.0.0.1,\n  10.0.0.2\n", /* half of it would let the others in or out */
        "[common]\nwhiteList = ,\n",
        "[common]\nwhiteList = 10.0.0.x\n",
        "[common]\nnothing = 1\n",
        "[elsewhere]\nport = 1\n",
        "[master]\nport\n",
        "[volume]\nmaster = nowhere\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(read_text(wrong[i]), -1);
    /* a name that is longer than inih's buffer, without a place to cut it; a line longer than ours */
    for (size_t n = 400; n <= 9000; n += 8600) {
        snprintf(text, sizeof text, "[volume]\ndir = ");
        memset(text + strlen(text), 'x', n);
        assert_int_equal(read_text(text), -1);
        memset(text, 0, sizeof text);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_list_of_any_length_is_read_whole),
        TEST(lines_may_be_indented),
        TEST(what_is_wrong_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
