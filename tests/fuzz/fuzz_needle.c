/* Records and scanner: first byte the version, the rest a .dat from its first record on.
 * Walks it as a loader does, and holds the scanner to its word. */
#include <stdlib.h>

#include "needle/check.h"
#include "needle/crc.h"
#include "needle/needle_scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Read every byte that a view claims, so that a view too long is seen. */
static unsigned touch(struct bytes b)
{
    unsigned sum = 0;

    for (size_t i = 0; i < b.n; i++)
        sum += (uint8_t)b.p[i];
    return sum;
}

static void use(unsigned sum)
{
    __asm__ volatile("" : : "r"(sum));
}

/* A record that holds encodes again to a record that decodes to the same. */
static void check_record(uint8_t version, const struct needle_scan_item *item)
{
    struct needle n = item->needle;
    static uint8_t trail[NEEDLE_TRAILER_MAX];
    uint8_t head[NEEDLE_HEADER_BYTES + 4];
    struct needle again;
    uint32_t body_bytes;
    size_t head_bytes, trail_bytes;

    use(touch(item->data) + touch(n.name) + touch(n.mime) + touch(n.pairs));
    CHECK(n.body_bytes == 0 || crc32c_matches(n.checksum, crc32c(0, item->data.p, item->data.n)));
    CHECK(n.name.n <= NEEDLE_NAME_MAX && n.mime.n <= NEEDLE_MIME_MAX && n.pairs.n <= NEEDLE_PAIRS_MAX);
    if (n.data_bytes == 0)
        n.body_bytes = 0; /* with nothing in it no body is written, whatever fields there were */
    else if (needle_body_bytes(version, &n, &body_bytes) == 0)
        n.body_bytes = body_bytes; /* less than before when bytes of no field followed */
    head_bytes = needle_encode_head(version, &n, head);
    trail_bytes = needle_encode_trail(version, &n, trail);
    CHECK(head_bytes + n.data_bytes + trail_bytes == needle_record_bytes(version, n.body_bytes));
    CHECK(needle_decode_split(version, bytes_of(head, head_bytes), bytes_of(trail, trail_bytes), &again) == 0);
    CHECK(again.cookie == n.cookie && again.key == n.key && again.data_bytes == n.data_bytes);
    if (n.body_bytes != 0)
        CHECK(again.flags == n.flags && bytes_eq(again.name, n.name) && bytes_eq(again.mime, n.mime) &&
              bytes_eq(again.pairs, n.pairs) && again.last_modified_s == n.last_modified_s);
    use(needle_looks_deleted(&n, true, 7, false) + needle_expired(version, &n, 1) + needle_is_filler(&item->header));
}

/* The front of the file seen through a window of any length asks for more or says the same. */
static void check_windows(uint8_t version, struct bytes window, uint64_t pos, uint64_t end,
                          const struct needle_scan_item *whole)
{
    for (size_t n = 0; n < window.n && n < 80; n++) {
        struct needle_scan_item item;
        needle_scan_step(version, bytes_of(window.p, n), pos, end, &item);
        if (item.kind == NEEDLE_SCAN_MORE)
            CHECK(item.record_bytes > n && pos + item.record_bytes <= end);
        else
            CHECK(item.kind == whole->kind);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t version = size > 0 ? (uint8_t)(1 + data[0] % 3) : 1;
    struct bytes file = bytes_of(data + (size > 0), size - (size > 0));
    const uint64_t end = 8 + file.n;
    struct needle_resync r;
    size_t at = 0;

    needle_resync_init(&r, end);
    while (at < file.n) {
        struct bytes window = bytes_of(file.p + at, file.n - at);
        struct needle_scan_item item;
        size_t found, resume;

        needle_resync_step(&r, version, window, 8 + at, end, &item);
        CHECK(item.kind != NEEDLE_SCAN_MORE);
        if (r.skipped == 0)
            check_windows(version, window, 8 + at, end, &item);
        if (item.kind == NEEDLE_SCAN_RECORD) {
            check_record(version, &item);
            CHECK(item.record_bytes % NEEDLE_ALIGN == 0 && item.record_bytes <= window.n);
            at += item.record_bytes;
            continue;
        }
        if (window.n <= 8 || !needle_resync_next(&r, version, window, 8, 8 + at, end, &found, &resume))
            break;
        CHECK(found >= 8 && found % 8 == 0 && found < window.n);
        needle_resync_step(NULL, version, bytes_of(window.p + found, window.n - found), 8 + at + found, end, &item);
        CHECK(item.kind == NEEDLE_SCAN_RECORD);
        at += found;
    }
    return 0;
}
