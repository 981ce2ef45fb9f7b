/* One of several clients of `dfs benchmark records -clients`: a process that carries out phases on request, and the language
 * in which it is asked.
 *
 * It is HTTP and JSON, one session at a time, version AGENT_PROTOCOL, every body at most AGENT_BODY_MAX bytes:
 *
 *   POST /benchmark/v1/plan  {"protocol": 1, "session": "9f..", "plan": {..}, "collection": "", "replication": "",
 *                            "fsync": false, "no_verify": false}
 *        makes room for the jobs' lists; 409 while there is another session
 *   POST /benchmark/v1/run   {"session": "9f..", "step": "random-read", "jobs": 4, "seconds": 10, "once": false, "start_ns": 0}
 *        begins a phase (record_set.h names the steps) at that time of the agent's own monotonic clock
 *   GET  /benchmark/v1/state?session=9f..&from=N
 *        {"protocol": 1, "clock_ns": .., "state": "running", "mine": true, "runs": 2, "error": "", "master": "..",
 *        "available_bytes": .., "seconds": [[completed, failed, bytes], ..]}: what it does, whether in the asker's session, how
 *        many phases have ended, why the last one could not be, and the seconds of the phase from number N on
 *   GET  /benchmark/v1/outcome?session=9f..
 *        figures, series and whole histograms of the phase that ended last (record_outcome.h)
 *   POST /benchmark/v1/end   {"session": "9f..", "keep": false}
 *        ends the phase under way, deletes what was written, is idle again
 *
 * Clocks are compared by asking for the state: the answer that came back fastest tells the distance best.  A session whose client
 * is not heard of for AGENT_LEASE_MS ends by itself.
 *
 * What an agent will do is bounded: it writes to, reads from and deletes at the masters it was started for, nowhere else, only what
 * it wrote itself, in patterns of record_plan.h's bounds that fit its memory.  Nobody is asked who he is, so it listens on a
 * loopback or an explicit address, and a POST without "Content-Type: application/json",
 * such as a web page could send, is refused. */
#ifndef DFS_BENCH_AGENT_H
#define DFS_BENCH_AGENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "bench/record_plan.h"
#include "bench/record_run.h"
#include "needle/bytes.h"
#include "net/jsonw.h"

#define AGENT_PROTOCOL 1
#define AGENT_PATH "/benchmark/v1/"
#define AGENT_BODY_MAX 4096u
#define AGENT_SESSION_MAX 33u        /* with its closing zero */
#define AGENT_NAME_MAX 201u          /* of a collection, with its closing zero */
#define AGENT_LEASE_MS 10000u
#define AGENT_START_MAX_MS 60000u    /* a phase begins within this */
#define AGENT_SECONDS_MAX 600u       /* of one state's answer */
#define AGENT_ANSWER_MAX (8u << 20)  /* of an outcome */

/* POST plan */
struct agent_plan {
    char session[AGENT_SESSION_MAX];
    struct record_plan plan;
    char collection[AGENT_NAME_MAX], replication[4];
    bool fsync, no_verify;
};

/* POST run */
struct agent_order {
    char session[AGENT_SESSION_MAX];
    enum record_step step;
    uint32_t jobs;
    double seconds;
    bool once;
    uint64_t start_ns;
};

/* POST end */
struct agent_end {
    char session[AGENT_SESSION_MAX];
    bool keep;
};

/* Whole documents into a writer that was initialised. */
void agent_plan_put(struct jsonw *w, const struct agent_plan *p);
void agent_order_put(struct jsonw *w, const struct agent_order *o);
void agent_end_put(struct jsonw *w, const struct agent_end *e);

/* From the network: any input is fine.  DFS_EINVAL with one line in error; the plan is checked (record_plan_check). */
int agent_plan_parse(struct bytes body, struct agent_plan *out, char error[RECORD_ERROR_MAX]);
int agent_order_parse(struct bytes body, struct agent_order *out, char error[RECORD_ERROR_MAX]);
int agent_end_parse(struct bytes body, struct agent_end *out, char error[RECORD_ERROR_MAX]);

/* Whether the address is one of every network: 0.0.0.0, ::, ::ffff:0.0.0.0. */
bool agent_address_is_any(const struct sockaddr_storage *a);

#endif
