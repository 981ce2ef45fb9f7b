/* Needle map in memory: 64 tables with open addressing, 17 bytes a slot (16 with 4-byte offsets), lock-free readers.
 *
 * A table is one block: header, then keys (u64), low halves of offsets (u32), sizes (u32, bit 31 = deleted), high bytes of
 * offsets (u8).  Slots are found by linear probing over the keys alone; 0 is a free slot, so key 0 has its place in the header.
 * An entry never moves inside a table and never leaves it (deleted keys are remembered), hence:
 *   new entry       the value first, then the key (release): who sees the key (acquire) sees the value.
 *   changed entry   under the table's sequence counter: odd while it is being changed.  Readers load the value with acquire, so
 *                   whoever got a new piece also sees the odd number in the second, relaxed, load of the counter and tries again.
 *   full table      its entries are copied to one 1.25 times as large, that is published, the old one is retired by epoch.  A
 *                   reader in the old one finds what was true when it came.
 *
 * Sizes are staggered over the tables, so that they grow one by one: at any time the loads are spread over a whole step of growth,
 * and the old and new copy of one table in 64 are all that growth needs on top.  A slot's place rises with its hash, so copying
 * goes through both tables in order.
 *
 * The hash is keyed at random: keys are chosen by clients, and long runs of equal places must not be. */
#include <math.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/rand.h"
#include "volume/needle_map_backend.h"

#define TABLES 64u
#define TABLE_SHIFT 58u /* 64 - log2(TABLES): the hash's upper bits choose the table */
#define LOAD_MAX 0.90
#define GROWTH 1.25
#define SLOTS_MIN 4.0
#define SLOTS_MAX 0xfffffff0u
/* Larger tables are mapped, to whole pages: the heap would keep the holes that growing tables leave. */
#define MAP_BYTES_MIN (16u * 1024u)
#define PAGE_BYTES 4096u
#define DELETED 0x80000000u
#define SPINS_BEFORE_YIELD 64

struct table {
    _Atomic uint32_t sequence;
    uint32_t slots, used, used_max; /* writer */
    uint64_t bytes;
    bool mapped;
    _Atomic bool zero_used;
    _Atomic uint8_t zero_high;
    _Atomic uint32_t zero_low, zero_size;
    _Atomic uint64_t keys[];
};

/* Where one entry's value stands. */
struct value_ref {
    _Atomic uint32_t *low, *size;
    _Atomic uint8_t *high; /* NULL with 4-byte offsets */
};

struct memory_map {
    struct needle_map map;
    struct epoch *epoch;
    uint64_t seed, factor;
    _Atomic uint64_t bytes;
    _Atomic(struct table *) table[TABLES];
};

static struct memory_map *self(struct needle_map *m)
{
    return (struct memory_map *)m;
}

static const struct memory_map *self_const(const struct needle_map *m)
{
    return (const struct memory_map *)m;
}

static uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 p = (unsigned __int128)a * b;
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static uint64_t hash(const struct memory_map *m, uint64_t key)
{
    return fold(fold(key ^ m->seed, m->factor) ^ m->seed, 0x9e3779b97f4a7c15ull);
}

/* The place of a hash in a table rises with the bits that did not choose the table. */
static uint32_t home(uint64_t h, uint32_t slots)
{
    return (uint32_t)((unsigned __int128)(h << (64 - TABLE_SHIFT)) * slots >> 64);
}

/* ---- one table ---- */

static unsigned slot_bytes(unsigned offset_width)
{
    return offset_width == 5 ? 17 : 16;
}

static struct value_ref value_at(struct table *t, unsigned offset_width, uint32_t i)
{
    _Atomic uint32_t *low = (_Atomic uint32_t *)(void *)(t->keys + t->slots);
    struct value_ref ref = {low + i, low + t->slots + i, NULL};
    if (offset_width == 5)
        ref.high = (_Atomic uint8_t *)(void *)(low + 2 * (size_t)t->slots) + i;
    return ref;
}

static struct value_ref zero_value(struct table *t, unsigned offset_width)
{
    return (struct value_ref){&t->zero_low, &t->zero_size, offset_width == 5 ? &t->zero_high : NULL};
}

static void value_load(struct value_ref ref, struct needle_value *out)
{
    uint64_t units = atomic_load_explicit(ref.low, memory_order_acquire);
    if (ref.high != NULL)
        units |= (uint64_t)atomic_load_explicit(ref.high, memory_order_acquire) << 32;
    uint32_t size = atomic_load_explicit(ref.size, memory_order_acquire);
    out->offset.units8 = units;
    out->size = size & ~DELETED;
    out->deleted = (size & DELETED) != 0;
}

static void value_store(struct value_ref ref, const struct needle_value *v)
{
    atomic_store_explicit(ref.low, (uint32_t)v->offset.units8, memory_order_release);
    if (ref.high != NULL)
        atomic_store_explicit(ref.high, (uint8_t)(v->offset.units8 >> 32), memory_order_release);
    atomic_store_explicit(ref.size, v->size | (v->deleted ? DELETED : 0), memory_order_release);
}

static void value_change(struct table *t, struct value_ref ref, const struct needle_value *v)
{
    uint32_t s = atomic_load_explicit(&t->sequence, memory_order_relaxed);
    atomic_store_explicit(&t->sequence, s + 1, memory_order_relaxed);
    value_store(ref, v);
    atomic_store_explicit(&t->sequence, s + 2, memory_order_release);
}

/* The slot of key, or (false) the free one where it would go.  There always is a free one. */
static bool find_slot(const struct table *t, uint64_t key, uint64_t h, uint32_t *slot)
{
    uint32_t i = home(h, t->slots);
    for (;;) {
        uint64_t k = atomic_load_explicit(&t->keys[i], memory_order_acquire);
        if (k == key || k == 0) {
            *slot = i;
            return k == key;
        }
        if (++i == t->slots)
            i = 0;
    }
}

static bool find_value(struct table *t, unsigned offset_width, uint64_t key, uint64_t h, struct value_ref *out)
{
    uint32_t i;
    if (key == 0) {
        *out = zero_value(t, offset_width);
        return atomic_load_explicit(&t->zero_used, memory_order_acquire);
    }
    if (!find_slot(t, key, h, &i))
        return false;
    *out = value_at(t, offset_width, i);
    return true;
}

static void insert(struct table *t, unsigned offset_width, uint64_t key, uint64_t h, const struct needle_value *v)
{
    if (key == 0) {
        value_store(zero_value(t, offset_width), v);
        atomic_store_explicit(&t->zero_used, true, memory_order_release);
        return;
    }
    uint32_t i;
    bool found = find_slot(t, key, h, &i);
    DCHECK(!found);
    (void)found;
    value_store(value_at(t, offset_width, i), v);
    atomic_store_explicit(&t->keys[i], key, memory_order_release);
    t->used++;
}

static void table_free(void *obj)
{
    struct table *t = obj;
    if (t != NULL && t->mapped)
        munmap(t, (size_t)t->bytes);
    else
        free(t);
}

/* All slots free; at least `slots` of them. */
static struct table *table_new(unsigned offset_width, uint64_t slots)
{
    if (slots > SLOTS_MAX)
        return NULL;
    uint64_t bytes = sizeof(struct table) + slots * slot_bytes(offset_width);
    struct table *t = NULL;
    bool mapped = false;
    if (bytes >= MAP_BYTES_MIN) {
        uint64_t whole = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
        void *p = mmap(NULL, (size_t)whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p != MAP_FAILED) {
            t = p;
            mapped = true;
            bytes = whole;
            slots = (whole - sizeof(struct table)) / slot_bytes(offset_width);
        }
    }
    /* Also when the kernel's limit on the number of mappings is reached. */
    if (t == NULL)
        t = calloc(1, (size_t)bytes);
    if (t == NULL)
        return NULL;
    t->mapped = mapped;
    t->bytes = bytes;
    t->slots = (uint32_t)slots;
    t->used_max = (uint32_t)((double)slots * LOAD_MAX);
    return t;
}

/* ---- growing ---- */

/* The sizes that table i takes one after the other: a geometric row that starts a little higher for each table. */
static uint64_t next_slots(unsigned i, uint64_t at_least)
{
    double slots = SLOTS_MIN * pow(GROWTH, (double)i / TABLES);
    while (slots < (double)at_least)
        slots *= GROWTH;
    return (uint64_t)slots;
}

static void account(struct memory_map *m, uint64_t plus, uint64_t minus)
{
    uint64_t v = atomic_load_explicit(&m->bytes, memory_order_relaxed);
    atomic_store_explicit(&m->bytes, v + plus - minus, memory_order_relaxed);
}

static void copy_entries(const struct memory_map *m, struct table *from, struct table *to)
{
    unsigned width = m->map.offset_width;
    struct needle_value v;
    if (atomic_load_explicit(&from->zero_used, memory_order_relaxed)) {
        value_load(zero_value(from, width), &v);
        insert(to, width, 0, 0, &v);
    }
    for (uint32_t i = 0; i < from->slots; i++) {
        uint64_t key = atomic_load_explicit(&from->keys[i], memory_order_relaxed);
        if (key == 0)
            continue;
        value_load(value_at(from, width, i), &v);
        insert(to, width, key, hash(m, key), &v);
    }
}

static struct table *grow(struct memory_map *m, unsigned i, uint64_t at_least)
{
    struct table *old = atomic_load_explicit(&m->table[i], memory_order_relaxed);
    struct table *t = table_new(m->map.offset_width, next_slots(i, at_least));
    if (t == NULL)
        return NULL;
    if (old != NULL)
        copy_entries(m, old, t);
    account(m, t->bytes, old != NULL ? old->bytes : 0);
    atomic_store_explicit(&m->table[i], t, memory_order_release);
    if (old != NULL && m->epoch != NULL)
        epoch_retire(m->epoch, old, table_free);
    else
        table_free(old);
    return t;
}

/* A table with room for one more entry. */
static struct table *room(struct memory_map *m, unsigned i)
{
    struct table *t = atomic_load_explicit(&m->table[i], memory_order_relaxed);
    if (t != NULL && t->used < t->used_max)
        return t;
    struct table *larger = grow(m, i, t == NULL ? 0 : (uint64_t)t->slots + 1);
    if (larger != NULL)
        return larger;
    /* No memory: slower beats refusing, as long as one slot stays free to end each search. */
    return t != NULL && t->used + 1 < t->slots ? t : NULL;
}

/* ---- the interface ---- */

static void pause_reader(int *spins)
{
    /* The writer is between three stores: done in a moment, unless the scheduler took its processor away. */
    if (++*spins > SPINS_BEFORE_YIELD)
        sched_yield();
#if defined(__x86_64__)
    else
        __builtin_ia32_pause();
#endif
}

static int memory_get(struct needle_map *map, uint64_t key, struct needle_value *out)
{
    struct memory_map *m = self(map);
    uint64_t h = hash(m, key);
    struct table *t = atomic_load_explicit(&m->table[h >> TABLE_SHIFT], memory_order_acquire);
    if (t == NULL)
        return DFS_ENOTFOUND;

    struct value_ref ref;
    if (!find_value(t, map->offset_width, key, h, &ref))
        return DFS_ENOTFOUND;
    for (int spins = 0;; pause_reader(&spins)) {
        uint32_t before = atomic_load_explicit(&t->sequence, memory_order_acquire);
        if ((before & 1) != 0)
            continue;
        struct needle_value v;
        value_load(ref, &v);
        if (atomic_load_explicit(&t->sequence, memory_order_relaxed) == before) {
            *out = v;
            return 0;
        }
    }
}

static int memory_put(struct needle_map *map, uint64_t key, const struct needle_value *v, struct needle_value *old, bool *had)
{
    struct memory_map *m = self(map);
    uint64_t h = hash(m, key);
    unsigned i = (unsigned)(h >> TABLE_SHIFT);
    struct table *t = atomic_load_explicit(&m->table[i], memory_order_relaxed);

    struct value_ref ref;
    if (t != NULL && find_value(t, map->offset_width, key, h, &ref)) {
        value_load(ref, old);
        value_change(t, ref, v);
        *had = true;
        return 0;
    }
    t = room(m, i);
    if (t == NULL)
        return DFS_ENOMEM;
    insert(t, map->offset_width, key, h, v);
    *had = false;
    return 0;
}

static int memory_mark_deleted(struct needle_map *map, uint64_t key, struct needle_value *old)
{
    struct memory_map *m = self(map);
    uint64_t h = hash(m, key);
    struct table *t = atomic_load_explicit(&m->table[h >> TABLE_SHIFT], memory_order_relaxed);
    struct value_ref ref;
    if (t == NULL || !find_value(t, map->offset_width, key, h, &ref))
        return DFS_ENOTFOUND;
    struct needle_value v;
    value_load(ref, &v);
    if (v.deleted)
        return DFS_ENOTFOUND;
    *old = v;
    v.deleted = true;
    value_change(t, ref, &v);
    return 0;
}

static void memory_share(struct needle_map *map, struct epoch *epoch)
{
    self(map)->epoch = epoch;
}

static void memory_prefetch(const struct needle_map *map, uint64_t key)
{
    const struct memory_map *m = self_const(map);
    uint64_t h = hash(m, key);
    struct table *t = atomic_load_explicit(&m->table[h >> TABLE_SHIFT], memory_order_relaxed);
    if (t == NULL)
        return;
    uint32_t i = home(h, t->slots); /* entries stand close to their place */
    struct value_ref ref = value_at(t, map->offset_width, i);
    __builtin_prefetch((const void *)&t->keys[i], 1);
    __builtin_prefetch((const void *)ref.low, 1);
    __builtin_prefetch((const void *)ref.size, 1);
    if (ref.high != NULL)
        __builtin_prefetch((const void *)ref.high, 1);
}

static int table_each(struct table *t, unsigned offset_width, bool with_deleted,
                      int (*fn)(uint64_t key, const struct needle_value *v, void *arg), void *arg)
{
    struct needle_value v;
    int rc = 0;
    if (atomic_load_explicit(&t->zero_used, memory_order_relaxed)) {
        value_load(zero_value(t, offset_width), &v);
        if (with_deleted || !v.deleted)
            rc = fn(0, &v, arg);
    }
    for (uint32_t i = 0; i < t->slots && rc == 0; i++) {
        uint64_t key = atomic_load_explicit(&t->keys[i], memory_order_relaxed);
        if (key == 0)
            continue;
        value_load(value_at(t, offset_width, i), &v);
        if (with_deleted || !v.deleted)
            rc = fn(key, &v, arg);
    }
    return rc;
}

static int memory_each(struct needle_map *map, bool with_deleted,
                       int (*fn)(uint64_t key, const struct needle_value *v, void *arg), void *arg)
{
    struct memory_map *m = self(map);
    int rc = 0;
    for (unsigned i = 0; i < TABLES && rc == 0; i++) {
        struct table *t = atomic_load_explicit(&m->table[i], memory_order_relaxed);
        if (t != NULL)
            rc = table_each(t, map->offset_width, with_deleted, fn, arg);
    }
    return rc;
}

static uint64_t memory_bytes(const struct needle_map *map)
{
    return sizeof(struct memory_map) + atomic_load_explicit(&self_const(map)->bytes, memory_order_relaxed);
}

static void memory_free(struct needle_map *map)
{
    struct memory_map *m = self(map);
    for (unsigned i = 0; i < TABLES; i++)
        table_free(atomic_load_explicit(&m->table[i], memory_order_relaxed));
    free(m);
}

static const struct needle_map_ops memory_ops = {
    .kind = NEEDLE_MAP_MEMORY,
    .get = memory_get,
    .put = memory_put,
    .mark_deleted = memory_mark_deleted,
    .share = memory_share,
    .prefetch = memory_prefetch,
    .each = memory_each,
    .memory_bytes = memory_bytes,
    .free = memory_free,
};

/* Slots for n entries spread over the tables at random: the fullest has about three deviations more than its share. */
static uint64_t slots_for(uint64_t n)
{
    double share = (double)n / TABLES;
    return (uint64_t)((share + 3 * sqrt(share)) / LOAD_MAX);
}

int needle_map_memory_new(struct epoch *epoch, unsigned offset_width, uint64_t expected, struct needle_map **out)
{
    CHECK(offset_width == 4 || offset_width == 5);
    struct memory_map *m = calloc(1, sizeof *m);
    if (m == NULL)
        return DFS_ENOMEM;
    m->map.ops = &memory_ops;
    m->map.offset_width = offset_width;
    m->epoch = epoch;
    m->seed = rand_u64();
    m->factor = rand_u64() | 1;
    /* A hint, perhaps from a file's length: what cannot be had now may never be needed. */
    for (unsigned i = 0; expected > 0 && i < TABLES; i++)
        if (grow(m, i, slots_for(expected)) == NULL)
            break;
    *out = &m->map;
    return 0;
}
