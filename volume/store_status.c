/* What the store tells: volumes, locations, metrics. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "needle/err.h"
#include "net/clock.h"
#include "volume/store_expiry.h"
#include "volume/store_internal.h"

int store_snapshot(struct store *s, struct volume_info **out, uint32_t *count)
{
    struct volume **list;
    struct volume_info *infos;
    uint64_t now_s = clock_wall_s();
    uint32_t all, n = 0;
    int rc = store_volumes(s, &list, &all);

    if (rc != 0)
        return rc;
    infos = malloc(((size_t)all + 1) * sizeof *infos);
    for (uint32_t i = 0; i < all && infos != NULL; i++) {
        volume_info_get(list[i], &infos[n]);
        /* What has expired is not announced any more, and goes a little later. */
        if (!volume_expired(&infos[n], store_size_limit(s), now_s))
            n++;
    }
    store_volumes_free(list, all);
    if (infos == NULL)
        return DFS_ENOMEM;
    *out = infos;
    *count = n;
    return 0;
}

uint64_t store_max_key(struct store *s)
{
    struct volume_info *infos;
    uint64_t max = 0;
    uint32_t count;

    if (store_snapshot(s, &infos, &count) != 0)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        if (infos[i].max_key > max)
            max = infos[i].max_key;
    free(infos);
    return max;
}

uint32_t store_location_count(const struct store *s)
{
    return s->location_count;
}

void store_location_info(struct store *s, uint32_t index, struct location_info *out)
{
    struct disk_location *loc = s->locations[index];
    struct writeback_stats wb = {0};
    struct disk_space space;

    disk_location_space(loc, &space);
    if (loc->writeback != NULL)
        writeback_stats(loc->writeback, &wb);
    *out = (struct location_info){
        .dir = loc->dir,
        .dir_as_given = loc->dir_as_given,
        .uuid = loc->uuid,
        .volumes = atomic_load_explicit(&loc->volume_count, memory_order_relaxed),
        .max_volumes = disk_location_max_volumes(loc),
        .free_slots = disk_location_free_slots(loc),
        .total_bytes = space.total_bytes,
        .free_bytes = space.free_bytes,
        .low_space = atomic_load_explicit(&loc->low_space, memory_order_relaxed),
        .offline = atomic_load_explicit(&loc->offline, memory_order_relaxed),
        .loading = atomic_load(&loc->loaded) < atomic_load(&loc->to_load),
        .dirty_bytes = wb.dirty_bytes,
        .window_bytes = wb.window_bytes,
        .paced_ns = wb.paced_ns,
        .waiting = wb.waiting,
    };
}

/* ---- metrics ---- */

static int by_collection(const void *a, const void *b)
{
    return strcmp(((const struct volume_info *)a)->collection, ((const struct volume_info *)b)->collection);
}

/* Sums over the volumes of one collection. */
struct collection_sums {
    const char *name;
    uint64_t volumes, dat_bytes, deleted_bytes;
    uint64_t read_only, marked, sealed, disk_low;
};

static void add_volume(struct collection_sums *c, const struct volume_info *v)
{
    c->volumes++;
    c->dat_bytes += v->dat_bytes;
    c->deleted_bytes += v->deleted_bytes;
    c->read_only += v->no_write != 0;
    c->marked += (v->no_write & (VOLUME_MARKED | VOLUME_DAMAGED | VOLUME_FLUSH_FAILED | VOLUME_BROKEN)) != 0;
    c->sealed += (v->no_write & VOLUME_SEALED) != 0;
    c->disk_low += (v->no_write & VOLUME_DISK_LOW) != 0;
}

/* Sums for each collection; infos get sorted. */
static uint32_t sum_collections(struct volume_info *infos, uint32_t count, struct collection_sums *out)
{
    uint32_t n = 0;

    qsort(infos, count, sizeof *infos, by_collection);
    for (uint32_t i = 0; i < count; i++) {
        if (n == 0 || strcmp(out[n - 1].name, infos[i].collection) != 0)
            out[n++] = (struct collection_sums){.name = infos[i].collection};
        add_volume(&out[n - 1], &infos[i]);
    }
    return n;
}

static void head(struct metric_text *out, const char *name, const char *help)
{
    metric_text_printf(out, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
}

static void sample(struct metric_text *out, const char *name, const char *label, const char *value, const char *type,
                   uint64_t number)
{
    metric_text_printf(out, "%s{%s=\"%s\",type=\"%s\"} %" PRIu64 "\n", name, label, value, type, number);
}

static void collection_metrics(struct metric_text *out, const struct collection_sums *c, uint32_t n)
{
    static const char volumes[] = "SeaweedFS_volumeServer_volumes";
    static const char read_only[] = "SeaweedFS_volumeServer_read_only_volumes";
    static const char sizes[] = "SeaweedFS_volumeServer_total_disk_size";

    head(out, volumes, "Number of volumes.");
    for (uint32_t i = 0; i < n; i++)
        sample(out, volumes, "collection", c[i].name, "volume", c[i].volumes);
    head(out, read_only, "Number of read only volumes.");
    for (uint32_t i = 0; i < n; i++) {
        sample(out, read_only, "collection", c[i].name, "IsReadOnly", c[i].read_only);
        sample(out, read_only, "collection", c[i].name, "isDiskSpaceLow", c[i].disk_low);
        sample(out, read_only, "collection", c[i].name, "noWriteCanDelete", c[i].sealed);
        sample(out, read_only, "collection", c[i].name, "noWriteOrDelete", c[i].marked);
    }
    head(out, sizes, "Bytes of the volumes.");
    for (uint32_t i = 0; i < n; i++) {
        sample(out, sizes, "collection", c[i].name, "deleted_bytes", c[i].deleted_bytes);
        sample(out, sizes, "collection", c[i].name, "normal", c[i].dat_bytes);
    }
}

/* A folder's name as a label value. */
static void escape_label(const char *in, char *out, size_t cap)
{
    size_t n = 0;

    for (; *in != '\0' && n + 3 < cap; in++) {
        if (*in == '"' || *in == '\\')
            out[n++] = '\\';
        out[n++] = *in == '\n' ? ' ' : *in;
    }
    out[n] = '\0';
}

static void location_metrics(struct store *s, struct metric_text *out)
{
    static const char resource[] = "SeaweedFS_volumeServer_resource";
    static const char max[] = "SeaweedFS_volumeServer_max_volumes";
    static const char rebuilds[] = "SeaweedFS_volumeServer_index_rebuilds_total";
    char name[2 * VOLUME_PATH_MAX];
    struct location_info l;
    uint64_t max_volumes = 0;

    head(out, resource, "Bytes of the file systems of the data folders.");
    for (uint32_t i = 0; i < s->location_count; i++) {
        store_location_info(s, i, &l);
        escape_label(l.dir_as_given, name, sizeof name);
        max_volumes += l.max_volumes;
        /* used is what is not free to us, so that free + used = all. */
        sample(out, resource, "name", name, "all", l.total_bytes);
        sample(out, resource, "name", name, "avail", l.free_bytes);
        sample(out, resource, "name", name, "free", l.free_bytes);
        sample(out, resource, "name", name, "used", l.total_bytes - l.free_bytes);
    }
    head(out, max, "Number of volumes that there are slots for.");
    metric_text_printf(out, "%s %" PRIu64 "\n", max, max_volumes);
    metric_text_printf(out, "# HELP %s Damaged leveldb indexes that were built anew.\n# TYPE %s counter\n%s %" PRIu64 "\n",
                       rebuilds, rebuilds, rebuilds, atomic_load_explicit(&s->map_rebuilds, memory_order_relaxed));
}

void store_metrics(struct store *s, struct metric_text *out)
{
    struct collection_sums *sums;
    struct volume_info *infos;
    uint32_t count;

    if (store_snapshot(s, &infos, &count) != 0)
        return;
    sums = calloc((size_t)count + 1, sizeof *sums);
    if (sums != NULL)
        collection_metrics(out, sums, sum_collections(infos, count, sums));
    free(sums);
    free(infos);
    location_metrics(s, out);
}
