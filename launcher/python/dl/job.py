# SPDX-License-Identifier: Apache-2.0
"""A submitted call as a future: dl.Job, and how to find one again."""
import os
import re
import sys
import time
from typing import Any, Dict, Generic, Iterable, Iterator, List, Optional, TypeVar

from . import call as files
from . import programs, status
from .errors import JobCancelled, JobFailed, ResultError

T = TypeVar("T")

CALLS = "dl-calls"       # in the working directory: a folder for each call
FIRST_POLL_S = 0.5       # first pause of a waiting call between two looks at the job; the pause grows to LAST_POLL_S
LAST_POLL_S = 15.0
LATE_FILES_S = 60.0      # how long a network file system may take to show a result


class Job(Generic[T]):
    """A job that dl.submit() or dl.map_array() made. It holds no connection, so it can be pickled; dl.job() makes it anew.

    id          Slurm's id: "4711", or "4711_3" for an element of a job array
    folder      the folder of the call, with the job directory and Slurm's output
    Any thread may call any method. Each question for the state runs ``dlctl status``.
    """

    def __init__(self, folder: str, item: int = 0):
        self.folder, self._item = os.path.abspath(folder), item
        call = files.read_call(self.folder)
        self._array: Optional[str] = None if call["items"] is None else str(call["job_id"])
        if not 0 <= item < (call["items"] or 1):
            raise ValueError(f"job {call['job_id']} has no element {item}; it has 0 to {(call['items'] or 1) - 1}")
        self.id: str = str(call["job_id"]) if self._array is None else f"{self._array}_{item}"
        self.function: str = str(call["function"])

    def __repr__(self) -> str:
        return f"<dl.Job {self.id} {self.function} in {self.folder}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and (self.folder, self._item) == (other.folder, other._item)

    def __hash__(self) -> int:
        return hash((self.folder, self._item))

    def status(self) -> Dict[str, Any]:
        """What ``dlctl status --json`` prints about the job: state, reason, attempt, step, saved_step … (dlctl(1)).

        For a job that neither Slurm nor its job directory knows: job, state "COMPLETED" or "UNKNOWN", and reason.
        """
        found = status.ask(self.id, self._job_dir())
        if found is not None:
            return found
        if self._all_results():
            return {"job": self.id, "state": "COMPLETED", "reason": "its results are there; Slurm does not know it any more"}
        return {"job": self.id, "state": "UNKNOWN", "reason": "Slurm does not know it any more, and it left no result"}

    @property
    def state(self) -> str:
        """QUEUED, PENDING, DEPLOY, DOWNLOADING, PROCESSING, STORING, COMPLETED, FAILED, CANCELLED, HALTED (paused) or UNKNOWN."""
        found = self.status()
        return status.CANCELLED if status.was_cancelled(found) else str(found["state"])

    def done(self) -> bool:
        """True once the job has ended, well or not. A paused job has not ended."""
        return self.status()["state"] in status.ENDED

    def wait(self, timeout: Optional[float] = None) -> "Job[T]":
        """Waits until the job has ended, well or not. A paused job has not ended. Raises TimeoutError after `timeout` seconds."""
        self._wait(timeout)
        return self

    def result(self, timeout: Optional[float] = None) -> T:
        """Waits for the end of the job, and returns the return value of the function in learner 0.

        Raises TimeoutError after `timeout` seconds, JobFailed or JobCancelled if the job ended without a result, and
        ResultError if the return value cannot be pickled, or cannot be read here.
        """
        self._succeed(timeout)
        value: T = self._value(0)
        return value

    def results(self, timeout: Optional[float] = None) -> List[T]:
        """The return values of the function in all learners, by rank. Waits and raises as result() does."""
        self._succeed(timeout)
        header, _ = self._record(0)
        return [self._value(rank) for rank in range(int(header["world"]))]

    def exception(self, timeout: Optional[float] = None) -> Optional[Exception]:
        """The exception that result() would raise, or None. Waits for the end of the job."""
        try:
            self.result(timeout)
        except (JobFailed, ResultError) as error:
            return error
        return None

    def cancel(self) -> None:
        """Ends the job for good (scancel). Saved files stay. No error if it has ended already."""
        done = programs.run(["scancel", self.id])
        if done.returncode != 0 and "Invalid job id" not in done.stderr and "already completing" not in done.stderr:
            raise RuntimeError(f"job {self.id} was not cancelled: {programs.complaint(done)}")

    def pause(self, wait: bool = True) -> None:
        """Runs ``dlctl pause``: the job saves, gives its GPUs back, and is held in the queue. Raises RuntimeError if dlctl fails."""
        self._dlctl("pause", *([] if wait else ["--no-wait"]))

    def resume(self) -> None:
        """Runs ``dlctl resume``: the job goes on from its newest checkpoint. Raises RuntimeError if dlctl fails."""
        self._dlctl("resume")

    def logs(self, learner: Optional[int] = None) -> str:
        """The output of the learners in the newest attempt so far; with `learner`, only of that one."""
        done = status.dlctl(["logs", *([] if learner is None else [f"--learner={learner}"])], self.id, self._job_dir())
        if done.returncode != 0:
            raise RuntimeError(programs.complaint(done))
        return done.stdout

    def _job_dir(self) -> str:
        return os.path.join(self.folder, f"dl-{self.id}")

    def _dlctl(self, command: str, *options: str) -> None:
        done = programs.run(["dlctl", command, *options, self.id])
        if done.returncode != 0:
            raise RuntimeError(programs.complaint(done))

    def _wait(self, timeout: Optional[float]) -> Dict[str, Any]:
        end = None if timeout is None else time.monotonic() + timeout
        pause = FIRST_POLL_S
        while True:
            found = self.status()
            if found["state"] in status.ENDED:
                return found
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError(f"job {self.id} has not ended after {timeout:g} s: it is {found['state']}"
                                   + (f", {found['reason']}" if found.get("reason") else ""))
            time.sleep(pause if left is None else min(pause, left))
            pause = min(pause * 1.5, LAST_POLL_S)

    def _succeed(self, timeout: Optional[float]) -> None:
        found = self._wait(timeout)
        if found["state"] == "COMPLETED":
            return
        text, cause = self._raised()
        kind = JobCancelled if status.was_cancelled(found) else JobFailed
        raise kind(self.id, str(found.get("reason") or found["state"]), text) from cause

    def _record(self, rank: int) -> Any:
        """The result file of a learner. A network file system may show it some time after the job has ended."""
        path = files.result_path(self.folder, self._item, rank)
        end = time.monotonic() + LATE_FILES_S
        while True:
            try:
                return files.read_result(path)
            except FileNotFoundError:
                if time.monotonic() >= end:
                    raise ResultError(f"job {self.id} completed, but learner {rank} left no result ({path}): did its function end "
                                      "the process?") from None
                os.listdir(os.path.dirname(path))
                time.sleep(FIRST_POLL_S)

    def _value(self, rank: int) -> Any:
        header, payload = self._record(rank)
        if header["kind"] == "value":
            return files.unpickle(payload, header, f"the result of learner {rank} of job {self.id}")
        raise ResultError(f"job {self.id}, learner {rank}: {header['text']}")

    def _records(self) -> Iterator[Any]:
        try:
            names = os.listdir(files.item_folder(self.folder, self._item))
        except FileNotFoundError:
            return
        for name in sorted(names, key=lambda name: (len(name), name)):
            if re.fullmatch(r"[0-9]+\.result", name):
                try:
                    yield files.read_result(os.path.join(files.item_folder(self.folder, self._item), name))
                except (ResultError, FileNotFoundError):
                    continue

    def _all_results(self) -> bool:
        kinds = {header["rank"]: header for header, _ in self._records() if header["kind"] != "error"}
        return 0 in kinds and all(rank in kinds for rank in range(int(kinds[0]["world"])))

    def _raised(self) -> Any:
        """The traceback and the exception of the learner that raised in the newest attempt; None and None if none did."""
        errors = [(header, payload) for header, payload in self._records() if header["kind"] == "error"]
        if not errors:
            return None, None
        header, payload = max(errors, key=lambda error: (error[0]["attempt"], -error[0]["rank"]))
        try:
            cause = files.unpickle(payload, header, "the exception") if payload else None
        except ResultError:
            cause = None
        return header["text"], cause if isinstance(cause, Exception) else None


def job(what: str, calls: str = CALLS) -> Job[Any]:
    """Finds a job by its id ("4711", "4711_3") if it was submitted from this folder, or by the folder of its call."""
    if os.path.exists(os.path.join(what, files.CALL)):
        return Job(what)
    for one in jobs(calls):
        if one.id == what:
            return one
    raise LookupError(f"there is no call of job '{what}' in {os.path.abspath(calls)}; name the folder of its call, or be where it was "
                      "submitted")


def jobs(calls: str = CALLS) -> List[Job[Any]]:
    """All jobs whose calls are in the folder, the oldest first, with each element of job arrays. Folders without a call
    are skipped."""
    found = []
    names = os.listdir(calls) if os.path.isdir(calls) else []
    for folder in (os.path.join(calls, name) for name in names):
        try:
            call = files.read_call(folder)
            found += [(call["submitted_ms"], folder, item) for item in range(call["items"] or 1)]
        except FileNotFoundError:
            continue  # not a call, or one that is being submitted now
        except (OSError, ValueError) as error:
            sys.stderr.write(f"dl: {error}; this call is left out\n")
    return [Job(folder, item) for _, folder, item in sorted(found)]


def as_completed(some: Iterable[Job[T]], timeout: Optional[float] = None) -> Iterator[Job[T]]:
    """Yields each of the jobs once it has ended, in the order of their ends. Raises TimeoutError after `timeout`
    seconds."""
    waiting = list(dict.fromkeys(some))
    end = None if timeout is None else time.monotonic() + timeout
    pause = FIRST_POLL_S
    while waiting:
        ended = status.ended(waiting)
        for one in ended:
            yield one
        waiting = [one for one in waiting if one not in ended]
        if not waiting:
            return
        if end is not None and time.monotonic() >= end:
            raise TimeoutError(f"{len(waiting)} of the jobs have not ended after {timeout:g} s: {', '.join(one.id for one in waiting[:5])}"
                               + (" …" if len(waiting) > 5 else ""))
        pause = FIRST_POLL_S if ended else min(pause * 1.5, LAST_POLL_S)
        time.sleep(pause if end is None else max(0.0, min(pause, end - time.monotonic())))
