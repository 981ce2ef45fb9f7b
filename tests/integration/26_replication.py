#!/usr/bin/env python3
"""Two and three volume servers: both copies of a file are the same bytes with the same headers, the flush flag travels, and a
replica that is dead or stopped costs an error and not the answer's truth.
scale: full"""
import os

from kit import *  # noqa: F403
from rig import *  # noqa: F403

o = arguments(__doc__)
c = Checks()
SEED = seed_of('26_replication')
rng = random.Random(SEED)


class Cluster:
    def __init__(self, n, options=(), places=None, limit_mb=64):
        self.folder = temp_folder()
        self.m = Master(o.dfs, folder=self.folder, options=[f'-volumeSizeLimitMB={limit_mb}', '-growth=2', '-pulseSeconds=1'])
        self.options = [*options, '-max=40' if limit_mb > 1 else '-max=200', '-pulseSeconds=1']
        self.v = [VolumeServer(o.dfs, self.m.full, folder=self.folder, name=f'v{i}',
                               options=[*self.options, *((places or {}).get(i, []))]) for i in range(n)]

    def again(self, i):
        old = self.v[i]
        self.v[i] = VolumeServer(o.dfs, self.m.full, folder=self.folder, name=old.name + 'b', ports=old.ports, data=old.data,
                                 options=self.options)

    def holders(self, path):
        d = get_json(f'http://{self.m.master}/dir/lookup?volumeId={split_fid(path)[0]}') or {}
        return sorted(x['url'] for x in d.get('locations', []))

    def end(self, title):
        codes = [v.end() for v in self.v] + [self.m.end()]
        c.equal(f'{title}: all end with', set(codes), {0})


def put(cl, data, query='replication=001', upload='', headers=None, method='PUT', via=None):
    a = cl.m.assign(query)
    if 'fid' not in a:
        return None, a
    url = a['url'] if via is None else via(a)
    st, h, b = ask(url, '/' + a['fid'] + upload, method, data, headers or {'Content-Type': 'application/octet-stream'})
    return ('/' + a['fid'], url) if st in (200, 201) else (None, (st, b))


def records(folder, vid):
    """{key: [record bytes]} of a .dat in version 3, in file order."""
    out = {}
    path = [os.path.join(folder, f) for f in os.listdir(folder) if re.fullmatch(rf'(.*_)?{vid}\.dat', f)][0]
    with open(path, 'rb') as f:
        b = f.read()
    pos = 8
    while pos + 16 <= len(b):
        size = int.from_bytes(b[pos + 12:pos + 16], 'big')
        n = 16 + size + 4 + 8
        n += 8 - n % 8
        out.setdefault(int.from_bytes(b[pos + 4:pos + 12], 'big'), []).append(b[pos:pos + n])
        pos += n
    return out


def same_everywhere(cl, path):
    got = []
    for url in cl.holders(path):
        for method in ('GET', 'HEAD'):
            st, h, b = ask(url, path, method)
            h.pop('date', None)
            got.append((method, st, sorted(h.items()), b))
    return len(got) >= 4 and len({repr(g) for g in got if g[0] == 'GET'}) == 1 and len({repr(g) for g in got if g[0] == 'HEAD'}) == 1, got


# ---- two servers, 001 ----
cl = Cluster(2)
ledger = Ledger()
paths = []
for i in range(60):
    data = rng.randbytes(rng.choice((0, 1, 100, 5000, 70000, 300000)))
    p, how = put(cl, data)
    ledger.wrote(p, data)
    paths.append(p)
c.equal('001: every file has two holders', {len(cl.holders(p)) for p in paths}, {2})
for i, v in enumerate(cl.v):
    c.equal(f'001: server {i} has every file right', ledger.wrong(v.volume)[:3], [])
text = ('some words, again and again ' * 2400).encode()
p, _ = put(cl, text, headers={'Content-Type': ''})
c.ok('G73 64 KB of text without name and type: the same on both', same_everywhere(cl, p)[0], str(same_everywhere(cl, p)[1])[:600])
paths.append(p)
body, headers = form(b'{"a":1}' * 50, 'näme.json', 'application/json')
headers['Seaweed-Owner'] = 'me'
a = cl.m.assign('replication=001&ttl=3h')
ask(a['url'], f"/{a['fid']}?ttl=3h&ts=1600000000", 'POST', body, headers)
p = '/' + a['fid']
paths.append(p)
c.ok('G74 name, type, pairs, time and ttl are the same on both', same_everywhere(cl, p)[0], str(same_everywhere(cl, p)[1])[:600])
st, h, _ = ask(cl.v[1].volume, p)
c.ok('G74 and are there', h.get('owner') == 'me' and h.get('last-modified', '').startswith('Sun, 13 Sep 2020') and
     'json' in h.get('content-type', ''), h)
import gzip as gz
packed = gz.compress(text)
p, _ = put(cl, packed, headers={'Content-Type': 'text/plain', 'Content-Encoding': 'gzip'})
c.ok('G73 stored gzip is the same on both', same_everywhere(cl, p)[0], str(same_everywhere(cl, p)[1])[:600])
paths.append(p)
for p in paths[:10]:
    data = rng.randbytes(333)
    st = ask(rng.choice(cl.v).volume, p, 'PUT', data)[0]
    c.ok('overwrite through either server', st in (200, 201), st) if st not in (200, 201) else None
    ledger.wrote(p, data)
for p in paths[10:20]:
    st = ask(rng.choice(cl.v).volume, p, 'DELETE')[0]
    c.ok('delete through either server', st == 202, st) if st != 202 else None
    ledger.deleted(p)
c.equal('after overwrites and deletes both agree', [v and x for v in cl.v for x in ledger.wrong(v.volume)[:2]], [])
differ = []
for vid in {split_fid(p)[0] for p in paths}:
    one, two = records(cl.v[0].data, vid), records(cl.v[1].data, vid)
    differ += [(vid, k) for k in set(one) | set(two) if one.get(k) != two.get(k)]
c.equal('G73 every record is byte for byte the same in both .dat files', differ, [])

# The flag that asks for a flush travels.
cl.end('001')
cl = Cluster(2, ['-durability=none'])
put(cl, b'warm')
traces = [Strace(v.pid, 'fdatasync,fsync,sendmsg,pwrite64,pwritev,pwritev2', cl.folder) for v in cl.v]
for _ in range(5):
    put(cl, rng.randbytes(3000), upload='?fsync=true')
calls = [t.stop() for t in traces]
for i, some in enumerate(calls):
    flushes = [x for x in some if x[2] == 'fdatasync' and '.dat>' in x[3]]
    late = []
    for j, x in enumerate(some):
        if x[2] == 'sendmsg' and 'HTTP/1.1 201' in x[3]:
            writes = [w[4] for w in some if w[2].startswith('pwrite') and '.dat>' in w[3] and w[4] <= x[1]]
            if not any(f[1] >= max(writes) and f[4] <= x[1] for f in flushes):
                late.append(x[1])
    c.ok(f'G02 server {i}: ?fsync=true is flushed before its own reply', len(flushes) >= 5 and not late, (len(flushes), late))
c.equal('none without the flag stays readable on both', len(cl.holders(put(cl, b'x')[0])), 2)
cl.end('flush flag')

# One server compresses, the other does not: the first one decides, and the copies are the same.
cl = Cluster(2)
cl.v[1].end()
cl.v[1] = VolumeServer(o.dfs, cl.m.full, folder=cl.folder, name='v1c', options=[*cl.options, '-compress=auto'], data=cl.v[1].data,
                       ports=cl.v[1].ports)
for via in (cl.v[0].volume, cl.v[1].volume):
    p, _ = put(cl, text, headers={'Content-Type': 'text/plain'}, via=lambda a: via)
    ok, got = same_everywhere(cl, p) if p else (False, _)
    c.ok('G73 with and without compression at the first server: the same on both', ok, str(got)[:500])
    vid, key, _ = split_fid(p)
    c.equal('G73 and the same record', records(cl.v[0].data, vid)[int(key, 16)], records(cl.v[1].data, vid)[int(key, 16)])
cl.end('compression')

# ---- a replica that is stopped, and one that is dead ----
cl = Cluster(3)
# Enough volumes that each pair of servers has one.
wait_for('volumes on all three', lambda: get(f'http://{cl.m.master}/vol/grow?count=4&replication=001', 30)[0] == 200 and
         all(len(volumes_of(v.volume)) >= 3 for v in cl.v), 30)
ledger = Ledger()
for _ in range(40):
    data = rng.randbytes(2000)
    p, _ = put(cl, data)
    ledger.wrote(p, data)
victim = cl.v[2]
with_victim = [p for p in ledger.may if victim.volume in cl.holders(p)]
c.ok('some files have a copy on the third server', with_victim)
fresh = None
for _ in range(60):
    a = cl.m.assign('replication=001')
    h = cl.holders('/' + a['fid'])
    if victim.volume in h and len(h) == 2:
        fresh = ('/' + a['fid'], [x for x in h if x != victim.volume][0])
        break
c.ok('an id whose volume is on the third server', fresh)
victim.p.send_signal(signal.SIGSTOP)
t = time.monotonic()
st, _, b = ask(fresh[1], fresh[0], 'PUT', b'never acknowledged')
took = time.monotonic() - t
# Three seconds and a half on a machine at rest; without a deadline it would be the client's thirty.
c.ok(f'G76 a write with a stopped replica fails ({st}), in {took:.1f} s', st >= 500 and took < 15, (st, b[:200]))
c.equal('G78 and is not readable at the first server', ask(fresh[1], fresh[0])[0], 404)
# Each of the server's loops learns for itself: at most so many more have to wait.
patience = [ask(fresh[1], fresh[0], 'PUT', b'never acknowledged', timeout=30) for _ in range(6)]
# By now the master may have missed its beats: then there is one holder too few, which is told as well.
c.ok('G76 the server remembers who did not answer', all(p[0] >= 500 for p in patience) and
     any(b'has not answered for' in p[2] or b'writable replication locations' in p[2] for p in patience),
     [(p[0], p[2][:120]) for p in patience])
gone = with_victim[0]
sister = [x for x in cl.holders(gone) if x != victim.volume][0]
t = time.monotonic()
st, _, b = ask(sister, gone, 'DELETE', timeout=30)
c.ok(f'G79 a delete with a stopped replica is answered ({st})', st in (202, 500, 503) and time.monotonic() - t < 20, (st, b[:200]))
overwrite = with_victim[1]
before = ask(sister if sister in cl.holders(overwrite) else [x for x in cl.holders(overwrite) if x != victim.volume][0], overwrite)
at = [x for x in cl.holders(overwrite) if x != victim.volume][0]
st, _, b = ask(at, overwrite, 'PUT', b'new content, not acknowledged', timeout=30)
c.ok('G78 an overwrite with a stopped replica fails', st >= 500, st)
c.equal('G78 the version before is there again', ask(at, overwrite)[2], before[2])
wait_for('the master to miss its beats', lambda: victim.volume not in nodes_of(cl.m.master), 60)
bad = 0
for _ in range(30):
    data = rng.randbytes(700)
    p, how = put(cl, data)
    if p is None:
        bad += 1
    else:
        ledger.wrote(p, data)
c.ok(f'G76 later writes go around it ({bad} of 30 failed)', bad <= 6)
victim.p.send_signal(signal.SIGCONT)
wait_for('the third server to be back', lambda: victim.volume in nodes_of(cl.m.master), 40)
c.ok('G78 on the stopped server the failed write ends up undone',
     wait_quiet(lambda: ask(victim.volume, fresh[0])[0] == 404, 20), ask(victim.volume, fresh[0])[0])
c.ok('G78 and the overwrite too', wait_quiet(lambda: ask(victim.volume, overwrite)[2] == before[2], 20), ask(victim.volume, overwrite)[2][:40])
st = ask(sister, gone)[0]
if st == 404:
    ledger.deleted(gone)
    c.ok('G79 the delete reaches it', wait_quiet(lambda: ask(victim.volume, gone)[0] == 404, 30), ask(victim.volume, gone)[0])
c.equal('all that was acknowledged is right through every server', [x for v in cl.v for x in ledger.wrong(v.volume)[:2]], [])

victim.kill()
wait_for('the master to see it gone', lambda: victim.volume not in nodes_of(cl.m.master), 40)
bad = []
for _ in range(30):
    data = rng.randbytes(700)
    p, how = put(cl, data)
    if p is None:
        bad.append(how)
    else:
        ledger.wrote(p, data)
c.equal('with a dead server no write fails once it is known', bad[:3], [])
c.equal('and every file is readable', [x for v in cl.v[:2] for x in ledger.wrong(v.volume)[:2]], [])
cl.again(2)
c.ok('it comes back', wait_quiet(lambda: not ledger.wrong(cl.v[2].volume), 30), ledger.wrong(cl.v[2].volume)[:2])
cl.end('three servers')

# ---- many at one needle ----


def together(cl, fid, urls, methods, bodies):
    """[(method, status, body)]: one request from each of as many threads at once."""
    out = []

    def one(url, method, body):
        status = ask(url, '/' + fid, method, body if method == 'PUT' else None, {'Content-Type': 'x/y'})[0]
        out.append((method, status, body))
    threads = [threading.Thread(target=one, args=x) for x in zip(urls, methods, bodies)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return out


def agree(cl, fid):
    """What every server has for it, once they agree (undos are on their way a moment longer); else all answers."""
    def answers():
        got = [ask(v.volume, '/' + fid) for v in cl.v]
        return [(st, b if st == 200 else b'') for st, _, b in got]
    wait_quiet(lambda: len(set(answers())) == 1, 10)
    return answers()


cl = Cluster(2)
wrong = []
for i in range(120):
    fid = cl.m.assign('replication=001').get('fid')
    bodies = [rng.randbytes(200) for _ in range(4)]
    methods = ['PUT', 'DELETE', 'PUT', 'DELETE'] if i % 2 else ['PUT', 'PUT', 'PUT', 'PUT']
    did = together(cl, fid, [cl.v[(i // 2 * j) % 2].volume for j in range(4)], methods, bodies)
    end = agree(cl, fid)
    may = [(200, b) for m, st, b in did if m == 'PUT' and st in (201, 204)] + ([(404, b'')] if 'DELETE' in methods else [])
    if len(set(end)) != 1 or end[0] not in may:
        wrong.append((fid, [(m, st) for m, st, _ in did], [st for st, _ in end]))
c.equal('concurrent writes and deletes of one file: both copies have one and the same outcome', wrong[:3], [])
cl.end('many at one needle')

# Volumes that fill up: some of the writes fail, on one server or both, and are taken back.
cl = Cluster(2, limit_mb=1)
wrong, statuses = [], set()
for i in range(60):
    fid = cl.m.assign('replication=001').get('fid')
    if fid is None:
        continue
    bodies = [rng.randbytes(200 if j % 2 else 60000) for j in range(4)]
    did = together(cl, fid, [cl.v[i % 2].volume] * 4, ['PUT'] * 4, bodies)
    statuses |= {st for _, st, _ in did}
    end = agree(cl, fid)
    acked = [(200, b) for _, st, b in did if st in (201, 204)]
    if len(set(end)) != 1 or (acked and end[0] not in acked):
        wrong.append((fid, [st for _, st, _ in did], [st for st, _ in end]))
c.equal('a write that failed takes none with it that was acknowledged', wrong[:3], [])
c.ok('some were acknowledged', 201 in statuses, statuses)
cl.end('volumes that fill up')

# ---- placement ----
cl = Cluster(3, places={0: ['-rack=r1'], 1: ['-rack=r1'], 2: ['-rack=r2']})
for rp, want in (('010', lambda h: cl.v[2].volume in h), ('001', lambda h: cl.v[2].volume not in h)):
    wrong = []
    for _ in range(30):
        data = rng.randbytes(100)
        p, how = put(cl, data, f'replication={rp}&collection=p{rp}')
        h = cl.holders(p) if p else []
        if len(h) != 2 or not want(h):
            wrong.append((p, how, h))
    c.equal(f'G100 {rp} puts copies where it says', wrong[:2], [])
a = cl.m.assign('replication=100')
c.ok('G151 100 with one data center is refused with the reason', 'error' in a and re.search('center', a['error']), a)
a = cl.m.assign('replication=011')
c.ok('011 with three servers in two racks works', 'fid' in a and len(cl.holders('/' + a['fid'])) == 3, a)
cl.end('placement')
c.done()
