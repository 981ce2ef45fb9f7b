/* See fault.h.  Files are known by the path that they were opened with. */
#include "tests/support/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "needle/check.h"

#define FDS_MAX 65536

struct active_rule {
    struct fault_rule rule;
    uint64_t seen, hits;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t released_cond;
    const struct disk_ops *under;
    struct active_rule rule[FAULT_RULES_MAX];
    int rules;
    uint64_t count[FAULT_CALLS];
    uint32_t held;
    bool released;
    char *path_of[FDS_MAX];
} fault = {.lock = PTHREAD_MUTEX_INITIALIZER, .released_cond = PTHREAD_COND_INITIALIZER};

struct verdict {
    int err;
    bool tear;
    uint64_t tear_bytes;
    uint64_t delay_ms;
    bool until_released;
};

static bool strikes(struct active_rule *r)
{
    const struct fault_rule *rule = &r->rule;
    uint64_t first = rule->first == 0 ? 1 : rule->first;
    uint64_t n = ++r->seen;
    if (n < first)
        return false;
    bool hit = n == first || (rule->every != 0 && (n - first) % rule->every == 0);
    r->hits += hit;
    return hit;
}

static bool path_matches(const char *want, const char *path, const char *other)
{
    return want == NULL || (path != NULL && strstr(path, want) != NULL) || (other != NULL && strstr(other, want) != NULL);
}

static void hold_locked(const struct verdict *v)
{
    fault.held++;
    if (v->delay_ms > 0) {
        pthread_mutex_unlock(&fault.lock);
        struct timespec left = {(time_t)(v->delay_ms / 1000), (long)(v->delay_ms % 1000 * 1000000)};
        while (nanosleep(&left, &left) == -1 && errno == EINTR)
            ;
        pthread_mutex_lock(&fault.lock);
    }
    while (v->until_released && !fault.released)
        pthread_cond_wait(&fault.released_cond, &fault.lock);
    fault.held--;
}

static struct verdict judge_locked(enum fault_call call, const char *path, const char *other)
{
    struct verdict v = {0};
    fault.count[call]++;
    for (int i = 0; i < fault.rules; i++) {
        const struct fault_rule *rule = &fault.rule[i].rule;
        if ((rule->calls & FAULT(call)) == 0 || !path_matches(rule->path_has, path, other) || !strikes(&fault.rule[i]))
            continue;
        if (rule->delay_ms == FAULT_UNTIL_RELEASED)
            v.until_released = true;
        else
            v.delay_ms += rule->delay_ms;
        if (v.err == 0 && !v.tear) {
            v.err = rule->err;
            v.tear = rule->tear;
            v.tear_bytes = rule->tear_bytes;
        }
    }
    if (v.delay_ms > 0 || v.until_released)
        hold_locked(&v);
    return v;
}

/* 0 and go on, or -1 with errno set. */
static int judge_path(enum fault_call call, const char *path, const char *other)
{
    pthread_mutex_lock(&fault.lock);
    struct verdict v = judge_locked(call, path, other);
    pthread_mutex_unlock(&fault.lock);
    if (v.err == 0)
        return 0;
    errno = v.err;
    return -1;
}

static struct verdict judge_fd_full(enum fault_call call, int fd)
{
    pthread_mutex_lock(&fault.lock);
    struct verdict v = judge_locked(call, fd >= 0 && fd < FDS_MAX ? fault.path_of[fd] : NULL, NULL);
    pthread_mutex_unlock(&fault.lock);
    return v;
}

static int judge_fd(enum fault_call call, int fd)
{
    struct verdict v = judge_fd_full(call, fd);
    if (v.err == 0)
        return 0;
    errno = v.err;
    return -1;
}

static void remember_path(int fd, const char *path)
{
    if (fd < 0 || fd >= FDS_MAX)
        return;
    pthread_mutex_lock(&fault.lock);
    free(fault.path_of[fd]);
    fault.path_of[fd] = path != NULL ? strdup(path) : NULL;
    pthread_mutex_unlock(&fault.lock);
}

/* The first `bytes` bytes of an iovec; returns how many entries of out are used. */
static int cut_iov(const struct iovec *iov, int count, uint64_t bytes, struct iovec *out)
{
    int n = 0;
    for (; n < count && bytes > 0; n++) {
        out[n] = iov[n];
        if (out[n].iov_len > bytes)
            out[n].iov_len = (size_t)bytes;
        bytes -= out[n].iov_len;
    }
    return n;
}

static int fault_open(const char *path, int flags, mode_t mode)
{
    if (judge_path(FAULT_OPEN, path, NULL) == -1)
        return -1;
    int fd = fault.under->open(path, flags, mode);
    remember_path(fd, path);
    return fd;
}

static int fault_close(int fd)
{
    remember_path(fd, NULL);
    return fault.under->close(fd);
}

static ssize_t fault_preadv2(int fd, const struct iovec *iov, int count, off_t pos, int flags)
{
    struct verdict v = judge_fd_full(FAULT_READ, fd);
    if (v.err != 0) {
        errno = v.err;
        return -1;
    }
    if (!v.tear)
        return fault.under->preadv2(fd, iov, count, pos, flags);
    struct iovec *part = calloc((size_t)count, sizeof *part);
    CHECK(part != NULL);
    int n = cut_iov(iov, count, v.tear_bytes, part);
    ssize_t got = n == 0 ? 0 : fault.under->preadv2(fd, part, n, pos, flags);
    free(part);
    return got;
}

static ssize_t fault_pwritev(int fd, const struct iovec *iov, int count, off_t pos)
{
    struct verdict v = judge_fd_full(FAULT_WRITE, fd);
    ssize_t done = 0;
    if (v.tear) {
        struct iovec *part = calloc((size_t)count, sizeof *part);
        CHECK(part != NULL);
        int n = cut_iov(iov, count, v.tear_bytes, part);
        done = n == 0 ? 0 : fault.under->pwritev(fd, part, n, pos);
        free(part);
    }
    if (v.err != 0) {
        errno = v.err;
        return -1;
    }
    return v.tear ? done : fault.under->pwritev(fd, iov, count, pos);
}

static int fault_fdatasync(int fd)
{
    return judge_fd(FAULT_FDATASYNC, fd) == -1 ? -1 : fault.under->fdatasync(fd);
}

static int fault_fsync(int fd)
{
    return judge_fd(FAULT_FSYNC, fd) == -1 ? -1 : fault.under->fsync(fd);
}

static int fault_sync_file_range(int fd, off_t pos, off_t bytes, unsigned flags)
{
    return judge_fd(FAULT_SYNC_FILE_RANGE, fd) == -1 ? -1 : fault.under->sync_file_range(fd, pos, bytes, flags);
}

static int fault_fallocate(int fd, int mode, off_t pos, off_t bytes)
{
    return judge_fd(FAULT_FALLOCATE, fd) == -1 ? -1 : fault.under->fallocate(fd, mode, pos, bytes);
}

static int fault_ftruncate(int fd, off_t bytes)
{
    return judge_fd(FAULT_FTRUNCATE, fd) == -1 ? -1 : fault.under->ftruncate(fd, bytes);
}

static int fault_fadvise(int fd, off_t pos, off_t bytes, int advice)
{
    return fault.under->fadvise(fd, pos, bytes, advice);
}

static int fault_fstat(int fd, struct stat *out)
{
    return judge_fd(FAULT_FSTAT, fd) == -1 ? -1 : fault.under->fstat(fd, out);
}

static int fault_stat(const char *path, struct stat *out)
{
    return judge_path(FAULT_STAT, path, NULL) == -1 ? -1 : fault.under->stat(path, out);
}

static int fault_statvfs(const char *path, struct statvfs *out)
{
    return judge_path(FAULT_STATVFS, path, NULL) == -1 ? -1 : fault.under->statvfs(path, out);
}

static int fault_rename(const char *from, const char *to)
{
    return judge_path(FAULT_RENAME, from, to) == -1 ? -1 : fault.under->rename(from, to);
}

static int fault_link(const char *from, const char *to)
{
    return judge_path(FAULT_LINK, from, to) == -1 ? -1 : fault.under->link(from, to);
}

static int fault_unlink(const char *path)
{
    return judge_path(FAULT_UNLINK, path, NULL) == -1 ? -1 : fault.under->unlink(path);
}

static int fault_mkdir(const char *path, mode_t mode)
{
    return judge_path(FAULT_MKDIR, path, NULL) == -1 ? -1 : fault.under->mkdir(path, mode);
}

static int fault_rmdir(const char *path)
{
    return judge_path(FAULT_RMDIR, path, NULL) == -1 ? -1 : fault.under->rmdir(path);
}

static int fault_mincore(void *addr, size_t bytes, unsigned char *vec)
{
    return judge_path(FAULT_MINCORE, NULL, NULL) == -1 ? -1 : fault.under->mincore(addr, bytes, vec);
}

static void *fault_map(int fd, off_t pos, size_t bytes)
{
    return judge_fd(FAULT_MAP, fd) == -1 ? MAP_FAILED : fault.under->map(fd, pos, bytes);
}

static int fault_unmap(void *addr, size_t bytes)
{
    return fault.under->unmap(addr, bytes);
}

static int fault_flock(int fd, int operation)
{
    return judge_fd(FAULT_FLOCK, fd) == -1 ? -1 : fault.under->flock(fd, operation);
}

static int fault_list(const char *folder, char **names, size_t *bytes)
{
    return judge_path(FAULT_LIST, folder, NULL) == -1 ? -1 : fault.under->list(folder, names, bytes);
}

static const struct disk_ops table = {
    .open = fault_open,
    .close = fault_close,
    .preadv2 = fault_preadv2,
    .pwritev = fault_pwritev,
    .fdatasync = fault_fdatasync,
    .fsync = fault_fsync,
    .sync_file_range = fault_sync_file_range,
    .fallocate = fault_fallocate,
    .ftruncate = fault_ftruncate,
    .fadvise = fault_fadvise,
    .fstat = fault_fstat,
    .stat = fault_stat,
    .statvfs = fault_statvfs,
    .rename = fault_rename,
    .link = fault_link,
    .unlink = fault_unlink,
    .mkdir = fault_mkdir,
    .rmdir = fault_rmdir,
    .mincore = fault_mincore,
    .map = fault_map,
    .unmap = fault_unmap,
    .flock = fault_flock,
    .list = fault_list,
};

const struct disk_ops *fault_ops(void)
{
    return &table;
}

void fault_install(const struct disk_ops *under)
{
    pthread_mutex_lock(&fault.lock);
    fault.under = under != NULL ? under : disk_system_ops();
    fault.rules = 0;
    memset(fault.count, 0, sizeof fault.count);
    fault.released = false;
    pthread_mutex_unlock(&fault.lock);
    disk_set_ops(&table);
}

void fault_remove(void)
{
    fault_release();
    fault_clear();
    disk_set_ops(NULL);
    pthread_mutex_lock(&fault.lock);
    for (int fd = 0; fd < FDS_MAX; fd++) {
        free(fault.path_of[fd]);
        fault.path_of[fd] = NULL;
    }
    pthread_mutex_unlock(&fault.lock);
}

int fault_add(const struct fault_rule *rule)
{
    pthread_mutex_lock(&fault.lock);
    CHECK(fault.rules < FAULT_RULES_MAX);
    int id = fault.rules++;
    fault.rule[id] = (struct active_rule){.rule = *rule};
    if (rule->delay_ms == FAULT_UNTIL_RELEASED)
        fault.released = false;
    pthread_mutex_unlock(&fault.lock);
    return id;
}

void fault_clear(void)
{
    pthread_mutex_lock(&fault.lock);
    fault.rules = 0;
    pthread_mutex_unlock(&fault.lock);
}

uint64_t fault_hits(int id)
{
    pthread_mutex_lock(&fault.lock);
    uint64_t hits = id >= 0 && id < FAULT_RULES_MAX ? fault.rule[id].hits : 0;
    pthread_mutex_unlock(&fault.lock);
    return hits;
}

uint64_t fault_count(enum fault_call call)
{
    pthread_mutex_lock(&fault.lock);
    uint64_t n = fault.count[call];
    pthread_mutex_unlock(&fault.lock);
    return n;
}

uint32_t fault_held(void)
{
    pthread_mutex_lock(&fault.lock);
    uint32_t held = fault.held;
    pthread_mutex_unlock(&fault.lock);
    return held;
}

void fault_release(void)
{
    pthread_mutex_lock(&fault.lock);
    fault.released = true;
    pthread_cond_broadcast(&fault.released_cond);
    pthread_mutex_unlock(&fault.lock);
}
