/* Jobs without a store: what each is told to do next, and what it remembers of how that ended. */
#include "tests/unit/bench/unit.h"

#include "bench/record_set.h"
#include "needle/err.h"

#define JOBS 3u
#define NEEDLES 50u

static struct record_set *set_of(enum record_rw rw, uint64_t needle_bytes)
{
    struct record_plan p = {.rw = rw, .jobs = JOBS, .record_bytes = 1000, .needle_bytes = needle_bytes,
                            .file_bytes = NEEDLES * (needle_bytes != 0 ? needle_bytes : 1000), .read_percent = 80, .seed = 5};
    char error[RECORD_ERROR_MAX];
    struct record_set *s = NULL;

    assert_int_equal(record_plan_check(&p, error), 0);
    assert_int_equal(record_set_new(&p, &s), 0);
    return s;
}

static struct fid fid_for(uint32_t job, uint64_t needle)
{
    return (struct fid){job + 1, (uint32_t)needle * 3 + 1, 0x100000000ull * (job + 1) + needle};
}

/* Does what a job is told, all of it well; returns how many operations that were. */
static uint32_t do_all(struct record_set *s, uint32_t job, uint32_t limit, struct load_op *ops)
{
    struct load_source src = record_set_source(s);
    uint32_t n = 0;

    while (n < limit) {
        struct load_op op = {0};
        if (src.next(src.arg, job, &op) == LOAD_NO_MORE)
            break;
        if (op.kind == LOAD_WRITE)
            op.fid = fid_for(job, op.token);
        src.done(src.arg, job, &op, 0, n + 1);
        if (ops != NULL)
            ops[n] = op;
        n++;
    }
    return n;
}

static void fill(struct record_set *s)
{
    record_set_begin(s, RECORD_FILL, JOBS, false);
    for (uint32_t j = 0; j < JOBS; j++)
        assert_int_equal(do_all(s, j, 1000, NULL), NEEDLES);
    assert_int_equal(record_set_present(s), JOBS * NEEDLES);
}

static void test_fill_writes_what_is_not_there(void **state)
{
    struct record_set *s = set_of(RECORD_RANDREAD, 0);
    struct load_source src = record_set_source(s);
    struct load_op op = {0};

    (void)state;
    record_set_begin(s, RECORD_FILL, JOBS, false);
    for (uint32_t i = 0; i < NEEDLES; i++) {
        op = (struct load_op){0};
        assert_int_equal(src.next(src.arg, 0, &op), LOAD_DO);
        assert_int_equal(op.kind, LOAD_WRITE);
        assert_int_equal(op.size_bytes, 1000);
        assert_int_equal(op.token, i);
        op.fid = fid_for(0, i);
        src.done(src.arg, 0, &op, i % 10 == 3 ? DFS_EPROTO : 0, 1);
    }
    assert_int_equal(src.next(src.arg, 0, &op), LOAD_NO_MORE);
    assert_int_equal(record_set_present(s), NEEDLES - NEEDLES / 10);
    record_set_begin(s, RECORD_FILL, 1, false);
    assert_int_equal(do_all(s, 0, 1000, NULL), NEEDLES / 10);
    assert_int_equal(src.next(src.arg, 1, &op), LOAD_NO_MORE); /* takes no part */
    assert_int_equal(record_set_present(s), NEEDLES);
    record_set_free(s);
}

static void test_sequential_pass_is_in_order(void **state)
{
    struct record_set *s = set_of(RECORD_READ, 0);
    struct load_op ops[2 * NEEDLES + 7];

    (void)state;
    fill(s);
    record_set_begin(s, RECORD_SEQ_READ, JOBS, true);
    assert_int_equal(do_all(s, 1, 1000, ops), NEEDLES);
    for (uint32_t i = 0; i < NEEDLES; i++) {
        assert_int_equal(ops[i].kind, LOAD_READ);
        assert_int_equal(ops[i].token, i);
        assert_int_equal(ops[i].length_bytes, 0);
        struct fid want = fid_for(1, i);
        assert_memory_equal(&ops[i].fid, &want, sizeof want);
    }
    /* without `once`, over and over */
    record_set_begin(s, RECORD_SEQ_READ, JOBS, false);
    assert_int_equal(do_all(s, 1, 2 * NEEDLES + 7, ops), 2 * NEEDLES + 7);
    for (uint32_t i = 0; i < 2 * NEEDLES + 7; i++)
        assert_int_equal(ops[i].token, i % NEEDLES);
    record_set_free(s);
}

static void test_random_passes_cover(void **state)
{
    struct record_set *s = set_of(RECORD_RANDREAD, 0);
    struct load_op ops[3 * NEEDLES];
    uint32_t same_place = 0;

    (void)state;
    fill(s);
    record_set_begin(s, RECORD_RANDOM_READ, JOBS, false);
    assert_int_equal(do_all(s, 2, 3 * NEEDLES, ops), 3 * NEEDLES);
    for (uint32_t pass = 0; pass < 3; pass++) {
        uint32_t seen[NEEDLES] = {0};
        for (uint32_t i = 0; i < NEEDLES; i++)
            seen[ops[pass * NEEDLES + i].token]++;
        for (uint32_t i = 0; i < NEEDLES; i++)
            assert_int_equal(seen[i], 1);
    }
    for (uint32_t i = 0; i < NEEDLES; i++)
        same_place += ops[i].token == ops[NEEDLES + i].token;
    assert_true(same_place < NEEDLES / 2); /* each pass in another order */
    record_set_begin(s, RECORD_RANDOM_READ, JOBS, true);
    assert_int_equal(do_all(s, 2, 1000, NULL), NEEDLES);
    record_set_free(s);
}

/* Of larger needles, each record is a range of its own, and all of them together are the file. */
static void test_ranges(void **state)
{
    struct record_set *s = set_of(RECORD_RANDREAD, 4000);
    struct load_op ops[4 * NEEDLES];
    uint32_t seen[4 * NEEDLES] = {0};

    (void)state;
    fill(s);
    record_set_begin(s, RECORD_RANDOM_READ, JOBS, true);
    assert_int_equal(do_all(s, 0, 1000, ops), 4 * NEEDLES);
    for (uint32_t i = 0; i < 4 * NEEDLES; i++) {
        assert_int_equal(ops[i].size_bytes, 4000);
        assert_int_equal(ops[i].length_bytes, 1000);
        assert_int_equal(ops[i].offset_bytes % 1000, 0);
        assert_true(ops[i].offset_bytes < 4000);
        seen[ops[i].token * 4 + ops[i].offset_bytes / 1000]++;
    }
    for (uint32_t i = 0; i < 4 * NEEDLES; i++)
        assert_int_equal(seen[i], 1);
    record_set_free(s);
}

/* An overwrite keeps id and cookie; a read wants the version that was written last, and after a failed overwrite any. */
static void test_versions(void **state)
{
    struct record_set *s = set_of(RECORD_RANDRW, 0);
    struct load_source src = record_set_source(s);
    struct load_op op = {0};

    (void)state;
    fill(s);
    for (uint32_t pass = 1; pass <= 3; pass++) {
        record_set_begin(s, RECORD_SEQ_OVERWRITE, 1, true);
        for (uint32_t i = 0; i < NEEDLES; i++) {
            op = (struct load_op){0};
            assert_int_equal(src.next(src.arg, 0, &op), LOAD_DO);
            assert_int_equal(op.kind, LOAD_OVERWRITE);
            assert_int_equal(op.version, pass);
            assert_int_equal(op.fid.cookie, i * 3 + 1);
            assert_int_equal(op.fid.key, 0x100000000ull + i);
            src.done(src.arg, 0, &op, pass == 2 && i == 7 ? DFS_ETIMEOUT : 0, 1);
        }
        record_set_begin(s, RECORD_SEQ_READ, 1, true);
        for (uint32_t i = 0; i < NEEDLES; i++) {
            op = (struct load_op){0};
            assert_int_equal(src.next(src.arg, 0, &op), LOAD_DO);
            assert_int_equal(op.version, pass);
            assert_int_equal(op.no_verify, pass == 2 && i == 7);
            src.done(src.arg, 0, &op, 0, 1);
        }
    }
    record_set_free(s);
}

static void test_mix_has_its_shares(void **state)
{
    struct record_set *s = set_of(RECORD_RANDRW, 0);
    static struct load_op ops[10000];
    uint32_t reads = 0;

    (void)state;
    fill(s);
    record_set_begin(s, RECORD_RANDOM_MIX, JOBS, false);
    assert_int_equal(do_all(s, 0, 10000, ops), 10000);
    for (uint32_t i = 0; i < 10000; i++) {
        assert_true(ops[i].kind == LOAD_READ || ops[i].kind == LOAD_OVERWRITE);
        reads += ops[i].kind == LOAD_READ;
    }
    assert_in_range(reads, 7800, 8200);
    record_set_free(s);
}

static void test_delete_then_nothing(void **state)
{
    struct record_set *s = set_of(RECORD_RANDREAD, 0);
    struct load_source src = record_set_source(s);
    struct load_op op = {0};
    struct fid fid;

    (void)state;
    record_set_begin(s, RECORD_SEQ_READ, JOBS, false);
    assert_int_equal(src.next(src.arg, 0, &op), LOAD_NO_MORE); /* nothing was written */
    fill(s);
    assert_true(record_set_fid(s, 1, 4, &fid));
    record_set_begin(s, RECORD_DELETE, JOBS, false);
    for (uint32_t j = 0; j < JOBS; j++)
        assert_int_equal(do_all(s, j, 1000, NULL), NEEDLES);
    assert_int_equal(record_set_present(s), 0);
    assert_false(record_set_fid(s, 1, 4, &fid));
    record_set_begin(s, RECORD_DELETE, JOBS, false);
    assert_int_equal(src.next(src.arg, 0, &op), LOAD_NO_MORE);
    record_set_free(s);
}

static void test_stop(void **state)
{
    struct record_set *s = set_of(RECORD_RANDREAD, 0);
    struct load_source src = record_set_source(s);
    struct load_op op = {0};

    (void)state;
    fill(s);
    record_set_begin(s, RECORD_RANDOM_READ, JOBS, false);
    assert_int_equal(src.next(src.arg, 0, &op), LOAD_DO);
    record_set_stop(s);
    assert_int_equal(src.next(src.arg, 0, &op), LOAD_NO_MORE);
    record_set_begin(s, RECORD_SEQ_READ, JOBS, false);
    assert_int_equal(src.next(src.arg, 0, &op), LOAD_NO_MORE);
    record_set_resume(s);
    op = (struct load_op){0};
    assert_int_equal(src.next(src.arg, 0, &op), LOAD_DO);
    record_set_free(s);
}

static void test_steps(void **state)
{
    enum record_step step;

    (void)state;
    for (int i = 0; i < RECORD_STEPS; i++) {
        assert_int_equal(record_step_parse(bytes_str(record_step_name((enum record_step)i)), &step), 0);
        assert_int_equal(step, i);
    }
    assert_int_equal(record_step_parse(bytes_str("format"), &step), DFS_EINVAL);
    assert_int_equal(record_step_of(RECORD_WRITE), RECORD_FILL);
    assert_int_equal(record_step_of(RECORD_RANDWRITE), RECORD_RANDOM_OVERWRITE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fill_writes_what_is_not_there), cmocka_unit_test(test_sequential_pass_is_in_order),
        cmocka_unit_test(test_random_passes_cover), cmocka_unit_test(test_ranges), cmocka_unit_test(test_versions),
        cmocka_unit_test(test_mix_has_its_shares), cmocka_unit_test(test_delete_then_nothing), cmocka_unit_test(test_stop),
        cmocka_unit_test(test_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
