/* `dfs upload`, `dfs download`, `dfs delete`: small clients of a running store.  Used by conf only. */
#ifndef DFS_BENCH_TOOL_H
#define DFS_BENCH_TOOL_H

#include <stdbool.h>
#include <stdint.h>

struct tool_options {
    const char *server;      /* masters, comma list */
    const char *dir;         /* upload: folder to walk, or "" */
    const char *into;        /* download: folder where files go; of its own, since the two have different defaults */
    const char *include;     /* upload -dir: pattern of names, as fnmatch(3) */
    const char *replication, *collection, *data_center, *ttl, *disk;
    uint64_t max_bytes;      /* upload: larger files are cut into chunks of this size; 0 = never */
    bool use_public_url;
    bool fsync;
    uint32_t timeout_ms;
};

/* Defaults.  The texts are static. */
void tool_options_init(struct tool_options *o);

/* Each blocks, prints JSON or names on standard output and one line on standard error for each failure, and returns the exit
 * status.  argv: files (upload) or file ids (download, delete). */
int tool_upload(const struct tool_options *o, int argc, char **argv);
int tool_download(const struct tool_options *o, int argc, char **argv);
int tool_delete(const struct tool_options *o, int argc, char **argv);

#endif
