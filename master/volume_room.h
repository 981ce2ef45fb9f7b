/* How much a volume will hold once the ids that were handed out have been used: what its server reported last, and an estimate of
 * what is on its way.
 *
 * Ids are counted, not bytes, and valued by what recently arrived in volumes that are alike: a wrong guess of the size corrects
 * itself with the first report.  Ids whose size was told count with that.  Those that are never used are halved away, pulse by
 * pulse, from the second pulse on.
 * Belongs to the master's loop. */
#ifndef DFS_MASTER_VOLUME_ROOM_H
#define DFS_MASTER_VOLUME_ROOM_H

#include <stdbool.h>
#include <stdint.h>

/* What an id is expected to bring when nothing of its kind has arrived yet ... */
#define ROOM_EXPECTED_BYTES 4096u
/* ... but for the first ones, which may be large and all on their way before any report: this, or 1/64 of the limit. */
#define ROOM_FIRST_IDS 64u
#define ROOM_FIRST_BYTES (1u << 20)
/* Files over which sizes are averaged: the last so many. */
#define ROOM_RECENT_FILES 64u
/* Ids handed out since the last report that an average is still trusted for. */
#define ROOM_TRUSTED_IDS 256u
/* No honest file is larger; what a report claims beyond is cut. */
#define ROOM_EACH_MAX (1ull << 40)

/* Sizes of what arrived in volumes that are alike. */
struct room_sizes {
    uint64_t each_bytes; /* average with its overhead; meaningless while files is 0 */
    uint32_t files;      /* that it stands for, at most ROOM_RECENT_FILES */
    uint64_t ids_since;  /* handed out since the last report that showed something arrive */
    uint32_t first_ids;  /* handed out before anything was known, at most ROOM_FIRST_IDS */
};

struct room_ids {
    uint64_t ids;                  /* of unknown size */
    uint64_t told_ids, told_bytes; /* of a size that was told */
    uint64_t first_ids;            /* part of ids: the first of the layout */
};

/* Ids handed out that no report has shown used. */
struct volume_room {
    struct room_ids young, old; /* of this pulse, of those before */
};

/* Ids were handed out; each_bytes of each, 0 = not known. */
void volume_room_hand_out(struct volume_room *r, struct room_sizes *s, uint64_t count, uint64_t each_bytes);
/* A report shows so many more files and bytes in the volume than before. */
void volume_room_arrived(struct volume_room *r, struct room_sizes *s, uint64_t files, uint64_t bytes);
/* Once a pulse: ids that are never used must not count for ever. */
void volume_room_decay(struct volume_room *r);

/* What one more id will bring, and whether reports keep saying so. */
uint64_t room_each_bytes(const struct room_sizes *s);
bool room_sizes_trusted(const struct room_sizes *s);
/* What is on its way.  Sums are at most UINT64_MAX / 4, so that sizes can be added. */
uint64_t volume_room_expected(const struct volume_room *r, const struct room_sizes *s);
/* How much more that may be while nothing is known; limit_bytes of the volume. */
uint64_t volume_room_doubt(const struct volume_room *r, const struct room_sizes *s, uint64_t limit_bytes);

#endif
