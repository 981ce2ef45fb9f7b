/* One lane per loop: waiting lists with one coarse sweep instead of a timer per connection, free lists, the cached date. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/http_conn.h"
#include "net/http_util.h"

#define SWEEP_MIN_MS 5u
#define SWEEP_MAX_MS 1000u

/* ---- counting ---- */

uint32_t lane_opened(struct http_lane *lane)
{
    __atomic_add_fetch(&lane->connections, 1, __ATOMIC_RELAXED);
    return __atomic_add_fetch(&lane->server->connections, 1, __ATOMIC_RELAXED);
}

void lane_closed(struct http_lane *lane)
{
    __atomic_sub_fetch(&lane->connections, 1, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&lane->server->connections, 1, __ATOMIC_RELAXED);
}

/* ---- waiting ---- */

void lane_forget(struct http_conn *c)
{
    struct conn_list *list = &c->lane->waiting[c->queue];
    if (c->prev != NULL)
        c->prev->next = c->next;
    else
        list->first = c->next;
    if (c->next != NULL)
        c->next->prev = c->prev;
    else
        list->last = c->prev;
    c->prev = c->next = NULL;
}

static void append(struct http_conn *c, enum wait_queue q)
{
    struct conn_list *list = &c->lane->waiting[q];
    c->queue = (uint8_t)q;
    c->prev = list->last;
    c->next = NULL;
    if (list->last != NULL)
        list->last->next = c;
    else
        list->first = c;
    list->last = c;
}

void lane_add(struct http_conn *c)
{
    append(c, WAIT_NOTHING);
}

void lane_wait(struct http_conn *c, enum wait_queue q)
{
    struct http_lane *lane = c->lane;
    uint64_t now = loop_now_ms(lane->loop);
    /* Already the youngest, or as of the same millisecond: the order holds without moving. */
    if (c->queue != q || (c->since_ms != now && c->next != NULL)) {
        lane_forget(c);
        append(c, q);
    }
    c->since_ms = now;
    if (lane->waiting[q].timeout_ms != 0 && !loop_timer_pending(&lane->sweep))
        loop_timer_set(&lane->sweep, lane->sweep_ms);
}

/* False when nobody in the list is overdue any more. */
static bool expire_first(struct http_lane *lane, enum wait_queue q, uint64_t now)
{
    struct http_conn *c = lane->waiting[q].first;
    if (c == NULL || now - c->since_ms < lane->waiting[q].timeout_ms)
        return false;
    conn_expire(c);
    return true;
}

static void on_sweep(void *arg)
{
    struct http_lane *lane = arg;
    uint64_t now = loop_now_ms(lane->loop);
    uint32_t burst = SWEEP_BURST;
    bool anyone = false;
    for (int q = 0; q < WAIT_QUEUES; q++) {
        if (lane->waiting[q].timeout_ms == 0)
            continue;
        while (burst > 0 && expire_first(lane, (enum wait_queue)q, now))
            burst--;
        anyone |= lane->waiting[q].first != NULL;
    }
    if (anyone)
        loop_timer_set(&lane->sweep, burst > 0 ? lane->sweep_ms : 0);
}

static void choose_sweep(struct http_lane *lane)
{
    uint32_t least = SWEEP_MAX_MS * 4;
    for (int q = 0; q < WAIT_QUEUES; q++)
        if (lane->waiting[q].timeout_ms != 0 && lane->waiting[q].timeout_ms < least)
            least = lane->waiting[q].timeout_ms;
    lane->sweep_ms = least / 4 < SWEEP_MIN_MS ? SWEEP_MIN_MS : least / 4;
}

/* ---- taking turns ---- */

static void run_ready(struct loop_msg *msg)
{
    struct http_lane *lane = CONTAINER_OF(msg, struct http_lane, ready_msg);
    struct http_conn *c = lane->ready_first;
    lane->ready_first = lane->ready_last = NULL;
    lane->ready_posted = false;
    while (c != NULL) {
        struct http_conn *next = c->ready_next;
        c->ready = false;
        c->ready_next = NULL;
        conn_run(c);
        c = next;
    }
}

void lane_make_ready(struct http_conn *c)
{
    struct http_lane *lane = c->lane;
    if (c->ready)
        return;
    c->ready = true;
    c->ready_next = NULL;
    if (lane->ready_last != NULL)
        lane->ready_last->ready_next = c;
    else
        lane->ready_first = c;
    lane->ready_last = c;
    if (!lane->ready_posted) {
        lane->ready_posted = true;
        loop_post(lane->loop, &lane->ready_msg);
    }
}

/* ---- free lists ---- */

char *lane_get_buffer(struct http_lane *lane)
{
    void *buf = lane->spare_buffers;
    if (buf == NULL)
        return malloc(READ_BUFFER_BYTES);
    memcpy(&lane->spare_buffers, buf, sizeof(void *));
    lane->spare_buffer_count--;
    return buf;
}

void lane_put_buffer(struct http_lane *lane, char *buf, uint32_t cap)
{
    if (buf == NULL)
        return;
    if (cap != READ_BUFFER_BYTES || lane->spare_buffer_count == LANE_SPARE_BUFFERS) {
        free(buf);
        return;
    }
    memcpy(buf, &lane->spare_buffers, sizeof(void *));
    lane->spare_buffers = buf;
    lane->spare_buffer_count++;
}

struct http_exchange *lane_get_exchange(struct http_lane *lane)
{
    struct http_exchange *x = lane->spare_exchanges;
    if (x == NULL)
        return aligned_alloc(_Alignof(struct http_exchange), sizeof *x);
    lane->spare_exchanges = x->next_spare;
    lane->spare_exchange_count--;
    return x;
}

void lane_put_exchange(struct http_lane *lane, struct http_exchange *x)
{
    if (lane->spare_exchange_count == LANE_SPARE_EXCHANGES) {
        free(x);
        return;
    }
    x->next_spare = lane->spare_exchanges;
    lane->spare_exchanges = x;
    lane->spare_exchange_count++;
}

struct bytes lane_date(struct http_lane *lane)
{
    uint64_t now = loop_wall_s(lane->loop);
    if (now != lane->date_s || lane->date_len == 0) {
        char date[HTTP_DATE_BYTES + 1];
        http_date_format(now, date);
        int n = snprintf(lane->date, sizeof lane->date, "Date: %s\r\nServer: %.128s\r\n", date,
                         lane->server->opts.server_header);
        lane->date_len = (uint32_t)n;
        lane->date_s = now;
    }
    return bytes_of(lane->date, lane->date_len);
}

/* ---- life ---- */

static void run_drain(struct loop_msg *msg)
{
    struct http_lane *lane = CONTAINER_OF(msg, struct http_lane, drain_msg);
    lane->draining = true;
    struct http_conn *c = lane->waiting[WAIT_REQUEST].first;
    while (c != NULL) {
        struct http_conn *next = c->next;
        conn_drain(c);
        c = next;
    }
}

void lane_init(struct http_lane *lane, struct http_server *s, struct loop *loop)
{
    const struct http_server_options *o = &s->opts;
    lane->server = s;
    lane->loop = loop;
    lane->waiting[WAIT_REQUEST].timeout_ms = o->idle_timeout_ms;
    lane->waiting[WAIT_HEAD].timeout_ms = o->head_timeout_ms;
    lane->waiting[WAIT_BODY].timeout_ms = o->body_timeout_ms;
    lane->waiting[WAIT_WRITE].timeout_ms = o->body_timeout_ms;
    lane->waiting[WAIT_CLOSE].timeout_ms = LINGER_MS;
    choose_sweep(lane);
    lane->ready_msg.run = run_ready;
    lane->drain_msg.run = run_drain;
    loop_timer_init(&lane->sweep, loop, on_sweep, lane);
}

static void kill_all(struct http_lane *lane)
{
    for (int q = 0; q < WAIT_QUEUES; q++)
        for (struct http_conn *c = lane->waiting[q].first; c != NULL; c = c->next) {
            conn_kill(c, false);
            lane_make_ready(c); /* which keeps it from being freed while we walk */
        }
    while (lane->ready_first != NULL)
        run_ready(&lane->ready_msg);
}

bool lane_release(struct http_lane *lane)
{
    kill_all(lane);
    bool held = false;
    for (int q = 0; q < WAIT_QUEUES; q++)
        held |= lane->waiting[q].first != NULL;
    CHECK(held || (lane->kept_bytes == 0 && lane->big_heads == 0));
    loop_timer_release(&lane->sweep);
    while (lane->spare_buffers != NULL) {
        void *buf = lane->spare_buffers;
        memcpy(&lane->spare_buffers, buf, sizeof(void *));
        free(buf);
    }
    while (lane->spare_exchanges != NULL) {
        struct http_exchange *x = lane->spare_exchanges;
        lane->spare_exchanges = x->next_spare;
        free(x);
    }
    return !held;
}
