/* CHECK: an invariant of our own code, tested in every build.  DCHECK: the same, in debug and sanitizer builds only.
 *
 * Never for bytes that came from a disk or a socket: those are data, and a wrong one is DFS_ECORRUPT. */
#ifndef DFS_NEEDLE_CHECK_H
#define DFS_NEEDLE_CHECK_H

#include <stddef.h>

/* Prints one line to standard error and aborts.  Does not return. */
__attribute__((noreturn, cold)) void check_failed(const char *expr, const char *file, int line, const char *func);

#define CHECK(expr)                                                 \
    do {                                                            \
        if (__builtin_expect(!(expr), 0))                           \
            check_failed(#expr, __FILE__, __LINE__, __func__);      \
    } while (0)

#ifdef DFS_DEBUG
#define DCHECK(expr) CHECK(expr)
#else
#define DCHECK(expr)            \
    do {                        \
        (void)sizeof((expr));   \
    } while (0)
#endif

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#define CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))

#endif
