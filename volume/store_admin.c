/* What the master and operators ask of the store: new volumes, volumes that go, marks.  Blocks: admin threads only. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "needle/err.h"
#include "net/clock.h"
#include "net/log.h"
#include "volume/location_names.h"
#include "volume/store_internal.h"
#include "volume/volume_vif.h"
#include "volume/zero_ahead.h"

/* How long readers of a closed volume may take to let go of it. */
#define GENERATIONS_WAIT_MS 10000u
#define GENERATIONS_STEP_MS 5u

/* ---- allocate ---- */

struct allocation {
    uint32_t id;
    struct bytes collection;
    struct superblock sb;
    uint64_t preallocate_bytes;
};

/* The location with the most free slots of those not tried yet. */
static struct disk_location *pick_location(struct store *s, const bool *tried)
{
    struct disk_location *best = NULL;
    uint32_t best_slots = 0;

    for (uint32_t i = 0; i < s->location_count; i++) {
        uint32_t slots = tried[i] ? 0 : disk_location_free_slots(s->locations[i]);

        if (slots > best_slots) {
            best = s->locations[i];
            best_slots = slots;
        }
    }
    return best;
}

static int allocate_in(struct disk_location *loc, const struct allocation *a)
{
    struct volume *v;
    int rc = volume_new(loc, a->id, a->collection, &v);

    if (rc != 0)
        return rc;
    v->offset_width = disk_location_offset_width(loc);
    v->sb = a->sb; /* before a heartbeat may tell of it */
    /* The name first: two requests for one id must not both make files. */
    rc = store_table_add(loc->store, v);
    if (rc != 0) {
        volume_unref(v);
        return rc;
    }
    volume_ref(v);
    rc = volume_create(v, &a->sb, a->preallocate_bytes);
    if (rc != 0)
        store_table_remove(loc->store, v);
    volume_unref(v);
    return rc;
}

static void explain_no_slot(struct store *s, char reason[256])
{
    uint32_t low = 0, offline = 0, full = 0;

    for (uint32_t i = 0; i < s->location_count; i++) {
        struct disk_location *loc = s->locations[i];

        if (atomic_load(&loc->offline))
            offline++;
        else if (atomic_load(&loc->low_space))
            low++;
        else
            full++;
    }
    (void)snprintf(reason, 256, "no slot for a volume: of %" PRIu32 " data folders %" PRIu32 " have all slots taken, %" PRIu32
                   " are low on space, %" PRIu32 " are gone", s->location_count, full, low, offline);
}

int store_allocate(struct store *s, uint32_t volume_id, struct bytes collection, struct replica_placement rp, struct ttl ttl,
                   uint8_t version, uint64_t preallocate_bytes, char reason[256])
{
    struct allocation a = {
        .id = volume_id,
        .collection = collection,
        .sb = {.version = version == 0 ? NEEDLE_V3 : version, .placement = rp, .ttl = ttl},
        .preallocate_bytes = preallocate_bytes,
    };
    bool tried[STORE_LOCATIONS_MAX] = {false};
    struct disk_location *loc;
    int rc = DFS_ENOSPC;

    reason[0] = '\0';
    if (volume_id == 0 || !collection_name_valid(collection) || a.sb.version > NEEDLE_V3) {
        (void)snprintf(reason, 256, "not a volume id, collection name or version");
        return DFS_EINVAL;
    }
    if (atomic_load(&s->stopping))
        return DFS_EUNAVAILABLE;
    explain_no_slot(s, reason);
    while ((loc = pick_location(s, tried)) != NULL) {
        rc = allocate_in(loc, &a);
        if (rc == 0) {
            reason[0] = '\0';
            log_info("volume %" PRIu32 " of collection '%.*s' created in '%s'", volume_id, (int)collection.n, collection.p,
                     loc->dir_as_given);
            store_changed(s);
            return 0;
        }
        (void)snprintf(reason, 256, "cannot create volume %" PRIu32 " in '%.120s': %s", volume_id, loc->dir_as_given,
                       dfs_err_text(rc));
        if (rc == DFS_EEXIST || rc == DFS_EINVAL)
            return rc;
        log_error("%s (%s)", reason, strerror(errno));
        tried[loc->index] = true;
    }
    return rc;
}

/* ---- closing one ---- */

/* From here on nobody else closes or deletes it.  DFS_ELOADING, DFS_EBUSY. */
static int begin_closing(struct volume *v)
{
    unsigned before = atomic_load(&v->no_write);

    do {
        if ((before & VOLUME_LOADING) != 0 && (before & VOLUME_BROKEN) == 0)
            return DFS_ELOADING;
        if ((before & VOLUME_CLOSING) != 0)
            return DFS_EBUSY;
    } while (!atomic_compare_exchange_weak(&v->no_write, &before, before | VOLUME_CLOSING));
    return 0;
}

static int close_if(struct volume *v, void *arg)
{
    bool only_empty = *(const bool *)arg;
    struct volume_gen *g = volume_gen_peek(v);
    struct needle_map_stats stats;

    if (only_empty) {
        if (g == NULL)
            return DFS_EBUSY; /* what cannot be opened is not known to be empty */
        needle_map_stats(g->map, &stats);
        if (stats.live_count > 0)
            return DFS_EBUSY;
    }
    (void)volume_close(v); /* it goes, or says itself what it could not do */
    return 0;
}

/* The files may only be opened again when nobody has them open. */
static int wait_for_generations(struct volume *v)
{
    uint64_t until_ms = clock_mono_ms() + GENERATIONS_WAIT_MS;

    while (atomic_load_explicit(&v->generations, memory_order_acquire) > 0) {
        if (clock_mono_ms() >= until_ms)
            return DFS_EBUSY;
        store_nudge_loops(v->store);
        (void)epoch_reclaim(store_epoch(v->store));
        if (atomic_load_explicit(&v->generations, memory_order_acquire) == 0)
            break;
        clock_sleep_ms(GENERATIONS_STEP_MS);
    }
    return 0;
}

/* ---- delete ---- */

static int delete_closed(struct volume *v)
{
    int rc = volume_remove_files(v);

    if (rc != 0) {
        /* Its .dat is there still: serve it rather than hide it. */
        if (wait_for_generations(v) == 0 && volume_load(v) == 0)
            volume_clear_no_write(v, VOLUME_CLOSING);
        return rc;
    }
    store_table_remove(v->store, v);
    log_info("volume %" PRIu32 " of collection '%s' deleted", v->id, v->collection);
    store_changed(v->store);
    return 0;
}

int store_delete_volume(struct store *s, uint32_t volume_id, bool only_empty)
{
    struct volume *v = store_get(s, volume_id);
    int rc;

    if (v == NULL)
        return DFS_ENOVOLUME;
    rc = begin_closing(v);
    if (rc == 0) {
        rc = store_on_writer(v, close_if, &only_empty);
        if (rc == 0)
            rc = delete_closed(v);
        else
            volume_clear_no_write(v, VOLUME_CLOSING);
    }
    volume_unref(v);
    return rc;
}

int store_delete_collection(struct store *s, struct bytes collection, uint32_t *deleted)
{
    struct volume **list;
    uint32_t count, done = 0;
    int rc;

    if (collection.n == 0 || !collection_name_valid(collection))
        return DFS_EINVAL;
    rc = store_volumes(s, &list, &count);
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < count; i++) {
        int one;

        if (!bytes_eq(bytes_str(list[i]->collection), collection))
            continue;
        one = store_delete_volume(s, list[i]->id, false);
        if (one == 0)
            done++;
        else if (one != DFS_ENOVOLUME && rc == 0)
            rc = one;
    }
    store_volumes_free(list, count);
    *deleted = done;
    return rc;
}

/* ---- unmount, mount ---- */

int store_unmount(struct store *s, uint32_t volume_id)
{
    struct volume *v = store_get(s, volume_id);
    bool only_empty = false;
    int rc;

    if (v == NULL)
        return DFS_ENOVOLUME;
    rc = begin_closing(v);
    if (rc == 0)
        rc = store_on_writer(v, close_if, &only_empty);
    if (rc == 0) {
        volume_set_no_write(v, VOLUME_UNMOUNTED, NULL);
        rc = wait_for_generations(v);
        store_table_remove(s, v);
        log_info("volume %" PRIu32 " unmounted", volume_id);
        store_changed(s);
    }
    volume_unref(v);
    return rc;
}

/* One that could not be opened may have been mended. */
static int mount_again(struct volume *v)
{
    unsigned before = atomic_load(&v->no_write);
    int rc;

    if ((before & VOLUME_BROKEN) == 0)
        return (before & VOLUME_LOADING) != 0 ? DFS_ELOADING : 0;
    rc = begin_closing(v);
    if (rc != 0)
        return rc;
    volume_clear_no_write(v, VOLUME_BROKEN);
    rc = volume_load(v);
    volume_clear_no_write(v, VOLUME_CLOSING);
    return rc;
}

int store_mount(struct store *s, uint32_t volume_id)
{
    struct volume *v = store_get(s, volume_id);
    int rc = DFS_ENOTFOUND;

    if (v != NULL) {
        rc = mount_again(v);
        volume_unref(v);
        return rc;
    }
    for (uint32_t i = 0; i < s->location_count && rc == DFS_ENOTFOUND; i++)
        rc = disk_location_add(s->locations[i], volume_id, &v);
    if (rc != 0)
        return rc == DFS_ENOTFOUND ? DFS_ENOVOLUME : rc;
    rc = (atomic_load(&v->no_write) & VOLUME_BROKEN) != 0 ? DFS_ECORRUPT : volume_load(v);
    volume_unref(v);
    store_changed(s);
    return rc;
}

/* ---- marks ---- */

static void vif_path(const struct volume *v, char out[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX])
{
    (void)snprintf(out, VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX, "%s.vif", v->base);
}

/* Reads the file, or what it would say. */
static int read_vif(const struct volume *v, struct volume_vif *vif)
{
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    int rc;

    vif_path(v, path);
    rc = volume_vif_read(path, vif);
    if (rc != 0 && rc != DFS_ECORRUPT)
        return rc;
    if (rc == DFS_ECORRUPT)
        volume_vif_init(vif);
    vif->version = v->sb.version;
    if (vif->offset_width == 0)
        vif->offset_width = v->offset_width;
    return 0;
}

static int write_vif(const struct volume *v, const struct volume_vif *vif)
{
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    int rc;

    vif_path(v, path);
    rc = volume_vif_write(path, vif);
    if (rc != 0)
        log_error("cannot write '%s': %s", path, strerror(errno));
    return rc;
}

static void run_cut(struct writer_cmd *cmd)
{
    zero_ahead_cut(cmd->volume);
}

static int mark(struct volume *v, bool read_only, bool persist)
{
    struct volume_vif vif;
    int rc = 0;

    if ((atomic_load(&v->no_write) & (VOLUME_LOADING | VOLUME_BROKEN)) != 0)
        return DFS_ELOADING;
    if (read_only) {
        volume_set_no_write(v, VOLUME_MARKED, NULL);
        append_queue_cmd_wait(v->location->appends, &(struct writer_cmd){.run = run_cut, .volume = v});
    }
    if (persist) {
        rc = read_vif(v, &vif);
        if (rc == 0 && vif.read_only != read_only) {
            vif.read_only = read_only;
            rc = write_vif(v, &vif);
        }
    }
    if (!read_only && rc == 0)
        volume_clear_no_write(v, VOLUME_MARKED);
    return rc;
}

int store_mark_readonly(struct store *s, uint32_t volume_id, bool read_only, bool persist)
{
    struct volume *v = store_get(s, volume_id);
    int rc;

    if (v == NULL)
        return DFS_ENOVOLUME;
    rc = mark(v, read_only, persist);
    volume_unref(v);
    return rc;
}

static int configure_on_writer(struct volume *v, void *arg)
{
    const struct replica_placement *rp = arg;
    struct volume_gen *g = volume_gen_peek(v);
    uint8_t byte = replica_placement_to_byte(*rp);
    int rc;

    if (g == NULL)
        return DFS_ESTALE;
    if (v->vacuum != NULL)
        return DFS_EBUSY; /* its copy has the old superblock */
    rc = disk_write(g->fd, &byte, 1, 1);
    if (rc == 0) {
        rc = volume_gen_datasync(g);
        if (rc != 0)
            volume_set_no_write(v, VOLUME_FLUSH_FAILED, "cannot sync '%s.dat': %s", v->base, dfs_err_text(rc));
    }
    if (rc != 0)
        return rc;
    pthread_mutex_lock(&v->lock);
    v->sb.placement = *rp;
    pthread_mutex_unlock(&v->lock);
    return 0;
}

static int configure(struct volume *v, struct replica_placement rp)
{
    struct volume_vif vif;
    char text[4];
    int rc = store_on_writer(v, configure_on_writer, &rp);

    if (rc == 0)
        rc = read_vif(v, &vif);
    if (rc != 0)
        return rc;
    replica_placement_format(rp, text);
    (void)snprintf(vif.replication, sizeof vif.replication, "%s", text);
    rc = write_vif(v, &vif);
    store_changed(v->store);
    return rc;
}

int store_configure(struct store *s, uint32_t volume_id, struct replica_placement rp)
{
    struct volume *v = store_get(s, volume_id);
    int rc;

    if (v == NULL)
        return DFS_ENOVOLUME;
    rc = configure(v, rp);
    volume_unref(v);
    return rc;
}
