/* What is on its way to a volume. */
#include "master/volume_room.h"

#include <string.h>

#define SUM_MAX (UINT64_MAX / 4)

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t p;

    return __builtin_mul_overflow(a, b, &p) || p > SUM_MAX ? SUM_MAX : p;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
    uint64_t sum;

    return __builtin_add_overflow(a, b, &sum) || sum > SUM_MAX ? SUM_MAX : sum;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void volume_room_hand_out(struct volume_room *r, struct room_sizes *s, uint64_t count, uint64_t each_bytes)
{
    struct room_ids *y = &r->young;
    uint64_t first;

    s->ids_since = plus(s->ids_since, count);
    if (each_bytes != 0) {
        y->told_ids = plus(y->told_ids, count);
        y->told_bytes = plus(y->told_bytes, times(count, each_bytes));
        return;
    }
    y->ids = plus(y->ids, count);
    if (s->files != 0 || s->first_ids >= ROOM_FIRST_IDS)
        return;
    first = less(count, ROOM_FIRST_IDS - s->first_ids);
    s->first_ids += (uint32_t)first;
    y->first_ids += first;
}

/* Which ids were used is not told: of each kind its share.  Returns how many of files are left over. */
static uint64_t used(struct room_ids *of, uint64_t files)
{
    uint64_t all = of->ids + of->told_ids, told;

    if (files >= all) {
        memset(of, 0, sizeof *of);
        return files - all;
    }
    told = (uint64_t)((unsigned __int128)of->told_ids * files / all);
    if (of->told_ids != 0)
        of->told_bytes -= (uint64_t)((unsigned __int128)of->told_bytes * told / of->told_ids);
    of->told_ids -= told;
    /* Rounded down above, so this part may ask for one more than there is. */
    of->ids -= less(files - told, of->ids);
    of->first_ids = less(of->first_ids, of->ids);
    return 0;
}

static void learn(struct room_sizes *s, uint64_t files, uint64_t bytes)
{
    uint32_t fresh = (uint32_t)less(files, ROOM_RECENT_FILES);
    uint32_t kept = s->files < ROOM_RECENT_FILES - fresh ? s->files : ROOM_RECENT_FILES - fresh;
    uint64_t each = less(bytes / files, ROOM_EACH_MAX);

    s->each_bytes = (s->each_bytes * kept + each * fresh) / (kept + fresh);
    s->files = kept + fresh;
    s->ids_since = 0;
}

void volume_room_arrived(struct volume_room *r, struct room_sizes *s, uint64_t files, uint64_t bytes)
{
    if (files == 0)
        return;
    used(&r->young, used(&r->old, files));
    learn(s, files, bytes);
}

void volume_room_decay(struct volume_room *r)
{
    struct room_ids *o = &r->old, *y = &r->young;

    o->ids = plus(o->ids / 2, y->ids);
    o->told_ids = plus(o->told_ids / 2, y->told_ids);
    o->told_bytes = plus(o->told_bytes / 2, y->told_bytes);
    o->first_ids = less(o->first_ids / 2 + y->first_ids, o->ids);
    memset(y, 0, sizeof *y);
}

uint64_t room_each_bytes(const struct room_sizes *s)
{
    return s->files != 0 ? s->each_bytes : ROOM_EXPECTED_BYTES;
}

bool room_sizes_trusted(const struct room_sizes *s)
{
    return s->files != 0 && s->ids_since <= ROOM_TRUSTED_IDS;
}

static uint64_t expected(const struct room_ids *of, const struct room_sizes *s)
{
    return plus(of->told_bytes, times(of->ids, room_each_bytes(s)));
}

uint64_t volume_room_expected(const struct volume_room *r, const struct room_sizes *s)
{
    return plus(expected(&r->young, s), expected(&r->old, s));
}

uint64_t volume_room_doubt(const struct volume_room *r, const struct room_sizes *s, uint64_t limit_bytes)
{
    uint64_t first_bytes = less(ROOM_FIRST_BYTES, limit_bytes / 64);

    if (s->files != 0 || first_bytes <= ROOM_EXPECTED_BYTES)
        return 0;
    return (r->young.first_ids + r->old.first_ids) * (first_bytes - ROOM_EXPECTED_BYTES);
}
