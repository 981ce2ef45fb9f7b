/* TTL texts, exact or refused, and the two bytes on disk. */
#include "needle/ttl.h"

#include <stdio.h>

#include "needle/err.h"

#define TTL_COUNT_MAX 255u

struct unit_row {
    char letter;
    uint32_t minutes;
};

static const struct unit_row units[] = {
    [TTL_NONE] = {'\0', 0},           [TTL_MINUTE] = {'m', 1},          [TTL_HOUR] = {'h', 60},
    [TTL_DAY] = {'d', 24 * 60},       [TTL_WEEK] = {'w', 7 * 24 * 60},  [TTL_MONTH] = {'M', 30 * 24 * 60},
    [TTL_YEAR] = {'y', 365 * 24 * 60},
};

static enum ttl_unit unit_of(char letter)
{
    for (enum ttl_unit u = TTL_MINUTE; u <= TTL_YEAR; u++)
        if (units[u].letter == letter)
            return u;
    return TTL_NONE;
}

/* The largest unit that says so many minutes exactly.  False when none does with a count that fits into a byte. */
static bool from_minutes(uint64_t minutes, struct ttl *out)
{
    for (enum ttl_unit u = TTL_YEAR; u >= TTL_MINUTE; u--) {
        uint64_t count = minutes / units[u].minutes;
        if (minutes % units[u].minutes == 0 && count <= TTL_COUNT_MAX) {
            *out = (struct ttl){(uint8_t)count, (uint8_t)u};
            return true;
        }
    }
    return false;
}

int ttl_parse(struct bytes text, struct ttl *out)
{
    enum ttl_unit unit = TTL_MINUTE;
    uint64_t count = 0;
    struct ttl ttl;
    size_t digits = text.n;

    if (text.n == 0) {
        *out = (struct ttl){0, TTL_NONE};
        return 0;
    }
    if (text.p[text.n - 1] < '0' || text.p[text.n - 1] > '9') {
        unit = unit_of(text.p[text.n - 1]);
        digits = text.n - 1;
    }
    if (unit == TTL_NONE || digits == 0)
        return DFS_EINVAL;
    for (size_t i = 0; i < digits; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return DFS_EINVAL;
        count = count * 10 + (uint64_t)(text.p[i] - '0');
        if (count > UINT32_MAX) /* far past 255 years in minutes, and the products below cannot overflow */
            return DFS_EINVAL;
    }
    if (count == 0 || !from_minutes(count * units[unit].minutes, &ttl))
        return DFS_EINVAL;
    *out = ttl;
    return 0;
}

size_t ttl_format(struct ttl ttl, char out[TTL_TEXT_MAX])
{
    if (ttl_is_none(ttl) || ttl.unit > TTL_YEAR) {
        out[0] = '\0';
        return 0;
    }
    return (size_t)snprintf(out, TTL_TEXT_MAX, "%u%c", ttl.count, units[ttl.unit].letter);
}

uint32_t ttl_minutes(struct ttl ttl)
{
    return ttl.unit > TTL_YEAR ? 0 : ttl.count * units[ttl.unit].minutes;
}

uint32_t ttl_to_u32(struct ttl ttl)
{
    return ttl_is_none(ttl) ? 0 : (uint32_t)ttl.count << 8 | ttl.unit;
}

struct ttl ttl_from_u32(uint32_t v)
{
    uint8_t b[2];

    if (v > UINT16_MAX)
        return (struct ttl){0, TTL_NONE};
    be16_put(b, (uint16_t)v);
    return ttl_from_bytes(b);
}

struct ttl ttl_from_bytes(const uint8_t b[2])
{
    if (b[0] == 0 || b[1] == TTL_NONE || b[1] > TTL_YEAR)
        return (struct ttl){0, TTL_NONE};
    return (struct ttl){b[0], b[1]};
}

void ttl_to_bytes(struct ttl ttl, uint8_t out[2])
{
    be16_put(out, (uint16_t)ttl_to_u32(ttl));
}
