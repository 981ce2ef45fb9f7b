/* Percent decoding, query and form parameters, and parameters of header values. */
#include <stdlib.h>

#include "needle/err.h"
#include "net/ascii.h"
#include "net/http_util.h"

int http_percent_decode(struct bytes in, bool plus_is_space, char *out, size_t *n)
{
    size_t w = 0;
    for (size_t i = 0; i < in.n; i++) {
        char c = in.p[i];
        if (c == '%') {
            if (in.n - i < 3)
                return DFS_EINVAL;
            int hi = ascii_hex(in.p[i + 1]), lo = ascii_hex(in.p[i + 2]);
            if (hi < 0 || lo < 0)
                return DFS_EINVAL;
            c = (char)(hi << 4 | lo);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        /* The results are used as C strings; a NUL would make two readers see two different names. */
        if (c == '\0')
            return DFS_EINVAL;
        out[w++] = c;
    }
    *n = w;
    return 0;
}

/* Each text that was parsed owns one block; blocks hang on each other, so that fields of earlier texts stay where they are. */
struct params_block {
    char *next;
    char text[];
};

void http_params_init(struct http_params *p)
{
    p->count = 0;
    p->owned = NULL;
}

/* Decodes one piece to *w, closes it with a NUL and moves *w behind it. */
static int params_put(struct bytes in, char **w, struct bytes *out)
{
    size_t n;
    int rc = http_percent_decode(in, true, *w, &n);
    if (rc != 0)
        return rc;
    (*w)[n] = '\0';
    *out = bytes_of(*w, n);
    *w += n + 1;
    return 0;
}

int http_params_parse(struct http_params *p, struct bytes text)
{
    struct bytes rest = text, field;
    uint32_t count = p->count;
    int rc = 0;

    if (text.n == 0)
        return 0;
    /* A field shrinks or stays when decoded, and needs two NULs where it had '=' and '&': at most one byte more a field. */
    struct params_block *block = malloc(sizeof *block + text.n + HTTP_PARAMS_MAX + 2);
    if (block == NULL)
        return DFS_ENOMEM;
    char *w = block->text;
    while (bytes_split(&rest, '&', &field)) {
        if (field.n == 0)
            continue;
        if (count == HTTP_PARAMS_MAX) {
            rc = DFS_ETOOBIG;
            goto fail;
        }
        struct bytes value = field, name;
        bytes_split(&value, '=', &name);
        if ((rc = params_put(name, &w, &p->v[count].name)) != 0 || (rc = params_put(value, &w, &p->v[count].value)) != 0)
            goto fail;
        count++;
    }
    block->next = p->owned;
    p->owned = (char *)block;
    p->count = count;
    return 0;
fail:
    free(block);
    return rc;
}

struct bytes http_params_get(const struct http_params *p, const char *name)
{
    struct bytes want = bytes_str(name);
    for (uint32_t i = 0; i < p->count; i++)
        if (bytes_eq(p->v[i].name, want))
            return p->v[i].value;
    return BYTES_NONE;
}

bool http_params_bool(const struct http_params *p, const char *name, bool dflt)
{
    static const char *const yes[] = {"1", "t", "T", "true", "TRUE", "True"};
    static const char *const no[] = {"0", "f", "F", "false", "FALSE", "False"};
    struct bytes value = http_params_get(p, name);
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        if (bytes_eq(value, bytes_str(yes[i])))
            return true;
        if (bytes_eq(value, bytes_str(no[i])))
            return false;
    }
    return dflt;
}

int http_params_u64(const struct http_params *p, const char *name, uint64_t dflt, uint64_t *out)
{
    struct bytes value = http_params_get(p, name);
    if (value.n == 0) {
        *out = dflt;
        return 0;
    }
    return bytes_u64(value, out) ? 0 : DFS_EINVAL;
}

void http_params_release(struct http_params *p)
{
    while (p->owned != NULL) {
        struct params_block *block = (struct params_block *)(void *)p->owned;
        p->owned = block->next;
        free(block);
    }
    p->count = 0;
}

/* ---- parameters of a header value ---- */

/* Length of the quoted text at the front of v (which starts with '"') with both quotes, or 0 when it does not close. */
static size_t quoted_length(struct bytes v)
{
    for (size_t i = 1; i < v.n; i++) {
        if (v.p[i] == '"')
            return i + 1;
        if (v.p[i] == '\\')
            i++;
    }
    return 0;
}

/* Only \" and \\ are escapes: browsers of old Windows send whole paths with single backslashes, "C:\dir\a.jpg". */
static size_t unquote(struct bytes inner, char *out)
{
    size_t w = 0;
    for (size_t i = 0; i < inner.n; i++) {
        if (inner.p[i] == '\\' && i + 1 < inner.n && (inner.p[i + 1] == '"' || inner.p[i + 1] == '\\'))
            i++;
        out[w++] = inner.p[i];
    }
    return w;
}

bool http_value_param(struct bytes value, const char *key, char *out, size_t *n)
{
    struct bytes want = bytes_str(key);
    size_t i = 0;

    while (i < value.n && value.p[i] != ';')
        i++;
    while (i < value.n) {
        i++; /* the semicolon */
        size_t from = i;
        while (i < value.n && value.p[i] != '=' && value.p[i] != ';')
            i++;
        struct bytes name = bytes_trim(bytes_of(value.p + from, i - from));
        if (i == value.n || value.p[i] == ';')
            continue; /* a word without a value */
        i++;
        while (i < value.n && ascii_is_blank(value.p[i]))
            i++;
        bool hit = bytes_ieq(name, want);
        if (i < value.n && value.p[i] == '"') {
            size_t len = quoted_length(bytes_of(value.p + i, value.n - i));
            if (len == 0)
                return false;
            if (hit) {
                *n = unquote(bytes_of(value.p + i + 1, len - 2), out);
                out[*n] = '\0';
                return true;
            }
            i += len;
            while (i < value.n && value.p[i] != ';')
                i++;
            continue;
        }
        from = i;
        while (i < value.n && value.p[i] != ';')
            i++;
        if (hit) {
            struct bytes v = bytes_trim(bytes_of(value.p + from, i - from));
            if (v.n > 0)
                memcpy(out, v.p, v.n);
            *n = v.n;
            out[v.n] = '\0';
            return true;
        }
    }
    return false;
}
