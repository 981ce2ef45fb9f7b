/* A needle map in files is a cache of the .idx.  One that turns out damaged while it is used is thrown away: the volume answers
 * "loading", and is closed and opened once more with a map that is built anew. */
#include <inttypes.h>
#include <stdio.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"
#include "net/log.h"
#include "volume/disk_location.h"
#include "volume/store_internal.h"

/* So often a volume's leveldb is built anew; then its map is kept in memory until the next start: a disk that spoils it again and
 * again should not take the volume away again and again. */
#define LEVELDB_REBUILDS_MAX 3u

/* ---- the rebuild; maintenance thread ---- */

struct closing {
    struct volume_gen *gen; /* with a reference */
};

static int close_for_rebuild(struct volume *v, void *arg)
{
    struct closing *c = arg;
    bool other = v->ldb_other;

    c->gen = volume_gen_ref(v);
    /* What it cannot write (rows, a checkpoint) the loader finds in the .dat. */
    (void)volume_close(v);
    /* A vacuum that has still to give up owns the other folder: the new map goes where the old one was. */
    v->ldb_other = other;
    return 0;
}

static int rebuild(struct volume *v, char why[256])
{
    struct closing c = {NULL};
    unsigned times = atomic_load_explicit(&v->map_rebuilds, memory_order_relaxed);

    if (atomic_load(&v->store->stopping))
        return DFS_ECANCELLED;
    if (disk_location_verify(v->location) != 0) {
        (void)snprintf(why, 256, "its data folder is gone");
        return DFS_EUNAVAILABLE; /* what is open is not closed for nothing */
    }
    (void)store_on_writer(v, close_for_rebuild, &c);
    if (c.gen != NULL) {
        /* Slow readers may keep the generation for long; they have no need of its map any more. */
        needle_map_abandon(c.gen->map);
        volume_gen_unref(c.gen);
    }
    return volume_load_again(v, times > LEVELDB_REBUILDS_MAX, why);
}

/* The files themselves say no: the next attempt would hear the same. */
static bool is_final(int rc)
{
    return rc == DFS_ECORRUPT || rc == DFS_EVERSION || rc == DFS_EINVAL || rc == DFS_ENOTFOUND;
}

static void run_rebuild(struct work *w)
{
    struct volume *v = CONTAINER_OF(w, struct volume, rebuild);
    struct store *s = v->store;
    uint64_t start_ms = clock_mono_ms();
    char why[256] = "";
    int rc = rebuild(v, why);

    if (rc == 0) {
        /* Another rebuild may have been asked for by now: w is not touched any more. */
        log_info("volume %" PRIu32 ": its index was built anew in %" PRIu64 " ms from %" PRIu64 " rows", v->id,
                 clock_mono_ms() - start_ms, atomic_load_explicit(&v->idx_rows_replayed, memory_order_relaxed));
    } else if (is_final(rc)) {
        volume_set_no_write(v, VOLUME_BROKEN, "%s", why);
    } else if (rc != DFS_ECANCELLED) {
        log_warning("volume %" PRIu32 ": its index is not built anew yet, it is tried again: %s", v->id, why);
        atomic_store(&v->rebuild_again, true);
    }
    volume_unref(v);
    store_rebuild_end(s);
}

static void submit(struct volume *v)
{
    if (!store_rebuild_begin(v->store))
        return; /* nothing is sealed that failed: the next start builds it anew */
    volume_ref(v);
    v->rebuild = (struct work){.run = run_rebuild};
    work_submit(v->location->maintenance, &v->rebuild);
}

void volume_map_retry(struct volume *v)
{
    const unsigned other = VOLUME_CLOSING | VOLUME_UNMOUNTED | VOLUME_BROKEN;

    if ((atomic_load(&v->no_write) & other) == 0 && atomic_exchange(&v->rebuild_again, false))
        submit(v);
}

/* ---- the discovery ---- */

/* True for the one caller that has to see to it.  A volume that is closing is left alone: so is one that is loading already. */
static bool begin_loading(struct volume *v)
{
    const unsigned busy = VOLUME_LOADING | VOLUME_CLOSING | VOLUME_UNMOUNTED | VOLUME_BROKEN;
    unsigned bits = atomic_load_explicit(&v->no_write, memory_order_relaxed);

    do
        if ((bits & busy) != 0)
            return false;
    while (!atomic_compare_exchange_weak_explicit(&v->no_write, &bits, bits | VOLUME_LOADING, memory_order_acq_rel,
                                                  memory_order_relaxed));
    return true;
}

void volume_map_suspect(const struct volume_gen *g)
{
    struct volume *v = g->volume;

    /* Another one took its place already, or will: an old map is nobody's concern. */
    if (volume_gen_peek(v) != g || !begin_loading(v))
        return;
    if (volume_gen_peek(v) != g) {
        volume_clear_no_write(v, VOLUME_LOADING);
        return;
    }
    atomic_fetch_add_explicit(&v->map_rebuilds, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&v->store->map_rebuilds, 1, memory_order_relaxed);
    log_error("volume %" PRIu32 ": its leveldb index is damaged and is built anew; until then the volume is loading", v->id);
    store_changed(v->store);
    submit(v);
}

int volume_gen_find(const struct volume_gen *g, uint64_t key, struct needle_value *out)
{
    int rc = needle_map_get(g->map, key, out);

    if (rc == 0 || rc == DFS_ENOTFOUND || rc == DFS_ELOADING)
        return rc;
    volume_map_suspect(g);
    return DFS_ELOADING;
}
