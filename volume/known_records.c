#include "volume/known_records.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "needle/err.h"

/* Up to here a mark is a number of blocks; each further one stands for twice as many as the one before.  Too many is no harm: the
 * sweep asks about more than it must. */
#define EXACT_MAX 200u

static uint8_t mark_of(uint64_t blocks)
{
    uint64_t covered = EXACT_MAX;
    unsigned mark = EXACT_MAX;

    if (blocks <= EXACT_MAX)
        return (uint8_t)blocks;
    for (; covered < blocks && mark < UINT8_MAX; mark++)
        covered *= 2;
    return (uint8_t)mark;
}

static uint64_t blocks_of(uint8_t mark)
{
    return mark <= EXACT_MAX ? mark : (uint64_t)EXACT_MAX << (mark - EXACT_MAX);
}

int known_records_init(struct known_records *k, uint64_t bytes)
{
    k->blocks = bytes / KNOWN_BLOCK_BYTES + 1;
    k->marks = calloc(k->blocks, sizeof *k->marks);
    return k->marks == NULL ? DFS_ENOMEM : 0;
}

void known_records_release(struct known_records *k)
{
    free((void *)k->marks);
    k->marks = NULL;
    k->blocks = 0;
}

void known_records_add(struct known_records *k, uint64_t pos, uint64_t bytes)
{
    uint64_t first = pos / KNOWN_BLOCK_BYTES, last = (pos + bytes - 1) / KNOWN_BLOCK_BYTES;

    if (first < k->blocks)
        atomic_store_explicit(&k->marks[first], mark_of(last - first + 1), memory_order_relaxed);
}

bool known_records_has(const struct known_records *k, uint64_t pos)
{
    uint64_t block = pos / KNOWN_BLOCK_BYTES;

    return block < k->blocks && atomic_load_explicit(&k->marks[block], memory_order_relaxed) != 0;
}

static bool blocks_resident(struct disk_residency *r, uint64_t first, uint64_t blocks, uint64_t file_bytes)
{
    uint64_t pos = first * KNOWN_BLOCK_BYTES, n = blocks * KNOWN_BLOCK_BYTES;

    if (pos >= file_bytes)
        return false;
    return disk_resident(r, pos, n < file_bytes - pos ? n : file_bytes - pos);
}

uint64_t known_records_sweep(struct known_records *k, struct disk_residency *r, uint64_t file_bytes, uint64_t *at, uint64_t budget)
{
    uint64_t asked = 0;

    for (; *at < k->blocks && asked < budget; (*at)++) {
        uint64_t blocks = blocks_of(atomic_load_explicit(&k->marks[*at], memory_order_relaxed));

        if (blocks == 0)
            continue;
        asked += blocks;
        if (!blocks_resident(r, *at, blocks, file_bytes))
            atomic_store_explicit(&k->marks[*at], 0, memory_order_relaxed);
    }
    if (*at >= k->blocks)
        *at = 0;
    return asked;
}

uint64_t known_records_memory_bytes(const struct known_records *k)
{
    return k->blocks * sizeof *k->marks;
}
