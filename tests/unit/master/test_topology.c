/* Topology, layouts and placement, against recounts and by property. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "master/volume_growth.h"
#include "needle/check.h"
#include "needle/err.h"
#include "net/rand.h"

#define LIMIT (100ull << 20)

static struct topology topology;
static struct loop *loop;

static int setup(void **state)
{
    (void)state;
    return topology_init(&topology, LIMIT);
}

static int teardown(void **state)
{
    (void)state;
    topology_release(&topology);
    return 0;
}

static struct data_node *add_node(const char *host, unsigned port, const char *dc, const char *rack, uint64_t max)
{
    struct addr a = {.port = (uint16_t)port, .grpc_port = (uint16_t)(port + 1)};
    struct data_node *n;

    snprintf(a.host, sizeof a.host, "%s", host);
    assert_int_equal(topology_node(&topology, &a, &n), 0);
    n->up = true;
    n->reachable = true;
    n->max_volumes = max;
    snprintf(n->data_center, sizeof n->data_center, "%s", dc);
    snprintf(n->rack, sizeof n->rack, "%s", rack);
    snprintf(n->id, sizeof n->id, "%s", n->url);
    snprintf(n->public_url, sizeof n->public_url, "%s", n->url);
    return n;
}

static int report(struct data_node *n, uint32_t id, const char *collection, const char *rp, uint64_t size, bool read_only)
{
    struct volume_report r = {.id = id, .collection = bytes_str(collection), .version = 3, .size_bytes = size,
                              .read_only = read_only, .file_count = size / 1000};

    assert_int_equal(replica_placement_parse(bytes_str(rp), &r.placement), 0);
    return topology_report(&topology, n, &r);
}

static struct volume_layout *layout(const char *collection, const char *rp)
{
    struct replica_placement p;
    struct ttl ttl = {0, 0};

    assert_int_equal(replica_placement_parse(bytes_str(rp), &p), 0);
    return volume_layout_find(&topology, bytes_str(collection), p, ttl);
}

static struct topo_volume *pick(struct volume_layout *l, uint64_t now_ms)
{
    struct place_filter f = {0};

    return volume_layout_pick(l, &f, 1, 0, now_ms);
}

static void a_volume_is_writable_when_all_copies_are_there_and_take_writes(void **state)
{
    struct data_node *a = add_node("h1", 1, "d", "r", 10), *b = add_node("h2", 1, "d", "r", 10);

    (void)state;
    assert_int_equal(report(a, 7, "", "001", 8, false), 0);
    assert_int_equal(layout("", "001")->writable_count, 0);
    assert_string_equal(volume_layout_why_not(&topology, topology_find(&topology, 7)), "missing copies");
    assert_int_equal(report(b, 7, "", "001", 8, false), 0);
    assert_int_equal(layout("", "001")->writable_count, 1);
    assert_int_equal(report(b, 7, "", "001", 8, true), 0);
    assert_int_equal(layout("", "001")->writable_count, 0);
    assert_int_equal(report(b, 7, "", "001", 8, false), 0);
    assert_int_equal(layout("", "001")->writable_count, 1);
    assert_int_equal(report(a, 7, "", "001", LIMIT, false), 0);
    assert_string_equal(volume_layout_why_not(&topology, topology_find(&topology, 7)), "full");
    assert_int_equal(layout("", "001")->writable_count, 0);
    assert_int_equal(report(a, 7, "", "001", LIMIT / 2, false), 0);
    assert_non_null(pick(layout("", "001"), 1));
    topology_node_down(&topology, b);
    assert_null(pick(layout("", "001"), 1));
    assert_int_equal(topology_find(&topology, 7)->replica_count, 1);
    topology_node_down(&topology, a);
    assert_null(topology_find(&topology, 7));
}

static void a_full_beat_replaces_the_list(void **state)
{
    struct data_node *a = add_node("h1", 1, "d", "r", 10);

    (void)state;
    a->beat_seq = 1;
    for (uint32_t id = 1; id <= 5; id++)
        assert_int_equal(report(a, id, "c", "000", 8, false), 0);
    a->beat_seq = 2;
    assert_int_equal(report(a, 2, "c", "000", 8, false), 0);
    assert_int_equal(report(a, 9, "c", "000", 8, false), 0);
    topology_full_beat_done(&topology, a);
    assert_int_equal(a->volume_count, 2);
    assert_int_equal(topology.volume_count, 2);
    assert_non_null(topology_find(&topology, 2));
    assert_non_null(topology_find(&topology, 9));
    assert_null(topology_find(&topology, 1));
}

static void reports_that_lie_are_refused(void **state)
{
    struct data_node *a = add_node("h1", 1, "d", "r", 10);

    (void)state;
    assert_int_equal(report(a, 0, "c", "000", 8, false), DFS_EINVAL);
    assert_int_equal(report(a, 1, "../x", "000", 8, false), DFS_EINVAL);
    assert_int_equal(report(a, 1, "a/b", "000", 8, false), DFS_EINVAL);
    assert_int_equal(topology.volume_count, 0);
}

static void a_volume_moves_when_its_placement_changes(void **state)
{
    struct data_node *a = add_node("h1", 1, "d", "r", 10);

    (void)state;
    assert_int_equal(report(a, 3, "", "000", 8, false), 0);
    assert_int_equal(report(a, 3, "", "001", 8, false), 0);
    assert_int_equal(layout("", "000")->volume_count, 0);
    assert_int_equal(layout("", "000")->writable_count, 0);
    assert_int_equal(layout("", "001")->volume_count, 1);
}

static void picking_runs_in_short_stretches_and_spreads(void **state)
{
    struct data_node *nodes[3];
    uint32_t count[9] = {0}, runs = 0, last = 0;
    struct volume_layout *l;

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        nodes[i] = add_node("h", i + 1, "d", "r", 10);
    for (uint32_t id = 1; id <= 6; id++)
        assert_int_equal(report(nodes[id % 3], id, "", "000", 8, false), 0);
    l = layout("", "000");
    for (int i = 0; i < 60000; i++) {
        struct topo_volume *v = pick(l, 1);

        assert_non_null(v);
        count[v->id]++;
        runs += v->id != last;
        last = v->id;
    }
    for (uint32_t id = 1; id <= 6; id++)
        assert_in_range(count[id], 9000, 11000);
    (void)runs;
}

static void one_location_is_sticky_for_a_run(void **state)
{
    struct data_node *a = add_node("h", 1, "d", "r", 10);
    struct volume_layout *l;
    uint32_t first;

    (void)state;
    for (uint32_t id = 1; id <= 4; id++)
        assert_int_equal(report(a, id, "", "000", 8, false), 0);
    l = layout("", "000");
    first = pick(l, 1)->id;
    for (unsigned i = 1; i < LAYOUT_RUN_IDS; i++)
        assert_int_equal(pick(l, 1)->id, first);
    assert_int_not_equal(pick(l, 1)->id, first);
    first = pick(l, 1)->id;
    assert_int_not_equal(pick(l, 1 + LAYOUT_RUN_MS)->id, first); /* time ends a run as well */
}

static void what_was_handed_out_counts(void **state)
{
    struct data_node *a = add_node("h", 1, "d", "r", 10);
    struct place_filter f = {0};
    struct volume_layout *l;
    struct topo_volume *v;

    (void)state;
    assert_int_equal(report(a, 1, "", "000", 8, false), 0);
    assert_int_equal(report(a, 2, "", "000", LIMIT / 2, false), 0);
    l = layout("", "000");
    v = volume_layout_pick(l, &f, 1, LIMIT, 1);
    assert_int_equal(volume_layout_pick(l, &f, 1, 1, 1)->id, v->id == 1 ? 2 : 1);
    /* Both nearly full: still better than a refusal. */
    assert_non_null(volume_layout_pick(l, &f, 1, LIMIT, 1));
    assert_non_null(volume_layout_pick(l, &f, 1, LIMIT, 1));
    assert_true(volume_layout_crowded(l, &f));
    assert_null(volume_layout_pick_roomy(l, &f, 1, 1, 1));
    /* No sum of wishes wraps. */
    assert_non_null(volume_layout_pick(l, &f, UINT64_MAX, UINT64_MAX, 1));
    v = topology_find(&topology, 1);
    assert_true(volume_room_expected(&v->room, &l->sizes) >= LIMIT);
}

static void a_filter_is_kept_to(void **state)
{
    struct data_node *a = add_node("h1", 1, "east", "r1", 10), *b = add_node("h2", 1, "west", "r2", 10);
    struct place_filter east = {.data_center = BYTES_LIT("east")}, none = {.rack = BYTES_LIT("r9")};
    struct place_filter node = {.data_node = BYTES_LIT("h2:1")};

    (void)state;
    assert_int_equal(report(a, 1, "", "000", 8, false), 0);
    assert_int_equal(report(b, 2, "", "000", 8, false), 0);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(volume_layout_pick(layout("", "000"), &east, 1, 0, 1)->id, 1);
        assert_int_equal(volume_layout_pick(layout("", "000"), &node, 1, 0, 1)->id, 2);
        assert_null(volume_layout_pick(layout("", "000"), &none, 1, 0, 1));
    }
}

/* ---- placement ---- */

static void check_placement(struct replica_placement rp, struct data_node **n, uint32_t count)
{
    unsigned racks = 0, centers = 0, same = 0;

    assert_int_equal(count, replica_placement_copies(rp));
    for (uint32_t i = 0; i < count; i++) {
        assert_true(data_node_free_slots(n[i]) > 0);
        for (uint32_t j = 0; j < i; j++)
            assert_ptr_not_equal(n[i], n[j]);
        if (i == 0)
            continue;
        if (strcmp(n[i]->data_center, n[0]->data_center) != 0)
            centers++;
        else if (strcmp(n[i]->rack, n[0]->rack) != 0)
            racks++;
        else
            same++;
    }
    assert_int_equal(centers, rp.other_data_centers);
    assert_int_equal(racks, rp.other_racks);
    assert_int_equal(same, rp.same_rack);
    /* Copies elsewhere stand apart from each other, too. */
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t j = 1; j < i; j++) {
            bool far_i = strcmp(n[i]->data_center, n[0]->data_center) != 0;
            bool far_j = strcmp(n[j]->data_center, n[0]->data_center) != 0;
            bool other_i = strcmp(n[i]->rack, n[0]->rack) != 0, other_j = strcmp(n[j]->rack, n[0]->rack) != 0;

            if (far_i && far_j)
                assert_string_not_equal(n[i]->data_center, n[j]->data_center);
            else if (!far_i && !far_j && other_i && other_j)
                assert_string_not_equal(n[i]->rack, n[j]->rack);
        }
}

/* Whether a placement exists at all, by trying every main server. */
static bool possible(struct replica_placement rp)
{
    for (struct data_node *m = topology.nodes; m != NULL; m = m->next) {
        char racks[64][8], centers[64][8];
        unsigned same = 0, nracks = 0, ncenters = 0;

        if (data_node_free_slots(m) == 0)
            continue;
        for (struct data_node *o = topology.nodes; o != NULL; o = o->next) {
            unsigned k;

            if (o == m || data_node_free_slots(o) == 0)
                continue;
            if (strcmp(o->data_center, m->data_center) != 0) {
                for (k = 0; k < ncenters && strcmp(centers[k], o->data_center) != 0; k++)
                    ;
                if (k == ncenters && ncenters < 64)
                    snprintf(centers[ncenters++], 8, "%.7s", o->data_center);
            } else if (strcmp(o->rack, m->rack) != 0) {
                for (k = 0; k < nracks && strcmp(racks[k], o->rack) != 0; k++)
                    ;
                if (k == nracks && nracks < 64)
                    snprintf(racks[nracks++], 8, "%.7s", o->rack);
            } else {
                same++;
            }
        }
        if (same >= rp.same_rack && nracks >= rp.other_racks && ncenters >= rp.other_data_centers)
            return true;
    }
    return false;
}

static void random_topologies_are_placed_exactly(void **state)
{
    static const char *const placements[] = {"000", "001", "010", "100", "002", "011", "110", "111", "020", "200", "012"};
    struct grower g = {.loop = loop, .topology = &topology};
    unsigned placed = 0, refused = 0, missed = 0;

    (void)state;
    for (int round = 0; round < 10000; round++) {
        unsigned nodes = 1 + rand_below(9);
        struct place_filter f = {0};
        struct replica_placement rp;
        struct data_node *out[GROWTH_COPIES_MAX];
        uint32_t count = 0;
        char reason[1024] = "";
        int rc;

        topology_release(&topology);
        assert_int_equal(topology_init(&topology, LIMIT), 0);
        for (unsigned i = 0; i < nodes; i++) {
            char dc[8], rack[8], host[16];

            snprintf(dc, sizeof dc, "d%u", rand_below(3));
            snprintf(rack, sizeof rack, "r%u", rand_below(3));
            snprintf(host, sizeof host, "h%u", i);
            add_node(host, 1, dc, rack, rand_below(3));
        }
        assert_int_equal(replica_placement_parse(bytes_str(placements[rand_below(ARRAY_LEN(placements))]), &rp), 0);
        rc = volume_growth_place(&g, rp, &f, out, &count, reason, sizeof reason);
        if (rc == 0) {
            check_placement(rp, out, count);
            placed++;
        } else {
            assert_int_equal(rc, DFS_ENOSPC);
            assert_string_not_equal(reason, "");
            refused++;
            missed += possible(rp);
        }
    }
    printf("%u placed, %u refused\n", placed, refused);
    assert_true(placed > 2000 && refused > 2000);
    assert_int_equal(missed, 0);
}

static void two_servers_on_a_host_are_one_host(void **state)
{
    struct grower g = {.loop = loop, .topology = &topology};
    struct replica_placement rp = {.same_rack = 1};

    (void)state;
    add_node("big", 1, "d", "r", 1000);
    add_node("big", 2, "d", "r", 1000);
    add_node("small", 1, "d", "r", 2);
    for (int i = 0; i < 200; i++) {
        struct data_node *out[GROWTH_COPIES_MAX];
        struct place_filter f = {0};
        uint32_t count;
        char reason[256];

        assert_int_equal(volume_growth_place(&g, rp, &f, out, &count, reason, sizeof reason), 0);
        assert_string_not_equal(out[0]->addr.host, out[1]->addr.host);
    }
}

static void a_refusal_says_what_was_looked_at(void **state)
{
    struct grower g = {.loop = loop, .topology = &topology};
    struct place_filter f = {.data_center = BYTES_LIT("d")};
    struct replica_placement rp = {.same_rack = 1};
    struct data_node *out[GROWTH_COPIES_MAX], *tired;
    uint32_t count;
    char reason[1024];

    (void)state;
    add_node("h1", 1, "d", "r", 0);
    add_node("h2", 1, "e", "r", 5);
    tired = add_node("h3", 1, "d", "r", 5);
    data_node_allocation_failed(tired, loop_now_ms(loop), "h3:1: no space left");
    topology_node_down(&topology, add_node("h4", 1, "d", "r", 5));
    assert_int_equal(volume_growth_place(&g, rp, &f, out, &count, reason, sizeof reason), DFS_ENOSPC);
    assert_non_null(strstr(reason, "of 3 volume servers up 1 had no free slot, 1 were in another place"));
    assert_non_null(strstr(reason, "1 had just failed to make one (h3:1: no space left), 1 more down"));
    assert_non_null(strstr(reason, "replication 001 needs 2"));
}

static void a_volume_just_made_outlives_a_beat_from_before(void **state)
{
    struct data_node *a = add_node("h1", 1, "d", "r", 10);
    struct volume_report r = {.id = 3, .version = 3, .size_bytes = 8, .fresh = true};

    (void)state;
    a->beat_seq = 5;
    assert_int_equal(topology_report(&topology, a, &r), 0);
    a->beat_seq++;
    topology_full_beat_done(&topology, a);
    assert_non_null(topology_find(&topology, 3));
    a->beat_seq++;
    topology_full_beat_done(&topology, a);
    assert_null(topology_find(&topology, 3));
}

static void names_only_asked_for_are_forgotten(void **state)
{
    struct data_node *a = add_node("h1", 1, "d", "r", 10);
    struct replica_placement rp = {0};
    struct ttl ttl = {0, 0};
    struct volume_layout *l;
    char name[32];

    (void)state;
    assert_int_equal(report(a, 1, "kept", "000", 8, false), 0);
    assert_int_equal(volume_layout_get(&topology, BYTES_LIT("used"), rp, ttl, &l), 0);
    l->users++;
    for (uint32_t i = 0; topology.layout_count < TOPOLOGY_LAYOUTS_MAX; i++) {
        snprintf(name, sizeof name, "c%u", i);
        assert_int_equal(volume_layout_get(&topology, bytes_str(name), rp, ttl, &l), 0);
    }
    assert_int_equal(volume_layout_get(&topology, BYTES_LIT("one-more"), rp, ttl, &l), DFS_ENOSPC);
    volume_layout_drop_idle(&topology);
    assert_int_equal(topology.layout_count, 2);
    assert_non_null(layout("kept", "000"));
    assert_non_null(layout("used", "000"));
    assert_int_equal(volume_layout_get(&topology, BYTES_LIT("one-more"), rp, ttl, &l), 0);
    volume_layout_drop_idle(&topology); /* few: they may stay */
    assert_int_equal(topology.layout_count, 3);
}

/* Growth does not know the disk that a server chose; the next heartbeat tells it.  And of too many copies, the first may go. */
static void ids_go_on_when_the_first_copy_is_elsewhere(void **state)
{
    struct data_node *a = add_node("h1", 1, "d", "r", 10), *b = add_node("h2", 1, "d", "r", 10);
    struct volume_report r = {.id = 3, .version = 3, .size_bytes = 8};
    struct volume_layout *l;

    (void)state;
    assert_int_equal(topology_report(&topology, a, &r), 0);
    l = layout("", "000");
    assert_int_equal(pick(l, 1)->id, 3);
    r.disk_id = 1;
    assert_int_equal(topology_report(&topology, a, &r), 0);
    for (uint64_t now_ms = 1; now_ms < 100; now_ms += 10)
        assert_int_equal(pick(l, now_ms)->id, 3);
    assert_int_equal(topology_report(&topology, b, &r), 0);
    assert_int_equal(pick(l, 200)->id, 3);
    topology_forget(&topology, a, 3);
    for (uint64_t now_ms = 300; now_ms < 400; now_ms += 10)
        assert_ptr_equal(pick(l, now_ms)->replicas[0].node, b);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_volume_is_writable_when_all_copies_are_there_and_take_writes), TEST(a_full_beat_replaces_the_list),
        TEST(ids_go_on_when_the_first_copy_is_elsewhere), TEST(a_volume_just_made_outlives_a_beat_from_before),
        TEST(names_only_asked_for_are_forgotten),
        TEST(reports_that_lie_are_refused), TEST(a_volume_moves_when_its_placement_changes),
        TEST(picking_runs_in_short_stretches_and_spreads), TEST(one_location_is_sticky_for_a_run),
        TEST(what_was_handed_out_counts), TEST(a_filter_is_kept_to), TEST(random_topologies_are_placed_exactly),
        TEST(two_servers_on_a_host_are_one_host), TEST(a_refusal_says_what_was_looked_at),
    };
    int rc;

    if (rand_init() != 0 || loop_new("test", &loop) != 0)
        return 1;
    rand_seed_for_tests(42);
    printf("seed 42\n");
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    loop_free(loop);
    return rc;
}
