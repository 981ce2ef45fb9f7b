/* What the codec's tests share: seeded random bytes, files, records made whole, and views that end exactly where their
 * memory does (so that ASan sees a read past the end). */
#ifndef DFS_TESTS_UNIT_NEEDLE_NEEDLE_TEST_H
#define DFS_TESTS_UNIT_NEEDLE_NEEDLE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "needle/check.h"
#include "needle/crc.h"
#include "needle/err.h"
#include "needle/needle.h"

/* Fixed, so that a failure is seen again; DFS_TEST_SEED sets another. */
static inline uint64_t test_seed(void)
{
    const char *s = getenv("DFS_TEST_SEED");
    uint64_t seed = s != NULL ? strtoull(s, NULL, 0) : 0x5eed0001;

    printf("# seed 0x%llx\n", (unsigned long long)seed);
    return seed != 0 ? seed : 1;
}

static inline uint64_t rnd(uint64_t *state)
{
    uint64_t x = *state;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return x * 0x2545f4914f6cdd1dull;
}

static inline uint64_t rnd_below(uint64_t *state, uint64_t n)
{
    return (rnd(state) >> 11) % n;
}

static inline void rnd_fill(uint64_t *state, void *p, size_t n)
{
    uint8_t *b = p;

    for (size_t i = 0; i < n; i++)
        b[i] = (uint8_t)(rnd(state) >> 33);
}

/* malloc that a test need not look at. */
static inline void *must_alloc(size_t n)
{
    void *p = malloc(n > 0 ? n : 1);

    assert_non_null(p);
    return p;
}

/* The whole file; freed by the caller. */
static inline struct bytes read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    long n;
    char *p;

    if (f == NULL)
        fail_msg("cannot open %s (tests run from the root of the tree)", path);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    n = ftell(f);
    assert_true(n >= 0);
    rewind(f);
    p = must_alloc((size_t)n);
    assert_int_equal(fread(p, 1, (size_t)n, f), (size_t)n);
    fclose(f);
    return bytes_of(p, (size_t)n);
}

/* "00 01 02" -> bytes, spaces ignored; returns how many. */
static inline size_t from_hex(const char *hex, uint8_t *out, size_t max)
{
    size_t n = 0;
    unsigned v;

    for (; *hex != '\0'; hex++) {
        if (*hex == ' ')
            continue;
        assert_int_equal(sscanf(hex, "%2x", &v), 1);
        assert_true(n < max);
        out[n++] = (uint8_t)v;
        hex++;
    }
    return n;
}

/* Set body_bytes and checksum for `data`. */
static inline void seal_needle(uint8_t version, struct needle *n, struct bytes data)
{
    n->data_bytes = (uint32_t)data.n;
    assert_int_equal(needle_body_bytes(version, n, &n->body_bytes), 0);
    n->checksum = data.n == 0 ? 0 : needle_checksum_for(version, crc32c(0, data.p, data.n));
}

/* Append the record to `out`; returns its length. */
static inline size_t put_record(uint8_t version, const struct needle *n, struct bytes data, uint8_t *out)
{
    uint8_t trail[NEEDLE_TRAILER_MAX];
    size_t at = needle_encode_head(version, n, out);
    size_t trail_bytes = needle_encode_trail(version, n, trail);

    if (data.n > 0)
        memcpy(out + at, data.p, data.n);
    memcpy(out + at + data.n, trail, trail_bytes);
    at += data.n + trail_bytes;
    assert_int_equal(at, needle_record_bytes(version, n->body_bytes));
    return at;
}

/* A needle with random fields; texts point into `texts`, which holds NEEDLE_TRAILER_MAX bytes. */
static inline struct needle random_needle(uint64_t *seed, uint8_t version, uint8_t *texts)
{
    struct needle n = {.cookie = (uint32_t)rnd(seed) | 1, .key = rnd(seed) | 1};
    size_t pairs_max = rnd_below(seed, 8) == 0 ? NEEDLE_PAIRS_MAX : 40;

    rnd_fill(seed, texts, 2 * 255 + pairs_max);
    if (version == NEEDLE_V3)
        n.append_at_ns = rnd(seed) | 1;
    if (version == NEEDLE_V1)
        return n;
    n.flags = (uint8_t)rnd(seed) & 0xbf;
    if ((n.flags & NEEDLE_HAS_NAME) != 0)
        n.name = bytes_of(texts, rnd_below(seed, 256));
    if ((n.flags & NEEDLE_HAS_MIME) != 0)
        n.mime = bytes_of(texts + 255, rnd_below(seed, 256));
    if ((n.flags & NEEDLE_HAS_LAST_MODIFIED) != 0)
        n.last_modified_s = rnd(seed) & 0xffffffffffull;
    if ((n.flags & NEEDLE_HAS_TTL) != 0)
        n.ttl = (struct ttl){(uint8_t)(1 + rnd_below(seed, 255)), (uint8_t)(1 + rnd_below(seed, 6))};
    if ((n.flags & NEEDLE_HAS_PAIRS) != 0)
        n.pairs = bytes_of(texts + 510, rnd_below(seed, pairs_max + 1));
    return n;
}

#endif
