/* Which pages of a file are in memory, by mincore() over mappings that nobody ever reads through.
 *
 * A mapping may reach far beyond the end of the file and costs address space only, so a growing file is mapped ahead, in parts
 * that double: part 0 covers the first 4 GiB, part k >= 1 the stretch [4 GiB << (k-1), 4 GiB << k).  A part is mapped by whoever
 * asks first and stays until the end: no address is ever given back under a thread that looks at it.
 *
 * The kernel tells the truth only to those who own the file or may write to it, as this process does. */
#include "volume/disk.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "needle/err.h"

#define PART_SHIFT 32u
#define PARTS 12u /* 8 TiB: where 5-byte offsets end */
#define PAGE_BYTES 4096u
#define PAGES_AT_ONCE 256u

struct disk_residency {
    int fd;
    _Atomic(void *) part[PARTS];
};

int disk_residency_new(int fd, struct disk_residency **out)
{
    struct disk_residency *r = calloc(1, sizeof *r);
    if (r == NULL)
        return DFS_ENOMEM;
    r->fd = fd;
    *out = r;
    return 0;
}

static uint64_t part_start(unsigned k)
{
    return k == 0 ? 0 : (uint64_t)1 << (PART_SHIFT + k - 1);
}

static uint64_t part_bytes(unsigned k)
{
    return (uint64_t)1 << (k == 0 ? PART_SHIFT : PART_SHIFT + k - 1);
}

static unsigned part_of(uint64_t pos)
{
    uint64_t high = pos >> PART_SHIFT;
    return high == 0 ? 0 : 64u - (unsigned)__builtin_clzll(high);
}

static char *part_map(struct disk_residency *r, unsigned k)
{
    void *p = atomic_load_explicit(&r->part[k], memory_order_acquire);
    if (p != NULL)
        return p;
    void *mine = disk_map(r->fd, part_start(k), (size_t)part_bytes(k));
    if (mine == NULL)
        return NULL;
    if (atomic_compare_exchange_strong_explicit(&r->part[k], &p, mine, memory_order_acq_rel, memory_order_acquire))
        return mine;
    disk_unmap(mine, (size_t)part_bytes(k));
    return p;
}

static bool pages_resident(char *first, size_t pages)
{
    unsigned char vec[PAGES_AT_ONCE];
    while (pages > 0) {
        size_t n = pages < PAGES_AT_ONCE ? pages : PAGES_AT_ONCE;
        if (disk_mincore(first, n * PAGE_BYTES, vec) != 0)
            return false;
        unsigned char all = 1;
        for (size_t i = 0; i < n; i++)
            all &= vec[i];
        if ((all & 1) == 0)
            return false;
        first += n * PAGE_BYTES;
        pages -= n;
    }
    return true;
}

bool disk_resident(struct disk_residency *r, uint64_t pos, uint64_t n)
{
    uint64_t end = pos + n;
    if (r == NULL || end < pos)
        return false;
    pos -= pos % PAGE_BYTES;
    while (pos < end) {
        unsigned k = part_of(pos);
        if (k >= PARTS)
            return false;
        char *base = part_map(r, k);
        if (base == NULL)
            return false;
        uint64_t stop = part_start(k) + part_bytes(k);
        if (stop > end)
            stop = end;
        uint64_t pages = (stop - pos + PAGE_BYTES - 1) / PAGE_BYTES;
        if (!pages_resident(base + (pos - part_start(k)), (size_t)pages))
            return false;
        pos += pages * PAGE_BYTES;
    }
    return true;
}

void disk_residency_free(struct disk_residency *r)
{
    if (r == NULL)
        return;
    for (unsigned k = 0; k < PARTS; k++) {
        void *p = atomic_load_explicit(&r->part[k], memory_order_relaxed);
        if (p != NULL)
            disk_unmap(p, (size_t)part_bytes(k));
    }
    free(r);
}
