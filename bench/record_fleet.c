/* Telling agents, and asking them. */
#include "bench/record_fleet.h"

#include <inttypes.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/agent.h"
#include "bench/sync_client.h"
#include "needle/err.h"
#include "net/addr.h"
#include "net/clock.h"
#include "net/rand.h"

#define END_WAIT_MS 3600000u

struct fleet_agent {
    struct addr addr;         /* numeric */
    char name[ADDR_TEXT_MAX]; /* as it was given */
    char masters[RUN_TEXT_MAX];
    char state[16], error[RECORD_ERROR_MAX];
    bool mine, planned;
    uint64_t runs;
    uint64_t clock_ns;        /* its clock, and ours when the question left and when the answer came */
    uint64_t asked_ns, answered_ns;
    int64_t ahead_ns;         /* its clock less ours */
};

struct record_fleet {
    struct sync_client *client;
    char session[AGENT_SESSION_MAX];
    uint32_t count;
    struct fleet_agent agents[FLEET_AGENTS_MAX];
};

static int lost(const struct fleet_agent *a, int rc, char error[RECORD_ERROR_MAX], const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static int lost(const struct fleet_agent *a, int rc, char error[RECORD_ERROR_MAX], const char *fmt, ...)
{
    int n = snprintf(error, RECORD_ERROR_MAX, "agent %.255s is lost: ", a->name);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(error + n, RECORD_ERROR_MAX - (size_t)n, fmt, ap);
    va_end(ap);
    return rc;
}

/* ---- calls ---- */

struct text {
    char *p;
    size_t n, cap;
};

static int on_answer(void *arg, struct bytes in)
{
    struct text *t = arg;

    if (in.n > AGENT_ANSWER_MAX - t->n)
        return DFS_ETOOBIG;
    if (t->n + in.n > t->cap) {
        size_t cap = t->cap * 2 > t->n + in.n ? t->cap * 2 : t->n + in.n;
        char *p = realloc(t->p, cap);
        if (p == NULL)
            return DFS_ENOMEM;
        t->p = p;
        t->cap = cap;
    }
    memcpy(t->p + t->n, in.p, in.n);
    t->n += in.n;
    return 0;
}

/* body: NULL for GET.  *json may be NULL: the answer does not matter; else it is the caller's. */
static int call(struct record_fleet *f, const struct fleet_agent *a, const char *target, const struct bytes *body, json_t **json,
                char error[RECORD_ERROR_MAX])
{
    static const char headers[] = "Content-Type: application/json\r\n";
    struct text t = {0};
    struct sync_request req = {
        .addr = &a->addr,
        .method = body != NULL ? HTTP_POST : HTTP_GET,
        .target = target,
        .headers = bytes_of(headers, body != NULL ? sizeof headers - 1 : 0),
        .body = body,
        .body_count = body != NULL ? 1 : 0,
        .sink = on_answer,
        .arg = &t,
    };
    struct sync_answer answer;
    int rc = sync_call(f->client, &req, &answer);

    if (rc != 0) {
        lost(a, rc, error, "%s", rc == DFS_EUNAVAILABLE ? "cannot connect" : dfs_err_text(rc));
    } else if (answer.status < 200 || answer.status > 299) {
        char text[256];
        sync_answer_text(&answer, text, sizeof text);
        rc = lost(a, DFS_EPROTO, error, "it answered %s", text);
    } else if (json != NULL) {
        *json = json_loadb(t.p, t.n, JSON_REJECT_DUPLICATES, NULL);
        if (!json_is_object(*json)) {
            json_decref(*json);
            rc = lost(a, DFS_EPROTO, error, "its answer is no JSON object: is it an agent?");
        }
    }
    sync_answer_release(&answer);
    free(t.p);
    return rc;
}

/* Takes the document, which is released. */
static int post(struct record_fleet *f, const struct fleet_agent *a, const char *target, struct jsonw *w,
                char error[RECORD_ERROR_MAX])
{
    struct bytes body;
    int rc = jsonw_done(w, &body);

    if (rc != 0)
        snprintf(error, RECORD_ERROR_MAX, "%s", dfs_err_text(rc));
    else
        rc = call(f, a, target, &body, NULL, error);
    jsonw_release(w);
    return rc;
}

static void take_text(const json_t *json, const char *key, char *out, size_t cap)
{
    run_text_set(out, cap, json_string_value(json_object_get(json, key)));
}

static int ask_state(struct record_fleet *f, struct fleet_agent *a, char error[RECORD_ERROR_MAX])
{
    char target[128];
    const json_t *clock_ns, *runs;
    json_t *json;
    int rc;

    snprintf(target, sizeof target, AGENT_PATH "state?session=%s&from=%" PRIu64, f->session, UINT64_MAX >> 1);
    a->asked_ns = clock_mono_ns();
    rc = call(f, a, target, NULL, &json, error);
    a->answered_ns = clock_mono_ns();
    if (rc != 0)
        return rc;
    clock_ns = json_object_get(json, "clock_ns");
    runs = json_object_get(json, "runs");
    if (json_integer_value(json_object_get(json, "protocol")) != AGENT_PROTOCOL || !json_is_integer(clock_ns) ||
        !json_is_integer(runs)) {
        rc = lost(a, DFS_EVERSION, error, "it speaks another protocol than version %d", AGENT_PROTOCOL);
    } else {
        a->clock_ns = (uint64_t)json_integer_value(clock_ns);
        a->runs = (uint64_t)json_integer_value(runs);
        a->mine = json_is_true(json_object_get(json, "mine"));
        take_text(json, "state", a->state, sizeof a->state);
        take_text(json, "error", a->error, sizeof a->error);
        take_text(json, "master", a->masters, sizeof a->masters);
    }
    json_decref(json);
    return rc;
}

/* Its clock was read between the question and the answer; the shortest such time tells best. */
static int compare_clock(struct record_fleet *f, struct fleet_agent *a, char error[RECORD_ERROR_MAX])
{
    uint64_t best_ns = UINT64_MAX;

    for (uint32_t i = 0; i < FLEET_CLOCK_TRIES; i++) {
        int rc = ask_state(f, a, error);
        if (rc != 0)
            return rc;
        if (a->answered_ns - a->asked_ns < best_ns) {
            best_ns = a->answered_ns - a->asked_ns;
            a->ahead_ns = (int64_t)(a->clock_ns - (a->asked_ns + best_ns / 2));
        }
    }
    return 0;
}

/* ---- making ---- */

struct adding {
    struct record_fleet *f;
    char *error;
};

static int add_agent(struct bytes entry, void *arg)
{
    struct adding *add = arg;
    struct record_fleet *f = add->f;
    struct fleet_agent *a = &f->agents[f->count];
    struct sockaddr_storage sa;
    socklen_t len;
    int rc;

    if (f->count == FLEET_AGENTS_MAX) {
        snprintf(add->error, RECORD_ERROR_MAX, "more than %u agents", FLEET_AGENTS_MAX);
        return DFS_ETOOBIG;
    }
    rc = addr_parse(entry, &a->addr);
    if (rc == 0)
        addr_format(&a->addr, a->name);
    if (rc == 0)
        rc = addr_resolve(&a->addr, false, &sa, &len);
    if (rc == 0 && getnameinfo((struct sockaddr *)&sa, len, a->addr.host, sizeof a->addr.host, NULL, 0, NI_NUMERICHOST) != 0)
        rc = DFS_ENOTFOUND;
    for (uint32_t i = 0; rc == 0 && i < f->count; i++)
        if (f->agents[i].addr.port == a->addr.port && strcmp(f->agents[i].addr.host, a->addr.host) == 0)
            rc = DFS_EEXIST;
    if (rc != 0)
        snprintf(add->error, RECORD_ERROR_MAX, "agent '%.*s': %s", (int)entry.n, (const char *)entry.p, dfs_err_text(rc));
    else
        f->count++;
    return rc;
}

static int greet(struct record_fleet *f, char error[RECORD_ERROR_MAX])
{
    for (uint32_t i = 0; i < f->count; i++) {
        struct fleet_agent *a = &f->agents[i];
        int rc = compare_clock(f, a, error);
        if (rc != 0)
            return rc;
        if (strcmp(a->state, "idle") != 0) {
            snprintf(error, RECORD_ERROR_MAX, "agent %.255s is busy with another session", a->name);
            return DFS_EBUSY;
        }
    }
    return 0;
}

int record_fleet_new(const char *agents, const char *masters, struct record_fleet **out, char error[RECORD_ERROR_MAX])
{
    struct record_fleet *f = calloc(1, sizeof *f);
    struct adding add = {f, error};
    char why[SYNC_ERROR_MAX];
    int rc = DFS_ENOMEM;

    snprintf(error, RECORD_ERROR_MAX, "%s", dfs_err_text(DFS_ENOMEM));
    if (f == NULL)
        return rc;
    snprintf(f->session, sizeof f->session, "%016" PRIx64, rand_u64());
    rc = addr_list_each(bytes_str(agents), add_agent, &add);
    if (rc == 0 && f->count == 0) {
        snprintf(error, RECORD_ERROR_MAX, "no agents in '%s'", agents);
        rc = DFS_EINVAL;
    }
    if (rc == 0) {
        rc = sync_client_new(masters, FLEET_ANSWER_TIMEOUT_MS, false, &f->client, why);
        if (rc != 0)
            snprintf(error, RECORD_ERROR_MAX, "%s", why);
    }
    if (rc == 0)
        rc = greet(f, error);
    if (rc != 0) {
        record_fleet_free(f);
        return rc;
    }
    *out = f;
    return 0;
}

void record_fleet_free(struct record_fleet *f)
{
    if (f == NULL)
        return;
    sync_client_free(f->client);
    free(f);
}

uint32_t record_fleet_count(const struct record_fleet *f)
{
    return f->count;
}

const char *record_fleet_name(const struct record_fleet *f, uint32_t agent)
{
    return f->agents[agent].name;
}

const char *record_fleet_masters(const struct record_fleet *f, uint32_t agent)
{
    return f->agents[agent].masters;
}

uint32_t record_fleet_local(const struct record_fleet *f)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->count; i++)
        n += strncmp(f->agents[i].addr.host, "127.", 4) == 0 || strcmp(f->agents[i].addr.host, "::1") == 0;
    return n;
}

/* ---- phases ---- */

int record_fleet_plan(struct record_fleet *f, const struct record_run_options *o, char error[RECORD_ERROR_MAX])
{
    for (uint32_t i = 0; i < f->count; i++) {
        struct agent_plan p = {.plan = o->plan, .fsync = o->fsync, .no_verify = o->no_verify};
        struct jsonw w;
        int rc;
        memcpy(p.session, f->session, sizeof p.session);
        snprintf(p.collection, sizeof p.collection, "%s", o->collection);
        snprintf(p.replication, sizeof p.replication, "%s", o->replication);
        p.plan.seed = (o->plan.seed + i) & INT64_MAX;
        jsonw_init(&w, false);
        agent_plan_put(&w, &p);
        rc = post(f, &f->agents[i], AGENT_PATH "plan", &w, error);
        if (rc != 0)
            return rc;
        f->agents[i].planned = true;
    }
    return 0;
}

static int order(struct record_fleet *f, uint32_t agents, const struct record_phase *phase, char error[RECORD_ERROR_MAX])
{
    uint64_t start_ns = clock_mono_ns() + (FLEET_START_MS + (uint64_t)FLEET_START_EACH_MS * agents) * 1000000u;

    for (uint32_t i = 0; i < agents; i++) {
        const struct fleet_agent *a = &f->agents[i];
        struct agent_order o = {
            .step = phase->step,
            .jobs = phase->jobs,
            .seconds = phase->seconds,
            .once = phase->once,
            .start_ns = (uint64_t)((int64_t)start_ns + a->ahead_ns),
        };
        struct jsonw w;
        int rc;
        memcpy(o.session, f->session, sizeof o.session);
        jsonw_init(&w, false);
        agent_order_put(&w, &o);
        rc = post(f, a, AGENT_PATH "run", &w, error);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* Until the first so many have ended one phase more; all are asked, which keeps their sessions. */
static int wait_for(struct record_fleet *f, uint32_t agents, const uint64_t runs[], char error[RECORD_ERROR_MAX])
{
    for (;;) {
        uint32_t ended = 0;
        for (uint32_t i = 0; i < f->count; i++) {
            struct fleet_agent *a = &f->agents[i];
            int rc = ask_state(f, a, error);
            if (rc != 0)
                return rc;
            if (!a->mine || strcmp(a->state, "ending") == 0)
                return lost(a, DFS_ESTALE, error, "it has ended the session");
            if (i < agents && a->runs > runs[i]) {
                if (a->error[0] != '\0')
                    return lost(a, DFS_EIO, error, "%s", a->error);
                ended++;
            }
        }
        if (ended == agents)
            return 0;
        clock_sleep_ms(FLEET_POLL_MS);
    }
}

static int fetch_outcome(struct record_fleet *f, struct fleet_agent *a, struct record_outcome *into, char error[RECORD_ERROR_MAX])
{
    struct record_outcome one;
    char target[128];
    json_t *json;
    int rc = record_outcome_init(&one);

    snprintf(target, sizeof target, AGENT_PATH "outcome?session=%s", f->session);
    if (rc != 0)
        snprintf(error, RECORD_ERROR_MAX, "%s", dfs_err_text(rc));
    else if ((rc = call(f, a, target, NULL, &json, error)) == 0) {
        rc = record_outcome_read(json_object_get(json, "outcome"), &one);
        json_decref(json);
        if (rc == 0)
            rc = record_outcome_merge(into, &one);
        if (rc != 0)
            lost(a, rc, error, "its outcome: %s", dfs_err_text(rc));
    }
    record_outcome_release(&one);
    return rc;
}

int record_fleet_phase(struct record_fleet *f, uint32_t agents, const struct record_phase *phase, struct record_outcome *out,
                       char error[RECORD_ERROR_MAX])
{
    uint64_t runs[FLEET_AGENTS_MAX];
    int rc = 0;

    for (uint32_t i = 0; i < f->count && rc == 0; i++) {
        rc = compare_clock(f, &f->agents[i], error);
        runs[i] = f->agents[i].runs;
    }
    if (rc == 0)
        rc = order(f, agents, phase, error);
    if (rc == 0)
        rc = wait_for(f, agents, runs, error);
    if (rc != 0)
        return rc;
    rc = record_outcome_init(out);
    for (uint32_t i = 0; i < agents && rc == 0; i++)
        rc = fetch_outcome(f, &f->agents[i], out, error);
    if (rc != 0)
        record_outcome_release(out);
    return rc;
}

/* ---- the end ---- */

int record_fleet_end(struct record_fleet *f, bool keep, bool wait, char error[RECORD_ERROR_MAX])
{
    uint64_t give_up_ms = clock_mono_ms() + END_WAIT_MS;
    int rc = 0, one;

    for (uint32_t i = 0; i < f->count; i++) {
        struct agent_end e = {.keep = keep};
        struct jsonw w;
        if (!f->agents[i].planned)
            continue;
        memcpy(e.session, f->session, sizeof e.session);
        jsonw_init(&w, false);
        agent_end_put(&w, &e);
        one = post(f, &f->agents[i], AGENT_PATH "end", &w, error);
        rc = rc == 0 ? one : rc;
    }
    for (uint32_t i = 0; i < f->count && wait && rc == 0; i++) {
        struct fleet_agent *a = &f->agents[i];
        while ((rc = ask_state(f, a, error)) == 0 && a->mine && clock_mono_ms() < give_up_ms)
            clock_sleep_ms(FLEET_POLL_MS);
    }
    return rc;
}
