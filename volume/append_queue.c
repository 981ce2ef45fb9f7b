/* The writer thread of a disk location.
 *
 * The inbox is a stack that senders push onto and the writer takes as a whole and turns round, so order per sender holds.  From
 * there writes and commands go to their volumes; volumes with something to do stand in a list and have turns.  A round writes a
 * part for each of them, then starts the syncs of all batches that are written. */
#include "volume/append_queue.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"
#include "volume/store.h"
#include "volume/volume_append.h"

/* Batches under way in one location; further volumes wait for a turn. */
#define BATCHES_MAX 32u
/* Batches kept for the next use. */
#define BATCHES_KEPT 4u
/* Loops whose answers are chained; more are posted one by one. */
#define CHAINS_MAX 32u
/* Twice as many as a batch has records; a power of two. */
#define KEY_SLOTS (APPEND_BATCH_RECORDS_MAX * 4u)
#define STARVED_SLEEP_MS 10u
/* A lone sync that takes longer is handed over, so that another volume's writes need not wait for it. */
#define SYNC_HERE_MAX_NS 1000000u
/* Rounds between two looks at what the epoch lets us free. */
#define ROUNDS_PER_RECLAIM 64u
/* Loops whose small writes of one step wake the writer together; those of further loops do it one by one. */
#define WAKERS_MAX 64u

struct answer_chain {
    struct loop *loop;
    struct needle_write *head, *tail;
};

struct key_slot {
    uint64_t key;
    uint64_t round;
};

/* Of one loop: a message to itself, which runs when the loop's step is over. */
struct waker {
    struct loop_msg msg;
    struct append_queue *queue;
    bool posted; /* that loop's own */
};

struct append_queue {
    struct disk_location *loc;
    pthread_t thread;
    bool started;
    atomic_bool stopped; /* the thread has ended */

    /* the writer's own */
    bool stop;
    struct writer_cmd *todo, *todo_last; /* taken out of the inbox, behind a command that waits for all */
    struct volume *listed, *listed_last;
    struct append_batch *unsynced;       /* written in this round */
    uint32_t unsynced_count;
    uint64_t sync_ns;                    /* how long the last one took */
    uint32_t batches, syncing, kept, held;
    bool starved;                        /* a volume in the list has to wait for a batch to become free */
    struct append_batch *free;
    struct answer_chain chains[CHAINS_MAX];
    uint32_t chain_count;
    char *bounce;
    struct key_slot keys[KEY_SLOTS];
    uint64_t key_round;
    uint32_t rounds;

    /* what other threads write */
    _Alignas(64) _Atomic(struct writer_cmd *) inbox;
    atomic_bool sleeping; /* or about to: set before the inbox is looked at for the last time */
    pthread_mutex_t lock; /* for sleeping only */
    pthread_cond_t wake;
    struct waker wakers[WAKERS_MAX];
};

/* ---- in ---- */

static void push(struct append_queue *q, struct writer_cmd *cmd)
{
    struct writer_cmd *head = atomic_load_explicit(&q->inbox, memory_order_relaxed);

    do
        cmd->next = head;
    while (!atomic_compare_exchange_weak(&q->inbox, &head, cmd));
}

/* After a push.  Either the writer sees what was pushed before it sleeps, or we see that it is going to. */
static void wake(struct append_queue *q)
{
    if (!atomic_load(&q->sleeping))
        return;
    /* The lock puts this behind a look at the inbox that is going on; signalled without it, the writer need not wait for it. */
    pthread_mutex_lock(&q->lock);
    pthread_mutex_unlock(&q->lock);
    pthread_cond_signal(&q->wake);
}

void append_queue_cmd(struct append_queue *q, struct writer_cmd *cmd)
{
    push(q, cmd);
    wake(q);
}

static void run_waker(struct loop_msg *msg)
{
    struct waker *waker = CONTAINER_OF(msg, struct waker, msg);

    waker->posted = false;
    wake(waker->queue);
}

/* The writes of all requests that a loop found readable come in one step.  Woken by the first, the writer would take that alone,
 * often in place of the loop: more calls, more changes of threads, thinner batches. */
static void wake_after_step(struct append_queue *q)
{
    struct loop *loop = loop_current();
    int i = loop != NULL ? loop_index(loop) : -1;

    if (i < 0 || i >= (int)WAKERS_MAX) {
        wake(q);
    } else if (!q->wakers[i].posted && atomic_load(&q->sleeping)) {
        q->wakers[i].posted = true;
        q->wakers[i].msg.run = run_waker;
        q->wakers[i].queue = q;
        loop_post(loop, &q->wakers[i].msg);
    }
}

void append_queue_run_write(struct writer_cmd *cmd)
{
    (void)cmd;
    CHECK(!"a write is taken, not run");
}

void append_queue_write(struct append_queue *q, struct needle_write *w)
{
    bool small = w->is_delete || w->meta.data_bytes <= APPEND_COPY_MAX;

    w->cmd = (struct writer_cmd){.run = append_queue_run_write, .volume = w->volume};
    push(q, &w->cmd);
    /* From here on w may be gone. */
    if (small)
        wake_after_step(q);
    else
        wake(q);
}

struct waiting_cmd {
    struct writer_cmd cmd;
    struct writer_cmd *inner;
    pthread_mutex_t lock;
    pthread_cond_t ran;
    bool done;
};

static void run_waiting(struct writer_cmd *cmd)
{
    struct waiting_cmd *wait = CONTAINER_OF(cmd, struct waiting_cmd, cmd);

    wait->inner->run(wait->inner);
    pthread_mutex_lock(&wait->lock);
    wait->done = true;
    pthread_cond_signal(&wait->ran);
    pthread_mutex_unlock(&wait->lock);
}

void append_queue_cmd_wait(struct append_queue *q, struct writer_cmd *cmd)
{
    struct waiting_cmd wait = {
        .cmd = {.run = run_waiting, .volume = cmd->volume, .at_once = cmd->at_once},
        .inner = cmd,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .ran = PTHREAD_COND_INITIALIZER,
    };

    if (atomic_load_explicit(&q->stopped, memory_order_acquire)) {
        cmd->run(cmd);
        return;
    }
    append_queue_cmd(q, &wait.cmd);
    pthread_mutex_lock(&wait.lock);
    while (!wait.done)
        pthread_cond_wait(&wait.ran, &wait.lock);
    pthread_mutex_unlock(&wait.lock);
    pthread_cond_destroy(&wait.ran);
    pthread_mutex_destroy(&wait.lock);
}

/* ---- out ---- */

static void on_answers(struct loop_msg *msg)
{
    struct needle_write *w = CONTAINER_OF(msg, struct needle_write, msg);

    while (w != NULL) {
        struct needle_write *next = w->next;
        w->done(w, w->rc);
        w = next;
    }
}

static void post_chain(struct answer_chain *c)
{
    c->head->msg.run = on_answers;
    loop_post(c->loop, &c->head->msg);
}

static void post_answers(struct append_queue *q)
{
    for (uint32_t i = 0; i < q->chain_count; i++)
        post_chain(&q->chains[i]);
    q->chain_count = 0;
}

void append_queue_answer(struct append_queue *q, struct needle_write *w, int rc)
{
    struct answer_chain *c = q->chains;

    w->rc = rc;
    w->next = NULL;
    w->last_ns = w->volume->last_append_ns;
    volume_unref(w->volume);
    while (c < q->chains + q->chain_count && c->loop != w->loop)
        c++;
    if (c < q->chains + q->chain_count) {
        c->tail->next = w;
        c->tail = w;
        return;
    }
    if (q->chain_count == CHAINS_MAX)
        post_answers(q);
    q->chains[q->chain_count++] = (struct answer_chain){w->loop, w, w};
}

char *append_queue_bounce(struct append_queue *q)
{
    return q->bounce;
}

/* ---- keys of the batch that is being filled ---- */

void append_queue_clear_keys(struct append_queue *q)
{
    q->key_round++;
}

bool append_queue_mark_key(struct append_queue *q, uint64_t key)
{
    uint32_t at = (uint32_t)(key * 0x9e3779b97f4a7c15u >> 40) % KEY_SLOTS;

    /* Also marked: keys that were refused, or passed over.  The table is never full: see append_batch_fill(). */
    for (uint32_t i = 0; i < KEY_SLOTS; i++, at = (at + 1) % KEY_SLOTS) {
        struct key_slot *slot = &q->keys[at];
        if (slot->round != q->key_round) {
            *slot = (struct key_slot){key, q->key_round};
            return false;
        }
        if (slot->key == key)
            return true;
    }
    return true;
}

/* ---- volumes with something to do ---- */

static void list(struct append_queue *q, struct volume *v)
{
    struct volume_appends *a = &v->appends;

    if (a->listed)
        return;
    a->listed = true;
    a->next = NULL;
    if (q->listed == NULL)
        q->listed = v;
    else
        q->listed_last->appends.next = v;
    q->listed_last = v;
}

static struct volume *unlist(struct append_queue *q)
{
    struct volume *v = q->listed;

    q->listed = v->appends.next;
    v->appends.listed = false;
    v->appends.next = NULL;
    return v;
}

static void list_if_ready(struct append_queue *q, struct volume *v)
{
    if (v->appends.head != NULL && v->appends.flight == NULL && !v->appends.held)
        list(q, v);
}

static void give(struct append_queue *q, struct writer_cmd *cmd)
{
    struct volume_appends *a = &cmd->volume->appends;

    cmd->next = NULL;
    if (a->head == NULL)
        a->head = cmd;
    else
        a->tail->next = cmd;
    a->tail = cmd;
    list_if_ready(q, cmd->volume);
}

void append_queue_hold(struct volume *v)
{
    CHECK(v->appends.flight == NULL && !v->appends.held);
    v->appends.held = true;
    v->location->appends->held++;
}

void append_queue_unhold(struct volume *v)
{
    CHECK(v->appends.held);
    v->appends.held = false;
    v->location->appends->held--;
    list_if_ready(v->location->appends, v);
}

/* ---- batches ---- */

static struct append_batch *get_batch(struct append_queue *q)
{
    struct append_batch *b = q->free;

    if (b != NULL) {
        q->free = b->next_free;
        q->kept--;
    } else if (q->batches == BATCHES_MAX || append_batch_new(q, &b) != 0) {
        return NULL;
    } else {
        q->batches++;
    }
    return b;
}

static void put_batch(struct append_queue *q, struct append_batch *b)
{
    if (q->kept == BATCHES_KEPT) {
        append_batch_free(b);
        q->batches--;
        return;
    }
    b->next_free = q->free;
    q->free = b;
    q->kept++;
}

static void end_batch(struct append_queue *q, struct append_batch *b)
{
    struct volume *v = b->volume;

    v->appends.flight = NULL;
    put_batch(q, b);
    list_if_ready(q, v);
    volume_unref(v);
    post_answers(q);
}

/* ---- syncs ---- */

static void on_synced(struct writer_cmd *cmd)
{
    struct append_batch *b = CONTAINER_OF(cmd, struct append_batch, cmd);

    b->queue->syncing--;
    b->queue->sync_ns = b->sync_ns;
    append_batch_finish(b, b->sync_rc);
    end_batch(b->queue, b);
}

static void sync_batch(struct append_batch *b)
{
    uint64_t start_ns = clock_mono_ns();

    b->sync_rc = append_batch_sync(b);
    b->sync_ns = clock_mono_ns() - start_ns;
}

static void run_sync(struct work *work)
{
    struct append_batch *b = CONTAINER_OF(work, struct append_batch, work);

    sync_batch(b);
    append_queue_cmd(b->queue, &b->cmd);
}

static bool idle_otherwise(const struct append_queue *q)
{
    return q->listed == NULL && q->todo == NULL && q->syncing == 0 &&
           atomic_load_explicit(&q->inbox, memory_order_relaxed) == NULL;
}

/* All at once: each file has its own sync, and the file system's journal merges what they wait for. */
static void start_syncs(struct append_queue *q)
{
    /* A lone one is done here: handing it over costs two changes of threads, and nobody else waits. */
    bool here = q->unsynced_count == 1 && q->sync_ns < SYNC_HERE_MAX_NS && idle_otherwise(q);

    while (q->unsynced != NULL) {
        struct append_batch *b = q->unsynced;
        q->unsynced = b->next_free;
        if (append_publish_early_for_tests)
            append_batch_publish(b);
        if (here) {
            sync_batch(b);
            q->sync_ns = b->sync_ns;
            append_batch_finish(b, b->sync_rc);
            end_batch(q, b);
            continue;
        }
        q->syncing++;
        b->cmd = (struct writer_cmd){.run = on_synced, .at_once = true};
        b->work = (struct work){.run = run_sync, .privileged = true}; /* every thread of the pool takes those */
        work_submit(q->loc->syncers, &b->work);
    }
    q->unsynced_count = 0;
}

/* ---- turns ---- */

/* Runs the commands in front.  False: nothing may be written now. */
static bool run_commands(struct volume *v)
{
    struct volume_appends *a = &v->appends;

    while (a->head != NULL && a->head->run != append_queue_run_write && !a->held) {
        struct writer_cmd *cmd = a->head;
        a->head = cmd->next;
        if (a->head == NULL)
            a->tail = NULL;
        cmd->run(cmd);
    }
    return a->head != NULL && !a->held;
}

/* A batch for v, if one can be made.  It keeps a reference of the volume. */
static struct append_batch *start_batch(struct append_queue *q, struct volume *v)
{
    struct append_batch *b = get_batch(q);

    if (b == NULL) {
        q->starved = true;
        return NULL;
    }
    if (!append_batch_fill(b, v)) {
        put_batch(q, b);
        post_answers(q);
        return NULL;
    }
    volume_ref(v);
    v->appends.flight = b;
    return b;
}

static void write_batch(struct append_queue *q, struct append_batch *b)
{
    bool done = false;
    int rc = append_batch_write(b, &done);

    if (rc != 0) {
        append_batch_fail(b, rc);
        end_batch(q, b);
    } else if (!done) {
        list(q, b->volume);
    } else if (b->sync) {
        b->next_free = q->unsynced;
        q->unsynced = b;
        q->unsynced_count++;
    } else {
        append_batch_finish(b, 0);
        end_batch(q, b);
    }
}

static void turn(struct append_queue *q, struct volume *v)
{
    struct append_batch *b = v->appends.flight;

    /* Its writes hold it alive until they are answered, which may be below. */
    volume_ref(v);
    if (b == NULL && run_commands(v)) {
        b = start_batch(q, v);
        if (b == NULL)
            list_if_ready(q, v);
    }
    if (b != NULL)
        write_batch(q, b);
    volume_unref(v);
}

/* One turn for each volume that stands in the list now. */
static void round_of_turns(struct append_queue *q)
{
    struct volume *last = q->listed_last;

    while (q->listed != NULL) {
        struct volume *v = unlist(q);
        bool end = v == last;
        turn(q, v);
        if (end)
            break;
    }
    start_syncs(q);
}

/* ---- the thread ---- */

static void take_inbox(struct append_queue *q)
{
    struct writer_cmd *newest = atomic_exchange_explicit(&q->inbox, NULL, memory_order_acquire), *first = NULL;

    while (newest != NULL) {
        struct writer_cmd *next = newest->next;
        newest->next = first;
        first = newest;
        newest = next;
    }
    while (first != NULL) {
        struct writer_cmd *cmd = first;
        first = cmd->next;
        cmd->next = NULL;
        if (cmd->at_once) {
            cmd->run(cmd);
            continue;
        }
        if (q->todo == NULL)
            q->todo = cmd;
        else
            q->todo_last->next = cmd;
        q->todo_last = cmd;
    }
}

/* Hands out what was taken, up to a command that has to wait for the whole location. */
static void dispatch(struct append_queue *q)
{
    while (q->todo != NULL) {
        struct writer_cmd *cmd = q->todo;
        if (cmd->volume == NULL && (q->listed != NULL || q->syncing > 0 || q->held > 0))
            return;
        q->todo = cmd->next;
        if (cmd->volume != NULL)
            give(q, cmd);
        else
            cmd->run(cmd);
    }
}

/* Nothing can be done before something comes in: a write, a command, the end of a sync. */
static void sleep_if_idle(struct append_queue *q)
{
    bool starved = q->starved;

    q->starved = false;
    if (q->syncing == 0 && q->held == 0 && (q->listed != NULL || q->todo != NULL || q->stop)) {
        if (starved) /* not even memory for one batch */
            clock_sleep_ms(STARVED_SLEEP_MS);
        return;
    }
    if (q->listed != NULL && !starved)
        return; /* more to write meanwhile */
    pthread_mutex_lock(&q->lock);
    atomic_store(&q->sleeping, true);
    while (atomic_load(&q->inbox) == NULL)
        pthread_cond_wait(&q->wake, &q->lock);
    atomic_store(&q->sleeping, false);
    pthread_mutex_unlock(&q->lock);
}

static void *writer_main(void *arg)
{
    struct append_queue *q = arg;
    char name[16];

    snprintf(name, sizeof name, "dfs-writer-%u", q->loc->index % 1000);
    pthread_setname_np(pthread_self(), name);
    for (;;) {
        take_inbox(q);
        dispatch(q);
        if (q->stop && q->todo == NULL && q->listed == NULL && q->syncing == 0 && q->held == 0)
            break;
        round_of_turns(q);
        if (++q->rounds % ROUNDS_PER_RECLAIM == 0)
            (void)epoch_reclaim(store_epoch(q->loc->store));
        sleep_if_idle(q);
    }
    return NULL;
}

int append_queue_new(struct disk_location *loc, struct append_queue **out)
{
    struct append_queue *q = aligned_alloc(_Alignof(struct append_queue), sizeof *q);
    sigset_t all, before;
    int err;

    if (q == NULL)
        return DFS_ENOMEM;
    memset(q, 0, sizeof *q);
    q->loc = loc;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->wake, NULL);
    q->bounce = aligned_alloc(4096, CHUNK_BYTES);
    if (q->bounce == NULL) {
        append_queue_free(q);
        return DFS_ENOMEM;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&q->thread, NULL, writer_main, q);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err != 0) {
        append_queue_free(q);
        return DFS_ENOTHREAD;
    }
    q->started = true;
    *out = q;
    return 0;
}

struct stop_cmd {
    struct writer_cmd cmd;
    struct append_queue *queue;
};

static void run_stop(struct writer_cmd *cmd)
{
    CONTAINER_OF(cmd, struct stop_cmd, cmd)->queue->stop = true;
}

void append_queue_stop(struct append_queue *q)
{
    struct stop_cmd stop = {.cmd.run = run_stop, .queue = q};

    if (!q->started)
        return;
    append_queue_cmd(q, &stop.cmd);
    CHECK(pthread_join(q->thread, NULL) == 0);
    q->started = false;
    atomic_store_explicit(&q->stopped, true, memory_order_release);
}

void append_queue_free(struct append_queue *q)
{
    if (q == NULL)
        return;
    append_queue_stop(q);
    while (q->free != NULL) {
        struct append_batch *b = q->free;
        q->free = b->next_free;
        append_batch_free(b);
    }
    free(q->bounce);
    pthread_cond_destroy(&q->wake);
    pthread_mutex_destroy(&q->lock);
    free(q);
}
