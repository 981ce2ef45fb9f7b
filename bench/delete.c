/* dfs delete: one JSON array of what became of each id. */
#include <stdio.h>

#include "bench/tool_run.h"
#include "needle/err.h"
#include "net/jsonw.h"

static int delete_one(struct sync_client *c, const char *text, struct jsonw *w)
{
    struct fid fid;
    const struct addr *addr;
    struct sync_answer a;
    char target[FID_TEXT_MAX + 1] = "/";

    if (tool_locate("delete", c, text, &fid, &addr) != 0)
        return 1;
    fid_format(&fid, target + 1);
    struct sync_request req = {.addr = addr, .method = HTTP_DELETE, .target = target};
    if (tool_call("delete", c, &req, "delete", text, &a) != 0)
        return 1;
    jsonw_object(w);
    jsonw_put_str(w, "fid", text);
    jsonw_put_u64(w, "status", (uint64_t)a.status);
    jsonw_object_end(w);
    sync_answer_release(&a);
    return 0;
}

int tool_delete(const struct tool_options *o, int argc, char **argv)
{
    struct sync_client *c;
    struct jsonw w;
    struct bytes text;
    int status = 0;

    if (argc == 0)
        return tool_usage("delete", "name the ids to delete");
    c = tool_client("delete", o);
    if (c == NULL)
        return 1;
    jsonw_init(&w, false);
    jsonw_array(&w);
    for (int i = 0; i < argc; i++)
        status |= delete_one(c, argv[i], &w);
    jsonw_array_end(&w);
    if (jsonw_done(&w, &text) != 0 || printf("%.*s\n", (int)text.n, text.p) < 0 || fflush(stdout) != 0)
        status = 1;
    jsonw_release(&w);
    sync_client_free(c);
    return status;
}
