/* A mix played without a store: what is read is there, what is deleted is not read, shares come out. */
#include "tests/unit/bench/unit.h"

#include <math.h>

#include "bench/mix_source.h"
#include "needle/err.h"

#define SLOTS 32u
#define STEPS 200000u
#define KEYS_MAX 200000u

static void test_shares(void **state)
{
    static const char *const bad[] = {"", "1", "1:2", "1:2:3:4", "a:b:c", "-1:2:3", "1:-2:3", "0:0:0", "1:2:3x", "2000000:1:1"};
    uint32_t v[3];

    (void)state;
    assert_true(mix_parse_shares("70:25:5", v) && v[0] == 70 && v[1] == 25 && v[2] == 5);
    assert_true(mix_parse_shares("0:1:0", v) && v[0] == 0 && v[1] == 1 && v[2] == 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (mix_parse_shares(bad[i], v))
            fail_msg("taken: '%s'", bad[i]);
}

enum { NEVER, LIVE, GONE };

struct world {
    uint8_t state[KEYS_MAX];
    uint32_t readers[KEYS_MAX];
    uint64_t sizes[KEYS_MAX];
    uint64_t keys, counts[LOAD_KINDS], live;
};

static void begin(struct world *w, const struct load_op *op)
{
    uint64_t key = op->fid.key;
    w->counts[op->kind]++;
    if (op->kind == LOAD_WRITE)
        return;
    assert_true(key < w->keys && w->state[key] == LIVE);
    if (op->kind == LOAD_READ) {
        assert_int_equal(op->size_bytes, w->sizes[key]);
        w->readers[key]++;
        return;
    }
    assert_int_equal(w->readers[key], 0);
    w->state[key] = GONE;
    w->live--;
}

static void end(struct world *w, struct load_op *op, int rc)
{
    if (op->kind == LOAD_READ)
        w->readers[op->fid.key]--;
    if (op->kind == LOAD_DELETE && rc != 0) {
        w->state[op->fid.key] = LIVE;
        w->live++;
    }
    if (op->kind != LOAD_WRITE || rc != 0)
        return;
    op->fid = (struct fid){1, 2, w->keys++};
    assert_true(w->keys < KEYS_MAX);
    w->state[op->fid.key] = LIVE;
    w->sizes[op->fid.key] = op->size_bytes;
    w->live++;
}

static void play(const char *shares, uint64_t preload, uint64_t seed, uint32_t fail_every)
{
    static struct world w;
    struct load_op ops[SLOTS];
    bool busy[SLOTS] = {false};
    struct sizes sizes;
    struct mix_source s = {.sizes = &sizes, .zipf = 0.99, .preload = preload, .dice = {seed}};
    struct load_source load;
    struct load_op op;

    memset(&w, 0, sizeof w);
    sizes_init(&sizes, 1000, 1, 1u << 20);
    assert_true(mix_parse_shares(shares, s.shares));
    load = mix_preload_source(&s);
    while (memset(&op, 0, sizeof op), load.next(load.arg, 0, &op) == LOAD_DO) {
        begin(&w, &op);
        end(&w, &op, 0);
        load.done(load.arg, 0, &op, 0, 0);
    }
    assert_int_equal(w.live, preload);
    memset(w.counts, 0, sizeof w.counts);
    load = mix_load_source(&s);
    for (uint32_t i = 0; i < STEPS; i++) {
        uint32_t slot = (uint32_t)(next_random(&seed) % SLOTS);
        if (busy[slot]) {
            int rc = fail_every != 0 && i % fail_every == 0 ? DFS_EIO : 0;
            end(&w, &ops[slot], rc);
            load.done(load.arg, slot, &ops[slot], rc, 0);
        } else {
            memset(&ops[slot], 0, sizeof ops[slot]);
            assert_int_equal(load.next(load.arg, slot, &ops[slot]), LOAD_DO);
            begin(&w, &ops[slot]);
        }
        busy[slot] = !busy[slot];
        assert_int_equal(s.live_count, w.live);
    }
    if (preload > 0 && s.shares[1] >= s.shares[2]) {
        double all = (double)(w.counts[LOAD_READ] + w.counts[LOAD_WRITE] + w.counts[LOAD_DELETE]);
        double sum = s.shares[0] + s.shares[1] + s.shares[2];
        assert_true(fabs((double)w.counts[LOAD_READ] / all - s.shares[0] / sum) < 0.01);
        assert_true(fabs((double)w.counts[LOAD_DELETE] / all - s.shares[2] / sum) < 0.01);
    }
    mix_source_release(&s);
}

static void test_play(void **state)
{
    (void)state;
    play("70:25:5", 1000, 1, 0);
    play("1:1:1", 1000, 2, 0);
    play("0:1:0", 0, 3, 0);
    play("1:0:0", 1, 4, 0);
    play("0:1:20", 100, 5, 0);
    play("70:25:5", 0, 6, 0);
    play("10:10:10", 100, 7, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_play),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
