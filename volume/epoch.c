/* Quiescent-state reclamation without fences, so that the reasoning (and ThreadSanitizer) needs atomics only.
 *
 * `now` is changed by read-modify-write alone, hence all of its changes form one chain in which each acquires what the earlier
 * ones released.  Retiring takes the next number as the object's tag, after the writer has unlinked the object.
 *   - A thread whose slot shows `seen` >= tag has read `now` after the retirement: it sees the unlinking, and what it held from
 *     before it had let go of when it stored `seen` (release; the reclaimer's load is the acquire).
 *   - A thread that comes online shows 1, which holds everybody up, before its own read-modify-write of `now`.  Either that comes
 *     before the retirement in the chain, then the reclaimer sees the 1; or after it, then the thread sees the unlinking.
 * So an object may go when every slot that is in use and online shows at least its tag. */
#include "volume/epoch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/log.h"

#define SEEN_OFFLINE 0u
#define SEEN_ARRIVING 1u
#define FIRST_EPOCH 2u

struct epoch_slot {
    _Alignas(64) _Atomic uint64_t seen;
    struct epoch *epoch;
    bool used; /* under the lock */
};

struct retired {
    struct retired *next;
    uint64_t tag;
    void *obj;
    void (*free_fn)(void *obj);
};

struct epoch {
    _Alignas(64) _Atomic uint64_t now;
    _Alignas(64) pthread_mutex_t lock;
    struct retired *head, **tail; /* tags rise */
    _Atomic uint32_t waiting;
    uint32_t slots_high; /* slots below this have been used */
    struct epoch_slot slot[EPOCH_THREADS_MAX];
};

int epoch_new(struct epoch **out)
{
    struct epoch *e = aligned_alloc(_Alignof(struct epoch), sizeof *e);
    if (e == NULL)
        return DFS_ENOMEM;
    memset(e, 0, sizeof *e);
    atomic_init(&e->now, FIRST_EPOCH);
    pthread_mutex_init(&e->lock, NULL);
    e->tail = &e->head;
    *out = e;
    return 0;
}

void epoch_free(struct epoch *e)
{
    if (e == NULL)
        return;
    for (uint32_t i = 0; i < e->slots_high; i++)
        CHECK(!e->slot[i].used);
    /* What is freed may retire something of its own. */
    while (epoch_reclaim(e) > 0)
        ;
    pthread_mutex_destroy(&e->lock);
    free(e);
}

int epoch_register(struct epoch *e, struct epoch_slot **out)
{
    struct epoch_slot *slot = NULL;
    pthread_mutex_lock(&e->lock);
    for (uint32_t i = 0; i < EPOCH_THREADS_MAX && slot == NULL; i++) {
        if (e->slot[i].used)
            continue;
        slot = &e->slot[i];
        slot->used = true;
        slot->epoch = e;
        if (i >= e->slots_high)
            e->slots_high = i + 1;
    }
    pthread_mutex_unlock(&e->lock);
    if (slot == NULL)
        return DFS_ENOSPC;
    epoch_online(slot);
    *out = slot;
    return 0;
}

void epoch_unregister(struct epoch *e, struct epoch_slot *slot)
{
    CHECK(slot->epoch == e);
    epoch_offline(slot);
    pthread_mutex_lock(&e->lock);
    slot->used = false;
    pthread_mutex_unlock(&e->lock);
}

void epoch_quiescent(struct epoch_slot *slot)
{
    uint64_t now = atomic_load_explicit(&slot->epoch->now, memory_order_acquire);
    atomic_store_explicit(&slot->seen, now, memory_order_release);
}

void epoch_offline(struct epoch_slot *slot)
{
    atomic_store_explicit(&slot->seen, SEEN_OFFLINE, memory_order_release);
}

void epoch_online(struct epoch_slot *slot)
{
    atomic_store_explicit(&slot->seen, SEEN_ARRIVING, memory_order_relaxed);
    uint64_t now = atomic_fetch_add_explicit(&slot->epoch->now, 0, memory_order_acq_rel);
    atomic_store_explicit(&slot->seen, now, memory_order_release);
}

/* Oldest number that an online thread shows. */
static uint64_t oldest_seen_locked(struct epoch *e)
{
    uint64_t oldest = UINT64_MAX;
    for (uint32_t i = 0; i < e->slots_high; i++) {
        uint64_t seen = atomic_load_explicit(&e->slot[i].seen, memory_order_acquire);
        if (seen != SEEN_OFFLINE && seen < oldest)
            oldest = seen;
    }
    return oldest;
}

/* Cuts off the start of the list that nobody can see any more. */
static struct retired *take_free_locked(struct epoch *e)
{
    uint64_t oldest = oldest_seen_locked(e);
    struct retired *list = e->head;
    struct retired **end = &list;
    while (*end != NULL && (*end)->tag <= oldest) {
        atomic_fetch_sub_explicit(&e->waiting, 1, memory_order_relaxed);
        end = &(*end)->next;
    }
    e->head = *end;
    if (e->head == NULL)
        e->tail = &e->head;
    *end = NULL;
    return list;
}

uint32_t epoch_reclaim(struct epoch *e)
{
    /* Called often, and nearly always for nothing. */
    if (atomic_load_explicit(&e->waiting, memory_order_relaxed) == 0)
        return 0;
    pthread_mutex_lock(&e->lock);
    struct retired *list = take_free_locked(e);
    pthread_mutex_unlock(&e->lock);

    while (list != NULL) {
        struct retired *r = list;
        list = r->next;
        r->free_fn(r->obj);
        free(r);
    }
    return atomic_load_explicit(&e->waiting, memory_order_relaxed);
}

void epoch_retire(struct epoch *e, void *obj, void (*free_fn)(void *obj))
{
    struct retired *r = malloc(sizeof *r);
    if (r == NULL) {
        /* Lost memory is harmless, freed memory that is read is not. */
        static struct log_gate gate;
        uint64_t more;
        if (log_every(&gate, 10000, &more))
            log_error("out of memory: a retired object is never freed (%llu more)", (unsigned long long)more);
        return;
    }
    r->obj = obj;
    r->free_fn = free_fn;
    r->next = NULL;

    pthread_mutex_lock(&e->lock);
    r->tag = atomic_fetch_add_explicit(&e->now, 1, memory_order_acq_rel) + 1;
    *e->tail = r;
    e->tail = &r->next;
    atomic_fetch_add_explicit(&e->waiting, 1, memory_order_relaxed);
    pthread_mutex_unlock(&e->lock);
    epoch_reclaim(e);
}
