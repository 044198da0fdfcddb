# SPDX-License-Identifier: Apache-2.0
"""Finds which parts of a script exclude one another: the branches of if and case."""
from typing import Dict, List, Tuple

from .shell import RESERVED, Command

Span = Tuple[int, int]


class Branches:
    def __init__(self, text: str, commands: List[Command]):
        self._blocks: List[List[Span]] = []
        self._known: Dict[int, Dict[int, int]] = {}
        # Open if and case: the kind, the branches that have ended, and where the present one begins.
        begun: List[Tuple[str, List[Span], int]] = []
        last = 0
        for command in commands:
            if not command.words:
                continue
            start = command.words[0].start
            if begun and begun[-1][0] == "case" and ";;" in text[last:start]:
                begun[-1] = self._next(begun[-1], start)
            for word in command.words:
                raw = text[word.start:word.end]
                if raw not in RESERVED:
                    break
                if raw in ("if", "case"):
                    begun.append((raw, [], word.start))
                elif raw in ("elif", "else") and begun:
                    begun[-1] = self._next(begun[-1], word.start)
                elif raw in ("fi", "esac") and begun:
                    self._blocks.append(self._next(begun.pop(), word.start)[1])
            last = command.words[-1].end

    @staticmethod
    def _next(block: Tuple[str, List[Span], int], at: int) -> Tuple[str, List[Span], int]:
        return block[0], block[1] + [(block[2], at)], at

    def _around(self, at: int) -> Dict[int, int]:
        """For each if or case around this place, by its number: the index of the branch."""
        if at not in self._known:
            self._known[at] = {number: i for number, block in enumerate(self._blocks) if block[0][0] <= at < block[-1][1]
                               for i, branch in enumerate(block) if branch[0] <= at < branch[1]}
        return self._known[at]

    def exclude(self, one: int, other: int) -> bool:
        """Whether the commands at these places never both run."""
        here, there = self._around(one), self._around(other)
        return any(there.get(block, branch) != branch for block, branch in here.items())

    def always_before(self, one: int, other: int) -> bool:
        """Whether the command at `one` has always run before the one at `other`, which comes later in the script."""
        there = self._around(other)
        return all(there.get(block) == branch for block, branch in self._around(one).items())
