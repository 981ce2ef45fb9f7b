/* Needle map in a leveldb: memory stays bounded, start-up is instant, look-ups may wait for the disk.
 *
 * The database is a cache of the .idx and is trusted only after a clean close; in every other case it is thrown away and built
 * anew from the index.  leveldb alone cannot tell: after a crash un-synced writes may be there out of order, a manifest that lost
 * its end opens without complaint and lacks tables, and then "no such key" is a lie.  So a clean close flushes everything into
 * tables, closes, and seals the folder: the file CLEAN holds the checkpoint, the statistics and an inventory of the database (names
 * and sizes; for the small files that decide what belongs to it, their bytes too).  Opening compares, takes the seal away (synced)
 * and only then lets leveldb touch anything.  What the inventory cannot see, a flipped byte in a table, leveldb's block checksums
 * find when the block is read: the look-up fails, and the owner rebuilds.
 *
 * One thing cannot be had from its C interface: tables are read through mappings, so an unreadable sector under one is a SIGBUS. */
#include <leveldb/c.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "needle/bytes.h"
#include "needle/check.h"
#include "needle/crc.h"
#include "needle/err.h"
#include "net/log.h"
#include "volume/disk.h"
#include "volume/needle_map_backend.h"

#define KEY_BYTES 8u
#define VALUE_BYTES_MAX 9u
#define DELETED 0x80000000u

#define BLOOM_BITS 10
/* leveldb keeps at least 64 tables open; larger tables mean fewer of them. */
#define OPEN_FILES_MAX 74
#define TABLE_BYTES (8u << 20)
#define MEMORY_BYTES_MIN (1u << 20)

/* Entries in one batch; what goes beyond is written before its commit. */
#define BATCH_MAX 1024u
#define PENDING_SLOTS (2 * BATCH_MAX)

struct pending {
    uint64_t key;
    uint32_t batch; /* belongs to the batch of that number */
    struct needle_value value;
};

struct leveldb_map {
    struct needle_map map;
    char *path;
    pthread_rwlock_t db_lock; /* whoever is not the writer uses db under it; abandon takes db away */
    leveldb_t *db;
    leveldb_options_t *options;
    leveldb_cache_t *cache;
    leveldb_filterpolicy_t *filter;
    leveldb_readoptions_t *read, *read_once;
    leveldb_writeoptions_t *write;
    leveldb_writebatch_t *batch;

    /* What the batch holds, for the writer's own look-ups. */
    struct pending *pending;
    uint32_t batch_number, batch_rows;
    bool in_batch;

    struct needle_map_checkpoint checkpoint;
    bool sealable;        /* checkpoint covers exactly what is in the database */
    _Atomic bool broken;  /* an error was seen: never seal */
};

static struct leveldb_map *self(struct needle_map *m)
{
    return (struct leveldb_map *)m;
}

/* ---- errors, keys, values ---- */

/* Takes the text. */
static int failure(struct leveldb_map *m, const char *what, char *text)
{
    static struct log_gate gate;
    uint64_t more;
    atomic_store_explicit(&m->broken, true, memory_order_relaxed);
    int rc = strncmp(text, "Corruption", 10) == 0 ? DFS_ECORRUPT : DFS_EIO;
    if (log_every(&gate, 5000, &more))
        log_error("cannot %s index '%s': %s (%llu more)", what, m->path, text, (unsigned long long)more);
    leveldb_free(text);
    return rc;
}

static size_t value_encode(unsigned offset_width, const struct needle_value *v, uint8_t out[VALUE_BYTES_MAX])
{
    size_t n = 4;
    be32_put(out, (uint32_t)v->offset.units8);
    if (offset_width == 5)
        out[n++] = (uint8_t)(v->offset.units8 >> 32);
    be32_put(out + n, v->size | (v->deleted ? DELETED : 0));
    return n + 4;
}

static int value_decode(unsigned offset_width, const char *in, size_t n, struct needle_value *out)
{
    if (n != 4 + offset_width)
        return DFS_ECORRUPT;
    uint64_t units = be32_get(in);
    if (offset_width == 5)
        units |= (uint64_t)(uint8_t)in[4] << 32;
    uint32_t size = be32_get(in + offset_width);
    out->offset.units8 = units;
    out->size = size & ~DELETED;
    out->deleted = (size & DELETED) != 0;
    return 0;
}

static int stored_get(struct leveldb_map *m, uint64_t key, struct needle_value *out)
{
    char k[KEY_BYTES];
    be64_put(k, key);
    char *err = NULL;
    size_t n = 0;
    char *value = leveldb_get(m->db, m->read, k, sizeof k, &n, &err);
    if (err != NULL)
        return failure(m, "read", err);
    if (value == NULL)
        return DFS_ENOTFOUND;
    int rc = value_decode(m->map.offset_width, value, n, out);
    if (rc != 0)
        atomic_store_explicit(&m->broken, true, memory_order_relaxed);
    leveldb_free(value);
    return rc;
}

/* ---- the batch ---- */

static struct pending *pending_slot(struct leveldb_map *m, uint64_t key)
{
    uint32_t i = (uint32_t)(key * 0x9e3779b97f4a7c15ull >> 32) % PENDING_SLOTS;
    while (m->pending[i].batch == m->batch_number && m->pending[i].key != key)
        i = (i + 1) % PENDING_SLOTS;
    return &m->pending[i];
}

static int batch_write(struct leveldb_map *m)
{
    if (m->batch_rows == 0)
        return 0;
    char *err = NULL;
    leveldb_write(m->db, m->write, m->batch, &err);
    leveldb_writebatch_clear(m->batch);
    m->batch_rows = 0;
    m->batch_number++;
    if (m->batch_number == 0) { /* numbers of old batches must not come back to life */
        memset(m->pending, 0, PENDING_SLOTS * sizeof m->pending[0]);
        m->batch_number = 1;
    }
    return err != NULL ? failure(m, "write", err) : 0;
}

static int batch_add(struct leveldb_map *m, uint64_t key, const struct needle_value *v)
{
    char k[KEY_BYTES];
    uint8_t value[VALUE_BYTES_MAX];
    be64_put(k, key);
    size_t n = value_encode(m->map.offset_width, v, value);
    leveldb_writebatch_put(m->batch, k, sizeof k, (const char *)value, n);

    struct pending *p = pending_slot(m, key);
    *p = (struct pending){key, m->batch_number, *v};
    m->batch_rows++;
    m->sealable = false;
    if (m->batch_rows == BATCH_MAX || !m->in_batch)
        return batch_write(m);
    return 0;
}

/* The writer's view. */
static int own_get(struct leveldb_map *m, uint64_t key, struct needle_value *out)
{
    if (m->batch_rows > 0) {
        const struct pending *p = pending_slot(m, key);
        if (p->batch == m->batch_number) {
            *out = p->value;
            return 0;
        }
    }
    /* New ids mostly rise; none above the greatest one can be there. */
    if (key > atomic_load_explicit(&m->map.counts.max_key, memory_order_relaxed))
        return DFS_ENOTFOUND;
    return stored_get(m, key, out);
}

/* ---- the interface ---- */

static int ldb_get(struct needle_map *map, uint64_t key, struct needle_value *out)
{
    struct leveldb_map *m = self(map);

    (void)pthread_rwlock_rdlock(&m->db_lock);
    int rc = m->db != NULL ? stored_get(m, key, out) : DFS_ELOADING;
    (void)pthread_rwlock_unlock(&m->db_lock);
    return rc;
}

static int ldb_put(struct needle_map *map, uint64_t key, const struct needle_value *v, struct needle_value *old, bool *had)
{
    struct leveldb_map *m = self(map);
    struct needle_value before;
    int rc = own_get(m, key, &before);
    if (rc != 0 && rc != DFS_ENOTFOUND)
        return rc;
    bool existed = rc == 0;
    rc = batch_add(m, key, v);
    if (rc != 0)
        return rc;
    *had = existed;
    if (existed)
        *old = before;
    return 0;
}

static int ldb_mark_deleted(struct needle_map *map, uint64_t key, struct needle_value *old)
{
    struct leveldb_map *m = self(map);
    struct needle_value before;
    int rc = own_get(m, key, &before);
    if (rc == 0 && before.deleted)
        rc = DFS_ENOTFOUND;
    if (rc != 0)
        return rc;
    struct needle_value after = before;
    after.deleted = true;
    rc = batch_add(m, key, &after);
    if (rc == 0)
        *old = before;
    return rc;
}

static void ldb_begin(struct needle_map *map)
{
    self(map)->in_batch = true;
}

static int ldb_commit(struct needle_map *map, const struct needle_map_checkpoint *checkpoint)
{
    struct leveldb_map *m = self(map);
    m->in_batch = false;
    int rc = batch_write(m);
    if (rc == 0 && checkpoint != NULL) {
        m->checkpoint = *checkpoint;
        m->sealable = true;
    }
    return rc;
}

static int ldb_each(struct needle_map *map, bool with_deleted,
                    int (*fn)(uint64_t key, const struct needle_value *v, void *arg), void *arg)
{
    struct leveldb_map *m = self(map);
    int rc = batch_write(m);
    if (rc != 0)
        return rc;
    char *err = NULL;
    leveldb_iterator_t *it = leveldb_create_iterator(m->db, m->read_once);
    for (leveldb_iter_seek_to_first(it); rc == 0 && leveldb_iter_valid(it); leveldb_iter_next(it)) {
        size_t key_bytes, value_bytes;
        const char *k = leveldb_iter_key(it, &key_bytes);
        const char *value = leveldb_iter_value(it, &value_bytes);
        struct needle_value v;
        rc = key_bytes == KEY_BYTES ? value_decode(map->offset_width, value, value_bytes, &v) : DFS_ECORRUPT;
        if (rc == 0 && (with_deleted || !v.deleted))
            rc = fn(be64_get(k), &v, arg);
    }
    leveldb_iter_get_error(it, &err);
    leveldb_iter_destroy(it);
    if (err != NULL)
        return failure(m, "read", err);
    return rc;
}

static bool ldb_failed(const struct needle_map *map)
{
    return atomic_load_explicit(&((const struct leveldb_map *)map)->broken, memory_order_relaxed);
}

static void ldb_abandon(struct needle_map *map)
{
    struct leveldb_map *m = self(map);

    (void)pthread_rwlock_wrlock(&m->db_lock);
    atomic_store_explicit(&m->broken, true, memory_order_relaxed);
    if (m->db != NULL)
        leveldb_close(m->db);
    m->db = NULL;
    (void)pthread_rwlock_unlock(&m->db_lock);
}

static uint64_t ldb_memory_bytes(const struct needle_map *map)
{
    struct leveldb_map *m = (struct leveldb_map *)(uintptr_t)map; /* only its lock is touched */
    uint64_t bytes = sizeof *m + PENDING_SLOTS * sizeof m->pending[0];
    char *text = NULL;

    (void)pthread_rwlock_rdlock(&m->db_lock);
    if (m->db != NULL)
        text = leveldb_property_value(m->db, "leveldb.approximate-memory-usage");
    (void)pthread_rwlock_unlock(&m->db_lock);
    if (text != NULL)
        bytes += strtoull(text, NULL, 10);
    leveldb_free(text);
    return bytes;
}

/* ---- the seal ---- */

#define SEAL_NAME "CLEAN"
#define SEAL_MAGIC "dfsldb1\n"
#define SMALL_FILE_MAX (16u << 20)

/* OFFSET SIZE MEANING (big endian)
 *      0    8 magic
 *      8    4 offset width
 *     12   20 checkpoint: idx rows, dat bytes, generation
 *     32   40 statistics: live count, live bytes, deleted count, deleted bytes, greatest key
 *     72    4 number of files
 *     76    4 CRC-32C of the inventory
 *     80    4 CRC-32C of all before */
#define SEAL_BYTES 84u

struct inventory {
    const char *folder;
    uint32_t files, crc;
};

static int folder_path(char **out, const char *folder, const char *name)
{
    return asprintf(out, "%s/%s", folder, name) == -1 ? DFS_ENOMEM : 0;
}

static bool starts_with(const char *name, const char *start)
{
    return strncmp(name, start, strlen(start)) == 0;
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), e = strlen(end);
    return n >= e && strcmp(name + n - e, end) == 0;
}

/* Our own file, and those that say nothing about the content. */
static bool not_counted(const char *name)
{
    return starts_with(name, SEAL_NAME) || strcmp(name, "LOCK") == 0 || starts_with(name, "LOG");
}

static int count_file(const char *name, void *arg)
{
    struct inventory *inv = arg;
    struct stat st;
    char *path = NULL, *data = NULL;
    size_t n = 0;
    uint8_t size[8];

    if (not_counted(name))
        return 0;
    int rc = folder_path(&path, inv->folder, name);
    if (rc == 0)
        rc = disk_stat(path, &st);
    if (rc == 0 && (strcmp(name, "CURRENT") == 0 || starts_with(name, "MANIFEST-") || ends_with(name, ".log")))
        rc = disk_read_file(path, SMALL_FILE_MAX, &data, &n);
    if (rc != 0)
        goto out;
    be64_put(size, (uint64_t)st.st_size);
    inv->files++;
    inv->crc = crc32c(inv->crc, name, strlen(name) + 1);
    inv->crc = crc32c(inv->crc, size, sizeof size);
    inv->crc = crc32c(inv->crc, data, n);
out:
    free(data);
    free(path);
    return rc;
}

static int take_inventory(const char *folder, struct inventory *out)
{
    *out = (struct inventory){.folder = folder};
    return disk_list(folder, count_file, out);
}

static void seal_encode(const struct leveldb_map *m, const struct inventory *inv, uint8_t out[SEAL_BYTES])
{
    const struct needle_map_counts *c = &m->map.counts;
    const uint64_t numbers[] = {atomic_load(&c->live_count), atomic_load(&c->live_bytes), atomic_load(&c->deleted_count),
                                atomic_load(&c->deleted_bytes), atomic_load(&c->max_key)};
    memcpy(out, SEAL_MAGIC, 8);
    be32_put(out + 8, m->map.offset_width);
    be64_put(out + 12, m->checkpoint.idx_rows);
    be64_put(out + 20, m->checkpoint.dat_bytes);
    be32_put(out + 28, m->checkpoint.generation);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        be64_put(out + 32 + 8 * i, numbers[i]);
    be32_put(out + 72, inv->files);
    be32_put(out + 76, inv->crc);
    be32_put(out + 80, crc32c(0, out, 80));
}

/* Whether the seal belongs to what is in the folder; then the map's numbers are set from it. */
static bool seal_accept(struct leveldb_map *m, const uint8_t *in, size_t n)
{
    struct inventory inv;
    struct needle_map_counts *c = &m->map.counts;
    if (n != SEAL_BYTES || memcmp(in, SEAL_MAGIC, 8) != 0 || be32_get(in + 80) != crc32c(0, in, 80) ||
        be32_get(in + 8) != m->map.offset_width)
        return false;
    if (take_inventory(m->path, &inv) != 0 || inv.files != be32_get(in + 72) || inv.crc != be32_get(in + 76))
        return false;
    m->checkpoint.idx_rows = be64_get(in + 12);
    m->checkpoint.dat_bytes = be64_get(in + 20);
    m->checkpoint.generation = be32_get(in + 28);
    _Atomic uint64_t *numbers[] = {&c->live_count, &c->live_bytes, &c->deleted_count, &c->deleted_bytes, &c->max_key};
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        atomic_store_explicit(numbers[i], be64_get(in + 32 + 8 * i), memory_order_relaxed);
    m->sealable = true;
    return true;
}

/* Reads the seal and takes it away, for good: from here on only a clean close makes the folder trusted again. */
static int unseal(struct leveldb_map *m, bool *trusted)
{
    char *path = NULL, *data = NULL;
    size_t n = 0;
    int rc = folder_path(&path, m->path, SEAL_NAME);
    if (rc != 0)
        return rc;
    *trusted = false;
    if (disk_read_file(path, SEAL_BYTES, &data, &n) == 0)
        *trusted = seal_accept(m, (const uint8_t *)data, n);
    free(data);
    struct stat st;
    if (disk_stat(m->path, &st) == 0 && S_ISDIR(st.st_mode)) {
        rc = disk_unlink(path);
        if (rc == 0)
            rc = disk_sync_folder(m->path);
    }
    free(path);
    return rc;
}

static int seal(struct leveldb_map *m)
{
    struct inventory inv;
    uint8_t data[SEAL_BYTES];
    char *path = NULL;
    int rc = take_inventory(m->path, &inv);
    if (rc == 0)
        rc = folder_path(&path, m->path, SEAL_NAME);
    if (rc == 0) {
        seal_encode(m, &inv, data);
        rc = disk_replace_file(path, data, sizeof data);
    }
    free(path);
    return rc;
}

/* ---- open and close ---- */

static void release(struct leveldb_map *m)
{
    if (m->db != NULL)
        leveldb_close(m->db);
    if (m->batch != NULL)
        leveldb_writebatch_destroy(m->batch);
    if (m->options != NULL)
        leveldb_options_destroy(m->options);
    if (m->read != NULL)
        leveldb_readoptions_destroy(m->read);
    if (m->read_once != NULL)
        leveldb_readoptions_destroy(m->read_once);
    if (m->write != NULL)
        leveldb_writeoptions_destroy(m->write);
    if (m->cache != NULL)
        leveldb_cache_destroy(m->cache);
    if (m->filter != NULL)
        leveldb_filterpolicy_destroy(m->filter);
    (void)pthread_rwlock_destroy(&m->db_lock);
    free(m->pending);
    free(m->path);
    free(m);
}

static void ldb_free(struct needle_map *map)
{
    struct leveldb_map *m = self(map);
    bool clean = m->sealable && m->batch_rows == 0 && !atomic_load_explicit(&m->broken, memory_order_relaxed);
    if (clean) {
        /* Compacting an empty range above all keys has one effect: what is in memory goes into a table, synced. */
        static const char above[KEY_BYTES + 1] = "\xff\xff\xff\xff\xff\xff\xff\xff\xff";
        leveldb_compact_range(m->db, above, sizeof above, above, sizeof above);
    }
    if (m->db != NULL)
        leveldb_close(m->db);
    m->db = NULL;
    int rc = clean ? seal(m) : 0;
    if (rc != 0)
        log_warning("cannot seal index '%s': %s; it will be rebuilt", m->path, dfs_err_text(rc));
    release(m);
}

static const struct needle_map_ops leveldb_ops = {
    .kind = NEEDLE_MAP_LEVELDB,
    .may_block = true,
    .get = ldb_get,
    .put = ldb_put,
    .mark_deleted = ldb_mark_deleted,
    .begin = ldb_begin,
    .commit = ldb_commit,
    .each = ldb_each,
    .failed = ldb_failed,
    .abandon = ldb_abandon,
    .memory_bytes = ldb_memory_bytes,
    .free = ldb_free,
};

/* A quarter of the memory for each of the two write buffers, the rest for blocks. */
static void set_options(struct leveldb_map *m, uint32_t bytes)
{
    if (bytes < MEMORY_BYTES_MIN)
        bytes = MEMORY_BYTES_MIN;
    m->cache = leveldb_cache_create_lru(bytes / 2);
    m->filter = leveldb_filterpolicy_create_bloom(BLOOM_BITS);
    m->options = leveldb_options_create();
    leveldb_options_set_create_if_missing(m->options, 1);
    leveldb_options_set_paranoid_checks(m->options, 1);
    leveldb_options_set_write_buffer_size(m->options, bytes / 4);
    leveldb_options_set_max_open_files(m->options, OPEN_FILES_MAX);
    leveldb_options_set_max_file_size(m->options, TABLE_BYTES);
    leveldb_options_set_compression(m->options, leveldb_no_compression);
    leveldb_options_set_cache(m->options, m->cache);
    leveldb_options_set_filter_policy(m->options, m->filter);
    m->read = leveldb_readoptions_create();
    leveldb_readoptions_set_verify_checksums(m->read, 1);
    m->read_once = leveldb_readoptions_create();
    leveldb_readoptions_set_verify_checksums(m->read_once, 1);
    leveldb_readoptions_set_fill_cache(m->read_once, 0);
    m->write = leveldb_writeoptions_create();
    m->batch = leveldb_writebatch_create();
}

static bool open_database(struct leveldb_map *m, bool tell)
{
    char *err = NULL;
    m->db = leveldb_open(m->options, m->path, &err);
    if (err == NULL)
        return true;
    m->db = NULL;
    if (tell)
        log_error("cannot open index '%s': %s", m->path, err);
    else
        log_warning("index '%s' is thrown away and rebuilt: %s", m->path, err);
    leveldb_free(err);
    return false;
}

static int start_empty(struct leveldb_map *m)
{
    struct stat st;
    char *err = NULL;
    memset(&m->map.counts, 0, sizeof m->map.counts);
    m->checkpoint = (struct needle_map_checkpoint){0};
    m->sealable = false;
    if (disk_stat(m->path, &st) == 0 && !S_ISDIR(st.st_mode)) {
        int rc = disk_unlink(m->path);
        if (rc != 0)
            return rc;
    }
    leveldb_destroy_db(m->options, m->path, &err);
    if (err != NULL)
        log_warning("cannot remove index '%s': %s", m->path, err);
    leveldb_free(err);
    if (!open_database(m, true))
        return DFS_EIO;
    /* What could not be removed must not come back as if it were new. */
    leveldb_iterator_t *it = leveldb_create_iterator(m->db, m->read_once);
    leveldb_iter_seek_to_first(it);
    bool empty = !leveldb_iter_valid(it);
    leveldb_iter_destroy(it);
    return empty ? 0 : DFS_EIO;
}

int needle_map_leveldb_new(const char *path, unsigned offset_width, uint32_t cache_bytes,
                           struct needle_map_checkpoint *checkpoint, struct needle_map **out)
{
    CHECK(offset_width == 4 || offset_width == 5);
    struct leveldb_map *m = calloc(1, sizeof *m);
    if (m == NULL)
        return DFS_ENOMEM;
    int rc = DFS_ENOMEM;
    bool trusted = false;
    m->map.ops = &leveldb_ops;
    m->map.offset_width = offset_width;
    m->batch_number = 1;
    (void)pthread_rwlock_init(&m->db_lock, NULL);
    m->path = strdup(path);
    m->pending = calloc(PENDING_SLOTS, sizeof m->pending[0]);
    if (m->path == NULL || m->pending == NULL)
        goto fail;
    set_options(m, cache_bytes);

    rc = unseal(m, &trusted);
    if (rc != 0)
        goto fail;
    if (!trusted || !open_database(m, false)) {
        rc = start_empty(m);
        if (rc != 0)
            goto fail;
    }
    *checkpoint = m->checkpoint;
    *out = &m->map;
    return 0;

fail:
    release(m);
    return rc;
}
