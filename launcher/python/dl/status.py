# SPDX-License-Identifier: Apache-2.0
"""The states of jobs, as ``dlctl status --json`` prints them."""
import json
import subprocess
from typing import Any, Dict, List, Optional, TypeVar

from . import programs

UNKNOWN_JOB = 3  # exit status of dlctl(1)
ENDED = ("COMPLETED", "FAILED", "UNKNOWN")
CANCELLED = "CANCELLED"  # as dlctl prints it; in its JSON the state is FAILED, and "cancelled" is true
J = TypeVar("J")


def dlctl(command: List[str], job_id: str, job_dir: str) -> "subprocess.CompletedProcess[str]":
    """Runs dlctl for a job of Slurm's, or, if Slurm does not know the job, for its job directory: Slurm forgets a job
    some minutes after its end, but the record stays."""
    done = programs.run(["dlctl", *command, job_id])
    return programs.run(["dlctl", *command, job_dir]) if done.returncode == UNKNOWN_JOB else done


def ask(job_id: str, job_dir: str) -> Optional[Dict[str, Any]]:
    """The state of one job; None if neither Slurm nor its job directory knows it. Raises RuntimeError if dlctl fails."""
    done = dlctl(["status", "--json"], job_id, job_dir)
    if done.returncode == UNKNOWN_JOB:
        return None
    if done.returncode != 0:
        raise RuntimeError(programs.complaint(done))
    return _objects(done.stdout)[0]


def was_cancelled(found: Dict[str, Any]) -> bool:
    """Whether somebody ended the job that ask() returned."""
    return found.get("cancelled") is True or (found.get("state") == "FAILED" and str(found.get("slurm_state")).startswith(CANCELLED))


def ended(jobs: List[J]) -> List[J]:
    """Those of `jobs` that have ended. Asks once for all queued jobs, and then for each job that is not among these."""
    done = programs.run(["dlctl", "status", "--json"])
    queued = _objects(done.stdout, allow_none=True) if done.returncode == 0 else []
    arrays = {str(one["job"]).split("_")[0] for one in queued if "[" in str(one["job"])}
    waiting = {str(one["job"]) for one in queued if one.get("state") not in ENDED}
    return [job for job in jobs if not _known_to_wait(getattr(job, "id"), waiting, arrays) and getattr(job, "done")()]


def _known_to_wait(job_id: str, waiting: Any, arrays: Any) -> bool:
    # Waiting elements are listed together, as 12_[3-7]. That list is not parsed; each job of such an array is asked
    # about.
    return job_id in waiting and job_id.split("_")[0] not in arrays


def _objects(text: str, allow_none: bool = False) -> List[Dict[str, Any]]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not (found or allow_none):
        raise RuntimeError(f"the output of dlctl is not the JSON of dlctl status: {text.strip()[:200]!r}; dlctl and this package must "
                           f"be of one version of slurm-dl")
    return found
