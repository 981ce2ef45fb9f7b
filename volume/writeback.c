/* The flusher and the gate.
 *
 * The mutex guards numbers and lists only; the one thread that waits for the disk does so without it, on a file marked busy.
 *
 * What the flusher does next, always for the dirty file that it served least recently:
 *   start   a whole step (or, when old or pressed, anything) is not on its way yet: sync_file_range(WRITE), 1 to 2 MB
 *   wait    pressed, or the file's bytes are old: wait for its oldest step, at most 2 MB
 *   sync    the same in `paced` mode: fdatasync, for only that makes the bytes count as clean there
 * Pressed means that half of the window is dirty, or that somebody waits at the gate.  So the disk always has work before the
 * window is full, and a writer that is slower than the disk never meets the gate.
 *
 * At the gate: dirty + admitted bytes of both kinds <= window. */
#include "volume/writeback.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"
#include "net/log.h"
#include "volume/disk.h"

#define STEP_MIN (1u << 20)
#define STEP_MAX (2u << 20)
#define PAGE_BYTES 4096u
#define NS_PER_MS 1000000ull
/* With somebody at the gate even a little dirt is not left to grow old. */
#define PRESSED_AGE_MS 20u
#define SLOW_FLUSH_NS 1000000000ull

/* Durations: four buckets for each doubling, from 1 us on. */
#define HISTOGRAM_BUCKETS 128u

enum kind { NORMAL, PRIVILEGED, KINDS };
enum sleep { AWAKE, TIMED, FOR_EVER };
enum action { START, WAIT, SYNC };

struct waiter_queue {
    struct writeback_waiter *head, *tail;
};

struct writeback {
    pthread_mutex_t lock;
    pthread_cond_t let_go; /* a file is no longer busy */
    struct writeback_options options;
    uint64_t window, dirty;

    struct writeback_file *head, *tail;
    uint64_t activity; /* rises with each report of the writer */

    uint64_t admitted[KINDS];
    uint64_t served[KINDS]; /* bytes let in while both kinds waited */
    struct waiter_queue queue[KINDS];
    uint64_t waiting, paced_ns;

    pthread_t thread;
    int wake_fd;
    enum sleep sleep;
    bool stop;

    uint64_t flushes, flush_errors, flush_max_ns;
    uint64_t histogram[HISTOGRAM_BUCKETS];
};

/* ---- durations ---- */

static unsigned bucket_of(uint64_t ns)
{
    uint64_t us = ns / 1000;
    if (us < 4)
        return (unsigned)us;
    unsigned log = 63u - (unsigned)__builtin_clzll(us);
    unsigned b = (log - 1) * 4 + (unsigned)(us >> (log - 2) & 3);
    return b < HISTOGRAM_BUCKETS ? b : HISTOGRAM_BUCKETS - 1;
}

/* First duration that is too long for the bucket. */
static uint64_t bucket_end_ns(unsigned b)
{
    if (b < 4)
        return (b + 1) * 1000ull;
    return ((uint64_t)(5 + b % 4) << (b / 4 - 1)) * 1000ull;
}

static uint64_t quantile_ns(const struct writeback *wb, double q)
{
    uint64_t rank = (uint64_t)((double)wb->flushes * q), seen = 0;
    for (unsigned b = 0; b < HISTOGRAM_BUCKETS; b++) {
        seen += wb->histogram[b];
        if (seen > rank)
            return bucket_end_ns(b);
    }
    return wb->flush_max_ns;
}

static void count_flush_locked(struct writeback *wb, uint64_t ns)
{
    wb->flushes++;
    wb->histogram[bucket_of(ns)]++;
    if (ns > wb->flush_max_ns)
        wb->flush_max_ns = ns;
}

/* ---- waking the flusher ---- */

static void wake_locked(struct writeback *wb)
{
    if (wb->sleep == AWAKE)
        return;
    wb->sleep = AWAKE;
    uint64_t one = 1;
    ssize_t n = write(wb->wake_fd, &one, sizeof one);
    (void)n; /* cannot fail: nobody counts up to 2^64 */
}

/* ---- the gate ---- */

static uint64_t share_of(const struct writeback *wb)
{
    return wb->window / 4 * 3;
}

static bool is_large(const struct writeback *wb, uint64_t n)
{
    return n > wb->window / 4;
}

/* Only bytes of the same kind stand in the way: the other kind must not wait behind this one. */
static bool own_share_full(const struct writeback *wb, enum kind k, uint64_t n)
{
    if (wb->admitted[k] == 0)
        return false;
    return is_large(wb, n) || wb->admitted[k] + n > share_of(wb);
}

static uint64_t capped(const struct writeback *wb, enum kind k)
{
    return wb->admitted[k] < share_of(wb) ? wb->admitted[k] : share_of(wb);
}

static bool fits(const struct writeback *wb, enum kind k, uint64_t n)
{
    if (own_share_full(wb, k, n))
        return false;
    if (is_large(wb, n))
        return wb->dirty <= wb->window / 4;
    return wb->dirty + capped(wb, NORMAL) + capped(wb, PRIVILEGED) + n <= wb->window;
}

static void queue_push(struct waiter_queue *q, struct writeback_waiter *w)
{
    w->next = NULL;
    w->prev = q->tail;
    *(q->tail != NULL ? &q->tail->next : &q->head) = w;
    q->tail = w;
}

static void queue_remove(struct waiter_queue *q, struct writeback_waiter *w)
{
    *(w->prev != NULL ? &w->prev->next : &q->head) = w->next;
    *(w->next != NULL ? &w->next->prev : &q->tail) = w->prev;
    w->next = w->prev = NULL;
}

/* The queue whose head is next, or NULL when all heads wait for bytes of their own kind. */
static struct waiter_queue *next_queue_locked(struct writeback *wb)
{
    bool can[KINDS];
    for (enum kind k = NORMAL; k < KINDS; k++)
        can[k] = wb->queue[k].head != NULL && !own_share_full(wb, k, wb->queue[k].head->bytes);
    if (can[NORMAL] && can[PRIVILEGED])
        return &wb->queue[wb->served[PRIVILEGED] <= wb->served[NORMAL] ? PRIVILEGED : NORMAL];
    return can[PRIVILEGED] ? &wb->queue[PRIVILEGED] : can[NORMAL] ? &wb->queue[NORMAL] : NULL;
}

/* Lets in who fits, in order. */
static void open_gate_locked(struct writeback *wb)
{
    struct waiter_queue *q;
    while ((q = next_queue_locked(wb)) != NULL) {
        enum kind k = q == &wb->queue[PRIVILEGED] ? PRIVILEGED : NORMAL;
        struct writeback_waiter *w = q->head;
        if (!fits(wb, k, w->bytes))
            return;
        if (wb->queue[NORMAL].head != NULL && wb->queue[PRIVILEGED].head != NULL)
            wb->served[k] += w->bytes;
        else
            wb->served[NORMAL] = wb->served[PRIVILEGED] = 0;
        queue_remove(q, w);
        wb->waiting--;
        wb->admitted[k] += w->bytes;
        wb->paced_ns += clock_mono_ns() - w->since_ns;
        w->queued = false;
        w->posted = true;
        loop_post(w->loop, &w->msg); /* w may be gone from here on */
    }
}

static bool goes_straight_in_locked(const struct writeback *wb, enum kind k, uint64_t n)
{
    const struct writeback_waiter *other = wb->queue[1 - k].head;
    if (wb->queue[k].head != NULL || !fits(wb, k, n))
        return false;
    return other == NULL || own_share_full(wb, 1 - k, other->bytes);
}

bool writeback_admit(struct writeback *wb, struct writeback_waiter *w, uint64_t n)
{
    enum kind k = w->privileged ? PRIVILEGED : NORMAL;
    CHECK(n > 0 && w->loop != NULL && w->msg.run != NULL);
    pthread_mutex_lock(&wb->lock);
    CHECK(!w->queued);
    w->posted = false;
    bool in = goes_straight_in_locked(wb, k, n);
    if (in) {
        wb->admitted[k] += n;
    } else {
        w->bytes = n;
        w->since_ns = clock_mono_ns();
        w->queued = true;
        wb->waiting++;
        queue_push(&wb->queue[k], w);
        open_gate_locked(wb);
        wake_locked(wb);
    }
    pthread_mutex_unlock(&wb->lock);
    return in;
}

bool writeback_cancel(struct writeback *wb, struct writeback_waiter *w)
{
    pthread_mutex_lock(&wb->lock);
    bool waits = w->queued;
    if (waits) {
        queue_remove(&wb->queue[w->privileged ? PRIVILEGED : NORMAL], w);
        w->queued = false;
        wb->waiting--;
        wb->paced_ns += clock_mono_ns() - w->since_ns;
        open_gate_locked(wb);
    }
    pthread_mutex_unlock(&wb->lock);
    return waits;
}

void writeback_return(struct writeback *wb, uint64_t n, bool privileged)
{
    enum kind k = privileged ? PRIVILEGED : NORMAL;
    pthread_mutex_lock(&wb->lock);
    CHECK(wb->admitted[k] >= n);
    wb->admitted[k] -= n;
    open_gate_locked(wb);
    pthread_mutex_unlock(&wb->lock);
}

/* ---- files ---- */

static void list_append(struct writeback *wb, struct writeback_file *f)
{
    f->next = NULL;
    f->prev = wb->tail;
    *(wb->tail != NULL ? &wb->tail->next : &wb->head) = f;
    wb->tail = f;
    f->listed = true;
}

static void list_remove(struct writeback *wb, struct writeback_file *f)
{
    if (!f->listed)
        return;
    *(f->prev != NULL ? &f->prev->next : &wb->head) = f->next;
    *(f->next != NULL ? &f->next->prev : &wb->tail) = f->prev;
    f->next = f->prev = NULL;
    f->listed = false;
}

/* The one place that changes a file's positions: keeps them in order, the sum of dirty bytes, the list and the ages. */
static void set_positions_locked(struct writeback_file *f, uint64_t waited, uint64_t started, uint64_t written)
{
    struct writeback *wb = f->wb;
    uint64_t now_ns = clock_mono_ns();
    wb->dirty -= f->written_pos - f->waited_pos;
    f->written_pos = written;
    f->waited_pos = waited < written ? waited : written;
    f->started_pos = started < f->waited_pos ? f->waited_pos : started < written ? started : written;
    wb->dirty += f->written_pos - f->waited_pos;

    if (f->waited_pos == f->written_pos) {
        list_remove(wb, f);
    } else if (!f->listed) {
        f->dirty_since_ns = f->mark_ns = now_ns;
        f->mark_pos = f->written_pos;
        list_append(wb, f);
    } else if (f->waited_pos >= f->mark_pos) {
        f->dirty_since_ns = f->mark_ns;
        f->mark_pos = f->written_pos;
        f->mark_ns = now_ns;
    }
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void writeback_attach(struct writeback *wb, struct writeback_file *f, int fd, uint64_t pos)
{
    void (*on_error)(struct writeback_file *file, int rc) = f->on_error;
    memset(f, 0, sizeof *f);
    f->on_error = on_error;
    f->fd = fd;
    f->wb = wb;
    f->started_pos = f->waited_pos = f->written_pos = pos;
}

void writeback_detach(struct writeback_file *f)
{
    struct writeback *wb = f->wb;
    if (wb == NULL)
        return;
    CHECK(!pthread_equal(pthread_self(), wb->thread));
    pthread_mutex_lock(&wb->lock);
    while (f->busy || f->syncing > 0)
        pthread_cond_wait(&wb->let_go, &wb->lock);
    set_positions_locked(f, f->written_pos, f->written_pos, f->written_pos);
    f->wb = NULL;
    open_gate_locked(wb);
    pthread_mutex_unlock(&wb->lock);
}

void writeback_wrote(struct writeback_file *f, uint64_t pos)
{
    struct writeback *wb = f->wb;
    pthread_mutex_lock(&wb->lock);
    wb->activity++;
    if (f->failed != 0)
        set_positions_locked(f, pos, pos, pos);
    else
        set_positions_locked(f, f->waited_pos, f->started_pos, pos);
    if (wb->sleep == FOR_EVER || f->written_pos - f->started_pos >= STEP_MIN || wb->dirty >= wb->window / 2)
        wake_locked(wb);
    pthread_mutex_unlock(&wb->lock);
}

static bool begin_sync(struct writeback *wb, struct writeback_file *f)
{
    if (wb == NULL)
        return false;
    pthread_mutex_lock(&wb->lock);
    bool attached = f->wb == wb;
    if (attached)
        f->syncing++;
    pthread_mutex_unlock(&wb->lock);
    return attached;
}

/* What all who were at this file make of it. */
static int end_sync(struct writeback *wb, struct writeback_file *f, int rc)
{
    pthread_mutex_lock(&wb->lock);
    if (rc != 0 && f->failed == 0) {
        wb->flush_errors++;
        f->failed = rc;
        set_positions_locked(f, f->written_pos, f->written_pos, f->written_pos);
    }
    f->syncing--;
    pthread_cond_broadcast(&wb->let_go);
    while ((f->busy || f->syncing > 0) && f->failed == 0)
        pthread_cond_wait(&wb->let_go, &wb->lock);
    rc = f->failed;
    open_gate_locked(wb);
    pthread_mutex_unlock(&wb->lock);
    return rc;
}

int writeback_datasync(struct writeback *wb, struct writeback_file *f, int fd)
{
    if (!begin_sync(wb, f))
        return disk_datasync(fd);
    return end_sync(wb, f, disk_datasync(fd));
}

void writeback_synced(struct writeback_file *f, uint64_t pos)
{
    struct writeback *wb = f->wb;
    pthread_mutex_lock(&wb->lock);
    set_positions_locked(f, max_u64(f->waited_pos, pos), f->started_pos, f->written_pos);
    open_gate_locked(wb);
    pthread_mutex_unlock(&wb->lock);
}

/* ---- the flusher ---- */

struct task {
    struct writeback_file *file;
    enum action action;
    uint64_t from, to;
};

static uint64_t age_limit_ns(const struct writeback *wb)
{
    uint64_t ms = wb->options.max_age_ms;
    if (wb->waiting > 0 && ms > PRESSED_AGE_MS)
        ms = PRESSED_AGE_MS;
    return ms * NS_PER_MS;
}

static bool old_enough(const struct writeback *wb, const struct writeback_file *f, uint64_t now_ns)
{
    return now_ns - f->dirty_since_ns >= age_limit_ns(wb);
}

static bool pressed(const struct writeback *wb)
{
    return wb->dirty >= wb->window / 2 || (wb->waiting > 0 && wb->dirty >= wb->window / 8);
}

/* Whole pages while there is more to come, for a page that is written twice is paid twice. */
static bool start_task(const struct writeback_file *f, bool anything, struct task *out)
{
    uint64_t n = f->written_pos - f->started_pos;
    if (n == 0 || (n < STEP_MIN && !anything))
        return false;
    uint64_t to = n > STEP_MAX ? f->started_pos + STEP_MAX : f->written_pos;
    if (n >= STEP_MIN)
        to -= to % PAGE_BYTES;
    *out = (struct task){(struct writeback_file *)f, START, f->started_pos, to};
    return true;
}

static bool choose_locked(struct writeback *wb, struct task *out)
{
    uint64_t now_ns = clock_mono_ns();
    bool press = pressed(wb);
    /* Starting costs nothing and fills the disk's queue: all of that before any waiting. */
    for (struct writeback_file *f = wb->head; f != NULL; f = f->next)
        if (start_task(f, !wb->options.datasync && (press || old_enough(wb, f, now_ns)), out))
            return true;
    for (struct writeback_file *f = wb->head; f != NULL; f = f->next) {
        if (!press && !old_enough(wb, f, now_ns))
            continue;
        uint64_t to = f->written_pos;
        if (!wb->options.datasync) {
            CHECK(f->started_pos > f->waited_pos);
            to = f->started_pos - f->waited_pos > STEP_MAX ? f->waited_pos + STEP_MAX : f->started_pos;
        }
        *out = (struct task){f, wb->options.datasync ? SYNC : WAIT, f->waited_pos, to};
        return true;
    }
    return false;
}

static int carry_out(const struct writeback *wb, const struct task *t, int fd)
{
    uint64_t n = t->to - t->from;
    int rc = 0;
    switch (t->action) {
    case START:
        return disk_writeback_start(fd, t->from, n);
    case WAIT:
        rc = disk_writeback_wait(fd, t->from, n);
        break;
    case SYNC:
        rc = disk_datasync(fd);
        break;
    }
    if (rc == 0 && wb->options.drop_behind)
        disk_drop_cache(fd, t->from, n);
    return rc;
}

static void tell_if_slow(const struct writeback *wb, uint64_t ns)
{
    static struct log_gate gate;
    uint64_t more;
    if (ns >= SLOW_FLUSH_NS && log_every(&gate, 10000, &more))
        log_warning("%s: a flush took %llu ms (%llu more)", wb->options.name, (unsigned long long)(ns / NS_PER_MS),
                    (unsigned long long)more);
}

static void finish_locked(struct writeback *wb, const struct task *t, int rc)
{
    struct writeback_file *f = t->file;
    if (rc != 0) {
        int err = errno;
        wb->flush_errors++;
        f->failed = rc;
        set_positions_locked(f, f->written_pos, f->written_pos, f->written_pos);
        pthread_mutex_unlock(&wb->lock);
        log_error("%s: cannot write back bytes %llu to %llu of a file: %s", wb->options.name, (unsigned long long)t->from,
                  (unsigned long long)t->to, strerror(err));
        if (f->on_error != NULL)
            f->on_error(f, rc);
        pthread_mutex_lock(&wb->lock);
    } else if (t->action == START) {
        set_positions_locked(f, f->waited_pos, max_u64(f->started_pos, t->to), f->written_pos);
    } else {
        set_positions_locked(f, max_u64(f->waited_pos, t->to), f->started_pos, f->written_pos);
    }
    if (f->listed) { /* to the end of the row */
        list_remove(wb, f);
        list_append(wb, f);
    }
}

static void flush_one_locked(struct writeback *wb, const struct task *t)
{
    struct writeback_file *f = t->file;
    int fd = f->fd;
    f->busy = true;
    pthread_mutex_unlock(&wb->lock);

    uint64_t began_ns = clock_mono_ns();
    int rc = carry_out(wb, t, fd);
    int err = errno;
    uint64_t took_ns = clock_mono_ns() - began_ns;
    tell_if_slow(wb, took_ns);

    pthread_mutex_lock(&wb->lock);
    if (t->action != START)
        count_flush_locked(wb, took_ns);
    errno = err;
    finish_locked(wb, t, rc);
    f->busy = false;
    pthread_cond_broadcast(&wb->let_go);
    open_gate_locked(wb);
}

/* Until something grows old.  A busy volume that syncs for itself (group commit) dirties and cleans its file all the time: the
 * flusher does not wake for each, it looks once in a while, and goes to sleep for good when nothing has happened since. */
static int sleep_ms_locked(struct writeback *wb, bool active)
{
    uint64_t now_ns = clock_mono_ns(), limit_ns = age_limit_ns(wb), left_ns = limit_ns;
    for (const struct writeback_file *f = wb->head; f != NULL; f = f->next) {
        uint64_t age_ns = now_ns - f->dirty_since_ns;
        uint64_t until_ns = age_ns < limit_ns ? limit_ns - age_ns : 0;
        left_ns = until_ns < left_ns ? until_ns : left_ns;
    }
    if (wb->head == NULL && !active)
        return -1;
    return (int)(left_ns / NS_PER_MS) + 1;
}

static void sleep_locked(struct writeback *wb, bool active)
{
    int ms = sleep_ms_locked(wb, active);
    struct pollfd p = {.fd = wb->wake_fd, .events = POLLIN};
    uint64_t count;
    wb->sleep = ms == -1 ? FOR_EVER : TIMED;
    pthread_mutex_unlock(&wb->lock);
    if (poll(&p, 1, ms) == 1) {
        ssize_t n = read(wb->wake_fd, &count, sizeof count);
        (void)n;
    }
    pthread_mutex_lock(&wb->lock);
    wb->sleep = AWAKE;
}

static void *flusher_main(void *arg)
{
    struct writeback *wb = arg;
    struct task t;
    pthread_setname_np(pthread_self(), wb->options.name);
    pthread_mutex_lock(&wb->lock);
    uint64_t seen = wb->activity;
    while (!wb->stop) {
        if (choose_locked(wb, &t)) {
            flush_one_locked(wb, &t);
            continue;
        }
        bool active = wb->activity != seen;
        seen = wb->activity;
        sleep_locked(wb, active);
    }
    pthread_mutex_unlock(&wb->lock);
    return NULL;
}

/* ---- life ---- */

static int start_flusher(struct writeback *wb)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(&wb->thread, NULL, flusher_main, wb);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err == 0 ? 0 : DFS_ENOTHREAD;
}

int writeback_new(const struct writeback_options *o, struct writeback **out)
{
    struct writeback *wb = calloc(1, sizeof *wb);
    if (wb == NULL)
        return DFS_ENOMEM;
    int rc = 0;
    wb->options = *o;
    wb->options.name = strdup(o->name);
    wb->window = max_u64(o->window_bytes, WRITEBACK_WINDOW_MIN);
    if (wb->options.max_age_ms == 0)
        wb->options.max_age_ms = WRITEBACK_AGE_DEFAULT_MS;
    pthread_mutex_init(&wb->lock, NULL);
    pthread_cond_init(&wb->let_go, NULL);
    wb->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wb->wake_fd == -1)
        rc = dfs_err_from_errno(errno);
    else if (wb->options.name == NULL)
        rc = DFS_ENOMEM;
    else
        rc = start_flusher(wb);
    if (rc == 0) {
        *out = wb;
        return 0;
    }
    if (wb->wake_fd != -1)
        close(wb->wake_fd);
    free((char *)wb->options.name);
    free(wb);
    return rc;
}

void writeback_free(struct writeback *wb)
{
    if (wb == NULL)
        return;
    pthread_mutex_lock(&wb->lock);
    CHECK(wb->head == NULL && wb->waiting == 0);
    wb->stop = true;
    wake_locked(wb);
    pthread_mutex_unlock(&wb->lock);
    CHECK(pthread_join(wb->thread, NULL) == 0);
    close(wb->wake_fd);
    pthread_cond_destroy(&wb->let_go);
    pthread_mutex_destroy(&wb->lock);
    free((char *)wb->options.name);
    free(wb);
}

void writeback_stats(const struct writeback *wb, struct writeback_stats *out)
{
    struct writeback *m = (struct writeback *)wb; /* the mutex alone is changed */
    pthread_mutex_lock(&m->lock);
    *out = (struct writeback_stats){
        .dirty_bytes = wb->dirty,
        .window_bytes = wb->window,
        .admitted_bytes = wb->admitted[NORMAL] + wb->admitted[PRIVILEGED],
        .paced_ns = wb->paced_ns,
        .waiting = wb->waiting,
        .flushes = wb->flushes,
        .flush_errors = wb->flush_errors,
        .flush_p50_ns = quantile_ns(wb, 0.50),
        .flush_p99_ns = quantile_ns(wb, 0.99),
        .flush_max_ns = wb->flush_max_ns,
    };
    pthread_mutex_unlock(&m->lock);
}
