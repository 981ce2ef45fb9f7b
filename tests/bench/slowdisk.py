"""A small slow disk: an image file on a loop device with a bound on dirty pages and on its speed.  Root, Linux, cgroup v1 blkio.

Touches nothing but the loop devices it made; what cannot be had raises Unavailable with the reason.
"""
import os
import shutil
import subprocess
import sys
import time

IMAGE_BYTES = 10 << 30
THROTTLE = '/sys/fs/cgroup/blkio/blkio.throttle.'


class Unavailable(Exception):
    pass


def sh(*argv):
    p = subprocess.run(argv, capture_output=True, text=True, check=False)
    if p.returncode != 0:
        raise Unavailable(f'{argv[0]}: {(p.stderr or p.stdout).strip()[-200:]}')
    return p.stdout.strip()


def device_number(path):
    n = os.stat(path).st_rdev
    return f'{os.major(n)}:{os.minor(n)}'


def set_throttle(what, device, value):
    """0 takes the bound away."""
    try:
        with open(THROTTLE + what, 'w') as f:
            f.write(f'{device} {value}\n')
    except OSError as e:
        raise Unavailable(f'{THROTTLE + what}: {e.strerror}') from None


class SlowDisk:
    """`with SlowDisk(folder, dirty_mb=1024, write_mb_s=120) as mount_point:`; raid10 spreads it over four loop devices."""

    def __init__(self, folder, dirty_mb=0, write_mb_s=0, read_iops=0, image_bytes=IMAGE_BYTES, raid10=False):
        self.folder, self.dirty_mb, self.write_mb_s, self.read_iops = folder, dirty_mb, write_mb_s, read_iops
        self.image_bytes, self.raid10 = image_bytes, raid10
        self.undo = []

    def __enter__(self):
        try:
            return self.make()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        for step in reversed(self.undo):
            for _ in range(20):
                try:
                    step()
                    break
                except (Unavailable, OSError) as e:
                    why = e
                    time.sleep(0.5)
            else:
                print(f'slow disk: could not be cleared away: {why}', file=sys.stderr)
        self.undo = []

    def loop(self, name, size):
        image = os.path.join(self.folder, name)
        with open(image, 'wb') as f:
            f.truncate(size)
        self.undo.append(lambda: os.unlink(image))
        # direct I/O: the backing file must not cache the same bytes a second time
        device = sh('losetup', '--direct-io=on', '--show', '-f', image)
        self.undo.append(lambda: sh('losetup', '-d', device))
        return device

    def make(self):
        if os.getuid() != 0:
            raise Unavailable('needs root')
        for program in ('losetup', 'mkfs.ext4', 'mount'):
            if shutil.which(program) is None:
                raise Unavailable(f'no {program}')
        if self.raid10:
            device, legs = self.make_raid10()
        else:
            device = self.loop('disk.img', self.image_bytes)
            legs = [device]
        sh('mkfs.ext4', '-q', '-F', '-m', '0', '-E', 'lazy_itable_init=0,lazy_journal_init=0', device)
        mount_point = os.path.join(self.folder, 'mnt')
        os.makedirs(mount_point, exist_ok=True)
        sh('mount', device, mount_point)
        self.undo.append(lambda: sh('umount', mount_point))
        if self.dirty_mb:
            bdi = '/sys/class/bdi/' + device_number(device)
            for name, value in (('strict_limit', 1), ('max_bytes', self.dirty_mb << 20)):
                try:
                    with open(f'{bdi}/{name}', 'w') as f:
                        f.write(f'{value}\n')
                except OSError as e:
                    raise Unavailable(f'{bdi}/{name}: {e.strerror}') from None
        # each byte is written on two of the four legs
        share = self.write_mb_s * 1000000 * (2 if self.raid10 else 1) // len(legs)
        for leg in legs:
            self.throttle('write_bps_device', leg, share)
            self.throttle('read_iops_device', leg, self.read_iops)
        return mount_point

    def throttle(self, what, device, value):
        if value:
            number = device_number(device)
            set_throttle(what, number, value)
            self.undo.append(lambda: set_throttle(what, number, 0))

    def make_raid10(self):
        if not os.path.exists('/proc/mdstat'):
            raise Unavailable('this kernel has no md')
        if shutil.which('mdadm') is None:
            raise Unavailable('no mdadm')
        legs = [self.loop(f'leg{i}.img', self.image_bytes // 2) for i in range(4)]
        device = '/dev/md/dfsbench'
        sh('mdadm', '--create', device, '--run', '--level=10', '--raid-devices=4', '--assume-clean', *legs)
        device = os.path.realpath(device)
        self.undo.append(lambda: sh('mdadm', '--stop', device))
        return device, legs
