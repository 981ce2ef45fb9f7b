/* Coarse timeouts by the thousand on one loop: a wheel of lists behind one timer.
 *
 * Setting and cancelling are two list operations, whatever number is pending; a timeout comes at most WHEEL_TICK_MS late and
 * never early.  The timer sleeps until the next list that is not empty.  Loop thread only. */
#ifndef DFS_NET_WHEEL_H
#define DFS_NET_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

#include "net/loop.h"

#define WHEEL_TICK_MS 8u
#define WHEEL_SLOTS 512u /* a turn is 4 s; what is due later stays in its list for more turns */

/* Embedded in what it times; zeroed memory is a node that is not set. */
struct wheel_node {
    struct wheel_node *next, *prev; /* NULL when not set */
    uint64_t due_ms;
    void (*fn)(struct wheel_node *node); /* the node is no longer set; may free what it is in, set and cancel any */
};

struct wheel {
    struct loop *loop;
    struct loop_timer timer;
    uint64_t timer_tick; /* when the timer comes, in ticks; 0 when it does not */
    uint64_t done_tick;  /* lists up to this tick have been looked at */
    uint32_t count;
    struct wheel_node slots[WHEEL_SLOTS];
};

/* Nothing set; the loop's timer is armed only while something is. */
void wheel_init(struct wheel *w, struct loop *loop);
/* Nothing fires any more; nodes that are set are forgotten. */
void wheel_release(struct wheel *w);

/* (Re)set: node->fn is called `ms` from now. */
void wheel_set(struct wheel *w, struct wheel_node *node, uint64_t ms);
/* Does nothing when it is not set. */
void wheel_cancel(struct wheel *w, struct wheel_node *node);
static inline bool wheel_pending(const struct wheel_node *node)
{
    return node->next != NULL;
}

#endif
