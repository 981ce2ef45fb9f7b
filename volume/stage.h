/* Where an upload waits until it is whole: memory chunks up to -stageMB, beyond that an unlinked file of the location.
 *
 * A record enters the .dat only when its whole body is here, so an upload that ends short leaves no byte in a volume, and
 * chunked, multipart and gzip bodies need no special case.  The CRC is computed as bytes arrive.  Appending never blocks: when
 * pool or pacing are exhausted, or a spill to the file is in flight, DFS_EAGAIN is returned and on_ready is called later.
 *
 * Uploads cannot wait for each other in a circle: one that holds memory and cannot get more moves what it holds to its file and
 * goes on with the chunk that becomes free, so only those wait that hold nothing.  Loop thread of the request, but for
 * stage_read(). */
#ifndef DFS_VOLUME_STAGE_H
#define DFS_VOLUME_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "net/chunkq.h"

struct stage;
struct store;

/* Start of the content that stays in memory when the rest does not. */
#define STAGE_HEAD_BYTES 4096u

/* volume_id picks the location whose disk and window are used.  privileged: a replica write.  limit_bytes: more is DFS_ETOOBIG.
 * on_ready is called on `loop`, never inside a call of this header.  DFS_ENOVOLUME, DFS_ENOMEM. */
int stage_new(struct store *store, uint32_t volume_id, struct loop *loop, bool privileged, uint64_t limit_bytes,
              void (*on_ready)(void *arg), void *arg, struct stage **out);
/* The body's length is known (Content-Length): admission is asked for once, and a body that will not stay in memory goes to the
 * file at once.  Only a hint: any number of bytes may follow.  Before the first append. */
void stage_expect(struct stage *s, uint64_t bytes);
/* 0: all taken.  DFS_EAGAIN: *taken bytes were; wait for on_ready.  DFS_ETOOBIG, DFS_ENOSPC, DFS_ENOMEM, DFS_EIO. */
int stage_append(struct stage *s, struct bytes in, size_t *taken);
/* The same without a copy, where that can be now: memory for the next bytes in *p, and how much of it; 0: stage_append() is to
 * take them (and says what there is to wait for).  stage_filled() then tells how many were put there, before anything else is
 * asked of the stage; what goes wrong in it is told by the next call. */
size_t stage_room(struct stage *s, void **p);
void stage_filled(struct stage *s, size_t n);
/* Forget what was collected (another multipart part takes its place).  0. */
int stage_reset(struct stage *s);
uint64_t stage_bytes(const struct stage *s);
/* Unmasked CRC-32C of all bytes. */
uint32_t stage_crc(const struct stage *s);
/* All of it in memory?  Then its pieces, for inspection (gzip, sniffing) and appending; else there is one piece, the first
 * STAGE_HEAD_BYTES. */
bool stage_in_memory(const struct stage *s);
size_t stage_pieces(const struct stage *s);
struct bytes stage_piece(const struct stage *s, size_t i);
/* The content is complete.  Not before every spill is done: DFS_EAGAIN then, and on_ready, and call again.  DFS_ENOSPC, DFS_EIO:
 * a spill failed. */
int stage_finish(struct stage *s);
/* Copies [off, off+n) out, which must be inside.  After stage_finish(); any thread that may block.  DFS_EIO. */
int stage_read(const struct stage *s, uint64_t off, void *buf, size_t n);
/* Safe at any time, also with work in flight (freed when that is done); on_ready is not called afterwards.  NULL is fine. */
void stage_free(struct stage *s);

#endif
