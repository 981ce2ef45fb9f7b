/* Addresses: parse, print, resolve, lists. */
#include "tests/unit/net/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "needle/err.h"
#include "net/addr.h"

static void test_parse(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host;
        unsigned port, grpc;
    } row[] = {
        {"127.0.0.1:9333", "127.0.0.1", 9333, 19333},
        {"127.0.0.1:9333.19000", "127.0.0.1", 9333, 19000},
        {"master-1.example:80", "master-1.example", 80, 10080},
        {"h:55535", "h", 55535, 65535},
        {"h:55536", "h", 55536, 0},
        {"h:65535.1", "h", 65535, 1},
        {"[::1]:8080", "::1", 8080, 18080},
        {"[2001:db8::1]:8080.18", "2001:db8::1", 8080, 18},
        {"host_name:1", "host_name", 1, 10001},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct addr a;
        assert_int_equal(addr_parse(bytes_str(row[i].text), &a), 0);
        assert_string_equal(a.host, row[i].host);
        assert_int_equal(a.port, row[i].port);
        assert_int_equal(a.grpc_port, row[i].grpc);
    }
}

static void test_parse_refuses(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", ":", "h", "h:", ":80", "h:0", "h:65536", "h:-1", "h:+1", "h:80x", "h:80.", "h:80.0", "h:80.65536", "h:80.1.2", "h:.80",
        "::1:80", "[::1]", "[::1]80", "[::1]:", "[x]:80", "[]:80", "[::1:80", "h h:80", "h/:80", "h:000080", "a%00:80", "http://h:80",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct addr a = {.port = 7};
        if (addr_parse(bytes_str(bad[i]), &a) != DFS_EINVAL)
            fail_msg("'%s' was taken", bad[i]);
        assert_int_equal(a.port, 7);
    }
    struct addr a;
    assert_int_equal(addr_parse(bytes_of("h\0:80", 5), &a), DFS_EINVAL);
    char text[ADDR_HOST_MAX + 8];
    memset(text, 'h', sizeof text);
    memcpy(text + ADDR_HOST_MAX, ":80", 3);
    assert_int_equal(addr_parse(bytes_of(text, ADDR_HOST_MAX + 3), &a), 0);
    assert_int_equal(strlen(a.host), ADDR_HOST_MAX);
    char out[ADDR_TEXT_MAX];
    assert_int_equal(addr_format(&a, out), ADDR_HOST_MAX + 3);
    memcpy(text + ADDR_HOST_MAX, "h:80", 4);
    assert_int_equal(addr_parse(bytes_of(text, ADDR_HOST_MAX + 4), &a), DFS_EINVAL);
}

static void test_format(void **state)
{
    (void)state;
    struct addr a;
    char out[ADDR_TEXT_MAX];
    assert_int_equal(addr_parse(bytes_str("[::1]:8080"), &a), 0);
    assert_int_equal(addr_format(&a, out), strlen("[::1]:8080"));
    assert_string_equal(out, "[::1]:8080");
    assert_int_equal(addr_parse(bytes_str("h:1.2"), &a), 0);
    addr_format(&a, out);
    assert_string_equal(out, "h:1");
}

static void test_resolve(void **state)
{
    (void)state;
    struct addr a;
    struct sockaddr_storage s;
    socklen_t len = 0;
    assert_int_equal(addr_parse(bytes_str("127.0.0.1:8080"), &a), 0);
    assert_int_equal(addr_resolve(&a, false, &s, &len), 0);
    assert_int_equal(len, sizeof(struct sockaddr_in));
    assert_int_equal(((struct sockaddr_in *)&s)->sin_port, htons(8080));
    assert_int_equal(((struct sockaddr_in *)&s)->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    assert_int_equal(addr_resolve(&a, true, &s, &len), 0);
    assert_int_equal(((struct sockaddr_in *)&s)->sin_port, htons(18080));
    assert_int_equal(addr_parse(bytes_str("[::1]:60000"), &a), 0);
    assert_int_equal(addr_resolve(&a, false, &s, &len), 0);
    assert_int_equal(s.ss_family, AF_INET6);
    assert_int_equal(addr_resolve(&a, true, &s, &len), DFS_EINVAL);
    assert_int_equal(addr_parse(bytes_str("localhost:80"), &a), 0);
    assert_int_equal(addr_resolve(&a, false, &s, &len), 0);
    assert_int_equal(addr_numeric("localhost", 80, &s, &len), DFS_EINVAL);
}

static int collect(struct bytes entry, void *arg)
{
    char *text = arg;
    snprintf(text + strlen(text), 64, "<%.*s>", (int)entry.n, entry.p);
    return bytes_eq(entry, BYTES_LIT("stop")) ? DFS_ECANCELLED : 0;
}

static void test_list(void **state)
{
    (void)state;
    char text[256] = "";
    assert_int_equal(addr_list_each(bytes_str(" a:1 ,, b:2\t, "), collect, text), 0);
    assert_string_equal(text, "<a:1><b:2>");
    text[0] = '\0';
    assert_int_equal(addr_list_each(bytes_str("a,stop,b"), collect, text), DFS_ECANCELLED);
    assert_string_equal(text, "<a><stop>");
    text[0] = '\0';
    assert_int_equal(addr_list_each(BYTES_NONE, collect, text), 0);
    assert_int_equal(addr_list_each(bytes_str(""), collect, text), 0);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),   cmocka_unit_test(test_parse_refuses), cmocka_unit_test(test_format),
        cmocka_unit_test(test_resolve), cmocka_unit_test(test_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
