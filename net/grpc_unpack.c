/* Unpacking protobuf messages from peers with a bound on what they may make us allocate. */
#include <stdlib.h>

#include "net/grpc.h"

/* An empty sub-message takes 2 bytes on the wire and some 150 in memory: a message may blow up by so much, and no more. */
#define GROWTH_MAX 64u
#define GROWTH_FREE (64u * 1024u)

struct budget {
    size_t left;
};

static void *budget_alloc(void *arg, size_t n)
{
    struct budget *b = arg;
    if (n > b->left)
        return NULL;
    b->left -= n;
    return malloc(n);
}

static void budget_free(void *arg, void *p)
{
    (void)arg;
    free(p);
}

ProtobufCMessage *grpc_unpack(const ProtobufCMessageDescriptor *type, struct bytes in)
{
    static const uint8_t none[1];
    struct budget budget = {.left = GROWTH_FREE + in.n * GROWTH_MAX};
    ProtobufCAllocator allocator = {.alloc = budget_alloc, .free = budget_free, .allocator_data = &budget};
    return protobuf_c_message_unpack(type, &allocator, in.n, in.n > 0 ? (const uint8_t *)in.p : none);
}
