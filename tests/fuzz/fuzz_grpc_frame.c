/* gRPC message framing: a stream cut into any pieces gives the messages that it gives in one; status messages survive the
 * percent-encoding; timeouts are a number or an error.  First byte: the size of the pieces. */
#include <stdlib.h>

#include "needle/check.h"
#include "needle/err.h"
#include "net/grpc_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MESSAGE_MAX 4096u

struct run {
    uint64_t sum;
    unsigned messages;
    int rc;
    bool partial;
};

static void add(struct run *r, struct bytes m)
{
    for (size_t i = 0; i < m.n; i++)
        r->sum = r->sum * 31 + (uint8_t)m.p[i];
    r->sum = r->sum * 37 + m.n;
    r->messages++;
    CHECK(m.n <= MESSAGE_MAX);
}

static struct run read_all(const uint8_t *data, size_t size, size_t piece)
{
    struct grpc_reader reader;
    struct run r = {.rc = DFS_ESHORT};
    grpc_reader_init(&reader, MESSAGE_MAX);
    for (size_t at = 0; at < size && r.rc == DFS_ESHORT; at += piece) {
        struct bytes in = bytes_of(data + at, size - at < piece ? size - at : piece), m;
        while ((r.rc = grpc_reader_next(&reader, &in, &m)) == 0)
            add(&r, m);
        CHECK(r.rc != DFS_ESHORT || in.n == 0);
        CHECK(reader.cap <= MESSAGE_MAX);
    }
    r.partial = grpc_reader_partial(&reader);
    grpc_reader_release(&reader);
    return r;
}

static void check_percent(const uint8_t *data, size_t size)
{
    char encoded[3 * 512], plain[3 * 512];
    if (size > 512)
        size = 512;
    size_t n = grpc_percent_encode(bytes_of(data, size), encoded, sizeof encoded);
    CHECK(n <= 3 * size);
    CHECK(grpc_percent_decode(bytes_of(encoded, n), plain) == size);
    CHECK(size == 0 || memcmp(plain, data, size) == 0);
    CHECK(grpc_percent_decode(bytes_of(data, size), plain) <= size);
    CHECK(grpc_percent_encode(bytes_of(data, size), encoded, size / 2) <= size / 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    size_t piece = (size_t)data[0] + 1;
    data++;
    size--;
    struct run whole = read_all(data, size, size > 0 ? size : 1), cut = read_all(data, size, piece);
    CHECK(whole.sum == cut.sum && whole.messages == cut.messages && whole.rc == cut.rc && whole.partial == cut.partial);
    check_percent(data, size);
    uint64_t ms = 0;
    CHECK(grpc_timeout_parse(bytes_of(data, size), &ms) != 0 || ms > 0);
    CHECK(grpc_status_parse(bytes_of(data, size)) <= GRPC_UNAUTHENTICATED);
    return 0;
}
