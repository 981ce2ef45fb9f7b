/* Requests to an agent, as JSON and back. */
#include "bench/agent.h"

#include <jansson.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "needle/err.h"
#include "needle/replica_placement.h"
#include "net/http_util.h"

#define JSON_INTEGER_MAX INT64_MAX

void agent_plan_put(struct jsonw *w, const struct agent_plan *p)
{
    jsonw_object(w);
    jsonw_put_u64(w, "protocol", AGENT_PROTOCOL);
    jsonw_put_str(w, "session", p->session);
    jsonw_put_object(w, "plan");
    jsonw_put_str(w, "rw", record_rw_name(p->plan.rw));
    jsonw_put_u64(w, "jobs", p->plan.jobs);
    jsonw_put_u64(w, "record_bytes", p->plan.record_bytes);
    jsonw_put_u64(w, "needle_bytes", p->plan.needle_bytes);
    jsonw_put_u64(w, "file_bytes", p->plan.file_bytes);
    jsonw_put_u64(w, "read_percent", p->plan.read_percent);
    jsonw_put_u64(w, "seed", p->plan.seed);
    jsonw_object_end(w);
    jsonw_put_str(w, "collection", p->collection);
    jsonw_put_str(w, "replication", p->replication);
    jsonw_put_bool(w, "fsync", p->fsync);
    jsonw_put_bool(w, "no_verify", p->no_verify);
    jsonw_object_end(w);
}

void agent_order_put(struct jsonw *w, const struct agent_order *o)
{
    jsonw_object(w);
    jsonw_put_str(w, "session", o->session);
    jsonw_put_str(w, "step", record_step_name(o->step));
    jsonw_put_u64(w, "jobs", o->jobs);
    jsonw_put_double(w, "seconds", o->seconds);
    jsonw_put_bool(w, "once", o->once);
    jsonw_put_u64(w, "start_ns", o->start_ns);
    jsonw_object_end(w);
}

void agent_end_put(struct jsonw *w, const struct agent_end *e)
{
    jsonw_object(w);
    jsonw_put_str(w, "session", e->session);
    jsonw_put_bool(w, "keep", e->keep);
    jsonw_object_end(w);
}

/* ---- back ---- */

/* The first field that is missing or wrong is remembered; what is read after it is zero. */
struct fields {
    const json_t *object;
    const char *bad;
};

static uint64_t get_u64(struct fields *f, const char *key, uint64_t max)
{
    const json_t *v = json_object_get(f->object, key);
    json_int_t n = json_integer_value(v);

    if (f->bad == NULL && (!json_is_integer(v) || n < 0 || (uint64_t)n > max))
        f->bad = key;
    return f->bad == NULL ? (uint64_t)n : 0;
}

static bool get_bool(struct fields *f, const char *key)
{
    const json_t *v = json_object_get(f->object, key);

    if (f->bad == NULL && !json_is_boolean(v))
        f->bad = key;
    return f->bad == NULL && json_is_true(v);
}

static struct bytes get_text(struct fields *f, const char *key, size_t max)
{
    const json_t *v = json_object_get(f->object, key);
    size_t n = json_string_length(v);

    if (f->bad == NULL && (!json_is_string(v) || n > max || strlen(json_string_value(v)) != n))
        f->bad = key;
    return f->bad == NULL ? bytes_of(json_string_value(v), n) : bytes_of("", 0);
}

static void copy_text(struct bytes from, char *out)
{
    memcpy(out, from.p, from.n);
    out[from.n] = '\0';
}

static void get_session(struct fields *f, char out[AGENT_SESSION_MAX])
{
    struct bytes text = get_text(f, "session", AGENT_SESSION_MAX - 1);

    if (f->bad == NULL && (text.n == 0 || !name_is_safe(text)))
        f->bad = "session";
    copy_text(text, out);
}

static int outcome(const struct fields *f, char error[RECORD_ERROR_MAX])
{
    if (f->bad == NULL)
        return 0;
    snprintf(error, RECORD_ERROR_MAX, "field '%s' is missing, or not what it should be", f->bad);
    return DFS_EINVAL;
}

static json_t *load_object(struct bytes body, char error[RECORD_ERROR_MAX])
{
    json_error_t why;
    json_t *doc = json_loadb((const char *)body.p, body.n, JSON_REJECT_DUPLICATES, &why);

    if (json_is_object(doc))
        return doc;
    json_decref(doc);
    snprintf(error, RECORD_ERROR_MAX, "not a JSON object");
    return NULL;
}

static void get_plan(struct fields *f, struct record_plan *p)
{
    if (record_rw_parse(get_text(f, "rw", 16), &p->rw) != 0 && f->bad == NULL)
        f->bad = "rw";
    p->jobs = (uint32_t)get_u64(f, "jobs", RECORD_JOBS_MAX);
    p->record_bytes = get_u64(f, "record_bytes", RECORD_BYTES_MAX);
    p->needle_bytes = get_u64(f, "needle_bytes", RECORD_BYTES_MAX);
    p->file_bytes = get_u64(f, "file_bytes", JSON_INTEGER_MAX);
    p->read_percent = (uint32_t)get_u64(f, "read_percent", 100);
    p->seed = get_u64(f, "seed", JSON_INTEGER_MAX);
}

int agent_plan_parse(struct bytes body, struct agent_plan *out, char error[RECORD_ERROR_MAX])
{
    json_t *doc = load_object(body, error);
    struct fields f = {.object = doc}, inner;
    struct agent_plan p = {0};
    struct replica_placement rp;
    int rc;

    if (doc == NULL)
        return DFS_EINVAL;
    if (get_u64(&f, "protocol", JSON_INTEGER_MAX) != AGENT_PROTOCOL && f.bad == NULL)
        f.bad = "protocol";
    get_session(&f, p.session);
    copy_text(get_text(&f, "collection", AGENT_NAME_MAX - 1), p.collection);
    copy_text(get_text(&f, "replication", sizeof p.replication - 1), p.replication);
    p.fsync = get_bool(&f, "fsync");
    p.no_verify = get_bool(&f, "no_verify");
    if (f.bad == NULL && !name_is_safe(bytes_str(p.collection)))
        f.bad = "collection";
    if (f.bad == NULL && replica_placement_parse(bytes_str(p.replication), &rp) != 0)
        f.bad = "replication";
    inner = (struct fields){json_object_get(doc, "plan"), f.bad};
    get_plan(&inner, &p.plan);
    rc = outcome(&inner, error);
    json_decref(doc);
    if (rc == 0 && record_plan_check(&p.plan, error) != 0)
        rc = DFS_EINVAL;
    if (rc == 0)
        *out = p;
    return rc;
}

int agent_order_parse(struct bytes body, struct agent_order *out, char error[RECORD_ERROR_MAX])
{
    json_t *doc = load_object(body, error);
    struct fields f = {.object = doc};
    struct agent_order o = {0};
    const json_t *seconds;
    int rc;

    if (doc == NULL)
        return DFS_EINVAL;
    get_session(&f, o.session);
    if (record_step_parse(get_text(&f, "step", 32), &o.step) != 0 && f.bad == NULL)
        f.bad = "step";
    o.jobs = (uint32_t)get_u64(&f, "jobs", RECORD_JOBS_MAX);
    o.once = get_bool(&f, "once");
    o.start_ns = get_u64(&f, "start_ns", JSON_INTEGER_MAX);
    seconds = json_object_get(doc, "seconds");
    o.seconds = json_number_value(seconds);
    if (f.bad == NULL && (!json_is_number(seconds) || !(o.seconds >= 0 && o.seconds <= RECORD_RUNTIME_MAX_MS / 1e3)))
        f.bad = "seconds";
    if (f.bad == NULL && o.jobs == 0)
        f.bad = "jobs";
    rc = outcome(&f, error);
    json_decref(doc);
    if (rc == 0)
        *out = o;
    return rc;
}

int agent_end_parse(struct bytes body, struct agent_end *out, char error[RECORD_ERROR_MAX])
{
    json_t *doc = load_object(body, error);
    struct fields f = {.object = doc};
    struct agent_end e = {0};
    int rc;

    if (doc == NULL)
        return DFS_EINVAL;
    get_session(&f, e.session);
    e.keep = get_bool(&f, "keep");
    rc = outcome(&f, error);
    json_decref(doc);
    if (rc == 0)
        *out = e;
    return rc;
}

bool agent_address_is_any(const struct sockaddr_storage *a)
{
    const struct in6_addr *six = &((const struct sockaddr_in6 *)a)->sin6_addr;
    static const struct in6_addr zero;

    if (a->ss_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr == INADDR_ANY;
    return memcmp(six, &zero, sizeof zero) == 0 || (IN6_IS_ADDR_V4MAPPED(six) && memcmp(&six->s6_addr[12], &zero, 4) == 0);
}
