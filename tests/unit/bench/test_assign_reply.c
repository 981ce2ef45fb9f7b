/* Answers of masters: the plain kind, any other JSON, and what is none. */
#include "tests/unit/bench/unit.h"

#include "bench/assign_reply.h"
#include "needle/err.h"

static struct assign_reply r;

/* In memory of its own, so that a read past the end is seen. */
static int parse(const char *text)
{
    size_t n = strlen(text);
    char *copy = malloc(n > 0 ? n : 1);
    memcpy(copy, text, n);
    memset(&r, 0xee, sizeof r);
    int rc = assign_reply_parse(bytes_of(copy, n), &r);
    free(copy);
    return rc;
}

static void test_plain(void **state)
{
    (void)state;
    assert_int_equal(parse("{\"fid\":\"5,011ab639e2\",\"url\":\"127.0.0.1:8080\",\"publicUrl\":\"a.b:80\",\"count\":7}"), 0);
    assert_string_equal(r.error, "");
    assert_int_equal(r.fid.volume_id, 5);
    assert_int_equal(r.fid.key, 1);
    assert_int_equal(r.fid.cookie, 0x1ab639e2);
    assert_string_equal(r.url, "127.0.0.1:8080");
    assert_string_equal(r.public_url, "a.b:80");
    assert_int_equal(r.count, 7);
    /* Blanks, other members, another order, no public address, no count. */
    assert_int_equal(parse(" { \"n\" : 12 , \"x\":\"y\",\n\"url\" : \"h:1\" , \"fid\" : \"5,011ab639e2\" } \n"), 0);
    assert_string_equal(r.url, "h:1");
    assert_string_equal(r.public_url, "h:1");
    assert_int_equal(r.count, 1);
}

static void test_any_json(void **state)
{
    (void)state;
    assert_int_equal(parse("{\"fid\":\"5,011ab639e2\",\"url\":\"h:1\",\"replicas\":[{\"url\":\"h:2\"}],\"count\":2,\"auth\":null}"), 0);
    assert_string_equal(r.url, "h:1");
    assert_int_equal(r.count, 2);
    assert_int_equal(parse("{\"fid\":\"5,011ab639e2\",\"url\":\"h\\u003a1\",\"count\":-4}"), 0);
    assert_string_equal(r.url, "h:1");
    assert_int_equal(r.count, 1);
}

static void test_refusals(void **state)
{
    (void)state;
    assert_int_equal(parse("{\"error\":\"No free volumes left!\"}"), 0);
    assert_string_equal(r.error, "No free volumes left!");
    assert_int_equal(parse("{\"error\":\"no volumes for {\\\"node\\\":9}\"}"), 0);
    assert_string_equal(r.error, "no volumes for {\"node\":9}");
    static char longer[2000] = "{\"error\":\"";
    memset(longer + 10, 'x', 1500);
    strcpy(longer + 1510, "\"}");
    assert_int_equal(parse(longer), 0);
    assert_int_equal(strlen(r.error), ASSIGN_ERROR_MAX - 1);
}

static void test_junk(void **state)
{
    (void)state;
    static const char *const junk[] = {
        "", " ", "{", "}", "{}", "[]", "null", "{\"fid\"", "{\"fid\":", "{\"fid\":\"", "{\"fid\":\"5,011ab639e2\"}",
        "{\"fid\":\"zz\",\"url\":\"h:1\"}", "{\"url\":\"h:1\"}", "{\"fid\":\"5,011ab639e2\",\"url\":\"\"}",
        "{\"fid\":\"5,011ab639e2\",\"url\":\"h:1\"", "{\"fid\":\"5,011ab639e2\",\"url\":\"h:1\"} x", "<html>404</html>",
        "{\"fid\":5,\"url\":6}", "{\"fid\":\"5,011ab639e2\",\"url\":\"h:1\",}",
    };
    for (size_t i = 0; i < ARRAY_LEN(junk); i++) {
        assert_int_equal(parse(junk[i]), DFS_EPROTO);
        assert_string_not_equal(r.error, "");
    }
    static char url[1000] = "{\"fid\":\"5,011ab639e2\",\"url\":\"";
    memset(url + strlen(url), 'h', 500);
    strcat(url, "\"}");
    assert_int_equal(parse(url), DFS_EPROTO);
}

/* Every answer cut or with a byte changed: an answer or a refusal, never a crash. */
static void test_mutations(void **state)
{
    (void)state;
    static const char good[] = "{\"fid\":\"5,011ab639e2\",\"url\":\"127.0.0.1:8080\",\"publicUrl\":\"a\\u0062:80\",\"count\":7}";
    uint64_t seed = 12345;
    char text[sizeof good];
    for (int i = 0; i < 20000; i++) {
        memcpy(text, good, sizeof good);
        text[next_random(&seed) % (sizeof good - 1)] = (char)(1 + next_random(&seed) % 255);
        text[next_random(&seed) % (sizeof good - 1)] = i % 2 == 0 ? '\0' : '"';
        int rc = parse(text);
        assert_true(rc == 0 || rc == DFS_EPROTO);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain), cmocka_unit_test(test_any_json),  cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_junk),  cmocka_unit_test(test_mutations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
