#!/usr/bin/env python3
"""The options' part of the man pages, and conf/dfs.ini: both are printed by the program from its option table.

usage: options.py --dfs PROGRAM [--write]

A page has a line `.\\" BEGIN OPTIONS [COMMAND]` and a line `.\\" END OPTIONS`; what stands between them is the output of
`dfs help -man COMMAND`.  Without a command the page's name tells it (dfs-master.8).  --write brings pages and file up to
date, else those that differ are named.
"""
import argparse
import glob
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BLOCK = re.compile(r'(^\.\\" BEGIN OPTIONS *([\w ]*)\n)(.*?)(^\.\\" END OPTIONS\n)', re.M | re.S)
INI = 'conf/dfs.ini'
COMMANDS = ('server', 'master', 'volume', 'benchmark', 'benchmark objects', 'benchmark cleanup', 'benchmark mix',
            'benchmark records', 'benchmark agent', 'benchmark plot', 'upload', 'download', 'delete')


def pages():
    """All man pages of the tree, from the root."""
    return sorted(os.path.relpath(p, ROOT) for p in glob.glob(os.path.join(ROOT, '*', 'dfs*.[158]')))


def said(dfs, *args):
    return subprocess.run([dfs, 'help', *args], check=True, capture_output=True, text=True).stdout


def read(path):
    with open(os.path.join(ROOT, path), encoding='utf-8') as f:
        return f.read()


def renewed(dfs, path):
    """(what the file should hold, the commands whose options it lists)."""
    if path == INI:
        return said(dfs, '-ini'), []
    commands = []

    def block(m):
        command = m.group(2) or re.sub(r'^dfs-|\.\d$', '', os.path.basename(path))
        commands.append(command)
        return m.group(1) + said(dfs, '-man', *command.split()) + m.group(4)
    return BLOCK.sub(block, read(path)), commands


def main():
    a = argparse.ArgumentParser()
    a.add_argument('--dfs', required=True)
    a.add_argument('--write', action='store_true')
    o = a.parse_args()
    status = 0
    for path in [*pages(), INI]:
        want, _ = renewed(o.dfs, path)
        full = os.path.join(ROOT, path)
        if os.path.exists(full) and read(path) == want:
            continue
        print(path)
        status = 1
        if o.write:
            with open(full, 'w', encoding='utf-8') as f:
                f.write(want)
            status = 0
    return status


if __name__ == '__main__':
    sys.exit(main())
