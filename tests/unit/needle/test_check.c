/* needle/check.c: a broken invariant says where and aborts; a kept one costs nothing. */
#include "needle_test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void failing_check_aborts_and_says_where(void **state)
{
    char text[512] = "";
    int fds[2], status;
    ssize_t n;
    pid_t pid;

    (void)state;
    assert_int_equal(pipe(fds), 0);
    pid = fork();
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(fds[1], STDERR_FILENO);
        CHECK(1 + 1 == 3);
        _exit(0);
    }
    close(fds[1]);
    n = read(fds[0], text, sizeof text - 1);
    assert_true(n > 0);
    close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_non_null(strstr(text, "test_check.c:"));
    assert_non_null(strstr(text, "check failed: 1 + 1 == 3"));
}

static void passing_check_evaluates_once(void **state)
{
    int n = 0;

    (void)state;
    CHECK(++n == 1);
    assert_int_equal(n, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failing_check_aborts_and_says_where),
        cmocka_unit_test(passing_check_evaluates_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
