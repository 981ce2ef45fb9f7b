/* Heads of requests and responses, parsed in place.
 *
 * Lines end with CR LF and nothing else.  Where two readers of the same bytes could see two different messages, the
 * message is refused: that is what request smuggling lives on.
 *
 * Cost: until the head is complete a call looks only at bytes that no earlier call has seen; then the head is walked
 * once. */
#include "net/http_parse.h"

#include <string.h>

#include "needle/err.h"
#include "net/ascii.h"

#define METHOD_MAX 32u
#define LEADING_CRLF_MAX 4u
/* A request line is method, target and "HTTP/1.1" with two blanks. */
#define REQUEST_LINE_MAX (HTTP_TARGET_MAX + METHOD_MAX + 16u)

enum { TCHAR = 1, TARGET = 2, VALUE = 4 };

/* Classes of bytes: TCHAR may be in a token, TARGET in a request target (bytes above 127 are let through: many clients send
 * UTF-8 raw), VALUE in a header's value. */
static const uint8_t byte_class[256] = {
    ['\t'] = VALUE, [' '] = VALUE,
    ['!'] = 7, ['#'] = 7, ['$'] = 7, ['%'] = 7, ['&'] = 7, ['\''] = 7, ['*'] = 7, ['+'] = 7, ['-'] = 7, ['.'] = 7,
    ['^'] = 7, ['_'] = 7, ['`'] = 7, ['|'] = 7, ['~'] = 7,
    ['0' ... '9'] = 7, ['a' ... 'z'] = 7, ['A' ... 'Z'] = 7,
    ['"'] = 6, ['('] = 6, [')'] = 6, [','] = 6, ['/'] = 6, [':'] = 6, [';'] = 6, ['<'] = 6, ['='] = 6, ['>'] = 6,
    ['?'] = 6, ['@'] = 6, ['['] = 6, ['\\'] = 6, [']'] = 6, ['{'] = 6, ['}'] = 6,
    [128 ... 255] = TARGET | VALUE,
};

static bool all_of(struct bytes b, uint8_t class)
{
    uint8_t both = class;
    for (size_t i = 0; i < b.n; i++)
        both &= byte_class[(uint8_t)b.p[i]];
    return both == class;
}

bool http_is_token(struct bytes b)
{
    return b.n > 0 && all_of(b, TCHAR);
}

bool http_is_value(struct bytes b)
{
    return all_of(b, VALUE);
}

/* ---- finding the end ---- */

/* Some clients send an empty line behind a body: RFC 9112 section 2.2 has servers step over it. */
static size_t leading_crlf(struct bytes in)
{
    size_t at = 0;
    while (at < 2 * LEADING_CRLF_MAX && in.n - at >= 2 && in.p[at] == '\r' && in.p[at + 1] == '\n')
        at += 2;
    return at;
}

/* Where the head ends (behind its empty line), 0 when it does not yet; DFS_EPROTO for a line that ends with a bare LF.
 * *line_seen: the first line has ended within the bytes looked at now. */
static int find_end(struct bytes in, size_t start, size_t *scanned, size_t *end, bool *line_seen)
{
    size_t at = *scanned > start ? *scanned : start;
    const char *first = in.p + start;
    *line_seen = false;
    *end = 0;
    while (at < in.n) {
        const char *lf = memchr(in.p + at, '\n', in.n - at);
        if (lf == NULL)
            break;
        size_t pos = (size_t)(lf - in.p);
        if (lf == first || lf[-1] != '\r')
            return DFS_EPROTO;
        if (pos - start >= 3 && lf[-2] == '\n') {
            *end = pos + 1;
            return 0;
        }
        if (!*line_seen)
            *line_seen = memchr(first, '\n', (size_t)(lf - first)) == NULL;
        at = pos + 1;
    }
    *scanned = in.n;
    return 0;
}

/* ---- request line ---- */

static enum http_method method_of(struct bytes m)
{
    static const struct {
        struct bytes text;
        enum http_method method;
    } table[] = {
        {BYTES_LIT("GET"), HTTP_GET},       {BYTES_LIT("HEAD"), HTTP_HEAD},     {BYTES_LIT("POST"), HTTP_POST},
        {BYTES_LIT("PUT"), HTTP_PUT},       {BYTES_LIT("DELETE"), HTTP_DELETE}, {BYTES_LIT("OPTIONS"), HTTP_OPTIONS},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (bytes_eq(m, table[i].text))
            return table[i].method;
    return HTTP_OTHER;
}

/* "HTTP/x.y" to *minor.  400: it is none; 505: another version than 1.x. */
static int parse_version(struct bytes v, int *minor)
{
    if (v.n != 8 || memcmp(v.p, "HTTP/", 5) != 0 || !ascii_is_digit(v.p[5]) || v.p[6] != '.' || !ascii_is_digit(v.p[7]))
        return 400;
    if (v.p[5] != '1')
        return 505;
    *minor = v.p[7] == '0' ? 0 : 1;
    return 0;
}

/* Absolute-form ("http://host/path") is what proxies are sent; servers must take it. */
static bool reduce_absolute(struct bytes *path)
{
    static const struct bytes scheme[] = {BYTES_LIT("http://"), BYTES_LIT("https://")};
    for (size_t i = 0; i < 2; i++) {
        if (path->n <= scheme[i].n || !bytes_ieq(bytes_of(path->p, scheme[i].n), scheme[i]))
            continue;
        const char *at = path->p + scheme[i].n, *end = path->p + path->n;
        while (at < end && *at != '/' && *at != '?')
            at++;
        *path = bytes_of(at, (size_t)(end - at));
        return true;
    }
    return false;
}

/* The parts of the target; 0 or the status to refuse with. */
static int split_target(struct http_head *h)
{
    struct bytes path = h->target;
    h->query = BYTES_NONE;
    if (path.n == 1 && path.p[0] == '*') {
        h->path = path;
        return h->method == HTTP_OPTIONS ? 0 : 400;
    }
    if (path.p[0] != '/' && !reduce_absolute(&path))
        return 400;
    const char *mark = path.n > 0 ? memchr(path.p, '?', path.n) : NULL;
    if (mark != NULL) {
        h->query = bytes_of(mark + 1, path.n - (size_t)(mark - path.p) - 1);
        path.n = (size_t)(mark - path.p);
    }
    h->path = path.n > 0 ? path : BYTES_LIT("/");
    return 0;
}

/* `line` is without its CR LF.  0 or the status to refuse with. */
static int parse_request_line(struct bytes line, struct http_head *h)
{
    const char *end = line.p + line.n;
    const char *blank = memchr(line.p, ' ', line.n);
    if (blank == NULL)
        return 400;
    h->method_text = bytes_of(line.p, (size_t)(blank - line.p));
    if (h->method_text.n > METHOD_MAX || !http_is_token(h->method_text))
        return 400;
    h->method = method_of(h->method_text);

    const char *target = blank + 1;
    blank = memchr(target, ' ', (size_t)(end - target));
    if (blank == NULL || blank == target)
        return 400;
    h->target = bytes_of(target, (size_t)(blank - target));
    if (h->target.n > HTTP_TARGET_MAX)
        return 414;
    if (!all_of(h->target, TARGET))
        return 400;
    int status = parse_version(bytes_of(blank + 1, (size_t)(end - blank) - 1), &h->minor);
    return status != 0 ? status : split_target(h);
}

/* ---- headers ---- */

/* What must be known about a message while its headers are walked. */
struct framing {
    uint32_t hosts, lengths, codings;
    bool close, keep_alive;
    bool request;
};

static int take_length(struct http_head *h, struct framing *f, struct bytes value)
{
    /* Twice the same length is refused too: a list that one hop merges is a list that another does not. */
    if (f->lengths++ > 0 || !bytes_u64(value, &h->content_length) || h->content_length > INT64_MAX)
        return 400;
    h->has_length = true;
    return 0;
}

static int take_coding(struct http_head *h, struct framing *f, struct bytes value)
{
    if (f->codings++ > 0)
        return 400;
    if (!bytes_ieq(value, BYTES_LIT("chunked")))
        return 501;
    h->chunked = true;
    return 0;
}

static int take_host(struct framing *f, struct bytes value)
{
    if (f->hosts++ > 0)
        return f->request ? 400 : 0;
    for (size_t i = 0; i < value.n; i++)
        if (value.p[i] == ' ' || value.p[i] == '\t' || value.p[i] == ',' || value.p[i] == '/' || value.p[i] == '@')
            return f->request ? 400 : 0;
    return 0;
}

static void take_expect(struct http_head *h, struct bytes value)
{
    if (!bytes_ieq(value, BYTES_LIT("100-continue")))
        h->expect_other = true;
    else if (h->minor > 0)
        h->expect_continue = true;
}

/* Headers that frame the message.  0 or the status to refuse with. */
static int take_header(struct http_head *h, struct framing *f, struct bytes name, struct bytes value)
{
    switch (name.n) {
    case 4:
        if (bytes_ieq(name, BYTES_LIT("host")))
            return take_host(f, value);
        break;
    case 6:
        if (bytes_ieq(name, BYTES_LIT("expect")))
            take_expect(h, value);
        break;
    case 10:
        if (bytes_ieq(name, BYTES_LIT("connection"))) {
            f->close |= http_list_has(value, "close");
            f->keep_alive |= http_list_has(value, "keep-alive");
        }
        break;
    case 14:
        if (bytes_ieq(name, BYTES_LIT("content-length")))
            return take_length(h, f, value);
        break;
    case 17:
        if (bytes_ieq(name, BYTES_LIT("transfer-encoding")))
            return take_coding(h, f, value);
        break;
    default:
        break;
    }
    return 0;
}

/* Walks the lines up to and without the empty one. */
static int parse_headers(struct bytes lines, struct http_head *h, struct framing *f)
{
    const char *at = lines.p, *end = lines.p + lines.n;
    h->header_count = 0;
    while (at < end) {
        const char *lf = memchr(at, '\n', (size_t)(end - at));
        const char *eol = lf - 1; /* find_end() has seen a CR before every LF, and the last line ends with both */
        const char *colon = memchr(at, ':', (size_t)(eol - at));
        if (colon == NULL)
            return 400;
        struct bytes name = bytes_of(at, (size_t)(colon - at));
        struct bytes value = bytes_trim(bytes_of(colon + 1, (size_t)(eol - colon) - 1));
        /* A blank before the colon or at the start of the line (folding) is no token byte and ends here as well. */
        if (!http_is_token(name) || !http_is_value(value))
            return 400;
        if (h->header_count == HTTP_HEADERS_MAX)
            return 431;
        h->headers[h->header_count++] = (struct http_header){name, value};
        int status = take_header(h, f, name, value);
        if (status != 0)
            return status;
        at = lf + 1;
    }
    return 0;
}

/* Everything but the headers array, which is written before it is read. */
static void clear_head(struct http_head *h)
{
    h->method = HTTP_OTHER;
    h->method_text = h->target = h->path = h->query = BYTES_NONE;
    h->status = 0;
    h->minor = 1;
    h->header_count = 0;
    h->has_length = h->chunked = h->keep_alive = h->connection_keep_alive_sent = false;
    h->expect_continue = h->expect_other = false;
    h->content_length = 0;
    h->head_bytes = 0;
}

static void settle_connection(struct http_head *h, const struct framing *f)
{
    h->keep_alive = !f->close && (h->minor > 0 || f->keep_alive);
    h->connection_keep_alive_sent = h->minor == 0 && h->keep_alive;
}

static int check_framing(const struct http_head *h, const struct framing *f)
{
    if (h->chunked && (f->lengths > 0 || h->minor == 0))
        return 400;
    return f->request && f->hosts == 0 && h->minor > 0 ? 400 : 0;
}

/* ---- requests ---- */

static int refuse(int *status, int with)
{
    *status = with;
    return with == 431 || with == 414 ? DFS_ETOOBIG : with == 505 ? DFS_EVERSION : DFS_EPROTO;
}

/* Refuses early what can never become a head, so that a TLS hello or an HTTP/0.9 line is answered and not waited for. */
static int check_incomplete(struct bytes in, size_t before, bool line_seen, struct http_head *scratch)
{
    if (before <= METHOD_MAX) {
        struct bytes start = bytes_of(in.p, in.n < METHOD_MAX + 1 ? in.n : METHOD_MAX + 1);
        const char *blank = start.n > 0 ? memchr(start.p, ' ', start.n) : NULL;
        struct bytes method = bytes_of(start.p, blank != NULL ? (size_t)(blank - start.p) : start.n);
        if (method.n > METHOD_MAX || (blank != NULL && method.n == 0))
            return 400;
        /* A CR may be the start of an empty line to come. */
        if (!all_of(method, TCHAR) && !line_seen && !(method.n == 1 && method.p[0] == '\r'))
            return 400;
    }
    if (line_seen) {
        const char *lf = memchr(in.p, '\n', in.n);
        return parse_request_line(bytes_of(in.p, (size_t)(lf - in.p) - 1), scratch);
    }
    if (before <= REQUEST_LINE_MAX && in.n > REQUEST_LINE_MAX && memchr(in.p, '\n', REQUEST_LINE_MAX) == NULL)
        return 414;
    return 0;
}

int http_parse_request(struct bytes in, size_t *scanned, struct http_head *out, int *status)
{
    if (in.n == 0)
        return DFS_ESHORT;
    size_t lead = in.p[0] == '\r' ? leading_crlf(in) : 0;
    size_t before = *scanned > lead ? *scanned - lead : 0, end;
    bool line_seen;
    if (find_end(in, lead, scanned, &end, &line_seen) != 0)
        return refuse(status, 400);
    if (end == 0) {
        int bad = check_incomplete(bytes_of(in.p + lead, in.n - lead), before, line_seen, out);
        if (bad != 0)
            return refuse(status, bad);
        return in.n >= HTTP_HEAD_MAX ? refuse(status, 431) : DFS_ESHORT;
    }
    const char *line = in.p + lead;
    const char *lf = memchr(line, '\n', end - lead);
    if (end > HTTP_HEAD_MAX)
        return refuse(status, (size_t)(lf - line) > REQUEST_LINE_MAX ? 414 : 431);

    clear_head(out);
    struct framing f = {.request = true};
    int bad = parse_request_line(bytes_of(line, (size_t)(lf - line) - 1), out);
    if (bad == 0)
        bad = parse_headers(bytes_of(lf + 1, (size_t)(in.p + end - lf) - 3), out, &f);
    if (bad == 0)
        bad = check_framing(out, &f);
    if (bad != 0)
        return refuse(status, bad);
    settle_connection(out, &f);
    out->head_bytes = (uint32_t)end;
    return 0;
}

/* ---- responses ---- */

/* "HTTP/1.1 200 Any text"; the text and the blank before it may be missing. */
static int parse_status_line(struct bytes line, struct http_head *h)
{
    if (line.n < 12 || parse_version(bytes_of(line.p, 8), &h->minor) != 0 || line.p[8] != ' ')
        return DFS_EPROTO;
    if (line.n > 12 && line.p[12] != ' ')
        return DFS_EPROTO;
    int status = 0;
    for (int i = 9; i < 12; i++) {
        if (!ascii_is_digit(line.p[i]))
            return DFS_EPROTO;
        status = status * 10 + (line.p[i] - '0');
    }
    if (status < 100 || !http_is_value(bytes_of(line.p + 12, line.n - 12)))
        return DFS_EPROTO;
    h->status = status;
    return 0;
}

int http_parse_response(struct bytes in, size_t *scanned, struct http_head *out)
{
    static const char start[] = "HTTP/";
    size_t end;
    bool line_seen;
    if (in.n == 0)
        return DFS_ESHORT;
    size_t n = in.n < sizeof start - 1 ? in.n : sizeof start - 1;
    if (memcmp(in.p, start, n) != 0)
        return DFS_EPROTO;
    if (find_end(in, 0, scanned, &end, &line_seen) != 0 || end > HTTP_HEAD_MAX)
        return DFS_EPROTO;
    if (end == 0)
        return in.n >= HTTP_HEAD_MAX ? DFS_EPROTO : DFS_ESHORT;

    clear_head(out);
    struct framing f = {.request = false};
    const char *lf = memchr(in.p, '\n', end);
    if (parse_status_line(bytes_of(in.p, (size_t)(lf - in.p) - 1), out) != 0 ||
        parse_headers(bytes_of(lf + 1, (size_t)(in.p + end - lf) - 3), out, &f) != 0 || check_framing(out, &f) != 0)
        return DFS_EPROTO;
    settle_connection(out, &f);
    out->head_bytes = (uint32_t)end;
    return 0;
}

/* ---- looking things up ---- */

struct bytes http_header_get(const struct http_head *h, const char *name)
{
    struct bytes want = bytes_str(name);
    for (uint32_t i = 0; i < h->header_count; i++)
        if (bytes_ieq(h->headers[i].name, want))
            return h->headers[i].value;
    return BYTES_NONE;
}

/* Whether the parameters behind an element say q=0, 0.0, 0.000. */
static bool weight_is_zero(struct bytes params)
{
    struct bytes p;
    while (bytes_split(&params, ';', &p)) {
        p = bytes_trim(p);
        if (p.n < 3 || ascii_lower(p.p[0]) != 'q' || p.p[1] != '=')
            continue;
        for (size_t i = 2; i < p.n; i++)
            if (p.p[i] != '0' && p.p[i] != '.')
                return false;
        return true;
    }
    return false;
}

bool http_list_has(struct bytes value, const char *token)
{
    struct bytes want = bytes_str(token), element;
    while (bytes_split(&value, ',', &element)) {
        struct bytes name;
        if (bytes_split(&element, ';', &name) && bytes_ieq(bytes_trim(name), want))
            return !weight_is_zero(element);
    }
    return false;
}
