/* A disk that answers nobody: every call on a file that writers, flushers and pool threads make is held, and what is in the page
 * cache is served all the same, on every loop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <linux/magic.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include "needle/check.h"
#include "net/rand.h"
#include "tests/support/fault.h"
#include "tests/support/http_rig.h"
#include "tests/support/tmpdir.h"
#include "volume/volume_server.h"

#define LOOPS 2u
#define HOT_GETS 1000
#define WRITERS 12
#define COLD_READERS 12 /* more than the location's reader threads */
/* Three of the location's four readers (the fourth is for privileged work), and the writer. */
#define HELD_LEAST 4u
#define PATIENCE_MS 20000

static struct loop *main_loop;
static struct volume_server *server;
static struct rig at; /* only its port: the client's half of the rig is used */
static char *dir;
static pthread_t thread;
static struct disk_ops ops;

static bool is_cold(int fd)
{
    char link[64], path[512];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path - 1);
    return n > 6 && memcmp(path + n - 6, "/4.dat", 6) == 0;
}

/* Volume 3 is in the page cache, volume 4 is not, and only a look into the page cache never waits. */
static ssize_t read_or_wait(int fd, const struct iovec *iov, int count, off_t pos, int flags)
{
    if ((flags & RWF_NOWAIT) == 0)
        return fault_ops()->preadv2(fd, iov, count, pos, flags);
    if (is_cold(fd)) {
        errno = EAGAIN;
        return -1;
    }
    return disk_system_ops()->preadv2(fd, iov, count, pos, flags);
}

static uint16_t free_port(void)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof sa;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
    close(fd);
    return ntohs(sa.sin_port);
}

static void *run_main(void *arg)
{
    loop_run(arg);
    return NULL;
}

static int setup(void **state)
{
    struct replica_placement none = {0, 0, 0};
    struct ttl forever = {0, 0};
    struct volume_options o;
    char reason[256];

    (void)state;
    dir = tmpdir_new("held-disk");
    fault_install(NULL);
    ops = *fault_ops();
    ops.preadv2 = read_or_wait;
    disk_set_ops(&ops);
    volume_options_init(&o);
    o.dirs[0] = dir;
    o.max_volumes[0] = 8;
    o.dir_count = 1;
    o.port = at.port = free_port();
    o.port_grpc = free_port();
    o.masters = "127.0.0.1:1.1"; /* nobody */
    o.min_free_percent = 0;
    o.loops = LOOPS;
    assert_int_equal(loop_new("main", &main_loop), 0);
    assert_int_equal(volume_server_new(&o, main_loop, &server), 0);
    assert_int_equal(volume_server_start(server), 0);
    store_load_wait(volume_server_store(server));
    assert_int_equal(pthread_create(&thread, NULL, run_main, main_loop), 0);
    for (uint32_t id = 3; id <= 4; id++)
        assert_int_equal(store_allocate(volume_server_store(server), id, BYTES_NONE, none, forever, 3, 0, reason), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fault_clear();
    fault_release();
    loop_stop(main_loop);
    pthread_join(thread, NULL);
    volume_server_free(server);
    loop_free(main_loop);
    fault_remove();
    tmpdir_free(dir);
    return 0;
}

static void send_put(int fd, const char *fid, const char *body)
{
    rig_send(fd, "PUT /%s HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n\r\n%s", fid, strlen(body), body);
}

static void send_get(int fd, const char *fid)
{
    rig_send(fd, "GET /%s HTTP/1.1\r\nHost: x\r\n\r\n", fid);
}

static void wait_held(uint32_t least)
{
    for (int ms = 0; fault_held() < least; ms += 5) {
        if (ms > PATIENCE_MS)
            fail_msg("%u calls are held, waiting for %u", fault_held(), least);
        usleep(5000);
    }
}

static void what_is_cached_is_served_while_every_other_call_is_held(void **state)
{
    int hot[2 * LOOPS], writers[WRITERS], cold[COLD_READERS];
    char fid[32];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(hot); i++)
        hot[i] = rig_connect(&at); /* dealt round the loops */
    send_put(hot[0], "3,0100000001", "hot");
    rig_expect(hot[0], 201, NULL);
    send_put(hot[0], "4,0200000001", "cold");
    rig_expect(hot[0], 201, NULL);
    send_get(hot[0], "3,0100000001");
    rig_expect(hot[0], 200, "hot");

    /* mincore and map are the loops' own, and do not wait */
    fault_add(&(struct fault_rule){.calls = FAULT_ANY & ~(FAULT(FAULT_MINCORE) | FAULT(FAULT_MAP)), .first = 1, .every = 1,
                                   .delay_ms = FAULT_UNTIL_RELEASED});
    for (int i = 0; i < COLD_READERS; i++) {
        cold[i] = rig_connect(&at);
        send_get(cold[i], "4,0200000001");
    }
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = rig_connect(&at);
        snprintf(fid, sizeof fid, "3,%02x00000001", 0x10 + i);
        send_put(writers[i], fid, "held");
    }
    wait_held(HELD_LEAST);

    for (int i = 0; i < HOT_GETS; i++) {
        int fd = hot[(size_t)i % ARRAY_LEN(hot)];

        send_get(fd, "3,0100000001");
        rig_expect(fd, 200, "hot");
    }
    assert_true(fault_held() >= HELD_LEAST); /* none of them has returned */
    rig_expect_silence(cold[0], 0);
    rig_expect_silence(writers[0], 0);

    fault_clear();
    fault_release();
    for (int i = 0; i < COLD_READERS; i++) {
        rig_expect(cold[i], 200, "cold");
        close(cold[i]);
    }
    for (int i = 0; i < WRITERS; i++) {
        rig_expect(writers[i], 201, NULL);
        close(writers[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(hot); i++)
        close(hot[i]);
}

/* A file system in memory knows no read from the cache alone: then the folder of the build has to do. */
static void choose_folder(void)
{
    const char *tmp = getenv("TMPDIR");
    struct statfs fs;

    if (statfs(tmp != NULL && tmp[0] != '\0' ? tmp : "/tmp", &fs) == 0 && fs.f_type == TMPFS_MAGIC)
        setenv("TMPDIR", "build", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_cached_is_served_while_every_other_call_is_held, setup, teardown),
    };

    choose_folder();
    if (rand_init() != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
