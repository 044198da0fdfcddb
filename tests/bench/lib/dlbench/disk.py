# SPDX-License-Identifier: Apache-2.0
"""The disk's own rate, by fio and dd, and a page cache that is really cold."""
from __future__ import annotations

import ctypes
import json
import mmap
import os
import shutil
import subprocess
import time
from typing import Iterator, Sequence

from .samples import Unavailable

FIO_BLOCK = 8 << 20
FIO_LEAST = 64 << 10


def files_below(path: str) -> Iterator[str]:
    if os.path.isfile(path):
        yield path
        return
    for folder, _folders, names in os.walk(path):
        for name in names:
            yield os.path.join(folder, name)


def resident_bytes(path: str) -> int:
    """How much of a file is in the page cache (mincore)."""
    size = os.path.getsize(path)
    if size == 0:
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    fd = os.open(path, os.O_RDONLY)
    try:
        address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
        if address == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), "mmap " + path)
        pages = (ctypes.c_ubyte * ((size + mmap.PAGESIZE - 1) // mmap.PAGESIZE))()
        rc = libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), pages)
        libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(size))
        if rc != 0:
            raise OSError(ctypes.get_errno(), "mincore " + path)
    finally:
        os.close(fd)
    return sum(page & 1 for page in bytes(pages)) * mmap.PAGESIZE


def make_cold(path: str) -> None:
    """Writes out and drops from the page cache all files below `path`, and makes sure that they are gone from it."""
    for file in files_below(path):
        for attempt in range(20):
            fd = os.open(file, os.O_RDONLY)
            try:
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)
            left = resident_bytes(file)
            if left == 0:
                break
            time.sleep(0.05 * (attempt + 1))
        else:
            raise RuntimeError("%d bytes of %s stay in the page cache" % (left, file))


def settle() -> None:
    """Waits until the disk has nothing left to do for the former subject."""
    os.sync()


def _rounded(size: int) -> int:
    """A size that fio can write with O_DIRECT in whole blocks."""
    step = FIO_BLOCK if size >= FIO_BLOCK else FIO_LEAST
    return max(FIO_LEAST, size // step * step)


def _fio(arguments: Sequence[str], direction: str, size: int) -> float:
    if not shutil.which("fio"):
        raise Unavailable("fio is not installed")
    command = ["fio", "--name=bench", "--direct=1", "--bs=%d" % min(FIO_BLOCK, size), "--size=%d" % size, "--iodepth=16", "--ioengine=libaio", "--output-format=json", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Unavailable("fio: " + (done.stderr or done.stdout).strip().split("\n")[-1])
    job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
    return job[direction]["bw_bytes"]


def fio_write(path: str, size: int, fresh: bool) -> float:
    """Bytes/s of writing `path` with O_DIRECT and a final fsync; fresh: a file that is not there yet, else one whose blocks
    are allocated and written (made first where needed). The rate is fio's own: without its start and without fallocate."""
    size = _rounded(size)
    arguments = ["--filename=" + path, "--rw=write", "--end_fsync=1"]
    if fresh:
        if os.path.exists(path):
            os.unlink(path)
    elif not os.path.exists(path) or os.path.getsize(path) != size:
        _fio(arguments, "write", size)
    settle()
    return _fio(arguments, "write", size)


def fio_read(path: str) -> float:
    """Bytes/s of reading a file with O_DIRECT."""
    make_cold(path)
    return _fio(["--filename=" + path, "--rw=read", "--readonly"], "read", _rounded(os.path.getsize(path)))


def dd_write(source: str, path: str, size: int) -> float:
    """Seconds of dd conv=fsync from a file that is in the page cache."""
    if os.path.exists(path):
        os.unlink(path)
    settle()
    began = time.monotonic()
    subprocess.run(["dd", "if=" + source, "of=" + path, "bs=8M", "count=%d" % size, "iflag=count_bytes", "conv=fsync", "status=none"],
                   check=True)
    return time.monotonic() - began
