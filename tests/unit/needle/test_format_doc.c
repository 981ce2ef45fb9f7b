/* needle/FORMAT.md: its dumps are taken out of the page, decoded, and must say what the page says about them. */
#include "needle_test.h"

#include <ctype.h>

#include "needle/idx.h"
#include "needle/needle_scan.h"

#define DUMP_MAX 512

/* The bytes of the block that opens with ```<title>.  Each line's address must be that of its first byte. */
static size_t dump_of(const char *page, const char *title, uint8_t *out)
{
    char opening[40];
    const char *line;
    size_t n = 0;

    snprintf(opening, sizeof opening, "```%s\n", title);
    line = strstr(page, opening);
    if (line == NULL)
        fail_msg("needle/FORMAT.md has no block '%s'", title);
    for (line += strlen(opening); strncmp(line, "```", 3) != 0; line = strchr(line, '\n') + 1) {
        const char *p = line + 9;
        assert_int_equal(strtoul(line, NULL, 16), n);
        assert_int_equal(line[8], ':');
        assert_true(n % 16 == 0);
        while (*p != '\n') {
            unsigned byte;
            if (*p == ' ') {
                p++;
                continue;
            }
            assert_true(isxdigit((unsigned char)p[0]) && isxdigit((unsigned char)p[1]) && n < DUMP_MAX);
            assert_int_equal(sscanf(p, "%2x", &byte), 1);
            out[n++] = (uint8_t)byte;
            p += 2;
        }
    }
    return n;
}

static char *page_text(void)
{
    struct bytes page = read_file("needle/FORMAT.md");
    char *text = must_alloc(page.n + 1);

    memcpy(text, page.p, page.n);
    text[page.n] = '\0';
    free((void *)(uintptr_t)page.p);
    return text;
}

struct expected {
    const char *dat, *idx;
    uint8_t version;
    unsigned width;
    uint32_t cookie;
    uint64_t key;
    uint32_t size, data_bytes, crc;
    uint8_t flags;
    uint64_t last_modified_s, first_ns, second_ns;
    uint64_t second_at;
};

static const struct expected volumes[] = {
    {"dat v3", "idx v3 5", NEEDLE_V3, 5, 0xbd7a017f, 0x0d, 0x27, 12, 0xf0ff7292, 0x0e, 0x6b0dad46, 0x18ece1a23b262c67,
     0x18ece1a25ab35a2d, 0x50},
    {"dat v2", "idx v2 4", NEEDLE_V2, 4, 0xc5f61f6b, 0x0b, 0x3f, 36, 0x44606d7d, 0x0f, 0x6b0daea9, 0, 0, 0x60},
};

static void dats_decode(void **state)
{
    char *page = page_text();

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(volumes); i++) {
        const struct expected *e = &volumes[i];
        uint8_t dat[DUMP_MAX];
        size_t n = dump_of(page, e->dat, dat);
        struct needle_scan_item file, gone;
        struct superblock sb;
        assert_int_equal(superblock_decode(bytes_of(dat, n), &sb), 0);
        assert_int_equal(sb.version, e->version);
        assert_true(ttl_is_none(sb.ttl));
        assert_int_equal(replica_placement_to_byte(sb.placement), 0);
        assert_int_equal(superblock_end(&sb), 8);
        needle_scan_step(e->version, bytes_of(dat + 8, n - 8), 8, n, &file);
        assert_int_equal(file.kind, NEEDLE_SCAN_RECORD);
        assert_int_equal(8 + file.record_bytes, e->second_at);
        assert_int_equal(file.header.cookie, e->cookie);
        assert_true(file.header.key == e->key);
        assert_int_equal(file.header.size, e->size);
        assert_int_equal(file.data.n, e->data_bytes);
        assert_int_equal(crc32c(0, file.data.p, file.data.n), e->crc);
        assert_int_equal(file.needle.checksum, needle_checksum_for(e->version, e->crc));
        assert_int_equal(file.needle.flags, e->flags);
        assert_true(bytes_eq(file.needle.name, BYTES_LIT("h.txt")));
        assert_true(bytes_eq(file.needle.mime, BYTES_LIT("text/plain")));
        assert_true(file.needle.last_modified_s == e->last_modified_s);
        assert_true(file.needle.append_at_ns == e->first_ns);
        if ((e->flags & NEEDLE_COMPRESSED) == 0)
            assert_true(bytes_eq(file.data, BYTES_LIT("hello world\n")));
        needle_scan_step(e->version, bytes_of(dat + e->second_at, n - e->second_at), e->second_at, n, &gone);
        assert_int_equal(gone.kind, NEEDLE_SCAN_RECORD);
        assert_int_equal(e->second_at + gone.record_bytes, n);
        assert_int_equal(gone.header.size, 0);
        assert_true(gone.header.key == e->key && gone.header.cookie == e->cookie);
        assert_int_equal(gone.needle.checksum, file.needle.checksum);
        assert_true(gone.needle.append_at_ns == e->second_ns);
        assert_true(needle_looks_deleted(&gone.needle, true, e->cookie, false));
    }
    free(page);
}

static void indexes_decode(void **state)
{
    char *page = page_text();

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(volumes); i++) {
        const struct expected *e = &volumes[i];
        uint8_t dat[DUMP_MAX], idx[DUMP_MAX];
        size_t dat_n = dump_of(page, e->dat, dat), n = dump_of(page, e->idx, idx);
        struct idx_row row;
        assert_int_equal(n, 2 * idx_row_bytes(e->width));
        assert_int_equal(idx_guess_width(bytes_of(idx, n), e->version, dat_n), e->width);
        idx_row_decode(e->width, idx, &row);
        assert_true(row.key == e->key && needle_offset_bytes(row.offset) == 8);
        assert_int_equal(row.size, e->size);
        assert_false(idx_row_deletes(&row));
        idx_row_decode(e->width, idx + n / 2, &row);
        assert_true(row.key == e->key && needle_offset_bytes(row.offset) == e->second_at);
        assert_int_equal(row.size, IDX_SIZE_TOMBSTONE);
        assert_true(idx_row_deletes(&row));
    }
    free(page);
}

/* Numbers that the text states. */
static void figures_hold(void **state)
{
    char *page = page_text();

    (void)state;
    assert_non_null(strstr(page, "the CRC is e3069283, masked c78ab0e5"));
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c_mask(0xe3069283), 0xc78ab0e5);
    assert_non_null(strstr(page, "masked 0xa282ead8"));
    assert_int_equal(crc32c_mask(0), 0xa282ead8);
    assert_non_null(strstr(page, "reach 32 GiB, rows of 17 bytes 8 TiB"));
    assert_true(idx_addressable_end(4) == 32ull << 30 && idx_addressable_end(5) == 8ull << 40);
    assert_non_null(strstr(page, "month of 30 days, 6 year of 365 days"));
    assert_int_equal(ttl_minutes((struct ttl){1, TTL_MONTH}), 30 * 1440);
    assert_int_equal(ttl_minutes((struct ttl){1, TTL_YEAR}), 365 * 1440);
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dats_decode),
        cmocka_unit_test(indexes_decode),
        cmocka_unit_test(figures_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
