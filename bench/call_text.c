/* Targets and reasons. */
#include "bench/call_text.h"

#include <stdio.h>
#include <string.h>

#include "needle/check.h"
#include "needle/err.h"

size_t call_target(const struct fid *fid, struct bytes query, char out[CALL_TARGET_MAX])
{
    out[0] = '/';
    size_t n = 1 + fid_format(fid, out + 1);
    CHECK(n + query.n < CALL_TARGET_MAX);
    if (query.n > 0)
        memcpy(out + n, query.p, query.n);
    return n + query.n;
}

void call_reason_add(struct call_reason *r, struct bytes in)
{
    size_t n = sizeof r->text - 1 - r->n;
    if (n > in.n)
        n = in.n;
    if (n > 0)
        memcpy(r->text + r->n, in.p, n);
    r->n += n;
}

void call_reason_text(const struct call_reason *r, int rc, int status, char out[CALL_REASON_TEXT_MAX])
{
    if (rc != 0) {
        snprintf(out, CALL_REASON_TEXT_MAX, "%s", dfs_err_text(rc));
        return;
    }
    int n = snprintf(out, 16, "%d ", status);
    for (size_t i = 0; i < r->n; i++)
        out[n++] = (unsigned char)r->text[i] >= ' ' && r->text[i] != 0x7f ? r->text[i] : ' ';
    while (n > 0 && out[n - 1] == ' ')
        n--;
    out[n] = '\0';
}
