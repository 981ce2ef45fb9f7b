/* gRPC's wire forms: prefixes cut anywhere, bounds, percent-encoding, timeouts, status numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "needle/err.h"
#include "net/grpc_wire.h"
#include "net/pb/master.pb-c.h"

static size_t put(uint8_t *p, const char *text)
{
    size_t n = strlen(text);
    grpc_prefix_put(p, (uint32_t)n);
    memcpy(p + GRPC_PREFIX_BYTES, text, n);
    return n + GRPC_PREFIX_BYTES;
}

/* Whatever the pieces, the same messages come out. */
static void test_reader_any_split(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "a", "hello", "", "0123456789abcdef"};
    uint8_t wire[256];
    size_t n = 0;
    for (size_t i = 0; i < 5; i++)
        n += put(wire + n, texts[i]);
    for (size_t step = 1; step <= n; step++) {
        struct grpc_reader r;
        size_t got = 0;
        grpc_reader_init(&r, 100);
        for (size_t at = 0; at < n; at += step) {
            struct bytes in = bytes_of(wire + at, n - at < step ? n - at : step), m;
            int rc;
            while ((rc = grpc_reader_next(&r, &in, &m)) == 0) {
                assert_true(bytes_eq(m, bytes_str(texts[got])));
                got++;
            }
            assert_int_equal(rc, DFS_ESHORT);
            assert_int_equal(in.n, 0);
        }
        assert_int_equal(got, 5);
        assert_false(grpc_reader_partial(&r));
        grpc_reader_release(&r);
    }
}

static void test_reader_partial(void **state)
{
    (void)state;
    uint8_t wire[16];
    size_t n = put(wire, "abc");
    for (size_t cut = 0; cut < n; cut++) {
        struct grpc_reader r;
        struct bytes in = bytes_of(wire, cut), m;
        grpc_reader_init(&r, 100);
        assert_int_equal(grpc_reader_next(&r, &in, &m), DFS_ESHORT);
        assert_int_equal(grpc_reader_partial(&r), cut > 0);
        grpc_reader_release(&r);
    }
}

static int read_one(const uint8_t *p, size_t n, size_t max)
{
    struct grpc_reader r;
    struct bytes in = bytes_of(p, n), m;
    grpc_reader_init(&r, max);
    int rc = grpc_reader_next(&r, &in, &m);
    grpc_reader_release(&r);
    return rc;
}

static void test_reader_bounds(void **state)
{
    (void)state;
    assert_int_equal(read_one((const uint8_t *)"\0\0\0\0\4abcd", 9, 4), 0);
    assert_int_equal(read_one((const uint8_t *)"\0\0\0\0\5", 5, 4), DFS_ETOOBIG);
    assert_int_equal(read_one((const uint8_t *)"\0\xff\xff\xff\xff", 5, 4), DFS_ETOOBIG);
    assert_int_equal(read_one((const uint8_t *)"\1\0\0\0\1x", 6, 4), DFS_EUNSUPPORTED);
    assert_int_equal(read_one((const uint8_t *)"\2\0\0\0\1x", 6, 4), DFS_EPROTO);
}

/* A prefix that promises 4 GB costs nothing until bytes come. */
static void test_reader_memory_follows_bytes(void **state)
{
    (void)state;
    struct grpc_reader r;
    struct bytes in = bytes_of("\0\xff\xff\xff\xff" "abc", 8), m;
    grpc_reader_init(&r, UINT32_MAX);
    assert_int_equal(grpc_reader_next(&r, &in, &m), DFS_ESHORT);
    assert_true(r.cap <= 4096);
    grpc_reader_release(&r);
}

static void check_percent(const char *plain, size_t n, const char *encoded)
{
    char out[256], back[256];
    size_t len = grpc_percent_encode(bytes_of(plain, n), out, sizeof out);
    assert_int_equal(len, strlen(encoded));
    assert_memory_equal(out, encoded, len);
    assert_int_equal(grpc_percent_decode(bytes_of(out, len), back), n);
    assert_memory_equal(back, plain, n);
}

static void test_percent(void **state)
{
    (void)state;
    check_percent("", 0, "");
    check_percent("no space left", 13, "no space left");
    check_percent("50%", 3, "50%25");
    check_percent("a\nb\0c", 5, "a%0Ab%00c");
    check_percent("\xc3\xa4", 2, "%C3%A4");
    check_percent("~\x7f", 2, "~%7F");
    char out[8];
    assert_int_equal(grpc_percent_encode(BYTES_LIT("abc%"), out, 5), 3); /* no half escape */
    assert_int_equal(grpc_percent_decode(BYTES_LIT("%"), out), 1);
    assert_int_equal(grpc_percent_decode(BYTES_LIT("%4"), out), 2);
    assert_int_equal(grpc_percent_decode(BYTES_LIT("%zz%41"), out), 4);
    assert_memory_equal(out, "%zzA", 4);
    assert_int_equal(grpc_percent_decode(BYTES_LIT("%c3%A4"), out), 2);
}

static void test_timeout(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t ms;
    } good[] = {{"1H", 3600000}, {"2M", 120000}, {"3S", 3000}, {"15m", 15}, {"1500u", 2}, {"1n", 1}, {"0m", 1},
                {"99999999H", 99999999ull * 3600000}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint64_t ms = 0;
        assert_int_equal(grpc_timeout_parse(bytes_str(good[i].text), &ms), 0);
        assert_int_equal(ms, good[i].ms);
    }
    static const char *const bad[] = {"", "m", "5", "5x", "-5m", "123456789m", "5 m", "m5"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t ms = 7;
        assert_int_equal(grpc_timeout_parse(bytes_str(bad[i]), &ms), DFS_EINVAL);
        assert_int_equal(ms, 7);
    }
    static const uint32_t there[] = {1, 999, 99999999, 100000000, UINT32_MAX};
    for (size_t i = 0; i < 5; i++) {
        char text[GRPC_TIMEOUT_TEXT_MAX];
        uint64_t ms;
        assert_int_equal(grpc_timeout_parse(bytes_of(text, grpc_timeout_format(there[i], text)), &ms), 0);
        assert_true(ms >= there[i] && ms <= (uint64_t)there[i] + 1000);
    }
}

static void test_status(void **state)
{
    (void)state;
    assert_int_equal(grpc_status_parse(BYTES_LIT("0")), GRPC_OK);
    assert_int_equal(grpc_status_parse(BYTES_LIT("16")), GRPC_UNAUTHENTICATED);
    assert_int_equal(grpc_status_parse(BYTES_LIT("17")), GRPC_UNKNOWN);
    assert_int_equal(grpc_status_parse(BYTES_LIT("")), GRPC_UNKNOWN);
    assert_int_equal(grpc_status_parse(BYTES_LIT("-1")), GRPC_UNKNOWN);
    assert_int_equal(grpc_status_parse(BYTES_LIT("100")), GRPC_UNKNOWN);
    assert_string_equal(grpc_status_name(GRPC_RESOURCE_EXHAUSTED), "RESOURCE_EXHAUSTED");
    assert_string_equal(grpc_status_name((enum grpc_status)99), "?");
    /* Peers drop their connection on these three, so nothing of ours maps to them. */
    for (int rc = 0; rc >= -40; rc--) {
        enum grpc_status s = grpc_status_from_err(rc);
        assert_true(s != GRPC_UNAVAILABLE && s != GRPC_ABORTED && s != GRPC_INTERNAL);
        assert_int_equal(s == GRPC_OK, rc == 0);
    }
    for (int s = 0; s <= 16; s++)
        assert_int_equal(grpc_err_from_status((enum grpc_status)s) == 0, s == 0);
}

static void test_content_type(void **state)
{
    (void)state;
    assert_true(grpc_is_content_type(BYTES_LIT("application/grpc")));
    assert_true(grpc_is_content_type(BYTES_LIT("application/grpc+proto")));
    assert_true(grpc_is_content_type(BYTES_LIT("application/grpc;x=y")));
    assert_false(grpc_is_content_type(BYTES_LIT("application/grpc-web")));
    assert_false(grpc_is_content_type(BYTES_LIT("application/json")));
    assert_false(grpc_is_content_type(BYTES_LIT("")));
}

/* ---- unpacking ---- */

static void test_unpack(void **state)
{
    (void)state;
    MasterPb__Heartbeat beat = MASTER_PB__HEARTBEAT__INIT;
    MasterPb__MaxVolumeCount count = MASTER_PB__MAX_VOLUME_COUNT__INIT, *counts[] = {&count};
    beat.ip = (char *)"10.0.0.1";
    count.count = 8;
    beat.max_volume_counts = counts;
    beat.n_max_volume_counts = 1;
    beat.digest_case = MASTER_PB__HEARTBEAT__DIGEST_VOLUME_DIGEST;
    uint8_t wire[128];
    size_t n = master_pb__heartbeat__pack(&beat, wire);
    MasterPb__Heartbeat *back =
        (MasterPb__Heartbeat *)grpc_unpack(&master_pb__heartbeat__descriptor, bytes_of(wire, n));
    assert_non_null(back);
    assert_string_equal(back->ip, "10.0.0.1");
    assert_int_equal(back->n_max_volume_counts, 1);
    assert_int_equal(back->max_volume_counts[0]->count, 8);
    assert_string_equal(back->max_volume_counts[0]->disk_type, "");
    assert_int_equal(back->digest_case, MASTER_PB__HEARTBEAT__DIGEST_VOLUME_DIGEST); /* present, though 0 */
    protobuf_c_message_free_unpacked(&back->base, NULL);

    back = (MasterPb__Heartbeat *)grpc_unpack(&master_pb__heartbeat__descriptor, BYTES_NONE);
    assert_non_null(back);
    assert_int_equal(back->digest_case, 0);
    protobuf_c_message_free_unpacked(&back->base, NULL);
    assert_null(grpc_unpack(&master_pb__heartbeat__descriptor, bytes_of(wire, n - 1)));
}

/* The empty sub-message is the worst an honest peer can do: it must fit. */
static void test_unpack_empty_submessages(void **state)
{
    (void)state;
    enum { N = 20000 };
    char *wire = malloc(2 * N);
    for (size_t i = 0; i < N; i++)
        memcpy(wire + 2 * i, "\x1a\0", 2); /* VolumeListResponse has no field 3: unknown */
    ProtobufCMessage *m = grpc_unpack(&master_pb__volume_list_response__descriptor, bytes_of(wire, 2 * N));
    if (m != NULL)
        protobuf_c_message_free_unpacked(m, NULL);
    for (size_t i = 0; i < N; i++)
        memcpy(wire + 2 * i, "\x0a\0", 2); /* collections without a name */
    m = grpc_unpack(&master_pb__collection_list_response__descriptor, bytes_of(wire, 2 * N));
    assert_non_null(m);
    protobuf_c_message_free_unpacked(m, NULL);
    free(wire);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reader_any_split),
        cmocka_unit_test(test_reader_partial),
        cmocka_unit_test(test_reader_bounds),
        cmocka_unit_test(test_reader_memory_follows_bytes),
        cmocka_unit_test(test_percent),
        cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_content_type),
        cmocka_unit_test(test_unpack),
        cmocka_unit_test(test_unpack_empty_submessages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
