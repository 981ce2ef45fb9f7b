/* `dfs benchmark plot`. */
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/plot.h"
#include "bench/run_csv.h"
#include "bench/run_json.h"
#include "needle/err.h"

#define CONVERTER "rsvg-convert"

extern char **environ;

static int complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int complain(const char *fmt, ...)
{
    char line[1024], text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    run_text_set(text, sizeof text, line);
    fprintf(stderr, "dfs benchmark plot: %s\n", text);
    return 1;
}

/* ---- runs ---- */

/* A run without a label is called after its file. */
static void name_run(struct run_result *r, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path, *dot = strrchr(name, '.');
    char text[RUN_TEXT_MAX];
    size_t n = dot != NULL && dot > name ? (size_t)(dot - name) : strlen(name);

    if (r->meta.label[0] != '\0')
        return;
    snprintf(text, sizeof text, "%.*s", (int)(n < sizeof text ? n : sizeof text - 1), name);
    run_text_set(r->meta.label, sizeof r->meta.label, text);
}

/* Two of the same name: the later one gets its number, in front, where a picture does not cut it. */
static void number_twins(struct run_result **runs, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        for (uint32_t k = 0; k < i; k++) {
            char text[RUN_TEXT_MAX + 16];
            if (strcmp(run_result_title(runs[i]), run_result_title(runs[k])) != 0)
                continue;
            snprintf(text, sizeof text, "(%u) %s", i + 1, run_result_title(runs[i]));
            run_text_set(runs[i]->meta.label, sizeof runs[i]->meta.label, text);
        }
    }
}

/* Whichever were read are the caller's to free. */
static int read_runs(struct run_result **runs, char **paths, uint32_t count)
{
    char error[RUN_JSON_ERROR_MAX];

    for (uint32_t i = 0; i < count; i++) {
        runs[i] = malloc(sizeof **runs);
        if (runs[i] == NULL)
            return complain("%s", dfs_err_text(DFS_ENOMEM));
        if (run_json_read_file(paths[i], runs[i], error) != 0)
            return complain("%s", error);
        name_run(runs[i], paths[i]);
    }
    number_twins(runs, count);
    return 0;
}

/* ---- files ---- */

static int draw(const char *path, struct run_result **runs, uint32_t count)
{
    FILE *f = fopen(path, "we");
    int rc;

    if (f == NULL)
        return complain("cannot write '%s': %s", path, strerror(errno));
    errno = 0;
    rc = plot_write(f, runs, count);
    if (fclose(f) != 0 && rc == 0)
        rc = DFS_EIO;
    return rc == 0 ? 0 : complain("cannot write '%s': %s", path, rc == DFS_EIO && errno != 0 ? strerror(errno) : dfs_err_text(rc));
}

static int write_csv(const char *path, const struct run_result *r)
{
    FILE *f = fopen(path, "we");
    int rc;

    if (f == NULL)
        return complain("cannot write '%s': %s", path, strerror(errno));
    errno = 0;
    rc = run_csv_write(f, r);
    if (fclose(f) != 0 && rc == 0)
        rc = DFS_EIO;
    return rc == 0 ? 0 : complain("cannot write '%s': %s", path, errno != 0 ? strerror(errno) : dfs_err_text(rc));
}

static int convert(const char *svg, const char *png)
{
    char *argv[] = {(char[]){CONVERTER}, (char[]){"-o"}, (char *)png, (char *)svg, NULL};
    pid_t pid;
    int status, rc = posix_spawnp(&pid, CONVERTER, NULL, NULL, argv, environ);

    if (rc == ENOENT)
        return complain("-png needs " CONVERTER " (Debian: librsvg2-bin), and it is not there");
    if (rc != 0)
        return complain("cannot start " CONVERTER ": %s", strerror(rc));
    while (waitpid(pid, &status, 0) == -1)
        if (errno != EINTR)
            return complain("cannot wait for " CONVERTER ": %s", strerror(errno));
    if (!WIFEXITED(status) || WEXITSTATUS(status) == 127)
        return complain("-png needs " CONVERTER " (Debian: librsvg2-bin), and it does not run");
    return WEXITSTATUS(status) == 0 ? 0 : complain(CONVERTER " could not write '%s'", png);
}

/* The picture is made of an SVG: that of -svg, else one that goes away again. */
static int draw_png(const struct plot_options *o, struct run_result **runs, uint32_t count)
{
    char name[4096];
    int rc;

    if (o->svg[0] != '\0')
        return convert(o->svg, o->png);
    if (snprintf(name, sizeof name, "%s.svg.XXXXXX", o->png) >= (int)sizeof name)
        return complain("'%.100s...' is too long for a name", o->png);
    rc = mkstemp(name);
    if (rc == -1)
        return complain("cannot write '%s': %s", o->png, strerror(errno));
    close(rc);
    rc = draw(name, runs, count);
    if (rc == 0)
        rc = convert(name, o->png);
    unlink(name);
    return rc;
}

static int write_all(const struct plot_options *o, struct run_result **runs, uint32_t count)
{
    int rc = o->svg[0] != '\0' ? draw(o->svg, runs, count) : 0;

    if (rc == 0 && o->png[0] != '\0')
        rc = draw_png(o, runs, count);
    if (rc == 0 && o->csv[0] != '\0')
        rc = write_csv(o->csv, runs[0]);
    return rc;
}

static int wrong_words(const struct plot_options *o, int argc)
{
    if (argc == 0)
        complain("which reports? dfs benchmark plot A.json [B.json ...] -svg out.svg");
    else if (argc > (int)PLOT_RUNS_MAX)
        complain("%d reports are more than the %u that a picture holds", argc, PLOT_RUNS_MAX);
    else if (o->svg[0] == '\0' && o->png[0] == '\0' && o->csv[0] == '\0')
        complain("what shall be written? -svg FILE, -png FILE or -csv FILE");
    else if (o->csv[0] != '\0' && argc > 1)
        complain("-csv has the seconds of one report, not of %d", argc);
    else
        return 0;
    return 2;
}

int plot_main(const struct plot_options *o, int argc, char **argv)
{
    struct run_result *runs[PLOT_RUNS_MAX] = {0};
    int rc = wrong_words(o, argc);

    if (rc != 0)
        return rc;
    rc = read_runs(runs, argv, (uint32_t)argc);
    if (rc == 0)
        rc = write_all(o, runs, (uint32_t)argc);
    for (int i = 0; i < argc; i++) {
        if (runs[i] != NULL)
            run_result_release(runs[i]);
        free(runs[i]);
    }
    return rc;
}
