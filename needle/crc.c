/* CRC-32C: libisal where it was found at build time, else eight tables.  -DDFS_NO_ISAL forces the tables. */
#include "needle/crc.h"

#include <pthread.h>

#include "needle/bytes.h"

#if !defined(DFS_NO_ISAL) && (defined(__x86_64__) || defined(__aarch64__)) && defined(__has_include)
#if __has_include(<isa-l/crc.h>)
#define HAVE_ISAL 1
#include <isa-l/crc.h>
#endif
#endif

#define POLY_REFLECTED 0x82f63b78u
#define MASK_DELTA 0xa282ead8u

/* table[k][b]: the effect of byte b followed by k zero bytes. */
static uint32_t table[8][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void table_fill(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t c = b;
        for (int bit = 0; bit < 8; bit++)
            c = (c >> 1) ^ ((c & 1) != 0 ? POLY_REFLECTED : 0);
        table[0][b] = c;
    }
    for (uint32_t b = 0; b < 256; b++)
        for (int k = 1; k < 8; k++)
            table[k][b] = (table[k - 1][b] >> 8) ^ table[0][table[k - 1][b] & 0xff];
}

uint32_t crc32c_portable(uint32_t crc, const void *p, size_t n)
{
    const uint8_t *b = p;
    uint32_t c = ~crc;

    pthread_once(&table_once, table_fill);
    for (; n >= 8; n -= 8, b += 8) {
        uint64_t w;
        memcpy(&w, b, sizeof w);
        w ^= c;
        c = table[7][w & 0xff] ^ table[6][(w >> 8) & 0xff] ^ table[5][(w >> 16) & 0xff] ^ table[4][(w >> 24) & 0xff] ^
            table[3][(w >> 32) & 0xff] ^ table[2][(w >> 40) & 0xff] ^ table[1][(w >> 48) & 0xff] ^ table[0][w >> 56];
    }
    for (; n > 0; n--, b++)
        c = (c >> 8) ^ table[0][(c ^ *b) & 0xff];
    return ~c;
}

#ifdef HAVE_ISAL

/* crc32_iscsi() takes its length as an int and leaves the two inversions to the caller. */
#define ISAL_PIECE_MAX ((size_t)1 << 30)

uint32_t crc32c(uint32_t crc, const void *p, size_t n)
{
    unsigned char *b = (unsigned char *)(uintptr_t)p; /* not const there, yet only read */
    uint32_t c = ~crc;

    while (n > 0) {
        size_t piece = n < ISAL_PIECE_MAX ? n : ISAL_PIECE_MAX;
        c = crc32_iscsi(b, (int)piece, c);
        b += piece;
        n -= piece;
    }
    return ~c;
}

#else

uint32_t crc32c(uint32_t crc, const void *p, size_t n)
{
    return crc32c_portable(crc, p, n);
}

#endif

/* The product of two polynomials modulo the CRC's, both with x^0 in the top bit. */
static uint32_t poly_mul(uint32_t a, uint32_t b)
{
    uint32_t product = 0;

    for (uint32_t bit = 0x80000000u; bit != 0; bit >>= 1) {
        if ((a & bit) != 0)
            product ^= b;
        b = (b >> 1) ^ ((b & 1) != 0 ? POLY_REFLECTED : 0);
    }
    return product;
}

/* x^(8n) modulo the polynomial: what n more bytes multiply a CRC register by. */
static uint32_t poly_x8n(uint64_t n)
{
    uint32_t power = 0x80000000u;  /* x^0 */
    uint32_t square = 0x00800000u; /* x^8 */

    for (; n != 0; n >>= 1) {
        if ((n & 1) != 0)
            power = poly_mul(power, square);
        square = poly_mul(square, square);
    }
    return power;
}

uint32_t crc32c_zeros(uint32_t crc, uint64_t n)
{
    return ~poly_mul(~crc, poly_x8n(n));
}

uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t b_bytes)
{
    return poly_mul(crc_a, poly_x8n(b_bytes)) ^ crc_b;
}

uint32_t crc32c_mask(uint32_t crc)
{
    return ((crc >> 15) | (crc << 17)) + MASK_DELTA;
}

uint32_t crc32c_unmask(uint32_t masked)
{
    uint32_t r = masked - MASK_DELTA;
    return (r << 15) | (r >> 17);
}

bool crc32c_matches(uint32_t stored, uint32_t crc)
{
    return stored == crc || stored == crc32c_mask(crc);
}
