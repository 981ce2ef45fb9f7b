#!/usr/bin/env python3
"""Command lines as people type them, keep them in units and compose files, or have them from the peer's documentation.
scale: full"""
import os
import shlex
import shutil

from kit import *  # noqa: F403
from rig import *  # noqa: F403

o = arguments(__doc__)
c = Checks()


def is_free(port):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        s.bind(('127.0.0.1', port))
        return True
    except OSError:
        return False
    finally:
        s.close()


class Daemon(Process):
    """Any dfs command line in a folder of its own."""

    def __init__(self, words, name='daemon', folder=None, env=None):
        self.folder = folder or temp_folder()
        super().__init__([o.dfs, *words], self.folder, name, env)

    def wait_http(self, addr, path='/dir/assign', want=200, seconds=30):
        def there():
            if self.p.poll() is not None:
                raise RuntimeError(f'{self.name} ended with {self.p.returncode}: {self.log_text()[-1500:]}')
            return get(f'http://{addr}{path}', 5)[0] == want
        wait_for(f'{self.name} at {addr}', there, seconds)


def ends(name, status, words, says=None, timeout=60, folder=None, env=None):
    """The command ends by itself with that status, and says so."""
    got, text = run([o.dfs, *words], timeout, folder or temp_folder(), env)
    c.ok(name, got == status, f'exit {got}, want {status}: {text[-400:]}')
    if says is not None:
        c.ok(name + f', says {says!r}', says in text, text[-400:])
    if status == 2:
        c.ok(name + ', in few lines', 1 <= len(text.strip().splitlines()) <= 4, text[-800:])
    return text


def runs(name, words, folder=None):
    """The daemon starts with that, and ends as it should when told to."""
    d = Daemon(words, re.sub(r'\W+', '-', name), folder)
    started = d.says(': master at ' if words[0] == 'master' else ': volume server at ', 60)
    status = d.end()
    c.ok(name, started and status == 0, f'exit {status}: {d.log_text()[-400:]}')


# The two commands that everything began with: folders relative to where they are run, 60,000 MB volumes on any disk.
mport, vport = (9666, 9555) if all(is_free(p) for p in (9666, 9555, 19666, 19555)) else (free_port(), free_port())
grpc = [] if mport == 9666 else [f'-master.port.grpc={free_port()}', f'-volume.port.grpc={free_port()}']
folder = temp_folder()
line = (f'server -master.peers "127.0.0.1:{mport}" -ip 127.0.0.1 -ip.bind 127.0.0.1 -master.port {mport} -dir ./data '
        f'-volume.port {vport} -master.volumeSizeLimitMB 60000 -master.volumePreallocate')
d = Daemon([*shlex.split(line), *grpc], 'seed', folder)
d.wait_http(f'127.0.0.1:{mport}')
c.ok('server with preallocated 60,000 MB volumes serves', True)
st = os.statvfs(folder)
c.ok('and left room on the disk', st.f_bavail * st.f_frsize > 1 << 28)
args = ['-server', f'127.0.0.1:{mport}'] if mport == 9666 else ['-server', f"127.0.0.1:{mport}.{grpc[0].split('=')[1]}"]
status, text = run([o.dfs, 'benchmark', *args, '-size', '1000000', '-n', '200', '-list', 'list.txt'], 200, folder)
c.equal('benchmark -size 1000000 -n 200', (status, complete_and_failed(text)), (0, [(200, 0), (200, 0)]))
for line in ('Concurrency Level:      16', 'Writing Benchmark', 'Randomly Reading Benchmark', 'Connection Times (ms)',
             'Percentage of the requests served within a certain time (ms)'):
    c.ok(f'its report has {line!r}', line in text, text[-600:])
c.equal('seed server ends with', d.end(), 0)
shutil.rmtree(os.path.join(folder, 'data'), ignore_errors=True)

# Master and volume server apart, options as `-x v` and as `--x=v`.
m, mg, v, vg = (free_port() for _ in range(4))
folder = temp_folder()
dm = Daemon(['master', '-mdir', 'm', '-ip', '127.0.0.1', '--port', str(m), f'--port.grpc={mg}', '-volumeSizeLimitMB=64'],
            'master', folder)
dm.wait_http(f'127.0.0.1:{m}', '/cluster/healthz')
dv = Daemon(['volume', '-dir', 'v', '-max', '9', f'-mserver=127.0.0.1:{m}.{mg}', '-port', str(v), '-port.grpc', str(vg),
             '-dataCenter', 'dc1', '-rack', 'r1', '-publicUrl', f'localhost:{v}'], 'volume', folder)
dv.wait_http(f'127.0.0.1:{m}')
a = get_json(f'http://127.0.0.1:{m}/dir/assign')
c.equal('apart: publicUrl', a.get('publicUrl'), f'localhost:{v}')
t = get_json(f'http://127.0.0.1:{m}/dir/status')['Topology']['DataCenters'][0]
c.equal('apart: data center, rack', (t['Id'], t['Racks'][0]['Id']), ('dc1', 'r1'))
c.equal('apart: -max', t['Racks'][0]['DataNodes'][0]['Max'], 9)
status, text = benchmark(o.dfs, f'127.0.0.1:{m}.{mg}', '-n', '500', '-list', 'l', cwd=folder)
c.equal('apart: benchmark', (status, complete_and_failed(text)), (0, [(500, 0), (500, 0)]))
ends('a second master in the same folder', 1, ['master', '-mdir', 'm', f'-port={free_port()}', f'-port.grpc={free_port()}'],
     folder=folder)
ends('a second volume server in the same folder', 1,
     ['volume', '-dir', 'v', f'-port={free_port()}', f'-port.grpc={free_port()}', f'-master=127.0.0.1:{m}'], folder=folder)
ends('a port that is taken', 1, ['master', '-mdir', 'm2', f'-port={m}', f'-port.grpc={free_port()}'], str(m), folder=folder)
with open(os.path.join(folder, 'a-file'), 'w'):
    pass
ends('a file where a folder should be', 1, ['master', '-mdir', 'a-file', f'-port={free_port()}', f'-port.grpc={free_port()}'],
     'Not a directory', folder=folder)
c.equal('apart: volume server ends with', dv.end(), 0)
c.equal('apart: master ends with', dm.end(), 0)

# Help, versions, mistakes.
for words in (['server', '-h'], ['server', '-help'], ['help', 'server'], ['help', 'version'], ['help', 'help'],
              ['master', '--help'], ['volume', '-h'], ['benchmark', '-h'], ['upload', '-h'], ['version'], ['help'], ['-h']):
    status, text = run([o.dfs, *words], 10, temp_folder())
    c.ok(' '.join(words) + ' is exit 0', status == 0 and len(text) > 10, f'{status} {text[:200]}')
c.ok('server -h names both port options', all(w in run([o.dfs, 'server', '-h'])[1] for w in ('-master.port', '-volume.port')))
ends('an unknown command', 2, ['serve'], 'the nearest is server')
ends('an unknown command like none', 2, ['xyzzyxyzzy'], '`dfs help` lists them')
ends('help for an unknown command', 2, ['help', 'downlaod'], 'the nearest is download')
ends('help for an unknown mode', 2, ['help', 'benchmark', 'objcts'], 'the nearest is benchmark objects')
c.equal('no command', run([o.dfs], 10)[0], 2)
ends('an unknown option', 2, ['server', '-nosuch=1'], 'nosuch')
# What was mistyped is named, and what is most like it: as it is spelled for this command.
for words, says in (
        (['benchmark', 'objcts'], "no mode 'objcts'; the nearest is benchmark objects"),
        (['benchmark', 'xyzzyxyzzy'], "'xyzzyxyzzy' is not an option"),
        (['server', '-volume.indx=memory'], "unknown option '-volume.indx'; the nearest is -volume.index"),
        (['server', '-volumme.port=3'], "unknown option '-volumme.port'; the nearest is -volume.port"),
        (['server', '-volumeSizeLimtMB=3'], "unknown option '-volumeSizeLimtMB'; the nearest is -master.volumeSizeLimitMB"),
        (['master', '--portt', '3'], "unknown option '-portt'; the nearest is -port"),
        (['volume', '-dirr=x'], "unknown option '-dirr'; the nearest is -dir"),
        (['benchmark', '-seize=1'], "unknown option '-seize'; the nearest is -size"),
        (['benchmark', 'mix', '-mixx=a'], "unknown option '-mixx'; the nearest is -mix"),
        (['upload', '-colection=a', 'f'], "unknown option '-colection'; the nearest is -collection"),
        (['master', '-xyzzyxyzzyxyzzy'], "unknown option '-xyzzyxyzzyxyzzy'; 'dfs master -h' lists them"),
        (['server', '-volume.index=memry'],
         "value 'memry' of option '-volume.index' must be one of memory|leveldb|leveldbMedium|leveldbLarge"),
        (['volume', '-durability=groop'], "value 'groop' of option '-durability' must be one of none|paced|group")):
    ends(' '.join(words) + ' is mistyped', 2, words, says)
ends('a value missing', 2, ['master', '-port'], 'port')
ends('a boolean that is none', 2, ['master', '-volumePreallocate=perhaps'], 'perhaps')
ends('a number out of range', 2, ['master', '-port=70000'], "value '70000' of option '-port' must be 1 to 65535\n")
ends('a port without room for gRPC', 2, ['volume', '-port=60000', '-dir=v'], 'port.grpc')
ends('peers before there is Raft', 2, ['master', '-peers=127.0.0.1:1,127.0.0.1:2,127.0.0.1:3', '-mdir=m'])
ends('one other peer', 2, ['master', '-ip=127.0.0.1', f'-port={free_port()}', '-peers=127.0.0.1:2', '-mdir=m'])
p, g = free_port(), free_port()
for peers in (f'127.0.0.1:{p}', 'none', ''):
    runs(f'-peers={peers} runs', ['master', '-ip=127.0.0.1', f'-port={p}', f'-port.grpc={g}', f'-peers={peers}', '-mdir=m'])

# F19: words that are no options; quotes that systemd leaves.
ends('F19 a stray word', 2, ['master', '#', 'comment', '-ip=127.0.0.1', f'-port={p}', '-mdir=mm'], '#')
f = temp_folder()
os.mkdir(os.path.join(f, 'vv'))
runs('F19 quotes round a folder', ['volume', f'-dir="{f}/vv"', f'-port={p}', f'-port.grpc={g}', '-ip=127.0.0.1',
                                   '-master=127.0.0.1:1'], f)
c.ok('F19 the quotes are not part of it', os.path.exists(os.path.join(f, 'vv', 'vol_dir.uuid')), os.listdir(f))

# F20: the last of a repeated option wins, =false undoes, growth by environment.
f = temp_folder()
m, mg, v, vg = (free_port() for _ in range(4))
dm = Daemon(['master', '-mdir=/nonexistent', '-volumePreallocate', '-volumeSizeLimitMB=1024', '-mdir=d20', '-volumeSizeLimitMB=10',
             '-volumePreallocate=false', '-raftBootstrap=false', '-resumeState=true', '-ip=127.0.0.1', '-ip.bind=127.0.0.1',
             f'-port={m}', f'-port.grpc={mg}'], 'm20', f, {'WEED_MASTER_VOLUME_GROWTH_COPY_1': '1'})
dm.wait_http(f'127.0.0.1:{m}', '/cluster/healthz')
dv = Daemon(['volume', '-dir=v20', '-max=8', '-ip=127.0.0.1', '-ip.bind=127.0.0.1', f'-port={v}', f'-port.grpc={vg}',
             f'-master=127.0.0.1:{m}.{mg}'], 'v20', f)
dv.wait_http(f'127.0.0.1:{m}')
c.equal('F20 one volume by WEED_MASTER_VOLUME_GROWTH_COPY_1', len([x for x in os.listdir(f + '/v20') if x.endswith('.dat')]), 1)
c.ok('F20 the last -mdir is used', bool(os.listdir(f + '/d20')) and not os.path.exists('/nonexistent'))
c.ok('F20 the last size limit counts', dv.says('10 MB'), dv.log_text()[-400:])
st = os.stat(f + '/v20/1.dat')
c.ok('F20 nothing is preallocated', st.st_blocks * 512 < 1 << 20, st.st_blocks)
c.ok('F20 what dfs does not need is said once', dm.says('raftBootstrap') and dm.log_text().count('raftBootstrap') == 1, dm.log_text()[:600])
c.equal('F20 volume server', dv.end(), 0)
c.equal('F20 master', dm.end(), 0)

# F21: lists, numbers, files of options.
f = temp_folder()
for x in ('fa', 'fb'):
    os.mkdir(os.path.join(f, x))
common = [f'-port={v}', f'-port.grpc={vg}', '-ip=127.0.0.1', '-ip.bind=127.0.0.1', '-master=127.0.0.1:1']
ends('F21 lists of unequal length', 2, ['volume', '-dir=fa,fb', '-max=7,7,7', *common], folder=f)
ends('F21 -max=x', 2, ['volume', '-dir=fa', '-max=x', *common], folder=f)
ends('F21 -minFreeSpace=abc', 2, ['volume', '-dir=fa', '-minFreeSpace=abc', *common], folder=f)
for x in ('40', '5GiB', '1MiB', '10'):
    runs(f'F21 -minFreeSpace={x} runs', ['volume', '-dir=fa', f'-minFreeSpace={x}', *common], f)
runs('F21 one -max for two folders', ['volume', '-dir=fa,fb', '-max=8', *common], f)
with open(f + '/o.opts', 'w') as h:
    h.write('dir=fa,fb\nmax=3,4\n# note\n\nnosuch=1\n')
ends('F21 an unknown name in a file', 2, ['volume', '-options=o.opts', *common], 'o.opts:5', folder=f)
with open(f + '/p.opts', 'w') as h:
    h.write('dir = "fb"\n  max=3\n\n# comment\nport=1\n')
with open(f + '/q.opts', 'w') as h:
    h.write('indx=memory\n')
ends('F21 a mistyped name in a file', 2, ['volume', '-options=q.opts', *common],
     "q.opts:1: unknown option '-indx'; the nearest is -index", folder=f)
os.unlink(f + '/fb/vol_dir.uuid')
runs('F21 spaces and quotes in a file; the command line wins', ['volume', '-options=p.opts', *common], f)
c.ok('F21 the folder of the file was used', os.path.exists(f + '/fb/vol_dir.uuid'), os.listdir(f + '/fb'))
ends('F21 an -options file that is not there', 2, ['volume', '-options=none.opts', *common], 'none.opts', folder=f)
ends('F21 server -port', 2, ['server', '-port=8080', '-dir=fa'], 'volume.port', folder=f)
for word in ('-filer=true', '-filer', '-s3', '-webdav'):
    ends(f'F21 server {word}', 2, ['server', word, '-dir=fa', '-ip=127.0.0.1', f'-master.port={m}', f'-volume.port={v}'], folder=f)
runs('F21 server -filer=false runs', ['server', '-filer=false', '-dir=fa', '-ip=127.0.0.1', f'-master.port={m}',
                                      f'-master.port.grpc={mg}', f'-volume.port={v}', f'-volume.port.grpc={vg}'], f)

# dfs.ini, found in the working folder or named; a mistake in it is named with its line.
f = temp_folder()
with open(f + '/dfs.ini', 'w') as h:
    h.write(f'[common]\nip = 127.0.0.1\n[master]\nport = {m}\nport.grpc={mg}\nvolumeSizeLimitMB = 77\n'
            f'[volume]\nport = {v}\nport.grpc = {vg}\nmax = 5\n')
dm = Daemon(['server', '-dir', 'data', '-master.volumeSizeLimitMB=55'], 'ini', f)
dm.wait_http(f'127.0.0.1:{m}')
c.ok('dfs.ini: ports, and the command line wins', dm.says('55 MB'), dm.log_text()[-400:])
c.equal('dfs.ini: -max', [n['Max'] for n in nodes_of(f'127.0.0.1:{m}').values()], [5])
c.equal('dfs.ini: ends with', dm.end(), 0)
with open(f + '/bad.ini', 'w') as h:
    h.write('[master]\nport = 9333\nnosuch = 1\n')
ends('dfs.ini: an unknown name', 2, ['server', '-conf', 'bad.ini', '-dir', 'data'], 'bad.ini:3', folder=f)
for text, says in (('[master]\nvolumeSizeLimtMB = 3\n', "typo.ini:2: unknown option '-volumeSizeLimtMB'; the nearest is -volumeSizeLimitMB"),
                   ('[mastr]\nport = 3\n', 'typo.ini:2: unknown section [mastr]: there are [common], [master] and [volume]'),
                   ('[volume]\n\nindex = leveldbb\n', "typo.ini:3: value 'leveldbb' of option '-index' must be one of memory|leveldb")):
    with open(f + '/typo.ini', 'w') as h:
        h.write(text)
    ends(f'dfs.ini: {text!r} is mistyped', 2, ['server', '-conf', 'typo.ini', '-dir', 'data'], says, folder=f)
with open(f + '/other.ini', 'w') as h:
    h.write('[volume]\nmax = 5\nport = x\n')
ends('dfs.ini: a bad value for a daemon that is not started', 2, ['master', '-conf', 'other.ini', '-mdir', 'm'], 'other.ini:3', folder=f)
ends('dfs.ini: not there', 2, ['server', '-conf', 'none.ini', '-dir', 'data'], 'none.ini', folder=f)

# Names with and without the daemon's prefix, and the peer's.
f = temp_folder()
d = Daemon(['server', '-dir=data', '-ip=127.0.0.1', '-ip.bind=127.0.0.1', f'-master.port={m}', f'-master.port.grpc={mg}',
            f'-volume.port={v}', f'-volume.port.grpc={vg}', '-volumeSizeLimitMB=33', '-max=6', '-defaultReplicaPlacement=000',
            '-volume.index=leveldb', '-garbageThreshold=0.4', '-images.fix.orientation=true', '-pulseSeconds=1',
            f"-metricsPort={free_port()}"], 'alias', f)
d.wait_http(f'127.0.0.1:{m}')
c.ok('server takes a name that one daemon has without its prefix', d.says('33 MB'), d.log_text()[-300:])
c.equal('server: -max', [n['Max'] for n in nodes_of(f'127.0.0.1:{m}').values()], [6])
c.ok('server: -volume.index=leveldb', any(x.endswith('.ldb') for x in os.listdir(f + '/data')), os.listdir(f + '/data'))
c.equal('alias server ends with', d.end(), 0)
c.done()
