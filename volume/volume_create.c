/* A new volume's files; closing; removing. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"
#include "net/log.h"
#include "volume/preallocate.h"
#include "volume/store_internal.h"
#include "volume/vacuum.h"
#include "volume/volume_vif.h"

static const char *path_of(const struct volume *v, const char *suffix, char out[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX])
{
    (void)snprintf(out, VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX, "%s%s", v->base, suffix);
    return out;
}

/* ---- create ---- */

/* An index without its .dat: of a volume that was deleted, or whose .dat somebody moved away.  Not ours to throw away, and never
 * to be appended to. */
static int set_orphan_aside(const struct volume *v, const char *suffix)
{
    char from[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX], to[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    struct stat st;
    int rc = disk_stat(path_of(v, suffix, from), &st);

    if (rc == DFS_ENOTFOUND)
        return 0;
    if (rc != 0)
        return rc;
    (void)snprintf(to, sizeof to, "%s%s.orphan", v->base, suffix);
    log_warning("'%s' has no .dat: set aside as '%s'", from, to);
    return disk_rename(from, to);
}

static int clear_leftovers(const struct volume *v)
{
    static const char *const derived[] = {VOLUME_CHECKPOINT_SUFFIX, ".cpd", ".cpx", ".cpc"};
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    int rc = set_orphan_aside(v, ".idx");

    for (size_t i = 0; i < ARRAY_LEN(derived) && rc == 0; i++)
        rc = disk_unlink(path_of(v, derived[i], path));
    if (rc == 0)
        rc = volume_remove_folder(path_of(v, VACUUM_LDB_SUFFIX, path));
    return rc == 0 ? volume_remove_folder(path_of(v, VOLUME_LDB_SUFFIX, path)) : rc;
}

/* Never an error: without, it grows as it goes. */
static void preallocate(struct volume *v, int fd, uint64_t bytes)
{
    struct disk_location *loc = v->location;
    int rc;

    if (bytes == 0)
        return;
    rc = volume_preallocate(loc, fd, bytes);
    if (rc == DFS_EFULL) {
        if (!atomic_exchange(&loc->no_room_told, true))
            log_warning("data folder '%s' has no room to preallocate %" PRIu64 " bytes: volumes grow as they are written",
                        loc->dir_as_given, bytes);
        return;
    }
    if (rc == 0) {
        v->preallocated_bytes = bytes;
        return;
    }
    if (rc != DFS_EUNSUPPORTED)
        log_warning("cannot preallocate '%s.dat': %s", v->base, dfs_err_text(rc));
    /* Some of it may have been given before it ran out. */
    if (disk_truncate(fd, SUPERBLOCK_BYTES) != 0)
        log_warning("cannot give back what was preallocated of '%s.dat': %s", v->base, strerror(errno));
}

static int write_dat(struct volume *v, const struct superblock *sb, uint64_t preallocate_bytes, int *fd)
{
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    uint8_t head[SUPERBLOCK_BYTES];
    int rc = disk_open(path_of(v, ".dat", path), O_RDWR | O_CREAT | O_EXCL, fd);

    if (rc != 0)
        return rc;
    superblock_encode(sb, head);
    rc = disk_write(*fd, head, sizeof head, 0);
    if (rc == 0) {
        preallocate(v, *fd, preallocate_bytes);
        rc = disk_sync(*fd);
    }
    return rc;
}

static int write_vif(struct volume *v, const struct superblock *sb)
{
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    struct volume_vif vif;

    volume_vif_init(&vif);
    vif.version = sb->version;
    vif.offset_width = v->offset_width;
    if (!ttl_is_none(sb->ttl))
        vif.expire_at_s = clock_wall_s() + (uint64_t)ttl_minutes(sb->ttl) * 60;
    atomic_store_explicit(&v->expire_at_s, vif.expire_at_s, memory_order_relaxed);
    return volume_vif_write(path_of(v, ".vif", path), &vif);
}

/* "Nothing yet": so that the next opening knows which rows a checkpoint speaks for, and which it has to ask about.  Written last:
 * its sync of the folder is that of all the names. */
static int write_first_checkpoint(struct volume *v, const struct superblock *sb)
{
    v->ckp = (struct volume_checkpoint){
        .dat_bytes = SUPERBLOCK_BYTES,
        .revision = sb->compact_revision,
        .offset_width = (uint8_t)v->offset_width,
        .version = sb->version,
    };
    atomic_store(&v->ckp_dat_bytes, SUPERBLOCK_BYTES);
    return volume_checkpoint_write(v->base, &v->ckp);
}

static int new_map(struct volume *v, struct needle_map **out)
{
    const struct store_options *o = store_options_get(v->store);
    struct needle_map_checkpoint unused;
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];

    if (o->index_kind == NEEDLE_MAP_MEMORY)
        return needle_map_memory_new(store_epoch(v->store), v->offset_width, 0, out);
    return needle_map_leveldb_new(path_of(v, VOLUME_LDB_SUFFIX, path), v->offset_width, o->leveldb_cache_bytes, &unused, out);
}

/* A volume that did not come into being leaves nothing. */
static void take_back(struct volume *v)
{
    static const char *const suffixes[] = {".dat", ".idx", ".vif", VOLUME_CHECKPOINT_SUFFIX};
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];

    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++)
        if (disk_unlink(path_of(v, suffixes[i], path)) != 0)
            log_warning("cannot remove '%s': %s", path, strerror(errno));
    (void)volume_remove_folder(path_of(v, VOLUME_LDB_SUFFIX, path));
}

static int create_files(struct volume *v, const struct superblock *sb, uint64_t preallocate_bytes, int *fd, int *idx_fd)
{
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    int rc = clear_leftovers(v);

    if (rc == 0)
        rc = write_dat(v, sb, preallocate_bytes, fd);
    if (rc == 0)
        rc = disk_open(path_of(v, ".idx", path), O_RDWR | O_CREAT | O_EXCL, idx_fd);
    if (rc == 0)
        rc = write_vif(v, sb);
    if (rc == 0)
        rc = write_first_checkpoint(v, sb);
    return rc;
}

int volume_create(struct volume *v, const struct superblock *sb, uint64_t preallocate_bytes)
{
    int fd = -1, idx_fd = -1, rc;
    struct needle_map *map = NULL;
    struct volume_gen *g = NULL;
    struct stat st;
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];

    rc = disk_location_verify(v->location);
    if (rc != 0)
        return rc;
    if (disk_stat(path_of(v, ".dat", path), &st) == 0)
        return DFS_EEXIST;
    /* It may be in the store's table by now, and its figures asked for. */
    pthread_mutex_lock(&v->lock);
    v->sb = *sb;
    v->sb.extra_bytes = 0;
    pthread_mutex_unlock(&v->lock);
    rc = create_files(v, &v->sb, preallocate_bytes, &fd, &idx_fd);
    if (rc == 0)
        rc = new_map(v, &map);
    if (rc == 0)
        rc = volume_gen_new(v, fd, map, sb->compact_revision, SUPERBLOCK_BYTES, &g);
    if (rc != 0) {
        int err = errno;

        if (map != NULL)
            needle_map_free(map);
        disk_close(&fd);
        disk_close(&idx_fd);
        if (rc != DFS_EEXIST)
            take_back(v);
        errno = err;
        return rc;
    }
    volume_index_attach(v, idx_fd, 0, 0);
    v->append_pos = SUPERBLOCK_BYTES;
    v->appends.synced_pos = SUPERBLOCK_BYTES;
    atomic_store(&v->dat_bytes, SUPERBLOCK_BYTES);
    atomic_store(&v->last_modified_s, clock_wall_s());
    volume_publish(v, g);
    volume_clear_no_write(v, VOLUME_LOADING);
    return 0;
}

/* ---- close ---- */

/* Zeros written ahead of the append point, and blocks preallocated behind a volume that grows no more. */
static void trim_tail(struct volume *v, int fd)
{
    const unsigned full = VOLUME_SEALED | VOLUME_MARKED;
    unsigned no_write = atomic_load(&v->no_write);
    uint64_t size;

    if ((no_write & (VOLUME_DAMAGED | VOLUME_FLUSH_FAILED | VOLUME_OFFLINE)) != 0 || disk_size(fd, &size) != 0)
        return;
    if (size <= v->append_pos && v->appends.room_end <= v->append_pos &&
        ((no_write & full) == 0 || v->preallocated_bytes <= v->append_pos))
        return;
    if (size < v->append_pos)
        return; /* not what we know: leave it to the next opening */
    if ((no_write & full) != 0)
        v->preallocated_bytes = 0;
    if (volume_cut_dat(fd, v->append_pos, v->preallocated_bytes) != 0)
        log_warning("cannot cut '%s.dat' to %" PRIu64 ": %s", v->base, v->append_pos, strerror(errno));
}

/* leveldb: the map is complete up to here. */
static void commit_map(struct volume *v, struct volume_gen *g)
{
    struct needle_map_checkpoint c = {
        .idx_rows = v->idx_bytes / idx_row_bytes(v->offset_width),
        .dat_bytes = v->append_pos,
        .generation = g->revision,
    };
    int rc;

    if (needle_map_kind_of(g->map) != NEEDLE_MAP_LEVELDB || v->idx_behind)
        return;
    needle_map_begin(g->map);
    rc = needle_map_commit(g->map, &c);
    if (rc != 0)
        log_warning("the leveldb index of '%s' will be rebuilt: %s", v->base, dfs_err_text(rc));
}

int volume_close(struct volume *v)
{
    struct volume_gen *g = volume_gen_peek(v);
    int rc;

    if (g == NULL)
        return 0;
    vacuum_drop(v);
    volume_index_flush(v);
    trim_tail(v, g->fd);
    rc = v->idx_fd < 0 ? 0 : volume_index_checkpoint(v); /* without one the load has said so */
    commit_map(v, g);
    volume_publish(v, NULL);
    v->ldb_other = false; /* it will be opened in B.ldb */
    disk_close(&v->idx_fd);
    return rc;
}

/* ---- remove ---- */

static int unlink_in_folder(const char *name, void *arg)
{
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX + NAME_MAX];

    (void)snprintf(path, sizeof path, "%s/%s", (const char *)arg, name);
    return disk_unlink(path);
}

int volume_remove_folder(const char *path)
{
    struct stat st;
    int rc = disk_stat(path, &st);

    if (rc != 0)
        return rc == DFS_ENOTFOUND ? 0 : rc;
    rc = disk_list(path, unlink_in_folder, (void *)(uintptr_t)path);
    return rc == 0 ? disk_rmdir(path) : rc;
}

int volume_remove_files(struct volume *v)
{
    static const char *const suffixes[] = {".idx", ".vif", VOLUME_CHECKPOINT_SUFFIX, ".sdx", ".cpd", ".cpx", ".cpc"};
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    int rc = disk_location_verify(v->location);

    if (rc == 0)
        rc = disk_unlink(path_of(v, ".dat", path));
    if (rc == 0)
        rc = disk_sync_folder(v->location->dir);
    if (rc != 0) {
        log_error("cannot remove '%s.dat': %s", v->base, strerror(errno));
        return rc;
    }
    /* From here on the volume is gone; what stays behind by a crash is found to be an orphan. */
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++)
        if (disk_unlink(path_of(v, suffixes[i], path)) != 0)
            log_warning("cannot remove '%s': %s", path, strerror(errno));
    if (volume_remove_folder(path_of(v, VOLUME_LDB_SUFFIX, path)) != 0 ||
        volume_remove_folder(path_of(v, VACUUM_LDB_SUFFIX, path)) != 0)
        log_warning("cannot remove '%s': %s", path, strerror(errno));
    (void)disk_sync_folder(v->location->dir);
    return 0;
}
