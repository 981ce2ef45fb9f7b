/* The content of a benchmark object: a function of its key, so that every read can be verified without keeping a copy.
 *
 * Bytes 0..7 are the key (little endian), the rest comes from a counter-mode generator keyed by it: any piece of an object
 * can be made or checked alone, no two objects share a run of bytes, and nothing compresses it.  The length is the asked size
 * plus 0..63 bytes that depend on the key as well, so a reader knows it exactly.  Runs near the speed of memory: the client
 * must not be the bottleneck.  Pure; any thread. */
#ifndef DFS_BENCH_PAYLOAD_H
#define DFS_BENCH_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAYLOAD_EXTRA_MAX 63u
/* Content repeats from here on; every object is shorter. */
#define PAYLOAD_BYTES_MAX (1ull << 34)

/* size_bytes + 0..PAYLOAD_EXTRA_MAX. */
uint64_t payload_bytes(uint64_t key, uint64_t size_bytes);

/* Bytes [offset, offset + n) of the object. */
void payload_fill(uint64_t key, uint64_t offset, void *out, size_t n);

/* Whether `in` is what payload_fill() would write. */
bool payload_matches(uint64_t key, uint64_t offset, const void *in, size_t n);

#endif
