/* Bodies made of pieces: a small malloc first, pool chunks from BODY_SMALL_MAX on. */
#include "net/chunkq.h"

#include <stdlib.h>
#include <string.h>

#include "needle/check.h"
#include "needle/err.h"

#define BODY_CHUNK_LIST_MIN 4u

void body_init(struct body *b, struct chunk_pool *pool, bool privileged)
{
    *b = (struct body){.pool = pool, .privileged = privileged};
}

/* ---- growing ---- */

static int append_small(struct body *b, struct bytes in)
{
    size_t need = b->body_bytes + in.n;
    if (need > b->small_cap) {
        /* Exactly what is there the first time, since most bodies come in one piece; then by doubling. */
        size_t cap = b->small_cap == 0 ? need : need < 2 * (size_t)b->small_cap ? 2 * (size_t)b->small_cap : need;
        if (cap > BODY_SMALL_MAX)
            cap = BODY_SMALL_MAX;
        char *p = realloc(b->small, cap);
        if (p == NULL)
            return DFS_ENOMEM;
        b->small = p;
        b->small_cap = (uint32_t)cap;
    }
    memcpy(b->small + b->body_bytes, in.p, in.n);
    b->body_bytes = need;
    return 0;
}

static int grow_list(struct body *b, size_t want)
{
    if (want <= b->chunk_cap)
        return 0;
    size_t cap = b->chunk_cap == 0 ? BODY_CHUNK_LIST_MIN : 2 * (size_t)b->chunk_cap;
    if (cap < want)
        cap = want;
    if (cap > UINT32_MAX)
        return DFS_ETOOBIG;
    void **list = realloc(b->chunks, cap * sizeof *list);
    if (list == NULL)
        return DFS_ENOMEM;
    b->chunks = list;
    b->chunk_cap = (uint32_t)cap;
    return 0;
}

/* From the malloc into the first chunk. */
static void leave_small(struct body *b)
{
    if (b->small == NULL)
        return;
    memcpy(b->chunks[0], b->small, b->body_bytes);
    free(b->small);
    b->small = NULL;
    b->small_cap = 0;
}

static int add_chunks(struct body *b, uint32_t n)
{
    int rc = grow_list(b, (size_t)b->chunk_count + n);
    if (rc == 0)
        rc = chunk_get_many(b->pool, b->privileged, b->chunks + b->chunk_count, n);
    if (rc != 0)
        return rc;
    b->chunk_count += n;
    leave_small(b);
    return 0;
}

static size_t chunks_for(uint64_t bytes)
{
    return (size_t)(bytes / CHUNK_BYTES + (bytes % CHUNK_BYTES != 0));
}

uint32_t body_reserve_want(const struct body *b, uint64_t total_bytes)
{
    size_t all = chunks_for(total_bytes);
    if (all <= b->chunk_count || (total_bytes <= BODY_SMALL_MAX && b->chunk_count == 0))
        return 0;
    return all - b->chunk_count < UINT32_MAX ? (uint32_t)(all - b->chunk_count) : UINT32_MAX;
}

int body_reserve(struct body *b, uint64_t total_bytes)
{
    uint32_t want = body_reserve_want(b, total_bytes);
    if (want == 0)
        return 0;
    if (b->chunk_count + (uint64_t)want > chunk_pool_takable(b->pool, b->privileged))
        return DFS_ETOOBIG;
    return add_chunks(b, want);
}

static bool chunks_are_full(const struct body *b)
{
    return b->small != NULL || b->body_bytes == (uint64_t)b->chunk_count * CHUNK_BYTES;
}

size_t body_room(struct body *b, void **p)
{
    if (chunks_are_full(b) && add_chunks(b, 1) != 0)
        return 0;
    size_t at = b->body_bytes % CHUNK_BYTES;
    *p = (char *)b->chunks[b->body_bytes / CHUNK_BYTES] + at;
    return CHUNK_BYTES - at;
}

void body_filled(struct body *b, size_t n)
{
    CHECK(!chunks_are_full(b) && n <= CHUNK_BYTES - b->body_bytes % CHUNK_BYTES);
    b->body_bytes += n;
}

int body_append(struct body *b, struct bytes in, size_t *taken)
{
    *taken = 0;
    if (in.n == 0)
        return 0;
    if (b->chunk_count == 0 && b->body_bytes + in.n <= BODY_SMALL_MAX) {
        int rc = append_small(b, in);
        *taken = rc == 0 ? in.n : 0;
        return rc;
    }
    while (*taken < in.n) {
        if (chunks_are_full(b)) {
            int rc = add_chunks(b, 1);
            if (rc != 0)
                return rc;
        }
        size_t at = b->body_bytes % CHUNK_BYTES, room = CHUNK_BYTES - at;
        size_t n = in.n - *taken < room ? in.n - *taken : room;
        memcpy((char *)b->chunks[b->body_bytes / CHUNK_BYTES] + at, in.p + *taken, n);
        b->body_bytes += n;
        *taken += n;
    }
    return 0;
}

/* ---- looking ---- */

size_t body_pieces(const struct body *b)
{
    if (b->body_bytes == 0)
        return 0;
    return b->chunk_count == 0 ? 1 : chunks_for(b->body_bytes);
}

struct bytes body_piece(const struct body *b, size_t i)
{
    CHECK(i < body_pieces(b));
    if (b->chunk_count == 0)
        return bytes_of(b->small, b->body_bytes);
    uint64_t from = (uint64_t)i * CHUNK_BYTES, left = b->body_bytes - from;
    return bytes_of(b->chunks[i], left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES);
}

void body_copy_out(const struct body *b, uint64_t off, void *out, size_t n)
{
    CHECK(off <= b->body_bytes && n <= b->body_bytes - off);
    char *to = out;
    if (b->chunk_count == 0) {
        if (n > 0)
            memcpy(to, b->small + off, n);
        return;
    }
    while (n > 0) {
        size_t at = off % CHUNK_BYTES, room = CHUNK_BYTES - at, part = n < room ? n : room;
        memcpy(to, (const char *)b->chunks[off / CHUNK_BYTES] + at, part);
        to += part;
        off += part;
        n -= part;
    }
}

/* ---- shrinking ---- */

void body_truncate(struct body *b, uint64_t n)
{
    CHECK(n <= b->body_bytes);
    b->body_bytes = n;
    size_t keep = chunks_for(n);
    while (b->chunk_count > keep)
        chunk_put(b->pool, b->chunks[--b->chunk_count]);
}

void body_release(struct body *b)
{
    while (b->chunk_count > 0)
        chunk_put(b->pool, b->chunks[--b->chunk_count]);
    free(b->chunks);
    free(b->small);
    body_init(b, b->pool, b->privileged);
}
