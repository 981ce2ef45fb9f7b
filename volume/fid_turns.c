#include "volume/fid_turns.h"

#include <pthread.h>
#include <stdlib.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/rand.h"

#define BUCKETS 256u

struct bucket {
    pthread_mutex_t lock;
    struct fid_turn *holders;
};

struct fid_turns {
    struct bucket buckets[BUCKETS];
};

int fid_turns_new(struct fid_turns **out)
{
    struct fid_turns *t = calloc(1, sizeof *t);

    if (t == NULL)
        return DFS_ENOMEM;
    for (unsigned i = 0; i < BUCKETS; i++)
        pthread_mutex_init(&t->buckets[i].lock, NULL);
    *out = t;
    return 0;
}

void fid_turns_free(struct fid_turns *t)
{
    if (t == NULL)
        return;
    for (unsigned i = 0; i < BUCKETS; i++)
        pthread_mutex_destroy(&t->buckets[i].lock);
    free(t);
}

static struct bucket *bucket_of(struct fid_turns *t, const struct fid_turn *turn)
{
    return &t->buckets[rand_mix64(turn->key ^ (uint64_t)turn->volume_id << 32) % BUCKETS];
}

static struct fid_turn **holder_of(struct bucket *b, const struct fid_turn *turn)
{
    struct fid_turn **at = &b->holders;

    while (*at != NULL && ((*at)->key != turn->key || (*at)->volume_id != turn->volume_id))
        at = &(*at)->next;
    return at;
}

static void on_turn(struct loop_msg *msg)
{
    struct fid_turn *turn = CONTAINER_OF(msg, struct fid_turn, msg);

    turn->run(turn);
}

bool fid_turn_take(struct fid_turns *t, struct fid_turn *turn)
{
    struct bucket *b = bucket_of(t, turn);
    struct fid_turn *holder;

    turn->msg.run = on_turn;
    turn->next = turn->first = turn->last = NULL;
    pthread_mutex_lock(&b->lock);
    holder = *holder_of(b, turn);
    if (holder == NULL) {
        turn->next = b->holders;
        b->holders = turn;
    } else {
        *(holder->last != NULL ? &holder->last->next : &holder->first) = turn;
        holder->last = turn;
    }
    pthread_mutex_unlock(&b->lock);
    return holder == NULL;
}

void fid_turn_give(struct fid_turns *t, struct fid_turn *turn)
{
    struct bucket *b = bucket_of(t, turn);
    struct fid_turn **at, *heir;

    pthread_mutex_lock(&b->lock);
    at = holder_of(b, turn);
    CHECK(*at == turn);
    heir = turn->first;
    if (heir == NULL) {
        *at = turn->next;
    } else {
        heir->first = heir->next;
        heir->last = heir->first == NULL ? NULL : turn->last;
        heir->next = turn->next;
        *at = heir;
    }
    pthread_mutex_unlock(&b->lock);
    if (heir != NULL)
        loop_post(heir->loop, &heir->msg);
}
