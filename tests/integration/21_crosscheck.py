#!/usr/bin/env python3
"""Volumes that dfs wrote, read by the real weed (fix, export, server); and a folder that weed, dfs and weed again write to.
scale: full"""
import collections
import os
import sys

from kit import *  # noqa: F403
from rig import *  # noqa: F403

o = arguments(__doc__)
c = Checks()
SEED = seed_of('21_crosscheck')
rng = random.Random(SEED)
WEED = weed_binary()
CROSS = os.path.join(FIXTURES, 'crosscheck.py')
# Two volumes a growth: weed takes each of them apart in a process of its own.
OPTIONS = ['-volume.max=100', '-master.volumeSizeLimitMB=64', '-volume.fileSizeLimitMB=8', '-master.growth=2']
# What only says how the answer was sent.
TRANSPORT = ('date', 'server', 'connection', 'content-length', 'accept-ranges', 'vary')


def cross(title, s, ledger, more=()):
    """The server has ended; every entry of the ledger, and `more`, is asked of weed on a copy of its files."""
    manifest = os.path.join(s.folder, 'manifest.json')
    n = ledger.manifest(manifest, more)
    p1, p2 = free_port(), free_port()
    c.add_runner(f'{title}: weed on {n} files', [sys.executable, CROSS, '--weed', WEED, '--data', s.data, '--manifest', manifest,
                                                 '--port', str(p1), '--port2', str(p2)], 300)


def body_of(list_file, s, ledger):
    """Takes what the benchmark listed into the ledger, as the server answers it (the benchmark has checked the content)."""
    with open(list_file) as f:
        fids = [x.strip() for x in f if x.strip() and not x.startswith('#')]
    v = Client(s.volume)
    for fid in fids:
        status, _, body = v('GET', '/' + fid)
        if status == 200:
            ledger.wrote('/' + fid, body)
    return len(fids)


for durability in ('group', 'none'):
    s = Server(o.dfs, options=[*OPTIONS, f'-volume.durability={durability}'])
    ledger = Ledger()
    status, text = benchmark(o.dfs, s.master_full, '-n', '1500', '-c', '16', '-list', 'l', cwd=s.folder)
    c.equal(f'{durability}: benchmark', (status, complete_and_failed(text)), (0, [(1500, 0), (1500, 0)]))
    c.equal(f'{durability}: all that it listed is there', body_of(os.path.join(s.folder, 'l'), s, ledger), 1500)
    storm = Storm(s.master, ledger, SEED, threads=4, max_bytes=30000)
    wait_for('a storm', lambda: storm.counts['write'] > 400, 60)
    done = vacuum(s.master) or []
    c.ok(f'{durability}: vacuumed in the storm', any(r['Outcome'] == 'vacuumed' for r in done), done)
    wait_for('more of it', lambda: storm.counts['write'] > 600, 60)
    c.equal(f'{durability}: storm', storm.stop(), [])
    for n in (1, 7, 8, 9, 255, 256, 65535, 65536, 262144, 262145, 1 << 20, 5_000_000, 8 << 20):
        p = s.put(rng.randbytes(n))
        ledger.wrote(p, ask(s.volume, p)[2])
    for i in range(20):
        a = s.assign()
        data = rng.randbytes(500)
        body, headers = form(data, f'näme {i}.txt', 'text/plain')
        headers['Seaweed-Owner'] = f'o{i}'
        ask(s.volume, '/' + a['fid'], 'POST', body, headers)
        ledger.wrote('/' + a['fid'], data)
    c.equal(f'{durability}: dfs reads it all', ledger.wrong(s.volume)[:3], [])
    c.equal(f'{durability}: SIGTERM', s.end(), 0)
    cross(durability, s, ledger)

def as_dfs_answers(s, paths):
    """Manifest entries that want of weed what dfs says of these paths."""
    entries, volumes = [], volumes_of(s.volume)
    for path in paths:
        status, headers, body = ask(s.volume, path)
        e = {'path': path, 'status': status}
        if status == 200:
            e.update(size=len(body), sha256=Ledger.digest(body),
                     headers={k.title(): v for k, v in headers.items() if k not in TRANSPORT})
        if volumes[int(split_fid(path)[0])]['Ttl']['Count']:
            e['also_allowed'] = [404]  # its time may have passed
        entries.append(e)
    return entries


# What the API cases leave behind, deleted files too: weed must open it and answer as dfs does.
s = Server(o.dfs, options=OPTIONS)
c.add_runner('golden', [sys.executable, os.path.join(FIXTURES, 'golden.py'), '--master', s.master, '--volume', s.volume], 200)
ledger = Ledger()
put_many(s, ledger, 50, SEED)
s.end()
paths = sorted(set(records_of(s.data)) - set(ledger.live()))
s2 = Server(o.dfs, folder=s.folder, ports=s.ports, options=OPTIONS, name='again')
c.ok('after the API cases: all volumes are opened', s2.says('index rows applied'))
c.equal('after the API cases: dfs reads', ledger.wrong(s2.volume), [])
entries = as_dfs_answers(s2, paths)
found = collections.Counter(e['status'] for e in entries)
c.ok(f'after the API cases: files of theirs to compare: {dict(found)}', found[200] >= 40 and found[404] >= 5 and len(found) == 2)
c.equal('after the API cases: SIGTERM', s2.end(), 0)
cross('after the API cases', s, ledger, entries)

# The very same folder, by turns: weed writes, dfs, weed again (its builds have 5-byte offsets too).
folder = temp_folder()
data = os.path.join(folder, 'data')
os.makedirs(data)
ledger = Ledger()


class WeedServer(Process):
    def __init__(self, name):
        self.mport, self.mgrpc, self.vport, self.vgrpc = (free_port() for _ in range(4))
        self.master, self.volume = f'127.0.0.1:{self.mport}', f'127.0.0.1:{self.vport}'
        os.makedirs(os.path.join(folder, 'wm'), exist_ok=True)
        super().__init__([WEED, '-logtostderr', '-logdir=' + folder, 'server', '-ip=127.0.0.1', '-ip.bind=127.0.0.1', f'-dir={data}',
                          f'-master.dir={folder}/wm', f'-master.port={self.mport}', f'-master.port.grpc={self.mgrpc}',
                          f'-volume.port={self.vport}', f'-volume.port.grpc={self.vgrpc}', '-volume.max=60',
                          '-master.volumeSizeLimitMB=64', '-master.telemetry=false', '-master.peers=none',
                          '-volume.preStopSeconds=0'], folder, name)
        wait_for('weed server', lambda: get(f'http://{self.master}/dir/assign', 3)[0] == 200, 60)

    def assign(self, query=''):
        return get_json(f'http://{self.master}/dir/assign?{query}', 30)


def change(server, seed):
    """Some new files, some overwritten, some deleted."""
    live = ledger.live()
    r = random.Random(seed)
    put_many(server, ledger, 150, seed)
    for p in r.sample(live, min(40, len(live))):
        if r.random() < 0.5:
            body = r.randbytes(700)
            # weed keeps the cookie's owner: an overwrite needs nothing more
            if ask(server.volume, p, 'PUT', body)[0] in (200, 201):
                ledger.wrote(p, body)
        elif ask(server.volume, p, 'DELETE')[0] == 202:
            ledger.deleted(p)


def bytes_of(server):
    """Of all volumes, garbage too."""
    return sum(v['Size'] for v in volumes_of(server.volume).values())


rounds = [('weed', WeedServer), ('dfs', None), ('weed', WeedServer), ('dfs', None), ('weed', WeedServer)]
for i, (who, make) in enumerate(rounds):
    if make:
        s = make(f'{who}{i}')
    else:
        s = Server(o.dfs, folder=folder, options=[*OPTIONS, '-master.dir', os.path.join(folder, 'm')], name=f'{who}{i}')
        c.ok(f'turn {i}: all volumes are opened', s.says('index rows applied'))
    c.equal(f'turn {i}: {who} reads everything so far', ledger.wrong(s.volume)[:3], [])
    change(s, SEED + i)
    if i in (1, 3):
        done = vacuum(s.master, 0.01) or []
        c.ok(f'turn {i}: {who} vacuumed', any(r['Outcome'] == 'vacuumed' for r in done), done)
    elif i == 2:
        before = bytes_of(s)
        c.equal(f'turn {i}: {who} is asked to vacuum', get(f'http://{s.master}/vol/vacuum?garbageThreshold=0.01', 60)[0], 200)
        c.ok(f'turn {i}: {who} vacuumed', wait_quiet(lambda: bytes_of(s) < before, 60), before)
    c.equal(f'turn {i}: {who} reads it after its changes', ledger.wrong(s.volume)[:3], [])
    s.end()
c.done()
