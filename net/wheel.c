/* A timer wheel of one level. */
#include "net/wheel.h"

#include <stddef.h>
#include <string.h>

#include "needle/check.h"

_Static_assert((WHEEL_SLOTS & (WHEEL_SLOTS - 1)) == 0, "a tick's slot is its low bits");

static void list_init(struct wheel_node *head)
{
    head->next = head->prev = head;
}

static void list_add(struct wheel_node *head, struct wheel_node *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

static void list_del(struct wheel_node *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->next = node->prev = NULL;
}

/* The first tick at which a node is due for sure. */
static uint64_t tick_of(uint64_t ms)
{
    return ms / WHEEL_TICK_MS + 1;
}

static struct wheel_node *slot_of(struct wheel *w, uint64_t tick)
{
    return &w->slots[tick & (WHEEL_SLOTS - 1)];
}

static void arm(struct wheel *w, uint64_t tick)
{
    uint64_t now = loop_now_ms(w->loop), at = tick * WHEEL_TICK_MS;
    loop_timer_set(&w->timer, at > now ? at - now : 0);
    w->timer_tick = tick;
}

/* Sleeps until the next list with anything in it; it may turn out to be for a later turn. */
static void arm_next(struct wheel *w)
{
    w->timer_tick = 0;
    if (w->count == 0)
        return;
    for (uint64_t tick = w->done_tick + 1; tick <= w->done_tick + WHEEL_SLOTS; tick++) {
        const struct wheel_node *head = slot_of(w, tick);
        if (head->next != head) {
            arm(w, tick);
            return;
        }
    }
    CHECK(!"a node that is in no slot");
}

/* The list is taken off first: what fires may set and cancel nodes, in this very list too. */
static void run_slot(struct wheel *w, uint64_t tick, uint64_t now)
{
    struct wheel_node *head = slot_of(w, tick), taken;
    if (head->next == head)
        return;
    taken = *head;
    taken.next->prev = taken.prev->next = &taken;
    list_init(head);
    while (taken.next != &taken) {
        struct wheel_node *node = taken.next;
        list_del(node);
        if (node->due_ms > now) {
            list_add(slot_of(w, tick_of(node->due_ms)), node);
            continue;
        }
        w->count--;
        node->fn(node);
    }
}

static void on_timer(void *arg)
{
    struct wheel *w = arg;
    uint64_t now = loop_now_ms(w->loop), tick = now / WHEEL_TICK_MS;
    uint64_t from = w->done_tick + 1;

    /* After a long sleep every list is looked at once, not once per missed turn. */
    if (tick >= WHEEL_SLOTS && from < tick - WHEEL_SLOTS + 1)
        from = tick - WHEEL_SLOTS + 1;
    if (tick > w->done_tick)
        w->done_tick = tick;
    for (uint64_t t = from; t <= tick; t++)
        run_slot(w, t, now);
    loop_timer_cancel(&w->timer);
    arm_next(w);
}

void wheel_init(struct wheel *w, struct loop *loop)
{
    memset(w, 0, sizeof *w);
    w->loop = loop;
    w->done_tick = loop_now_ms(loop) / WHEEL_TICK_MS;
    for (uint32_t i = 0; i < WHEEL_SLOTS; i++)
        list_init(&w->slots[i]);
    loop_timer_init(&w->timer, loop, on_timer, w);
}

void wheel_release(struct wheel *w)
{
    loop_timer_release(&w->timer);
    for (uint32_t i = 0; i < WHEEL_SLOTS; i++)
        while (w->slots[i].next != &w->slots[i])
            list_del(w->slots[i].next);
    w->count = 0;
}

void wheel_set(struct wheel *w, struct wheel_node *node, uint64_t ms)
{
    uint64_t now = loop_now_ms(w->loop);

    CHECK(node->fn != NULL);
    wheel_cancel(w, node);
    /* An idle wheel does not follow the clock: bring it to now, or lists would be walked that are known to be empty. */
    if (w->count == 0 && now / WHEEL_TICK_MS > w->done_tick)
        w->done_tick = now / WHEEL_TICK_MS;
    node->due_ms = now + ms >= now ? now + ms : UINT64_MAX / 2;
    uint64_t tick = tick_of(node->due_ms);
    list_add(slot_of(w, tick), node);
    w->count++;
    if (w->timer_tick == 0 || tick < w->timer_tick)
        arm(w, tick);
}

void wheel_cancel(struct wheel *w, struct wheel_node *node)
{
    if (node->next == NULL)
        return;
    list_del(node);
    w->count--;
    /* The timer is left: it finds nothing and sets itself anew, which is rarer than a cancel. */
}
