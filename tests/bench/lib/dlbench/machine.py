# SPDX-License-Identifier: Apache-2.0
"""The machine in words, without its name or any path of it."""
from __future__ import annotations

import os
import platform
import re
import time
from typing import Dict


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def processor() -> str:
    match = re.search(r"^model name\s*:\s*(.+)$", _read("/proc/cpuinfo"), re.M)
    return match.group(1).strip() if match else platform.machine()


def memory_bytes(field: str = "MemTotal") -> int:
    match = re.search(r"^%s:\s*(\d+) kB" % field, _read("/proc/meminfo"), re.M)
    return int(match.group(1)) * 1024 if match else 0


def file_system(path: str) -> str:
    """"ext4 on a virtio disk": kind of file system and of disk that holds `path`."""
    best, kind, device = "", "an unknown file system", ""
    real = os.path.realpath(path)
    for line in _read("/proc/self/mounts").splitlines():
        source, mount, type_ = line.split()[:3]
        below = real == mount or real.startswith(mount.rstrip("/") + "/")
        if below and len(mount) >= len(best):
            best, kind, device = mount, type_, source
    disks = ((r"/dev/vd", "a virtio disk"), (r"/dev/nvme", "an NVMe disk"), (r"/dev/sd", "a SCSI or SATA disk"), (r"/dev/mapper|/dev/dm", "LVM"))
    for pattern, words in disks:
        if re.match(pattern, device):
            return "%s on %s" % (kind, words)
    return kind


def in_memory(path: str) -> bool:
    """Whether the file system that holds `path` has no disk below it: nothing can be made cold there."""
    return file_system(path).split()[0] in ("tmpfs", "ramfs")


def describe(path: str) -> str:
    cores = os.cpu_count() or 1
    virtual = " (virtual machine)" if re.search(r"^flags\s*:.*\bhypervisor\b", _read("/proc/cpuinfo"), re.M) else ""
    return "%d cores of %s%s, %d GiB of memory, %s, Linux %s" % (
        cores, processor(), virtual, round(memory_bytes() / 2**30), file_system(path), platform.release().split("-")[0])


def load() -> float:
    return os.getloadavg()[0]


class Others:
    """The cores that other work uses from now on, of this machine's: busy ones less those of this process and of the children
    that it has waited for."""

    def __init__(self) -> None:
        self._began, self._busy, self._own = time.monotonic(), _busy_s(), _own_s()

    def cores(self) -> float:
        passed = max(0.001, time.monotonic() - self._began)
        return max(0.0, (_busy_s() - self._busy) - (_own_s() - self._own)) / passed


def _busy_s() -> float:
    match = re.search(r"^cpu +(.*)$", _read("/proc/stat"), re.M)
    ticks = [int(field) for field in match.group(1).split()] if match else [0] * 8
    return (sum(ticks[:3]) + sum(ticks[5:7])) / os.sysconf("SC_CLK_TCK")  # user, nice, system, interrupts


def _own_s() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def facts(path: str) -> Dict[str, object]:
    return {"machine": describe(path), "load_before": load()}
