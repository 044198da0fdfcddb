# SPDX-License-Identifier: Apache-2.0
"""`dlckpt verify` of a checkpoint that is not in the page cache, beside reading its file."""
from __future__ import annotations

import subprocess
import time
from typing import Dict, List, Optional

from dlbench.disk import fio_read, make_cold
from dlbench.rows import Row
from dlbench.samples import Measure, Unavailable
from dlbench.worker import WorkerError
from session import Session
from states import State

from .base import Found, Group, Ours, newest_data_file


class Verify(Group):
    def __init__(self, state: State) -> None:
        self.state = state
        self.name = "verify-" + state.name
        self.label = "dlckpt verify of " + state.label

    def measure(self, session: Session) -> Found:
        notes: Dict[str, str] = {}
        with session.drivers(self.state) as drivers:
            size = float(drivers.ask("facts")[0]["bytes"])
            ours = Ours(session, drivers, "verify")
            ours.save()
            file = newest_data_file(ours.folder) or ""

            def verify(_number: int) -> Dict[str, float]:
                make_cold(ours.newest())
                began = time.monotonic()
                done = subprocess.run([session.dlckpt, "verify", "--quiet", ours.newest()], stderr=subprocess.PIPE, text=True)
                if done.returncode != 0:
                    raise WorkerError("dlckpt verify: %s" % done.stderr.strip())
                return {"verify": time.monotonic() - began}

            subjects: Dict[str, Measure] = {"ours": verify}
            try:
                fio_read(file)
                subjects["fio-read"] = lambda _number: {"verify": size / fio_read(file)}
            except Unavailable as reason:
                notes["fio-read"] = str(reason)
            return self.run(session, subjects, notes, {"bytes": size})

    def rows(self, found: Optional[Found]) -> List[Row]:
        factor = (found or {}).get("bytes", self.state.bytes) / 1e9
        return [self.row(found, "dlckpt verify, cold, %s" % self.state.label, "fio-read", "verify/ours", "verify/fio-read", "GB/s", ">= 0.9", factor)]
