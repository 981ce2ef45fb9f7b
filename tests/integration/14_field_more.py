#!/usr/bin/env python3
"""How real clients, browsers, proxies, probes and dashboards use such a store (field_more.sh), by curl.
scale: full"""
from kit import *  # noqa: F403
from rig import *  # noqa: F403

o = arguments(__doc__)
c = Checks()
port = free_port()
s = Server(o.dfs, options=['-volume.fileSizeLimitMB=8', '-volume.max=120', '-master.volumeSizeLimitMB=64',
                           f'-metricsPort={port}'])
status, text = run(['bash', os.path.join(HERE, 'field_more.sh')], 240, temp_folder(),
                   {'M': s.master, 'V': s.volume, 'MV': f'127.0.0.1:{port}', 'BM': s.master_full, 'PROG': o.dfs, 'DIR': s.data})
seen = 0
for line in text.splitlines():
    if line.startswith('PASS '):
        c.ok(line[5:], True)
    elif line.startswith('FAIL '):
        c.ok(line[5:].split(':')[0], False, line[5:])
    else:
        print('   ', line)
    seen += line.startswith(('PASS ', 'FAIL '))
c.ok('the script ran to its end', status == 0 and seen >= 85 and 'F23-list' in text, f'exit {status}, {seen} checks')
c.equal('SIGTERM', s.end(), 0)
c.done()
