/* The benchmark's main thread: checks first, then phase after phase, a line a second, the report. */
#include "bench/benchmark.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench/benchmark_run.h"
#include "bench/client_size.h"
#include "bench/list_file.h"
#include "bench/payload.h"
#include "bench/progress.h"
#include "bench/sync_client.h"
#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"
#include "net/rand.h"

#define CONCURRENCY_MAX 10000u
#define OBJECT_BYTES_MAX 2146435072u
#define LIST_NAME "benchmark_list.txt"

const char *benchmark_version_text = "unknown";

struct bench {
    struct bench_run run;
    struct benchmark_options o; /* as given, with write and read decided */
    struct worker *workers[CLIENT_LOOPS_MAX];
    uint32_t worker_count;
    uint64_t connections; /* to one address, of all workers */
    struct list_file list_out;
    struct list list;
    uint64_t acknowledged; /* writes of this run */
    FILE *json, *profile;
    struct run_output drawings;
    struct progress bar;
};

void benchmark_options_init(struct benchmark_options *o)
{
    *o = (struct benchmark_options){
        .server = "127.0.0.1:9333",
        .concurrency = 16,
        .count = 1048576,
        .size_bytes = 1024,
        .list = "",
        .write = true,
        .read = true,
        .collection = "benchmark",
        .replication = "",
        .ttl = "",
        .disk = "",
        .assign_batch = 1,
        .json = "",
        .csv = "",
        .svg = "",
        .label = "",
        .timeout_ms = 60000,
        .cpuprofile = "",
    };
}

static bool complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static bool complain(const char *fmt, ...)
{
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    fprintf(stderr, "dfs benchmark: %s\n", line);
    return false;
}

/* ---- checks ---- */

static bool check_options(struct bench *b)
{
    struct benchmark_options *o = &b->o;
    o->write = o->write && !o->read_only;
    o->read = o->read && !o->write_only;
    if (!o->write && !o->read)
        return complain("nothing to do: neither to write nor to read was asked for");
    if (o->concurrency == 0 || o->concurrency > CONCURRENCY_MAX)
        return complain("-c %u is not between 1 and %u", o->concurrency, CONCURRENCY_MAX);
    if (o->size_bytes > OBJECT_BYTES_MAX)
        return complain("-size %" PRIu64 " is more than %u", o->size_bytes, OBJECT_BYTES_MAX);
    if (o->write && (o->size_bytes + PAYLOAD_EXTRA_MAX) * o->concurrency > BENCH_BODIES_MAX)
        return complain("-c %u times -size %" PRIu64 " is more than %llu MB of objects under way at once", o->concurrency,
                        o->size_bytes, BENCH_BODIES_MAX >> 20);
    if (o->timeout_ms == 0)
        o->timeout_ms = 60000;
    return true;
}

static bool plan_connections(struct bench *b)
{
    uint64_t least, limit;

    b->connections = client_connections(b->o.concurrency, &least, &limit);
    if (b->connections > 0)
        return true;
    return complain("-c %u needs %" PRIu64 " open files and the limit is %" PRIu64 ": raise it with `ulimit -n`",
                    b->o.concurrency, least, limit);
}

static bool open_output(const char *path, const char *what, FILE **out)
{
    if (path == NULL || path[0] == '\0')
        return true;
    *out = fopen(path, "we");
    return *out != NULL || complain("cannot write %s '%s': %s", what, path, strerror(errno));
}

static bool open_drawings(struct bench *b)
{
    char error[RUN_OUTPUT_ERROR_MAX];
    return run_output_open(&b->drawings, "", b->o.csv, b->o.svg, error) == 0 || complain("%s", error);
}

static void name_list(struct bench *b)
{
    const char *tmp = getenv("TMPDIR");
    if (b->o.list != NULL && b->o.list[0] != '\0')
        snprintf(b->run.list, sizeof b->run.list, "%s", b->o.list);
    else
        snprintf(b->run.list, sizeof b->run.list, "%s/%s", tmp != NULL && tmp[0] != '\0' ? tmp : "/tmp", LIST_NAME);
}

/* Any answer of any master will do: asked for a volume that cannot be. */
static bool reach_master(const struct bench *b)
{
    char error[SYNC_ERROR_MAX];
    const struct addr *addr;
    struct sync_client *c;
    int rc = sync_client_new(b->o.server, b->o.timeout_ms, b->o.use_public_url, &c, error);
    if (rc != 0)
        return complain("%s", error);
    rc = sync_lookup(c, 0, &addr, error);
    sync_client_free(c);
    return rc == 0 || rc == DFS_ENOTFOUND || complain("%s", error);
}

static bool prepare_list(struct bench *b)
{
    char error[LIST_FILE_ERROR_MAX];
    if (b->o.write)
        return list_file_create(&b->list_out, b->run.list, b->o.size_bytes, error) == 0 || complain("%s", error);
    if (list_read(&b->list, b->run.list, error) != 0)
        return complain("%s", error);
    return b->list.count > 0 || complain("list '%s' has no ids to read", b->run.list);
}

static bool make_workers(struct bench *b)
{
    char error[BENCH_ERROR_MAX];
    uint32_t slots = b->o.concurrency, loops = client_loops(b->o.loops, slots);

    b->run.cores = client_cores();
    b->run.loops = loops;
    for (uint32_t i = 0; i < loops; i++) {
        uint32_t share = slots / loops + (i < slots % loops ? 1 : 0);
        uint32_t connections = (uint32_t)(b->connections * share / slots);
        if (worker_new(&b->o, (int)i, share, connections > 0 ? connections : 1, &b->workers[i], error) != 0)
            return complain("%s", error);
        b->worker_count++;
    }
    return true;
}

static bool prepare(struct bench *b)
{
    name_list(b);
    if (rand_init() != 0)
        return complain("cannot start the random number generator");
    return check_options(b) && plan_connections(b) && reach_master(b) && prepare_list(b) &&
           open_output(b->o.json, "report", &b->json) && open_drawings(b) &&
           open_output(b->o.cpuprofile, "profile", &b->profile) &&
           make_workers(b);
}

/* ---- a phase ---- */

static struct worker_counts sum_counts(const struct bench *b)
{
    struct worker_counts sum = {0};
    for (uint32_t i = 0; i < b->worker_count; i++) {
        struct worker_counts c = worker_counts(b->workers[i]);
        sum.completed += c.completed;
        sum.failed += c.failed;
        sum.corrupt += c.corrupt;
        sum.transferred_bytes += c.transferred_bytes;
        sum.deletes += c.deletes;
        sum.acknowledged += c.acknowledged;
    }
    return sum;
}

/* Without memory for it a second is missing in the report for machines only. */
static void series_add(struct bench_outcome *out, const struct bench_second *s)
{
    if (out->series_n == out->series_cap) {
        size_t cap = out->series_cap == 0 ? 128 : out->series_cap * 2;
        struct bench_second *p = realloc(out->series, cap * sizeof *p);
        if (p == NULL)
            return;
        out->series = p;
        out->series_cap = cap;
    }
    out->series[out->series_n++] = *s;
}

struct tick {
    struct worker_counts last;
    uint64_t last_ns;
};

/* One second is over. */
static void on_tick(struct bench *b, const struct bench_phase *p, struct bench_outcome *out, struct tick *t)
{
    uint64_t now = clock_mono_ns();
    struct worker_counts c = sum_counts(b);
    struct report_progress line = {
        .completed = c.completed,
        .last_completed = t->last.completed,
        .transferred_bytes = c.transferred_bytes,
        .last_transferred_bytes = t->last.transferred_bytes,
        .total = p->total + c.deletes,
        .interval_s = (double)(now - t->last_ns) / 1e9,
    };
    struct bench_second second = {
        .seconds = line.interval_s,
        .completed = c.completed - t->last.completed,
        .failed = c.failed - t->last.failed,
        .bytes = c.transferred_bytes - t->last.transferred_bytes,
    };
    progress_clear(&b->bar);
    report_progress_line(stdout, &line);
    fflush(stdout);
    bench_draw_progress(&b->bar, p, &c, &second, (double)(now - p->start_ns) / 1e9);
    series_add(out, &second);
    t->last = c;
    t->last_ns = now;
}

/* Until the last worker has ended; a line at the end of each second since the start. */
static void watch(struct bench *b, struct bench_phase *p, struct bench_outcome *out)
{
    struct tick t = {.last_ns = p->start_ns};
    uint64_t due_ns = p->start_ns + 1000000000u;

    while (__atomic_load_n(&p->running, __ATOMIC_ACQUIRE) > 0) {
        uint64_t now = clock_mono_ns();
        struct pollfd fd = {.fd = p->ended_fd, .events = POLLIN};
        struct timespec left = {0};
        if (now >= due_ns) {
            on_tick(b, p, out, &t);
            while (due_ns <= now)
                due_ns += 1000000000u;
            continue;
        }
        left.tv_sec = (time_t)((due_ns - now) / 1000000000u);
        left.tv_nsec = (long)((due_ns - now) % 1000000000u);
        ppoll(&fd, 1, &left, NULL);
    }
    /* The last worker may still be on its way to say so. */
    struct pollfd fd = {.fd = p->ended_fd, .events = POLLIN};
    uint64_t ended;
    while (read(p->ended_fd, &ended, sizeof ended) == -1 && (errno == EAGAIN || errno == EINTR))
        poll(&fd, 1, -1);
    progress_clear(&b->bar);
}

/* What each phase leaves, for both reports. */
static bool gather(struct bench *b, const struct bench_phase *p, struct bench_outcome *out)
{
    struct worker_counts c = sum_counts(b);
    uint64_t end_ns = p->start_ns, busiest_ns = 0;

    if (latency_init(&out->latency) != 0)
        return complain("%s", dfs_err_text(DFS_ENOMEM));
    for (uint32_t i = 0; i < b->worker_count; i++) {
        if (latency_merge(&out->latency, worker_latency(b->workers[i])) != 0)
            return complain("%s", dfs_err_text(DFS_ENOMEM));
        if (worker_end_ns(b->workers[i]) > end_ns)
            end_ns = worker_end_ns(b->workers[i]);
        if (worker_cpu_ns(b->workers[i]) > busiest_ns)
            busiest_ns = worker_cpu_ns(b->workers[i]);
    }
    out->result = (struct report_result){
        .phase = p->kind,
        .concurrency = b->o.concurrency,
        .completed = c.completed,
        .failed = c.failed + p->abandoned,
        .transferred_bytes = c.transferred_bytes,
        .seconds = (double)(end_ns - p->start_ns) / 1e9,
    };
    if (end_ns > p->start_ns)
        out->busiest_loop = (double)busiest_ns / (double)(end_ns - p->start_ns);
    out->requests = p->total;
    out->deletes = c.deletes;
    out->corrupt = c.corrupt;
    memcpy(out->first_error, p->first_error, sizeof out->first_error);
    return true;
}

static double tv_s(struct timeval a, struct timeval b)
{
    return (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_usec - a.tv_usec) / 1e6;
}

static void take_usage(const struct rusage *before, struct bench_outcome *out)
{
    struct rusage now;
    getrusage(RUSAGE_SELF, &now);
    out->user_s = tv_s(before->ru_utime, now.ru_utime);
    out->system_s = tv_s(before->ru_stime, now.ru_stime);
    out->waits = now.ru_nvcsw - before->ru_nvcsw;
    out->preemptions = now.ru_nivcsw - before->ru_nivcsw;
}

static void run_workers(struct bench *b, struct bench_phase *p, struct bench_outcome *out)
{
    struct rusage before;

    getrusage(RUSAGE_SELF, &before);
    out->started_s = clock_wall_s();
    p->running = b->worker_count;
    p->start_ns = clock_mono_ns();
    for (uint32_t i = 0; i < b->worker_count; i++) {
        if (worker_begin(b->workers[i], p) == 0)
            continue;
        bench_phase_error(p, "%s", dfs_err_text(DFS_ENOMEM));
        bench_phase_stop(p);
        bench_phase_worker_ended(p);
    }
    watch(b, p, out);
    take_usage(&before, out);
}

static bool run_phase(struct bench *b, enum report_phase kind, uint64_t total)
{
    struct bench_outcome *out = &b->run.outcomes[b->run.outcome_count];
    struct bench_phase p;
    bool good = false;

    if (bench_phase_init(&p, kind, &b->o) != 0)
        return complain("%s", dfs_err_text(DFS_EUNAVAILABLE));
    p.total = total;
    p.list = &b->list;
    p.list_out = &b->list_out;
    report_title(stdout, kind);
    fflush(stdout);
    run_workers(b, &p, out);
    if (gather(b, &p, out)) {
        b->run.outcome_count++;
        report_summary(stdout, &out->result, &out->latency, b->o.precise);
        fflush(stdout);
        good = out->result.failed == 0;
        if (!good)
            complain("%" PRIu64 " requests failed, the first: %s", out->result.failed, out->first_error);
        if (out->corrupt > 0)
            complain("%" PRIu64 " objects were read back with other bytes than were written", out->corrupt);
    }
    bench_phase_release(&p);
    return good;
}

static bool write_phase(struct bench *b)
{
    bool good = run_phase(b, REPORT_WRITE, b->o.count);
    list_file_close(&b->list_out);
    b->acknowledged = sum_counts(b).acknowledged;
    return good;
}

static void shuffle(struct list *l)
{
    for (size_t i = l->count; i > 1; i--) {
        size_t j = (size_t)(rand_u64() % i);
        struct fid t = l->fids[i - 1];
        l->fids[i - 1] = l->fids[j];
        l->fids[j] = t;
    }
}

/* At random means in a random order: every object is read once before any is read again, so that a run of writes and reads
 * verifies all that it wrote. */
static bool read_phase(struct bench *b)
{
    char error[LIST_FILE_ERROR_MAX];
    uint64_t total = b->o.count;

    if (b->o.write && list_read(&b->list, b->run.list, error) != 0)
        return complain("%s", error);
    if (b->list.count == 0)
        return b->o.write && b->o.delete_percent > 0 ? true : complain("list '%s' has no ids to read", b->run.list);
    if (b->o.read_sequentially)
        total = b->list.count;
    else if (b->o.write)
        total = b->acknowledged;
    if (!b->o.read_sequentially)
        shuffle(&b->list);
    return run_phase(b, REPORT_READ, total);
}

/* ---- what stands on the other side ---- */

static void name_server(struct bench *b)
{
    struct bench_server *s = &b->run.server;
    struct addr addr;

    for (uint32_t i = 0; i < b->worker_count && s->address[0] == '\0'; i++)
        worker_server(b->workers[i], s->address, sizeof s->address);
    if (addr_parse(bytes_str(s->address), &addr) == 0)
        s->is_local = strncmp(addr.host, "127.", 4) == 0 || strcmp(addr.host, "::1") == 0 || strcmp(addr.host, "localhost") == 0;
}

/* ---- the end ---- */

static bool close_output(FILE *f, const char *what, bool good)
{
    if (f == NULL)
        return true;
    bool bad = ferror(f) != 0;
    if (fclose(f) != 0 || bad || !good)
        return complain("cannot write the %s", what);
    return true;
}

static bool write_drawings(struct bench *b)
{
    char error[RUN_OUTPUT_ERROR_MAX];

    if (b->run.outcome_count > 0 && (b->o.csv[0] != '\0' || b->o.svg[0] != '\0'))
        return bench_drawings_write(&b->drawings, &b->run, error) == 0 || complain("%s", error);
    run_output_close(&b->drawings);
    return true;
}

static void release(struct bench *b)
{
    for (uint32_t i = 0; i < b->worker_count; i++)
        worker_free(b->workers[i]);
    for (size_t i = 0; i < ARRAY_LEN(b->run.outcomes); i++) {
        latency_release(&b->run.outcomes[i].latency);
        free(b->run.outcomes[i].series);
    }
    list_file_close(&b->list_out);
    list_release(&b->list);
    free(b);
}

int benchmark_run(const struct benchmark_options *options)
{
    struct bench *b = calloc(1, sizeof *b);
    bool good;

    if (b == NULL)
        return 1;
    b->o = *options;
    b->run.o = &b->o;
    b->list_out.fd = -1;
    list_init(&b->list);
    progress_init(&b->bar, stderr);
    good = prepare(b);
    if (good) {
        report_version(stdout, benchmark_version_text);
        bench_around_begin(&b->run);
        if (b->o.write)
            good = write_phase(b);
        if (b->o.read)
            good = read_phase(b) && good;
        name_server(b);
        bench_around_end(&b->run);
        bench_around_print(stderr, &b->run);
        b->run.good = good;
        if (b->profile != NULL)
            bench_profile_write(b->profile, &b->run);
    }
    if (b->json != NULL && b->run.outcome_count > 0)
        good = close_output(b->json, "report", report_json_write(b->json, &b->run) == 0) && good;
    else
        close_output(b->json, "report", true);
    good = write_drawings(b) && good;
    good = close_output(b->profile, "profile", true) && good;
    release(b);
    return good ? 0 : 1;
}
