/* Writes a volume of small files for the start-up test: `make_volume PATH_WITHOUT_EXTENSION COUNT` makes .dat and .idx.
 * Keys are spread as they are when several volumes share one sequence. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "needle/crc.h"
#include "needle/idx.h"
#include "needle/needle.h"
#include "needle/superblock.h"

#define FIRST_KEY 1000u
#define KEY_STEP 7u
#define DATA_BYTES 24u
#define FIRST_TIME_NS 1700000000000000000ull

static FILE *open_part(const char *base, const char *extension)
{
    char path[4096];
    FILE *f;

    snprintf(path, sizeof path, "%s%s", base, extension);
    f = fopen(path, "wb");
    if (f == NULL) {
        perror(path);
        exit(1);
    }
    return f;
}

/* Appends one record; returns its length. */
static uint64_t write_record(FILE *dat, uint64_t i, struct needle *n)
{
    uint8_t head[NEEDLE_HEADER_BYTES + 4], trail[NEEDLE_TRAILER_MAX], data[DATA_BYTES];
    size_t head_bytes, trail_bytes;

    memset(data, (int)(i & 0xff), sizeof data);
    *n = (struct needle){.cookie = (uint32_t)(i * 2654435761u) | 1u, .key = FIRST_KEY + i * KEY_STEP, .data_bytes = DATA_BYTES,
                         .append_at_ns = FIRST_TIME_NS + i};
    n->checksum = needle_checksum_for(NEEDLE_V3, crc32c(0, data, sizeof data));
    if (needle_body_bytes(NEEDLE_V3, n, &n->body_bytes) != 0)
        abort();
    head_bytes = needle_encode_head(NEEDLE_V3, n, head);
    trail_bytes = needle_encode_trail(NEEDLE_V3, n, trail);
    fwrite(head, 1, head_bytes, dat);
    fwrite(data, 1, sizeof data, dat);
    fwrite(trail, 1, trail_bytes, dat);
    return head_bytes + sizeof data + trail_bytes;
}

int main(int argc, char **argv)
{
    struct superblock sb = {.version = NEEDLE_V3};
    uint8_t block[SUPERBLOCK_BYTES], row[IDX_ROW_BYTES_MAX];
    uint64_t count = argc == 3 ? strtoull(argv[2], NULL, 10) : 0, at = SUPERBLOCK_BYTES;
    FILE *dat, *idx;

    if (count == 0) {
        fprintf(stderr, "usage: make_volume PATH_WITHOUT_EXTENSION COUNT\n");
        return 2;
    }
    dat = open_part(argv[1], ".dat");
    idx = open_part(argv[1], ".idx");
    superblock_encode(&sb, block);
    fwrite(block, 1, sizeof block, dat);
    for (uint64_t i = 0; i < count; i++) {
        struct needle n;
        uint64_t offset = at;

        at += write_record(dat, i, &n);
        struct idx_row r = {.key = n.key, .offset = needle_offset_of(offset), .size = n.body_bytes};
        fwrite(row, 1, idx_row_encode(5, &r, row), idx);
    }
    if (fclose(dat) != 0 || fclose(idx) != 0) {
        perror("make_volume");
        return 1;
    }
    return 0;
}
