# SPDX-License-Identifier: Apache-2.0
"""The states that are saved, and the sizes of a run."""
from __future__ import annotations

from dataclasses import dataclass
from typing import List

MIB, GIB = 1 << 20, 1 << 30


@dataclass(frozen=True)
class State:
    name: str
    label: str
    tensors: int
    bytes: int
    world: int = 1


@dataclass(frozen=True)
class Scale:
    """How much of the full bench is done: `shrink` divides the bytes (and `thin` the tensors) of each state."""

    name: str
    runs: int
    warm_up: int
    shrink: int
    thin: int
    train_width: int
    train_steps: int
    runs_if_wide: int = 0

    def state(self, name: str, tensors: int, size: int, world: int = 1) -> State:
        size, few = size // self.shrink, max(4, tensors // self.thin)
        label = "%s in %s tensors" % (readable(size), format(few, ","))
        if world > 1:
            label += ", %d ranks" % world
        return State(name, label, few, size, world)

    def states(self) -> List[State]:
        return [self.state("10m", 100, 10 * MIB), self.state("1g-large", 16, GIB), self.state("1g-small", 10000, GIB),
                self.state("4g-large", 64, 4 * GIB), self.state("1g-4ranks", 16, GIB, 4)]

    def many(self, name: str, tensors: int) -> State:
        """Tensors of four bytes."""
        few = tensors // self.thin
        return State(name, "%s tensors of 4 bytes" % format(few, ","), few, 4 * few)


def readable(size: int) -> str:
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return "%.3g %s" % (size / unit, name)
    return "%d B" % size


FULL = Scale("full", runs=5, warm_up=1, shrink=1, thin=1, train_width=1024, train_steps=30, runs_if_wide=9)
QUICK = Scale("quick", runs=5, warm_up=1, shrink=32, thin=10, train_width=256, train_steps=10)
TINY = Scale("tiny", runs=1, warm_up=0, shrink=128, thin=100, train_width=32, train_steps=3)
SCALES = {scale.name: scale for scale in (FULL, QUICK, TINY)}
