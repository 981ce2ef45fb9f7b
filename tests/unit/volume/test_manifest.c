/* Chunk manifests: what is taken, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "needle/err.h"
#include "net/gzip.h"
#include "volume/manifest.h"

static int parse(const char *json, struct manifest *m)
{
    return manifest_parse(bytes_str(json), m);
}

static void test_good(void **state)
{
    struct manifest m;
    (void)state;
    assert_int_equal(parse("{\"name\":\"big.txt\",\"mime\":\"text/plain\",\"size\":11,\"chunks\":["
                           "{\"fid\":\"5,1700000002\",\"offset\":6,\"size\":5},{\"fid\":\"4,1600000001\",\"offset\":0,\"size\":6}]}", &m), 0);
    assert_string_equal(m.name, "big.txt");
    assert_string_equal(m.mime, "text/plain");
    assert_int_equal(m.size, 11);
    assert_int_equal(m.count, 2);
    assert_int_equal(m.chunks[0].fid.volume_id, 4); /* by offset */
    assert_int_equal(m.chunks[0].bytes, 6);
    assert_int_equal(m.chunks[1].fid.volume_id, 5);
    assert_int_equal(m.chunks[1].offset, 6);
    manifest_release(&m);

    assert_int_equal(parse("{\"chunks\":[]}", &m), 0); /* an empty file */
    assert_int_equal(m.size, 0);
    assert_string_equal(m.name, "");
    manifest_release(&m);
}

static void test_bad(void **state)
{
    static const char *const bad[] = {
        "", "[]", "{", "null", "17",
        "{\"chunks\":[{\"fid\":\"zz\",\"offset\":0,\"size\":1}]}",
        "{\"chunks\":[{\"offset\":0,\"size\":1}]}",
        "{\"chunks\":[{\"fid\":\"4,1600000001\",\"offset\":1,\"size\":1}]}",              /* a hole in front */
        "{\"chunks\":[{\"fid\":\"4,1600000001\",\"offset\":0,\"size\":-1}]}",
        "{\"chunks\":[{\"fid\":\"4,1600000001\",\"offset\":0,\"size\":5},{\"fid\":\"4,1600000001\",\"offset\":4,\"size\":5}]}",
        "{\"size\":6,\"chunks\":[{\"fid\":\"4,1600000001\",\"offset\":0,\"size\":5}]}",
        "{\"chunks\":[{\"fid\":\"4,1600000001\",\"offset\":0,\"size\":9223372036854775807},"
        "{\"fid\":\"4,1600000001\",\"offset\":9223372036854775807,\"size\":9223372036854775807}]}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct manifest m;
        memset(&m, 0x5a, sizeof m);
        assert_int_not_equal(parse(bad[i], &m), 0);
        assert_int_equal(m.count, 0x5a5a5a5a); /* untouched */
    }
}

static void test_compressed(void **state)
{
    const char *json = "{\"name\":\"z\",\"size\":1,\"chunks\":[{\"fid\":\"4,1600000001\",\"offset\":0,\"size\":1}]}";
    char out[512];
    size_t n;
    struct manifest m;
    (void)state;
    assert_int_equal(gzip_compress(bytes_str(json), 6, out, sizeof out, &n), 0);
    assert_int_equal(manifest_parse_stored(bytes_of(out, n), true, &m), 0);
    assert_string_equal(m.name, "z");
    manifest_release(&m);
    assert_int_not_equal(manifest_parse_stored(bytes_of(out, n), false, &m), 0);
    assert_int_not_equal(manifest_parse_stored(bytes_of(out, n - 9), true, &m), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_compressed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
