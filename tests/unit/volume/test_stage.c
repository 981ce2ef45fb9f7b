/* Uploads in memory and in files: what comes out is what went in, whatever the bounds, and nobody waits for ever. */
#include "volume/stage.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "needle/check.h"
#include "needle/crc.h"
#include "needle/err.h"
#include "net/clock.h"
#include "net/log.h"
#include "net/rand.h"
#include "tests/support/engine.h"
#include "tests/support/fault.h"
#include "tests/support/tmpdir.h"
#include "volume/disk_location.h"
#include "volume/volume.h"

#define VOLUME 3u
#define BODY_MAX (6u << 20)

struct fixture {
    char *dir;
    char *data;
    struct store_options o;
    struct engine e;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    f->dir = tmpdir_new("stage");
    f->data = malloc(BODY_MAX);
    engine_fill(f->data, BODY_MAX, 9);
    engine_options(&f->o, f->dir);
    f->o.durability = DURABILITY_NONE;
    f->o.stage_bytes = 1u << 20;
    f->o.pool_bytes = 8 * CHUNK_BYTES;
    f->o.dirty_bytes = 4u << 20;
    fault_install(NULL);
    engine_open(&f->e, &f->o, 2);
    assert_int_equal(engine_allocate(&f->e, VOLUME), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    fault_clear();
    fault_release();
    assert_int_equal(chunk_pool_used_bytes(store_chunks(f->e.store)), 0);
    engine_close(&f->e);
    fault_remove();
    tmpdir_free(f->dir);
    free(f->data);
    free(f);
    return 0;
}

/* ---- a script that runs on a loop ---- */

struct script {
    struct loop_msg msg;
    struct fixture *f;
    void (*fn)(struct script *s);
    struct stage *stage;
    size_t at, n, step;
    bool privileged, expect, direct;
    int resets_left;
    int rc;
    int ready;
    sem_t done;
};

static void on_script(struct loop_msg *msg)
{
    struct script *s = CONTAINER_OF(msg, struct script, msg);

    s->fn(s);
}

static void start(struct script *s, uint32_t loop)
{
    sem_init(&s->done, 0, 0);
    s->msg.run = on_script;
    loop_post(s->f->e.loops[loop], &s->msg);
}

static void wait_script(struct script *s)
{
    while (sem_wait(&s->done) != 0)
        ;
    sem_destroy(&s->done);
}

static void end(struct script *s, int rc)
{
    s->rc = rc;
    stage_free(s->stage);
    s->stage = NULL;
    sem_post(&s->done);
}

static void check_content(struct script *s)
{
    char *buf = malloc(s->n + 1);

    assert_int_equal(stage_bytes(s->stage), s->n);
    assert_int_equal(stage_crc(s->stage), crc32c(0, s->f->data, s->n));
    /* stage_read() may block: small enough here to do it on the loop */
    assert_int_equal(stage_read(s->stage, 0, buf, s->n), 0);
    assert_memory_equal(buf, s->f->data, s->n);
    if (s->n > 10) {
        assert_int_equal(stage_read(s->stage, s->n / 2 - 3, buf, 7), 0);
        assert_memory_equal(buf, s->f->data + s->n / 2 - 3, 7);
    }
    if (!stage_in_memory(s->stage)) {
        assert_int_equal(stage_pieces(s->stage), 1);
        assert_int_equal(stage_piece(s->stage, 0).n, STAGE_HEAD_BYTES);
        assert_memory_equal(stage_piece(s->stage, 0).p, s->f->data, STAGE_HEAD_BYTES);
    }
    free(buf);
}

/* Puts the next bytes where the stage has room for them; false: it has not. */
static bool put_direct(struct script *s, size_t n)
{
    void *p = NULL;
    size_t room = stage_room(s->stage, &p);

    if (room == 0)
        return false;
    n = n < room ? n : room;
    memcpy(p, s->f->data + s->at, n);
    stage_filled(s->stage, n);
    s->at += n;
    return true;
}

static void go_on(void *arg)
{
    struct script *s = arg;
    int rc = 0;

    s->ready++;
    while (rc == 0 && s->at < s->n) {
        size_t n = s->step < s->n - s->at ? s->step : s->n - s->at, taken;
        if (s->direct && put_direct(s, n))
            continue;
        rc = stage_append(s->stage, bytes_of(s->f->data + s->at, n), &taken);
        s->at += taken;
        if (rc == 0 && s->resets_left > 0 && s->at > s->n / 2) {
            s->resets_left--;
            s->at = 0;
            assert_int_equal(stage_reset(s->stage), 0);
        }
    }
    if (rc == 0)
        rc = stage_finish(s->stage);
    if (rc == DFS_EAGAIN)
        return;
    if (rc == 0)
        check_content(s);
    end(s, rc);
}

static void begin(struct script *s)
{
    s->rc = stage_new(s->f->e.store, VOLUME, s->f->e.loops[0], s->privileged, BODY_MAX, go_on, s, &s->stage);
    assert_int_equal(s->rc, 0);
    if (s->expect)
        stage_expect(s->stage, s->n);
    go_on(s);
}

static void what_goes_in_comes_out(void **state)
{
    static const size_t sizes[] = {0, 1, 100, BODY_SMALL_MAX, BODY_SMALL_MAX + 1, CHUNK_BYTES - 1, CHUNK_BYTES,
                                   CHUNK_BYTES + 1, 1u << 20, (1u << 20) + 1, 5 * CHUNK_BYTES, 3000000, BODY_MAX};
    static const size_t steps[] = {777, 65536, 1u << 20};

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        for (size_t j = 0; j < ARRAY_LEN(steps); j++)
            for (int way = 0; way < 4; way++) {
                struct script s = {.f = *state, .fn = begin, .n = sizes[i], .step = steps[j], .expect = (way & 1) != 0,
                                   .direct = (way & 2) != 0};
                start(&s, 0);
                wait_script(&s);
                assert_int_equal(s.rc, 0);
            }
}

static void a_reset_forgets_all(void **state)
{
    static const size_t sizes[] = {1000, 700000, 3000000};

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct script s = {.f = *state, .fn = begin, .n = sizes[i], .step = 100000, .resets_left = 3, .direct = i % 2 != 0};
        start(&s, 0);
        wait_script(&s);
        assert_int_equal(s.rc, 0);
        assert_int_equal(s.resets_left, 0);
    }
}

/* ---- bounds ---- */

#define CROWD 24

/* Far more than pool and window hold at once, and half of the uploads say nothing of their length. */
static void a_crowd_gets_through_small_bounds(void **state)
{
    struct script s[CROWD];

    for (int i = 0; i < CROWD; i++) {
        s[i] = (struct script){.f = *state, .fn = begin, .n = 200000 + (size_t)i * 90000, .step = 50000,
                               .expect = i % 2 == 0, .privileged = i % 3 == 0, .direct = i % 4 < 2};
        start(&s[i], 0);
    }
    for (int i = 0; i < CROWD; i++) {
        wait_script(&s[i]);
        assert_int_equal(s[i].rc, 0);
    }
}

static void begin_limited(struct script *s)
{
    size_t taken;

    assert_int_equal(stage_new(s->f->e.store, VOLUME, s->f->e.loops[0], false, 1000, go_on, s, &s->stage), 0);
    assert_int_equal(stage_append(s->stage, bytes_of(s->f->data, 600), &taken), 0);
    assert_int_equal(stage_append(s->stage, bytes_of(s->f->data, 401), &taken), DFS_ETOOBIG);
    assert_int_equal(stage_append(s->stage, bytes_of(s->f->data, 400), &taken), 0);
    assert_int_equal(stage_bytes(s->stage), 1000);
    end(s, 0);
}

/* Bytes that come straight into a chunk are held to the same limit. */
static void begin_limited_direct(struct script *s)
{
    size_t taken;
    void *p;

    assert_int_equal(stage_new(s->f->e.store, VOLUME, s->f->e.loops[0], false, 100000, go_on, s, &s->stage), 0);
    stage_expect(s->stage, 100000);
    assert_int_equal(stage_append(s->stage, bytes_of(s->f->data, 90000), &taken), 0);
    assert_int_equal(stage_room(s->stage, &p), 10000);
    memcpy(p, s->f->data + 90000, 10000);
    stage_filled(s->stage, 10000);
    assert_int_equal(stage_room(s->stage, &p), 0);
    assert_int_equal(stage_append(s->stage, bytes_of(s->f->data, 1), &taken), DFS_ETOOBIG);
    s->n = 100000;
    check_content(s);
    end(s, 0);
}

static void the_limit_is_the_limit(void **state)
{
    struct script s = {.f = *state, .fn = begin_limited}, d = {.f = *state, .fn = begin_limited_direct};

    start(&s, 0);
    wait_script(&s);
    start(&d, 0);
    wait_script(&d);
}

static void begin_unknown(struct script *s)
{
    assert_int_equal(stage_new(s->f->e.store, 99, s->f->e.loops[0], false, 1000, go_on, s, &s->stage), DFS_ENOVOLUME);
    end(s, 0);
}

static void an_unknown_volume_is_said_so(void **state)
{
    struct script s = {.f = *state, .fn = begin_unknown};

    start(&s, 0);
    wait_script(&s);
}

/* ---- failures ---- */

static void a_file_that_cannot_be_written_fails_the_upload(void **state)
{
    static const struct {
        uint32_t call;
        int err, rc;
    } faults[] = {
        {FAULT(FAULT_WRITE), ENOSPC, DFS_ENOSPC},
        {FAULT(FAULT_WRITE), EIO, DFS_EIO},
        {FAULT(FAULT_OPEN), ENOSPC, DFS_ENOSPC},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        struct script s = {.f = f, .fn = begin, .n = 5000000, .step = 100000, .direct = i % 2 == 0};
        fault_add(&(struct fault_rule){.calls = faults[i].call, .first = 1, .every = 1, .err = faults[i].err});
        start(&s, 0);
        wait_script(&s);
        fault_clear();
        assert_int_equal(s.rc, faults[i].rc);
    }
    /* Where O_TMPFILE is not known, a file of a name that is gone at once. */
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_OPEN), .first = 1, .err = EOPNOTSUPP});
    struct script s = {.f = f, .fn = begin, .n = 5000000, .step = 100000};
    start(&s, 0);
    wait_script(&s);
    assert_int_equal(s.rc, 0);
}

static void begin_and_leave(struct script *s)
{
    size_t taken;

    assert_int_equal(stage_new(s->f->e.store, VOLUME, s->f->e.loops[0], false, BODY_MAX, go_on, s, &s->stage), 0);
    (void)stage_append(s->stage, bytes_of(s->f->data, s->n), &taken);
    end(s, 0);
}

/* Freed with a write in flight, a chunk or an admission waited for: nothing is called back, nothing is kept. */
static void leaving_early_gives_all_back(void **state)
{
    struct fixture *f = *state;
    struct script s[CROWD];

    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_WRITE), .first = 1, .every = 1, .delay_ms = 30});
    for (int i = 0; i < CROWD; i++) {
        s[i] = (struct script){.f = f, .fn = begin_and_leave, .n = 100000 + (size_t)i * 100000};
        start(&s[i], 0);
    }
    for (int i = 0; i < CROWD; i++) {
        wait_script(&s[i]);
        assert_int_equal(s[i].ready, 0);
    }
    fault_clear();
    for (int i = 0; i < 200 && chunk_pool_used_bytes(store_chunks(f->e.store)) > 0; i++)
        clock_sleep_ms(5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_goes_in_comes_out, setup, teardown),
        cmocka_unit_test_setup_teardown(a_reset_forgets_all, setup, teardown),
        cmocka_unit_test_setup_teardown(a_crowd_gets_through_small_bounds, setup, teardown),
        cmocka_unit_test_setup_teardown(the_limit_is_the_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unknown_volume_is_said_so, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_that_cannot_be_written_fails_the_upload, setup, teardown),
        cmocka_unit_test_setup_teardown(leaving_early_gives_all_back, setup, teardown),
    };

    log_threshold = LOG_ERROR + 1;
    if (rand_init() != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
