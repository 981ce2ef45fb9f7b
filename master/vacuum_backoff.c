#include "master/vacuum_backoff.h"

#include <stdio.h>
#include <string.h>

/* Where the clock vacuums never, or all the time. */
#define INTERVAL_MIN_MS 1000u

bool vacuum_backoff_failed(struct vacuum_backoff *b, uint64_t now_ms, uint64_t interval_ms, const char *why)
{
    uint64_t pause_ms = interval_ms < INTERVAL_MIN_MS ? INTERVAL_MIN_MS : interval_ms;
    char kept[VACUUM_WHY_BYTES];
    bool news;

    (void)snprintf(kept, sizeof kept, "%s", why);
    news = b->failures == 0 || strcmp(kept, b->why) != 0;
    if (b->failures < UINT32_MAX)
        b->failures++;
    for (uint32_t i = 0; i < b->failures && pause_ms < VACUUM_BACKOFF_MAX_MS; i++)
        pause_ms *= 2;
    b->until_ms = now_ms + (pause_ms < VACUUM_BACKOFF_MAX_MS ? pause_ms : VACUUM_BACKOFF_MAX_MS);
    memcpy(b->why, kept, sizeof b->why);
    return news;
}

bool vacuum_backoff_waits(const struct vacuum_backoff *b, uint64_t now_ms)
{
    return b->failures != 0 && now_ms < b->until_ms;
}

bool vacuum_backoff_clear(struct vacuum_backoff *b)
{
    bool news = b->failures != 0;

    *b = (struct vacuum_backoff){0};
    return news;
}
