/* What `dfs benchmark mix` asks of the load engine: reads of objects by popularity, writes of new ones, deletes of any, in given
 * shares.
 *
 * Popularity belongs to a place among the live objects, not to an object: when one is deleted, another takes its place.  An object
 * that is being read is not deleted, and one that is being deleted is not read, so every answer has one right content.  A read or
 * a delete that finds no object becomes a write.  See load.h for threads. */
#ifndef DFS_BENCH_MIX_SOURCE_H
#define DFS_BENCH_MIX_SOURCE_H

#include "bench/dice.h"
#include "bench/load.h"
#include "bench/object_list.h"

struct mix_object {
    struct fid fid;
    uint64_t size_bytes;
    uint32_t readers; /* reads under way */
    size_t place;     /* in live */
};

struct mix_source {
    const struct sizes *sizes;
    uint32_t shares[3];        /* read, write, delete */
    double zipf;
    uint64_t preload;          /* of mix_preload_source: so many writes */
    struct dice dice;
    struct object_list *list;  /* every object that was written, for a cleanup after a crash; may be NULL */
    int rc;                    /* why no more can be remembered, when so: nothing is begun any more */

    struct mix_object *objects; /* of all slots ever used, and those free */
    size_t object_count, object_cap;
    size_t *live, live_count;   /* indices of objects; both arrays have object_cap places */
    size_t *free_ones, free_count;
    uint64_t next;              /* operations that were given */
    uint64_t written, written_bytes;
};

/* "70:25:5"; each up to 1000000 and not all 0.  False: it is no such text. */
bool mix_parse_shares(const char *text, uint32_t shares[3]);

/* Zeroed but for the settings.  Release frees what was remembered. */
void mix_source_release(struct mix_source *s);

/* `preload` writes, and no more; then operations without end.  *s is borrowed and used by both. */
struct load_source mix_preload_source(struct mix_source *s);
struct load_source mix_load_source(struct mix_source *s);

#endif
