/* How much volumes will hold, which of them are held back for it, and when that is reason to grow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "master/volume_growth.h"
#include "needle/check.h"
#include "needle/err.h"
#include "net/rand.h"

#define LIMIT (64ull << 20)
#define STEP (LIMIT / 16)

static struct topology topology;
static struct loop *loop;
static const struct place_filter anywhere;

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

static struct data_node *add_node(unsigned port, const char *rack)
{
    struct addr a = {.host = "h", .port = (uint16_t)port, .grpc_port = (uint16_t)(port + 1)};
    struct data_node *n;

    assert_int_equal(topology_node(&topology, &a, &n), 0);
    n->up = n->reachable = true;
    n->max_volumes = 10;
    snprintf(n->data_center, sizeof n->data_center, "d");
    snprintf(n->rack, sizeof n->rack, "%s", rack);
    return n;
}

static struct volume_layout *report(struct data_node *n, uint32_t id, unsigned copies, uint64_t size, uint64_t files, uint32_t disk)
{
    struct volume_report r = {.id = id, .version = 3, .size_bytes = size, .file_count = files, .disk_id = disk,
                              .placement = {.same_rack = (uint8_t)(copies - 1)}};

    assert_int_equal(topology_report(&topology, n, &r), 0);
    return topology_find(&topology, id)->layout;
}

static uint64_t expected(uint32_t id)
{
    struct topo_volume *v = topology_find(&topology, id);

    return volume_room_expected(&v->room, &v->layout->sizes);
}

/* Ids until none is roomy, at most max. */
static uint32_t hand_out(struct volume_layout *l, uint32_t max, uint64_t each)
{
    uint32_t n = 0;

    while (n < max && volume_layout_pick_roomy(l, &anywhere, 1, each, 1) != NULL)
        n++;
    return n;
}

/* ---- the estimate ---- */

static void ids_are_valued_by_what_arrives(void **state)
{
    struct volume_room r = {0};
    struct room_sizes s = {0};

    (void)state;
    volume_room_hand_out(&r, &s, 1000, 0);
    assert_int_equal(volume_room_expected(&r, &s), 1000 * ROOM_EXPECTED_BYTES);
    volume_room_arrived(&r, &s, 900, 900 * 100000ull);
    assert_int_equal(room_each_bytes(&s), 100000);
    assert_int_equal(volume_room_expected(&r, &s), 100 * 100000);
    assert_int_equal(volume_room_doubt(&r, &s, LIMIT), 0);
    /* More than was handed out (keys of another master, overwrites) leaves nothing, not less. */
    volume_room_arrived(&r, &s, 5000, 5000 * 1000ull);
    assert_int_equal(volume_room_expected(&r, &s), 0);
    assert_int_equal(room_each_bytes(&s), 1000);
    /* A few files move the average, they do not become it. */
    volume_room_arrived(&r, &s, ROOM_RECENT_FILES / 2, ROOM_RECENT_FILES / 2 * 3000ull);
    assert_int_equal(room_each_bytes(&s), 2000);
}

static void told_sizes_count_as_told(void **state)
{
    struct volume_room r = {0};
    struct room_sizes s = {0};

    (void)state;
    volume_room_hand_out(&r, &s, 10, 1000000);
    volume_room_hand_out(&r, &s, 30, 0);
    assert_int_equal(volume_room_expected(&r, &s), 10 * 1000000 + 30 * ROOM_EXPECTED_BYTES);
    volume_room_arrived(&r, &s, 20, 20 * 5000ull);
    assert_int_equal(volume_room_expected(&r, &s), 5 * 1000000 + 15 * 5000);
}

static void ids_never_used_do_not_count_for_ever(void **state)
{
    struct volume_room r = {0};
    struct room_sizes s = {0};

    (void)state;
    volume_room_hand_out(&r, &s, 1024, 0);
    volume_room_decay(&r);
    assert_int_equal(volume_room_expected(&r, &s), 1024 * ROOM_EXPECTED_BYTES); /* they may be a moment old */
    for (int i = 0; i < 5; i++)
        volume_room_decay(&r);
    assert_int_equal(volume_room_expected(&r, &s), 32 * ROOM_EXPECTED_BYTES);
    for (int i = 0; i < 6; i++)
        volume_room_decay(&r);
    assert_int_equal(volume_room_expected(&r, &s), 0);
    assert_int_equal(volume_room_doubt(&r, &s, LIMIT), 0);
}

static void sums_do_not_wrap(void **state)
{
    (void)state;
    for (int round = 0; round < 20000; round++) {
        struct volume_room r = {0};
        struct room_sizes s = {0};

        for (int i = 0; i < 20; i++) {
            uint64_t n = rand_u64() >> rand_below(64), m = rand_u64() >> rand_below(64);

            switch (rand_below(4)) {
            case 0:
                volume_room_hand_out(&r, &s, n, m);
                break;
            case 1:
                volume_room_hand_out(&r, &s, n, 0);
                break;
            case 2:
                volume_room_arrived(&r, &s, n, m);
                break;
            default:
                volume_room_decay(&r);
            }
            assert_true(volume_room_expected(&r, &s) <= UINT64_MAX / 4);
            assert_true(volume_room_doubt(&r, &s, LIMIT) <= (uint64_t)ROOM_FIRST_IDS * ROOM_FIRST_BYTES);
            assert_true(s.each_bytes <= ROOM_EACH_MAX && s.files <= ROOM_RECENT_FILES);
        }
    }
}

/* ---- holding back ---- */

static void no_id_is_handed_out_that_would_come_too_late(void **state)
{
    static const uint64_t sizes[] = {1000, 100000, 1000000};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        uint64_t each = sizes[i], files = LIMIT * 3 / 4 / each;
        struct data_node *a;
        struct volume_layout *l;
        uint32_t n;

        topology_release(&topology);
        assert_int_equal(topology_init(&topology, LIMIT), 0);
        a = add_node(1, "r");
        l = report(a, 1, 1, files * each, files, 0);
        n = hand_out(l, 1000000, 0);
        /* The last of them begins below the limit, and little is left unused. */
        assert_true((files + n - 1) * each < LIMIT);
        assert_true((files + n + 1) * each >= LIMIT - STEP);
        /* As they arrive nothing comes free, whatever part is reported. */
        for (uint32_t part = 1; part <= 4; part++) {
            report(a, 1, 1, (files + n * part / 4) * each, files + n * part / 4, 0);
            assert_in_range(hand_out(l, 1000000, 0), 0, 1);
        }
        assert_non_null(volume_layout_pick(l, &anywhere, 1, 0, 1)); /* who must, still gets one */
        assert_true(volume_layout_worth_growing(l, &anywhere));
        report(a, 2, 1, 8, 0, 0);
        assert_int_equal(volume_layout_pick_roomy(l, &anywhere, 1, 0, 1)->id, 2);
    }
}

static void the_first_ids_may_be_large(void **state)
{
    struct volume_layout *l;

    (void)state;
    l = report(add_node(1, "r"), 1, 1, 8, 0, 0);
    assert_in_range(hand_out(l, 1000, 0), 48, ROOM_FIRST_IDS);
    /* That doubt costs one more volume, not one for each lot. */
    report(topology.nodes, 2, 1, 8, 0, 0);
    assert_int_equal(hand_out(l, 10000, 0), 10000);
    /* And it ends with the first report. */
    report(topology.nodes, 1, 1, 60 * 1000 + 8, 60, 0);
    assert_true(expected(1) <= 4000);
    assert_int_equal(volume_layout_pick_roomy(l, &anywhere, 1, 0, 1 + LAYOUT_RUN_MS)->id, 1);
}

static void a_lot_goes_where_all_of_it_fits(void **state)
{
    struct data_node *a = add_node(1, "r");
    struct volume_layout *l = report(a, 1, 1, LIMIT / 2, LIMIT / 2 / 10000, 0);

    (void)state;
    assert_null(volume_layout_pick_roomy(l, &anywhere, 3200, 0, 1)); /* 32 MB: half the limit is left */
    assert_int_equal(volume_layout_pick_roomy(l, &anywhere, 2000, 0, 1)->id, 1);
    report(a, 2, 1, 8, 0, 1);
    for (int i = 0; i < 3; i++) /* from wherever the turn of the locations stands */
        assert_int_equal(volume_layout_pick_roomy(l, &anywhere, 1500, 0, 1)->id, 2);
    /* More than a volume holds: an empty one takes it. */
    report(a, 3, 1, 8, 0, 2);
    assert_int_equal(volume_layout_pick_roomy(l, &anywhere, 1000000, 0, 1)->id, 3);
    assert_null(volume_layout_pick_roomy(l, &anywhere, UINT64_MAX, 0, 1)); /* a second such lot: no empty one is left */
}

static void each_location_is_held_back_for_itself(void **state)
{
    struct data_node *a = add_node(1, "r");
    struct volume_layout *l = NULL;

    (void)state;
    for (uint32_t id = 1; id <= 3; id++)
        l = report(a, id, 1, LIMIT - 2 * STEP, (LIMIT - 2 * STEP) / 100000, id);
    assert_in_range(hand_out(l, 1000, 0), 3 * STEP / 100000, 3 * STEP / 100000 + 3);
    report(a, 2, 1, LIMIT / 2, LIMIT / 2 / 100000, 2);
    assert_int_equal(volume_layout_pick_roomy(l, &anywhere, 1, 0, 1)->id, 2);
}

static void copies_report_the_same_ids(void **state)
{
    struct data_node *a = add_node(1, "r"), *b = add_node(2, "r");
    struct volume_layout *l;

    (void)state;
    report(a, 1, 2, 8, 0, 0);
    l = report(b, 1, 2, 8, 0, 0);
    assert_int_equal(hand_out(l, 40, 0), 40);
    report(a, 1, 2, 30 * 1000 + 8, 30, 0);
    assert_int_equal(expected(1), 10 * 1000);
    report(b, 1, 2, 25 * 1000 + 8, 25, 0);
    report(b, 1, 2, 30 * 1000 + 8, 30, 0);
    assert_int_equal(expected(1), 10 * 1000);
    report(b, 1, 2, 36 * 1000 + 8, 36, 0);
    assert_int_equal(expected(1), 4 * 1000);
    /* Nor do two copies make the decay twice as fast. */
    for (int pulse = 0; pulse < 2; pulse++) {
        a->decay = b->decay = true;
        report(a, 1, 2, 36 * 1000 + 8, 36, 0);
        report(b, 1, 2, 36 * 1000 + 8, 36, 0);
    }
    assert_int_equal(expected(1), 2 * 1000);
}

static void a_wrong_estimate_does_not_eat_all_slots(void **state)
{
    struct data_node *a = add_node(1, "r");
    struct volume_layout *l = report(a, 1, 1, STEP * 8, 8, 0);
    uint32_t grown = 1;

    (void)state;
    /* Files of 4 MB until now; from here on small ones, of which no report tells. */
    while (grown < 50 && (hand_out(l, 100000, 0), volume_layout_worth_growing(l, &anywhere)))
        report(a, ++grown, 1, 8, 0, 0);
    assert_in_range(grown, LAYOUT_GUESSED_MAX, 20);
    assert_non_null(volume_layout_pick(l, &anywhere, 1, 0, 1));
    /* Volumes that report to be full are no estimate. */
    for (uint32_t id = 1; id <= grown; id++)
        report(a, id, 1, LIMIT - 1, 10000, 0);
    assert_int_equal(hand_out(l, 10, 0), 0);
    assert_true(volume_layout_worth_growing(l, &anywhere));
}

static void who_takes_a_full_one_takes_one_that_may_not_be(void **state)
{
    struct data_node *a = add_node(1, "r");
    struct volume_layout *l;

    (void)state;
    report(a, 1, 1, LIMIT - 100, 1000, 1);
    l = report(a, 2, 1, 8, 0, 2);
    assert_int_not_equal(hand_out(l, 1000000, 100000), 0);
    for (uint64_t now_ms = 10; now_ms < 100; now_ms += 10)
        assert_int_equal(volume_layout_pick(l, &anywhere, 1, 100000, now_ms)->id, 2);
}

static void places_are_crowded_each_for_itself(void **state)
{
    struct data_node *a = add_node(1, "r1"), *b = add_node(2, "r2");
    struct place_filter r1 = {.rack = BYTES_LIT("r1")}, r2 = {.rack = BYTES_LIT("r2")}, r3 = {.rack = BYTES_LIT("r3")};
    struct volume_layout *l;

    (void)state;
    report(a, 1, 1, LIMIT - 1, 1000, 0);
    l = report(b, 2, 1, LIMIT / 2, 1000, 0);
    assert_true(volume_layout_crowded(l, &r1));
    assert_false(volume_layout_crowded(l, &r2));
    assert_false(volume_layout_crowded(l, &anywhere));
    assert_null(volume_layout_pick_roomy(l, &r1, 1, 0, 1));
    assert_int_equal(volume_layout_pick_roomy(l, &r2, 1, 0, 1)->id, 2);
    assert_int_equal(volume_layout_pick(l, &r1, 1, 0, 1)->id, 1);
    assert_true(volume_layout_worth_growing(l, &r1));
    assert_false(volume_layout_worth_growing(l, &r3)); /* there is none: another matter */
    /* A small volume is soon full: the next one is made with a quarter left; crowded comes before held back. */
    report(b, 2, 1, LIMIT - LIMIT / 4, 2000, 0);
    assert_true(volume_layout_crowded(l, &r2));
    assert_non_null(volume_layout_pick_roomy(l, &r2, 1, 0, 1));
}

/* ---- growing ---- */

static void hope_ends_where_nothing_can_be_placed(void **state)
{
    struct grower g = {.loop = loop, .topology = &topology, .step = 1};
    struct growth_request r = {.filter = {.rack = BYTES_LIT("r9")}};
    struct volume_layout *l = report(add_node(1, "r"), 1, 1, LIMIT - 1, 1000, 0);
    uint64_t now_ms = loop_now_ms(loop);
    char reason[1024];

    (void)state;
    r.layout = l;
    assert_true(volume_growth_hopeful(l, &anywhere, now_ms));
    assert_int_equal(volume_growth_start(&g, &r, NULL, reason, sizeof reason), DFS_ENOSPC);
    now_ms = loop_now_ms(loop);
    assert_false(volume_growth_hopeful(l, &r.filter, now_ms));
    assert_true(volume_growth_hopeful(l, &anywhere, now_ms)); /* elsewhere there may be room */
    topology.nodes->max_volumes = 1;
    r.filter = anywhere;
    assert_int_equal(volume_growth_start(&g, &r, NULL, reason, sizeof reason), DFS_ENOSPC);
    now_ms = loop_now_ms(loop);
    assert_false(volume_growth_hopeful(l, &anywhere, now_ms));
    assert_true(volume_growth_hopeful(l, &anywhere, now_ms + GROWTH_HOPELESS_MS));
}

static void a_node_in_maintenance_gets_nothing_new(void **state)
{
    struct grower g = {.loop = loop, .topology = &topology};
    struct data_node *a = add_node(1, "r"), *b = add_node(2, "r"), *c = add_node(3, "r"), *out[GROWTH_COPIES_MAX];
    struct volume_layout *l, *two;
    struct topo_volume *first;
    char reason[1024];
    uint32_t count;

    (void)state;
    report(a, 1, 1, 8, 0, 0);
    l = report(b, 2, 1, 8, 0, 0);
    report(a, 3, 2, 8, 0, 0);
    two = report(b, 3, 2, 8, 0, 0);
    first = volume_layout_pick(l, &anywhere, 1, 0, 1); /* a run has begun */
    while (first->id != 1)
        first = volume_layout_pick(l, &anywhere, 1, 0, 1);
    a->maintenance = true;
    for (uint32_t i = 0; i < a->volume_count; i++)
        volume_layout_update(&topology, a->volumes[i]);
    for (int i = 0; i < 200; i++)
        assert_int_equal(volume_layout_pick(l, &anywhere, 1, 0, 1)->id, 2);
    assert_null(volume_layout_pick(two, &anywhere, 1, 0, 1)); /* one of two copies stands there */
    assert_string_equal(volume_layout_why_not(&topology, topology_find(&topology, 3)), "in maintenance");
    for (int i = 0; i < 200; i++) {
        assert_int_equal(volume_growth_place(&g, l->placement, &anywhere, out, &count, reason, sizeof reason), 0);
        assert_ptr_not_equal(out[0], a);
    }
    b->maintenance = c->maintenance = true;
    assert_int_equal(volume_growth_place(&g, l->placement, &anywhere, out, &count, reason, sizeof reason), DFS_ENOSPC);
    a->maintenance = false;
    report(a, 1, 1, 8, 0, 0);
    assert_int_equal(volume_growth_place(&g, l->placement, &anywhere, out, &count, reason, sizeof reason), 0);
    assert_ptr_equal(out[0], a);
    assert_int_equal(topology_find(&topology, 1)->writable_index >= 0, 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ids_are_valued_by_what_arrives), TEST(told_sizes_count_as_told), TEST(ids_never_used_do_not_count_for_ever),
        TEST(sums_do_not_wrap), TEST(no_id_is_handed_out_that_would_come_too_late), TEST(the_first_ids_may_be_large),
        TEST(a_lot_goes_where_all_of_it_fits), TEST(each_location_is_held_back_for_itself), TEST(copies_report_the_same_ids),
        TEST(a_wrong_estimate_does_not_eat_all_slots), TEST(who_takes_a_full_one_takes_one_that_may_not_be),
        TEST(places_are_crowded_each_for_itself), TEST(hope_ends_where_nothing_can_be_placed),
        TEST(a_node_in_maintenance_gets_nothing_new),
    };
    int rc;

    if (rand_init() != 0 || loop_new("test", &loop) != 0)
        return 1;
    rand_seed_for_tests(7);
    printf("seed 7\n");
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    loop_free(loop);
    return rc;
}
