#include "volume/recent_deletes.h"

#include <stddef.h>

#include "net/rand.h"

static size_t set_of(uint64_t key)
{
    return rand_mix64(key) % RECENT_DELETES_SETS;
}

/* Its own place, a free one, or that of the oldest. */
static unsigned way_for(const struct recent_delete_set *s, uint64_t key)
{
    unsigned best = 0;

    for (unsigned i = 0; i < RECENT_DELETES_WAYS; i++) {
        if (s->at_ns[i] != 0 && s->key[i] == key)
            return i;
        if (s->at_ns[i] < s->at_ns[best])
            best = i;
    }
    return best;
}

void recent_deletes_note(struct recent_deletes *d, uint64_t key, uint64_t at_ns)
{
    struct recent_delete_set *s = &d->sets[set_of(key)];
    unsigned i = way_for(s, key);

    if (s->key[i] == key && s->at_ns[i] >= at_ns)
        return;
    if (s->key[i] != key && s->at_ns[i] > s->forgotten_ns)
        s->forgotten_ns = s->at_ns[i];
    s->key[i] = key;
    s->at_ns[i] = at_ns;
}

uint64_t recent_deletes_at(const struct recent_deletes *d, uint64_t key)
{
    if (d == NULL)
        return 0;
    const struct recent_delete_set *s = &d->sets[set_of(key)];
    for (unsigned i = 0; i < RECENT_DELETES_WAYS; i++)
        if (s->at_ns[i] != 0 && s->key[i] == key)
            return s->at_ns[i];
    return 0;
}

bool recent_deletes_after(const struct recent_deletes *d, uint64_t key, uint64_t at_ns)
{
    uint64_t deleted_ns = recent_deletes_at(d, key);

    if (d == NULL)
        return false;
    return deleted_ns != 0 ? deleted_ns > at_ns : d->sets[set_of(key)].forgotten_ns > at_ns;
}
