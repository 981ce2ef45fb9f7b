"""Tests that are not a plain benchmark run: slow disks, cold reads, idle connections, start-up."""
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import threading
import time

import clients
import servers
from servers import rig
from slowdisk import SlowDisk, Unavailable

CLIFF_DIRTY_MB, CLIFF_MB_S, CLIFF_OBJECTS, CLIFF_OBJECT_BYTES = 1024, 120, 8500, 1000000
COLD_OBJECTS, COLD_READS_PER_S, HOT_CONNECTIONS, COLD_CONNECTIONS = 60000, 400, 16, 8
IDLE_CONNECTIONS, BURST_CONNECTIONS = 10000, 8000
START_UP_NEEDLES = 4000000


class on_disk:
    """The setup, working in a slow disk for a while."""

    def __init__(self, setup, **disk):
        self.setup, self.outer = setup, setup.folder()
        self.disk = SlowDisk(self.outer, **disk)

    def __enter__(self):
        self.setup.data = os.path.join(self.disk.__enter__(), 'data')
        os.makedirs(self.setup.data)
        return self

    def __exit__(self, *args):
        self.setup.data = self.outer
        self.disk.__exit__(*args)


def steadiness(series):
    """Of whole seconds: the slowest against the median, and against the best three."""
    if len(series) < 4:
        raise RuntimeError('too short a run to say how steady it was')
    best = statistics.mean(sorted(series)[-3:])
    median = statistics.median(series)
    return {'seconds': len(series), 'slowest': min(series), 'median': median, 'best3': best,
            'slowest_to_median': min(series) / median if median else 0, 'slowest_to_best3': min(series) / best if best else 0,
            'seconds_at_zero': sum(v == 0 for v in series)}


def cliff(setup, _sizes, kind, raid10=False):
    """Objects of 1 MB by 16 clients (`dfs benchmark` for both servers) until far more was written than pages may be dirty."""
    with on_disk(setup, dirty_mb=CLIFF_DIRTY_MB, write_mb_s=CLIFF_MB_S, raid10=raid10):
        server = servers.start_store(setup, kind)
        try:
            w = clients.dfs_benchmark(setup, server, 'write', CLIFF_OBJECT_BYTES, CLIFF_OBJECTS, 16)
            return {'write': w, 'figures': steadiness(w['series']), 'rss_mb': server.rss_mb()}
        finally:
            server.stop()


def cliff_raid10(setup, sizes, kind):
    return cliff(setup, sizes, kind, raid10=True)


def drop_pages(paths, stop):
    """Keeps files out of the page cache for as long as the test runs."""
    files = [os.open(p, os.O_RDONLY) for p in paths]
    while not stop.wait(0.05):
        for fd in files:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    for fd in files:
        os.close(fd)


def cold_reads(setup, sizes, kind):
    """Hot small reads alone, and beside clients that read what only a slow disk has."""
    with on_disk(setup, read_iops=COLD_READS_PER_S, image_bytes=4 << 30):
        server = servers.start_store(setup, kind)
        try:
            clients.dfs_benchmark(setup, server, 'write', 1024, COLD_OBJECTS, 64)
            settle = os.path.join(setup.data, 'list.txt')
            os.sync()
            by_volume = {}
            with open(settle) as f:
                for line in f:
                    if not line.startswith('#'):
                        by_volume.setdefault(line.split(',')[0], []).append(line)
            names = sorted(by_volume, key=lambda v: -len(by_volume[v]))
            if len(names) < 2:
                raise RuntimeError('all went to one volume')
            hot, cold = os.path.join(setup.data, 'hot.txt'), os.path.join(setup.data, 'cold.txt')
            with open(hot, 'w') as f:
                f.writelines(by_volume[names[0]][:10000])
            with open(cold, 'w') as f:
                f.writelines(line for v in names[1:] for line in by_volume[v])
            clients.wrk(setup, server, 'get.lua', HOT_CONNECTIONS, 1, [hot])
            alone = clients.wrk(setup, server, 'get.lua', HOT_CONNECTIONS, sizes.wrk_s, [hot])
            dats = [os.path.join(d, f) for d, _, fs in os.walk(setup.data) for f in fs
                    if f.endswith('.dat') and re.search(r'(\d+)\.dat$', f).group(1) != names[0]]
            beside, slow = hot_and_cold(setup, server, hot, cold, dats, sizes.wrk_s)
            return {'figures': {'alone': alone['requests_per_s'], 'beside': beside['requests_per_s'], 'cold': slow['requests_per_s'],
                                'hot_p99_alone_ms': alone['p99'], 'hot_p99_beside_ms': beside['p99'],
                                'failed': alone['failed'] + beside['failed'] + slow['failed']}}
        finally:
            server.stop()


def hot_and_cold(setup, server, hot, cold, dats, seconds):
    stop = threading.Event()
    dropper = threading.Thread(target=drop_pages, args=(dats, stop))
    dropper.start()
    env = clients.wrk_env(setup.data, 'cold.json')
    p = subprocess.Popen(clients.wrk_argv('get.lua', server.url, COLD_CONNECTIONS, seconds + 2, [cold], threads=1),
                         env={**os.environ, **env}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(1)
        beside = clients.wrk(setup, server, 'get.lua', HOT_CONNECTIONS, seconds, [hot])
        p.wait(seconds + 30)
    finally:
        p.kill()
        p.wait()
        stop.set()
        dropper.join()
    return beside, clients.wrk_result(env)


def one_get(s, path):
    s.sendall(f'GET /{path} HTTP/1.1\r\nHost: x\r\n\r\n'.encode())
    got = b''
    while b'\r\n\r\n' not in got:
        piece = s.recv(65536)
        if not piece:
            raise RuntimeError('a keep-alive connection was closed')
        got += piece
    head, body = got.split(b'\r\n\r\n', 1)
    if b' 200 ' not in head.splitlines()[0]:
        raise RuntimeError(f'GET /{path}: {head[:60]!r}')
    want = int(re.search(rb'(?i)content-length: (\d+)', head).group(1))
    while len(body) < want:
        body += s.recv(65536)


def idle_connections(setup, _sizes, kind):
    """What a connection costs that has asked once and waits; and whether a burst of connects is all taken."""
    server = servers.start_store(setup, kind)
    held = []
    try:
        clients.dfs_benchmark(setup, server, 'write', 1024, 1000, 16)
        with open(os.path.join(setup.data, 'list.txt')) as f:
            path = next(line.strip() for line in f if not line.startswith('#'))
        before = server.rss_mb('VmRSS')
        for _ in range(IDLE_CONNECTIONS):
            s = socket.create_connection((servers.IP, setup.vport), 10)
            held.append(s)
            one_get(s, path)
        time.sleep(1)
        after = server.rss_mb('VmRSS')
        for s in held:
            s.close()
        held = []
        time.sleep(1)
        taken, seconds = burst(setup.vport, held)
        return {'figures': {'bytes_each': (after - before) * 1048576 / IDLE_CONNECTIONS, 'burst_taken': taken,
                            'burst_asked': BURST_CONNECTIONS, 'burst_s': seconds}}
    finally:
        for s in held:
            s.close()
        server.stop()


def burst(port, held):
    """Connects all at once; how many stand."""
    start = time.monotonic()
    for _ in range(BURST_CONNECTIONS):
        s = socket.socket()
        s.setblocking(False)
        held.append(s)
        s.connect_ex((servers.IP, port))
    taken = 0
    for s in held:
        s.settimeout(10)
        try:
            s.getpeername()
            taken += 1
        except OSError:
            time.sleep(0.001)
            taken += s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
    return taken, time.monotonic() - start


def wait_for_needle(setup, fid, process, seconds=120):
    def there():
        if process.p.poll() is not None:
            raise RuntimeError(process.log_text()[-1000:])
        return rig.get(f'http://{setup.volume}/{fid}', 5)[0] == 200
    rig.wait_for('the volume', there, seconds)


def start_volume_server(setup, data, name):
    process = rig.Process([setup.dfs, 'volume', '-dir', data, '-ip', servers.IP, '-ip.bind', servers.IP, f'-port={setup.vport}',
                           f'-port.grpc={setup.vgrpc}', f'-master={setup.master}'], setup.data, name)
    return process, servers.Running('dfs', process, f'http://{setup.volume}')


def start_up(setup, _sizes, _kind):
    """Memory and CPU time of a needle when a volume server starts with a large volume whose files are in the page cache."""
    setup.check_ports()
    folder = setup.folder()
    empty, full = os.path.join(folder, 'empty'), os.path.join(folder, 'full')
    os.makedirs(empty)
    os.makedirs(full)
    subprocess.run([os.path.join(setup.build, 'tests/bench/make_volume'), os.path.join(full, '1'), str(START_UP_NEEDLES)], check=True)
    i = START_UP_NEEDLES - 1
    fid = f'1,{1000 + i * 7:x}{(i * 2654435761 & 0xffffffff) | 1:08x}'
    process, server = start_volume_server(setup, empty, 'empty')
    servers.wait_for_port(setup.vport)
    time.sleep(0.5)
    base_rss, base_cpu = server.rss_mb('VmRSS'), server.cpu_s()
    process.end()
    figures = {'needles': START_UP_NEEDLES}
    for name in ('first', 'again'):
        start = time.monotonic()
        process, server = start_volume_server(setup, full, name)
        try:
            servers.wait_for_port(setup.vport)
            figures[name + '_port_s'] = time.monotonic() - start
            wait_for_needle(setup, fid, process)
            figures[name + '_s'] = time.monotonic() - start
            cpu = max(server.cpu_s() - base_cpu, 1e-6)
            figures[name + '_rows_per_cpu_s'] = START_UP_NEEDLES / cpu
            figures[name + '_bytes_per_needle'] = (server.rss_mb('VmRSS') - base_rss) * 1048576 / START_UP_NEEDLES
            figures[name + '_peak_bytes_per_needle'] = (server.rss_mb('VmHWM') - base_rss) * 1048576 / START_UP_NEEDLES
        finally:
            process.end()
    return {'figures': figures}


def disk_limit(setup, _sizes, _kind):
    """What the disk takes of 1 MB writes at a depth of 16 into a growing file, by fio."""
    if shutil.which('fio') is None:
        raise Unavailable('no fio')
    folder = setup.folder()
    text = subprocess.run(['fio', '--name=grow', f'--directory={folder}', '--output-format=json', '--rw=write', '--bs=1m', '--size=3g',
                           '--ioengine=libaio', '--iodepth=16', '--direct=1', '--fallocate=none', '--end_fsync=1'],
                          capture_output=True, text=True, timeout=180, check=True).stdout
    job = json.loads(text[text.index('{'):])['jobs'][0]
    return {'figures': {'direct_mb_s': job['write']['bw_bytes'] / 1e6}}
