/* What must never be handed out twice: needle keys and volume ids.
 *
 * Both are persisted ahead of use in one file, `<dir>/state`: a ceiling that all keys given out stay under, and the greatest
 * volume id given out.  A restart begins at the ceiling, so no crash repeats a key; keys come from memory while the ceiling is
 * raised in the background, a block at a time.  The file is replaced whole (tmp, fsync, rename, fsync of the folder).
 *
 * Belongs to the master's loop; the file is written by a worker. */
#ifndef DFS_MASTER_SEQUENCER_H
#define DFS_MASTER_SEQUENCER_H

#include <stdbool.h>
#include <stdint.h>

#include "net/work.h"

/* Keys in one step of the ceiling. */
#define SEQUENCER_BLOCK 100000u
/* Keys of one assign: more is refused. */
#define SEQUENCER_COUNT_MAX 0xffffffffull
/* Keys handed out stay below it.  Clients may write under any key, so a volume may report one from above: since none of those will
 * ever be handed out they need not be skipped, and one of them does not use the keys up. */
#define SEQUENCER_KEY_END (1ull << 63)
/* So far beyond the greatest volume id handed out or seen may one be that a server reports and that the sequence then goes on
 * behind.  One from farther away, which somebody chose, must not use the ids up: it is heeded once the sequence comes near it. */
#define SEQUENCER_VOLUME_LEAP (1u << 24)
#define SEQUENCER_ID_BYTES 36
/* A state that could not be written is tried again when someone wants it, but not sooner. */
#define SEQUENCER_RETRY_MS 1000u
#define SEQUENCER_TROUBLE_MAX 512

struct sequencer;

/* Someone who waits for the state to be on the disk; embedded. */
struct sequencer_waiter {
    void (*fn)(struct sequencer_waiter *w, int rc); /* on the loop, once; rc of the write */
    struct sequencer_waiter *next;
};

/* Makes the folder when missing, takes its lock (DFS_EBUSY: another master runs there), reads the state or makes the first one.
 * Blocks.  A state that cannot be read is DFS_ECORRUPT and is left as it is.  One log line says why.  A disk that is full or broken
 * is no error: who asks for keys is told of it until the state could be written. */
int sequencer_open(const char *dir, struct loop *loop, struct work_pool *pool, struct sequencer **out);
void sequencer_free(struct sequencer *s);

/* Takes `count` keys in a row.  DFS_EAGAIN: none under the ceiling just now, wait and ask again; DFS_ETOOBIG; DFS_ENOSPC when
 * the keys are used up; DFS_EUNAVAILABLE: the state could not be written just now, sequencer_trouble() says why; DFS_ECANCELLED
 * once stopped. */
int sequencer_keys(struct sequencer *s, uint64_t count, uint64_t *first);

/* Takes the next volume id.  It may be used only after the waiter's fn was called with 0.  Returns 0, and
 * calls nothing, when all 32 bits are used up. */
uint32_t sequencer_volume_id(struct sequencer *s, struct sequencer_waiter *w);

/* Calls back once everything taken or asked for so far is on the disk. */
void sequencer_wait(struct sequencer *s, struct sequencer_waiter *w);
/* Forget a waiter, called back or not. */
void sequencer_unwait(struct sequencer *s, struct sequencer_waiter *w);
/* The loop has ended: who waits is called with DFS_ECANCELLED, and from here on there are no keys, no ids and no writes.  What is
 * being written is finished by work_pool_free(); only after it, and after loop_run_posted(), may sequencer_free() follow. */
void sequencer_stop(struct sequencer *s);

/* A volume server reports keys and volumes that exist, all of them again and again: never hand those out. */
void sequencer_saw_key(struct sequencer *s, uint64_t key);
void sequencer_saw_volume(struct sequencer *s, uint32_t volume_id);

/* How many volume servers are up; remembered so that a restarted master knows for whom to wait before it makes volumes. */
void sequencer_set_servers(struct sequencer *s, uint32_t servers);
uint32_t sequencer_servers(const struct sequencer *s);

/* The greatest volume id handed out or seen. */
uint32_t sequencer_max_volume_id(const struct sequencer *s);
/* 36 characters, made with the first state. */
const char *sequencer_cluster_id(const struct sequencer *s);
/* "" or why the state could not be written last time. */
const char *sequencer_trouble(const struct sequencer *s);

#endif
