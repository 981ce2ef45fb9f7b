/* What an agent is asked survives the way there; anything else is refused with a word why. */
#include "tests/unit/bench/unit.h"

#include <arpa/inet.h>

#include "bench/agent.h"
#include "needle/err.h"

static struct agent_plan a_plan(void)
{
    return (struct agent_plan){
        .session = "9f0e8d7c6b5a4938",
        .plan = {RECORD_RANDRW, 64, 4096, 4096, 64 << 20, 80, INT64_MAX},
        .collection = "benchmark",
        .replication = "001",
        .fsync = true,
    };
}

static void test_plan(void **state)
{
    struct agent_plan p = a_plan(), q;
    char error[RECORD_ERROR_MAX] = "";
    struct jsonw w;
    struct bytes text;

    (void)state;
    jsonw_init(&w, false);
    agent_plan_put(&w, &p);
    assert_int_equal(jsonw_done(&w, &text), 0);
    assert_true(text.n < AGENT_BODY_MAX);
    assert_int_equal(agent_plan_parse(text, &q, error), 0);
    assert_string_equal(q.session, p.session);
    assert_string_equal(q.collection, p.collection);
    assert_string_equal(q.replication, p.replication);
    assert_true(q.fsync && !q.no_verify);
    assert_memory_equal(&q.plan, &p.plan, sizeof p.plan);
    /* cut anywhere, it is none */
    for (size_t n = 0; n < text.n; n++) {
        error[0] = '\0';
        assert_int_equal(agent_plan_parse(bytes_of(text.p, n), &q, error), DFS_EINVAL);
        assert_true(error[0] != '\0');
    }
    jsonw_release(&w);
}

static void test_order_and_end(void **state)
{
    struct agent_order o = {"s1", RECORD_RANDOM_MIX, 16, 2.5, true, 123456789012345}, q;
    struct agent_end e = {"s1", true}, f;
    char error[RECORD_ERROR_MAX] = "";
    struct jsonw w;
    struct bytes text;

    (void)state;
    jsonw_init(&w, false);
    agent_order_put(&w, &o);
    assert_int_equal(jsonw_done(&w, &text), 0);
    assert_int_equal(agent_order_parse(text, &q, error), 0);
    assert_string_equal(q.session, "s1");
    assert_true(q.step == o.step && q.jobs == 16 && q.seconds == 2.5 && q.once && q.start_ns == o.start_ns);
    jsonw_release(&w);
    jsonw_init(&w, false);
    agent_end_put(&w, &e);
    assert_int_equal(jsonw_done(&w, &text), 0);
    assert_int_equal(agent_end_parse(text, &f, error), 0);
    assert_true(f.keep);
    jsonw_release(&w);
}

#define PLAN(protocol, session, rw, jobs, bs, size, collection, replication)                                            \
    "{\"protocol\": " protocol ", \"session\": " session ", \"plan\": {\"rw\": " rw ", \"jobs\": " jobs                     \
    ", \"record_bytes\": " bs ", \"needle_bytes\": 0, \"file_bytes\": " size ", \"read_percent\": 50, \"seed\": 1}, "        \
    "\"collection\": " collection ", \"replication\": " replication ", \"fsync\": false, \"no_verify\": false}"

static void test_bad_plans(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {PLAN("1", "\"s\"", "\"read\"", "1", "4096", "8192", "\"\"", "\"\""), NULL},
        {PLAN("2", "\"s\"", "\"read\"", "1", "4096", "8192", "\"\"", "\"\""), "'protocol'"},
        {PLAN("\"1\"", "\"s\"", "\"read\"", "1", "4096", "8192", "\"\"", "\"\""), "'protocol'"},
        {PLAN("1", "\"\"", "\"read\"", "1", "4096", "8192", "\"\"", "\"\""), "'session'"},
        {PLAN("1", "\"a b\"", "\"read\"", "1", "4096", "8192", "\"\"", "\"\""), "'session'"},
        {PLAN("1", "\"a\\u0000b\"", "\"read\"", "1", "4096", "8192", "\"\"", "\"\""), "JSON"},
        {PLAN("1", "\"0123456789012345678901234567890123456789\"", "\"read\"", "1", "4096", "8192", "\"\"", "\"\""), "'session'"},
        {PLAN("1", "\"s\"", "\"trim\"", "1", "4096", "8192", "\"\"", "\"\""), "'rw'"},
        {PLAN("1", "\"s\"", "\"read\"", "0", "4096", "8192", "\"\"", "\"\""), "0 jobs"},
        {PLAN("1", "\"s\"", "\"read\"", "1025", "4096", "8192", "\"\"", "\"\""), "'jobs'"},
        {PLAN("1", "\"s\"", "\"read\"", "-1", "4096", "8192", "\"\"", "\"\""), "'jobs'"},
        {PLAN("1", "\"s\"", "\"read\"", "1.5", "4096", "8192", "\"\"", "\"\""), "'jobs'"},
        {PLAN("1", "\"s\"", "\"read\"", "1", "0", "8192", "\"\"", "\"\""), "0 bytes"},
        {PLAN("1", "\"s\"", "\"read\"", "1", "67108865", "134217730", "\"\"", "\"\""), "'record_bytes'"},
        {PLAN("1", "\"s\"", "\"read\"", "1", "4096", "1", "\"\"", "\"\""), "less than one needle"},
        {PLAN("1", "\"s\"", "\"read\"", "1", "1", "9223372036854775807", "\"\"", "\"\""), "needles in all"},
        {PLAN("1", "\"s\"", "\"read\"", "1", "1", "9223372036854775808", "\"\"", "\"\""), "JSON"},
        {PLAN("1", "\"s\"", "\"read\"", "1", "4096", "8192", "\"a&b=c\"", "\"\""), "'collection'"},
        {PLAN("1", "\"s\"", "\"read\"", "1", "4096", "8192", "\"..\"", "\"\""), "'collection'"},
        {PLAN("1", "\"s\"", "\"read\"", "1", "4096", "8192", "7", "\"\""), "'collection'"},
        {PLAN("1", "\"s\"", "\"read\"", "1", "4096", "8192", "\"\"", "\"9x\""), "'replication'"},
        {PLAN("1", "\"s\"", "\"read\"", "1", "4096", "8192", "\"\"", "\"0001\""), "'replication'"},
        {"[]", "JSON"},
        {"", "JSON"},
        {"{\"protocol\": 1}", "'session'"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct agent_plan p;
        char error[RECORD_ERROR_MAX] = "";
        int rc = agent_plan_parse(bytes_str(cases[i].text), &p, error);
        if (cases[i].why == NULL) {
            assert_int_equal(rc, 0);
            continue;
        }
        assert_int_equal(rc, DFS_EINVAL);
        if (strstr(error, cases[i].why) == NULL)
            fail_msg("case %zu: '%s' does not say %s", i, error, cases[i].why);
    }
}

static void test_bad_orders(void **state)
{
    static const char *const bad[] = {
        "{\"session\": \"s\", \"step\": \"format\", \"jobs\": 1, \"seconds\": 1, \"once\": false, \"start_ns\": 0}",
        "{\"session\": \"s\", \"step\": \"fill\", \"jobs\": 0, \"seconds\": 1, \"once\": false, \"start_ns\": 0}",
        "{\"session\": \"s\", \"step\": \"fill\", \"jobs\": 1, \"seconds\": -1, \"once\": false, \"start_ns\": 0}",
        "{\"session\": \"s\", \"step\": \"fill\", \"jobs\": 1, \"seconds\": 86401, \"once\": false, \"start_ns\": 0}",
        "{\"session\": \"s\", \"step\": \"fill\", \"jobs\": 1, \"seconds\": 1, \"once\": 0, \"start_ns\": 0}",
        "{\"session\": \"s\", \"step\": \"fill\", \"jobs\": 1, \"seconds\": 1, \"once\": false, \"start_ns\": -5}",
        "{\"session\": \"s\", \"step\": \"fill\", \"jobs\": 1, \"seconds\": 1, \"once\": false}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct agent_order o;
        char error[RECORD_ERROR_MAX] = "";
        assert_int_equal(agent_order_parse(bytes_str(bad[i]), &o, error), DFS_EINVAL);
        assert_true(error[0] != '\0');
    }
}

static void test_addresses(void **state)
{
    static const struct {
        const char *text;
        bool any;
    } cases[] = {{"0.0.0.0", true}, {"127.0.0.1", false}, {"10.0.0.7", false}, {"0.0.0.1", false}, {"::", true}, {"::1", false},
                 {"::ffff:0.0.0.0", true}, {"::ffff:127.0.0.1", false}, {"fe80::1", false}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sockaddr_storage sa = {0};
        struct sockaddr_in *four = (struct sockaddr_in *)&sa;
        struct sockaddr_in6 *six = (struct sockaddr_in6 *)&sa;
        if (inet_pton(AF_INET, cases[i].text, &four->sin_addr) == 1)
            sa.ss_family = AF_INET;
        else if (inet_pton(AF_INET6, cases[i].text, &six->sin6_addr) == 1)
            sa.ss_family = AF_INET6;
        assert_int_equal(agent_address_is_any(&sa), cases[i].any);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan), cmocka_unit_test(test_order_and_end), cmocka_unit_test(test_bad_plans),
        cmocka_unit_test(test_bad_orders), cmocka_unit_test(test_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
