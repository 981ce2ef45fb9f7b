#!/usr/bin/env python3
"""`dfs benchmark objects`, `cleanup` and `mix` against a real store: what they print against what the server counted, runs of
two names side by side, and that nothing wrong passes for right.
scale: every"""
import glob
import json
import os
import re
import signal

from kit import *  # noqa: F403
from rig import *  # noqa: F403

o = arguments(__doc__)
c = Checks()
seed = seed_of('objects')
KB = 1 if o.scale == 'full' else 4  # smaller objects where everything is slow
SIZE = (1 << 20) // KB
SECONDS = '2'

s = Server(o.dfs, options=['-master.volumeSizeLimitMB=20000', '-master.growth=2', '-volume.max=20', '-volume.durability=none'])
lists = os.path.join(s.folder, 'lists')
COMMON = ['-master', s.master_full, '-listDir', lists, '-idleWait', '0', '-seed', str(seed)]


def bench(*words, expect=0, name=None, timeout=200):
    p = subprocess.run([o.dfs, 'benchmark', *words, *COMMON[:4]] if words[0] == 'cleanup' else
                       [o.dfs, 'benchmark', *words, *COMMON], capture_output=True, text=True, timeout=timeout, cwd=s.folder)
    c.ok(f'{name or " ".join(words[:3])}: exit {expect}', p.returncode == expect, f'exit {p.returncode}: {p.stdout[-1500:]}{p.stderr[-800:]}')
    return p.stdout, p.stderr


def field(text, name):
    m = re.search(r'^' + re.escape(name) + r' *(\S+)', text, re.M)
    return float(m.group(1)) if m else None


def rows(text):
    """Lines of the table as lists of words."""
    return [x.split() for x in text.splitlines() if re.match(r' *\d+ +\d+ +\d+ +\d+ +[\d.e+-]+ +[\d.e+-]+ +\S+ +\S+$', x)]


def answered(method, code=None):
    labels = {'type': method, **({'code': code} if code else {})}
    return metric(s.volume, 'SeaweedFS_volumeServer_request_total', labels) or 0


def near(a, b, share=0.01):
    return a is not None and b is not None and abs(a - b) <= share * max(abs(a), abs(b))


def live():
    return sum(v['LiveCount'] for v in volumes_of(s.volume).values())


WRITE = ['Total time run:', 'Total writes made:', 'Write size:', 'Object size:', 'Bandwidth (MB/sec):', 'Stddev Bandwidth:',
         'Max bandwidth (MB/sec):', 'Min bandwidth (MB/sec):', 'Average IOPS:', 'Stddev IOPS:', 'Max IOPS:', 'Min IOPS:',
         'Average Latency(s):', 'Stddev Latency(s):', 'Max latency(s):', 'Min latency(s):']
READ = ['Total time run:', 'Total reads made:', 'Read size:', 'Object size:', 'Bandwidth (MB/sec):', 'Average IOPS:', 'Stddev IOPS:',
        'Max IOPS:', 'Min IOPS:', 'Average Latency(s):', 'Max latency(s):', 'Min latency(s):']
OURS = ['Latency 50%(s):', 'Latency 90%(s):', 'Latency 99%(s):', 'Latency 99.9%(s):', 'Errors:', 'Seconds at zero:',
        'Server read from disk:', 'Dirty pages at the end:', 'Disk idle after (s):', 'Client CPU:', 'Server durability:']


def in_order(text, names):
    at = [re.search(r'^' + re.escape(n), text, re.M) for n in names]
    return all(at) and [m.start() for m in at] == sorted(m.start() for m in at)


def figures_hold(what, text, made):
    """Summary and table agree with one another."""
    time_run, n = field(text, 'Total time run:'), field(text, made)
    c.ok(f'{what}: bandwidth is what was moved in that time',
         near(field(text, 'Bandwidth (MB/sec):'), n * field(text, 'Write size:' if 'writes' in made else 'Read size:') / time_run / 2**20),
         text)
    c.ok(f'{what}: IOPS too', abs(field(text, 'Average IOPS:') - n / time_run) <= 1, text)
    table = rows(text)
    c.ok(f'{what}: a line a second from 0', len(table) >= 2 and [r[0] for r in table] == [str(i) for i in range(len(table))], text)
    c.ok(f'{what}: eight columns, started = finished + current',
         all(len(r) == 8 and int(r[2]) == int(r[3]) + int(r[1]) for r in table), text)
    c.ok(f'{what}: no more in the table than in all', int(table[-1][3]) <= n, text)
    lat = [field(text, x) for x in ('Min latency(s):', 'Latency 50%(s):', 'Latency 90%(s):', 'Latency 99%(s):', 'Latency 99.9%(s):',
                                    'Max latency(s):')]
    c.ok(f'{what}: percentiles rise', lat == sorted(lat) and lat[0] > 0, text)


def write_two_names():
    before = answered('PUT', '201')
    a, _ = bench('objects', SECONDS, 'write', '-no-cleanup', '-run-name', 'a', '-b', str(SIZE), '-json', 'a.json', '-csv', 'a.csv')
    made = field(a, 'Total writes made:')
    c.ok('write: the summary in its order', in_order(a, WRITE + OURS), a)
    figures_hold('write', a, 'Total writes made:')
    c.ok('write: as many as the server took', near(made, answered('PUT', '201') - before), f'{made} {answered("PUT", "201") - before}')
    c.equal('write: the store has them', live(), made)
    with open(os.path.join(lists, 'a.fids')) as f:
        head, *lines = f.read().splitlines()
    m = re.match(r'# dfs objects: host=\S+ pid=\d+ size=(\d+) count=(\d+) seed=(\d+)$', head)
    c.ok('write: the head of its list', m and (int(m.group(1)), int(m.group(2)), int(m.group(3))) == (SIZE, made, seed), head)
    c.equal('write: an id a line', len(set(lines)), made)
    doc = json.load(open(os.path.join(s.folder, 'a.json')))
    c.equal('write: JSON has the same', [(p['name'], p['completed'], p['failed']) for p in doc['phases']], [('write', made, 0)])
    c.ok('write: CSV has lines', len(open(os.path.join(s.folder, 'a.csv')).readlines()) >= 2)
    c.ok('write: durability is named', re.search(r'^Server durability: +none$', a, re.M), a)
    bench('objects', SECONDS, 'write', '-run-name', 'a', expect=1, name='a second write of the name is refused')
    c.equal('and wrote nothing', live(), made)
    b, _ = bench('objects', '1', 'write', '-t', '4', '-run-name', 'b', '-b', '64k', '-show-time')
    c.ok('write -t 4: cleaned up', re.search(r'^Removed %d objects$' % field(b, 'Total writes made:'), b, re.M) and
         re.search(r'^Clean up completed and total clean up time: ', b, re.M), b)
    c.ok('-show-time', re.search(r'^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +0 ', b, re.M), b)
    c.equal('the other run is untouched', live(), made)
    c.equal('lists that are left', sorted(os.listdir(lists)), ['a.fids'])
    return made


def drop_cache():
    """Takes the volumes out of the page cache; False where they have no disk below them."""
    for path in glob.glob(os.path.join(s.data, '*.dat')):
        f = os.open(path, os.O_RDONLY)
        os.fsync(f)
        os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(f)
    return run(['stat', '-f', '-c', '%T', s.data])[1].strip() in ('ext2/ext3', 'xfs')


def read_cold(made):
    on_disk = drop_cache()
    a, _ = bench('objects', '60', 'seq', '-run-name', 'a', name='seq from the disk')
    m = re.search(r'^Server read from disk: +([\d.]+) MB of ([\d.]+) MB sent$', a, re.M)
    c.ok('what was sent is known', m and near(float(m.group(2)), made * SIZE / 2**20, 0.02), a)
    c.ok('and that it came from the disk', not on_disk or (m and float(m.group(1)) > 0.9 * float(m.group(2))), a)


def interrupt():
    before = live()
    p = subprocess.Popen([o.dfs, 'benchmark', 'objects', '60', 'write', '-run-name', 'i', '-b', '4k', *COMMON], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, cwd=s.folder)
    while not re.match(r' +1 ', p.stdout.readline() or ' 1 '):
        pass
    p.send_signal(signal.SIGINT)
    a, err = p.communicate(timeout=100)
    c.ok('SIGINT: reported, cleaned up, no success', p.returncode == 1 and 'ended early: interrupted' in a and 'Removed' in a and
         live() == before, a + err)


def read_all(made):
    before = answered('GET', '200')
    out0 = metric(s.volume, 'SeaweedFS_volumeServer_bytes_out_total')
    a, _ = bench('objects', '60', 'seq', '-run-name', 'a', '-b', '1g')
    c.ok('seq: says that all was read', f'ended early: all {made:.0f} objects read' in a, a)
    c.ok('seq: the summary in its order', in_order(a, READ + [x for x in OURS if x != 'Seconds at zero:']), a)  # may be over within one
    c.equal('seq: every object once', field(a, 'Total reads made:'), made)
    c.ok('seq: as the server counts', near(made, answered('GET', '200') - before, 0.01 + 4 / made))
    c.ok('seq: bytes as the server counts', near(made * SIZE, metric(s.volume, 'SeaweedFS_volumeServer_bytes_out_total') - out0, 0.02))
    c.ok('seq: verified', field(a, 'Verify CPU(s):') > 0, a)
    before = answered('GET', '206')
    a, _ = bench('objects', SECONDS, 'rand', '-run-name', 'a', '-b', str(SIZE // 4))
    figures_hold('rand', a, 'Total reads made:')
    c.ok('rand: no end before its time', 'ended early' not in a and field(a, 'Total time run:') >= int(SECONDS), a)
    c.ok('rand: ranges as the server counts', near(field(a, 'Total reads made:'), answered('GET', '206') - before), a)
    a, _ = bench('objects', '60', 'seq', '-run-name', 'a', '-b', str(SIZE // 2), '-no-verify')
    c.equal('seq in halves: twice as many reads', field(a, 'Total reads made:'), 2 * made)
    c.equal('-no-verify costs nothing', field(a, 'Verify CPU(s):'), 0)


def wrong_is_not_right(made):
    """Another content under an id of the list, right for the server; then an object that is gone; then a byte on the disk."""
    with open(os.path.join(lists, 'a.fids')) as f:
        fids = f.read().splitlines()[1:]
    good = get(f'http://{s.volume}/{fids[0]}', 30)[2]
    bad = bytearray(good)
    bad[-1] ^= 1
    c.equal('another content is put', get(f'http://{s.volume}/{fids[0]}', 30, 'PUT', bytes(bad))[0], 201)
    a, e = bench('objects', '60', 'seq', '-run-name', 'a', expect=1, name='seq of a wrong byte')
    c.ok('seq: one corrupt, named', re.search(r'^Errors: +1 \(1 corrupt\)$', a, re.M) and fids[0] in e and 'corrupt' in e, a + e)
    c.equal('seq: the others were right', field(a, 'Total reads made:'), made - 1)
    c.equal('the right content again', get(f'http://{s.volume}/{fids[0]}', 30, 'PUT', good)[0], 201)
    bench('objects', '60', 'seq', '-run-name', 'a', name='seq of right bytes')
    # A byte of the last object, behind its header, in the file itself.
    vid = fids[-1].split(',')[0]
    dat = glob.glob(os.path.join(s.data, f'*_{vid}.dat')) + glob.glob(os.path.join(s.data, f'{vid}.dat'))
    tail = get(f'http://{s.volume}/{fids[-1]}', 30)[2][1000:1064]
    with open(dat[0], 'r+b') as f:
        at = f.read().find(tail)
        c.ok('the object is in its volume', at >= 0)
        f.seek(at)
        f.write(bytes([tail[0] ^ 0x40]))
    a, e = bench('objects', '60', 'seq', '-run-name', 'a', expect=1, name='seq of a damaged needle')
    c.ok('seq: it is told', re.search(r'^Errors: +1 ', a, re.M) and fids[-1] in e, a + e)
    with open(dat[0], 'r+b') as f:
        f.seek(at)
        f.write(tail[:1])
    bench('objects', '60', 'seq', '-run-name', 'missing', expect=1, name='seq of no run')
    with open(os.path.join(lists, 'bad.fids'), 'w') as f:
        f.write('no list\n')
    bench('objects', '60', 'seq', '-run-name', 'bad', expect=1, name='seq of what is no list')
    with open(os.path.join(lists, 'bad.fids'), 'w') as f:
        f.write(f'# dfs objects: host=h pid=1 size={SIZE} count=00000000000000000009 seed=1\n{fids[0]}\n')
    bench('objects', '60', 'seq', '-run-name', 'bad', expect=1, name='seq of a list that is cut off')
    os.unlink(os.path.join(lists, 'bad.fids'))


def clean(made):
    before = live()
    a, _ = bench('cleanup', '-run-name', 'a')
    c.ok('cleanup: counts', re.search(r'^Removed %d objects$' % made, a, re.M), a)
    c.equal('cleanup: they are gone', live(), before - made)
    c.equal('cleanup: so is the list', os.listdir(lists), [])
    bench('cleanup', '-run-name', 'a', expect=1, name='nothing to clean up')


def bounded():
    a, _ = bench('objects', '60', 'write', '-max-objects', '37', '-b', '4k', '-t', '8', '-run-name', 'few', '-no-cleanup')
    c.equal('-max-objects', field(a, 'Total writes made:'), 37)
    a, _ = bench('objects', '60', 'seq', '-run-name', 'few')
    c.equal('seq of few', field(a, 'Total reads made:'), 37)
    bench('cleanup', '-run-name', 'few')
    a, _ = bench('objects', '60', 'write', '-max-objects', '5', '-o', '100001', '-b', '4k', '-run-name', 'odd', '-no-cleanup')
    c.equal('-o: written whole', (field(a, 'Write size:'), field(a, 'Object size:')), (100001, 100001))
    a, _ = bench('objects', '60', 'seq', '-run-name', 'odd', '-b', '4k')
    c.equal('-o: read in blocks of -b, the last one shorter', field(a, 'Total reads made:'), 5 * 25)
    bench('cleanup', '-run-name', 'odd')


def mix():
    before = live()
    a, _ = bench('mix', '-runtime', '2s', '-n', '200', '-sizeMedian', '4k', '-rate', '200', '-json', 'm.json')
    counts = [int(x) for x in re.findall(r'^(?:read|write|delete)s: (\d+) right, 0 failed', a, re.M)]
    missed = int(re.search(r'^Missed: +(\d+)', a, re.M).group(1))
    c.equal('mix: at the rate that was asked for', sum(counts) + missed, 400)
    c.ok('mix: all three kinds, most of them reads', len(counts) == 3 and counts[0] > counts[1] > counts[2] > 0, a)
    c.ok('mix: says how it counts', 'coordinated omission is avoided' in a, a)
    c.equal('mix: nothing is left', (live(), os.listdir(lists)), (before, []))
    doc = json.load(open(os.path.join(s.folder, 'm.json')))
    c.equal('mix: JSON has the same', [p['completed'] for p in doc['phases']], counts)
    with open(os.path.join(s.folder, 'sizes'), 'w') as f:
        f.write('# made up\n1000 1\n3000 1\n')
    put, gets = answered('PUT'), answered('GET')
    a, _ = bench('mix', '-runtime', '1s', '-n', '50', '-sizes', 'sizes', '-mix', '50:50:0', '-t', '8')
    counts = [int(x) for x in re.findall(r'^(?:read|write)s: (\d+) right, 0 failed', a, re.M)]
    c.ok('mix: as many writes as the server counts', near(counts[1] + 50, answered('PUT') - put), f'{counts} {answered("PUT") - put}')
    c.ok('mix: and reads', near(counts[0], answered('GET') - gets, 0.01 + 6 / counts[0]), f'{counts} {answered("GET") - gets}')
    bench('mix', '-sizes', 'nowhere', expect=1)
    bench('mix', '-mix', '1:2', expect=2)


def waiting_counts():
    """The server stands still for a second of three: with a rate, a third of the requests waited for up to that second."""
    p = subprocess.Popen([o.dfs, 'benchmark', 'mix', '-runtime', '3s', '-n', '100', '-sizeMedian', '1k', '-rate', '200', '-t', '64', *COMMON],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=s.folder)
    head = ''
    while not re.match(r' *1 ', head.splitlines()[-1] if head else ''):
        line = p.stdout.readline()
        if not line:
            break
        head += line
    os.kill(s.pid, signal.SIGSTOP)
    time.sleep(1)
    os.kill(s.pid, signal.SIGCONT)
    rest, err = p.communicate(timeout=100)
    a = head + rest
    counts = [int(x) for x in re.findall(r'^(?:read|write|delete)s: (\d+) right, 0 failed', a, re.M)]
    missed = int(re.search(r'^Missed: +(\d+)', a, re.M).group(1))
    c.ok('a pause: all that was due is accounted for', p.returncode == 0 and sum(counts) + missed == 600, a + err)
    m = re.search(r'^reads: .*\n  latency.* 90% (\S+) .*max (\S+)$', a, re.M)
    c.ok('a pause: waiting counts', m and float(m.group(2)) > 0.9 and float(m.group(1)) > 0.3, a)


def words():
    for bad in (['objects'], ['objects', '2'], ['objects', 'x', 'write'], ['objects', '0', 'write'], ['objects', '2', 'writ'],
                ['objects', '2', 'write', 'more'], ['objects', '2', 'write', '-b', '4q'], ['objects', '2', 'write', '-run-name', '../x'],
                ['mix', 'word'], ['mix', '-runtime', '0'], ['objects', '2', 'write', '-t', '0']):
        bench(*bad, expect=2)
    bench('objects', '1', 'write', '-json', '/nonexistent/x.json', expect=1, name='a report that cannot be written')
    c.equal('wrong words leave no list', os.listdir(lists), [])


made = write_two_names()
if made:
    read_cold(made)
    read_all(made)
    interrupt()
    wrong_is_not_right(made)
    clean(made)
bounded()
mix()
waiting_counts()
words()
c.equal('the server ends', s.end(), 0)
c.done()
