/* Index rows: first 8 bytes the .dat's length and version, the rest an .idx; rows of both widths encode back. */
#include "needle/check.h"
#include "needle/idx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_rows(unsigned width, const uint8_t *data, size_t size)
{
    size_t step = idx_row_bytes(width);

    for (size_t at = 0; at + step <= size; at += step) {
        uint8_t out[IDX_ROW_BYTES_MAX];
        struct idx_row row;
        idx_row_decode(width, data + at, &row);
        CHECK(needle_offset_bytes(row.offset) < idx_addressable_end(width));
        CHECK(idx_row_encode(width, &row, out) == step && memcmp(out, data + at, step) == 0);
        if (row.offset.units8 == 0 || row.size == IDX_SIZE_TOMBSTONE)
            CHECK(idx_row_deletes(&row));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned guess;
    uint64_t v;

    if (size < 8)
        return 0;
    v = be64_get(data);
    data += 8;
    size -= 8;
    check_rows(4, data, size);
    check_rows(5, data, size);
    guess = idx_guess_width(bytes_of(data, size), (uint8_t)(1 + v % 3), v >> 20);
    CHECK(guess == 0 || guess == 4 || guess == 5);
    CHECK(guess == 0 || size >= idx_row_bytes(guess));
    return 0;
}
