# SPDX-License-Identifier: Apache-2.0
"""One cell of the matrix: a job is submitted, brought to the phase, struck by the fault, followed to its end; and what was seen."""
from __future__ import annotations

import json
import os
import re
import shutil
import time
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional

from dlfaults.sandbox import Left, Sandbox, alive, job_fields, read_text, wait_for

if TYPE_CHECKING:
    from dlfaults.faults import Fault

WORLD = 2
TOTAL, EVERY = 24, 6
PHASE_LIMIT_S = 30  # until the phase is reached
JOB_LIMIT_S = 75  # from the fault until the job's end, but where its row says otherwise
COMPLETING_S = 3
REQUEUE_S = 15  # until an agent has put a job back whose dlrun is gone
SETTLE_S = 10  # for what remains to go

SCRIPT = """#!/bin/bash
#SBATCH -N%(nodes)d --time=10 --dl-framework=generic --dl-restarts=3
#SBATCH --dl-checkpoint=%(job_dir)s/ck,every=%(every)dsteps %(options)s
export FAULT_DIR=%(folder)s FAULT_PHASE=%(phase)s
%(script)s
dlrun --job-dir %(job_dir)s/job --learners %(learners)s -- %(learner)s %(total)d %(step_ms)d %(phase)s
"""


class Step(NamedTuple):
    rank: int
    attempt: int
    step: int
    at_ms: int  # of the machine's monotonic clock


class Seen:
    """What a cell saw. unexpected: sentences; none: all was as the table says."""

    def __init__(self) -> None:
        self.state = ""  # of the job directory, at the end
        self.slurm_state = ""
        self.way = ""
        self.said = ""  # of the job, first after the fault
        self.all_said: List[str] = []
        self.notice_ms: Optional[int] = None
        self.next_step_ms: Optional[int] = None
        self.at_the_end = False  # no train step was left to be run
        self.again = 0  # train steps that the last rank ran a second time, after the checkpoint that the next attempt began with
        self.left: List[str] = []
        self.notes: List[str] = []
        self.unexpected: List[str] = []
        self.seconds = 0.0

    def as_json(self) -> Dict[str, Any]:
        return dict(vars(self))


class Cell:
    def __init__(self, sandbox: Sandbox, learner: str, phase: str, name: str) -> None:
        self.sandbox, self.learner, self.phase = sandbox, learner, phase
        self.folder = os.path.join(sandbox.folder, "cells", name)
        self.job_dir = os.path.join(sandbox.disk, name)
        self.job = ""
        self.seen = Seen()
        self.learner_pid = self.agent_pid = self.dlrun_pid = 0
        self.node = self.rank0_node = ""

    # The job.
    def submit(self, options: str = "", script: str = "", step_ms: int = 20, nodes: int = 2, learners: str = "2") -> None:
        for folder in (self.folder, self.job_dir):
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
        self.write("train.sh", SCRIPT % {"job_dir": self.job_dir, "every": EVERY, "options": options, "folder": self.folder,
                                         "phase": self.phase, "script": script, "learner": self.learner, "total": TOTAL,
                                         "step_ms": step_ms, "nodes": nodes, "learners": learners})
        done = self.sandbox.run(["sbatch", "--parsable", "--open-mode=append", "--chdir=" + self.folder, "--output=out",
                                 os.path.join(self.folder, "train.sh")])
        if done.returncode != 0:
            raise RuntimeError("sbatch: " + done.stderr.strip())
        self.job = done.stdout.strip().split(";")[0]

    def reach_phase(self) -> None:
        marks = [self.path("at.%s.1" % self.phase)]
        if self.phase == "deploying":
            marks.append(self.path("at.deploying.0"))
        if not wait_for(PHASE_LIMIT_S, lambda: all(map(os.path.exists, marks)), 0.01):
            raise RuntimeError("the job did not reach the phase: " + self.output()[-500:])
        self.learner_pid = int(read_text(marks[0]))
        self.agent_pid = int(read_text("/proc/%d/stat" % self.learner_pid).rsplit(") ", 1)[1].split()[1])
        self.dlrun_pid = int(self.control().get("pid", 0))
        hosts = {e["learner"]: e.get("host", "") for e in self.events() if "learner" in e and e["state"] == "PROCESSING"}
        self.rank0_node, self.node = hosts[0], hosts[1]
        if self.rank0_node == self.node:
            raise RuntimeError("both learners are on " + self.node)

    def open_gate(self, rank: int, word: str = "go") -> None:
        self.write("open.%s.%d" % (self.phase, rank), word + "\n")

    # Its files.
    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def write(self, name: str, text: str) -> None:
        with open(self.path(name + ".new"), "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(self.path(name + ".new"), self.path(name))

    def output(self) -> str:
        return read_text(self.path("out"))

    def control(self) -> Dict[str, Any]:
        text = read_text(os.path.join(self.job_dir, "job/control.json"))
        return json.loads(text) if text else {}

    def events(self) -> List[Dict[str, Any]]:
        found = []
        for line in read_text(os.path.join(self.job_dir, "job/events.jsonl")).split("\n"):
            try:
                found.append(json.loads(line))
            except ValueError:
                continue  # torn, or the last one being written
        return found

    def state(self) -> str:
        of_job = [e["state"] for e in self.events() if "learner" not in e]
        return of_job[-1] if of_job else ""

    def steps(self) -> List[Step]:
        found = []
        for rank in range(WORLD):
            for line in read_text(self.path("steps-%d.log" % rank)).split("\n"):
                fields = line.split()
                if len(fields) == 3:
                    found.append(Step(rank, *map(int, fields)))
        return found

    def remove(self) -> None:
        for folder in (self.folder, self.job_dir):
            shutil.rmtree(folder, ignore_errors=True)



def tells_of_failure(event: Dict[str, Any]) -> bool:
    return event["state"] in ("FAILED", "HALTED", "PENDING") or event.get("reason", "").startswith("restart ")


class Follower:
    """Follows a struck job to its end, and does what the fault's row says on the way."""

    def __init__(self, cell: Cell, fault: "Fault", way: str) -> None:
        self.cell, self.fault, self.way = cell, fault, way
        self.struck_ms = int(time.time() * 1000)
        self.struck_mono_ms = int(time.monotonic() * 1000)
        self.undone = fault.undo is None
        self.held = self.two_at_once = self.put_back = False
        self.completing_s: Optional[float] = None

    def strike(self) -> None:
        self.fault.do(self.cell)
        for rank in range(WORLD):
            if rank != 1 or not self.fault.stays:
                self.cell.open_gate(rank)

    def follow(self) -> None:
        end = time.monotonic() + self.fault.limit_s
        while time.monotonic() < end:
            fields = job_fields(self.cell.sandbox, self.cell.job)
            self.put_back = self.put_back or fields.get("Restarts", "0") != "0"
            if self._over(fields):
                return
            self._undo_if_due()
            self._go_on_by_hand(fields)
            self._look_for_two()
            time.sleep(0.1)
        self.cell.seen.unexpected.append("the job did not end within %d s" % self.fault.limit_s)

    def undo(self) -> None:
        if not self.undone:
            self.undone = True
            self.fault.undo(self.cell)

    def told(self) -> List[Dict[str, Any]]:
        return [e for e in self.cell.events() if e["time_ms"] >= self.struck_ms and tells_of_failure(e)]

    def _over(self, fields: Dict[str, str]) -> bool:
        state = fields.get("JobState", "")
        self.cell.seen.slurm_state = state or self.cell.seen.slurm_state
        if state == "COMPLETING" and self.undone and self.cell.state() in ("COMPLETED", "FAILED"):
            # A slurmctld that was away asks the nodes once more after a minute; the job itself is over.
            self.completing_s = self.completing_s or time.monotonic()
            return time.monotonic() - self.completing_s > COMPLETING_S
        if state == "FAILED" and self.way == "requeue" and time.monotonic() * 1000 - self.struck_mono_ms < REQUEUE_S * 1000:
            return False  # the batch script ended with its dlrun; an agent sees to the rest
        return state in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")

    def _undo_if_due(self) -> None:
        when = self.fault.undo_when
        due = {"noticed": lambda: bool(self.told()),
               "held": lambda: self.cell.state() in ("HALTED", "COMPLETED", "FAILED"),
               "soon": lambda: time.monotonic() * 1000 - self.struck_mono_ms > 2000,
               "ended": lambda: self.cell.state() in ("COMPLETED", "FAILED")}[when]
        if not self.undone and due():
            self.undo()

    def _go_on_by_hand(self, fields: Dict[str, str]) -> None:
        cell = self.cell
        if self.way == "hold" and not self.held and fields.get("JobState") == "PENDING" and "eld" in fields.get("Reason", ""):
            self.held = True
            cell.seen.all_said.append(cell.sandbox.run(["dlctl", "status", cell.job]).stdout)
            self.undo()
            done = cell.sandbox.run(["dlctl", "resume", cell.job])
            if done.returncode != 0:
                cell.seen.unexpected.append("dlctl resume: " + done.stderr.strip())

    def _look_for_two(self) -> None:
        """A learner of the first attempt beside those of a later one: it could still write. Its agent may live: it is kept for a restart,
        or asks Slurm about the job."""
        again = [s for s in self.cell.steps() if s.attempt > 1]
        if again and not self.two_at_once and alive(self.cell.learner_pid):
            self.two_at_once = True
            self.cell.seen.unexpected.append("a learner of the first attempt still runs while the second one trains")


def run_cell(sandbox: Sandbox, learner: str, fault: "Fault", phase: str, way: str, before: Left) -> Cell:
    """Raises RuntimeError where the cell could not be brought to its phase."""
    cell = Cell(sandbox, learner, phase, "%s-%s" % (fault.name, phase))
    began = time.monotonic()
    cell.submit(fault.options, fault.script, fault.step_ms, fault.nodes, fault.learners)
    cell.reach_phase()
    follower = Follower(cell, fault, way)
    try:
        follower.strike()
        follower.follow()
    finally:
        follower.undo()
    observe(cell, follower)
    cell.seen.left = sandbox.settled(before, SETTLE_S)
    cell.seen.seconds = round(time.monotonic() - began, 1)
    return cell


def observe(cell: Cell, follower: Follower) -> None:
    seen = cell.seen
    told = follower.told()
    of_job = [e for e in cell.events() if "learner" not in e]
    seen.state = cell.state()
    seen.all_said += [e.get("reason", "") for e in told] + cell.output().split("\n")
    # Of the job: a learner that falls because of another may report first.
    spoken = [e["reason"] for e in told if e.get("reason") and "learner" not in e]
    seen.said = re.sub(r"^restart (\d+ of \d+|elsewhere|of dlrun): ", "", spoken[0]) if spoken else ""
    if told:
        seen.notice_ms = told[0]["time_ms"] - follower.struck_ms
    later = [e for e in of_job if e["time_ms"] >= follower.struck_ms]
    if any(e["state"] == "HALTED" for e in later):
        seen.way = "hold"
    elif follower.put_back or any(e["state"] == "PENDING" for e in later):
        seen.way = "requeue"
    elif any(e["state"] == "DEPLOY" for e in later):
        seen.way = "restart elsewhere" if any(e.get("reason", "").startswith("restart elsewhere") for e in later) else "restart"
    else:
        seen.way = "undisturbed"
    disturbed = seen.way != "undisturbed"
    steps = cell.steps()
    after = [s.at_ms for s in steps if s.at_ms >= follower.struck_mono_ms and (s.attempt > 1 or not disturbed)]
    if after:
        seen.next_step_ms = min(after) - follower.struck_mono_ms
    seen.at_the_end = cell.phase == "finishing"
    ranks_left = 1 + max((s.rank for s in steps if s.attempt == max(each.attempt for each in steps)), default=0)
    own = [s.step for s in steps if s.rank == ranks_left - 1]
    seen.again = len(own) - len(set(own))
    if set(own) != set(range(TOTAL)):
        seen.unexpected.append("train steps were left out: %s" % sorted(set(range(TOTAL)) - set(own)))
    for name in ("control.json", "request.json"):
        if os.path.exists(os.path.join(cell.job_dir, "job", name)):
            seen.unexpected.append("left in the job directory: " + name)
    attempts = [name for name in _listing(os.path.join(cell.job_dir, "ck")) if name.startswith(".tmp-")]
    if attempts:
        seen.unexpected.append("left in the checkpoint directory: " + ", ".join(attempts))


def _listing(folder: str) -> List[str]:
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []
