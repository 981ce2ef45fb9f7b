/* Looking options up, checking their values, and the words on the command line. */
#include "conf/option.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "conf/config.h"
#include "conf/ini.h"
#include "needle/check.h"

static const char *command_prefix(const struct option *o, enum command_id cmd)
{
    if (cmd != CMD_SERVER || (o->scope & SHARED) != 0 || (o->scope & IN_SERVER) != 0)
        return "";
    return (o->scope & IN_MASTER) != 0 ? "master." : "volume.";
}

bool option_applies(const struct option *o, enum command_id cmd)
{
    return (o->scope & command_table[cmd].scopes) != 0;
}

void option_spelling(const struct option *o, enum command_id cmd, char *out, size_t cap)
{
    snprintf(out, cap, "%s%s", command_prefix(o, cmd), o->name);
}

/* Whether the comma list holds the name. */
static bool list_has(const char *list, const char *name)
{
    size_t n = strlen(name);
    const char *p = list;

    while (p != NULL && *p != '\0') {
        const char *end = strchr(p, ',');
        size_t len = end != NULL ? (size_t)(end - p) : strlen(p);

        if (len == n && memcmp(p, name, n) == 0)
            return true;
        p = end != NULL ? end + 1 : NULL;
    }
    return false;
}

static bool row_has_name(const struct option *o, const char *name)
{
    return strcmp(o->name, name) == 0 || list_has(o->aliases, name);
}

/* The row for a name as given to this command.  *twice: an unprefixed name that both daemons have. */
static const struct option *find(enum command_id cmd, const char *name, bool *twice)
{
    const struct option *bare = NULL;

    *twice = false;
    for (size_t i = 0; i < option_count; i++) {
        const struct option *o = &option_table[i];
        const char *prefix;
        size_t n;

        if (!option_applies(o, cmd))
            continue;
        prefix = command_prefix(o, cmd);
        n = strlen(prefix);
        if (n != 0 && strncmp(name, prefix, n) == 0 && row_has_name(o, name + n))
            return o;
        if (!row_has_name(o, name))
            continue;
        if (n == 0)
            return o;
        *twice = bare != NULL;
        bare = bare == NULL ? o : bare;
    }
    return *twice ? NULL : bare;
}

static void nearest(enum command_id cmd, const char *name, char *out, size_t cap)
{
    unsigned best = UINT_MAX;

    out[0] = '\0';
    for (size_t i = 0; i < option_count; i++) {
        const struct option *o = &option_table[i];
        char spelled[OPTION_NAME_MAX + 1];
        unsigned d, bare;

        if (!option_applies(o, cmd) || o->type == OPTION_REFUSED || o->type == OPTION_IGNORED)
            continue;
        option_spelling(o, cmd, spelled, sizeof spelled);
        d = name_distance(name, spelled);
        bare = name_distance(name, o->name);
        if (bare < d)
            d = bare;
        if (d < best) {
            best = d;
            snprintf(out, cap, "%s", spelled);
        }
    }
    if (best > 2 + strlen(name) / 3)
        out[0] = '\0';
}

static int complain(enum command_id cmd, const char *where, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int complain(enum command_id cmd, const char *where, const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "dfs %s: ", command_table[cmd].name);
    if (where != NULL)
        fprintf(stderr, "%s: ", where);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    return -1;
}

static int complain_unknown(enum command_id cmd, const char *name, bool twice, const char *where)
{
    char near[OPTION_NAME_MAX + 1];

    if (twice)
        return complain(cmd, where, "option '-%s' is ambiguous here: use -master.%s or -volume.%s", name, name, name);
    nearest(cmd, name, near, sizeof near);
    if (near[0] == '\0')
        return complain(cmd, where, "unknown option '-%s'; 'dfs %s -h' lists them", name, command_table[cmd].name);
    return complain(cmd, where, "unknown option '-%s'; the nearest is -%s", name, near);
}

void option_type_text(const struct option *o, char *out, size_t cap)
{
    static const char *const names[] = {
        [OPTION_BOOL] = "",          [OPTION_U16] = "int",  [OPTION_U32] = "int",  [OPTION_U64] = "int",
        [OPTION_DOUBLE] = "number",  [OPTION_BYTES] = "size", [OPTION_DURATION] = "duration",
        [OPTION_TEXT] = "text",      [OPTION_CHOICE] = "",
        [OPTION_IGNORED] = "text",   [OPTION_REFUSED] = "",
    };

    if (o->type == OPTION_CHOICE)
        snprintf(out, cap, "%s", o->choices);
    else if (o->unit != NULL && o->type != OPTION_BOOL)
        snprintf(out, cap, "%s", o->unit);
    else
        snprintf(out, cap, "%s", names[o->type]);
}

/* ---- values ---- */

static bool parse_bool(const char *text, bool *out)
{
    static const char *const yes[] = {"true", "1", "t", "T", "TRUE", "True", "yes", "on"};
    static const char *const no[] = {"false", "0", "f", "F", "FALSE", "False", "no", "off"};

    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
            *out = strcmp(text, yes[i]) == 0;
            return true;
        }
    }
    return false;
}

static bool parse_number(const char *text, double *out)
{
    char *end;

    if (text[0] == '\0' || strspn(text, "0123456789.-") != strlen(text))
        return false;
    errno = 0;
    *out = strtod(text, &end);
    return errno == 0 && *end == '\0' && isfinite(*out);
}

static bool parse_count(const char *text, uint64_t *out)
{
    char *end;

    if (text[0] == '\0' || strspn(text, "0123456789") != strlen(text))
        return false;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0';
}

static bool parse_duration_ms(const char *text, uint32_t *out)
{
    static const struct {
        const char *unit;
        double ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60e3}, {"h", 3600e3}, {"", 1000}};
    size_t n = strspn(text, "0123456789.");
    char number[32];
    double v;

    if (n == 0 || n >= sizeof number)
        return false;
    memcpy(number, text, n);
    number[n] = '\0';
    if (!parse_number(number, &v))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (strcmp(text + n, units[i].unit) == 0 && v * units[i].ms <= UINT32_MAX) {
            *out = (uint32_t)(v * units[i].ms);
            return true;
        }
    }
    return false;
}

/* "4m" -> 4194304. */
static bool parse_bytes(const char *text, uint64_t *out)
{
    static const struct {
        const char *unit;
        unsigned shift;
    } units[] = {{"", 0}, {"b", 0}, {"k", 10}, {"m", 20}, {"g", 30}, {"t", 40}};
    size_t n = strspn(text, "0123456789");
    char number[32];
    uint64_t v;

    if (n == 0 || n >= sizeof number)
        return false;
    memcpy(number, text, n);
    number[n] = '\0';
    if (!parse_count(number, &v))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (strcasecmp(text + n, units[i].unit) == 0 && v <= UINT64_MAX >> units[i].shift) {
            *out = v << units[i].shift;
            return true;
        }
    }
    return false;
}

static int choice_index(const char *choices, const char *text)
{
    size_t n = strlen(text);
    const char *p = choices;

    for (int i = 0;; i++) {
        const char *end = strchrnul(p, '|');

        if ((size_t)(end - p) == n && memcmp(p, text, n) == 0)
            return i;
        if (*end == '\0')
            return -1;
        p = end + 1;
    }
}

static const char *check_range(const struct option *o, double v, char *buf, size_t cap)
{
    if ((o->min == 0 && o->max == 0) || (v >= o->min && v <= o->max))
        return NULL;
    /* "port" says what the number is, not what it counts. */
    const char *unit = o->unit == NULL || strcmp(o->unit, "port") == 0 ? "" : o->unit;

    snprintf(buf, cap, "must be %.15g to %.15g%s%s", o->min, o->max, unit[0] != '\0' ? " " : "", unit);
    return buf;
}

/* Stores a whole number in the width that the row has. */
static const char *store_count(const struct option *o, void *at, uint64_t u)
{
    uint64_t scale = o->scale != 0 ? o->scale : 1;
    uint64_t limit = o->type == OPTION_U16 ? UINT16_MAX : o->type == OPTION_U32 ? UINT32_MAX : UINT64_MAX;

    if (u > limit / scale)
        return "is too large";
    if (o->type == OPTION_U16)
        *(uint16_t *)at = (uint16_t)(u * scale);
    else if (o->type == OPTION_U32)
        *(uint32_t *)at = (uint32_t)(u * scale);
    else
        *(uint64_t *)at = u * scale;
    return NULL;
}

/* Stores a value; NULL or why not (static, or in buf). */
static const char *store_value(struct config *c, const struct option *o, const char *text, char *buf, size_t cap)
{
    void *at = (char *)c + o->offset;
    const char *why = NULL;
    uint64_t u = 0;
    uint32_t ms;
    double d = 0;
    int choice;

    if (o->check != NULL)
        why = o->check(text);
    if (why != NULL)
        return why;
    switch (o->type) {
    case OPTION_BOOL:
        return parse_bool(text, at) ? NULL : "must be true or false";
    case OPTION_U16:
    case OPTION_U32:
    case OPTION_U64:
        if (!parse_count(text, &u))
            return "must be a whole number";
        why = check_range(o, (double)u, buf, cap);
        return why != NULL ? why : store_count(o, at, u);
    case OPTION_DOUBLE:
        if (!parse_number(text, &d))
            return "must be a number";
        why = check_range(o, d, buf, cap);
        if (why == NULL)
            *(double *)at = d;
        return why;
    case OPTION_BYTES:
        if (!parse_bytes(text, &u))
            return "must be a size such as 4096, 4k, 4m or 10g";
        why = check_range(o, (double)u, buf, cap);
        if (why == NULL)
            *(uint64_t *)at = u;
        return why;
    case OPTION_DURATION:
        if (!parse_duration_ms(text, &ms))
            return "must be a time such as 500ms, 60s, 5m or 1h";
        *(uint32_t *)at = ms;
        return NULL;
    case OPTION_TEXT:
        *(const char **)at = config_keep(c, text, strlen(text));
        return *(const char **)at != NULL ? NULL : "out of memory";
    case OPTION_CHOICE:
        choice = choice_index(o->choices, text);
        if (choice < 0) {
            snprintf(buf, cap, "must be one of %s", o->choices);
            return buf;
        }
        *(int *)at = choice;
        return NULL;
    case OPTION_IGNORED:
    case OPTION_REFUSED:
        return NULL;
    }
    return NULL;
}

/* systemd and compose files hand quotes over that were meant for a shell. */
static const char *unquote(const char *value, char *buf, size_t cap)
{
    size_t n = strlen(value);

    if (n < 2 || (value[0] != '"' && value[0] != '\'') || value[n - 1] != value[0] || n - 2 >= cap)
        return value;
    memcpy(buf, value + 1, n - 2);
    buf[n - 2] = '\0';
    return buf;
}

static int set_row(struct config *c, enum command_id cmd, const struct option *o, const char *name, const char *value,
                   const char *where)
{
    char why_buf[256], bare[4096];
    const char *why;

    if (o->type == OPTION_REFUSED) {
        bool wanted = true;

        /* `-filer=false` asks for nothing. */
        if (parse_bool(value, &wanted) && !wanted)
            return 0;
        return complain(cmd, where, "option '-%s': %s", name, o->help);
    }
    if (o->type == OPTION_IGNORED) {
        fprintf(stderr, "dfs %s: option '-%s' is accepted but does nothing here: %s\n", command_table[cmd].name, name,
                o->help);
        return 0;
    }
    value = unquote(value, bare, sizeof bare);
    why = store_value(c, o, value, why_buf, sizeof why_buf);
    if (why != NULL)
        return complain(cmd, where, "value '%s' of option '-%s' %s", value, name, why);
    if (c->given != NULL)
        c->given[o - option_table] = 1;
    return 0;
}

int option_set(struct config *c, enum command_id cmd, const char *name, const char *value, const char *where)
{
    bool twice;
    const struct option *o = find(cmd, name, &twice);

    if (o == NULL)
        return complain_unknown(cmd, name, twice, where);
    return set_row(c, cmd, o, name, value, where);
}

int option_set_in_section(struct config *c, enum command_id cmd, enum command_id section, const char *name, const char *value,
                          const char *where)
{
    char why_buf[256], bare[4096];
    const char *why;
    bool twice;
    const struct option *o = find(section, name, &twice);

    if (o == NULL)
        return complain_unknown(section, name, twice, where);
    if (option_applies(o, cmd))
        return set_row(c, cmd, o, name, value, where);
    /* Of a daemon that is not started: no reader of its options runs, but a mistake is told now and not when it is. */
    if (o->type == OPTION_REFUSED || o->type == OPTION_IGNORED)
        return 0;
    value = unquote(value, bare, sizeof bare);
    why = store_value(c, o, value, why_buf, sizeof why_buf);
    return why == NULL ? 0 : complain(section, where, "value '%s' of option '-%s' %s", value, name, why);
}

int option_defaults(struct config *c)
{
    char buf[256];

    for (size_t i = 0; i < option_count; i++) {
        const struct option *o = &option_table[i];
        const char *why;

        if (o->type == OPTION_IGNORED || o->type == OPTION_REFUSED)
            continue;
        why = store_value(c, o, o->dflt != NULL ? o->dflt : "", buf, sizeof buf);
        if (why != NULL) {
            fprintf(stderr, "dfs: default of option '-%s' %s\n", o->name, why);
            return -1;
        }
    }
    return 0;
}

/* ---- words ---- */

/* Splits "-name=value" or "--name"; false when it is no option. */
static bool split_word(const char *word, char *name, size_t cap, const char **value)
{
    const char *p = word, *eq;
    size_t n;

    if (p[0] != '-' || p[1] == '\0')
        return false;
    p += p[1] == '-' ? 2 : 1;
    if (*p == '\0')
        return false;
    eq = strchr(p, '=');
    n = eq != NULL ? (size_t)(eq - p) : strlen(p);
    if (n >= cap)
        n = cap - 1;
    memcpy(name, p, n);
    name[n] = '\0';
    *value = eq != NULL ? eq + 1 : NULL;
    return true;
}

/* The word at i goes behind all others; each walk that does so for all words leaves them in their order. */
static void word_last(int argc, char **argv, int i)
{
    char *word = argv[i];

    memmove(&argv[i], &argv[i + 1], (size_t)(argc - i - 1) * sizeof *argv);
    argv[argc - 1] = word;
}

/* Walks the words.  only: apply just this option (finding -options and -conf first), or NULL for all but those. */
static int walk(struct config *c, enum command_id cmd, int argc, char **argv, const char *only, int *rest)
{
    int i, end = argc; /* words behind `end` have been looked at */

    for (i = 0; i < end; i++) {
        char name[OPTION_NAME_MAX + 1];
        const char *value;
        const struct option *o;
        bool twice;

        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        if (!split_word(argv[i], name, sizeof name, &value)) {
            if (!command_table[cmd].mixed)
                break;
            word_last(argc, argv, i--);
            end--;
            continue;
        }
        if (strcmp(name, "h") == 0 || strcmp(name, "help") == 0)
            return 1;
        o = find(cmd, name, &twice);
        if (o == NULL)
            return complain_unknown(cmd, name, twice, NULL);
        if (value == NULL && (o->type == OPTION_BOOL || o->type == OPTION_REFUSED))
            value = "true";
        if (value == NULL && o->type == OPTION_IGNORED && o->dflt != NULL)
            value = "true";
        if (value == NULL && o->type == OPTION_IGNORED)
            value = i + 1 < end && argv[i + 1][0] != '-' ? argv[++i] : "";
        if (value == NULL) {
            if (++i >= end)
                return complain(cmd, NULL, "option '-%s' needs a value", name);
            value = argv[i];
        }
        if (only != NULL && strcmp(o->name, only) != 0)
            continue;
        if (set_row(c, cmd, o, name, value, NULL) != 0)
            return -1;
    }
    *rest = i;
    return 0;
}

static int check_rest(enum command_id cmd, int argc, char **argv, int rest)
{
    int after;

    const char *near;

    if (rest >= argc || command_table[cmd].args != NULL)
        return 0;
    near = command_nearest(command_table[cmd].name, argv[rest]);
    if (near != NULL)
        return complain(cmd, NULL, "no mode '%s'; the nearest is %s", argv[rest], near);
    after = argc - rest - 1;
    if (after == 0)
        return complain(cmd, NULL, "'%s' is not an option", argv[rest]);
    return complain(cmd, NULL, "'%s' is not an option, so the %d word%s behind it %s not read", argv[rest], after,
                    after == 1 ? "" : "s", after == 1 ? "was" : "were");
}

int option_parse(struct config *c, enum command_id cmd, int argc, char **argv, int *rest)
{
    int rc;

    rc = walk(c, cmd, argc, argv, "conf", rest);
    if (rc == 0)
        rc = walk(c, cmd, argc, argv, "options", rest);
    if (rc == 0)
        rc = check_rest(cmd, argc, argv, *rest);
    if (rc == 0)
        rc = environment_read(c, cmd);
    if (rc == 0)
        rc = ini_read(c, cmd, c->common.conf_file);
    if (rc == 0 && c->common.options_file[0] != '\0')
        rc = options_file_read(c, cmd, c->common.options_file);
    if (rc == 0)
        rc = walk(c, cmd, argc, argv, NULL, rest);
    return rc;
}
