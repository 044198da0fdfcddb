# SPDX-License-Identifier: Apache-2.0
"""The picture of a full run: pure, from what was found."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from dlbench.samples import Series
from dlbench.svg import Bar, Bars, Line, Lines, picture
from groups.base import series
from groups.training import TrainingLoop

Found = Dict[str, Any]

_SAVE = (("ours-new", "slurm-dl, new files", "ours"), ("ours", "slurm-dl, recycled files", "ours"), ("fio", "fio O_DIRECT, new file", "limit"),
         ("fio-overwrite", "fio O_DIRECT, overwriting", "limit"), ("dd", "dd conv=fsync", "peer"), ("safetensors", "safetensors + fsync", "peer"),
         ("torch", "torch.save + fsync", "peer"), ("dcp", "torch.distributed.checkpoint", "peer"), ("hdf5", "HDF5 in C + fsync", "peer"),
         ("h5py", "h5py + fsync", "peer"))
_LOAD = (("ours", "slurm-dl, verified", "ours"), ("fio-read", "fio O_DIRECT", "limit"), ("safetensors", "safetensors", "peer"),
         ("torch", "torch.load", "peer"), ("dcp", "torch.distributed.checkpoint", "peer"), ("hdf5", "HDF5 in C", "peer"), ("h5py", "h5py", "peer"))
_BLOCKED = (("ours-lazy", "slurm-dl, lazy", "ours"), ("ours", "slurm-dl, async", "ours"), ("memcpy", "memcpy, 1 thread", "limit"),
            ("memcpy-all", "memcpy, all cores", "limit"), ("dcp-async", "DCP async_save", "peer"), ("torch", "torch.save + fsync", "peer"))
_WAYS = (("async", "slurm-dl, async", 0), ("lazy", "slurm-dl, lazy", 1), ("torch", "torch.save + fsync", 2), ("dcp", "DCP async_save", 3))


def draw(groups: Dict[str, Found], caption: str) -> str:
    panels: List[Union[Bars, Lines]] = []
    durable = groups.get("durable-1g-large")
    if durable:
        factor = durable["bytes"] / 1e9
        panels += _bars("Saving 1 GiB until it is durable", "GB/s (more is better)", durable, "save", _SAVE, factor)
        panels += _bars("Loading 1 GiB, cold page cache", "GB/s (more is better)", durable, "load", _LOAD, factor)
    blocked = groups.get("blocked-1g-large")
    if blocked:
        panels += _bars("Training blocked by a save of 1 GiB", "seconds (less is better)", blocked, "blocked", _BLOCKED, None)
    training = groups.get("training")
    if training:
        panels += _training(training)
    return picture(panels, "Checkpoints of slurm-dl beside the disk, memcpy and other checkpoints", caption)


def _bars(title: str, axis: str, found: Found, quantity: str, subjects: Sequence[Tuple[str, str, str]], factor: Optional[float]) -> List[Bars]:
    bars = []
    for name, label, kind in subjects:
        values = series(found, "%s/%s" % (quantity, name), factor)
        if values is not None:
            bars.append(Bar(label, values, kind))
    return [Bars(title, axis, bars)] if bars else []


def _training(found: Found) -> List[Lines]:
    undisturbed = series(found, "seconds/none-0")
    curves = TrainingLoop.curves(found)
    if undisturbed is None or not curves:
        return []
    lines = []
    for way, label, colour in _WAYS:
        points = []
        for every, key in curves.get(way, []):
            values = series(found, key)
            if values is not None:
                points.append((str(every), Series([100 * undisturbed.median / value for value in values.values])))
        if points:
            lines.append(Line(label, points, colour))
    return [Lines("Training speed with saves, against none, until all is durable", "train steps from save to save", "% of the speed without saves", lines)]
