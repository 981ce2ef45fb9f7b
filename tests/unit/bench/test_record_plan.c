/* Plans of the records mode: what is refused, what they take, and lists of numbers. */
#include "tests/unit/bench/unit.h"

#include "bench/record_plan.h"
#include "needle/err.h"

static struct record_plan plan_of(enum record_rw rw, uint32_t jobs, uint64_t record, uint64_t needle, uint64_t file)
{
    return (struct record_plan){.rw = rw, .jobs = jobs, .record_bytes = record, .needle_bytes = needle, .file_bytes = file};
}

static void test_check(void **state)
{
    static const struct {
        struct record_plan plan;
        int rc;
    } cases[] = {
        {{RECORD_READ, 1, 4096, 0, 4096, 50, 1}, 0},
        {{RECORD_READ, RECORD_JOBS_MAX, 4096, 0, 1 << 20, 50, 1}, 0},
        {{RECORD_READ, 0, 4096, 0, 4096, 50, 1}, DFS_EINVAL},
        {{RECORD_READ, RECORD_JOBS_MAX + 1, 4096, 0, 4096, 50, 1}, DFS_EINVAL},
        {{RECORD_READ, 1, 0, 0, 4096, 50, 1}, DFS_EINVAL},
        {{RECORD_READ, 1, 4096, 0, 4095, 50, 1}, DFS_EINVAL},
        {{RECORD_READ, 1, RECORD_BYTES_MAX + 1, 0, 1ull << 40, 50, 1}, DFS_EINVAL},
        {{RECORD_READ, 1, 4096, 65536, 65536, 50, 1}, 0},
        {{RECORD_READ, 1, 4096, 65537, 1 << 20, 50, 1}, DFS_EINVAL},
        {{RECORD_RANDREAD, 1, 4096, 65536, 1 << 20, 50, 1}, 0},
        {{RECORD_WRITE, 1, 4096, 65536, 1 << 20, 50, 1}, DFS_EINVAL},
        {{RECORD_RANDWRITE, 1, 4096, 65536, 1 << 20, 50, 1}, DFS_EINVAL},
        {{RECORD_RANDRW, 1, 4096, 65536, 1 << 20, 50, 1}, DFS_EINVAL},
        {{RECORD_RANDRW, 1, 4096, 4096, 1 << 20, 100, 1}, 0},
        {{RECORD_RANDRW, 1, 4096, 4096, 1 << 20, 101, 1}, DFS_EINVAL},
        {{RECORD_RWS, 1, 4096, 0, 1 << 20, 50, 1}, DFS_EINVAL},
        {{RECORD_READ, 1024, RECORD_BYTES_MAX, 0, RECORD_BYTES_MAX, 50, 1}, DFS_ETOOBIG},
        {{RECORD_READ, 1, 1, 0, UINT64_MAX, 50, 1}, DFS_ETOOBIG},
        {{RECORD_READ, 1024, 1, 0, (1ull << 22) + 1, 50, 1}, DFS_ETOOBIG},
        {{RECORD_READ, 1024, 1, 0, 1ull << 22, 50, 1}, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct record_plan p = cases[i].plan;
        char error[RECORD_ERROR_MAX] = "";
        assert_int_equal(record_plan_check(&p, error), cases[i].rc);
        assert_int_equal(error[0] != '\0', cases[i].rc != 0);
    }
}

static void test_rounds_down(void **state)
{
    struct record_plan p = plan_of(RECORD_READ, 3, 1000, 0, 10999), q = plan_of(RECORD_READ, 2, 4096, 16384, 40000);
    char error[RECORD_ERROR_MAX];

    (void)state;
    assert_int_equal(record_plan_check(&p, error), 0);
    assert_int_equal(p.needle_bytes, 1000);
    assert_int_equal(p.file_bytes, 10000);
    assert_int_equal(record_plan_needles(&p), 10);
    assert_int_equal(record_plan_records(&p), 10);
    assert_int_equal(record_plan_check(&q, error), 0);
    assert_int_equal(q.file_bytes, 32768);
    assert_int_equal(record_plan_needles(&q), 2);
    assert_int_equal(record_plan_records(&q), 8);
}

static void test_need(void **state)
{
    struct record_plan p = plan_of(RECORD_READ, 16, 4096, 4096, 64 << 20);
    struct record_need n = record_plan_need(&p);
    char error[RECORD_ERROR_MAX] = "";

    (void)state;
    assert_int_equal(n.needles, 16 * 16384);
    assert_int_equal(n.client_bytes, 16 * 16384 * RECORD_CLIENT_BYTES + 16 * 4096);
    assert_int_equal(n.index_bytes, 16 * 16384 * RECORD_INDEX_BYTES);
    assert_true(n.disk_bytes > 1ull << 30);
    assert_int_equal(record_need_fits(&n, n.client_bytes, false, error), 0);
    assert_int_equal(record_need_fits(&n, n.client_bytes - 1, false, error), DFS_ENOMEM);
    assert_non_null(strstr(error, "262144 needles need"));
    assert_null(strchr(error, '\n'));
    assert_int_equal(record_need_fits(&n, n.client_bytes, true, error), DFS_ENOMEM);
    assert_int_equal(record_need_fits(&n, n.client_bytes + n.index_bytes, true, error), 0);
    assert_int_equal(record_need_fits(&n, 0, true, error), 0);
}

static void test_lists(void **state)
{
    static const char *const bad[] = {"", ",", "1,", ",1", "0", "1,0", "1025", "1,1025", "a", "1 ,2", "1,,2", "-1", "+1", "1.5",
                                      "18446744073709551617", "99999999999999999999999999"};
    uint32_t out[RECORD_LIST_MAX] = {7}, n = 99;
    char many[RECORD_LIST_MAX * 2 + 3] = "";

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(record_list_parse(bytes_str(bad[i]), 1024, out, &n), DFS_EINVAL);
    assert_int_equal(out[0], 7); /* untouched by what failed */
    assert_int_equal(n, 99);
    assert_int_equal(record_list_parse(bytes_str("1,4,16,64"), 1024, out, &n), 0);
    assert_int_equal(n, 4);
    assert_int_equal(out[0] * 1000000 + out[1] * 10000 + out[2] * 100 + out[3], 1041664);
    assert_int_equal(record_list_parse(bytes_str("1024"), 1024, out, &n), 0);
    assert_int_equal(n, 1);
    for (uint32_t i = 0; i < RECORD_LIST_MAX; i++)
        memcpy(many + 2 * i, "1,", 3);
    many[2 * RECORD_LIST_MAX - 1] = '\0';
    assert_int_equal(record_list_parse(bytes_str(many), 1024, out, &n), 0);
    assert_int_equal(n, RECORD_LIST_MAX);
    memcpy(many + 2 * RECORD_LIST_MAX - 1, ",1", 3);
    assert_int_equal(record_list_parse(bytes_str(many), 1024, out, &n), DFS_EINVAL);
}

static void test_texts(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {{0, "0 B"}, {1000, "1000 B"}, {1023, "1023 B"}, {1024, "1 KiB"}, {4096, "4 KiB"}, {1536, "1.5 KiB"},
                 {64 << 20, "64 MiB"}, {1610612736, "1.5 GiB"}, {UINT64_MAX, "16384 PiB"}};
    char out[RECORD_SIZE_TEXT_MAX];
    enum record_rw rw;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(record_size_text(cases[i].bytes, out), cases[i].text);
    for (int i = 0; i < RECORD_RWS; i++) {
        assert_int_equal(record_rw_parse(bytes_str(record_rw_name((enum record_rw)i)), &rw), 0);
        assert_int_equal(rw, i);
    }
    assert_int_equal(record_rw_parse(bytes_str("trim"), &rw), DFS_EINVAL);
    assert_int_equal(record_rw_parse(bytes_str(""), &rw), DFS_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check), cmocka_unit_test(test_rounds_down), cmocka_unit_test(test_need),
        cmocka_unit_test(test_lists), cmocka_unit_test(test_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
