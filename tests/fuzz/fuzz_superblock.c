/* The first bytes of a .dat file: what decodes encodes back. */
#include "needle/check.h"
#include "needle/err.h"
#include "needle/superblock.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct superblock sb, again;
    uint8_t out[SUPERBLOCK_BYTES];
    int rc = superblock_decode(bytes_of(data, size), &sb);

    CHECK((rc == DFS_ESHORT) == (size < SUPERBLOCK_BYTES));
    if (rc != 0)
        return 0;
    CHECK(superblock_end(&sb) >= SUPERBLOCK_BYTES && superblock_end(&sb) % NEEDLE_ALIGN == 0);
    superblock_encode(&sb, out);
    CHECK(superblock_decode(bytes_of(out, sizeof out), &again) == 0);
    CHECK(again.version == sb.version && again.compact_revision == sb.compact_revision);
    CHECK(again.extra_bytes == sb.extra_bytes && ttl_to_u32(again.ttl) == ttl_to_u32(sb.ttl));
    CHECK(replica_placement_to_byte(again.placement) == replica_placement_to_byte(sb.placement));
    CHECK(out[0] == data[0] && out[1] == data[1] && out[4] == data[4] && out[5] == data[5]);
    return 0;
}
