# SPDX-License-Identifier: Apache-2.0
"""Makes, for a checkpoint that attach() did not write (but `dlckpt import`, dlckpt.dcp or a C program), the record that
attach() would have written: which of its tensors belong to which of the program's arrays."""
from __future__ import annotations

import base64
import ctypes
import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from . import arrays, codec, dtypes
from .entries import Entry, some
from .errors import MismatchError
from .reader import Reader, TensorInfo


class Found(NamedTuple):
    """The trees of the objects for which the checkpoint has tensors, and remarks for the user."""

    objects: Dict[str, Any]
    note: str


def find(dir: str, step: int, entries: List[Entry]) -> Found:
    """Looks for the arrays of each object under its name, or without a name in front. An object for which the checkpoint has
    nothing is left as it is. MismatchError, with nothing changed, if it only has a part of an object, or nothing at all."""
    reader = Reader(dir, step)
    try:
        infos = {info.path: info for info in reader.tensors()}
        used: Dict[str, None] = {}
        objects, taken, fresh, problems = {}, [], [], []
        for entry in entries:
            tree, count, lacking = _tree(reader, infos, entry, used) if entry.takes_tensors else (None, 0, [])
            if not count:
                fresh.append(entry.name)
                continue
            if lacking:
                problems.append("%s: the checkpoint lacks %s" % (entry.name, some(lacking)))
            objects[entry.name] = tree
            taken.append("%s (%d tensor%s)" % (entry.name, count, "" if count == 1 else "s"))
        where = "the checkpoint of train step %d was not written by attach()" % step
        if not taken:
            raise MismatchError("%s, and it holds nothing for %s; it holds %s. `dlckpt import --prefix NAME/` gives tensors the name of an "
                                "object" % (where, ", ".join(e.name for e in entries), some(list(infos)) if infos else "no tensors"))
        if problems:
            raise MismatchError("%s, and fits only in part, so that nothing of it was loaded: %s. "
                                "dlckpt.open(dir).load_into() loads parts" % (where, "; ".join(problems)))
        unused = [path for path in infos if path not in used]
        return Found(objects, "%s: taken: %s%s%s" % (
            where, ", ".join(taken), "; as the program made it: %s" % ", ".join(fresh) if fresh else "",
            "; not used: %s" % some(unused) if unused else ""))
    finally:
        reader.close()


def _tree(reader: Reader, infos: Dict[str, TensorInfo], entry: Entry, used: Dict[str, None]) -> Tuple[Any, int, List[str]]:
    """The object's tree with references to the checkpoint's tensors, the number of tensors found, and the paths of the missing
    ones."""
    below = codec.escape(entry.name)
    places: Dict[Any, str] = {}  # memory -> path, to find tied weights
    tied: Dict[str, str] = {}
    values: Dict[str, Any] = {}

    def sink(path: str, value: Any) -> bool:
        values[path] = value
        return True

    tree = codec.encode(entry.capture(), below, sink)
    sources = {path: _source(infos, below, path) for path in values}
    for path, value in values.items():
        place = arrays.place_of(arrays.divided(value))
        if place is not None and sources[path] is not None:
            places.setdefault(place, path)
    for path, value in values.items():
        if sources[path] is None:
            tied[path] = places.get(arrays.place_of(arrays.divided(value)), path)
    references = _leaves(tree)
    count, lacking = 0, []
    for path, reference in references:
        info = sources[tied.get(path, path)]
        if info is None:
            lacking.append(path[len(below) + 1:] or entry.name)
            continue
        count += 0 if path in tied else 1
        used[info.path] = None
        _point(reader, reference, info)
    return tree, count, lacking


def _source(infos: Dict[str, TensorInfo], below: str, path: str) -> Optional[TensorInfo]:
    inner = path[len(below) + 1:]
    plain = re.sub("%([0-9A-F]{2})", lambda found: chr(int(found.group(1), 16)), inner)  # other programs do not escape names
    for candidate in (path, inner, "%s/%s" % (below, plain), plain):
        if candidate in infos:
            return infos[candidate]
    return None


def _leaves(tree: Any) -> List[Tuple[str, Dict[str, Any]]]:
    """All references in the tree, each with its path; a path may occur several times."""
    if isinstance(tree, list):
        return [pair for item in tree for pair in _leaves(item)]
    if not isinstance(tree, dict):
        return []
    if tree.get("$") == "tensor":
        return [(str(tree["path"]), tree)]
    return [pair for item in tree.values() for pair in _leaves(item)]


def _point(reader: Reader, reference: Dict[str, Any], info: TensorInfo) -> None:
    """Turns a reference to the program's array into one to the checkpoint's tensor. A scalar becomes a value, because
    dlckpt.dcp stores it as one element of one dimension."""
    if not reference["shape"] and info.shape in ((), (1,)) and reference["dtype"] == info.dtype:
        data = bytearray(dtypes.size(info.dtype))
        reader.load(info.path, *_address(data))
        del reference["path"]
        reference["$"], reference["v"] = "array", base64.b64encode(bytes(data)).decode()
        return
    reference.update(path=info.path, dtype=info.dtype, shape=list(info.shape))


def _address(data: bytearray) -> Tuple[int, int]:
    return ctypes.addressof(ctypes.c_char.from_buffer(data)), len(data)

