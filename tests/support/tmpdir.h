/* A folder of a test's own, removed with all that is in it.  Below $TMPDIR, or /tmp.  Any thread; aborts on failure. */
#ifndef DFS_TESTS_SUPPORT_TMPDIR_H
#define DFS_TESTS_SUPPORT_TMPDIR_H

/* Absolute path, malloc'd: "<tmp>/dfs-<name>-XXXXXX". */
char *tmpdir_new(const char *name);

/* Removes it and frees path.  With DFS_KEEP_TMP set in the environment it is kept and named on standard error. */
void tmpdir_free(char *path);

/* "<dir>/<name>", malloc'd. */
char *tmpdir_path(const char *dir, const char *name);

/* Removes a folder and everything below it; a missing one is fine. */
void tmpdir_remove(const char *path);

#endif
