/* MD5 (RFC 1321). */
#include "net/md5.h"

#include <sodium.h>

_Static_assert(sodium_base64_ENCODED_LEN(MD5_BYTES, sodium_base64_VARIANT_ORIGINAL) == MD5_BASE64_BYTES + 1, "room");

/* floor(2^32 * |sin(i + 1)|) */
static const uint32_t sines[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};
static const uint8_t shifts[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};

static uint32_t le32_get(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void le32_put(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static uint32_t rotate_left(uint32_t v, unsigned n)
{
    return v << n | v >> (32 - n);
}

static void md5_block(uint32_t state[4], const uint8_t *p)
{
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], word[16];

    for (unsigned i = 0; i < 16; i++)
        word[i] = le32_get(p + 4 * i);
#define STEP(i, f, k)                                                                                 \
    do {                                                                                              \
        uint32_t t = d;                                                                               \
        uint32_t sum = a + (f) + sines[i] + word[(k) & 15];                                           \
        d = c;                                                                                        \
        c = b;                                                                                        \
        b += rotate_left(sum, shifts[(i) / 16][(i) & 3]);                                             \
        a = t;                                                                                        \
    } while (0)
    for (unsigned i = 0; i < 16; i++)
        STEP(i, (b & c) | (~b & d), i);
    for (unsigned i = 16; i < 32; i++)
        STEP(i, (d & b) | (~d & c), 5 * i + 1);
    for (unsigned i = 32; i < 48; i++)
        STEP(i, b ^ c ^ d, 3 * i + 5);
    for (unsigned i = 48; i < 64; i++)
        STEP(i, c ^ (b | ~d), 7 * i);
#undef STEP
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

void md5_init(struct md5 *m)
{
    *m = (struct md5){.state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476}};
}

void md5_update(struct md5 *m, struct bytes in)
{
    const uint8_t *p = (const uint8_t *)in.p;
    size_t n = in.n, have = m->bytes % 64;

    m->bytes += n;
    if (have > 0) {
        size_t take = 64 - have < n ? 64 - have : n;
        if (take > 0)
            memcpy(m->block + have, p, take);
        if (have + take < 64)
            return;
        md5_block(m->state, m->block);
        p += take;
        n -= take;
    }
    for (; n >= 64; p += 64, n -= 64)
        md5_block(m->state, p);
    if (n > 0)
        memcpy(m->block, p, n);
}

void md5_final(struct md5 *m, uint8_t out[MD5_BYTES])
{
    static const uint8_t padding[64] = {0x80};
    uint64_t bits = m->bytes * 8;
    uint8_t length[8];

    md5_update(m, bytes_of(padding, 64 - (m->bytes + 8) % 64));
    le32_put(length, (uint32_t)bits);
    le32_put(length + 4, (uint32_t)(bits >> 32));
    md5_update(m, bytes_of(length, 8));
    for (unsigned i = 0; i < 4; i++)
        le32_put(out + 4 * i, m->state[i]);
}

void md5_base64(const uint8_t digest[MD5_BYTES], char out[MD5_BASE64_BYTES + 1])
{
    sodium_bin2base64(out, MD5_BASE64_BYTES + 1, digest, MD5_BYTES, sodium_base64_VARIANT_ORIGINAL);
}

bool md5_from_base64(struct bytes text, uint8_t digest[MD5_BYTES])
{
    uint8_t bin[MD5_BYTES];
    size_t n;
    if (text.n != MD5_BASE64_BYTES ||
        sodium_base642bin(bin, sizeof bin, text.p, text.n, NULL, &n, NULL, sodium_base64_VARIANT_ORIGINAL) != 0 || n != sizeof bin)
        return false;
    memcpy(digest, bin, sizeof bin);
    return true;
}
