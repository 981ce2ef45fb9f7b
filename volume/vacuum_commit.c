/* The swap of a vacuum's files for the volume's, and what is done after a crash in the middle of it.  See vacuum.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "needle/err.h"
#include "net/log.h"
#include "volume/disk_location.h"
#include "volume/vacuum.h"
#include "volume/vacuum_run.h"

struct swap_paths {
    char folder[VOLUME_PATH_MAX];
    char dat[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX], idx[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    char new_dat[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX], new_idx[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    char commit[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
};

static void path_of(const char *base, const char *suffix, char out[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX])
{
    (void)snprintf(out, VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX, "%s%s", base, suffix);
}

const char *vacuum_path(const struct volume *v, const char *suffix, char out[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX])
{
    path_of(v->base, suffix, out);
    return out;
}

const char *vacuum_map_suffix(const struct vacuum *r)
{
    return r->ldb_other ? VOLUME_LDB_SUFFIX : VACUUM_LDB_SUFFIX;
}

static void paths_of(const char *base, struct swap_paths *p)
{
    const char *slash = strrchr(base, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - base);

    if (slash == NULL)
        (void)snprintf(p->folder, sizeof p->folder, ".");
    else
        (void)snprintf(p->folder, sizeof p->folder, "%.*s", (int)(n == 0 ? 1 : n), base);
    path_of(base, ".dat", p->dat);
    path_of(base, ".idx", p->idx);
    path_of(base, VACUUM_DAT_SUFFIX, p->new_dat);
    path_of(base, VACUUM_IDX_SUFFIX, p->new_idx);
    path_of(base, VACUUM_COMMIT_SUFFIX, p->commit);
}

/* The marker must be gone for good before a copy may stand under these names: the next crash would take it for a whole one. */
int vacuum_remove_files(const char *base)
{
    struct swap_paths p;
    struct stat st;
    int rc;

    paths_of(base, &p);
    rc = disk_stat(p.commit, &st);
    if (rc == 0) {
        rc = disk_unlink(p.commit);
        if (rc == 0)
            rc = disk_sync_folder(p.folder);
    } else if (rc == DFS_ENOTFOUND) {
        rc = 0;
    }
    if (rc == 0)
        rc = disk_unlink(p.new_dat);
    if (rc == 0)
        rc = disk_unlink(p.new_idx);
    return rc;
}

static int rename_if_there(const char *from, const char *to)
{
    int rc = disk_rename(from, to);

    return rc == DFS_ENOTFOUND ? 0 : rc;
}

/* With the marker on the disk: the names, then the marker away. */
static int finish_swap(const struct swap_paths *p)
{
    int rc = rename_if_there(p->new_idx, p->idx);

    if (rc == 0)
        rc = rename_if_there(p->new_dat, p->dat);
    if (rc == 0)
        rc = disk_sync_folder(p->folder);
    if (rc == 0)
        rc = disk_unlink(p->commit);
    if (rc == 0)
        rc = disk_sync_folder(p->folder);
    return rc;
}

int vacuum_recover(const char *base, bool *swapped)
{
    struct swap_paths p;
    struct stat st;
    char ldb[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    int rc;

    paths_of(base, &p);
    path_of(base, VACUUM_LDB_SUFFIX, ldb);
    rc = volume_remove_folder(ldb);
    if (rc != 0)
        return rc;
    rc = disk_stat(p.commit, &st);
    if (rc == DFS_ENOTFOUND)
        return vacuum_remove_files(base);
    if (rc != 0)
        return rc;
    rc = finish_swap(&p);
    if (rc == 0)
        *swapped = true;
    return rc;
}

static int make_marker(const struct swap_paths *p)
{
    int fd = -1;
    int rc = disk_open(p->commit, O_WRONLY | O_CREAT | O_TRUNC, &fd);

    if (rc == 0)
        rc = disk_sync(fd);
    disk_close(&fd);
    return rc == 0 ? disk_sync_folder(p->folder) : rc;
}

/* Before the first rename there is a way back, if the marker can be taken away for good. */
static int take_marker_back(const struct swap_paths *p)
{
    int rc = disk_unlink(p->commit);

    return rc == 0 ? disk_sync_folder(p->folder) : rc;
}

int vacuum_swap_files(struct vacuum *r, bool *swapped)
{
    struct swap_paths p;
    struct stat st;
    int rc;

    *swapped = false;
    paths_of(r->volume->base, &p);
    rc = disk_sync(r->dat_fd);
    if (rc == 0)
        rc = disk_sync(r->idx_fd);
    /* Their names as well: a marker without one of them would speak of a copy that is not there. */
    if (rc == 0)
        rc = disk_sync_folder(p.folder);
    if (rc != 0)
        return rc;
    rc = make_marker(&p);
    if (rc == 0)
        rc = finish_swap(&p);
    if (rc == 0) {
        *swapped = true;
        return 0;
    }
    log_error("cannot exchange the files of '%s': %s", r->volume->base, strerror(errno));
    /* Was the first name changed?  Its old file is gone then, and the copy is what there is. */
    *swapped = disk_stat(p.new_idx, &st) == DFS_ENOTFOUND;
    if (!*swapped && take_marker_back(&p) != 0)
        *swapped = true; /* a crash would finish it: so do we */
    if (*swapped)
        (void)finish_swap(&p);
    return rc;
}
