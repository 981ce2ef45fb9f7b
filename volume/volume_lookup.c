/* A small hash table for each loop, and the asker that all of them share. */
#include "volume/volume_lookup.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "needle/err.h"
#include "net/pb/master.pb-c.h"

#define BUCKETS 1024u

struct ask {
    struct loop_msg msg;
    struct work work;
    struct volume_lookup *from;
    struct volume_lookup_asker *asker;
    uint32_t volume_id;
    int rc;
    struct volume_locations *found;
};

struct entry {
    struct entry *next;
    uint32_t volume_id;
    bool asking;
    bool forget; /* forgotten while asked: the answer is handed out and not kept */
    uint64_t until_ms;
    struct volume_locations *locations;
    struct volume_lookup_wait *waiting;
};

struct volume_lookup {
    struct loop *loop;
    struct volume_lookup_asker *asker;
    uint32_t count;
    struct entry *bucket[BUCKETS];
};

struct volume_lookup_asker {
    struct loop *control;
    struct work_pool *pool;
    struct grpc_channel *(*channel)(void *arg);
    void *arg;
};

/* ---- the asker ---- */
int volume_lookup_asker_new(struct loop *control, struct work_pool *pool, struct grpc_channel *(*channel)(void *arg), void *arg,
                            struct volume_lookup_asker **out)
{
    struct volume_lookup_asker *a = calloc(1, sizeof *a);
    if (a == NULL)
        return DFS_ENOMEM;
    *a = (struct volume_lookup_asker){control, pool, channel, arg};
    *out = a;
    return 0;
}

void volume_lookup_asker_free(struct volume_lookup_asker *a)
{
    free(a);
}

static void on_answer(struct loop_msg *msg);

static void send_back(struct ask *q, int rc)
{
    q->rc = rc;
    q->msg.run = on_answer;
    loop_post(q->from->loop, &q->msg);
}

static bool is_numeric(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    return inet_pton(AF_INET, host, &v4) == 1 || inet_pton(AF_INET6, host, &v6) == 1;
}

static void run_resolve(struct work *w)
{
    struct ask *q = (struct ask *)((char *)w - offsetof(struct ask, work));
    uint32_t kept = 0;
    for (uint32_t i = 0; i < q->found->count; i++) {
        struct volume_location *v = &q->found->v[i];
        struct sockaddr_storage sa;
        socklen_t len;
        if (!is_numeric(v->addr.host) &&
            (addr_resolve(&v->addr, false, &sa, &len) != 0 ||
             getnameinfo((struct sockaddr *)&sa, len, v->addr.host, sizeof v->addr.host, NULL, 0, NI_NUMERICHOST) != 0))
            continue; /* a name that nobody knows: as if that server were down */
        q->found->v[kept++] = *v;
    }
    q->found->count = kept;
}

static void done_resolve(struct work *w)
{
    send_back((struct ask *)((char *)w - offsetof(struct ask, work)), 0);
}

static bool add_location(struct volume_locations *to, const MasterPb__Location *from)
{
    struct volume_location *v = &to->v[to->count];
    bool numeric = false;
    memset(v, 0, sizeof *v);
    if (addr_parse(bytes_str(from->url), &v->addr) != 0)
        return true;
    snprintf(v->url, sizeof v->url, "%s", from->url);
    snprintf(v->public_url, sizeof v->public_url, "%s", from->public_url);
    numeric = is_numeric(v->addr.host);
    to->count++;
    return numeric;
}

static void on_reply(void *arg, enum grpc_status status, struct bytes message, const ProtobufCMessage *response)
{
    struct ask *q = arg;
    const MasterPb__LookupVolumeResponse *m = (const MasterPb__LookupVolumeResponse *)response;
    (void)message;
    if (status != GRPC_OK || m == NULL || m->n_volume_id_locations == 0) {
        send_back(q, DFS_EUNAVAILABLE);
        return;
    }
    const MasterPb__LookupVolumeResponse__VolumeIdLocation *at = m->volume_id_locations[0];
    size_t n = at->n_locations < VOLUME_LOOKUP_LOCATIONS_MAX ? at->n_locations : VOLUME_LOOKUP_LOCATIONS_MAX;
    q->found = malloc(sizeof *q->found + n * sizeof q->found->v[0]);
    if (q->found == NULL) {
        send_back(q, DFS_ENOMEM);
        return;
    }
    q->found->count = 0;
    bool numeric = true;
    for (size_t i = 0; i < n; i++)
        numeric &= add_location(q->found, at->locations[i]);
    if (numeric) {
        send_back(q, 0);
        return;
    }
    q->work = (struct work){.loop = q->asker->control, .run = run_resolve, .done = done_resolve};
    work_submit(q->asker->pool, &q->work);
}

static void on_ask(struct loop_msg *msg)
{
    struct ask *q = (struct ask *)((char *)msg - offsetof(struct ask, msg));
    struct grpc_channel *ch = q->asker->channel(q->asker->arg);
    char text[16];
    char *ids[1] = {text};
    if (ch == NULL) {
        send_back(q, DFS_EUNAVAILABLE);
        return;
    }
    MasterPb__LookupVolumeRequest req = MASTER_PB__LOOKUP_VOLUME_REQUEST__INIT;
    snprintf(text, sizeof text, "%u", q->volume_id);
    req.n_volume_or_file_ids = 1;
    req.volume_or_file_ids = ids;
    int rc = grpc_unary(ch, "/master_pb.Seaweed/LookupVolume", &req.base, &master_pb__lookup_volume_response__descriptor,
                        VOLUME_LOOKUP_DEADLINE_MS, on_reply, q);
    if (rc != 0)
        send_back(q, rc);
}

/* ---- the cache ---- */
int volume_lookup_new(struct loop *loop, struct volume_lookup_asker *asker, struct volume_lookup **out)
{
    struct volume_lookup *l = calloc(1, sizeof *l);
    if (l == NULL)
        return DFS_ENOMEM;
    l->loop = loop;
    l->asker = asker;
    *out = l;
    return 0;
}

void volume_lookup_free(struct volume_lookup *l)
{
    if (l == NULL)
        return;
    for (uint32_t i = 0; i < BUCKETS; i++) {
        while (l->bucket[i] != NULL) {
            struct entry *e = l->bucket[i];
            l->bucket[i] = e->next;
            free(e->locations);
            free(e);
        }
    }
    free(l);
}

static struct entry **find(struct volume_lookup *l, uint32_t volume_id)
{
    struct entry **at = &l->bucket[volume_id % BUCKETS];
    while (*at != NULL && (*at)->volume_id != volume_id)
        at = &(*at)->next;
    return at;
}

static void drop(struct volume_lookup *l, struct entry **at)
{
    struct entry *e = *at;
    *at = e->next;
    l->count--;
    free(e->locations);
    free(e);
}

/* Makes room: one bucket's idle entries, starting behind the newcomer. */
static void evict(struct volume_lookup *l, uint32_t from)
{
    for (uint32_t i = 0; i < BUCKETS && l->count >= VOLUME_LOOKUP_ENTRIES_MAX; i++) {
        struct entry **at = &l->bucket[(from + 1 + i) % BUCKETS];
        while (*at != NULL) {
            if (!(*at)->asking)
                drop(l, at);
            else
                at = &(*at)->next;
        }
    }
}

static struct entry *entry_of(struct volume_lookup *l, uint32_t volume_id)
{
    struct entry **at = find(l, volume_id);
    if (*at != NULL)
        return *at;
    if (l->count >= VOLUME_LOOKUP_ENTRIES_MAX)
        evict(l, volume_id % BUCKETS);
    struct entry *e = calloc(1, sizeof *e);
    if (e == NULL)
        return NULL;
    e->volume_id = volume_id;
    e->next = l->bucket[volume_id % BUCKETS];
    l->bucket[volume_id % BUCKETS] = e;
    l->count++;
    return e;
}

int volume_lookup_get(struct volume_lookup *l, uint32_t volume_id, struct volume_lookup_wait *w,
                      const struct volume_locations **out)
{
    struct entry *e = entry_of(l, volume_id);
    if (e == NULL)
        return DFS_ENOMEM;
    if (e->locations != NULL && !e->asking && loop_now_ms(l->loop) < e->until_ms) {
        *out = e->locations;
        return 0;
    }
    if (!e->asking) {
        struct ask *q = calloc(1, sizeof *q);
        if (q == NULL)
            return DFS_ENOMEM;
        q->from = l;
        q->asker = l->asker;
        q->volume_id = volume_id;
        q->msg.run = on_ask;
        e->asking = true;
        e->forget = false;
        loop_post(l->asker->control, &q->msg);
    }
    w->next = e->waiting;
    e->waiting = w;
    return DFS_EAGAIN;
}

void volume_lookup_forget(struct volume_lookup *l, uint32_t volume_id)
{
    struct entry **at = find(l, volume_id);
    if (*at == NULL)
        return;
    if ((*at)->asking)
        (*at)->forget = true;
    else
        (*at)->until_ms = 0;
}

static void on_answer(struct loop_msg *msg)
{
    struct ask *q = (struct ask *)((char *)msg - offsetof(struct ask, msg));
    struct volume_lookup *l = q->from;
    struct entry *e = *find(l, q->volume_id); /* asking entries are never evicted */
    struct volume_lookup_wait *w = e->waiting;
    struct volume_locations none = {.count = 0};
    int rc = q->rc;
    e->waiting = NULL;
    e->asking = false;
    if (rc == 0) {
        bool empty = q->found->count == 0;
        free(e->locations);
        e->locations = q->found;
        e->until_ms = e->forget ? 0 : loop_now_ms(l->loop) + (empty ? VOLUME_LOOKUP_MISS_TTL_MS : VOLUME_LOOKUP_TTL_MS);
    } else {
        free(q->found);
    }
    free(q);
    /* Kept as asking meanwhile: a waiter that looks up again must not have this entry evicted or replaced under the others. */
    uint32_t volume_id = e->volume_id;
    struct volume_locations *at = rc == 0 ? e->locations : &none;
    e->asking = true;
    while (w != NULL) {
        struct volume_lookup_wait *next = w->next;
        w->done(w, rc, at);
        w = next;
    }
    e->asking = false;
    if (e->waiting != NULL) { /* somebody asked for more while we answered */
        struct volume_lookup_wait *late = e->waiting;
        const struct volume_locations *again;
        e->waiting = NULL;
        while (late != NULL) {
            struct volume_lookup_wait *next = late->next;
            int got = volume_lookup_get(l, volume_id, late, &again);
            if (got != DFS_EAGAIN)
                late->done(late, got, got == 0 ? again : &none);
            late = next;
        }
    }
}
