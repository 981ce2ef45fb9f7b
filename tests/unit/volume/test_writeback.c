/* The window and its gate, over a disk that can be made slow, held, or broken. */
#include "volume/writeback.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/clock.h"
#include "net/log.h"
#include "tests/support/fault.h"
#include "tests/support/tmpdir.h"
#include "volume/disk.h"

#define MB (1024u * 1024u)
#define WINDOW (8u * MB)

struct bench {
    char *dir;
    struct loop *loop;
    struct writeback *wb;
    struct writeback_file file;
    int fd;
    uint64_t pos;
};

static int open_file(struct bench *b, const char *name)
{
    char *path = tmpdir_path(b->dir, name);
    int fd = -1;
    assert_int_equal(disk_open(path, O_RDWR | O_CREAT, &fd), 0);
    free(path);
    return fd;
}

static void bench_open(struct bench *b, bool datasync, uint32_t max_age_ms)
{
    memset(b, 0, sizeof *b);
    fault_install(NULL);
    b->dir = tmpdir_new("writeback");
    assert_int_equal(loop_new("test", &b->loop), 0);
    assert_int_equal(loop_start(b->loop), 0);
    struct writeback_options o = {.name = "flusher", .window_bytes = WINDOW, .datasync = datasync, .max_age_ms = max_age_ms};
    assert_int_equal(writeback_new(&o, &b->wb), 0);
    b->fd = open_file(b, "1.dat");
    writeback_attach(b->wb, &b->file, b->fd, 0);
}

static void bench_close(struct bench *b)
{
    writeback_detach(&b->file);
    writeback_free(b->wb);
    disk_close(&b->fd);
    loop_stop(b->loop);
    loop_join(b->loop);
    loop_free(b->loop);
    fault_remove();
    tmpdir_free(b->dir);
}

/* n bytes into the page cache. */
static void write_bytes(struct bench *b, uint64_t n)
{
    static char buf[MB];
    while (n > 0) {
        uint64_t part = n < sizeof buf ? n : sizeof buf;
        assert_int_equal(disk_write(b->fd, buf, part, b->pos), 0);
        b->pos += part;
        n -= part;
    }
    writeback_wrote(&b->file, b->pos);
}

static struct writeback_stats stats(struct bench *b)
{
    struct writeback_stats s;
    writeback_stats(b->wb, &s);
    return s;
}

/* Waits for what must come about; gives up after half a minute. */
#define EVENTUALLY(condition)                             \
    do {                                                  \
        for (int i_ = 0; i_ < 30000 && !(condition); i_++) \
            clock_sleep_ms(1);                            \
        assert_true(condition);                           \
    } while (0)

/* ---- waiters that note in which order they were let in ---- */

struct visitor {
    struct writeback_waiter w;
    unsigned id;
    atomic_uint *clock; /* tells the order */
    atomic_uint when;   /* 1 = first; 0 = not yet */
};

static void on_admitted(struct loop_msg *msg)
{
    struct visitor *v = (struct visitor *)((char *)msg - offsetof(struct visitor, w.msg));
    atomic_store(&v->when, atomic_fetch_add(v->clock, 1) + 1);
}

static bool visit(struct bench *b, struct visitor *v, atomic_uint *clock, uint64_t n, bool privileged)
{
    memset(v, 0, sizeof *v);
    v->clock = clock;
    v->w.loop = b->loop;
    v->w.msg.run = on_admitted;
    v->w.privileged = privileged;
    return writeback_admit(b->wb, &v->w, n);
}

/* ---- the window ---- */

static void dirty_bytes_are_what_is_written_and_not_flushed(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, false, 60000);
    write_bytes(&b, 1000);
    assert_int_equal(stats(&b).dirty_bytes, 1000);
    write_bytes(&b, 500);
    assert_int_equal(stats(&b).dirty_bytes, 1500);
    writeback_synced(&b.file, 1000);
    assert_int_equal(stats(&b).dirty_bytes, 500);
    writeback_synced(&b.file, 400); /* late news */
    assert_int_equal(stats(&b).dirty_bytes, 500);
    writeback_synced(&b.file, 1500);
    assert_int_equal(stats(&b).dirty_bytes, 0);

    /* The end of the file is cut off and written anew. */
    write_bytes(&b, 300);
    b.pos = 1600;
    writeback_wrote(&b.file, b.pos);
    assert_int_equal(stats(&b).dirty_bytes, 100);
    b.pos = 1200;
    writeback_wrote(&b.file, b.pos);
    assert_int_equal(stats(&b).dirty_bytes, 0);
    write_bytes(&b, 50);
    assert_int_equal(stats(&b).dirty_bytes, 50);
    assert_int_equal(stats(&b).window_bytes, WINDOW);
    bench_close(&b);
}

static void whole_steps_are_started_at_once_and_waited_for_late(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, false, 60000);
    write_bytes(&b, MB - 4096);
    clock_sleep_ms(30);
    assert_int_equal(fault_count(FAULT_SYNC_FILE_RANGE), 0);
    write_bytes(&b, 8192);
    EVENTUALLY(fault_count(FAULT_SYNC_FILE_RANGE) == 1);
    clock_sleep_ms(30);
    assert_int_equal(fault_count(FAULT_SYNC_FILE_RANGE), 1); /* nobody waited for it */
    assert_int_equal(stats(&b).dirty_bytes, MB + 4096);
    assert_int_equal(stats(&b).flushes, 0);
    write_bytes(&b, 4 * MB); /* more than half of the window */
    EVENTUALLY(stats(&b).dirty_bytes < WINDOW / 2);
    assert_true(stats(&b).flushes > 0);
    assert_int_equal(fault_count(FAULT_FDATASYNC), 0);
    assert_true(stats(&b).flush_p50_ns <= stats(&b).flush_p99_ns);
    bench_close(&b);
}

static void old_bytes_are_flushed_however_few(void **state)
{
    (void)state;
    for (int datasync = 0; datasync < 2; datasync++) {
        struct bench b;
        bench_open(&b, datasync, 20);
        for (int i = 0; i < 3; i++) {
            write_bytes(&b, 100);
            EVENTUALLY(stats(&b).dirty_bytes == 0);
        }
        assert_int_equal(fault_count(FAULT_FDATASYNC) != 0, datasync);
        assert_int_equal(fault_count(FAULT_SYNC_FILE_RANGE) == 0, datasync);
        bench_close(&b);
    }
}

/* In `paced` mode only an fdatasync makes bytes clean. */
static void windows_are_closed_with_fdatasync(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, true, 60000);
    write_bytes(&b, 3 * MB);
    EVENTUALLY(fault_count(FAULT_SYNC_FILE_RANGE) >= 1);
    clock_sleep_ms(20);
    assert_int_equal(stats(&b).dirty_bytes, 3 * MB);
    assert_int_equal(fault_count(FAULT_FDATASYNC), 0);
    write_bytes(&b, 2 * MB);
    EVENTUALLY(stats(&b).dirty_bytes == 0);
    assert_int_equal(fault_count(FAULT_FDATASYNC), 1);
    bench_close(&b);
}

static void many_files_share_one_window(void **state)
{
    (void)state;
    struct bench b;
    struct writeback_file files[20];
    int fds[20];
    bench_open(&b, true, 60000);
    char buf[1000] = {0};
    for (int i = 0; i < 20; i++) {
        char name[16] = {'f', (char)('a' + i), 0};
        fds[i] = open_file(&b, name);
        files[i].on_error = NULL;
        writeback_attach(b.wb, &files[i], fds[i], 0);
        assert_int_equal(disk_write(fds[i], buf, sizeof buf, 0), 0);
        writeback_wrote(&files[i], sizeof buf);
    }
    assert_int_equal(stats(&b).dirty_bytes, 20 * sizeof buf);
    write_bytes(&b, WINDOW / 2);
    EVENTUALLY(stats(&b).dirty_bytes < WINDOW / 2);
    for (int i = 0; i < 20; i++) {
        writeback_detach(&files[i]);
        writeback_detach(&files[i]); /* a second time is nothing */
        disk_close(&fds[i]);
    }
    assert_true(stats(&b).dirty_bytes <= WINDOW / 2);
    bench_close(&b);
}

/* ---- the gate ---- */

static void gate_opens_in_order(void **state)
{
    (void)state;
    struct bench b;
    struct visitor v[40];
    atomic_uint clock = 0;
    bench_open(&b, false, 60000);
    struct visitor first;
    /* The disk holds still; three quarters of the window are admitted and another eighth is dirty. */
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_SYNC_FILE_RANGE), .every = 1, .delay_ms = FAULT_UNTIL_RELEASED});
    assert_true(visit(&b, &first, &clock, WINDOW / 4, false));
    assert_true(visit(&b, &first, &clock, WINDOW / 4, false));
    assert_true(visit(&b, &first, &clock, WINDOW / 4, false));
    write_bytes(&b, WINDOW / 8);
    assert_int_equal(stats(&b).admitted_bytes, WINDOW / 4 * 3);
    for (unsigned i = 0; i < 40; i++)
        assert_false(visit(&b, &v[i], &clock, 1000 + i * 10000, false));
    assert_int_equal(stats(&b).waiting, 40);

    /* They come in as bytes are returned, however small the later ones are. */
    writeback_return(b.wb, WINDOW / 4, false);
    EVENTUALLY(atomic_load(&v[0].when) != 0);
    fault_release();
    writeback_return(b.wb, WINDOW / 4, false);
    writeback_return(b.wb, WINDOW / 4, false);
    for (unsigned i = 0; i < 40; i++) {
        EVENTUALLY(atomic_load(&v[i].when) != 0);
        writeback_return(b.wb, 1000 + i * 10000, false);
    }
    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(atomic_load(&v[i].when), i + 1);
    assert_int_equal(stats(&b).waiting, 0);
    assert_int_equal(stats(&b).admitted_bytes, 0);
    assert_true(stats(&b).paced_ns > 0);
    bench_close(&b);
}

static void slow_clients_do_not_hold_up_replicas_nor_the_reverse(void **state)
{
    (void)state;
    for (int privileged = 0; privileged < 2; privileged++) {
        struct bench b;
        struct visitor v[4];
        atomic_uint clock = 0;
        bench_open(&b, false, 60000);
        for (int i = 0; i < 3; i++)
            assert_true(visit(&b, &v[i], &clock, WINDOW / 4, privileged));
        assert_false(visit(&b, &v[3], &clock, 100, privileged)); /* its kind has its share */
        /* The other kind goes in past it, as long as there is room. */
        struct visitor other;
        for (int i = 0; i < 100; i++) {
            assert_true(visit(&b, &other, &clock, WINDOW / 8, !privileged));
            assert_true(visit(&b, &other, &clock, WINDOW / 8, !privileged));
            writeback_return(b.wb, WINDOW / 4, !privileged);
        }
        assert_int_equal(atomic_load(&v[3].when), 0);
        writeback_return(b.wb, WINDOW / 4, privileged);
        EVENTUALLY(atomic_load(&v[3].when) != 0);
        writeback_return(b.wb, WINDOW / 2 + 100, privileged);
        bench_close(&b);
    }
}

/* With both kinds at the gate they take turns by bytes: whoever comes in masses does not starve the other. */
static void kinds_take_turns(void **state)
{
    (void)state;
    for (int many = 0; many < 2; many++) {
        struct bench b;
        struct visitor fill, crowd[60], one[6];
        atomic_uint clock = 0;
        bench_open(&b, false, 60000);
        assert_true(visit(&b, &fill, &clock, WINDOW / 4, false));
        assert_true(visit(&b, &fill, &clock, WINDOW / 4, true));
        assert_true(visit(&b, &fill, &clock, WINDOW / 4, false));
        assert_true(visit(&b, &fill, &clock, WINDOW / 4, true));
        for (int i = 0; i < 60; i++)
            assert_false(visit(&b, &crowd[i], &clock, 100000, many));
        for (int i = 0; i < 6; i++)
            assert_false(visit(&b, &one[i], &clock, 100000, !many));
        writeback_return(b.wb, WINDOW / 2, true);
        writeback_return(b.wb, WINDOW / 2, false);
        for (int i = 0; i < 6; i++)
            EVENTUALLY(atomic_load(&one[i].when) != 0);
        for (int i = 0; i < 60; i++)
            EVENTUALLY(atomic_load(&crowd[i].when) != 0);
        for (int i = 0; i < 6; i++)
            assert_in_range(atomic_load(&one[i].when), 1, 2 * i + 2);
        for (int i = 1; i < 60; i++)
            assert_true(atomic_load(&crowd[i].when) > atomic_load(&crowd[i - 1].when));
        writeback_return(b.wb, 60 * 100000, many);
        writeback_return(b.wb, 6 * 100000, !many);
        bench_close(&b);
    }
}

static void large_requests_get_in_alone(void **state)
{
    (void)state;
    struct bench b;
    struct visitor large, next, other;
    atomic_uint clock = 0;
    bench_open(&b, false, 60000);
    assert_true(visit(&b, &large, &clock, WINDOW * 10ull, false));
    assert_false(visit(&b, &next, &clock, 10, false));
    assert_true(visit(&b, &other, &clock, WINDOW / 8, true)); /* privileged work goes on beside it */
    writeback_return(b.wb, WINDOW / 8, true);
    writeback_return(b.wb, WINDOW * 10ull, false);
    EVENTUALLY(atomic_load(&next.when) != 0);
    assert_false(visit(&b, &large, &clock, WINDOW * 10ull, false));
    writeback_return(b.wb, 10, false);
    EVENTUALLY(atomic_load(&large.when) != 0);
    writeback_return(b.wb, WINDOW * 10ull, false);
    bench_close(&b);
}

static void who_gives_up_is_not_called(void **state)
{
    (void)state;
    struct bench b;
    struct visitor fill, gone, next;
    atomic_uint clock = 0;
    bench_open(&b, false, 60000);
    for (int i = 0; i < 3; i++)
        assert_true(visit(&b, &fill, &clock, WINDOW / 4, false));
    assert_false(visit(&b, &gone, &clock, WINDOW / 4, false));
    assert_false(visit(&b, &next, &clock, 1000, false));
    assert_true(writeback_cancel(b.wb, &gone.w));
    assert_false(writeback_cancel(b.wb, &gone.w));
    assert_int_equal(stats(&b).waiting, 1);
    writeback_return(b.wb, WINDOW / 4, false);
    EVENTUALLY(atomic_load(&next.when) != 0);
    assert_false(writeback_cancel(b.wb, &next.w)); /* too late */
    assert_int_equal(atomic_load(&gone.when), 0);
    writeback_return(b.wb, WINDOW / 2 + 1000, false);
    bench_close(&b);
}

/* Clients on threads of their own push bytes through a slow disk: the bound holds at every look, everyone gets through, and nobody
 * waits for ever while others go on. */
#define CLIENTS 8
#define ROUNDS 40
#define PIECE (256u * 1024u)

struct client {
    struct bench *b;
    struct writeback_waiter w;
    pthread_mutex_t *writer; /* stands for the one writer thread */
    pthread_mutex_t lock;
    pthread_cond_t in;
    bool admitted;
    uint64_t over, longest_ns;
};

static void on_client_admitted(struct loop_msg *msg)
{
    struct client *c = (struct client *)((char *)msg - offsetof(struct client, w.msg));
    pthread_mutex_lock(&c->lock);
    c->admitted = true;
    pthread_cond_signal(&c->in);
    pthread_mutex_unlock(&c->lock);
}

static void *client_main(void *arg)
{
    struct client *c = arg;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t began = clock_mono_ns();
        c->admitted = false;
        if (!writeback_admit(c->b->wb, &c->w, PIECE)) {
            pthread_mutex_lock(&c->lock);
            while (!c->admitted)
                pthread_cond_wait(&c->in, &c->lock);
            pthread_mutex_unlock(&c->lock);
        }
        uint64_t waited = clock_mono_ns() - began;
        if (waited > c->longest_ns)
            c->longest_ns = waited;
        pthread_mutex_lock(c->writer);
        write_bytes(c->b, PIECE);
        pthread_mutex_unlock(c->writer);
        struct writeback_stats s = stats(c->b);
        c->over += s.dirty_bytes + s.admitted_bytes > WINDOW + CLIENTS * PIECE; /* written and not yet returned count twice */
        c->over += s.dirty_bytes > WINDOW;
        writeback_return(c->b->wb, PIECE, c->w.privileged);
    }
    return NULL;
}

static void the_bound_holds_under_load(void **state)
{
    (void)state;
    for (int datasync = 0; datasync < 2; datasync++) {
        struct bench b;
        struct client client[CLIENTS];
        pthread_t thread[CLIENTS];
        pthread_mutex_t writer = PTHREAD_MUTEX_INITIALIZER;
        bench_open(&b, datasync, 60000);
        fault_add(&(struct fault_rule){
            .calls = FAULT(FAULT_SYNC_FILE_RANGE) | FAULT(FAULT_FDATASYNC), .every = 1, .delay_ms = 3});
        for (int i = 0; i < CLIENTS; i++) {
            client[i] = (struct client){.b = &b, .writer = &writer, .lock = PTHREAD_MUTEX_INITIALIZER,
                                        .in = PTHREAD_COND_INITIALIZER};
            client[i].w.loop = b.loop;
            client[i].w.msg.run = on_client_admitted;
            client[i].w.privileged = i % 4 == 0;
            assert_int_equal(pthread_create(&thread[i], NULL, client_main, &client[i]), 0);
        }
        for (int i = 0; i < CLIENTS; i++) {
            pthread_join(thread[i], NULL);
            assert_int_equal(client[i].over, 0);
        }
        assert_int_equal(b.pos, (uint64_t)CLIENTS * ROUNDS * PIECE);
        assert_int_equal(stats(&b).admitted_bytes, 0);
        assert_int_equal(stats(&b).waiting, 0);
        bench_close(&b);
    }
}

/* ---- errors and the end ---- */

static atomic_int errors_seen, error_code;

static void on_flush_error(struct writeback_file *f, int rc)
{
    (void)f;
    atomic_store(&error_code, rc);
    atomic_fetch_add(&errors_seen, 1);
}

static void a_failed_flush_is_told_once(void **state)
{
    (void)state;
    static const struct {
        bool datasync;
        uint32_t call;
    } kinds[] = {{false, FAULT(FAULT_SYNC_FILE_RANGE)}, {true, FAULT(FAULT_SYNC_FILE_RANGE)}, {true, FAULT(FAULT_FDATASYNC)}};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct bench b;
        struct visitor v, fill;
        atomic_uint clock = 0;
        bench_open(&b, kinds[i].datasync, 60000);
        b.file.on_error = on_flush_error;
        atomic_store(&errors_seen, 0);
        fault_add(&(struct fault_rule){.calls = kinds[i].call, .first = 1, .every = 1, .err = EIO, .delay_ms = 20});
        assert_true(visit(&b, &fill, &clock, WINDOW / 4, true));
        assert_true(visit(&b, &fill, &clock, WINDOW / 4, true));
        write_bytes(&b, WINDOW / 2);
        bool at_once = visit(&b, &v, &clock, WINDOW / 8, false);
        EVENTUALLY(atomic_load(&errors_seen) == 1);
        assert_int_equal(atomic_load(&error_code), DFS_EIO);
        EVENTUALLY(at_once || atomic_load(&v.when) != 0); /* its bytes hold up nobody */
        write_bytes(&b, WINDOW);
        clock_sleep_ms(30);
        assert_int_equal(atomic_load(&errors_seen), 1);
        assert_int_equal(stats(&b).flush_errors, 1);
        assert_int_equal(stats(&b).dirty_bytes, 0);
        writeback_return(b.wb, WINDOW / 8, false);
        writeback_return(b.wb, WINDOW / 2, true);
        bench_close(&b);
    }
}

static void *detach_main(void *arg)
{
    struct bench *b = arg;
    writeback_detach(&b->file);
    return NULL;
}

static void detaching_waits_for_the_flusher(void **state)
{
    (void)state;
    struct bench b;
    pthread_t thread;
    bench_open(&b, true, 60000);
    int rule = fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FDATASYNC), .delay_ms = FAULT_UNTIL_RELEASED});
    write_bytes(&b, WINDOW / 2);
    EVENTUALLY(fault_held() == 1);
    assert_int_equal(pthread_create(&thread, NULL, detach_main, &b), 0);
    clock_sleep_ms(30);
    assert_int_equal(stats(&b).dirty_bytes, WINDOW / 2); /* still there */
    fault_release();
    pthread_join(thread, NULL);
    assert_int_equal(stats(&b).dirty_bytes, 0);
    assert_int_equal(fault_hits(rule), 1);
    bench_close(&b);
}

struct syncer {
    struct bench *b;
    pthread_t thread;
    atomic_int rc; /* 1 = not known yet */
};

static void *sync_main(void *arg)
{
    struct syncer *s = arg;
    atomic_store(&s->rc, writeback_datasync(s->b->wb, &s->b->file, s->b->fd));
    return NULL;
}

static void sync_start(struct syncer *s, struct bench *b)
{
    s->b = b;
    atomic_init(&s->rc, 1);
    assert_int_equal(pthread_create(&s->thread, NULL, sync_main, s), 0);
}

static int sync_end(struct syncer *s)
{
    pthread_join(s->thread, NULL);
    return atomic_load(&s->rc);
}

/* The kernel tells an error once.  The flusher is just meeting it: it is not lost on a writer whose own sync comes out well. */
static void a_writer_learns_of_the_flushers_error(void **state)
{
    (void)state;
    struct bench b;
    struct syncer s;
    struct writeback_file unattached = {0};
    bench_open(&b, false, 60000);
    assert_int_equal(writeback_datasync(b.wb, &unattached, b.fd), 0);
    assert_int_equal(writeback_datasync(NULL, &unattached, b.fd), 0);
    write_bytes(&b, 4096);
    assert_int_equal(writeback_datasync(b.wb, &b.file, b.fd), 0);
    fault_add(&(struct fault_rule){.calls = FAULT(FAULT_SYNC_FILE_RANGE), .err = EIO, .delay_ms = FAULT_UNTIL_RELEASED});
    write_bytes(&b, MB);
    EVENTUALLY(fault_held() == 1);
    sync_start(&s, &b);
    clock_sleep_ms(30);
    assert_int_equal(atomic_load(&s.rc), 1);
    fault_release();
    assert_int_equal(sync_end(&s), DFS_EIO);
    assert_int_equal(writeback_datasync(b.wb, &b.file, b.fd), DFS_EIO);
    bench_close(&b);
}

/* Two syncs of one file at a time, one of which is told; whichever comes first, and whichever ends first. */
static void one_error_counts_for_all_who_sync(void **state)
{
    (void)state;
    for (int told = 0; told < 2; told++) {
        struct bench b;
        struct syncer s[2];
        bench_open(&b, false, 60000);
        write_bytes(&b, 4096);
        fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FDATASYNC), .first = 1, .err = told == 0 ? EIO : 0,
                                       .delay_ms = FAULT_UNTIL_RELEASED});
        if (told == 1)
            fault_add(&(struct fault_rule){.calls = FAULT(FAULT_FDATASYNC), .first = 2, .err = EIO});
        sync_start(&s[0], &b);
        EVENTUALLY(fault_held() == 1);
        sync_start(&s[1], &b);
        if (told == 1) {
            assert_int_equal(sync_end(&s[1]), DFS_EIO);
        } else {
            clock_sleep_ms(30);
            assert_int_equal(atomic_load(&s[1].rc), 1);
        }
        fault_release();
        assert_int_equal(sync_end(&s[0]), DFS_EIO);
        if (told == 0)
            assert_int_equal(sync_end(&s[1]), DFS_EIO);
        assert_int_equal(stats(&b).flush_errors, 1);
        assert_int_equal(stats(&b).dirty_bytes, 0);
        assert_int_equal(writeback_datasync(b.wb, &b.file, b.fd), DFS_EIO);
        bench_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dirty_bytes_are_what_is_written_and_not_flushed),
        cmocka_unit_test(whole_steps_are_started_at_once_and_waited_for_late),
        cmocka_unit_test(old_bytes_are_flushed_however_few),
        cmocka_unit_test(windows_are_closed_with_fdatasync),
        cmocka_unit_test(many_files_share_one_window),
        cmocka_unit_test(gate_opens_in_order),
        cmocka_unit_test(slow_clients_do_not_hold_up_replicas_nor_the_reverse),
        cmocka_unit_test(kinds_take_turns),
        cmocka_unit_test(large_requests_get_in_alone),
        cmocka_unit_test(who_gives_up_is_not_called),
        cmocka_unit_test(the_bound_holds_under_load),
        cmocka_unit_test(a_failed_flush_is_told_once),
        cmocka_unit_test(a_writer_learns_of_the_flushers_error),
        cmocka_unit_test(one_error_counts_for_all_who_sync),
        cmocka_unit_test(detaching_waits_for_the_flusher),
    };
    log_threshold = LOG_ERROR + 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
