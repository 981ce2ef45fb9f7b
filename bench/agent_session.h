/* What an agent is doing: idle, or with a session, whose phases one worker thread carries out.
 *
 * The HTTP side asks for changes and looks at the state; nothing here waits for the worker, but for agent_session_free().  One lock
 * around all of it.  Any thread. */
#ifndef DFS_BENCH_AGENT_SESSION_H
#define DFS_BENCH_AGENT_SESSION_H

#include "bench/agent.h"
#include "bench/mode.h"

struct agent_session;

/* Borrows the options: masters, loops, timeout.  With its worker running.  DFS_ENOMEM, DFS_EAGAIN. */
int agent_session_new(const struct mode_options *o, struct agent_session **out);
/* Ends the session as agent_session_end() does, and waits for that. */
void agent_session_free(struct agent_session *s);

/* 0; DFS_EBUSY: another session; DFS_ENOMEM: does not fit; one line in error. */
int agent_session_plan(struct agent_session *s, const struct agent_plan *p, char error[RECORD_ERROR_MAX]);
/* 0; DFS_ENOTFOUND: not this session; DFS_EBUSY: a phase is under way; DFS_EINVAL: more jobs than planned, a start out of reach. */
int agent_session_run(struct agent_session *s, const struct agent_order *o, char error[RECORD_ERROR_MAX]);
/* 0; DFS_ENOTFOUND. */
int agent_session_end(struct agent_session *s, const struct agent_end *e, char error[RECORD_ERROR_MAX]);

/* Whole documents.  session: "" or the asker's, whose lease begins anew; from: first second that is wanted. */
void agent_session_state(struct agent_session *s, struct bytes session, uint64_t from, struct jsonw *w);
/* 0; DFS_ENOTFOUND: not this session, or no phase has ended well; DFS_ETOOBIG. */
int agent_session_outcome(struct agent_session *s, struct bytes session, struct jsonw *w, char error[RECORD_ERROR_MAX]);

/* Now and then: ends a session whose client is gone. */
void agent_session_check_lease(struct agent_session *s);

#endif
