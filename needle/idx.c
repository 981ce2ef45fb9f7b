/* Index rows: encode, decode, and telling 16-byte rows from 17-byte rows. */
#include "needle/idx.h"

#include "needle/check.h"

size_t idx_row_bytes(unsigned offset_width)
{
    CHECK(offset_width == 4 || offset_width == 5);
    return offset_width == 4 ? IDX_ROW_BYTES_4 : IDX_ROW_BYTES_5;
}

uint64_t idx_addressable_end(unsigned offset_width)
{
    CHECK(offset_width == 4 || offset_width == 5);
    return (uint64_t)NEEDLE_ALIGN << (8 * offset_width);
}

size_t idx_row_encode(unsigned offset_width, const struct idx_row *row, uint8_t out[IDX_ROW_BYTES_MAX])
{
    uint64_t units8 = row->offset.units8;

    /* A row that wraps would point at another file's bytes. */
    CHECK(units8 < idx_addressable_end(offset_width) / NEEDLE_ALIGN);
    be64_put(out, row->key);
    be32_put(out + 8, (uint32_t)units8);
    if (offset_width == 5)
        out[12] = (uint8_t)(units8 >> 32);
    be32_put(out + 8 + offset_width, row->size);
    return idx_row_bytes(offset_width);
}

bool idx_row_agrees(const struct idx_row *row, const struct needle_header *header)
{
    if (row->key != header->key)
        return false;
    return row->size == header->size || (idx_row_deletes(row) && header->size == 0);
}

void idx_row_decode(unsigned offset_width, const uint8_t *in, struct idx_row *out)
{
    CHECK(offset_width == 4 || offset_width == 5);
    out->key = be64_get(in);
    out->offset.units8 = be32_get(in + 8) | (offset_width == 5 ? (uint64_t)in[12] << 32 : 0);
    out->size = be32_get(in + 8 + offset_width);
}

/* ---- which width? ---- */

/* How an index reads at one width.  "Linked" is what chance does not produce: the record of a row ends exactly where that
 * of another row starts, or at the end of the .dat. */
struct width_fit {
    uint64_t rows;
    uint64_t bad; /* rows that cannot point into this .dat */
    uint64_t linked;
    bool whole; /* no piece of a row is left over */
};

/* Up to so many rows links are looked for in any order, as an index sorted by key needs it; beyond, only to the next row. */
#define LINK_ROWS_MAX 64u

/* From so many rows on, no row pointing nowhere is proof by itself: at the wrong width each row starts one byte further off,
 * so that some row's offset and size are other fields altogether. */
#define PROOF_ROWS_MIN 17u

/* End of the record that a row points at; false when there cannot be one. */
static bool row_end(uint8_t version, const struct idx_row *row, uint64_t dat_bytes, uint64_t *end)
{
    uint64_t from = needle_offset_bytes(row->offset);

    if (row->size > NEEDLE_BODY_MAX && row->size != IDX_SIZE_TOMBSTONE)
        return false;
    *end = from + needle_record_bytes(version, row->size == IDX_SIZE_TOMBSTONE ? 0 : row->size);
    return from >= SUPERBLOCK_BYTES && *end <= dat_bytes;
}

static void row_at(unsigned width, struct bytes idx, uint64_t i, struct idx_row *row)
{
    idx_row_decode(width, (const uint8_t *)idx.p + i * idx_row_bytes(width), row);
}

/* Whether a record other than that of row `self` starts at `end`. */
static bool starts_at(unsigned width, struct bytes idx, uint64_t rows, uint64_t self, uint64_t end)
{
    uint64_t first = rows <= LINK_ROWS_MAX ? 0 : self + 1;
    uint64_t last = rows <= LINK_ROWS_MAX || self + 2 > rows ? rows : self + 2;

    for (uint64_t i = first; i < last; i++) {
        struct idx_row row;
        row_at(width, idx, i, &row);
        if (i != self && needle_offset_bytes(row.offset) == end)
            return true;
    }
    return false;
}

static struct width_fit fit_of(unsigned width, struct bytes idx, uint8_t version, uint64_t dat_bytes)
{
    size_t step = idx_row_bytes(width);
    struct width_fit fit = {.rows = idx.n / step, .whole = idx.n % step == 0};

    for (uint64_t i = 0; i < fit.rows; i++) {
        struct idx_row row;
        uint64_t end;

        row_at(width, idx, i, &row);
        if (row.offset.units8 == 0 && row.size == IDX_SIZE_TOMBSTONE)
            continue; /* says nothing about the .dat */
        if (!row_end(version, &row, dat_bytes, &end)) {
            fit.bad++;
            continue;
        }
        /* A lone row of size 0 at the end is no proof: the high bytes of a small size read as 0 too. */
        if (end == dat_bytes ? fit.rows > 1 || row.size != 0 : starts_at(width, idx, fit.rows, i, end))
            fit.linked++;
    }
    return fit;
}

/* A reading that the facts allow.  A few rows may point nowhere (torn tail, stale rows), when links outweigh them. */
static bool possible(const struct width_fit *fit)
{
    if (fit->whole && fit->bad == 0 && fit->rows > 0)
        return fit->linked > 0 || fit->rows >= PROOF_ROWS_MIN;
    return fit->bad <= fit->rows / 8 + 1 && fit->linked >= 2 && fit->linked * 2 >= fit->rows;
}

/* Whether `a` is so much the better reading that `b` may be ruled out. */
static bool beats(const struct width_fit *a, const struct width_fit *b)
{
    if (!possible(a))
        return false;
    if (!possible(b))
        return true;
    /* Both can be read: only many more links decide. */
    return a->whole && a->linked >= 2 && a->linked > 4 * b->linked;
}

unsigned idx_guess_width(struct bytes idx, uint8_t version, uint64_t dat_bytes)
{
    struct width_fit four = fit_of(4, idx, version, dat_bytes);
    struct width_fit five = fit_of(5, idx, version, dat_bytes);

    if (beats(&four, &five))
        return 4;
    if (beats(&five, &four))
        return 5;
    return 0;
}
