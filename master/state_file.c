/* The only file calls of the master. */
#include "master/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "needle/err.h"
#include "net/log.h"

static int sync_folder(const char *dir)
{
    int rc = 0, fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd == -1)
        return dfs_err_from_errno(errno);
    if (fsync(fd) == -1)
        rc = dfs_err_from_errno(errno);
    close(fd);
    return rc;
}

/* A folder that was just made must outlive a power cut like the state in it. */
static int sync_parent(char *path)
{
    char *slash = strrchr(path, '/');
    int rc;

    if (slash == NULL)
        return sync_folder(".");
    if (slash == path)
        return sync_folder("/");
    *slash = '\0';
    rc = sync_folder(path);
    *slash = '/';
    return rc;
}

/* By what the system calls it: there are fewer codes than reasons, and an operator wants to tell "permission denied" from "read
 * only file system". */
static int cannot(const char *what, const char *path)
{
    int err = errno;

    log_error("cannot %s '%s' for the master's state: %s", what, path, strerror(err));
    return dfs_err_from_errno(err);
}

static int make_folders(const char *dir)
{
    char path[PATH_MAX];
    size_t n = strlen(dir);

    if (n == 0 || n >= sizeof path) {
        log_error("the name of the folder for the master's state has %zu bytes: 1 to %zu are possible", n, sizeof path - 1);
        return DFS_EINVAL;
    }
    memcpy(path, dir, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        path[i] = '\0';
        if (mkdir(path, 0750) == 0) {
            if (sync_parent(path) != 0)
                return cannot("sync the parent of", path);
            log_info("folder '%s' was not there: made", path);
        } else if (errno != EEXIST) {
            return cannot("make folder", path);
        }
        path[i] = i < n ? '/' : '\0';
    }
    return 0;
}

int state_folder_lock(const char *dir, int *fd)
{
    char path[PATH_MAX];
    int rc = make_folders(dir), lock;

    if (rc != 0)
        return rc;
    if (snprintf(path, sizeof path, "%s/state.lock", dir) >= (int)sizeof path)
        return DFS_EINVAL;
    lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    if (lock == -1)
        return cannot("open", path);
    if (flock(lock, LOCK_EX | LOCK_NB) == -1) {
        rc = errno == EWOULDBLOCK ? DFS_EBUSY : cannot("lock", path);
        if (rc == DFS_EBUSY)
            log_error("another master uses folder '%s'", dir);
        close(lock);
        return rc;
    }
    *fd = lock;
    return 0;
}

int state_file_read(const char *path, char **out)
{
    char *buf = NULL;
    struct stat st;
    ssize_t got;
    int rc = 0, fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd == -1)
        return errno == ENOENT ? DFS_ENOTFOUND : dfs_err_from_errno(errno);
    if (fstat(fd, &st) == -1)
        rc = dfs_err_from_errno(errno);
    else if (st.st_size > (off_t)STATE_FILE_MAX)
        rc = DFS_ETOOBIG;
    if (rc != 0)
        goto out;
    buf = malloc((size_t)st.st_size + 1);
    if (buf == NULL) {
        rc = DFS_ENOMEM;
        goto out;
    }
    got = pread(fd, buf, (size_t)st.st_size, 0);
    if (got == -1) {
        rc = dfs_err_from_errno(errno);
        goto out;
    }
    buf[got] = '\0';
    *out = buf;
    buf = NULL;
out:
    free(buf);
    close(fd);
    return rc;
}

static int write_synced(const char *path, const char *text, size_t n)
{
    size_t done = 0;
    int rc = 0, fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);

    if (fd == -1)
        return dfs_err_from_errno(errno);
    while (rc == 0 && done < n) {
        ssize_t k = write(fd, text + done, n - done);

        if (k == -1 && errno == EINTR)
            continue;
        if (k == -1)
            rc = dfs_err_from_errno(errno);
        else
            done += (size_t)k;
    }
    if (rc == 0 && fsync(fd) == -1)
        rc = dfs_err_from_errno(errno);
    close(fd);
    return rc;
}

int state_file_replace(const char *dir, const char *path, const char *text, size_t n)
{
    char tmp[PATH_MAX];
    int rc;

    if (snprintf(tmp, sizeof tmp, "%s.tmp", path) >= (int)sizeof tmp)
        return DFS_EINVAL;
    rc = write_synced(tmp, text, n);
    if (rc == 0 && rename(tmp, path) == -1)
        rc = dfs_err_from_errno(errno);
    if (rc == 0)
        rc = sync_folder(dir);
    return rc;
}
