/* The daemon as a client sees it: one server in the process, no master, requests over a real socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "needle/err.h"
#include "net/ascii.h"
#include "net/gzip.h"
#include "net/rand.h"
#include "tests/support/http_rig.h"
#include "tests/support/tmpdir.h"
#include "volume/volume_server.h"

#define LIMIT (1u << 20)

static struct loop *main_loop;
static struct volume_server *server;
static struct volume_options options;
static struct rig at; /* only its port: the client's half of the rig is used */
static char *dir;
static pthread_t thread;

static uint16_t free_port(void)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof sa;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
    close(fd);
    return ntohs(sa.sin_port);
}

static void *run_main(void *arg)
{
    loop_run(arg);
    return NULL;
}

static void start_server(void)
{
    assert_int_equal(loop_new("main", &main_loop), 0);
    assert_int_equal(volume_server_new(&options, main_loop, &server), 0);
    assert_int_equal(volume_server_start(server), 0);
    store_load_wait(volume_server_store(server));
    assert_int_equal(pthread_create(&thread, NULL, run_main, main_loop), 0);
}

static void stop_server(void)
{
    loop_stop(main_loop);
    pthread_join(thread, NULL);
    volume_server_free(server);
    loop_free(main_loop);
}

static int setup(void **state)
{
    char reason[256];
    struct replica_placement none = {0, 0, 0}, pair = {0, 0, 1};
    struct ttl forever = {0, 0};
    (void)state;
    dir = tmpdir_new("volume-server");
    volume_options_init(&options);
    options.dirs[0] = dir;
    options.max_volumes[0] = 8;
    options.dir_count = 1;
    options.port = at.port = free_port();
    options.port_grpc = free_port();
    options.masters = "127.0.0.1:1.1"; /* nobody */
    options.file_limit_bytes = LIMIT;
    options.min_free_percent = 0;
    options.loops = 2;
    options.durability = DURABILITY_NONE;
    start_server();
    struct store *s = volume_server_store(server);
    assert_int_equal(store_allocate(s, 3, BYTES_NONE, none, forever, 3, 0, reason), 0);
    assert_int_equal(store_allocate(s, 4, BYTES_NONE, pair, forever, 3, 0, reason), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stop_server();
    tmpdir_free(dir);
    return 0;
}

/* ---- requests ---- */
static struct rig_answer ask(const char *method, const char *target, const char *headers, const char *body, size_t n)
{
    struct rig_answer a;
    int fd = rig_connect(&at);
    rig_send(fd, "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s", method, target, headers);
    if (body != NULL)
        rig_send(fd, "Content-Length: %zu\r\n\r\n", n);
    else
        rig_send(fd, "\r\n");
    if (n > 0)
        rig_send_bytes(fd, body, n);
    rig_read(fd, strcmp(method, "HEAD") == 0, &a);
    rig_close(fd);
    return a;
}

static void expect(const char *method, const char *target, const char *headers, const char *body, int status, const char *answer)
{
    struct rig_answer a = ask(method, target, headers, body, body != NULL ? strlen(body) : 0);
    if (a.head.status != status)
        fail_msg("%s %s: got %d '%s', want %d", method, target, a.head.status, a.body, status);
    if (answer != NULL)
        assert_string_equal(a.body, answer);
    rig_answer_free(&a);
}

static void expect_header(const char *method, const char *target, const char *headers, const char *name, const char *value)
{
    struct rig_answer a = ask(method, target, headers, NULL, 0);
    assert_string_equal(rig_header(&a, name), value);
    rig_answer_free(&a);
}

#define TEXT "Content-Type: text/plain\r\n"

static void test_put_get_delete(void **state)
{
    (void)state;
    expect("GET", "/3,0100000001", "", NULL, 404, "");
    expect("PUT", "/3,0100000001", TEXT, "hello", 201, "{\"name\":\"3,0100000001\",\"size\":5,\"eTag\":\"9a71bb4c\",\"mime\":\"text/plain\"}");
    expect("PUT", "/3,0100000001", TEXT, "hello", 204, "");
    expect("GET", "/3,0100000001", "", NULL, 200, "hello");
    expect("GET", "/3/0100000001.txt", "", NULL, 200, "hello");
    expect("GET", "/3,0100000002", "", NULL, 404, "");
    expect("PUT", "/3,0100000002", TEXT, "other cookie", 403, NULL);
    expect("DELETE", "/3,0100000002", "", NULL, 404, "{\"size\":0}");
    expect_header("HEAD", "/3,0100000001", "", "Content-Length", "5");
    expect_header("GET", "/3,0100000001", "", "ETag", "\"9a71bb4c\"");
    expect("DELETE", "/3,0100000001", "", NULL, 202, NULL);
    expect("DELETE", "/3,0100000001", "", NULL, 404, "{\"size\":0}");
    expect("GET", "/3,0100000001", "", NULL, 404, "");
}

static void test_bad_requests(void **state)
{
    static const char *const paths[] = {"/", "/3", "/3,", "/3,zz", "/3,01", "/x,0100000001", "/3,0100000001_x", "/%zz",
                                        "/3,ffffffffffffffff00000000_1"};
    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        expect("GET", paths[i], "", NULL, 400, NULL);
        expect("PUT", paths[i], TEXT, "x", 400, NULL);
        expect("DELETE", paths[i], "", NULL, 400, NULL);
    }
    expect("PUT", "/3,0200000001?ts=soon", TEXT, "x", 400, NULL);
    expect("PUT", "/3,0200000001?ttl=30s", TEXT, "x", 400, NULL);
    expect("POST", "/3,0200000001", "", "no type", 400, NULL);
    expect("POST", "/3,0200000001", "Content-Type: multipart/form-data\r\n", "--B", 400, NULL);
    expect("PUT", "/3,0200000001", "Content-Type: text/plain\r\nContent-Encoding: gzip\r\n", "not gzip", 400, NULL);
    expect("PUT", "/3,0200000001", "Content-MD5: AAAAAAAAAAAAAAAAAAAAAA==\r\n", "x", 400, NULL);
    expect("PUT", "/3,0200000001", "Content-MD5: no digest\r\n", "x", 400, NULL);
    expect("PUT", "/3,0200000001", "Content-MD5: AAAA\r\n", "x", 400, NULL);
    expect("PATCH", "/3,0200000001", "", NULL, 400, NULL);
    expect("GET", "/3,0200000001", "", NULL, 404, "");
    expect("PUT", "/9,0200000001", TEXT, "x", 404, NULL);
    expect_header("GET", "/9,0200000001?proxied=true", "", "X-Dfs-Reason", "volume");
    expect_header("GET", "/3,0200000001", "", "X-Dfs-Reason", "needle");
    expect("GET", "/admin/assign_volume", "", NULL, 501, NULL);
}

static void test_limit(void **state)
{
    char *big = malloc(LIMIT + 1);
    (void)state;
    memset(big, 'x', LIMIT + 1);
    struct rig_answer a = ask("PUT", "/3,0300000001", TEXT, big, LIMIT);
    assert_int_equal(a.head.status, 201);
    rig_answer_free(&a);
    a = ask("GET", "/3,0300000001", "", NULL, 0);
    assert_int_equal(a.body_n, LIMIT);
    assert_memory_equal(a.body, big, LIMIT);
    rig_answer_free(&a);
    expect("GET", "/3,0300000001", "Range: bytes=1048570-\r\n", NULL, 206, "xxxxxx");
    int fd = rig_connect(&at);
    rig_send(fd, "PUT /3,0300000002 HTTP/1.1\r\nHost: x\r\nContent-Length: %u\r\n\r\n", LIMIT + 1);
    rig_expect(fd, 413, NULL); /* before a byte of the body */
    rig_close(fd);
    fd = rig_connect(&at);
    rig_send(fd, "PUT /3,0300000002 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n", LIMIT + 1);
    rig_try_send(fd, big, LIMIT + 1);
    rig_expect(fd, 413, NULL);
    rig_close(fd);
    expect("GET", "/3,0300000002", "", NULL, 404, "");
    free(big);
}

static void test_conditions_and_ranges(void **state)
{
    (void)state;
    expect("PUT", "/3,0400000001?ts=1500000000", "Content-Type: text/plain\r\nContent-Disposition: inline; filename=\"n.txt\"\r\n",
           "0123456789", 201, NULL);
    struct rig_answer a = ask("GET", "/3,0400000001", "", NULL, 0);
    char tag[64], match[128];
    snprintf(tag, sizeof tag, "%s", rig_header(&a, "ETag"));
    assert_string_equal(rig_header(&a, "Last-Modified"), "Fri, 14 Jul 2017 02:40:00 GMT");
    assert_string_equal(rig_header(&a, "Content-Disposition"), "inline; filename=n.txt");
    rig_answer_free(&a);
    snprintf(match, sizeof match, "If-None-Match: \"a\", W/%s\r\n", tag);
    expect("GET", "/3,0400000001", match, NULL, 304, "");
    snprintf(match, sizeof match, "If-Match: %s\r\n", tag);
    expect("GET", "/3,0400000001", match, NULL, 200, "0123456789");
    expect("GET", "/3,0400000001", "If-Match: \"x\"\r\n", NULL, 412, "");
    expect("GET", "/3,0400000001", "If-Modified-Since: Fri, 14 Jul 2017 02:40:00 GMT\r\n", NULL, 304, "");
    expect("GET", "/3,0400000001", "If-Modified-Since: Fri, 14 Jul 2017 02:39:59 GMT\r\n", NULL, 200, NULL);
    expect("GET", "/3,0400000001", "If-Unmodified-Since: Fri, 14 Jul 2017 02:39:59 GMT\r\n", NULL, 412, "");
    expect("GET", "/3,0400000001", "If-None-Match: \"x\"\r\nIf-Modified-Since: Fri, 14 Jul 2017 02:40:00 GMT\r\n", NULL, 200, NULL);
    expect("GET", "/3,0400000001", "Range: bytes=2-4\r\n", NULL, 206, "234");
    expect("GET", "/3,0400000001", "Range: bytes=-3\r\n", NULL, 206, "789");
    expect("GET", "/3,0400000001", "Range: bytes=10-\r\n", NULL, 416, NULL);
    expect("GET", "/3,0400000001", "Range: bytes=2-4\r\nIf-Range: \"x\"\r\n", NULL, 200, "0123456789");
    expect_header("GET", "/3,0400000001", "Range: bytes=0-0,8-9\r\n", "Content-Type",
                  "multipart/byteranges; boundary=dfs_byteranges_7c4b1f0a92de");
    expect_header("GET", "/3,0400000001?dl=true", "", "Content-Disposition", "attachment; filename=n.txt");
    expect_header("GET", "/3,0400000001?response-content-type=a/b", "", "Content-Type", "a/b");
    expect_header("GET", "/3,0400000001", "Origin: http://a\r\n", "Access-Control-Allow-Origin", "*");
    expect_header("GET", "/3,0400000009", "Origin: http://a\r\n", "Access-Control-Allow-Origin", "*");
}

static void test_gzip(void **state)
{
    char plain[200000], out[4096];
    size_t n;
    (void)state;
    for (size_t i = 0; i < sizeof plain; i++)
        plain[i] = (char)('a' + i % 7);
    assert_int_equal(gzip_compress(bytes_of(plain, sizeof plain), 9, out, sizeof out, &n), 0);
    struct rig_answer a = ask("PUT", "/3,0500000001", "Content-Type: text/plain\r\nContent-Encoding: gzip\r\n", out, n);
    assert_int_equal(a.head.status, 201);
    assert_non_null(strstr(a.body, "\"size\":200000"));
    rig_answer_free(&a);
    a = ask("GET", "/3,0500000001", "", NULL, 0);
    assert_int_equal(a.body_n, sizeof plain);
    assert_memory_equal(a.body, plain, sizeof plain);
    assert_string_equal(rig_header(&a, "Content-Encoding"), "");
    rig_answer_free(&a);
    expect_header("HEAD", "/3,0500000001", "", "Content-Length", "200000");
    a = ask("GET", "/3,0500000001", "Accept-Encoding: gzip\r\n", NULL, 0);
    assert_string_equal(rig_header(&a, "Content-Encoding"), "gzip");
    assert_int_equal(a.body_n, n);
    assert_memory_equal(a.body, out, n);
    rig_answer_free(&a);
    expect("GET", "/3,0500000001", "Range: bytes=199995-\r\n", NULL, 206, "fgabc");
}

static void test_bomb(void **state)
{
    size_t n, cap = 1 << 20;
    char *zeros = calloc(1, 4 * LIMIT), *out = malloc(cap);
    (void)state;
    assert_int_equal(gzip_compress(bytes_of(zeros, 4 * LIMIT), 9, out, cap, &n), 0);
    struct rig_answer a = ask("PUT", "/3,0600000001", "Content-Encoding: gzip\r\n", out, n);
    assert_int_equal(a.head.status, 413); /* says so itself */
    rig_answer_free(&a);
    memcpy(out + n - 4, "\1\0\0\0", 4); /* lies */
    a = ask("PUT", "/3,0600000001", "Content-Encoding: gzip\r\n", out, n);
    assert_int_equal(a.head.status, 413); /* it is inflated, not believed */
    rig_answer_free(&a);
    expect("GET", "/3,0600000001", "", NULL, 404, NULL);
    free(zeros);
    free(out);
}

/* Pairs named like headers of the answer: one header of each name, framing and validators ours, type and name the pair's. */
static void test_pairs_named_like_headers(void **state)
{
    static const char *const once[] = {"ETag", "Content-Type", "Content-Disposition", "Accept-Ranges", "Last-Modified", "Content-Length"};
    const char *target = "/3,0d00000001";
    const char *pairs = TEXT "Content-Disposition: inline; filename=\"ours.txt\"\r\n"
                        "Seaweed-Etag: x\r\nSeaweed-Content-Type: text/x-pair\r\nSeaweed-Content-Disposition: inline; filename=theirs\r\n"
                        "Seaweed-Accept-Ranges: none\r\nSeaweed-Last-Modified: never\r\nSeaweed-Content-Length: 99\r\n"
                        "Seaweed-Content-Range: bytes 0-0/1\r\nSeaweed-Other: kept\r\n";
    (void)state;
    expect("PUT", target, pairs, "pairs", 201, NULL);
    struct rig_answer a = ask("GET", target, "", NULL, 0);
    assert_int_equal(a.head.status, 200);
    for (size_t i = 0; i < sizeof once / sizeof once[0]; i++) {
        size_t seen = 0;
        for (size_t k = 0; k < a.head.header_count; k++)
            seen += bytes_ieq(a.head.headers[k].name, bytes_str(once[i]));
        assert_int_equal(seen, 1);
    }
    assert_string_equal(rig_header(&a, "Content-Type"), "text/x-pair");
    assert_string_equal(rig_header(&a, "Content-Disposition"), "inline; filename=theirs");
    assert_string_equal(rig_header(&a, "Accept-Ranges"), "bytes");
    assert_string_equal(rig_header(&a, "Content-Length"), "5");
    assert_string_equal(rig_header(&a, "Content-Range"), "");
    assert_string_equal(rig_header(&a, "Other"), "kept");
    rig_answer_free(&a);
}

static void test_form(void **state)
{
    const char *head = "Content-Type: multipart/form-data; boundary=B\r\nSeaweed-color-of: red\r\n";
    (void)state;
    expect("POST", "/3,0700000001", head, "--B\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\nfield\r\n--B\r\n"
           "Content-Disposition: form-data; name=\"f\"; filename=\"C:\\\\tmp\\\\b.png\"\r\nContent-Type: png\r\n\r\nDATA\r\n--B--\r\n", 201,
           "{\"name\":\"b.png\",\"size\":4,\"eTag\":\"c78fff92\",\"mime\":\"image/png\"}");
    expect("GET", "/3,0700000001", "", NULL, 200, "DATA");
    expect_header("GET", "/3,0700000001", "", "Color-Of", "red");
    expect_header("GET", "/3,0700000001", "", "Content-Type", "image/png");
    expect("PUT", "/3,0700000002", head, "--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a\"\r\n\r\nx", 400, NULL);
    expect("GET", "/3,0700000002", "", NULL, 404, "");
}

static void test_replicated_without_sisters(void **state)
{
    (void)state;
    expect("PUT", "/4,0100000001", TEXT, "needs two", 500, NULL); /* no master tells where the other is */
    expect("GET", "/4,0100000001", "", NULL, 404, "");
    expect("PUT", "/4,0100000001?type=replicate&ts=5&ts_ns=77", TEXT, "told so", 201, NULL);
    expect("PUT", "/4,0100000001?type=replicate&ts=5&ts_ns=76", TEXT, "too late", 409, NULL);
    expect("GET", "/4,0100000001", "", NULL, 200, "told so");
    expect("PUT", "/4,0200000001?type=replicate&ts=5&ts_ns=99", TEXT, "later", 201, NULL);
    expect("PUT", "/4,0100000001?type=replicate&ts=5&ts_ns=88", TEXT, "late for the volume only", 201, NULL);
    expect("GET", "/4,0100000001", "", NULL, 200, "late for the volume only");
    expect("DELETE", "/4,0100000001?type=replicate&ts_ns=80", "", NULL, 409, NULL);
    expect("DELETE", "/4,0100000001?type=replicate&ts_ns=200", "", NULL, 202, NULL);
}

static void test_batch(void **state)
{
    (void)state;
    expect("PUT", "/3,0800000001", TEXT, "a", 201, NULL);
    expect("PUT", "/3,0900000001", TEXT, "b", 201, NULL);
    struct rig_answer a = ask("POST", "/delete?fid=3,0800000001&fid=3,0900000002&fid=zz&fid=3,0900000001", "", "", 0);
    assert_int_equal(a.head.status, 202);
    assert_non_null(strstr(a.body, "\"fid\":\"3,0800000001\""));
    assert_non_null(strstr(a.body, "{\"fid\":\"3,0900000002\",\"size\":0,\"status\":404"));
    assert_non_null(strstr(a.body, "{\"fid\":\"zz\",\"size\":0,\"status\":400"));
    rig_answer_free(&a);
    expect("GET", "/3,0800000001", "", NULL, 404, "");
    expect("GET", "/3,0900000001", "", NULL, 404, "");
}

static void test_status(void **state)
{
    (void)state;
    expect("GET", "/healthz", "", NULL, 200, "");
    expect("HEAD", "/healthz", "", NULL, 200, NULL);
    expect("GET", "/readyz", "", NULL, 503, ""); /* no master */
    expect("OPTIONS", "/status", "", NULL, 200, "");
    static const char *const pages[] = {"/status", "/metrics", "/stats/disk", "/stats/counter", "/stats/memory",
                                       "/stats/health", "/ui/index.html"};
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++)
        expect("GET", pages[i], "", NULL, 200, NULL);
    struct rig_answer a = ask("GET", "/status", "", NULL, 0);
    assert_non_null(strstr(a.body, "\"Id\":3,"));
    assert_non_null(strstr(a.body, "\"ReplicaPlacement\":{\"node\":1}"));
    rig_answer_free(&a);
}

/* What was answered is there after a clean stop, and nothing had to be repaired. */
static void test_restart(void **state)
{
    (void)state;
    expect("PUT", "/3,0a00000001", TEXT, "kept", 201, NULL);
    stop_server();
    start_server();
    expect("GET", "/3,0a00000001", "", NULL, 200, "kept");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_get_delete),
        cmocka_unit_test(test_bad_requests),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_conditions_and_ranges),
        cmocka_unit_test(test_gzip),
        cmocka_unit_test(test_bomb),
        cmocka_unit_test(test_form),
        cmocka_unit_test(test_pairs_named_like_headers),
        cmocka_unit_test(test_replicated_without_sisters),
        cmocka_unit_test(test_batch),
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_restart),
    };
    rand_init();
    return cmocka_run_group_tests(tests, setup, teardown);
}
