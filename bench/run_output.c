/* Files of a run. */
#include "bench/run_output.h"

#include <errno.h>
#include <string.h>

#include "bench/plot.h"
#include "bench/run_csv.h"
#include "bench/run_json.h"
#include "needle/check.h"
#include "needle/err.h"

enum { JSON, CSV, SVG, FILES };

static int complain(char error[RUN_OUTPUT_ERROR_MAX], const char *path, const char *why)
{
    char line[RUN_OUTPUT_ERROR_MAX];

    snprintf(line, sizeof line, "cannot write '%.300s': %s", path, why);
    run_text_set(error, RUN_OUTPUT_ERROR_MAX, line);
    return DFS_EIO;
}

int run_output_open(struct run_output *o, const char *json, const char *csv, const char *svg, char error[RUN_OUTPUT_ERROR_MAX])
{
    *o = (struct run_output){.paths = {json, csv, svg}};
    for (int i = 0; i < FILES; i++) {
        if (o->paths[i] == NULL || o->paths[i][0] == '\0')
            continue;
        o->files[i] = fopen(o->paths[i], "we");
        if (o->files[i] == NULL) {
            int rc = complain(error, o->paths[i], strerror(errno));
            run_output_close(o);
            return rc;
        }
    }
    return 0;
}

void run_output_close(struct run_output *o)
{
    for (int i = 0; i < FILES; i++) {
        if (o->files[i] != NULL)
            fclose(o->files[i]);
        o->files[i] = NULL;
    }
}

static int write_one(FILE *f, int which, struct run_result *r)
{
    return which == JSON ? run_json_write(f, r) : which == CSV ? run_csv_write(f, r) : plot_write(f, &r, 1);
}

int run_output_write(struct run_output *o, struct run_result *r, char error[RUN_OUTPUT_ERROR_MAX])
{
    int first = 0;

    for (int i = 0; i < FILES; i++) {
        int rc;
        if (o->files[i] == NULL)
            continue;
        errno = 0;
        rc = write_one(o->files[i], i, r);
        if (fclose(o->files[i]) != 0 && rc == 0)
            rc = DFS_EIO;
        o->files[i] = NULL;
        if (rc != 0 && first == 0) {
            first = rc;
            complain(error, o->paths[i], rc == DFS_EIO && errno != 0 ? strerror(errno) : dfs_err_text(rc));
        }
    }
    return first;
}
