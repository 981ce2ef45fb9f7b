/* Counter-mode content, eight 32-bit lanes at a time.
 *
 * Word i (4 bytes at 4i) = a 32-bit integer hash of i + a with b mixed in half-way; a and b are hashed from the key.  With 64
 * bits of key in it, two objects share a run of words only by a 2^-64 chance, although i + a alone would soon repeat. */
#include "bench/payload.h"

#include <string.h>

#include "needle/check.h"
#include "net/rand.h"

#define GROUP_BYTES 32u
#define GROUP_WORDS 8u

typedef uint32_t lanes __attribute__((vector_size(GROUP_BYTES)));

struct seed {
    uint64_t key;
    uint32_t a, b;
};

static struct seed seed_of(uint64_t key)
{
    uint64_t m = rand_mix64(key);
    return (struct seed){key, (uint32_t)m, (uint32_t)(m >> 32)};
}

/* Group `g` of the object, as lanes of the caller's instruction set. */
#define GROUP(out, s, g)                                                                             \
    do {                                                                                             \
        lanes x_ = (lanes){0, 1, 2, 3, 4, 5, 6, 7} + (uint32_t)((uint32_t)(g) * GROUP_WORDS + (s).a); \
        x_ ^= x_ >> 16;                                                                              \
        x_ *= 0x7feb352du;                                                                           \
        x_ ^= x_ >> 15;                                                                              \
        x_ ^= (s).b;                                                                                 \
        x_ *= 0x846ca68bu;                                                                           \
        x_ ^= x_ >> 16;                                                                              \
        if ((g) == 0) {                                                                              \
            x_[0] = (uint32_t)(s).key;                                                               \
            x_[1] = (uint32_t)((s).key >> 32);                                                       \
        }                                                                                            \
        (out) = x_;                                                                                  \
    } while (0)

/* The two loops that matter, once for each instruction set; the macro keeps them one text. */
#define DEFINE_LOOPS(suffix, attributes)                                                                        \
    attributes static void fill_groups_##suffix(struct seed s, uint64_t g, char *out, size_t count)            \
    {                                                                                                           \
        for (size_t i = 0; i < count; i++, g++, out += GROUP_BYTES) {                                           \
            lanes x;                                                                                            \
            GROUP(x, s, g);                                                                                     \
            memcpy(out, &x, GROUP_BYTES);                                                                       \
        }                                                                                                       \
    }                                                                                                           \
    attributes static bool match_groups_##suffix(struct seed s, uint64_t g, const char *in, size_t count)       \
    {                                                                                                           \
        lanes wrong = {0};                                                                                      \
        for (size_t i = 0; i < count; i++, g++, in += GROUP_BYTES) {                                            \
            lanes x, got;                                                                                       \
            GROUP(x, s, g);                                                                                     \
            memcpy(&got, in, GROUP_BYTES);                                                                      \
            wrong |= x ^ got;                                                                                   \
        }                                                                                                       \
        uint32_t any = 0;                                                                                       \
        for (unsigned i = 0; i < GROUP_WORDS; i++)                                                              \
            any |= wrong[i];                                                                                    \
        return any == 0;                                                                                        \
    }

DEFINE_LOOPS(portable, )
#if defined(__x86_64__)
DEFINE_LOOPS(avx2, __attribute__((target("avx2"))))
#define HAVE_AVX2() __builtin_cpu_supports("avx2")
#else
#define fill_groups_avx2 fill_groups_portable
#define match_groups_avx2 match_groups_portable
#define HAVE_AVX2() false
#endif

static void fill_groups(struct seed s, uint64_t g, char *out, size_t count)
{
    if (HAVE_AVX2())
        fill_groups_avx2(s, g, out, count);
    else
        fill_groups_portable(s, g, out, count);
}

static bool match_groups(struct seed s, uint64_t g, const char *in, size_t count)
{
    return HAVE_AVX2() ? match_groups_avx2(s, g, in, count) : match_groups_portable(s, g, in, count);
}

uint64_t payload_bytes(uint64_t key, uint64_t size_bytes)
{
    return size_bytes + (rand_mix64(~key) & PAYLOAD_EXTRA_MAX);
}

/* The bytes of one group that [offset, offset + n) covers; returns how many. */
static size_t part_of_group(struct seed s, uint64_t offset, size_t n, char group[GROUP_BYTES])
{
    size_t at = offset % GROUP_BYTES;
    fill_groups_portable(s, offset / GROUP_BYTES, group, 1);
    return n < GROUP_BYTES - at ? n : GROUP_BYTES - at;
}

void payload_fill(uint64_t key, uint64_t offset, void *to, size_t n)
{
    struct seed s = seed_of(key);
    char *out = to;
    char group[GROUP_BYTES];
    size_t part;

    DCHECK(offset + n <= PAYLOAD_BYTES_MAX);
    if (offset % GROUP_BYTES != 0 && n > 0) {
        part = part_of_group(s, offset, n, group);
        memcpy(out, group + offset % GROUP_BYTES, part);
        offset += part;
        out += part;
        n -= part;
    }
    fill_groups(s, offset / GROUP_BYTES, out, n / GROUP_BYTES);
    part = n % GROUP_BYTES;
    if (part > 0) {
        part_of_group(s, offset + (n - part), part, group);
        memcpy(out + (n - part), group, part);
    }
}

bool payload_matches(uint64_t key, uint64_t offset, const void *in, size_t n)
{
    struct seed s = seed_of(key);
    const char *p = in;
    char group[GROUP_BYTES];
    size_t part;

    if (offset % GROUP_BYTES != 0 && n > 0) {
        part = part_of_group(s, offset, n, group);
        if (memcmp(p, group + offset % GROUP_BYTES, part) != 0)
            return false;
        offset += part;
        p += part;
        n -= part;
    }
    if (!match_groups(s, offset / GROUP_BYTES, p, n / GROUP_BYTES))
        return false;
    part = n % GROUP_BYTES;
    if (part == 0)
        return true;
    part_of_group(s, offset + (n - part), part, group);
    return memcmp(p + (n - part), group, part) == 0;
}
