/* What ThreadSanitizer is to leave alone: libleveldb synchronises with atomics of its own, and is not built with the sanitizer, so
 * every look-up beside a write seems to race. */
#if defined(__SANITIZE_THREAD__)
#define WITH_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WITH_TSAN 1
#endif
#endif

#ifdef WITH_TSAN
const char *__tsan_default_suppressions(void);

const char *__tsan_default_suppressions(void)
{
    return "called_from_lib:libleveldb\nrace:libleveldb\n";
}
#else
typedef int tsan_is_not_used; /* an empty file is not C */
#endif
