# SPDX-License-Identifier: Apache-2.0
"""Whether a cell went as the table of faults says. Pure, but for the comparison of the weights."""
from __future__ import annotations

import os
import re
from typing import List

from dlfaults.cell import WORLD, Cell, Seen
from dlfaults.faults import Expect

WEIGHTS_BYTES = 8 << 16  # of learner.c, all ranks together


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
    if _weights(cell) != _weights(reference):
        found.append("the weights are not those of the undisturbed run")
    done = cell.sandbox.run(["dlckpt", "diff", "--quiet", os.path.join(reference.job_dir, "ck"), os.path.join(cell.job_dir, "ck")])
    if done.returncode != 0:
        found.append("the last checkpoint is not that of the undisturbed run: " + (done.stdout + done.stderr).strip()[-200:])
    return found


def _weights(cell: Cell) -> bytes:
    """Of all ranks that there were at the end, one behind the other. A rank that was cut off while it ended may have left its own."""
    whole = b""
    for rank in range(WORLD):
        path = cell.path("weights-%d.bin" % rank)
        if len(whole) < WEIGHTS_BYTES and os.path.exists(path):
            with open(path, "rb") as file:
                whole += file.read()
    return whole
