/* One row of an .idx file: needle key, offset, size.
 *
 * 16 bytes: key u64, offset u32, size u32 (big endian).  17 bytes: key u64, low 32 bits of the offset u32, then bits
 * 32..39 of it in one byte, size u32.  Offsets count units of 8 bytes.  Size is the record's Size (whole body);
 * 0xffffffff, any size that is negative as a 32-bit number, or offset 0, deletes the key.
 * This is the one place that encodes or decodes a row.  Pure; any thread. */
#ifndef DFS_NEEDLE_IDX_H
#define DFS_NEEDLE_IDX_H

#include <stdint.h>

#include "needle/bytes.h"
#include "needle/needle.h"

#define IDX_ROW_BYTES_4 16u
#define IDX_ROW_BYTES_5 17u
#define IDX_ROW_BYTES_MAX IDX_ROW_BYTES_5
#define IDX_SIZE_TOMBSTONE 0xffffffffu

/* In units of 8 bytes: cannot be passed as a byte position by mistake. */
struct needle_offset {
    uint64_t units8;
};

static inline struct needle_offset needle_offset_of(uint64_t byte_pos)
{
    return (struct needle_offset){byte_pos / NEEDLE_ALIGN};
}

static inline uint64_t needle_offset_bytes(struct needle_offset o)
{
    return o.units8 * NEEDLE_ALIGN;
}

struct idx_row {
    uint64_t key;
    struct needle_offset offset;
    uint32_t size;
};

/* offset_width is 4 or 5; returns 16 or 17. */
size_t idx_row_bytes(unsigned offset_width);

/* First byte position past the addressable end: 2^32 * 8 or 2^40 * 8. */
uint64_t idx_addressable_end(unsigned offset_width);

/* One row of idx_row_bytes(offset_width) bytes, which encoding returns.  The offset must be addressable in that width. */
size_t idx_row_encode(unsigned offset_width, const struct idx_row *row, uint8_t out[IDX_ROW_BYTES_MAX]);
void idx_row_decode(unsigned offset_width, const uint8_t *in, struct idx_row *out);

static inline bool idx_row_deletes(const struct idx_row *row)
{
    return row->offset.units8 == 0 || (int32_t)row->size < 0;
}

/* Whether a record with that header is what the row points at: the same key, and the same size or a tombstone's. */
bool idx_row_agrees(const struct idx_row *row, const struct needle_header *header);

/* Which width the bytes of an index fit: by length, then by how well the rows tile a .dat of dat_bytes (offsets inside,
 * sizes plausible, records that meet).  Returns 4, 5, or 0 when it cannot be told; a torn or key-sorted index of a few rows
 * may be such a case.  Looks at every row.
 * The .dat has the last word: before trusting a guess, or when there is none, compare a record's header by
 * idx_row_agrees(). */
unsigned idx_guess_width(struct bytes idx, uint8_t version, uint64_t dat_bytes);

#endif
