/* The pool of 256 KB chunks: one mapping of the whole bound, whose pages the kernel provides at first use.
 *
 * Free chunks are a stack, so that the warm ones are used again; what stayed at its bottom through a whole period was not
 * needed and gives its pages back.
 *
 * Invariants, under the lock:
 *   free_count + used[0] + used[1] == count
 *   used[ORDINARY] + promised[ORDINARY] <= count - reserved
 *   promised[0] + promised[1] <= free_count
 * A promise is a chunk set aside for a waiter that has been called but has not run yet, so that nobody overtakes it. */
#include "net/chunkq.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"

#define CHUNKS_MIN 8u
#define TRIM_PERIOD_MS 10000u
#define TRIM_BURST 8u /* chunks given back at a time: about 20 us each */

#if defined(__SANITIZE_ADDRESS__)
#define DFS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DFS_ASAN 1
#endif
#endif
#ifdef DFS_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

enum taker { ORDINARY, PRIVILEGED, TAKERS };

struct waiter_list {
    struct chunk_waiter *first, *last;
};

struct chunk_pool {
    pthread_mutex_t lock;
    char *memory;
    uint32_t count, reserved;
    uint32_t *free_stack;
    uint32_t free_count;
    uint8_t *holder;   /* enum taker of each chunk that is out */
    uint8_t *resident; /* its pages may be there */
    uint32_t used[TAKERS], promised[TAKERS];
    struct waiter_list waiters[TAKERS];

    uint64_t period_end_ms;
    uint32_t least_free; /* in this period: that many were never needed */
    uint32_t surplus;    /* of the last period, still to be given back */
};

static void *chunk_at(const struct chunk_pool *pool, uint32_t i)
{
    return pool->memory + (size_t)i * CHUNK_BYTES;
}

int chunk_pool_new(size_t bound_bytes, size_t reserved_bytes, struct chunk_pool **out)
{
    size_t count = bound_bytes / CHUNK_BYTES < CHUNKS_MIN ? CHUNKS_MIN : bound_bytes / CHUNK_BYTES;
    if (count > UINT32_MAX / 2)
        return DFS_EINVAL;
    size_t reserved = (reserved_bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
    struct chunk_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL)
        return DFS_ENOMEM;
    pool->count = (uint32_t)count;
    pool->reserved = (uint32_t)(reserved < count ? reserved : count - 1);
    pool->memory = MAP_FAILED;
    pthread_mutex_init(&pool->lock, NULL);
    pool->free_stack = malloc(count * sizeof *pool->free_stack);
    pool->holder = calloc(count, 1);
    pool->resident = calloc(count, 1);
    if (pool->free_stack == NULL || pool->holder == NULL || pool->resident == NULL)
        goto fail;
    pool->memory = mmap(NULL, count * CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pool->memory == MAP_FAILED)
        goto fail;
    ASAN_POISON_MEMORY_REGION(pool->memory, count * CHUNK_BYTES);
    /* The lowest is taken first. */
    for (uint32_t i = 0; i < pool->count; i++)
        pool->free_stack[i] = pool->count - 1 - i;
    pool->free_count = pool->least_free = pool->count;
    *out = pool;
    return 0;

fail:
    chunk_pool_free(pool);
    return DFS_ENOMEM;
}

void chunk_pool_free(struct chunk_pool *pool)
{
    if (pool == NULL)
        return;
    CHECK(pool->used[ORDINARY] + pool->used[PRIVILEGED] == 0);
    CHECK(pool->waiters[ORDINARY].first == NULL && pool->waiters[PRIVILEGED].first == NULL);
    if (pool->memory != MAP_FAILED) {
        ASAN_UNPOISON_MEMORY_REGION(pool->memory, (size_t)pool->count * CHUNK_BYTES);
        munmap(pool->memory, (size_t)pool->count * CHUNK_BYTES);
    }
    pthread_mutex_destroy(&pool->lock);
    free(pool->free_stack);
    free(pool->holder);
    free(pool->resident);
    free(pool);
}

/* ---- taking ---- */

/* How many more this kind of taker may have now. */
static uint32_t available_locked(const struct chunk_pool *pool, enum taker t)
{
    uint32_t unpromised = pool->free_count - pool->promised[ORDINARY] - pool->promised[PRIVILEGED];
    if (t == PRIVILEGED)
        return unpromised;
    uint32_t share = pool->count - pool->reserved - pool->used[ORDINARY] - pool->promised[ORDINARY];
    return share < unpromised ? share : unpromised;
}

static void *take_locked(struct chunk_pool *pool, enum taker t)
{
    uint32_t i = pool->free_stack[--pool->free_count];
    if (pool->free_count < pool->least_free)
        pool->least_free = pool->free_count;
    if (pool->surplus > pool->free_count)
        pool->surplus = pool->free_count;
    pool->holder[i] = (uint8_t)t;
    pool->resident[i] = 1;
    pool->used[t]++;
    ASAN_UNPOISON_MEMORY_REGION(chunk_at(pool, i), CHUNK_BYTES);
    return chunk_at(pool, i);
}

/* What the waiter that runs on this thread right now was promised. */
static __thread struct {
    struct chunk_pool *pool;
    enum taker taker;
    uint32_t n;
} grant;

static uint32_t granted(const struct chunk_pool *pool, enum taker t)
{
    return grant.pool == pool && grant.taker == t ? grant.n : 0;
}

int chunk_get_many(struct chunk_pool *pool, bool privileged, void **out, uint32_t n)
{
    enum taker t = privileged ? PRIVILEGED : ORDINARY;
    int rc = DFS_EAGAIN;
    pthread_mutex_lock(&pool->lock);
    uint32_t mine = granted(pool, t);
    if (available_locked(pool, t) + (uint64_t)mine >= n) {
        uint32_t redeemed = n < mine ? n : mine;
        pool->promised[t] -= redeemed;
        grant.n -= redeemed;
        for (uint32_t i = 0; i < n; i++)
            out[i] = take_locked(pool, t);
        rc = 0;
    }
    pthread_mutex_unlock(&pool->lock);
    return rc;
}

int chunk_get(struct chunk_pool *pool, bool privileged, void **out)
{
    return chunk_get_many(pool, privileged, out, 1);
}

/* ---- waiting ---- */

static void unlink_locked(struct chunk_pool *pool, struct chunk_waiter *w)
{
    struct waiter_list *list = &pool->waiters[w->privileged];
    if (w->prev != NULL)
        w->prev->next = w->next;
    else
        list->first = w->next;
    if (w->next != NULL)
        w->next->prev = w->prev;
    else
        list->last = w->prev;
    w->next = w->prev = NULL;
    w->queued = false;
}

uint32_t chunk_pool_takable(const struct chunk_pool *pool, bool privileged)
{
    return privileged ? pool->count : pool->count - pool->reserved;
}

static uint32_t wanted(const struct chunk_pool *pool, const struct chunk_waiter *w)
{
    uint32_t most = chunk_pool_takable(pool, w->privileged);
    uint32_t want = w->want > 0 ? w->want : 1;
    return want < most ? want : most; /* who asks for more than there is must not wait for ever: it finds out when it takes */
}

/* Calls the first waiters for whom there is enough.  Privileged ones first; within a kind strictly in turn. */
static void wake_locked(struct chunk_pool *pool)
{
    for (int t = PRIVILEGED; t >= ORDINARY; t--) {
        struct chunk_waiter *w;
        while ((w = pool->waiters[t].first) != NULL && available_locked(pool, (enum taker)t) >= wanted(pool, w)) {
            unlink_locked(pool, w);
            w->promised = wanted(pool, w);
            pool->promised[t] += w->promised;
            w->posted = true;
            loop_post(w->loop, &w->msg);
        }
    }
}

/* On the waiter's loop. */
static void run_waiter(struct loop_msg *msg)
{
    struct chunk_waiter *w = CONTAINER_OF(msg, struct chunk_waiter, msg);
    struct chunk_pool *pool = w->pool;
    pthread_mutex_lock(&pool->lock);
    w->posted = false;
    pthread_mutex_unlock(&pool->lock);
    grant.pool = pool;
    grant.taker = w->privileged ? PRIVILEGED : ORDINARY;
    grant.n = w->promised;
    msg->run = w->run;
    msg->run(msg); /* may free w */

    pthread_mutex_lock(&pool->lock);
    pool->promised[grant.taker] -= grant.n; /* what it left is for the next */
    grant.pool = NULL;
    grant.n = 0;
    wake_locked(pool);
    pthread_mutex_unlock(&pool->lock);
}

void chunk_pool_wait(struct chunk_pool *pool, struct chunk_waiter *w)
{
    CHECK(!w->queued && !w->posted);
    w->pool = pool;
    w->run = w->msg.run;
    w->msg.run = run_waiter;
    pthread_mutex_lock(&pool->lock);
    struct waiter_list *list = &pool->waiters[w->privileged];
    w->next = NULL;
    w->prev = list->last;
    if (list->last != NULL)
        list->last->next = w;
    else
        list->first = w;
    list->last = w;
    w->queued = true;
    wake_locked(pool); /* a chunk may have come back between DFS_EAGAIN and now */
    pthread_mutex_unlock(&pool->lock);
}

bool chunk_pool_unwait(struct chunk_pool *pool, struct chunk_waiter *w)
{
    pthread_mutex_lock(&pool->lock);
    bool posted = w->posted;
    if (w->queued) {
        unlink_locked(pool, w);
        w->msg.run = w->run;
        wake_locked(pool); /* who stood behind it may want less */
    }
    pthread_mutex_unlock(&pool->lock);
    return !posted;
}

/* ---- giving back ---- */

/* Gives the pages of up to TRIM_BURST surplus chunks back.  They lie at the bottom of the stack. */
static void trim_locked(struct chunk_pool *pool)
{
    uint32_t burst = TRIM_BURST;
    while (pool->surplus > 0 && burst > 0) {
        uint32_t i = pool->free_stack[--pool->surplus];
        if (!pool->resident[i])
            continue;
        madvise(chunk_at(pool, i), CHUNK_BYTES, MADV_DONTNEED);
        pool->resident[i] = 0;
        burst--;
    }
}

static void end_period_locked(struct chunk_pool *pool)
{
    uint64_t now = clock_mono_ms();
    if (now >= pool->period_end_ms) {
        pool->surplus = pool->period_end_ms == 0 ? 0 : pool->least_free;
        pool->least_free = pool->free_count;
        pool->period_end_ms = now + TRIM_PERIOD_MS;
    }
    trim_locked(pool);
}

void chunk_put(struct chunk_pool *pool, void *chunk)
{
    if (chunk == NULL)
        return;
    size_t at = (size_t)((char *)chunk - pool->memory);
    CHECK(at % CHUNK_BYTES == 0 && at / CHUNK_BYTES < pool->count);
    uint32_t i = (uint32_t)(at / CHUNK_BYTES);
    ASAN_POISON_MEMORY_REGION(chunk, CHUNK_BYTES);
    pthread_mutex_lock(&pool->lock);
    CHECK(pool->used[pool->holder[i]] > 0);
    pool->used[pool->holder[i]]--;
    pool->free_stack[pool->free_count++] = i;
    wake_locked(pool);
    end_period_locked(pool);
    pthread_mutex_unlock(&pool->lock);
}

void chunk_pool_trim(struct chunk_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    end_period_locked(pool);
    pthread_mutex_unlock(&pool->lock);
}

/* ---- looking ---- */

size_t chunk_pool_used_bytes(const struct chunk_pool *pool)
{
    struct chunk_pool *p = (struct chunk_pool *)pool;
    pthread_mutex_lock(&p->lock);
    size_t used = p->count - p->free_count;
    pthread_mutex_unlock(&p->lock);
    return used * CHUNK_BYTES;
}

size_t chunk_pool_bound_bytes(const struct chunk_pool *pool)
{
    return (size_t)pool->count * CHUNK_BYTES;
}
