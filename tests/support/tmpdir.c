/* Folders for tests. */
#include "tests/support/tmpdir.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "needle/check.h"

char *tmpdir_path(const char *dir, const char *name)
{
    char *path = NULL;
    CHECK(asprintf(&path, "%s/%s", dir, name) != -1);
    return path;
}

char *tmpdir_new(const char *name)
{
    const char *base = getenv("TMPDIR");
    char *path = NULL;
    CHECK(asprintf(&path, "%s/dfs-%s-XXXXXX", base != NULL && base[0] != '\0' ? base : "/tmp", name) != -1);
    CHECK(mkdtemp(path) != NULL);
    return path;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

void tmpdir_remove(const char *path)
{
    if (nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS) == -1 && errno != ENOENT)
        fprintf(stderr, "cannot remove '%s'\n", path);
}

void tmpdir_free(char *path)
{
    if (path == NULL)
        return;
    if (getenv("DFS_KEEP_TMP") != NULL)
        fprintf(stderr, "kept: %s\n", path);
    else
        tmpdir_remove(path);
    free(path);
}
