/* One small file, replaced so that after a crash it is the old or the new one, whole.  Blocks: worker threads and start-up. */
#ifndef DFS_MASTER_STATE_FILE_H
#define DFS_MASTER_STATE_FILE_H

#include <stddef.h>

#define STATE_FILE_MAX 65536u

/* Makes the folder (0750) and takes an exclusive lock in it, held until the descriptor is closed.  DFS_EBUSY: another
 * process has it.  Every error has been logged with its reason. */
int state_folder_lock(const char *dir, int *fd);

/* malloc'd text with a closing zero.  DFS_ENOTFOUND, DFS_ETOOBIG, DFS_EIO. */
int state_file_read(const char *path, char **out);

/* tmp, fsync, rename, fsync of the folder. */
int state_file_replace(const char *dir, const char *path, const char *text, size_t n);

#endif
