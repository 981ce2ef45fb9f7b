/* Options from files and from the environment.  Main thread, before anything else starts. */
#ifndef DFS_CONF_INI_H
#define DFS_CONF_INI_H

#include "conf/option.h"

/* dfs.ini: sections [common], [master], [volume]; keys are the options' names in the daemon of the section.  path "" looks for
 * ./dfs.ini, then /etc/dfs/dfs.ini, and is content with neither.  Sections of daemons that the command does not start are
 * checked too, and then left alone.  0, or -1 after one line that names file and line. */
int ini_read(struct config *c, enum command_id cmd, const char *path);

/* The peer's -options file: lines `name=value`, blank lines and lines that start with '#' skipped, blanks around name and value
 * and quotes around the value dropped. */
int options_file_read(struct config *c, enum command_id cmd, const char *path);

/* WEED_MASTER_VOLUME_GROWTH_COPY_1, _2, _3, _OTHER: how many volumes a growth makes. */
int environment_read(struct config *c, enum command_id cmd);

#endif
