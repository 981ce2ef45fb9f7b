/* Volume id to volume: an open-addressing table that loops read without a lock.
 *
 * Slots only ever go from empty to a volume, and from a volume to GONE; a full table is replaced by a larger one and the old one
 * retired.  So a reader meets each slot in some valid state, and whatever pointer it finds stays valid until its next quiescent
 * point, because a removed volume's reference is dropped through the epoch as well. */
#include <stdlib.h>

#include "needle/check.h"
#include "needle/err.h"
#include "volume/store_internal.h"

#define TABLE_SLOTS_MIN 64u

struct volume_table {
    uint32_t mask;  /* slots - 1 */
    uint32_t used;  /* slots that are not empty, GONE too */
    uint32_t count; /* volumes */
    _Atomic(struct volume *) slots[];
};

static struct volume gone_volume; /* its address marks a removed entry */
#define GONE (&gone_volume)

static uint32_t first_slot(const struct volume_table *t, uint32_t id)
{
    return (id * 0x9e3779b1u) & t->mask;
}

static struct volume_table *table_new(uint32_t slots)
{
    struct volume_table *t = calloc(1, sizeof *t + slots * sizeof t->slots[0]);

    if (t != NULL)
        t->mask = slots - 1;
    return t;
}

/* Lock held, or nobody sees the table yet; there is room. */
static void table_put(struct volume_table *t, struct volume *v)
{
    uint32_t i = first_slot(t, v->id);

    while (atomic_load_explicit(&t->slots[i], memory_order_relaxed) != NULL)
        i = (i + 1) & t->mask;
    atomic_store_explicit(&t->slots[i], v, memory_order_release);
    t->used++;
    t->count++;
}

static struct volume *table_get(const struct volume_table *t, uint32_t id, uint32_t *slot)
{
    for (uint32_t i = first_slot(t, id);; i = (i + 1) & t->mask) {
        struct volume *v = atomic_load_explicit(&t->slots[i], memory_order_acquire);

        if (v == NULL)
            return NULL;
        if (v == GONE || v->id != id)
            continue;
        if (slot != NULL)
            *slot = i;
        return v;
    }
}

static struct volume_table *table_of(struct store *s)
{
    return atomic_load_explicit(&s->table, memory_order_acquire);
}

/* At most half of the slots are ever taken, so that every probe ends. */
static int make_room_locked(struct store *s)
{
    struct volume_table *old = table_of(s);
    struct volume_table *t;
    uint32_t slots = TABLE_SLOTS_MIN;

    if ((old->used + 1) * 2 <= old->mask + 1)
        return 0;
    while (slots < (old->count + 1) * 4)
        slots *= 2;
    t = table_new(slots);
    if (t == NULL)
        return DFS_ENOMEM;
    for (uint32_t i = 0; i <= old->mask; i++) {
        struct volume *v = atomic_load_explicit(&old->slots[i], memory_order_relaxed);

        if (v != NULL && v != GONE)
            table_put(t, v);
    }
    atomic_store_explicit(&s->table, t, memory_order_release);
    epoch_retire(s->epoch, old, free);
    return 0;
}

int store_table_init(struct store *s)
{
    struct volume_table *t = table_new(TABLE_SLOTS_MIN);

    if (t == NULL)
        return DFS_ENOMEM;
    atomic_init(&s->table, t);
    return 0;
}

void store_table_release(struct store *s)
{
    struct volume_table *t = table_of(s);

    if (t == NULL)
        return;
    for (uint32_t i = 0; i <= t->mask; i++) {
        struct volume *v = atomic_load_explicit(&t->slots[i], memory_order_relaxed);

        if (v != NULL && v != GONE)
            volume_unref(v);
    }
    free(t);
    atomic_store_explicit(&s->table, NULL, memory_order_relaxed);
}

int store_table_add(struct store *s, struct volume *v)
{
    int rc;

    pthread_mutex_lock(&s->lock);
    rc = table_get(table_of(s), v->id, NULL) != NULL ? DFS_EEXIST : make_room_locked(s);
    if (rc == 0) {
        table_put(table_of(s), v);
        atomic_fetch_add_explicit(&v->location->volume_count, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static void unref_volume(void *obj)
{
    volume_unref(obj);
}

bool store_table_remove(struct store *s, struct volume *v)
{
    uint32_t slot;
    bool found;

    pthread_mutex_lock(&s->lock);
    found = table_get(table_of(s), v->id, &slot) == v;
    if (found) {
        struct volume_table *t = table_of(s);

        atomic_store_explicit(&t->slots[slot], GONE, memory_order_release);
        t->count--;
        atomic_fetch_sub_explicit(&v->location->volume_count, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&s->lock);
    if (found) {
        epoch_retire(s->epoch, v, unref_volume);
        store_nudge_loops(s);
    }
    return found;
}

struct volume *store_find(struct store *s, uint32_t volume_id)
{
    return table_get(table_of(s), volume_id, NULL);
}

struct volume *store_get(struct store *s, uint32_t volume_id)
{
    struct volume *v;

    pthread_mutex_lock(&s->lock);
    v = table_get(table_of(s), volume_id, NULL);
    if (v != NULL)
        volume_ref(v);
    pthread_mutex_unlock(&s->lock);
    return v;
}

int store_volumes(struct store *s, struct volume ***out, uint32_t *count)
{
    struct volume_table *t;
    struct volume **list;
    uint32_t n = 0;

    pthread_mutex_lock(&s->lock);
    t = table_of(s);
    list = malloc((t->count + 1) * sizeof *list);
    for (uint32_t i = 0; list != NULL && i <= t->mask; i++) {
        struct volume *v = atomic_load_explicit(&t->slots[i], memory_order_relaxed);

        if (v == NULL || v == GONE)
            continue;
        volume_ref(v);
        list[n++] = v;
    }
    pthread_mutex_unlock(&s->lock);
    if (list == NULL)
        return DFS_ENOMEM;
    *out = list;
    *count = n;
    return 0;
}

void store_volumes_free(struct volume **list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        volume_unref(list[i]);
    free(list);
}
