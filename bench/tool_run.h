/* What upload.c, download.c and delete.c share.  Nobody else includes this. */
#ifndef DFS_BENCH_TOOL_RUN_H
#define DFS_BENCH_TOOL_RUN_H

#include "bench/sync_client.h"
#include "bench/tool.h"
#include "needle/fid.h"

/* One line on standard error: "dfs upload: cannot ...".  Returns 1, the exit status. */
int tool_complain(const char *tool, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same for a wrong command line.  Returns 2. */
int tool_usage(const char *tool, const char *why);

/* The last such line, without the tool's name; "" when there was none.  Valid until the next. */
const char *tool_last_complaint(void);

/* A client of the masters, or a line and NULL. */
struct sync_client *tool_client(const char *tool, const struct tool_options *o);

/* "3,01637037d6" -> id and the address of a server that has its volume.  0, or 1 after a line. */
int tool_locate(const char *tool, struct sync_client *c, const char *text, struct fid *fid, const struct addr **addr);

/* Calls, and turns everything but a 2xx answer into a line that begins "cannot WHAT SUBJECT: ".  0: *a is to be released. */
int tool_call(const char *tool, struct sync_client *c, const struct sync_request *req, const char *what, const char *subject,
              struct sync_answer *a);

#endif
