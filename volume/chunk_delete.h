/* Deleting many files: the chunks of a manifest, wherever they are, and batches of files that are here.
 * On the loop of whoever asks; done is called exactly once, never inside start. */
#ifndef DFS_VOLUME_CHUNK_DELETE_H
#define DFS_VOLUME_CHUNK_DELETE_H

#include "volume/handlers.h"
#include "volume/manifest.h"

#define CHUNK_DELETE_PARALLEL 8u
#define CHUNK_DELETE_TRIES 3u
#define CHUNK_DELETE_DEADLINE_MS 10000u

/* ---- chunks: each by a DELETE at a server that has it, which tells its sisters ---- */
struct chunk_delete;
/* Takes the manifest's content when it returns 0 or not.  done: rc and a text that says which chunk; borrowed until return. */
int chunk_delete_start(struct vs_loop *l, struct manifest *m, void (*done)(void *arg, int rc, const char *error), void *arg,
                       struct chunk_delete **out);

/* ---- a batch of files of this server, without its sisters ---- */
#define BATCH_DELETE_PARALLEL 64u

struct batch_result {
    int status;        /* as HTTP: 202, 400, 404, 406 a manifest, 503, 507, 500 */
    uint32_t size;
    const char *error; /* static text, NULL when fine */
};
/* fids are borrowed until done; results until done returns.  `loop` is attached to the store. */
int batch_delete_start(struct volume_server *s, struct loop *loop, const struct bytes *fids, uint32_t count, bool skip_cookie,
                       void (*done)(void *arg, const struct batch_result *results, uint32_t count), void *arg);

#endif
