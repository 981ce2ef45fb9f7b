"""The servers that are compared, each started fresh in an empty folder, and what the kernel counted of them."""
import json
import os
import re
import shutil
import socket
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, 'tests', 'integration'))
import commands  # noqa: E402
import rig  # noqa: E402

VOLUME_LIMIT_MB = 2048
IP = '127.0.0.1'
COPIES_OF_DFS = {'dfs': [], 'dfs-none': ['-volume.durability=none'], 'dfs-growth1': ['-master.growth=1']}


class Setup:
    """Programs, ports and the folder that a run works with."""

    def __init__(self, dfs, build, port, data=None):
        self.dfs, self.build, self.data = dfs, build, data
        self.mport, self.mgrpc, self.vport, self.vgrpc, self.other = (port + i for i in range(5))
        self.master, self.volume = f'{IP}:{self.mport}', f'{IP}:{self.vport}'
        self.master_of_weed = f'{IP}:{self.mport}.{self.mgrpc}'
        self.weed = None

    def folder(self):
        """A folder of this run alone; the one before is gone."""
        if self.data is None:
            self.data = rig.temp_folder('dfs-bench-')
        for name in os.listdir(self.data):
            path = os.path.join(self.data, name)
            if os.path.isdir(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)
        return self.data

    def check_ports(self):
        for port in (self.mport, self.mgrpc, self.vport, self.vgrpc, self.other):
            with socket.socket() as s:
                if s.connect_ex((IP, port)) == 0:
                    raise RuntimeError(f'port {port} is taken')


class Running:
    """One server: a process, for nginx its workers too."""

    def __init__(self, kind, process, url, clean_stop=True):
        self.kind, self.process, self.url, self.clean_stop = kind, process, url, clean_stop

    def pids(self):
        out, todo = [], [self.process.pid]
        while todo:
            pid = todo.pop()
            out.append(pid)
            try:
                for task in os.listdir(f'/proc/{pid}/task'):
                    with open(f'/proc/{pid}/task/{task}/children') as f:
                        todo += [int(x) for x in f.read().split()]
            except OSError:
                pass
        return out

    def cpu_s(self):
        """CPU time of all threads so far; the scheduler's own nanoseconds, the 10 ms ticks of stat where it keeps none."""
        fine = ticks = 0
        for pid in self.pids():
            try:
                for task in os.listdir(f'/proc/{pid}/task'):
                    with open(f'/proc/{pid}/task/{task}/schedstat') as f:
                        fine += int(f.read().split()[0])
                with open(f'/proc/{pid}/stat') as f:
                    words = f.read().rsplit(')', 1)[1].split()
                    ticks += int(words[11]) + int(words[12])
            except OSError:
                pass
        by_ticks = ticks / os.sysconf('SC_CLK_TCK')
        # threads that have ended are in stat alone
        return by_ticks if fine == 0 or by_ticks > fine / 1e9 + 0.05 else fine / 1e9

    def rss_mb(self, what='VmHWM'):
        total = 0
        for pid in self.pids():
            try:
                with open(f'/proc/{pid}/status') as f:
                    total += int(re.search(what + r':\s+(\d+)', f.read()).group(1)) / 1024
            except (OSError, AttributeError):
                pass
        return total

    def stop(self):
        if self.clean_stop:
            self.process.end()
        else:
            self.process.kill()
        self.process.log.close()  # it may lie on a disk that is to be unmounted


def wait_for_assign(setup, process, seconds=60):
    """Until the master hands out ids, that is, until the first volumes were made."""
    def ready():
        if process.p.poll() is not None:
            raise RuntimeError(f'{process.name} ended: {process.log_text()[-2000:]}')
        try:
            return 'fid' in (rig.get_json(f'http://{setup.master}/dir/assign?collection=benchmark', 20) or {})
        except ValueError:
            return False
    rig.wait_for(process.name, ready, seconds)


def start_store(setup, kind, extra=()):
    """A master and a volume server in one process."""
    setup.check_ports()
    folder = setup.folder()
    data, mdir = os.path.join(folder, 'v'), os.path.join(folder, 'm')
    os.makedirs(data)
    os.makedirs(mdir)
    ports = [f'-master.port={setup.mport}', f'-master.port.grpc={setup.mgrpc}', f'-volume.port={setup.vport}',
             f'-volume.port.grpc={setup.vgrpc}']
    shared = ['server', '-dir', data, '-master.dir', mdir, '-ip', IP, '-ip.bind', IP, '-volume.max=60',
              f'-master.volumeSizeLimitMB={VOLUME_LIMIT_MB}', *ports]
    if kind == 'weed':
        process = rig.Process([setup.weed, '-logdir', folder, *shared], folder, kind)
    else:
        process = rig.Process([setup.dfs, *shared, *COPIES_OF_DFS[kind], *extra], folder, kind)
    commands.note(process.argv, folder)
    server = Running(kind, process, f'http://{setup.volume}', kind != 'weed')
    try:
        wait_for_assign(setup, process)
    except BaseException:
        server.stop()
        raise
    return server


NGINX_CONF = '''worker_processes {workers}; worker_rlimit_nofile 65536; daemon off; pid {folder}/nginx.pid; {user}
error_log {folder}/error.log;
events {{ worker_connections 16384; multi_accept on; }}
http {{
    access_log off; sendfile on; tcp_nopush on; tcp_nodelay on; keepalive_requests 100000000; default_type application/octet-stream;
    open_file_cache max=100000 inactive=600s; open_file_cache_valid 600s; open_file_cache_min_uses 1;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u;
    scgi_temp_path {folder}/s;
    server {{ listen 127.0.0.1:{port} reuseport; root {folder}/www; }}
}}
'''


def start_nginx(setup, size, count):
    """Static files of the sizes that the benchmark writes; their names are in list.txt."""
    setup.check_ports()
    folder = setup.folder()
    os.makedirs(os.path.join(folder, 'www'))
    with open(os.path.join(folder, 'list.txt'), 'w') as names:
        for i in range(count):
            with open(os.path.join(folder, 'www', str(i)), 'wb') as f:
                f.write(os.urandom(size + i % 64))
            names.write(f'{i}\n')
    conf = os.path.join(folder, 'nginx.conf')
    with open(conf, 'w') as f:
        f.write(NGINX_CONF.format(workers=os.cpu_count(), folder=folder, port=setup.other,
                                  user='user root;' if os.getuid() == 0 else ''))
    program = shutil.which('nginx') or '/usr/sbin/nginx'
    process = rig.Process([program, '-c', conf, '-p', folder, '-e', os.path.join(folder, 'error.log')], folder, 'nginx')
    wait_for_port(setup.other)
    return Running('nginx', process, f'http://{IP}:{setup.other}')


def start_floor(setup, body_bytes):
    setup.check_ports()
    folder = setup.folder()
    with open(os.path.join(folder, 'list.txt'), 'w') as f:
        f.write(''.join(f'3,{i:x}01637037d6\n' for i in range(1, 1001)))
    process = rig.Process([os.path.join(setup.build, 'tests/bench/floor'), str(setup.other), str(os.cpu_count()),
                           str(body_bytes)], folder, 'floor')
    wait_for_port(setup.other)
    return Running('floor', process, f'http://{IP}:{setup.other}', False)


def wait_for_port(port):
    def open_now():
        with socket.socket() as s:
            return s.connect_ex((IP, port)) == 0
    rig.wait_for(f'port {port}', open_now, 20)


def ranges(setup, path, wanted=7):
    """Reserves 4,000,000 keys in each of some volumes, as post.lua wants them; how many volumes."""
    found = {}
    for _ in range(100):
        answer = rig.get_json(f'http://{setup.master}/dir/assign?collection=benchmark&count=4000000', 20)
        volume, rest = answer['fid'].split(',')
        found.setdefault(volume, f'{volume} {int(rest[:-8], 16)} {rest[-8:]}\n')
        if len(found) == wanted:
            break
    with open(path, 'w') as f:
        f.writelines(found.values())
    return len(found)


def status(setup):
    return json.loads(rig.get(f'http://{setup.volume}/status')[2] or b'{}')


def settle():
    """The disk's queue of one run must not be the next one's load."""
    os.sync()
    time.sleep(0.2)
