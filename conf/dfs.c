/* main: finds the command, reads its options, runs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/config.h"
#include "conf/dfs_server.h"
#include "conf/help.h"
#include "conf/option.h"
#include "conf/version.h"
#include "needle/check.h"

#define EXIT_USAGE 2

/* The peer's global flags, which stand before the command; dfs logs to standard error whatever they say. */
static bool is_global_flag(const char *word, bool *needs_value)
{
    static const char *const with_value[] = {"v", "logdir", "log_dir", "stderrthreshold", "vmodule", "log_backtrace_at",
                                             "config_dir"};
    static const char *const alone[] = {"logtostderr", "alsologtostderr", "log_json"};
    char name[64];
    size_t n;

    word += strspn(word, "-");
    n = strcspn(word, "=");
    if (n >= sizeof name)
        return false;
    memcpy(name, word, n);
    name[n] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(with_value); i++) {
        if (strcmp(name, with_value[i]) == 0) {
            *needs_value = word[n] != '=';
            return true;
        }
    }
    *needs_value = false;
    for (size_t i = 0; i < ARRAY_LEN(alone); i++)
        if (strcmp(name, alone[i]) == 0)
            return true;
    return false;
}

static int run_command(struct config *c, enum command_id cmd, int argc, char **argv)
{
    benchmark_version_text = version_text();
    switch (cmd) {
    case CMD_SERVER:
        return daemons_run(c, c->common.run_master, c->common.run_volume);
    case CMD_MASTER:
        return daemons_run(c, true, false);
    case CMD_VOLUME:
        return daemons_run(c, false, true);
    case CMD_BENCHMARK:
        return benchmark_run(&c->bench);
    case CMD_OBJECTS:
        return mode_objects(&c->mode, argc, argv);
    case CMD_CLEANUP:
        return mode_cleanup(&c->mode, argc, argv);
    case CMD_MIX:
        return mode_mix(&c->mode, argc, argv);
    case CMD_RECORDS:
        return mode_records(&c->mode, argc, argv);
    case CMD_AGENT:
        return mode_agent(&c->mode, argc, argv);
    case CMD_PLOT:
        return plot_main(&c->plot, argc, argv);
    case CMD_UPLOAD:
        return tool_upload(&c->tool, argc, argv);
    case CMD_DOWNLOAD:
        return tool_download(&c->tool, argc, argv);
    case CMD_DELETE:
        return tool_delete(&c->tool, argc, argv);
    case CMD_COUNT:
        break;
    }
    return EXIT_USAGE;
}

static int command_main(enum command_id cmd, int argc, char **argv)
{
    struct config c;
    int rest = 0, rc;

    memset(&c, 0, sizeof c);
    master_options_init(&c.master);
    volume_options_init(&c.volume);
    benchmark_options_init(&c.bench);
    mode_options_init(&c.mode);
    plot_options_init(&c.plot);
    tool_options_init(&c.tool);
    c.given = calloc(option_count, 1);
    if (c.given == NULL || option_defaults(&c) != 0)
        return 1;
    rc = option_parse(&c, cmd, argc, argv, &rest);
    if (rc == 0)
        rc = config_finish(&c, cmd);
    if (rc > 0) {
        help_command(stdout, cmd);
        rc = 0;
    } else if (rc < 0) {
        rc = EXIT_USAGE;
    } else {
        rc = run_command(&c, cmd, argc - rest, argv + rest);
    }
    config_release(&c);
    return rc;
}

/* of: the command that this would be a mode of, or "". */
static int no_command(const char *of, const char *name)
{
    const char *near = command_nearest(of, name);

    if (near != NULL)
        fprintf(stderr, "dfs: no command '%s'; the nearest is %s\n", name, near);
    else
        fprintf(stderr, "dfs: no command '%s'; `dfs help` lists them\n", name);
    return EXIT_USAGE;
}

static int help_main(int argc, char **argv)
{
    int words, skip = argc > 0 && argv[0][0] == '-' ? 1 : 0;
    int cmd = command_find(argc - skip, argv + skip, &words);

    /* The list says all there is of these two. */
    if (argc == 0 || strcmp(argv[0], "help") == 0 || strcmp(argv[0], "version") == 0) {
        help_overview(stdout);
        return 0;
    }
    if (strcmp(argv[0], "-ini") == 0) {
        help_ini(stdout);
        return 0;
    }
    if (cmd < 0)
        return no_command("", argv[skip < argc ? skip : argc - 1]);
    if (words < argc - skip)
        return no_command(command_table[cmd].name, argv[skip + words]);
    if (strcmp(argv[0], "-man") == 0)
        help_man(stdout, (enum command_id)cmd);
    else
        help_command(stdout, (enum command_id)cmd);
    return 0;
}

int main(int argc, char **argv)
{
    int i = 1, cmd, words;
    bool needs_value;

    while (i < argc && argv[i][0] == '-' && is_global_flag(argv[i], &needs_value))
        i += needs_value ? 2 : 1;
    if (i >= argc) {
        help_overview(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[i], "help") == 0 || strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0)
        return help_main(argc - i - 1, argv + i + 1);
    if (strcmp(argv[i], "version") == 0 || strcmp(argv[i], "-version") == 0 || strcmp(argv[i], "--version") == 0) {
        printf("version %s\n", version_text());
        return 0;
    }
    cmd = command_find(argc - i, argv + i, &words);
    if (cmd < 0)
        return no_command("", argv[i]);
    return command_main((enum command_id)cmd, argc - i - words, argv + i + words);
}
