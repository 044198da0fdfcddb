# SPDX-License-Identifier: Apache-2.0
"""Disks that really fail, in the kernel and not in a double of ours: a device that answers EIO or zeros, a full one, a full quota, a
slow one, and little memory. Never a wrong value, a sentence that names the file, and the older checkpoint loads."""
import ctypes
import fcntl
import os
import shutil
import struct
import subprocess
import sys
import time

import support
import numpy as np

import dlckpt

CLONE_NEWNS = 0x20000
LOOP_SET_STATUS64, LOOP_GET_STATUS64 = 0x4C04, 0x4C05
CGROUPS = "/sys/fs/cgroup"
WHY_NOT = ""


def setUpModule():
    """Goes into a mount namespace of its own, so that nothing stays mounted, whatever happens."""
    global WHY_NOT
    if os.geteuid() != 0:
        WHY_NOT = "mounting needs root"
    elif ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) != 0:
        WHY_NOT = "there is no mount namespace: " + os.strerror(ctypes.get_errno())
    else:
        done = subprocess.run(["mount", "--make-rprivate", "/"], capture_output=True, text=True)
        WHY_NOT = done.stderr.strip()


class Disk:
    """A file system in a file, mounted through a loop device."""

    def __init__(self, case, folder, kind="ext4", size="200M"):
        self.image, self.path = os.path.join(folder, "disk.img"), os.path.join(case.folder, "disk")
        maker = {"ext4": ["mkfs.ext4", "-q", "-F", "-O", "^has_journal"], "btrfs": ["mkfs.btrfs", "-q"]}[kind]
        if shutil.which(maker[0]) is None:
            case.skipTest("there is no %s here" % maker[0])
        os.makedirs(self.path, exist_ok=True)
        subprocess.run(["truncate", "-s", size, self.image], check=True)
        subprocess.run([*maker, self.image], check=True, capture_output=True)
        self.mount(case)
        case.addCleanup(subprocess.run, ["umount", self.path], capture_output=True)

    def mount(self, case):
        done = subprocess.run(["mount", "-o", "loop", self.image, self.path], capture_output=True, text=True)
        if done.returncode:
            case.skipTest("no loop device can be mounted here: " + done.stderr.strip())
        found = subprocess.run(["findmnt", "-no", "SOURCE", self.path], check=True, capture_output=True, text=True)
        self.device = found.stdout.strip()

    def again(self, case):
        """Mounts it anew, so that nothing of it is in memory."""
        subprocess.run(["umount", self.path], check=True)
        subprocess.run(["e2fsck", "-fy", self.image], capture_output=True)
        self.mount(case)

    def end_at(self, size):
        """The device fails (EIO) where an access lies beyond so many bytes; 0: nowhere."""
        with open(self.device, "rb") as device:
            status = bytearray(fcntl.ioctl(device, LOOP_GET_STATUS64, bytes(232)))
            struct.pack_into("<Q", status, 32, size)
            fcntl.ioctl(device, LOOP_SET_STATUS64, bytes(status))

    def numbers(self):
        number = os.stat(self.device).st_rdev
        return "%d:%d" % (os.major(number), os.minor(number))


class Disks(support.Case):
    def setUp(self):
        if WHY_NOT:
            self.skipTest(WHY_NOT)
        super().setUp()

    def tmpfs(self, size):
        path = os.path.join(self.folder, "memory")
        os.makedirs(path)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=" + size, "none", path], capture_output=True, text=True)
        if done.returncode:
            self.skipTest("no tmpfs can be mounted here: " + done.stderr.strip())
        self.addCleanup(subprocess.run, ["umount", "-l", path], capture_output=True)
        return path

    def cgroup(self, controller, **settings):
        """The file that takes the processes of a new cgroup (v1) with these settings."""
        path = os.path.join(CGROUPS, controller, "dlckpt-test-%d" % os.getpid())
        try:
            os.mkdir(path)
            self.addCleanup(os.rmdir, path)
            for name, value in settings.items():
                with open(os.path.join(path, "%s.%s" % (controller, name.replace("__", "."))), "w") as file:
                    file.write(value)
        except OSError as error:
            self.skipTest("there is no cgroup v1 of %s that can be used here: %s" % (controller, error.strerror))
        return os.path.join(path, "cgroup.procs")

    def learner(self, dir, size, steps, group=None):
        """A learner that has saved once, and waits for a word."""
        env = dict(os.environ, PYTHONPATH=support.PACKAGE, PYTHONDONTWRITEBYTECODE="1")
        command = ["sh", "-c", 'echo $$ >"$0" && exec "$@"' if group else 'exec "$@"', group or "sh", sys.executable,
                   os.path.join(support.HERE, "disk_learner.py"), dir, str(size), str(steps)]
        process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "saved\n", process.poll())
        return process

    def ends(self, process, timeout=120):
        """Tells it to go on; it trains to its end. What it said."""
        out, err = process.communicate("on\n", timeout=timeout)
        self.assertIn("trained to the end", out, err)
        return err

    def holds(self, dir, steps):
        """The newest checkpoint of the directory is of one of these train steps, and whole."""
        with dlckpt.open(dir) as checkpoint:
            self.assertIn(checkpoint.step, steps)
            for path in checkpoint:
                self.assertTrue((checkpoint.load(path) == checkpoint.step).all(), path)
            return checkpoint.step

    # ---- a device that fails

    def test_a_device_that_is_gone_while_the_job_saves(self):
        # ext4 says of a block that its device no longer has EIO or ENOMEM, depending on what it wants there.
        disk = Disk(self, self.tmpfs("300m"))
        dir = os.path.join(disk.path, "ckpt")
        process = self.learner(dir, 8, 4)
        disk.end_at(1 << 20)
        said = self.ends(process)
        self.assertIn("was not saved", said)
        self.assertRegex(said, "%s.*: (Input/output error|Cannot allocate memory|Read-only file system)" % dir)
        disk.end_at(0)
        disk.again(self)
        self.holds(dir, [1])
        a, b = np.zeros(8 << 17), np.zeros(3)
        with dlckpt.attach(arrays={"a": a, "b": b}, dir=dir, rng=False, final_save=False) as job:
            self.assertEqual(job.train_step, 1)
            self.assertTrue((a == 1).all() and (b == 1).all())

    def test_a_device_that_answers_eio_to_a_reader(self):
        disk = Disk(self, self.tmpfs("300m"))
        dir = os.path.join(disk.path, "ckpt")
        self.ends(self.learner(dir, 8, 3))
        newest = self.holds(dir, [2, 3])
        disk.again(self)
        with dlckpt.open(dir) as checkpoint:  # its manifest is read
            disk.end_at(1 << 20)
            with self.assertRaisesRegex(dlckpt.IoError, r"%s/step-\S*r00000\S*\.h5: Input/output error" % dir):
                checkpoint.load("arrays/a")
            disk.end_at(0)
            self.assertTrue((checkpoint.load("arrays/a") == newest).all())

    def test_a_device_that_loses_what_it_was_given_and_answers_zeros(self):
        disk = Disk(self, self.tmpfs("300m"))
        dir = os.path.join(disk.path, "ckpt")
        self.ends(self.learner(dir, 8, 3))
        self.holds(dir, [2, 3])
        newest = sorted(name for name in os.listdir(dir) if name.startswith("step-"))[-1]
        where = subprocess.run(["filefrag", "-b1", "-v", os.path.join(dir, newest, "r00000.h5")], capture_output=True, text=True).stdout
        extents = [line.split(":")[2].split("..")[0].strip() for line in where.splitlines() if line.strip()[:1].isdigit()]
        self.assertTrue(extents, where)
        subprocess.run(["umount", disk.path], check=True)
        with open(disk.image, "r+b") as file:
            file.seek(int(extents[0]) + (2 << 20))
            file.write(bytes(1 << 20))
        disk.mount(self)
        with dlckpt.open(dir) as checkpoint, self.assertRaisesRegex(dlckpt.CorruptError, r"%s\S*/r00000\.h5: the checksum" % newest):
            checkpoint.load("arrays/a")
        a, b = np.zeros(8 << 17), np.zeros(3)
        with dlckpt.attach(arrays={"a": a, "b": b}, dir=dir, rng=False, final_save=False) as job:
            self.assertLess(job.train_step, int(newest[5:17]))
            self.assertTrue((a == job.train_step).all() and (b == job.train_step).all())
        self.saying("r00000.h5")

    # ---- full

    def test_a_full_device(self):
        for place in ("tmpfs", "ext4"):
            with self.subTest(place):
                memory = self.tmpfs("20m" if place == "tmpfs" else "300m")
                where = memory if place == "tmpfs" else Disk(self, memory, size="24M").path
                dir = os.path.join(where, "ckpt")
                said = self.ends(self.learner(dir, 8, 4))
                self.assertIn("was not saved", said)
                self.assertRegex(said, "%s.*No space left on device" % dir)
                self.holds(dir, [1, 2])
                if place == "tmpfs":
                    subprocess.run(["umount", "-l", memory], check=True)
                    os.rmdir(memory)

    def test_a_device_that_promised_more_than_it_has(self):
        # As thin volumes do: the file system has room, and the device has none when it is written.
        disk = Disk(self, self.tmpfs("24m"), size="400M")
        dir = os.path.join(disk.path, "ckpt")
        said = self.ends(self.learner(dir, 8, 5))
        self.assertIn("was not saved", said)
        self.assertRegex(said, "%s.*(No space left on device|Input/output error|Read-only file system)" % dir)
        disk.again(self)
        try:  # what was durable before may have lost its place in the device's memory, too
            self.holds(dir, range(1, 6))
        except dlckpt.Error as error:
            self.assertIn(disk.path, str(error))

    def test_a_full_quota(self):
        disk = Disk(self, self.tmpfs("300m"), "btrfs", "250M")
        volume = os.path.join(disk.path, "volume")
        for command in (["quota", "enable", disk.path], ["subvolume", "create", volume], ["qgroup", "limit", "20M", volume]):
            done = subprocess.run(["btrfs", *command], capture_output=True, text=True)
            if done.returncode:
                self.skipTest("btrfs has no quota here: " + done.stderr.strip())
        dir = os.path.join(volume, "ckpt")
        said = self.ends(self.learner(dir, 8, 4))
        self.assertIn("was not saved", said)
        self.assertRegex(said, "%s.*Disk quota exceeded" % dir)
        self.holds(dir, [1, 2])

    # ---- slow, and little memory

    def test_a_slow_device_loses_nothing(self):
        disk = Disk(self, self.tmpfs("300m"))
        group = self.cgroup("blkio", throttle__write_bps_device="%s %d" % (disk.numbers(), 8 << 20))
        dir = os.path.join(disk.path, "ckpt")
        began = time.monotonic()
        self.ends(self.learner(dir, 8, 3, group))
        took = time.monotonic() - began
        if took < 1.5:
            self.skipTest("this kernel does not slow down what is written past the page cache (%.1f s)" % took)
        self.holds(dir, [2, 3])

    def test_256_mebibytes_of_memory_for_a_state_of_120(self):
        group = self.cgroup("memory", limit_in_bytes=str(256 << 20))
        dir = os.path.join(self.folder, "ckpt")
        self.ends(self.learner(dir, 120, 4, group))
        self.holds(dir, [3, 4])


if __name__ == "__main__":
    support.main(needs=("numpy",))
