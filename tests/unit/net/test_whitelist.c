/* The list of addresses that are let in. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include "tests/unit/net/unit.h"

#include "needle/err.h"
#include "net/whitelist.h"

static bool allows(const struct whitelist *w, const char *ip)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, ip, &v4.sin_addr) == 1)
        return whitelist_allows(w, (struct sockaddr *)&v4);
    assert_int_equal(inet_pton(AF_INET6, ip, &v6.sin6_addr), 1);
    return whitelist_allows(w, (struct sockaddr *)&v6);
}

static void test_match(void **state)
{
    (void)state;
    struct whitelist w;
    whitelist_init(&w);
    assert_true(allows(&w, "8.8.8.8"));
    assert_int_equal(whitelist_add(&w, bytes_str(" , "), NULL), 0);
    assert_true(allows(&w, "8.8.8.8"));
    assert_int_equal(whitelist_add(&w, bytes_str("127.0.0.1, 10.0.0.0/8,192.168.4.0/22,,2001:db8::/33"), NULL), 0);
    assert_int_equal(whitelist_add(&w, bytes_str("::1"), NULL), 0);
    assert_int_equal(w.n, 5);
    static const char *const in[] = {"127.0.0.1", "::ffff:127.0.0.1", "10.255.0.9", "192.168.4.1", "192.168.7.255", "2001:db8:7fff::1", "::1"};
    static const char *const out[] = {"127.0.0.2", "11.0.0.1", "192.168.8.0", "192.168.3.255", "2001:db8:8000::1", "::2", "::127.0.0.1", "::"};
    for (size_t i = 0; i < ARRAY_LEN(in); i++)
        if (!allows(&w, in[i]))
            fail_msg("%s kept out", in[i]);
    for (size_t i = 0; i < ARRAY_LEN(out); i++)
        if (allows(&w, out[i]))
            fail_msg("%s let in", out[i]);
    struct sockaddr un = {.sa_family = AF_UNIX};
    assert_false(whitelist_allows(&w, &un));
    whitelist_release(&w);
    assert_true(whitelist_allows(&w, &un));

    assert_int_equal(whitelist_add(&w, bytes_str("0.0.0.0/0"), NULL), 0);
    assert_true(allows(&w, "1.2.3.4"));
    assert_false(allows(&w, "2001::1"));
    whitelist_release(&w);
    assert_int_equal(whitelist_add(&w, bytes_str("::/0"), NULL), 0);
    assert_true(allows(&w, "2001::1"));
    assert_true(allows(&w, "1.2.3.4"));
    whitelist_release(&w);
}

static void test_refuses(void **state)
{
    (void)state;
    static const char *const bad[] = {"localhost", "1.2.3", "1.2.3.4/33", "1.2.3.4/", "1.2.3.4/-1", "::1/129", "1.2.3.4/8/8", "/8",
                                      "*", "1.2.3.4:80", "[::1]", "1.2.3.4/0008"};
    struct whitelist w;
    whitelist_init(&w);
    assert_int_equal(whitelist_add(&w, bytes_str("127.0.0.1"), NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char list[64];
        struct bytes entry = BYTES_NONE;
        snprintf(list, sizeof list, "10.0.0.1, %s ,10.0.0.2", bad[i]);
        if (whitelist_add(&w, bytes_str(list), &entry) != DFS_EINVAL)
            fail_msg("'%s' was taken", bad[i]);
        assert_bytes(entry, bad[i]);
        assert_int_equal(w.n, 1);
    }
    char *many = malloc(2 * WHITELIST_MAX + 1);
    assert_non_null(many);
    memset(many, ',', 2 * WHITELIST_MAX);
    many[2 * WHITELIST_MAX] = '\0';
    assert_int_equal(whitelist_add(&w, bytes_str(many), NULL), DFS_ETOOBIG);
    free(many);
    whitelist_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_match), cmocka_unit_test(test_refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
