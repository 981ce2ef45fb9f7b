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
void chunk_put(struct chunk_pool *pool, void *chunk);

/* Be told on `loop` when a chunk may be free again (one waiter is woken per returned chunk, FIFO).  Embedded; run is called
 * once.  chunk_pool_unwait() takes it back: true when it will not be called any more.  Loop thread of the waiter. */
struct chunk_waiter {
    struct loop_msg msg;
    struct loop *loop;
    struct chunk_waiter *next, *prev;
    bool queued, posted, privileged;
};
void chunk_pool_wait(struct chunk_pool *pool, struct chunk_waiter *w);
bool chunk_pool_unwait(struct chunk_pool *pool, struct chunk_waiter *w);

size_t chunk_pool_used_bytes(const struct chunk_pool *pool);
size_t chunk_pool_bound_bytes(const struct chunk_pool *pool);

/* A body made of bytes: small ones in a malloc of their exact size, others in pool chunks.  Append-only. */
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

void body_init(struct body *b, struct chunk_pool *pool, bool privileged);
/* Copies in.  DFS_EAGAIN: *taken bytes were appended, the pool is empty, wait and go on.  DFS_ENOMEM. */
int body_append(struct body *b, struct bytes in, size_t *taken);
/* Number of pieces, and piece i. */
size_t body_pieces(const struct body *b);
struct bytes body_piece(const struct body *b, size_t i);
/* Copies [off, off+n) out; the range must be inside. */
void body_copy_out(const struct body *b, uint64_t off, void *out, size_t n);
/* Cuts to n bytes (n <= body_bytes), giving chunks back. */
void body_truncate(struct body *b, uint64_t n);
void body_release(struct body *b);

#endif
