#include "volume/preallocate.h"

#include "needle/err.h"
#include "volume/store_internal.h"
#include "volume/volume.h"

/* A batch shorter than this takes what it gets. */
#define LARGE_BATCH ((uint64_t)128 << 10)
/* The first room of a volume; each further one is twice as large, so that few writes hold few blocks. */
#define ROOM_MIN ((uint64_t)4 << 20)
/* Never more than this part of what is free, so that what many volumes hold together leaves nearly all of it. */
#define FREE_PARTS 64u

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

void volume_preallocate_ahead(struct volume *v, uint64_t start_pos, uint64_t end_pos)
{
    struct volume_appends *a = &v->appends;
    uint64_t from = start_pos > a->room_end ? start_pos : a->room_end, to, step = a->room_step == 0 ? ROOM_MIN : a->room_step;
    struct disk_space space;

    if (end_pos - start_pos < LARGE_BATCH || end_pos <= a->room_end || end_pos <= v->preallocated_bytes)
        return;
    to = end_pos + step;
    /* Not where no more puts are taken, or soon will not be. */
    if (atomic_load_explicit(&v->no_write, memory_order_relaxed) != 0 || (v->size_limit_bytes != 0 && to > v->size_limit_bytes))
        return;
    a->room_end = to; /* whatever comes of it: asked again behind it only */
    a->room_step = step < VOLUME_ROOM_MAX ? 2 * step : step;
    if (disk_space(v->location->dir, &space) == 0 && (to - from) <= space.free_bytes / FREE_PARTS)
        (void)disk_preallocate(volume_gen_peek(v)->fd, from, to - from);
}
