/* Bodies in memory: a bounded pool of 256 KB page-aligned chunks, and queues of pieces.
 *
 * An upload waits in chunks until it is whole; an answer is a queue of memory pieces and file ranges.  The pool is shared
 * by all threads and has a hard bound: when it is empty chunk_get() says DFS_EAGAIN and the caller stops reading its
 * socket until chunk_pool_wait() calls back. */
#ifndef DFS_NET_CHUNKQ_H
#define DFS_NET_CHUNKQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "needle/bytes.h"
#include "net/loop.h"

#define CHUNK_BYTES (256u * 1024u)

struct chunk_pool;

/* bound_bytes is rounded down to whole chunks, at least 8.  `reserved_bytes` of it are kept for privileged takers (replica
 * writes, repair): work that someone else waits for never queues behind work that starts a wait. */
int chunk_pool_new(size_t bound_bytes, size_t reserved_bytes, struct chunk_pool **out);
void chunk_pool_free(struct chunk_pool *pool);

/* One chunk, CHUNK_BYTES long, page-aligned.  DFS_EAGAIN when the bound is reached, DFS_ENOMEM.  Any thread. */
int chunk_get(struct chunk_pool *pool, bool privileged, void **out);
/* n chunks or none. */
int chunk_get_many(struct chunk_pool *pool, bool privileged, void **out, uint32_t n);
void chunk_put(struct chunk_pool *pool, void *chunk);

/* Be told on `loop` when `want` chunks (0 = 1) are free.  Strictly in turn within each of the two kinds, and what a
 * waiter is called for is kept for it until its run() returns to the loop: nobody overtakes it.  Embedded, zeroed, then
 * loop, privileged, want and msg.run set; run is called once.  chunk_pool_unwait() takes it back: false when run() is
 * on its way and will still be called.  Loop thread of the waiter.
 *
 * Who holds chunks while it waits for more, can wait for someone who does the same: uploads of known length take all
 * their chunks at once, with body_reserve(). */
struct chunk_waiter {
    struct loop_msg msg;
    struct loop *loop;
    struct chunk_waiter *next, *prev;
    bool queued, posted, privileged;
    uint32_t want;
    struct chunk_pool *pool;          /* private from here on */
    void (*run)(struct loop_msg *msg);
    uint32_t promised;
};
void chunk_pool_wait(struct chunk_pool *pool, struct chunk_waiter *w);
bool chunk_pool_unwait(struct chunk_pool *pool, struct chunk_waiter *w);

/* Gives pages back that were not needed for a while.  chunk_put() does it as well; this is for when nothing moves any
 * more: call it every few seconds.  Any thread. */
void chunk_pool_trim(struct chunk_pool *pool);

/* What is out, and what may be out at most; any thread. */
size_t chunk_pool_used_bytes(const struct chunk_pool *pool);
size_t chunk_pool_bound_bytes(const struct chunk_pool *pool);
/* Chunks that takers of that kind can have at most. */
uint32_t chunk_pool_takable(const struct chunk_pool *pool, bool privileged);

/* A body made of bytes: small ones in a malloc of their exact size, others in pool chunks.  Append-only.  One thread at a
 * time. */
#define BODY_SMALL_MAX 16384u

struct body {
    struct chunk_pool *pool;
    bool privileged;
    char *small;         /* body_bytes <= BODY_SMALL_MAX and no chunk taken */
    uint32_t small_cap;
    void **chunks;       /* each CHUNK_BYTES but the last */
    uint32_t chunk_count, chunk_cap;
    uint64_t body_bytes;
};

/* Empty.  The chunks will come out of that pool, from the share that privileged names. */
void body_init(struct body *b, struct chunk_pool *pool, bool privileged);
/* Takes all chunks that a body of total_bytes will need, or none: then body_append() up to that length cannot say
 * DFS_EAGAIN. DFS_EAGAIN: wait for body_reserve_want() chunks; DFS_ETOOBIG: more than the pool has; DFS_ENOMEM. */
int body_reserve(struct body *b, uint64_t total_bytes);
/* How many chunks that takes from here: chunk_waiter.want. */
uint32_t body_reserve_want(const struct body *b, uint64_t total_bytes);
/* Copies in.  DFS_EAGAIN: *taken bytes were appended, the pool is empty, wait and go on.  DFS_ENOMEM. */
int body_append(struct body *b, struct bytes in, size_t *taken);
/* Where body_append() would put the next bytes, in *p, and how many of them in one run; 0: no chunk is to be had now.  For who
 * has more to come than stays small.  body_filled() then says that n bytes were put there. */
size_t body_room(struct body *b, void **p);
void body_filled(struct body *b, size_t n);
/* Number of pieces, and piece i. */
size_t body_pieces(const struct body *b);
struct bytes body_piece(const struct body *b, size_t i);
/* Copies [off, off+n) out; the range must be inside. */
void body_copy_out(const struct body *b, uint64_t off, void *out, size_t n);
/* Cuts to n bytes (n <= body_bytes), giving chunks back. */
void body_truncate(struct body *b, uint64_t n);
void body_release(struct body *b);

#endif
