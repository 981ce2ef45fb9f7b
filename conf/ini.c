/* dfs.ini by inih, the peer's -options files, and the few environment variables that deployments of the peer set. */
#include "conf/ini.h"

#include <ini.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/config.h"
#include "needle/check.h"

#define LINE_MAX_BYTES 8192

struct ini_walk {
    struct config *config;
    enum command_id cmd;
    const char *path;
    FILE *file;
    unsigned line;
    int rc;
};

/* inih tells its handler no line number, so the reader counts. */
static char *read_line(char *buf, int cap, void *stream)
{
    struct ini_walk *w = stream;

    w->line++;
    return fgets(buf, cap, w->file);
}

static int section_command(const char *section, enum command_id *out)
{
    if (strcmp(section, "master") == 0)
        *out = CMD_MASTER;
    else if (strcmp(section, "volume") == 0)
        *out = CMD_VOLUME;
    else if (strcmp(section, "common") == 0 || section[0] == '\0')
        *out = CMD_SERVER;
    else
        return -1;
    return 0;
}

static int on_pair(void *user, const char *section, const char *name, const char *value)
{
    struct ini_walk *w = user;
    enum command_id in;
    char where[LINE_MAX_BYTES];

    if (w->rc != 0)
        return 0;
    snprintf(where, sizeof where, "%s:%u", w->path, w->line);
    if (section_command(section, &in) != 0) {
        fprintf(stderr, "dfs: %s: unknown section [%s]: there are [common], [master] and [volume]\n", where, section);
        w->rc = -1;
        return 0;
    }
    w->rc = option_set_in_section(w->config, w->cmd, in, name, value, where);
    return w->rc == 0;
}

static const char *default_path(void)
{
    static const char *const places[] = {"dfs.ini", "/etc/dfs/dfs.ini"};

    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (access(places[i], R_OK) == 0)
            return places[i];
    return NULL;
}

int ini_read(struct config *c, enum command_id cmd, const char *path)
{
    struct ini_walk w = {.config = c, .cmd = cmd, .path = path};
    int bad;

    if (cmd != CMD_SERVER && cmd != CMD_MASTER && cmd != CMD_VOLUME)
        return 0;
    if (path[0] == '\0')
        w.path = default_path();
    if (w.path == NULL)
        return 0;
    w.file = fopen(w.path, "re");
    if (w.file == NULL) {
        fprintf(stderr, "dfs: cannot read '%s': %m\n", w.path);
        return -1;
    }
    bad = ini_parse_stream(read_line, &w, on_pair, &w);
    fclose(w.file);
    if (w.rc == 0 && bad != 0) {
        fprintf(stderr, "dfs: %s:%d: this is no `name = value`, no section and no comment\n", w.path, bad);
        return -1;
    }
    return w.rc;
}

static char *trim(char *p)
{
    char *end;

    p += strspn(p, " \t");
    end = p + strlen(p);
    while (end > p && strchr(" \t\r\n", end[-1]) != NULL)
        end--;
    *end = '\0';
    return p;
}

static int options_line(struct config *c, enum command_id cmd, char *line, const char *where)
{
    char *name = trim(line), *eq;

    if (name[0] == '\0' || name[0] == '#' || name[0] == ';')
        return 0;
    while (*name == '-')
        name++;
    eq = strchr(name, '=');
    if (eq != NULL)
        *eq = '\0';
    return option_set(c, cmd, trim(name), eq != NULL ? trim(eq + 1) : "true", where);
}

int options_file_read(struct config *c, enum command_id cmd, const char *path)
{
    FILE *f = fopen(path, "re");
    char line[LINE_MAX_BYTES], where[LINE_MAX_BYTES];
    int rc = 0;

    if (f == NULL) {
        fprintf(stderr, "dfs: cannot read '%s': %m\n", path);
        return -1;
    }
    for (unsigned n = 1; rc == 0 && fgets(line, sizeof line, f) != NULL; n++) {
        snprintf(where, sizeof where, "%s:%u", path, n);
        rc = options_line(c, cmd, line, where);
    }
    fclose(f);
    return rc;
}

int environment_read(struct config *c, enum command_id cmd)
{
    static const char *const suffixes[4] = {"1", "2", "3", "OTHER"};

    if (cmd != CMD_SERVER && cmd != CMD_MASTER)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        char name[64], option[32];
        const char *value;

        snprintf(name, sizeof name, "WEED_MASTER_VOLUME_GROWTH_COPY_%s", suffixes[i]);
        value = getenv(name);
        if (value == NULL || value[0] == '\0')
            continue;
        snprintf(option, sizeof option, "growth.copy%zu", i + 1);
        if (option_set(c, cmd, option, value, name) != 0)
            return -1;
    }
    return 0;
}
