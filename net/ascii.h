/* ASCII helpers that no locale can change: HTTP compares names without case, byte by byte.  Pure; any thread. */
#ifndef DFS_NET_ASCII_H
#define DFS_NET_ASCII_H

#include <stdbool.h>

#include "needle/bytes.h"

static inline char ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static inline bool ascii_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool ascii_is_alnum(char c)
{
    c = ascii_lower(c);
    return ascii_is_digit(c) || (c >= 'a' && c <= 'z');
}

/* Space and tab: all that HTTP calls blank inside a line. */
static inline bool ascii_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* 0 to 15, or -1. */
static inline int ascii_hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = ascii_lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static inline bool bytes_ieq(struct bytes a, struct bytes b)
{
    if (a.n != b.n)
        return false;
    for (size_t i = 0; i < a.n; i++)
        if (ascii_lower(a.p[i]) != ascii_lower(b.p[i]))
            return false;
    return true;
}

/* Without the blanks around it. */
static inline struct bytes bytes_trim(struct bytes b)
{
    while (b.n > 0 && ascii_is_blank(b.p[0])) {
        b.p++;
        b.n--;
    }
    while (b.n > 0 && ascii_is_blank(b.p[b.n - 1]))
        b.n--;
    return b;
}

/* Takes what stands before the first `sep` off the front of *rest (all of it when there is none).  False when *rest was
 * used up before: the last piece sets rest->p to NULL. */
static inline bool bytes_split(struct bytes *rest, char sep, struct bytes *piece)
{
    if (rest->p == NULL)
        return false;
    const char *at = rest->n > 0 ? memchr(rest->p, sep, rest->n) : NULL;
    if (at == NULL) {
        *piece = *rest;
        *rest = BYTES_NONE;
        return true;
    }
    *piece = bytes_of(rest->p, (size_t)(at - rest->p));
    *rest = bytes_of(at + 1, rest->n - piece->n - 1);
    return true;
}

/* The whole text as a decimal number: digits only, at least one, no overflow. */
static inline bool bytes_u64(struct bytes b, uint64_t *out)
{
    uint64_t v = 0;
    if (b.n == 0)
        return false;
    for (size_t i = 0; i < b.n; i++) {
        if (!ascii_is_digit(b.p[i]))
            return false;
        if (__builtin_mul_overflow(v, (uint64_t)10, &v) || __builtin_add_overflow(v, (uint64_t)(b.p[i] - '0'), &v))
            return false;
    }
    *out = v;
    return true;
}

#endif
