/* A short list: it is nearly always empty. */
#include "volume/replica_suspects.h"

#include <string.h>

#include "needle/err.h"

static uint32_t find(const struct replica_suspects *t, const char *url)
{
    uint32_t i = 0;

    while (i < t->count && strcmp(t->v[i].url, url) != 0)
        i++;
    return i;
}

bool replica_suspects_hold(struct replica_suspects *t, const char *url, uint64_t now_ms, uint64_t *silent_ms)
{
    uint32_t i = find(t, url);

    if (i == t->count)
        return false;
    if (now_ms - t->v[i].probe_ms >= REPLICA_PROBE_MS) {
        t->v[i].probe_ms = now_ms;
        return false;
    }
    *silent_ms = now_ms - t->v[i].since_ms;
    return true;
}

static uint32_t longest(const struct replica_suspects *t)
{
    uint32_t found = 0;

    for (uint32_t i = 1; i < t->count; i++)
        if (t->v[i].since_ms < t->v[found].since_ms)
            found = i;
    return found;
}

void replica_suspects_note(struct replica_suspects *t, const char *url, int rc, uint64_t start_ms, uint64_t now_ms)
{
    uint32_t i = find(t, url);

    if (rc != DFS_ETIMEOUT) {
        if (i < t->count)
            t->v[i] = t->v[--t->count];
        return;
    }
    if (i < t->count) {
        t->v[i].probe_ms = now_ms;
        return;
    }
    if (t->count == REPLICA_SUSPECTS_MAX)
        i = longest(t);
    else
        t->count++;
    (void)strncpy(t->v[i].url, url, sizeof t->v[i].url - 1);
    t->v[i].url[sizeof t->v[i].url - 1] = '\0';
    t->v[i].since_ms = start_ms;
    t->v[i].probe_ms = now_ms;
}
