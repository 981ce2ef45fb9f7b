/* One data folder: opening it, knowing it again, its threads, its space. */
#include "volume/disk_location.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "needle/err.h"
#include "net/clock.h"
#include "net/log.h"
#include "net/rand.h"
#include "volume/needle_io.h"
#include "volume/store_internal.h"

#define UUID_TEXT_BYTES 36u
#define UUID_FILE_MAX 4096u
#define PACED_WINDOW_MS 1000u
/* Volumes whose files are looked at in one check. */
#define IDENTITY_CHECKS 512u

static int path_in(const struct disk_location *loc, const char *name, char out[VOLUME_PATH_MAX])
{
    int n = snprintf(out, VOLUME_PATH_MAX, "%s/%s", loc->dir, name);

    return n > 0 && n < VOLUME_PATH_MAX ? 0 : DFS_ETOOBIG;
}

/* ---- opening ---- */

static int resolve_dir(struct disk_location *loc, const char *dir)
{
    char resolved[PATH_MAX];
    struct stat st;
    bool missing = disk_stat(dir, &st) == DFS_ENOTFOUND;
    int rc = disk_mkdir(dir);

    if (rc == 0 && missing) /* said, because a folder that should have been mounted looks just like this */
        log_info("data folder '%s' was not there: made", dir);
    if (rc != 0) {
        log_error("cannot create data folder '%s': %s", dir, strerror(errno));
        return rc;
    }
    if (realpath(dir, resolved) == NULL || strlen(resolved) + VOLUME_COLLECTION_MAX + VOLUME_SUFFIX_MAX >= VOLUME_PATH_MAX ||
        strlen(dir) >= sizeof loc->dir_as_given) {
        log_error("cannot use data folder '%s': %s", dir, strerror(errno == 0 ? ENAMETOOLONG : errno));
        return DFS_EINVAL;
    }
    (void)snprintf(loc->dir, sizeof loc->dir, "%s", resolved);
    (void)snprintf(loc->dir_as_given, sizeof loc->dir_as_given, "%s", dir);
    return 0;
}

static int learn_identity(struct disk_location *loc)
{
    struct stat st;
    int rc = disk_open(loc->dir, O_PATH | O_DIRECTORY, &loc->dir_fd);

    if (rc == 0)
        rc = disk_fstat(loc->dir_fd, &st);
    if (rc != 0) {
        log_error("cannot open data folder '%s': %s", loc->dir, strerror(errno));
        return rc;
    }
    loc->dev = st.st_dev;
    loc->ino = st.st_ino;
    for (uint32_t i = 0; i < loc->store->location_count; i++) {
        const struct disk_location *other = loc->store->locations[i];

        if (other->dev == loc->dev && other->ino == loc->ino) {
            log_error("data folders '%s' and '%s' are the same folder", other->dir_as_given, loc->dir_as_given);
            return DFS_EEXIST;
        }
    }
    return 0;
}

/* Mounted read-only, as a file system is left by the kernel after an error, or not ours to write: nothing that another process
 * does can clash with reading, but one that writes here is kept out where its lock can be seen. */
static int serve_read_only(struct disk_location *loc, const char *lock_path)
{
    int err = errno, rc = disk_lock_existing(lock_path, &loc->lock_fd);

    if (rc == DFS_EBUSY) {
        log_error("data folder '%s' is in use by another process", loc->dir_as_given);
        return rc;
    }
    loc->read_only = true;
    log_warning("data folder '%s' cannot be written: %s; its volumes are served for reading only, until the next start",
                loc->dir_as_given, strerror(err));
    return 0;
}

static int take_lock(struct disk_location *loc)
{
    char path[VOLUME_PATH_MAX];
    int rc = path_in(loc, LOCATION_LOCK_NAME, path);

    if (rc == 0)
        rc = disk_lock(path, &loc->lock_fd);
    if (rc == DFS_EREADONLY)
        return serve_read_only(loc, path);
    if (rc == DFS_EBUSY)
        log_error("data folder '%s' is in use by another process", loc->dir_as_given);
    else if (rc != 0)
        log_error("cannot lock data folder '%s': %s", loc->dir_as_given, strerror(errno));
    return rc;
}

static void make_uuid(char out[UUID_TEXT_BYTES + 1])
{
    uint8_t b[16];

    rand_bytes(b, sizeof b);
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    (void)snprintf(out, UUID_TEXT_BYTES + 1, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
                   b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

static bool uuid_byte(char c)
{
    return c == '-' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool uuid_of_text(const char *text, size_t n, char out[40])
{
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r' || text[n - 1] == ' '))
        n--;
    if (n != UUID_TEXT_BYTES)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!uuid_byte(text[i]))
            return false;
    memcpy(out, text, n);
    out[n] = '\0';
    return true;
}

/* The folder's name for the master, which tells by it that one folder is served twice. */
static int read_or_make_uuid(struct disk_location *loc)
{
    char path[VOLUME_PATH_MAX];
    char *text = NULL;
    size_t n = 0;
    int rc = path_in(loc, LOCATION_UUID_NAME, path);

    if (rc == 0)
        rc = disk_read_file(path, UUID_FILE_MAX, &text, &n);
    if (rc == 0 && uuid_of_text(text, n, loc->uuid)) {
        free(text);
        return 0;
    }
    free(text);
    if (rc != 0 && rc != DFS_ENOTFOUND && rc != DFS_ETOOBIG) {
        log_error("cannot read '%s': %s", path, strerror(errno));
        return rc;
    }
    if (rc != DFS_ENOTFOUND)
        log_warning("'%s' does not hold an id: making a new one", path);
    make_uuid(loc->uuid);
    rc = disk_replace_file(path, loc->uuid, UUID_TEXT_BYTES);
    if (rc != 0) /* a full disk must not keep its volumes from being read */
        log_warning("cannot write '%s', the id holds until the next start: %s", path, strerror(errno));
    return 0;
}

static int start_threads(struct disk_location *loc)
{
    const struct store_options *o = store_options_get(loc->store);
    uint32_t readers = LOCATION_READERS_ALL / (o->dir_count == 0 ? 1 : o->dir_count);
    struct writeback_options wb = {
        .name = "flusher",
        .window_bytes = o->dirty_bytes,
        .datasync = o->durability == DURABILITY_PACED,
        .max_age_ms = PACED_WINDOW_MS,
    };
    int rc;

    if (readers > LOCATION_READERS)
        readers = LOCATION_READERS;
    if (readers < 2)
        readers = 2; /* one of them is kept for work that others wait for */
    rc = work_pool_new("reader", readers, &loc->readers);
    if (rc == 0)
        rc = work_pool_new("syncer", LOCATION_SYNCERS, &loc->syncers);
    if (rc == 0)
        rc = work_pool_new("maintenance", 1, &loc->maintenance);
    if (rc == 0)
        rc = writeback_new(&wb, &loc->writeback);
    if (rc == 0)
        rc = append_queue_new(loc, &loc->appends);
    if (rc != 0)
        log_error("cannot start the threads of data folder '%s': %s", loc->dir_as_given, dfs_err_text(rc));
    return rc;
}

int disk_location_open(struct store *store, uint32_t index, const char *dir, uint32_t max_volumes,
                       struct disk_location **out)
{
    struct disk_location *loc = calloc(1, sizeof *loc);
    int rc;

    if (loc == NULL)
        return DFS_ENOMEM;
    loc->store = store;
    loc->index = index;
    loc->dir_fd = -1;
    loc->lock_fd = -1;
    loc->max_volumes = max_volumes;
    loc->max_volumes_auto = max_volumes == 0;
    pthread_mutex_init(&loc->lock, NULL);
    rc = resolve_dir(loc, dir);
    if (rc == 0)
        rc = learn_identity(loc);
    if (rc == 0)
        rc = take_lock(loc);
    if (rc == 0)
        rc = read_or_make_uuid(loc);
    if (rc == 0)
        rc = start_threads(loc);
    if (rc != 0) {
        disk_location_stop(loc);
        disk_location_free(loc);
        return rc;
    }
    location_ballast_adopt(loc);
    disk_location_check(loc);
    *out = loc;
    return 0;
}

/* ---- loading ---- */

static int by_id(const void *a, const void *b)
{
    const struct volume *x = *(struct volume *const *)a, *y = *(struct volume *const *)b;

    return x->id < y->id ? -1 : x->id > y->id;
}

/* Our volumes that wait to be opened, each with a reference. */
static int volumes_to_load(struct disk_location *loc, struct volume ***out, uint32_t *count)
{
    struct volume **list;
    uint32_t all, n = 0;
    int rc = store_volumes(loc->store, &list, &all);

    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < all; i++) {
        unsigned no_write = atomic_load(&list[i]->no_write);

        if (list[i]->location == loc && (no_write & VOLUME_LOADING) != 0 && (no_write & VOLUME_BROKEN) == 0)
            list[n++] = list[i];
        else
            volume_unref(list[i]);
    }
    qsort(list, n, sizeof *list, by_id);
    *out = list;
    *count = n;
    return 0;
}

static void load_all(struct disk_location *loc)
{
    struct volume **list;
    uint32_t count, broken = 0;
    uint64_t started_ms = clock_mono_ms(), rows = 0;
    int rc = volumes_to_load(loc, &list, &count);

    if (rc != 0) {
        log_error("cannot load data folder '%s': %s", loc->dir_as_given, dfs_err_text(rc));
        return;
    }
    atomic_store(&loc->to_load, count);
    for (uint32_t i = 0; i < count; i++) {
        if (!atomic_load(&loc->store->stopping) && volume_load(list[i]) != 0)
            broken++; /* it says why itself; the others do not care */
        rows += atomic_load_explicit(&list[i]->idx_rows_replayed, memory_order_relaxed);
        atomic_fetch_add(&loc->loaded, 1);
    }
    log_info("data folder '%s': %" PRIu32 " volumes in %" PRIu64 " ms, %" PRIu64 " index rows applied, %" PRIu32
             " volumes cannot be opened; %" PRIu32 " of %" PRIu32 " slots free",
             loc->dir_as_given, count, clock_mono_ms() - started_ms, rows, broken, disk_location_free_slots(loc),
             disk_location_max_volumes(loc));
    store_volumes_free(list, count);
}

static void *loader_main(void *arg)
{
    struct disk_location *loc = arg;

    (void)pthread_setname_np(pthread_self(), "loader");
    load_all(loc);
    store_location_loaded(loc->store, loc);
    return NULL;
}

int disk_location_load_start(struct disk_location *loc)
{
    if (pthread_create(&loc->loader, NULL, loader_main, loc) != 0)
        return DFS_ENOTHREAD;
    loc->loader_started = true;
    return 0;
}

/* ---- closing ---- */

void disk_location_stop(struct disk_location *loc)
{
    if (loc->loader_started)
        (void)pthread_join(loc->loader, NULL);
    loc->loader_started = false;
    if (loc->appends != NULL)
        append_queue_stop(loc->appends);
}

static void free_pool(struct work_pool **pool)
{
    struct work_pool *p = *pool;

    *pool = NULL; /* what its last items drop is freed by them */
    if (p != NULL)
        work_pool_free(p);
}

void disk_location_free(struct disk_location *loc)
{
    if (loc == NULL)
        return;
    free_pool(&loc->maintenance);
    free_pool(&loc->readers);
    free_pool(&loc->syncers);
    if (loc->appends != NULL)
        append_queue_free(loc->appends);
    if (loc->writeback != NULL)
        writeback_free(loc->writeback);
    disk_close(&loc->lock_fd);
    disk_close(&loc->dir_fd);
    pthread_mutex_destroy(&loc->lock);
    free(loc);
}

/* ---- space ---- */

static int ask_space(struct disk_location *loc, struct disk_space *out)
{
    uint64_t now_ms = clock_mono_ms();
    int rc = disk_space(loc->dir, out);

    if (rc != 0)
        return rc;
    pthread_mutex_lock(&loc->lock);
    loc->space = *out;
    loc->space_at_ms = now_ms == 0 ? 1 : now_ms; /* 0 is never */
    pthread_mutex_unlock(&loc->lock);
    return 0;
}

void disk_location_space(struct disk_location *loc, struct disk_space *out)
{
    struct disk_space fresh;
    bool old;

    pthread_mutex_lock(&loc->lock);
    *out = loc->space;
    old = loc->space_at_ms == 0 || clock_mono_ms() - loc->space_at_ms >= LOCATION_SPACE_AGE_MS;
    pthread_mutex_unlock(&loc->lock);
    if (old && loop_current() == NULL && ask_space(loc, &fresh) == 0)
        *out = fresh;
}

void disk_location_space_ask(struct disk_location *loc)
{
    struct disk_space space;

    (void)ask_space(loc, &space);
}

uint32_t disk_location_max_volumes(struct disk_location *loc)
{
    uint64_t limit = store_size_limit(loc->store), slots;
    struct disk_space space;

    if (!loc->max_volumes_auto)
        return loc->max_volumes;
    disk_location_space(loc, &space);
    slots = atomic_load_explicit(&loc->volume_count, memory_order_relaxed);
    slots += limit == 0 ? 0 : space.free_bytes / limit;
    if (slots < LOCATION_SLOTS_MIN)
        slots = LOCATION_SLOTS_MIN;
    return slots > UINT32_MAX ? UINT32_MAX : (uint32_t)slots;
}

uint32_t disk_location_free_slots(struct disk_location *loc)
{
    uint32_t max = disk_location_max_volumes(loc);
    uint32_t used = atomic_load_explicit(&loc->volume_count, memory_order_relaxed);

    if (loc->read_only || atomic_load_explicit(&loc->low_space, memory_order_relaxed) ||
        atomic_load_explicit(&loc->offline, memory_order_relaxed))
        return 0;
    return used < max ? max - used : 0;
}

unsigned disk_location_offset_width(struct disk_location *loc)
{
    unsigned asked = store_options_get(loc->store)->offset_width;
    struct volume **list;
    uint32_t count;
    bool any4 = false, any5 = false;

    if (asked == 4 || store_volumes(loc->store, &list, &count) != 0)
        return asked;
    for (uint32_t i = 0; i < count; i++) {
        if (list[i]->location != loc || (atomic_load(&list[i]->no_write) & (VOLUME_LOADING | VOLUME_BROKEN)) != 0)
            continue;
        any4 |= list[i]->offset_width == 4;
        any5 |= list[i]->offset_width == 5;
    }
    store_volumes_free(list, count);
    return any4 && !any5 ? 4 : asked;
}

/* ---- the periodic look ---- */

int disk_location_verify(struct disk_location *loc)
{
    struct stat st;
    int rc = disk_stat(loc->dir, &st);

    return rc == 0 && st.st_dev == loc->dev && st.st_ino == loc->ino ? 0 : DFS_EUNAVAILABLE;
}

/* Its .dat must be the file that is open, not one that was put in its place or none. */
static void check_volume_file(struct volume *v)
{
    struct volume_gen *g = volume_gen_ref(v);
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    struct stat by_name, by_fd;
    bool same;

    if (g == NULL)
        return;
    if (atomic_load(&v->swapping))
        goto out;
    (void)snprintf(path, sizeof path, "%s.dat", v->base);
    same = disk_stat(path, &by_name) == 0 && disk_fstat(g->fd, &by_fd) == 0 && by_name.st_dev == by_fd.st_dev &&
           by_name.st_ino == by_fd.st_ino;
    /* A vacuum may have begun to exchange the file between the two looks, or be done with it. */
    if (!same && !atomic_load(&v->swapping) && volume_gen_peek(v) == g)
        volume_set_no_write(v, VOLUME_OFFLINE, "'%s' is not the file that was opened", path);
    else if (same && (atomic_load(&v->no_write) & VOLUME_OFFLINE) != 0)
        volume_clear_no_write(v, VOLUME_OFFLINE);
out:
    volume_gen_unref(g);
}

static void set_offline(struct disk_location *loc, bool offline)
{
    if (atomic_exchange(&loc->offline, offline) == offline)
        return;
    if (offline)
        log_error("data folder '%s' is not the one that was opened: its volumes are withdrawn", loc->dir_as_given);
    else
        log_info("data folder '%s' is back", loc->dir_as_given);
    store_changed(loc->store);
}

static bool below(const struct store_options *o, const struct disk_space *space, unsigned percent_more)
{
    double scale = (100.0 + percent_more) / 100.0;

    if ((double)space->free_bytes < (double)o->min_free_bytes * scale)
        return true;
    return (double)space->free_bytes * 100.0 < (double)space->total_bytes * o->min_free_percent * scale;
}

/* Low below the mark, well again a quarter above it, so that one vacuum or upload does not make it flap. */
static bool judge_space(struct disk_location *loc)
{
    const struct store_options *o = store_options_get(loc->store);
    struct disk_space space;
    bool was = atomic_load(&loc->low_space), low;

    if (ask_space(loc, &space) != 0)
        return was;
    low = below(o, &space, was ? 25 : 0);
    if (!low && !loc->read_only)
        location_ballast_setup(loc, space.free_bytes);
    if (low == was)
        return low;
    atomic_store(&loc->low_space, low);
    log_warning("data folder '%s' %s: %" PRIu64 " of %" PRIu64 " bytes free", loc->dir_as_given,
                low ? "is low on space and takes no writes" : "has space again", space.free_bytes, space.total_bytes);
    store_changed(loc->store);
    return low;
}

static void set_low_bit(struct disk_location *loc, struct volume *v, bool low)
{
    bool has = (atomic_load(&v->no_write) & VOLUME_DISK_LOW) != 0;

    if (low && !has)
        volume_set_no_write(v, VOLUME_DISK_LOW, "data folder '%s' is low on space", loc->dir_as_given);
    else if (!low && has)
        volume_clear_no_write(v, VOLUME_DISK_LOW);
}

void disk_location_check(struct disk_location *loc)
{
    bool offline = disk_location_verify(loc) != 0;
    bool low = offline ? atomic_load(&loc->low_space) : judge_space(loc);
    struct volume **list;
    uint32_t count, at = 0;

    set_offline(loc, offline);
    if (store_volumes(loc->store, &list, &count) != 0)
        return;
    for (uint32_t i = 0; i < count; i++) {
        struct volume *v = list[i];

        if (v->location != loc)
            continue;
        set_low_bit(loc, v, low);
        if (offline)
            volume_set_no_write(v, VOLUME_OFFLINE, "data folder '%s' is gone", loc->dir_as_given);
        else if ((atomic_load(&v->no_write) & VOLUME_OFFLINE) != 0 || at - loc->identity_cursor < IDENTITY_CHECKS)
            check_volume_file(v);
        at++;
    }
    loc->identity_cursor = loc->identity_cursor + IDENTITY_CHECKS < at ? loc->identity_cursor + IDENTITY_CHECKS : 0;
    store_volumes_free(list, count);
}
