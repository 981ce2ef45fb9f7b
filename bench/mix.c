/* `dfs benchmark mix`. */
#include "bench/mode.h"

#include <inttypes.h>
#include <string.h>

#include "bench/live.h"
#include "bench/mix_report.h"
#include "bench/mix_source.h"
#include "bench/mode_run.h"
#include "bench/object_cleanup.h"
#include "bench/second_table.h"
#include "needle/check.h"
#include "needle/err.h"

#define SIZE_MAX_BYTES (1ull << 30) /* of one object */

struct mix {
    const struct mode_options *o;
    struct sizes sizes;
    struct object_list list;
    struct mix_source source;
    struct mode_run run;
    struct load *load;
    struct load_result result;
    struct second_table table;
    struct live live;
};

/* ---- preparing ---- */

static int read_sizes(struct mix *m)
{
    char error[SIZES_ERROR_MAX];

    if (m->o->sizes[0] == '\0')
        sizes_init(&m->sizes, m->o->size_median_bytes, m->o->size_sigma, SIZE_MAX_BYTES);
    else if (sizes_read(&m->sizes, m->o->sizes, SIZE_MAX_BYTES, error) != 0)
        return mode_complain("mix", "%s", error);
    return 0;
}

static int make_list(struct mix *m)
{
    char error[LIST_FILE_ERROR_MAX];
    int rc = object_list_locate(&m->list, m->o->list_dir, m->o->run_name, error);

    if (rc == 0)
        rc = object_list_create(&m->list, 0, m->run.seed, error);
    return rc == 0 ? 0 : mode_complain("mix", "%s", error);
}

static int prepare(struct mix *m)
{
    char error[LOAD_ERROR_MAX];
    struct load_options lo;

    if (!mix_parse_shares(m->o->shares, m->source.shares)) {
        mode_complain("mix", "-mix '%s' is no read:write:delete such as 70:25:5", m->o->shares);
        return 2;
    }
    if (m->o->runtime_ms == 0) {
        mode_complain("mix", "-runtime 0 is no time");
        return 2;
    }
    if (mode_run_init(&m->run, m->o, "mix") != 0)
        return mode_complain("mix", "cannot start the random number generator");
    if (mode_run_open_files(&m->run) != 0 || read_sizes(m) != 0 || mode_reach_master(&m->run) != 0)
        return 1;
    m->run.result.meta.rate = m->o->rate;
    m->source.sizes = &m->sizes;
    m->source.zipf = m->o->zipf;
    m->source.preload = m->o->preload;
    m->source.dice.state = m->run.seed;
    m->source.list = &m->list;
    lo = mode_load_options(&m->run, m->sizes.max_bytes);
    if (load_new(&lo, &m->load, error) != 0)
        return mode_complain("mix", "%s", error);
    return make_list(m);
}

static void print_start(const struct mix *m)
{
    printf("dfs benchmark mix: read:write:delete %s, %u at once, for %g seconds, popularity zipf %g, seed %" PRIu64 "\n",
           m->o->shares, m->o->slots, m->o->runtime_ms / 1e3, m->o->zipf, m->run.seed);
    if (m->sizes.row_count > 0)
        printf("sizes of '%s', at most %" PRIu64 " bytes\n", m->o->sizes, m->sizes.max_bytes);
    else
        printf("sizes log-normal, median %" PRIu64 " bytes, sigma %g, at most %" PRIu64 " bytes\n", m->sizes.median_bytes,
               m->sizes.sigma, m->sizes.max_bytes);
    fflush(stdout);
}

/* ---- running ---- */

/* The objects that are there before the clock starts. */
static bool preload(struct mix *m)
{
    struct load_plan plan = {.source = mix_preload_source(&m->source), .on_second = live_second, .arg = &m->live};
    struct load_result r;
    bool good;
    int rc;

    if (m->o->preload == 0)
        return true;
    live_begin(&m->live, "preload", 0, m->o->preload);
    rc = load_run(m->load, &plan, &r);
    live_clear(&m->live);
    if (rc != 0) {
        mode_complain("mix", "cannot begin: %s", dfs_err_text(rc));
        return false;
    }
    printf("preloaded %" PRIu64 " objects, %" PRIu64 " bytes, in %.6g s\n", r.kinds[LOAD_WRITE].finished, r.kinds[LOAD_WRITE].bytes,
           r.seconds);
    fflush(stdout);
    good = load_result_failed(&r) == 0 && m->source.rc == 0;
    if (!good)
        mode_complain("mix", "cannot preload: %s", r.first_error[0] != '\0' ? r.first_error : dfs_err_text(m->source.rc));
    load_result_release(&r);
    m->source.next = 0;
    return good;
}

static void on_second(void *arg, const struct load_second *s)
{
    struct mix *m = arg;
    live_clear(&m->live);
    second_table_line(&m->table, s);
    live_second(&m->live, s);
}

static bool report(struct mix *m)
{
    static const enum load_kind kinds[] = {LOAD_READ, LOAD_WRITE, LOAD_DELETE};
    const struct load_result *r = &m->result;
    struct run_phase *p, *phases[ARRAY_LEN(kinds)] = {0};
    size_t count = 0;
    bool good = true;

    if (mode_was_interrupted())
        printf("ended early: interrupted\n");
    printf("Total time run:         %.6g\n", r->seconds);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        mix_kind_print(stdout, r, kinds[i]);
        if (r->kinds[kinds[i]].started == 0)
            continue;
        good = mode_run_add(&m->run, r, kinds[i], load_kind_name(kinds[i]), 0, &p) == 0 && good;
        if (!good)
            continue;
        if (count > 0)
            p->missed = 0; /* which kind they would have been is not known: they stand with the first */
        phases[count++] = p;
    }
    mix_arrivals_print(stdout, r, m->o->rate);
    mode_print_errors(stdout, r);
    printf("Verify CPU(s):          %.6g%s\n", r->verify_s, m->o->no_verify ? " (-no-verify)" : "");
    for (size_t i = 0; i < count; i++) {
        printf("Of the %ss:\n", phases[i]->name);
        mode_print_steadiness(stdout, phases[i]);
    }
    mode_run_print(stdout, &m->run, r);
    return good;
}

static bool run_load(struct mix *m)
{
    struct load_plan plan = {
        .source = mix_load_source(&m->source),
        .seconds = m->o->runtime_ms / 1e3,
        .rate = m->o->rate,
        .on_second = on_second,
        .arg = m,
    };
    uint64_t failed;
    bool good;
    int rc;

    mode_run_begin(&m->run);
    second_table_begin(&m->table, stdout, NULL, true);
    live_begin(&m->live, "mix", plan.seconds, 0);
    mode_catch_interrupts(m->load);
    rc = load_run(m->load, &plan, &m->result);
    mode_catch_interrupts(NULL);
    live_clear(&m->live);
    if (rc != 0) {
        mode_complain("mix", "cannot begin: %s", dfs_err_text(rc));
        return false;
    }
    mode_run_end(&m->run, &m->result);
    good = report(m);
    failed = load_result_failed(&m->result);
    if (failed > 0)
        mode_complain("mix", "%" PRIu64 " requests failed, the first: %s", failed,
                      m->result.first_error[0] != '\0' ? m->result.first_error : "unknown");
    if (m->source.rc != 0)
        mode_complain("mix", "cannot remember what was written: %s", dfs_err_text(m->source.rc));
    return good && failed == 0 && m->source.rc == 0 && !mode_was_interrupted();
}

/* Only what is still there: the list's file has every object that ever was. */
static bool clean_up(struct mix *m)
{
    m->list.ids.count = 0;
    for (size_t i = 0; i < m->source.live_count; i++)
        if (list_push(&m->list.ids, m->source.objects[m->source.live[i]].fid) != 0)
            return mode_complain("mix", "%s", dfs_err_text(DFS_ENOMEM)) == 0;
    return object_cleanup("mix", &m->list, m->load) == 0;
}

int mode_mix(const struct mode_options *o, int argc, char **argv)
{
    struct mix m = {.o = o};
    bool good;
    int rc;

    (void)argc;
    (void)argv;
    object_list_init(&m.list);
    load_result_init(&m.result);
    rc = prepare(&m);
    if (rc == 0) {
        print_start(&m);
        good = preload(&m);
        good = good && run_load(&m);
        good = clean_up(&m) && good;
        rc = mode_run_finish(&m.run, good);
    }
    load_free(m.load);
    load_result_release(&m.result);
    mix_source_release(&m.source);
    sizes_release(&m.sizes);
    mode_run_release(&m.run);
    object_list_release(&m.list);
    return rc;
}
