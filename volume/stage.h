/* Where an upload waits until it is whole: memory chunks up to -stageMB, beyond that an unlinked file of the location.
 *
 * A record enters the .dat only when its whole body is here, so an upload that ends short leaves no byte in a volume, and
 * chunked, multipart and gzip bodies need no special case.  The CRC is computed as bytes arrive.  Appending never blocks: when
 * pool or pacing are exhausted, or a spill to the file is in flight, DFS_EAGAIN is returned and on_ready is posted later.
 * Loop thread of the request. */
#ifndef DFS_VOLUME_STAGE_H
#define DFS_VOLUME_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "net/chunkq.h"

struct stage;
struct store;

/* volume_id picks the location whose disk and window are used.  privileged: a replica write.  limit_bytes: more is DFS_ETOOBIG. */
int stage_new(struct store *store, uint32_t volume_id, struct loop *loop, bool privileged, uint64_t limit_bytes,
              void (*on_ready)(void *arg), void *arg, struct stage **out);
/* 0: all taken.  DFS_EAGAIN: *taken bytes were; wait for on_ready.  DFS_ETOOBIG, DFS_ENOSPC, DFS_ENOMEM, DFS_EIO. */
int stage_append(struct stage *s, struct bytes in, size_t *taken);
/* Forget what was collected (another multipart part takes its place). */
int stage_reset(struct stage *s);
uint64_t stage_bytes(const struct stage *s);
uint32_t stage_crc(const struct stage *s);
/* All of it in memory?  Then its pieces, for inspection (gzip, sniffing); else only the first CHUNK_BYTES are. */
bool stage_in_memory(const struct stage *s);
size_t stage_pieces(const struct stage *s);
struct bytes stage_piece(const struct stage *s, size_t i);
/* Replace the content by other bytes (compressed or inflated); same rules as append. */
/* Not before every spill is done: DFS_EAGAIN then, and on_ready. */
int stage_finish(struct stage *s);
/* Safe at any time, also with work in flight (freed when that is done); on_ready is not called afterwards. */
void stage_free(struct stage *s);

#endif
