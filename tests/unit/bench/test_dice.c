/* Distributions against what they are called after, from fixed seeds; size files of all kinds. */
#include "tests/unit/bench/unit.h"

#include <math.h>
#include <unistd.h>

#include "bench/dice.h"
#include "needle/err.h"

#define DRAWS 100000u

static int order(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void test_same_seed_same_choices(void **state)
{
    struct dice a = {42}, b = {42}, c = {43};
    uint32_t same = 0;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        uint64_t v = dice_u64(&a);
        assert_int_equal(v, dice_u64(&b));
        same += v == dice_u64(&c);
        double u = dice_unit(&a);
        assert_true(u >= 0 && u < 1 && u == dice_unit(&b));
    }
    assert_int_equal(same, 0);
}

/* Each rank as often as its share says, within five standard deviations. */
static void check_zipf(uint64_t n, double s, uint64_t seed)
{
    struct dice d = {seed};
    static uint32_t hits[1001];
    double total = 0;

    memset(hits, 0, sizeof hits);
    for (uint64_t k = 1; k <= n; k++)
        total += pow((double)k, -s);
    for (uint32_t i = 0; i < DRAWS; i++) {
        uint64_t k = dice_zipf(&d, n, s);
        assert_true(k >= 1 && k <= n);
        hits[k]++;
    }
    for (uint64_t k = 1; k <= n; k++) {
        double p = pow((double)k, -s) / total, want = p * DRAWS;
        if (fabs((double)hits[k] - want) > 5 * sqrt(want * (1 - p)) + 1)
            fail_msg("n %llu, exponent %g, rank %llu: %u times, wanted %.1f", (unsigned long long)n, s, (unsigned long long)k,
                     hits[k], want);
    }
}

static void test_zipf(void **state)
{
    static const double exponents[] = {0, 0.5, 0.99, 1, 1.2, 3};
    (void)state;
    for (size_t i = 0; i < sizeof exponents / sizeof exponents[0]; i++) {
        check_zipf(1, exponents[i], 1);
        check_zipf(2, exponents[i], 2);
        check_zipf(10, exponents[i], 3);
        check_zipf(1000, exponents[i], 4);
    }
    struct dice d = {5};
    for (int i = 0; i < 1000; i++)
        assert_true(dice_zipf(&d, 1000000000000u, 0.99) <= 1000000000000u);
}

static void test_log_normal(void **state)
{
    static uint64_t v[DRAWS];
    struct dice d = {11};
    struct sizes s;
    double logs = 0, squares = 0;

    (void)state;
    sizes_init(&s, 16384, 1, 1u << 30);
    assert_int_equal(s.max_bytes, (uint64_t)ceil(16384 * exp(4)));
    for (uint32_t i = 0; i < DRAWS; i++) {
        v[i] = sizes_next(&s, &d);
        assert_true(v[i] >= 1 && v[i] <= s.max_bytes);
        logs += log((double)v[i]);
        squares += log((double)v[i]) * log((double)v[i]);
    }
    qsort(v, DRAWS, sizeof v[0], order);
    assert_true(fabs(log((double)v[DRAWS / 2] / 16384)) < 0.01);
    assert_true(fabs(logs / DRAWS - log(16384)) < 0.01);
    assert_true(fabs(sqrt(squares / DRAWS - logs / DRAWS * (logs / DRAWS)) - 1) < 0.01);
    /* One deviation above the median: 84.13 % are smaller. */
    assert_true(fabs(log((double)v[(uint32_t)(DRAWS * 0.8413447)] / 16384) - 1) < 0.02);
    sizes_init(&s, 4096, 0, 1u << 30);
    assert_int_equal(sizes_next(&s, &d), 4096);
    sizes_init(&s, 4096, 5, 5000);
    assert_int_equal(s.max_bytes, 5000);
    for (int i = 0; i < 10000; i++)
        assert_in_range(sizes_next(&s, &d), 1, 5000);
}

static int read_sizes(const char *text, struct sizes *s, char error[SIZES_ERROR_MAX])
{
    char path[] = "/tmp/dfs-sizes-XXXXXX";
    int rc, fd = mkstemp(path);
    assert_true(fd != -1);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    rc = sizes_read(s, path, 1000000, error);
    unlink(path);
    return rc;
}

static void test_sizes_file(void **state)
{
    static const char *const bad[] = {"", "# nothing\n\n", "4096\n", "4096 x\n", "4096 1 2\n", "0 1\n", "1000001 1\n", "4096 -1\n",
                                      "4096 nan\n", "4096 inf\n", "4096 0\n", "x 1\n", "1 1\n4096 1e300\n"};
    char error[SIZES_ERROR_MAX];
    struct dice d = {12};
    struct sizes s;
    uint32_t small = 0, large = 0;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        error[0] = '\0';
        if (read_sizes(bad[i], &s, error) == 0)
            fail_msg("taken: '%s'", bad[i]);
        assert_true(error[0] != '\0');
        sizes_release(&s);
    }
    assert_true(sizes_read(&s, "/nonexistent/sizes", 1000, error) != 0);
    assert_int_equal(sizes_read(&s, "/dev/zero", 1000, error), DFS_ETOOBIG); /* it never ends */
    assert_int_equal(read_sizes("# made up\n\n100 3\n200 0\n70000 1", &s, error), 0);
    assert_int_equal(s.max_bytes, 70000);
    for (uint32_t i = 0; i < DRAWS; i++) {
        uint64_t v = sizes_next(&s, &d);
        small += v == 100;
        large += v == 70000;
    }
    assert_int_equal(small + large, DRAWS);
    assert_true(fabs((double)small / DRAWS - 0.75) < 0.005);
    sizes_release(&s);
    sizes_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_seed_same_choices),
        cmocka_unit_test(test_zipf),
        cmocka_unit_test(test_log_normal),
        cmocka_unit_test(test_sizes_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
