/* What a backend of the needle map provides; included by needle_map.c and the backends only. */
#ifndef DFS_VOLUME_NEEDLE_MAP_BACKEND_H
#define DFS_VOLUME_NEEDLE_MAP_BACKEND_H

#include <stdatomic.h>

#include "volume/needle_map.h"

struct needle_map_ops {
    enum needle_map_kind kind;
    bool may_block;

    int (*get)(struct needle_map *m, uint64_t key, struct needle_value *out);
    /* Makes *v (never deleted) the entry of key; *old is valid when *had. */
    int (*put)(struct needle_map *m, uint64_t key, const struct needle_value *v, struct needle_value *old, bool *had);
    /* Marks the live entry deleted; *old is the live one.  DFS_ENOTFOUND. */
    int (*mark_deleted)(struct needle_map *m, uint64_t key, struct needle_value *old);
    void (*share)(struct needle_map *m, struct epoch *epoch); /* may be NULL, as the next three */
    void (*prefetch)(const struct needle_map *m, uint64_t key);
    void (*begin)(struct needle_map *m);
    int (*commit)(struct needle_map *m, const struct needle_map_checkpoint *checkpoint);
    int (*each)(struct needle_map *m, bool with_deleted, int (*fn)(uint64_t key, const struct needle_value *v, void *arg),
                void *arg);
    bool (*failed)(const struct needle_map *m); /* may be NULL, as the next */
    void (*abandon)(struct needle_map *m);
    uint64_t (*memory_bytes)(const struct needle_map *m);
    void (*free)(struct needle_map *m);
};

/* First member of each backend's struct.  The numbers are kept by needle_map.c; a backend that finds entries of an earlier run
 * sets them when it opens. */
struct needle_map {
    const struct needle_map_ops *ops;
    unsigned offset_width;
    struct needle_map_counts {
        _Atomic uint64_t live_count, live_bytes, deleted_count, deleted_bytes, max_key;
    } counts;
};

#endif
