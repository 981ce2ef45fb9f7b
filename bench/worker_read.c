/* The read phase: a place, a download, every byte compared.
 *
 * What this tool wrote is compared with the content reckoned from the key.  What another tool wrote is checked by its length
 * (the framing of the answer) and, when the answer has an ETag that is a CRC-32C, by that. */
#include "bench/worker_internal.h"

#include "bench/payload.h"
#include "needle/check.h"
#include "needle/crc.h"
#include "needle/err.h"
#include "net/clock.h"

/* "\"0123abcd\"" -> the number. */
static bool etag_parse(struct bytes v, uint32_t *out)
{
    uint32_t n = 0;
    if (v.n != 10 || v.p[0] != '"' || v.p[9] != '"')
        return false;
    for (size_t i = 1; i < 9; i++) {
        char c = v.p[i];
        unsigned digit = c >= '0' && c <= '9' ? (unsigned)(c - '0') : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 : 16;
        if (digit > 15)
            return false;
        n = n << 4 | digit;
    }
    *out = n;
    return true;
}

static void on_head(void *arg, struct http_call *call, const struct http_head *head)
{
    struct slot *s = arg;
    (void)call;
    s->status = head->status;
    /* The ETag of a manifest is that of the list of chunks, not of what is sent. */
    if (s->worker->phase->list->foreign && http_header_get(head, "X-File-Store").p == NULL)
        s->has_etag = etag_parse(http_header_get(head, "ETag"), &s->etag);
}

static int on_body(void *arg, struct http_call *call, struct bytes in)
{
    struct slot *s = arg;
    (void)call;
    if (s->status != 200) {
        call_reason_add(&s->reason, in);
        return 0;
    }
    if (s->worker->phase->list->foreign) {
        if (s->has_etag)
            s->crc = crc32c(s->crc, in.p, in.n);
    } else if (s->got_bytes + in.n > s->expected_bytes) {
        s->corrupt = true;
    } else if (!payload_matches(s->fid.key, s->got_bytes, in.p, in.n)) {
        s->corrupt = true;
    }
    s->got_bytes += in.n;
    return 0;
}

/* Whether what came is what was written. */
static bool is_right(const struct slot *s)
{
    if (s->worker->phase->list->foreign)
        return !s->has_etag || s->crc == s->etag;
    return !s->corrupt && s->got_bytes == s->expected_bytes;
}

static void on_done(void *arg, struct http_call *call, int rc, int status)
{
    struct slot *s = arg;
    struct worker *w = s->worker;
    uint64_t now = clock_mono_ns();

    (void)call;
    s->status = status;
    if (rc == 0 && status == 200 && is_right(s)) {
        latency_add(&w->latency, now - s->start_ns);
        slot_succeeded(s, s->got_bytes);
        return;
    }
    if (rc == 0 && status == 200) {
        char fid[FID_TEXT_MAX];
        fid_format(&s->fid, fid);
        count_add(&w->counts.corrupt, 1);
        bench_phase_error(w->phase, "%s at %.200s:%u is corrupt: %llu bytes came that are not what was written", fid,
                          s->addr->host, (unsigned)s->addr->port, (unsigned long long)s->got_bytes);
    } else {
        slot_report(s, "read", rc);
        master_client_forget(w->masters, s->fid.volume_id);
    }
    slot_failed(s);
}

static const struct http_call_ops read_ops = {on_head, on_body, on_done};

static void slot_get(struct slot *s)
{
    struct worker *w = s->worker;
    struct http_call_request req = {
        .addr = s->addr,
        .method = HTTP_GET,
        .target = bytes_of(s->target, call_target(&s->fid, bytes_of("", 0), s->target)),
        .deadline_ms = w->o->timeout_ms,
        .ops = &read_ops,
        .arg = s,
    };
    int rc = http_call_start(w->http, &req, NULL);
    if (rc != 0) {
        slot_report(s, "read", rc);
        slot_failed(s);
    }
}

static void on_looked_up(struct master_lookup *l, int rc)
{
    struct slot *s = CONTAINER_OF(l, struct slot, ask.lookup);
    struct worker *w = s->worker;

    if (rc != 0) {
        bench_phase_error(w->phase, "cannot look up a volume: %s", l->error);
        slot_failed(s);
        return;
    }
    s->addr = l->addr;
    if (w->server[0] == '\0')
        addr_format(s->addr, w->server);
    slot_get(s);
}

void slot_read(struct slot *s)
{
    struct worker *w = s->worker;
    const struct list *list = w->phase->list;

    s->fid = list->fids[s->number % list->count];
    s->expected_bytes = payload_bytes(s->fid.key, list->size_bytes);
    s->got_bytes = 0;
    s->corrupt = s->has_etag = false;
    s->crc = 0;
    s->addr = master_client_place(w->masters, s->fid.volume_id);
    if (s->addr != NULL) {
        slot_get(s);
        return;
    }
    s->ask.lookup = (struct master_lookup){.volume_id = s->fid.volume_id, .done = on_looked_up};
    if (master_lookup_start(w->masters, &s->ask.lookup) != 0) {
        bench_phase_error(w->phase, "cannot look up volume %u: %s", s->fid.volume_id, s->ask.lookup.error);
        slot_failed(s);
    }
}
