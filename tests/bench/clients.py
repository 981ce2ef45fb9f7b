"""The clients that put load on a server: each program's own benchmark, and wrk; what they measured, as one shape.

A result has requests_per_s, n, failed, p50, p99, p999, max (ms; None when the client does not say), server_us and client_us
(CPU time a request), and for benchmarks series (completed requests in each second).
"""
import json
import os
import pty
import re
import select
import shutil
import subprocess
import time

import commands
from servers import HERE

LIMIT_S = 240


def machine_busy_s():
    """CPU time that all of the machine has used, stolen time too."""
    with open('/proc/stat') as f:
        w = [int(x) for x in f.readline().split()[1:9]]
    return (sum(w) - w[3] - w[4]) / os.sysconf('SC_CLK_TCK')


# Share of the machine that neither server nor client used, run by run: how much else was going on.
other_shares = []


def run_measured(argv, server, folder, env=None, use_pty=False):
    """(output, seconds, server's CPU s, client's CPU s) of a client run to its end."""
    log = os.path.join(folder, 'client.log')
    commands.note(argv, folder)
    before, busy_before, start = server.cpu_s(), machine_busy_s(), time.monotonic()
    if use_pty:
        reader, writer = pty.openpty()
    else:
        reader, writer = os.pipe()
    p = subprocess.Popen(argv, stdout=writer, stderr=writer, stdin=subprocess.DEVNULL, cwd=folder, env={**os.environ, **(env or {})})
    os.close(writer)
    text = b''
    while time.monotonic() < start + LIMIT_S:
        if not select.select([reader], [], [], 1)[0]:
            continue
        try:
            piece = os.read(reader, 65536)
        except OSError:
            break
        if not piece:
            break
        text += piece
    else:
        p.kill()
    _, state, used = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(state)
    seconds, server_s = time.monotonic() - start, server.cpu_s() - before
    others_s = machine_busy_s() - busy_before - server_s - used.ru_utime - used.ru_stime
    other_shares.append(others_s / seconds / os.cpu_count())
    os.close(reader)
    text = text.decode(errors='replace').replace('\r', '')
    with open(log, 'a') as f:
        f.write(text)
    return text, seconds, server_s, used.ru_utime + used.ru_stime


def per_request_us(seconds, n):
    return seconds / n * 1e6 if n else None


def dfs_benchmark(setup, server, phase, size, n, c, options=()):
    """One phase of `dfs benchmark`: 'write' or 'read'."""
    folder = setup.data
    report = os.path.join(folder, 'report.json')
    argv = [setup.dfs, 'benchmark', '-server', setup.master, '-size', str(size), '-n', str(n), '-c', str(c), '-list',
            os.path.join(folder, 'list.txt'), '-json', report, '-read=false' if phase == 'write' else '-write=false', *options]
    _, _, server_s, client_s = run_measured(argv, server, folder)
    with open(report) as f:
        r = json.load(f)['phases'][0]
    os.unlink(report)
    p = r['latency_ms']['percentiles']
    done = r['completed'] + r['failed']
    return {'requests_per_s': r['requests_per_s'], 'bytes_per_s': r['bytes_per_s'], 'n': done, 'failed': r['failed'],
            'p50': p['50'], 'p99': p['99'], 'p999': p['99.9'], 'max': p['100'], 'server_us': per_request_us(server_s, done),
            'client_us': per_request_us(client_s, done), 'series': [s['completed'] / s['seconds'] for s in r['series']],
            'seconds': r['seconds'], 'error': r['first_error']}


def weed_benchmark(setup, server, phase, size, n, c):
    folder = setup.data
    argv = [setup.weed, '-logdir', folder, 'benchmark', f'-master={setup.master_of_weed}', '-size', str(size), '-n', str(n),
            '-c', str(c), '-list', os.path.join(folder, 'list.txt'), '-writeOnly' if phase == 'write' else '-readOnly']
    text, _, server_s, client_s = run_measured(argv, server, folder, use_pty=True)

    def number(pattern):
        m = re.search(pattern, text)
        return float(m.group(1)) if m else None
    done = (number(r'Completed? requests:\s+(\d+)') or 0) + (number(r'Failed requests:\s+(\d+)') or 0)
    if not done:
        raise RuntimeError('weed benchmark: ' + text[-600:])
    return {'requests_per_s': number(r'Requests per second:\s+([\d.]+)'),
            'bytes_per_s': (number(r'Transfer rate:\s+([\d.]+)') or 0) * 1024, 'n': done,
            'failed': number(r'Failed requests:\s+(\d+)'), 'p50': number(r' 50%\s+([\d.]+)'), 'p99': number(r' 99%\s+([\d.]+)'),
            'p999': None, 'max': number(r'Total:\s+[\d.]+\s+[\d.]+\s+([\d.]+)'), 'server_us': per_request_us(server_s, done),
            'client_us': per_request_us(client_s, done), 'series': [float(x) for x in re.findall(r'% +([\d.]+)/s', text)]}


def own_benchmark(setup, server, phase, size, n, c):
    run = weed_benchmark if server.kind == 'weed' else dfs_benchmark
    return run(setup, server, phase, size, n, c)


def wrk_argv(script, url, connections, seconds, arguments, threads=2):
    return ['wrk', f'-t{min(threads, connections)}', f'-c{connections}', f'-d{seconds}s', '--timeout', '10s', '-s',
            os.path.join(HERE, script), url, '--', *map(str, arguments)]


def wrk_env(folder, name='wrk.json'):
    return {'BENCH_LUA': HERE, 'BENCH_RESULT': os.path.join(folder, name)}


def wrk_result(env):
    with open(env['BENCH_RESULT']) as f:
        r = json.load(f)
    failed = r['status'] + r['connect'] + r['read'] + r['write'] + r['timeout']
    return {'requests_per_s': r['n'] / r['seconds'], 'bytes_per_s': r['bytes'] / r['seconds'], 'n': r['n'], 'failed': failed,
            'p50': r['p50'], 'p99': r['p99'], 'p999': r['p999'], 'max': r['max']}


def wrk(setup, server, script, connections, seconds, arguments, url=None):
    env = wrk_env(setup.data)
    text, _, server_s, client_s = run_measured(wrk_argv(script, url or server.url, connections, seconds, arguments), server,
                                               setup.data, env)
    try:
        r = wrk_result(env)
    except (OSError, ValueError):
        raise RuntimeError('wrk: ' + text[-600:]) from None
    return {**r, 'server_us': per_request_us(server_s, r['n']), 'client_us': per_request_us(client_s, r['n'])}


def count_calls(setup, server, connections, seconds, arguments):
    """System calls a request by strace -c, and those that are more than a hundredth a request, by name."""
    if shutil.which('strace') is None:
        raise RuntimeError('no strace')
    out, env = os.path.join(setup.data, 'strace.txt'), wrk_env(setup.data)
    targets = [w for pid in server.pids() for w in ('-p', str(pid))]
    # one client thread: what the client does is not what is counted
    argv = wrk_argv('get.lua', server.url, connections, seconds, arguments, threads=1)
    tracer = subprocess.Popen(['strace', '-c', '-f', '-o', out, *targets], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(1)
        subprocess.run(argv, env={**os.environ, **env}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True,
                       timeout=seconds + 60)
    finally:
        tracer.terminate()
        tracer.wait()
    n = wrk_result(env)['n']
    calls = {}
    with open(out) as f:
        for line in f:
            w = line.split()
            if len(w) >= 5 and w[0].replace('.', '').isdigit() and w[-1] != 'total':
                calls[w[-1]] = int(w[3])
    return {'n': n, 'calls': sum(calls.values()) / n, 'names': {k: round(v / n, 3) for k, v in calls.items() if v > n / 100}}
