/* `dfs benchmark agent`: the HTTP side, and waiting for the end. */
#include "bench/agent.h"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "bench/agent_session.h"
#include "bench/benchmark.h"
#include "bench/mode_run.h"
#include "needle/err.h"
#include "net/addr.h"
#include "net/http_server.h"
#include "net/http_util.h"
#include "net/rand.h"

#define MODE_NAME "agent"
#define EXIT_USAGE 2
#define CONNECTIONS_MAX 64u
#define LEASE_LOOK_MS 500u

struct agent {
    struct agent_session *session;
    struct loop *loop;
    struct http_server *server;
    struct loop_timer lease;
};

/* Hangs on a request with a body, in its arena. */
struct post {
    size_t n;
    char body[AGENT_BODY_MAX];
};

/* ---- answers ---- */

static void refuse(struct http_req *r, int rc, const char *why)
{
    int status = rc == DFS_EBUSY ? 409 : rc == DFS_ENOTFOUND ? 404 : rc == DFS_EINVAL ? 400 : http_status_from_err(rc);
    http_reply_error(r, status, "%s", why);
}

static void reply_json(struct http_req *r, struct jsonw *w)
{
    struct bytes text;
    int rc = jsonw_done(w, &text);

    if (rc != 0)
        refuse(r, rc, dfs_err_text(rc));
    else
        http_reply_json_text(r, 200, text);
}

static void reply_done(struct http_req *r, int rc, const char *error)
{
    if (rc != 0)
        refuse(r, rc, error);
    else
        http_reply_json_text(r, 202, bytes_str("{}"));
}

/* ---- requests ---- */

static bool is_path(const struct http_req *r, const char *path)
{
    return bytes_eq(r->head.path, bytes_str(path));
}

static void get_state(struct http_req *r, const struct http_params *p)
{
    struct agent *a = r->server_arg;
    struct jsonw w;
    uint64_t from;

    if (http_params_u64(p, "from", 0, &from) != 0) {
        refuse(r, DFS_EINVAL, "from is no number");
        return;
    }
    jsonw_init(&w, false);
    agent_session_state(a->session, http_params_get(p, "session"), from, &w);
    reply_json(r, &w);
    jsonw_release(&w);
}

static void get_outcome(struct http_req *r, const struct http_params *p)
{
    struct agent *a = r->server_arg;
    char error[RECORD_ERROR_MAX];
    struct jsonw w;
    int rc;

    jsonw_init(&w, false);
    rc = agent_session_outcome(a->session, http_params_get(p, "session"), &w, error);
    if (rc != 0)
        refuse(r, rc, error);
    else
        reply_json(r, &w);
    jsonw_release(&w);
}

static void on_get(struct http_req *r)
{
    struct http_params p;

    http_params_init(&p);
    if (http_params_parse(&p, r->head.query) != 0)
        refuse(r, DFS_EINVAL, "a query that is none");
    else if (is_path(r, AGENT_PATH "state"))
        get_state(r, &p);
    else if (is_path(r, AGENT_PATH "outcome"))
        get_outcome(r, &p);
    else
        http_reply_error(r, 404, "no such call");
    http_params_release(&p);
}

static void on_request(struct http_req *r)
{
    struct bytes type = http_header_get(&r->head, "Content-Type");

    if (r->head.method == HTTP_GET) {
        on_get(r);
        return;
    }
    if (r->head.method != HTTP_POST) {
        http_reply_error(r, 405, "only GET and POST");
        return;
    }
    /* A page in somebody's browser can send any other type here without asking. */
    if (!bytes_eq(type, bytes_str("application/json"))) {
        http_reply_error(r, 415, "a request must be of the type application/json");
        return;
    }
    if (r->head.has_length && r->head.content_length > AGENT_BODY_MAX) {
        http_reply_error(r, 413, "a request is at most %u bytes", AGENT_BODY_MAX);
        return;
    }
    r->user = http_req_alloc(r, sizeof(struct post));
    if (r->user == NULL)
        refuse(r, DFS_ENOMEM, dfs_err_text(DFS_ENOMEM));
}

static int on_body(struct http_req *r, struct bytes in, size_t *taken)
{
    struct post *p = r->user;

    if (p == NULL || in.n > sizeof p->body - p->n) {
        http_reply_error(r, 413, "a request is at most %u bytes", AGENT_BODY_MAX);
        return DFS_ETOOBIG;
    }
    memcpy(p->body + p->n, in.p, in.n);
    p->n += in.n;
    *taken = in.n;
    return 0;
}

static void on_end(struct http_req *r)
{
    struct agent *a = r->server_arg;
    struct post *p = r->user;
    struct bytes body = bytes_of(p->body, p->n);
    char error[RECORD_ERROR_MAX] = "no such call";
    int rc = DFS_ENOTFOUND;

    if (is_path(r, AGENT_PATH "plan")) {
        struct agent_plan plan;
        rc = agent_plan_parse(body, &plan, error);
        if (rc == 0)
            rc = agent_session_plan(a->session, &plan, error);
    } else if (is_path(r, AGENT_PATH "run")) {
        struct agent_order order;
        rc = agent_order_parse(body, &order, error);
        if (rc == 0)
            rc = agent_session_run(a->session, &order, error);
    } else if (is_path(r, AGENT_PATH "end")) {
        struct agent_end end;
        rc = agent_end_parse(body, &end, error);
        if (rc == 0)
            rc = agent_session_end(a->session, &end, error);
    }
    reply_done(r, rc, error);
}

/* What hangs on a request lies in its arena. */
static void on_close(struct http_req *r)
{
    r->user = NULL;
}

static const struct http_handler handler = {on_request, on_body, on_end, on_close};

/* ---- life ---- */

static void on_lease(void *arg)
{
    struct agent *a = arg;
    agent_session_check_lease(a->session);
    loop_timer_set(&a->lease, LEASE_LOOK_MS);
}

static int complain(const char *what, const char *subject, int rc)
{
    return mode_complain(MODE_NAME, "cannot %s '%s': %s", what, subject, dfs_err_text(rc));
}

/* The address as numbers: what is refused is decided by these. */
static int listen_address(const struct mode_options *o, struct addr *out)
{
    struct sockaddr_storage sa;
    socklen_t len;
    int rc = addr_parse(bytes_str(o->listen), out);

    if (rc == 0)
        rc = addr_resolve(out, false, &sa, &len);
    if (rc == 0 && getnameinfo((struct sockaddr *)&sa, len, out->host, sizeof out->host, NULL, 0, NI_NUMERICHOST) != 0)
        rc = DFS_ENOTFOUND;
    if (rc != 0)
        return complain("listen on", o->listen, rc);
    if (agent_address_is_any(&sa) && !o->listen_to_all)
        return mode_complain(MODE_NAME, "-listen %s is every network, and nobody is asked who he is: name one, or say -listenToAll",
                             o->listen);
    return 0;
}

static int serve(struct agent *a, const struct addr *addr)
{
    struct http_server_options so;
    int rc;

    http_server_options_init(&so);
    so.accept_loop = a->loop;
    so.loops = &a->loop;
    so.loop_count = 1;
    so.host = addr->host;
    so.port = addr->port;
    so.handler = &handler;
    so.arg = a;
    so.server_header = "dfs benchmark agent";
    so.max_connections = CONNECTIONS_MAX;
    rc = http_server_new(&so, &a->server);
    if (rc != 0)
        return rc;
    loop_timer_init(&a->lease, a->loop, on_lease, a);
    loop_timer_set(&a->lease, LEASE_LOOK_MS);
    return loop_start(a->loop);
}

static void wait_for_signal(const sigset_t *set, const struct mode_options *o)
{
    int signal_number;

    printf("dfs benchmark agent %s listens on %s for loads on the store of %s; nobody is asked who he is\n", benchmark_version_text,
           o->listen, o->masters);
    fflush(stdout);
    sigwait(set, &signal_number);
    /* Deleting takes its time; whoever cannot wait for it asks again. */
    pthread_sigmask(SIG_UNBLOCK, set, NULL);
}

int mode_agent(const struct mode_options *o, int argc, char **argv)
{
    struct agent a = {0};
    struct addr addr;
    sigset_t set;
    int rc;

    if (argc > 0) {
        mode_complain(MODE_NAME, "'%s' is no option; see `dfs help benchmark agent`", argv[0]);
        return EXIT_USAGE;
    }
    if (listen_address(o, &addr) != 0)
        return EXIT_USAGE;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    rc = rand_init();
    if (rc == 0)
        rc = loop_new("agent", &a.loop);
    if (rc == 0)
        rc = agent_session_new(o, &a.session);
    if (rc == 0)
        rc = serve(&a, &addr);
    if (rc == 0)
        wait_for_signal(&set, o);
    else
        complain("listen on", o->listen, rc);
    if (rc == 0) {
        loop_stop(a.loop);
        loop_join(a.loop);
    }
    loop_timer_release(&a.lease);
    if (a.server != NULL)
        http_server_free(a.server);
    /* Whoever asks from here on is told at once that nobody listens; what was written is deleted first. */
    agent_session_free(a.session);
    if (a.loop != NULL)
        loop_free(a.loop);
    return rc == 0 ? 0 : 1;
}
