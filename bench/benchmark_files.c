/* What plain `dfs benchmark` leaves beside its report.  What it draws is made of its own report, read back, so that it can
 * say nothing else than what `dfs benchmark plot` would. */
#include <inttypes.h>
#include <stdlib.h>

#include "bench/benchmark_run.h"
#include "bench/run_json.h"
#include "needle/err.h"

static int report_text(struct bench_run *run, char **text, size_t *n)
{
    FILE *memory = open_memstream(text, n);
    int rc = memory != NULL ? report_json_write(memory, run) : DFS_ENOMEM;

    if (memory != NULL && fclose(memory) != 0 && rc == 0)
        rc = DFS_ENOMEM;
    return rc;
}

int bench_drawings_write(struct run_output *drawings, struct bench_run *run, char error[RUN_OUTPUT_ERROR_MAX])
{
    char why[RUN_JSON_ERROR_MAX];
    struct run_result r;
    char *text = NULL;
    size_t n = 0;
    int rc = report_text(run, &text, &n);

    snprintf(why, sizeof why, "%s", rc != 0 ? dfs_err_text(rc) : "");
    run_result_init(&r);
    if (rc == 0)
        rc = run_json_parse(bytes_of(text, n), &r, why);
    free(text);
    if (rc == 0)
        rc = run_output_write(drawings, &r, error);
    else
        snprintf(error, RUN_OUTPUT_ERROR_MAX, "cannot draw the report: %.400s", why);
    run_output_close(drawings);
    run_result_release(&r);
    return rc;
}

void bench_profile_write(FILE *out, const struct bench_run *run)
{
    for (uint32_t i = 0; i < run->outcome_count; i++) {
        const struct bench_outcome *o = &run->outcomes[i];
        uint64_t done = o->result.completed + o->result.failed;
        fprintf(out,
                "%s: user %.3f s, system %.3f s, %.2f us a request, context switches %" PRId64 " voluntary, %" PRId64
                " forced\n",
                o->result.phase == REPORT_WRITE ? "write" : "read", o->user_s, o->system_s,
                done > 0 ? (o->user_s + o->system_s) * 1e6 / (double)done : 0.0, o->waits, o->preemptions);
    }
}
