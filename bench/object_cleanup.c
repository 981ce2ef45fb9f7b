/* Deleting what a run wrote. */
#include "bench/object_cleanup.h"

#include <inttypes.h>
#include <stdio.h>

#include "bench/live.h"
#include "bench/mode_run.h"
#include "bench/objects_source.h"
#include "needle/err.h"

int object_cleanup(const char *mode, struct object_list *list, struct load *load)
{
    struct objects_source source = {.list = list};
    struct live live;
    struct load_plan plan = {.source = objects_delete_source(&source), .on_second = live_second, .arg = &live};
    struct load_result result;
    uint64_t failed, removed;
    int rc;

    printf("Cleaning up (deleting benchmark objects)\n");
    fflush(stdout);
    live_begin(&live, "delete", 0, list->ids.count);
    rc = load_run(load, &plan, &result);
    live_clear(&live);
    if (rc != 0)
        return mode_complain(mode, "cannot delete: %s", dfs_err_text(rc));
    removed = result.kinds[LOAD_DELETE].finished;
    failed = list->ids.count - removed - source.gone;
    printf("Removed %" PRIu64 " objects\n", removed);
    if (source.gone > 0)
        printf("%" PRIu64 " objects were gone already\n", source.gone);
    printf("Clean up completed and total clean up time: %.6g\n", result.seconds);
    fflush(stdout);
    rc = 0;
    if (failed > 0)
        rc = mode_complain(mode, "%" PRIu64 " objects could not be deleted, and their list '%s' stays: %s", failed, list->path,
                           result.first_error[0] != '\0' ? result.first_error : "given up");
    else if (object_list_unlink(list) != 0)
        rc = mode_complain(mode, "cannot take list '%s' away", list->path);
    load_result_release(&result);
    return rc;
}
