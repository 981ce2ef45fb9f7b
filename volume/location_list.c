/* What is in a data folder: finishing or clearing what a crash left, then one volume for each .dat. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/log.h"
#include "volume/disk_location.h"
#include "volume/location_names.h"
#include "volume/store_internal.h"
#include "volume/vacuum.h"

#define SIDE_SUFFIX_NOTE ".note"
#define ASIDE_SUFFIX ".incomplete"
#define ASIDE_MAX 100

/* ---- unfinished copies ---- */

static int rename_aside(const char *base, const char *suffix)
{
    char from[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX], to[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    struct stat st;
    int rc;

    (void)snprintf(from, sizeof from, "%s%s", base, suffix);
    rc = disk_stat(from, &st);
    if (rc != 0)
        return rc == DFS_ENOTFOUND ? 0 : rc;
    for (int i = 0; i < ASIDE_MAX; i++) {
        (void)snprintf(to, sizeof to, i == 0 ? "%s" ASIDE_SUFFIX : "%s" ASIDE_SUFFIX ".%d", from, i);
        rc = disk_stat(to, &st);
        if (rc == DFS_ENOTFOUND)
            return disk_rename(from, to);
        if (rc != 0)
            return rc;
    }
    return DFS_EEXIST;
}

/* B.note: a copy from another server was under way.  What there is of it is no replica, and may still be all that is left: it
 * is set aside, the note last, so that a crash in between finds the note again. */
static int set_aside(struct disk_location *loc, const char *base)
{
    static const char *const suffixes[] = {".dat", ".idx", ".vif"};
    char note[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    int rc = 0;

    for (size_t i = 0; i < ARRAY_LEN(suffixes) && rc == 0; i++)
        rc = rename_aside(base, suffixes[i]);
    if (rc == 0)
        rc = disk_sync_folder(loc->dir);
    (void)snprintf(note, sizeof note, "%s" SIDE_SUFFIX_NOTE, base);
    if (rc == 0)
        rc = disk_unlink(note);
    if (rc == 0)
        log_warning("'%s' is an unfinished copy of a volume: its files are set aside as '*%s'", base, ASIDE_SUFFIX);
    else
        log_error("cannot set aside the unfinished copy '%s': %s", base, strerror(errno));
    return rc;
}

/* ---- one name ---- */

struct listing {
    struct disk_location *loc;
};

/* Our path for a base name, or false when the name is none of a volume. */
static bool base_path(const struct disk_location *loc, struct bytes base, char out[VOLUME_PATH_MAX])
{
    struct bytes collection;
    uint32_t id;
    int n;

    if (volume_base_parse(base, &collection, &id) != 0)
        return false;
    n = snprintf(out, VOLUME_PATH_MAX, "%s/%.*s", loc->dir, (int)base.n, base.p);
    return n > 0 && n + VOLUME_SUFFIX_MAX < VOLUME_PATH_MAX;
}

/* Derived from files that are no longer these. */
static void drop_derived(const char *base)
{
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];

    (void)snprintf(path, sizeof path, "%s" VOLUME_CHECKPOINT_SUFFIX, base);
    (void)disk_unlink(path);
    (void)snprintf(path, sizeof path, "%s" VOLUME_LDB_SUFFIX, base);
    (void)volume_remove_folder(path);
}

static int recover_vacuum(struct disk_location *loc, struct bytes base)
{
    char path[VOLUME_PATH_MAX];
    bool swapped = false;
    int rc;

    if (!base_path(loc, base, path))
        return 0;
    rc = vacuum_recover(path, &swapped);
    if (rc != 0)
        log_error("cannot finish or clear the vacuum of '%s': %s", path, strerror(errno));
    else if (swapped)
        drop_derived(path);
    return 0; /* B.cpc still there keeps the volume from being opened */
}

static int on_side_file(const char *name, void *arg)
{
    struct listing *l = arg;
    struct bytes base, text = bytes_str(name);
    char path[VOLUME_PATH_MAX];

    if (name_strip_suffix(text, SIDE_SUFFIX_NOTE, &base) && base_path(l->loc, base, path))
        (void)set_aside(l->loc, path);
    if (name_strip_suffix(text, VACUUM_COMMIT_SUFFIX, &base) || name_strip_suffix(text, VACUUM_DAT_SUFFIX, &base) ||
        name_strip_suffix(text, VACUUM_IDX_SUFFIX, &base) || name_strip_suffix(text, VACUUM_LDB_SUFFIX, &base))
        return recover_vacuum(l->loc, base);
    return 0;
}

/* A marker that could not be dealt with: opening could take half of two volumes for one. */
static void refuse_if_unfinished(struct volume *v)
{
    static const char *const suffixes[] = {VACUUM_COMMIT_SUFFIX, SIDE_SUFFIX_NOTE};
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    struct stat st;

    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        (void)snprintf(path, sizeof path, "%s%s", v->base, suffixes[i]);
        if (disk_stat(path, &st) != DFS_ENOTFOUND)
            volume_set_no_write(v, VOLUME_BROKEN, "'%s' tells of unfinished work that could not be finished", path);
    }
}

static int add_volume(struct disk_location *loc, uint32_t id, struct bytes collection)
{
    struct volume *v;
    int rc = volume_new(loc, id, collection, &v);

    if (rc != 0)
        return rc;
    refuse_if_unfinished(v);
    rc = store_table_add(loc->store, v);
    if (rc == 0)
        return 0;
    if (rc == DFS_EEXIST)
        store_add_duplicate(loc->store, id, v->base);
    volume_unref(v);
    return rc;
}

static int on_dat(const char *name, void *arg)
{
    struct listing *l = arg;
    struct bytes base, collection;
    uint32_t id;
    int rc;

    if (!name_strip_suffix(bytes_str(name), ".dat", &base))
        return 0;
    if (volume_base_parse(base, &collection, &id) != 0) {
        log_warning("'%s/%s' does not have the name of a volume: left alone", l->loc->dir, name);
        return 0;
    }
    rc = add_volume(l->loc, id, collection);
    return rc == DFS_EEXIST ? 0 : rc;
}

struct finding {
    struct disk_location *loc;
    uint32_t id;
    bool found;
};

static int on_wanted(const char *name, void *arg)
{
    struct finding *f = arg;
    struct bytes base, collection;
    uint32_t id;

    if (f->found || !name_strip_suffix(bytes_str(name), ".dat", &base) || volume_base_parse(base, &collection, &id) != 0 ||
        id != f->id)
        return 0;
    f->found = true;
    return add_volume(f->loc, id, collection);
}

int disk_location_add(struct disk_location *loc, uint32_t id, struct volume **out)
{
    struct finding f = {.loc = loc, .id = id};
    int rc = disk_location_verify(loc);

    if (rc == 0)
        rc = disk_list(loc->dir, on_wanted, &f);
    if (rc != 0)
        return rc;
    *out = f.found ? store_get(loc->store, id) : NULL;
    return *out == NULL ? DFS_ENOTFOUND : 0;
}

/* Bytes that earlier openings cut off and kept: they count against the bound. */
static int on_cut(const char *name, void *arg)
{
    struct listing *l = arg;
    const char *cut = strstr(name, VOLUME_CUT_INFIX);
    char path[VOLUME_PATH_MAX + VOLUME_SUFFIX_MAX];
    struct bytes collection;
    struct volume *v;
    struct stat st;
    uint32_t id;

    if (cut == NULL || volume_base_parse(bytes_of(name, (size_t)(cut - name)), &collection, &id) != 0)
        return 0;
    v = store_get(l->loc->store, id);
    if (v == NULL)
        return 0;
    (void)snprintf(path, sizeof path, "%s/%s", l->loc->dir, name);
    if (v->location == l->loc && disk_stat(path, &st) == 0)
        atomic_fetch_add(&v->cut_bytes, (uint64_t)st.st_size);
    volume_unref(v);
    return 0;
}

int disk_location_list(struct disk_location *loc)
{
    struct listing l = {.loc = loc};
    int rc = disk_list(loc->dir, on_side_file, &l);

    if (rc == 0)
        rc = disk_list(loc->dir, on_dat, &l);
    if (rc == 0)
        rc = disk_list(loc->dir, on_cut, &l);
    if (rc != 0)
        log_error("cannot list data folder '%s': %s", loc->dir_as_given, dfs_err_text(rc));
    return rc;
}
