/* The recording half: carries calls out on the real files and remembers what a crash may undo.  See simdisk.h. */
#include "tests/support/simdisk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "needle/check.h"
#include "tests/support/simdisk_impl.h"
#include "tests/support/tmpdir.h"

/* Open files are known to all incarnations: what an old one opened must be closed and must fail even when a new one is active. */
static struct open_file {
    struct simdisk *sim;
    struct sim_inode *inode;
    bool sync_each_write;
} open_files[SIMDISK_FDS];

static pthread_mutex_t open_files_lock = PTHREAD_MUTEX_INITIALIZER;
static struct simdisk *_Atomic active;

static struct simdisk *current(void)
{
    struct simdisk *sim = atomic_load(&active);
    CHECK(sim != NULL);
    return sim;
}

static int io_error(void)
{
    errno = EIO;
    return -1;
}

static void *must(void *p)
{
    CHECK(p != NULL);
    return p;
}

/* ---- inodes ---- */

static struct sim_inode **bucket_of(struct simdisk *sim, ino_t ino)
{
    return &sim->bucket[(uint64_t)ino * 0x9e3779b97f4a7c15ull >> 54];
}

static struct sim_inode *inode_find(struct simdisk *sim, const struct stat *st)
{
    for (struct sim_inode *i = *bucket_of(sim, st->st_ino); i != NULL; i = i->next)
        if (i->ino == st->st_ino && i->dev == st->st_dev)
            return i;
    return NULL;
}

static struct sim_inode *inode_find_path(struct simdisk *sim, const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? inode_find(sim, &st) : NULL;
}

static struct sim_inode *inode_new(struct simdisk *sim, const struct stat *st)
{
    struct sim_inode *i = must(calloc(1, sizeof *i));
    i->id = sim->next_id++;
    i->dev = st->st_dev;
    i->ino = st->st_ino;
    i->folder = S_ISDIR(st->st_mode);
    i->size = i->folder ? 0 : (uint64_t)st->st_size;
    i->read_fd = -1;
    i->hashed = true;
    struct sim_inode **b = bucket_of(sim, i->ino);
    i->next = *b;
    *b = i;
    return i;
}

/* The real number may be given to another file from now on. */
static void inode_unhash(struct simdisk *sim, struct sim_inode *i)
{
    if (!i->hashed)
        return;
    struct sim_inode **p = bucket_of(sim, i->ino);
    while (*p != i)
        p = &(*p)->next;
    *p = i->next;
    i->hashed = false;
}

char *sim_shadow_path(const struct simdisk *sim, const struct sim_inode *inode)
{
    char *path = NULL;
    CHECK(asprintf(&path, "%s/%llu", sim->shadow, (unsigned long long)inode->id) != -1);
    return path;
}

/* Keeps the real file alive whatever happens to its names. */
static void inode_shadow(struct simdisk *sim, struct sim_inode *i, const char *path)
{
    if (i->folder || i->shadowed)
        return;
    char *shadow = sim_shadow_path(sim, i);
    CHECK(link(path, shadow) == 0);
    i->shadowed = true;
    free(shadow);
}

static void op_free(struct sim_op *op)
{
    free(op->data);
    free(op->old);
    free(op);
}

static void inode_unref(struct simdisk *sim, struct sim_inode *i)
{
    CHECK(i->refs > 0);
    if (--i->refs > 0)
        return;
    inode_unhash(sim, i);
    if (i->shadowed) {
        char *shadow = sim_shadow_path(sim, i);
        unlink(shadow);
        free(shadow);
    }
    while (i->first != NULL) {
        struct sim_op *op = i->first;
        i->first = op->next;
        op_free(op);
    }
    if (i->read_fd != -1)
        close(i->read_fd);
    free(i);
}

/* ---- what is remembered of a file ---- */

static void op_append(struct sim_inode *i, struct sim_op *op)
{
    op->prev = i->last;
    if (i->last != NULL)
        i->last->next = op;
    else
        i->first = op;
    i->last = op;
}

static void op_remove(struct sim_inode *i, struct sim_op *op)
{
    *(op->prev != NULL ? &op->prev->next : &i->first) = op->next;
    *(op->next != NULL ? &op->next->prev : &i->last) = op->prev;
    op_free(op);
}

/* The bytes at [pos, end of file or pos + n) as they are now; fd may be write-only, so the file is opened once more. */
static void save_old(struct sim_inode *i, int fd, struct sim_op *op, uint64_t n)
{
    if (op->pos >= i->size || n == 0)
        return;
    if (i->size - op->pos < n)
        n = i->size - op->pos;
    if (i->read_fd == -1) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        i->read_fd = open(path, O_RDONLY | O_CLOEXEC);
        CHECK(i->read_fd != -1);
    }
    op->old = must(malloc(n));
    ssize_t got = pread(i->read_fd, op->old, n, (off_t)op->pos);
    CHECK(got == (ssize_t)n);
    op->old_n = n;
}

static struct sim_op *op_new(struct sim_inode *i, enum sim_op_kind kind, uint64_t pos, uint64_t n)
{
    struct sim_op *op = must(calloc(1, sizeof *op));
    op->kind = kind;
    op->pos = pos;
    op->n = n;
    op->size_before = i->size;
    return op;
}

static int do_truncate(struct sim_inode *i, int fd, uint64_t size)
{
    struct sim_op *op = op_new(i, SIM_TRUNCATE, size, 0);
    save_old(i, fd, op, UINT64_MAX);
    if (ftruncate(fd, (off_t)size) == -1) {
        op_free(op);
        return -1;
    }
    i->size = size;
    op_append(i, op);
    return 0;
}

static ssize_t do_write(struct sim_inode *i, int fd, const struct iovec *iov, int count, uint64_t pos)
{
    uint64_t n = 0;
    for (int k = 0; k < count; k++)
        n += iov[k].iov_len;
    struct sim_op *op = op_new(i, SIM_WRITE, pos, n);
    save_old(i, fd, op, n);
    op->data = must(malloc(n + 1));
    size_t at = 0;
    for (int k = 0; k < count; k++) {
        memcpy(op->data + at, iov[k].iov_base, iov[k].iov_len);
        at += iov[k].iov_len;
    }
    ssize_t done = pwritev(fd, iov, count, (off_t)pos);
    if (done <= 0) {
        op_free(op);
        return done;
    }
    op->n = (uint64_t)done;
    if (pos + op->n > i->size)
        i->size = pos + op->n;
    op_append(i, op);
    return done;
}

static int do_zero(struct sim_inode *i, int fd, int mode, uint64_t pos, uint64_t n)
{
    if ((mode & FALLOC_FL_KEEP_SIZE) != 0)
        n = pos >= i->size ? 0 : pos + n > i->size ? i->size - pos : n;
    struct sim_op *op = op_new(i, SIM_ZERO, pos, n);
    save_old(i, fd, op, n);
    if (n == 0 || fallocate(fd, mode, (off_t)pos, (off_t)n) == -1) {
        op_free(op);
        return n == 0 ? 0 : -1;
    }
    if ((mode & FALLOC_FL_KEEP_SIZE) == 0 && pos + n > i->size)
        i->size = pos + n;
    op_append(i, op);
    return 0;
}

/* All of it is on the disk now, but for what was lost; changes behind a lost one stay in the list, to be undone in order. */
static void inode_synced(struct sim_inode *i)
{
    for (struct sim_op *op = i->first; op != NULL; op = op->next)
        op->durable = !op->lost;
    while (i->first != NULL && i->first->durable)
        op_remove(i, i->first);
}

static void inode_lose(struct sim_inode *i)
{
    for (struct sim_op *op = i->first; op != NULL; op = op->next)
        if (!op->durable && op->kind == SIM_WRITE)
            op->lost = true;
    inode_synced(i);
}

/* ---- names ---- */

bool sim_same_name(const struct sim_name *a, const struct sim_name *b)
{
    return a->folder == b->folder && strcmp(a->name, b->name) == 0;
}

static bool changes_touch(const struct sim_change *a, const struct sim_change *b)
{
    for (unsigned i = 0; i < a->sets; i++)
        for (unsigned j = 0; j < b->sets; j++)
            if (sim_same_name(&a->set[i], &b->set[j]))
                return true;
    return false;
}

void sim_changes_close(struct sim_change *changes)
{
    /* Marks only ever go from later to earlier changes, and few rounds suffice. */
    for (bool again = true; again;) {
        again = false;
        for (struct sim_change *a = changes; a != NULL; a = a->next) {
            for (struct sim_change *b = a->next; b != NULL && !a->marked; b = b->next) {
                if (b->marked && changes_touch(a, b))
                    again = a->marked = true;
            }
        }
    }
}

void sim_names_apply(struct sim_names *names, const struct sim_change *change)
{
    for (unsigned k = 0; k < change->sets; k++) {
        const struct sim_name *set = &change->set[k];
        size_t i = 0;
        while (i < names->count && !sim_same_name(&names->name[i], set))
            i++;
        if (set->inode == NULL) {
            if (i == names->count)
                continue;
            free(names->name[i].name);
            names->name[i] = names->name[--names->count];
            continue;
        }
        if (i == names->count) {
            if (names->count == names->cap) {
                names->cap = names->cap * 2 + 16;
                names->name = must(realloc(names->name, names->cap * sizeof *names->name));
            }
            names->name[i] = (struct sim_name){set->folder, must(strdup(set->name)), NULL};
            names->count++;
        }
        names->name[i].inode = set->inode;
    }
}

void sim_names_release(struct sim_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->name[i].name);
    free(names->name);
    *names = (struct sim_names){0};
}

static void names_ref(struct sim_names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        names->name[i].inode->refs++;
        names->name[i].folder->refs++;
    }
}

static void change_refs(struct simdisk *sim, struct sim_change *c, bool take)
{
    for (unsigned i = 0; i < c->sets; i++) {
        struct sim_inode *both[2] = {c->set[i].folder, c->set[i].inode};
        for (int k = 0; k < 2; k++) {
            if (both[k] == NULL)
                continue;
            if (take)
                both[k]->refs++;
            else
                inode_unref(sim, both[k]);
        }
    }
}

static void change_free(struct simdisk *sim, struct sim_change *c)
{
    change_refs(sim, c, false);
    for (unsigned i = 0; i < c->sets; i++)
        free(c->set[i].name);
    free(c);
}

static void remember(struct simdisk *sim, const struct sim_name *set, unsigned sets)
{
    struct sim_change *c = must(calloc(1, sizeof *c));
    c->sets = sets;
    for (unsigned i = 0; i < sets; i++) {
        c->set[i] = set[i];
        c->set[i].name = must(strdup(set[i].name));
    }
    change_refs(sim, c, true);
    *sim->changes_end = c;
    sim->changes_end = &c->next;
}

/* fsync of a folder: what touches it is sure now, with all that this needs. */
static void folder_synced(struct simdisk *sim, const struct sim_inode *folder)
{
    for (struct sim_change *c = sim->changes; c != NULL; c = c->next) {
        c->marked = false;
        for (unsigned i = 0; i < c->sets; i++)
            c->marked |= c->set[i].folder == folder;
    }
    sim_changes_close(sim->changes);

    /* References of the whole table are taken anew rather than followed change by change. */
    struct sim_names before = {0};
    before.name = must(malloc((sim->durable.count + 1) * sizeof *before.name));
    for (size_t i = 0; i < sim->durable.count; i++)
        before.name[i] = sim->durable.name[i];
    before.count = sim->durable.count;

    struct sim_change *done = NULL, **done_end = &done, **p = &sim->changes;
    while (*p != NULL) {
        struct sim_change *c = *p;
        if (!c->marked) {
            p = &c->next;
            continue;
        }
        sim_names_apply(&sim->durable, c);
        *p = c->next;
        c->next = NULL;
        *done_end = c;
        done_end = &c->next;
    }
    sim->changes_end = p;
    names_ref(&sim->durable);
    for (size_t i = 0; i < before.count; i++) {
        inode_unref(sim, before.name[i].inode);
        inode_unref(sim, before.name[i].folder);
    }
    free(before.name);
    while (done != NULL) {
        struct sim_change *next = done->next;
        change_free(sim, done);
        done = next;
    }
}

/* The known folder that holds path, and the last part of path.  NULL: outside of the simulation. */
static struct sim_inode *parent_of(struct simdisk *sim, const char *path, char name[NAME_MAX + 1])
{
    char copy[PATH_MAX];
    if (strlen(path) >= sizeof copy)
        return NULL;
    strcpy(copy, path);
    for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/'; n--)
        copy[n - 1] = '\0';
    const char *slash = strrchr(copy, '/');
    const char *last = slash != NULL ? slash + 1 : copy;
    if (strlen(last) > NAME_MAX)
        return NULL;
    strcpy(name, last);
    if (slash == NULL)
        strcpy(copy, ".");
    else
        copy[slash == copy ? 1 : slash - copy] = '\0';
    return inode_find_path(sim, copy);
}

/* ---- the power ---- */

/* Counts a changing call.  True: this is the one at which the power goes. */
static bool power_cut_locked(struct simdisk *sim)
{
    uint64_t n = atomic_fetch_add(&sim->mutations, 1) + 1;
    if (sim->crash_at == 0 || n < sim->crash_at)
        return false;
    atomic_store(&sim->dead, true);
    return true;
}

static bool dead(const struct simdisk *sim)
{
    return atomic_load(&sim->dead);
}

/* ---- the table: files ---- */

static struct open_file file_of(int fd)
{
    struct open_file f = {0};
    pthread_mutex_lock(&open_files_lock);
    if (fd >= 0 && fd < SIMDISK_FDS)
        f = open_files[fd];
    pthread_mutex_unlock(&open_files_lock);
    return f;
}

static void file_set(int fd, struct open_file f)
{
    CHECK(fd >= 0 && fd < SIMDISK_FDS);
    pthread_mutex_lock(&open_files_lock);
    open_files[fd] = f;
    pthread_mutex_unlock(&open_files_lock);
}

/* For calls on an open file: takes the lock of its simulation.  False: passed through or dead (*result says). */
static bool enter(int fd, struct open_file *f, bool *is_dead)
{
    *f = file_of(fd);
    *is_dead = false;
    if (f->sim == NULL) {
        *is_dead = dead(current());
        return false;
    }
    pthread_mutex_lock(&f->sim->lock);
    if (!dead(f->sim))
        return true;
    pthread_mutex_unlock(&f->sim->lock);
    *is_dead = true;
    return false;
}

static int leave(struct open_file *f, int result)
{
    int err = errno;
    pthread_mutex_unlock(&f->sim->lock);
    errno = err;
    return result;
}

static int open_locked(struct simdisk *sim, const char *path, int flags, mode_t mode)
{
    char name[NAME_MAX + 1];
    bool unnamed = (flags & O_TMPFILE) == O_TMPFILE;
    struct stat st;
    bool existed = stat(path, &st) == 0;
    struct sim_inode *parent = unnamed ? inode_find_path(sim, path) : parent_of(sim, path, name);
    struct sim_inode *known = existed && !unnamed ? inode_find(sim, &st) : NULL;
    if (known == NULL && (parent == NULL || (existed && !unnamed)))
        return open(path, flags, mode); /* not ours: elsewhere, or made behind our back */

    int fd = open(path, flags & ~O_TRUNC, mode);
    if (fd == -1)
        return -1;
    bool cut = false;
    if (known == NULL) {
        CHECK(fstat(fd, &st) == 0);
        known = inode_new(sim, &st);
        if (!unnamed) {
            inode_shadow(sim, known, path);
            cut = power_cut_locked(sim);
            struct sim_name set = {parent, name, known};
            remember(sim, &set, 1);
        }
    } else if ((flags & O_TRUNC) != 0 && known->size > 0) {
        cut = power_cut_locked(sim);
        CHECK(do_truncate(known, fd, 0) == 0);
    }
    if (cut) {
        close(fd);
        return io_error();
    }
    known->refs++;
    known->open_count++;
    file_set(fd, (struct open_file){sim, known, (flags & O_DSYNC) != 0});
    return fd;
}

static int sim_open(const char *path, int flags, mode_t mode)
{
    struct simdisk *sim = current();
    pthread_mutex_lock(&sim->lock);
    int fd = dead(sim) ? io_error() : open_locked(sim, path, flags, mode);
    int err = errno;
    pthread_mutex_unlock(&sim->lock);
    errno = err;
    return fd;
}

static int sim_close(int fd)
{
    struct open_file f = file_of(fd);
    if (f.sim == NULL)
        return close(fd);
    pthread_mutex_lock(&f.sim->lock);
    file_set(fd, (struct open_file){0});
    if (--f.inode->open_count == 0 && f.inode->read_fd != -1) {
        close(f.inode->read_fd);
        f.inode->read_fd = -1;
    }
    inode_unref(f.sim, f.inode);
    int rc = close(fd);
    pthread_mutex_unlock(&f.sim->lock);
    return rc;
}

static ssize_t sim_preadv2(int fd, const struct iovec *iov, int count, off_t pos, int flags)
{
    struct open_file f = file_of(fd);
    if (dead(f.sim != NULL ? f.sim : current()))
        return io_error();
    return preadv2(fd, iov, count, pos, flags);
}

static ssize_t sim_pwritev(int fd, const struct iovec *iov, int count, off_t pos)
{
    struct open_file f;
    bool is_dead;
    if (!enter(fd, &f, &is_dead))
        return is_dead ? io_error() : pwritev(fd, iov, count, pos);
    bool cut = power_cut_locked(f.sim);
    ssize_t done = do_write(f.inode, fd, iov, count, (uint64_t)pos);
    if (f.sync_each_write && !cut && done > 0)
        inode_synced(f.inode);
    if (cut)
        done = io_error();
    int err = errno;
    pthread_mutex_unlock(&f.sim->lock);
    errno = err;
    return done;
}

static int sync_locked(struct open_file *f, unsigned lie)
{
    struct simdisk *sim = f->sim;
    if (power_cut_locked(sim))
        return io_error();
    if (f->inode->folder) {
        if ((sim->lies & SIMDISK_LIE_FOLDER_FSYNC) == 0)
            folder_synced(sim, f->inode);
        return 0;
    }
    if (sim->fail_sync_in > 0 && --sim->fail_sync_in == 0) {
        inode_lose(f->inode);
        return io_error();
    }
    if ((sim->lies & lie) == 0)
        inode_synced(f->inode);
    return 0;
}

static int sync_file(int fd, unsigned lie)
{
    struct open_file f;
    bool is_dead;
    if (!enter(fd, &f, &is_dead))
        return is_dead ? io_error() : 0;
    return leave(&f, sync_locked(&f, lie));
}

static int sim_fdatasync(int fd)
{
    return sync_file(fd, SIMDISK_LIE_FDATASYNC);
}

static int sim_fsync(int fd)
{
    return sync_file(fd, SIMDISK_LIE_FSYNC);
}

static int sim_sync_file_range(int fd, off_t pos, off_t bytes, unsigned flags)
{
    (void)pos;
    (void)bytes;
    (void)flags;
    struct open_file f = file_of(fd);
    return dead(f.sim != NULL ? f.sim : current()) ? io_error() : 0;
}

static int sim_fallocate(int fd, int mode, off_t pos, off_t bytes)
{
    struct open_file f;
    bool is_dead;
    if (!enter(fd, &f, &is_dead))
        return is_dead ? io_error() : fallocate(fd, mode, pos, bytes);
    if (mode == FALLOC_FL_KEEP_SIZE)
        return leave(&f, 0);
    bool cut = power_cut_locked(f.sim);
    int rc = do_zero(f.inode, fd, mode, (uint64_t)pos, (uint64_t)bytes);
    return leave(&f, cut ? io_error() : rc);
}

static int sim_ftruncate(int fd, off_t bytes)
{
    struct open_file f;
    bool is_dead;
    if (!enter(fd, &f, &is_dead))
        return is_dead ? io_error() : ftruncate(fd, bytes);
    bool cut = power_cut_locked(f.sim);
    int rc = do_truncate(f.inode, fd, (uint64_t)bytes);
    return leave(&f, cut ? io_error() : rc);
}

static int sim_fadvise(int fd, off_t pos, off_t bytes, int advice)
{
    return posix_fadvise(fd, pos, bytes, advice);
}

/* Our own hard link is not to be seen. */
static void hide_shadow(struct simdisk *sim, struct stat *st)
{
    struct sim_inode *i = inode_find(sim, st);
    if (i != NULL && i->shadowed)
        st->st_nlink--;
}

static int sim_fstat(int fd, struct stat *out)
{
    struct open_file f;
    bool is_dead;
    if (!enter(fd, &f, &is_dead))
        return is_dead ? io_error() : fstat(fd, out);
    int rc = fstat(fd, out);
    if (rc == 0 && f.inode->shadowed)
        out->st_nlink--;
    return leave(&f, rc);
}

/* ---- the table: names ---- */

static int sim_stat(const char *path, struct stat *out)
{
    struct simdisk *sim = current();
    pthread_mutex_lock(&sim->lock);
    int rc = dead(sim) ? io_error() : stat(path, out);
    int err = errno;
    if (rc == 0)
        hide_shadow(sim, out);
    pthread_mutex_unlock(&sim->lock);
    errno = err;
    return rc;
}

static int sim_statvfs(const char *path, struct statvfs *out)
{
    return dead(current()) ? io_error() : statvfs(path, out);
}

struct two_paths {
    const char *from, *to;
    mode_t mode;
};

static int rename_locked(struct simdisk *sim, const struct two_paths *p)
{
    char from_name[NAME_MAX + 1], to_name[NAME_MAX + 1];
    struct sim_inode *from = parent_of(sim, p->from, from_name);
    struct sim_inode *to = parent_of(sim, p->to, to_name);
    struct sim_inode *inode = inode_find_path(sim, p->from);
    bool same = inode != NULL && inode_find_path(sim, p->to) == inode;
    if (rename(p->from, p->to) == -1)
        return -1;
    if (same || from == NULL || to == NULL || inode == NULL)
        return 0; /* the same file under both names stays as it is */
    bool cut = power_cut_locked(sim);
    struct sim_name set[2] = {{from, from_name, NULL}, {to, to_name, inode}};
    remember(sim, set, 2);
    return cut ? io_error() : 0;
}

static int link_locked(struct simdisk *sim, const struct two_paths *p)
{
    char name[NAME_MAX + 1];
    struct sim_inode *to = parent_of(sim, p->to, name);
    struct sim_inode *inode = inode_find_path(sim, p->from);
    if (link(p->from, p->to) == -1)
        return -1;
    if (to == NULL || inode == NULL)
        return 0;
    bool cut = power_cut_locked(sim);
    struct sim_name set = {to, name, inode};
    remember(sim, &set, 1);
    return cut ? io_error() : 0;
}

static int unlink_locked(struct simdisk *sim, const struct two_paths *p)
{
    char name[NAME_MAX + 1];
    struct sim_inode *parent = parent_of(sim, p->from, name);
    if (unlink(p->from) == -1)
        return -1;
    if (parent == NULL)
        return 0;
    bool cut = power_cut_locked(sim);
    struct sim_name set = {parent, name, NULL};
    remember(sim, &set, 1);
    return cut ? io_error() : 0;
}

static int mkdir_locked(struct simdisk *sim, const struct two_paths *p)
{
    char name[NAME_MAX + 1];
    struct stat st;
    struct sim_inode *parent = parent_of(sim, p->from, name);
    if (mkdir(p->from, p->mode) == -1)
        return -1;
    if (parent == NULL)
        return 0;
    bool cut = power_cut_locked(sim);
    CHECK(stat(p->from, &st) == 0);
    struct sim_name set = {parent, name, inode_new(sim, &st)};
    remember(sim, &set, 1);
    return cut ? io_error() : 0;
}

static int rmdir_locked(struct simdisk *sim, const struct two_paths *p)
{
    char name[NAME_MAX + 1];
    struct sim_inode *parent = parent_of(sim, p->from, name);
    struct sim_inode *inode = inode_find_path(sim, p->from);
    if (rmdir(p->from) == -1)
        return -1;
    if (parent == NULL || inode == NULL)
        return 0;
    bool cut = power_cut_locked(sim);
    inode_unhash(sim, inode);
    struct sim_name set = {parent, name, NULL};
    remember(sim, &set, 1);
    return cut ? io_error() : 0;
}

static int change_names(int (*fn)(struct simdisk *sim, const struct two_paths *p), struct two_paths p)
{
    struct simdisk *sim = current();
    pthread_mutex_lock(&sim->lock);
    int rc = dead(sim) ? io_error() : fn(sim, &p);
    int err = errno;
    pthread_mutex_unlock(&sim->lock);
    errno = err;
    return rc;
}

static int sim_rename(const char *from, const char *to)
{
    return change_names(rename_locked, (struct two_paths){.from = from, .to = to});
}

static int sim_link(const char *from, const char *to)
{
    return change_names(link_locked, (struct two_paths){.from = from, .to = to});
}

static int sim_unlink(const char *path)
{
    return change_names(unlink_locked, (struct two_paths){.from = path});
}

static int sim_mkdir(const char *path, mode_t mode)
{
    return change_names(mkdir_locked, (struct two_paths){.from = path, .mode = mode});
}

static int sim_rmdir(const char *path)
{
    return change_names(rmdir_locked, (struct two_paths){.from = path});
}

static int sim_mincore(void *addr, size_t bytes, unsigned char *vec)
{
    return dead(current()) ? io_error() : mincore(addr, bytes, vec);
}

static void *sim_map(int fd, off_t pos, size_t bytes)
{
    if (dead(current())) {
        errno = EIO;
        return MAP_FAILED;
    }
    return disk_system_ops()->map(fd, pos, bytes);
}

static int sim_flock(int fd, int operation)
{
    return dead(current()) ? io_error() : disk_system_ops()->flock(fd, operation);
}

static int sim_list(const char *folder, char **names, size_t *bytes)
{
    return dead(current()) ? io_error() : disk_system_ops()->list(folder, names, bytes);
}

static const struct disk_ops table = {
    .open = sim_open,
    .close = sim_close,
    .preadv2 = sim_preadv2,
    .pwritev = sim_pwritev,
    .fdatasync = sim_fdatasync,
    .fsync = sim_fsync,
    .sync_file_range = sim_sync_file_range,
    .fallocate = sim_fallocate,
    .ftruncate = sim_ftruncate,
    .fadvise = sim_fadvise,
    .fstat = sim_fstat,
    .stat = sim_stat,
    .statvfs = sim_statvfs,
    .rename = sim_rename,
    .link = sim_link,
    .unlink = sim_unlink,
    .mkdir = sim_mkdir,
    .rmdir = sim_rmdir,
    .mincore = sim_mincore,
    .map = sim_map,
    .unmap = munmap,
    .flock = sim_flock,
    .list = sim_list,
};

const struct disk_ops *simdisk_ops(void)
{
    return &table;
}

/* ---- the simulation as a whole ---- */

static int not_dots(const struct dirent *e)
{
    return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

/* What is there when it begins is durable.  In alphabetical order, so that luck does not depend on the file system. */
static void adopt(struct simdisk *sim, struct sim_inode *folder, const char *path)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, not_dots, alphasort);
    CHECK(count >= 0);
    for (int i = 0; i < count; i++) {
        char *child = tmpdir_path(path, entries[i]->d_name);
        struct stat st;
        CHECK(stat(child, &st) == 0);
        struct sim_inode *inode = inode_find(sim, &st);
        if (inode == NULL) {
            inode = inode_new(sim, &st);
            inode_shadow(sim, inode, child);
        }
        struct sim_change c = {.sets = 1, .set = {{folder, entries[i]->d_name, inode}}};
        sim_names_apply(&sim->durable, &c);
        inode->refs++;
        folder->refs++;
        if (inode->folder)
            adopt(sim, inode, child);
        free(child);
        free(entries[i]);
    }
    free(entries);
}

struct simdisk *simdisk_new(const char *root)
{
    struct simdisk *sim = must(calloc(1, sizeof *sim));
    struct stat st;
    pthread_mutex_init(&sim->lock, NULL);
    sim->changes_end = &sim->changes;
    sim->root = must(strdup(root));
    CHECK(asprintf(&sim->shadow, "%s.sim", root) != -1);
    CHECK(stat(root, &st) == 0 && S_ISDIR(st.st_mode));
    tmpdir_remove(sim->shadow);
    CHECK(mkdir(sim->shadow, 0700) == 0);
    sim->root_inode = inode_new(sim, &st);
    sim->root_inode->refs = 1;
    adopt(sim, sim->root_inode, root);
    return sim;
}

void simdisk_free(struct simdisk *sim)
{
    if (sim == NULL)
        return;
    if (atomic_load(&active) == sim)
        simdisk_activate(NULL);
    pthread_mutex_lock(&open_files_lock);
    for (int fd = 0; fd < SIMDISK_FDS; fd++) {
        if (open_files[fd].sim != sim)
            continue;
        inode_unref(sim, open_files[fd].inode); /* the real file stays open, as somebody's leak */
        open_files[fd] = (struct open_file){0};
    }
    pthread_mutex_unlock(&open_files_lock);
    while (sim->changes != NULL) {
        struct sim_change *next = sim->changes->next;
        change_free(sim, sim->changes);
        sim->changes = next;
    }
    for (size_t i = 0; i < sim->durable.count; i++) {
        inode_unref(sim, sim->durable.name[i].inode);
        inode_unref(sim, sim->durable.name[i].folder);
    }
    sim_names_release(&sim->durable);
    inode_unref(sim, sim->root_inode);
    tmpdir_remove(sim->shadow);
    pthread_mutex_destroy(&sim->lock);
    free(sim->shadow);
    free(sim->root);
    free(sim);
}

void simdisk_activate(struct simdisk *sim)
{
    atomic_store(&active, sim);
    disk_set_ops(sim != NULL ? &table : NULL);
}

void simdisk_lie(struct simdisk *sim, unsigned lies)
{
    pthread_mutex_lock(&sim->lock);
    sim->lies = lies;
    pthread_mutex_unlock(&sim->lock);
}

void simdisk_fail_sync(struct simdisk *sim, uint64_t n)
{
    pthread_mutex_lock(&sim->lock);
    sim->fail_sync_in = n;
    pthread_mutex_unlock(&sim->lock);
}

void simdisk_crash_after(struct simdisk *sim, uint64_t n)
{
    pthread_mutex_lock(&sim->lock);
    sim->crash_at = n == 0 ? 0 : atomic_load(&sim->mutations) + n;
    pthread_mutex_unlock(&sim->lock);
}

bool simdisk_dead(const struct simdisk *sim)
{
    return dead(sim);
}

uint64_t simdisk_mutations(const struct simdisk *sim)
{
    return atomic_load(&sim->mutations);
}

uint64_t simdisk_unsynced_bytes(struct simdisk *sim)
{
    uint64_t n = 0;
    pthread_mutex_lock(&sim->lock);
    for (unsigned b = 0; b < SIMDISK_BUCKETS; b++)
        for (struct sim_inode *i = sim->bucket[b]; i != NULL; i = i->next)
            for (struct sim_op *op = i->first; op != NULL; op = op->next)
                n += op->durable ? 0 : op->n;
    pthread_mutex_unlock(&sim->lock);
    return n;
}
