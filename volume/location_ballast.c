/* The reserve of a data folder: blocks that belong to a file of size 0, gone with one unlink, so that deletes and a small vacuum
 * still go through on a full disk. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "needle/err.h"
#include "net/log.h"
#include "volume/disk_location.h"

/* Not more than this part of what is free. */
#define FREE_PARTS 8u
/* 8,192 tombstones; less is not worth a file. */
#define BALLAST_MIN_BYTES (256u << 10)
#define STAT_BLOCK_BYTES 512u
#define PAGE_BYTES 4096u

static int ballast_path(const struct disk_location *loc, char out[VOLUME_PATH_MAX])
{
    int n = snprintf(out, VOLUME_PATH_MAX, "%s/%s", loc->dir, LOCATION_BALLAST_NAME);

    return n < (int)VOLUME_PATH_MAX ? 0 : DFS_EINVAL;
}

void location_ballast_adopt(struct disk_location *loc)
{
    char path[VOLUME_PATH_MAX];
    struct stat st;

    /* Asked for by its blocks, since its size is 0; a start that was cut short may have taken fewer than it wanted. */
    if (ballast_path(loc, path) == 0 && disk_stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_blocks > 0)
        atomic_store(&loc->ballast_bytes, (uint64_t)st.st_blocks * STAT_BLOCK_BYTES);
}

uint64_t location_ballast_bytes(const struct disk_location *loc)
{
    return atomic_load_explicit(&loc->ballast_bytes, memory_order_relaxed);
}

bool location_ballast_release(struct disk_location *loc)
{
    char path[VOLUME_PATH_MAX];
    uint64_t bytes = atomic_exchange(&loc->ballast_bytes, 0);

    if (bytes == 0 || ballast_path(loc, path) != 0)
        return false;
    if (disk_unlink(path) != 0) {
        log_error("cannot give back the reserve '%s': %s", path, strerror(errno));
        return false;
    }
    log_warning("data folder '%s' is full: its reserve of %" PRIu64 " bytes is given to deletes and vacuum", loc->dir_as_given,
                bytes);
    return true;
}

void location_ballast_setup(struct disk_location *loc, uint64_t free_bytes)
{
    uint64_t bytes = free_bytes / FREE_PARTS;
    char path[VOLUME_PATH_MAX];
    int fd = -1, rc;

    if (bytes < BALLAST_MIN_BYTES || location_ballast_bytes(loc) != 0)
        return;
    bytes = bytes < LOCATION_BALLAST_BYTES ? bytes - bytes % PAGE_BYTES : LOCATION_BALLAST_BYTES;
    rc = ballast_path(loc, path);
    if (rc == 0)
        rc = disk_open(path, O_RDWR | O_CREAT, &fd);
    if (rc == 0)
        rc = disk_preallocate(fd, 0, bytes);
    disk_close(&fd);
    if (rc == 0)
        atomic_store(&loc->ballast_bytes, bytes);
    else
        (void)disk_unlink(path); /* half a reserve is none; tried again at the next check */
}
