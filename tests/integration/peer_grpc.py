"""gRPC by grpcio, an implementation that is not ours, with messages put together by hand: no generated code of either side."""
import glob
import os
import sys

from rig import venv_with

GRPCIO_VERSION = '1.62.1'
sys.path += glob.glob(os.path.join(venv_with('grpcio', 'grpcio', GRPCIO_VERSION), 'lib', 'python*', 'site-packages'))
import grpc  # noqa: E402

MASTER, VOLUME = '/master_pb.Seaweed/', '/volume_server_pb.VolumeServer/'
Code = grpc.StatusCode
LONG_S = 60  # a bound for what should come at once, on any machine


def raw(b):
    return b


def varint(n):
    out = b''
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def message(fields):
    """{number: int, text, bytes, or a list of them} as protobuf has it."""
    out = b''
    for number, values in fields.items():
        for v in values if isinstance(values, list) else [values]:
            if isinstance(v, int):
                out += varint(number << 3) + varint(v)
            else:
                v = v.encode() if isinstance(v, str) else v
                out += varint(number << 3 | 2) + varint(len(v)) + v
    return out


def fields_of(data):
    """{number: [its values]}: ints, and bytes for all else."""
    out, i = {}, 0

    def number():
        nonlocal i
        n = shift = 0
        while True:
            b = data[i]
            i += 1
            n |= (b & 127) << shift
            shift += 7
            if b < 128:
                return n
    while i < len(data):
        key = number()
        kind = key & 7
        if kind == 0:
            v = number()
        else:
            size = number() if kind == 2 else {1: 8, 5: 4}[kind]
            v, i = data[i:i + size], i + size
        out.setdefault(key >> 3, []).append(v)
    return out


class Peer:
    """A channel to one port."""

    def __init__(self, addr):
        self.addr = addr
        self.channel = grpc.insecure_channel(addr, options=[('grpc.max_send_message_length', 128 << 20)])
        grpc.channel_ready_future(self.channel).result(timeout=LONG_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def unary(self, path, request=b'', **more):
        """The answer's fields; grpc.RpcError."""
        return fields_of(self.channel.unary_unary(path, raw, raw)(request, timeout=more.pop('timeout', LONG_S), **more))

    def code(self, path, request=b'', **more):
        """How it ended."""
        try:
            self.unary(path, request, **more)
            return Code.OK
        except grpc.RpcError as e:
            return e.code()

    def begin(self, path, request=b''):
        """A call that is not waited for."""
        return self.channel.unary_unary(path, raw, raw).future(request, timeout=LONG_S)

    def many(self, path, request, n):
        """So many calls at once; their codes."""
        return [x.code() for x in [self.begin(path, request) for _ in range(n)]]

    def stream(self, path, requests):
        return self.channel.stream_stream(path, raw, raw)(requests, timeout=LONG_S)
