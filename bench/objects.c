/* `dfs benchmark objects` and `dfs benchmark cleanup`. */
#include "bench/mode.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bench/live.h"
#include "bench/mode_run.h"
#include "bench/object_cleanup.h"
#include "bench/object_list.h"
#include "bench/objects_report.h"
#include "bench/objects_source.h"
#include "needle/err.h"

#define SECONDS_MAX 31536000.0 /* a year */

enum direction { WRITE, SEQ, RAND };

struct objects {
    const struct mode_options *o;
    enum direction direction;
    double seconds;
    struct object_list list;
    struct objects_source source;
    struct mode_run run;
    struct load *load;
    struct load_result result;
    struct objects_table table;
    struct live live;
};

static const char *const names[] = {"write", "seq", "rand"};

/* ---- words ---- */

static int usage(const char *why)
{
    mode_complain("objects", "%s: dfs benchmark objects SECONDS write|seq|rand", why);
    return 2;
}

static int parse_words(struct objects *b, int argc, char **argv)
{
    char *end;

    if (argc != 2)
        return usage(argc < 2 ? "two words are needed" : "more than two words");
    b->seconds = strtod(argv[0], &end);
    if (end == argv[0] || *end != '\0' || !(b->seconds > 0 && b->seconds <= SECONDS_MAX))
        return usage("SECONDS is no time");
    for (int i = WRITE; i <= RAND; i++) {
        if (strcmp(argv[1], names[i]) == 0) {
            b->direction = (enum direction)i;
            return 0;
        }
    }
    return usage("it does one of three things");
}

/* ---- preparing ---- */

static int prepare_list(struct objects *b)
{
    char error[LIST_FILE_ERROR_MAX];
    int rc = object_list_locate(&b->list, b->o->list_dir, b->o->run_name, error);

    if (rc != 0)
        return mode_complain("objects", "%s", error);
    if (b->direction == WRITE)
        rc = object_list_create(&b->list, b->source.object_bytes, b->run.seed, error);
    else
        rc = object_list_open(&b->list, false, error);
    if (rc != 0)
        return mode_complain("objects", "%s", error);
    if (b->direction == WRITE)
        return 0;
    if (b->list.ids.count == 0)
        return mode_complain("objects", "run '%s' has no objects", b->o->run_name);
    if (b->list.size_bytes == 0)
        return mode_complain("objects", "the objects of run '%s' are of many sizes: they are of `benchmark mix`", b->o->run_name);
    b->source.object_bytes = b->list.size_bytes;
    if (b->source.block_bytes > b->source.object_bytes)
        b->source.block_bytes = b->source.object_bytes;
    return 0;
}

/* That of a run that will not be. */
static void drop_new_list(struct objects *b)
{
    if (b->direction == WRITE)
        object_list_unlink(&b->list);
}

static int prepare(struct objects *b)
{
    char error[LOAD_ERROR_MAX];
    struct run_meta *m = &b->run.result.meta;
    struct load_options lo;

    if (mode_run_init(&b->run, b->o, "objects") != 0)
        return mode_complain("objects", "cannot start the random number generator");
    b->source.list = &b->list;
    b->source.block_bytes = b->o->block_bytes;
    b->source.object_bytes = b->o->object_bytes != 0 ? b->o->object_bytes : b->o->block_bytes;
    b->source.max_objects = b->o->max_objects;
    b->source.dice.state = b->run.seed;
    if (mode_run_open_files(&b->run) != 0 || mode_reach_master(&b->run) != 0 || prepare_list(b) != 0)
        return 1;
    /* A blob is written whole. */
    if (b->direction == WRITE)
        b->source.block_bytes = b->source.object_bytes;
    m->object_bytes = b->source.object_bytes;
    m->request_bytes = b->source.block_bytes;
    lo = mode_load_options(&b->run, b->direction == WRITE ? b->source.object_bytes : 0);
    if (b->direction != WRITE)
        lo.seed = b->list.seed;
    if (load_new(&lo, &b->load, error) == 0)
        return 0;
    drop_new_list(b);
    return mode_complain("objects", "%s", error);
}

/* ---- running ---- */

static void on_second(void *arg, const struct load_second *s)
{
    struct objects *b = arg;
    live_clear(&b->live);
    objects_table_line(&b->table, s);
    live_second(&b->live, s);
}

static void print_start(const struct objects *b)
{
    printf("dfs benchmark objects: %u %s at once of %" PRIu64 " bytes, objects of %" PRIu64 " bytes, for up to %g seconds\n",
           b->o->slots, b->direction == WRITE ? "writes" : "reads", b->source.block_bytes, b->source.object_bytes, b->seconds);
    if (b->direction == WRITE)
        printf("run '%s', seed %" PRIu64 "\n", b->o->run_name, b->run.seed);
    else
        printf("run '%s', seed %" PRIu64 ", %zu objects of %s, process %" PRIu64 "\n", b->o->run_name, b->list.seed,
               b->list.ids.count, b->list.host, b->list.pid);
}

/* Before the time was over. */
static void print_ended_early(const struct objects *b, struct run_phase *p)
{
    char text[RUN_TEXT_MAX];

    if (mode_was_interrupted()) {
        run_text_set(p->ended_early, sizeof p->ended_early, "interrupted");
        printf("ended early: interrupted\n");
        return;
    }
    if (!b->result.ran_out || b->source.list_rc != 0)
        return;
    snprintf(text, sizeof text, "all %" PRIu64 " objects %s", b->direction == WRITE ? p->completed : (uint64_t)b->list.ids.count,
             b->direction == WRITE ? "of -max-objects written" : "read");
    run_text_set(p->ended_early, sizeof p->ended_early, text);
    printf("ended early: %s\n", text);
}

static bool report(struct objects *b)
{
    bool write = b->direction == WRITE;
    struct objects_summary summary = {write, b->source.block_bytes, b->source.object_bytes};
    struct run_phase *p = NULL;
    int rc = mode_run_add(&b->run, &b->result, write ? LOAD_WRITE : LOAD_READ, names[b->direction], 0, &p);

    if (p == NULL) {
        mode_complain("objects", "%s", dfs_err_text(rc));
        return false;
    }
    print_ended_early(b, p);
    objects_summary_print(stdout, &summary, p);
    mode_print_percentiles(stdout, &p->latency);
    mode_print_errors(stdout, &b->result);
    if (!write)
        printf("Verify CPU(s):          %.6g%s\n", b->result.verify_s, b->o->no_verify ? " (-no-verify)" : "");
    mode_print_steadiness(stdout, p);
    mode_run_print(stdout, &b->run, &b->result);
    return rc == 0;
}

static bool is_good(const struct objects *b)
{
    uint64_t failed = load_result_failed(&b->result);

    if (failed > 0)
        mode_complain("objects", "%" PRIu64 " requests failed, the first: %s", failed,
                      b->result.first_error[0] != '\0' ? b->result.first_error : "unknown");
    if (b->source.list_rc != 0)
        mode_complain("objects", "cannot write list '%s': %s", b->list.path, dfs_err_text(b->source.list_rc));
    return failed == 0 && b->source.list_rc == 0 && !mode_was_interrupted();
}

/* The list of a run that wrote: sealed, or emptied into deletes. */
static bool end_list(struct objects *b)
{
    int rc;

    if (b->direction != WRITE)
        return true;
    if (!b->o->no_cleanup)
        return object_cleanup("objects", &b->list, b->load) == 0;
    rc = object_list_seal(&b->list);
    if (rc != 0)
        mode_complain("objects", "cannot write list '%s': %s", b->list.path, dfs_err_text(rc));
    return rc == 0;
}

/* Requests of the run, if its number is known; 0 = as many as there is time for. */
static uint64_t request_limit(const struct objects *b)
{
    uint64_t block = b->source.block_bytes;

    if (b->direction == WRITE)
        return b->o->max_objects;
    if (b->direction == RAND || block == 0)
        return 0;
    return b->list.ids.count * ((b->source.object_bytes + block - 1) / block);
}

static int run(struct objects *b)
{
    struct load_plan plan = {.seconds = b->seconds, .on_second = on_second, .arg = b};
    bool good;
    int rc;

    plan.source = b->direction == WRITE ? objects_write_source(&b->source) : b->direction == SEQ ? objects_seq_source(&b->source) :
                                                                              objects_rand_source(&b->source);
    print_start(b);
    mode_run_begin(&b->run);
    objects_table_begin(&b->table, stdout, b->o->show_time);
    live_begin(&b->live, names[b->direction], b->seconds, request_limit(b));
    mode_catch_interrupts(b->load);
    rc = load_run(b->load, &plan, &b->result);
    mode_catch_interrupts(NULL);
    live_clear(&b->live);
    if (rc != 0) {
        drop_new_list(b);
        return mode_complain("objects", "cannot begin: %s", dfs_err_text(rc));
    }
    mode_run_end(&b->run, &b->result);
    good = report(b);
    good = is_good(b) && good;
    good = end_list(b) && good;
    return mode_run_finish(&b->run, good);
}

int mode_objects(const struct mode_options *o, int argc, char **argv)
{
    struct objects b = {.o = o};
    int rc;

    object_list_init(&b.list);
    load_result_init(&b.result);
    rc = parse_words(&b, argc, argv);
    if (rc == 0)
        rc = prepare(&b);
    if (rc == 0)
        rc = run(&b);
    load_free(b.load);
    load_result_release(&b.result);
    mode_run_release(&b.run);
    object_list_release(&b.list);
    return rc;
}

int mode_cleanup(const struct mode_options *o, int argc, char **argv)
{
    char error[LOAD_ERROR_MAX];
    struct object_list list;
    struct mode_run r;
    struct load *load = NULL;
    int rc;

    (void)argc;
    (void)argv;
    object_list_init(&list);
    if (mode_run_init(&r, o, "cleanup") != 0)
        return mode_complain("cleanup", "cannot start the random number generator");
    rc = object_list_locate(&list, o->list_dir, o->run_name, error);
    if (rc == 0)
        rc = object_list_open(&list, true, error);
    if (rc == 0) {
        struct load_options lo = mode_load_options(&r, 0);
        rc = load_new(&lo, &load, error);
    }
    rc = rc != 0 ? mode_complain("cleanup", "%s", error) : object_cleanup("cleanup", &list, load);
    load_free(load);
    mode_run_release(&r);
    object_list_release(&list);
    return rc;
}
