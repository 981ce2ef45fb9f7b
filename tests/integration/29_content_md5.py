#!/usr/bin/env python3
"""Content-MD5 of bodies of every size and kind: as sent, of the text inside gzip, in memory and through a file; and a small body that
inflates to a lot costs neither memory nor other people's time.
scale: asan"""
import base64
import gzip
import hashlib
import threading
import zlib

from kit import *  # noqa: F403
from rig import *  # noqa: F403

o = arguments(__doc__)
c = Checks()
seed = seed_of('content-md5')
KB, MB = 1 << 10, 1 << 20
STAGE_MB = 1
LIMIT_MB = 512
s = Server(o.dfs, options=['-master.volumeSizeLimitMB=2000', '-master.growth=1', f'-volume.stageMB={STAGE_MB}',
                           f'-volume.fileSizeLimitMB={LIMIT_MB}'])


def pattern(n):
    """Bytes that gzip makes little of, but something."""
    block = hashlib.shake_256(f'{seed} {n}'.encode()).digest(min(n, 300 * KB))
    text = (block + b'the same again ' * 1000)
    return (text * (n // len(text) + 1))[:n]


def digest(data):
    return base64.b64encode(hashlib.md5(data).digest()).decode()


def put(body, md5, headers=None, timeout=60):
    fid = get_json(f'http://{s.master}/dir/assign')['fid']
    status, _, answer = ask(s.volume, '/' + fid, 'PUT', body, {'Content-Type': 'x/y', 'Content-MD5': md5, **(headers or {})}, timeout)
    return fid, status, answer


def check(what, body, right, headers=None):
    fid, status, answer = put(body, right, headers)
    c.equal(f'{what}: the right digest', status, 201)
    got = ask(s.volume, '/' + fid, 'GET', None, {'Accept-Encoding': 'gzip'})
    c.ok(f'{what}: comes back', (got[0], got[2]) == (200, body), got[0])
    for name, wrong in (('of other bytes', digest(b'other')), ('no digest at all', 'zzz')):
        fid, status, answer = put(body, wrong, headers)
        c.ok(f'{what}: {name}: 400', status == 400 and b'Content-MD5' in answer, (status, answer[:200]))
        c.equal(f'{what}: {name}: nothing is stored', ask(s.volume, '/' + fid)[0], 404)


# Around what is done on the loop, in one step of a worker, in memory and in the file.
for n in (0, 1, 63, 64, 65, 64 * KB, 64 * KB + 1, MB, MB + 1, 3 * MB + 5):
    data = pattern(n)
    check(f'{n} bytes', data, digest(data))
    if n > 0:
        packed = gzip.compress(data, 1, mtime=0)
        check(f'{n} bytes as gzip, its own digest', packed, digest(packed), {'Content-Encoding': 'gzip'})
        check(f'{n} bytes as gzip, the digest of the text', packed, digest(data), {'Content-Encoding': 'gzip'})
two = gzip.compress(pattern(1000), mtime=0) + gzip.compress(pattern(2000), mtime=0)
check('two members', two, digest(pattern(1000) + pattern(2000)), {'Content-Encoding': 'gzip'})

cut = gzip.compress(pattern(50000), mtime=0)[:-30]
c.equal('cut gzip, the digest of its text', put(cut, digest(pattern(50000)), {'Content-Encoding': 'gzip'})[1] in (400, 413), True)


# Half a MB of zeros upon zeros: its end claims little, its text would be 400 MB.
def bomb(megabytes):
    z = zlib.compressobj(9, zlib.DEFLATED, 31)
    out = b''.join(z.compress(bytes(MB)) for _ in range(megabytes))
    return out + z.flush()


big = bomb(400 if o.scale == 'full' else 100)
before = s.rss_mb('VmHWM')
slowest, stop = [0.0], threading.Event()


def honest():
    while not stop.is_set():
        start = time.monotonic()
        status = ask(s.volume, '/status', timeout=30)[0]
        slowest[0] = max(slowest[0], time.monotonic() - start if status == 200 else 99)
        time.sleep(0.01)


statuses = []
watcher = threading.Thread(target=honest)
watcher.start()
bombers = [threading.Thread(target=lambda: statuses.append(put(big, digest(b'?'), {'Content-Encoding': 'gzip'}, 240)[1])) for _ in range(4)]
for t in bombers:
    t.start()
for t in bombers:
    t.join()
stop.set()
watcher.join()
c.equal('four bodies that inflate to a lot', statuses, [400] * 4)
grown = s.rss_mb('VmHWM') - before
c.ok('they cost no memory to speak of', grown < (64 if o.scale == 'full' else 200), f'{grown:.0f} MB')
c.ok('/status answers meanwhile', slowest[0] < 5, f'{slowest[0]:.2f} s')
print(f'grown by {grown:.0f} MB, /status within {slowest[0] * 1000:.0f} ms')
c.equal('SIGTERM ends the server', s.end(), 0)
c.done()
