/* One contract for both backends, checked against a plain array; then what each of them promises alone: readers beside a writer
 * in memory, no trust after anything but a clean close in leveldb. */
#include "volume/needle_map.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/log.h"
#include "net/rand.h"
#include "tests/support/fault.h"
#include "tests/support/tmpdir.h"
#include "volume/disk.h"

/* ---- a model ---- */

#define KEYS 3000

struct model {
    struct needle_value value[KEYS];
    bool known[KEYS];
    struct needle_map_stats stats;
};

/* Spread out, with 0 and the greatest among them. */
static uint64_t key_of(unsigned i)
{
    if (i == 1)
        return UINT64_MAX;
    return (uint64_t)i * 0x9e3779b97f4a7c15ull;
}

static unsigned index_of(uint64_t key)
{
    uint64_t i = key * 0xf1de83e19937733dull; /* the inverse */
    if (key == UINT64_MAX)
        return 1;
    assert_true(i < KEYS && i != 1);
    return (unsigned)i;
}

static void model_put(struct model *m, unsigned i, uint64_t units, uint32_t size)
{
    struct needle_value *v = &m->value[i];
    if (m->known[i] && !v->deleted) {
        m->stats.live_count--;
        m->stats.live_bytes -= v->size;
        m->stats.deleted_count++;
        m->stats.deleted_bytes += v->size;
    }
    m->stats.live_count++;
    m->stats.live_bytes += size;
    if (key_of(i) > m->stats.max_key)
        m->stats.max_key = key_of(i);
    m->known[i] = true;
    *v = (struct needle_value){.offset = {units}, .size = size};
}

static void model_delete(struct model *m, unsigned i)
{
    m->value[i].deleted = true;
    m->stats.live_count--;
    m->stats.live_bytes -= m->value[i].size;
    m->stats.deleted_count++;
    m->stats.deleted_bytes += m->value[i].size;
}

static void assert_value(const struct needle_value *a, const struct needle_value *b)
{
    assert_int_equal(a->offset.units8, b->offset.units8);
    assert_int_equal(a->size, b->size);
    assert_int_equal(a->deleted, b->deleted);
}

static void assert_stats(struct needle_map *map, const struct model *m)
{
    struct needle_map_stats s;
    needle_map_stats(map, &s);
    assert_int_equal(s.live_count, m->stats.live_count);
    assert_int_equal(s.live_bytes, m->stats.live_bytes);
    assert_int_equal(s.deleted_count, m->stats.deleted_count);
    assert_int_equal(s.deleted_bytes, m->stats.deleted_bytes);
    assert_int_equal(s.max_key, m->stats.max_key);
    assert_true(s.memory_bytes > 0);
}

struct walk {
    const struct model *m;
    unsigned seen, stop_after;
};

static int on_entry(uint64_t key, const struct needle_value *v, void *arg)
{
    struct walk *w = arg;
    unsigned i = index_of(key);
    assert_true(w->m->known[i]);
    assert_value(v, &w->m->value[i]);
    w->seen++;
    return w->seen == w->stop_after ? 42 : 0;
}

static void assert_same(struct needle_map *map, const struct model *m)
{
    unsigned all = 0, live = 0;
    for (unsigned i = 0; i < KEYS; i++) {
        struct needle_value v = {0};
        int rc = needle_map_get(map, key_of(i), &v);
        if (!m->known[i]) {
            assert_int_equal(rc, DFS_ENOTFOUND);
            continue;
        }
        assert_int_equal(rc, 0);
        assert_value(&v, &m->value[i]);
        all++;
        live += !v.deleted;
    }
    struct walk w = {m, 0, 0};
    assert_int_equal(needle_map_each(map, true, on_entry, &w), 0);
    assert_int_equal(w.seen, all);
    w.seen = 0;
    assert_int_equal(needle_map_each(map, false, on_entry, &w), 0);
    assert_int_equal(w.seen, live);
    if (all > 2) {
        w = (struct walk){m, 0, 2};
        assert_int_equal(needle_map_each(map, true, on_entry, &w), 42);
        assert_int_equal(w.seen, 2);
    }
    assert_stats(map, m);
}

/* ---- the contract ---- */

struct subject {
    const char *name;
    enum needle_map_kind kind;
    unsigned offset_width;
};

static struct needle_map *open_subject(const struct subject *s, const char *dir, struct epoch *epoch)
{
    struct needle_map *map = NULL;
    struct needle_map_checkpoint at;
    if (s->kind == NEEDLE_MAP_MEMORY) {
        assert_int_equal(needle_map_memory_new(epoch, s->offset_width, 0, &map), 0);
    } else {
        char *path = tmpdir_path(dir, "7.ldb");
        assert_int_equal(needle_map_leveldb_new(path, s->offset_width, 1 << 20, &at, &map), 0);
        assert_int_equal(at.idx_rows, 0);
        free(path);
    }
    assert_int_equal(needle_map_kind_of(map), s->kind);
    assert_int_equal(needle_map_may_block(map), s->kind == NEEDLE_MAP_LEVELDB);
    return map;
}

static void edges(struct needle_map *map, unsigned offset_width)
{
    struct needle_value v, old = {.size = 77};
    bool had = true;
    uint64_t last = offset_width == 5 ? 0xffffffffffull : 0xffffffffull;

    /* Absent, empty, first. */
    assert_int_equal(needle_map_get(map, 5, &v), DFS_ENOTFOUND);
    assert_int_equal(needle_map_delete(map, 5, &old), DFS_ENOTFOUND);
    assert_int_equal(old.size, 77);
    assert_int_equal(needle_map_put(map, 5, (struct needle_offset){1}, 0, &old, &had), 0);
    assert_false(had);
    assert_int_equal(old.size, 77);

    /* The ends of what can be said. */
    assert_int_equal(needle_map_put(map, 5, (struct needle_offset){last}, 0x7fffffff, &old, &had), 0);
    assert_true(had);
    assert_value(&old, &(struct needle_value){.offset = {1}, .size = 0});
    assert_int_equal(needle_map_put(map, 5, (struct needle_offset){last + 1}, 1, &old, &had), DFS_EINVAL);
    assert_int_equal(needle_map_put(map, 5, (struct needle_offset){1}, 0x80000000u, &old, &had), DFS_EINVAL);
    assert_int_equal(needle_map_get(map, 5, &v), 0);
    assert_value(&v, &(struct needle_value){.offset = {last}, .size = 0x7fffffff});

    /* Deleted is remembered, and not deleted twice. */
    assert_int_equal(needle_map_delete(map, 5, &old), 0);
    assert_value(&old, &(struct needle_value){.offset = {last}, .size = 0x7fffffff});
    assert_int_equal(needle_map_delete(map, 5, NULL), DFS_ENOTFOUND);
    assert_int_equal(needle_map_get(map, 5, &v), 0);
    assert_value(&v, &(struct needle_value){.offset = {last}, .size = 0x7fffffff, .deleted = true});

    /* Written again after that. */
    assert_int_equal(needle_map_put(map, 5, (struct needle_offset){9}, 3, &old, &had), 0);
    assert_true(had && old.deleted);
    assert_int_equal(needle_map_put(map, 5, (struct needle_offset){9}, 3, NULL, NULL), 0); /* the same row again */
    struct needle_map_stats s;
    needle_map_stats(map, &s);
    assert_int_equal(s.live_count, 1);
    assert_int_equal(s.live_bytes, 3);
    assert_int_equal(s.deleted_count, 2);
    assert_int_equal(s.deleted_bytes, 0x7fffffff);
    assert_int_equal(s.max_key, 5);

    /* Key 0 is a key. */
    assert_int_equal(needle_map_get(map, 0, &v), DFS_ENOTFOUND);
    assert_int_equal(needle_map_delete(map, 0, NULL), DFS_ENOTFOUND);
    assert_int_equal(needle_map_put(map, 0, (struct needle_offset){2}, 8, &old, &had), 0);
    assert_false(had);
    assert_int_equal(needle_map_put(map, 0, (struct needle_offset){4}, 16, &old, &had), 0);
    assert_true(had);
    assert_int_equal(needle_map_get(map, 0, &v), 0);
    assert_value(&v, &(struct needle_value){.offset = {4}, .size = 16});
    assert_int_equal(needle_map_delete(map, 0, NULL), 0);
    assert_int_equal(needle_map_get(map, 0, &v), 0);
    assert_true(v.deleted);
}

static void random_changes(struct needle_map *map, struct model *m, unsigned offset_width, uint64_t steps)
{
    uint64_t units = 1;
    needle_map_begin(map);
    for (uint64_t n = 1; n <= steps; n++) {
        unsigned i = rand_below(KEYS);
        struct needle_value old;
        bool had;
        needle_map_prefetch(map, key_of(i));
        if (m->known[i] && !m->value[i].deleted && rand_below(3) == 0) {
            struct needle_value before = m->value[i];
            assert_int_equal(needle_map_delete(map, key_of(i), &old), 0);
            assert_value(&old, &before);
            model_delete(m, i);
        } else {
            units += 1 + rand_below(offset_width == 5 ? 100000000 : 1000);
            uint32_t size = rand_below(1u << 20);
            assert_int_equal(needle_map_put(map, key_of(i), (struct needle_offset){units}, size, &old, &had), 0);
            assert_int_equal(had, m->known[i]);
            if (had)
                assert_value(&old, &m->value[i]);
            model_put(m, i, units, size);
        }
        if (n % 100 == 0) {
            struct needle_map_checkpoint at = {n, units * 8, 3};
            assert_int_equal(needle_map_commit(map, &at), 0);
            needle_map_begin(map);
        }
    }
    struct needle_map_checkpoint at = {steps, units * 8, 3};
    assert_int_equal(needle_map_commit(map, &at), 0);
}

static void contract(void **state)
{
    const struct subject *s = *state;
    char *dir = tmpdir_new("map");
    struct epoch *epoch;
    assert_int_equal(epoch_new(&epoch), 0);
    struct needle_map *map = open_subject(s, dir, epoch);
    edges(map, s->offset_width);
    needle_map_free(map);
    tmpdir_free(dir);

    dir = tmpdir_new("map");
    map = open_subject(s, dir, epoch);
    struct model *m = calloc(1, sizeof *m);
    assert_same(map, m);
    random_changes(map, m, s->offset_width, 20000);
    assert_same(map, m);
    needle_map_free(map);
    epoch_free(epoch);
    free(m);
    tmpdir_free(dir);
}

/* ---- memory ---- */

static void memory_makes_room_for_what_is_expected(void **state)
{
    (void)state;
    for (unsigned width = 4; width <= 5; width++) {
        struct needle_map *map;
        struct needle_map_stats before, after;
        assert_int_equal(needle_map_memory_new(NULL, width, 200000, &map), 0);
        needle_map_stats(map, &before);
        for (uint64_t key = 0; key < 200000; key++)
            assert_int_equal(needle_map_put(map, key, (struct needle_offset){key + 1}, 10, NULL, NULL), 0);
        needle_map_stats(map, &after);
        assert_int_equal(after.live_count, 200000);
        assert_true(after.memory_bytes < before.memory_bytes * 11 / 10);
        needle_map_free(map);
    }
}

/* G135: the promise of the memory backend in bytes, at every size and not only at round ones. */
static void memory_is_bounded_while_growing(void **state)
{
    (void)state;
    struct needle_map *map;
    struct needle_map_stats s;
    double most = 0, sum = 0;
    unsigned looks = 0;
    assert_int_equal(needle_map_memory_new(NULL, 5, 0, &map), 0);
    for (uint64_t n = 1; n <= 1000000; n++) {
        assert_int_equal(needle_map_put(map, n * 3, (struct needle_offset){n}, 10, NULL, NULL), 0);
        if (n < 200000 || n % 5000 != 0)
            continue;
        needle_map_stats(map, &s);
        double each = (double)s.memory_bytes / (double)n;
        most = each > most ? each : most;
        sum += each;
        looks++;
    }
    print_message("bytes a needle: %.2f on average, %.2f at most\n", sum / looks, most);
    assert_true(sum / looks <= 22.0);
    assert_true(most <= 23.0);
    needle_map_free(map);
}

/* G49, and under TSan: readers beside the writer never see a mix of two values, a lost key, or an older value than before. */
#define RACE_KEYS 5000u

struct race {
    struct needle_map *map;
    struct epoch *epoch;
    atomic_bool stop;
    atomic_uint_fast64_t reads, bad;
};

/* Every value says by itself whether it is whole: size and both parts of the offset come from one number. */
static struct needle_offset race_offset(uint64_t key, uint32_t version)
{
    return (struct needle_offset){((uint64_t)(version & 0xff) << 32) | ((key * 2654435761u + version) & 0xffffffffu)};
}

static void *race_reader(void *arg)
{
    struct race *r = arg;
    struct epoch_slot *slot;
    CHECK(epoch_register(r->epoch, &slot) == 0);
    uint32_t *seen = calloc(RACE_KEYS, sizeof *seen);
    uint64_t reads = 0, bad = 0, key = 0;
    while (!atomic_load(&r->stop)) {
        for (int i = 0; i < 64; i++) {
            struct needle_value v;
            key = (key * 5 + 1) % RACE_KEYS;
            if (needle_map_get(r->map, key, &v) != 0) {
                bad += seen[key] != 0;
                continue;
            }
            reads++;
            struct needle_offset want = race_offset(key, v.size);
            bad += v.offset.units8 != want.units8 || v.size < seen[key];
            seen[key] = v.size;
        }
        epoch_quiescent(slot);
    }
    epoch_unregister(r->epoch, slot);
    free(seen);
    atomic_fetch_add(&r->reads, reads);
    atomic_fetch_add(&r->bad, bad);
    return NULL;
}

static void memory_readers_see_whole_values(void **state)
{
    (void)state;
    struct race r = {0};
    pthread_t reader[2];
    assert_int_equal(epoch_new(&r.epoch), 0);
    assert_int_equal(needle_map_memory_new(NULL, 5, 0, &r.map), 0);
    needle_map_share(r.map, r.epoch);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&reader[i], NULL, race_reader, &r), 0);
    /* First all keys come in while tables grow; then values change under the readers. */
    for (uint32_t version = 1; version <= 30; version++) {
        for (uint64_t key = 0; key < RACE_KEYS; key++) {
            assert_int_equal(needle_map_put(r.map, key, race_offset(key, version), version, NULL, NULL), 0);
            if (key % 7 == 0)
                assert_int_equal(needle_map_delete(r.map, key, NULL), 0);
        }
        epoch_reclaim(r.epoch);
    }
    atomic_store(&r.stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(reader[i], NULL);
    assert_int_equal(atomic_load(&r.bad), 0);
    needle_map_free(r.map);
    epoch_free(r.epoch);
}

/* ---- leveldb ---- */

#define ROWS 40000u
#define CHECKPOINT ((struct needle_map_checkpoint){ROWS, ROWS * 64 + 8, 5})

static struct needle_map *ldb_open(const char *path, struct needle_map_checkpoint *at)
{
    struct needle_map *map = NULL;
    assert_int_equal(needle_map_leveldb_new(path, 5, 1 << 20, at, &map), 0);
    return map;
}

static void ldb_fill(struct needle_map *map)
{
    needle_map_begin(map);
    for (uint64_t key = 1; key <= ROWS; key++)
        assert_int_equal(needle_map_put(map, key, (struct needle_offset){key * 8}, (uint32_t)key, NULL, NULL), 0);
    assert_int_equal(needle_map_delete(map, 17, NULL), 0);
    assert_int_equal(needle_map_commit(map, &CHECKPOINT), 0);
}

static void ldb_assert_filled(struct needle_map *map)
{
    struct needle_value v;
    struct needle_map_stats s;
    for (uint64_t key = 1; key <= ROWS; key++) {
        assert_int_equal(needle_map_get(map, key, &v), 0);
        assert_value(&v, &(struct needle_value){.offset = {key * 8}, .size = (uint32_t)key, .deleted = key == 17});
    }
    assert_int_equal(needle_map_get(map, ROWS + 1, &v), DFS_ENOTFOUND);
    needle_map_stats(map, &s);
    assert_int_equal(s.live_count, ROWS - 1);
    assert_int_equal(s.live_bytes, (uint64_t)ROWS * (ROWS + 1) / 2 - 17);
    assert_int_equal(s.deleted_count, 1);
    assert_int_equal(s.deleted_bytes, 17);
    assert_int_equal(s.max_key, ROWS);
}

static void ldb_assert_empty(struct needle_map *map, const struct needle_map_checkpoint *at)
{
    struct needle_value v;
    struct needle_map_stats s;
    assert_int_equal(at->idx_rows, 0);
    assert_int_equal(at->dat_bytes, 0);
    assert_int_equal(at->generation, 0);
    for (uint64_t key = 1; key <= ROWS; key += 997)
        assert_int_equal(needle_map_get(map, key, &v), DFS_ENOTFOUND);
    needle_map_stats(map, &s);
    assert_int_equal(s.live_count, 0);
    assert_int_equal(s.max_key, 0);
}

static char *ldb_made(const char *dir)
{
    struct needle_map_checkpoint at;
    char *path = tmpdir_path(dir, "9.ldb");
    struct needle_map *map = ldb_open(path, &at);
    ldb_fill(map);
    ldb_assert_filled(map);
    needle_map_free(map);
    return path;
}

static void leveldb_clean_close_is_trusted(void **state)
{
    (void)state;
    char *dir = tmpdir_new("ldb");
    char *path = ldb_made(dir);
    for (int i = 0; i < 3; i++) {
        struct needle_map_checkpoint at, want = CHECKPOINT;
        struct needle_map *map = ldb_open(path, &at);
        assert_int_equal(at.idx_rows, want.idx_rows);
        assert_int_equal(at.dat_bytes, want.dat_bytes);
        assert_int_equal(at.generation, want.generation);
        ldb_assert_filled(map);
        needle_map_free(map);
    }
    free(path);
    tmpdir_free(dir);
}

/* Closed before a commit with a checkpoint, or with something put after it: what is there is not what the checkpoint says. */
static void leveldb_without_a_last_checkpoint_starts_empty(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        struct needle_map_checkpoint at;
        char *dir = tmpdir_new("ldb");
        char *path = ldb_made(dir);
        struct needle_map *map = ldb_open(path, &at);
        if (how == 0)
            assert_int_equal(needle_map_put(map, 3, (struct needle_offset){3}, 3, NULL, NULL), 0);
        needle_map_begin(map);
        if (how == 1)
            assert_int_equal(needle_map_put(map, 3, (struct needle_offset){3}, 3, NULL, NULL), 0);
        if (how == 2) {
            assert_int_equal(needle_map_delete(map, 3, NULL), 0);
            assert_int_equal(needle_map_commit(map, NULL), 0);
        }
        needle_map_free(map);
        map = ldb_open(path, &at);
        ldb_assert_empty(map, &at);
        needle_map_free(map);
        free(path);
        tmpdir_free(dir);
    }
}

/* A process that dies leaves no seal.  The copy of the folder is what it leaves. */
static void copy_folder(const char *from, const char *to)
{
    char *command = NULL;
    assert_true(asprintf(&command, "cp -r '%s' '%s'", from, to) != -1);
    assert_int_equal(system(command), 0);
    free(command);
}

static void leveldb_after_a_crash_starts_empty(void **state)
{
    (void)state;
    char *dir = tmpdir_new("ldb");
    char *path = ldb_made(dir), *copy = tmpdir_path(dir, "copy.ldb");
    struct needle_map_checkpoint at;
    struct needle_map *map = ldb_open(path, &at);
    assert_int_equal(at.idx_rows, ROWS);
    copy_folder(path, copy);
    needle_map_free(map);
    map = ldb_open(copy, &at);
    ldb_assert_empty(map, &at);
    ldb_fill(map);
    needle_map_free(map);
    map = ldb_open(copy, &at);
    ldb_assert_filled(map);
    needle_map_free(map);
    free(path);
    free(copy);
    tmpdir_free(dir);
}

/* The first file of the folder whose name starts and ends so; malloc'd path. */
static char *find_in(const char *folder, const char *start, const char *end)
{
    DIR *d = opendir(folder);
    assert_non_null(d);
    char *found = NULL;
    for (struct dirent *e; (e = readdir(d)) != NULL && found == NULL;) {
        size_t n = strlen(e->d_name);
        if (strncmp(e->d_name, start, strlen(start)) == 0 && n >= strlen(end) &&
            strcmp(e->d_name + n - strlen(end), end) == 0)
            found = tmpdir_path(folder, e->d_name);
    }
    closedir(d);
    assert_non_null(found);
    return found;
}

enum damage { EMPTIED, CUT_3, ZEROED, FLIPPED_MIDDLE, REMOVED, DAMAGES };

static void damage_file(const char *path, enum damage how)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    if (how == REMOVED) {
        assert_int_equal(unlink(path), 0);
        return;
    }
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    if (how == EMPTIED)
        assert_int_equal(ftruncate(fd, 0), 0);
    if (how == CUT_3)
        assert_int_equal(ftruncate(fd, st.st_size > 3 ? st.st_size - 3 : 0), 0);
    if (how == ZEROED) {
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(ftruncate(fd, st.st_size), 0);
    }
    if (how == FLIPPED_MIDDLE) {
        char c;
        assert_int_equal(pread(fd, &c, 1, st.st_size / 2), 1);
        c ^= 0x10;
        assert_int_equal(pwrite(fd, &c, 1, st.st_size / 2), 1);
    }
    close(fd);
}

/* Whatever is done to a file of a closed database: each look-up tells the truth or fails, or the map says that it is empty. */
static void leveldb_damage_is_never_an_absent_key(void **state)
{
    (void)state;
    static const struct {
        const char *start, *end;
        bool seen_at_open[DAMAGES];
    } files[] = {
        {"CURRENT", "", {true, true, true, true, true}},
        {"MANIFEST-", "", {true, true, true, true, true}},
        {"", ".ldb", {true, true, false, false, true}},
        {"CLEAN", "", {true, true, true, true, true}},
    };
    char *dir = tmpdir_new("ldb");
    char *path = ldb_made(dir), *copy = tmpdir_path(dir, "copy.ldb");
    for (size_t f = 0; f < ARRAY_LEN(files); f++) {
        for (enum damage how = 0; how < DAMAGES; how++) {
            struct needle_map_checkpoint at;
            tmpdir_remove(copy);
            copy_folder(path, copy);
            char *file = find_in(copy, files[f].start, files[f].end);
            damage_file(file, how);
            struct needle_map *map = ldb_open(copy, &at);
            if (files[f].seen_at_open[how]) {
                ldb_assert_empty(map, &at);
            } else if (at.idx_rows != 0) {
                unsigned failed = 0;
                for (uint64_t key = 1; key <= ROWS; key++) {
                    struct needle_value v;
                    int rc = needle_map_get(map, key, &v);
                    assert_true(rc == 0 || rc == DFS_ECORRUPT || rc == DFS_EIO);
                    if (rc == 0)
                        assert_value(&v, &(struct needle_value){.offset = {key * 8}, .size = (uint32_t)key,
                                                                .deleted = key == 17});
                    failed += rc != 0;
                }
                assert_true(failed > 0);
                /* And it is not sealed again. */
                needle_map_free(map);
                map = ldb_open(copy, &at);
                ldb_assert_empty(map, &at);
            }
            /* It can be filled anew in any case. */
            ldb_fill(map);
            needle_map_free(map);
            map = ldb_open(copy, &at);
            ldb_assert_filled(map);
            needle_map_free(map);
            free(file);
        }
    }
    free(path);
    free(copy);
    tmpdir_free(dir);
}

/* Each of our own file calls around closing and opening fails in turn: what is opened afterwards is whole or empty. */
static void leveldb_survives_any_failing_call(void **state)
{
    (void)state;
    for (int closing = 0; closing < 2; closing++) {
        unsigned empty = 0, whole = 0;
        for (uint64_t n = 1;; n++) {
            struct needle_map_checkpoint at;
            struct needle_map *map = NULL;
            char *dir = tmpdir_new("ldb"), *path = tmpdir_path(dir, "9.ldb");
            map = ldb_open(path, &at);
            needle_map_begin(map);
            for (uint64_t key = 1; key <= 10; key++)
                assert_int_equal(needle_map_put(map, key, (struct needle_offset){key}, 1, NULL, NULL), 0);
            assert_int_equal(needle_map_commit(map, &CHECKPOINT), 0);
            fault_install(NULL);
            struct fault_rule rule = {.calls = FAULT_ANY, .first = n, .err = EIO};
            int id = 0;
            if (closing)
                id = fault_add(&rule);
            needle_map_free(map);
            if (!closing)
                id = fault_add(&rule);
            map = NULL;
            int rc = needle_map_leveldb_new(path, 5, 1 << 20, &at, &map);
            bool struck = fault_hits(id) > 0;
            fault_remove();
            if (rc != 0) {
                assert_null(map);
                map = ldb_open(path, &at);
            }
            struct needle_value v;
            assert_true(at.idx_rows == 0 || at.idx_rows == ROWS);
            for (uint64_t key = 1; key <= 10; key++)
                assert_int_equal(needle_map_get(map, key, &v), at.idx_rows == 0 ? DFS_ENOTFOUND : 0);
            empty += at.idx_rows == 0;
            whole += at.idx_rows != 0;
            needle_map_free(map);
            free(path);
            tmpdir_free(dir);
            if (!struck)
                break;
        }
        assert_true(empty > 5);
        assert_true(whole > 0);
    }
}

/* A file, an unrelated folder, or another width where the database should be. */
static void leveldb_takes_the_place_of_anything(void **state)
{
    (void)state;
    char *dir = tmpdir_new("ldb");
    char *path = tmpdir_path(dir, "1.ldb");
    struct needle_map_checkpoint at;
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    close(fd);
    struct needle_map *map = ldb_open(path, &at);
    ldb_fill(map);
    needle_map_free(map);

    assert_int_equal(needle_map_leveldb_new(path, 4, 1 << 20, &at, &map), 0);
    ldb_assert_empty(map, &at);
    needle_map_free(map);
    free(path);

    path = tmpdir_path(dir, "missing/2.ldb");
    map = NULL;
    assert_true(needle_map_leveldb_new(path, 5, 1 << 20, &at, &map) != 0);
    assert_null(map);
    free(path);
    tmpdir_free(dir);
}

int main(void)
{
    static struct subject subjects[] = {
        {"memory, 5-byte offsets", NEEDLE_MAP_MEMORY, 5},
        {"memory, 4-byte offsets", NEEDLE_MAP_MEMORY, 4},
        {"leveldb, 5-byte offsets", NEEDLE_MAP_LEVELDB, 5},
        {"leveldb, 4-byte offsets", NEEDLE_MAP_LEVELDB, 4},
    };
    const struct CMUnitTest tests[] = {
        {"contract: memory, 5-byte offsets", contract, NULL, NULL, &subjects[0]},
        {"contract: memory, 4-byte offsets", contract, NULL, NULL, &subjects[1]},
        {"contract: leveldb, 5-byte offsets", contract, NULL, NULL, &subjects[2]},
        {"contract: leveldb, 4-byte offsets", contract, NULL, NULL, &subjects[3]},
        cmocka_unit_test(memory_makes_room_for_what_is_expected),
        cmocka_unit_test(memory_is_bounded_while_growing),
        cmocka_unit_test(memory_readers_see_whole_values),
        cmocka_unit_test(leveldb_clean_close_is_trusted),
        cmocka_unit_test(leveldb_without_a_last_checkpoint_starts_empty),
        cmocka_unit_test(leveldb_after_a_crash_starts_empty),
        cmocka_unit_test(leveldb_damage_is_never_an_absent_key),
        cmocka_unit_test(leveldb_survives_any_failing_call),
        cmocka_unit_test(leveldb_takes_the_place_of_anything),
    };
    log_threshold = LOG_ERROR + 1;
    if (rand_init() != 0)
        return 1;
    rand_seed_for_tests(20240817);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
