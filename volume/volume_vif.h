/* The volume info file B.vif: JSON beside a volume, shared with the peer.
 *
 * It says how wide the offsets of the .idx are, whether an operator marked the volume read-only, and may name another replica
 * placement than the superblock.  64-bit numbers are texts in it.  A missing or empty file is as good as one of defaults; keys
 * that we do not know are ignored when reading and kept when writing.  Loader and maintenance threads. */
#ifndef DFS_VOLUME_VOLUME_VIF_H
#define DFS_VOLUME_VOLUME_VIF_H

#include <stdbool.h>
#include <stdint.h>

#include "needle/bytes.h"

/* A file over this is not one of ours. */
#define VOLUME_VIF_BYTES_MAX (1u << 20)

struct volume_vif {
    bool present;             /* the file was there and not empty */
    uint8_t version;          /* of the superblock; 0 = not said */
    char replication[8];      /* "" = as the superblock says */
    unsigned offset_width;    /* 4 or 5; 0 = not said */
    uint64_t dat_file_bytes;  /* erasure-coded volumes only */
    uint64_t expire_at_s;     /* 0 = never */
    bool read_only;
    bool read_only_can_delete;
    bool remote;              /* the data lie with a cloud provider */
    bool erasure_coded;
};

/* No file: nothing is said. */
void volume_vif_init(struct volume_vif *vif);
/* DFS_ECORRUPT when the text is no JSON object or a known key has a value of another type; DFS_ENOMEM. */
int volume_vif_parse(struct bytes text, struct volume_vif *out);
/* Missing or empty: 0 with present unset.  Else as above, or the file's error. */
int volume_vif_read(const char *path, struct volume_vif *out);
/* Replaces the file, whole or not at all, synced.  Keys in an existing file that are not ours stay. */
int volume_vif_write(const char *path, const struct volume_vif *vif);

#endif
