/* Data folders: who may open them, what they are called, what is found in them, when they are gone. */
#include "volume/disk_location.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "needle/err.h"
#include "net/log.h"
#include "net/rand.h"
#include "tests/support/fault.h"
#include "tests/support/tmpdir.h"
#include "tests/support/volume_rig.h"
#include "volume/location_names.h"
#include "volume/store_internal.h"

static char *dir;

static int setup(void **state)
{
    (void)state;
    log_threshold = LOG_ERROR + 1;
    assert_int_equal(rand_init(), 0);
    dir = tmpdir_new("location");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tmpdir_free(dir);
    return 0;
}

static int open_dirs(const char *const *dirs, uint32_t count, struct store **out)
{
    struct store_options o;

    store_options_init(&o);
    for (uint32_t i = 0; i < count; i++)
        o.dirs[i] = dirs[i];
    o.dir_count = count;
    o.pool_bytes = 8 << 20;
    o.min_free_percent = 0;
    return store_open(&o, out);
}

/* ---- names ---- */

static void test_base_names(void **state)
{
    static const struct {
        const char *text, *collection;
        uint32_t id;
    } good[] = {
        {"7", "", 7}, {"photos_7", "photos", 7}, {"a_b_4294967295", "a_b", 4294967295u}, {"__1", "_", 1}, {"a.b-c_10", "a.b-c", 10},
        {"7_8", "7", 8},
    };
    static const char *const bad[] = {"", "0", "007", "x", "_7", "photos_", "photos_07", "a b_7", "a/b_7", "..", "._x", "-1", "+1",
                                      "4294967296", "7 ", "a_7x", ".._7", "._7"};
    struct bytes collection;
    uint32_t id;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(volume_base_parse(bytes_str(good[i].text), &collection, &id), 0);
        assert_true(bytes_eq(collection, bytes_str(good[i].collection)));
        assert_int_equal(id, good[i].id);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (volume_base_parse(bytes_str(bad[i]), &collection, &id) != DFS_EINVAL)
            fail_msg("'%s' was taken", bad[i]);
}

static void test_collection_names(void **state)
{
    char longest[VOLUME_COLLECTION_MAX + 1];

    (void)state;
    memset(longest, 'c', sizeof longest);
    assert_true(collection_name_valid(bytes_str("")));
    assert_true(collection_name_valid(bytes_str("a-Z_0.9")));
    assert_true(collection_name_valid(bytes_of(longest, VOLUME_COLLECTION_MAX)));
    assert_false(collection_name_valid(bytes_of(longest, VOLUME_COLLECTION_MAX + 1)));
    assert_false(collection_name_valid(bytes_str("..")));
    assert_false(collection_name_valid(bytes_str("../x")));
    assert_false(collection_name_valid(bytes_of("a\0b", 3)));
}

/* ---- opening ---- */

static void test_folder_is_made(void **state)
{
    char *path = tmpdir_path(dir, "data");
    const char *dirs[] = {path};
    struct store *s;
    struct stat st;
    size_t n;
    char *uuid;

    (void)state;
    umask(0);
    assert_int_equal(open_dirs(dirs, 1, &s), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0750);
    uuid = vrig_read_file(path, "vol_dir.uuid", &n);
    assert_int_equal(n, 36);
    vrig_close(s);
    assert_int_equal(open_dirs(dirs, 1, &s), 0);
    assert_string_equal(s->locations[0]->uuid, uuid);
    vrig_close(s);
    free(uuid);
    free(path);
}

static void test_uuid_is_kept(void **state)
{
    static const char uuid[] = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0\n";
    const char *dirs[] = {dir};
    struct store *s;

    (void)state;
    vrig_write_file(dir, "vol_dir.uuid", uuid, sizeof uuid - 1);
    assert_int_equal(open_dirs(dirs, 1, &s), 0);
    assert_int_equal(memcmp(s->locations[0]->uuid, uuid, 36), 0);
    vrig_close(s);
    vrig_write_file(dir, "vol_dir.uuid", "what?", 5);
    assert_int_equal(open_dirs(dirs, 1, &s), 0);
    assert_int_equal(strlen(s->locations[0]->uuid), 36);
    vrig_close(s);
}

/* The lock belongs to the open file: another opening of it is as foreign as another process's. */
static void test_second_process_is_refused(void **state)
{
    const char *dirs[] = {dir};
    struct store *s, *other;

    (void)state;
    assert_int_equal(open_dirs(dirs, 1, &s), 0);
    assert_int_equal(open_dirs(dirs, 1, &other), DFS_EBUSY);
    vrig_close(s);
    assert_int_equal(open_dirs(dirs, 1, &s), 0);
    vrig_close(s);
}

static void write_volume(const char *folder, const char *base, uint64_t key)
{
    struct rig_volume b;

    vrig_volume_init(&b, NEEDLE_V3, 5);
    vrig_put_n(&b, key, 100);
    vrig_write(&b, folder, base, true);
    vrig_volume_release(&b);
}

/* No lock can be made: what is there is read, nothing new is placed, and who writes there already is not disturbed. */
static void test_read_only_folder(void **state)
{
    static const int errs[] = {EROFS, EACCES, EPERM};
    const char *dirs[] = {dir};
    struct store *s, *second;

    (void)state;
    write_volume(dir, "7", 1);
    for (size_t i = 0; i < sizeof errs / sizeof errs[0]; i++) {
        fault_install(NULL);
        fault_add(&(struct fault_rule){.calls = FAULT(FAULT_OPEN), .path_has = LOCATION_LOCK_NAME, .first = 1, .err = errs[i]});
        assert_int_equal(open_dirs(dirs, 1, &s), 0);
        assert_true(s->locations[0]->read_only);
        assert_int_equal(disk_location_free_slots(s->locations[0]), 0);
        assert_false(vrig_exists(dir, LOCATION_BALLAST_NAME));
        vrig_close(s);
        fault_remove();
    }
    assert_int_equal(open_dirs(dirs, 1, &s), 0);
    assert_false(s->locations[0]->read_only);
    fault_install(NULL);
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_OPEN), .path_has = LOCATION_LOCK_NAME, .first = 1, .err = EROFS});
    assert_int_equal(open_dirs(dirs, 1, &second), DFS_EBUSY);
    fault_remove();
    vrig_close(s);
}

static void test_one_folder_twice(void **state)
{
    char *link_path = tmpdir_path(dir, "link"), *real_path = tmpdir_path(dir, "real");
    const char *dirs[] = {real_path, link_path};
    struct store *s;

    (void)state;
    assert_int_equal(mkdir(real_path, 0700), 0);
    assert_int_equal(symlink(real_path, link_path), 0);
    assert_int_equal(open_dirs(dirs, 2, &s), DFS_EEXIST);
    dirs[1] = real_path;
    assert_int_equal(open_dirs(dirs, 2, &s), DFS_EEXIST);
    assert_int_equal(open_dirs(dirs, 1, &s), 0);
    vrig_close(s);
    free(link_path);
    free(real_path);
}

static void test_no_folder_can_be_made(void **state)
{
    char *path = tmpdir_path(dir, "file/below");
    const char *dirs[] = {path};
    struct store *s;

    (void)state;
    vrig_write_file(dir, "file", "x", 1);
    assert_int_not_equal(open_dirs(dirs, 1, &s), 0);
    free(path);
}

/* A disk that is full must not keep the daemon from starting: the folder has been used before. */
static void test_full_disk_starts(void **state)
{
    const char *dirs[] = {dir};
    struct store *s;

    (void)state;
    assert_int_equal(open_dirs(dirs, 1, &s), 0);
    vrig_close(s);
    char *uuid = tmpdir_path(dir, "vol_dir.uuid");
    assert_int_equal(unlink(uuid), 0);
    free(uuid);
    fault_install(NULL);
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_WRITE) | FAULT(FAULT_FALLOCATE), .every = 1, .err = ENOSPC});
    assert_int_equal(open_dirs(dirs, 1, &s), 0);
    assert_int_equal(strlen(s->locations[0]->uuid), 36);
    vrig_close(s);
    fault_remove();
}

/* ---- what is in it ---- */

static void test_what_is_served(void **state)
{
    struct store *s;

    (void)state;
    write_volume(dir, "7", 1);
    write_volume(dir, "photos_8", 1);
    write_volume(dir, "not a volume_9", 1);
    vrig_write_file(dir, "10.vif", "{}", 2);
    vrig_write_file(dir, "11.ecx", "", 0);
    vrig_write_file(dir, "11.ec00", "shard", 5);
    s = vrig_open(dir);
    assert_true(vrig_holds(s, 7, 1, 100));
    assert_true(vrig_holds(s, 8, 1, 100));
    for (uint32_t id = 9; id <= 11; id++)
        assert_int_equal(vrig_get(s, id, 1, 0, NULL, NULL), DFS_ENOVOLUME);
    assert_int_equal(atomic_load(&s->locations[0]->volume_count), 2);
    vrig_close(s);
    assert_true(vrig_exists(dir, "11.ecx"));
    assert_int_equal(vrig_file_bytes(dir, "11.ec00"), 5);
}

static void test_same_id_twice(void **state)
{
    char *a = tmpdir_path(dir, "a"), *b = tmpdir_path(dir, "b");
    const char *dirs[] = {a, b};
    unsigned char before[32], after[32];
    struct store *s;

    (void)state;
    assert_int_equal(mkdir(a, 0700) | mkdir(b, 0700), 0);
    write_volume(a, "7", 1);
    write_volume(b, "x_7", 2);
    vrig_hash(b, "x_7.dat", before);
    assert_int_equal(open_dirs(dirs, 2, &s), 0);
    assert_int_equal(store_load_start(s), 0);
    store_load_wait(s);
    assert_true(vrig_holds(s, 7, 1, 100));
    assert_int_not_equal(vrig_get(s, 7, 2, RIG_COOKIE, NULL, NULL), 0);
    assert_non_null(s->duplicates);
    assert_int_equal(s->duplicates->id, 7);
    vrig_close(s);
    vrig_hash(b, "x_7.dat", after);
    assert_memory_equal(before, after, 32);
    free(a);
    free(b);
}

static void test_unfinished_copy_is_set_aside(void **state)
{
    struct store *s;
    unsigned char before[32], after[32];

    (void)state;
    write_volume(dir, "7", 1);
    write_volume(dir, "c_8", 1);
    vrig_hash(dir, "c_8.dat", before);
    vrig_write_file(dir, "c_8.note", "copying", 7);
    s = vrig_open(dir);
    assert_int_equal(vrig_get(s, 8, 1, RIG_COOKIE, NULL, NULL), DFS_ENOVOLUME);
    assert_true(vrig_holds(s, 7, 1, 100));
    vrig_close(s);
    assert_false(vrig_exists(dir, "c_8.note"));
    assert_false(vrig_exists(dir, "c_8.dat"));
    vrig_hash(dir, "c_8.dat.incomplete", after);
    assert_memory_equal(before, after, 32);
    /* A second one keeps the first. */
    write_volume(dir, "c_8", 2);
    vrig_write_file(dir, "c_8.note", "copying", 7);
    s = vrig_open(dir);
    vrig_close(s);
    assert_true(vrig_exists(dir, "c_8.dat.incomplete"));
    assert_true(vrig_exists(dir, "c_8.dat.incomplete.1"));
}

/* A note whose files cannot be set aside: the volume is not opened. */
static void test_note_that_stays(void **state)
{
    struct store *s;
    struct volume_info info;

    (void)state;
    write_volume(dir, "7", 1);
    vrig_write_file(dir, "7.note", "", 0);
    fault_install(NULL);
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_RENAME), .every = 1, .path_has = "7.dat", .err = EIO});
    s = vrig_open(dir);
    vrig_info(s, 7, &info);
    assert_true((info.no_write & VOLUME_BROKEN) != 0);
    assert_int_equal(vrig_get(s, 7, 1, RIG_COOKIE, NULL, NULL), DFS_EUNAVAILABLE);
    vrig_close(s);
    fault_remove();
    assert_true(vrig_exists(dir, "7.dat"));
}

static void test_vacuum_left_by_a_crash(void **state)
{
    struct store *s;

    (void)state;
    write_volume(dir, "7", 1);
    write_volume(dir, "new_7", 2); /* becomes the copy */
    for (int committed = 0; committed < 2; committed++) {
        size_t n;
        char *dat = vrig_read_file(dir, "new_7.dat", &n);
        vrig_write_file(dir, "7.cpd", dat, n);
        free(dat);
        dat = vrig_read_file(dir, "new_7.idx", &n);
        vrig_write_file(dir, "7.cpx", dat, n);
        free(dat);
        if (committed == 1)
            vrig_write_file(dir, "7.cpc", "", 0);
        char *other = tmpdir_path(dir, "new_7.dat"), *aside = tmpdir_path(dir, "new_7.kept");
        assert_int_equal(rename(other, aside), 0);
        s = vrig_open(dir);
        assert_true(vrig_holds(s, 7, committed == 1 ? 2 : 1, 100));
        vrig_close(s);
        assert_int_equal(rename(aside, other), 0);
        assert_false(vrig_exists(dir, "7.cpd"));
        assert_false(vrig_exists(dir, "7.cpx"));
        assert_false(vrig_exists(dir, "7.cpc"));
        free(other);
        free(aside);
    }
}

/* ---- when it goes ---- */

static void test_folder_is_replaced(void **state)
{
    char *data = tmpdir_path(dir, "data"), *away = tmpdir_path(dir, "away");
    struct volume_info info;
    struct store *s;
    char reason[256];

    (void)state;
    assert_int_equal(mkdir(data, 0700), 0);
    write_volume(data, "7", 1);
    s = vrig_open(data);
    assert_int_equal(rename(data, away), 0);
    assert_int_equal(mkdir(data, 0700), 0); /* the bare mount point */
    store_maintain(s);
    vrig_info(s, 7, &info);
    assert_true((info.no_write & VOLUME_OFFLINE) != 0);
    assert_int_equal(disk_location_free_slots(s->locations[0]), 0);
    assert_int_equal(store_allocate(s, 9, BYTES_NONE, (struct replica_placement){0}, (struct ttl){0}, 3, 0, reason), DFS_ENOSPC);
    assert_non_null(strstr(reason, "gone"));
    assert_false(vrig_exists(data, "9.dat"));
    assert_int_equal(rmdir(data), 0); /* nothing was made in it */
    store_maintain(s);
    assert_int_equal(rename(away, data), 0);
    store_maintain(s);
    vrig_info(s, 7, &info);
    assert_int_equal(info.no_write, 0);
    assert_true(vrig_holds(s, 7, 1, 100));
    vrig_close(s);
    free(data);
    free(away);
}

static void test_dat_is_taken_away(void **state)
{
    char *dat = tmpdir_path(dir, "7.dat"), *away = tmpdir_path(dir, "away");
    struct volume_info info;
    struct store *s;

    (void)state;
    write_volume(dir, "7", 1);
    write_volume(dir, "8", 1);
    s = vrig_open(dir);
    assert_int_equal(rename(dat, away), 0);
    store_maintain(s);
    vrig_info(s, 7, &info);
    assert_true((info.no_write & VOLUME_OFFLINE) != 0);
    vrig_info(s, 8, &info);
    assert_int_equal(info.no_write, 0);
    assert_int_equal(rename(away, dat), 0);
    store_maintain(s);
    vrig_info(s, 7, &info);
    assert_int_equal(info.no_write, 0);
    vrig_close(s);
    free(dat);
    free(away);
}

/* ---- space ---- */

static uint64_t fake_free_bytes;

static int fake_statvfs(const char *path, struct statvfs *out)
{
    (void)path;
    memset(out, 0, sizeof *out);
    out->f_bsize = out->f_frsize = 4096;
    out->f_blocks = (fsblkcnt_t)((100ull << 30) / 4096);
    out->f_bfree = out->f_bavail = (fsblkcnt_t)(fake_free_bytes / 4096);
    out->f_files = 1000000;
    out->f_ffree = out->f_favail = 900000;
    return 0;
}

static void test_low_space_comes_and_goes(void **state)
{
    struct disk_ops ops = *disk_system_ops();
    struct store_options o;
    struct store *s;
    struct volume_info info;

    (void)state;
    ops.statvfs = fake_statvfs;
    disk_set_ops(&ops);
    write_volume(dir, "7", 1);
    store_options_init(&o);
    o.dirs[0] = dir;
    o.dir_count = 1;
    o.pool_bytes = 8 << 20;
    o.min_free_percent = 10;
    fake_free_bytes = 50ull << 30;
    assert_int_equal(store_open(&o, &s), 0);
    assert_int_equal(store_load_start(s), 0);
    store_load_wait(s);
    assert_true(disk_location_free_slots(s->locations[0]) >= 7);
    fake_free_bytes = 9ull << 30;
    store_maintain(s);
    vrig_info(s, 7, &info);
    assert_int_equal(info.no_write, VOLUME_DISK_LOW);
    assert_int_equal(disk_location_free_slots(s->locations[0]), 0);
    fake_free_bytes = 11ull << 30; /* above the mark, and not enough above it */
    store_maintain(s);
    vrig_info(s, 7, &info);
    assert_int_equal(info.no_write, VOLUME_DISK_LOW);
    fake_free_bytes = 13ull << 30;
    store_maintain(s);
    vrig_info(s, 7, &info);
    assert_int_equal(info.no_write, 0);
    assert_true(disk_location_free_slots(s->locations[0]) > 0);
    vrig_close(s);
    disk_set_ops(NULL);
}

static void test_slots(void **state)
{
    struct disk_ops ops = *disk_system_ops();
    const char *dirs[] = {dir};
    struct store *s;

    (void)state;
    ops.statvfs = fake_statvfs;
    disk_set_ops(&ops);
    fake_free_bytes = 90ull << 30;
    assert_int_equal(open_dirs(dirs, 1, &s), 0);
    store_set_size_limit(s, 1ull << 30);
    assert_int_equal(disk_location_max_volumes(s->locations[0]), 90);
    store_set_size_limit(s, 60000ull << 20);
    assert_int_equal(disk_location_max_volumes(s->locations[0]), LOCATION_SLOTS_MIN);
    vrig_close(s);
    disk_set_ops(NULL);
}

static void test_ballast(void **state)
{
    const char *dirs[] = {dir};
    struct store *s;

    (void)state;
    assert_int_equal(open_dirs(dirs, 1, &s), 0);
    if (location_ballast_bytes(s->locations[0]) == 0) { /* no room here, or a file system without fallocate */
        assert_false(location_ballast_release(s->locations[0]));
        vrig_close(s);
        return;
    }
    assert_true(vrig_exists(dir, LOCATION_BALLAST_NAME));
    assert_int_equal(vrig_file_bytes(dir, LOCATION_BALLAST_NAME), 0);
    assert_true(location_ballast_release(s->locations[0]));
    assert_false(vrig_exists(dir, LOCATION_BALLAST_NAME));
    assert_false(location_ballast_release(s->locations[0]));
    store_maintain(s);
    assert_true(vrig_exists(dir, LOCATION_BALLAST_NAME));
    vrig_close(s);
}

/* A start on a full disk finds the reserve of the process before it, and deletes get it. */
static void test_ballast_is_adopted(void **state)
{
    const char *dirs[] = {dir};
    struct store *s;
    uint64_t bytes;

    (void)state;
    assert_int_equal(open_dirs(dirs, 1, &s), 0);
    bytes = location_ballast_bytes(s->locations[0]);
    vrig_close(s);
    if (bytes == 0)
        return;
    fault_install(NULL);
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_STATVFS) | FAULT(FAULT_FALLOCATE), .every = 1, .err = ENOSPC});
    assert_int_equal(open_dirs(dirs, 1, &s), 0);
    assert_int_equal(location_ballast_bytes(s->locations[0]), bytes);
    assert_true(location_ballast_release(s->locations[0]));
    assert_false(vrig_exists(dir, LOCATION_BALLAST_NAME));
    vrig_close(s);
    fault_remove();
}

/* Not more than an eighth of what is free, none where that is next to nothing. */
static void test_ballast_of_small_disks(void **state)
{
    static const struct {
        uint64_t free_bytes, want_bytes;
    } cases[] = {{0, 0}, {2 << 20, 256 << 10}, {(2 << 20) - 1, 0}, {30 << 20, 3932160}, {64 << 20, 8 << 20}, {1ull << 40, 8 << 20}};
    const char *dirs[] = {dir};
    struct store *s;

    (void)state;
    assert_int_equal(open_dirs(dirs, 1, &s), 0);
    if (!location_ballast_release(s->locations[0])) {
        vrig_close(s);
        return;
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        location_ballast_setup(s->locations[0], cases[i].free_bytes);
        assert_int_equal(location_ballast_bytes(s->locations[0]), cases[i].want_bytes);
        assert_int_equal(vrig_exists(dir, LOCATION_BALLAST_NAME), cases[i].want_bytes != 0);
        assert_int_equal(location_ballast_release(s->locations[0]), cases[i].want_bytes != 0);
    }
    vrig_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        T(test_base_names),
        T(test_collection_names),
        T(test_folder_is_made),
        T(test_uuid_is_kept),
        T(test_second_process_is_refused),
        T(test_read_only_folder),
        T(test_one_folder_twice),
        T(test_no_folder_can_be_made),
        T(test_full_disk_starts),
        T(test_what_is_served),
        T(test_same_id_twice),
        T(test_unfinished_copy_is_set_aside),
        T(test_note_that_stays),
        T(test_vacuum_left_by_a_crash),
        T(test_folder_is_replaced),
        T(test_dat_is_taken_away),
        T(test_low_space_comes_and_goes),
        T(test_slots),
        T(test_ballast),
        T(test_ballast_is_adopted),
        T(test_ballast_of_small_disks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
