#!/usr/bin/env python3
"""make demo: a store in a temporary folder, a file put and fetched, the benchmark, a clean stop.  usage: demo.py PATH-OF-dfs"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, 'integration'))
from rig import free_port  # noqa: E402


def step(text):
    print('\n== ' + text, flush=True)


def fetch(url, timeout=5):
    with urllib.request.urlopen(url, timeout=timeout) as f:
        return f.read()


def wait_ready(server, master):
    """Until an id can be had: then a master leads, a volume server is known and a volume is there."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if server.poll() is not None:
            sys.exit(f'the server ended with status {server.returncode}')
        try:
            return json.loads(fetch(f'http://{master}/dir/assign'))['fid']
        except (OSError, ValueError, KeyError):
            time.sleep(0.1)
    sys.exit('the server was not ready within a minute')


def main():
    dfs = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(HERE), 'dfs'))
    with tempfile.TemporaryDirectory(prefix='dfs-demo-') as folder:
        mport, mgrpc, vport, vgrpc = (free_port() for _ in range(4))
        master = f'127.0.0.1:{mport}'
        full = f'{master}.{mgrpc}'
        argv = [dfs, 'server', '-dir', 'data', f'-master.port={mport}', f'-master.port.grpc={mgrpc}', f'-volume.port={vport}',
                f'-volume.port.grpc={vgrpc}']
        step(' '.join(['dfs', *argv[1:]]))
        with open(os.path.join(folder, 'server.log'), 'wb') as log:
            server = subprocess.Popen(argv, cwd=folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            began = time.monotonic()
            wait_ready(server, master)
            print(f'ready after {time.monotonic() - began:.2f} s')

            name = os.path.join(folder, 'hello.bin')
            content = os.urandom(1_000_000)
            with open(name, 'wb') as f:
                f.write(content)
            step(f'dfs upload -master {full} hello.bin')
            out = subprocess.run([dfs, 'upload', '-master', full, name], stdout=subprocess.PIPE, text=True, check=True, cwd=folder)
            print(out.stdout.strip())
            fid = json.loads(out.stdout)[0]['fid']

            where = json.loads(fetch(f"http://{master}/dir/lookup?volumeId={fid.split(',')[0]}"))['locations'][0]['url']
            step(f'GET http://{where}/{fid}')
            got = fetch(f'http://{where}/{fid}')
            if got != content:
                sys.exit(f'{len(got)} bytes came back, and they are not those that were sent')
            print(f'{len(got)} bytes, the same that were sent')

            step(f'dfs benchmark -master {full} -n 10000 -c 16')
            status = subprocess.run([dfs, 'benchmark', '-master', full, '-n', '10000', '-c', '16', '-list',
                                     os.path.join(folder, 'list')], cwd=folder).returncode
            if status != 0:
                sys.exit(f'the benchmark ended with status {status}')

            step('SIGTERM')
            server.send_signal(signal.SIGTERM)
            status = server.wait(30)
            print(f'the server ended with status {status}')
            return status
        finally:
            if server.poll() is None:
                server.kill()
                server.wait()


if __name__ == '__main__':
    sys.exit(main())
