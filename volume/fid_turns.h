/* One replicated write at a time for each needle, of those that this server is the first server of.
 *
 * Going back to the version before is right only when nobody else has written in between: the write that failed would take another
 * one with it that was acknowledged.  So whoever writes a needle everywhere takes its turn first, and gives it back when the
 * write has been answered or taken back.  Turns come in the order in which they were asked for.  Any loop; nothing waits under the
 * locks. */
#ifndef DFS_VOLUME_FID_TURNS_H
#define DFS_VOLUME_FID_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "net/loop.h"

struct fid_turns;
int fid_turns_new(struct fid_turns **out); /* DFS_ENOMEM */
void fid_turns_free(struct fid_turns *t);  /* turns still held are forgotten: the loops have ended; NULL is fine */

/* Embedded in its owner. */
struct fid_turn {
    /* in */
    struct loop *loop;
    uint32_t volume_id;
    uint64_t key;
    void (*run)(struct fid_turn *turn); /* on `loop`, never inside a call: the turn has come */

    /* private */
    struct loop_msg msg;
    struct fid_turn *next;        /* another needle's holder, or the next who waits */
    struct fid_turn *first, *last; /* holder: who waits for it */
};

/* True: it is there at once, and run will not be called.  False: run will be. */
bool fid_turn_take(struct fid_turns *t, struct fid_turn *turn);
void fid_turn_give(struct fid_turns *t, struct fid_turn *turn);

#endif
