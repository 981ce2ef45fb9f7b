/* The store: opening and closing of all disk locations, loops that attach, news for heartbeats. */
#include "volume/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"
#include "net/log.h"
#include "volume/needle_io.h"
#include "volume/store_internal.h"
#include "volume/vacuum.h"

/* How long a stop waits for vacuums to give up, all of them together. */
#define VACUUM_END_WAIT_MS 10000u
#define VACUUM_END_STEP_MS 2u
#define MIB ((uint64_t)1 << 20)

void store_options_init(struct store_options *o)
{
    *o = (struct store_options){
        .index_kind = NEEDLE_MAP_MEMORY,
        .leveldb_cache_bytes = 4 * MIB,
        .durability = DURABILITY_GROUP,
        .offset_width = 5,
        .dirty_bytes = 64 * MIB,
        .zero_ahead_bytes = 1 * MIB,
        .stage_bytes = 16 * MIB,
        .pool_bytes = 128 * MIB,
        .cut_keep_bytes = VOLUME_CUT_KEEP_MAX,
        .size_limit_bytes = 30000 * MIB,
        .min_free_percent = 1,
    };
}

/* ---- open ---- */

static int check_options(const struct store_options *o)
{
    if (o->dir_count == 0 || o->dir_count > STORE_LOCATIONS_MAX) {
        log_error("between 1 and %d data folders can be served, not %" PRIu32, STORE_LOCATIONS_MAX, o->dir_count);
        return DFS_EINVAL;
    }
    if (o->offset_width != 4 && o->offset_width != 5) {
        log_error("offsets are 4 or 5 bytes wide, not %u", o->offset_width);
        return DFS_EINVAL;
    }
    return 0;
}

static int open_locations(struct store *s, const struct store_options *o)
{
    for (uint32_t i = 0; i < o->dir_count; i++) {
        int rc = disk_location_open(s, i, o->dirs[i], o->max_volumes[i], &s->locations[i]);

        if (rc != 0)
            return rc;
        s->location_count = i + 1;
    }
    for (uint32_t i = 0; i < s->location_count; i++) {
        int rc = disk_location_list(s->locations[i]);

        if (rc != 0)
            return rc;
    }
    return 0;
}

int store_open(const struct store_options *o, struct store **out)
{
    struct store *s;
    int rc = check_options(o);

    if (rc != 0)
        return rc;
    s = calloc(1, sizeof *s);
    if (s == NULL)
        return DFS_ENOMEM;
    s->options = *o;
    atomic_init(&s->size_limit_bytes, o->size_limit_bytes);
    pthread_mutex_init(&s->preallocating, NULL);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->loaded, NULL);
    rc = store_table_init(s);
    if (rc == 0)
        rc = epoch_new(&s->epoch);
    if (rc == 0)
        rc = chunk_pool_new(o->pool_bytes, o->pool_bytes / STORE_CHUNKS_RESERVED_DIV, &s->chunks);
    if (rc == 0)
        rc = work_pool_new("store-admin", STORE_ADMIN_THREADS, &s->admin);
    if (rc == 0)
        rc = open_locations(s, o);
    /* The names of folders were borrowed for this call. */
    memset(s->options.dirs, 0, sizeof s->options.dirs);
    if (rc != 0) {
        store_stop(s);
        store_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

/* ---- load ---- */

int store_load_start(struct store *s)
{
    CHECK(!s->load_started);
    s->load_started = true;
    s->loading_locations = s->location_count;
    for (uint32_t i = 0; i < s->location_count; i++) {
        int rc = disk_location_load_start(s->locations[i]);

        if (rc != 0) {
            /* The threads that run go on; this and the later folders stay unloaded and say so to every request. */
            pthread_mutex_lock(&s->lock);
            s->loading_locations -= s->location_count - i;
            pthread_cond_broadcast(&s->loaded);
            pthread_mutex_unlock(&s->lock);
            return rc;
        }
    }
    return 0;
}

void store_location_loaded(struct store *s, struct disk_location *loc)
{
    (void)loc;
    pthread_mutex_lock(&s->lock);
    s->loading_locations--;
    pthread_cond_broadcast(&s->loaded);
    pthread_mutex_unlock(&s->lock);
    store_changed(s);
}

bool store_loading(const struct store *s)
{
    struct store *w = (struct store *)(uintptr_t)s; /* only its lock is touched */
    bool loading;

    pthread_mutex_lock(&w->lock);
    loading = w->loading_locations > 0;
    pthread_mutex_unlock(&w->lock);
    return loading;
}

void store_load_wait(struct store *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->loading_locations > 0 || s->rebuilds > 0)
        pthread_cond_wait(&s->loaded, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

bool store_rebuild_begin(struct store *s)
{
    bool may;

    pthread_mutex_lock(&s->lock);
    may = !atomic_load(&s->stopping);
    s->rebuilds += may;
    pthread_mutex_unlock(&s->lock);
    return may;
}

void store_rebuild_end(struct store *s)
{
    pthread_mutex_lock(&s->lock);
    s->rebuilds--;
    pthread_cond_broadcast(&s->loaded);
    pthread_mutex_unlock(&s->lock);
}

void store_add_duplicate(struct store *s, uint32_t id, const char *path)
{
    struct store_duplicate *d = calloc(1, sizeof *d);

    log_error("volume %" PRIu32 " is served from another place already: '%s.dat' is left alone", id, path);
    if (d == NULL)
        return;
    d->id = id;
    (void)snprintf(d->path, sizeof d->path, "%s", path);
    pthread_mutex_lock(&s->lock);
    d->next = s->duplicates;
    s->duplicates = d;
    pthread_mutex_unlock(&s->lock);
}

/* ---- stop ---- */

static int close_on_writer(struct volume *v, void *arg)
{
    (void)arg;
    return volume_close(v);
}

/* One that is under way keeps the volume from a clean end: it is told to give up, and its thread needs a moment for that. */
static int end_vacuum(struct volume *v, void *arg)
{
    (void)arg;
    vacuum_drop(v);
    return v->vacuum != NULL ? DFS_EAGAIN : 0;
}

static void end_vacuums(struct volume **list, uint32_t count)
{
    uint64_t until_ms = clock_mono_ms() + VACUUM_END_WAIT_MS;

    for (uint32_t i = 0; i < count; i++) {
        while (store_on_writer(list[i], end_vacuum, NULL) == DFS_EAGAIN && clock_mono_ms() < until_ms)
            clock_sleep_ms(VACUUM_END_STEP_MS);
    }
}

void store_stop(struct store *s)
{
    struct volume **list = NULL;
    uint32_t count = 0;

    atomic_store(&s->stopping, true);
    store_load_wait(s);
    if (s->stopped)
        return;
    s->stopped = true;
    if (store_volumes(s, &list, &count) != 0)
        log_error("out of memory while closing: the volumes will be checked at the next start");
    for (uint32_t i = 0; i < count; i++)
        volume_set_no_write(list[i], VOLUME_CLOSING, NULL);
    end_vacuums(list, count);
    for (uint32_t i = 0; i < count; i++) {
        int rc = store_on_writer(list[i], close_on_writer, NULL);

        if (rc != 0)
            log_error("volume %" PRIu32 " was not closed cleanly: %s", list[i]->id, dfs_err_text(rc));
    }
    store_volumes_free(list, count);
    for (uint32_t i = 0; i < s->location_count; i++)
        disk_location_stop(s->locations[i]);
}

void store_free(struct store *s)
{
    struct store_duplicate *d;

    if (s == NULL)
        return;
    if (s->admin != NULL)
        work_pool_free(s->admin);
    for (uint32_t i = 0; i < atomic_load(&s->loop_count); i++)
        epoch_unregister(s->epoch, s->loops[i]->slot);
    store_table_release(s);
    if (s->epoch != NULL)
        epoch_free(s->epoch);
    for (uint32_t i = 0; i < s->location_count; i++)
        disk_location_free(s->locations[i]);
    for (uint32_t i = 0; i < atomic_load(&s->loop_count); i++)
        free(s->loops[i]);
    while ((d = s->duplicates) != NULL) {
        s->duplicates = d->next;
        free(d);
    }
    if (s->chunks != NULL)
        chunk_pool_free(s->chunks);
    pthread_cond_destroy(&s->loaded);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->preallocating);
    free(s);
}

/* ---- small doors ---- */

struct chunk_pool *store_chunks(struct store *s)
{
    return s->chunks;
}

struct epoch *store_epoch(struct store *s)
{
    return s->epoch;
}

struct work_pool *store_pool(struct store *s)
{
    return s->admin;
}

const struct store_options *store_options_get(const struct store *s)
{
    return &s->options;
}

uint64_t store_size_limit(const struct store *s)
{
    return atomic_load_explicit(&s->size_limit_bytes, memory_order_relaxed);
}

/* ---- loops ---- */

static void on_loop_step(void *arg)
{
    epoch_quiescent(((struct store_loop *)arg)->slot);
}

static void on_nudge(struct loop_msg *msg)
{
    struct store_loop *l = CONTAINER_OF(msg, struct store_loop, nudge);

    atomic_store_explicit(&l->nudged, false, memory_order_release);
}

int store_loop_attach(struct store *s, struct loop *loop)
{
    struct store_loop *l = calloc(1, sizeof *l);
    unsigned n;
    int rc;

    if (l == NULL)
        return DFS_ENOMEM;
    l->store = s;
    l->loop = loop;
    l->nudge.run = on_nudge;
    rc = epoch_register(s->epoch, &l->slot);
    if (rc != 0) {
        free(l);
        return rc;
    }
    pthread_mutex_lock(&s->lock);
    n = atomic_load(&s->loop_count);
    rc = n < STORE_LOOPS_MAX ? loop_on_step(loop, on_loop_step, l) : DFS_ENOSPC;
    if (rc == 0) {
        s->loops[n] = l;
        atomic_store_explicit(&s->loop_count, n + 1, memory_order_release);
    }
    pthread_mutex_unlock(&s->lock);
    if (rc != 0) {
        epoch_unregister(s->epoch, l->slot);
        free(l);
    }
    return rc;
}

void store_nudge_loops(struct store *s)
{
    unsigned n = atomic_load_explicit(&s->loop_count, memory_order_acquire);

    if (atomic_load(&s->stopping))
        return; /* the loops have ended, or end without us */
    for (unsigned i = 0; i < n; i++)
        if (!atomic_exchange_explicit(&s->loops[i]->nudged, true, memory_order_acq_rel))
            loop_post(s->loops[i]->loop, &s->loops[i]->nudge);
}

/* ---- news ---- */

static void on_watcher(struct loop_msg *msg)
{
    struct store_watcher *w = CONTAINER_OF(msg, struct store_watcher, msg);

    /* Cleared first: what changes from here on is told again. */
    atomic_store(&w->posted, false);
    w->fn(w->arg);
}

void store_on_change(struct store *s, struct loop *loop, void (*fn)(void *arg), void *arg)
{
    struct store_watcher *w;
    unsigned n;

    pthread_mutex_lock(&s->lock);
    n = atomic_load(&s->watcher_count);
    CHECK(n < STORE_WATCHERS_MAX);
    w = &s->watchers[n];
    w->loop = loop;
    w->fn = fn;
    w->arg = arg;
    w->msg.run = on_watcher;
    atomic_store_explicit(&s->watcher_count, n + 1, memory_order_release);
    pthread_mutex_unlock(&s->lock);
}

void store_changed(struct store *s)
{
    unsigned n = atomic_load_explicit(&s->watcher_count, memory_order_acquire);

    if (atomic_load(&s->stopping))
        return;
    for (unsigned i = 0; i < n; i++)
        if (!atomic_exchange(&s->watchers[i].posted, true))
            loop_post(s->watchers[i].loop, &s->watchers[i].msg);
}

/* ---- on the writer ---- */

struct writer_call {
    struct writer_cmd cmd;
    struct volume *volume;
    int (*fn)(struct volume *v, void *arg);
    void *arg;
    int rc;
};

static void run_writer_call(struct writer_cmd *cmd)
{
    struct writer_call *c = CONTAINER_OF(cmd, struct writer_call, cmd);

    c->rc = c->fn(c->volume, c->arg);
}

int store_on_writer(struct volume *v, int (*fn)(struct volume *v, void *arg), void *arg)
{
    struct writer_call c = {.cmd = {.run = run_writer_call, .volume = v}, .volume = v, .fn = fn, .arg = arg};

    append_queue_cmd_wait(v->location->appends, &c.cmd);
    return c.rc;
}
