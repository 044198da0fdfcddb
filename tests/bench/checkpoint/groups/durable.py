# SPDX-License-Identifier: Apache-2.0
"""Time until a checkpoint is durable (new files, and in the recycled slots that a running job has), and time to load it with a
cold page cache. What was loaded is compared with what was saved, once per subject."""
from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Sequence

from dlbench.disk import dd_write, fio_read, fio_write, make_cold, settle
from dlbench.rows import Row
from dlbench.samples import Measure, Unavailable
from dlbench.worker import Team, WorkerError
from session import Session
from states import State

from .base import Found, Group, Ours, largest, newest_data_file, opened_peers, remove

PYTHON_PEERS = ("torch", "dcp", "safetensors", "h5py")
LOADS = ("torch", "dcp", "safetensors", "h5py", "hdf5")


class Durable(Group):
    def __init__(self, state: State, peers: Sequence[str]) -> None:
        self.state, self.peers = state, peers
        self.name = "durable-" + state.name
        self.label = "save and load " + state.label

    def measure(self, session: Session) -> Found:
        notes: Dict[str, str] = {}
        python = [name for name in self.peers if name in PYTHON_PEERS]
        with session.drivers(self.state) as drivers:
            peers: Optional[Team] = None
            try:
                peers = session.peers(self.state) if python else None
            except Unavailable:
                pass
            try:
                present = opened_peers(peers, python, notes)
                return self.measure_all(session, drivers, peers, present, notes)
            finally:
                if peers is not None:
                    peers.close()

    def measure_all(self, session: Session, drivers: Team, peers: Optional[Team], present: List[str], notes: Dict[str, str]) -> Found:
        size = float(sum(answer["bytes"] for answer in drivers.ask("facts")))
        subjects: Dict[str, Measure] = {"ours": loop_of_ours(Ours(session, drivers, "steady"))}
        if "fio" in self.peers:
            subjects["ours-new"] = loop_of_ours(Ours(session, drivers, "new", {"DL_CHECKPOINT_RECYCLE": "0"}), loads=False)
        folder = session.folder("peers")
        if "fio-overwrite" in self.peers:
            subjects.update(self.disk(session, folder, size, notes))
        if "dd" in self.peers:
            source = os.path.join(folder, "source")
            write_random(source, int(size))
            subjects["dd"] = lambda _round: {"save": dd_write(source, os.path.join(folder, "dd"), int(size))}
        for name in present:
            assert peers is not None
            subjects[name] = loop_of_peer(peers, name, folder)
        if "hdf5" in self.peers:
            subjects["hdf5"] = loop_of_hdf5(drivers, folder)
        return self.run(session, subjects, notes, {"bytes": size})

    def disk(self, session: Session, folder: str, size: float, notes: Dict[str, str]) -> Dict[str, Measure]:
        new, old = os.path.join(folder, "fio-new"), os.path.join(folder, "fio-old")
        steady = os.path.join(session.data, "ckpt-steady")

        def read(_round: int) -> Dict[str, float]:
            # The very file that we read, where it is large enough; else the one that fio wrote.
            file = newest_data_file(steady)
            if file is None or os.path.getsize(file) < size / 2:
                file = old
            return {"load": size / fio_read(file)}

        try:
            fio_write(old, int(size), fresh=False)
        except Unavailable as reason:
            for name in ("fio", "fio-overwrite", "fio-read"):
                notes[name] = str(reason)
            return {}
        subjects: Dict[str, Measure] = {"fio-overwrite": lambda _round: {"save": size / fio_write(old, int(size), fresh=False)}, "fio-read": read}
        if "fio" in self.peers:
            subjects["fio"] = lambda _round: {"save": size / fio_write(new, int(size), fresh=True)}
        return subjects

    def rows(self, found: Optional[Found]) -> List[Row]:
        factor = (found or {}).get("bytes", self.state.bytes) / 1e9
        small = self.state.name == "10m"  # the targets hold from 1 GiB on; below, the fixed costs of fsync and rename count

        def row(what: str, ours: str, peer: str, other: str, target: Optional[str]) -> Row:
            return self.row(found, "%s, %s" % (what, self.state.label), peer, ours, other, "GB/s", target, factor)

        rows = []
        for peer in self.peers:
            if peer == "fio":
                rows.append(row("durable in new files", "save/ours-new", peer, "save/fio", ">= 0.9"))
            elif peer == "fio-overwrite":
                rows.append(row("durable", "save/ours", peer, "save/fio-overwrite", ">= 0.9"))
            else:
                target = None if peer == "dd" else ">= 3" if peer in ("torch", "dcp") and not small else ">= 1"
                rows.append(row("durable", "save/ours", peer, "save/" + peer, target))
        if "fio-overwrite" in self.peers:
            rows.append(row("loaded, cold", "load/ours", "fio-read", "load/fio-read", ">= 0.9"))
        rows += [row("loaded, cold", "load/ours", peer, "load/" + peer, ">= 1") for peer in self.peers if peer in LOADS]
        return rows


def loop_of_ours(ours: Ours, loads: bool = True) -> Measure:
    def once(number: int) -> Dict[str, float]:
        found = {"save": largest(ours.save(), "durable_s")}
        if loads:
            before = sums(ours.team) if number == 0 else None
            make_cold(ours.newest())
            settle()
            found["load"] = largest(ours.team.ask("restore", id=ours.name), "restore_s")
            same(before, ours.team, "libdlckpt")
        return found

    return once


def loop_of_peer(team: Team, name: str, folder: str) -> Measure:
    def once(number: int) -> Dict[str, float]:
        path = os.path.join(folder, "%s-%d" % (name, number))
        team.ask("touch")
        settle()
        found = {"save": largest(team.ask("save", peer=name, path=path), "durable_s")}
        before = sums(team) if number == 0 else None
        make_cold(path)
        settle()
        found["load"] = largest(team.ask("restore", peer=name, path=path), "restore_s")
        same(before, team, name)
        remove(path)
        return found

    return once


def loop_of_hdf5(team: Team, folder: str) -> Measure:
    def once(number: int) -> Dict[str, float]:
        path = os.path.join(folder, "plain-%d.h5" % number)
        team.ask("touch")
        settle()
        found = {"save": largest(team.ask("hdf5_save", path=path), "durable_s")}
        before = sums(team) if number == 0 else None
        make_cold(path)
        settle()
        found["load"] = largest(team.ask("hdf5_restore", path=path), "restore_s")
        same(before, team, "HDF5")
        remove(path)
        return found

    return once


def sums(team: Team) -> int:
    return sum(int(answer["sum"]) for answer in team.ask("sum")) % 2**64


def same(before: Optional[int], team: Team, name: str) -> None:
    if before is not None and sums(team) != before:
        raise WorkerError("what %s loaded is not what it saved" % name)


def write_random(path: str, size: int) -> None:
    """A file of random bytes that stays in the page cache."""
    piece = os.urandom(4 << 20)
    with open(path, "wb") as file:
        left = size
        turn = 0
        while left > 0:
            turned = piece[turn % len(piece):] + piece[:turn % len(piece)]
            file.write(turned[:min(left, len(piece))])
            left -= len(piece)
            turn += 7919
