/* Limits of this process and this machine. */
#include "bench/client_size.h"

#include <sys/resource.h>
#include <unistd.h>

#define LOOPS_DEFAULT_MAX 4u
#define FILES_RESERVE 256u

uint32_t client_cores(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores > 0 ? (uint32_t)cores : 1;
}

uint32_t client_loops(uint32_t asked, uint32_t slots)
{
    uint32_t loops = asked;
    /* Half of them, since servers often stand beside the client: on two cores a second loop cost a third more CPU a request and
     * won nothing. */
    if (loops == 0)
        loops = client_cores() / 2 < LOOPS_DEFAULT_MAX ? client_cores() / 2 : LOOPS_DEFAULT_MAX;
    if (loops == 0)
        loops = 1;
    if (loops > CLIENT_LOOPS_MAX)
        loops = CLIENT_LOOPS_MAX;
    return loops > slots ? slots : loops;
}

/* As many open files as `wish`, or as near to it as the system lets us; returns what there are. */
static uint64_t raise_file_limit(rlim_t wish)
{
    struct rlimit lim, more;

    if (getrlimit(RLIMIT_NOFILE, &lim) != 0)
        return 0;
    if (lim.rlim_cur >= wish)
        return lim.rlim_cur;
    more = (struct rlimit){wish, lim.rlim_max == RLIM_INFINITY || lim.rlim_max > wish ? lim.rlim_max : wish};
    if (setrlimit(RLIMIT_NOFILE, &more) == 0)
        return wish;
    lim.rlim_cur = lim.rlim_max < wish ? lim.rlim_max : wish;
    setrlimit(RLIMIT_NOFILE, &lim);
    return getrlimit(RLIMIT_NOFILE, &lim) == 0 ? lim.rlim_cur : 0;
}

/* A connection to the master and one to a volume server for each slot, and as many again for those that move between volume
 * servers.  With fewer files, connections to each address are rationed: a slot uses one at a time. */
uint64_t client_connections(uint32_t slots, uint64_t *least, uint64_t *limit)
{
    uint64_t c = slots, half;

    *least = c + c / 2 + FILES_RESERVE;
    *limit = raise_file_limit(4 * c + FILES_RESERVE);
    if (*limit < *least)
        return 0;
    half = (*limit - FILES_RESERVE) / 2;
    return half < 2 * c ? half : 2 * c;
}
