/* A volume and its generations in memory: references, what may be written, numbers for /status. */
#include "volume/volume.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/log.h"
#include "volume/disk_location.h"
#include "volume/store.h"
#include "volume/store_internal.h"

/* ---- generations ---- */

/* A .dat of `bytes`, and as much as it may grow to. */
static uint64_t room_for(const struct volume *v, uint64_t bytes)
{
    uint64_t limit = v->size_limit_bytes > v->preallocated_bytes ? v->size_limit_bytes : v->preallocated_bytes;
    uint64_t room = bytes > limit ? bytes : limit;

    return room + room / 8;
}

int volume_gen_new(struct volume *v, int fd, struct needle_map *map, uint16_t revision, uint64_t end, struct volume_gen **out)
{
    struct volume_gen *g = calloc(1, sizeof *g);

    if (g == NULL)
        return DFS_ENOMEM;
    if (known_records_init(&g->known, room_for(v, end)) != 0) {
        free(g);
        return DFS_ENOMEM;
    }
    /* Without it nothing counts as resident: large reads go through the reader pool. */
    (void)disk_residency_new(fd, &g->residency);
    atomic_init(&g->refs, 1);
    g->volume = v;
    g->fd = fd;
    needle_map_share(map, store_epoch(v->store));
    g->map = map;
    g->revision = revision;
    g->version = v->sb.version;
    atomic_init(&g->end, end);
    atomic_fetch_add_explicit(&v->generations, 1, memory_order_relaxed);
    volume_ref(v);
    *out = g;
    return 0;
}

static void gen_free(struct volume_gen *g)
{
    struct volume *v = g->volume;

    disk_residency_free(g->residency);
    needle_map_free(g->map);
    disk_close(&g->fd);
    known_records_release(&g->known);
    free(g);
    atomic_fetch_sub_explicit(&v->generations, 1, memory_order_release);
    volume_unref(v);
}

static void run_gen_free(struct work *w)
{
    gen_free(CONTAINER_OF(w, struct volume_gen, closing));
}

void volume_gen_unref(struct volume_gen *g)
{
    if (g == NULL || atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) != 1)
        return;
    /* Closing the last descriptor of an unlinked .dat frees its blocks: gigabytes of them, and a loop must not wait. */
    if (loop_current() != NULL && g->volume->location->maintenance != NULL) {
        g->closing.run = run_gen_free;
        work_submit(g->volume->location->maintenance, &g->closing);
        return;
    }
    gen_free(g);
}

struct volume_gen *volume_gen_ref(struct volume *v)
{
    struct volume_gen *g;

    /* While the lock is held v->gen keeps its own reference, so the count cannot be on its way to zero. */
    pthread_mutex_lock(&v->lock);
    g = atomic_load_explicit(&v->gen, memory_order_acquire);
    if (g != NULL)
        atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
    pthread_mutex_unlock(&v->lock);
    return g;
}

int volume_gen_datasync(struct volume_gen *g)
{
    return writeback_datasync(g->volume->location->writeback, &g->wb, g->fd);
}

static void unref_gen_later(void *obj)
{
    volume_gen_unref(obj);
}

static void on_flush_error(struct writeback_file *f, int rc)
{
    struct volume_gen *g = CONTAINER_OF(f, struct volume_gen, wb);

    volume_set_no_write(g->volume, VOLUME_FLUSH_FAILED, "write-back of '%s.dat' failed: %s", g->volume->base,
                        dfs_err_text(rc));
}

void volume_publish(struct volume *v, struct volume_gen *g)
{
    struct volume_gen *old;

    if (g != NULL && v->location->writeback != NULL) {
        g->wb.on_error = on_flush_error;
        writeback_attach(v->location->writeback, &g->wb, g->fd, atomic_load_explicit(&g->end, memory_order_relaxed));
    }
    pthread_mutex_lock(&v->lock);
    old = atomic_load_explicit(&v->gen, memory_order_relaxed);
    atomic_store_explicit(&v->gen, g, memory_order_release);
    pthread_mutex_unlock(&v->lock);
    if (old == NULL)
        return;
    if (old->wb.wb != NULL)
        writeback_detach(&old->wb);
    /* Threads may have peeked at it in their current step. */
    epoch_retire(store_epoch(v->store), old, unref_gen_later);
    store_nudge_loops(v->store);
}

/* ---- the volume ---- */

int volume_new(struct disk_location *loc, uint32_t id, struct bytes collection, struct volume **out)
{
    struct volume *v;
    int n;

    if (collection.n > VOLUME_COLLECTION_MAX || id == 0)
        return DFS_EINVAL;
    v = calloc(1, sizeof *v);
    if (v == NULL)
        return DFS_ENOMEM;
    v->id = id;
    v->location = loc;
    v->store = loc->store;
    if (collection.n > 0)
        memcpy(v->collection, collection.p, collection.n);
    n = snprintf(v->base, sizeof v->base, "%s/%s%s%" PRIu32, loc->dir, v->collection, collection.n > 0 ? "_" : "", id);
    if (n < 0 || (size_t)n + VOLUME_SUFFIX_MAX >= sizeof v->base) {
        free(v);
        return DFS_ETOOBIG;
    }
    pthread_mutex_init(&v->lock, NULL);
    atomic_init(&v->refs, 1);
    atomic_init(&v->no_write, VOLUME_LOADING);
    v->idx_fd = -1;
    v->offset_width = loc->store != NULL ? store_options_get(loc->store)->offset_width : 5;
    v->size_limit_bytes = loc->store != NULL ? store_size_limit(loc->store) : 0;
    *out = v;
    return 0;
}

void volume_ref(struct volume *v)
{
    atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
}

void volume_unref(struct volume *v)
{
    if (v == NULL || atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) != 1)
        return;
    CHECK(atomic_load_explicit(&v->gen, memory_order_relaxed) == NULL);
    disk_close(&v->idx_fd);
    free(v->idx_pending);
    free(v->recent_deletes);
    pthread_mutex_destroy(&v->lock);
    free(v);
}

/* ---- may it be written? ---- */

/* The gravest reason in a word or two ("loading", "flush failed"); "" for none. */
static const char *no_write_text(unsigned bits)
{
    static const struct {
        unsigned bit;
        const char *text;
    } names[] = {
        {VOLUME_BROKEN, "broken"},     {VOLUME_OFFLINE, "offline"},   {VOLUME_CLOSING, "closing"}, {VOLUME_UNMOUNTED, "unmounted"},
        {VOLUME_LOADING, "loading"},   {VOLUME_FLUSH_FAILED, "flush failed"}, {VOLUME_DAMAGED, "damaged"},
        {VOLUME_DISK_LOW, "disk low"}, {VOLUME_MARKED, "marked read-only"},   {VOLUME_SEALED, "sealed"},
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if ((bits & names[i].bit) != 0)
            return names[i].text;
    return "";
}

void volume_set_no_write(struct volume *v, unsigned bits, const char *reason_fmt, ...)
{
    char reason[sizeof v->reason] = "";
    unsigned before;
    va_list ap;

    if (reason_fmt != NULL) {
        va_start(ap, reason_fmt);
        (void)vsnprintf(reason, sizeof reason, reason_fmt, ap);
        va_end(ap);
        pthread_mutex_lock(&v->lock);
        memcpy(v->reason, reason, sizeof reason);
        pthread_mutex_unlock(&v->lock);
    }
    before = atomic_fetch_or_explicit(&v->no_write, bits, memory_order_acq_rel);
    if ((before & bits) == bits)
        return;
    if (reason[0] != '\0')
        log_warning("volume %" PRIu32 " takes no writes (%s): %s", v->id, no_write_text(bits & ~before), reason);
    if (v->store != NULL)
        store_changed(v->store);
}

void volume_clear_no_write(struct volume *v, unsigned bits)
{
    unsigned before = atomic_fetch_and_explicit(&v->no_write, ~bits, memory_order_acq_rel);

    if ((before & bits) != 0 && v->store != NULL)
        store_changed(v->store);
}

/* ---- numbers ---- */

void volume_info_get(struct volume *v, struct volume_info *out)
{
    struct volume_gen *g = volume_gen_ref(v);
    struct needle_map_stats stats = {0};

    memset(out, 0, sizeof *out);
    out->id = v->id;
    memcpy(out->collection, v->collection, sizeof out->collection);
    out->dat_bytes = atomic_load_explicit(&v->dat_bytes, memory_order_relaxed);
    if (g != NULL) {
        needle_map_stats(g->map, &stats);
        out->version = g->version;
        out->compact_revision = g->revision;
        out->memory_bytes = stats.memory_bytes + known_records_memory_bytes(&g->known);
        volume_gen_unref(g);
    }
    /* Each put is live, or was overwritten or deleted: that is how the peer counts files. */
    out->live_count = stats.live_count;
    out->file_count = stats.live_count + stats.deleted_count;
    out->file_bytes = stats.live_bytes + stats.deleted_bytes;
    out->delete_count = stats.deleted_count;
    out->deleted_bytes = stats.deleted_bytes;
    out->max_key = stats.max_key;
    out->last_modified_s = atomic_load_explicit(&v->last_modified_s, memory_order_relaxed);
    out->last_append_ns = atomic_load_explicit(&v->last_append_seen_ns, memory_order_relaxed);
    out->no_write = atomic_load_explicit(&v->no_write, memory_order_acquire);
    out->corrupt_count = atomic_load_explicit(&v->corrupt_count, memory_order_relaxed);
    out->cut_bytes = atomic_load_explicit(&v->cut_bytes, memory_order_relaxed);
    out->location_index = v->location->index;
    pthread_mutex_lock(&v->lock);
    out->placement = v->sb.placement;
    out->ttl = v->sb.ttl;
    memcpy(out->reason, v->reason, sizeof out->reason);
    pthread_mutex_unlock(&v->lock);
}
