/* Opening volumes that the peer wrote, whole and damaged, with and without their index. */
#include "volume/volume.h"

#include <jansson.h>
#include <setjmp.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "needle/crc.h"
#include "needle/err.h"
#include "needle/fid.h"
#include "needle/needle.h"
#include "net/log.h"
#include "tests/support/tmpdir.h"
#include "tests/support/volume_rig.h"

#define FIXTURES "tests/fixtures/volumes"

static char *dir;

static int setup(void **state)
{
    (void)state;
    log_threshold = getenv("DFS_TEST_LOG") != NULL ? LOG_INFO : LOG_ERROR + 1;
    dir = tmpdir_new("peer");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tmpdir_free(dir);
    return 0;
}

static json_t *manifest_of(const char *folder)
{
    json_t *m = NULL;
    size_t n;
    char *text = vrig_read_file(folder, "manifest.json", &n);

    if (text != NULL)
        m = json_loadb(text, n, 0, NULL);
    free(text);
    assert_non_null(m);
    return m;
}

static bool status_allowed(json_t *entry, int status)
{
    json_t *also = json_object_get(entry, "also_allowed"), *one;
    size_t i;

    if (json_integer_value(json_object_get(entry, "status")) == status)
        return true;
    json_array_foreach(also, i, one)
        if (json_integer_value(one) == status)
            return true;
    return false;
}

static int status_of(int rc)
{
    return rc == 0 ? 200 : rc == DFS_ENOTFOUND || rc == DFS_ECOOKIE || rc == DFS_ENOVOLUME ? 404 : 500;
}

static void check_hash(json_t *entry, const char *data, size_t n)
{
    const char *want = json_string_value(json_object_get(entry, "sha256"));
    unsigned char hash[crypto_hash_sha256_BYTES];
    char text[2 * sizeof hash + 1];

    const char *etag = json_string_value(json_object_get(json_object_get(entry, "headers"), "ETag"));
    char crc[16];

    (void)snprintf(crc, sizeof crc, "\"%08x\"", crc32c(0, data, n));
    if (etag != NULL && json_integer_value(json_object_get(entry, "status")) == 200)
        assert_string_equal(crc, etag);
    /* Of what was stored compressed the manifest has the hash of the text. */
    if (want == NULL || json_integer_value(json_object_get(entry, "status")) != 200 ||
        (n > 2 && memcmp(data, "\x1f\x8b", 2) == 0))
        return;
    crypto_hash_sha256(hash, (const unsigned char *)data, n);
    sodium_bin2hex(text, sizeof text, hash, sizeof hash);
    assert_string_equal(text, want);
}

static void check_entries(struct store *s, json_t *manifest, bool hashes)
{
    json_t *entry;
    size_t i;

    json_array_foreach(json_object_get(manifest, "entries"), i, entry) {
        const char *path = json_string_value(json_object_get(entry, "path"));
        struct fid_path fp;
        char *data = NULL;
        size_t n = 0;
        int rc;

        assert_int_equal(fid_parse_path(bytes_of(path, strcspn(path, "?")), &fp), 0);
        rc = vrig_get(s, fp.fid.volume_id, fp.fid.key, fp.fid.cookie, &data, &n);
        if (json_integer_value(json_object_get(entry, "status")) == 206 && rc == 0)
            rc = 0;
        else if (!status_allowed(entry, status_of(rc)))
            fail_msg("%s: %s", path, dfs_err_name(rc));
        if (rc == 0 && hashes)
            check_hash(entry, data, n);
        free(data);
    }
}

static void check_numbers(struct store *s, json_t *manifest)
{
    json_t *st = json_object_get(manifest, "status_when_reopened");
    struct volume_info info;

    if (st == NULL)
        return;
    vrig_info(s, (uint32_t)json_integer_value(json_object_get(manifest, "volume_id")), &info);
    assert_int_equal(info.file_count, json_integer_value(json_object_get(st, "FileCount")));
    assert_int_equal(info.delete_count, json_integer_value(json_object_get(st, "DeleteCount")));
    assert_int_equal(info.deleted_bytes, json_integer_value(json_object_get(st, "DeletedByteCount")));
    assert_int_equal(info.file_bytes, json_integer_value(json_object_get(st, "Size")));
}

static void check_untouched(json_t *manifest, const char *suffix)
{
    json_t *files = json_object_get(manifest, "files"), *f;
    const char *name;

    json_object_foreach(files, name, f) {
        unsigned char hash[32];
        char text[65];

        if (strcmp(name + strlen(name) - 4, suffix) != 0)
            continue;
        vrig_hash(dir, name, hash);
        sodium_bin2hex(text, sizeof text, hash, sizeof hash);
        assert_string_equal(text, json_string_value(json_object_get(f, "sha256")));
    }
}

static void load_fixture(const char *name, bool sound, enum needle_map_kind kind)
{
    char folder[256];
    json_t *m;
    char *own = tmpdir_new("fixture"), *saved = dir;
    bool hashes = strcmp(name, "chunks") != 0; /* the manifest's hashes are those of the files that it stands for */

    (void)snprintf(folder, sizeof folder, FIXTURES "/%s", name);
    dir = own;
    vrig_copy_folder(folder, dir);
    m = manifest_of(folder);
    for (int again = 0; again < 2; again++) {
        struct store *s = vrig_open_kind(dir, kind);

        check_entries(s, m, hashes);
        if (sound) {
            struct volume_info info;

            check_numbers(s, m);
            vrig_info(s, (uint32_t)json_integer_value(json_object_get(m, "volume_id")), &info);
            assert_int_equal(info.no_write, 0);
        }
        vrig_close(s);
        if (sound) {
            check_untouched(m, ".dat");
            check_untouched(m, ".idx");
        }
    }
    json_decref(m);
    dir = saved;
    tmpdir_free(own);
}

static const char *const sound_fixtures[] = {
    "bench-like", "chunks", "collection", "deleted", "gzip", "mixed", "one-meg", "pairs", "replication-001", "replication-010",
    "ttl-3m", "ttl-5d", "ttl-8y", "vacuumed", "mixed-idx16", "deleted-idx16", "vacuumed-idx16", "v2-mixed", "v2-ttl",
    "v2-collection", "v2-vacuumed", "flipped-byte",
};

static void test_sound_fixtures(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sound_fixtures / sizeof *sound_fixtures; i++) {
        load_fixture(sound_fixtures[i], true, NEEDLE_MAP_MEMORY);
        load_fixture(sound_fixtures[i], true, NEEDLE_MAP_LEVELDB);
    }
}

static void test_damaged_fixtures(void **state)
{
    static const char *const names[] = {"torn-tail", "idx-missing", "idx-short"};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        load_fixture(names[i], false, NEEDLE_MAP_MEMORY);
        load_fixture(names[i], false, NEEDLE_MAP_LEVELDB);
    }
}

/* The index of the .dat alone must say the same as the one that the peer wrote. */
static void test_fixtures_without_index(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sound_fixtures / sizeof *sound_fixtures; i++) {
        char folder[256], path[512];
        char *own = tmpdir_new("fixture"), *saved = dir;
        json_t *m, *f;
        const char *name;
        struct store *s;
        void *next;

        (void)snprintf(folder, sizeof folder, FIXTURES "/%s", sound_fixtures[i]);
        dir = own;
        vrig_copy_folder(folder, dir);
        m = manifest_of(folder);
        json_object_foreach_safe(json_object_get(m, "files"), next, name, f) {
            (void)f;
            if (strcmp(name + strlen(name) - 4, ".idx") != 0)
                continue;
            (void)snprintf(path, sizeof path, "%s/%s", dir, name);
            assert_int_equal(unlink(path), 0);
        }
        s = vrig_open(dir);
        check_entries(s, m, strcmp(sound_fixtures[i], "chunks") != 0);
        check_numbers(s, m);
        vrig_close(s);
        check_untouched(m, ".dat");
        if (strcmp(sound_fixtures[i], "vacuumed") != 0 && strcmp(sound_fixtures[i], "vacuumed-idx16") != 0)
            check_untouched(m, ".idx"); /* made from the .dat, byte for byte */
        json_decref(m);
        dir = saved;
        tmpdir_free(own);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sound_fixtures, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged_fixtures, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fixtures_without_index, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
