/* Replica placement "xyz": copies in other data centers, in other racks, on other servers of the rack.
 * On disk one byte, x*100 + y*10 + z.  Pure; any thread. */
#ifndef DFS_NEEDLE_REPLICA_PLACEMENT_H
#define DFS_NEEDLE_REPLICA_PLACEMENT_H

#include <stdint.h>

#include "needle/bytes.h"

struct replica_placement {
    uint8_t other_data_centers; /* x */
    uint8_t other_racks;        /* y */
    uint8_t same_rack;          /* z */
};

/* "" -> 000; shorter texts are padded with zeros on the left; three digits whose byte is at most 255; else DFS_EINVAL. */
int replica_placement_parse(struct bytes text, struct replica_placement *out);
int replica_placement_from_byte(uint8_t b, struct replica_placement *out);
uint8_t replica_placement_to_byte(struct replica_placement rp);

/* "001" and a closing zero. */
void replica_placement_format(struct replica_placement rp, char out[4]);

/* 1 + x + y + z. */
unsigned replica_placement_copies(struct replica_placement rp);

#endif
