/* Formats a line on the stack and hands it to the kernel in one write(2), so that lines of threads never mix. */
#include "net/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "needle/err.h"
#include "net/clock.h"

#define LINE_MAX_BYTES 4096u

enum log_level log_threshold = LOG_INFO;

/* Once a file was opened its descriptor number stays the same for good (reopening is a dup3 onto it), so a thread in the
 * middle of a write never holds a closed one. */
static int log_fd = STDERR_FILENO;

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static size_t write_prefix(char *line, enum log_level level, const char *file, int at)
{
    uint64_t ns = clock_wall_ns();
    time_t s = (time_t)(ns / 1000000000u);
    struct tm tm = {0};
    localtime_r(&s, &tm);
    int n = snprintf(line, 128, "%c%02d%02d %02d:%02d:%02d.%06u %.40s:%d ", "DIWE"[level & 3], tm.tm_mon + 1, tm.tm_mday,
                     tm.tm_hour, tm.tm_min, tm.tm_sec, (unsigned)(ns / 1000 % 1000000), base_name(file), at);
    return n > 0 ? (size_t)n : 0;
}

/* Quoted bytes of a client may hold anything: a line stays a line, and a terminal is never driven by it. */
static void blunt_controls(char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            p[i] = '?';
    }
}

static void write_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t put = write(fd, p, n);
        if (put == -1 && errno == EINTR)
            continue;
        if (put <= 0)
            return; /* nobody left to tell */
        p += put;
        n -= (size_t)put;
    }
}

void log_printf(enum log_level level, const char *file, int line, const char *fmt, ...)
{
    int saved_errno = errno;
    char text[LINE_MAX_BYTES];
    size_t prefix = write_prefix(text, level, file, line);
    size_t room = sizeof text - prefix - 1; /* one for the newline */

    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text + prefix, room, fmt, ap);
    va_end(ap);
    if (n < 0)
        n = 0;
    size_t len = (size_t)n;
    if (len >= room) {
        len = room - 1;
        memcpy(text + prefix + len - 3, "...", 3);
    }
    blunt_controls(text + prefix, len);
    text[prefix + len] = '\n';
    write_all(__atomic_load_n(&log_fd, __ATOMIC_RELAXED), text, prefix + len + 1);
    errno = saved_errno;
}

bool log_every(struct log_gate *gate, uint64_t interval_ms, uint64_t *suppressed)
{
    /* 0 in next_ms means "never yet", so the first message passes whatever the clock says. */
    uint64_t now = clock_mono_ms();
    uint64_t next = __atomic_load_n(&gate->next_ms, __ATOMIC_RELAXED);
    if (now < next || !__atomic_compare_exchange_n(&gate->next_ms, &next, now + interval_ms, false, __ATOMIC_RELAXED,
                                                   __ATOMIC_RELAXED)) {
        __atomic_add_fetch(&gate->swallowed, 1, __ATOMIC_RELAXED);
        return false;
    }
    uint64_t swallowed = __atomic_exchange_n(&gate->swallowed, 0, __ATOMIC_RELAXED);
    if (suppressed != NULL)
        *suppressed = swallowed;
    return true;
}

int log_open(const char *path)
{
    int fd = path != NULL ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640)
                          : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (fd == -1)
        return dfs_err_from_errno(errno);
    int current = __atomic_load_n(&log_fd, __ATOMIC_RELAXED);
    if (current == STDERR_FILENO) {
        __atomic_store_n(&log_fd, fd, __ATOMIC_RELAXED);
        return 0;
    }
    int rc = dup3(fd, current, O_CLOEXEC) == -1 ? dfs_err_from_errno(errno) : 0;
    close(fd);
    return rc;
}
