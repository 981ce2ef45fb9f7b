/* Options, each known once: command-line flag, dfs.ini key, type, unit, default, range and help text all come from one table
 * row, and so do `-h`, the man pages' lists and the annotated dfs.ini.
 *
 * Names.  An option of a daemon is `-x` in `dfs volume` and `-volume.x` in `dfs server`; shared ones have no prefix.  In
 * `dfs server` an unprefixed name is taken when only one daemon has it.  `-x v`, `-x=v`, `--x=v`; a boolean is `-x` or
 * `-x=false`.  The last of a repeated option wins.  Precedence: command line, -options file, dfs.ini, environment, default.
 *
 * Main thread, before anything else starts.  Strings live until config_release(). */
#ifndef DFS_CONF_OPTION_H
#define DFS_CONF_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define OPTION_NAME_MAX 80 /* bytes of a name on the command line, its daemon's prefix included */

enum option_type {
    OPTION_BOOL,   /* bool */
    OPTION_U16,    /* uint16_t */
    OPTION_U32,    /* uint32_t */
    OPTION_U64,    /* uint64_t, scaled */
    OPTION_DOUBLE, /* double */
    OPTION_BYTES,    /* uint64_t; written "4096", "4k", "4m", "10g" (powers of 1024) */
    OPTION_DURATION, /* uint32_t milliseconds; written "500ms", "60s", "5m", "1h", or a bare number of seconds */
    OPTION_TEXT,   /* const char * */
    OPTION_CHOICE, /* int: index into the choices */
    OPTION_IGNORED, /* accepted with one line: dfs does not need it */
    OPTION_REFUSED, /* exit 2 with the help text as the reason */
};

/* Who has the option.  A row may name several commands that share it. */
enum option_scope {
    IN_MASTER = 1 << 0,
    IN_VOLUME = 1 << 1,
    IN_SERVER = 1 << 2, /* only for rows that `dfs server` alone has */
    IN_BENCHMARK = 1 << 3,
    IN_UPLOAD = 1 << 4,
    IN_DOWNLOAD = 1 << 5,
    IN_DELETE = 1 << 6,
    SHARED = 1 << 7, /* with IN_MASTER and/or IN_VOLUME: no prefix in `dfs server` */
    IN_OBJECTS = 1 << 8, /* dfs benchmark objects */
    IN_CLEANUP = 1 << 9, /* dfs benchmark cleanup */
    IN_MIX = 1 << 10,    /* dfs benchmark mix */
    IN_RECORDS = 1 << 11, /* dfs benchmark records */
    IN_AGENT = 1 << 12,  /* dfs benchmark agent */
    IN_PLOT = 1 << 13,   /* dfs benchmark plot */
};
#define IN_DAEMONS (IN_MASTER | IN_VOLUME | SHARED)
#define IN_TOOLS (IN_UPLOAD | IN_DOWNLOAD | IN_DELETE)
/* The modes of the benchmark that put load on a store, those that keep a list of it, and all. */
#define IN_LOADS (IN_OBJECTS | IN_MIX | IN_RECORDS)
#define IN_LISTED (IN_OBJECTS | IN_MIX | IN_CLEANUP)
#define IN_MODES (IN_LOADS | IN_CLEANUP | IN_AGENT)

struct option {
    const char *name;
    const char *aliases; /* comma list or NULL; each also with the daemon's prefix in `dfs server` */
    unsigned scope;      /* enum option_scope */
    enum option_type type;
    size_t offset;       /* in struct config */
    uint64_t scale;      /* OPTION_U64: value = number * scale; 0 = 1 */
    double min, max;     /* of the number as written; both 0 = any */
    const char *choices; /* OPTION_CHOICE: "a|b|c" */
    const char *dflt;    /* as text; NULL = "" */
    const char *unit;    /* "MB", "s", "host:port"; NULL */
    const char *help;    /* one sentence, no full stop */
    /* A check beyond type and range: NULL or a reason (static text) why the value is refused. */
    const char *(*check)(const char *value);
};

extern const struct option option_table[];
extern const size_t option_count;

enum command_id {
    CMD_SERVER,
    CMD_MASTER,
    CMD_VOLUME,
    CMD_BENCHMARK,
    CMD_OBJECTS,
    CMD_CLEANUP,
    CMD_MIX,
    CMD_RECORDS,
    CMD_AGENT,
    CMD_PLOT,
    CMD_UPLOAD,
    CMD_DOWNLOAD,
    CMD_DELETE,
    CMD_COUNT
};

struct command {
    const char *name;   /* one word, or two: "benchmark objects" */
    unsigned scopes;    /* rows it takes */
    const char *args;   /* what follows the options, for usage; NULL = none */
    const char *summary;
    const char *example;
    bool mixed;         /* options may stand behind its words too */
};
extern const struct command command_table[CMD_COUNT];

/* The command that argv begins with: of two words when there is one of that name.  *words is how many it took.  -1: none. */
int command_find(int argc, char *const *argv, int *words);
/* What was meant by a word that is no command's name, or, where `of` is a command, none of its modes: the name that is most like
 * it, static ("benchmark objects" for "benchmark" and "objcts"); NULL when none is much like it.  of: "" = the first word. */
const char *command_nearest(const char *of, const char *word);

/* How many letters are to be put in, left out or changed to make the one of the other; UINT_MAX for what is longer than
 * OPTION_NAME_MAX. */
unsigned name_distance(const char *a, const char *b);

struct config;

/* Sets every default.  config is zeroed by the caller. */
int option_defaults(struct config *c);

/* Parses argv[0..argc) (what follows the command's name).  *rest is the index of the first word that is no option; a command
 * without `args` refuses such words.  Words of a command that is `mixed` are moved behind its options.  Reads -options
 * and -conf files in their order of precedence.
 * 0; 1 = help was asked for (print it, exit 0); -1 = one line was printed to standard error: exit 2. */
int option_parse(struct config *c, enum command_id cmd, int argc, char **argv, int *rest);

/* One `name=value` from a file: the same rules as on the command line.  where is "file:line" for the message. */
int option_set(struct config *c, enum command_id cmd, const char *name, const char *value, const char *where);

/* The same for a section of dfs.ini: the name is looked up as `section` spells it, checked, and set only when `cmd` has it. */
int option_set_in_section(struct config *c, enum command_id cmd, enum command_id section, const char *name, const char *value,
                          const char *where);

/* The option's name as this command spells it ("volume.port" in server). */
void option_spelling(const struct option *o, enum command_id cmd, char *out, size_t cap);

/* Whether the command takes this row, under its own or a prefixed name. */
bool option_applies(const struct option *o, enum command_id cmd);

/* Type as help shows it: "int", "text", "a|b|c", "". */
void option_type_text(const struct option *o, char *out, size_t cap);

#endif
