# SPDX-License-Identifier: Apache-2.0
"""Train steps per second of a PyTorch loop that saves every so many train steps, beside one that does not save, until all it
saved is durable."""
from __future__ import annotations

import os
from typing import Dict, List, Optional, Tuple

from dlbench.disk import settle
from dlbench.rows import Row
from dlbench.samples import Measure, Unavailable
from dlbench.worker import Worker
from session import Session

from .base import Found, Group, remove

EVERY = (3, 10, 30)
WAYS = {"none": "no saves", "async": "async", "lazy": "lazy", "torch": "torch.save + fsync", "dcp": "DCP async_save"}


class TrainingLoop(Group):
    name = "training"
    label = "training with saves"

    def measure(self, session: Session) -> Found:
        notes: Dict[str, str] = {}
        scale = session.scale
        try:
            worker = session.trainer()
        except Unavailable as reason:
            return {"values": {}, "notes": {way: str(reason) for way in WAYS}}
        with worker:
            try:
                size = worker.ask("facts")["bytes"]
            except Unavailable as reason:
                return {"values": {}, "notes": {way: "not installed (%s)" % reason for way in WAYS}}
            subjects: Dict[str, Measure] = {}
            for way, every in [("none", 0)] + [(way, every) for way in ("async", "lazy", "torch", "dcp") for every in EVERY]:
                if way in notes:
                    continue
                once = self.loop(session, worker, way, min(every, scale.train_steps))
                try:
                    if every == EVERY[-1]:
                        once(-1)  # also a warm-up
                    subjects["%s-%d" % (way, every)] = once
                except Unavailable as reason:
                    notes[way] = str(reason)
            subjects = {name: once for name, once in subjects.items() if name.rsplit("-", 1)[0] not in notes}
            found = self.run(session, subjects, notes, {"bytes": size, "steps": scale.train_steps})
        return found

    def loop(self, session: Session, worker: Worker, way: str, every: int) -> Measure:
        def once(_number: int) -> Dict[str, float]:
            folder = os.path.join(session.folder("train"), "%s-%d" % (way, every))
            remove(folder)
            os.makedirs(folder)
            settle()
            seconds = worker.ask("run", way=way, every=every, steps=session.scale.train_steps, folder=folder)["seconds"]
            remove(folder)
            return {"seconds": seconds}

        return once

    def rows(self, found: Optional[Found]) -> List[Row]:
        factor = float((found or {}).get("steps", 1))
        rows = []

        def add(label: str, way: str, every: int, other: str, target: Optional[str]) -> None:
            peer = other.rsplit("-", 1)[0]
            row = self.row(found, label, peer, "seconds/%s-%d" % (way, every), "seconds/" + other, "steps/s", target, factor)
            row.peer = WAYS[peer]
            notes = (found or {}).get("notes", {})
            row.note = "not measured" if found is None else notes.get(way) or notes.get(peer, "")
            rows.append(row)

        for every in EVERY:
            for way in ("async", "lazy"):
                add("training, %s save each %d steps" % (way, every), way, every, "none-0", None)
            for peer in ("torch", "dcp"):
                add("training, async save each %d steps" % every, "async", every, "%s-%d" % (peer, every), ">= 1")
        return rows

    @staticmethod
    def curves(found: Found) -> Dict[str, List[Tuple[int, str]]]:
        """For the figure: way -> (every, key of the values)."""
        return {way: [(every, "seconds/%s-%d" % (way, every)) for every in EVERY] for way in WAYS if way != "none"
                and "seconds/%s-%d" % (way, EVERY[0]) in found["values"]}
