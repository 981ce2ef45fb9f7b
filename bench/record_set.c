/* Jobs, their needles, and what each does next. */
#include "bench/record_set.h"

#include <stdlib.h>

#include "bench/record_order.h"
#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"
#include "net/rand.h"

#define VERSION_UNKNOWN 0x80000000u /* in record_needle.version: an overwrite failed */
#define VERSION_MAX 0x7fffffffu

/* Packed to four bytes: there may be billions.  A volume id of 0: not there. */
struct record_needle {
    uint32_t volume_id, cookie, key_high, key_low, version;
};
_Static_assert(sizeof(struct record_needle) == RECORD_CLIENT_BYTES, "what the plan counts on");

struct record_job {
    struct record_needle *needles;
    uint64_t present;
    uint64_t cursor, pass; /* the next place in this pass */
    uint64_t dice;
    struct record_order order;
    struct record_job_count count;
};

struct record_set {
    struct record_plan plan;
    uint64_t needles, records; /* of a job */
    enum record_step step;
    uint32_t jobs;             /* that take part */
    bool once;
    bool stopped;              /* atomic */
    uint64_t phase;            /* how many there were: orders differ from phase to phase */
    struct record_job job[];
};

static const char *const step_names[RECORD_STEPS] = {"fill",        "seq-read",         "seq-overwrite", "random-read",
                                                     "random-overwrite", "random-mix", "delete"};

const char *record_step_name(enum record_step step)
{
    return step_names[step];
}

int record_step_parse(struct bytes text, enum record_step *out)
{
    for (int i = 0; i < RECORD_STEPS; i++) {
        if (bytes_eq(text, bytes_str(step_names[i]))) {
            *out = (enum record_step)i;
            return 0;
        }
    }
    return DFS_EINVAL;
}

enum record_step record_step_of(enum record_rw rw)
{
    switch (rw) {
    case RECORD_READ:
        return RECORD_SEQ_READ;
    case RECORD_WRITE:
    case RECORD_RWS:
        return RECORD_FILL;
    case RECORD_RANDREAD:
        return RECORD_RANDOM_READ;
    case RECORD_RANDWRITE:
        return RECORD_RANDOM_OVERWRITE;
    case RECORD_RANDRW:
        return RECORD_RANDOM_MIX;
    }
    return RECORD_FILL;
}

int record_set_new(const struct record_plan *plan, struct record_set **out)
{
    struct record_set *s = calloc(1, sizeof *s + plan->jobs * sizeof s->job[0]);

    if (s == NULL)
        return DFS_ENOMEM;
    s->plan = *plan;
    s->needles = record_plan_needles(plan);
    s->records = record_plan_records(plan);
    for (uint32_t j = 0; j < plan->jobs; j++) {
        s->job[j].needles = calloc(s->needles, sizeof *s->job[j].needles);
        if (s->job[j].needles == NULL) {
            record_set_free(s);
            return DFS_ENOMEM;
        }
    }
    *out = s;
    return 0;
}

void record_set_free(struct record_set *s)
{
    if (s == NULL)
        return;
    for (uint32_t j = 0; j < s->plan.jobs; j++)
        free(s->job[j].needles);
    free(s);
}

/* ---- what comes next ---- */

static bool is_random(enum record_step step)
{
    return step == RECORD_RANDOM_READ || step == RECORD_RANDOM_OVERWRITE || step == RECORD_RANDOM_MIX;
}

static void set_order(const struct record_set *s, uint32_t job, struct record_job *j)
{
    record_order_init(&j->order, s->records, rand_mix64(rand_mix64(s->plan.seed + s->phase) + job) + j->pass);
}

void record_set_begin(struct record_set *s, enum record_step step, uint32_t jobs, bool once)
{
    CHECK(jobs <= s->plan.jobs);
    s->step = step;
    s->jobs = jobs;
    s->once = once || step == RECORD_FILL || step == RECORD_DELETE;
    s->phase++;
    for (uint32_t i = 0; i < s->plan.jobs; i++) {
        struct record_job *j = &s->job[i];
        j->cursor = j->pass = 0;
        j->count = (struct record_job_count){0};
        j->dice = rand_mix64(s->plan.seed ^ rand_mix64(s->phase << 32 | i));
        set_order(s, i, j);
    }
}

/* Steps to the next place; false: the phase is over for this job. */
static bool take_place(struct record_set *s, uint32_t job, uint64_t *place)
{
    struct record_job *j = &s->job[job];
    uint64_t n = s->step == RECORD_FILL || s->step == RECORD_DELETE ? s->needles : s->records;

    if (j->cursor == n) {
        if (s->once)
            return false;
        j->cursor = 0;
        j->pass++;
        set_order(s, job, j);
    }
    *place = is_random(s->step) ? record_order_at(&j->order, j->cursor) : j->cursor;
    j->cursor++;
    return true;
}

static struct fid fid_of(const struct record_needle *n)
{
    return (struct fid){n->volume_id, n->cookie, (uint64_t)n->key_high << 32 | n->key_low};
}

static enum load_kind kind_of(const struct record_set *s, struct record_job *j)
{
    switch (s->step) {
    case RECORD_FILL:
        return LOAD_WRITE;
    case RECORD_SEQ_OVERWRITE:
    case RECORD_RANDOM_OVERWRITE:
        return LOAD_OVERWRITE;
    case RECORD_RANDOM_MIX:
        j->dice = rand_mix64(j->dice);
        return j->dice % 100 < s->plan.read_percent ? LOAD_READ : LOAD_OVERWRITE;
    case RECORD_DELETE:
        return LOAD_DELETE;
    case RECORD_SEQ_READ:
    case RECORD_RANDOM_READ:
    case RECORD_STEPS:
        return LOAD_READ;
    }
    return LOAD_READ;
}

/* The range is the record when the needle is larger. */
static void set_op(const struct record_set *s, struct record_job *j, uint64_t place, struct load_op *op)
{
    uint64_t per = s->plan.needle_bytes / s->plan.record_bytes;
    bool by_needle = s->step == RECORD_FILL || s->step == RECORD_DELETE;
    uint64_t needle = by_needle ? place : place / per;
    const struct record_needle *n = &j->needles[needle];

    op->kind = kind_of(s, j);
    op->token = needle;
    op->size_bytes = s->plan.needle_bytes;
    op->fid = fid_of(n);
    op->version = n->version & VERSION_MAX;
    op->no_verify = (n->version & VERSION_UNKNOWN) != 0;
    if (op->kind == LOAD_OVERWRITE)
        op->version = (op->version + 1) & VERSION_MAX;
    if (op->kind == LOAD_READ && per > 1) {
        op->offset_bytes = place % per * s->plan.record_bytes;
        op->length_bytes = s->plan.record_bytes;
    }
}

static enum load_next next(void *arg, uint32_t slot, struct load_op *op)
{
    struct record_set *s = arg;
    struct record_job *j = &s->job[slot];
    bool wants_present = s->step != RECORD_FILL;
    uint64_t place;

    if (slot >= s->jobs || __atomic_load_n(&s->stopped, __ATOMIC_RELAXED) || (wants_present && j->present == 0))
        return LOAD_NO_MORE;
    do {
        if (!take_place(s, slot, &place))
            return LOAD_NO_MORE;
        set_op(s, j, place, op);
    } while ((op->fid.volume_id != 0) != wants_present);
    if (j->count.start_ns == 0)
        j->count.start_ns = clock_mono_ns();
    return LOAD_DO;
}

/* ---- what came of it ---- */

static void remember(struct record_job *j, const struct load_op *op)
{
    j->needles[op->token] = (struct record_needle){
        .volume_id = op->fid.volume_id,
        .cookie = op->fid.cookie,
        .key_high = (uint32_t)(op->fid.key >> 32),
        .key_low = (uint32_t)op->fid.key,
        .version = (uint32_t)op->version,
    };
}

static void done(void *arg, uint32_t slot, const struct load_op *op, int rc, uint64_t end_ns)
{
    struct record_set *s = arg;
    struct record_job *j = &s->job[slot];
    struct record_needle *n = &j->needles[op->token];

    j->count.end_ns = end_ns;
    j->count.finished += rc == 0;
    switch (op->kind) {
    case LOAD_WRITE:
        if (rc == 0) {
            remember(j, op);
            j->present++;
        }
        return;
    case LOAD_OVERWRITE:
        n->version = (uint32_t)op->version | (rc == 0 ? 0 : VERSION_UNKNOWN);
        return;
    case LOAD_DELETE:
        if (rc == 0) {
            n->volume_id = 0;
            j->present--;
        }
        return;
    case LOAD_READ:
    case LOAD_KINDS:
        return;
    }
}

struct load_source record_set_source(struct record_set *s)
{
    return (struct load_source){.next = next, .done = done, .arg = s};
}

void record_set_stop(struct record_set *s)
{
    __atomic_store_n(&s->stopped, true, __ATOMIC_RELAXED);
}

void record_set_resume(struct record_set *s)
{
    __atomic_store_n(&s->stopped, false, __ATOMIC_RELAXED);
}

uint64_t record_set_present(const struct record_set *s)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->plan.jobs; i++)
        sum += s->job[i].present;
    return sum;
}

struct record_job_count record_set_job(const struct record_set *s, uint32_t job)
{
    return s->job[job].count;
}

bool record_set_fid(const struct record_set *s, uint32_t job, uint64_t needle, struct fid *out)
{
    const struct record_needle *n = &s->job[job].needles[needle];
    if (n->volume_id == 0)
        return false;
    *out = fid_of(n);
    return true;
}
