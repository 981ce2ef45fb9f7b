/* gRPC's own forms on top of HTTP/2: message prefix, percent-encoding, timeouts, status numbers. */
#include "net/grpc_wire.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>

#include "needle/err.h"

/* A stream that is quiet keeps no more than this of its last message's buffer. */
#define READER_KEEP_BYTES (16u * 1024u)
#define READER_FIRST_BYTES 1024u

void grpc_reader_init(struct grpc_reader *r, size_t message_bytes_max)
{
    *r = (struct grpc_reader){.message_bytes_max = message_bytes_max};
}

void grpc_reader_release(struct grpc_reader *r)
{
    free(r->buf);
    r->buf = NULL;
    r->n = r->cap = 0;
    r->prefix_n = 0;
    r->given = false;
}

bool grpc_reader_partial(const struct grpc_reader *r)
{
    return r->prefix_n > 0 && !r->given;
}

void grpc_prefix_put(uint8_t p[GRPC_PREFIX_BYTES], uint32_t message_bytes)
{
    p[0] = 0;
    be32_put(p + 1, message_bytes);
}

static void forget_given(struct grpc_reader *r)
{
    r->given = false;
    r->prefix_n = 0;
    r->n = 0;
    if (r->cap > READER_KEEP_BYTES) {
        free(r->buf);
        r->buf = NULL;
        r->cap = 0;
    }
}

static int read_prefix(struct grpc_reader *r, struct bytes *in)
{
    while (r->prefix_n < GRPC_PREFIX_BYTES) {
        if (in->n == 0)
            return DFS_ESHORT;
        r->prefix[r->prefix_n++] = (uint8_t)in->p[0];
        in->p++;
        in->n--;
    }
    if (r->prefix[0] == 1)
        return DFS_EUNSUPPORTED;
    if (r->prefix[0] != 0)
        return DFS_EPROTO;
    r->want = be32_get(r->prefix + 1);
    return r->want > r->message_bytes_max ? DFS_ETOOBIG : 0;
}

static int reserve(struct grpc_reader *r, size_t n)
{
    if (n <= r->cap)
        return 0;
    size_t cap = r->cap > 0 ? r->cap * 2 : READER_FIRST_BYTES;
    if (cap > r->want)
        cap = r->want;
    if (cap < n)
        cap = n;
    uint8_t *buf = realloc(r->buf, cap);
    if (buf == NULL)
        return DFS_ENOMEM;
    r->buf = buf;
    r->cap = cap;
    return 0;
}

static struct bytes take(struct bytes *in, size_t n)
{
    struct bytes taken = {in->p, n};
    in->p += n;
    in->n -= n;
    return taken;
}

int grpc_reader_next(struct grpc_reader *r, struct bytes *in, struct bytes *message)
{
    if (r->given)
        forget_given(r);
    if (r->prefix_n < GRPC_PREFIX_BYTES) {
        int rc = read_prefix(r, in);
        if (rc != 0)
            return rc;
    }
    if (r->n == 0 && in->n >= r->want) {
        *message = take(in, r->want);
        r->prefix_n = 0;
        return 0;
    }
    size_t missing = r->want - r->n;
    size_t n = in->n < missing ? in->n : missing;
    if (n > 0) {
        int rc = reserve(r, r->n + n);
        if (rc != 0)
            return rc;
        memcpy(r->buf + r->n, take(in, n).p, n);
        r->n += n;
    }
    if (r->n < r->want)
        return DFS_ESHORT;
    *message = bytes_of(r->buf, r->n);
    r->given = true;
    return 0;
}

/* ---- the status message ---- */

size_t grpc_percent_encode(struct bytes in, char *out, size_t cap)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t n = 0;
    for (size_t i = 0; i < in.n; i++) {
        uint8_t c = (uint8_t)in.p[i];
        bool plain = c >= 0x20 && c <= 0x7e && c != '%';
        if (n + (plain ? 1 : 3) > cap)
            break;
        if (plain) {
            out[n++] = (char)c;
            continue;
        }
        out[n++] = '%';
        out[n++] = hex[c >> 4];
        out[n++] = hex[c & 15];
    }
    return n;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

size_t grpc_percent_decode(struct bytes in, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < in.n; i++) {
        if (in.p[i] == '%' && in.n - i > 2) {
            int high = hex_digit(in.p[i + 1]), low = hex_digit(in.p[i + 2]);
            if (high >= 0 && low >= 0) {
                out[n++] = (char)(high << 4 | low);
                i += 2;
                continue;
            }
        }
        out[n++] = in.p[i];
    }
    return n;
}

/* ---- timeouts ---- */

int grpc_timeout_parse(struct bytes text, uint64_t *ms)
{
    if (text.n < 2 || text.n > 9)
        return DFS_EINVAL;
    uint64_t n = 0;
    for (size_t i = 0; i + 1 < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return DFS_EINVAL;
        n = n * 10 + (uint64_t)(text.p[i] - '0');
    }
    switch (text.p[text.n - 1]) {
    case 'H':
        n *= 3600000;
        break;
    case 'M':
        n *= 60000;
        break;
    case 'S':
        n *= 1000;
        break;
    case 'm':
        break;
    case 'u':
        n = (n + 999) / 1000;
        break;
    case 'n':
        n = (n + 999999) / 1000000;
        break;
    default:
        return DFS_EINVAL;
    }
    *ms = n > 0 ? n : 1;
    return 0;
}

size_t grpc_timeout_format(uint32_t ms, char out[GRPC_TIMEOUT_TEXT_MAX])
{
    /* Eight digits at most; beyond a day the seconds are good enough. */
    if (ms < 100000000)
        return (size_t)snprintf(out, GRPC_TIMEOUT_TEXT_MAX, "%um", ms);
    return (size_t)snprintf(out, GRPC_TIMEOUT_TEXT_MAX, "%uS", ms / 1000 + (ms % 1000 != 0));
}

/* ---- status numbers ---- */

bool grpc_is_content_type(struct bytes value)
{
    static const char type[] = "application/grpc";
    size_t n = sizeof type - 1;
    return value.n >= n && memcmp(value.p, type, n) == 0 && (value.n == n || value.p[n] == '+' || value.p[n] == ';');
}

enum grpc_status grpc_status_parse(struct bytes text)
{
    unsigned n = 0;
    if (text.n == 0 || text.n > 2)
        return GRPC_UNKNOWN;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return GRPC_UNKNOWN;
        n = n * 10 + (unsigned)(text.p[i] - '0');
    }
    return n <= GRPC_UNAUTHENTICATED ? (enum grpc_status)n : GRPC_UNKNOWN;
}

enum grpc_status grpc_status_from_h2(uint32_t code)
{
    switch (code) {
    case NGHTTP2_REFUSED_STREAM:
        return GRPC_UNAVAILABLE;
    case NGHTTP2_CANCEL:
        return GRPC_CANCELLED;
    case NGHTTP2_ENHANCE_YOUR_CALM:
        return GRPC_RESOURCE_EXHAUSTED;
    case NGHTTP2_INADEQUATE_SECURITY:
        return GRPC_PERMISSION_DENIED;
    default:
        return GRPC_INTERNAL;
    }
}

enum grpc_status grpc_status_from_http(uint32_t http_status)
{
    switch (http_status) {
    case 400:
        return GRPC_INTERNAL;
    case 401:
        return GRPC_UNAUTHENTICATED;
    case 403:
        return GRPC_PERMISSION_DENIED;
    case 404:
        return GRPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return GRPC_UNAVAILABLE;
    default:
        return GRPC_UNKNOWN;
    }
}

enum grpc_status grpc_status_from_err(int rc)
{
    switch ((enum dfs_err)rc) {
    case DFS_OK:
        return GRPC_OK;
    case DFS_EINVAL:
    case DFS_EPROTO:
    case DFS_ESHORT:
        return GRPC_INVALID_ARGUMENT;
    case DFS_ENOMEM:
    case DFS_ENOFILES:
    case DFS_ENOTHREAD:
    case DFS_ENOSPC:
    case DFS_EAGAIN:
    case DFS_ETOOBIG:
    case DFS_ELOADING:
    case DFS_EFULL:
    case DFS_EBUSY:
    case DFS_EUNAVAILABLE:
        return GRPC_RESOURCE_EXHAUSTED;
    case DFS_ECORRUPT:
        return GRPC_DATA_LOSS;
    case DFS_ENOTFOUND:
    case DFS_ENOVOLUME:
        return GRPC_NOT_FOUND;
    case DFS_EEXIST:
        return GRPC_ALREADY_EXISTS;
    case DFS_EREADONLY:
    case DFS_EVERSION:
    case DFS_ESTALE:
        return GRPC_FAILED_PRECONDITION;
    case DFS_ECOOKIE:
    case DFS_EDENIED:
        return GRPC_PERMISSION_DENIED;
    case DFS_ETIMEOUT:
        return GRPC_DEADLINE_EXCEEDED;
    case DFS_EUNSUPPORTED:
        return GRPC_UNIMPLEMENTED;
    case DFS_ECANCELLED:
        return GRPC_CANCELLED;
    case DFS_EIO:
    case DFS_ECLOSED:
        return GRPC_UNKNOWN;
    }
    return GRPC_UNKNOWN;
}

int grpc_err_from_status(enum grpc_status status)
{
    switch (status) {
    case GRPC_OK:
        return 0;
    case GRPC_CANCELLED:
        return DFS_ECANCELLED;
    case GRPC_INVALID_ARGUMENT:
    case GRPC_OUT_OF_RANGE:
        return DFS_EINVAL;
    case GRPC_DEADLINE_EXCEEDED:
        return DFS_ETIMEOUT;
    case GRPC_NOT_FOUND:
        return DFS_ENOTFOUND;
    case GRPC_ALREADY_EXISTS:
        return DFS_EEXIST;
    case GRPC_PERMISSION_DENIED:
    case GRPC_UNAUTHENTICATED:
        return DFS_EDENIED;
    case GRPC_RESOURCE_EXHAUSTED:
        return DFS_EBUSY;
    case GRPC_FAILED_PRECONDITION:
    case GRPC_ABORTED:
        return DFS_ESTALE;
    case GRPC_UNIMPLEMENTED:
        return DFS_EUNSUPPORTED;
    case GRPC_UNAVAILABLE:
        return DFS_EUNAVAILABLE;
    case GRPC_DATA_LOSS:
        return DFS_ECORRUPT;
    case GRPC_INTERNAL:
        return DFS_EPROTO;
    case GRPC_UNKNOWN:
        break;
    }
    return DFS_EIO;
}

const char *grpc_status_name(enum grpc_status status)
{
    static const char *const names[] = {
        "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
        "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
        "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
    };
    return (unsigned)status < sizeof names / sizeof names[0] ? names[status] : "?";
}
