#!/usr/bin/env python3
"""The gRPC ports of a master and of a volume server, asked by an implementation that is not ours: what they answer, how they
refuse, many calls at once, streams that are given up, clients that go away in the middle.
scale: every"""
import threading

from kit import *  # noqa: F403
from peer_grpc import Code, LONG_S, MASTER, VOLUME, Peer, fields_of, grpc, message
from rig import *  # noqa: F403

o = arguments(__doc__)
c = Checks()
s = Server(o.dfs, options=['-master.volumeSizeLimitMB=64', '-master.growth=1'])
path = s.put(b'twelve bytes')
vid = int(split_fid(path)[0])


def keep_connected(peer):
    """(stream, event that ends the requests)."""
    done = threading.Event()

    def requests():
        yield message({1: 'client', 3: '127.0.0.1:1'})
        done.wait(LONG_S)
    return peer.stream(MASTER + 'KeepConnected', requests()), done


def refusals(peer, service, method, with_fields):
    """What each port does with what it cannot take.  method: one whose message is empty; with_fields: another's is not."""
    c.equal(f'{method}: an empty message is answered', peer.code(service + method), Code.OK)
    c.equal(f'{service}NoSuchMethod is UNIMPLEMENTED', peer.code(service + 'NoSuchMethod'), Code.UNIMPLEMENTED)
    c.equal('so is another service', peer.code('/no.such.Service/' + method), Code.UNIMPLEMENTED)
    code = peer.code(service + with_fields, b'\xff\xff\xff')
    c.ok(f'{with_fields}: a message that does not parse is an error', code not in (Code.OK, Code.UNAVAILABLE), code)
    code = peer.code(service + method, bytes(80 << 20))
    c.equal(f'{method}: one that is too large is RESOURCE_EXHAUSTED', code, Code.RESOURCE_EXHAUSTED)
    code = peer.code(service + method, bytes(2000), compression=grpc.Compression.Gzip)
    c.equal(f'{method}: one that is compressed is UNIMPLEMENTED', code, Code.UNIMPLEMENTED)
    c.equal(f'{method}: 300 calls at once', set(peer.many(service + method, b'', 300)), {Code.OK})
    c.ok('the connection is good after all that', peer.code(service + 'NoSuchMethod') == Code.UNIMPLEMENTED)


with Peer(f'127.0.0.1:{s.mgrpc}') as m:
    refusals(m, MASTER, 'GetMasterConfiguration', 'Assign')
    a = m.unary(MASTER + 'Assign', message({1: 1}))
    c.ok('Assign gives an id', b',' in a.get(1, [b''])[0], a)
    a = m.unary(MASTER + 'LookupVolume', message({1: [str(vid), '99999']}))
    c.equal('LookupVolume answers for each', len(a.get(1, [])), 2)
    known, unknown = (fields_of(x) for x in a[1])
    c.ok('LookupVolume: where the one is', s.volume.encode() in known.get(2, [b''])[0], known)
    c.ok('LookupVolume: why the other is not', known.get(3) is None and unknown.get(3), unknown)
    stream, done = keep_connected(m)
    c.ok('KeepConnected: the first message is there', len(next(stream)) > 0)
    stream.cancel()
    done.set()
    c.equal('KeepConnected: can be given up', stream.code(), Code.CANCELLED)
    streams = [keep_connected(m) for _ in range(50)]
    c.ok('KeepConnected: fifty at once', all(len(next(x)) > 0 for x, _ in streams))
    for _, done in streams:
        done.set()
    c.equal('KeepConnected: each ends when its client ends it', {x.code() for x, _ in streams if list(x) is not None}, {Code.OK})

with Peer(f'127.0.0.1:{s.vgrpc}') as v:
    refusals(v, VOLUME, 'VolumeServerStatus', 'VolumeStatus')
    a = v.unary(VOLUME + 'Ping', b'')
    c.ok('Ping: it began before it ended', 0 < a[1][0] <= a[3][0], a)
    a = v.unary(VOLUME + 'VolumeStatus', message({1: vid}))
    c.equal('VolumeStatus counts the file', a.get(3), [1])
    code = v.code(VOLUME + 'VolumeStatus', message({1: 99999}))
    c.ok('VolumeStatus of a volume that is not here is an error', code not in (Code.OK, Code.UNIMPLEMENTED, Code.UNAVAILABLE), code)
    for name, bad in (('a negative volume', {1: (1 << 64) - 1}), ('a volume of 2^32', {1: 1 << 32}), ('no volume', {})):
        code = v.code(VOLUME + 'VacuumVolumeCompact', message(bad))
        c.ok(f'VacuumVolumeCompact of {name} is an error', code is not Code.OK, code)
    other = s.put(b'to be deleted')
    a = v.unary(VOLUME + 'BatchDelete', message({1: [other[1:], wrong_cookie(path)[1:], 'zz', '']}))
    c.equal('BatchDelete has a result for each', [fields_of(x).get(2, [0])[0] for x in a.get(1, [])][0:1], [202])
    c.equal('BatchDelete: one for every id', len(a.get(1, [])), 4)
    c.equal('BatchDelete: took the one, left the other', (ask(s.volume, other)[0], ask(s.volume, path)[2]), (404, b'twelve bytes'))
    # clients that go away with calls under way
    for _ in range(20):
        p = Peer(v.addr)
        for _ in range(20):
            p.begin(VOLUME + 'VolumeServerStatus')
        p.channel.close()
    c.equal('after clients that went away it answers', v.code(VOLUME + 'VolumeServerStatus'), Code.OK)

for port in (s.mgrpc, s.vgrpc):
    for name, data in (('HTTP/1.1', b'GET / HTTP/1.1\r\nHost: x\r\n\r\n'), ('zeros', bytes(1000)),
                       ('half a preface', b'PRI * HTTP/2.0\r\n\r\nSM'), ('noise', random.Random(1).randbytes(5000))):
        raw_out, _ = raw(f'127.0.0.1:{port}', data, 1, True)
        c.ok(f'{name} on a gRPC port harms nothing', s.p.poll() is None, raw_out[:80])
c.equal('and HTTP goes on', ask(s.volume, path)[2], b'twelve bytes')
c.equal('SIGTERM', s.end(60), 0)
c.done()
