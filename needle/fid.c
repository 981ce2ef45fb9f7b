/* File ids: text to numbers and back, and the forms in which a request path names one. */
#include "needle/fid.h"

#include <stdio.h>

#include "needle/err.h"

#define COOKIE_DIGITS 8u
#define FID_DIGITS_MAX 24u

/* Position of the last `c`, or text.n. */
static size_t find_last(struct bytes text, char c)
{
    for (size_t i = text.n; i > 0; i--)
        if (text.p[i - 1] == c)
            return i - 1;
    return text.n;
}

static size_t find_first(struct bytes text, char c)
{
    const char *p = text.n == 0 ? NULL : memchr(text.p, c, text.n);
    return p == NULL ? text.n : (size_t)(p - text.p);
}

static struct bytes head_of(struct bytes text, size_t n)
{
    return bytes_of(text.p, n);
}

static struct bytes rest_of(struct bytes text, size_t from)
{
    return from >= text.n ? BYTES_NONE : bytes_of(text.p + from, text.n - from);
}

static int parse_decimal(struct bytes text, uint64_t max, uint64_t *out)
{
    uint64_t v = 0;

    if (text.n == 0)
        return DFS_EINVAL;
    for (size_t i = 0; i < text.n; i++) {
        unsigned digit = (unsigned)(unsigned char)text.p[i] - '0';
        if (digit > 9 || v > (max - digit) / 10)
            return DFS_EINVAL;
        v = v * 10 + digit;
    }
    *out = v;
    return 0;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* At most 16 digits. */
static int parse_hex(struct bytes text, uint64_t *out)
{
    uint64_t v = 0;

    for (size_t i = 0; i < text.n; i++) {
        int digit = hex_value(text.p[i]);
        if (digit < 0)
            return DFS_EINVAL;
        v = v << 4 | (uint64_t)digit;
    }
    *out = v;
    return 0;
}

int volume_id_parse(struct bytes text, uint32_t *out)
{
    uint64_t v;

    if (parse_decimal(text, UINT32_MAX, &v) != 0 || v == 0)
        return DFS_EINVAL;
    *out = (uint32_t)v;
    return 0;
}

static int fid_parse_key_cookie(struct bytes text, uint64_t *key, uint32_t *cookie)
{
    size_t underscore = find_first(text, '_');
    struct bytes hex = head_of(text, underscore);
    uint64_t k, c, delta = 0;

    if (hex.n <= COOKIE_DIGITS || hex.n > FID_DIGITS_MAX)
        return DFS_EINVAL;
    if (parse_hex(head_of(hex, hex.n - COOKIE_DIGITS), &k) != 0 ||
        parse_hex(rest_of(hex, hex.n - COOKIE_DIGITS), &c) != 0)
        return DFS_EINVAL;
    if (underscore < text.n && parse_decimal(rest_of(text, underscore + 1), UINT64_MAX, &delta) != 0)
        return DFS_EINVAL;
    if (delta > UINT64_MAX - k)
        return DFS_EINVAL;
    *key = k + delta;
    *cookie = (uint32_t)c;
    return 0;
}

/* Both halves of a fid, already apart. */
static int parse_halves(struct bytes volume, struct bytes key_cookie, struct fid *out)
{
    struct fid fid;

    if (volume_id_parse(volume, &fid.volume_id) != 0 || fid_parse_key_cookie(key_cookie, &fid.key, &fid.cookie) != 0)
        return DFS_EINVAL;
    *out = fid;
    return 0;
}

int fid_parse(struct bytes text, struct fid *out)
{
    size_t comma = find_first(text, ',');

    if (comma == text.n)
        return DFS_EINVAL;
    return parse_halves(head_of(text, comma), rest_of(text, comma + 1), out);
}

static struct bytes ext_of(struct bytes name)
{
    return rest_of(name, find_last(name, '.'));
}

static size_t count_of(struct bytes text, char c)
{
    size_t count = 0;

    for (size_t i = 0; i < text.n; i++)
        count += text.p[i] == c;
    return count;
}

/* "<volume>/<hex>[.ext]" and "<volume>/<hex>[.ext]/<name>", behind the first slash. */
static int parse_slash_form(struct bytes rest, struct fid_path *out)
{
    size_t slash = find_first(rest, '/');
    struct bytes volume = head_of(rest, slash);
    struct bytes file = rest_of(rest, slash + 1);
    size_t next = find_first(file, '/');
    struct fid_path fp = {.filename = rest_of(file, next + 1)};

    file = head_of(file, next);
    fp.ext = ext_of(fp.filename.n > 0 ? fp.filename : file);
    if (parse_halves(volume, head_of(file, find_last(file, '.')), &fp.fid) != 0)
        return DFS_EINVAL;
    *out = fp;
    return 0;
}

int fid_parse_path(struct bytes path, struct fid_path *out)
{
    size_t slashes = count_of(path, '/');
    struct fid_path fp = {.filename = BYTES_NONE};
    size_t comma;

    if (path.n == 0 || path.p[0] != '/')
        return DFS_EINVAL;
    if (slashes == 2 || slashes == 3)
        return parse_slash_form(rest_of(path, 1), out);
    path = rest_of(path, find_last(path, '/') + 1);
    comma = find_last(path, ',');
    if (comma == path.n)
        return DFS_EINVAL;
    fp.ext = ext_of(rest_of(path, comma + 1));
    if (parse_halves(head_of(path, comma), bytes_of(path.p + comma + 1, path.n - comma - 1 - fp.ext.n), &fp.fid) != 0)
        return DFS_EINVAL;
    *out = fp;
    return 0;
}

/* 10 to 24 digits and a zero. */
static size_t write_key_cookie(uint64_t key, uint32_t cookie, char *out)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t b[12];
    size_t from = 0, n = 0;

    be64_put(b, key);
    be32_put(b + 8, cookie);
    while (from < 7 && b[from] == 0) /* one byte of the key stays: nine digits at least, or it could not be read back */
        from++;
    for (; from < sizeof b; from++) {
        out[n++] = digits[b[from] >> 4];
        out[n++] = digits[b[from] & 15];
    }
    out[n] = '\0';
    return n;
}

size_t fid_format_key_cookie(uint64_t key, uint32_t cookie, char out[FID_TEXT_MAX])
{
    return write_key_cookie(key, cookie, out);
}

size_t fid_format(const struct fid *fid, char out[FID_TEXT_MAX])
{
    int n = snprintf(out, FID_TEXT_MAX, "%u,", fid->volume_id);

    return (size_t)n + write_key_cookie(fid->key, fid->cookie, out + n);
}

bool cookie_eq(uint32_t a, uint32_t b)
{
    /* One subtraction of the folded difference: no branch and no early exit for a compiler to keep. */
    uint64_t diff = a ^ b;
    return (bool)(((diff - 1) >> 63) & 1);
}
