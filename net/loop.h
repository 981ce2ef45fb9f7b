/* One libevent base per thread, driven by raw events; timers; a mailbox between threads.
 *
 * The base is made NOLOCK: only its own thread touches it.  The one thing another thread may do is post to the mailbox,
 * which writes the loop's eventfd only when the mailbox goes from empty to not empty.
 *
 * Loops never wait for a disk, and no step on a loop takes longer than about 200 us: what may block or compute for longer
 * is done elsewhere, and its result is posted back. */
#ifndef DFS_NET_LOOP_H
#define DFS_NET_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_base;
struct loop;

/* Bytes of scratch that each loop offers to whoever runs on it; valid until control returns to the loop. */
#define LOOP_SCRATCH_BYTES (288u * 1024u)

/* A message in a mailbox: embedded in the sender's own struct, owned by the loop from post to run. */
struct loop_msg {
    struct loop_msg *next;
    void (*run)(struct loop_msg *msg); /* on the loop's thread; may free the struct around it */
};

/* A timer: embedded, one shot, re-armed by its owner.  Zeroed memory is a timer that was never initialised: cancel, release
 * and pending may be called on it. */
#define LOOP_TIMER_EVENT_BYTES 128u
struct loop_timer {
    struct loop *loop;
    void (*fn)(void *arg);
    void *arg;
    bool armed;
    _Alignas(16) char event[LOOP_TIMER_EVENT_BYTES]; /* libevent's struct event; kept out of this header */
};

/* name: at most 15 bytes, shown as the thread's name.  *out is the caller's until loop_free().  SIGPIPE is ignored by the
 * whole process from the first loop on. */
int loop_new(const char *name, struct loop **out);

/* Stop and join first. */
void loop_free(struct loop *loop);

/* Run on the calling thread until loop_stop(). */
void loop_run(struct loop *loop);

/* Run on a thread of its own (all signals blocked in it).  DFS_ENOTHREAD. */
int loop_start(struct loop *loop);
void loop_join(struct loop *loop);

/* Any thread.  Messages posted before are still run. */
void loop_stop(struct loop *loop);

/* Any thread; never blocks. */
void loop_post(struct loop *loop, struct loop_msg *msg);

/* Run what sits in the mailbox, on the calling thread.  For owners that clean up: after the loop has ended, before what its
 * messages point to is freed. */
void loop_run_posted(struct loop *loop);

/* The loop that the calling thread runs, or NULL. */
struct loop *loop_current(void);
bool loop_is_current(const struct loop *loop);

/* Its own thread only. */
struct event_base *loop_base(struct loop *loop);

/* Index given to this loop by its owner, for per-loop tables; -1 until set. */
int loop_index(const struct loop *loop);
void loop_set_index(struct loop *loop, int index);

/* Monotonic and wall time, read at most once per loop step: cheap.  Its own thread only. */
uint64_t loop_now_ms(const struct loop *loop);
uint64_t loop_wall_s(const struct loop *loop);

/* LOOP_SCRATCH_BYTES, page-aligned.  Its own thread only. */
void *loop_scratch(struct loop *loop);

/* Call fn(arg) after every step of the loop, when no callback is running (quiescent point).  Before loop_run/loop_start, or
 * on its own thread.  fn must be cheap.  At most 8 hooks; DFS_ENOSPC. */
int loop_on_step(struct loop *loop, void (*fn)(void *arg), void *arg);

/* Once before its first use.  fn runs on the loop's thread. */
void loop_timer_init(struct loop_timer *t, struct loop *loop, void (*fn)(void *arg), void *arg);
/* (Re)arm; its own thread only.  0 ms = as soon as possible. */
void loop_timer_set(struct loop_timer *t, uint64_t ms);
void loop_timer_cancel(struct loop_timer *t);
/* Before the struct around it is freed. */
void loop_timer_release(struct loop_timer *t);
bool loop_timer_pending(const struct loop_timer *t);

#endif
