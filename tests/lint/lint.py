#!/usr/bin/env python3
"""What reviewers should not have to look for.  Closes with one line: N passed, N failed.

usage: lint.py [--build DIR] [--only WORD[,WORD ...]]

Each check_* function below is one check: it yields a line for each thing that is wrong.  --build is where the program and its
objects are (for `dfs help`, generated headers and nm).
"""
import argparse
import concurrent.futures
import glob
import os
import re
import shutil
import statistics
import subprocess
import sys

import csource
import options

ROOT = options.ROOT
MODULES = ('needle', 'net', 'volume', 'master', 'bench', 'conf')
# Which folders a folder may include from.  master, volume and bench meet on the wire, never in an include.
MAY_INCLUDE = {
    'needle': {'needle'},
    'net': {'net', 'needle'},
    'volume': {'volume', 'net', 'needle'},
    'master': {'master', 'net', 'needle'},
    'bench': {'bench', 'net', 'needle'},
    'conf': set(MODULES),
}
# needle is bytes in memory: nothing that could reach a file, a socket, a clock or another thread.
NEEDLE_HEADERS = {'assert.h', 'ctype.h', 'endian.h', 'errno.h', 'inttypes.h', 'isa-l/crc.h', 'isa-l.h', 'limits.h', 'nmmintrin.h',
                  'pthread.h', 'stdatomic.h', 'stdarg.h', 'stdbool.h', 'stddef.h', 'stdint.h', 'stdio.h', 'stdlib.h', 'string.h',
                  'strings.h', 'sys/auxv.h', 'arm_acle.h', 'cpuid.h'}

LINE_MAX = 132
LINE_MAX_TESTS = 144  # tables of cases
FILE_LINES_MAX = 1200
FUNCTION_LINES_MAX = 200
FUNCTION_LINES_TOLD = 100

FILE_CALLS = r'''open openat openat2 open64 creat fopen fopen64 fdopen freopen opendir fdopendir readdir scandir nftw ftw glob
    read readv pread pread64 preadv preadv2 preadv64v2 write writev pwrite pwrite64 pwritev pwritev2 pwritev64
    fsync fdatasync sync syncfs sync_file_range fallocate fallocate64 posix_fallocate posix_fallocate64 ftruncate ftruncate64
    truncate stat fstat lstat fstatat statx stat64 fstat64 statvfs fstatvfs statvfs64 fstatvfs64 statfs fstatfs rename renameat
    renameat2 link linkat symlink unlink unlinkat remove mkdir mkdirat rmdir mkstemp mkostemp mkdtemp tmpfile realpath chmod
    fchmod access faccessat flock lockf mmap mmap64 munmap msync mincore posix_fadvise posix_fadvise64 copy_file_range close
    io_uring_setup io_uring_enter'''.split()
CLOCK_CALLS = 'clock_gettime gettimeofday time clock nanosleep clock_nanosleep usleep sleep'.split()
RANDOM_CALLS = r'rand rand_r random srandom srand drand48 lrand48 getrandom getentropy randombytes_\w+ arc4random\w*'.split()
SEAMS = ((FILE_CALLS, 'a file call'), (CLOCK_CALLS, 'the clock'), (RANDOM_CALLS, 'randomness'))
BANNED_CALLS = 'strcpy strcat sprintf vsprintf gets strtok atoi atol atof alloca system popen tmpnam mktemp'.split()
# libevent's HTTP, its buffers and its locks: the data path is raw events, and a base belongs to one thread.
BANNED_EVENT = re.compile(r'\b(evhttp_\w+|bufferevent_\w+|evthread_use_pthreads|event2/(?:http|bufferevent|thread)\w*\.h)')

# The doors to the world: file -> calls it may make, and why.
DOORS = {
    'volume/disk_posix.c': (FILE_CALLS, 'the table of file calls itself'),
    'net/clock.c': (CLOCK_CALLS, 'the clock'),
    'net/rand.c': (RANDOM_CALLS, 'the source of randomness'),
    'net/log.c': (['open', 'write', 'writev', 'close'], 'log lines'),
    'net/listener.c': (['open', 'close'], 'sockets, and the spare descriptor for EMFILE'),
    'net/http_out.c': (['close'], 'sockets'),
    'net/http_conn.c': (['close'], 'sockets'),
    'net/http_lane.c': (['close'], 'sockets'),
    'net/http_server.c': (['close'], 'sockets'),
    'net/http_client_conn.c': (['close'], 'sockets'),
    'net/grpc_server.c': (['close'], 'sockets'),
    'net/h2.c': (['close'], 'sockets'),
    'net/loop.c': (['read', 'write', 'close', 'mmap', 'munmap'], 'the eventfd of a mailbox; scratch memory'),
    'net/chunk_pool.c': (['mmap', 'munmap'], 'memory without a file'),
    'volume/needle_map_mem.c': (['mmap', 'munmap'], 'memory without a file'),
    'volume/writeback.c': (['read', 'write', 'close'], 'the eventfd that wakes the flusher'),
    'volume/disk_location.c': (['realpath'], 'the name of a data folder, once, at opening'),
    'master/sequencer.c': (['close'], 'the lock that state_file.c took'),
    'master/state_file.c': (FILE_CALLS, 'the state of the master'),
    'master/master_status.c': (['fopen'], '/proc/self/statm'),
    'conf/daemon.c': (['read', 'fopen', 'unlink', 'close'], 'signalfd, pid file, CPU summary'),
    'conf/ini.c': (['fopen', 'access'], 'dfs.ini and -options files'),
    'bench/*': (FILE_CALLS, 'files that a client reads, writes and lists; its sockets'),
}

# Text that only makes sense on the machine or in the hour it was written.
LEFTOVERS = [
    (re.compile(r'(?<![\w.])/(?:home|root|Users|work|mnt/data)/\w'), 'a path of somebody\'s machine'),
    (re.compile(r'\b(?:TODO|FIXME|XXX|HACK)\b'), 'an open end: fix it, or file it'),
    (re.compile(r'\b(?:pypi\.org|pythonhosted\.org|registry\.npmjs\.org|deb\.debian\.org|proxy\.golang\.org|crates\.io|'
                r'rubygems\.org|docker\.io|ghcr\.io|quay\.io)\b'), 'a host of a package registry'),
    (re.compile(r'\b(?:AI|LLM|GPT|chatbot|language model|coding agent|subagent|workplace)\b'), 'a word that says nothing of the program'),
    (re.compile(r'\b(?:FIELD|FIELD-MORE|DROPIN|GRPC|IO|RAFT|ROWS)\.md\b'), 'a document that is not in the tree'),
]
TEMP_PATH = re.compile(r'(?<![\w.])/tmp/')


class Tree:
    """The files under check, read once."""

    def __init__(self, build):
        self.build = build
        self.text = {}
        self.items = {}
        for pattern in [m + '/*.[ch]' for m in MODULES] + ['tests/*/*.[ch]', 'tests/unit/*/*.[ch]']:
            for path in sorted(glob.glob(os.path.join(ROOT, pattern))):
                rel = os.path.relpath(path, ROOT)
                with open(path, encoding='utf-8', errors='replace') as f:
                    self.text[rel] = f.read()

    def c_files(self, *folders, suffix='.[ch]'):
        end = ('.c', '.h') if suffix == '.[ch]' else suffix
        return [p for p in self.text if p.endswith(end) and (not folders or p.split('/')[0] in folders)]

    def items_of(self, path):
        if path not in self.items:
            self.items[path] = csource.items(self.text[path])
        return self.items[path]

    def dfs(self):
        return os.path.join(ROOT, self.build, 'dfs')


def includes(text):
    """(line, '<' or '"', name, whether it depends on an #if) of each; the guard of a header is no condition."""
    out, depth = [], 0
    for i, line in enumerate(csource.strip(text, strings=False).split('\n'), 1):
        m = re.match(r'\s*#\s*(if|endif|include)\w*\s*(?:([<"])([^">]+)[">])?', line)
        if m and m.group(3) and m.group(1) == 'include':
            out.append((i, m.group(2), m.group(3), depth > 0))
        elif m and m.group(1) == 'if':
            depth += re.match(r'\s*#\s*ifndef DFS_\w+_H$', line) is None
        elif m and m.group(1) == 'endif':
            depth -= 1
    return out


def door_of(path):
    return DOORS.get(path, DOORS.get(path.split('/')[0] + '/*', ([], '')))[0]


# ---- the checks ----

def check_include_direction(t):
    """conf > master, volume, bench > net > needle; from the root; own header first, system's, then ours in order"""
    for path in t.c_files():
        folder = path.split('/')[0]
        own = {path[:-2] + '.h', path[:-2] + '_internal.h'} & set(t.text) if path.endswith('.c') else set()
        incs = includes(t.text[path])
        if folder != 'tests' and own and (not incs or incs[0][2] not in own):
            yield f'{path}: includes something before its own header'
        project, after = [], None
        for i, (line, mark, name, conditional) in enumerate(incs):
            top = name.split('/')[0]
            if mark == '<':
                if top in MODULES or name in t.text:
                    yield f'{path}:{line}: <{name}> is a header of ours'
                if folder == 'needle' and name not in NEEDLE_HEADERS:
                    yield f'{path}:{line}: needle includes <{name}>'
                if after and folder != 'tests' and not conditional:
                    yield f'{path}:{line}: <{name}> after "{after}"'
                continue
            if folder == 'tests':
                continue
            if '/' not in name or top not in MODULES:
                yield f'{path}:{line}: "{name}" is not written from the root'
            elif top not in MAY_INCLUDE[folder]:
                yield f'{path}:{line}: {folder} includes "{name}"'
            # the first one may be the header that this file implements a part of
            if i > 0 and not conditional:
                after = name
                project.append(name)
        if project != sorted(project):
            yield f'{path}: includes of ours are not in alphabetical order'


def check_headers_alone(t):
    """every header compiles alone, with gcc and clang, warnings as errors"""
    cflags = subprocess.run(['pkg-config', '--cflags', 'libnghttp2', 'libprotobuf-c', 'jansson', 'zlib', 'libsodium'],
                            capture_output=True, text=True, check=False).stdout.split()
    warn = re.search(r'^WARN := (.*?[^\\])$', open(os.path.join(ROOT, 'Makefile'), encoding='utf-8').read(), re.M | re.S)
    warn = warn.group(1).replace('\\\n', ' ').split()
    compilers = [c for c in ('gcc', 'clang') if shutil.which(c)]
    headers = [p for p in t.c_files(suffix='.h') if not p.startswith('tests/unit/')]

    def compile_one(job):
        compiler, header = job
        argv = [compiler, '-std=gnu11', '-D_GNU_SOURCE', '-I.', '-I' + os.path.join(t.build, 'gen'), '-I' + os.path.dirname(header),
                *warn, '-Werror', *cflags, '-fsyntax-only', '-x', 'c', '-']
        p = subprocess.run(argv, cwd=ROOT, input=f'#include "{header}"\n', capture_output=True, text=True, check=False)
        first = p.stderr.strip().splitlines()
        return None if p.returncode == 0 else f'{header} ({compiler}): {next((x for x in first if "error" in x), first[:1])}'
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for bad in pool.map(compile_one, [(c, h) for c in compilers for h in headers]):
            if bad is not None:
                yield bad
    if compilers != ['gcc', 'clang']:
        yield f'only {compilers} to compile with'


def check_seams(t):
    """files, time and randomness have one door each"""
    for path in t.c_files(*MODULES):
        for names, what in SEAMS:
            for line, name in csource.calls(t.text[path], names):
                if not any(re.fullmatch(a, name) for a in door_of(path)):
                    yield f'{path}:{line}: {name}(): {what} outside its door'


def undefined_symbols(path):
    out = subprocess.run(['nm', '-u', path], capture_output=True, text=True, check=False).stdout
    names = set()
    for line in out.splitlines():
        name = line.split()[-1].split('@')[0]
        m = re.fullmatch(r'__(\w+?)(?:_chk|_2)', name)
        names.add(m.group(1) if m else name)
    return names


def check_seams_in_objects(t):
    """the same in what the compiler made of it, where no macro or pointer hides a call"""
    found = False
    for path in t.c_files(*MODULES, suffix='.c'):
        obj = os.path.join(ROOT, t.build, path[:-2] + '.o')
        if not os.path.exists(obj):
            continue
        found = True
        for name in sorted(undefined_symbols(obj)):
            for names, what in SEAMS:
                if any(re.fullmatch(n, name) for n in names) and not any(re.fullmatch(a, name) for a in door_of(path)):
                    yield f'{path}: {name}: {what} outside its door'
    if not found:
        yield f'no objects below {t.build}'


def check_banned_calls(t):
    """calls that cannot be used right, and parts of libevent that the data path must not touch"""
    for path in t.c_files(*MODULES):
        for line, name in csource.calls(t.text[path], BANNED_CALLS):
            yield f'{path}:{line}: {name}()'
    for path in t.c_files():
        for m in BANNED_EVENT.finditer(csource.strip(t.text[path], strings=False)):
            yield f'{path}:{t.text[path].count(chr(10), 0, m.start()) + 1}: {m.group(1)}'


def check_options(t):
    """option table = man pages = dfs.ini = -h"""
    if not os.path.exists(t.dfs()):
        yield f'no program at {t.build}/dfs'
        return
    listed = set()
    for path in [*options.pages(), options.INI]:
        want, commands = options.renewed(t.dfs(), path)
        listed.update(commands)
        if not os.path.exists(os.path.join(ROOT, path)):
            yield f'{path} is missing'
        elif options.read(path) != want:
            yield f'{path} is not what `dfs help` prints: run `make man`'
    for command in options.COMMANDS:
        if command not in listed:
            yield f'no man page lists the options of `dfs {command}`'
        p = subprocess.run([t.dfs(), *command.split(), '-h'], capture_output=True, text=True, check=False)
        if p.returncode != 0 or not p.stdout.startswith(f'usage: dfs {command}'):
            yield f'`dfs {command} -h` exits {p.returncode}'


def check_man_pages(t):
    """mandoc finds nothing wrong with the man pages"""
    if shutil.which('mandoc') is None:
        yield 'no mandoc'
        return
    for path in options.pages():
        p = subprocess.run(['mandoc', '-Tlint', '-W', 'warning', path], cwd=ROOT, capture_output=True, text=True, check=False)
        for line in (p.stdout + p.stderr).splitlines():
            if 'referenced manual not found' not in line:
                yield line.replace('mandoc: ', '')


def has_comment(lines, item):
    """A comment directly above, or above the group (lines without a blank one between) it stands in, or beside it."""
    if any('/*' in x for x in lines[item.line - 1:item.end_line]):
        return True
    for i in range(item.line - 2, -1, -1):
        if not lines[i].strip():
            return False
        if '*/' in lines[i]:
            return True
    return False


def check_headers_speak(t):
    """headers open with a paragraph, and say of each function what it does"""
    for path in t.c_files(*MODULES, suffix='.h'):
        text = t.text[path]
        lines = text.split('\n')
        if not text.startswith('/* ') or len(text[:text.find('*/')]) < 40:
            yield f'{path}: does not open with what it is'
        for item in t.items_of(path):
            # x_free() undoes x_new() and says so by its name
            if not item.body and not has_comment(lines, item) and not re.search(r'_(free|release|unref)$', item.name):
                yield f'{path}:{item.line}: {item.name}() has no comment'


def check_sizes(t):
    """no file over FILE_LINES_MAX lines, no function over FUNCTION_LINES_MAX"""
    for path in t.c_files():
        n = t.text[path].count('\n')
        if n > FILE_LINES_MAX:
            yield f'{path}: {n} lines'
        for item in t.items_of(path):
            if item.body and item.lines > FUNCTION_LINES_MAX:
                yield f'{path}:{item.line}: {item.name}() has {item.lines} lines'


def check_hygiene(t):
    """no tabs, no trailing blanks, no long lines; nothing left over from the writing"""
    for path in t.c_files():
        for i, line in enumerate(t.text[path].split('\n'), 1):
            if '\t' in line:
                yield f'{path}:{i}: a tab'
            if line != line.rstrip():
                yield f'{path}:{i}: blanks at the end'
            if len(line) > (LINE_MAX_TESTS if path.startswith('tests/') else LINE_MAX):
                yield f'{path}:{i}: {len(line)} columns'
        if not t.text[path].endswith('\n') or t.text[path].endswith('\n\n'):
            yield f'{path}: does not end with one newline'
    for path in tracked_texts():
        text = options.read(path)
        for pattern, why in LEFTOVERS:
            for m in pattern.finditer(text):
                yield f'{path}:{text.count(chr(10), 0, m.start()) + 1}: {m.group(0)}: {why}'
        if not path.startswith('tests/') and path.split('.')[-1] in ('c', 'h'):
            for m in TEMP_PATH.finditer(csource.strip(text, strings=False)):
                yield f'{path}:{text.count(chr(10), 0, m.start()) + 1}: a fixed path below {m.group(0)}'


def tracked_texts():
    """Every file of the tree that people read, but this one (which has to name what it looks for)."""
    p = subprocess.run(['git', 'ls-files', '-z'], cwd=ROOT, capture_output=True, check=False)
    names = p.stdout.decode().split('\0') if p.returncode == 0 else []
    ends = ('.c', '.h', '.md', '.py', '.sh', '.1', '.5', '.8', '.proto', '.ini', '.service', '.txt', 'Makefile', '.yml')
    return [n for n in names if n.endswith(ends) and os.path.exists(os.path.join(ROOT, n)) and n != 'tests/lint/lint.py' and
            not n.startswith('tests/fuzz/corpus/')]


# ---- what is only told ----

def told_sizes(t):
    for what, paths in (('program', t.c_files(*MODULES)), ('tests', t.c_files('tests'))):
        sizes = sorted((t.text[p].count('\n'), p) for p in paths)
        functions = sorted((i.lines, f'{p}:{i.line} {i.name}') for p in paths for i in t.items_of(p) if i.body)
        if not sizes or not functions:
            continue
        n, f = [s for s, _ in sizes], [s for s, _ in functions]
        print(f'  {what}: {sum(n)} lines in {len(n)} files, median {statistics.median(n):.0f}, p90 {n[len(n) * 9 // 10]}, '
              f'largest {sizes[-1][0]} ({sizes[-1][1]})')
        print(f'  {what}: {len(f)} functions, median {statistics.median(f):.0f}, p90 {f[len(f) * 9 // 10]}, '
              f'longest {functions[-1][0]} ({functions[-1][1]})')
        for size, name in functions:
            if size > FUNCTION_LINES_TOLD:
                print(f'    {size} lines: {name}')


def called_from_nowhere_else(t):
    """(file, function) that other files of the program could call, and none does."""
    defined, used = {}, {}
    for path in t.c_files(*MODULES, suffix='.c'):
        obj = os.path.join(ROOT, t.build, path[:-2] + '.o')
        if not os.path.exists(obj):
            continue
        out = subprocess.run(['nm', '--defined-only', '-g', obj], capture_output=True, text=True, check=False).stdout
        for line in out.splitlines():
            parts = line.split()
            if len(parts) == 3 and parts[1] == 'T' and parts[2] != 'main':
                defined[parts[2]] = path
        for name in undefined_symbols(obj):
            used.setdefault(name, set()).add(path)
    return [(path, name) for name, path in sorted(defined.items()) if name not in used]


def check_unused(t):
    """what is public is called from another file, be it a test"""
    tests = ' '.join(csource.strip(t.text[p]) for p in t.c_files('tests'))
    for path, name in called_from_nowhere_else(t):
        if not re.search(rf'\b{name}\b', tests):
            yield f'{path}: {name}() is called from other files by nobody'


def told_for_tests(t):
    """Not wrong, but each should have a reason."""
    tests = ' '.join(csource.strip(t.text[p]) for p in t.c_files('tests'))
    for path, name in called_from_nowhere_else(t):
        if re.search(rf'\b{name}\b', tests):
            print(f'    {path}: {name}()')


def main():
    a = argparse.ArgumentParser()
    a.add_argument('--build', default='build/release')
    a.add_argument('--only', default='')
    o = a.parse_args()
    t = Tree(o.build)
    words = [w for w in o.only.split(',') if w]
    checks = [(name, fn) for name, fn in globals().items() if name.startswith('check_')]
    passed = failed = 0
    for name, fn in checks:
        if words and not any(w in name for w in words):
            continue
        bad = sorted(set(fn(t)))
        print(f"{'FAIL' if bad else 'ok  '} {name[6:]}: {fn.__doc__}")
        for line in bad:
            print('    ' + line)
        passed, failed = (passed, failed + 1) if bad else (passed + 1, failed)
    if not words:
        print('sizes:')
        told_sizes(t)
        print('called from other files by tests alone:')
        told_for_tests(t)
    print(f'{passed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
