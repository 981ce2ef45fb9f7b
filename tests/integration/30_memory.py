#!/usr/bin/env python3
"""Bounds of memory: many uploads at once, ten thousand idle connections, clients that send a byte now and then.
scale: full"""
import os
import resource

from kit import *  # noqa: F403
from rig import *  # noqa: F403

o = arguments(__doc__)
c = Checks()
SEED = seed_of('30_memory')
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(20000, hard), hard))

# G130: 64 at once, of 8 MB in memory and of 32 MB in files, through a pool of 64 MB.
s = Server(o.dfs, options=['-volume.poolMB=64', '-master.volumeSizeLimitMB=4096', '-volume.max=20'])
s.put(b'x')
before = s.rss_mb('VmRSS')
block = random.Random(SEED).randbytes(1 << 20)
for size_mb, clients in ((8, 64), (32, 24)):
    done, ledger = [], Ledger()

    def upload(i):
        a = s.assign()
        data = i.to_bytes(4, 'big') + block * size_mb
        for _ in range(200):
            st, h, _ = ask(a['url'], '/' + a['fid'], 'PUT', data, timeout=120)
            if st not in (429, 503):
                break
            time.sleep(min(1, float(h.get('retry-after', 1))))
        if st == 201:
            ledger.wrote('/' + a['fid'], data)
        done.append(st)
    threads = [threading.Thread(target=upload, args=(i,)) for i in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    c.equal(f'G130 {clients} uploads of {size_mb} MB at once', set(done), {201})
    grown = s.rss_mb() - before
    c.ok(f'G130 memory stayed bounded: {grown:.0f} MB more at most', grown < 64 + 100)
    c.equal(f'G130 {size_mb} MB: they read back', ledger.wrong(s.volume, 4)[:2], [])
c.ok(f'and after reading them: {s.rss_mb() - before:.0f} MB', s.rss_mb() - before < 64 + 100)

# Idle connections.
n = min(10000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200)
path = s.put(b'hello')
rss = s.rss_mb('VmRSS')
idle = []
for i in range(n):
    x = socket.create_connection(tuple(s.volume.split(':')), 10)
    if i % 10 == 0:
        x.sendall(f'GET {path} HTTP/1.1\r\nHost: x\r\n\r\n'.encode())
        x.recv(4096)
    idle.append(x)
wait_for('all connections', lambda: (metric(s.volume, 'SeaweedFS_volumeServer_connections') or 0) >= n, 30)
per = (s.rss_mb('VmRSS') - rss) * 1024 / n
c.ok(f'G138 {n} idle connections cost {per:.2f} KB each', per < 4)
c.equal('and others are served', ask(s.volume, path)[2], b'hello')
for x in idle:
    x.close()
wait_for('them to be gone', lambda: (metric(s.volume, 'SeaweedFS_volumeServer_connections') or 0) < 50, 30)

# Slow clients hold what they sent and no more, and do not keep others out.
rss = s.rss_mb('VmRSS')
slow = []
for i in range(100):
    a = s.assign()
    x = socket.create_connection(tuple(s.volume.split(':')), 10)
    x.sendall(f"PUT /{a['fid']} HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\n".encode() + b'z' * 1000)
    slow.append(x)
for _ in range(5):
    time.sleep(0.2)
    for x in slow:
        x.sendall(b'z')
grown = s.rss_mb('VmRSS') - rss
c.ok(f'100 slow uploads cost {grown:.1f} MB', grown < 64 + 20)
t = time.monotonic()
went = 0
while went < 20:
    a = s.assign()
    if ask(a['url'], '/' + a['fid'], 'PUT', os.urandom(50000), timeout=60)[0] != 201:
        break
    went += 1
c.ok(f'beside them honest uploads go through in {time.monotonic() - t:.1f} s', went == 20, f'{went} of 20')
for x in slow:
    x.close()
readers = []
big = s.put(block * 8)
for i in range(50):
    x = socket.create_connection(tuple(s.volume.split(':')), 10)
    x.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    x.sendall(f'GET {big} HTTP/1.1\r\nHost: x\r\n\r\n'.encode())
    readers.append(x)
time.sleep(0.5)
c.ok(f'50 readers that do not read: {s.rss_mb("VmRSS") - rss:.1f} MB', s.rss_mb('VmRSS') - rss < 64 + 40)
c.equal('and others are served still', ask(s.volume, path)[2], b'hello')
for x in readers:
    x.close()
c.equal('SIGTERM', s.end(60), 0)
c.done()
