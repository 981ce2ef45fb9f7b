/* The first eight bytes of a .dat file. */
#include "needle/superblock.h"

#include "needle/err.h"

int superblock_decode(struct bytes buf, struct superblock *out)
{
    const uint8_t *b = (const uint8_t *)buf.p;
    struct superblock sb;
    int rc;

    if (buf.n < SUPERBLOCK_BYTES)
        return DFS_ESHORT;
    sb.version = b[0];
    if (sb.version < NEEDLE_V1 || sb.version > NEEDLE_V3)
        return DFS_EVERSION;
    rc = replica_placement_from_byte(b[1], &sb.placement);
    if (rc != 0)
        return DFS_ECORRUPT;
    sb.ttl = ttl_from_bytes(b + 2);
    sb.compact_revision = be16_get(b + 4);
    sb.extra_bytes = sb.version == NEEDLE_V1 ? 0 : be16_get(b + 6);
    *out = sb;
    return 0;
}

void superblock_encode(const struct superblock *sb, uint8_t out[SUPERBLOCK_BYTES])
{
    out[0] = sb->version;
    out[1] = replica_placement_to_byte(sb->placement);
    ttl_to_bytes(sb->ttl, out + 2);
    be16_put(out + 4, sb->compact_revision);
    be16_put(out + 6, sb->version == NEEDLE_V1 ? 0 : sb->extra_bytes);
}

uint64_t superblock_end(const struct superblock *sb)
{
    return align8_up((uint64_t)SUPERBLOCK_BYTES + (sb->version == NEEDLE_V1 ? 0 : sb->extra_bytes));
}
