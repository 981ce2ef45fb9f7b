#include "volume/zero_ahead.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "needle/idx.h"
#include "net/log.h"
#include "volume/disk.h"
#include "volume/preallocate.h"
#include "volume/volume.h"

/* The first window of a volume; each further one is twice as long as the one before, so that few writes cost few zeros. */
#define STEP_MIN ((uint64_t)128 << 10)
/* A batch longer than this is not written over zeros. */
#define BATCH_MAX ((uint64_t)128 << 10)

static int cut_at(struct volume *v, int fd, uint64_t pos)
{
    v->appends.zero_end = 0;
    v->appends.room_end = 0;
    return volume_cut_dat(fd, pos, v->preallocated_bytes);
}

void zero_ahead_extend(struct volume *v, uint64_t start_pos, uint64_t end_pos, uint64_t most_bytes)
{
    struct volume_appends *a = &v->appends;
    uint64_t step = a->zero_step == 0 ? STEP_MIN : a->zero_step, to;
    int fd = volume_gen_peek(v)->fd;

    if (most_bytes == 0 || end_pos == start_pos || end_pos <= a->zero_end || end_pos - start_pos > BATCH_MAX)
        return;
    if (step > most_bytes)
        step = most_bytes;
    to = end_pos + step;
    /* Not where no more puts are taken, or soon will not be.  Past what its offsets can say, the file of a killed process would
     * pass for one that needs wider ones. */
    if (atomic_load_explicit(&v->no_write, memory_order_relaxed) != 0 ||
        (v->size_limit_bytes != 0 && to > v->size_limit_bytes) || to > idx_addressable_end(v->offset_width))
        return;
    if (disk_write_zeros(fd, start_pos, to - start_pos) != 0) {
        log_warning("cannot write zeros ahead in '%s.dat' at %" PRIu64 ": %s", v->base, start_pos, strerror(errno));
        (void)cut_at(v, fd, start_pos); /* zeros that stay are written over, or cut by the next opening */
        return;
    }
    a->zero_end = to;
    a->zero_step = 2 * step;
}

void zero_ahead_cut(struct volume *v)
{
    struct volume_gen *g = volume_gen_peek(v);

    bool marked = (atomic_load_explicit(&v->no_write, memory_order_relaxed) & VOLUME_MARKED) != 0;

    if (g == NULL || (v->appends.zero_end <= v->append_pos && v->appends.room_end <= v->append_pos &&
                      (!marked || v->preallocated_bytes <= v->append_pos)))
        return;
    if (marked)
        v->preallocated_bytes = 0; /* others may have that room */
    if (cut_at(v, g->fd, v->append_pos) != 0)
        log_warning("cannot cut '%s.dat' to %" PRIu64 ": %s", v->base, v->append_pos, strerror(errno));
}
