# SPDX-License-Identifier: Apache-2.0
"""Many small tensors: registering them, the first save, memory for each, and dlckpt ls, beside what is wanted of them;
and the same in Python."""
from __future__ import annotations

import os
import subprocess
import time
from typing import Dict, List, Optional

from dlbench.rows import Row
from dlbench.samples import Measure, alternate
from dlbench.worker import WorkerError
from session import Session
from states import State

from .base import Found, Group, Ours, remove

# For a million tensors; the times grow with their number, but that of ls.
WANTED = {"register": 2.0, "first": 5.0, "memory": 300.0, "ls": 0.1}
PYTHON = 5  # times as long as in C: 25 microseconds for each tensor until the first save is durable, 10 to register it


class Many(Group):
    def __init__(self, state: State) -> None:
        self.state = state
        self.name = "many-" + state.name
        self.label = "%s tensors of 4 bytes" % format(state.tensors, ",")

    def measure(self, session: Session) -> Found:
        def once(number: int) -> Dict[str, float]:
            name = "many-%d" % number
            with session.drivers(self.state) as drivers:
                ours = Ours(session, drivers, name)
                saved = ours.save_as_it_is()[0]
                found = {"register": ours.opened[0]["register_s"], "memory": ours.opened[0]["registered_bytes"] / self.state.tensors,
                         "first": saved["durable_s"]}
            began = time.monotonic()
            done = subprocess.run([session.dlckpt, "ls", ours.folder], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            if done.returncode != 0:
                raise WorkerError("dlckpt ls: %s" % done.stderr.strip())
            found["ls"] = time.monotonic() - began
            found["disk"] = sum(os.path.getsize(os.path.join(ours.newest(), file)) for file in os.listdir(ours.newest())) / self.state.tensors
            remove(ours.folder)
            return found

        def in_python(_number: int) -> Dict[str, float]:
            folder = session.folder("python")
            found = session.in_python("many.py", str(self.state.tensors), folder)
            remove(folder)
            return {quantity: float(found[quantity]) for quantity in ("register", "first")}

        subjects: Dict[str, Measure] = {"ours": once}
        notes = {}
        if session.python is None:
            notes["python"] = "no Python with NumPy"
        else:
            subjects["python"] = in_python
        values = alternate(subjects, session.scale.runs, session.scale.warm_up,
                           lambda done, of, subject: session.told(self.name, done, of, subject), session.scale.runs_if_wide)
        share = self.state.tensors / 1e6
        for quantity, wanted in WANTED.items():
            grows = quantity in ("register", "first")
            values[quantity + "/wanted"] = [wanted * share if grows else wanted]
            if grows:
                values[quantity + "/wanted-python"] = [PYTHON * wanted * share]
        values["disk/wanted"] = [self.state.bytes / self.state.tensors]
        return {"values": values, "notes": notes}

    def rows(self, found: Optional[Found]) -> List[Row]:
        def row(what: str, quantity: str, unit: str) -> Row:
            wanted = quantity in WANTED
            return self.row(found, "%s, %s" % (what, self.label), "wanted" if wanted else "the values alone", quantity + "/ours", quantity + "/wanted",
                            unit, "<= 1" if wanted else None)

        def python(what: str, quantity: str) -> Row:
            made = self.row(found, "%s, %s" % (what, self.label), "wanted", quantity + "/python", quantity + "/wanted-python", "s", "<= 1")
            if made.ours is None and found is not None:
                made.note = found["notes"].get("python", "")
            return made

        return [row("registered", "register", "s"), row("first save durable", "first", "s"), row("memory when registered, each", "memory", "B"),
                row("dlckpt ls", "ls", "s"), row("on disk, each", "disk", "B"),
                python("registered in Python", "register"), python("attached and first save durable in Python", "first")]
