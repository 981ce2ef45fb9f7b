/* dfs.ini by inih, the peer's -options files, and the few environment variables that deployments of the peer set. */
#include "conf/ini.h"

#include <ini.h>
#include <stdbool.h>
#include <stdio.h>
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
    char text[LINE_MAX_BYTES]; /* the line, of which `rest` is still to be handed on */
    char *rest;
    char value[LINE_MAX_BYTES]; /* the pieces of it so far */
    bool joining;
};

static bool next_line(struct ini_walk *w)
{
    size_t n;

    w->line++;
    if (fgets(w->text, sizeof w->text, w->file) == NULL)
        return false;
    n = strlen(w->text);
    if (n == sizeof w->text - 1 && w->text[n - 1] != '\n') {
        fprintf(stderr, "dfs: %s:%u: a line of more than %d bytes\n", w->path, w->line, LINE_MAX_BYTES - 2);
        w->rc = -1;
        return false;
    }
    /* A blank in front would make inih take the line for more of the value before it. */
    w->rest = w->text + strspn(w->text, " \t");
    return true;
}

/* inih tells its handler no line number, so the reader counts; and it has a small buffer of its own, so a long list goes in
 * pieces, cut behind a comma, each but the first as what inih takes for more of the value. */
static char *read_line(char *buf, int cap, void *stream)
{
    struct ini_walk *w = stream;
    size_t room = (size_t)cap - 3, n, more = w->rest != NULL;

    if (w->rest == NULL && !next_line(w))
        return NULL;
    n = strlen(w->rest);
    if (n > room) {
        n = room;
        while (n > 0 && w->rest[n - 1] != ',')
            n--;
    }
    if (n == 0 && w->rest[0] != '\0') {
        fprintf(stderr, "dfs: %s:%u: more than %zu bytes without a comma\n", w->path, w->line, room);
        w->rc = -1;
        return NULL;
    }
    snprintf(buf, (size_t)cap, "%s%.*s\n", more ? " " : "", (int)n, w->rest);
    w->rest = w->rest[n] != '\0' ? w->rest + n : NULL;
    return buf;
}

/* What inih hands over piece by piece, whole; false while more is to come. */
static bool join(struct ini_walk *w, const char **value)
{
    size_t have = w->joining ? strlen(w->value) : 0;

    if (!w->joining && w->rest == NULL)
        return true;
    snprintf(w->value + have, sizeof w->value - have, "%s", *value);
    w->joining = w->rest != NULL;
    *value = w->value;
    return !w->joining;
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
    if (!join(w, &value))
        return 1;
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
    struct ini_walk w = {.path = path, .config = c, .cmd = cmd};
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
        if (strlen(line) == sizeof line - 1 && line[sizeof line - 2] != '\n') {
            fprintf(stderr, "dfs: %s: a line of more than %d bytes\n", where, LINE_MAX_BYTES - 2);
            rc = -1;
        } else {
            rc = options_line(c, cmd, line, where);
        }
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
