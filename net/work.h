/* Threads for what may block or compute for long: file calls, compression, fsync of small state files.
 *
 * A work item is embedded in its owner's struct.  run() is called on a pool thread, then done() on the loop that asked (or not
 * at all when done is NULL; run() must then give the memory back itself).  FIFO; a share of the threads is kept for privileged
 * items, so that work that someone else waits for never queues behind work that starts a wait. */
#ifndef DFS_NET_WORK_H
#define DFS_NET_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "net/loop.h"

struct work_pool;

struct work {
    struct loop_msg msg; /* private */
    struct work *next;   /* private */
    struct loop *loop;   /* where done() runs; may be NULL when done is NULL */
    bool privileged;
    void (*run)(struct work *w);
    void (*done)(struct work *w);
};

/* name: thread name.  threads >= 1; with two or more, a quarter (at least one) serves privileged items only.
 * DFS_ENOMEM, DFS_ENOTHREAD. */
int work_pool_new(const char *name, uint32_t threads, struct work_pool **out);

/* Any thread; never blocks.  The queue is bounded by what its callers hold; see each caller's own bound. */
void work_submit(struct work_pool *pool, struct work *w);

/* Items submitted and not begun.  Any thread. */
uint32_t work_pending(const struct work_pool *pool);

/* Runs what is queued, joins the threads, frees. */
void work_pool_free(struct work_pool *pool);

#endif
