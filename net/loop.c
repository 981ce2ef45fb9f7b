/* An epoll loop of libevent, turned one step at a time so that hooks find it between callbacks.
 *
 * The mailbox is a stack that senders push onto and the loop takes as a whole and turns round, so order per sender holds.
 * Invariant: whoever finds it empty wakes the loop.  The eventfd is registered edge-triggered: each write is one wake-up
 * and nobody has to read it.  A message that a loop posts to itself needs no wake-up: the step looks before it waits. */
#include "net/loop.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"

#define LOOP_HOOKS_MAX 8u
#define LOOP_NAME_BYTES 16u

_Static_assert(sizeof(struct event) <= LOOP_TIMER_EVENT_BYTES, "struct loop_timer must hold a struct event");
_Static_assert(_Alignof(struct event) <= 16, "struct loop_timer aligns its event to 16");

struct loop_hook {
    void (*fn)(void *arg);
    void *arg;
};

struct loop {
    struct event_base *base;
    int mail_fd;
    struct event mail_event;
    bool own_mail; /* this loop posted to itself since it last emptied the mailbox */

    bool now_known, wall_known; /* read on first use in a step */
    uint64_t now_ms;
    uint64_t wall_s;

    void *scratch;
    uint32_t hook_count;
    struct loop_hook hooks[LOOP_HOOKS_MAX];

    int index;
    char name[LOOP_NAME_BYTES];
    pthread_t thread;
    bool started;

    /* What other threads write; away from what only the loop touches. */
    _Alignas(64) struct loop_msg *mailbox;
    bool stop;
};

static __thread struct loop *current;

static void on_mail(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    loop_run_posted(arg);
}

static int make_base(struct event_base **out)
{
    struct event_config *config = event_config_new();
    if (config == NULL)
        return DFS_ENOMEM;
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_IGNORE_ENV);
    event_config_require_features(config, EV_FEATURE_ET | EV_FEATURE_O1);
    struct event_base *base = event_base_new_with_config(config);
    event_config_free(config);
    if (base == NULL)
        return DFS_EUNAVAILABLE;
    *out = base;
    return 0;
}

/* A peer that has gone must cost a write its error code, never the process its life. */
static void ignore_sigpipe(void)
{
    struct sigaction sa;
    if (sigaction(SIGPIPE, NULL, &sa) == 0 && sa.sa_handler == SIG_DFL) {
        sa.sa_handler = SIG_IGN;
        sigaction(SIGPIPE, &sa, NULL);
    }
}

int loop_new(const char *name, struct loop **out)
{
    int rc;
    struct loop *loop = aligned_alloc(_Alignof(struct loop), sizeof *loop);
    if (loop == NULL)
        return DFS_ENOMEM;
    memset(loop, 0, sizeof *loop);
    loop->mail_fd = -1;
    loop->index = -1;
    strncpy(loop->name, name, sizeof loop->name - 1);
    ignore_sigpipe();

    rc = make_base(&loop->base);
    if (rc != 0)
        goto fail;
    loop->mail_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (loop->mail_fd == -1) {
        rc = dfs_err_from_errno(errno);
        goto fail;
    }
    event_assign(&loop->mail_event, loop->base, loop->mail_fd, EV_READ | EV_ET | EV_PERSIST, on_mail, loop);
    if (event_add(&loop->mail_event, NULL) == -1) {
        rc = DFS_EUNAVAILABLE;
        goto fail;
    }
    *out = loop;
    return 0;

fail:
    loop_free(loop);
    return rc;
}

void loop_free(struct loop *loop)
{
    if (loop == NULL)
        return;
    CHECK(!loop->started && current != loop);
    if (loop->base != NULL) {
        if (event_initialized(&loop->mail_event))
            event_del(&loop->mail_event);
        event_base_free(loop->base);
    }
    if (loop->mail_fd != -1)
        close(loop->mail_fd);
    if (loop->scratch != NULL)
        munmap(loop->scratch, LOOP_SCRATCH_BYTES);
    free(loop);
}

void loop_run_posted(struct loop *loop)
{
    loop->own_mail = false;
    struct loop_msg *newest_first = __atomic_exchange_n(&loop->mailbox, NULL, __ATOMIC_ACQUIRE);
    struct loop_msg *list = NULL;
    while (newest_first != NULL) {
        struct loop_msg *next = newest_first->next;
        newest_first->next = list;
        list = newest_first;
        newest_first = next;
    }
    while (list != NULL) {
        struct loop_msg *msg = list;
        list = msg->next;
        msg->run(msg);
    }
}

static void step(struct loop *loop)
{
    event_base_loop(loop->base, loop->own_mail ? EVLOOP_NONBLOCK | EVLOOP_ONCE : EVLOOP_ONCE);
    if (loop->own_mail)
        loop_run_posted(loop);
    for (uint32_t i = 0; i < loop->hook_count; i++)
        loop->hooks[i].fn(loop->hooks[i].arg);
    loop->now_known = false;
    loop->wall_known = false;
}

void loop_run(struct loop *loop)
{
    CHECK(current == NULL);
    current = loop;
    if (loop->name[0] != '\0' && getpid() != (pid_t)syscall(SYS_gettid))
        pthread_setname_np(pthread_self(), loop->name);
    while (!__atomic_load_n(&loop->stop, __ATOMIC_ACQUIRE))
        step(loop);
    loop_run_posted(loop);
    __atomic_store_n(&loop->stop, false, __ATOMIC_RELAXED);
    current = NULL;
}

static void *thread_main(void *arg)
{
    loop_run(arg);
    return NULL;
}

int loop_start(struct loop *loop)
{
    CHECK(!loop->started);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(&loop->thread, NULL, thread_main, loop);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err != 0)
        return DFS_ENOTHREAD;
    loop->started = true;
    return 0;
}

void loop_join(struct loop *loop)
{
    if (!loop->started)
        return;
    CHECK(pthread_join(loop->thread, NULL) == 0);
    loop->started = false;
}

static void wake(struct loop *loop)
{
    /* Fails only when the counter is at 2^64 - 2, with the loop awake for good. */
    uint64_t one = 1;
    ssize_t n = write(loop->mail_fd, &one, sizeof one);
    (void)n;
}

void loop_stop(struct loop *loop)
{
    __atomic_store_n(&loop->stop, true, __ATOMIC_RELEASE);
    wake(loop);
}

void loop_post(struct loop *loop, struct loop_msg *msg)
{
    struct loop_msg *head = __atomic_load_n(&loop->mailbox, __ATOMIC_RELAXED);
    do
        msg->next = head;
    while (!__atomic_compare_exchange_n(&loop->mailbox, &head, msg, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
    /* From here on msg belongs to the loop. */
    if (current == loop)
        loop->own_mail = true;
    else if (head == NULL)
        wake(loop);
}

struct loop *loop_current(void)
{
    return current;
}

bool loop_is_current(const struct loop *loop)
{
    return current == loop;
}

struct event_base *loop_base(struct loop *loop)
{
    return loop->base;
}

int loop_index(const struct loop *loop)
{
    return loop->index;
}

void loop_set_index(struct loop *loop, int index)
{
    loop->index = index;
}

uint64_t loop_now_ms(const struct loop *loop)
{
    if (!loop->now_known) {
        struct loop *cache = (struct loop *)loop;
        cache->now_ms = clock_mono_ms();
        cache->now_known = current == loop; /* nobody clears it while the loop is not running */
    }
    return loop->now_ms;
}

uint64_t loop_wall_s(const struct loop *loop)
{
    if (!loop->wall_known) {
        struct loop *cache = (struct loop *)loop;
        cache->wall_s = clock_wall_s();
        cache->wall_known = current == loop;
    }
    return loop->wall_s;
}

void *loop_scratch(struct loop *loop)
{
    if (loop->scratch == NULL) {
        void *p = mmap(NULL, LOOP_SCRATCH_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(p != MAP_FAILED);
        loop->scratch = p;
    }
    return loop->scratch;
}

int loop_on_step(struct loop *loop, void (*fn)(void *arg), void *arg)
{
    if (loop->hook_count == LOOP_HOOKS_MAX)
        return DFS_ENOSPC;
    loop->hooks[loop->hook_count++] = (struct loop_hook){fn, arg};
    return 0;
}

/* ---- timers ---- */

static struct event *timer_event(struct loop_timer *t)
{
    return (struct event *)(void *)t->event;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct loop_timer *t = arg;
    t->armed = false;
    t->fn(t->arg);
}

void loop_timer_init(struct loop_timer *t, struct loop *loop, void (*fn)(void *arg), void *arg)
{
    t->loop = loop;
    t->fn = fn;
    t->arg = arg;
    t->armed = false;
    event_assign(timer_event(t), loop->base, -1, 0, on_timer, t);
}

void loop_timer_set(struct loop_timer *t, uint64_t ms)
{
    struct timeval tv = {.tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000)};
    CHECK(event_add(timer_event(t), &tv) == 0); /* fails only when the heap of timers cannot grow */
    t->armed = true;
}

void loop_timer_cancel(struct loop_timer *t)
{
    if (!t->armed)
        return;
    event_del(timer_event(t));
    t->armed = false;
}

void loop_timer_release(struct loop_timer *t)
{
    loop_timer_cancel(t);
}

bool loop_timer_pending(const struct loop_timer *t)
{
    return t->armed;
}
