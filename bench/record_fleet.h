/* The other end of agent.h: a client of several agents, which begin each phase at a common time and whose outcomes are merged.
 *
 * An agent that cannot be reached, has forgotten its session or says something else than agent.h does is lost, and with it the run:
 * every function here then returns a code with one line that names it.  Agents that are left end their session when they are told
 * (record_fleet_end) or when they hear nothing any more.  One thread; blocks. */
#ifndef DFS_BENCH_RECORD_FLEET_H
#define DFS_BENCH_RECORD_FLEET_H

#include "bench/record_outcome.h"
#include "bench/record_run.h"

#define FLEET_AGENTS_MAX RECORD_LIST_MAX
#define FLEET_ANSWER_TIMEOUT_MS 5000u /* an agent that says nothing for so long is lost */
#define FLEET_POLL_MS 100u            /* between looks at all agents */
#define FLEET_START_MS 300u           /* from the order to the common start, and ... */
#define FLEET_START_EACH_MS 20u       /* ... for each agent that has to be told */
#define FLEET_CLOCK_TRIES 5u          /* questions by which a clock is compared */

struct record_fleet;

/* agents: comma list of host:port, each once.  Asks each what it does: all must be idle.  masters: of the run, told to nobody. */
int record_fleet_new(const char *agents, const char *masters, struct record_fleet **out, char error[RECORD_ERROR_MAX]);
void record_fleet_free(struct record_fleet *f);

/* Agents of the list. */
uint32_t record_fleet_count(const struct record_fleet *f);
/* "host:port" as it was given. */
const char *record_fleet_name(const struct record_fleet *f, uint32_t agent);
/* What it said of its masters; "" before it was asked. */
const char *record_fleet_masters(const struct record_fleet *f, uint32_t agent);
/* Agents with a loopback address: they share this machine. */
uint32_t record_fleet_local(const struct record_fleet *f);

/* Every agent makes room for the plan's jobs, with a seed of its own.  Of o: collection, replication, fsync, no_verify, plan. */
int record_fleet_plan(struct record_fleet *f, const struct record_run_options *o, char error[RECORD_ERROR_MAX]);

/* One phase on the first so many agents (start_ns and on_second of the phase are not used), the others being kept waiting.  *out is
 * initialised and filled, merged over all. */
int record_fleet_phase(struct record_fleet *f, uint32_t agents, const struct record_phase *phase, struct record_outcome *out,
                       char error[RECORD_ERROR_MAX]);

/* Ends the sessions of all that can be reached; keep: they delete nothing.  wait: until they are idle again, at most an hour. */
int record_fleet_end(struct record_fleet *f, bool keep, bool wait, char error[RECORD_ERROR_MAX]);

#endif
