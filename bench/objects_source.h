/* What `dfs benchmark objects` asks of the load engine: new objects, the next block of all objects in order, any block of any
 * object, deletes of all.  Each is a load_source over one struct objects_source; see load.h for threads. */
#ifndef DFS_BENCH_OBJECTS_SOURCE_H
#define DFS_BENCH_OBJECTS_SOURCE_H

#include "bench/dice.h"
#include "bench/load.h"
#include "bench/object_list.h"

struct objects_source {
    struct object_list *list;  /* write: where acknowledged objects go; else: the objects */
    uint64_t object_bytes, block_bytes; /* block: of one read; at most object_bytes */
    uint64_t max_objects;      /* write: 0 = no bound */
    struct dice dice;          /* rand */
    uint64_t next;             /* operations that were given */
    uint64_t gone;             /* delete: objects that were not there any more */
    int list_rc;               /* write: why the list could not be written, when it could not */
};

/* *s is borrowed as long as the load runs. */
struct load_source objects_write_source(struct objects_source *s);
struct load_source objects_seq_source(struct objects_source *s);
struct load_source objects_rand_source(struct objects_source *s);
struct load_source objects_delete_source(struct objects_source *s);

#endif
