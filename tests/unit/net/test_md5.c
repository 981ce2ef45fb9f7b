/* MD5: known digests, any pieces, base64. */
#include <stdlib.h>
#include "tests/unit/net/unit.h"

#include "net/md5.h"

static void hex_of(struct bytes in, size_t piece, char out[33])
{
    struct md5 m;
    uint8_t d[MD5_BYTES];
    md5_init(&m);
    for (size_t at = 0; at < in.n; at += piece)
        md5_update(&m, bytes_of(in.p + at, in.n - at < piece ? in.n - at : piece));
    md5_update(&m, BYTES_NONE);
    md5_final(&m, d);
    for (int i = 0; i < MD5_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", d[i]);
}

static void test_vectors(void **state)
{
    (void)state;
    static const struct {
        const char *in, *hex;
    } row[] = {
        {"", "d41d8cd98f00b204e9800998ecf8427e"},
        {"a", "0cc175b9c0f1b6a831c399e269772661"},
        {"abc", "900150983cd24fb0d6963f7d28e17f72"},
        {"message digest", "f96b697d7cb7938d525a2f31aaf161d0"},
        {"abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", "d174ab98d277d9f5a5611c2c9f419d9f"},
        {"12345678901234567890123456789012345678901234567890123456789012345678901234567890", "57edf4a22be3c955ac49da2e2107b67a"},
    };
    char hex[33];
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        for (size_t piece = 1; piece < 90; piece++) {
            hex_of(bytes_str(row[i].in), piece, hex);
            assert_string_equal(hex, row[i].hex);
        }
}

/* Every length around the padding, in two ways of cutting. */
static void test_lengths(void **state)
{
    (void)state;
    static char in[1000];
    char a[33], b[33];
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (char)(i * 31);
    for (size_t n = 0; n < 300; n++) {
        hex_of(bytes_of(in, n), 1000, a);
        hex_of(bytes_of(in, n), 7, b);
        assert_string_equal(a, b);
    }
    hex_of(bytes_of(in, 1000), 64, a);
    assert_string_equal(a, "bf38fd44dfb382df1a50ee14ad83c46c");
}

static void test_base64(void **state)
{
    (void)state;
    struct md5 m;
    uint8_t d[MD5_BYTES], e[MD5_BYTES];
    char text[MD5_BASE64_BYTES + 1];
    md5_init(&m);
    md5_update(&m, BYTES_LIT("md5data"));
    md5_final(&m, d);
    md5_base64(d, text);
    assert_string_equal(text, "LVHwiJPUF0yXKOynkhSR0A==");
    assert_true(md5_from_base64(bytes_str(text), e));
    assert_memory_equal(d, e, sizeof d);
    assert_false(md5_from_base64(BYTES_NONE, e));
    assert_false(md5_from_base64(bytes_str("LVHwiJPUF0yXKOynkhSR0A="), e));
    assert_false(md5_from_base64(bytes_str("LVHwiJPUF0yXKOynkhSR0A==="), e));
    assert_false(md5_from_base64(bytes_str("LVHwiJPUF0yXKOynkhSR0AAA"), e));
    assert_false(md5_from_base64(bytes_str("LVHwiJPUF0yXKOynkhSR!A=="), e));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors), cmocka_unit_test(test_lengths), cmocka_unit_test(test_base64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
