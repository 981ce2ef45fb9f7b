/* The part of a report that all modes share. */
#include "bench/mode_run.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/benchmark.h"
#include "bench/client_size.h"
#include "bench/run_stats.h"
#include "bench/sync_client.h"
#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"
#include "net/rand.h"

#define MIB 1048576.0
#define SEED_BITS 53
#define COMMAND_WORDS_MAX 256

int mode_complain(const char *mode, const char *fmt, ...)
{
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    fflush(stdout);
    fprintf(stderr, "dfs benchmark %s: %s\n", mode, line);
    return 1;
}

/* The command line as the kernel keeps it: modes are not given the words before theirs. */
static void take_command(struct run_meta *m)
{
    static char text[RUN_COMMAND_MAX];
    char *words[COMMAND_WORDS_MAX];
    int n = 0;
    FILE *f = fopen("/proc/self/cmdline", "re");
    size_t bytes = f != NULL ? fread(text, 1, sizeof text - 1, f) : 0;

    if (f != NULL)
        fclose(f);
    text[bytes] = '\0';
    for (char *p = text; p < text + bytes && n < COMMAND_WORDS_MAX; p += strlen(p) + 1)
        words[n++] = p;
    run_text_set_words(m->command, sizeof m->command, n, words);
}

int mode_run_init(struct mode_run *r, const struct mode_options *o, const char *mode)
{
    struct run_meta *m = &r->result.meta;
    char host[RUN_TEXT_MAX] = "";

    memset(r, 0, sizeof *r);
    r->o = o;
    run_result_init(&r->result);
    if (rand_init() != 0)
        return DFS_EUNAVAILABLE;
    r->seed = o->seed != 0 ? o->seed : rand_u64() >> (64 - SEED_BITS);
    gethostname(host, sizeof host - 1);
    run_text_set(m->version, sizeof m->version, benchmark_version_text);
    run_text_set(m->mode, sizeof m->mode, mode);
    run_text_set(m->label, sizeof m->label, o->label);
    run_text_set(m->host, sizeof m->host, host);
    run_text_set(m->collection, sizeof m->collection, o->collection);
    run_text_set(m->replication, sizeof m->replication, o->replication);
    take_command(m);
    m->seed = r->seed;
    m->concurrency = o->slots;
    m->loops = client_loops(o->loops, o->slots);
    m->cores = client_cores();
    m->fsync = o->fsync;
    return 0;
}

void mode_run_release(struct mode_run *r)
{
    if (r->opened)
        run_output_close(&r->output);
    r->opened = false;
    run_result_release(&r->result);
}

/* Any answer of any master will do: asked for a volume that cannot be. */
int mode_reach_master(const struct mode_run *r)
{
    char error[SYNC_ERROR_MAX];
    const struct addr *addr;
    struct sync_client *c;
    int rc = sync_client_new(r->o->masters, r->o->timeout_ms, r->o->use_public_url, &c, error);

    if (rc == 0) {
        rc = sync_lookup(c, 0, &addr, error);
        sync_client_free(c);
    }
    return rc == 0 || rc == DFS_ENOTFOUND ? 0 : mode_complain(r->result.meta.mode, "%s", error);
}

struct load_options mode_load_options(const struct mode_run *r, uint64_t object_bytes_max)
{
    const struct mode_options *o = r->o;
    return (struct load_options){
        .masters = o->masters,
        .collection = o->collection,
        .replication = o->replication,
        .fsync = o->fsync,
        .use_public_url = o->use_public_url,
        .no_verify = o->no_verify,
        .timeout_ms = o->timeout_ms,
        .slots = o->slots,
        .loops = o->loops,
        .seed = r->seed,
        .object_bytes_max = object_bytes_max,
    };
}

void mode_run_begin(struct mode_run *r)
{
    struct run_meta *m = &r->result.meta;

    surroundings_begin(&r->around, r->o->masters, r->o->use_public_url);
    run_text_set(m->server_version, sizeof m->server_version, r->around.version);
    run_text_set(m->durability, sizeof m->durability, r->around.durability);
    if (r->around.server_count > 0) {
        char text[ADDR_TEXT_MAX];
        addr_format(&r->around.servers[0].addr, text);
        run_text_set(m->server, sizeof m->server, text);
    }
    m->server_is_local = r->around.all_local;
    m->started_unix_s = clock_wall_s();
    r->begun_ns = clock_mono_ns();
}

/* ---- interrupts ---- */

static struct load *interruptible; /* atomic */
static bool interrupted;           /* atomic */

static void on_interrupt(int number)
{
    struct load *l = __atomic_load_n(&interruptible, __ATOMIC_ACQUIRE);
    (void)number;
    __atomic_store_n(&interrupted, true, __ATOMIC_RELAXED);
    if (l != NULL)
        load_stop(l);
}

void mode_catch_interrupts(struct load *l)
{
    static const int numbers[] = {SIGINT, SIGTERM};
    struct sigaction sa = {.sa_flags = SA_RESETHAND};

    sa.sa_handler = on_interrupt;
    if (l == NULL)
        sa.sa_handler = SIG_DFL;
    __atomic_store_n(&interruptible, l, __ATOMIC_RELEASE);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        struct sigaction before;
        /* What whoever started this program ignores stays ignored. */
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(numbers[i], &sa, NULL);
    }
}

bool mode_was_interrupted(void)
{
    return __atomic_load_n(&interrupted, __ATOMIC_RELAXED);
}

int mode_run_add(struct mode_run *r, const struct load_result *load, enum load_kind kind, const char *name, double start_s,
                 struct run_phase **out)
{
    const struct load_kind_result *k = &load->kinds[kind];
    struct run_phase *p;
    int rc = run_result_add_phase(&r->result, name, &p);

    if (rc != 0)
        return rc;
    p->start_s = start_s;
    p->seconds = load->seconds;
    p->completed = k->finished;
    p->failed = k->failed;
    p->corrupt = k->corrupt;
    p->missed = load->missed;
    p->bytes = k->bytes;
    if (kind == LOAD_READ && !r->o->no_verify)
        p->verify_s = load->verify_s;
    run_text_set(p->first_error, sizeof p->first_error, load->errors[kind]);
    for (size_t i = 0; rc == 0 && i < load->series_n; i++) {
        const struct load_second *s = &load->series[i];
        struct run_second second = {
            .seconds = s->seconds,
            .completed = s->kind_finished[kind],
            .failed = s->kind_failed[kind],
            .bytes = s->kind_bytes[kind],
            .avg_ms = s->kind_avg_s[kind] < 0 ? RUN_UNKNOWN : s->kind_avg_s[kind] * 1e3,
            .max_ms = s->kind_max_s[kind] < 0 ? RUN_UNKNOWN : s->kind_max_s[kind] * 1e3,
        };
        rc = run_phase_add_second(p, &second);
    }
    if (rc == 0 || rc == DFS_ETOOBIG)
        rc = latency_merge(&p->latency, &k->latency);
    if (out != NULL)
        *out = p;
    return rc;
}

void mode_run_end(struct mode_run *r, const struct load_result *load)
{
    struct run_resources *res = &r->result.resources;
    struct surroundings *s = &r->around;

    surroundings_end(s, r->o->idle_wait_ms);
    res->server_disk_read_bytes = s->disk_read_bytes;
    res->server_sent_bytes = s->sent_bytes;
    res->dirty_bytes = s->dirty_bytes;
    res->idle_s = s->idle_s;
    res->cpu_user_s = load->user_s;
    res->cpu_system_s = load->system_s;
    res->client_cpu_share = load->busiest_loop;
}

/* ---- lines ---- */

void mode_print_percentiles(FILE *out, const struct latency *l)
{
    static const double percents[] = {50, 90, 99, 99.9};
    for (size_t i = 0; i < ARRAY_LEN(percents); i++) {
        char name[32];
        snprintf(name, sizeof name, "Latency %g%%(s):", percents[i]);
        fprintf(out, "%-23s %.6g\n", name, latency_fine_percentile_ms(l, percents[i]) / 1e3);
    }
}

void mode_print_errors(FILE *out, const struct load_result *load)
{
    uint64_t corrupt = 0;
    for (int k = 0; k < LOAD_KINDS; k++)
        corrupt += load->kinds[k].corrupt;
    fprintf(out, "Errors:                 %" PRIu64 " (%" PRIu64 " corrupt)\n", load_result_failed(load), corrupt);
    if (load->gave_up)
        fprintf(out, "Given up:               nothing succeeded for %u s\n", LOAD_GIVE_UP_MS / 1000);
}

void mode_print_steadiness(FILE *out, const struct run_phase *p)
{
    struct run_steadiness s;
    enum run_measure m = p->bytes > 0 ? RUN_BYTES : RUN_REQUESTS;

    if (run_phase_steadiness(p, m, &s) != 0 || s.worst < 0) {
        fprintf(out, "Worst second:           not known (no whole second)\n");
        return;
    }
    if (m == RUN_BYTES)
        fprintf(out, "Worst second (MB/sec):  %.6g\n", s.worst / MIB);
    else
        fprintf(out, "Worst second (IOPS):    %.6g\n", s.worst);
    fprintf(out, "Seconds at zero:        %" PRIu64 "\n", s.seconds_at_zero);
    if (s.last_to_first < 0)
        fprintf(out, "Last third/first third: not known (too short)\n");
    else
        fprintf(out, "Last third/first third: %.3f\n", s.last_to_first);
}

/* Of a server that does not count what it sent, what arrived here tells at least that. */
static void print_server_bytes(FILE *out, const struct surroundings *s, const struct load_result *load)
{
    fprintf(out, "Server read from disk:  ");
    if (s->disk_read_bytes < 0)
        fprintf(out, "not known");
    else
        fprintf(out, "%.1f MB", (double)s->disk_read_bytes / MIB);
    if (s->sent_bytes < 0)
        fprintf(out, " (sent: not known; %.1f MB came here)\n", (double)load->kinds[LOAD_READ].bytes / MIB);
    else
        fprintf(out, " of %.1f MB sent\n", (double)s->sent_bytes / MIB);
}

static void print_rest(FILE *out, const struct mode_run *r)
{
    const struct surroundings *s = &r->around;

    if (s->dirty_bytes < 0)
        fprintf(out, "Dirty pages at the end: not known\n");
    else
        fprintf(out, "Dirty pages at the end: %.1f MB\n", (double)s->dirty_bytes / MIB);
    if (s->idle_s >= 0)
        fprintf(out, "Disk idle after (s):    %.2f%s\n", s->idle_s,
                s->dirty_later_bytes >= MODE_DIRTY_BYTES ? ", but dirty pages are still to be written" : "");
    else if (s->waited_for_idle)
        fprintf(out, "Disk idle after (s):    not within %.1f\n", r->o->idle_wait_ms / 1e3);
    else
        fprintf(out, "Disk idle after (s):    not known%s\n", r->o->idle_wait_ms == 0 ? " (-idleWait 0)" : "");
}

void mode_run_print(FILE *out, const struct mode_run *r, const struct load_result *load)
{
    print_server_bytes(out, &r->around, load);
    print_rest(out, r);
    fprintf(out, "Client CPU:             %.0f%% of a core in its busiest thread, %.2f s in all\n", load->busiest_loop * 100,
            load->user_s + load->system_s);
    fprintf(out, "Server durability:      %s%s\n", r->around.durability[0] != '\0' ? r->around.durability : "not known",
            r->o->fsync ? ", and -fsync" : "");
    fflush(out);
    if (load->busiest_loop >= CLIENT_BUSY)
        fprintf(stderr, "warning: the client was the bottleneck: a thread of it used %.0f%% of its core; try -loops or "
                        "-no-verify\n",
                load->busiest_loop * 100);
    if (r->around.all_local)
        fprintf(stderr, "client and server shared this machine (%u cores)\n", client_cores());
}

/* ---- the end ---- */

int mode_run_open_files(struct mode_run *r)
{
    char error[RUN_OUTPUT_ERROR_MAX];

    if (r->opened)
        return 0;
    if (run_output_open(&r->output, r->o->json, r->o->csv, r->o->svg, error) != 0)
        return mode_complain(r->result.meta.mode, "%s", error);
    r->opened = true;
    return 0;
}

int mode_run_finish(struct mode_run *r, bool good)
{
    char error[RUN_OUTPUT_ERROR_MAX];

    r->result.meta.good = good;
    if (mode_run_open_files(r) != 0)
        return 1;
    r->opened = false;
    if (run_output_write(&r->output, &r->result, error) != 0)
        return mode_complain(r->result.meta.mode, "%s", error);
    return good ? 0 : 1;
}
