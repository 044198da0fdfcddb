# SPDX-License-Identifier: Apache-2.0
"""How many bytes the disk reads when other ranks load than saved, and how many it holds of a state that all ranks hold whole.
Bytes, not seconds."""
from __future__ import annotations

import os
from typing import Dict, List, Optional

from dlbench.disk import files_below, make_cold
from dlbench.rows import Row
from session import Session
from states import State

from .base import Found, Group, Ours

LOADERS = (1, 3, 4)


class Elastic(Group):
    def __init__(self, state: State) -> None:
        self.state = State(state.name, state.label, state.tensors, max(state.bytes // 4, 1 << 20), state.world)
        self.name = "elastic"
        self.label = "bytes read by other ranks"

    def measure(self, session: Session) -> Found:
        values: Dict[str, List[float]] = {}
        for done, replicated in enumerate((False, True)):
            kind = "replicated" if replicated else "divided"
            session.told(self.name, done, 2, kind)
            with session.drivers(self.state, replicated) as savers:
                ours = Ours(session, savers, "elastic-" + kind)
                ours.save()
                facts = savers.ask("facts")
            size = float(facts[0]["bytes"] if replicated else sum(answer["bytes"] for answer in facts))
            values["state/" + kind] = [size]
            values["held/" + kind] = [float(sum(os.path.getsize(path) for path in files_below(ours.newest())))]
            for world in LOADERS:
                with session.drivers(self.state, replicated, world) as team:
                    team.ask("open", id="load", dir=ours.folder, run_id=session.run_id())
                    make_cold(ours.folder)
                    before = sum(answer["read_bytes"] for answer in team.ask("facts"))
                    team.ask("restore", id="load")
                    after = sum(answer["read_bytes"] for answer in team.ask("facts"))
                    team.ask("close", id="load")
                values["read-by-%d/%s" % (world, kind)] = [float(after - before)]
        return {"values": values, "notes": {}}

    def rows(self, found: Optional[Found]) -> List[Row]:
        scaled = None
        if found is not None:
            scaled = {**found, "values": {key: [value / 1e9 for value in values] for key, values in found["values"].items()}}
        rows = []
        for kind in ("divided", "replicated"):
            what = "a state %s over %d ranks" % (kind, self.state.world) if kind == "divided" else "a state on each of %d ranks" % self.state.world
            rows.append(self.row(scaled, "bytes stored of " + what, "its bytes", "held/" + kind, "state/" + kind, "GB", "<= 1.05"))
            for world in LOADERS:
                rows.append(self.row(scaled, "bytes read from disk by %d, of %s" % (world, what), "its bytes", "read-by-%d/%s" % (world, kind),
                                     "state/" + kind, "GB", "<= 1.05"))
        return rows
