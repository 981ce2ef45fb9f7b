/* Any bytes as a chunked body: in one piece and in pieces it comes to the same data, the same end, the same verdict. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/http_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct result {
    int rc;
    size_t used, body_n;
    char *body;
};

static void feed_in_steps(struct bytes in, size_t step, struct result *r)
{
    struct http_chunked c;
    http_chunked_init(&c);
    r->rc = 0;
    r->used = r->body_n = 0;
    r->body = malloc(in.n + 1);
    while (r->used < in.n && r->rc == 0) {
        size_t n = in.n - r->used < step ? in.n - r->used : step, consumed = 0;
        struct bytes run;
        r->rc = http_chunked_feed(&c, bytes_of(in.p + r->used, n), &run, &consumed);
        if (r->rc < 0)
            break;
        CHECK(consumed <= n && (consumed > 0 || r->rc == 1));
        CHECK(run.n == 0 || (run.p >= in.p + r->used && run.p + run.n <= in.p + r->used + consumed));
        memcpy(r->body + r->body_n, run.n > 0 ? run.p : "", run.n);
        r->body_n += run.n;
        r->used += consumed;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes in = bytes_of(data, size);
    struct result whole, one, some;
    feed_in_steps(in, SIZE_MAX, &whole);
    feed_in_steps(in, 1, &one);
    feed_in_steps(in, 1 + size % 17, &some);
    CHECK(whole.rc == one.rc && whole.rc == some.rc);
    if (whole.rc >= 0) {
        CHECK(whole.used == one.used && whole.used == some.used);
        CHECK(whole.body_n == one.body_n && whole.body_n == some.body_n);
        CHECK(memcmp(whole.body, one.body, one.body_n) == 0 && memcmp(whole.body, some.body, some.body_n) == 0);
    }
    free(whole.body);
    free(one.body);
    free(some.body);
    return 0;
}
