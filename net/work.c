/* Two queues, two kinds of threads: general threads serve both queues in turn, the others only what is privileged.
 *
 * A thread without work stands in a list with a condition of its own, and whoever brings work takes one thread out of the list
 * for it: no wake-up is lost or given twice, and the thread that slept least (warm caches) goes first. */
#include "net/work.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "needle/check.h"
#include "needle/err.h"

struct work_queue {
    struct work *head, **tail;
};

struct worker {
    struct work_pool *pool;
    struct worker *next_idle;
    pthread_t thread;
    pthread_cond_t wake;
    bool privileged_only;
    bool woken;
};

struct work_pool {
    pthread_mutex_t lock;
    struct work_queue normal, privileged;
    bool normal_turn; /* which queue a general thread takes from when both have work */
    bool stop;
    struct worker *idle_general, *idle_privileged;
    uint32_t pending;
    char name[16];
    uint32_t threads, started;
    struct worker worker[];
};

static void queue_init(struct work_queue *q)
{
    q->head = NULL;
    q->tail = &q->head;
}

static void queue_push(struct work_queue *q, struct work *w)
{
    w->next = NULL;
    *q->tail = w;
    q->tail = &w->next;
}

static struct work *queue_pop(struct work_queue *q)
{
    struct work *w = q->head;
    if (w == NULL)
        return NULL;
    q->head = w->next;
    if (q->head == NULL)
        q->tail = &q->head;
    return w;
}

static struct work *next_work_locked(struct worker *self)
{
    struct work_pool *pool = self->pool;
    if (self->privileged_only)
        return queue_pop(&pool->privileged);
    bool normal = pool->privileged.head == NULL || (pool->normal.head != NULL && pool->normal_turn);
    if (pool->privileged.head != NULL && pool->normal.head != NULL)
        pool->normal_turn = !pool->normal_turn;
    return queue_pop(normal ? &pool->normal : &pool->privileged);
}

static void sleep_locked(struct worker *self)
{
    struct work_pool *pool = self->pool;
    struct worker **list = self->privileged_only ? &pool->idle_privileged : &pool->idle_general;
    self->woken = false;
    self->next_idle = *list;
    *list = self;
    while (!self->woken)
        pthread_cond_wait(&self->wake, &pool->lock);
}

/* Takes one out of the list; to be signalled without the lock, so that it does not wake up to wait for it. */
static struct worker *take_idle_locked(struct worker **list)
{
    struct worker *worker = *list;
    if (worker != NULL) {
        *list = worker->next_idle;
        worker->woken = true;
    }
    return worker;
}

static bool wake_one_locked(struct worker **list)
{
    struct worker *worker = take_idle_locked(list);
    if (worker != NULL)
        pthread_cond_signal(&worker->wake);
    return worker != NULL;
}

static void on_posted(struct loop_msg *msg)
{
    struct work *w = CONTAINER_OF(msg, struct work, msg);
    w->done(w);
}

static void run_one(struct work_pool *pool, struct work *w)
{
    /* run() may free w when there is no done(). */
    struct loop *loop = w->loop;
    bool tell = w->done != NULL;
    w->run(w);
    __atomic_sub_fetch(&pool->pending, 1, __ATOMIC_RELAXED);
    if (tell) {
        w->msg.run = on_posted;
        loop_post(loop, &w->msg);
    }
}

static void *worker_main(void *arg)
{
    struct worker *self = arg;
    struct work_pool *pool = self->pool;
    pthread_setname_np(pthread_self(), pool->name);

    pthread_mutex_lock(&pool->lock);
    for (;;) {
        struct work *w = next_work_locked(self);
        if (w != NULL) {
            pthread_mutex_unlock(&pool->lock);
            run_one(pool, w);
            pthread_mutex_lock(&pool->lock);
        } else if (pool->stop) {
            break;
        } else {
            sleep_locked(self);
        }
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Signals are taken by the main loop's signalfd, so no other thread may get one. */
static int start_worker(struct worker *worker)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(&worker->thread, NULL, worker_main, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err == 0 ? 0 : DFS_ENOTHREAD;
}

int work_pool_new(const char *name, uint32_t threads, struct work_pool **out)
{
    CHECK(threads >= 1);
    struct work_pool *pool = calloc(1, sizeof *pool + threads * sizeof pool->worker[0]);
    if (pool == NULL)
        return DFS_ENOMEM;
    pthread_mutex_init(&pool->lock, NULL);
    queue_init(&pool->normal);
    queue_init(&pool->privileged);
    snprintf(pool->name, sizeof pool->name, "%s", name);
    pool->threads = threads;

    uint32_t share = threads < 2 ? 0 : threads < 4 ? 1 : threads / 4;
    for (uint32_t i = 0; i < threads; i++) {
        struct worker *worker = &pool->worker[i];
        worker->pool = pool;
        worker->privileged_only = i < share;
        pthread_cond_init(&worker->wake, NULL);
        int rc = start_worker(worker);
        if (rc != 0) {
            pthread_cond_destroy(&worker->wake);
            work_pool_free(pool);
            return rc;
        }
        pool->started++;
    }
    *out = pool;
    return 0;
}

void work_submit(struct work_pool *pool, struct work *w)
{
    CHECK(w->run != NULL && (w->done == NULL || w->loop != NULL));
    struct worker *worker = NULL;
    __atomic_add_fetch(&pool->pending, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&pool->lock);
    queue_push(w->privileged ? &pool->privileged : &pool->normal, w);
    if (w->privileged)
        worker = take_idle_locked(&pool->idle_privileged);
    if (worker == NULL)
        worker = take_idle_locked(&pool->idle_general);
    pthread_mutex_unlock(&pool->lock);
    if (worker != NULL)
        pthread_cond_signal(&worker->wake);
}

uint32_t work_pending(const struct work_pool *pool)
{
    return __atomic_load_n(&pool->pending, __ATOMIC_RELAXED);
}

void work_pool_free(struct work_pool *pool)
{
    if (pool == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    while (wake_one_locked(&pool->idle_privileged) || wake_one_locked(&pool->idle_general))
        ;
    pthread_mutex_unlock(&pool->lock);

    for (uint32_t i = 0; i < pool->started; i++)
        CHECK(pthread_join(pool->worker[i].thread, NULL) == 0);
    /* An item may bring another one while the last threads leave. */
    for (struct work *w; (w = queue_pop(&pool->privileged)) != NULL || (w = queue_pop(&pool->normal)) != NULL;)
        run_one(pool, w);
    for (uint32_t i = 0; i < pool->started; i++)
        pthread_cond_destroy(&pool->worker[i].wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}
