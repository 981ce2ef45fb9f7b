#!/usr/bin/env python3
"""Talk to the gRPC port of a running master with grpcio, an implementation that is not ours.

usage: grpc_interop.py HOST:GRPCPORT

Needs the Python package grpcio; without it, says so and exits 77 (skipped).  Messages are raw bytes: no generated code."""
import sys
import threading

try:
    import grpc
except ImportError:
    print("SKIP: grpcio is not installed")
    sys.exit(77)

SERVICE = "/master_pb.Seaweed/"
failed = []


def raw(b):
    return b


def unary(channel, method, request, timeout=10, **kw):
    return channel.unary_unary(SERVICE + method, raw, raw)(request, timeout=timeout, **kw)


def check(name, ok, detail=""):
    print(("ok   " if ok else "FAIL ") + name + ("" if ok else ": " + str(detail)))
    if not ok:
        failed.append(name)


def status_of(call):
    try:
        call()
        return grpc.StatusCode.OK
    except grpc.RpcError as e:
        return e.code()


def check_unary(channel):
    check("GetMasterConfiguration answers", len(unary(channel, "GetMasterConfiguration", b"")) > 0)
    code = status_of(lambda: unary(channel, "NoSuchMethod", b""))
    check("an unknown method is UNIMPLEMENTED", code == grpc.StatusCode.UNIMPLEMENTED, code)
    code = status_of(lambda: unary(channel, "Assign", b"\xff\xff\xff"))
    check("a message that does not parse is an error", code not in (grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE), code)
    code = status_of(lambda: unary(channel, "Assign", bytes(80 << 20), timeout=30))
    check("a message that is too large is RESOURCE_EXHAUSTED", code == grpc.StatusCode.RESOURCE_EXHAUSTED, code)
    code = status_of(lambda: unary(channel, "GetMasterConfiguration", bytes(2000), compression=grpc.Compression.Gzip))
    check("a compressed message is UNIMPLEMENTED", code == grpc.StatusCode.UNIMPLEMENTED, code)
    check("and the connection is still good", len(unary(channel, "GetMasterConfiguration", b"")) > 0)


def check_many(channel, n=300):
    calls = [channel.unary_unary(SERVICE + "GetMasterConfiguration", raw, raw).future(b"", timeout=30) for _ in range(n)]
    ok = sum(1 for c in calls if c.result())
    check("%d calls at once" % n, ok == n, ok)


def check_stream(channel):
    """KeepConnected: the first message is there at once, the stream stays open, and ends when the client says so."""
    done = threading.Event()

    def requests():
        yield b"\x0a\x06client"  # client_type = "client"
        done.wait(30)

    stream = channel.stream_stream(SERVICE + "KeepConnected", raw, raw)(requests(), timeout=30)
    check("KeepConnected sends its first message", len(next(stream)) > 0)
    stream.cancel()
    done.set()
    check("and can be cancelled", stream.code() == grpc.StatusCode.CANCELLED, stream.code())


def main():
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    options = [("grpc.max_send_message_length", 128 << 20)]
    with grpc.insecure_channel(sys.argv[1], options=options) as channel:
        grpc.channel_ready_future(channel).result(timeout=10)
        check_unary(channel)
        check_many(channel)
        check_stream(channel)
    print("%d failed" % len(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
