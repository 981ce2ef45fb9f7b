/* The JSON writer: exact texts, any bytes, growth. */
#include <math.h>
#include <stdlib.h>
#include "tests/unit/net/unit.h"

#include "needle/err.h"
#include "net/jsonw.h"

static void done_is(struct jsonw *w, const char *want)
{
    struct bytes out;
    assert_int_equal(jsonw_done(w, &out), 0);
    assert_bytes(out, want);
    jsonw_release(w);
}

static void document(struct jsonw *w)
{
    jsonw_object(w);
    jsonw_put_str(w, "fid", "3,01637037d6");
    jsonw_put_u64(w, "count", 1);
    jsonw_put_array(w, "locations");
    jsonw_object(w);
    jsonw_put_str(w, "url", "127.0.0.1:8080");
    jsonw_object_end(w);
    jsonw_object(w);
    jsonw_object_end(w);
    jsonw_u64(w, 7);
    jsonw_array_end(w);
    jsonw_put_array(w, "none");
    jsonw_array_end(w);
    jsonw_put_bool(w, "ok", true);
    jsonw_put_object(w, "Topology");
    jsonw_put_i64(w, "Free", -2);
    jsonw_put_double(w, "part", 0.25);
    jsonw_object_end(w);
    jsonw_object_end(w);
}

static void test_compact(void **state)
{
    (void)state;
    struct jsonw w;
    jsonw_init(&w, false);
    document(&w);
    done_is(&w, "{\"fid\":\"3,01637037d6\",\"count\":1,\"locations\":[{\"url\":\"127.0.0.1:8080\"},{},7],\"none\":[],\"ok\":true,"
                "\"Topology\":{\"Free\":-2,\"part\":0.25}}");
}

static void test_pretty(void **state)
{
    (void)state;
    struct jsonw w;
    jsonw_init(&w, true);
    document(&w);
    done_is(&w, "{\n  \"fid\": \"3,01637037d6\",\n  \"count\": 1,\n  \"locations\": [\n    {\n      \"url\": \"127.0.0.1:8080\"\n    },\n"
                "    {},\n    7\n  ],\n  \"none\": [],\n  \"ok\": true,\n  \"Topology\": {\n    \"Free\": -2,\n    \"part\": 0.25\n  }\n}");
}

static void string_is(const char *in, size_t n, const char *want)
{
    struct jsonw w;
    jsonw_init(&w, false);
    jsonw_string(&w, bytes_of(in, n));
    done_is(&w, want);
}

static void test_strings(void **state)
{
    (void)state;
    static const struct {
        const char *in;
        size_t n;
        const char *want;
    } row[] = {
        {"", 0, "\"\""},
        {"a\"b\\c/", 6, "\"a\\\"b\\\\c/\""},
        {"\n\r\t\b\f", 5, "\"\\n\\r\\t\\b\\f\""},
        {"a\0b\x1f\x7f", 5, "\"a\\u0000b\\u001f\\u007f\""},
        {"h\xc3\xa9llo \xf0\x9f\x93\xb7", 11, "\"h\xc3\xa9llo \xf0\x9f\x93\xb7\""},
        {"a\xff" "b", 3, "\"a\xef\xbf\xbd" "b\""},
        {"\xc3", 1, "\"\xef\xbf\xbd\""},               /* cut */
        {"\xc0\xaf", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\""}, /* overlong */
        {"\xe0\x80\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""}, /* surrogate */
        {"\xf4\x90\x80\x80", 4, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xed\x9f\xbf\xf4\x8f\xbf\xbf", 7, "\"\xed\x9f\xbf\xf4\x8f\xbf\xbf\""},
        {"\xe4\xb8", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xe4\xb8\"", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\\\"\""},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        string_is(row[i].in, row[i].n, row[i].want);
}

static void test_values(void **state)
{
    (void)state;
    struct jsonw w;
    jsonw_init(&w, false);
    jsonw_array(&w);
    jsonw_u64(&w, UINT64_MAX);
    jsonw_i64(&w, INT64_MIN);
    jsonw_double(&w, NAN);
    jsonw_double(&w, INFINITY);
    jsonw_double(&w, 1e300);
    jsonw_null(&w);
    jsonw_bool(&w, false);
    jsonw_raw(&w, BYTES_LIT("{\"x\":1}"));
    jsonw_array_end(&w);
    done_is(&w, "[18446744073709551615,-9223372036854775808,null,null,1e+300,null,false,{\"x\":1}]");
    jsonw_init(&w, false);
    jsonw_object(&w);
    jsonw_put_printf(&w, "error", "volume %d \"%s\"", 7, "x");
    jsonw_key_bytes(&w, bytes_of("k\0", 2));
    jsonw_null(&w);
    jsonw_object_end(&w);
    done_is(&w, "{\"error\":\"volume 7 \\\"x\\\"\",\"k\\u0000\":null}");
}

static void test_growth_and_reuse(void **state)
{
    (void)state;
    struct jsonw w;
    struct bytes out;
    jsonw_init(&w, false);
    for (int round = 0; round < 2; round++) {
        jsonw_array(&w);
        for (unsigned i = 0; i < 100000; i++)
            jsonw_u64(&w, 1234567);
        jsonw_array_end(&w);
        assert_int_equal(jsonw_done(&w, &out), 0);
        assert_int_equal(out.n, 2 + 100000 * 8 - 1);
        assert_memory_equal(out.p + out.n - 9, ",1234567]", 9);
        jsonw_release(&w);
    }
    /* The bound: an error that sticks, not an abort. */
    char *big = calloc(1, 1u << 20);
    assert_non_null(big);
    jsonw_array(&w);
    for (int i = 0; i < 300; i++)
        jsonw_raw(&w, bytes_of(big, 1u << 20));
    jsonw_array_end(&w);
    assert_int_equal(jsonw_done(&w, &out), DFS_ETOOBIG);
    jsonw_release(&w);
    free(big);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compact), cmocka_unit_test(test_pretty),           cmocka_unit_test(test_strings),
        cmocka_unit_test(test_values),  cmocka_unit_test(test_growth_and_reuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
