# SPDX-License-Identifier: Apache-2.0
"""Saves of a state of which one tensor in sixteen is trained and the rest is frozen, beside saves of which all changes."""
from __future__ import annotations

from typing import Dict, List, Optional

from dlbench.disk import settle
from dlbench.rows import Row
from dlbench.samples import Measure
from session import Session
from states import State

from .base import Found, Group, Ours, largest

SHARE = 16
# After so many saves it is known what does not change, and written where it is shared.
FIRST = 5


class Unchanged(Group):
    def __init__(self, state: State) -> None:
        self.state = state
        self.name = "unchanged-" + state.name
        self.label = "1/%d of %s trained, the rest frozen" % (SHARE, state.label)

    def measure(self, session: Session) -> Found:
        with session.drivers(self.state) as drivers:
            trained = max(1, self.state.tensors // SHARE)

            def saver(context: Ours) -> Measure:
                def once(_number: int) -> Dict[str, float]:
                    drivers.ask("touch", tensors=trained)
                    settle()
                    answers = context.save_as_it_is()
                    return {"blocked": largest(answers, "blocked_s"), "durable": largest(answers, "durable_s"),
                            "written": sum(answer["written_bytes"] for answer in answers) / 1e9}

                return once

            subjects = {"ours": saver(Ours(session, drivers, "unchanged")),
                        "without": saver(Ours(session, drivers, "all", {"DL_CHECKPOINT_REUSE": "0"}))}
            for number in range(FIRST):
                subjects["ours"](number)
            return self.run(session, subjects, {})

    def rows(self, found: Optional[Found]) -> List[Row]:
        def row(what: str, quantity: str, unit: str, target: str) -> Row:
            return self.row(found, "%s, %s" % (what, self.label), "the same, all written", quantity + "/ours", quantity + "/without", unit, target)

        return [row("bytes written", "written", "GB", "<= 0.1"), row("time to durable", "durable", "s", "<= 0.5"),
                row("blocked", "blocked", "s", "<= 1.1")]
