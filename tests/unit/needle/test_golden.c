/* Volumes written by SeaweedFS 4.48 and 0.76, read by our scanner and compared field by field with what an independent
 * reader found in them (tests/golden/records.py); and their indexes against their records. */
#include "needle_test.h"

#include "needle/idx.h"
#include "needle/needle_scan.h"
#include "needle/superblock.h"

struct golden {
    const char *path; /* below tests/fixtures/volumes, without .dat */
    uint8_t version;
    unsigned offset_width;
    bool torn;     /* the last record passes the end */
    unsigned bad;  /* records whose checksum does not hold */
    unsigned stale; /* rows that point at a record that does not end inside the .dat */
};

static const struct golden goldens[] = {
    {"mixed/2", 3, 5, false, 0, 0},        {"deleted/5", 3, 5, false, 0, 0},     {"vacuumed/1", 3, 5, false, 0, 0},
    {"gzip/3", 3, 5, false, 0, 0},         {"pairs/4", 3, 5, false, 0, 0},       {"ttl-8y/7", 3, 5, false, 0, 0},
    {"collection/photos_6", 3, 5, false, 0, 0}, {"torn-tail/14", 3, 5, true, 0, 1}, {"flipped-byte/17", 3, 5, false, 1, 0},
    {"v2-mixed/4", 2, 4, false, 0, 0},     {"v2-vacuumed/3", 2, 4, false, 0, 0}, {"v2-ttl/5", 2, 4, false, 0, 0},
};

static struct bytes golden_file(const char *path, const char *suffix)
{
    char full[256];

    snprintf(full, sizeof full, "tests/fixtures/volumes/%s%s", path, suffix);
    return read_file(full);
}

static void free_bytes(struct bytes b)
{
    free((void *)(uintptr_t)b.p);
}

static void format_text(bool present, struct bytes text, char *out)
{
    if (!present || text.n == 0) {
        strcpy(out, present ? "empty" : "-");
        return;
    }
    for (size_t i = 0; i < text.n; i++)
        sprintf(out + 2 * i, "%02x", (uint8_t)text.p[i]);
}

/* The line that records.py writes for a record. */
static void format_record(uint64_t pos, const struct needle_scan_item *item, const struct needle *n, struct bytes data,
                          char *out)
{
    static char name[600], mime[600], pairs[140000];
    char ttl[5] = "-";
    bool bad = item->kind == NEEDLE_SCAN_BAD_DATA;

    format_text((n->flags & NEEDLE_HAS_NAME) != 0, n->name, name);
    format_text((n->flags & NEEDLE_HAS_MIME) != 0, n->mime, mime);
    format_text((n->flags & NEEDLE_HAS_PAIRS) != 0, n->pairs, pairs);
    if ((n->flags & NEEDLE_HAS_TTL) != 0)
        snprintf(ttl, sizeof ttl, "%04x", ttl_to_u32(n->ttl));
    sprintf(out, "%llu %llx %08x %u %u %08x%s %02x %llu %s %llu %s %s %s\n", (unsigned long long)pos,
            (unsigned long long)n->key, n->cookie, n->body_bytes, n->data_bytes, bad ? 0 : crc32c(0, data.p, data.n),
            bad ? "/BAD" : "", n->flags, (unsigned long long)n->last_modified_s, ttl, (unsigned long long)n->append_at_ns,
            name, mime, pairs);
}

/* What records.py found in it. */
static struct bytes wanted_of(const struct golden *g)
{
    char path[256];

    snprintf(path, sizeof path, "tests/golden/%s", g->path);
    strcpy(strrchr(path, '/'), "/records.txt");
    return read_file(path);
}

/* Take the line that `line` starts; fails when it is another. */
static void take_line(const struct golden *g, struct bytes *rest, const char *line)
{
    size_t n = strlen(line);

    if (rest->n < n || memcmp(rest->p, line, n) != 0)
        fail_msg("%s: read\n%swanted\n%.*s", g->path, line, (int)(rest->n < 300 ? rest->n : 300), rest->p);
    rest->p += n;
    rest->n -= n;
}

static void records_of(const struct golden *g)
{
    static char line[150000];
    struct bytes dat = golden_file(g->path, ".dat"), wanted = wanted_of(g), rest = wanted;
    struct superblock sb;
    unsigned bad = 0;
    bool torn = false;
    uint64_t pos;

    assert_int_equal(superblock_decode(dat, &sb), 0);
    assert_int_equal(sb.version, g->version);
    pos = superblock_end(&sb);
    assert_int_equal(pos, 8);
    while (pos < dat.n && !torn) {
        struct needle_scan_item item;
        needle_scan_step(sb.version, bytes_of(dat.p + pos, dat.n - pos), pos, dat.n, &item);
        if (item.kind == NEEDLE_SCAN_GARBAGE) {
            torn = true;
            assert_true(item.torn);
            snprintf(line, sizeof line, "%llu torn\n", (unsigned long long)pos);
        } else {
            struct needle n;
            struct bytes data;
            assert_true(item.kind == NEEDLE_SCAN_RECORD || item.kind == NEEDLE_SCAN_BAD_DATA);
            bad += item.kind == NEEDLE_SCAN_BAD_DATA;
            assert_int_equal(needle_decode(sb.version, bytes_of(dat.p + pos, dat.n - pos), &n, &data), 0);
            format_record(pos, &item, &n, data, line);
        }
        take_line(g, &rest, line);
        pos += torn ? 0 : item.record_bytes;
    }
    assert_int_equal(rest.n, 0);
    assert_int_equal(torn, g->torn);
    assert_int_equal(bad, g->bad);
    assert_true(torn || pos == dat.n);
    free_bytes(dat);
    free_bytes(wanted);
}

static void records(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(goldens); i++)
        records_of(&goldens[i]);
}

/* Every good record encodes to the bytes that the peer wrote, but for the padding, which is theirs to choose. */
static void records_encode_back(void **state)
{
    static uint8_t out[1 << 20];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(goldens); i++) {
        struct bytes dat = golden_file(goldens[i].path, ".dat");
        uint8_t version = goldens[i].version;
        for (uint64_t pos = 8; pos < dat.n;) {
            struct needle_scan_item item;
            size_t used;
            needle_scan_step(version, bytes_of(dat.p + pos, dat.n - pos), pos, dat.n, &item);
            if (item.kind == NEEDLE_SCAN_GARBAGE)
                break;
            used = 16 + item.header.size + 4u + (version == NEEDLE_V3 ? 8u : 0u);
            if (item.kind == NEEDLE_SCAN_RECORD) {
                assert_int_equal(put_record(version, &item.needle, item.data, out), item.record_bytes);
                assert_memory_equal(out, dat.p + pos, used);
                if (item.header.size != 0 && version == NEEDLE_V3)
                    assert_int_equal(item.needle.checksum, crc32c(0, item.data.p, item.data.n));
                if (item.header.size != 0 && version == NEEDLE_V2)
                    assert_int_equal(item.needle.checksum, crc32c_mask(crc32c(0, item.data.p, item.data.n)));
            }
            pos += item.record_bytes;
        }
        free_bytes(dat);
    }
}

/* The rows point at records of the same key and size. */
static void indexes_agree(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(goldens); i++) {
        const struct golden *g = &goldens[i];
        struct bytes dat = golden_file(g->path, ".dat"), idx = golden_file(g->path, ".idx");
        size_t step = idx_row_bytes(g->offset_width);
        unsigned stale = 0;
        assert_int_equal(idx.n % step, 0);
        assert_int_equal(idx_guess_width(idx, g->version, dat.n), g->offset_width);
        for (size_t at = 0; at < idx.n; at += step) {
            struct needle_header h;
            struct idx_row row;
            uint64_t from;
            idx_row_decode(g->offset_width, (const uint8_t *)idx.p + at, &row);
            from = needle_offset_bytes(row.offset);
            assert_true(from >= 8 && from + 16 <= dat.n);
            needle_header_decode((const uint8_t *)dat.p + from, &h);
            assert_true(idx_row_agrees(&row, &h));
            stale += from + needle_record_bytes(g->version, h.size) > dat.n;
            row.key++;
            assert_false(idx_row_agrees(&row, &h));
        }
        assert_int_equal(stale, g->stale);
        free_bytes(dat);
        free_bytes(idx);
    }
}

/* The reading rule for records of Size 0, tried without the index, gives what the index says. */
static void empties_are_told_from_tombstones(void **state)
{
    unsigned tombstones = 0, empties = 0;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(goldens); i++) {
        const struct golden *g = &goldens[i];
        struct bytes dat = golden_file(g->path, ".dat"), idx = golden_file(g->path, ".idx");
        size_t step = idx_row_bytes(g->offset_width);
        for (size_t at = 0; at < idx.n; at += step) {
            struct needle n, earlier = {.key = 0};
            struct bytes data;
            struct idx_row row, before;
            bool has_earlier = false, live_empty = false;
            uint64_t from;
            idx_row_decode(g->offset_width, (const uint8_t *)idx.p + at, &row);
            from = needle_offset_bytes(row.offset);
            if (needle_decode(g->version, bytes_of(dat.p + from, dat.n - from), &n, &data) != 0 || n.body_bytes != 0)
                continue;
            for (size_t k = 0; k < at; k += step) {
                idx_row_decode(g->offset_width, (const uint8_t *)idx.p + k, &before);
                if (before.key != row.key)
                    continue;
                from = needle_offset_bytes(before.offset);
                assert_int_equal(needle_decode(g->version, bytes_of(dat.p + from, dat.n - from), &earlier, &data), 0);
                has_earlier = true;
                live_empty = before.size == 0;
            }
            assert_int_equal(needle_looks_deleted(&n, has_earlier, earlier.cookie, live_empty), idx_row_deletes(&row));
            tombstones += idx_row_deletes(&row);
            empties += !idx_row_deletes(&row);
        }
        free_bytes(dat);
        free_bytes(idx);
    }
    assert_int_equal(tombstones, 7);
    assert_int_equal(empties, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records),
        cmocka_unit_test(records_encode_back),
        cmocka_unit_test(indexes_agree),
        cmocka_unit_test(empties_are_told_from_tombstones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
