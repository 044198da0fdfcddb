# SPDX-License-Identifier: Apache-2.0
"""How long a save keeps the training loop from changing its state, beside one copy of that state from memory to memory."""
from __future__ import annotations

import os
from typing import Dict, List, Optional

from dlbench.disk import settle
from dlbench.rows import Row
from dlbench.samples import Measure, Unavailable
from dlbench.worker import Team
from session import Session
from states import State

from .base import Found, Group, Ours, largest, opened_peers, remove

# A lazy save copies while the next forward and backward pass runs; this long, in copies of the state. For real models a pass
# takes longer.
PASS = 2.0


class Blocked(Group):
    def __init__(self, state: State, with_peers: bool, target: str = "<= 1.1") -> None:
        self.state, self.with_peers, self.target = state, with_peers, target
        self.name = "blocked-" + state.name
        self.label = "blocked by saving " + state.label

    def measure(self, session: Session) -> Found:
        notes: Dict[str, str] = {}
        with session.drivers(self.state) as drivers:
            cores = os.cpu_count() or 1
            copy_s = min(drivers.ask("copy", threads=1)[0]["copy_s"] for _ in range(2))

            def copy(threads: int) -> Measure:
                def once(_number: int) -> Dict[str, float]:
                    drivers.ask("touch")
                    settle()
                    return {"blocked": drivers.ask("copy", threads=threads)[0]["copy_s"]}

                return once

            subjects: Dict[str, Measure] = {"memcpy": copy(1), "memcpy-all": copy(cores)}
            ours = Ours(session, drivers, "blocked")
            subjects["ours"] = lambda _number: {"blocked": largest(ours.save(), "blocked_s")}
            try:
                ours.lazy(0.0)
                subjects["ours-lazy"] = lambda _number: {"blocked": largest(ours.lazy(PASS * copy_s), "blocked_s")}
            except Unavailable as reason:
                notes["ours-lazy"] = str(reason)
            peers: Optional[Team] = None
            try:
                if self.with_peers:
                    peers = self.add_peers(session, subjects, notes)
                return self.run(session, subjects, notes)
            finally:
                if peers is not None:
                    peers.close()

    def add_peers(self, session: Session, subjects: Dict[str, Measure], notes: Dict[str, str]) -> Optional[Team]:
        try:
            team = session.peers(self.state)
        except Unavailable:
            team = None
        folder = session.folder("peers")
        for name in opened_peers(team, ("torch", "dcp"), notes):
            assert team is not None
            subjects["dcp-async" if name == "dcp" else name] = loop_of_peer(team, name, folder)
        if "dcp" in notes:
            notes["dcp-async"] = notes["dcp"]
        return team

    def rows(self, found: Optional[Found]) -> List[Row]:
        def row(what: str, ours: str, peer: str, target: Optional[str]) -> Row:
            made = self.row(found, "blocked, %s, %s" % (what, self.state.label), peer, "blocked/" + ours, "blocked/" + peer, "s", target)
            if made.ours is None and found is not None:
                made.note = found["notes"].get(ours, "")
            return made

        rows = [row("async", "ours", "memcpy", self.target), row("lazy", "ours-lazy", "memcpy", self.target),
                row("async", "ours", "memcpy-all", None)]
        if self.with_peers:
            rows += [row("async", "ours", "dcp-async", "<= 1"), row("async", "ours", "torch", "<= 1")]
        return rows


def loop_of_peer(team: Team, name: str, folder: str) -> Measure:
    def once(number: int) -> Dict[str, float]:
        path = os.path.join(folder, "%s-%d" % (name, number))
        team.ask("touch")
        settle()
        blocked = largest(team.ask("async" if name == "dcp" else "save", peer=name, path=path), "blocked_s")
        remove(path)
        return {"blocked": blocked}

    return once
