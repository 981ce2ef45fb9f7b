/* Questions and their tries; places and addresses that were seen. */
#include "bench/master_client.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/rand.h"

#define PLACE_BUCKETS 1024u
#define ADDRESS_BUCKETS 256u
#define FORGET_MIN_MS 1000u
#define RETRY_AFTER_MAX_S 5u
#define CONNECT_TIMEOUT_MS 10000u /* a crowd of connections may have to knock twice */

struct address {
    struct address *next;
    struct addr addr;
    size_t text_n;
    char text[];
};

/* What is known of one volume, or being asked. */
struct places {
    struct places *next;
    struct master_client *client;
    uint32_t volume_id;
    uint32_t count;
    const struct addr *addrs[MASTER_PLACES_MAX];
    uint64_t known_ms; /* when it was learnt; 0 = not known */
    bool asking;
    struct master_lookup *waiters;
    struct master_question question;
};

struct master_client {
    struct master_client_options o;
    const struct addr *masters[MASTERS_MAX];
    uint32_t master_count;
    uint32_t current;
    uint32_t address_count;
    const struct address *last_address;
    struct address *addresses[ADDRESS_BUCKETS];
    struct places *places[PLACE_BUCKETS];
};

/* ---- addresses ---- */

static uint32_t text_hash(struct bytes text)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < text.n; i++)
        h = (h ^ (unsigned char)text.p[i]) * 16777619u;
    return h;
}

static bool address_is(const struct address *a, struct bytes text)
{
    return a->text_n == text.n && memcmp(a->text, text.p, text.n) == 0;
}

static int address_add(struct master_client *m, struct bytes text, struct address **bucket, const struct address **out)
{
    if (m->address_count == MASTER_ADDRESSES_MAX)
        return DFS_EBUSY;
    struct address *a = malloc(sizeof *a + text.n);
    if (a == NULL)
        return DFS_ENOMEM;
    int rc = addr_parse(text, &a->addr);
    if (rc == 0)
        rc = http_client_resolve(m->o.http, &a->addr);
    if (rc != 0) {
        free(a);
        return rc;
    }
    a->text_n = text.n;
    memcpy(a->text, text.p, text.n);
    a->next = *bucket;
    *bucket = a;
    m->address_count++;
    *out = a;
    return 0;
}

/* "host:port" -> an address that the HTTP client knows. */
static int address_get(struct master_client *m, struct bytes text, const struct addr **out)
{
    const struct address *a = m->last_address;
    if (a == NULL || !address_is(a, text)) {
        struct address **bucket = &m->addresses[text_hash(text) % ADDRESS_BUCKETS];
        for (a = *bucket; a != NULL && !address_is(a, text); a = a->next)
            ;
        if (a == NULL) {
            int rc = address_add(m, text, bucket, &a);
            if (rc != 0)
                return rc;
        }
        m->last_address = a;
    }
    *out = &a->addr;
    return 0;
}

/* ---- questions ---- */

static int question_send(struct master_question *q);

static void on_head(void *arg, struct http_call *call, const struct http_head *head)
{
    struct master_question *q = arg;
    (void)call;
    q->answer_n = 0;
    q->retry_after_ms = 0;
    if (head->status != 503 && head->status != 429)
        return;
    struct bytes after = http_header_get(head, "Retry-After");
    if (after.n == 1 && after.p[0] >= '0' && after.p[0] <= '9') {
        uint32_t s = (uint32_t)(after.p[0] - '0');
        q->retry_after_ms = (s < RETRY_AFTER_MAX_S ? s : RETRY_AFTER_MAX_S) * 1000;
    }
}

static int on_body(void *arg, struct http_call *call, struct bytes in)
{
    struct master_question *q = arg;
    (void)call;
    if (in.n > q->answer_cap - q->answer_n)
        return DFS_ETOOBIG;
    memcpy(q->answer + q->answer_n, in.p, in.n);
    q->answer_n += in.n;
    return 0;
}

/* Whether the same question may find another answer a little later. */
static bool is_later(int status)
{
    return status == 429 || status == 502 || status == 503 || status == 504;
}

static void next_master(struct master_question *q)
{
    struct master_client *m = q->client;
    if (m->current == q->master)
        m->current = (m->current + 1) % m->master_count;
    q->master = m->current;
}

static bool wait_and_ask_again(struct master_question *q)
{
    uint64_t ms = MASTER_WAIT_FIRST_MS;
    uint64_t now = loop_now_ms(q->client->o.loop);
    if (q->waits == MASTER_RETRIES)
        return false;
    for (uint32_t i = 0; i < q->waits && ms < MASTER_WAIT_MAX_MS; i++)
        ms *= 2;
    if (ms > MASTER_WAIT_MAX_MS)
        ms = MASTER_WAIT_MAX_MS;
    /* The master's word counts, up to a point; asking a little early does no harm. */
    if (q->retry_after_ms > ms)
        ms = q->waits < 2 ? ms : q->retry_after_ms;
    if (now + ms > q->give_up_ms)
        return false;
    q->waits++;
    loop_timer_set(&q->again, ms);
    return true;
}

static void question_end(struct master_question *q, int rc, int status)
{
    loop_timer_release(&q->again);
    q->answered(q, rc, status);
}

static void on_again(void *arg)
{
    struct master_question *q = arg;
    int rc = question_send(q);
    if (rc != 0)
        question_end(q, rc, 0);
}

static void on_done(void *arg, struct http_call *call, int rc, int status)
{
    struct master_question *q = arg;
    struct master_client *m = q->client;
    (void)call;
    q->call = NULL;
    if (rc == DFS_ECANCELLED || rc == DFS_ETOOBIG) {
        question_end(q, rc, status);
    } else if (rc != 0) {
        next_master(q);
        if (++q->unanswered >= m->master_count || loop_now_ms(m->o.loop) >= q->give_up_ms)
            question_end(q, rc, 0);
        else if ((rc = question_send(q)) != 0)
            question_end(q, rc, 0);
    } else if (is_later(status)) {
        q->unanswered = 0;
        if (m->master_count > 1)
            next_master(q);
        if (!wait_and_ask_again(q))
            question_end(q, 0, status);
    } else {
        question_end(q, 0, status);
    }
}

static const struct http_call_ops question_ops = {on_head, on_body, on_done};

static int question_send(struct master_question *q)
{
    struct master_client *m = q->client;
    struct http_call_request req = {
        .addr = m->masters[q->master],
        .method = HTTP_GET,
        .target = bytes_str(q->target),
        .deadline_ms = m->o.timeout_ms,
        .ops = &question_ops,
        .arg = q,
    };
    q->answer_n = 0;
    return http_call_start(m->o.http, &req, &q->call);
}

static int question_start(struct master_client *m, struct master_question *q)
{
    q->client = m;
    q->master = m->current;
    q->unanswered = q->waits = q->retry_after_ms = 0;
    q->give_up_ms = loop_now_ms(m->o.loop) + 3ull * m->o.timeout_ms;
    loop_timer_init(&q->again, m->o.loop, on_again, q);
    return question_send(q);
}

/* ---- assign ---- */

static void on_assigned(struct master_question *q, int rc, int status)
{
    struct master_assign *a = CONTAINER_OF(q, struct master_assign, question);
    struct master_client *m = q->client;

    if (rc != 0) {
        snprintf(a->reply.error, sizeof a->reply.error, "no answer from a master (%.150s): %s", m->o.masters, dfs_err_text(rc));
        a->done(a, rc);
        return;
    }
    rc = assign_reply_parse(bytes_of(q->answer, q->answer_n), &a->reply);
    if (rc == 0 && a->reply.error[0] != '\0')
        rc = DFS_ENOSPC;
    else if (rc == 0 && (status < 200 || status > 299))
        rc = DFS_EPROTO;
    if (rc == 0) {
        const char *url = m->o.use_public_url ? a->reply.public_url : a->reply.url;
        rc = address_get(m, bytes_str(url), &a->addr);
        if (rc != 0)
            snprintf(a->reply.error, sizeof a->reply.error, "cannot use the server's address '%.100s': %s", url,
                     dfs_err_text(rc));
    }
    a->done(a, rc);
}

int master_assign_start(struct master_client *m, struct master_assign *a)
{
    struct master_question *q = &a->question;
    int rc = DFS_ETOOBIG;
    a->reply.error[0] = '\0';
    q->answer = a->answer;
    q->answer_cap = sizeof a->answer;
    q->answered = on_assigned;
    if (a->query.n + 13 < sizeof q->target) {
        memcpy(q->target, "/dir/assign?", 12);
        memcpy(q->target + 12, a->query.p, a->query.n);
        q->target[12 + a->query.n] = '\0';
        rc = question_start(m, q);
    }
    if (rc != 0)
        snprintf(a->reply.error, sizeof a->reply.error, "cannot ask the master: %s", dfs_err_text(rc));
    return rc;
}

/* ---- lookup ---- */

static struct places *places_find(struct master_client *m, uint32_t volume_id)
{
    struct places *p = m->places[volume_id % PLACE_BUCKETS];
    while (p != NULL && p->volume_id != volume_id)
        p = p->next;
    return p;
}

static bool places_fresh(const struct master_client *m, const struct places *p)
{
    return p != NULL && p->known_ms != 0 && loop_now_ms(m->o.loop) - p->known_ms < MASTER_CACHE_MS;
}

static const struct addr *places_pick(const struct places *p)
{
    return p->addrs[p->count == 1 ? 0 : rand_below(p->count)];
}

const struct addr *master_client_place(struct master_client *m, uint32_t volume_id)
{
    const struct places *p = places_find(m, volume_id);
    return places_fresh(m, p) ? places_pick(p) : NULL;
}

void master_client_forget(struct master_client *m, uint32_t volume_id)
{
    struct places *p = places_find(m, volume_id);
    if (p != NULL && p->known_ms != 0 && loop_now_ms(m->o.loop) - p->known_ms >= FORGET_MIN_MS)
        p->known_ms = 0;
}

static int take_places(struct places *p, struct bytes body, char error[ASSIGN_ERROR_MAX])
{
    struct master_client *m = p->client;
    json_t *root = json_loadb(body.p, body.n, 0, NULL), *place;
    const char *text;
    size_t i;

    p->count = 0;
    json_array_foreach(json_object_get(root, "locations"), i, place) {
        text = json_string_value(json_object_get(place, m->o.use_public_url ? "publicUrl" : "url"));
        if (text != NULL && p->count < MASTER_PLACES_MAX && address_get(m, bytes_str(text), &p->addrs[p->count]) == 0)
            p->count++;
    }
    if (p->count == 0) {
        text = json_string_value(json_object_get(root, "error"));
        snprintf(error, ASSIGN_ERROR_MAX, "volume %u: %.200s", p->volume_id, text != NULL ? text : "the master names no place");
    }
    json_decref(root);
    return p->count > 0 ? 0 : DFS_ENOTFOUND;
}

static void on_looked_up(struct master_question *q, int rc, int status)
{
    struct places *p = CONTAINER_OF(q, struct places, question);
    struct master_lookup *waiters = p->waiters;
    char error[ASSIGN_ERROR_MAX] = "";

    (void)status;
    if (rc != 0)
        snprintf(error, sizeof error, "no answer from a master (%.150s): %s", p->client->o.masters, dfs_err_text(rc));
    else
        rc = take_places(p, bytes_of(q->answer, q->answer_n), error);
    free(q->answer);
    q->answer = NULL;
    p->asking = false;
    p->waiters = NULL;
    p->known_ms = rc == 0 ? loop_now_ms(p->client->o.loop) : 0;
    while (waiters != NULL) {
        struct master_lookup *l = waiters;
        waiters = l->next;
        if (rc == 0)
            l->addr = places_pick(p);
        else
            memcpy(l->error, error, sizeof error);
        l->done(l, rc);
    }
}

static int places_ask(struct places *p)
{
    struct master_question *q = &p->question;
    int rc;

    q->answer = malloc(MASTER_LOOKUP_MAX);
    if (q->answer == NULL)
        return DFS_ENOMEM;
    q->answer_cap = MASTER_LOOKUP_MAX;
    q->answered = on_looked_up;
    snprintf(q->target, sizeof q->target, "/dir/lookup?volumeId=%u", p->volume_id);
    rc = question_start(p->client, q);
    if (rc != 0) {
        free(q->answer);
        q->answer = NULL;
    }
    p->asking = rc == 0;
    return rc;
}

int master_lookup_start(struct master_client *m, struct master_lookup *l)
{
    struct places *p = places_find(m, l->volume_id);
    int rc = 0;

    if (p == NULL) {
        p = calloc(1, sizeof *p);
        if (p == NULL)
            return DFS_ENOMEM;
        p->client = m;
        p->volume_id = l->volume_id;
        p->next = m->places[l->volume_id % PLACE_BUCKETS];
        m->places[l->volume_id % PLACE_BUCKETS] = p;
    }
    if (!p->asking)
        rc = places_ask(p);
    if (rc != 0) {
        snprintf(l->error, sizeof l->error, "cannot ask the master: %s", dfs_err_text(rc));
        return rc;
    }
    l->next = p->waiters;
    p->waiters = l;
    return 0;
}

/* ---- the client ---- */

struct master_parse {
    struct master_client *client;
    struct bytes bad;
};

static int add_master(struct bytes entry, void *arg)
{
    struct master_parse *p = arg;
    struct master_client *m = p->client;
    int rc = m->master_count < MASTERS_MAX ? address_get(m, entry, &m->masters[m->master_count]) : DFS_ETOOBIG;
    if (rc == 0)
        m->master_count++;
    else
        p->bad = entry;
    return rc;
}

int master_client_new(const struct master_client_options *o, struct master_client **out, char error[ASSIGN_ERROR_MAX])
{
    struct master_parse parse = {0};
    int rc;
    struct master_client *m = calloc(1, sizeof *m);

    if (m == NULL) {
        snprintf(error, ASSIGN_ERROR_MAX, "%s", dfs_err_text(DFS_ENOMEM));
        return DFS_ENOMEM;
    }
    m->o = *o;
    parse.client = m;
    rc = addr_list_each(bytes_str(o->masters), add_master, &parse);
    if (rc == 0 && m->master_count == 0)
        rc = DFS_EINVAL;
    if (rc == 0) {
        *out = m;
        return 0;
    }
    snprintf(error, ASSIGN_ERROR_MAX, "cannot use master '%.*s': %s", (int)(parse.bad.n < 100 ? parse.bad.n : 100),
             parse.bad.n > 0 ? parse.bad.p : "", dfs_err_text(rc));
    master_client_free(m);
    return rc;
}

int master_client_new_for_load(struct master_client_options *o, uint32_t connections, uint32_t waiting, struct http_client **http,
                               struct master_client **out, char error[ASSIGN_ERROR_MAX])
{
    struct http_client_options ho;
    int rc;

    http_client_options_init(&ho);
    ho.loop = o->loop;
    ho.max_per_address = connections;
    ho.max_waiting = waiting;
    ho.connect_timeout_ms = o->timeout_ms < CONNECT_TIMEOUT_MS ? o->timeout_ms : CONNECT_TIMEOUT_MS;
    ho.idle_timeout_ms = 15000;
    rc = http_client_new(&ho, http);
    if (rc != 0) {
        snprintf(error, ASSIGN_ERROR_MAX, "cannot make a client: %s", dfs_err_text(rc));
        return rc;
    }
    o->http = *http;
    return master_client_new(o, out, error);
}

void master_client_free(struct master_client *m)
{
    if (m == NULL)
        return;
    for (uint32_t i = 0; i < PLACE_BUCKETS; i++) {
        while (m->places[i] != NULL) {
            struct places *p = m->places[i];
            m->places[i] = p->next;
            free(p->question.answer);
            free(p);
        }
    }
    for (uint32_t i = 0; i < ADDRESS_BUCKETS; i++) {
        while (m->addresses[i] != NULL) {
            struct address *a = m->addresses[i];
            m->addresses[i] = a->next;
            free(a);
        }
    }
    free(m);
}
