# SPDX-License-Identifier: Apache-2.0
"""The programs of slurm-dl and Slurm that the package runs."""
import os
import shutil
import subprocess
from typing import Dict, List, Optional


class NoProgram(RuntimeError):
    """A program is not installed here, or not in PATH."""


def find(name: str) -> str:
    """The path of a program: in PATH, or else beside this package (PREFIX/share/slurm-dl/python/dl belongs to
    PREFIX/bin)."""
    found = shutil.which(name)
    if found:
        return found
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 4, "bin", name)
    if os.access(beside, os.X_OK):
        return os.path.normpath(beside)
    raise NoProgram(f"the program '{name}' is not in PATH; load the module of slurm-dl, or add its bin folder to PATH")


def outside_any_job() -> Dict[str, str]:
    """The environment without the variables of the job that this process may itself be part of, and without the user's settings for Slurm's
    commands: SCANCEL_STATE and the like would leave a job that is to be cancelled."""
    of_a_job = ("SLURM_", "DL_", "PMI", "OMPI_", "PRTE_", "TORCHELASTIC_")
    # The same as in launcher/slurm_cli/user_settings.cpp.
    settings = ("SQUEUE_", "SINFO_", "SACCT_", "SCONTROL_", "SCANCEL_", "SPRIO_")
    of_a_learner = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
    kept = ("SLURM_CONF", "DL_CONFIG")
    return {name: value for name, value in os.environ.items()
            if name in kept or not (name.startswith(of_a_job + settings) or name in of_a_learner)}


def run(arguments: List[str], cwd: Optional[str] = None, timeout: Optional[float] = None) -> "subprocess.CompletedProcess[str]":
    """Runs a program to its end, whatever its exit status. Raises NoProgram if it is not installed."""
    return subprocess.run([find(arguments[0])] + arguments[1:], cwd=cwd, timeout=timeout, env=outside_any_job(), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="replace")


def complaint(done: "subprocess.CompletedProcess[str]") -> str:
    """The error message of the program, in one line."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return "; ".join(lines) or f"exit status {done.returncode}"
