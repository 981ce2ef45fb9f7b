"""More of what the integration scripts share: daemons apart, small clients, a ledger of what was acknowledged, a storm of
requests that fills it, small file systems, and system calls as strace shows them."""
import concurrent.futures
import contextlib
import glob
import hashlib
import http.client
import json
import os
import random
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

from rig import (FIXTURES, Process, Server, free_port, get, get_json, temp_folder, wait_for)  # noqa: F401


class Refused(Exception):
    """Nothing answered: whether the request was done is unknown."""


class Client:
    """One connection that is kept alive; a request that finds it closed is sent once more if it was never answered."""

    def __init__(self, addr, timeout=30):
        self.addr, self.timeout, self.c = addr, timeout, None

    def close(self):
        if self.c is not None:
            self.c.close()
            self.c = None

    def __call__(self, method, path, body=None, headers=None):
        """(status, headers with lower-case names, body); Refused when nothing answered."""
        fresh = self.c is None
        try:
            if fresh:
                self.c = http.client.HTTPConnection(self.addr, timeout=self.timeout)
            self.c.request(method, path, body, headers or {})
            r = self.c.getresponse()
            data = r.read()
            if r.will_close:
                self.close()
            return r.status, {k.lower(): v for k, v in r.getheaders()}, data
        except (OSError, http.client.HTTPException) as e:
            self.close()
            if not fresh and method in ('GET', 'HEAD'):
                return self(method, path, body, headers)
            raise Refused(f'{method} {self.addr}{path}: {e!r}') from e


def ask(addr, path, method='GET', body=None, headers=None, timeout=30):
    """One request on a connection of its own; status 0 when nothing answered."""
    c = Client(addr, timeout)
    try:
        return c(method, path, body, headers)
    except Refused:
        return 0, {}, b''
    finally:
        c.close()


def raw(addr, data, seconds=3, half_close=False):
    """Sends bytes as they are; (what came back, whether the server closed)."""
    host, port = addr.rsplit(':', 1)
    s = socket.create_connection((host, int(port)), 5)
    s.settimeout(seconds)
    out = b''
    try:
        s.sendall(data)
        if half_close:
            s.shutdown(socket.SHUT_WR)
        while True:
            d = s.recv(65536)
            if not d:
                return out, True
            out += d
    except (TimeoutError, socket.timeout):
        return out, False
    except OSError:
        return out, True
    finally:
        s.close()


def form(data, filename='a.bin', mime=None, boundary='----dfsB', head=()):
    """(body, headers) of a multipart upload of one file."""
    lines = [f'Content-Disposition: form-data; name="file"; filename="{filename}"']
    if mime:
        lines.append('Content-Type: ' + mime)
    lines.extend(head)
    body = f'--{boundary}\r\n'.encode() + '\r\n'.join(lines).encode() + b'\r\n\r\n' + data + f'\r\n--{boundary}--\r\n'.encode()
    return body, {'Content-Type': f'multipart/form-data; boundary={boundary}'}


def split_fid(path):
    """('3', '01', '637037d6') of '/3,01637037d6'."""
    vid, kc = path.lstrip('/').split(',')
    return vid, kc[:-8], kc[-8:]


def wrong_cookie(path):
    return path[:-1] + ('0' if path[-1] != '0' else '1')


class Master(Process):
    """`dfs master` apart."""

    def __init__(self, dfs, folder=None, options=(), env=None, name='master', ports=None, wait=True):
        self.folder = folder or temp_folder()
        self.port, self.grpc = ports or [free_port(), free_port()]
        self.ports = [self.port, self.grpc]
        self.master, self.full = f'127.0.0.1:{self.port}', f'127.0.0.1:{self.port}.{self.grpc}'
        super().__init__([dfs, 'master', '-mdir', os.path.join(self.folder, 'm'), '-ip', '127.0.0.1', '-ip.bind', '127.0.0.1',
                          f'-port={self.port}', f'-port.grpc={self.grpc}', *options], self.folder, name, env)
        if wait:
            wait_for('the master', lambda: get(f'http://{self.master}/cluster/healthz', 2)[0] == 200)

    def assign(self, query='', timeout=30):
        return get_json(f'http://{self.master}/dir/assign?{query}', timeout) or {}

    def nodes(self):
        return nodes_of(self.master)


class VolumeServer(Process):
    """`dfs volume` apart; ready once the master that is given knows it."""

    def __init__(self, dfs, master, folder=None, options=(), env=None, name='volume', ports=None, wait=True, data=None):
        self.folder = folder or temp_folder()
        self.port, self.grpc = ports or [free_port(), free_port()]
        self.ports = [self.port, self.grpc]
        self.volume = f'127.0.0.1:{self.port}'
        self.data = data or os.path.join(self.folder, name)
        super().__init__([dfs, 'volume', '-dir', self.data, '-ip', '127.0.0.1', '-ip.bind', '127.0.0.1',
                          f'-port={self.port}', f'-port.grpc={self.grpc}', f'-master={master}', *options],
                         self.folder, name, env)
        if wait:
            self.wait_known(master)

    def wait_known(self, master):
        http_part = re.sub(r'\.\d+$', '', master.split(',')[0])
        wait_for(self.name, lambda: self.volume in nodes_of(http_part), 30)


def nodes_of(master):
    """{url: its entry} as /dir/status has them."""
    try:
        t = get_json(f'http://{master}/dir/status', 5)
        return {n['Url']: n for dc in t['Topology']['DataCenters'] or [] for r in dc['Racks'] or []
                for n in r['DataNodes'] or []}
    except (ValueError, KeyError, TypeError):
        return {}


def volumes_of(volume):
    """{id: its entry} as the volume server's /status has them."""
    try:
        return {v['Id']: v for v in (get_json(f'http://{volume}/status', 10) or {}).get('Volumes') or []}
    except ValueError:
        return {}


def metric(addr, name, labels=None):
    """Sum of the samples of that name whose label text has all of `labels`; None when there is none."""
    total = None
    for line in get(f'http://{addr}/metrics', 10)[2].decode(errors='replace').splitlines():
        m = re.match(r'([A-Za-z_:][\w:]*)(\{.*\})? (\S+)$', line)
        if m and m.group(1) == name and all(f'{k}="{v}"' in (m.group(2) or '') for k, v in (labels or {}).items()):
            total = (total or 0.0) + float(m.group(3))
    return total


def vacuum(master, threshold=0, patience_s=60):
    """Asks for a vacuum and waits until it has ended; its results."""
    status, _, body = get(f'http://{master}/vol/vacuum?garbageThreshold={threshold}', patience_s)
    if status != 200:
        return None
    end = time.monotonic() + patience_s
    doc = json.loads(body)
    while doc.get('Vacuum', {}).get('Running') and time.monotonic() < end:
        time.sleep(0.05)
        doc = get_json(f'http://{master}/dir/status')
    return doc.get('Vacuum', {}).get('Results') or []


class Ledger:
    """Which answers are right for each file: a set of sha256 texts and None (404).  One entry is the usual case; a request
    that was never answered leaves both what was and what would be."""

    def __init__(self):
        self.lock = threading.Lock()
        self.may = {}
        self.size = {}

    @staticmethod
    def digest(data):
        return hashlib.sha256(data).hexdigest()

    def wrote(self, path, data):
        with self.lock:
            d = self.digest(data)
            self.may[path] = {d}
            self.size[d] = len(data)

    def maybe_wrote(self, path, data):
        with self.lock:
            d = self.digest(data)
            self.may.setdefault(path, {None}).add(d)
            self.size[d] = len(data)

    def deleted(self, path):
        with self.lock:
            self.may[path] = {None}

    def maybe_deleted(self, path):
        with self.lock:
            self.may.setdefault(path, set()).add(None)

    def live(self):
        with self.lock:
            return [p for p, m in self.may.items() if None not in m]

    def allowed(self, path):
        with self.lock:
            return set(self.may.get(path, {None}))

    def wrong(self, volume, threads=8, paths=None):
        """Reads everything; the list of what came back otherwise, as text."""
        paths = list(self.may) if paths is None else paths
        out = []

        def some(part):
            c = Client(volume)
            for p in part:
                try:
                    status, _, body = c('GET', p)
                except Refused as e:
                    out.append(str(e))
                    continue
                got = self.digest(body) if status == 200 else None
                if status not in (200, 404) or got not in self.allowed(p):
                    out.append(f'GET {p}: {status}, {len(body)} bytes, wanted one of {sorted(map(str, self.allowed(p)))}')
            c.close()
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            list(pool.map(some, [paths[i::threads] for i in range(threads)]))
        return out

    def settle(self, volume):
        """After a restart: what was unknown is what the server now says, once that was found allowed."""
        for p in [p for p, m in self.may.items() if len(m) > 1]:
            status, _, body = ask(volume, p)
            if status in (200, 404):
                with self.lock:
                    self.may[p] = {self.digest(body) if status == 200 else None}

    def manifest(self, path, more=()):
        """As volcheck.py and crosscheck.py take it; only what is certain, and `more` of its entries."""
        entries = list(more)
        for p, m in self.may.items():
            if len(m) != 1:
                continue
            d = next(iter(m))
            entries.append({'path': p, 'status': 404} if d is None else
                           {'path': p, 'status': 200, 'size': self.size[d], 'sha256': d})
        with open(path, 'w') as f:
            json.dump({'entries': entries}, f)
        return len(entries)


class Storm:
    """Threads that write, overwrite, read and delete until told to stop, each on files of its own; every answer is checked
    and goes into the ledger."""

    def __init__(self, master, ledger, seed, threads=6, max_bytes=20000, delete=0.25, overwrite=0.15, assign='', upload='',
                 expect_down=False):
        self.master, self.ledger, self.seed = master, ledger, seed
        self.max_bytes, self.delete, self.overwrite = max_bytes, delete, overwrite
        self.assign_query, self.upload_query = assign, upload
        self.expect_down = expect_down
        self.stop_now = threading.Event()
        self.errors, self.counts = [], {'write': 0, 'read': 0, 'delete': 0, 'refused': 0}
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.run, args=(i,), daemon=True) for i in range(threads)]
        for t in self.threads:
            t.start()

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def error(self, text):
        with self.lock:
            if len(self.errors) < 20:
                self.errors.append(text)

    def run(self, number):
        rng = random.Random(self.seed * 1000 + number)
        mine, clients = [], {}

        def at(addr):
            if addr not in clients:
                clients[addr] = Client(addr)
            return clients[addr]
        while not self.stop_now.is_set():
            try:
                self.step(rng, mine, at)
            except Refused:
                self.count('refused')
                if not self.expect_down:
                    self.error('nothing answered')
                time.sleep(0.02)
        for c in clients.values():
            c.close()

    def step(self, rng, mine, at):
        dice = rng.random()
        if mine and dice < self.delete:
            return self.do_delete(mine.pop(rng.randrange(len(mine))), at)
        if mine and dice < self.delete + self.overwrite:
            path, addr = rng.choice(mine)
            return self.do_write(path, addr, rng, at, None)
        if mine and dice < 0.6:
            return self.do_read(rng.choice(mine), at)
        status, _, body = at(self.master)('GET', '/dir/assign?' + self.assign_query)
        if status != 200:
            if not self.expect_down:
                self.error(f'assign: {status} {body[:200]!r}')
            time.sleep(0.05)
            return None
        a = json.loads(body)
        return self.do_write('/' + a['fid'], a['url'], rng, at, mine)

    def do_write(self, path, addr, rng, at, mine):
        data = rng.randbytes(rng.randrange(1, self.max_bytes))
        before = self.ledger.allowed(path)
        self.ledger.maybe_wrote(path, data)
        target = path + ('?' + self.upload_query if self.upload_query else '')
        status, _, body = at(addr)('PUT', target, data, {'Content-Type': 'application/octet-stream'})
        if status in (200, 201, 204):
            self.ledger.wrote(path, data)
            self.count('write')
            if mine is not None:
                mine.append((path, addr))
        elif not self.expect_down:
            with self.ledger.lock:
                self.ledger.may[path] = before
            self.error(f'PUT {path}: {status} {body[:200]!r}')

    def do_read(self, entry, at):
        path, addr = entry
        before = self.ledger.allowed(path)
        status, _, body = at(addr)('GET', path)
        self.count('read')
        if status == 503 and self.expect_down:
            return
        got = Ledger.digest(body) if status == 200 else None
        if status not in (200, 404) or got not in before:
            self.error(f'GET {path}: {status}, {len(body)} bytes')

    def do_delete(self, entry, at):
        path, addr = entry
        self.ledger.maybe_deleted(path)
        status, _, body = at(addr)('DELETE', path)
        if status in (200, 202):
            self.ledger.deleted(path)
            self.count('delete')
        elif not self.expect_down:
            self.error(f'DELETE {path}: {status} {body[:200]!r}')

    def stop(self):
        self.stop_now.set()
        for t in self.threads:
            t.join(60)
        return self.errors


def put_many(server, ledger, n, seed, low=1, high=3000, assign='', upload=''):
    """n files one after the other; their paths."""
    rng = random.Random(seed)
    m, v, out = Client(server.master), None, []
    for _ in range(n):
        status, _, body = m('GET', '/dir/assign?' + assign)
        if status != 200:
            raise RuntimeError(f'assign: {status} {body[:300]!r}')
        a = json.loads(body)
        if v is None or v.addr != a['url']:
            v = Client(a['url'])
        data = rng.randbytes(rng.randrange(low, high + 1))
        status, _, body = v('PUT', f"/{a['fid']}{'?' + upload if upload else ''}", data,
                            {'Content-Type': 'application/octet-stream'})
        if status not in (200, 201):
            raise RuntimeError(f"PUT {a['fid']}: {status} {body[:300]!r}")
        ledger.wrote('/' + a['fid'], data)
        out.append('/' + a['fid'])
    m.close()
    if v is not None:
        v.close()
    return out


def preload(name):
    """What LD_PRELOAD takes: NAME.c of this folder, compiled."""
    so = os.path.join(temp_folder(), name + '.so')
    subprocess.run(['gcc', '-shared', '-fPIC', '-D_GNU_SOURCE', '-O1', '-Wall', '-Wextra', '-Werror', '-o', so,
                    os.path.join(os.path.dirname(os.path.abspath(__file__)), name + '.c'), '-ldl', '-pthread'], check=True)
    return so


@contextlib.contextmanager
def small_disk(size='64m', extra=''):
    """A file system of that size.  Who may not mount has an error, and so a check that failed: what was not run is not passed."""
    d = tempfile.mkdtemp(prefix='dfs-disk-')
    try:
        m = subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={size}{extra}', 'tmpfs', d], capture_output=True, text=True)
        if m.returncode != 0:
            raise RuntimeError(f'not run, this wants root and mount: {m.stderr.strip()}')
        try:
            yield d
        finally:
            subprocess.run(['umount', '-l', d], capture_output=True)
    finally:
        shutil.rmtree(d, ignore_errors=True)


def thread_names(pid):
    """{thread id: name}."""
    out = {}
    for t in os.listdir(f'/proc/{pid}/task'):
        with contextlib.suppress(OSError):
            with open(f'/proc/{pid}/task/{t}/comm') as f:
                out[int(t)] = f.read().strip()
    return out


class Strace:
    """System calls of a running process, all its threads."""
    LINE = re.compile(r'^(?:\[pid +)?(\d+)\]? +(\d+\.\d+) (\w+)\((.*)$')

    def __init__(self, pid, calls, folder, extra=()):
        self.path = os.path.join(folder, f'strace-{time.monotonic_ns()}')
        self.p = subprocess.Popen(['strace', '-f', '-ttt', '-y', '-s', '80', '-e', 'trace=' + calls, '-o', self.path, *extra,
                                   '-p', str(pid)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        threads = len(os.listdir(f'/proc/{pid}/task'))
        end = time.monotonic() + 20
        while time.monotonic() < end and self.p.poll() is None:
            traced = 0
            for t in os.listdir(f'/proc/{pid}/task'):
                with contextlib.suppress(OSError):
                    with open(f'/proc/{pid}/task/{t}/status') as f:
                        traced += f'TracerPid:\t{self.p.pid}\n' in f.read()
            if traced >= threads:
                return
            time.sleep(0.02)
        raise RuntimeError('strace did not attach: ' + (self.p.stderr.read() if self.p.poll() is not None else 'no answer'))

    def stop(self):
        """[(thread, time, call, rest of the line)], a call that was interrupted by others' lines joined again."""
        self.p.terminate()
        self.p.wait(20)
        out, open_calls = [], {}
        with open(self.path, errors='replace') as f:
            for line in f:
                m = re.match(r'^(\d+) +(\d+\.\d+) (.*)$', line.rstrip('\n'))
                if not m:
                    continue
                tid, at, rest = int(m.group(1)), float(m.group(2)), m.group(3)
                again = re.match(r'<\.\.\. (\w+) resumed>(.*)$', rest)
                if again and tid in open_calls:
                    i, start = open_calls.pop(tid)
                    out[i] = (tid, start[0], start[1], start[2] + again.group(2), at)
                    continue
                call = re.match(r'(\w+)\((.*)$', rest)
                if not call:
                    continue
                text = call.group(2)
                if text.endswith('<unfinished ...>'):
                    open_calls[tid] = (len(out), (at, call.group(1), text[:-len('<unfinished ...>')]))
                out.append((tid, at, call.group(1), text, at))
        return out


def wait_quiet(test, seconds):
    """Whether it came to be true in that time."""
    end = time.monotonic() + seconds
    while not test():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def idx_rows(path, width=17):
    """The rows of an index with offsets of 5 bytes, as bytes."""
    with open(path, 'rb') as f:
        b = f.read()
    return [b[i:i + width] for i in range(0, len(b), width)]


def row_offset(row):
    """Where its record begins, in bytes."""
    return (row[12] << 32 | int.from_bytes(row[8:12], 'big')) * 8 if len(row) == 17 else int.from_bytes(row[8:12], 'big') * 8


def records_of(data):
    """The path of every record that the indexes of a folder were ever told of, deleted ones too, with the cookie that it has."""
    out = set()
    for idx in glob.glob(os.path.join(data, '*.idx')):
        vid = os.path.basename(idx)[:-4].rsplit('_', 1)[-1]
        with open(idx[:-4] + '.dat', 'rb') as f:
            for row in idx_rows(idx):
                f.seek(row_offset(row))
                cookie, key = struct.unpack('>IQ', f.read(12))
                if key == int.from_bytes(row[:8], 'big') != 0:
                    out.add(f'/{vid},{key:x}{cookie:08x}' if len(f'{key:x}') % 2 == 0 else f'/{vid},0{key:x}{cookie:08x}')
    return sorted(out)


def sha256_of(path):
    h = hashlib.sha256()
    with open(path, 'rb') as f:
        for part in iter(lambda: f.read(1 << 20), b''):
            h.update(part)
    return h.hexdigest()


def folder_digest(d):
    return {f: sha256_of(os.path.join(d, f)) for f in sorted(os.listdir(d)) if os.path.isfile(os.path.join(d, f))}


def run(argv, timeout=120, cwd=None, env=None):
    """(exit status, output and errors together); 124 when it had to be ended."""
    try:
        p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace', timeout=timeout,
                           cwd=cwd, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL)
        return p.returncode, p.stdout
    except subprocess.TimeoutExpired as e:
        return 124, (e.stdout or b'').decode(errors='replace') if isinstance(e.stdout, bytes) else (e.stdout or '')


def seed_of(name):
    """The seed of this run: SEED in the environment, else fixed; printed, so that a run can be repeated."""
    seed = int(os.environ.get('SEED', '20240611'))
    print(f'{name}: seed {seed}', flush=True)
    return seed


def benchmark(dfs, master, *options, cwd=None, timeout=300):
    """(exit status, output) of `dfs benchmark`."""
    return run([dfs, 'benchmark', f'-master={master}', *options], timeout, cwd)


def complete_and_failed(text):
    """[(complete, failed)] of each phase's report."""
    return list(zip(map(int, re.findall(r'^Completed? requests: +(\d+)', text, re.M)),
                    map(int, re.findall(r'^Failed requests: +(\d+)', text, re.M))))


if sys.version_info < (3, 9):
    sys.exit('Python 3.9 or newer is needed')
