/* Bodies: small, at the edges, over several chunks, out of chunks half-way, reserved as a whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "needle/err.h"
#include "net/chunkq.h"

static struct chunk_pool *pool;

static int setup(void **state)
{
    (void)state;
    return chunk_pool_new(8 * CHUNK_BYTES, 2 * CHUNK_BYTES, &pool);
}

static int teardown(void **state)
{
    (void)state;
    chunk_pool_free(pool); /* checks that nothing is out */
    return 0;
}

static char pattern(uint64_t at)
{
    return (char)(at * 31 + at / 251);
}

static char *make(size_t n)
{
    char *p = malloc(n > 0 ? n : 1);
    for (size_t i = 0; i < n; i++)
        p[i] = pattern(i);
    return p;
}

static void check_content(const struct body *b, size_t n)
{
    assert_int_equal(b->body_bytes, n);
    uint64_t at = 0;
    for (size_t i = 0; i < body_pieces(b); i++) {
        struct bytes piece = body_piece(b, i);
        assert_true(piece.n > 0);
        for (size_t k = 0; k < piece.n; k++, at++)
            if (piece.p[k] != pattern(at))
                fail_msg("byte %llu differs", (unsigned long long)at);
    }
    assert_int_equal(at, n);
}

static void append_all(struct body *b, const char *p, size_t n, size_t step)
{
    for (size_t at = 0; at < n;) {
        size_t part = n - at < step ? n - at : step, taken = 0;
        assert_int_equal(body_append(b, bytes_of(p + at, part), &taken), 0);
        assert_int_equal(taken, part);
        at += part;
    }
}

static void test_sizes_and_steps(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 100, BODY_SMALL_MAX - 1, BODY_SMALL_MAX, BODY_SMALL_MAX + 1, CHUNK_BYTES - 1,
                                   CHUNK_BYTES, CHUNK_BYTES + 1, 2 * CHUNK_BYTES, 3 * CHUNK_BYTES + 12345};
    static const size_t steps[] = {97, 4096, BODY_SMALL_MAX, CHUNK_BYTES, 5 * CHUNK_BYTES};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (size_t t = 0; t < sizeof steps / sizeof steps[0]; t++) {
            struct body b;
            char *p = make(sizes[s]);
            body_init(&b, pool, false);
            append_all(&b, p, sizes[s], steps[t]);
            check_content(&b, sizes[s]);
            bool small = sizes[s] <= BODY_SMALL_MAX;
            assert_int_equal(b.chunk_count, small ? 0 : (sizes[s] + CHUNK_BYTES - 1) / CHUNK_BYTES);
            if (small && steps[t] >= sizes[s])
                assert_int_equal(b.small_cap, sizes[s]); /* in one piece: not a byte too much */
            body_release(&b);
            assert_int_equal(chunk_pool_used_bytes(pool), 0);
            assert_int_equal(b.body_bytes, 0);
            free(p);
        }
}

/* Bytes that were put where body_room() said, some appended between them. */
static void test_room(void **state)
{
    (void)state;
    static const size_t fronts[] = {0, 1, 5000, BODY_SMALL_MAX, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 7};
    size_t n = 3 * CHUNK_BYTES + 12345;
    char *p = make(n);
    for (size_t f = 0; f < sizeof fronts / sizeof fronts[0]; f++) {
        struct body b;
        void *at = NULL;
        body_init(&b, pool, false);
        append_all(&b, p, fronts[f], 3000);
        while (b.body_bytes < n) {
            size_t room = body_room(&b, &at), left = n - (size_t)b.body_bytes, from = (size_t)b.body_bytes;
            assert_true(room > 0 && room <= CHUNK_BYTES);
            size_t part = room < left ? room : left;
            part = part > 100000 ? part / 2 : part;
            memcpy(at, p + from, part);
            body_filled(&b, part);
            if (b.body_bytes + 10 <= n)
                append_all(&b, p + from + part, 10, 10);
        }
        check_content(&b, n);
        assert_int_equal(b.chunk_count, 4);
        /* A chunk that nothing came into is no piece, and goes back. */
        body_truncate(&b, 2 * CHUNK_BYTES);
        assert_int_equal(body_room(&b, &at), CHUNK_BYTES);
        assert_int_equal(b.chunk_count, 3);
        check_content(&b, 2 * CHUNK_BYTES);
        body_truncate(&b, 2 * CHUNK_BYTES);
        assert_int_equal(chunk_pool_used_bytes(pool), 2 * CHUNK_BYTES);
        body_release(&b);
        assert_int_equal(chunk_pool_used_bytes(pool), 0);
    }
    struct body all, one;
    void *at = NULL;
    body_init(&all, pool, false);
    body_init(&one, pool, false);
    assert_int_equal(body_reserve(&all, 6 * CHUNK_BYTES), 0);
    append_all(&one, p, 100, 100);
    assert_int_equal(body_room(&one, &at), 0); /* the pool is empty: what was there stays */
    check_content(&one, 100);
    body_release(&all);
    body_release(&one);
    free(p);
}

static void test_copy_out_and_truncate(void **state)
{
    (void)state;
    struct body b;
    size_t n = 2 * CHUNK_BYTES + 100;
    char *p = make(n), *out = malloc(n);
    body_init(&b, pool, false);
    append_all(&b, p, n, n);
    body_copy_out(&b, 0, out, n);
    assert_memory_equal(out, p, n);
    body_copy_out(&b, CHUNK_BYTES - 3, out, 7);
    assert_memory_equal(out, p + CHUNK_BYTES - 3, 7);
    body_copy_out(&b, n, out, 0);
    body_truncate(&b, CHUNK_BYTES + 1);
    check_content(&b, CHUNK_BYTES + 1);
    assert_int_equal(chunk_pool_used_bytes(pool), 2 * CHUNK_BYTES);
    body_truncate(&b, CHUNK_BYTES);
    assert_int_equal(chunk_pool_used_bytes(pool), CHUNK_BYTES);
    append_all(&b, p + CHUNK_BYTES, 10, 10);
    check_content(&b, CHUNK_BYTES + 10);
    body_truncate(&b, 0);
    assert_int_equal(chunk_pool_used_bytes(pool), 0);
    append_all(&b, p, 10, 10);
    check_content(&b, 10);
    body_copy_out(&b, 3, out, 4);
    assert_memory_equal(out, p + 3, 4);
    body_release(&b);
    free(out);
    free(p);
}

static void test_pool_runs_out_half_way(void **state)
{
    (void)state;
    struct body a, b;
    size_t n = 7 * CHUNK_BYTES, taken;
    char *p = make(n);
    body_init(&a, pool, false);
    body_init(&b, pool, true);
    assert_int_equal(body_append(&a, bytes_of(p, n), &taken), DFS_EAGAIN);
    assert_int_equal(taken, 6 * CHUNK_BYTES); /* two are reserved */
    check_content(&a, 6 * CHUNK_BYTES);
    assert_int_equal(body_append(&a, bytes_of(p + taken, 1), &taken), DFS_EAGAIN);
    assert_int_equal(taken, 0);
    assert_int_equal(body_append(&b, bytes_of(p, n), &taken), DFS_EAGAIN);
    assert_int_equal(taken, 2 * CHUNK_BYTES);
    body_release(&a);
    append_all(&b, p + 2 * CHUNK_BYTES, n - 2 * CHUNK_BYTES, 100000);
    check_content(&b, n);
    body_release(&b);
    free(p);
}

static void test_small_body_needs_no_chunk(void **state)
{
    (void)state;
    struct body big, b;
    char *p = make(8 * CHUNK_BYTES);
    size_t taken;
    body_init(&big, pool, true);
    append_all(&big, p, 8 * CHUNK_BYTES, CHUNK_BYTES);
    body_init(&b, pool, false);
    append_all(&b, p, BODY_SMALL_MAX, 1000);
    assert_int_equal(body_append(&b, bytes_of(p + BODY_SMALL_MAX, 1), &taken), DFS_EAGAIN);
    check_content(&b, BODY_SMALL_MAX);
    body_release(&big);
    append_all(&b, p + BODY_SMALL_MAX, 1, 1);
    check_content(&b, BODY_SMALL_MAX + 1);
    body_release(&b);
    free(p);
}

static void test_reserve(void **state)
{
    (void)state;
    struct body a, b;
    char *p = make(6 * CHUNK_BYTES);
    body_init(&a, pool, false);
    body_init(&b, pool, false);
    assert_int_equal(body_reserve(&a, 100), 0);
    assert_int_equal(a.chunk_count, 0);
    assert_int_equal(body_reserve_want(&a, 4 * CHUNK_BYTES + 1), 5);
    assert_int_equal(body_reserve(&a, 4 * CHUNK_BYTES + 1), 0);
    assert_int_equal(body_reserve_want(&a, 4 * CHUNK_BYTES + 1), 0);
    assert_int_equal(chunk_pool_used_bytes(pool), 5 * CHUNK_BYTES);
    assert_int_equal(body_pieces(&a), 0);
    assert_int_equal(body_reserve(&b, 2 * CHUNK_BYTES), DFS_EAGAIN);
    assert_int_equal(b.chunk_count, 0); /* all or none */
    assert_int_equal(body_reserve(&b, 7 * CHUNK_BYTES), DFS_ETOOBIG);
    assert_int_equal(body_reserve(&b, UINT64_MAX), DFS_ETOOBIG);
    append_all(&a, p, 4 * CHUNK_BYTES + 1, 50000);
    check_content(&a, 4 * CHUNK_BYTES + 1);
    body_release(&a);

    /* Less came than was announced, and the first bytes before the length was known. */
    append_all(&b, p, 10, 10);
    assert_int_equal(body_reserve(&b, 2 * CHUNK_BYTES), 0);
    check_content(&b, 10);
    append_all(&b, p + 10, 5, 5);
    check_content(&b, 15);
    assert_int_equal(body_pieces(&b), 1);
    body_truncate(&b, 15);
    assert_int_equal(chunk_pool_used_bytes(pool), CHUNK_BYTES);
    body_release(&b);
    body_release(&b);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sizes_and_steps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_room, setup, teardown),
        cmocka_unit_test_setup_teardown(test_copy_out_and_truncate, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pool_runs_out_half_way, setup, teardown),
        cmocka_unit_test_setup_teardown(test_small_body_needs_no_chunk, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reserve, setup, teardown),
    };
    return cmocka_run_group_tests_name("chunkq", tests, NULL, NULL);
}
