/* needle/fid.c: every form of a file id, and what is none. */
#include "needle_test.h"

#include "needle/fid.h"

/* Parse from memory that ends with the text. */
static int parse_exact(const char *text, struct fid *out)
{
    size_t n = strlen(text);
    char *p = must_alloc(n);
    int rc;

    memcpy(p, text, n);
    rc = fid_parse(bytes_of(p, n), out);
    free(p);
    return rc;
}

static int parse_path_exact(const char *path, struct fid_path *out, char **keep)
{
    size_t n = strlen(path);

    *keep = must_alloc(n);
    memcpy(*keep, path, n);
    return fid_parse_path(bytes_of(*keep, n), out);
}

static void good_ids(void **state)
{
    static const struct {
        const char *text;
        struct fid fid;
    } rows[] = {
        {"3,01637037d6", {3, 0x637037d6, 1}},
        {"3,01637037D6", {3, 0x637037d6, 1}},
        {"3,01637037d6_1", {3, 0x637037d6, 2}},
        {"3,01637037d6_0", {3, 0x637037d6, 1}},
        {"3,01637037d6_0255", {3, 0x637037d6, 256}},
        {"3,1637037d6", {3, 0x637037d6, 1}},
        {"3,0000000000000001637037d6", {3, 0x637037d6, 1}},
        {"4294967295,ffffffffffffffffffffffff", {UINT32_MAX, UINT32_MAX, UINT64_MAX}},
        {"4294967295,fffffffffffffffeffffffff_1", {UINT32_MAX, UINT32_MAX, UINT64_MAX}},
        {"1,0000000001_18446744073709551615", {1, 1, UINT64_MAX}},
        {"007,0100000000", {7, 0, 1}},
    };
    struct fid fid;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(parse_exact(rows[i].text, &fid), 0);
        assert_int_equal(fid.volume_id, rows[i].fid.volume_id);
        assert_int_equal(fid.cookie, rows[i].fid.cookie);
        assert_true(fid.key == rows[i].fid.key);
    }
}

static void bad_ids(void **state)
{
    static const char *const rows[] = {
        "", ",", "3", "3,", ",01637037d6", "3,637037d6", "3,0000000000000000001637037d6", "3,01637037dg",
        "3,01637037d6_", "3,01637037d6_x", "3,01637037d6_-1", "3,01637037d6_+1", "3,01637037d6_1_1", "3,01637037d6 ",
        " 3,01637037d6", "3,_1", "3,01637037_d6", "0,01637037d6", "-3,01637037d6", "+3,01637037d6",
        "4294967296,01637037d6", "99999999999999999999,01637037d6", "3,,01637037d6", "3,01637037d6,", "0x3,01637037d6",
        "3,0x01637037d6", "1,ffffffffffffffff00000000_1", "1,00000000000000010000000_18446744073709551616",
        "1,0200000001_18446744073709551614", "3,01637037d6.jpg", "3/01637037d6",
    };
    struct fid fid = {99, 98, 97};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (parse_exact(rows[i], &fid) != DFS_EINVAL)
            fail_msg("'%s' was taken for a file id", rows[i]);
        assert_true(fid.volume_id == 99 && fid.cookie == 98 && fid.key == 97);
    }
}

static void zero_bytes_are_no_text(void **state)
{
    struct fid fid;

    (void)state;
    assert_int_equal(fid_parse(bytes_of("3,01637037d6\0", 13), &fid), DFS_EINVAL);
    assert_int_equal(fid_parse(bytes_of("3\0,01637037d6", 13), &fid), DFS_EINVAL);
}

static void paths(void **state)
{
    static const struct {
        const char *path;
        uint64_t key; /* 0: no file */
        const char *ext, *filename;
    } rows[] = {
        {"/3,01637037d6", 1, "", ""},
        {"/3,01637037d6.jpg", 1, ".jpg", ""},
        {"/3,01637037d6_2.jpg", 3, ".jpg", ""},
        {"/3,01637037d6.tar.gz", 0, "", ""},
        {"/3/01637037d6", 1, "", ""},
        {"/3/01637037d6.jpg", 1, ".jpg", ""},
        {"/3/01637037d6_1.jpg", 2, ".jpg", ""},
        {"/3/01637037d6/some name.jpg", 1, ".jpg", "some name.jpg"},
        {"/3/01637037d6/a,b.tar.gz", 1, ".gz", "a,b.tar.gz"},
        {"/3/01637037d6/", 1, "", ""},
        {"/3,01637037d6.", 1, ".", ""},
        {"/3/01637037d6_1/x", 2, "", "x"},
        {"/a/b/c/d/3,01637037d6", 1, "", ""},
        {"3,01637037d6", 0, "", ""},
        {"", 0, "", ""},
        {"/", 0, "", ""},
        {"//", 0, "", ""},
        {"///", 0, "", ""},
        {"/3", 0, "", ""},
        {"/3,", 0, "", ""},
        {"/3,.jpg", 0, "", ""},
        {"/favicon.ico", 0, "", ""},
        {"/3/", 0, "", ""},
        {"/3/.jpg", 0, "", ""},
        {"//01637037d6", 0, "", ""},
        {"/3.5,01637037d6", 0, "", ""},
        {"/3,01637037d6/x", 0, "", ""},
        {"/../01637037d6", 0, "", ""},
        {"/3/../01637037d6", 0, "", ""},
        {"/status", 0, "", ""},
        {"/3,ffffffffffffffff00000000_1", 0, "", ""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct fid_path fp;
        char *keep;
        int rc = parse_path_exact(rows[i].path, &fp, &keep);
        if (rc != (rows[i].key == 0 ? DFS_EINVAL : 0))
            fail_msg("'%s' gave %s", rows[i].path, dfs_err_name(rc));
        if (rc == 0) {
            assert_int_equal(fp.fid.volume_id, 3);
            assert_int_equal(fp.fid.cookie, 0x637037d6);
            assert_true(fp.fid.key == rows[i].key);
            assert_true(bytes_eq(fp.ext, bytes_str(rows[i].ext)));
            assert_true(bytes_eq(fp.filename, bytes_str(rows[i].filename)));
        }
        free(keep);
    }
}

static void format_known(void **state)
{
    char text[FID_TEXT_MAX];

    (void)state;
    assert_int_equal(fid_format(&(struct fid){3, 0x637037d6, 1}, text), 12);
    assert_string_equal(text, "3,01637037d6");
    fid_format(&(struct fid){3, 0x00000001, 0x0100}, text);
    assert_string_equal(text, "3,010000000001");
    assert_int_equal(fid_format(&(struct fid){UINT32_MAX, UINT32_MAX, UINT64_MAX}, text), FID_TEXT_MAX - 1);
    assert_string_equal(text, "4294967295,ffffffffffffffffffffffff");
    assert_int_equal(fid_format_key_cookie(0xabc, 0xd, text), 12);
    assert_string_equal(text, "0abc0000000d");
}

static void round_trip(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int i = 0; i < 20000; i++) {
        struct fid in = {(uint32_t)rnd(&seed) | 1, (uint32_t)rnd(&seed), rnd(&seed) >> rnd_below(&seed, 64)}, out;
        char text[FID_TEXT_MAX];
        size_t n = fid_format(&in, text);
        assert_int_equal(n, strlen(text));
        assert_int_equal(fid_parse(bytes_of(text, n), &out), 0);
        assert_true(in.volume_id == out.volume_id && in.cookie == out.cookie && in.key == out.key);
        assert_int_equal((n - (size_t)(strchr(text, ',') - text) - 1) % 2, 0);
    }
}

static void cookies(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    assert_true(cookie_eq(0, 0));
    assert_true(cookie_eq(UINT32_MAX, UINT32_MAX));
    assert_false(cookie_eq(0, UINT32_MAX));
    for (int bit = 0; bit < 32; bit++) {
        uint32_t c = (uint32_t)rnd(&seed);
        assert_true(cookie_eq(c, c));
        assert_false(cookie_eq(c, c ^ 1u << bit));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_ids), cmocka_unit_test(bad_ids),      cmocka_unit_test(zero_bytes_are_no_text),
        cmocka_unit_test(paths),    cmocka_unit_test(format_known), cmocka_unit_test(round_trip),
        cmocka_unit_test(cookies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
