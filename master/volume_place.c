/* Servers for a new volume, and why there are none. */
#include <stdio.h>
#include <string.h>

#include "master/volume_growth.h"
#include "needle/check.h"
#include "needle/err.h"
#include "net/rand.h"

struct placing {
    struct grower *grower;
    const struct place_filter *filter;
    uint64_t now_ms;
    struct data_node **chosen;
    uint32_t count;
};

static bool chosen_already(const struct placing *p, const struct data_node *n)
{
    for (uint32_t i = 0; i < p->count; i++)
        if (p->chosen[i] == n)
            return true;
    return false;
}

static bool host_taken(const struct placing *p, const struct data_node *n)
{
    for (uint32_t i = 0; i < p->count; i++)
        if (strcmp(p->chosen[i]->addr.host, n->addr.host) == 0)
            return true;
    return false;
}

static bool usable(const struct placing *p, const struct data_node *n)
{
    return data_node_free_slots(n) > 0 && n->reachable && n->backoff_until_ms <= p->now_ms && !chosen_already(p, n);
}

enum place_rule { MAIN_SERVER, SAME_RACK, OTHER_RACK, OTHER_DATA_CENTER };

static bool same_data_center(const struct data_node *a, const struct data_node *b)
{
    return strcmp(a->data_center, b->data_center) == 0;
}

static bool same_rack(const struct data_node *a, const struct data_node *b)
{
    return same_data_center(a, b) && strcmp(a->rack, b->rack) == 0;
}

/* Racks and data centers must each be one of their own among the copies placed there. */
static bool allowed(const struct placing *p, const struct data_node *n, enum place_rule rule)
{
    const struct data_node *first = p->chosen[0];

    CHECK(rule == MAIN_SERVER || p->count > 0);
    switch (rule) {
    case MAIN_SERVER:
        return place_filter_match(p->filter, n);
    case SAME_RACK:
        return same_rack(first, n);
    case OTHER_RACK:
        for (uint32_t i = 0; i < p->count; i++)
            if (same_rack(p->chosen[i], n))
                return false;
        return same_data_center(first, n);
    case OTHER_DATA_CENTER:
        for (uint32_t i = 0; i < p->count; i++)
            if (same_data_center(p->chosen[i], n))
                return false;
        return true;
    }
    return false;
}

/* One more server by the rule, at random, weighted by free slots; servers on hosts that have no copy yet go first. */
static bool choose(struct placing *p, enum place_rule rule)
{
    struct data_node *pick = NULL;
    uint64_t weight = 0;
    bool fresh_host = false;

    for (struct data_node *n = p->grower->topology->nodes; n != NULL; n = n->next) {
        bool fresh;
        uint64_t w;

        if (!usable(p, n) || !allowed(p, n, rule))
            continue;
        fresh = !host_taken(p, n);
        if (fresh_host && !fresh)
            continue;
        if (fresh && !fresh_host) {
            fresh_host = true;
            weight = 0;
        }
        w = data_node_free_slots(n);
        weight += w;
        if (rand_u64() % weight < w)
            pick = n;
    }
    if (pick == NULL)
        return false;
    p->chosen[p->count++] = pick;
    return true;
}

static bool choose_all(struct placing *p, struct replica_placement rp)
{
    if (!choose(p, MAIN_SERVER))
        return false;
    for (unsigned i = 0; i < rp.same_rack; i++)
        if (!choose(p, SAME_RACK))
            return false;
    for (unsigned i = 0; i < rp.other_racks; i++)
        if (!choose(p, OTHER_RACK))
            return false;
    for (unsigned i = 0; i < rp.other_data_centers; i++)
        if (!choose(p, OTHER_DATA_CENTER))
            return false;
    return true;
}

/* Different places among servers, counted as far as a placement can ask for. */
struct place_count {
    const struct data_node *seen[GROWTH_COPIES_MAX];
    uint32_t count;
};

static void count_place(struct place_count *c, const struct data_node *n, bool by_rack)
{
    for (uint32_t i = 0; i < c->count; i++)
        if (strcmp(c->seen[i]->data_center, n->data_center) == 0 && (!by_rack || strcmp(c->seen[i]->rack, n->rack) == 0))
            return;
    if (c->count < GROWTH_COPIES_MAX)
        c->seen[c->count++] = n;
}

/* What was looked at and why each fell out. */
static void explain(const struct placing *p, struct replica_placement rp, char *reason, size_t cap)
{
    uint32_t up = 0, down = 0, full = 0, elsewhere = 0, resting = 0;
    struct place_count centers = {.count = 0}, racks = {.count = 0};
    const char *error = "";
    char rp_text[4];

    for (struct data_node *n = p->grower->topology->nodes; n != NULL; n = n->next) {
        if (!n->up) {
            down++;
            continue;
        }
        up++;
        if (data_node_free_slots(n) == 0)
            full++;
        else if (!place_filter_match(p->filter, n))
            elsewhere++;
        else if (!n->reachable || n->backoff_until_ms > p->now_ms) {
            resting++;
            error = n->reachable ? n->last_error : "its name cannot be looked up";
        } else {
            count_place(&centers, n, false);
            count_place(&racks, n, true);
        }
    }
    replica_placement_format(rp, rp_text);
    snprintf(reason, cap,
             "no free volumes: of %u volume server%s up %u had no free slot, %u were in another place than asked for, %u had "
             "just failed to make one%s%s%s, %u more down; the rest stand in %u rack%s of %u data center%s; replication %s needs "
             "%u with free slots: 1 and %u more in its rack, %u in other racks, %u in other data centers; add servers or disks, "
             "raise -max, or free volumes",
             up, up == 1 ? "" : "s", full, elsewhere, resting, error[0] != '\0' ? " (" : "", error,
             error[0] != '\0' ? ")" : "", down, racks.count, racks.count == 1 ? "" : "s", centers.count,
             centers.count == 1 ? "" : "s", rp_text, replica_placement_copies(rp), rp.same_rack, rp.other_racks,
             rp.other_data_centers);
}

int volume_growth_place(struct grower *g, struct replica_placement rp, const struct place_filter *f,
                        struct data_node *out[GROWTH_COPIES_MAX], uint32_t *count, char *reason, size_t cap)
{
    struct placing p = {.grower = g, .filter = f, .now_ms = loop_now_ms(g->loop), .chosen = out};
    unsigned copies = replica_placement_copies(rp);

    if (copies > GROWTH_COPIES_MAX)
        return DFS_EINVAL;
    /* A random main server may stand where the rest cannot be met though another could: several tries, then the verdict. */
    for (int tries = 0; tries < 32; tries++) {
        p.count = 0;
        if (choose_all(&p, rp)) {
            *count = copies;
            return 0;
        }
    }
    explain(&p, rp, reason, cap);
    return DFS_ENOSPC;
}
