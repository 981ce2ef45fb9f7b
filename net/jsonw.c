/* JSON text, written in one pass. */
#include "net/jsonw.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/number_text.h"

_Static_assert(JSONW_DEPTH_MAX <= 32, "a bit per level");

void jsonw_init(struct jsonw *w, bool pretty)
{
    memset(w, 0, offsetof(struct jsonw, small));
    w->p = w->small;
    w->cap = sizeof w->small;
    w->pretty = pretty;
}

void jsonw_release(struct jsonw *w)
{
    if (w->p != w->small)
        free(w->p);
    jsonw_init(w, w->pretty);
}

/* ---- bytes ---- */

static bool grow(struct jsonw *w, size_t n)
{
    size_t cap = w->cap;
    if (w->rc != 0)
        return false;
    if (n > JSONW_BYTES_MAX || w->n + n > JSONW_BYTES_MAX) {
        w->rc = DFS_ETOOBIG;
        return false;
    }
    while (cap < w->n + n)
        cap *= 2;
    char *p = w->p == w->small ? malloc(cap) : realloc(w->p, cap);
    if (p == NULL) {
        w->rc = DFS_ENOMEM;
        return false;
    }
    if (w->p == w->small)
        memcpy(p, w->small, w->n);
    w->p = p;
    w->cap = cap;
    return true;
}

static inline bool room(struct jsonw *w, size_t n)
{
    return w->cap - w->n >= n || grow(w, n);
}

static void put(struct jsonw *w, const char *s, size_t n)
{
    if (!room(w, n))
        return;
    if (n > 0)
        memcpy(w->p + w->n, s, n);
    w->n += n;
}

static void put_char(struct jsonw *w, char c)
{
    if (room(w, 1))
        w->p[w->n++] = c;
}

/* Length of the UTF-8 character at the front of s, or 0 when it is none (overlong forms, surrogates, beyond U+10FFFF). */
static size_t utf8_length(const unsigned char *s, size_t n)
{
    unsigned char c = s[0];
    size_t len = c < 0x80 ? 1 : c >= 0xc2 && c <= 0xdf ? 2 : (c & 0xf0) == 0xe0 ? 3 : c >= 0xf0 && c <= 0xf4 ? 4 : 0;
    if (len == 0 || len > n)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((c == 0xe0 && s[1] < 0xa0) || (c == 0xed && s[1] > 0x9f) || (c == 0xf0 && s[1] < 0x90) || (c == 0xf4 && s[1] > 0x8f))
        return 0;
    return len;
}

/* Bytes that stand for themselves. */
static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static void put_escaped(struct jsonw *w, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    const char *shorts = "\"\"\\\\\nn\rr\tt\bb\ff";
    char u[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};

    for (const char *s = shorts; *s != '\0'; s += 2)
        if ((unsigned char)s[0] == c) {
            u[1] = s[1];
            put(w, u, 2);
            return;
        }
    put(w, u, 6);
}

static void put_string(struct jsonw *w, struct bytes text)
{
    const unsigned char *s = (const unsigned char *)text.p;
    put_char(w, '"');
    for (size_t i = 0; i < text.n;) {
        size_t run = 0;
        while (i + run < text.n && is_plain(s[i + run]))
            run++;
        put(w, text.p + i, run);
        i += run;
        if (i == text.n)
            break;
        if (s[i] < 0x80) {
            put_escaped(w, s[i++]);
            continue;
        }
        size_t len = utf8_length(s + i, text.n - i);
        if (len == 0) {
            put(w, "\xef\xbf\xbd", 3);
            i++;
        } else {
            put(w, text.p + i, len);
            i += len;
        }
    }
    put_char(w, '"');
}

/* ---- structure ---- */

static uint32_t level_bit(const struct jsonw *w)
{
    return UINT32_C(1) << (w->depth - 1);
}

static void new_line(struct jsonw *w)
{
    if (!w->pretty)
        return;
    put_char(w, '\n');
    for (unsigned i = 0; i < w->depth; i++)
        put(w, "  ", 2);
}

/* What stands before a member: a comma, a line. */
static void before_member(struct jsonw *w)
{
    if (w->depth == 0)
        return;
    if (w->has_member & level_bit(w))
        put_char(w, ',');
    w->has_member |= level_bit(w);
    new_line(w);
}

static void before_value(struct jsonw *w)
{
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (w->depth == 0)
        CHECK(w->n == 0 || w->rc != 0); /* one document */
    else
        CHECK(!(w->is_object & level_bit(w)));
    before_member(w);
}

static void open_level(struct jsonw *w, bool object)
{
    before_value(w);
    CHECK(w->depth < JSONW_DEPTH_MAX);
    w->depth++;
    w->has_member &= ~level_bit(w);
    if (object)
        w->is_object |= level_bit(w);
    else
        w->is_object &= ~level_bit(w);
    put_char(w, object ? '{' : '[');
}

static void close_level(struct jsonw *w, bool object)
{
    CHECK(w->depth > 0 && !w->after_key && !!(w->is_object & level_bit(w)) == object);
    bool any = w->has_member & level_bit(w);
    w->depth--;
    if (any)
        new_line(w);
    put_char(w, object ? '}' : ']');
}

void jsonw_object(struct jsonw *w)
{
    open_level(w, true);
}

void jsonw_object_end(struct jsonw *w)
{
    close_level(w, true);
}

void jsonw_array(struct jsonw *w)
{
    open_level(w, false);
}

void jsonw_array_end(struct jsonw *w)
{
    close_level(w, false);
}

void jsonw_key_bytes(struct jsonw *w, struct bytes key)
{
    CHECK(w->depth > 0 && (w->is_object & level_bit(w)) && !w->after_key);
    before_member(w);
    put_string(w, key);
    put(w, ": ", w->pretty ? 2 : 1);
    w->after_key = true;
}

void jsonw_key(struct jsonw *w, const char *key)
{
    jsonw_key_bytes(w, bytes_str(key));
}

/* ---- values ---- */

void jsonw_string(struct jsonw *w, struct bytes text)
{
    before_value(w);
    put_string(w, text);
}

void jsonw_raw(struct jsonw *w, struct bytes json)
{
    before_value(w);
    put(w, json.p, json.n);
}

void jsonw_u64(struct jsonw *w, uint64_t v)
{
    char text[NUMBER_TEXT_MAX];
    jsonw_raw(w, bytes_of(text, number_text_u64(v, text)));
}

void jsonw_i64(struct jsonw *w, int64_t v)
{
    char text[NUMBER_TEXT_MAX];
    jsonw_raw(w, bytes_of(text, number_text_i64(v, text)));
}

void jsonw_double(struct jsonw *w, double v)
{
    char text[NUMBER_TEXT_MAX];
    if (!isfinite(v))
        jsonw_null(w);
    else
        jsonw_raw(w, bytes_of(text, number_text_double(v, text)));
}

void jsonw_bool(struct jsonw *w, bool v)
{
    jsonw_raw(w, bytes_str(v ? "true" : "false"));
}

void jsonw_null(struct jsonw *w)
{
    jsonw_raw(w, BYTES_LIT("null"));
}

void jsonw_put_object(struct jsonw *w, const char *key)
{
    jsonw_key(w, key);
    jsonw_object(w);
}

void jsonw_put_array(struct jsonw *w, const char *key)
{
    jsonw_key(w, key);
    jsonw_array(w);
}

void jsonw_put_string(struct jsonw *w, const char *key, struct bytes text)
{
    jsonw_key(w, key);
    jsonw_string(w, text);
}

void jsonw_put_str(struct jsonw *w, const char *key, const char *text)
{
    jsonw_put_string(w, key, bytes_str(text));
}

void jsonw_put_u64(struct jsonw *w, const char *key, uint64_t v)
{
    jsonw_key(w, key);
    jsonw_u64(w, v);
}

void jsonw_put_i64(struct jsonw *w, const char *key, int64_t v)
{
    jsonw_key(w, key);
    jsonw_i64(w, v);
}

void jsonw_put_double(struct jsonw *w, const char *key, double v)
{
    jsonw_key(w, key);
    jsonw_double(w, v);
}

void jsonw_put_bool(struct jsonw *w, const char *key, bool v)
{
    jsonw_key(w, key);
    jsonw_bool(w, v);
}

void jsonw_put_printf(struct jsonw *w, const char *key, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    jsonw_put_string(w, key, bytes_of(text, n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1));
}

int jsonw_done(struct jsonw *w, struct bytes *out)
{
    CHECK(w->depth == 0 && !w->after_key);
    if (w->rc != 0)
        return w->rc;
    *out = bytes_of(w->p, w->n);
    return 0;
}
