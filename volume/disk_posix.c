/* The system calls: the one file of the storage engine that makes them. */
#include "volume/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

static int posix_open(const char *path, int flags, mode_t mode)
{
    return open(path, flags, mode);
}

static int posix_statvfs(const char *path, struct statvfs *out)
{
    return statvfs(path, out);
}

static int posix_sync_file_range(int fd, off_t pos, off_t bytes, unsigned flags)
{
    return sync_file_range(fd, pos, bytes, flags);
}

static ssize_t posix_preadv2(int fd, const struct iovec *iov, int count, off_t pos, int flags)
{
    return preadv2(fd, iov, count, pos, flags);
}

static void *posix_map(int fd, off_t pos, size_t bytes)
{
    return mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, pos);
}

struct name_block {
    char *data;
    size_t bytes, cap;
};

static int name_block_add(struct name_block *b, const char *name)
{
    size_t n = strlen(name) + 1;
    if (b->cap - b->bytes < n) {
        size_t cap = b->cap * 2 + n + 1024;
        char *data = realloc(b->data, cap);
        if (data == NULL)
            return -1;
        b->data = data;
        b->cap = cap;
    }
    memcpy(b->data + b->bytes, name, n);
    b->bytes += n;
    return 0;
}

static int posix_list(const char *folder, char **names, size_t *bytes)
{
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return -1;
    struct name_block block = {0};
    const struct dirent *e;
    int err = 0;
    while (errno = 0, (e = readdir(dir)) != NULL) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (name_block_add(&block, e->d_name) == -1)
            break;
    }
    err = errno; /* of readdir or realloc; 0 at the end of the folder */
    closedir(dir);
    if (err != 0) {
        free(block.data);
        errno = err;
        return -1;
    }
    *names = block.data;
    *bytes = block.bytes;
    return 0;
}

static const struct disk_ops posix_ops = {
    .open = posix_open,
    .close = close,
    .preadv2 = posix_preadv2,
    .pwritev = pwritev,
    .fdatasync = fdatasync,
    .fsync = fsync,
    .sync_file_range = posix_sync_file_range,
    .fallocate = fallocate,
    .ftruncate = ftruncate,
    .fadvise = posix_fadvise,
    .fstat = fstat,
    .stat = stat,
    .statvfs = posix_statvfs,
    .rename = rename,
    .link = link,
    .unlink = unlink,
    .mkdir = mkdir,
    .rmdir = rmdir,
    .mincore = mincore,
    .map = posix_map,
    .unmap = munmap,
    .flock = flock,
    .list = posix_list,
};

const struct disk_ops *disk_system_ops(void)
{
    return &posix_ops;
}
