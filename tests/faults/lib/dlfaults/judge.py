# SPDX-License-Identifier: Apache-2.0
"""Whether a cell went as the table of faults says. Pure, but for the comparison of the weights."""
from __future__ import annotations

import os
import re
from typing import List

from dlfaults.cell import WORLD, Cell, Seen
from dlfaults.faults import Expect


def judge(seen: Seen, expect: Expect) -> List[str]:
    """What is not as expected; nothing of it where all is well."""
    found = list(seen.unexpected)
    if seen.state != "COMPLETED":
        found.append("the job's state is %s" % (seen.state or "unknown"))
    if seen.slurm_state not in ("COMPLETED", "COMPLETING"):
        found.append("Slurm's state of the job is %s" % (seen.slurm_state or "unknown"))
    if seen.way != expect.way:
        found.append("%s, and not %s" % (seen.way, expect.way))
    if expect.cause and not any(re.search(expect.cause, line) for line in seen.all_said):
        found.append("nothing was said like '%s'" % expect.cause)
    if expect.way == "undisturbed" and not expect.cause and seen.said:
        found.append("a failure was told: " + seen.said)
    if seen.next_step_ms is None and not seen.at_the_end:
        found.append("no train step followed")
    found += ["left behind on " + each for each in seen.left]
    return found


def differences(cell: Cell, reference: Cell) -> List[str]:
    """Between what a run has learned and what the undisturbed run has, bit for bit."""
    found = []
    for rank in range(WORLD):
        name = "weights-%d.bin" % rank
        if not os.path.exists(cell.path(name)):
            found.append("rank %d has no weights at the end" % rank)
        elif _bytes(cell.path(name)) != _bytes(reference.path(name)):
            found.append("the weights of rank %d are not those of the undisturbed run" % rank)
    done = cell.sandbox.run(["dlckpt", "diff", "--quiet", os.path.join(reference.job_dir, "ck"), os.path.join(cell.job_dir, "ck")])
    if done.returncode != 0:
        found.append("the last checkpoint is not that of the undisturbed run: " + (done.stdout + done.stderr).strip()[-200:])
    return found


def _bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
