/* Bytes that go: kept aside, cut off, or covered. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "needle/err.h"
#include "net/log.h"
#include "volume/disk_location.h"
#include "volume/preallocate.h"
#include "volume/store.h"
#include "volume/volume_load.h"

#define COPY_BYTES (1u << 20)
#define NAMES_MAX 100

uint64_t load_keep_left(const struct load *l)
{
    uint64_t bound = store_options_get(l->v->store)->cut_keep_bytes;
    uint64_t kept = atomic_load(&l->v->cut_bytes);

    if (bound > VOLUME_CUT_KEEP_MAX)
        bound = VOLUME_CUT_KEEP_MAX;
    return kept < bound ? bound - kept : 0;
}

/* A name that is not taken: a crash may have come between keeping and cutting. */
static int create_cut_file(const struct load *l, uint64_t pos, int *fd, char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX])
{
    int rc = DFS_EEXIST;

    for (int i = 0; i < NAMES_MAX && rc == DFS_EEXIST; i++) {
        (void)snprintf(path, VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX, i == 0 ? "%s" VOLUME_CUT_INFIX "%" PRIu64 : "%s" VOLUME_CUT_INFIX
                       "%" PRIu64 ".%d", l->v->base, pos, i);
        rc = disk_open(path, O_WRONLY | O_CREAT | O_EXCL, fd);
    }
    return rc;
}

static int copy_out(const struct load *l, uint64_t from, uint64_t to, int fd)
{
    uint8_t *buf = malloc(COPY_BYTES);
    int rc = buf == NULL ? DFS_ENOMEM : 0;

    for (uint64_t pos = from; pos < to && rc == 0;) {
        size_t n = to - pos < COPY_BYTES ? (size_t)(to - pos) : COPY_BYTES;

        rc = disk_read(l->fd, buf, n, pos, NULL);
        if (rc == 0)
            rc = disk_write(fd, buf, n, pos - from);
        pos += n;
    }
    free(buf);
    return rc;
}

int load_save_aside(struct load *l, uint64_t from, uint64_t to, bool *kept)
{
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    uint64_t left = load_keep_left(l), zeros_end;
    int fd = -1, rc;

    *kept = true;
    rc = dat_scan_zeros(&l->scan, align8_up(from), to, &zeros_end);
    if (rc != 0)
        return rc;
    if (zeros_end >= to || from >= to)
        return 0; /* zeros say nothing */
    *kept = to - from <= left;
    if (!*kept)
        to = from + left;
    if (from == to)
        return 0;
    rc = create_cut_file(l, from, &fd, path);
    if (rc == 0)
        rc = copy_out(l, from, to, fd);
    if (rc == 0)
        rc = disk_sync(fd);
    if (rc == 0)
        rc = disk_sync_folder(l->v->location->dir);
    disk_close(&fd);
    if (rc != 0) {
        log_error("cannot keep bytes of '%s.dat' aside in '%s': %s", l->v->base, path, strerror(errno));
        (void)disk_unlink(path);
        return rc;
    }
    atomic_fetch_add(&l->v->cut_bytes, to - from);
    log_warning("volume %" PRIu32 ": %" PRIu64 " bytes of '%s.dat' at %" PRIu64 " are kept in '%s'", l->v->id, to - from,
                l->v->base, from, path);
    return 0;
}

int load_cut(struct load *l, uint64_t pos)
{
    int rc = volume_cut_dat(l->fd, pos, l->preallocated_bytes);

    if (rc == 0)
        rc = disk_sync(l->fd);
    if (rc != 0) {
        log_error("cannot cut '%s.dat' at %" PRIu64 ": %s", l->v->base, pos, strerror(errno));
        return rc;
    }
    l->dat_bytes = pos;
    dat_scan_reset(&l->scan, pos);
    return 0;
}

int load_cut_zeros(struct load *l, uint64_t pos)
{
    load_remark(l, false, "'%s.dat' was cut at %" PRIu64 ": %" PRIu64 " bytes of zeros ahead of the data", l->v->base, pos,
                l->dat_bytes - pos);
    return load_cut(l, pos);
}

/* Trail, zeros, head: before the head is there nothing has changed for a scanner. */
static int write_filler(const struct load *l, uint64_t pos, const struct needle_filler *f)
{
    uint64_t trail_pos = pos + f->record_bytes - f->trail_bytes;
    int rc = disk_write_zeros(l->fd, pos + f->head_bytes, trail_pos - pos - f->head_bytes);

    if (rc == 0)
        rc = disk_write(l->fd, f->trail, f->trail_bytes, trail_pos);
    if (rc == 0)
        rc = disk_write(l->fd, f->head, f->head_bytes, pos);
    return rc;
}

int load_fill(struct load *l, uint64_t from, uint64_t to, const struct gap_sink *sink)
{
    uint64_t time_ns = l->last_append_ns != 0 ? l->last_append_ns : 1;
    int rc = 0;

    for (uint64_t pos = from; pos < to && rc == 0;) {
        struct needle_filler f;

        rc = needle_filler_make(l->sb.version, to - pos, time_ns, &f);
        if (rc != 0)
            break;
        rc = write_filler(l, pos, &f);
        if (rc == 0)
            rc = sink->on_filler(sink->arg, pos, f.needle.body_bytes);
        pos += f.record_bytes;
    }
    if (rc == 0)
        rc = disk_datasync(l->fd);
    dat_scan_reset(&l->scan, l->dat_bytes);
    if (rc == 0)
        log_warning("volume %" PRIu32 ": dead bytes [%" PRIu64 ", %" PRIu64 ") of '%s.dat' are covered by a filler", l->v->id,
                    from, to, l->v->base);
    else
        log_error("cannot cover dead bytes of '%s.dat' at %" PRIu64 ": %s", l->v->base, from, strerror(errno));
    return rc;
}
