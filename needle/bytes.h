/* A borrowed view of memory, big-endian numbers, and the 8-byte grid that every record stands on.  Pure; any thread. */
#ifndef DFS_NEEDLE_BYTES_H
#define DFS_NEEDLE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* `n` bytes at `p`, owned by someone else.  p may be NULL only when n is 0. */
struct bytes {
    const char *p;
    size_t n;
};

#define BYTES_NONE ((struct bytes){NULL, 0})
#define BYTES_LIT(s) ((struct bytes){(s), sizeof(s) - 1})

static inline struct bytes bytes_of(const void *p, size_t n)
{
    return (struct bytes){p, n};
}

static inline struct bytes bytes_str(const char *s)
{
    return (struct bytes){s, s != NULL ? strlen(s) : 0};
}

static inline bool bytes_eq(struct bytes a, struct bytes b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline uint16_t be16_get(const void *p)
{
    const uint8_t *b = p;
    return (uint16_t)(b[0] << 8 | b[1]);
}

static inline uint32_t be32_get(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return __builtin_bswap32(v);
}

static inline uint64_t be64_get(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return __builtin_bswap64(v);
}

static inline void be16_put(void *p, uint16_t v)
{
    uint8_t *b = p;
    b[0] = (uint8_t)(v >> 8);
    b[1] = (uint8_t)v;
}

static inline void be32_put(void *p, uint32_t v)
{
    v = __builtin_bswap32(v);
    memcpy(p, &v, sizeof v);
}

static inline void be64_put(void *p, uint64_t v)
{
    v = __builtin_bswap64(v);
    memcpy(p, &v, sizeof v);
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the be*_ helpers swap: little-endian hosts only");

/* Every record starts at a multiple of this. */
#define NEEDLE_ALIGN 8u

static inline uint64_t align8_up(uint64_t v)
{
    return (v + 7) & ~(uint64_t)7;
}

#endif
