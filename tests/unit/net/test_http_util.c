/* Percent decoding, parameters, dates, media types, ranges, entity tags, names in headers. */
#include <stdlib.h>
#include "tests/unit/net/unit.h"

#include "needle/err.h"
#include "net/http_util.h"

static void test_percent_decode(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
        bool plus;
        int rc;
    } row[] = {
        {"", "", false, 0},
        {"abc", "abc", false, 0},
        {"a%20b", "a b", false, 0},
        {"a+b", "a+b", false, 0},
        {"a+b", "a b", true, 0},
        {"%41%6a%4A", "AjJ", false, 0},
        {"%", NULL, false, DFS_EINVAL},
        {"%4", NULL, false, DFS_EINVAL},
        {"%4g", NULL, false, DFS_EINVAL},
        {"%%41", NULL, false, DFS_EINVAL},
        {"x%00", NULL, false, DFS_EINVAL},
        {"%25%32%35", "%25", false, 0},
        {"%ff", "\xff", false, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        char out[64];
        size_t n = 99;
        int rc = http_percent_decode(bytes_str(row[i].in), row[i].plus, out, &n);
        assert_int_equal(rc, row[i].rc);
        if (rc == 0)
            assert_bytes(bytes_of(out, n), row[i].out);
        else
            assert_int_equal(n, 99);
    }
    char raw[3] = {'a', '\0', 'b'}, out[3];
    size_t n;
    assert_int_equal(http_percent_decode(bytes_of(raw, 3), false, out, &n), DFS_EINVAL);
}

static void test_params(void **state)
{
    (void)state;
    struct http_params p;
    uint64_t v = 7;
    http_params_init(&p);
    assert_int_equal(http_params_parse(&p, bytes_str("")), 0);
    assert_int_equal(p.count, 0);
    assert_int_equal(http_params_parse(&p, bytes_str("a=1&b=%32+x&&flag&e=&a=9&=z&q=a=b")), 0);
    struct bytes first = http_params_get(&p, "a");
    assert_bytes(first, "1");
    assert_bytes(http_params_get(&p, "b"), "2 x");
    assert_bytes(http_params_get(&p, "flag"), "");
    assert_non_null(http_params_get(&p, "flag").p);
    assert_bytes(http_params_get(&p, "q"), "a=b");
    assert_null(http_params_get(&p, "nope").p);
    assert_int_equal(http_params_get(&p, "b").p[3], '\0');

    /* A form body adds to the query; views of the query stay. */
    assert_int_equal(http_params_parse(&p, bytes_str("count=12&a=form")), 0);
    assert_ptr_equal(http_params_get(&p, "a").p, first.p);
    assert_bytes(first, "1");
    assert_int_equal(http_params_u64(&p, "count", 1, &v), 0);
    assert_int_equal(v, 12);
    assert_int_equal(http_params_u64(&p, "none", 5, &v), 0);
    assert_int_equal(v, 5);
    assert_int_equal(http_params_u64(&p, "e", 6, &v), 0);
    assert_int_equal(v, 6);
    assert_int_equal(http_params_u64(&p, "b", 6, &v), DFS_EINVAL);
    assert_int_equal(v, 6);

    /* Nothing is added when a text is bad. */
    uint32_t count = p.count;
    assert_int_equal(http_params_parse(&p, bytes_str("ok=1&bad=%zz")), DFS_EINVAL);
    assert_int_equal(p.count, count);
    assert_null(http_params_get(&p, "ok").p);
    http_params_release(&p);
    http_params_release(&p);
    assert_int_equal(p.count, 0);
}

static void test_params_bounds(void **state)
{
    (void)state;
    struct http_params p;
    char text[4 * HTTP_PARAMS_MAX + 8] = "";
    http_params_init(&p);
    for (unsigned i = 0; i < HTTP_PARAMS_MAX; i++)
        strcat(text, i == 0 ? "x" : "&x");
    assert_int_equal(http_params_parse(&p, bytes_str(text)), 0);
    assert_int_equal(p.count, HTTP_PARAMS_MAX);
    assert_int_equal(http_params_parse(&p, bytes_str("y")), DFS_ETOOBIG);
    assert_int_equal(http_params_parse(&p, bytes_str("&&&")), 0);
    http_params_release(&p);
    strcat(text, "&x");
    assert_int_equal(http_params_parse(&p, bytes_str(text)), DFS_ETOOBIG);
    assert_int_equal(p.count, 0);
    http_params_release(&p);
}

static void test_params_bool_u64(void **state)
{
    (void)state;
    struct http_params p;
    uint64_t v = 0;
    http_params_init(&p);
    assert_int_equal(http_params_parse(&p, bytes_str("a=1&b=True&c=0&d=False&e=&f=yes&g=t&h=F&max=18446744073709551615&"
                                                     "over=18446744073709551616&neg=-1&sp=+1&hex=0x1")), 0);
    assert_true(http_params_bool(&p, "a", false));
    assert_true(http_params_bool(&p, "b", false));
    assert_false(http_params_bool(&p, "c", true));
    assert_false(http_params_bool(&p, "d", true));
    assert_true(http_params_bool(&p, "e", true));
    assert_false(http_params_bool(&p, "e", false));
    assert_true(http_params_bool(&p, "f", true));
    assert_true(http_params_bool(&p, "g", false));
    assert_false(http_params_bool(&p, "h", true));
    assert_true(http_params_bool(&p, "none", true));
    assert_int_equal(http_params_u64(&p, "max", 0, &v), 0);
    assert_true(v == UINT64_MAX);
    assert_int_equal(http_params_u64(&p, "over", 0, &v), DFS_EINVAL);
    assert_int_equal(http_params_u64(&p, "neg", 0, &v), DFS_EINVAL);
    assert_int_equal(http_params_u64(&p, "sp", 0, &v), DFS_EINVAL);
    assert_int_equal(http_params_u64(&p, "hex", 0, &v), DFS_EINVAL);
    http_params_release(&p);
}

static void test_date(void **state)
{
    (void)state;
    static const struct {
        uint64_t s;
        const char *text;
    } row[] = {
        {0, "Thu, 01 Jan 1970 00:00:00 GMT"},
        {784111777, "Sun, 06 Nov 1994 08:49:37 GMT"},
        {951782399, "Mon, 28 Feb 2000 23:59:59 GMT"},
        {951782400, "Tue, 29 Feb 2000 00:00:00 GMT"},
        {1500000000, "Fri, 14 Jul 2017 02:40:00 GMT"},
        {4107542400, "Mon, 01 Mar 2100 00:00:00 GMT"},
        {253402300799, "Fri, 31 Dec 9999 23:59:59 GMT"},
    };
    char out[HTTP_DATE_BYTES + 1];
    uint64_t s;
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        http_date_format(row[i].s, out);
        assert_string_equal(out, row[i].text);
        assert_int_equal(http_date_parse(bytes_str(out), &s), 0);
        assert_true(s == row[i].s);
    }
    http_date_format(UINT64_MAX, out);
    assert_string_equal(out, "Fri, 31 Dec 9999 23:59:59 GMT");
    /* Every day of 400 years keeps its number. */
    for (uint64_t d = 0; d < 146097; d++) {
        http_date_format(d * 86400 + d % 86400, out);
        assert_int_equal(http_date_parse(bytes_str(out), &s), 0);
        assert_true(s == d * 86400 + d % 86400);
    }
}

static void test_date_forms(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int rc;
        uint64_t s;
    } row[] = {
        {"Sunday, 06-Nov-94 08:49:37 GMT", 0, 784111777},
        {"Sun Nov  6 08:49:37 1994", 0, 784111777},
        {"Wed Nov 16 08:49:37 1994", 0, 784975777},
        {"Friday, 01-Jan-27 00:00:00 GMT", 0, 1798761600},
        {" Sun, 06 Nov 1994 08:49:37 GMT ", 0, 784111777},
        {"Sat, 31 Dec 2016 23:59:60 GMT", 0, 1483228800},
        {"", DFS_EINVAL, 0},
        {"Sun", DFS_EINVAL, 0},
        {"Sun, ", DFS_EINVAL, 0},
        {"0", DFS_EINVAL, 0},
        {"Sun, 06 Nov 1994 08:49:37", DFS_EINVAL, 0},
        {"Sun, 06 Nov 1994 08:49:37 GMT+1", DFS_EINVAL, 0},
        {"Sun, 06 Nov 1994 24:00:00 GMT", DFS_EINVAL, 0},
        {"Sun, 31 Nov 1994 08:49:37 GMT", DFS_EINVAL, 0},
        {"Wed, 29 Feb 2100 08:49:37 GMT", DFS_EINVAL, 0},
        {"Sun, 00 Nov 1994 08:49:37 GMT", DFS_EINVAL, 0},
        {"Sun, 06 Nov 1969 08:49:37 GMT", DFS_EINVAL, 0},
        {"Sun, 6 Nov 1994 08:49:37 GMT", DFS_EINVAL, 0},
        {"Mon, 30 nov 2015 00:00:00 GMT", DFS_EINVAL, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        uint64_t s = 42;
        assert_int_equal(http_date_parse(bytes_str(row[i].text), &s), row[i].rc);
        assert_true(s == (row[i].rc == 0 ? row[i].s : 42));
    }
}

static void test_mime_by_ext(void **state)
{
    (void)state;
    assert_bytes(http_mime_by_ext(bytes_str(".jpg")), "image/jpeg");
    assert_bytes(http_mime_by_ext(bytes_str(".JPG")), "image/jpeg");
    assert_bytes(http_mime_by_ext(bytes_str(".m3u8")), "application/vnd.apple.mpegurl");
    assert_bytes(http_mime_by_ext(bytes_str(".ts")), "video/mp2t");
    assert_bytes(http_mime_by_ext(bytes_str(".txt")), "text/plain; charset=utf-8");
    assert_bytes(http_mime_by_ext(bytes_str(".bin")), "application/octet-stream");
    /* The ends of the table, and a row that is the front of another. */
    assert_bytes(http_mime_by_ext(bytes_str(".3gp")), "video/3gpp");
    assert_bytes(http_mime_by_ext(bytes_str(".zst")), "application/zstd");
    assert_bytes(http_mime_by_ext(bytes_str(".js")), "text/javascript; charset=utf-8");
    assert_bytes(http_mime_by_ext(bytes_str(".json")), "application/json");
    assert_bytes(http_mime_by_ext(bytes_str(".webmanifest")), "application/manifest+json");
    static const char *const all[] = {".aac", ".avif", ".bmp", ".c", ".css", ".csv", ".docx", ".gif", ".gz", ".h", ".htm", ".html",
                                      ".ico", ".jar", ".jpeg", ".m4s", ".md", ".mjs", ".mkv", ".mov", ".mp3", ".mp4", ".mpd",
                                      ".ogg", ".pdf", ".png", ".py", ".rar", ".svg", ".tar", ".tgz", ".tiff", ".vtt", ".wasm",
                                      ".wav", ".webm", ".webp", ".woff2", ".xlsx", ".xml", ".yaml", ".zip"};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        assert_non_null(http_mime_by_ext(bytes_str(all[i])).p);
    assert_null(http_mime_by_ext(bytes_str("")).p);
    assert_null(http_mime_by_ext(bytes_str(".")).p);
    assert_null(http_mime_by_ext(bytes_str(".nosuch")).p);
    assert_null(http_mime_by_ext(bytes_str("txt")).p);
    assert_null(http_mime_by_ext(bytes_str(".aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")).p);
}

static void test_names(void **state)
{
    (void)state;
    assert_bytes(http_name_ext(bytes_str("a.tar.gz")), ".gz");
    assert_bytes(http_name_ext(bytes_str(".txt")), ".txt");
    assert_bytes(http_name_ext(bytes_str("a")), "");
    assert_bytes(http_name_ext(bytes_str("a.")), "");
    assert_bytes(http_name_ext(bytes_str("d.x/a")), "");
    assert_bytes(http_name_ext(bytes_str("")), "");
    assert_bytes(http_name_last(bytes_str("../../dir/sub/x.bin")), "x.bin");
    assert_bytes(http_name_last(bytes_str("C:\\Users\\Public\\Tulips.jpg")), "Tulips.jpg");
    assert_bytes(http_name_last(bytes_str("plain")), "plain");
    assert_bytes(http_name_last(bytes_str("up/dir//")), "dir");
    assert_null(http_name_last(bytes_str("//")).p);
    assert_null(http_name_last(bytes_str("a/..")).p);
    assert_null(http_name_last(bytes_str(".")).p);
    assert_null(http_name_last(bytes_str("")).p);

    assert_true(name_is_safe(bytes_str("")));
    assert_true(name_is_safe(bytes_str("photos_2026-x.y")));
    assert_true(name_is_safe(bytes_str("...")));
    assert_false(name_is_safe(bytes_str(".")));
    assert_false(name_is_safe(bytes_str("..")));
    assert_false(name_is_safe(bytes_str("a/b")));
    assert_false(name_is_safe(bytes_str("a b")));
    assert_false(name_is_safe(bytes_str("\xc3\xa9")));
    assert_false(name_is_safe(bytes_of("a\0b", 3)));
    char longest[201];
    memset(longest, 'x', sizeof longest);
    assert_true(name_is_safe(bytes_of(longest, 200)));
    assert_false(name_is_safe(bytes_of(longest, 201)));
}

static void test_sniff(void **state)
{
    (void)state;
    static const struct {
        const char *in;
        size_t n;
        const char *type;
    } row[] = {
        {"", 0, "text/plain; charset=utf-8"},
        {"hello", 5, "text/plain; charset=utf-8"},
        {"  <!doctype html><p>", 20, "text/html; charset=utf-8"},
        {"<html>", 6, "text/html; charset=utf-8"},
        {"<aardvark>", 10, "text/plain; charset=utf-8"},
        {"<?xml version", 13, "text/xml; charset=utf-8"},
        {"%PDF-1.4", 8, "application/pdf"},
        {"\x89PNG\r\n\x1a\n", 8, "image/png"},
        {"\xff\xd8\xff\xe0", 4, "image/jpeg"},
        {"GIF89a", 6, "image/gif"},
        {"RIFF\0\0\0\0WEBPVP8 ", 16, "image/webp"},
        {"\x1f\x8b\x08", 3, "application/x-gzip"},
        {"PK\x03\x04", 4, "application/zip"},
        {"\0\0\0\x18" "ftypmp42", 12, "video/mp4"},
        {"a\0b", 3, "application/octet-stream"},
        {"\0", 1, "application/octet-stream"},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        assert_bytes(http_mime_sniff(bytes_of(row[i].in, row[i].n)), row[i].type);
}

static void range_is(const char *value, uint64_t length, enum http_range_verdict want, const char *ranges)
{
    struct http_range r[HTTP_RANGES_MAX];
    uint32_t n = 77;
    char text[512] = "";
    enum http_range_verdict v = http_range_parse(bytes_str(value), length, r, &n);
    if (v != want)
        fail_msg("'%s' of %llu: verdict %d", value, (unsigned long long)length, v);
    assert_true(v == HTTP_RANGE_OK || n == 0);
    for (uint32_t i = 0; i < n; i++)
        sprintf(text + strlen(text), "%s%llu+%llu", i ? "," : "", (unsigned long long)r[i].first, (unsigned long long)r[i].count);
    assert_string_equal(text, ranges);
}

static void test_range(void **state)
{
    (void)state;
    range_is("bytes=0-4", 24, HTTP_RANGE_OK, "0+5");
    range_is("bytes=-5", 24, HTTP_RANGE_OK, "19+5");
    range_is("bytes=20-", 24, HTTP_RANGE_OK, "20+4");
    range_is("bytes=0-1000", 24, HTTP_RANGE_OK, "0+24");
    range_is("bytes=-1000", 24, HTTP_RANGE_OK, "0+24");
    range_is("bytes=0-0,5-6", 24, HTTP_RANGE_OK, "0+1,5+2");
    range_is("bytes=0-0, ,5-6,", 24, HTTP_RANGE_OK, "0+1,5+2");
    range_is("Bytes= 1-2 ", 24, HTTP_RANGE_OK, "1+2");
    range_is("bytes=23-23", 24, HTTP_RANGE_OK, "23+1");
    range_is("bytes=0-99999999999999999999999", 24, HTTP_RANGE_OK, "0+24");
    range_is("bytes=-99999999999999999999999", 24, HTTP_RANGE_OK, "0+24");
    range_is("bytes=0-18446744073709551615", UINT64_MAX, HTTP_RANGE_OK, "0+18446744073709551615");
    /* Only what can be satisfied counts. */
    range_is("bytes=0-0,100-", 24, HTTP_RANGE_OK, "0+1");

    range_is("bytes=24-", 24, HTTP_RANGE_UNSATISFIABLE, "");
    range_is("bytes=100-", 24, HTTP_RANGE_UNSATISFIABLE, "");
    range_is("bytes=24-30,-0", 24, HTTP_RANGE_UNSATISFIABLE, "");
    range_is("bytes=-0", 24, HTTP_RANGE_UNSATISFIABLE, "");
    range_is("bytes=99999999999999999999999-", 24, HTTP_RANGE_UNSATISFIABLE, "");
    range_is("bytes=0-", 0, HTTP_RANGE_UNSATISFIABLE, "");
    range_is("bytes=-5", 0, HTTP_RANGE_NONE, "");

    static const char *const ignored[] = {"", "garbage", "bytes", "bytes=", "bytes=,", "bytes=a-b", "bytes=1", "bytes=-", "bytes=4-3",
                                          "bytes=0-1,x", "bytes=1-2-3", "bytes=0x1-2", "bytes=--1", "bytes= 0 - 1", "items=0-1",
                                          "bytes 0-4", "bytes=+1-2", "bytes=0-1;2-3"};
    for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
        range_is(ignored[i], 24, HTTP_RANGE_NONE, "");
    /* More than the whole, too many overlaps, too many. */
    range_is("bytes=0-9,3-12,0-23", 24, HTTP_RANGE_NONE, "");
    range_is("bytes=0-23,0-0", 24, HTTP_RANGE_NONE, "");
    range_is("bytes=0-1,0-1,0-1,0-1", 24, HTTP_RANGE_NONE, "");
    range_is("bytes=0-1,0-1", 24, HTTP_RANGE_OK, "0+2,0+2");
    range_is("bytes=0-0,2-2,4-4,6-6,8-8,10-10,12-12,14-14,16-16,18-18,20-20,22-22,24-24,26-26,28-28,30-30", 64, HTTP_RANGE_OK,
             "0+1,2+1,4+1,6+1,8+1,10+1,12+1,14+1,16+1,18+1,20+1,22+1,24+1,26+1,28+1,30+1");
    range_is("bytes=0-0,2-2,4-4,6-6,8-8,10-10,12-12,14-14,16-16,18-18,20-20,22-22,24-24,26-26,28-28,30-30,32-32", 64,
             HTTP_RANGE_NONE, "");
}

static void test_etag(void **state)
{
    (void)state;
    struct bytes e = BYTES_LIT("\"d3152e74\"");
    assert_true(http_etag_listed(bytes_str("\"d3152e74\""), e, true));
    assert_true(http_etag_listed(bytes_str("\"x\", \"d3152e74\""), e, true));
    assert_true(http_etag_listed(bytes_str("\"x,y\",W/\"d3152e74\""), e, true));
    assert_false(http_etag_listed(bytes_str("W/\"d3152e74\""), e, false));
    assert_true(http_etag_listed(bytes_str("W/\"d3152e74\", \"d3152e74\""), e, false));
    assert_true(http_etag_listed(bytes_str(" * "), e, false));
    assert_false(http_etag_listed(bytes_str("\"*\""), e, true));
    assert_false(http_etag_listed(bytes_str("d3152e74"), e, true));
    assert_false(http_etag_listed(bytes_str(""), e, true));
    assert_false(http_etag_listed(bytes_str("\"d3152e74"), e, true));
    assert_false(http_etag_listed(bytes_str("\"x\" , *"), e, true));
    assert_false(http_etag_listed(bytes_str("W/"), e, true));
    assert_false(http_etag_listed(bytes_str("\"D3152E74\""), e, true));
    assert_false(http_etag_listed(bytes_str("Mon, 30 Nov 2015 00:00:00 GMT"), e, true));
}

static void disposition_is(bool attachment, const char *name, const char *want)
{
    struct bytes n = bytes_str(name);
    char *out = malloc(3 * n.n + 64);
    assert_non_null(out);
    size_t len = http_disposition_format(attachment, n, out);
    assert_bytes(bytes_of(out, len), want);
    free(out);
}

static void test_disposition(void **state)
{
    (void)state;
    disposition_is(false, "a.txt", "inline; filename=a.txt");
    disposition_is(true, "a.txt", "attachment; filename=a.txt");
    disposition_is(false, "my name.txt", "inline; filename=\"my name.txt\"");
    disposition_is(false, "3,5b5f15121b", "inline; filename=\"3,5b5f15121b\"");
    disposition_is(false, "q\"uote.txt", "inline; filename=\"q\\\"uote.txt\"");
    disposition_is(false, "a b (1).txt", "inline; filename=\"a b (1).txt\"");
    disposition_is(false, "a%22b%0Ac.txt", "inline; filename=a%22b%0Ac.txt");
    disposition_is(false, "h\xc3\xa9llo \xe4\xb8\x96\xe7\x95\x8c.txt",
                   "inline; filename*=utf-8''h%C3%A9llo%20%E4%B8%96%E7%95%8C.txt");
    disposition_is(false, "\xf0\x9f\x93\xb7 a+b 100%.txt", "inline; filename*=utf-8''%F0%9F%93%B7%20a+b%20100%25.txt");
    disposition_is(false, "a\r\nX-Evil: 1", "inline; filename*=utf-8''a%0D%0AX-Evil%3A%201");
    disposition_is(false, "\x7f\t*'", "inline; filename*=utf-8''%7F%09%2A%27");
    disposition_is(false, "", "inline");
    /* The worst case of each form stays inside the promised room. */
    char worst[256];
    for (int c = 1; c < 256; c++) {
        memset(worst, c, 255);
        worst[255] = '\0';
        char out[3 * 255 + 64];
        assert_true(http_disposition_format(true, bytes_str(worst), out) <= sizeof out);
    }
}

static void name_of_is(const char *value, const char *want)
{
    struct bytes v = bytes_str(value);
    char *out = malloc(v.n + 1);
    assert_non_null(out);
    struct bytes got = http_disposition_name(v, out);
    if (want == NULL)
        assert_null(got.p);
    else
        assert_bytes(got, want);
    free(out);
}

static void test_disposition_name(void **state)
{
    (void)state;
    name_of_is("inline; filename=\"cd.txt\"", "cd.txt");
    name_of_is("form-data; name=\"f\"; filename=\"C:\\Users\\Public\\Tulips.jpg\"", "Tulips.jpg");
    name_of_is("form-data; name=\"f\"; filename=\"C:\\\\fakepath\\\\photo.png\"", "photo.png");
    name_of_is("form-data; filename=\"a\\\"b.txt\"", "a\"b.txt");
    name_of_is("form-data; filename=\"a%22b%0Ac.txt\"", "a%22b%0Ac.txt");
    name_of_is("form-data; filename=\"\"", NULL);
    name_of_is("form-data; filename=\"..\"", NULL);
    name_of_is("form-data; name=\"filename=x\"", NULL);
    name_of_is("form-data; filename=\"open", NULL);
    name_of_is("form-data", NULL);
    name_of_is("", NULL);
    name_of_is("attachment; filename=\"plain.txt\"; filename*=UTF-8''na%C3%AFve.txt", "na\xc3\xafve.txt");
    name_of_is("attachment; filename*=iso-8859-1'en'%A3%20rates", "\xc2\xa3 rates");
    name_of_is("attachment; filename*=koi8-r''x; filename=y", "y");
    name_of_is("attachment; filename*=utf-8''bad%zz; filename=y", "y");
    name_of_is("attachment; filename*=utf-8''a%2Fb", "b");
    name_of_is("attachment; filename*=utf-8''a%00b", NULL);
    name_of_is("attachment; filename*=iso-8859-1''%", NULL);
    name_of_is("attachment; filename*=utf-8", NULL);
}

static void test_value_param(void **state)
{
    (void)state;
    char out[128];
    size_t n = 0;
    assert_true(http_value_param(bytes_str("multipart/form-data; boundary=B"), "boundary", out, &n));
    assert_bytes(bytes_of(out, n), "B");
    assert_true(http_value_param(bytes_str("a/b;X=1;  Boundary = \"x;y\" ; z=2"), "boundary", out, &n));
    assert_bytes(bytes_of(out, n), "x;y");
    assert_true(http_value_param(bytes_str("a/b; flag; x=1"), "x", out, &n));
    assert_bytes(bytes_of(out, n), "1");
    assert_true(http_value_param(bytes_str("a; k=; x=1"), "k", out, &n));
    assert_int_equal(n, 0);
    assert_false(http_value_param(bytes_str("a/b; q=\"k=1; \"; z=2"), "k", out, &n));
    assert_true(http_value_param(bytes_str("a/b; q=\"k=1; \"; z=2"), "z", out, &n));
    assert_false(http_value_param(bytes_str("boundary=B"), "boundary", out, &n));
    assert_false(http_value_param(bytes_str(""), "k", out, &n));
    assert_false(http_value_param(bytes_str(";;;"), "k", out, &n));
    assert_false(http_value_param(bytes_str("a; k"), "k", out, &n));
    assert_false(http_value_param(bytes_str("a; k=\"x\\\""), "k", out, &n));
    assert_true(http_value_param(bytes_str("a; k=\"\""), "k", out, &n));
    assert_int_equal(n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percent_decode),   cmocka_unit_test(test_params),
        cmocka_unit_test(test_params_bounds),    cmocka_unit_test(test_params_bool_u64),
        cmocka_unit_test(test_date),             cmocka_unit_test(test_date_forms),
        cmocka_unit_test(test_mime_by_ext),      cmocka_unit_test(test_names),
        cmocka_unit_test(test_sniff),            cmocka_unit_test(test_range),
        cmocka_unit_test(test_etag),             cmocka_unit_test(test_disposition),
        cmocka_unit_test(test_disposition_name), cmocka_unit_test(test_value_param),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
