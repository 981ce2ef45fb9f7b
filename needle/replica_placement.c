/* Replica placement: three digits as text, one byte on disk. */
#include "needle/replica_placement.h"

#include "needle/err.h"

int replica_placement_parse(struct bytes text, struct replica_placement *out)
{
    unsigned v = 0;

    if (text.n > 3)
        return DFS_EINVAL;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return DFS_EINVAL;
        v = v * 10 + (unsigned)(text.p[i] - '0');
    }
    if (v > UINT8_MAX)
        return DFS_EINVAL;
    return replica_placement_from_byte((uint8_t)v, out);
}

int replica_placement_from_byte(uint8_t b, struct replica_placement *out)
{
    /* Every byte names one, 255 being two data centers, five racks, five servers. */
    *out = (struct replica_placement){(uint8_t)(b / 100), (uint8_t)(b / 10 % 10), (uint8_t)(b % 10)};
    return 0;
}

uint8_t replica_placement_to_byte(struct replica_placement rp)
{
    return (uint8_t)(rp.other_data_centers * 100 + rp.other_racks * 10 + rp.same_rack);
}

void replica_placement_format(struct replica_placement rp, char out[4])
{
    out[0] = (char)('0' + rp.other_data_centers % 10);
    out[1] = (char)('0' + rp.other_racks % 10);
    out[2] = (char)('0' + rp.same_rack % 10);
    out[3] = '\0';
}

unsigned replica_placement_copies(struct replica_placement rp)
{
    return 1u + rp.other_data_centers + rp.other_racks + rp.same_rack;
}
