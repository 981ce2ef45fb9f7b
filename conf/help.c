/* Help in its four forms. */
#include "conf/help.h"

#include <string.h>

#include "conf/version.h"

const char *version_text(void)
{
#if defined(__x86_64__)
    return DFS_VERSION " linux amd64";
#elif defined(__aarch64__)
    return DFS_VERSION " linux arm64";
#else
    return DFS_VERSION " linux";
#endif
}

/* Rows that a reader of help should see. */
static bool shown(const struct option *o, enum command_id cmd)
{
    return option_applies(o, cmd) && o->type != OPTION_IGNORED && o->type != OPTION_REFUSED;
}

void help_overview(FILE *out)
{
    fprintf(out, "dfs %s: a distributed blob store\n\nusage: dfs COMMAND [OPTION ...] [ARGUMENT ...]\n\ncommands:\n",
            DFS_VERSION);
    for (int i = 0; i < CMD_COUNT; i++)
        fprintf(out, "  %-17s %s\n", command_table[i].name, command_table[i].summary);
    fprintf(out, "  %-17s %s\n  %-17s %s\n", "version", "print the version", "help", "print this, or `dfs help COMMAND`");
    fprintf(out, "\na store on this machine, and its benchmark:\n  dfs server -dir ./data\n"
                 "  dfs benchmark -server 127.0.0.1:9333 -n 10000\n");
}

static void print_default(FILE *out, const struct option *o)
{
    if (o->dflt != NULL && o->dflt[0] != '\0')
        fprintf(out, " (default %s)", o->dflt);
    if (o->min != 0 || o->max != 0)
        fprintf(out, " [%.15g..%.15g]", o->min, o->max);
}

void help_command(FILE *out, enum command_id cmd)
{
    const struct command *c = &command_table[cmd];

    fprintf(out, "usage: dfs %s [OPTION ...]%s%s\n%s\n\nfor example:\n  %s\n\noptions:\n", c->name,
            c->args != NULL ? " " : "", c->args != NULL ? c->args : "", c->summary, c->example);
    for (size_t i = 0; i < option_count; i++) {
        const struct option *o = &option_table[i];
        char name[96], type[96];

        if (!shown(o, cmd))
            continue;
        option_spelling(o, cmd, name, sizeof name);
        option_type_text(o, type, sizeof type);
        fprintf(out, "  -%s%s%s\n        %s", name, type[0] != '\0' ? " " : "", type, o->help);
        print_default(out, o);
        fputc('\n', out);
    }
}

/* A text for mdoc: what begins a line with '.' or '\'' would be a request. */
static void print_roff(FILE *out, const char *text)
{
    if (text[0] == '.' || text[0] == '\'')
        fputs("\\&", out);
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\\')
            fputs("\\e", out);
        else if (*p == '-')
            fputs("\\-", out);
        else
            fputc(*p, out);
    }
}

void help_man(FILE *out, enum command_id cmd)
{
    fputs(".Bl -tag -width indent\n", out);
    for (size_t i = 0; i < option_count; i++) {
        const struct option *o = &option_table[i];
        char name[96], type[96];

        if (!shown(o, cmd))
            continue;
        option_spelling(o, cmd, name, sizeof name);
        option_type_text(o, type, sizeof type);
        fprintf(out, ".It Fl %s", name);
        if (type[0] != '\0')
            fprintf(out, " Ar %s", type);
        fputc('\n', out);
        print_roff(out, o->help);
        print_default(out, o);
        fputs(".\n", out);
    }
    fputs(".El\n", out);
}

static void ini_section(FILE *out, const char *title, enum command_id cmd, unsigned want, unsigned avoid)
{
    fprintf(out, "\n[%s]\n", title);
    for (size_t i = 0; i < option_count; i++) {
        const struct option *o = &option_table[i];
        char type[96];

        if (!shown(o, cmd) || (o->scope & want) == 0 || (o->scope & avoid) != 0 || strcmp(o->name, "conf") == 0 ||
            strcmp(o->name, "options") == 0)
            continue;
        option_type_text(o, type, sizeof type);
        fprintf(out, "; %s%s%s%s\n;%s =%s%s\n", o->help, type[0] != '\0' ? " (" : "", type, type[0] != '\0' ? ")" : "",
                o->name, o->dflt != NULL && o->dflt[0] != '\0' ? " " : "", o->dflt != NULL ? o->dflt : "");
    }
}

void help_ini(FILE *out)
{
    fputs("; dfs.ini: options of the dfs daemons; the command line wins over it.\n"
          "; Looked for as ./dfs.ini and /etc/dfs/dfs.ini, or named by -conf.\n",
          out);
    ini_section(out, "common", CMD_SERVER, SHARED, 0);
    ini_section(out, "master", CMD_MASTER, IN_MASTER, SHARED);
    ini_section(out, "volume", CMD_VOLUME, IN_VOLUME, SHARED);
}
