/* What goes to a sister replica: target, form and headers say all that the first server decided. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "needle/err.h"
#include "net/multipart.h"
#include "volume/replica_call.h"

static struct needle sample(void)
{
    struct needle n = {
        .flags = NEEDLE_HAS_NAME | NEEDLE_HAS_MIME | NEEDLE_HAS_LAST_MODIFIED | NEEDLE_HAS_TTL | NEEDLE_HAS_PAIRS | NEEDLE_COMPRESSED,
        .name = BYTES_LIT("a \"b\".txt"),
        .mime = BYTES_LIT("text/plain"),
        .pairs = BYTES_LIT("{\"Color\":\"red\",\"Shape\":\"ro\\u00fcnd\",\"Bad\":\"a\\r\\nX-Evil: 1\"}"),
        .last_modified_s = 1500000000,
        .ttl = {5, TTL_DAY},
    };
    return n;
}

static void test_target(void **state)
{
    char out[REPLICA_TARGET_MAX];
    struct fid fid = {.volume_id = 3, .key = 1, .cookie = 0x637037d6};
    struct needle n = sample();
    (void)state;
    size_t len = replica_target(&fid, &n, false, true, 77, false, NULL, out);
    assert_string_equal(out, "/3,01637037d6?type=replicate&ts_ns=77&fsync=true&ts=1500000000&ttl=5d");
    assert_int_equal(len, strlen(out));
    n.flags |= NEEDLE_CHUNK_MANIFEST;
    replica_target(&fid, &n, false, false, 77, true, NULL, out);
    assert_string_equal(out, "/3,01637037d6?type=replicate&ts_ns=77&ts=1500000000&ttl=5d&cm=true&ts_given=true");
    replica_target(&fid, &n, true, false, 78, false, NULL, out);
    assert_string_equal(out, "/3,01637037d6?type=replicate&ts_ns=78");
}

static int undo_of(const char *query, struct needle_undo *out)
{
    struct http_params p;
    int rc;

    http_params_init(&p);
    assert_int_equal(http_params_parse(&p, bytes_str(query)), 0);
    rc = replica_undo_parse(&p, out);
    http_params_release(&p);
    return rc;
}

/* An undo says what it takes back, and the other end reads the same. */
static void test_undo(void **state)
{
    char out[REPLICA_TARGET_MAX];
    struct fid fid = {.volume_id = UINT32_MAX, .key = UINT64_MAX, .cookie = UINT32_MAX};
    struct needle n = sample();
    struct needle_undo undo = {{1, UINT64_MAX, UINT64_MAX - 1, UINT64_MAX - 2}, 4, true}, got;

    (void)state;
    n.flags |= NEEDLE_CHUNK_MANIFEST;
    size_t len = replica_target(&fid, &n, false, true, UINT64_MAX, true, &undo, out);
    assert_int_equal(len, strlen(out));
    assert_int_equal(undo_of(strchr(out, '?') + 1, &got), 0);
    assert_memory_equal(got.stamps_ns, undo.stamps_ns, sizeof got.stamps_ns);
    assert_int_equal(got.count, 4);
    assert_true(got.of_delete);
    undo = (struct needle_undo){{5}, 1, false};
    replica_target(&fid, &n, true, true, 9, true, &undo, out);
    assert_non_null(strstr(out, "&undo_ns=5"));
    assert_null(strstr(out, "undo_delete"));
    assert_int_equal(undo_of("type=replicate", &got), 0);
    assert_int_equal(got.count, 0);
    assert_int_equal(undo_of("undo_ns=1,2,3,4,5", &got), DFS_EINVAL);
    assert_int_equal(undo_of("undo_ns=x", &got), DFS_EINVAL);
    assert_int_equal(undo_of("undo_ns=1,,2", &got), DFS_EINVAL);
}

static void test_headers(void **state)
{
    struct needle n = sample();
    char *text;
    (void)state;
    assert_int_equal(replica_headers(&n, &text), 0);
    assert_non_null(strstr(text, "X-Dfs-Flags: 3f\r\n"));
    assert_non_null(strstr(text, "Seaweed-Color: red\r\n"));
    assert_non_null(strstr(text, "Seaweed-Shape: ro\xc3\xbcnd\r\n"));
    assert_null(strstr(text, "X-Evil")); /* a value cannot become a header */
    assert_string_equal(text + strlen(text) - 2, "\r\n");
    free(text);
}

struct seen {
    char name[300], type[300], data[64];
    size_t n;
    bool gzip;
};

static int on_part(void *arg, const struct multipart_part *part)
{
    struct seen *s = arg;
    memset(s, 0, sizeof *s);
    if (part->filename.n > 0)
        memcpy(s->name, part->filename.p, part->filename.n);
    if (part->content_type.n > 0)
        memcpy(s->type, part->content_type.p, part->content_type.n);
    s->gzip = part->gzip;
    return 0;
}

static int on_data(void *arg, struct bytes data, size_t *taken)
{
    struct seen *s = arg;
    assert_true(s->n + data.n < sizeof s->data);
    memcpy(s->data + s->n, data.p, data.n);
    s->n += data.n;
    *taken = data.n;
    return 0;
}

/* The form, read back by the very parser that the sister uses. */
static void round_trip(const struct needle *n, struct seen *s)
{
    static const struct multipart_ops ops = {on_part, on_data};
    char *head, *tail, *headers, boundary[128];
    struct multipart *m;
    size_t used, len;
    assert_int_equal(replica_headers(n, &headers), 0);
    const char *type = strstr(headers, "multipart/form-data");
    assert_true(http_value_param(bytes_of(type, (size_t)(strchr(type, '\r') - type)), "boundary", boundary, &len));
    assert_int_equal(replica_form(n, &head, &tail), 0);
    assert_int_equal(multipart_new(bytes_of(boundary, len), &ops, s, &m), 0);
    assert_int_equal(multipart_feed(m, bytes_str(head), &used), 0);
    assert_int_equal(multipart_feed(m, BYTES_LIT("\r\n--data"), &used), 0);
    assert_int_equal(multipart_feed(m, bytes_str(tail), &used), 0);
    assert_int_equal(multipart_end(m), 0);
    multipart_free(m);
    free(head);
    free(tail);
    free(headers);
}

static void test_form(void **state)
{
    struct needle n = sample();
    struct seen s;
    (void)state;
    round_trip(&n, &s);
    assert_string_equal(s.name, "a \"b\".txt");
    assert_string_equal(s.type, "text/plain");
    assert_true(s.gzip);
    assert_int_equal(s.n, 8);
    assert_memory_equal(s.data, "\r\n--data", 8);

    n.name = n.mime = BYTES_NONE;
    n.flags = 0;
    round_trip(&n, &s);
    assert_string_equal(s.name, "");
    assert_string_equal(s.type, "");
    assert_false(s.gzip);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_target),
        cmocka_unit_test(test_undo),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
