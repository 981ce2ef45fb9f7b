/* The part that both backends share: what may go in, and the numbers. */
#include "volume/needle_map.h"

#include <stddef.h>

#include "needle/err.h"
#include "needle/needle.h"
#include "volume/needle_map_backend.h"

/* There is one writer, so a plain load and store will do. */
static void add(_Atomic uint64_t *number, uint64_t n)
{
    uint64_t v = atomic_load_explicit(number, memory_order_relaxed);
    atomic_store_explicit(number, v + n, memory_order_relaxed);
}

static void sub(_Atomic uint64_t *number, uint64_t n)
{
    add(number, -n);
}

static uint64_t load(const _Atomic uint64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

static void count_live(struct needle_map_counts *c, uint32_t size)
{
    add(&c->live_count, 1);
    add(&c->live_bytes, size);
}

static void count_dead(struct needle_map_counts *c, uint32_t size)
{
    sub(&c->live_count, 1);
    sub(&c->live_bytes, size);
    add(&c->deleted_count, 1);
    add(&c->deleted_bytes, size);
}

static bool same_entry(const struct needle_value *a, const struct needle_value *b)
{
    return a->offset.units8 == b->offset.units8 && a->size == b->size && a->deleted == b->deleted;
}

enum needle_map_kind needle_map_kind_of(const struct needle_map *m)
{
    return m->ops->kind;
}

bool needle_map_may_block(const struct needle_map *m)
{
    return m->ops->may_block;
}

int needle_map_get(struct needle_map *m, uint64_t key, struct needle_value *out)
{
    return m->ops->get(m, key, out);
}

void needle_map_share(struct needle_map *m, struct epoch *epoch)
{
    if (m->ops->share != NULL)
        m->ops->share(m, epoch);
}

void needle_map_prefetch(const struct needle_map *m, uint64_t key)
{
    if (m->ops->prefetch != NULL)
        m->ops->prefetch(m, key);
}

int needle_map_put(struct needle_map *m, uint64_t key, struct needle_offset offset, uint32_t size,
                   struct needle_value *old, bool *had)
{
    if (size > NEEDLE_BODY_MAX || needle_offset_bytes(offset) >= idx_addressable_end(m->offset_width))
        return DFS_EINVAL;
    struct needle_value v = {.offset = offset, .size = size}, before = {0};
    bool existed = false;
    int rc = m->ops->put(m, key, &v, &before, &existed);
    if (rc != 0)
        return rc;

    /* The same row once more (a log that is read again from an earlier place) changes nothing. */
    if (!existed || !same_entry(&before, &v)) {
        if (existed && !before.deleted)
            count_dead(&m->counts, before.size);
        count_live(&m->counts, size);
    }
    if (key > load(&m->counts.max_key))
        atomic_store_explicit(&m->counts.max_key, key, memory_order_relaxed);
    if (old != NULL && existed)
        *old = before;
    if (had != NULL)
        *had = existed;
    return 0;
}

int needle_map_delete(struct needle_map *m, uint64_t key, struct needle_value *old)
{
    struct needle_value before;
    int rc = m->ops->mark_deleted(m, key, &before);
    if (rc != 0)
        return rc;
    count_dead(&m->counts, before.size);
    if (old != NULL)
        *old = before;
    return 0;
}

void needle_map_begin(struct needle_map *m)
{
    if (m->ops->begin != NULL)
        m->ops->begin(m);
}

int needle_map_commit(struct needle_map *m, const struct needle_map_checkpoint *checkpoint)
{
    return m->ops->commit != NULL ? m->ops->commit(m, checkpoint) : 0;
}

int needle_map_each(struct needle_map *m, bool with_deleted, int (*fn)(uint64_t key, const struct needle_value *v, void *arg),
                    void *arg)
{
    return m->ops->each(m, with_deleted, fn, arg);
}

bool needle_map_failed(const struct needle_map *m)
{
    return m->ops->failed != NULL && m->ops->failed(m);
}

void needle_map_abandon(struct needle_map *m)
{
    if (m->ops->abandon != NULL)
        m->ops->abandon(m);
}

void needle_map_stats(const struct needle_map *m, struct needle_map_stats *out)
{
    out->live_count = load(&m->counts.live_count);
    out->live_bytes = load(&m->counts.live_bytes);
    out->deleted_count = load(&m->counts.deleted_count);
    out->deleted_bytes = load(&m->counts.deleted_bytes);
    out->max_key = load(&m->counts.max_key);
    out->memory_bytes = m->ops->memory_bytes(m);
}

void needle_map_free(struct needle_map *m)
{
    if (m != NULL)
        m->ops->free(m);
}
