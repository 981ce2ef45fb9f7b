/* multipart/form-data: which part is the file, framing in any pieces, pauses, bounds. */
#include <stdlib.h>
#include <string.h>
#include "tests/unit/net/unit.h"

#include "needle/err.h"
#include "net/multipart.h"

/* What a consumer collects. */
struct sink {
    char data[65536];
    size_t n;
    char name[600], filename[600], type[200], md5[64];
    bool has_filename, has_type, gzip;
    uint32_t headers, parts;
    uint32_t pause_every; /* takes at most this many bytes, then says DFS_EAGAIN; 0 = never */
    int refuse;
};

static void copy_text(char *out, size_t cap, struct bytes in)
{
    assert_true(in.n < cap);
    if (in.n > 0)
        memcpy(out, in.p, in.n);
    out[in.n] = '\0';
}

static int on_part(void *arg, const struct multipart_part *part)
{
    struct sink *s = arg;
    s->n = 0;
    s->parts++;
    copy_text(s->name, sizeof s->name, part->name);
    copy_text(s->filename, sizeof s->filename, part->filename);
    copy_text(s->type, sizeof s->type, part->content_type);
    copy_text(s->md5, sizeof s->md5, part->content_md5);
    s->has_filename = part->filename.p != NULL;
    s->has_type = part->content_type.p != NULL;
    s->gzip = part->gzip;
    s->headers = part->header_count;
    return s->refuse;
}

static int on_data(void *arg, struct bytes data, size_t *taken)
{
    struct sink *s = arg;
    size_t n = data.n;
    assert_true(n > 0);
    bool pause = s->pause_every != 0 && n >= s->pause_every;
    if (pause)
        n = s->pause_every;
    assert_true(s->n + n <= sizeof s->data);
    memcpy(s->data + s->n, data.p, n);
    s->n += n;
    *taken = n;
    return pause ? DFS_EAGAIN : 0;
}

static const struct multipart_ops ops = {on_part, on_data};

/* As uploads do: data that is where it belongs is not fed. */
static size_t keep_plain(const struct multipart *m, struct bytes in, struct sink *s)
{
    size_t n = multipart_plain(m, in);

    assert_true(n <= in.n);
    assert_true(n == 0 || multipart_in_data(m));
    assert_true(s->n + n <= sizeof s->data);
    memcpy(s->data + s->n, in.p, n);
    s->n += n;
    return n;
}

/* Feeds the body in pieces of at most `piece` bytes, each in memory of its own so that a sanitizer sees reads beyond it. */
static int run_with(bool plain, const char *boundary, struct bytes body, size_t piece, uint32_t pause_every, struct sink *s)
{
    struct multipart *m;
    int rc = multipart_new(bytes_str(boundary), &ops, s, &m);
    uint32_t pauses = 0;
    s->pause_every = pause_every;
    if (rc != 0)
        return rc;
    for (size_t at = 0; at < body.n && rc == 0;) {
        size_t n = body.n - at < piece ? body.n - at : piece, used = 0;
        char *copy = malloc(n);
        assert_non_null(copy);
        memcpy(copy, body.p + at, n);
        size_t kept = plain ? keep_plain(m, bytes_of(copy, n), s) : 0;
        rc = multipart_feed(m, bytes_of(copy + kept, n - kept), &used);
        used += kept;
        free(copy);
        assert_true(used <= n);
        if (rc == 0)
            assert_int_equal(used, n);
        if (rc == DFS_EAGAIN) {
            assert_true(++pauses < 1000000);
            rc = 0;
        }
        at += used;
    }
    if (rc == 0)
        rc = multipart_end(m);
    multipart_free(m);
    return rc;
}

/* Both ways: they come to the same. */
static int run(const char *boundary, struct bytes body, size_t piece, uint32_t pause_every, struct sink *s)
{
    static struct sink other;
    int rc;

    memset(&other, 0, sizeof other);
    other.refuse = s->refuse;
    other.parts = s->parts;
    rc = run_with(true, boundary, body, piece, pause_every, &other);
    assert_int_equal(run_with(false, boundary, body, piece, pause_every, s), rc);
    if (rc == 0) {
        assert_int_equal(other.n, s->n);
        assert_memory_equal(other.data, s->data, s->n);
        assert_int_equal(other.parts, s->parts);
    }
    return rc;
}

static struct sink *one(const char *body, int want)
{
    static struct sink s;
    for (size_t piece = 1; piece < 12; piece++)
        for (uint32_t pause = 0; pause < 3; pause++) {
            memset(&s, 0, sizeof s);
            int rc = run("B", bytes_str(body), piece, pause, &s);
            if (rc != want)
                fail_msg("rc %d for pieces of %zu: %s", rc, piece, body);
        }
    memset(&s, 0, sizeof s);
    assert_int_equal(run("B", bytes_str(body), 65536, 0, &s), want);
    return &s;
}

static void test_plain(void **state)
{
    (void)state;
    struct sink *s = one("--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n"
                         "Content-MD5: abc==\r\n\r\nhello world\r\n--B--\r\n", 0);
    assert_bytes(bytes_of(s->data, s->n), "hello world");
    assert_string_equal(s->name, "file");
    assert_string_equal(s->filename, "a.txt");
    assert_string_equal(s->type, "text/plain");
    assert_string_equal(s->md5, "abc==");
    assert_int_equal(s->headers, 3);
    assert_int_equal(s->parts, 1);
    assert_false(s->gzip);
}

static void test_forms(void **state)
{
    (void)state;
    static const struct {
        const char *body, *data, *filename;
    } row[] = {
        /* no headers at all; empty data; empty data whose delimiter is the blank line's */
        {"--B\r\n\r\nx\r\n--B--", "x", NULL},
        {"--B\r\n\r\n\r\n--B--\r\n", "", NULL},
        {"--B\r\n\r\n--B--\r\n", "", NULL},
        /* preamble and epilogue, padding behind the boundary */
        {"junk\r\n--B  \t\r\n\r\nx\r\n--B--\r\nepilogue\r\n--B\r\n", "x", NULL},
        /* what only looks like a delimiter is data */
        {"--B\r\n\r\na\r\n--Bx\r\n--B--", "a\r\n--Bx", NULL},
        {"--B\r\n\r\n--Bx\r\n--B--", "--Bx", NULL},
        {"--B\r\n\r\na\r\n--B-x\r\n--B--", "a\r\n--B-x", NULL},
        {"--B\r\n\r\na\r\n--B \r\r\n--B--", "a\r\n--B \r", NULL},
        {"--B\r\n\r\n\r\n--\r\n--B--", "\r\n--", NULL},
        {"--B\r\n\r\n\r\r\n--B--", "\r", NULL},
        {"--B\r\n\r\n\r\n\r\n--B--", "\r\n", NULL},
        {"--B\r\n\r\n-\r\n--B--", "-", NULL},
        {"--B\r\n\r\n--\r\n--B--", "--", NULL},
        {"--B\r\n\r\na\n--B\n\r\n--B--", "a\n--B\n", NULL},
        /* bare LF throughout */
        {"--B\nContent-Disposition: form-data; filename=f\n\na\r\nb\n--B--\n", "a\r\nb", "f"},
        {"--B\n\n--B--\n", "", NULL},
        /* folded header line; any case; part length ignored */
        {"--B\r\ncontent-DISPOSITION: form-data;\r\n  filename=\"x.txt\"\r\nContent-Length: 99\r\n\r\nx\r\n--B--", "x", "x.txt"},
        {"--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"../../dir/sub/x.bin\"\r\n\r\np\r\n--B--", "p", "x.bin"},
        {"--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"C:\\Users\\Public\\Tulips.jpg\"\r\n\r\np\r\n--B--", "p", "Tulips.jpg"},
        {"--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"\"\r\n\r\np\r\n--B--", "p", NULL},
        {"--B\r\nContent-Disposition: form-data; filename*=utf-8''%E4%B8%96.txt\r\n\r\np\r\n--B--", "p", "\xe4\xb8\x96.txt"},
        /* the first named part replaces an unnamed one; later ones are skipped */
        {"--B\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\nfield\r\n--B\r\nContent-Disposition: form-data; name=\"file\"; "
         "filename=\"second.bin\"\r\n\r\nSECOND\r\n--B--\r\n", "SECOND", "second.bin"},
        {"--B\r\nContent-Disposition: form-data; filename=a\r\n\r\none\r\n--B\r\nContent-Disposition: form-data; filename=b\r\n\r\n"
         "two\r\n--B--", "one", "a"},
        {"--B\r\n\r\none\r\n--B\r\n\r\ntwo\r\n--B--", "one", NULL},
        {"--B\r\n\r\none\r\n--B\r\n\r\ntwo\r\n--B\r\nContent-Disposition: f; filename=c\r\n\r\nthree\r\n--B\r\n\r\nfour\r\n--B--",
         "three", "c"},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct sink *s = one(row[i].body, 0);
        assert_bytes(bytes_of(s->data, s->n), row[i].data);
        assert_string_equal(s->filename, row[i].filename != NULL ? row[i].filename : "");
        assert_int_equal(s->has_filename, row[i].filename != NULL);
    }
}

static void test_part_headers(void **state)
{
    (void)state;
    struct sink *s = one("--B\r\nContent-Encoding: GZIP\r\nSeaweed-Color:red \r\nContent-Type:\r\n\r\nx\r\n--B--", 0);
    assert_true(s->gzip);
    assert_int_equal(s->headers, 3);
    assert_false(s->has_type);
    s = one("--B\r\nContent-Type: image/jpeg\r\nContent-Encoding: gzip, br\r\n\r\nx\r\n--B--", 0);
    assert_false(s->gzip);
    assert_string_equal(s->type, "image/jpeg");
}

static void test_broken(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "x",
        "--B--\r\n",
        "--B\r\n\r\ndata",
        "--B\r\n\r\ndata\r\n--B",
        "--B\r\n\r\ndata\r\n--B-",
        "--B\r\n\r\ndata\r\n--B\r\n",
        "--B\r\nContent-Disposition: form-data",
        "--B\r\nno colon\r\n\r\nx\r\n--B--",
        "--B\r\n: v\r\n\r\nx\r\n--B--",
        "--B\r\nName : v\r\n\r\nx\r\n--B--",
        "--B\r\n folded: v\r\n\r\nx\r\n--B--",
        "--B\r\nA: b\rc\r\n\r\nx\r\n--B--",
        "--C\r\n\r\nx\r\n--C--\r\n",
        "--B\r\n\r\na\n--B--\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        one(bad[i], DFS_EPROTO);
    static const char nul[] = "--B\r\nA: b\0c\r\n\r\nx\r\n--B--";
    static struct sink s;
    assert_int_equal(run("B", bytes_of(nul, sizeof nul - 1), 7, 0, &s), DFS_EPROTO);
}

static void test_boundary(void **state)
{
    (void)state;
    static struct sink s;
    char b[MULTIPART_BOUNDARY_MAX + 2], body[1024];
    memset(b, 'b', sizeof b);
    b[MULTIPART_BOUNDARY_MAX + 1] = '\0';
    assert_int_equal(run(b, BYTES_LIT("x"), 9, 0, &s), DFS_EINVAL);
    b[MULTIPART_BOUNDARY_MAX] = '\0';
    snprintf(body, sizeof body, "--%s\r\n\r\nabc\r\n--%s--\r\n", b, b);
    for (size_t piece = 1; piece < 40; piece++) {
        memset(&s, 0, sizeof s);
        assert_int_equal(run(b, bytes_str(body), piece, 0, &s), 0);
        assert_bytes(bytes_of(s.data, s.n), "abc");
    }
    assert_int_equal(run("", BYTES_LIT("x"), 9, 0, &s), DFS_EINVAL);
    assert_int_equal(run("a\r\nb", BYTES_LIT("x"), 9, 0, &s), DFS_EINVAL);
}

static void test_bounds(void **state)
{
    (void)state;
    static struct sink s;
    static char body[4 * MULTIPART_PART_HEAD_MAX];
    size_t n = (size_t)sprintf(body, "--B\r\nX-Long: ");
    memset(body + n, 'h', sizeof body - n);
    assert_int_equal(run("B", bytes_of(body, sizeof body), 1000, 0, &s), DFS_ETOOBIG);
    /* A head that just fits. */
    size_t head = n - 5;
    memset(body + n, 'h', MULTIPART_PART_HEAD_MAX - head - 4);
    n += MULTIPART_PART_HEAD_MAX - head - 4;
    n += (size_t)sprintf(body + n, "\r\n\r\nx\r\n--B--");
    memset(&s, 0, sizeof s);
    assert_int_equal(run("B", bytes_of(body, n), 1000, 0, &s), 0);
    assert_bytes(bytes_of(s.data, s.n), "x");
    /* Headers and parts are counted. */
    n = (size_t)sprintf(body, "--B\r\n");
    for (int i = 0; i < 65; i++)
        n += (size_t)sprintf(body + n, "a:b\r\n");
    n += (size_t)sprintf(body + n, "\r\nx\r\n--B--");
    assert_int_equal(run("B", bytes_of(body, n), 1000, 0, &s), DFS_ETOOBIG);
    n = 0;
    for (unsigned i = 0; i <= MULTIPART_PARTS_MAX; i++)
        n += (size_t)sprintf(body + n, "%s--B\r\n\r\nx", i > 0 ? "\r\n" : "");
    n += (size_t)sprintf(body + n, "\r\n--B--");
    assert_int_equal(run("B", bytes_of(body, n), 1000, 0, &s), DFS_ETOOBIG);
    /* Endless padding behind a boundary. */
    n = (size_t)sprintf(body, "--B%100s\r\n\r\nx\r\n--B--", "");
    assert_int_equal(run("B", bytes_of(body, n), 1000, 0, &s), DFS_EPROTO);
}

static void test_refused_part(void **state)
{
    (void)state;
    static struct sink s;
    memset(&s, 0, sizeof s);
    s.refuse = DFS_ETOOBIG;
    assert_int_equal(run("B", BYTES_LIT("--B\r\n\r\nx\r\n--B--"), 3, 0, &s), DFS_ETOOBIG);
    assert_int_equal(s.n, 0);
}

static uint32_t next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 16;
}

/* Random data out of the delimiter's own bytes, in random pieces with random pauses: always what was put in. */
static void test_random(void **state)
{
    (void)state;
    static struct sink s;
    static char body[4096];
    uint32_t seed = 12345;
    for (int round = 0; round < 20000; round++) {
        char data[600];
        bool large = round % 8 == 0; /* enough for the search that looks at many places together */
        size_t dn = next(&seed) % (large ? sizeof data : 64);
        for (size_t i = 0; i < dn; i++)
            data[i] = "\r\n--Bx \r"[next(&seed) % 8];
        /* Leave out what really is a delimiter. */
        if (memmem(data, dn, "--B", 3) != NULL)
            continue;
        size_t n = (size_t)sprintf(body, "--B\r\nContent-Disposition: form-data; filename=f\r\n\r\n");
        memcpy(body + n, data, dn);
        n += dn;
        n += (size_t)sprintf(body + n, "\r\n--B\r\n\r\nother\r\n--B--\r\n");
        size_t piece = 1 + next(&seed) % (large ? 500 : 17);
        uint32_t pause = next(&seed) % 4;
        s.n = 0;
        assert_int_equal(run("B", bytes_of(body, n), piece, pause, &s), 0);
        assert_int_equal(s.n, dn);
        assert_memory_equal(s.data, data, dn);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),    cmocka_unit_test(test_forms),  cmocka_unit_test(test_part_headers),
        cmocka_unit_test(test_broken),   cmocka_unit_test(test_boundary), cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_refused_part), cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
