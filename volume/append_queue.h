/* The writer of one disk location: a queue that any thread may put writes and commands into, and one thread that takes them out.
 *
 * A buffered write can always block, so none is done on a loop.  One thread for each location appends for all its volumes, in
 * exchange for batches, group commit and an order that everyone agrees on.  The queue is bounded by what its callers have admitted:
 * staged bodies (stage.h) and connections.
 *
 * Each volume has at most one batch under way, from the assignment of offsets to the answer.  What comes for the volume
 * meanwhile waits in volume->appends and makes the next batch: that is the group commit.  A command waits until nothing is under
 * way in the whole location, or in its volume if it names one, and runs in order with the writes queued before it.  Internal to
 * the engine. */
#ifndef DFS_VOLUME_APPEND_QUEUE_H
#define DFS_VOLUME_APPEND_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct append_batch;
struct append_queue;
struct disk_location;
struct needle_write;
struct volume;

/* Something for the writer thread.  Embedded in what it is about; zeroed but for run. */
struct writer_cmd {
    struct writer_cmd *next;
    void (*run)(struct writer_cmd *cmd); /* writer thread; may free the struct */
    struct volume *volume; /* waits for this volume alone, which must live until then; NULL = for the whole location */
    bool at_once;          /* waits for nothing */
};

/* Starts the writer thread.  DFS_ENOMEM, DFS_ENOTHREAD. */
int append_queue_new(struct disk_location *loc, struct append_queue **out);
/* Any thread; never blocks. */
void append_queue_cmd(struct append_queue *q, struct writer_cmd *cmd);
/* Runs cmd->run on the writer thread and waits for it.  Not from a loop or the writer itself.  After append_queue_stop() it is
 * run on the calling thread. */
void append_queue_cmd_wait(struct append_queue *q, struct writer_cmd *cmd);
/* Answers what is queued (as its mode says), then ends the thread.  The volumes stay open. */
void append_queue_stop(struct append_queue *q);
void append_queue_free(struct append_queue *q);

/* What waits for one volume and what is under way to it.  Part of struct volume; zero at first; writer thread only. */
struct volume_appends {
    struct writer_cmd *head, *tail; /* waiting, in order of arrival */
    bool listed;                    /* stands in the queue's list of volumes with something to do */
    bool held;                      /* a vacuum swaps files: nothing is written until append_queue_unhold() */
    struct volume *next;            /* in that list */
    struct append_batch *flight;    /* under way; NULL when none is */
    uint64_t synced_pos;            /* all before it is known to be on the disk */
    uint64_t zero_end;              /* from the end of data to here the file is zeros: zero_ahead.h; 0 or less: it is not longer */
    uint64_t zero_step;             /* how many are written next time; 0 = none were yet */
    uint64_t room_end;              /* blocks were asked for up to here, ahead of large appends: preallocate.h; 0 = none were */
    uint64_t room_step;             /* how many bytes of them next time; 0 = as at first */
};

/* From a command of the volume: what comes for it waits, until unhold.  Writer thread. */
void append_queue_hold(struct volume *v);
/* From a command that runs at once. */
void append_queue_unhold(struct volume *v);
/* The length of the .dat, or the file itself, has changed under the writer's feet (load, vacuum, close): nothing of it counts as
 * synced before synced_pos. */
static inline void volume_appends_moved(struct volume_appends *a, uint64_t synced_pos)
{
    a->synced_pos = synced_pos;
    a->zero_end = 0;
    a->room_end = 0;
}

/* Tests only, before the thread starts: publish before the flush.  The crash test must then fail. */
extern bool append_publish_early_for_tests;

#endif
