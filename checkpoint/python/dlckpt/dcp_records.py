# SPDX-License-Identifier: Apache-2.0
"""What dlckpt.dcp stores in a checkpoint beside the tensors: PyTorch's own description of it, as JSON instead of a pickle."""
from __future__ import annotations

import dataclasses
import json
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

import torch
from torch.distributed.checkpoint.metadata import (BytesStorageMetadata, ChunkStorageMetadata, Metadata, TensorProperties,
                                                   TensorStorageMetadata)
from torch.distributed.checkpoint.planner import SavePlan, WriteItem, WriteItemType

from . import codec, torch_adapter
from .errors import CorruptError, MismatchError, StateError

METADATA_BLOB = "dlckpt.dcp/metadata.json"
VALUES_BLOB = "dlckpt.dcp/values.json"
RANK_VALUES_BLOB = "dlckpt.dcp/rank-values.json"
SCHEMA = 1


class TensorEntry(NamedTuple):
    """One tensor of a checkpoint. dlckpt.dcp stores a scalar as one element of one dimension, because only one learner writes
    it and HDF5 has no part of a scalar. attach() stores it as a scalar (``plain``)."""

    path: str
    dtype: str
    size: Tuple[int, ...]
    plain: bool = False

    @property
    def stored_size(self) -> Tuple[int, ...]:
        return self.size or (() if self.plain else (1,))


class Contents(NamedTuple):
    """The contents of a checkpoint. ``parts`` are the boxes (offsets, sizes) of each tensor as they were saved; ``values``
    names the learner that wrote each value that is no tensor; ``keys`` says from which nested keys a flat name was made.
    ``inline`` and ``given`` are tensors and values that are known already, because attach() saved them in its record."""

    tensors: Dict[str, TensorEntry]
    parts: Dict[str, List[Tuple[Tuple[int, ...], Tuple[int, ...]]]]
    values: Dict[str, int]
    keys: Optional[Dict[str, Tuple[Any, ...]]]
    inline: Dict[str, Any]
    given: Dict[str, Any]


def contents(plans: List[SavePlan]) -> Contents:
    """The contents that all learners together are going to write, each part once (see without_repeats). StateError for an
    element type that cannot be stored."""
    keys: Optional[Dict[str, Tuple[Any, ...]]] = None
    for plan in reversed(plans):  # so that the first learner's value counts, as in DefaultSavePlanner
        if isinstance(plan.planner_data, dict):
            keys = {**(keys or {}), **{name: tuple(path) for name, path in plan.planner_data.items()}}
    found = Contents({}, {}, {}, keys, {}, {})
    for rank, plan in enumerate(plans):
        for item in plan.items:
            if item.type == WriteItemType.BYTE_IO:
                found.values[item.index.fqn] = rank
            else:
                _add_tensor(found, item)
    return found


def without_repeats(plans: List[SavePlan], preferred: Set[str]) -> List[SavePlan]:
    """The plans, changed so that only one learner writes each part (PyTorch's own planner does this already; others may not),
    and that learner 0 writes the values named in ``preferred`` that it has, too."""
    seen: Set[Tuple[Any, ...]] = set()
    items: List[List[WriteItem]] = [[] for _ in plans]
    for rank, plan in enumerate(plans):
        for item in plan.items:
            is_value = item.type == WriteItemType.BYTE_IO
            key = (item.index.fqn,) if item.tensor_data is None else (item.index.fqn, item.tensor_data.chunk.offsets,
                                                                      item.tensor_data.chunk.sizes)
            if key not in seen:
                seen.add(key)
                items[0 if is_value and item.index.fqn in preferred else rank].append(item)
    return [dataclasses.replace(plan, items=kept) for plan, kept in zip(plans, items)]


def _add_tensor(found: Contents, item: WriteItem) -> None:
    fqn, data = item.index.fqn, item.tensor_data
    if data is None:
        raise StateError("%s: the save plan has a tensor without a size" % fqn)
    dtype = torch_adapter.dtype_name(data.properties.dtype)
    if dtype is None:
        raise StateError("%s: a tensor of %s cannot be stored; allowed: the element types of dlckpt-format(5)" % (fqn, data.properties.dtype))
    entry = TensorEntry(tensor_path(fqn, found.keys), dtype, tuple(data.size))
    if found.tensors.setdefault(fqn, entry) != entry:
        raise StateError("%s: learners hold this tensor with different sizes or element types; allowed: the same on all" % fqn)
    found.parts.setdefault(fqn, []).append((tuple(data.chunk.offsets), tuple(data.chunk.sizes)))


def tensor_path(fqn: str, keys: Optional[Dict[str, Tuple[Any, ...]]]) -> str:
    """The path of a tensor in the checkpoint: 'model.0.weight', made from {"model": {"0.weight": ...}}, becomes
    'model/0.weight'."""
    parts = (keys or {}).get(fqn) or (fqn,)
    path = "/".join(codec.escape(part) for part in parts)
    return path if len(path.encode()) <= 512 else codec.escape(fqn)


def to_json(found: Contents) -> bytes:
    """The blob of these contents."""
    tensors = {fqn: {"path": e.path, "dtype": e.dtype, "size": list(e.size),
                     "parts": [[list(offsets), list(sizes)] for offsets, sizes in found.parts[fqn]]}
               for fqn, e in found.tensors.items()}
    keys = None if found.keys is None else {fqn: list(path) for fqn, path in found.keys.items()}
    return json.dumps({"schema": SCHEMA, "tensors": tensors, "values": found.values, "keys": keys}).encode()


def from_json(text: bytes, where: str) -> Contents:
    """The inverse of to_json(). CorruptError; MismatchError if a newer version wrote the text."""
    try:
        record = json.loads(text)
        if record["schema"] != SCHEMA:
            raise MismatchError("%s has schema %s of dlckpt.dcp; this version reads %d" % (where, record["schema"], SCHEMA))
        found = Contents({}, {}, {str(fqn): int(rank) for fqn, rank in record["values"].items()},
                         None if record["keys"] is None else {fqn: tuple(path) for fqn, path in record["keys"].items()}, {}, {})
        for fqn, e in record["tensors"].items():
            found.tensors[fqn] = TensorEntry(str(e["path"]), str(e["dtype"]), tuple(int(n) for n in e["size"]))
            found.parts[fqn] = [(tuple(offsets), tuple(sizes)) for offsets, sizes in e["parts"]]
        return found
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptError("%s: the description of the tensors cannot be read: %r" % (where, error)) from error


def to_metadata(found: Contents) -> Metadata:
    """The contents in PyTorch's form."""
    described: Dict[str, Any] = {fqn: BytesStorageMetadata() for fqn in [*found.values, *found.given]}
    for fqn, entry in found.tensors.items():
        chunks = [ChunkStorageMetadata(torch.Size(offsets), torch.Size(sizes)) for offsets, sizes in found.parts[fqn]]
        described[fqn] = TensorStorageMetadata(TensorProperties(dtype=torch_adapter.dtype_of(entry.dtype)),
                                               torch.Size(entry.size), chunks)
    for fqn, tensor in found.inline.items():
        described[fqn] = TensorStorageMetadata(TensorProperties(dtype=tensor.dtype), tensor.size(), [
            ChunkStorageMetadata(torch.Size([0] * tensor.dim()), tensor.size())])
    return Metadata(state_dict_metadata=described, planner_data=found.keys)
