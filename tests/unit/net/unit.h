/* What the unit tests of net share: cmocka with the headers that it wants, and a comparison of views with texts. */
#ifndef DFS_TESTS_UNIT_NET_UNIT_H
#define DFS_TESTS_UNIT_NET_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "needle/bytes.h"
#include "needle/check.h"

#define assert_bytes(got, want) assert_bytes_at((got), (want), __FILE__, __LINE__)

static inline void assert_bytes_at(struct bytes got, const char *want, const char *file, int line)
{
    if (bytes_eq(got, bytes_str(want)))
        return;
    print_error("%s:%d: got '%.*s', want '%s'\n", file, line, (int)got.n, got.p != NULL ? got.p : "", want);
    fail();
}

#endif
