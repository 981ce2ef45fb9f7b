/* The end of the line for a broken invariant: say where, then abort so that a core is left. */
#include "needle/check.h"

#include <stdio.h>
#include <stdlib.h>

void check_failed(const char *expr, const char *file, int line, const char *func)
{
    fprintf(stderr, "%s:%d: %s: check failed: %s\n", file, line, func, expr);
    fflush(stderr);
    abort();
}
