# SPDX-License-Identifier: Apache-2.0
"""The real Slurm that the cells run in (tests/sandbox/dl-sandbox), seen as hosts: their processes, and what is left on them."""
from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from typing import Callable, Dict, List, Optional, Set, Tuple

# Of the sandbox itself, on each host. A slurmstepd ends after what it started, which is counted: on a node that was cut off it
# tries for a minute or more to tell slurmctld.
OWN_PROGRAMS = {"slurmctld", "slurmscriptd", "slurmd", "slurmstepd", "munged"}
# Slurm's own view of a node that does not answer; its default is 300 s. Said in the README.
SLURMD_TIMEOUT_S = 10

Left = Set[Tuple[str, str, str]]  # (host, kind, what)


def wait_for(limit_s: float, condition: Callable[[], bool], pause_s: float = 0.05) -> bool:
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() >= end:
            return False
        time.sleep(pause_s)
    return True


def read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


class Sandbox:
    """folder: of the sandbox. disk: a small file system of its own, seen by all hosts: what a job shares."""

    def __init__(self, source: str, stage: str, nodes: int, folder: str) -> None:
        self._program = os.path.join(source, "tests/sandbox/dl-sandbox")
        self._stage = stage
        self.nodes = ["n%d" % (i + 1) for i in range(nodes)]
        self.folder = folder
        self.disk = folder + "-disk"
        self._env = dict(os.environ, DL_SANDBOX_DIR=folder, SLURM_CONF=folder + "/etc/slurm.conf")
        self._env["PATH"] = os.path.join(stage, "bin") + ":" + self._env["PATH"]

    def _call(self, *arguments: str) -> None:
        done = subprocess.run([self._program, *arguments], env=self._env, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError("dl-sandbox %s: %s" % (" ".join(arguments), done.stderr.strip()[-500:]))

    def up(self, disk_bytes: int) -> None:
        self.down()
        os.makedirs(self.disk, exist_ok=True)
        # Before the hosts are made: each takes the mounts of this moment with it.
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%d,mode=1777" % disk_bytes, "dl-faults", self.disk], check=True)
        self._call("up", "--nodes", str(len(self.nodes)), "--gpus-per-node", "0", "--prefix", self._stage, "--conf",
                   "SlurmdTimeout=%d" % SLURMD_TIMEOUT_S)

    def down(self) -> None:
        self._call("down")
        if os.path.ismount(self.disk):
            subprocess.run(["umount", self.disk], check=True)
        if os.path.isdir(self.disk):
            os.rmdir(self.disk)

    # Commands.
    def run(self, argv: List[str], limit_s: float = 20) -> subprocess.CompletedProcess:
        """On the login host's side: sbatch, squeue, dlctl."""
        try:
            return subprocess.run(argv, env=self._env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                                  timeout=limit_s)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(argv, 124, "", "no answer in %d s" % limit_s)

    def on_host(self, host: str, argv: List[str]) -> List[str]:
        """The command line that runs argv on a host."""
        pid = self._holder(host)
        return ["nsenter"] + ["--%s=/proc/%d/ns/%s" % (name, pid, short) for name, short in
                              (("net", "net"), ("uts", "uts"), ("ipc", "ipc"), ("mount", "mnt"))] + argv

    def _holder(self, host: str) -> int:
        return int(read_text("%s/run/%s.pid" % (self.folder, host)).split()[0])

    # What happens to hosts.
    def cut(self, node: str) -> None:
        self._call("node", "cut", node)

    def heal(self, node: str) -> None:
        self._call("node", "heal", node)

    def daemon(self, verb: str, name: str) -> None:
        self._call("daemon", verb, name)

    def power_off(self, node: str) -> None:
        """All its processes end at once and nothing is heard of it any more."""
        self.cut(node)
        while True:
            pids = self._pids(node)
            if not pids:
                return
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.005)

    def power_on(self, node: str) -> None:
        shm = "/proc/%d/root/dev/shm" % self._holder(node)  # memory, which does not outlive the power
        for name in os.listdir(shm):
            path = os.path.join(shm, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        self.heal(node)
        self.daemon("start", "slurmd@" + node)

    def restore(self) -> None:
        """Every node as at the beginning, idle; raises if that cannot be had."""
        for node in self.nodes:
            self.heal(node)
        for name in ["slurmctld"] + ["slurmd@" + node for node in self.nodes]:
            if not self._alive(name):
                self.daemon("start", name)
        wait_for(20, lambda: "is UP" in self.run(["scontrol", "ping"]).stdout)
        if any(_of_extern_step(pid) for node in self.nodes for pid in self._pids(node)):
            self.run(["scontrol", "reconfigure"])  # all nodes register, and learn which of their jobs are over
        self.run(["scancel", "--user=root"])
        began = time.monotonic()

        def idle() -> bool:
            states = self.run(["sinfo", "-h", "-N", "-p", "batch", "-o", "%N %T"]).stdout.split("\n")
            for line in states:
                node, _, state = line.partition(" ")
                if state.startswith("comp") and time.monotonic() - began > 8:
                    # Slurm asks such a node again after a minute only.
                    self.run(["scontrol", "update", "nodename=" + node, "state=down", "reason=faults"])
                elif state.startswith("down") or state.startswith("drain"):
                    self.run(["scontrol", "update", "nodename=" + node, "state=resume"])
            return all(line.endswith(" idle") for line in states if line)

        if not wait_for(60, idle, 0.2):
            raise RuntimeError("the nodes did not become idle: " + self.run(["sinfo", "-N", "-o", "%N %T %E"]).stdout)

    def _alive(self, name: str) -> bool:
        fields = read_text("%s/run/%s.pid" % (self.folder, name)).split()
        return bool(fields) and os.path.exists("/proc/" + fields[0]) and _state(int(fields[0])) not in "ZX"

    # What is on them.
    def _pids(self, host: str) -> List[int]:
        """Its living processes but the one that holds the host itself."""
        holder = self._holder(host)
        net = os.readlink("/proc/%d/ns/net" % holder)
        pids = []
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) == holder:
                continue
            try:
                if os.readlink("/proc/%s/ns/net" % name) == net and _state(int(name)) not in "ZX":
                    pids.append(int(name))
            except OSError:
                continue
        return pids

    def found(self) -> Left:
        """What stands on the hosts beside the sandbox itself: processes, shared memory, listening sockets, mounts."""
        left: Left = set()
        for host in self.nodes + ["login"]:
            proc = "/proc/%d" % self._holder(host)
            for pid in self._pids(host):
                name = _name(pid)
                if name and name not in OWN_PROGRAMS and not _of_extern_step(pid):
                    left.add((host, "process", "%s (%d)" % (name, pid)))
            for line in read_text(proc + "/mountinfo").split("\n"):
                if line:
                    left.add((host, "mount", line.split()[4]))
            if host != "login":  # whose /dev/shm is this machine's
                left.update((host, "shared memory", name) for name in os.listdir(proc + "/root/dev/shm"))
            left.update((host, "socket", "listening at port %d" % port) for port in self.listeners(host))
        return left

    def listeners(self, host: str) -> List[int]:
        """The ports that are listened at on a host, each as often as somebody does; Slurm's own daemons left out."""
        proc, ports = "/proc/%d" % self._holder(host), []
        own: Set[str] = set()
        for pid in self._pids(host):
            if _name(pid) in OWN_PROGRAMS:
                own |= _sockets(pid)
        for table in ("/net/tcp", "/net/tcp6"):
            for line in read_text(proc + table).split("\n")[1:]:
                fields = line.split()
                if len(fields) > 9 and fields[3] == "0A" and fields[9] not in own:
                    ports.append(int(fields[1].rsplit(":", 1)[1], 16))
        return ports

    def settled(self, before: Left, limit_s: float) -> List[str]:
        """What is there now and was not before, if it does not go within the limit."""
        wait_for(limit_s, lambda: not self.found() - before)
        return ["%s: %s %s" % each for each in sorted(self.found() - before)]


def _state(pid: int) -> str:
    stat = read_text("/proc/%d/stat" % pid)
    return stat.rsplit(") ", 1)[1][0] if ") " in stat else "X"


def _name(pid: int) -> str:
    return read_text("/proc/%d/comm" % pid).strip()


def _sockets(pid: int) -> Set[str]:
    """The inodes of its sockets."""
    found = set()
    folder = "/proc/%d/fd" % pid
    try:
        for name in os.listdir(folder):
            link = os.readlink(os.path.join(folder, name))
            if link.startswith("socket:["):
                found.add(link[8:-1])
    except OSError:
        pass  # it has just ended
    return found


def _of_extern_step(pid: int) -> bool:
    """Slurm's own, one for each job and node; it outlives the job on a node that was cut off, until the node registers."""
    stat = read_text("/proc/%d/stat" % pid)
    parent = stat.rsplit(") ", 1)[1].split()[1] if ") " in stat else "0"
    return any(".extern]" in read_text("/proc/%s/cmdline" % each) for each in (str(pid), parent))


def alive(pid: Optional[int]) -> bool:
    return pid is not None and _state(pid) not in "ZX"


def job_fields(sandbox: Sandbox, job: str) -> Dict[str, str]:
    """Of scontrol show job; empty where slurmctld does not answer."""
    text = sandbox.run(["scontrol", "--oneliner", "show", "job", job]).stdout
    fields = {}
    for word in text.split():
        name, equals, value = word.partition("=")
        if equals:
            fields.setdefault(name, value)
    return fields
