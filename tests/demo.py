#!/usr/bin/env python3
"""`make demo`: a store in a temporary folder, a file put, fetched and deleted, the benchmark; each step shown as one would
type it.  Exit status 0 when all of it went well.

usage: demo.py PROGRAM [objects]
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'integration'))
from rig import Process, free_port, get, get_json, temp_folder, wait_for  # noqa: E402


def show(command, answer=''):
    print(f'\n$ {command}\n{answer}'.rstrip(), flush=True)


def start(dfs, folder):
    master, volume = free_port(), free_port()
    argv = [dfs, 'server', '-dir', os.path.join(folder, 'data'), f'-master.port={master}', f'-master.port.grpc={free_port()}',
            f'-volume.port={volume}', f'-volume.port.grpc={free_port()}', '-master.volumeSizeLimitMB=1024']
    show(' '.join(argv) + ' &')
    server = Process(argv, folder, 'server')
    url = f'http://127.0.0.1:{master}'
    wait_for('the server', lambda: get(url + '/cluster/healthz')[0] == 200)
    return server, url


def put_and_get(url):
    """Returns what went wrong, or None."""
    content = b'Hello from dfs.\n'
    a = get_json(url + '/dir/assign')
    show(f'curl {url}/dir/assign', json.dumps(a, separators=(',', ':')))
    file_url = f"http://{a['url']}/{a['fid']}"
    status, _, body = get(file_url, method='PUT', data=content, headers={'Content-Type': 'text/plain'})
    show(f"echo 'Hello from dfs.' | curl -T - {file_url}", f'{status} {body.decode()}')
    if status != 201:
        return f'the file was not stored: {status}'
    status, _, body = get(file_url)
    show(f'curl {file_url}', f'{status} {body.decode()}')
    if (status, body) != (200, content):
        return 'the file that came back is another'
    status, _, body = get(file_url, method='DELETE')
    show(f'curl -X DELETE {file_url}', f'{status} {body.decode()}')
    return None if status == 202 and get(file_url)[0] == 404 else 'the file is still there'


def benchmark(dfs, url, folder, objects):
    argv = [dfs, 'benchmark', '-server', url[len('http://'):], '-n', objects, '-list', os.path.join(folder, 'list.txt')]
    show(' '.join(argv))
    p = Process(argv, folder, 'benchmark')
    status = p.p.wait(600)
    print(p.log_text(), flush=True)
    return None if status == 0 else f'the benchmark ended with {status}'


def main():
    dfs = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else './dfs')
    folder = temp_folder('dfs-demo-')
    server, url = start(dfs, folder)
    wrong = put_and_get(url) or benchmark(dfs, url, folder, sys.argv[2] if len(sys.argv) > 2 else '20000')
    status = server.end()
    if wrong is None and status != 0:
        wrong = f'the server ended with {status}'
    if wrong is not None:
        print(f'demo failed: {wrong}\n{server.log_text()}')
        return 1
    print('demo: all of it went well; the folder was temporary and is gone')
    return 0


if __name__ == '__main__':
    sys.exit(main())
