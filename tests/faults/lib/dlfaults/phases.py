# SPDX-License-Identifier: Apache-2.0
"""The phases in which a fault meets a job: where rank 1 of learner.c stands still."""
from __future__ import annotations

from typing import NamedTuple


class Phase(NamedTuple):
    name: str
    text: str


PHASES = [
    Phase("deploying", "the learners' programs have been started, and have not met yet"),
    Phase("training", "in the middle of train step 9, three after the last checkpoint"),
    Phase("saving", "the data of the checkpoint of train step 12 are written by rank 1, and not durable yet"),
    Phase("finishing", "the last checkpoint is committed, rank 0 has ended, rank 1 not yet"),
]
PHASE_NAMES = [phase.name for phase in PHASES]
