/* Memory that lock-free readers may still look at is given back only when every reader has passed a quiescent point.
 *
 * Each reading thread registers a slot and says epoch_quiescent() between its steps (loops do it after every step).  A writer
 * retires an object; it is freed once all registered threads have been quiescent after that.  A reader that keeps a pointer
 * beyond its step must take a reference of the object's own instead.  Threads that sleep go offline meanwhile. */
#ifndef DFS_VOLUME_EPOCH_H
#define DFS_VOLUME_EPOCH_H

#include <stdint.h>

#define EPOCH_THREADS_MAX 128

struct epoch;
struct epoch_slot;

/* DFS_ENOMEM. */
int epoch_new(struct epoch **out);
/* Runs what is still retired; no reader may be left. */
void epoch_free(struct epoch *e);

/* For the calling thread.  DFS_ENOSPC beyond EPOCH_THREADS_MAX. */
int epoch_register(struct epoch *e, struct epoch_slot **out);
void epoch_unregister(struct epoch *e, struct epoch_slot *slot);

/* No pointer from before is held by this thread any more.  Cheap: one load and one store. */
void epoch_quiescent(struct epoch_slot *slot);
/* Around a sleep: an offline thread holds no pointers and holds nobody up. */
void epoch_offline(struct epoch_slot *slot);
void epoch_online(struct epoch_slot *slot);

/* free_fn(obj) is called later, on a thread that calls epoch_reclaim() or epoch_retire().  Any thread. */
void epoch_retire(struct epoch *e, void *obj, void (*free_fn)(void *obj));
/* Frees what can be freed; returns how many are still waiting.  Any thread; writers call it now and then. */
uint32_t epoch_reclaim(struct epoch *e);

#endif
