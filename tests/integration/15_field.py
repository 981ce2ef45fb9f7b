#!/usr/bin/env python3
"""Faults that users of such systems met (durability, full disks, indexes, vacuum, HTTP, resources, ttl, operations), each
provoked against a server on one machine.  A check's name begins with the id of its case.  Wants root: some cases mount small
file systems; without it they fail.
scale: full"""
import glob
import os
import resource
import shutil
import struct
import traceback

from kit import *  # noqa: F403
from rig import *  # noqa: F403

o = arguments(__doc__)
c = Checks()
SEED = seed_of('15_field')
rng = random.Random(SEED)
ONE = ['-master.growth=1', '-volume.max=20', '-master.volumeSizeLimitMB=64']
CASES, WAITING = [], []
LANES = 3  # of the cases that wait


def case(f):
    CASES.append(f)
    return f


def waiting_case(f):
    """A case that is nothing but waiting for what the servers do every few seconds: these run beside the others."""
    WAITING.append(f)
    return f


def start(options=(), folder=None, ports=None, name='server', wait=True, **more):
    return Server(o.dfs, folder=folder, options=[*ONE, *options], ports=ports, name=name, wait=wait, **more)


def loaded(s):
    wait_for('all volumes', lambda: 'index rows applied' in s.log_text())
    return s


def again(s, options=(), name='again'):
    return loaded(start(options, folder=s.folder, ports=s.ports, name=name))


def filled(n=100, options=(), **more):
    """A server with n small files in one volume."""
    s = start(options, **more)
    ledger = Ledger()
    return s, ledger, put_many(s, ledger, n, SEED, 200, 800)


def first_dat(s):
    return sorted(glob.glob(os.path.join(s.data, '*.dat')))[0]


def warnings(s):
    return [x for x in s.log_text().splitlines() if x[:1] in 'WE']


def status_of(s, path, **more):
    return ask(s.volume, path, **more)[0]


def volume_entry(s, path):
    return volumes_of(s.volume)[int(split_fid(path)[0])]


def rewrite_index(path, new_rows):
    with open(path, 'wb') as f:
        f.write(b''.join(new_rows))


def forget_checkpoint(s):
    for f in glob.glob(os.path.join(s.data, '*.ckp')):
        os.unlink(f)


# ---- A: durability and crash ----
@case
def g03_failed_flush():
    folder = temp_folder()
    count = os.path.join(folder, 'failures')
    open(count, 'w').write('0 \n')
    s = start(folder=folder, env={'LD_PRELOAD': preload('fail_fdatasync'), 'FAIL_FDATASYNC': count})
    ledger = Ledger()
    paths = put_many(s, ledger, 20, SEED)
    before = volume_entry(s, paths[0])
    open(count, 'w').write('1 \n')
    status, _, body = ask(s.volume, paths[0], 'PUT', b'overwritten')
    c.ok('G03 a failed flush is no success', status >= 500, f'{status} {body[:200]}')
    c.equal('G03 the previous content is still there', ledger.wrong(s.volume), [])
    now = volume_entry(s, paths[0])
    c.equal('G03 counters are as before', (now['FileCount'], now['Size']), (before['FileCount'], before['Size']))
    c.ok('G03 the volume takes no more writes', now['ReadOnly'], now)
    status = status_of(s, paths[1], method='PUT', body=b'again')
    c.ok('G04 nor does a later flush make them good', status >= 400, status)
    more = put_many(s, ledger, 3, SEED + 1)
    c.ok('G03 writing goes on in another volume', {split_fid(p)[0] for p in more}.isdisjoint({split_fid(paths[0])[0]}), more)
    c.equal('G03 SIGTERM', s.end(), 0)
    s = again(s)
    c.equal('G03 after a restart the answers are the same', ledger.wrong(s.volume), [])
    c.equal('G03 again SIGTERM', s.end(), 0)


@case
def g05_drain():
    s = start()
    ledger = Ledger()
    storm = Storm(s.master, ledger, SEED, threads=16, upload='fsync=true', expect_down=True, delete=0, overwrite=0)
    wait_for('some writes', lambda: storm.counts['write'] > 100)
    s.p.send_signal(signal.SIGTERM)
    time.sleep(0.05)
    storm.stop_now.set()
    try:
        s.p.wait(20)
    except subprocess.TimeoutExpired:
        s.kill()
    storm.stop()
    s = again(s)
    c.equal(f'G05 every 201 during a drain is there ({storm.counts["write"]})', ledger.wrong(s.volume)[:3], [])
    s.end()


@case
def g06_bad_record_in_the_middle():
    s, ledger, paths = filled(100)
    s.end()
    dat = first_dat(s)
    idx = dat[:-4] + '.idx'
    by_key = {int.from_bytes(r[:8], 'big'): row_offset(r) for r in idx_rows(idx)}
    victim = paths[50]
    at = by_key[int(split_fid(victim)[1], 16)]
    with open(dat, 'r+b') as f:
        f.seek(at)
        f.write(b'\xff' * 40)
    os.unlink(idx)
    forget_checkpoint(s)
    s = again(s)
    ledger.maybe_deleted(victim)
    wrong = ledger.wrong(s.volume, paths=[p for p in paths if p != victim])
    c.equal('G06 the other 99 are served after a rebuild', wrong, [])
    c.ok('G06 the broken one is not', status_of(s, victim) in (404, 500), status_of(s, victim))
    c.ok('G06 and it is reported', bool(warnings(s)), s.log_text()[-600:])
    s.end()


@waiting_case
def g07_file_gone():
    s, ledger, paths = filled(20)
    os.rename(first_dat(s), first_dat(s) + '.away')
    wait_for('the loss to be seen', lambda: any(split_fid(paths[0])[0] in x for x in warnings(s)), 30)
    status, h, body = ask(s.volume, paths[0], 'PUT', b'x')
    c.ok('G07 a .dat that was moved away takes no writes', status == 503 and 'retry-after' in h, (status, body[:200]))
    status, h, body = ask(s.volume, paths[0])
    c.ok('G07 and a read of it is told the same', status == 503 and 'retry-after' in h, (status, body[:200]))
    wait_for('the master to know', lambda: int(split_fid(paths[0])[0]) not in [
        v for y in get_json(f'http://{s.master}/dir/status')['Topology'].get('Layouts') or [] for v in y['writables'] or []], 30)
    c.ok('G07 a new file goes elsewhere', split_fid(put_many(s, ledger, 1, SEED)[0])[0] != split_fid(paths[0])[0])
    s.end()


@waiting_case
def g07_disk_unmounted():
    with small_disk('96m') as d:
        ledger = Ledger()
        folder = temp_folder()
        os.symlink(d, os.path.join(folder, 'data'))
        s = start(folder=folder, options=['-master.dir', os.path.join(folder, 'm')])
        paths = put_many(s, ledger, 10, SEED)
        other = tempfile.mkdtemp(prefix='dfs-aside-')
        subprocess.run(['mount', '--bind', d, other], check=True)
        subprocess.run(['umount', '-l', d], check=True)
        try:
            wait_for('the loss to be seen', lambda: warnings(s), 30)
            status = status_of(s, paths[0], method='PUT', body=b'x')
            c.ok('G07 a folder that was unmounted takes no writes', status >= 500, status)
            wait_for('the master to know', lambda: 'error' in s.assign(), 30)
            c.equal('G07 nothing is created in the bare mount point', os.listdir(d), [])
            subprocess.run(['mount', '--bind', other, d], check=True)
            wait_for('the folder to come back', lambda: 'fid' in s.assign(), 30)
            c.equal('G07 mounted again, all is there', ledger.wrong(s.volume), [])
            put_many(s, ledger, 3, SEED + 1)
            s.end()
        finally:
            s.kill()
            subprocess.run(['umount', '-l', other])
            os.rmdir(other)


@case
def g08_renames_are_flushed():
    s = start()
    trace = Strace(s.pid, 'rename,renameat,renameat2,fsync,fdatasync,openat', s.folder)
    ledger = Ledger()
    paths = put_many(s, ledger, 10, SEED)
    for p in paths[:5]:
        ask(s.volume, p, 'DELETE')
    vacuum(s.master)
    calls = trace.stop()
    c.equal('G08 traced server ends', s.end(), 0)
    names = [(i, re.findall(r'"([^"]+)"', x[3])[-1]) for i, x in enumerate(calls) if x[2].startswith('rename') and '= 0' in x[3]]
    lost = []
    for i, name in names:
        folder = os.path.dirname(os.path.join(s.folder, name)) if not name.startswith('/') else os.path.dirname(name)
        if not any(x[2] == 'fsync' and f'<{os.path.realpath(folder)}>' in x[3] for x in calls[i + 1:]):
            lost.append(name)
    c.ok('G08 there were renames to look at', len(names) >= 3, names)
    c.equal('G08 the folder is flushed after every rename', lost, [])
    created = [(i, re.search(r'"([^"]+\.(?:dat|idx|vif))"', x[3])) for i, x in enumerate(calls) if x[2] == 'openat' and 'O_CREAT' in x[3]]
    created = [(i, m.group(1)) for i, m in created if m]
    lost = [n for i, n in created if not any(x[2] == 'fsync' and f'<{os.path.realpath(s.data)}>' in x[3] for x in calls[i + 1:])]
    c.ok('G08 volumes were created', len(created) >= 2, created)
    c.equal('G08 and after every file that was created', lost, [])


@case
def g10_volume_removed_while_down():
    s, ledger, paths = filled(10)
    s.end()
    for f in glob.glob(os.path.join(s.data, split_fid(paths[0])[0] + '.*')):
        os.unlink(f)
    s = again(s)
    c.equal('G10 starts though a volume that was known is gone', status_of(s, paths[0]), 404)
    c.ok('G10 and takes writes', put_many(s, Ledger(), 2, SEED) != [])
    s.end()


@case
def g11_short_files():
    s, ledger, paths = filled(30)
    s.end()
    base = first_dat(s)[:-4]
    originals = {x: open(base + x, 'rb').read() for x in ('.dat', '.idx', '.vif', '.ckp') if os.path.exists(base + x)}
    bad = []
    # Damaged copies of the volume, each under an id of its own, opened by one server.
    number = 100
    variants = {}
    for suffix in originals:
        for content in [b'\0' * n for n in range(8)] + [b'\0' * 8, b'\xff' * 7]:
            for x, b in originals.items():
                with open(os.path.join(s.data, f'{number}{x}'), 'wb') as f:
                    f.write(content if x == suffix else b)
            variants[number] = (suffix, len(content))
            number += 1
    s = loaded(start(['-volume.max=200'], folder=s.folder, ports=s.ports, name='again'))
    c.equal('G11 the healthy volume beside them serves', ledger.wrong(s.volume), [])
    for vid, (suffix, n) in variants.items():
        p = f'/{vid},' + paths[0].split(',')[1]
        status, _, body = ask(s.volume, p)
        right = status == 200 and Ledger.digest(body) in ledger.allowed(paths[0])
        if suffix == '.dat':
            if status == 200:
                bad.append((vid, suffix, n, status))
        elif not right:
            bad.append((vid, suffix, n, status))
    c.equal(f'G11 {len(variants)} volumes with an empty or tiny file: readable wherever the .dat is whole', bad, [])
    c.ok('G11 writes go on', put_many(s, ledger, 2, SEED) != [])
    c.equal('G11 SIGTERM', s.end(), 0)


@case
def g13_leveldb_damage():
    s, ledger, _ = filled(200, ['-volume.index=leveldb'])
    s.end()
    base = sorted(glob.glob(os.path.join(s.data, '*.ldb')))[0]

    def cut(pattern, n):
        def f():
            for p in glob.glob(os.path.join(base, pattern)):
                os.truncate(p, max(0, os.path.getsize(p) + n) if n < 0 else n)
        return f

    def flip():
        for p in glob.glob(os.path.join(base, '*.ldb')) + glob.glob(os.path.join(base, '*.log')):
            if os.path.getsize(p) > 20:
                with open(p, 'r+b') as f:
                    f.seek(os.path.getsize(p) // 2)
                    b = f.read(1)
                    f.seek(-1, 1)
                    f.write(bytes([b[0] ^ 0x40]))
    for name, damage in (('CURRENT empty', cut('CURRENT', 0)), ('tables empty', cut('*.ldb', 0)), ('log empty', cut('*.log', 0)),
                         ('MANIFEST cut', cut('MANIFEST-*', -3)), ('a byte flipped', flip),
                         ('all removed', lambda: shutil.rmtree(base))):
        damage()
        s = again(s, ['-volume.index=leveldb'])
        # What only shows when it is read is answered with "loading" for as long as the index is built anew, and with nothing else.
        c.equal(f'G13 leveldb with {name}: nothing but "loading"', [x for x in ledger.wrong(s.volume) if ': 503,' not in x][:2], [])
        wait_for('the index', lambda: ledger.wrong(s.volume) == [], 20)
        c.equal(f'G13 leveldb with {name}: all is served', ledger.wrong(s.volume)[:2], [])
        c.equal(f'G13 {name}: SIGTERM', s.end(), 0)


# ---- B: disk full ----
def on_small_disk(size, options=()):
    folder = temp_folder()
    return folder, ['-master.dir', os.path.join(folder, 'm'), '-volume.minFreeSpace=1KiB', '-master.volumeSizeLimitMB=1000',
                    *options]


def fill_up(path, leave_bytes=0):
    """Takes what is free, to the last byte."""
    with open(path, 'wb', buffering=0) as f:
        with contextlib.suppress(OSError):
            while True:
                f.write(b'\1' * 65536)
        with contextlib.suppress(OSError):
            while True:
                f.write(b'\1' * 512)
        if leave_bytes:
            f.truncate(max(0, f.tell() - leave_bytes))


@waiting_case
def g20_to_g25_full_disk():
    with small_disk('64m') as d:
        folder, options = on_small_disk(d)
        os.symlink(d, os.path.join(folder, 'data'))
        s = start(options, folder=folder)
        ledger, own = Ledger(), random.Random(SEED)
        paths, full, body = [], 0, b''
        for i in range(200):
            a = s.assign()
            if 'fid' not in a:
                full, body = 1, json.dumps(a).encode()
                break
            data = own.randbytes(600000)
            status, _, body = ask(a['url'], '/' + a['fid'], 'PUT', data)
            if status != 201:
                full = status
                break
            ledger.wrote('/' + a['fid'], data)
            paths.append('/' + a['fid'])
        c.equal('G25 a full disk is 507', full, 507)
        c.ok('G25 the answer names what is full', b'free' in body or b'space' in body, body[:300])
        c.equal('G20 nothing that was acknowledged is lost', ledger.wrong(s.volume), [])
        wait_for('the master to know', lambda: 'error' in s.assign(), 30)
        node = list(nodes_of(s.master).values())[0]
        c.equal('G21 a full server offers no slots', node['Free'], 0)
        files = len(glob.glob(os.path.join(d, '*.dat')))
        for _ in range(50):
            s.assign()
        c.equal('G22 assigns on a full disk create nothing', len(glob.glob(os.path.join(d, '*.dat'))), files)
        reason = s.assign().get('error', '')
        c.ok('G151 the refusal says that the disk is the reason', re.search(r'space|full|disk', reason), reason)
        gone = paths[::3]
        got = [status_of(s, p, method='DELETE') for p in gone]
        c.equal('G23 deletes work on a full disk', set(got), {202})
        for p in gone:
            ledger.deleted(p)
        c.equal('G23 and what was deleted is gone, the rest is not', ledger.wrong(s.volume), [])
        results = vacuum(s.master)
        c.equal('G20 a vacuum on a full disk loses nothing', ledger.wrong(s.volume), [])
        c.ok('G67 its results have a reason each', results and all(r['Outcome'] for r in results), results)
        c.equal('G24 SIGTERM on the full disk', s.end(), 0)
        c.equal('G20 no half copies are left', [f for f in os.listdir(d) if f.endswith(('.cpd', '.cpx', '.cpc'))], [])
        s = loaded(start(options, folder=folder, ports=s.ports, name='again'))
        c.equal('G24 starts on the full disk and reads', ledger.wrong(s.volume), [])
        for p in [p for p in paths if p not in gone][:-12]:
            if status_of(s, p, method='DELETE') == 202:
                ledger.deleted(p)
        # Each vacuum makes room for the next one's copy.
        wait_for('writes again without a restart', lambda: vacuum(s.master) is not None and s.put(b'after') is not None, 90)
        c.ok('G23 writes come back after a vacuum', True)
        c.equal('G20 still nothing lost', ledger.wrong(s.volume), [])
        c.equal('G23 SIGTERM', s.end(), 0)


@waiting_case
def g24_all_on_one_full_disk():
    """Master and volumes share a disk that is full: both start, what is there can be read, and what is refused says why."""
    with small_disk('48m') as d:
        folder = temp_folder()  # its logs have to go somewhere
        os.mkdir(os.path.join(d, 'data'))
        os.symlink(os.path.join(d, 'data'), os.path.join(folder, 'data'))
        options = ['-master.dir', os.path.join(d, 'm'), '-volume.minFreeSpace=1KiB', '-master.growth=1']
        s = start(options, folder=folder)
        ledger = Ledger()
        put_many(s, ledger, 20, SEED)
        before = [int(s.assign()['fid'].split(',')[1][:-8], 16) for _ in range(5)]
        c.equal('G24 SIGTERM', s.end(), 0)
        fill = os.path.join(d, 'fill')
        fill_up(fill)
        s = loaded(start(options, folder=folder, ports=s.ports, name='again'))
        c.equal('G24 with the master on the full disk too: all is read', ledger.wrong(s.volume), [])
        vid = next(iter(ledger.may))[1:].split(',')[0]
        c.ok('G24 and looked up', f'"{vid}"' in ask(s.master, f'/dir/lookup?volumeId={vid}')[2].decode())
        reason = s.assign().get('error', '')
        c.ok('G24 an assign says what cannot be written, and why', 'state' in reason and 'no space' in reason, reason)
        os.unlink(fill)
        wait_for('assigns again without a restart', lambda: 'fid' in s.assign(), 30)
        after = int(s.assign()['fid'].split(',')[1][:-8], 16)
        c.ok('G24 no key is handed out twice', after > max(before), (before, after))
        c.equal('G24 SIGTERM of both', s.end(), 0)


@waiting_case
def g23_deletes_after_a_restart():
    """The reserve for deletes outlives the process, and a small disk has one too."""
    for size in ('100m', '24m'):
        with small_disk(size) as d:
            folder, options = on_small_disk(d)
            os.symlink(d, os.path.join(folder, 'data'))
            s = start(options, folder=folder)
            reserve = os.path.join(d, 'dfs.ballast')
            ledger = Ledger()
            paths = put_many(s, ledger, 300, SEED, 200, 800)
            held = os.stat(reserve).st_blocks * 512
            c.ok(f'G23 a disk of {size} has a reserve', held >= 256 << 10, held)
            s.kill()
            fill_up(os.path.join(d, 'fill'))
            s = loaded(start(options, folder=folder, ports=s.ports, name='again'))
            fill_up(os.path.join(d, 'fill2'))
            got = [status_of(s, p, method='DELETE') for p in paths[::2]]
            c.equal(f'G23 deletes after a restart on a full disk of {size}', set(got), {202})
            for p in paths[::2]:
                ledger.deleted(p)
            c.equal('G23 and they hold', ledger.wrong(s.volume), [])
            c.ok('G23 the reserve was for them', 'reserve' in s.log_text())
            c.equal('G23 SIGTERM', s.end(), 0)


@waiting_case
def g20_vacuum_with_the_last_bytes():
    """Nothing is free; what is left alive fits into what was held back: a vacuum gives the rest back, with no operator."""
    with small_disk('48m') as d:
        folder, options = on_small_disk(d, ['-master.growth=1'])
        os.symlink(d, os.path.join(folder, 'data'))
        s = start(options, folder=folder)
        ledger = Ledger()
        keep = put_many(s, ledger, 50, SEED, 10000, 30000)
        go = put_many(s, ledger, 20, SEED, 900000, 1000000)
        fill_up(os.path.join(d, 'fill'))
        got = {status_of(s, p, method='DELETE') for p in go}
        c.equal('G20 deletes on the full disk', got, {202})
        for p in go:
            ledger.deleted(p)
        fill_up(os.path.join(d, 'fill2'), 2 << 20)  # what of the reserve was given to the deletes, if it was, but for the copy's room
        results = vacuum(s.master)
        c.ok('G20 the last bytes are tried', results and results[0]['Outcome'] == 'vacuumed', results)
        c.equal('G20 and nothing is lost', ledger.wrong(s.volume), [])
        c.ok('G20 there is room again', s.put(b'after') is not None)
        c.equal('G20 no leftovers', [f for f in os.listdir(d) if f.endswith(('.cpd', '.cpx', '.cpc'))], [])
        c.equal('G20 SIGTERM', s.end(), 0)


@case
def g20_many_volumes_garbage():
    """One volume, half garbage, without room for its copy."""
    with small_disk('48m') as d:
        folder, options = on_small_disk(d, ['-master.growth=1'])
        os.symlink(d, os.path.join(folder, 'data'))
        s = start(options, folder=folder)
        ledger = Ledger()
        for i in range(30):
            p = s.put(rng.randbytes(1000000))
            if p is None:
                break
            if i % 2:
                ask(s.volume, p, 'DELETE')
                ledger.deleted(p)
            else:
                ledger.wrote(p, ask(s.volume, p)[2])
        fill = os.path.join(d, 'fill')
        fill_up(fill)
        results = vacuum(s.master)
        c.ok('G20 without room it is refused with the reason', results and 'the copy may need' in results[0]['Outcome'], results)
        c.equal('G20 every live file is intact', ledger.wrong(s.volume), [])
        c.equal('G20 no leftovers', [f for f in os.listdir(d) if f.endswith(('.cpd', '.cpx', '.cpc'))], [])
        os.unlink(fill)

        def done():
            r = vacuum(s.master)
            return r and r[0]['Outcome'] == 'vacuumed'
        wait_for('a vacuum once there is room', done, 30)
        c.equal('G20 with room it is done, nothing lost', ledger.wrong(s.volume), [])
        s.end()


@waiting_case
def g07_folder_mounted_read_only():
    """As a kernel leaves a file system after an error: what is there is served, beside a folder that is well."""
    with small_disk('64m') as d:
        folder = temp_folder()
        other = os.path.join(folder, 'other')
        os.mkdir(other)
        os.symlink(d, os.path.join(folder, 'data'))
        options = ['-master.dir', os.path.join(folder, 'm')]
        s = start(options, folder=folder)
        ledger = Ledger()
        paths = put_many(s, ledger, 50, SEED, 200, 800)
        c.equal('G07 SIGTERM', s.end(), 0)
        try:
            subprocess.run(['mount', '-o', 'remount,ro', d], check=True)
            s = loaded(start([*options, f'-dir={s.data},{other}', '-volume.max=20,20'], folder=folder, ports=s.ports, name='readonly'))
            c.equal('G07 a folder mounted read-only is read', ledger.wrong(s.volume), [])
            c.ok('G07 and that it is one is said', any('cannot be written' in x and 'ead-only' in x for x in warnings(s)), warnings(s))
            for method in ('PUT', 'DELETE'):
                got = status_of(s, paths[0], method=method, body=b'x')
                c.ok(f'G07 it takes no {method}', got >= 400 and got != 404, got)
            c.ok('G07 new files go to the other folder', s.put(b'new') is not None and glob.glob(os.path.join(other, '*.dat')))
            c.equal('G07 all of it is still there', ledger.wrong(s.volume), [])
            c.equal('G07 SIGTERM of the read-only one', s.end(), 0)
            c.equal('G07 with no error in its log', [x for x in warnings(s) if x[:1] == 'E'], [])
        finally:
            subprocess.run(['mount', '-o', 'remount,rw', d], check=True)
        s = loaded(start(options, folder=folder, ports=s.ports, name='again'))
        c.equal('G07 mounted for writing again it takes writes', status_of(s, paths[0], method='DELETE'), 202)
        s.end()


@waiting_case
def g21_hysteresis():
    with small_disk('100m') as d:
        folder = temp_folder()
        os.symlink(d, os.path.join(folder, 'data'))
        s = start(['-master.dir', os.path.join(folder, 'm'), '-volume.minFreeSpace=20', '-pulseSeconds=1'], folder=folder)
        put_many(s, Ledger(), 2, SEED)
        fill = os.path.join(d, 'fill')
        with open(fill, 'wb') as f:
            f.write(b'\1' * (75 << 20))
        wait_for('no slots', lambda: list(nodes_of(s.master).values())[0]['Free'] == 0, 30)
        c.ok('G21 below the mark: no slots and no assigns', 'error' in s.assign(), s.assign())
        os.truncate(fill, 50 << 20)
        wait_for('slots again', lambda: list(nodes_of(s.master).values())[0]['Free'] > 0, 30)
        wait_for('assigns again', lambda: 'fid' in s.assign(), 30)
        c.ok('G21 with space both come back by themselves', s.put(b'back') is not None)
        s.end()


@case
def g26_inodes():
    with small_disk('64m', ',nr_inodes=24') as d:
        folder = temp_folder()
        os.symlink(d, os.path.join(folder, 'data'))
        s = start(['-master.dir', os.path.join(folder, 'm'), '-master.growth=20'], folder=folder)
        ledger = Ledger()
        put_many(s, ledger, 10, SEED)
        for i in range(6):
            s.assign(f'collection=c{i}')
        put_many(s, ledger, 10, SEED + 1)
        c.equal('G26 out of inodes: what there is goes on working', ledger.wrong(s.volume), [])
        c.ok('G26 and no half volume is left', all(os.path.exists(f[:-4] + '.dat') for f in glob.glob(d + '/*.idx')), os.listdir(d))
        c.equal('G26 SIGTERM', s.end(), 0)
        s = loaded(start(['-master.dir', os.path.join(folder, 'm')], folder=folder, ports=s.ports, name='again'))
        c.equal('G26 and after a restart', ledger.wrong(s.volume), [])
        s.end()


@case
def g27_preallocation():
    limit = 20 << 20
    # zeros ahead of the data are not what is looked at here
    opts = ['-master.volumeSizeLimitMB=20', '-master.volumePreallocate', '-master.growth=1', '-volume.zeroAheadMB=0']
    s = start(opts)
    ledger = Ledger()
    p = put_many(s, ledger, 1, SEED)[0]
    st = os.stat(first_dat(s))
    c.ok('G27 room is reserved, the size is not', st.st_size < 8192 and limit <= st.st_blocks * 512 <= limit + (2 << 20),
         (st.st_size, st.st_blocks * 512))
    s.end()
    s = again(s, opts)
    for _ in range(17):
        data = rng.randbytes(1000000)
        path = s.put(data)
        ledger.wrote(path, data)
    st = os.stat(first_dat(s))
    c.ok('G27 filled after a restart: not twice the limit', st.st_blocks * 512 <= limit + (2 << 20), (st.st_size, st.st_blocks * 512))
    c.equal('G27 reported size is the append position', volume_entry(s, p)['Size'], st.st_size)
    c.equal('G174 files are 0640, the folder 0750', (oct(st.st_mode & 0o777), oct(os.stat(s.data).st_mode & 0o777)), ('0o640', '0o750'))
    s.end()
    s = again(s, opts, name='third')
    c.equal('G27 all reads back', ledger.wrong(s.volume), [])
    s.end()


@case
def g29_slots_of_small_disks():
    for size, limit, want in (('96m', 64, 1), ('58m', 64, 0)):
        with small_disk(size) as d:
            folder = temp_folder()
            os.symlink(d, os.path.join(folder, 'data'))
            s = Server(o.dfs, folder=folder, options=['-master.dir', os.path.join(folder, 'm'), f'-master.volumeSizeLimitMB={limit}',
                                                      '-master.growth=1'])
            node = list(nodes_of(s.master).values())[0]
            c.ok(f'G29 a disk of {size} offers a slot for volumes of {limit} MB', node['Max'] >= want, node)
            c.ok(f'G29 and takes a file', s.put(b'x' * 1000) is not None, s.assign())
            s.end()


# ---- C: index ----
@case
def g40_index_missing():
    s, ledger, paths = filled(60)
    for p in paths[:5]:
        ask(s.volume, p, 'DELETE')
        ledger.deleted(p)
    data = b'second content'
    ask(s.volume, paths[10], 'PUT', data)
    ledger.wrote(paths[10], data)
    before = volume_entry(s, paths[0])
    s.end()
    for f in glob.glob(os.path.join(s.data, '*.idx')):
        os.unlink(f)
    s = again(s)
    c.equal('G40 without an .idx everything is found again', ledger.wrong(s.volume), [])
    c.equal('G48 deleted files stay deleted after a rebuild', {status_of(s, p) for p in paths[:5]}, {404})
    now = volume_entry(s, paths[0])
    same = ('FileCount', 'DeleteCount', 'DeletedByteCount', 'Size')
    c.equal('G45 counters are those from before', [now[x] for x in same], [before[x] for x in same])
    s.end()
    s = again(s, name='third')
    now = volume_entry(s, paths[0])
    c.equal('G45 and after a plain restart', [now[x] for x in same], [before[x] for x in same])
    s.end()


@case
def g41_index_sorted_by_key():
    s, ledger, paths = filled(50)
    data = b'newest' * 10
    ask(s.volume, paths[0], 'PUT', data)
    ledger.wrote(paths[0], data)
    s.end()
    idx = first_dat(s)[:-4] + '.idx'
    last = {}
    for r in idx_rows(idx):
        last[r[:8]] = r
    rewrite_index(idx, [last[k] for k in sorted(last)])
    forget_checkpoint(s)
    s = again(s)
    c.equal('G41 an index in key order loads', ledger.wrong(s.volume), [])
    c.ok('G41 and the volume is writable', not volume_entry(s, paths[0])['ReadOnly'])
    s.end()


@case
def g42_delete_in_a_sealed_volume():
    s = start(['-master.volumeSizeLimitMB=1'])
    ledger = Ledger()
    paths = []
    while len(volumes_of(s.volume)) < 3 and len(paths) < 200:
        data = rng.randbytes(60000)
        p = s.put(data)
        if p is not None:
            ledger.wrote(p, data)
            paths.append(p)
    vid = split_fid(paths[0])[0]
    mine = [p for p in paths if split_fid(p)[0] == vid]
    status, _, body = ask(s.volume, mine[0], 'PUT', rng.randbytes(60000))
    c.ok('G102 a volume at its limit takes no more', status >= 400 or volume_entry(s, mine[0])['Size'] < (1 << 20) + 70000, status)
    s.end()
    s = again(s, ['-master.volumeSizeLimitMB=1'])
    idx = os.path.join(s.data, vid + '.idx')
    before = os.path.getsize(idx)
    for p in mine[:3]:
        c.equal('G42 a delete in a full volume', status_of(s, p, method='DELETE'), 202)
        ledger.deleted(p)
    s.end()
    c.equal('G42 the .idx grew by three rows', os.path.getsize(idx) - before, 3 * 17)
    s = again(s, ['-master.volumeSizeLimitMB=1'], name='third')
    ledger.may.pop(mine[0]) if status < 400 else None
    c.equal('G42 the others are intact after a restart', ledger.wrong(s.volume), [])
    s.end()


@case
def g43_row_past_the_end():
    s, ledger, paths = filled(50)
    s.end()
    idx = first_dat(s)[:-4] + '.idx'
    r = idx_rows(idx)
    bad = (0xdeadbeef).to_bytes(8, 'big') + (1 << 28).to_bytes(4, 'big') + b'\0' + (100).to_bytes(4, 'big')
    rewrite_index(idx, r[:10] + [bad] + r[10:])
    forget_checkpoint(s)
    s = again(s)
    c.equal('G43 a row past the end of the data harms nothing', ledger.wrong(s.volume), [])
    for p in paths[:25]:
        ask(s.volume, p, 'DELETE')
        ledger.deleted(p)
    results = vacuum(s.master)
    c.equal('G43 and does not stop a vacuum', [x['Outcome'] for x in results][:1], ['vacuumed'])
    c.equal('G43 which loses nothing', ledger.wrong(s.volume), [])
    s.end()


@case
def g46_leveldb_checkpoint():
    s, ledger, _ = filled(1500, ['-volume.index=leveldb', '-volume.durability=none'])
    s.end()
    s = again(s, ['-volume.index=leveldb'])
    n = int(re.search(r'(\d+) index rows applied', s.log_text()).group(1))
    c.ok(f'G46 a clean start with leveldb applies few rows: {n}', n <= 16, s.log_text()[-400:])
    c.equal('G46 all is there', ledger.wrong(s.volume)[:2], [])
    s.kill()
    s = again(s, ['-volume.index=leveldb'], name='third')
    c.equal('G46 and after a kill', ledger.wrong(s.volume)[:2], [])
    s.end()


@case
def g47_g51_g52_odd_lengths():
    s, ledger, paths = filled(40)
    s.end()
    base = first_dat(s)[:-4]
    dat, idx = (open(base + x, 'rb').read() for x in ('.dat', '.idx'))
    for title, new_idx in (('G51 8 extra bytes', idx + b'\0\0\0\1\0\0\0\2'), ('G52 5 bytes short', idx[:-5]),
                           ('G51 half a row of zeros', idx + b'\0' * 9), ('G47 one row of zeros', idx + b'\0' * 17),
                           ('G47 rows twice', idx + idx)):
        for x, b in (('.dat', dat), ('.idx', new_idx)):
            with open(base + x, 'wb') as f:
                f.write(b)
        forget_checkpoint(s)
        s = again(s)
        c.equal(f'{title}: all is served', ledger.wrong(s.volume), [])
        c.ok(f'{title}: it is writable', not volume_entry(s, paths[0])['ReadOnly'], volume_entry(s, paths[0]))
        s.end()
        c.equal(f'{title}: the .dat is as it was', open(base + '.dat', 'rb').read() == dat, True)
    with open(base + '.dat', 'wb') as f:
        f.write(dat[:-100])
    forget_checkpoint(s)
    s = again(s)
    torn = ledger.wrong(s.volume)
    c.ok('G47 a torn tail costs the torn record alone', len(torn) == 1 and paths[-1] in torn[0], torn)
    put_many(s, Ledger(), 1, SEED)
    s.end()
    kept = [f for f in glob.glob(os.path.join(s.data, '*.cut-*'))]
    c.ok('G47 and the cut bytes are kept', len(kept) == 1 and open(kept[0], 'rb').read() in dat, kept)


@case
def g156_unknown_superblock():
    s, ledger, paths = filled(5)
    s.end()
    dat = first_dat(s)
    with open(dat, 'rb') as f:
        b = f.read()
    other = os.path.join(s.data, '900.dat')
    with open(other, 'wb') as f:
        f.write(bytes([9]) + b[1:])
    shutil.copy(dat[:-4] + '.idx', os.path.join(s.data, '900.idx'))
    before = [sha256_of(os.path.join(s.data, '900' + x)) for x in ('.dat', '.idx')]
    s = again(s)
    c.ok('G156 a volume of an unknown version is not served', status_of(s, '/900,' + paths[0].split(',')[1]) != 200)
    c.equal('G156 the others are', ledger.wrong(s.volume), [])
    s.end()
    c.equal('G156 its files are untouched', [sha256_of(os.path.join(s.data, '900' + x)) for x in ('.dat', '.idx')], before)


@case
def g133_every_byte_flipped():
    """Copies of a small volume under ids of their own, each with one byte of its records wrong."""
    s = start()
    ledger = Ledger()
    paths = put_many(s, ledger, 3, SEED, 60, 60)
    s.end()
    base = first_dat(s)[:-4]
    dat, idx, vif = (open(base + x, 'rb').read() for x in ('.dat', '.idx', '.vif'))
    spots = list(range(0, len(dat)))
    for i, at in enumerate(spots):
        b = bytearray(dat)
        b[at] ^= 1 << rng.randrange(8)
        for x, content in (('.dat', bytes(b)), ('.idx', idx), ('.vif', vif)):
            if x != '.idx' or i % 2 == 0:
                with open(os.path.join(s.data, f'{1000 + i}{x}'), 'wb') as f:
                    f.write(content)
    s = loaded(start(['-volume.max=2000'], folder=s.folder, ports=s.ports, name='again'))
    v, wrong, answers = Client(s.volume), [], {}
    for i, at in enumerate(spots):
        for p in paths:
            path = f"/{1000 + i},{p.split(',')[1]}"
            for headers in ({}, {'Range': 'bytes=5-20'}):
                status, _, body = v('GET', path, headers=headers)
                answers[status] = answers.get(status, 0) + 1
                if status == 200 and Ledger.digest(body) not in ledger.allowed(p):
                    wrong.append((at, p, status))
                if status not in (200, 206, 404, 500, 503):
                    wrong.append((at, p, status))
    c.equal(f'G133 {len(spots)} flipped bytes: never a wrong 200 ({answers})', wrong, [])
    c.equal('G133 the healthy volume serves', ledger.wrong(s.volume), [])
    vacuum(s.master)
    c.equal('G133 and after a vacuum of all of them', ledger.wrong(s.volume), [])
    c.equal('G133 SIGTERM', s.end(), 0)


# ---- D: vacuum ----
@case
def g62_corrupt_needle_and_vacuum():
    s, ledger, paths = filled(60)
    for p in paths[:20]:
        ask(s.volume, p, 'DELETE')
        ledger.deleted(p)
    s.end()
    dat = first_dat(s)
    victim = paths[40]
    at = [row_offset(r) for r in idx_rows(dat[:-4] + '.idx') if int.from_bytes(r[:8], 'big') == int(split_fid(victim)[1], 16)][0]
    with open(dat, 'r+b') as f:
        f.seek(at + 60)
        b = f.read(1)
        f.seek(at + 60)
        f.write(bytes([b[0] ^ 1]))
    s = again(s)
    before = volume_entry(s, paths[0])['Size']
    results = vacuum(s.master)
    c.ok('G62 a corrupt needle does not stop a vacuum', results and volume_entry(s, paths[0])['Size'] < before, results)
    rest = [p for p in paths if p != victim]
    c.equal('G62 nothing else is lost', ledger.wrong(s.volume, paths=rest), [])
    c.ok('G62 it is never answered 200', status_of(s, victim) != 200)
    c.ok('G62 it is counted and logged', volume_entry(s, paths[0])['CorruptCount'] >= 1 and
         any('corrupt' in x for x in warnings(s)), volume_entry(s, paths[0]))
    with open(dat, 'rb') as f:
        c.ok('G62 its bytes are still there', b[0:1] is not None and int(split_fid(victim)[1], 16).to_bytes(8, 'big') in f.read())
    s.end()


@case
def g67_vacuum_at_any_threshold():
    s, ledger, paths = filled(300)
    ask(s.volume, paths[7], 'DELETE')
    ledger.deleted(paths[7])
    before = volume_entry(s, paths[0])['Size']
    r = vacuum(s.master, 0.9)
    c.equal('G67 not at a threshold above', volume_entry(s, paths[0])['Size'], before)
    r = vacuum(s.master, 0)
    now = volume_entry(s, paths[0])
    c.ok('G67 one deleted file of 300 is reclaimed at threshold 0', now['Size'] < before, (r, now, before))
    c.ok('G67 and the result says so', r and r[0]['Before'] > r[0]['After'] and r[0]['Outcome'] == 'vacuumed', r)
    c.equal('G67 the revision went up', now['CompactRevision'], 1)
    c.equal('G67 nothing lost', ledger.wrong(s.volume), [])
    for q in ('x', '-1', '1.5', 'nan', ''):
        status = get(f'http://{s.master}/vol/vacuum?garbageThreshold={q}')[0]
        c.ok(f'G67 garbageThreshold={q} is answered', status in (200, 400, 406), status)
    s.end()


@case
def g115_reads_of_what_is_being_deleted():
    """Until a volume is gone there is its file, then a 404; in between it may be asked for again.  Never an error of ours."""
    s = start(['-volume.max=40'])
    for i in range(8):
        paths = put_many(s, Ledger(), 20, SEED + i, 200, 800, assign=f'collection=gone{i}')
        got, stop = set(), threading.Event()

        def read(i, paths=paths, got=got, stop=stop):
            v = Client(s.volume)
            while not stop.is_set():
                for p in paths[i::2]:
                    got.add(v('GET', p)[0])
            v.close()
        threads = [threading.Thread(target=read, args=(i,)) for i in range(2)]
        for t in threads:
            t.start()
        wait_for('reads', lambda got=got: 200 in got)
        c.ok(f'G115 collection {i} is deleted', ask(s.master, f'/col/delete?collection=gone{i}', 'POST')[0] in (200, 204))
        wait_for('the end of it', lambda got=got: 404 in got)
        stop.set()
        for t in threads:
            t.join()
        c.ok('G115 reads meanwhile: the file, not there, or ask again', got <= {200, 404, 503}, got)
    c.equal('G115 SIGTERM', s.end(), 0)


def gzip_uploads(s):
    """What calls itself gzip is inflated before it is stored: its length is that of all members, and what cannot be answered to
    who does not accept gzip is not taken."""
    import gzip as gz
    own = random.Random(SEED)
    text = bytes(own.choices(b'abcdefgh', k=20000))
    one, long = gz.compress(text, mtime=0), gz.compress(own.randbytes(3000000), mtime=0)
    for name, body, want in (('one member', one, text), ('two members', gz.compress(b'a' * 1000) + gz.compress(b'bb'), b'a' * 1000 + b'bb'),
                             ('zeros behind it', one + bytes(8), text), ('nothing in it', gz.compress(b''), b''),
                             ('a long one', long, gz.decompress(long)), ('5 MB of one byte', gz.compress(b'x' * 5000000), b'x' * 5000000)):
        p = '/' + s.assign()['fid']
        status, _, answer = ask(s.volume, p, 'PUT', body, {'Content-Type': 'text/plain', 'Content-Encoding': 'gzip'})
        c.equal(f'G118 gzip, {name}: taken, with the length of its text', (status, json.loads(answer).get('size', 0)), (201, len(want)))
        status, h, got = ask(s.volume, p)
        c.ok(f'G118 gzip, {name}: inflated', status == 200 and got == want, (status, len(got)))
        c.ok(f'G118 gzip, {name}: as it was sent', ask(s.volume, p, headers={'Accept-Encoding': 'gzip'})[2] == body)
    for base, kind in ((one, 'short'), (long, 'long')):
        flipped = bytearray(base)
        flipped[len(base) // 2] ^= 0x55
        for name, body in (('cut short', base[:-6]), ('cut in the middle', base[:len(base) // 2]), ('its head only', base[:10]),
                           ('a wrong length', base[:-4] + (5).to_bytes(4, 'little')), ('a huge length', base[:-4] + b'\xff' * 4),
                           ('a wrong sum', base[:-8] + b'abcd' + base[-4:]), ('a flipped bit', bytes(flipped)), ('junk behind it', base + b'junk'),
                           ('a broken second member', base + base[:-5])):
            p = '/' + s.assign()['fid']
            for how in ('raw', 'form'):
                if how == 'raw':
                    status, _, answer = ask(s.volume, p, 'PUT', body, {'Content-Type': 'text/plain', 'Content-Encoding': 'gzip'})
                else:
                    form = (b'--q\r\nContent-Disposition: form-data; name="file"; filename="f.txt"\r\nContent-Encoding: gzip\r\n\r\n' + body +
                            b'\r\n--q--\r\n')
                    status, _, answer = ask(s.volume, p, 'POST', form, {'Content-Type': 'multipart/form-data; boundary=q'})
                c.ok(f'G118 {kind} gzip with {name}, {how}: 400 that says so', status == 400 and b'inflate' in answer, (status, answer[:200]))
            c.equal(f'G118 {kind} gzip with {name}: nothing is stored', ask(s.volume, p)[0], 404)
    bomb = gz.compress(bytes(300 << 20), 6, mtime=0) + gz.compress(b'x', mtime=0)
    p = '/' + s.assign()['fid']
    status, _, answer = ask(s.volume, p, 'PUT', bomb, {'Content-Type': 'text/plain', 'Content-Encoding': 'gzip'})
    c.ok('G118 more than the limit in little gzip is 413', status == 413 and b'limit' in answer, (status, answer[:200]))
    c.equal('G118 and not stored', ask(s.volume, p)[0], 404)


# ---- H: HTTP ----
@case
def http_cases():
    s = start(['-volume.fileSizeLimitMB=8', '-master.fileSizeLimitMB=8'])
    data = rng.randbytes(100000)
    p = s.put(data)
    for spec in ('100000-', '100000-100005', '200000-', '-0'):
        status, h, _ = ask(s.volume, p, headers={'Range': 'bytes=' + spec})
        c.equal(f'G110 Range bytes={spec}', (status, h.get('content-range')), (416, 'bytes */100000'))
    status, h, body = ask(s.volume, p, headers={'Range': 'bytes=99990-'})
    c.equal('G110 the last ten bytes', (status, h.get('content-range'), body), (206, 'bytes 99990-99999/100000', data[-10:]))

    a = s.assign()
    body, headers = form(data, 'a.bin')
    status, h, answer = ask(s.volume, '/' + a['fid'], 'POST', body, headers)
    tag = h.get('etag')
    h2 = ask(s.volume, '/' + a['fid'], 'HEAD')[1]
    c.equal('G111 one ETag in the upload answer, in its JSON, and in HEAD', (tag, '"%s"' % json.loads(answer)['eTag']), (h2.get('etag'),) * 2)
    for v in (tag, 'W/' + tag, f'"x", {tag}', '*'):
        status, _, b = ask(s.volume, '/' + a['fid'], headers={'If-None-Match': v})
        c.equal(f'G111 If-None-Match: {v}', (status, b), (304, b''))
    status, _, b = ask(s.volume, '/' + a['fid'], headers={'If-Modified-Since': h2['last-modified']})
    c.equal('G111 If-Modified-Since', (status, b), (304, b''))
    c.equal('G111 another ETag', ask(s.volume, '/' + a['fid'], headers={'If-None-Match': '"0"'})[0], 200)

    a = s.assign()
    dat = os.path.join(s.data, a['fid'].split(',')[0] + '.dat')
    size = os.path.getsize(dat)
    out, closed = raw(s.volume, f"POST /{a['fid']} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc".encode(), 2, True)
    c.ok('G112 a body that ends short is no success', b' 201' not in out, out[:100])
    c.equal('G112 it is not stored, not a byte', (status_of(s, '/' + a['fid']), os.path.getsize(dat)), (404, size))

    unknown_volume = ask(s.volume, '/99999,0100000000')
    unknown_key = ask(s.volume, f"/{a['fid'].split(',')[0]},ffff00000000")
    c.equal('G113 both are 404', (unknown_volume[0], unknown_key[0]), (404, 404))
    c.ok('G113 a volume that is not here looks different from a file that is not',
         {k: v for k, v in unknown_volume[1].items() if k.startswith('x-')} != {k: v for k, v in unknown_key[1].items() if k.startswith('x-')}
         or unknown_volume[2] != unknown_key[2], (unknown_volume, unknown_key))

    missing = ask(s.volume, f"/{p.split(',')[0].lstrip('/')},ffff00000000", 'DELETE')
    guessed = ask(s.volume, wrong_cookie(p), 'DELETE')
    c.equal('G114 a wrong cookie looks like a missing file', guessed[::2], missing[::2])
    c.equal('G114 and deletes nothing', status_of(s, p), 200)
    c.equal('G114 nor reads', status_of(s, wrong_cookie(p)), 404)
    status = status_of(s, wrong_cookie(p), method='PUT', body=b'x')
    c.ok('G114 nor overwrites', status >= 400 and ask(s.volume, p)[2] == data, status)

    vid = p.split(',')[0].lstrip('/')
    status = status_of(s, f'/{vid},ffffffffffffffff00000000_1')
    c.ok('G115 a delta past 64 bits is refused', status in (400, 404), status)
    more = put_many(s, Ledger(), 3, SEED)
    batch = [more[0].lstrip('/'), wrong_cookie(more[1]).lstrip('/'), more[2].lstrip('/'), 'zz']
    status, _, b = get(f'http://{s.volume}/delete?' + '&'.join('fid=' + f for f in batch), method='POST', data=b'')
    entries = json.loads(b) if b.startswith(b'[') else []
    c.equal('G115 a batch goes past bad ids', [e.get('status') for e in entries][0::2], [202, 202])
    c.ok('G115 with a status for each', len(entries) == 4 and entries[1]['status'] in (400, 404) and entries[3]['status'] == 400, b[:400])
    c.equal('G115 only the named ones went', [status_of(s, x) for x in more], [404, 200, 404])

    for n in (255, 256, 65536):
        a = s.assign()
        body, headers = form(b'named', 'n' * n)
        status, _, b = ask(s.volume, '/' + a['fid'], 'POST', body, headers)
        got = ask(s.volume, '/' + a['fid'])
        c.ok(f'G116 a name of {n} bytes: stored or refused, never garbled',
             status == 201 and got[2] == b'named' or 400 <= status < 500 and got[0] == 404, (status, got[0]))
        if n == 255:
            c.ok('G116 255 bytes come back', 'n' * 255 in got[1].get('content-disposition', ''), got[1])
    a = s.assign()
    body, headers = form(b'named', 'ä' * 200)
    status = ask(s.volume, '/' + a['fid'], 'POST', body, headers)[0]
    d = ask(s.volume, '/' + a['fid'])[1].get('content-disposition', '')
    c.ok('G116 a long name is cut between characters, if at all', status == 201 and re.search(r"''(%C3%A4)*$", d) or not d, d)

    big = s.put(rng.randbytes(7000000))
    trace = Strace(s.pid, 'pread64,preadv,preadv2,read,sendfile', s.folder)
    status, h, b = ask(s.volume, big, 'HEAD')
    calls = trace.stop()
    took = sum(int(m.group(1)) for x in calls if '.dat>' in x[3] for m in [re.search(r'= (\d+)$', x[3])] if m)
    c.ok('G117 HEAD of 7 MB reads less than 1 KB', status == 200 and h['content-length'] == '7000000' and took < 1024, took)

    import gzip as gz
    text = b'many words ' * 1000
    packed = gz.compress(text)
    a, b = s.assign()['fid'], s.assign()['fid']
    ask(s.volume, '/' + a, 'PUT', packed, {'Content-Type': 'text/plain', 'Content-Encoding': 'gzip'})
    ask(s.volume, '/' + b, 'PUT', packed, {'Content-Type': 'application/gzip'})
    st, h, body = ask(s.volume, '/' + a)
    c.equal('G118 stored gzip is inflated for who does not accept it', (st, h.get('content-encoding'), body == text), (200, None, True))
    st, h, body = ask(s.volume, '/' + a, headers={'Accept-Encoding': 'gzip'})
    c.equal('G118 and sent as it is to who does', (h.get('content-encoding'), body == packed), ('gzip', True))
    c.ok('G118 a gzip file is only a file', all(ask(s.volume, '/' + b, headers=x)[2] == packed for x in ({}, {'Accept-Encoding': 'gzip'})))

    gzip_uploads(s)

    c.equal('G119 300 requests without keep-alive', {ask(s.volume, p, headers={'Connection': 'close'})[0] for _ in range(300)}, {200})

    too_big = b'\1' * (9 << 20)
    for name, addr, path, method in (('PUT', s.volume, '/' + s.assign()['fid'], 'PUT'), ('/submit', s.master, '/submit', 'POST')):
        body, headers = form(too_big, 'big') if method == 'POST' else (too_big, {})
        sock = socket.create_connection(tuple(addr.split(':')), 5)
        sock.settimeout(10)
        head = f'{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n' + ''.join(f'{k}: {v}\r\n' for k, v in headers.items())
        sock.sendall((head + '\r\n').encode())
        answer = sock.recv(1000)
        sock.close()
        c.ok(f'G120 {name} over the limit: 413 before the body', b' 413 ' in answer.split(b'\r\n')[0], answer[:80])

    a = s.assign()['fid']
    png = b'\x89PNG\r\n\x1a\n' + b'\0' * 50
    body, headers = form(png, 'pic.png', 'text/plain')
    ask(s.volume, '/' + a, 'POST', body, headers)
    c.ok('G121 the type that was given wins', ask(s.volume, '/' + a)[1]['content-type'].startswith('text/plain'))
    a = s.assign()['fid']
    body, headers = form(png, 'pic.png')
    ask(s.volume, '/' + a, 'POST', body, headers)
    c.equal('G121 else that of the name', ask(s.volume, '/' + a)[1]['content-type'], 'image/png')
    size = volume_entry(s, '/' + a)['Size']
    status, h, _ = ask(s.volume, '/' + a, 'POST', body, headers)
    c.equal('G122 the same content again: 204, its ETag, nothing appended',
            (status, bool(h.get('etag')), volume_entry(s, '/' + a)['Size']), (204, True, size))

    rss = s.rss_mb('VmRSS')
    out, _ = raw(s.volume, f"PUT /{s.assign()['fid']} HTTP/1.1\r\nHost: x\r\nContent-Length: {1 << 62}\r\n\r\n0123456789".encode(), 2)
    c.ok('G131 a length of 2^62 is 413', b' 413 ' in out[:20], out[:100])
    c.ok('G131 and allocates nothing', s.rss_mb('VmRSS') - rss < 50, s.rss_mb('VmRSS') - rss)
    c.equal('HTTP cases: SIGTERM', s.end(), 0)


# ---- E, F, G: what one machine shows of masters and placement ----
@case
def g92_keys_after_a_kill():
    m = Master(o.dfs)
    v = VolumeServer(o.dfs, m.full, folder=m.folder)
    first = [split_fid(m.assign()['fid'])[1] for _ in range(5)]
    m.kill()
    m2 = Master(o.dfs, folder=m.folder, ports=m.ports, name='again')
    wait_for('the volume server to come back', lambda: 'fid' in m2.assign(), 40)
    second = [split_fid(m2.assign()['fid'])[1] for _ in range(5)]
    c.ok('G92 no key is given out twice', len(set(int(x, 16) for x in first + second)) == 10, (first, second))
    files = len(glob.glob(v.data + '/*.dat'))
    c.equal('G93 the restarted master made no new volumes', files, 7)
    m2.kill()
    status = ask(v.volume, '/healthz')[0]
    c.equal('G155 /healthz of the volume server without a master', status, 200)
    m3 = Master(o.dfs, folder=m.folder, ports=m.ports, name='third')
    wait_for('it to come back again', lambda: 'fid' in m3.assign(), 40)
    c.equal('G92 volume server ends with', v.end(), 0)
    c.equal('G92 master ends with', m3.end(), 0)


@case
def g105_unknown_places():
    s = start()
    for q, word in (('dataCenter=nope', 'DefaultDataCenter'), ('rack=nope', 'DefaultRack'), ('dataNode=nope:1', '')):
        t = time.monotonic()
        status, _, body = get(f'http://{s.master}/dir/assign?{q}', 20)
        c.ok(f'G105 assign?{q} is refused', 400 <= status < 500, (status, body[:200]))
        # what waits for growth waits for twenty seconds
        c.ok(f'G105 at once, naming what there is', time.monotonic() - t < 15 and word.encode() in body, body[:300])
    for q in ('replication=001', 'replication=100'):
        status, _, body = get(f'http://{s.master}/dir/assign?{q}', 20)
        c.ok(f'G151 assign?{q} on one server says why not', status >= 400 and re.search(rb'server|slot|rack|center', body), body[:300])
    for q in ('replication=9x', 'replication=0000', 'collection=../x', 'collection=a/b', 'ttl=x'):
        status, _, body = get(f'http://{s.master}/dir/assign?{q}', 20)
        c.ok(f'G151 assign?{q} is refused', 400 <= status < 500, (status, body[:200]))
    s.end()
    s = start(['-volume.max=1'])
    s.put(b'x')
    status, _, body = get(f'http://{s.master}/dir/assign?collection=other', 20)
    c.ok('G151 no free slot: the refusal counts them', status >= 400 and b'slot' in body, body[:300])
    s.end()


@waiting_case
def g151_no_volume_servers():
    m = Master(o.dfs)
    status, _, body = get(f'http://{m.master}/dir/assign', 40)  # a new master waits for servers first
    c.ok('G151 no volume servers: the refusal says so', status >= 400 and b'server' in body, (status, body[:300]))
    c.equal('G151 SIGTERM', m.end(), 0)


# ---- I: resources ----
@case
def g134_few_descriptors():
    folder = temp_folder()
    s = start(['-volume.max=400'], folder=folder)
    get(f'http://{s.master}/vol/grow?count=150&collection=many', 60)
    ledger = Ledger()
    paths = put_many(s, ledger, 10, SEED)
    s.end()
    argv = ['sh', '-c', 'ulimit -n 512; exec "$@"', 'sh', *s.argv]
    p = Process(argv, folder, 'few')
    s.p, s.log_path, s.log_start = p.p, p.log_path, p.log_start
    s.wait_ready()
    loaded(s)
    c.equal('G134 150 volumes with 512 descriptors are served', ledger.wrong(s.volume), [])
    socks = []
    for _ in range(500):
        try:
            socks.append(socket.create_connection(tuple(s.volume.split(':')), 2))
        except OSError:
            break
    time.sleep(0.3)
    for x in socks:
        x.close()
    wait_for('service after 500 clients', lambda: status_of(s, paths[0]) == 200, 20)
    c.ok('G134 after a flood of connections it serves', s.p.poll() is None and ledger.wrong(s.volume) == [])
    c.equal('G134 SIGTERM', s.end(), 0)


@case
def g137_slow_clients():
    s = start(['-idleTimeout=2'])
    p = s.put(b'hello')
    socks = []
    for i in range(200):
        x = socket.create_connection(tuple(s.volume.split(':')), 2)
        x.sendall((b'GET ', b'PUT /1,0 HTTP/1.1\r\nContent-Le', f'PUT {p} HTTP/1.1\r\nContent-Length: 100\r\n\r\nab'.encode(), b'')[i % 4])
        socks.append(x)
    c.equal('G137 beside 200 stuck clients a request is answered', status_of(s, p), 200)

    def all_closed():
        for x in list(socks):
            x.settimeout(0.01)
            try:
                if x.recv(4096) == b'':
                    socks.remove(x)
            except (TimeoutError, socket.timeout):
                return False
            except OSError:
                socks.remove(x)
        return not socks
    wait_for('the stuck ones to be closed', all_closed, 30)
    c.ok('G137 clients that make no progress are closed', True)
    c.equal('G137 nothing of them was stored', ask(s.volume, p)[2], b'hello')
    s.end()


@case
def g138_idle_volumes():
    s = start(['-volume.max=700'])
    s.put(b'x')
    threads, rss = len(thread_names(s.pid)), s.rss_mb('VmRSS')
    get(f'http://{s.master}/vol/grow?count=500&collection=idle', 120)
    wait_for('500 volumes', lambda: len(volumes_of(s.volume)) >= 500, 60)
    c.equal('G138 no thread for an idle volume', len(thread_names(s.pid)), threads)
    per = (s.rss_mb('VmRSS') - rss) * 1024 / 500
    c.ok(f'G138 an idle volume costs {per:.1f} KB', per < 40)
    body = get(f'http://{s.volume}/healthz')[2]
    c.ok('F13 healthz stays small', len(body) < 1024)
    s.end()


# ---- J: ttl ----
@case
def ttl_cases():
    folder = temp_folder()
    ahead = os.path.join(folder, 'ahead')
    with open(ahead, 'wb') as f:
        f.write(struct.pack('=q', 0))
    s = start(['-volume.max=40'], folder=folder, env={'LD_PRELOAD': preload('shift_clock'), 'SHIFT_CLOCK': ahead})
    a = s.assign('ttl=1m')
    ask(a['url'], '/' + a['fid'], 'PUT', b'inherits')
    inherits = '/' + a['fid']
    a = s.assign('ttl=1m')
    ask(a['url'], '/' + a['fid'] + '?ttl=1m', 'PUT', b'named')
    named = '/' + a['fid']
    plain = s.put(b'stays')
    a = s.assign('ttl=1d')
    ask(a['url'], '/' + a['fid'], 'PUT', b'z' * 5000)
    day = '/' + a['fid']
    c.equal('G140 before its time all is there', [status_of(s, p) for p in (inherits, named, plain)], [200] * 3)
    for n, unit in ((1, 'm'), (255, 'm'), (7, 'h'), (255, 'd'), (3, 'w'), (12, 'M'), (3, 'y'), (255, 'y')):
        status, _, body = get(f'http://{s.master}/dir/assign?ttl={n}{unit}', 20)
        c.equal(f'G141 ttl={n}{unit}', status, 200)
        v = volumes_of(s.volume).get(int(json.loads(body)['fid'].split(',')[0])) if status == 200 else None
        unit_number = {'m': 1, 'h': 2, 'd': 3, 'w': 4, 'M': 5, 'y': 6}[unit]
        c.ok(f'G141 ttl={n}{unit} is kept exactly', v and v['Ttl'] == {'Count': n, 'Unit': unit_number}, v and v['Ttl'])
    for q in ('0', '0m', '256m', '-1m', '1x', 'm', '1.5h'):
        status = get(f'http://{s.master}/dir/assign?ttl={q}', 20)[0]
        c.ok(f'G141 ttl={q} is refused or exact', 400 <= status < 500 or q == '0', status)
    c.equal('G142 delete in a volume with a ttl', status_of(s, day, method='DELETE'), 202)
    vacuum(s.master)
    c.ok('G142 a vacuum frees it', volume_entry(s, day)['Size'] < 5000, volume_entry(s, day))

    with open(ahead, 'r+b') as f:
        f.write(struct.pack('=q', 62))
    c.equal('G143 past their time they are 404', [status_of(s, p) for p in (inherits, named)], [404, 404])
    c.equal('G143 others stay', status_of(s, plain), 200)
    vacuum(s.master)
    c.ok('G63 a vacuum of expired files leaves the volume writable or gone',
         not (volumes_of(s.volume).get(int(split_fid(named)[0])) or {}).get('ReadOnly'))
    c.equal('G63 SIGTERM', s.end(), 0)


# ---- K, L: operations, benchmark ----
@case
def g152_counters():
    s, ledger, paths = filled(20)
    before = {t: metric(s.volume, 'SeaweedFS_volumeServer_handler_total', {'type': t}) for t in ('errorGetNotFound', 'errorCRC')}
    ask(s.volume, wrong_cookie(paths[0]))
    c.ok('G152 a missing file is counted',
         metric(s.volume, 'SeaweedFS_volumeServer_handler_total', {'type': 'errorGetNotFound'}) > before['errorGetNotFound'])
    s.end()
    dat = first_dat(s)
    at = [row_offset(r) for r in idx_rows(dat[:-4] + '.idx') if int.from_bytes(r[:8], 'big') == int(split_fid(paths[3])[1], 16)][0]
    with open(dat, 'r+b') as f:
        f.seek(at + 40)
        b = f.read(1)
        f.seek(at + 40)
        f.write(bytes([b[0] ^ 8]))
    s = again(s)
    c.ok('G152 a flipped byte is no 200', status_of(s, paths[3]) != 200)
    c.ok('G152 and is counted', metric(s.volume, 'SeaweedFS_volumeServer_handler_total', {'type': 'errorCRC'}) >= 1)
    s.end()


@case
def g154_sighup():
    folder = temp_folder()
    log = os.path.join(folder, 'dfs.log')
    s = start(['-logFile', log], folder=folder)
    os.rename(log, log + '.1')
    s.p.send_signal(signal.SIGHUP)
    wait_for('the log to be opened anew', lambda: os.path.exists(log))
    c.ok('G154 SIGHUP opens the log anew and harms nothing', s.put(b'x') is not None)
    c.equal('G154 SIGTERM', s.end(), 0)
    c.ok('G154 later lines are in the new one', 'stopped cleanly' in open(log).read())


@case
def g160_benchmark():
    s = start(['-volume.max=40'])
    lists = [os.path.join(s.folder, x) for x in ('l1', 'l2')]
    status, text = benchmark(o.dfs, s.master_full, '-n', '2000', '-size', '1024', '-list', lists[0], '-collection', 'zip')
    c.equal('G163 benchmark: counts', (status, complete_and_failed(text)), (0, [(2000, 0), (2000, 0)]))
    s.end()
    dats = glob.glob(os.path.join(s.data, 'zip_*.dat'))
    whole = b''.join(open(f, 'rb').read() for f in dats)
    import zlib
    c.ok('G160 its data does not compress', len(whole) > 2000000 and len(zlib.compress(whole, 9)) > 0.94 * len(whole),
         (len(whole), len(zlib.compress(whole, 9))))
    s = again(s, ['-volume.max=40'])
    ps = [subprocess.Popen([o.dfs, 'benchmark', f'-master={s.master_full}', '-n', '3000', '-list', x], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True) for x in lists]
    out = [(p.communicate(timeout=120)[0], p.returncode) for p in ps]
    c.equal('G162 two at the same time do not disturb each other', [(r, complete_and_failed(t)) for t, r in out],
            [(0, [(3000, 0), (3000, 0)])] * 2)
    p = subprocess.Popen([o.dfs, 'benchmark', f'-master={s.master_full}', '-n', '100000000', '-c', '4', '-read=false', '-list', lists[0]],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = []

    def read_lines():
        for line in p.stdout:
            m = re.match(r'Completed \d+ of \d+ requests, +[\d.]+% +([\d.]+)/s', line)
            lines.extend([float(m.group(1))] if m else [])
    reader = threading.Thread(target=read_lines, daemon=True)
    reader.start()
    wait_for('a line that shows progress', lambda: any(lines), 30)
    s.p.send_signal(signal.SIGSTOP)
    wait_for('two lines though nothing moves', lambda: lines.count(0.0) >= 2, 30)
    s.p.send_signal(signal.SIGCONT)
    n = len(lines)
    wait_for('progress again', lambda: any(lines[n:]), 30)
    s.kill()
    n = len(lines)
    wait_for('a line without a server', lambda: len(lines) > n + 1, 30)
    p.send_signal(signal.SIGINT)
    try:
        p.wait(90)
    except subprocess.TimeoutExpired:
        p.kill()
    reader.join(10)
    c.ok(f'G165 a line each second, also when nothing moved: {lines}', True)
    c.ok('G161 with failures the exit is not 0', p.returncode != 0, p.returncode)


def run_case(f):
    t = time.monotonic()
    try:
        f()
    except Exception:  # one case that breaks must not hide the others
        c.ok(f.__name__, False, traceback.format_exc()[-1500:])
    print(f'# {f.__name__}: {time.monotonic() - t:.1f} s', flush=True)


def main():
    only = os.environ.get('ONLY', '')
    os.umask(0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    with concurrent.futures.ThreadPoolExecutor(LANES) as beside:
        for f in WAITING:
            if only in f.__name__:
                beside.submit(run_case, f)
        for f in CASES:
            if only in f.__name__:
                run_case(f)
    c.done()


main()
