#!/usr/bin/env python3
"""The master through restarts, pauses and stops: volumes that load are waited for, a pause of its own takes no server down,
requests that wait are answered at a stop, who asks for a vacuum gets his own, one that fails is
tried less and less often, volumes that fill up cost no write while others can be made, and what is not built says so.
scale: every"""
import glob
import os
import shutil
import signal
import subprocess
import threading

from kit import *  # noqa: F403
from rig import *  # noqa: F403

o = arguments(__doc__)
c = Checks()


def together(addr, paths):
    """Answers to requests sent at once, in order."""
    out = [None] * len(paths)

    def one(i):
        out[i] = ask(addr, paths[i])
    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(paths))]
    for t in threads:
        t.start()
    return threads, out


def no_volume_is_made_while_others_load():
    options = ['-master.growth=1', '-volume.max=20', '-master.volumeSizeLimitMB=1024']
    s = Server(o.dfs, options=options)
    done = subprocess.run([o.dfs, 'benchmark', '-server', s.master, '-n', '30000', '-size', '600', '-c', '32', '-writeOnly',
                           '-collection=', '-list', os.path.join(s.folder, 'list')], capture_output=True, timeout=300)
    c.equal('30000 files are written', done.returncode, 0)
    s.end()
    for f in glob.glob(s.data + '/*.idx') + glob.glob(s.data + '/*.ckp'):
        os.unlink(f)  # so that loading takes a while
    s = Server(o.dfs, folder=s.folder, ports=s.ports, options=options, wait=False, name='again')
    wait_for('the master', lambda: get(f'http://{s.master}/cluster/healthz', 2)[0] == 200)
    threads, out = together(s.master, ['/dir/assign'] * 4)
    for t in threads:
        t.join()
    c.equal('assigns wait for volumes that load', [r[0] for r in out], [200] * 4)
    c.equal('and no other volume is made', len(glob.glob(s.data + '/*.dat')), 1)
    s.end()


def a_pause_takes_no_server_down():
    m = Master(o.dfs, options=['-volumeSizeLimitMB=64', '-growth=2', '-pulseSeconds=1'])
    v = VolumeServer(o.dfs, m.full, options=['-max=10', '-pulseSeconds=1'])
    c.ok('an id', 'fid' in m.assign())
    os.kill(m.pid, signal.SIGSTOP)
    time.sleep(5)
    os.kill(m.pid, signal.SIGCONT)
    time.sleep(1.5)
    c.equal('a server is still known after a pause of the master', list(m.nodes()), [v.volume])
    c.ok('and never was down', ' is down' not in m.log_text())
    return m, v


def each_vacuum_is_a_run_of_its_own(m):
    paths = [f'/vol/vacuum?garbageThreshold={t}' for t in (0, 0.1, 0.2, 0, 0.1)]
    threads, out = together(m.master, paths)
    for t in threads:
        t.join()
    c.equal('vacuums asked for at once all end', [r[0] for r in out], [200] * len(paths))
    c.equal('a threshold above 1 is refused', ask(m.master, '/vol/vacuum?garbageThreshold=2')[0], 406)


def a_vacuum_that_fails_is_tried_less_and_less_often():
    """FIELD G30."""
    m = Master(o.dfs, options=['-volumeSizeLimitMB=64', '-growth=1', '-pulseSeconds=1', '-vacuumIntervalSeconds=1'])
    v = VolumeServer(o.dfs, m.full, options=['-max=10', '-pulseSeconds=1'])
    body, head = form(b'x' * 5000)
    fids = [json.loads(ask(m.master, '/submit', 'POST', body, head)[2])['fid'] for _ in range(4)]
    volume_id = int(fids[0].split(',')[0])
    in_the_way = os.path.join(v.data, f'{volume_id}.cpd')
    os.makedirs(os.path.join(in_the_way, 'x'))  # where the copy should be
    for fid in fids[:3]:
        c.equal(f'{fid} is deleted', ask(v.volume, '/' + fid, 'DELETE')[0], 202)

    def failing():
        return json.loads(ask(m.master, '/dir/status')[2])['Vacuum']['Failing']
    wait_for('a second failure', lambda: [f for f in failing() if f['Failures'] >= 2], 60)
    f = failing()[0]
    c.equal('the status names the volume', (f['Id'], len(failing())), (volume_id, 1))
    c.ok('the reason', 'compaction at' in f['Reason'], f)
    c.ok('and when it is tried again', f['NextTryInSeconds'] <= 2 ** f['Failures'], f)
    c.ok('the pause grew', f['Failures'] < 6, f)
    c.equal('it is logged once', m.log_text().count(f'no vacuum of volume {volume_id}: '), 1)
    shutil.rmtree(in_the_way)
    c.equal('who asks for one need not wait', ask(m.master, '/vol/vacuum?garbageThreshold=0.1')[0], 200)
    c.equal('and it is no longer failing', failing(), [])
    c.ok('which is logged', m.says(f'volume {volume_id}: nothing is in the way of its vacuum any more'))
    c.equal('what was not deleted is there', ask(v.volume, '/' + fids[3])[2], b'x' * 5000)
    for p in (v, m):
        c.equal(f'{p.name} ends', p.end(), 0)


def what_is_not_built_says_so(m, v):
    for addr, paths in ((m.master, ('/admin', '/admin/x/y', '/cluster/join', '/cluster/raft', '/cluster/raft/ps', '/raft/stats')),
                        (v.volume, ('/admin/assign_volume?volume=7', '/admin/vacuum/check', '/query'))):
        for path in paths:
            for method in ('GET', 'POST'):
                status, _, body = ask(addr, path, method, b'a=b' if method == 'POST' else None)
                why = json.loads(body)['error']
                c.ok(f'{method} {path}', status == 501 and f"'{path.split('?')[0]}' is not built: " in why, (status, body))
        status, _, body = ask(addr, '/stats/health')
        c.equal('/stats/health', (status, list(json.loads(body))), (200, ['Version']))
    for path in ('/administrator', '/cluster', '/cluster/rafts', '/nonesuch'):
        c.equal(f'{path} of the master is unknown', ask(m.master, path)[0], 404)
    for path in ('/queries', '/admin'):
        c.equal(f'{path} of a volume server is no file id', ask(v.volume, path)[0], 400)


def growths_say_what_they_cannot_do(m):
    c.equal('more volumes than there is room for', ask(m.master, '/vol/grow?count=100')[0], 406)
    c.equal('a count beyond all bounds', ask(m.master, '/vol/grow?count=4294967297')[0], 406)
    c.equal('a preallocation beyond all bounds', ask(m.master, '/vol/grow?count=1&preallocate=18446744073709551615')[0], 406)
    c.equal('one that fits', ask(m.master, '/vol/grow?count=2')[2], b'{"count":2}')


def a_stop_answers_who_waits(m, v):
    v.kill()
    wait_for('the server to be missed', lambda: not m.nodes())
    m.end()
    m = Master(o.dfs, folder=m.folder, ports=m.ports, name='again')
    threads, out = together(m.master, ['/dir/assign?collection=x'] * 5)
    time.sleep(1)
    c.equal('a restarted master waits for the server that it knew', out, [None] * 5)
    before = time.monotonic()
    m.end()
    for t in threads:
        t.join()
    c.equal('a stop answers those who wait', [r[0] for r in out], [503] * 5)
    c.ok('at once', time.monotonic() - before < 5)
    c.ok('and cleanly', 'stopped cleanly' in m.log_text())


def servers_may_have_names():
    m = Master(o.dfs, options=['-volumeSizeLimitMB=64', '-growth=1', '-pulseSeconds=1'])
    v = VolumeServer(o.dfs, m.full, options=['-max=10', '-pulseSeconds=1', '-ip=localhost'], wait=False)
    wait_for('the server', lambda: list(m.nodes()) == [f'localhost:{v.port}'])
    c.equal('a volume is made at a server with a name', m.assign().get('url'), f'localhost:{v.port}')
    body, head = form(b'hello')
    status, _, answer = ask(m.master, '/submit', 'POST', body, head)
    c.equal('and a body is handed on to it', status, 201)
    fid = json.loads(answer)['fid']
    c.equal('and a delete', json.loads(ask(m.master, f'/delete?fid={fid}')[2])['Results'][0]['status'], 202)
    lost = VolumeServer(o.dfs, m.full, options=['-max=10', '-pulseSeconds=1', '-ip=no-such-host.invalid'], wait=False, name='lost')
    wait_for('the other', lambda: len(m.nodes()) == 2)
    before = time.monotonic()
    c.ok('a name that nobody knows holds nobody up', all('fid' in m.assign() for _ in range(20)) and time.monotonic() - before < 5)
    for p in (lost, v, m):
        c.equal(f'{p.name} ends', p.end(), 0)


def bench(master, *more):
    """(exit code, failed requests, the first trouble)"""
    done = subprocess.run([o.dfs, 'benchmark', '-master', master, '-writeOnly', '-list', os.path.join(temp_folder(), 'list'), *more],
                          capture_output=True, text=True, timeout=300)
    failed = [int(x.split()[-1]) for x in done.stdout.splitlines() if x.startswith('Failed requests:')]
    return done.returncode, failed, done.stderr[:300]


def no_write_is_refused_when_volumes_fill_up():
    """FIELD G102: volume servers stop hard at the limit, so the master must turn to others, or make them, before."""
    limit = 4 << 20
    for growth, size, n in ((1, 1000, 20000), (1, 100000, 400), (3, 100000, 400)):
        s = Server(o.dfs, options=['-volume.max=100', '-master.volumeSizeLimitMB=4', f'-master.growth={growth}'])
        code, failed, trouble = bench(s.master, f'-n={n}', f'-size={size}', '-c=16')
        made = len(glob.glob(s.data + '/*.dat'))
        c.ok(f'growth {growth}, {n} files of {size} bytes: none is refused', (code, failed) == (0, [0]),
             (code, failed, trouble))
        c.ok('and volumes are filled well', n * size / limit < made <= 2 * n * size / limit + 4 * growth + 4, made)
        s.end()
    m = Master(o.dfs, options=['-volumeSizeLimitMB=4', '-growth=1'])
    servers = [VolumeServer(o.dfs, m.full, options=['-max=30'], name=f'v{i}') for i in range(2)]
    code, failed, trouble = bench(m.master, '-n=10000', '-size=2000', '-c=16', '-replication=001')
    c.ok('nor with two copies', (code, failed) == (0, [0]), (code, failed, trouble))
    for p in (*servers, m):
        c.equal(f'{p.name} ends', p.end(), 0)


def the_last_volumes_are_filled_to_the_brim():
    """Where no volume can be made, nearly full ones are handed out, and at once."""
    s = Server(o.dfs, options=['-volume.max=2', '-master.volumeSizeLimitMB=4', '-master.growth=1'])
    code, failed, _ = bench(s.master, '-n=12000', '-size=1000', '-c=4', '-collection=')
    sizes = [os.path.getsize(f) for f in glob.glob(s.data + '/*.dat')]
    c.ok('what cannot be stored is refused', code == 1 and failed[0] > 12000 - 2 * (4 << 20) // 1000, (code, failed))
    c.ok('both volumes are full', len(sizes) == 2 and min(sizes) >= 4 << 20, sizes)
    c.ok('but for the last record no fuller', max(sizes) < (4 << 20) + 70000, sizes)
    s.end()


no_volume_is_made_while_others_load()
servers_may_have_names()
no_write_is_refused_when_volumes_fill_up()
the_last_volumes_are_filled_to_the_brim()
a_vacuum_that_fails_is_tried_less_and_less_often()
master, volume = a_pause_takes_no_server_down()
each_vacuum_is_a_run_of_its_own(master)
growths_say_what_they_cannot_do(master)
what_is_not_built_says_so(master, volume)
a_stop_answers_who_waits(master, volume)
c.done()
