/* What the unit tests of bench share: cmocka with its headers, a stream in memory, random numbers from a fixed seed. */
#ifndef DFS_TESTS_UNIT_BENCH_UNIT_H
#define DFS_TESTS_UNIT_BENCH_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "needle/check.h"

struct text {
    FILE *f;
    char *p;
    size_t n;
};

static inline FILE *text_open(struct text *t)
{
    t->f = open_memstream(&t->p, &t->n);
    assert_non_null(t->f);
    return t->f;
}

/* Compares what was written and frees it. */
static inline void text_expect(struct text *t, const char *want)
{
    fclose(t->f);
    assert_string_equal(t->p, want);
    free(t->p);
}

static inline uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 16;
}

#endif
