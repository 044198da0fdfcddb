# SPDX-License-Identifier: Apache-2.0
"""What the groups share."""
from __future__ import annotations

import os
import shutil
from typing import Any, Dict, List, Optional, Sequence

from dlbench.disk import settle
from dlbench.rows import Row
from dlbench.samples import Measure, Series, Unavailable, alternate
from dlbench.worker import Team
from session import Session

PEERS = {
    "fio": "fio, new file", "fio-overwrite": "fio, overwriting", "fio-read": "fio, reading", "dd": "dd conv=fsync",
    "torch": "torch.save + fsync", "dcp": "torch.distributed.checkpoint", "safetensors": "safetensors + fsync",
    "h5py": "h5py + fsync", "hdf5": "HDF5 in C + fsync", "memcpy": "memcpy, 1 thread", "memcpy-all": "memcpy, all cores",
    "dcp-async": "DCP async_save",
}
Found = Dict[str, Any]


class Group:
    """name: for --only and for the rows' names; label: for people."""

    name: str
    label: str

    def measure(self, session: Session) -> Found:
        raise NotImplementedError

    def rows(self, found: Optional[Found]) -> List[Row]:
        """All rows of the group; those whose figures are missing say why. found None: not measured."""
        raise NotImplementedError

    # ---- for the groups themselves

    def run(self, session: Session, subjects: Dict[str, Measure], notes: Dict[str, str], more: Optional[Found] = None) -> Found:
        values = alternate(subjects, session.scale.runs, session.scale.warm_up,
                           lambda done, of, subject: session.told(self.name, done, of, subject), session.scale.runs_if_wide)
        return {"values": values, "notes": notes, **(more or {})}

    def row(self, found: Optional[Found], label: str, peer: str, ours: str, other: str, unit: str, target: Optional[str],
            factor: Optional[float] = None) -> Row:
        """ours, other: "quantity/subject". factor None: values as they are; else factor / value, for rates."""
        return Row("%s.%s.%s" % (self.name, ours.replace("/", "-"), peer), label, PEERS.get(peer, peer), unit, target,
                   series(found, ours, factor), series(found, other, factor), note_on(found, other))


def series(found: Optional[Found], key: str, factor: Optional[float] = None) -> Optional[Series]:
    values = (found or {}).get("values", {}).get(key)
    if not values:
        return None
    return Series([factor / value for value in values]) if factor is not None else Series(values)


def note_on(found: Optional[Found], key: str) -> str:
    if found is None:
        return "not measured"
    return found.get("notes", {}).get(key.split("/")[1], "")


def remove(path: Optional[str]) -> None:
    if path and os.path.isdir(path):
        shutil.rmtree(path)
    elif path and os.path.exists(path):
        os.unlink(path)


def opened_peers(team: Optional[Team], names: Sequence[str], notes: Dict[str, str]) -> List[str]:
    """Those of the peers that can be had here; notes says why not, for the others."""
    found = []
    for name in names:
        if team is None:
            notes[name] = "no Python with NumPy"
            continue
        try:
            team.ask("open", peer=name)
            found.append(name)
        except Unavailable as reason:
            notes[name] = "not installed (%s)" % reason
    return found


def newest_data_file(folder: str) -> Optional[str]:
    """The largest file of the checkpoint that was committed last."""
    names = sorted(name for name in os.listdir(folder) if name.startswith("step-")) if os.path.isdir(folder) else []
    if not names:
        return None
    newest = os.path.join(folder, names[-1])
    return max((os.path.join(newest, name) for name in os.listdir(newest)), key=os.path.getsize)


def largest(answers: List[Dict[str, Any]], field: str) -> float:
    """The ranks' slowest."""
    return max(answer[field] for answer in answers)


class Ours:
    """libdlckpt as a subject: a context on all ranks, saves with rising train steps."""

    def __init__(self, session: Session, team: Team, name: str, environment: Optional[Dict[str, str]] = None) -> None:
        self.team, self.name = team, name
        self.folder = session.folder("ckpt-" + name)
        self.step = 0
        self.opened = team.ask("open", id=name, dir=self.folder, run_id=session.run_id(), keep=2, environment=environment or {})

    def save(self) -> List[Dict[str, Any]]:
        self.team.ask("touch")
        settle()
        return self.save_as_it_is()

    def save_as_it_is(self) -> List[Dict[str, Any]]:
        self.step += 1
        return self.team.ask("save", id=self.name, step=self.step)

    def lazy(self, work_s: float) -> List[Dict[str, Any]]:
        self.step += 1
        self.team.ask("touch")
        settle()
        return self.team.ask("lazy", id=self.name, step=self.step, work_s=work_s)

    def newest(self) -> str:
        return os.path.dirname(newest_data_file(self.folder) or self.folder + "/none")
