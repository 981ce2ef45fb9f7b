#include "volume/preallocate.h"

#include "needle/err.h"
#include "volume/store_internal.h"

static uint64_t reserve_bytes(const struct store_options *o, const struct disk_space *space)
{
    uint64_t bytes = o->min_free_bytes > o->stage_bytes ? o->min_free_bytes : o->stage_bytes;

    return bytes + (uint64_t)((double)space->total_bytes * o->min_free_percent / 100);
}

int volume_preallocate(struct disk_location *loc, int fd, uint64_t bytes)
{
    struct store *s = loc->store;
    struct disk_space space;
    int rc;

    /* Asked and taken by one at a time: of several volumes that grow at once each would find the same room, and together they
     * would fill the disk, with nothing left for the records of others until all had given theirs back.  One lock for the store,
     * because its folders may share a disk. */
    pthread_mutex_lock(&s->preallocating);
    rc = disk_space(loc->dir, &space);
    if (rc == 0 && (space.free_bytes < bytes || space.free_bytes - bytes < reserve_bytes(&s->options, &space)))
        rc = DFS_EFULL;
    if (rc == 0)
        rc = disk_preallocate(fd, 0, bytes);
    pthread_mutex_unlock(&s->preallocating);
    return rc;
}

int volume_cut_dat(int fd, uint64_t pos, uint64_t reserved_bytes)
{
    int rc = disk_truncate(fd, pos);

    if (rc == 0 && reserved_bytes > pos)
        (void)disk_preallocate(fd, pos, reserved_bytes - pos);
    return rc;
}
