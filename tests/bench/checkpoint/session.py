# SPDX-License-Identifier: Apache-2.0
"""The programs that are measured: where they are, and how they are started."""
from __future__ import annotations

import glob
import hashlib
import json
import os
import shutil
import socket
import subprocess
from typing import Any, Callable, Dict, List, Optional

from dlbench.samples import Unavailable
from dlbench.worker import Team, Worker, WorkerError, merge
from states import Scale, State

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.normpath(os.path.join(HERE, "..", "..", ".."))


def find_build(given: Optional[str]) -> str:
    """The configured build folder: given, $DL_BUILD_DIR, $top_builddir or ./build."""
    candidates = [given, os.environ.get("DL_BUILD_DIR"), os.environ.get("top_builddir"), os.path.join(TOP, "build")]
    for folder in candidates:
        if folder and os.path.exists(os.path.join(folder, "config.status")):
            return os.path.abspath(folder)
    raise FileNotFoundError("no configured build folder; build slurm-dl in %s, or name the folder in DL_BUILD_DIR" % os.path.join(TOP, "build"))


def build_programs(build: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    done = subprocess.run(["make", "-s", "-C", build, "bench-checkpoint"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=environment)
    if done.returncode != 0:
        raise RuntimeError("make bench-checkpoint failed:\n" + done.stdout[-3000:])


def find_python() -> Optional[str]:
    """$DL_BENCH_PYTHON (may name none: then no peer is measured that needs Python), else of the frameworks' own environment,
    Debian's and the one in PATH the interpreter with the most of the peers."""
    given = os.environ.get("DL_BENCH_PYTHON")
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    frameworks = os.environ.get("DL_TEST_FRAMEWORKS") or os.path.join(cache, "slurm-dl", "frameworks")  # packaging/install-frameworks
    candidates = [os.path.join(frameworks, "bin", "python"), "/usr/bin/python3", shutil.which("python3")]
    if given is not None:
        candidates = [given]
    probe = "import importlib.util as u; print(sum(u.find_spec(m) is not None for m in ('numpy','torch','h5py','safetensors')))"
    best, most = None, 0
    for python in candidates:
        if not python or not os.path.exists(python):
            continue
        done = subprocess.run([python, "-c", probe], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        count = int(done.stdout.strip() or 0) if done.returncode == 0 else 0
        if count > most:
            best, most = python, count
    return best


class Session:
    """One run of the bench. data: an empty folder on the disk that is measured."""

    def __init__(self, build: str, data: str, scale: Scale, told: Callable[[str, int, int, str], None]) -> None:
        self.build, self.data, self.scale, self.told = build, data, scale, told
        self.python = find_python()
        self.dlckpt = os.path.join(build, "checkpoint", "dlckpt")
        libraries = sorted(glob.glob(os.path.join(build, "checkpoint", ".libs", "libdlckpt.so.[0-9]")))
        self.library = libraries[-1] if libraries else ""
        self._runs = 0

    def key(self) -> str:
        """Changes with the library, the peers' Python and the scale: figures of others are not mixed with these."""
        digest = hashlib.sha256((self.python or "").encode())
        with open(self.library, "rb") as file:
            digest.update(file.read())
        return "%s %s" % (self.scale.name, digest.hexdigest()[:16])

    def folder(self, name: str) -> str:
        path = os.path.join(self.data, name)
        os.makedirs(path, exist_ok=True)
        return path

    def run_id(self) -> str:
        self._runs += 1
        return "bench-%d-%d" % (os.getpid(), self._runs)

    def drivers(self, state: State, replicated: bool = False, world: Optional[int] = None) -> Team:
        """One driver per rank, each with its part of the state."""
        program = os.path.join(self.build, "tests", "bench", "checkpoint", "checkpoint_driver")
        size = world or state.world
        how = "replicated" if replicated else "divided"
        return Team([Worker("driver of rank %d" % rank, [program, str(state.tensors), str(state.bytes), str(rank), str(size), how],
                            self._environment({})) for rank in range(size)])

    def peers(self, state: State) -> Team:
        if self.python is None:
            raise Unavailable("no Python with NumPy is installed")
        script = os.path.join(HERE, "peers", "main.py")
        port = free_port()
        team: List[Worker] = []
        for rank in range(state.world):
            environment = self._environment({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
            team.append(Worker("peers of rank %d" % rank, [self.python, script, str(state.tensors), str(state.bytes), str(rank),
                                                          str(state.world)], environment))
        return Team(team)

    def trainer(self) -> Worker:
        if self.python is None:
            raise Unavailable("no Python with torch is installed")
        environment = self._environment({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), **self._module()})
        return Worker("training loop", [self.python, os.path.join(HERE, "peers", "train.py"), str(self.scale.train_width)], environment)

    def in_python(self, script: str, *arguments: str) -> Dict[str, Any]:
        """What a script of peers/ that uses our Python module prints, run to its end."""
        if self.python is None:
            raise Unavailable("no Python with NumPy is installed")
        done = subprocess.run([self.python, os.path.join(HERE, "peers", script), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, env=merge(self._environment(self._module())))
        if done.returncode != 0:
            raise WorkerError("%s: %s" % (script, done.stderr.strip()[-1000:]))
        return dict(json.loads(done.stdout))

    def _module(self) -> Dict[str, str]:
        return {"DLCKPT_LIBRARY": self.library, "PYTHONPATH": os.path.join(TOP, "checkpoint", "python")}

    def _environment(self, more: Dict[str, str]) -> Dict[str, Optional[str]]:
        """Nothing of a job or of the user's settings may turn what is measured into something else."""
        found: Dict[str, Optional[str]] = {name: None for name in os.environ if name.startswith(("DL_CHECKPOINT", "DLCKPT", "DL_RUN", "SLURM_"))}
        found.update({"PYTHONDONTWRITEBYTECODE": "1"})
        found.update(more)
        return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
