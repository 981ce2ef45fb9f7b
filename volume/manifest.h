/* A chunk manifest: a file kept as a list of other files.  Parsing is pure. */
#ifndef DFS_VOLUME_MANIFEST_H
#define DFS_VOLUME_MANIFEST_H

#include <stdbool.h>
#include <stdint.h>

#include "needle/bytes.h"
#include "needle/fid.h"

#define MANIFEST_CHUNKS_MAX 65536u
#define MANIFEST_JSON_MAX (1u << 20) /* inflated */

struct manifest_chunk {
    struct fid fid;
    uint64_t offset, bytes;
};
struct manifest {
    char *name, *mime; /* "" when absent; malloc'd */
    uint64_t size;     /* end of the last chunk */
    uint32_t count;
    struct manifest_chunk *chunks; /* by offset, without holes or overlaps */
};

/* DFS_EPROTO: no JSON object, a chunk without a file id, chunks that do not tile the file, or a size that contradicts them.
 * DFS_ETOOBIG, DFS_ENOMEM. */
int manifest_parse(struct bytes json, struct manifest *out);
/* The same from stored bytes, which may be gzip (old servers compressed manifests too). */
int manifest_parse_stored(struct bytes stored, bool compressed, struct manifest *out);
void manifest_release(struct manifest *m);

#endif
