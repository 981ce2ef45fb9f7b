/* Defaults and what the tools have in common. */
#include "bench/tool.h"

#include <stdarg.h>
#include <stdio.h>

#include "bench/tool_run.h"
#include "needle/err.h"
#include "net/rand.h"

void tool_options_init(struct tool_options *o)
{
    *o = (struct tool_options){
        .server = "127.0.0.1:9333",
        .dir = "",
        .into = ".",
        .include = "",
        .replication = "",
        .collection = "",
        .data_center = "",
        .ttl = "",
        .disk = "",
        .max_bytes = 4u << 20,
        .timeout_ms = 60000,
    };
}

/* The tools run on one thread. */
static char complaint[1024];

int tool_complain(const char *tool, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(complaint, sizeof complaint, fmt, ap);
    va_end(ap);
    fprintf(stderr, "dfs %s: %s\n", tool, complaint);
    return 1;
}

int tool_usage(const char *tool, const char *why)
{
    tool_complain(tool, "%s", why);
    return 2;
}

const char *tool_last_complaint(void)
{
    return complaint;
}

struct sync_client *tool_client(const char *tool, const struct tool_options *o)
{
    char error[SYNC_ERROR_MAX];
    struct sync_client *c;

    if (rand_init() != 0) {
        tool_complain(tool, "cannot start the random number generator");
        return NULL;
    }
    if (sync_client_new(o->server, o->timeout_ms, o->use_public_url, &c, error) != 0) {
        tool_complain(tool, "%s", error);
        return NULL;
    }
    return c;
}

int tool_locate(const char *tool, struct sync_client *c, const char *text, struct fid *fid, const struct addr **addr)
{
    char error[SYNC_ERROR_MAX];
    if (fid_parse(bytes_str(text), fid) != 0)
        return tool_complain(tool, "'%.100s' is no file id", text);
    if (sync_lookup(c, fid->volume_id, addr, error) != 0)
        return tool_complain(tool, "%s", error);
    return 0;
}

int tool_call(const char *tool, struct sync_client *c, const struct sync_request *req, const char *what, const char *subject,
              struct sync_answer *a)
{
    char text[256];
    int rc = sync_call(c, req, a);

    if (rc != 0)
        return tool_complain(tool, "cannot %s %s at %s:%u: %s", what, subject, req->addr->host, (unsigned)req->addr->port,
                             dfs_err_text(rc));
    if (a->status >= 200 && a->status <= 299)
        return 0;
    sync_answer_text(a, text, sizeof text);
    sync_answer_release(a);
    return tool_complain(tool, "cannot %s %s at %s:%u: %s", what, subject, req->addr->host, (unsigned)req->addr->port, text);
}
