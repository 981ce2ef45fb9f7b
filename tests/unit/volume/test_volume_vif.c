/* The volume info file: the peer's spelling, missing and odd values, what is kept when it is written again. */
#include "volume/volume_vif.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "needle/err.h"
#include "tests/support/tmpdir.h"
#include "tests/support/volume_rig.h"

static int parse(const char *text, struct volume_vif *out)
{
    return volume_vif_parse(bytes_str(text), out);
}

static void test_as_the_peer_writes_it(void **state)
{
    struct volume_vif v;
    size_t n;
    char *text = vrig_read_file("tests/fixtures/volumes/ttl-8y", "7.vif", &n);

    (void)state;
    assert_non_null(text);
    assert_int_equal(volume_vif_parse(bytes_of(text, n), &v), 0);
    assert_true(v.present);
    assert_int_equal(v.version, 3);
    assert_int_equal(v.offset_width, 5);
    assert_string_equal(v.replication, "");
    assert_false(v.read_only);
    assert_false(v.remote);
    assert_true(v.expire_at_s > 2000000000);
    free(text);
}

static void test_values(void **state)
{
    struct volume_vif v;

    (void)state;
    assert_int_equal(parse("{}", &v), 0);
    assert_int_equal(v.offset_width, 0);
    assert_int_equal(parse("{\"bytesOffset\":4,\"readOnly\":true,\"replication\":\"010\",\"expireAtSec\":\"17\","
                           "\"datFileSize\":9,\"new\":{\"x\":[1]},\"files\":null,\"readOnlyCanDelete\":null}", &v), 0);
    assert_int_equal(v.offset_width, 4);
    assert_true(v.read_only);
    assert_string_equal(v.replication, "010");
    assert_int_equal(v.expire_at_s, 17);
    assert_int_equal(v.dat_file_bytes, 9);
    assert_int_equal(parse("{\"files\":[{\"backendType\":\"s3\"}],\"ecShardConfig\":{\"dataShards\":10}}", &v), 0);
    assert_true(v.remote);
    assert_true(v.erasure_coded);
}

static void test_refused(void **state)
{
    static const char *const bad[] = {
        "", "[]", "null", "{", "{\"bytesOffset\":6}", "{\"bytesOffset\":-1}", "{\"version\":300}", "{\"readOnly\":1}",
        "{\"expireAtSec\":\"x\"}", "{\"expireAtSec\":\"\"}", "{\"replication\":\"12345678\"}", "{\"replication\":10}",
        "{\"bytesOffset\":5} trailing", "{\"expireAtSec\":\"-5\"}", "{\"bytesOffset\":5,\"bytesOffset\":4}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct volume_vif v = {.version = 99};

        if (parse(bad[i], &v) != DFS_ECORRUPT)
            fail_msg("'%s' was taken", bad[i]);
        assert_int_equal(v.version, 99); /* untouched */
    }
}

static void test_missing_and_empty(void **state)
{
    char *dir = tmpdir_new("vif"), *path = tmpdir_path(dir, "7.vif");
    struct volume_vif v = {.version = 99};

    (void)state;
    assert_int_equal(volume_vif_read(path, &v), 0);
    assert_false(v.present);
    assert_int_equal(v.version, 0);
    vrig_write_file(dir, "7.vif", "", 0);
    assert_int_equal(volume_vif_read(path, &v), 0);
    assert_false(v.present);
    vrig_write_file(dir, "7.vif", "\0\0\0", 3);
    assert_int_equal(volume_vif_read(path, &v), DFS_ECORRUPT);
    free(path);
    tmpdir_free(dir);
}

static void test_written_again(void **state)
{
    static const char old[] = "{\"version\":3,\"bytesOffset\":5,\"blockSize\":\"77\",\"ecShardConfig\":{\"dataShards\":10},"
                              "\"files\":[{\"a\":1}]}";
    char *dir = tmpdir_new("vif"), *path = tmpdir_path(dir, "7.vif"), *text;
    struct volume_vif v;
    size_t n;

    (void)state;
    vrig_write_file(dir, "7.vif", old, strlen(old));
    assert_int_equal(volume_vif_read(path, &v), 0);
    v.read_only = true;
    v.expire_at_s = (uint64_t)1 << 60;
    snprintf(v.replication, sizeof v.replication, "001");
    assert_int_equal(volume_vif_write(path, &v), 0);
    memset(&v, 0, sizeof v);
    assert_int_equal(volume_vif_read(path, &v), 0);
    assert_true(v.read_only);
    assert_true(v.erasure_coded);
    assert_true(v.remote);
    assert_int_equal(v.expire_at_s, (uint64_t)1 << 60);
    assert_string_equal(v.replication, "001");
    text = vrig_read_file(dir, "7.vif", &n);
    assert_non_null(strstr(text, "\"blockSize\": \"77\""));
    assert_non_null(strstr(text, "\"expireAtSec\": \"1152921504606846976\""));
    free(text);
    free(path);
    tmpdir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_the_peer_writes_it), cmocka_unit_test(test_values), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_missing_and_empty),     cmocka_unit_test(test_written_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
