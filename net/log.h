/* Logging to standard error, one line a message: "I1130 20:01:02.123456 volume.c:42 text".
 * State changes are logged, repeats are rate-limited by the caller with log_every().  Any thread; one write(2) a line. */
#ifndef DFS_NET_LOG_H
#define DFS_NET_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_DEBUG = 0, LOG_INFO, LOG_WARNING, LOG_ERROR };

extern enum log_level log_threshold;

/* Use the macros below. */
void log_printf(enum log_level level, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#define log_at(level, ...)                                             \
    do {                                                               \
        if ((level) >= log_threshold)                                  \
            log_printf((level), __FILE__, __LINE__, __VA_ARGS__);      \
    } while (0)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_at(LOG_INFO, __VA_ARGS__)
#define log_warning(...) log_at(LOG_WARNING, __VA_ARGS__)
#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)

/* Gate for messages that may repeat: true at most once per interval; *suppressed tells how many were swallowed since.
 * Static storage, zero-initialised, one per call site.  Any thread. */
struct log_gate {
    uint64_t next_ms;
    uint64_t swallowed;
};
bool log_every(struct log_gate *gate, uint64_t interval_ms, uint64_t *suppressed);

/* A file instead of standard error, and reopening of it; 0 or DFS_E*.  path NULL = standard error. */
int log_open(const char *path);

#endif
