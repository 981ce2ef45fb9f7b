/* Deleting what a run wrote, at its end or later.  Main thread. */
#ifndef DFS_BENCH_OBJECT_CLEANUP_H
#define DFS_BENCH_OBJECT_CLEANUP_H

#include "bench/load.h"
#include "bench/object_list.h"

/* Deletes the objects of list->ids, prints how many and how long it took, and takes the list's file away; when some could not be
 * deleted it stays, for another try.  Returns 0, or 1 after a line on standard error. */
int object_cleanup(const char *mode, struct object_list *list, struct load *load);

#endif
