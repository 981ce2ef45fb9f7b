/* gRPC end to end on one loop: the four kinds of calls, their ends, back-pressure, deadlines, connections that go. */
#include "tests/unit/net/grpc_pair.h"

#include "net/grpc_internal.h"
#include "net/pb/master.pb-c.h"

#define BIG (8u * 1024u * 1024u)

static struct pair *pair_of(struct grpc_call *call)
{
    return grpc_call_server_arg(call);
}

static void srv_open(struct grpc_call *call)
{
    pair_of(call)->opened++;
}

static void srv_closed(struct grpc_call *call, enum grpc_status status, struct bytes text)
{
    (void)text;
    struct pair *p = pair_of(call);
    p->closed++;
    p->closed_status = status;
    if (p->hanging == call)
        p->hanging = NULL;
}

/* Unary: the same bytes back. */
static void echo_message(struct grpc_call *call, struct bytes m)
{
    pair_of(call)->messages++;
    assert_int_equal(grpc_call_send_raw(call, m), 0);
    grpc_call_finish(call, GRPC_OK, NULL);
}

/* Unary: an AssignResponse. */
static void assign_message(struct grpc_call *call, struct bytes m)
{
    MasterPb__AssignRequest *q =
        (MasterPb__AssignRequest *)grpc_unpack(&master_pb__assign_request__descriptor, m);
    if (q == NULL) {
        grpc_call_finish(call, GRPC_INVALID_ARGUMENT, "no AssignRequest");
        return;
    }
    MasterPb__AssignResponse r = MASTER_PB__ASSIGN_RESPONSE__INIT;
    MasterPb__Location at = MASTER_PB__LOCATION__INIT;
    r.fid = (char *)"3,01637037d6";
    r.count = q->count;
    r.location = &at;
    at.url = (char *)grpc_call_path(call);
    grpc_call_reply(call, &r.base);
    protobuf_c_message_free_unpacked(&q->base, NULL);
}

static void fail_message(struct grpc_call *call, struct bytes m)
{
    grpc_call_finish(call, GRPC_FAILED_PRECONDITION, "%.*s", (int)m.n, m.p);
    grpc_call_finish(call, GRPC_OK, "the first one counts");
}

/* Server stream: so many messages of so many bytes, sent as room allows. */
struct pump {
    uint32_t left, bytes;
};

static void pump_more(struct grpc_call *call)
{
    struct pump *s = grpc_call_user(call);
    char *piece = calloc(1, s->bytes);
    while (s->left > 0 && grpc_call_pending_bytes(call) < 1024 * 1024 + 1) {
        memset(piece, (int)s->left, s->bytes);
        assert_int_equal(grpc_call_send_raw(call, bytes_of(piece, s->bytes)), 0);
        s->left--;
    }
    free(piece);
    if (s->left == 0)
        grpc_call_finish(call, GRPC_OK, NULL);
}

static void stream_message(struct grpc_call *call, struct bytes m)
{
    assert_int_equal(m.n, 8);
    struct pump *s = malloc(sizeof *s);
    *s = (struct pump){be32_get(m.p), be32_get(m.p + 4)};
    grpc_call_set_user(call, s);
    pump_more(call);
}

static void stream_closed(struct grpc_call *call, enum grpc_status status, struct bytes text)
{
    free(grpc_call_user(call));
    srv_closed(call, status, text);
}

/* Client stream: one answer with the sum. */
static void collect_message(struct grpc_call *call, struct bytes m)
{
    pair_of(call)->messages++;
    pair_of(call)->bytes += m.n;
}

static void collect_half_close(struct grpc_call *call)
{
    char sum[4];
    pair_of(call)->half_closed++;
    be32_put(sum, (uint32_t)pair_of(call)->bytes);
    grpc_call_send_raw(call, bytes_of(sum, 4));
    grpc_call_finish(call, GRPC_OK, NULL);
}

static void chat_message(struct grpc_call *call, struct bytes m)
{
    pair_of(call)->messages++;
    grpc_call_send_raw(call, m);
}

static void chat_half_close(struct grpc_call *call)
{
    pair_of(call)->half_closed++;
    grpc_call_finish(call, GRPC_OK, NULL);
}

static void hang_message(struct grpc_call *call, struct bytes m)
{
    (void)m;
    pair_of(call)->hanging = call;
    pair_of(call)->messages++;
}

/* Slow reader: stops at the first message. */
static void slow_message(struct grpc_call *call, struct bytes m)
{
    collect_message(call, m);
    pair_of(call)->hanging = call;
    grpc_call_pause(call);
}

static void srv_cancel(struct grpc_call *call)
{
    grpc_call_cancel(call);
    grpc_call_finish(call, GRPC_OK, NULL); /* without effect */
    assert_int_equal(grpc_call_send_raw(call, BYTES_LIT("x")), DFS_ECLOSED);
}

static void srv_cancel_message(struct grpc_call *call, struct bytes m)
{
    (void)m;
    srv_cancel(call);
}

static void srv_ignore(struct grpc_call *call, struct bytes m)
{
    (void)call;
    (void)m;
}

static void early_open(struct grpc_call *call)
{
    grpc_call_finish(call, GRPC_RESOURCE_EXHAUSTED, "not today");
}

static const struct grpc_call_ops echo = {.on_open = srv_open, .on_message = echo_message, .on_closed = srv_closed};
static const struct grpc_call_ops assign = {.on_message = assign_message, .on_closed = srv_closed};
static const struct grpc_call_ops fail_ops = {.on_message = fail_message, .on_closed = srv_closed};
static const struct grpc_call_ops stream = {
    .on_message = stream_message, .on_writable = pump_more, .on_closed = stream_closed};
static const struct grpc_call_ops collect = {
    .on_message = collect_message, .on_half_close = collect_half_close, .on_closed = srv_closed};
static const struct grpc_call_ops chat = {
    .on_open = srv_open, .on_message = chat_message, .on_half_close = chat_half_close, .on_closed = srv_closed};
static const struct grpc_call_ops hang = {.on_open = srv_open, .on_message = hang_message, .on_closed = srv_closed};
static const struct grpc_call_ops slow = {
    .on_message = slow_message, .on_half_close = collect_half_close, .on_closed = srv_closed};
static const struct grpc_call_ops cancel_open = {
    .on_open = srv_cancel, .on_message = srv_ignore, .on_closed = srv_closed};
static const struct grpc_call_ops cancel_message = {.on_message = srv_cancel_message, .on_closed = srv_closed};
static const struct grpc_call_ops cancel_half = {
    .on_message = srv_ignore, .on_half_close = srv_cancel, .on_closed = srv_closed};
static const struct grpc_call_ops early = {.on_open = early_open, .on_message = srv_ignore, .on_closed = srv_closed};

static const struct grpc_method methods[] = {
    {"/t.T/Echo", &echo, BIG + 16}, {"/t.T/Small", &echo, 100}, {"/t.T/Assign", &assign, 0},
    {"/t.T/Fail", &fail_ops, 0},    {"/t.T/Stream", &stream, 0}, {"/t.T/Collect", &collect, BIG + 16},
    {"/t.T/Chat", &chat, 0},        {"/t.T/Hang", &hang, 0},    {"/t.T/Slow", &slow, 0},
    {"/t.T/CancelOpen", &cancel_open, 0}, {"/t.T/CancelMessage", &cancel_message, 0},
    {"/t.T/CancelHalf", &cancel_half, 0}, {"/t.T/Early", &early, 0},
};
#define METHODS ((uint32_t)(sizeof methods / sizeof methods[0]))

static struct pair P;

static int setup(void **state)
{
    (void)state;
    pair_new(&P, methods, METHODS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pair_free(&P);
    return 0;
}

/* ---- the four kinds ---- */

static void send_and_close(struct grpc_call *call, const void *p, size_t n)
{
    assert_int_equal(grpc_call_send_raw(call, bytes_of(p, n)), 0);
    grpc_call_half_close(call);
}

static void test_unary_raw(void **state)
{
    (void)state;
    struct seen s;
    struct grpc_call *call = seen_start(&P, &s, "/t.T/Echo", 0);
    assert_string_equal(grpc_call_path(call), "/t.T/Echo");
    send_and_close(call, "hello", 5);
    assert_int_equal(grpc_call_send_raw(call, BYTES_LIT("more")), DFS_ECLOSED);
    pair_run(&P);
    assert_int_equal(s.status, GRPC_OK);
    assert_int_equal(s.messages, 1);
    assert_memory_equal(s.last, "hello", 5);
    assert_int_equal(P.ups, 1);
    pair_until(&P, &P.closed, 1);
    assert_int_equal(P.closed_status, GRPC_OK);
    assert_int_equal(P.opened, 1);
}

static void test_empty_message(void **state)
{
    (void)state;
    struct seen s;
    send_and_close(seen_start(&P, &s, "/t.T/Echo", 0), "", 0);
    pair_run(&P);
    assert_int_equal(s.status, GRPC_OK);
    assert_int_equal(s.messages, 1);
    assert_int_equal(s.bytes, 0);
}

struct answer {
    int calls, ok;
    enum grpc_status status;
    char text[64], fid[32], url[32];
    uint64_t count;
    int want;
};

static void on_assigned(void *arg, enum grpc_status status, struct bytes text, const ProtobufCMessage *response)
{
    struct answer *a = arg;
    a->calls++;
    a->status = status;
    snprintf(a->text, sizeof a->text, "%.*s", (int)text.n, text.p != NULL ? text.p : "");
    assert_int_equal(response != NULL, status == GRPC_OK);
    if (response != NULL) {
        const MasterPb__AssignResponse *r = (const MasterPb__AssignResponse *)response;
        a->ok++;
        a->count += r->count;
        snprintf(a->fid, sizeof a->fid, "%s", r->fid);
        snprintf(a->url, sizeof a->url, "%s", r->location->url);
    }
    if (a->calls == a->want)
        pair_done(&P);
}

static int ask(struct answer *a, const char *path, uint64_t count)
{
    MasterPb__AssignRequest q = MASTER_PB__ASSIGN_REQUEST__INIT;
    q.count = count;
    return grpc_unary(P.ch, path, &q.base, &master_pb__assign_response__descriptor, 5000, on_assigned, a);
}

static void test_unary(void **state)
{
    (void)state;
    struct answer a = {.want = 1};
    assert_int_equal(ask(&a, "/t.T/Assign", 7), 0);
    assert_int_equal(a.calls, 0);
    pair_run(&P);
    assert_int_equal(a.status, GRPC_OK);
    assert_int_equal(a.count, 7);
    assert_string_equal(a.fid, "3,01637037d6");
    assert_string_equal(a.url, "/t.T/Assign");
}

/* A server that answers with no message, or with something else, is not believed. */
static void test_unary_bad_answer(void **state)
{
    (void)state;
    struct answer a = {.want = 1};
    assert_int_equal(ask(&a, "/t.T/Early", 1), 0);
    pair_run(&P);
    assert_int_equal(a.status, GRPC_RESOURCE_EXHAUSTED);
    assert_string_equal(a.text, "not today");
    /* Echo sends the request back; field 1 is a number there and a string here. */
    a = (struct answer){.want = 1};
    assert_int_equal(ask(&a, "/t.T/Echo", 1), 0);
    pair_run(&P);
    assert_int_equal(a.status, GRPC_INTERNAL);
    a = (struct answer){.want = 1};
    assert_int_equal(ask(&a, "/t.T/Hang", 1), 0);
    pair_until(&P, &P.messages, 2);
    grpc_call_finish(P.hanging, GRPC_OK, NULL);
    pair_run(&P);
    assert_int_equal(a.status, GRPC_INTERNAL);
}

static void test_unary_many(void **state)
{
    (void)state;
    struct answer a = {.want = 1000};
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(ask(&a, "/t.T/Assign", i), 0);
    pair_run(&P);
    assert_int_equal(a.ok, 1000);
    assert_int_equal(a.count, 999 * 1000 / 2);
    assert_int_equal(P.ups, 1);
}

/* A thousand that are open at the same time, on both sides. */
static void test_concurrent_streams(void **state)
{
    (void)state;
    enum { N = 1000 };
    struct seen *s = calloc(N, sizeof *s);
    for (int i = 0; i < N; i++) {
        seen_start(&P, &s[i], "/t.T/Chat", 0);
        s[i].stop_when_closed = 0;
        assert_int_equal(grpc_call_send_raw(s[i].call, bytes_of(&i, sizeof i)), 0);
    }
    pair_until(&P, &P.messages, N);
    assert_int_equal(P.opened, N);
    assert_int_equal(P.closed, 0);
    for (int i = 0; i < N; i++)
        grpc_call_half_close(s[i].call);
    pair_until(&P, &P.closed, N);
    for (int i = 0; i < N; i++) {
        pair_until(&P, &s[i].closed, 1);
        assert_int_equal(s[i].status, GRPC_OK);
        assert_int_equal(s[i].messages, 1);
        assert_memory_equal(s[i].last, &i, sizeof i);
    }
    free(s);
}

static void test_more_than_the_limit_wait(void **state)
{
    (void)state;
    enum { N = GRPC_STREAMS_MAX + 200 };
    struct answer a = {.want = N};
    struct seen *s = calloc(GRPC_STREAMS_MAX, sizeof *s);
    for (uint32_t i = 0; i < GRPC_STREAMS_MAX; i++) {
        seen_start(&P, &s[i], "/t.T/Hang", 0);
        s[i].stop_when_closed = 0;
        assert_int_equal(grpc_call_send_raw(s[i].call, BYTES_LIT("x")), 0);
    }
    pair_until(&P, &P.messages, GRPC_STREAMS_MAX);
    for (uint64_t i = 0; i < N; i++)
        assert_int_equal(ask(&a, "/t.T/Assign", 1), 0);
    pair_nap(&P, 50);
    assert_int_equal(a.calls, 0);
    for (uint32_t i = 0; i < GRPC_STREAMS_MAX; i++)
        grpc_call_cancel(s[i].call);
    pair_run(&P);
    assert_int_equal(a.ok, N);
    free(s);
}

static void test_server_stream(void **state)
{
    (void)state;
    struct seen s;
    char ask_for[8];
    be32_put(ask_for, 64);
    be32_put(ask_for + 4, 1024 * 1024);
    send_and_close(seen_start(&P, &s, "/t.T/Stream", 0), ask_for, 8);
    pair_run(&P);
    assert_int_equal(s.status, GRPC_OK);
    assert_int_equal(s.messages, 64);
    assert_int_equal(s.bytes, 64u * 1024 * 1024);
    assert_int_equal(s.last[0], 1);
}

static void test_client_stream(void **state)
{
    (void)state;
    struct seen s;
    char *piece = calloc(1, 100000);
    struct grpc_call *call = seen_start(&P, &s, "/t.T/Collect", 0);
    for (int i = 0; i < 50; i++)
        assert_int_equal(grpc_call_send_raw(call, bytes_of(piece, 100000)), 0);
    grpc_call_half_close(call);
    pair_run(&P);
    assert_int_equal(s.status, GRPC_OK);
    assert_int_equal(be32_get(s.last), 5000000);
    assert_int_equal(P.messages, 50);
    assert_int_equal(P.half_closed, 1);
    free(piece);
}

static void test_bidi(void **state)
{
    (void)state;
    struct seen s;
    struct grpc_call *call = seen_start(&P, &s, "/t.T/Chat", 0);
    for (int i = 1; i <= 20; i++) {
        assert_int_equal(grpc_call_send_raw(call, bytes_of(&i, sizeof i)), 0);
        pair_until(&P, &s.messages, i);
        assert_memory_equal(s.last, &i, sizeof i);
    }
    grpc_call_half_close(call);
    pair_run(&P);
    assert_int_equal(s.status, GRPC_OK);
}

static void test_big_message(void **state)
{
    (void)state;
    struct seen s;
    char *big = malloc(BIG);
    for (size_t i = 0; i < BIG; i++)
        big[i] = (char)(i * 131 >> 7);
    send_and_close(seen_start(&P, &s, "/t.T/Echo", 0), big, BIG);
    pair_run(&P);
    assert_int_equal(s.status, GRPC_OK);
    assert_int_equal(s.bytes, BIG);
    assert_memory_equal(s.last, big, sizeof s.last);
    free(big);
}

/* ---- status ---- */

static void test_status_message(void **state)
{
    (void)state;
    static const char *const texts[] = {"plain", "50% of \xc3\xa4\n\ttabs", "%41", ""};
    for (size_t i = 0; i < 4; i++) {
        struct seen s;
        send_and_close(seen_start(&P, &s, "/t.T/Fail", 0), texts[i], strlen(texts[i]));
        pair_run(&P);
        assert_int_equal(s.status, GRPC_FAILED_PRECONDITION);
        assert_string_equal(s.text, texts[i]);
        assert_int_equal(s.messages, 0);
    }
}

/* Cut at the bound, and not inside a character. */
static void test_status_message_long(void **state)
{
    (void)state;
    struct seen s;
    char *text = malloc(5000);
    for (int i = 0; i < 2500; i++)
        memcpy(text + 2 * i, "\xc3\xa4", 2);
    text[0] = text[1] = 'x'; /* keep the characters on even offsets */
    memmove(text, text + 1, 4999); /* and now on odd ones, so that the bound falls inside one */
    send_and_close(seen_start(&P, &s, "/t.T/Fail", 0), text, 4999);
    pair_run(&P);
    assert_int_equal(s.status, GRPC_FAILED_PRECONDITION);
    assert_int_equal(strlen(s.text) % 2, 1);
    assert_in_range(strlen(s.text), GRPC_STATUS_MESSAGE_MAX - 3, GRPC_STATUS_MESSAGE_MAX);
    free(text);
}

static void test_unknown_method(void **state)
{
    (void)state;
    struct seen s;
    send_and_close(seen_start(&P, &s, "/t.T/Nothing", 0), "x", 1);
    pair_run(&P);
    assert_int_equal(s.status, GRPC_UNIMPLEMENTED);
    assert_string_equal(s.text, "unknown method /t.T/Nothing");
}

static void test_too_large(void **state)
{
    (void)state;
    struct seen s;
    char text[101] = {0};
    send_and_close(seen_start(&P, &s, "/t.T/Small", 0), text, 100);
    pair_run(&P);
    assert_int_equal(s.status, GRPC_OK);
    send_and_close(seen_start(&P, &s, "/t.T/Small", 0), text, 101);
    pair_run(&P);
    assert_int_equal(s.status, GRPC_RESOURCE_EXHAUSTED);
    assert_int_equal(P.messages, 1);
    /* The client has its bound, too. */
    grpc_channel_set_message_max(P.ch, 50);
    send_and_close(seen_start(&P, &s, "/t.T/Small", 0), text, 51);
    pair_run(&P);
    assert_int_equal(s.status, GRPC_RESOURCE_EXHAUSTED);
    assert_int_equal(s.messages, 0);
}

static void test_no_message(void **state)
{
    (void)state;
    struct seen s;
    grpc_call_half_close(seen_start(&P, &s, "/t.T/Echo", 0));
    pair_run(&P);
    assert_int_equal(s.status, GRPC_INVALID_ARGUMENT);
}

/* The server answers while the client still sends. */
static void test_early_answer(void **state)
{
    (void)state;
    struct seen s;
    struct grpc_call *call = seen_start(&P, &s, "/t.T/Early", 0);
    char *piece = calloc(1, 1000000);
    for (int i = 0; i < 30; i++)
        assert_int_equal(grpc_call_send_raw(call, bytes_of(piece, 1000000)), 0);
    pair_run(&P);
    assert_int_equal(s.status, GRPC_RESOURCE_EXHAUSTED);
    assert_string_equal(s.text, "not today");
    free(piece);
    send_and_close(seen_start(&P, &s, "/t.T/Echo", 0), "x", 1);
    pair_run(&P);
    assert_int_equal(s.status, GRPC_OK);
    assert_int_equal(P.ups, 1);
}

static void test_start_refused(void **state)
{
    (void)state;
    struct seen s = {.pair = &P};
    char path[GRPC_PATH_MAX + 2];
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_int_equal(grpc_call_start(P.ch, path, &seen_ops, &s, 0, &s.call), DFS_EINVAL);
    assert_int_equal(s.closed, 0);
}

/* ---- deadlines ---- */

static void test_deadline(void **state)
{
    (void)state;
    struct seen s;
    assert_int_equal(grpc_call_send_raw(seen_start(&P, &s, "/t.T/Hang", 60), BYTES_LIT("x")), 0);
    pair_run(&P);
    assert_int_equal(s.status, GRPC_DEADLINE_EXCEEDED);
    pair_until(&P, &P.closed, 1);
    assert_true(P.closed_status == GRPC_DEADLINE_EXCEEDED || P.closed_status == GRPC_CANCELLED);
    assert_null(P.hanging);
}

/* Deadlines of many calls on one timer: each at its time, in any order; those answered before are left alone. */
static void test_deadlines_many(void **state)
{
    (void)state;
    static const uint32_t ms[] = {150, 40, 90, 40, 3000};
    struct seen s[5];
    for (int i = 0; i < 5; i++) {
        seen_start(&P, &s[i], i == 4 ? "/t.T/Echo" : "/t.T/Hang", ms[i]);
        s[i].stop_when_closed = 0;
        send_and_close(s[i].call, "x", 1);
    }
    pair_until(&P, &s[4].closed, 1);
    assert_int_equal(s[4].status, GRPC_OK);
    pair_until(&P, &s[1].closed, 1);
    pair_until(&P, &s[3].closed, 1);
    assert_int_equal(s[0].closed, 0);
    pair_until(&P, &s[2].closed, 1);
    pair_until(&P, &s[0].closed, 1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(s[i].status, GRPC_DEADLINE_EXCEEDED);
}

/* ---- cancelling ---- */

static void test_client_cancel(void **state)
{
    (void)state;
    struct seen s;
    struct grpc_call *call = seen_start(&P, &s, "/t.T/Hang", 0);
    grpc_call_send_raw(call, BYTES_LIT("x"));
    pair_until(&P, &P.messages, 1);
    grpc_call_cancel(call);
    assert_int_equal(s.closed, 0);
    grpc_call_cancel(call); /* without effect */
    assert_int_equal(grpc_call_send_raw(call, BYTES_LIT("x")), DFS_ECLOSED);
    pair_run(&P);
    assert_int_equal(s.status, GRPC_CANCELLED);
    pair_until(&P, &P.closed, 1);
    assert_int_equal(P.closed_status, GRPC_CANCELLED);
    assert_null(P.hanging);
}

static void test_cancel_before_connect(void **state)
{
    (void)state;
    struct seen s;
    grpc_call_cancel(seen_start(&P, &s, "/t.T/Echo", 0));
    pair_run(&P);
    assert_int_equal(s.status, GRPC_CANCELLED);
    pair_nap(&P, 30);
    assert_int_equal(P.opened, 0);
    assert_int_equal(s.closed, 1);
}

static void test_server_cancel(void **state)
{
    (void)state;
    static const char *const paths[] = {"/t.T/CancelOpen", "/t.T/CancelMessage", "/t.T/CancelHalf"};
    for (int i = 0; i < 3; i++) {
        struct seen s;
        send_and_close(seen_start(&P, &s, paths[i], 0), "x", 1);
        pair_run(&P);
        assert_int_equal(s.status, GRPC_CANCELLED);
        pair_until(&P, &P.closed, i + 1);
        assert_int_equal(P.closed_status, GRPC_CANCELLED);
    }
}

/* Client callbacks that do the worst: cancel, start, free. */
enum deed { CANCEL, FREE_CHANNEL, START_ANOTHER };
static enum deed deed;
static int in_message;
static struct seen another;

static void do_deed(struct grpc_call *call)
{
    switch (deed) {
    case CANCEL:
        grpc_call_cancel(call);
        break;
    case FREE_CHANNEL: {
        struct grpc_channel *ch = P.ch;
        P.ch = NULL;
        grpc_channel_free(ch);
        break;
    }
    case START_ANOTHER:
        deed = CANCEL;
        send_and_close(seen_start(&P, &another, "/t.T/Echo", 0), "again", 5);
        break;
    }
}

static void evil_message(struct grpc_call *call, struct bytes m)
{
    seen_message(call, m);
    if (in_message)
        do_deed(call);
}

static void evil_closed(struct grpc_call *call, enum grpc_status status, struct bytes text)
{
    struct seen *s = grpc_call_user(call);
    seen_closed(call, status, text);
    if (!in_message && s->closed == 1)
        do_deed(call);
}

static const struct grpc_call_ops evil_ops = {.on_message = evil_message, .on_closed = evil_closed};

static void run_deed(enum deed what, int where, struct seen *s)
{
    deed = what;
    in_message = where;
    *s = (struct seen){.pair = &P, .stop_when_closed = what != START_ANOTHER};
    assert_int_equal(grpc_call_start(P.ch, "/t.T/Chat", &evil_ops, s, 0, &s->call), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(grpc_call_send_raw(s->call, BYTES_LIT("abc")), 0);
    if (!where)
        grpc_call_half_close(s->call);
    pair_run(&P);
}

static void test_cancel_in_message(void **state)
{
    (void)state;
    struct seen s;
    run_deed(CANCEL, 1, &s);
    assert_int_equal(s.status, GRPC_CANCELLED);
    assert_int_equal(s.messages, 1);
    assert_int_equal(s.closed, 1);
}

static void test_cancel_in_closed(void **state)
{
    (void)state;
    struct seen s;
    run_deed(CANCEL, 0, &s);
    assert_int_equal(s.status, GRPC_OK);
    assert_int_equal(s.closed, 1);
}

static void test_free_in_message(void **state)
{
    (void)state;
    struct seen s, other;
    seen_start(&P, &other, "/t.T/Hang", 0);
    run_deed(FREE_CHANNEL, 1, &s);
    assert_int_equal(s.status, GRPC_CANCELLED);
    assert_int_equal(s.messages, 1);
    assert_int_equal(s.closed, 1);
    assert_int_equal(other.closed, 1);
    assert_int_equal(other.status, GRPC_CANCELLED);
    pair_nap(&P, 20);
}

static void test_free_in_closed(void **state)
{
    (void)state;
    struct seen s;
    run_deed(FREE_CHANNEL, 0, &s);
    assert_int_equal(s.status, GRPC_OK);
    assert_int_equal(s.closed, 1);
    pair_nap(&P, 20);
}

static void test_start_in_closed(void **state)
{
    (void)state;
    struct seen s;
    run_deed(START_ANOTHER, 0, &s);
    assert_int_equal(another.status, GRPC_OK);
    assert_int_equal(another.messages, 1);
}

/* ---- back-pressure ---- */

static void test_slow_reader(void **state)
{
    (void)state;
    struct seen s;
    char *piece = calloc(1, 1000000);
    struct grpc_call *call = seen_start(&P, &s, "/t.T/Slow", 0);
    for (int i = 0; i < 40; i++)
        assert_int_equal(grpc_call_send_raw(call, bytes_of(piece, 1000000)), 0);
    pair_until(&P, &P.messages, 1);
    pair_nap(&P, 100);
    /* One message given, a window held, the rest waits here. */
    assert_int_equal(P.messages, 1);
    assert_in_range(grpc_call_pending_bytes(call), 20 * 1000000, 39 * 1000000);
    assert_int_equal(s.writable, 0);
    /* Another call is not held up by it. */
    struct seen t;
    send_and_close(seen_start(&P, &t, "/t.T/Echo", 0), "x", 1);
    pair_run(&P);
    assert_int_equal(t.status, GRPC_OK);
    while (P.messages < 40 + 1) {
        int before = P.messages;
        if (before == 35) {
            pair_until(&P, &s.writable, 1);
            grpc_call_half_close(call);
        }
        grpc_call_resume(P.hanging);
        pair_until(&P, &P.messages, before + 1);
        assert_int_equal(P.messages, before + 1);
        assert_int_equal(P.half_closed, 0);
    }
    grpc_call_resume(P.hanging);
    pair_run(&P);
    assert_int_equal(s.status, GRPC_OK);
    assert_int_equal(be32_get(s.last), 40000000);
    free(piece);
}

static void pausing_message(struct grpc_call *call, struct bytes m)
{
    seen_message(call, m);
    grpc_call_pause(call);
}

/* The server is long done when the client reads on: messages first, then the end. */
static void test_paused_client(void **state)
{
    (void)state;
    static const struct grpc_call_ops ops = {.on_message = pausing_message, .on_closed = seen_closed};
    struct seen s = {.pair = &P, .stop_when_closed = 1};
    assert_int_equal(grpc_call_start(P.ch, "/t.T/Chat", &ops, &s, 0, &s.call), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(grpc_call_send_raw(s.call, bytes_of(&i, sizeof i)), 0);
    grpc_call_half_close(s.call);
    pair_until(&P, &P.closed, 1);
    pair_nap(&P, 20);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(s.messages, i + 1);
        assert_int_equal(s.closed, 0);
        assert_memory_equal(s.last, &i, sizeof i);
        grpc_call_resume(s.call);
        if (i < 4)
            pair_until(&P, &s.messages, i + 2);
    }
    pair_run(&P);
    assert_int_equal(s.status, GRPC_OK);
}

static void test_send_buffer_full(void **state)
{
    (void)state;
    struct seen s;
    char *piece = calloc(1, 8 * 1024 * 1024);
    struct grpc_call *call = seen_start(&P, &s, "/t.T/Slow", 0);
    int rc = 0;
    for (int i = 0; i < 8 && rc == 0; i++)
        rc = grpc_call_send_raw(call, bytes_of(piece, 8 * 1024 * 1024));
    assert_int_equal(rc, DFS_ETOOBIG);
    assert_int_equal(s.closed, 0);
    pair_run(&P);
    assert_int_equal(s.status, GRPC_RESOURCE_EXHAUSTED);
    free(piece);
}

/* The limits that all calls of a server or channel share. */
static void test_memory_of_all(void **state)
{
    (void)state;
    struct grpc_memory usual_max = grpc_memory_max;
    struct seen s[4];
    char *piece = calloc(1, 1000000);
    grpc_memory_max.received_bytes = 6000000;
    for (int i = 0; i < 4; i++) {
        seen_start(&P, &s[i], "/t.T/Slow", 0);
        s[i].stop_when_closed = 0;
        for (int k = 0; k < 3; k++)
            assert_int_equal(grpc_call_send_raw(s[i].call, bytes_of(piece, 1000000)), 0);
    }
    /* Each gives one message and holds two. */
    pair_until(&P, &P.messages, 4);
    pair_until(&P, &P.closed, 1);
    assert_int_equal(P.closed_status, GRPC_RESOURCE_EXHAUSTED);
    int closed = 0;
    pair_nap(&P, 30);
    for (int i = 0; i < 4; i++)
        closed += s[i].closed;
    assert_int_equal(closed, P.closed);
    assert_in_range(closed, 1, 3);
    /* What they held is given back with their end. */
    for (int i = 0; i < 4; i++)
        if (!s[i].closed)
            grpc_call_cancel(s[i].call);
    pair_until(&P, &P.closed, 4);
    for (int i = 0; i < 10; i++) {
        int before = P.closed;
        seen_start(&P, &s[0], "/t.T/Collect", 0);
        for (int k = 0; k < 3; k++)
            assert_int_equal(grpc_call_send_raw(s[0].call, bytes_of(piece, 1000000)), 0);
        grpc_call_half_close(s[0].call);
        pair_run(&P);
        assert_int_equal(s[0].status, GRPC_OK);
        pair_until(&P, &P.closed, before + 1);
    }

    grpc_memory_max.send_bytes = 2500000;
    for (int i = 0; i < 3; i++) {
        seen_start(&P, &s[i], "/t.T/Collect", 0);
        int rc = grpc_call_send_raw(s[i].call, bytes_of(piece, 1000000));
        assert_int_equal(rc, i < 2 ? 0 : DFS_ETOOBIG);
    }
    pair_run(&P);
    assert_int_equal(s[2].status, GRPC_RESOURCE_EXHAUSTED);
    seen_start(&P, &s[2], "/t.T/Echo", 0);
    pair_nap(&P, 20);
    send_and_close(s[2].call, "x", 1);
    pair_run(&P);
    assert_int_equal(s[2].status, GRPC_OK);
    grpc_memory_max = usual_max;
    free(piece);
}

/* ---- connections ---- */

static void test_nobody_there(void **state)
{
    (void)state;
    grpc_server_free(P.server);
    P.server = NULL;
    struct seen s[3];
    for (int i = 0; i < 3; i++) {
        seen_start(&P, &s[i], "/t.T/Echo", 0);
        s[i].stop_when_closed = 0;
        send_and_close(s[i].call, "x", 1);
    }
    pair_until(&P, &P.downs, 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(s[i].closed, 1);
        assert_int_equal(s[i].status, GRPC_UNAVAILABLE);
        assert_non_null(strstr(s[i].text, "cannot connect to '127.0.0.1:"));
    }
    assert_int_equal(P.down_rc, DFS_EUNAVAILABLE);
    /* There again: the next call dials. */
    pair_listen(&P, methods, METHODS);
    send_and_close(seen_start(&P, &s[0], "/t.T/Echo", 0), "x", 1);
    pair_run(&P);
    assert_int_equal(s[0].status, GRPC_OK);
    assert_int_equal(P.ups, 1);
}

static int storms;
static void storm_closed(struct grpc_call *call, enum grpc_status status, struct bytes text)
{
    static const struct grpc_call_ops storm_ops = {.on_message = seen_message, .on_closed = storm_closed};
    (void)status;
    (void)text;
    struct seen *s = grpc_call_user(call);
    storms++;
    if (P.ch != NULL)
        grpc_call_start(P.ch, "/t.T/Echo", &storm_ops, s, 0, &s->call);
}

/* Trying again at once, for ever, is slowed down. */
static void test_dial_storm(void **state)
{
    (void)state;
    static const struct grpc_call_ops storm_ops = {.on_message = seen_message, .on_closed = storm_closed};
    grpc_server_free(P.server);
    P.server = NULL;
    struct seen s = {.pair = &P};
    storms = 0;
    assert_int_equal(grpc_call_start(P.ch, "/t.T/Echo", &storm_ops, &s, 0, &s.call), 0);
    pair_nap(&P, 350);
    assert_in_range(storms, 1, 5);
    struct grpc_channel *ch = P.ch;
    P.ch = NULL;
    grpc_channel_free(ch);
}

static void test_server_gone_mid_call(void **state)
{
    (void)state;
    struct seen s[2];
    for (int i = 0; i < 2; i++) {
        seen_start(&P, &s[i], "/t.T/Hang", 0);
        s[i].stop_when_closed = 0;
        grpc_call_send_raw(s[i].call, BYTES_LIT("x"));
    }
    pair_until(&P, &P.messages, 2);
    grpc_server_free(P.server);
    P.server = NULL;
    assert_int_equal(P.closed, 2);
    assert_int_equal(P.closed_status, GRPC_CANCELLED);
    pair_until(&P, &P.downs, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(s[i].status, GRPC_UNAVAILABLE);
        assert_non_null(strstr(s[i].text, "is lost"));
    }
}

static void test_client_gone_mid_call(void **state)
{
    (void)state;
    struct seen s;
    grpc_call_send_raw(seen_start(&P, &s, "/t.T/Hang", 0), BYTES_LIT("x"));
    s.stop_when_closed = 0;
    pair_until(&P, &P.messages, 1);
    assert_int_equal(grpc_server_connections(P.server), 1);
    grpc_channel_free(P.ch);
    P.ch = NULL;
    assert_int_equal(s.status, GRPC_CANCELLED);
    pair_until(&P, &P.closed, 1);
    assert_int_equal(P.closed_status, GRPC_CANCELLED);
    assert_int_equal(grpc_server_connections(P.server), 0);
}

/* A draining server ends what it has begun; new calls go elsewhere, here to its successor on the same port. */
static void test_drain(void **state)
{
    (void)state;
    struct seen s, t;
    struct grpc_call *call = seen_start(&P, &s, "/t.T/Chat", 0);
    s.stop_when_closed = 0;
    grpc_call_send_raw(call, BYTES_LIT("x"));
    pair_until(&P, &s.messages, 1);
    struct grpc_server *old = P.server;
    grpc_server_drain(old);
    pair_nap(&P, 20);
    pair_listen(&P, methods, METHODS);
    send_and_close(seen_start(&P, &t, "/t.T/Echo", 0), "new", 3);
    pair_run(&P);
    assert_int_equal(t.status, GRPC_OK);
    assert_int_equal(P.ups, 2);
    assert_int_equal(grpc_server_connections(P.server), 1);
    /* The old call goes on. */
    grpc_call_send_raw(call, BYTES_LIT("y"));
    pair_until(&P, &s.messages, 2);
    grpc_call_half_close(call);
    pair_until(&P, &s.closed, 1);
    assert_int_equal(s.status, GRPC_OK);
    for (int i = 0; grpc_server_connections(old) > 0; i++) {
        assert_true(i < 500);
        pair_nap(&P, 10);
    }
    assert_int_equal(P.downs, 0); /* replaced before it went */
    grpc_server_free(old);
}

/* Idle connections are asked to leave; the client notices and dials when it needs to. */
static void test_idle(void **state)
{
    (void)state;
    struct seen s;
    send_and_close(seen_start(&P, &s, "/t.T/Echo", 0), "x", 1);
    pair_run(&P);
    pair_until(&P, &P.downs, 1);
    assert_int_equal(grpc_server_connections(P.server), 0);
    send_and_close(seen_start(&P, &s, "/t.T/Echo", 0), "x", 1);
    pair_run(&P);
    assert_int_equal(s.status, GRPC_OK);
    assert_int_equal(P.ups, 2);
}

/* A quiet stream is kept alive by PINGs: it outlasts many of their intervals. */
static void test_keepalive(void **state)
{
    (void)state;
    struct seen s;
    struct grpc_call *call = seen_start(&P, &s, "/t.T/Chat", 0);
    grpc_call_send_raw(call, BYTES_LIT("x"));
    pair_until(&P, &s.messages, 1);
    pair_nap(&P, 400);
    assert_int_equal(s.closed, 0);
    grpc_call_half_close(call);
    pair_run(&P);
    assert_int_equal(s.status, GRPC_OK);
}

/* A peer that is connected and says nothing is given up. */
static void test_keepalive_dead_peer(void **state)
{
    (void)state;
    grpc_server_free(P.server);
    P.server = NULL;
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons(P.addr.grpc_port)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    assert_int_equal(bind(fd, (struct sockaddr *)&in, sizeof in), 0);
    assert_int_equal(listen(fd, 5), 0);
    struct seen s;
    send_and_close(seen_start(&P, &s, "/t.T/Chat", 0), "x", 1);
    pair_run(&P);
    assert_int_equal(s.status, GRPC_UNAVAILABLE);
    assert_int_equal(P.down_rc, DFS_ETIMEOUT);
    close(fd);
}

static struct h2_times usual;

static int setup_short_idle(void **state)
{
    usual = h2_times;
    h2_times.preface_ms = 200;
    h2_times.idle_ms = 50;
    h2_times.drain_ms = 20;
    h2_times.tick_ms = 20;
    return setup(state);
}

static int setup_short_ping(void **state)
{
    usual = h2_times;
    h2_times.ping_after_ms = 40;
    h2_times.ping_wait_ms = 100;
    h2_times.tick_ms = 10;
    return setup(state);
}

static int setup_short_drain(void **state)
{
    usual = h2_times;
    h2_times.drain_ms = 30;
    return setup(state);
}

static int teardown_times(void **state)
{
    h2_times = usual;
    return teardown(state);
}

/* ---- a server on a thread of its own ---- */

static void test_two_threads(void **state)
{
    (void)state;
    struct loop *other;
    struct pair q = {.addr = {.host = "127.0.0.1", .port = 1}};
    struct grpc_channel *usual_ch = P.ch;
    assert_int_equal(loop_new("server", &other), 0);
    q.addr.grpc_port = pair_free_port();
    struct grpc_server_options o = {.loop = other, .host = "127.0.0.1", .port = q.addr.grpc_port, .methods = methods,
                                    .method_count = METHODS, .arg = &q};
    assert_int_equal(grpc_server_new(&o, &q.server), 0);
    assert_int_equal(loop_start(other), 0);
    assert_int_equal(grpc_channel_new(P.loop, &q.addr, NULL, NULL, &P.ch), 0);
    struct answer a = {.want = 2000};
    for (int i = 0; i < 2000; i++)
        assert_int_equal(ask(&a, "/t.T/Assign", 1), 0);
    pair_run(&P);
    assert_int_equal(a.ok, 2000);
    struct seen s;
    char ask_for[8];
    be32_put(ask_for, 32);
    be32_put(ask_for + 4, 1024 * 1024);
    send_and_close(seen_start(&P, &s, "/t.T/Stream", 0), ask_for, 8);
    pair_run(&P);
    assert_int_equal(s.bytes, 32u * 1024 * 1024);
    grpc_channel_free(P.ch);
    P.ch = usual_ch;
    loop_stop(other);
    loop_join(other);
    grpc_server_free(q.server);
    loop_free(other);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define T_TIMES(f, s) cmocka_unit_test_setup_teardown(f, s, teardown_times)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_unary_raw), T(test_empty_message), T(test_unary), T(test_unary_bad_answer), T(test_unary_many),
        T(test_concurrent_streams), T(test_more_than_the_limit_wait), T(test_server_stream), T(test_client_stream),
        T(test_bidi), T(test_big_message), T(test_status_message), T(test_status_message_long), T(test_unknown_method),
        T(test_too_large), T(test_no_message), T(test_early_answer), T(test_start_refused), T(test_deadline),
        T(test_deadlines_many), T(test_client_cancel), T(test_cancel_before_connect), T(test_server_cancel),
        T(test_cancel_in_message), T(test_cancel_in_closed), T(test_free_in_message), T(test_free_in_closed),
        T(test_start_in_closed), T(test_slow_reader), T(test_paused_client), T(test_send_buffer_full), T(test_memory_of_all),
        T(test_nobody_there), T(test_dial_storm), T(test_server_gone_mid_call), T(test_client_gone_mid_call),
        T_TIMES(test_drain, setup_short_drain), T_TIMES(test_idle, setup_short_idle),
        T_TIMES(test_keepalive, setup_short_ping), T_TIMES(test_keepalive_dead_peer, setup_short_ping),
        T(test_two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
