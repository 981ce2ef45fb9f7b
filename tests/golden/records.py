#!/usr/bin/env python3
"""Write <volume>/records.txt for the volumes in ../fixtures/volumes that have a folder here: what stands in the .dat, read by
code that shares nothing with dfs.

Run by hand when a volume is added; the result is checked in and compared by tests/unit/needle/test_golden.c.
One line a record: offset key cookie size data-bytes crc flags mtime ttl time name mime pairs (numbers decimal, but key,
cookie, crc and flags hex; texts in hex, - when absent; crc is that of the data, BAD when the stored one differs).
"""
import glob
import os
import struct

TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


def crc32c(data):
    c = 0xFFFFFFFF
    for b in data:
        c = TABLE[(c ^ b) & 255] ^ c >> 8
    return c ^ 0xFFFFFFFF


def masked(c):
    return ((c >> 15 | c << 17) + 0xA282EAD8) & 0xFFFFFFFF


def text(body, width):
    n = int.from_bytes(body[:width], "big")
    return body[width:width + n].hex() or "empty", body[width + n:]


def record(version, dat, pos):
    cookie, key, size = struct.unpack_from(">IQI", dat, pos)
    body = dat[pos + 16:pos + 16 + size]
    end = pos + 16 + size
    stored, = struct.unpack_from(">I", dat, end)
    time = struct.unpack_from(">Q", dat, end + 4)[0] if version == 3 else 0
    used = 16 + size + 4 + (8 if version == 3 else 0)
    flags, name, mime, mtime, ttl, pairs = 0, "-", "-", 0, "-", "-"
    data = body
    if size and version > 1:
        n, = struct.unpack_from(">I", body)
        data, flags, rest = body[4:4 + n], body[4 + n], body[5 + n:]
        if flags & 2:
            name, rest = text(rest, 1)
        if flags & 4:
            mime, rest = text(rest, 1)
        if flags & 8:
            mtime, rest = int.from_bytes(rest[:5], "big"), rest[5:]
        if flags & 16:
            ttl, rest = rest[:2].hex(), rest[2:]
        if flags & 32:
            pairs, rest = text(rest, 2)
        assert rest == b""
    crc = crc32c(data)
    good = size == 0 or stored in (crc, masked(crc))
    line = (f"{pos} {key:x} {cookie:08x} {size} {len(data)} {crc if good else 0:08x}{'' if good else '/BAD'} {flags:02x} "
            f"{mtime} {ttl} {time} {name} {mime} {pairs}")
    return line, used + 8 - used % 8


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    for path in sorted(glob.glob(here + "/../fixtures/volumes/*/*.dat")):
        records = os.path.join(here, os.path.basename(os.path.dirname(path)), "records.txt")
        if not os.path.isdir(os.path.dirname(records)):
            continue
        dat = open(path, "rb").read()
        lines, pos = [], 8
        while pos + 16 <= len(dat):
            size, = struct.unpack_from(">I", dat, pos + 12)
            used = 16 + size + 4 + (8 if dat[0] == 3 else 0)
            if pos + used + 8 - used % 8 > len(dat):
                lines.append(f"{pos} torn")
                break
            line, step = record(dat[0], dat, pos)
            lines.append(line)
            pos += step
        with open(records, "w") as out:
            out.write("\n".join(lines) + "\n")


main()
