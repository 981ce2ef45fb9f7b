/* needle/err.c: the table is complete and consistent, unknown values are answered, errno maps to something. */
#include "needle_test.h"

#include <errno.h>

static void table(void **state)
{
    (void)state;
#define X(name, value, text, retryable)                     \
    assert_string_equal(dfs_err_name(name), #name);         \
    assert_string_equal(dfs_err_text(value), text);         \
    assert_int_equal(dfs_err_retryable(value), retryable);
    DFS_ERR_TABLE(X)
#undef X
}

static void codes_are_dense_and_texts_plain(void **state)
{
    int expected = 0;

    (void)state;
#define X(name, value, text, retryable)                                                    \
    assert_int_equal(value, expected--);                                                   \
    assert_true(strlen(text) > 1 && text[0] >= 'a' && text[0] <= 'z');                     \
    assert_true(text[strlen(text) - 1] != '.');
    DFS_ERR_TABLE(X)
#undef X
}

static void unknown_values(void **state)
{
    static const int values[] = {1, 2, -28, -29, -1000, INT32_MAX, INT32_MIN};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        assert_string_equal(dfs_err_name(values[i]), "DFS_E?");
        assert_string_equal(dfs_err_text(values[i]), "unknown error");
        assert_false(dfs_err_retryable(values[i]));
    }
}

static void from_errno(void **state)
{
    static const struct {
        int err, rc;
    } rows[] = {
        {ENOSPC, DFS_ENOSPC},    {EDQUOT, DFS_ENOSPC},      {EFBIG, DFS_ENOSPC},       {EROFS, DFS_EREADONLY},
        {EPERM, DFS_EREADONLY},  {EACCES, DFS_EREADONLY},   {EIO, DFS_EIO},            {ENOENT, DFS_ENOTFOUND},
        {EEXIST, DFS_EEXIST},    {EAGAIN, DFS_EAGAIN},      {EINTR, DFS_EAGAIN},       {ENOMEM, DFS_ENOMEM},
        {EMFILE, DFS_ENOFILES},  {ECONNRESET, DFS_ECLOSED}, {ETIMEDOUT, DFS_ETIMEOUT}, {ECONNREFUSED, DFS_EUNAVAILABLE},
        {EINVAL, DFS_EINVAL},    {ENOSYS, DFS_EUNSUPPORTED}, {EBUSY, DFS_EBUSY},       {EUCLEAN, DFS_EIO},
        {ENFILE, DFS_ENOFILES},  {ENOBUFS, DFS_ENOMEM},     {0, DFS_EIO},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        assert_int_equal(dfs_err_from_errno(rows[i].err), rows[i].rc);
    for (int e = -2; e < 300; e++)
        assert_true(dfs_err_from_errno(e) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),
        cmocka_unit_test(codes_are_dense_and_texts_plain),
        cmocka_unit_test(unknown_values),
        cmocka_unit_test(from_errno),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
