/* Blocks, rows and tables to the letter. */
#include "tests/unit/bench/unit.h"

#include "bench/record_report.h"

static void test_plan(void **state)
{
    struct record_plan p = {RECORD_RANDREAD, 16, 4096, 4096, 64 << 20, 50, 7};
    struct record_plan q = {RECORD_READ, 1, 4096, 65536, 1 << 20, 50, 7};
    struct text t;

    (void)state;
    record_report_plan(text_open(&t), &p, 1, 120);
    text_expect(&t, "blob records over HTTP, not a file system\n"
                    "a record is a whole needle, which an overwrite replaces; 16 jobs, each with 64 MiB of its own and one request "
                    "under way\n"
                    "records of 4 KiB, needles of 4 KiB, 262144 needles in all, 120 s, seed 7\n"
                    "this takes 5.1 MiB of memory in the client (20 bytes an id, and contents under way), 6 MiB in the servers' "
                    "indexes (24 bytes a needle and copy), 1.0 GiB on their disks (each copy; overwrites add to it)\n");
    record_report_plan(text_open(&t), &q, 4, 0);
    text_expect(&t, "blob records over HTTP, not a file system\n"
                    "a record is a range of a larger needle; 1 job, each with 1 MiB of its own and one request under way, in each of 4 "
                    "clients\n"
                    "records of 4 KiB, needles of 64 KiB, 64 needles in all, each record once, seed 7\n"
                    "this takes 64.3 KiB of memory in each client (20 bytes an id, and contents under way), 1.5 KiB in the servers' "
                    "indexes (24 bytes a needle and copy), 4.0 MiB on their disks (each copy; overwrites add to it)\n");
}

static void test_phase(void **state)
{
    struct run_phase p = {.name = "read", .seconds = 2, .completed = 1000, .failed = 3, .corrupt = 1, .bytes = 4096000};
    struct text t;

    (void)state;
    assert_int_equal(latency_init(&p.latency), 0);
    for (int i = 0; i < 1000; i++)
        latency_add(&p.latency, i < 500 ? 128 : i < 990 ? 200 : 250); /* of these the fine buckets know each */
    record_report_phase(text_open(&t), &p);
    text_expect(&t, "  read: IOPS=500.0, BW=1.95MiB/s (2.05MB/s)(3.9 MiB/2.000s), records=1000, failed=3, corrupt=1\n"
                    "    lat (usec): min=0.1, max=0.2, avg=0.16, stdev=0.04\n"
                    "    lat percentiles (usec): 50.00th=[0.1], 99.00th=[0.2], 99.90th=[0.2]\n");
    latency_release(&p.latency);
    p = (struct run_phase){.name = "write"};
    assert_int_equal(latency_init(&p.latency), 0);
    record_report_phase(text_open(&t), &p);
    text_expect(&t, "  write: IOPS=0.0, BW=0.00MiB/s (0.00MB/s)(0 B/0.000s), records=0, failed=0, corrupt=0\n"
                    "    lat (usec): min=0.0, max=0.0, avg=0.00, stdev=0.00\n"
                    "    lat percentiles (usec): 50.00th=[0.0], 99.00th=[0.0], 99.90th=[0.0]\n");
    latency_release(&p.latency);
}

static void test_ops(void **state)
{
    static const struct record_ops_row rows[] = {{"write", 3703.4, 3718, 230, 260.5}, {"random read", 10479.6, 10500, 690, 710}};
    struct text t;

    (void)state;
    record_report_ops(text_open(&t), rows, 2, 15, 32768);
    text_expect(&t, "\noperations a second, records of 32 KiB, 15 jobs; parent: all operations by the time from the first begin to the "
                    "last end\n"
                    "                  parent sees    sum of jobs    slowest job    fastest job\n"
                    "write                 3703.40        3718.00         230.00         260.50\n"
                    "random read          10479.60       10500.00         690.00         710.00\n"
                    "\n"
                    "write | random read\n"
                    "3703 | 10480\n");
}

static void test_grid(void **state)
{
    static const uint32_t clients[] = {1, 2}, processes[] = {1, 64};
    struct run_result r;
    struct run_grid *g;
    struct text t;

    (void)state;
    run_result_init(&r);
    assert_int_equal(run_result_add_grid(&r, "randread 4 KiB", clients, 2, processes, 2, &g), 0);
    *run_grid_cell(g, 0, 0) = (struct run_cell){true, 15.5 * 1048576, 3979, 250.72, 400};
    *run_grid_cell(g, 1, 1) = (struct run_cell){true, 926.25 * 1048576, 237000, 558.01, 900};
    record_report_grid(text_open(&t), g);
    text_expect(&t, "\nrandread 4 KiB: BW (MiB/s)\n"
                    "clients \\ processes             1           64\n"
                    "1                           15.50            -\n"
                    "2                               -       926.25\n"
                    "\nrandread 4 KiB: IOPS\n"
                    "clients \\ processes             1           64\n"
                    "1                            3979            -\n"
                    "2                               -       237000\n"
                    "\nrandread 4 KiB: latency (us)\n"
                    "clients \\ processes             1           64\n"
                    "1                          250.72            -\n"
                    "2                               -       558.01\n");
    run_result_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan), cmocka_unit_test(test_phase), cmocka_unit_test(test_ops), cmocka_unit_test(test_grid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
