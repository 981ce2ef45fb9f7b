"""What the systems' own pages say, as requests or operations a second and MiB/s; clusters and disks of their time."""

# seaweedfs 0.76, one machine, RAID10 of six disks: (size, clients, operation): requests/s
BLOBS = {
    (1000000, 16, 'write'): 340.11,   # 40,000 of them, past the cliff; 1,173.36 for the first 10,000
    (1000000, 16, 'read'): 2305.66,
    (1000000, 100, 'write'): 1468.89,
    (1024, 100, 'write'): 7534.50,
}

# CubeFS, one shared volume: (pattern, block, clients): IOPS at 1, 4, 16, 64 processes
CUBEFS_PROCS = (1, 4, 16, 64)
CUBEFS = {
    ('read', '128k', 1): (2552, 9158, 27000, 21000),
    ('read', '128k', 2): (5003, 17900, 52400, 42400),
    ('write', '128k', 1): (948, 3783, 12900, 23200),
    ('write', '128k', 2): (1625, 7087, 23300, 43700),
    ('randread', '4k', 1): (3979, 19500, 78700, 127000),
    ('randread', '4k', 2): (8345, 41300, 150000, 237000),
    ('randwrite', '4k', 1): (1982, 11100, 42100, 110000),
    ('randwrite', '4k', 2): (5050, 21600, 78600, 174000),
}

# rados bench, ten seconds, objects of 4 MiB: (mode, requests under way): MiB/s
RADOS = {('write', 16): 382.09, ('seq', 16): 1111.06, ('rand', 16): 1577.54, ('write', 4): 170.51}

# iozone, records of 32 KiB: operation: ops/s on Quobyte, on BeeGFS
OPERATIONS = ('write', 'rewrite', 'read', 'reread', 'random read', 'random write', 'mixed')
IOZONE = {
    1: {'write': (201, 1025), 'rewrite': (248, 1047), 'read': (736, 1031), 'reread': (753, 1033), 'random read': (788, 935),
        'random write': (339, 1022)},
    15: {'write': (796, 3718), 'rewrite': (1182, 3745), 'read': (1841, 3771), 'reread': (1860, 3771), 'random read': (3682, 3771),
         'mixed': (1584, 6346), 'random write': (1538, 3721)},
}

# Sheepdog: a block device in a guest
SHEEPDOG = ('random read 4 KiB, 10 under way, no cache: 230 to 250 IOPS', 'random read and write 4:1, the same: 180 to 250 IOPS')
