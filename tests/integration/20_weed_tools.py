#!/usr/bin/env python3
"""The peer's own programs, 4.48, on dfs daemons, and dfs daemons under the peer's master.
scale: full"""
import os

from kit import *  # noqa: F403
from rig import *  # noqa: F403

o = arguments(__doc__)
c = Checks()
SEED = seed_of('20_weed_tools')
rng = random.Random(SEED)
WEED = weed_binary()
folder = temp_folder()
QUIET = ['-logtostderr', '-logdir=' + folder]


def weed(*words, timeout=120, stdin=None):
    """(exit status, output) of a weed command."""
    try:
        p = subprocess.run([WEED, *QUIET, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace',
                           timeout=timeout, cwd=folder, input=stdin)
        return p.returncode, p.stdout
    except subprocess.TimeoutExpired as e:
        return 124, str(e.stdout)[-2000:]


def shell(master, script):
    return weed('shell', '-master=' + master, stdin=script + '\nexit\n')[1]


def weed_volume(master, name):
    p, g = free_port(), free_port()
    d = os.path.join(folder, name)
    os.mkdir(d)
    v = Process([WEED, *QUIET, 'volume', '-ip=127.0.0.1', '-ip.bind=127.0.0.1', f'-port={p}', f'-port.grpc={g}', f'-dir={d}',
                 '-max=20', '-preStopSeconds=0', f'-master={master}'], folder, name)
    v.addr = f'127.0.0.1:{p}'
    return v


# weed's clients on dfs.
s = Server(o.dfs, options=['-volume.max=60', '-master.volumeSizeLimitMB=64'])
status, text = weed('benchmark', '-master=' + s.master_full, '-n=3000', '-c=8', '-list=' + folder + '/list')
c.equal('weed benchmark on dfs', (status, complete_and_failed(text)), (0, [(3000, 0), (3000, 0)]))
status, text = weed('benchmark', '-master=' + s.master_full, '-n=1000', '-c=8', '-size=100000', '-deletePercent=20', '-list=' + folder + '/list')
c.equal('weed benchmark with deletes: none failed', (status, [f for _, f in complete_and_failed(text)]), (0, [0, 0]))
status, text = benchmark(o.dfs, s.master_full, '-readOnly', '-n', '500', '-list', folder + '/list')
c.equal('dfs benchmark reads what weed benchmark listed', (status, complete_and_failed(text)), (0, [(500, 0)]))

big = rng.randbytes(9_500_000)
with open(folder + '/up.bin', 'wb') as f:
    f.write(big)
status, text = weed('upload', '-master=' + s.master_full, folder + '/up.bin')
m = re.search(r'\[\{.*\}\]', text)
fid = json.loads(m.group(0))[0].get('fid') if m else None
c.ok('weed upload, in chunks', status == 0 and fid, text[-500:])
os.mkdir(folder + '/down')
status, text = weed('download', '-master=' + s.master_full, '-dir=' + folder + '/down', fid or '0,0')
got = [os.path.join(folder, 'down', f) for f in os.listdir(folder + '/down')]
c.ok('weed download gives the same bytes', status == 0 and got and open(got[0], 'rb').read() == big, (status, got, text[-300:]))
c.equal('GET of the chunked upload', ask(s.volume, '/' + (fid or '0,0'))[2] == big, True)
c.equal('a range across its chunks', ask(s.volume, '/' + fid, headers={'Range': 'bytes=4194300-4194310'})[2], big[4194300:4194311])

text = shell(s.master_full, 'volume.list')
c.ok('weed shell volume.list', f'127.0.0.1:{s.vport}' in text and 'volume Id:1' in text.replace('volume id:', 'volume Id:'), text[-600:])
for word, want in (('cluster.ps', f'127.0.0.1:{s.vport}'), ('cluster.check', '127.0.0.1'), ('collection.list', 'benchmark'),
                   ('lock\nvolume.vacuum -garbageThreshold=0.01\nunlock', ''),
                   ('lock\ncollection.delete -collection=benchmark -apply\nunlock', '')):
    text = shell(s.master_full, word)
    c.ok('weed shell ' + word.split('\n')[1 if word.startswith('lock') else 0],
         want in text and not re.search(r'^error|unimplemented|panic', text, re.I | re.M), text[-500:])
wait_for('the collection to be gone', lambda: not [v for v in volumes_of(s.volume).values() if v['Collection'] == 'benchmark'], 15)

# A weed volume server joins the dfs master.
v = weed_volume(s.master_full, 'wv')
wait_for('the weed volume server', lambda: v.addr in nodes_of(s.master), 30)
where = {s.volume: 0, v.addr: 0}
ledger, on_weed = Ledger(), []
for _ in range(200):
    a = s.assign('collection=mixed')
    if a.get('url') != v.addr and on_weed and len(where) == 2 and where[s.volume] > 20:
        continue
    data = rng.randbytes(rng.randrange(1, 5000))
    st = ask(a['url'], '/' + a['fid'], 'PUT', data)[0]
    if st == 201:
        where[a['url']] += 1
        ledger.wrote('/' + a['fid'], data)
        if a['url'] == v.addr:
            on_weed.append('/' + a['fid'])
if not on_weed:
    get(f'http://{s.master}/vol/grow?count=14&collection=second', 30)
    for _ in range(100):
        a = s.assign('collection=second')
        data = rng.randbytes(1000)
        if ask(a['url'], '/' + a['fid'], 'PUT', data)[0] == 201 and a['url'] == v.addr:
            ledger.wrote('/' + a['fid'], data)
            on_weed.append('/' + a['fid'])
c.ok(f'the dfs master gives out ids on it: {where}', on_weed, s.log_text()[-1000:])
c.equal('files on it read back from it', ledger.wrong(v.addr, paths=on_weed), [])
c.equal('dfs reads them for others', ledger.wrong(s.volume, paths=on_weed[:10]), [])
lookup = get_json(f"http://{s.master}/dir/lookup?volumeId={split_fid(on_weed[0])[0]}") if on_weed else {}
c.ok('look-up names it', v.addr in json.dumps(lookup), lookup)
c.equal('deletes on it', {ask(v.addr, p, 'DELETE')[0] for p in on_weed[:5]}, {202})
v.end()
wait_for('the weed volume server to be gone', lambda: v.addr not in nodes_of(s.master), 30)
c.ok('with it gone the rest goes on', s.put(b'x') is not None)
c.equal('dfs server ends with', s.end(), 0)

# A dfs volume server joins a weed master.
mp, mg = free_port(), free_port()
os.mkdir(folder + '/wm')
m = Process([WEED, *QUIET, 'master', '-ip=127.0.0.1', '-ip.bind=127.0.0.1', f'-port={mp}', f'-port.grpc={mg}',
             f'-mdir={folder}/wm', '-telemetry=false', '-peers=none', '-volumeSizeLimitMB=64'], folder, 'wm')
master = f'127.0.0.1:{mp}'
wait_for('the weed master', lambda: get(f'http://{master}/cluster/status', 2)[0] == 200, 30)
d = VolumeServer(o.dfs, f'{master}.{mg}', options=['-max=30'], wait=False)
wait_for('dfs at the weed master', lambda: d.volume in nodes_of(master), 30)


def assign_there():
    a = get_json(f'http://{master}/dir/assign', 30) or {}
    return a if 'fid' in a else None


wait_for('an assign', assign_there, 30)
ledger = Ledger()
for _ in range(100):
    a = assign_there()
    data = rng.randbytes(rng.randrange(1, 20000))
    if ask(a['url'], '/' + a['fid'], 'PUT', data)[0] == 201:
        ledger.wrote('/' + a['fid'], data)
c.equal('under a weed master: 100 files', (len(ledger.may), ledger.wrong(d.volume)), (100, []))
text = shell(f'{master}.{mg}', 'volume.list')
c.ok('its volume.list shows dfs and its volumes', d.volume in text and 'FileCount' in text or 'file_count' in text, text[-500:])
# Its client learns of volumes by a stream and now and then reads before it has heard of any: then it reads nothing at all.
for _ in range(3):
    status, text = weed('benchmark', f'-master={master}.{mg}', '-n=1000', '-c=4', '-list=' + folder + '/list2')
    if complete_and_failed(text)[-1:] != [(0, 0)]:
        break
c.equal('weed benchmark over weed master and dfs volume server', (status, complete_and_failed(text)), (0, [(1000, 0), (1000, 0)]))
for p in list(ledger.may)[:50]:
    if ask(d.volume, p, 'DELETE')[0] == 202:
        ledger.deleted(p)
text = shell(f'{master}.{mg}', 'lock\nvolume.vacuum -garbageThreshold=0.01\nunlock')
c.equal('its vacuum loses nothing', ledger.wrong(d.volume), [])
wait_for('its vacuum to have been done', lambda: any(v['CompactRevision'] for v in volumes_of(d.volume).values()), 30)
c.ok('and was done', True)
c.equal('dfs volume server ends with', d.end(), 0)
m.end()
c.done()
