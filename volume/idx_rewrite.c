/* An .idx written anew beside the old one, then put in its place. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "needle/crc.h"
#include "needle/err.h"
#include "net/log.h"
#include "volume/disk_location.h"
#include "volume/volume_load.h"

#define NEW_SUFFIX ".idx.new"
/* The rows nobody could read. */
#define UNREADABLE_SUFFIX ".idx.unreadable"

int idx_rewrite_open(struct load *l, struct idx_rewrite *w)
{
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    int rc;

    *w = (struct idx_rewrite){.load = l, .fd = -1};
    w->buf = malloc(IDX_PIECE_BYTES);
    if (w->buf == NULL)
        return DFS_ENOMEM;
    (void)snprintf(path, sizeof path, "%s" NEW_SUFFIX, l->v->base);
    rc = disk_open(path, O_RDWR | O_CREAT | O_TRUNC, &w->fd);
    if (rc != 0) {
        log_error("cannot create '%s': %s", path, strerror(errno));
        free(w->buf);
        w->buf = NULL;
    }
    return rc;
}

static int flush(struct idx_rewrite *w)
{
    int rc = disk_write(w->fd, w->buf, w->buf_n, w->bytes);

    if (rc != 0) {
        log_error("cannot write '%s" NEW_SUFFIX "': %s", w->load->v->base, strerror(errno));
        return rc;
    }
    w->crc = crc32c(w->crc, w->buf, w->buf_n);
    w->bytes += w->buf_n;
    w->buf_n = 0;
    return 0;
}

int idx_rewrite_row(struct idx_rewrite *w, const struct idx_row *row)
{
    if (w->buf_n + IDX_ROW_BYTES_MAX > IDX_PIECE_BYTES) {
        int rc = flush(w);
        if (rc != 0)
            return rc;
    }
    w->buf_n += idx_row_encode(w->load->width_out, row, w->buf + w->buf_n);
    return 0;
}

static int copy_row(struct load *l, const struct idx_row *row, void *arg)
{
    (void)l;
    return idx_rewrite_row(arg, row);
}

int idx_rewrite_prefix(struct idx_rewrite *w, uint64_t n)
{
    return load_each_row(w->load, 0, n, copy_row, w);
}

/* A row that no reading made sense of may still tell a human something. */
static void keep_unreadable(const struct load *l)
{
    char from[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX], to[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    int rc;

    if (l->width != 0 || l->idx_bytes == 0)
        return;
    (void)snprintf(from, sizeof from, "%s.idx", l->v->base);
    (void)snprintf(to, sizeof to, "%s" UNREADABLE_SUFFIX, l->v->base);
    rc = disk_link(from, to);
    if (rc != 0 && rc != DFS_EEXIST)
        log_warning("cannot keep '%s' as '%s': %s", from, to, strerror(errno));
}

int idx_rewrite_commit(struct idx_rewrite *w)
{
    struct load *l = w->load;
    char from[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX], to[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    int rc = flush(w);

    (void)snprintf(from, sizeof from, "%s" NEW_SUFFIX, l->v->base);
    (void)snprintf(to, sizeof to, "%s.idx", l->v->base);
    keep_unreadable(l);
    if (rc == 0)
        rc = disk_sync(w->fd);
    if (rc == 0)
        rc = disk_rename(from, to);
    if (rc == 0)
        rc = disk_sync_folder(l->v->location->dir);
    if (rc != 0) {
        log_error("cannot replace '%s': %s", to, strerror(errno));
        return rc;
    }
    disk_close(&l->idx_fd);
    l->idx_fd = w->fd;
    l->idx_bytes = w->bytes;
    l->idx_crc = w->crc;
    l->width = l->width_out;
    w->fd = -1;
    free(w->buf);
    w->buf = NULL;
    return 0;
}

void idx_rewrite_discard(struct idx_rewrite *w)
{
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];

    if (w->fd >= 0) {
        (void)snprintf(path, sizeof path, "%s" NEW_SUFFIX, w->load->v->base);
        (void)disk_unlink(path);
    }
    disk_close(&w->fd);
    free(w->buf);
    w->buf = NULL;
}
