/* Zeros written ahead of where a volume is appended to.
 *
 * An fdatasync of a file that has grown has to wait for a commit of the file system's journal; one of a file whose blocks and
 * length were there before writes the data and is done: measured, half the time and half the processor.  So a volume whose small
 * writes are flushed batch by batch is kept longer than its data by a window of zeros, which the batches then write over.  Large
 * writes do without: to write each byte twice costs more than the journal.
 *
 * The zeros are ours alone.  Whoever asks for the length of a volume is told where its data ends; a close, a seal, a mark as
 * read-only and a vacuum leave none; opening after a crash cuts what is left of them.  Writer thread. */
#ifndef DFS_VOLUME_ZERO_AHEAD_H
#define DFS_VOLUME_ZERO_AHEAD_H

#include <stdint.h>

struct volume;

/* The next batch stands at [start_pos, end_pos), has not been written, and will be flushed: sees to it that it finds zeros there,
 * where that pays.  most_bytes: of a window; 0 = never any.  Cannot fail: without room for zeros the file grows with its data. */
void zero_ahead_extend(struct volume *v, uint64_t start_pos, uint64_t end_pos, uint64_t most_bytes);
/* The file ends with its data again, and so do its blocks, but for those that were reserved for all of it: one that is marked as
 * read-only gives back these too.  Nothing of the volume is under way. */
void zero_ahead_cut(struct volume *v);

#endif
