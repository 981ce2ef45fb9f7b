/* Preloaded into a server: the wall clock is ahead by as many seconds as the first 8 bytes of the file that SHIFT_CLOCK names say
 * (host byte order), now, so that a test need not wait for a time to live to pass.  The other clocks, and with them every
 * deadline and heartbeat, go on as they are.  For tests/integration only. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static int (*next)(clockid_t, struct timespec *);
static const volatile int64_t *ahead_s; /* NULL: not asked for */

/* The file stays mapped: a look at the clock must not become a system call. */
static void find(void)
{
    const char *path = getenv("SHIFT_CLOCK");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *map;

    next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    if (fd == -1)
        return;
    map = mmap(NULL, sizeof(*ahead_s), PROT_READ, MAP_SHARED, fd, 0);
    if (map != MAP_FAILED)
        ahead_s = map;
    close(fd);
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int rc;

    pthread_once(&once, find);
    rc = next(id, ts);
    if (rc == 0 && id == CLOCK_REALTIME && ahead_s != NULL)
        ts->tv_sec += *ahead_s;
    return rc;
}
