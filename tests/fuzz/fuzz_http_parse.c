/* Any bytes as a request head and as a response head: no view leaves the input, what is taken obeys the rules that the handlers
 * rely on, and bytes that come in pieces are judged as in one. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/http_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool inside(struct bytes view, struct bytes in)
{
    return view.n == 0 || (view.p >= in.p && view.p + view.n <= in.p + in.n);
}

static void check_head(const struct http_head *h, struct bytes in)
{
    CHECK(h->head_bytes >= 4 && h->head_bytes <= in.n && h->head_bytes <= HTTP_HEAD_MAX);
    CHECK(memcmp(in.p + h->head_bytes - 4, "\r\n\r\n", 4) == 0 || h->header_count == 0);
    CHECK(h->minor == 0 || h->minor == 1);
    CHECK(!(h->chunked && h->has_length));
    CHECK(h->header_count <= HTTP_HEADERS_MAX);
    CHECK(!h->has_length || h->content_length <= INT64_MAX);
    for (uint32_t i = 0; i < h->header_count; i++) {
        CHECK(inside(h->headers[i].name, in) && inside(h->headers[i].value, in));
        CHECK(http_is_token(h->headers[i].name) && http_is_value(h->headers[i].value));
    }
    (void)http_list_has(http_header_get(h, "Accept-Encoding"), "gzip");
}

static void check_request(const struct http_head *h, struct bytes in)
{
    check_head(h, in);
    CHECK(inside(h->target, in) && inside(h->query, in));
    CHECK(h->path.n > 0 && (h->path.p[0] == '/' || (h->path.n == 1 && h->path.p[0] == '*')));
    CHECK(h->path.n + h->query.n <= h->target.n + 1);
    CHECK(memchr(h->path.p, '\0', h->path.n) == NULL && memchr(h->path.p, '?', h->path.n) == NULL);
    CHECK(h->minor == 0 || http_header_get(h, "host").p != NULL);
}

/* In steps, each in memory of its exact size. */
static int parse_in_steps(struct bytes in, size_t step, struct http_head *h, int *status)
{
    size_t scanned = 0;
    int rc = DFS_ESHORT;
    for (size_t n = step; rc == DFS_ESHORT; n += step) {
        size_t have = n < in.n ? n : in.n;
        char *copy = malloc(have > 0 ? have : 1);
        memcpy(copy, in.p, have);
        rc = http_parse_request(bytes_of(copy, have), &scanned, h, status);
        CHECK(scanned <= have);
        free(copy);
        if (have == in.n)
            break;
    }
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct http_head whole, pieces;
    struct bytes in = bytes_of(data, size);
    if (size == 0)
        return 0;
    size_t scanned = 0, sum = 0;
    int status = 0, other_status = 0;
    for (size_t i = 0; i < size; i++)
        sum += data[i];

    int rc = http_parse_request(in, &scanned, &whole, &status);
    if (rc == 0)
        check_request(&whole, in);
    else
        CHECK(rc == DFS_ESHORT || (status >= 400 && status <= 505));

    size_t step = 1 + sum % 23 + (size > 4096 ? size / 64 : 0);
    int stepped = parse_in_steps(in, step, &pieces, &other_status);
    /* Which of several faults is met first may differ, and in pieces it may be met earlier. */
    CHECK((rc == 0) == (stepped == 0));
    CHECK(rc == DFS_ESHORT ? stepped == DFS_ESHORT || other_status >= 400 : true);
    if (rc == 0) {
        CHECK(pieces.head_bytes == whole.head_bytes && pieces.header_count == whole.header_count);
        CHECK(pieces.method == whole.method && pieces.content_length == whole.content_length);
        CHECK(pieces.chunked == whole.chunked && pieces.keep_alive == whole.keep_alive);
    }

    scanned = 0;
    rc = http_parse_response(in, &scanned, &whole);
    CHECK(rc == 0 || rc == DFS_ESHORT || rc == DFS_EPROTO);
    if (rc == 0) {
        CHECK(whole.status >= 100 && whole.status <= 999);
        check_head(&whole, in);
    }
    return 0;
}
