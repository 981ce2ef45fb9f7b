/* A session and its worker. */
#include "bench/agent_session.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/record_outcome.h"
#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"

/* idle -> ready -> running -> ready ..; ready or running -> ending -> idle. */
enum state { IDLE, READY, RUNNING, ENDING };
static const char *const state_names[] = {"idle", "ready", "running", "ending"};

struct agent_session {
    const struct mode_options *o;
    pthread_t worker;
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t changed;
    bool quit;
    enum state state;
    struct agent_plan plan;
    struct agent_order order;
    struct record_run *run; /* not while IDLE */
    bool keep;              /* ENDING: delete nothing */
    uint64_t heard_ms;      /* of its client */
    uint64_t runs;          /* phases that have ended */
    bool has_outcome;
    struct record_outcome outcome;
    char error[RECORD_ERROR_MAX]; /* of the last phase, or of the end of the session before */
    uint64_t (*seconds)[3]; /* of the phase under way, or the last */
    size_t seconds_n, seconds_cap;
};

static void lock(struct agent_session *s)
{
    CHECK(pthread_mutex_lock(&s->mutex) == 0);
}

static void unlock(struct agent_session *s)
{
    CHECK(pthread_mutex_unlock(&s->mutex) == 0);
}

static void change_locked(struct agent_session *s, enum state to)
{
    s->state = to;
    pthread_cond_broadcast(&s->changed);
}

static void drop_outcome_locked(struct agent_session *s)
{
    if (s->has_outcome)
        record_outcome_release(&s->outcome);
    s->has_outcome = false;
    s->seconds_n = 0;
}

/* ---- the worker ---- */

static void on_second(void *arg, const struct load_second *second)
{
    struct agent_session *s = arg;

    lock(s);
    if (s->seconds_n == s->seconds_cap) {
        size_t cap = s->seconds_cap == 0 ? 64 : s->seconds_cap * 2;
        void *p = realloc(s->seconds, cap * sizeof *s->seconds);
        if (p == NULL) {
            unlock(s); /* a second less to look at; the outcome has them too */
            return;
        }
        s->seconds = p;
        s->seconds_cap = cap;
    }
    s->seconds[s->seconds_n][0] = second->finished - second->failed;
    s->seconds[s->seconds_n][1] = second->failed;
    s->seconds[s->seconds_n][2] = second->bytes;
    s->seconds_n++;
    unlock(s);
}

/* The order was taken; the lock is not held. */
static void carry_out(struct agent_session *s, const struct agent_order *o)
{
    struct record_phase phase = {
        .step = o->step,
        .jobs = o->jobs,
        .seconds = o->seconds,
        .once = o->once,
        .start_ns = o->start_ns,
        .on_second = on_second,
        .arg = s,
    };
    char error[RECORD_ERROR_MAX] = "";
    struct record_outcome out;
    int rc = record_run_phase(s->run, &phase, &out, error);

    lock(s);
    s->runs++;
    memcpy(s->error, error, sizeof s->error);
    s->has_outcome = rc == 0;
    if (rc == 0)
        s->outcome = out;
    if (s->state == RUNNING)
        change_locked(s, READY);
    unlock(s);
}

static void tidy_up(struct agent_session *s, bool keep)
{
    char error[RECORD_ERROR_MAX] = "";
    uint64_t left = record_set_present(record_run_set(s->run));
    double seconds;

    if (!keep && record_run_delete(s->run, &seconds, error) != 0)
        fprintf(stderr, "dfs benchmark agent: cannot delete what was written: %s\n", error);
    fprintf(stderr, "session %s ended%s%" PRIu64 " needles\n", s->plan.session, keep ? ", leaving " : "; deleted ",
            keep ? left : left - record_set_present(record_run_set(s->run)));
    lock(s);
    record_run_free(s->run);
    s->run = NULL;
    drop_outcome_locked(s);
    memset(&s->plan, 0, sizeof s->plan);
    change_locked(s, IDLE);
    unlock(s);
}

static void *work(void *arg)
{
    struct agent_session *s = arg;

    lock(s);
    while (!s->quit || s->state != IDLE) {
        if (s->state == RUNNING) {
            struct agent_order o = s->order;
            unlock(s);
            carry_out(s, &o);
            lock(s);
        } else if (s->state == ENDING) {
            bool keep = s->keep;
            unlock(s);
            tidy_up(s, keep);
            lock(s);
        } else {
            CHECK(pthread_cond_wait(&s->changed, &s->mutex) == 0);
        }
    }
    unlock(s);
    return NULL;
}

int agent_session_new(const struct mode_options *o, struct agent_session **out)
{
    struct agent_session *s = calloc(1, sizeof *s);

    if (s == NULL)
        return DFS_ENOMEM;
    s->o = o;
    CHECK(pthread_mutex_init(&s->mutex, NULL) == 0 && pthread_cond_init(&s->changed, NULL) == 0);
    if (pthread_create(&s->worker, NULL, work, s) != 0) {
        pthread_cond_destroy(&s->changed);
        pthread_mutex_destroy(&s->mutex);
        free(s);
        return DFS_EAGAIN;
    }
    *out = s;
    return 0;
}

static void end_locked(struct agent_session *s, bool keep)
{
    if (s->state == IDLE || s->state == ENDING)
        return;
    s->keep = keep;
    record_run_stop(s->run);
    change_locked(s, ENDING);
}

void agent_session_free(struct agent_session *s)
{
    if (s == NULL)
        return;
    lock(s);
    s->quit = true;
    end_locked(s, false);
    pthread_cond_broadcast(&s->changed);
    unlock(s);
    pthread_join(s->worker, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->mutex);
    free(s->seconds);
    free(s);
}

/* ---- requests ---- */

static bool is_session_locked(struct agent_session *s, const char *session)
{
    if (s->state == IDLE || strcmp(s->plan.session, session) != 0)
        return false;
    s->heard_ms = clock_mono_ms();
    return true;
}

#define REFUSE(rc, ...)                                 \
    do {                                                \
        snprintf(error, RECORD_ERROR_MAX, __VA_ARGS__); \
        return (rc);                                    \
    } while (0)

static int plan_locked(struct agent_session *s, const struct agent_plan *p, char error[RECORD_ERROR_MAX])
{
    struct record_need need = record_plan_need(&p->plan);
    struct record_run_options o;
    int rc;

    if (s->state != IDLE || s->quit)
        REFUSE(DFS_EBUSY, "busy with another session");
    rc = record_need_fits(&need, record_memory_available(), false, error);
    if (rc != 0)
        return rc;
    s->plan = *p;
    o = (struct record_run_options){
        .plan = p->plan,
        .masters = s->o->masters,
        .collection = s->plan.collection,
        .replication = s->plan.replication,
        .fsync = p->fsync,
        .use_public_url = s->o->use_public_url,
        .no_verify = p->no_verify,
        .timeout_ms = s->o->timeout_ms,
        .loops = s->o->loops,
    };
    rc = record_run_new(&o, &s->run, error);
    if (rc != 0)
        return rc;
    s->runs = 0;
    s->error[0] = '\0';
    s->heard_ms = clock_mono_ms();
    change_locked(s, READY);
    return 0;
}

int agent_session_plan(struct agent_session *s, const struct agent_plan *p, char error[RECORD_ERROR_MAX])
{
    int rc;

    lock(s);
    rc = plan_locked(s, p, error);
    unlock(s);
    return rc;
}

static int run_locked(struct agent_session *s, const struct agent_order *o, char error[RECORD_ERROR_MAX])
{
    uint64_t now_ns = clock_mono_ns();

    if (!is_session_locked(s, o->session))
        REFUSE(DFS_ENOTFOUND, "no such session");
    if (s->state != READY)
        REFUSE(DFS_EBUSY, "a phase is under way");
    if (o->jobs > s->plan.plan.jobs)
        REFUSE(DFS_EINVAL, "%u jobs are more than the %u that were planned", o->jobs, s->plan.plan.jobs);
    if (o->start_ns > now_ns && o->start_ns - now_ns > AGENT_START_MAX_MS * 1000000ull)
        REFUSE(DFS_EINVAL, "a start in %" PRIu64 " s is too far away", (o->start_ns - now_ns) / 1000000000u);
    if (s->plan.plan.needle_bytes != s->plan.plan.record_bytes &&
        (o->step == RECORD_SEQ_OVERWRITE || o->step == RECORD_RANDOM_OVERWRITE || o->step == RECORD_RANDOM_MIX))
        REFUSE(DFS_EINVAL, "ranges of needles cannot be overwritten");
    drop_outcome_locked(s);
    s->error[0] = '\0';
    s->order = *o;
    change_locked(s, RUNNING);
    return 0;
}

int agent_session_run(struct agent_session *s, const struct agent_order *o, char error[RECORD_ERROR_MAX])
{
    int rc;

    lock(s);
    rc = run_locked(s, o, error);
    unlock(s);
    return rc;
}

int agent_session_end(struct agent_session *s, const struct agent_end *e, char error[RECORD_ERROR_MAX])
{
    int rc = 0;

    lock(s);
    if (!is_session_locked(s, e->session)) {
        snprintf(error, RECORD_ERROR_MAX, "no such session");
        rc = DFS_ENOTFOUND;
    } else {
        end_locked(s, e->keep);
    }
    unlock(s);
    return rc;
}

void agent_session_check_lease(struct agent_session *s)
{
    lock(s);
    if ((s->state == READY || s->state == RUNNING) && clock_mono_ms() > s->heard_ms + AGENT_LEASE_MS) {
        fprintf(stderr, "nothing was heard of the client of session %s for %u s: it ends\n", s->plan.session,
                AGENT_LEASE_MS / 1000);
        end_locked(s, false);
    }
    unlock(s);
}

static bool copy_session(struct bytes from, char out[AGENT_SESSION_MAX])
{
    if (from.n >= AGENT_SESSION_MAX)
        return false;
    if (from.n > 0)
        memcpy(out, from.p, from.n);
    out[from.n] = '\0';
    return true;
}

void agent_session_state(struct agent_session *s, struct bytes session, uint64_t from, struct jsonw *w)
{
    char name[AGENT_SESSION_MAX];
    bool mine;

    lock(s);
    mine = copy_session(session, name) && is_session_locked(s, name);
    jsonw_object(w);
    jsonw_put_u64(w, "protocol", AGENT_PROTOCOL);
    jsonw_put_u64(w, "clock_ns", clock_mono_ns());
    jsonw_put_str(w, "state", state_names[s->state]);
    jsonw_put_bool(w, "mine", mine);
    jsonw_put_u64(w, "runs", mine ? s->runs : 0);
    jsonw_put_str(w, "error", mine ? s->error : "");
    jsonw_put_str(w, "master", s->o->masters);
    jsonw_put_u64(w, "available_bytes", record_memory_available());
    jsonw_put_array(w, "seconds");
    for (size_t i = from; mine && i < s->seconds_n && i - from < AGENT_SECONDS_MAX; i++) {
        jsonw_array(w);
        for (int k = 0; k < 3; k++)
            jsonw_u64(w, s->seconds[i][k]);
        jsonw_array_end(w);
    }
    jsonw_array_end(w);
    jsonw_object_end(w);
    unlock(s);
}

int agent_session_outcome(struct agent_session *s, struct bytes session, struct jsonw *w, char error[RECORD_ERROR_MAX])
{
    char name[AGENT_SESSION_MAX];
    int rc = 0;

    lock(s);
    if (!copy_session(session, name) || !is_session_locked(s, name) || s->state != READY || !s->has_outcome) {
        snprintf(error, RECORD_ERROR_MAX, "no phase of this session has ended");
        rc = DFS_ENOTFOUND;
    } else {
        jsonw_object(w);
        rc = record_outcome_put(w, "outcome", &s->outcome);
        jsonw_object_end(w);
        if (rc != 0)
            snprintf(error, RECORD_ERROR_MAX, "%s", dfs_err_text(rc));
    }
    unlock(s);
    return rc;
}
