/* Time to live: two bytes, count and unit, in the superblock and in a needle.  Pure; any thread. */
#ifndef DFS_NEEDLE_TTL_H
#define DFS_NEEDLE_TTL_H

#include <stdint.h>

#include "needle/bytes.h"

enum ttl_unit { TTL_NONE = 0, TTL_MINUTE, TTL_HOUR, TTL_DAY, TTL_WEEK, TTL_MONTH, TTL_YEAR };

#define TTL_TEXT_MAX 8

struct ttl {
    uint8_t count;
    uint8_t unit; /* enum ttl_unit */
};

/* "" -> none; "5" and "5m" -> 5 minutes; units m h d w M y.  The largest unit that says it exactly is taken, as the peer
 * does (60m = 1h, 24h = 1d, 7d = 1w, 300m = 5h).  What no unit says exactly with a count of 1 to 255 is DFS_EINVAL (0m,
 * 256y, 1439m), as is every other text: a wrong TTL deletes data early or never. */
int ttl_parse(struct bytes text, struct ttl *out);

/* "" for none, "5m"; returns the length. */
size_t ttl_format(struct ttl ttl, char out[TTL_TEXT_MAX]);

/* Minutes; 0 for none.  A month is 30 days, a year 365 (as release 4.x counts). */
uint32_t ttl_minutes(struct ttl ttl);

/* As in messages: count * 256 + unit; unknown unit bytes read as none. */
uint32_t ttl_to_u32(struct ttl ttl);
struct ttl ttl_from_u32(uint32_t v);

/* From the two disk bytes; count 0 or an unknown unit is none. */
struct ttl ttl_from_bytes(const uint8_t b[2]);
void ttl_to_bytes(struct ttl ttl, uint8_t out[2]);

static inline bool ttl_is_none(struct ttl ttl)
{
    return ttl.count == 0 || ttl.unit == TTL_NONE;
}

#endif
