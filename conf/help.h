/* `dfs help`, `-h`, the options' part of the man pages, and the annotated dfs.ini: all printed from the option table. */
#ifndef DFS_CONF_HELP_H
#define DFS_CONF_HELP_H

#include <stdio.h>

#include "conf/option.h"

/* What the program is and its commands. */
void help_overview(FILE *out);
/* One command: usage, an example, its options with default and range. */
void help_command(FILE *out, enum command_id cmd);
/* mdoc(7) list of a command's options. */
void help_man(FILE *out, enum command_id cmd);
/* Every key of dfs.ini with its default, commented out. */
void help_ini(FILE *out);

#endif
