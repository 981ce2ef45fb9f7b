/* CRC-32C (Castagnoli) as records carry it.
 *
 * Version 3 stores the CRC as it is, versions 1 and 2 in the masked form: rotated right by 15, plus 0xa282ead8.  ETags
 * are always the unmasked value.  A reader accepts either form whatever the version.  Pure; any thread. */
#ifndef DFS_NEEDLE_CRC_H
#define DFS_NEEDLE_CRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Continue `crc` (0 to start) over n more bytes.  crc32c(crc32c(0, a), b) == crc32c(0, ab). */
uint32_t crc32c(uint32_t crc, const void *p, size_t n);

/* The same by tables alone, on any machine: what crc32c() is when libisal was not there, and what it is tested against. */
uint32_t crc32c_portable(uint32_t crc, const void *p, size_t n);

/* Continue `crc` over n zero bytes that need not exist, in about log2(n) steps. */
uint32_t crc32c_zeros(uint32_t crc, uint64_t n);

/* The CRC of a then b from the CRCs of each; b is b_bytes long. */
uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t b_bytes);

/* As v1 and v2 records store it: rotated by 15 bits, plus a constant; and back. */
uint32_t crc32c_mask(uint32_t crc);
uint32_t crc32c_unmask(uint32_t masked);

/* Whether the stored value is `crc` in either form. */
bool crc32c_matches(uint32_t stored, uint32_t crc);

#endif
