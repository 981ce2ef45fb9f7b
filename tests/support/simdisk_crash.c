/* The forgetting half: builds one of the states that a disk may be found in after the power was cut.  See simdisk.h. */
#include "tests/support/simdisk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "needle/check.h"
#include "tests/support/simdisk_impl.h"
#include "tests/support/tmpdir.h"

/* ---- chance ---- */

struct dice {
    uint64_t state;
};

static uint64_t roll(struct dice *d)
{
    uint64_t z = d->state += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static uint64_t roll_below(struct dice *d, uint64_t n)
{
    return roll(d) % n;
}

static bool one_in(struct dice *d, uint64_t n)
{
    return roll_below(d, n) == 0;
}

static struct dice dice_for(uint64_t seed, uint64_t what)
{
    struct dice d = {seed * 0x9e3779b97f4a7c15ull + what};
    roll(&d);
    return d;
}

/* ---- names ---- */

static void choose_changes(struct simdisk *sim, struct dice *d, enum simdisk_mode mode)
{
    uint64_t count = 0, n = 0;
    for (struct sim_change *c = sim->changes; c != NULL; c = c->next)
        count++;
    bool journal = one_in(d, 2);
    uint64_t first_lost = roll_below(d, count + 1);
    uint64_t out_of_eight = (uint64_t[]){1, 4, 7}[roll_below(d, 3)];
    for (struct sim_change *c = sim->changes; c != NULL; c = c->next, n++) {
        uint64_t luck = roll_below(d, 8);
        if (mode != SIMDISK_RANDOM)
            c->marked = mode == SIMDISK_KEEP_ALL;
        else
            c->marked = journal ? n < first_lost : luck < out_of_eight;
    }
    sim_changes_close(sim->changes);
}

static void names_after_crash(struct simdisk *sim, struct dice *d, enum simdisk_mode mode, struct sim_names *out)
{
    for (size_t i = 0; i < sim->durable.count; i++) {
        struct sim_change c = {.sets = 1, .set = {sim->durable.name[i]}};
        sim_names_apply(out, &c);
    }
    choose_changes(sim, d, mode);
    for (struct sim_change *c = sim->changes; c != NULL; c = c->next)
        if (c->marked)
            sim_names_apply(out, c);
}

/* ---- the bytes of one file ---- */

/* What the real file system must not refuse us. */
#define REAL(expr)                                                                 \
    do {                                                                           \
        if (!(expr)) {                                                             \
            fprintf(stderr, "cannot build a crashed disk: %s\n", strerror(errno)); \
            abort();                                                               \
        }                                                                          \
    } while (0)

static void write_all(int fd, const void *p, uint64_t n, uint64_t pos)
{
    while (n > 0) {
        ssize_t done = pwrite(fd, p, n, (off_t)pos);
        REAL(done > 0);
        p = (const char *)p + done;
        n -= (uint64_t)done;
        pos += (uint64_t)done;
    }
}

static uint64_t file_size(int fd)
{
    struct stat st;
    REAL(fstat(fd, &st) == 0);
    return (uint64_t)st.st_size;
}

static void set_size(int fd, uint64_t n)
{
    REAL(ftruncate(fd, (off_t)n) == 0);
}

static void grow_to(int fd, uint64_t n)
{
    if (file_size(fd) < n)
        set_size(fd, n);
}

static void write_zeros(int fd, uint64_t pos, uint64_t n)
{
    static const char zeros[4096];
    for (; n > 0; pos += sizeof zeros) {
        uint64_t part = n < sizeof zeros ? n : sizeof zeros;
        write_all(fd, zeros, part, pos);
        n -= part;
        if (part < sizeof zeros)
            break;
    }
}

/* Only what is not a hole. */
static void copy_file(int from, int to)
{
    static char buf[1u << 20]; /* under the simulation's lock */
    uint64_t size = file_size(from);
    off_t data = 0;
    set_size(to, size);
    while ((data = lseek(from, data, SEEK_DATA)) != -1 && (uint64_t)data < size) {
        off_t hole = lseek(from, data, SEEK_HOLE);
        REAL(hole > data);
        for (ssize_t n; data < hole; data += n) {
            size_t want = (size_t)(hole - data);
            n = pread(from, buf, want < sizeof buf ? want : sizeof buf, data);
            REAL(n > 0);
            write_all(to, buf, (uint64_t)n, (uint64_t)data);
        }
    }
}

static void undo(int fd, const struct sim_op *op)
{
    write_all(fd, op->old, op->old_n, op->pos);
    set_size(fd, op->size_before);
}

enum fate { KEPT, DROPPED, TORN };

enum character { MIXED, FIRST_PART, NOTHING, ALL_BUT_LAST, CHARACTERS };

struct file_luck {
    struct dice dice;
    enum simdisk_mode mode;
    enum character character;
    uint64_t turning;          /* FIRST_PART: this write is torn, those behind it dropped; ALL_BUT_LAST: the last one */
    uint64_t truncations_kept;
    bool old_size;
};

static struct file_luck luck_for(const struct sim_inode *inode, uint64_t seed, enum simdisk_mode mode)
{
    struct file_luck l = {.dice = dice_for(seed, inode->id + 1), .mode = mode};
    uint64_t writes = 0, truncations = 0;
    for (const struct sim_op *op = inode->first; op != NULL; op = op->next) {
        writes += !op->durable && op->kind != SIM_TRUNCATE;
        truncations += !op->durable && op->kind == SIM_TRUNCATE;
    }
    l.character = (enum character)roll_below(&l.dice, CHARACTERS);
    l.turning = roll_below(&l.dice, writes + 1);
    if (l.character == ALL_BUT_LAST)
        l.turning = writes > 0 ? writes - 1 : 0;
    l.truncations_kept = roll_below(&l.dice, truncations + 1);
    l.old_size = one_in(&l.dice, 4);
    if (mode == SIMDISK_KEEP_ALL)
        l.truncations_kept = truncations;
    if (mode == SIMDISK_DROP_ALL)
        l.truncations_kept = 0;
    return l;
}

/* The fate of the n-th write that is not sure. */
static enum fate fate_of(struct file_luck *l, uint64_t n)
{
    uint64_t luck = roll_below(&l->dice, 4);
    if (l->mode != SIMDISK_RANDOM)
        return l->mode == SIMDISK_KEEP_ALL ? KEPT : DROPPED;
    switch (l->character) {
    case FIRST_PART:
    case ALL_BUT_LAST:
        return n < l->turning ? KEPT : n > l->turning ? DROPPED : TORN;
    case NOTHING:
        return DROPPED;
    case MIXED:
    case CHARACTERS:
        break;
    }
    return luck < 2 ? KEPT : luck == 2 ? DROPPED : TORN;
}

enum wreck { WRECK_OLD, WRECK_ZEROS, WRECK_GARBAGE, WRECKS };

static void wreck(int fd, struct dice *d, enum wreck how, uint64_t pos, uint64_t n)
{
    uint8_t garbage[SIMDISK_SECTOR];
    switch (how) {
    case WRECK_ZEROS:
        write_zeros(fd, pos, n);
        break;
    case WRECK_GARBAGE:
        for (uint64_t i = 0; i < n; i++)
            garbage[i] = (uint8_t)roll(d);
        write_all(fd, garbage, n, pos);
        break;
    case WRECK_OLD:
    case WRECKS:
        break;
    }
}

/* Sectors stand on the file's own grid, so the first and the last one may be partly ours: they are new or wrecked as one. */
static void tear(int fd, struct dice *d, const struct sim_op *op)
{
    uint64_t end = op->pos + op->n;
    uint64_t first = op->pos / SIMDISK_SECTOR, sectors = (end - 1) / SIMDISK_SECTOR - first + 1;
    bool in_order = one_in(d, 2);
    uint64_t good = roll_below(d, sectors);
    enum wreck how = (enum wreck)roll_below(d, WRECKS);
    if (one_in(d, 2))
        grow_to(fd, end);
    for (uint64_t s = 0; s < sectors; s++) {
        uint64_t from = s == 0 ? op->pos : (first + s) * SIMDISK_SECTOR;
        uint64_t to = (first + s + 1) * SIMDISK_SECTOR;
        if (to > end)
            to = end;
        bool is_new = in_order ? s < good : one_in(d, 2);
        if (is_new)
            write_all(fd, op->data + (from - op->pos), to - from, from);
        else
            wreck(fd, d, how, from, to - from);
    }
}

static void redo(int fd, struct dice *d, const struct sim_op *op, enum fate fate, bool exact)
{
    if (fate == TORN && (op->kind != SIM_WRITE || op->n == 0))
        fate = DROPPED;
    switch (fate) {
    case KEPT:
        if (op->kind == SIM_WRITE)
            write_all(fd, op->data, op->n, op->pos);
        else
            write_zeros(fd, op->pos, op->n);
        break;
    case TORN:
        tear(fd, d, op);
        break;
    case DROPPED:
        if (!exact && one_in(d, 2))
            grow_to(fd, op->pos + op->n);
        break;
    }
}

/* From the durable content on, each change by its luck. */
static void replay(int fd, const struct sim_inode *inode, uint64_t seed, enum simdisk_mode mode)
{
    struct file_luck l = luck_for(inode, seed, mode);
    uint64_t writes = 0, truncations = 0;
    uint64_t sure_size = file_size(fd); /* what the durable changes alone make of it */
    uint64_t cut_lost = UINT64_MAX;     /* lowest end of a truncation that did not survive */
    for (const struct sim_op *op = inode->first; op != NULL; op = op->next) {
        if (op->kind == SIM_TRUNCATE) {
            bool kept = op->durable || truncations++ < l.truncations_kept;
            if (kept) {
                set_size(fd, op->pos);
                sure_size = op->pos;
            } else if (op->pos < cut_lost) {
                cut_lost = op->pos;
            }
            continue;
        }
        if (op->durable) {
            redo(fd, &l.dice, op, KEPT, true);
            if (op->pos + op->n > sure_size)
                sure_size = op->pos + op->n;
            continue;
        }
        enum fate fate = fate_of(&l, writes++);
        if (op->lost && mode != SIMDISK_KEEP_ALL)
            fate = DROPPED;
        if (op->pos + op->n <= cut_lost)
            redo(fd, &l.dice, op, fate, mode != SIMDISK_RANDOM);
    }
    if (mode == SIMDISK_RANDOM && l.old_size && file_size(fd) > sure_size)
        set_size(fd, sure_size);
}

static void build_file(const struct simdisk *sim, const struct sim_inode *inode, uint64_t seed, enum simdisk_mode mode,
                       const char *path)
{
    char *shadow = sim_shadow_path(sim, inode);
    int from = open(shadow, O_RDONLY | O_CLOEXEC);
    int to = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, DISK_FILE_MODE);
    REAL(from != -1 && to != -1);
    copy_file(from, to);
    for (const struct sim_op *op = inode->last; op != NULL; op = op->prev)
        undo(to, op);
    replay(to, inode, seed, mode);
    close(from);
    close(to);
    free(shadow);
}

/* ---- the whole ---- */

struct build {
    const struct simdisk *sim;
    const struct sim_names *names;
    uint64_t seed;
    enum simdisk_mode mode;
    char **path_of; /* by place in names: hard links stay links */
};

static const char *built_before(const struct build *b, const struct sim_inode *inode)
{
    for (size_t i = 0; i < b->names->count; i++)
        if (b->names->name[i].inode == inode && b->path_of[i] != NULL)
            return b->path_of[i];
    return NULL;
}

static void build_folder(struct build *b, const struct sim_inode *folder, const char *path, int depth)
{
    CHECK(depth < 64);
    REAL(mkdir(path, DISK_FOLDER_MODE) == 0);
    for (size_t i = 0; i < b->names->count; i++) {
        const struct sim_name *n = &b->names->name[i];
        if (n->folder != folder)
            continue;
        char *child = tmpdir_path(path, n->name);
        const char *other = n->inode->folder ? NULL : built_before(b, n->inode);
        if (n->inode->folder)
            build_folder(b, n->inode, child, depth + 1);
        else if (other != NULL)
            REAL(link(other, child) == 0);
        else
            build_file(b->sim, n->inode, b->seed, b->mode, child);
        b->path_of[i] = child;
    }
}

void simdisk_crash(struct simdisk *sim, uint64_t seed, enum simdisk_mode mode, const char *into)
{
    struct sim_names names = {0};
    struct dice dice = dice_for(seed, 0);
    pthread_mutex_lock(&sim->lock);
    atomic_store(&sim->dead, true);
    names_after_crash(sim, &dice, mode, &names);

    struct build b = {.sim = sim, .names = &names, .seed = seed, .mode = mode};
    b.path_of = calloc(names.count + 1, sizeof *b.path_of);
    CHECK(b.path_of != NULL);
    build_folder(&b, sim->root_inode, into, 0);
    for (size_t i = 0; i < names.count; i++)
        free(b.path_of[i]);
    free(b.path_of);
    sim_names_release(&names);
    pthread_mutex_unlock(&sim->lock);
}
