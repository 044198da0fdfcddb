# SPDX-License-Identifier: Apache-2.0
"""Measuring several subjects in turn, and what a series of values says."""
from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Callable, Dict, List, Sequence, Union


@dataclass
class Series:
    """The values of one subject, in the order in which they were measured."""

    values: List[float]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        return min(self.values)

    @property
    def high(self) -> float:
        return max(self.values)

    @property
    def runs(self) -> int:
        return len(self.values)


@dataclass
class Summary:
    """What a table keeps of a series."""

    median: float
    low: float
    high: float
    runs: int


Figures = Union[Series, Summary]


class Unavailable(Exception):
    """A subject that cannot be measured here; the text says why, for the user."""


# One measurement of one subject: what it found, by the name of the quantity ("save", "restore", ...), in seconds or bytes.
Measure = Callable[[int], Dict[str, float]]


# Where the largest value of a quantity is so many times the smallest, a median of five is luck.
WIDE = 1.5


def is_wide(values: Sequence[float]) -> bool:
    return max(values) > WIDE * min(values)


def alternate(subjects: Dict[str, Measure], runs: int, warm_up: int, told: Callable[[int, int, str], None],
              runs_if_wide: int = 0) -> Dict[str, List[float]]:
    """Measures each subject `runs` times, one after the other, and each round in another order: forth, back, and each time
    beginning with the next one, so that no subject always follows the same other. The first `warm_up` rounds are dropped.
    Returns "quantity/subject": values. told(done, of, subject) is called before each measurement.
    runs_if_wide: so many runs of all, where the values of any quantity of any subject spread widely after `runs`."""
    found: Dict[str, List[float]] = {}
    names = list(subjects)
    rounds = runs + warm_up
    number = 0
    while number < rounds:
        for place, name in enumerate(order_of_round(names, number)):
            told(number * len(names) + place, rounds * len(names), name)
            for quantity, value in subjects[name](number).items():
                if number >= warm_up:
                    found.setdefault("%s/%s" % (quantity, name), []).append(value)
        number += 1
        if number == rounds and any(is_wide(values) for values in found.values()):
            rounds = max(rounds, runs_if_wide + warm_up)
    return found


def order_of_round(names: Sequence[str], number: int) -> List[str]:
    if not names:
        return []
    shift = (number // 2) % len(names)
    turned = list(names[shift:]) + list(names[:shift])
    return turned[::-1] if number % 2 else turned
