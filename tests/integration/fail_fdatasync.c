/* Preloaded into a server: while the file that FAIL_FDATASYNC names exists and holds a number above 0, fdatasync(2) fails with
 * EIO and counts it down; further calls go through.  For tests/integration only. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

int fdatasync(int fd);

/* Takes one failure from the file. */
static int take_failure(void)
{
    const char *path = getenv("FAIL_FDATASYNC");
    FILE *f = path != NULL ? fopen(path, "r+e") : NULL;
    int left = 0;

    if (f == NULL)
        return 0;
    flock(fileno(f), LOCK_EX);
    if (fscanf(f, "%d", &left) == 1 && left > 0) {
        rewind(f);
        fprintf(f, "%d \n", left - 1);
        fflush(f);
    }
    fclose(f);
    return left > 0;
}

int fdatasync(int fd)
{
    static int (*next)(int);

    if (next == NULL)
        next = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    if (take_failure()) {
        errno = EIO;
        return -1;
    }
    return next(fd);
}
