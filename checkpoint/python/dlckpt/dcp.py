# SPDX-License-Identifier: Apache-2.0
"""Storage for torch.distributed.checkpoint (PyTorch 2.1 or newer): its checkpoints, committed and checksummed by libdlckpt::

    from torch.distributed import checkpoint as dcp
    import dlckpt.dcp

    dcp.save(state_dict, storage_writer=dlckpt.dcp.Writer("ckpt", step=1200))
    dcp.async_save(state_dict, storage_writer=dlckpt.dcp.Writer("ckpt", step=1300))
    dcp.load(state_dict, storage_reader=dlckpt.dcp.Reader("ckpt"))

As usual, DTensor, FSDP and ShardedTensor state is saved by the learner that holds it, and can be loaded with any number of
learners. A checkpoint is an ordinary one of slurm-dl: a directory has several train steps, the newest is loaded unless one is
named, `dlckpt ls|show|verify` can read it, and it exists only once all learners' parts are durable.

Values that are no tensors are stored in PyTorch's form, which is a pickle that dcp.load() unpickles, so load only checkpoints that
you trust. This does not concern dlckpt.attach(), nor the tensors themselves.
"""
from __future__ import annotations

import base64
import dataclasses
import io
import json
import os
import re
import uuid
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple, Union

from . import arrays, committed, library, torch_adapter
from .context import Context
from .errors import CorruptError, InvalidError, LibraryError, MismatchError, NotFoundError, of_framework
from .settings import find_settings
from .attached import STATE_BLOB

try:
    import torch
    from torch.distributed.checkpoint.metadata import Metadata
    from torch.distributed.checkpoint.planner import (LoadItemType, LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner,
                                                      WriteItem, WriteItemType)
    from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
    from torch.futures import Future
    from . import dcp_attached, dcp_records
except ImportError as missing:
    raise LibraryError("dlckpt.dcp needs a PyTorch with torch.distributed.checkpoint, 2.1 or newer: %s" % missing) from missing
if not hasattr(StorageWriter, "reset"):
    raise LibraryError("dlckpt.dcp needs PyTorch 2.1 or newer; this is %s" % torch.__version__)

Path = Union[str, "os.PathLike[str]"]


class _SaveTicket(NamedTuple):
    """The coordinator sends this to each learner in its plan."""

    dir: str
    step: int
    run_id: str
    rank: int
    world_size: int
    contents: dcp_records.Contents


class _LoadTicket(NamedTuple):
    step: int
    run_id: str
    rank: int
    world_size: int
    wanted: Tuple[str, ...]  # tensors that any learner reads


class Writer(StorageWriter):
    """A StorageWriter into a checkpoint directory, which is created if it is missing.

    dir      the directory; None: that of --dl-checkpoint (DL_CHECKPOINT_DIR, DL_CHECKPOINT), or else CHECKPOINT_DIR. A
             checkpoint_id given to dcp.save() replaces it.
    step     train step of the next save; may be set again between saves. None: the number at the end of checkpoint_id
             ("out/step-500": 500), else one more than the newest in the directory.
    keep     how many checkpoints to keep (0: keep= of --dl-checkpoint, else 3)
    timeout  longest wait for another learner in seconds (0: 600)

    One writer may be used for many saves, one after the other. saved_step is the train step of the last save that this learner
    knows to be committed. Errors are those of dlckpt, inside PyTorch's CheckpointException; after an error nothing is committed.
    """

    def __init__(self, dir: Optional[Path] = None, *, step: Optional[int] = None, keep: int = 0, timeout: float = 0.0) -> None:
        settings = find_settings(dir, keep=keep)
        self.dir = settings.dir
        self.step = step
        self.saved_step: Optional[int] = None
        self._keep = settings.keep
        self._timeout = timeout
        self._named_step: Optional[int] = None
        self._is_coordinator = True
        self._own_values: Set[str] = set()
        self._plans: List[SavePlan] = []

    def reset(self, checkpoint_id: Optional[Path] = None) -> None:
        self._named_step = None
        if checkpoint_id is not None:
            self.dir = os.fspath(checkpoint_id)
            number = re.search(r"(\d{1,12})/*$", self.dir)
            self._named_step = int(number.group(1)) if number else None

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        if self.dir is None:
            raise InvalidError("dlckpt.dcp.Writer has no directory: give it one, or a checkpoint_id to dcp.save()")
        if kwargs.get("use_collectives") is False:
            raise InvalidError("dlckpt.dcp commits one checkpoint of all learners: use_collectives=False is not possible")
        if is_coordinator and kwargs.get("rank", 0) != 0:
            raise InvalidError("dlckpt.dcp needs learner 0 as coordinator, not learner %s" % kwargs["rank"])
        self._is_coordinator = is_coordinator

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        if getattr(plan, "usable", True):  # otherwise the planner says that nothing changed
            self._own_values = {item.index.fqn for item in plan.items if item.type == WriteItemType.BYTE_IO}
        return plan

    def prepare_global_plan(self, plans: List[SavePlan]) -> List[SavePlan]:
        assert self.dir is not None
        if len(plans) == len(self._plans):
            plans = [new if getattr(new, "usable", True) else old for new, old in zip(plans, self._plans)]
        if not all(getattr(plan, "usable", True) for plan in plans):
            raise InvalidError("the planner re-uses a plan of a save by another writer; use one dlckpt.dcp.Writer for all saves, or "
                               "a planner without enable_plan_caching")
        self._plans = dcp_records.without_repeats(plans, self._own_values)
        found = dcp_records.contents(self._plans)
        step, run_id = self._next_step(), "dcp-" + uuid.uuid4().hex
        return [dataclasses.replace(plan, storage_data=_SaveTicket(self.dir, step, run_id, rank, len(plans), found))
                for rank, plan in enumerate(self._plans)]

    def _next_step(self) -> int:
        assert self.dir is not None
        for step in (self.step, self._named_step):
            if step is not None:
                return step
        there = committed.checkpoints(self.dir)
        return there[0].step + 1 if there else 0

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> "Future[List[WriteResult]]":
        ticket: _SaveTicket = plan.storage_data
        tensors: Dict[str, List[Tuple[Tuple[int, ...], torch.Tensor]]] = {}
        values: Dict[str, str] = {}
        results: List[WriteResult] = []
        for item in plan.items:
            data = planner.resolve_data(item)
            if isinstance(data, torch.Tensor):
                tensors.setdefault(item.index.fqn, []).append((_offsets(item), data.detach()))
                size = data.numel() * data.element_size()
            else:
                content = data.getvalue()
                values[item.index.fqn], size = base64.b64encode(content).decode(), len(content)
            results.append(WriteResult(item.index, size, None))
        with Context(ticket.dir, rank=ticket.rank, world_size=ticket.world_size, run_id=ticket.run_id, keep=self._keep,
                     timeout_s=self._timeout) as context:
            for fqn, entry in ticket.contents.tensors.items():
                _register(context, entry, tensors.get(fqn, []))
            own = json.dumps(values).encode()
            context.blob(dcp_records.METADATA_BLOB, dcp_records.to_json(ticket.contents) if ticket.rank == 0 else b"")
            context.blob(dcp_records.VALUES_BLOB, own if ticket.rank == 0 else b"")
            context.blob(dcp_records.RANK_VALUES_BLOB, b"{}" if ticket.rank == 0 else own, per_rank=True)
            context.save(ticket.step, library.SYNC)
        self.saved_step = ticket.step
        done: "Future[List[WriteResult]]" = Future()
        done.set_result(results)
        return done

    def finish(self, metadata: Metadata, results: List[List[WriteResult]]) -> None:
        """Does nothing: all learners have committed the checkpoint together already."""

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Path) -> bool:
        return "://" not in os.fspath(checkpoint_id)


class Reader(StorageReader):
    """A StorageReader of a checkpoint that dlckpt.dcp.Writer or dlckpt.attach() made, with any number of learners. Attached objects
    have the names that they had in attach(): dcp.load({"model": model.state_dict()}, storage_reader=...).

    dir      the directory, as for Writer
    step     train step to load; None: the newest
    timeout  longest wait for another learner in seconds (0: 600)

    loaded_step is the train step that was loaded. Every block is verified before anything is changed.
    """

    def __init__(self, dir: Optional[Path] = None, *, step: Optional[int] = None, timeout: float = 0.0) -> None:
        self.dir = find_settings(dir).dir
        self.step = step
        self.loaded_step: Optional[int] = None
        self._timeout = timeout
        self._found: Optional[committed.Committed] = None
        self._contents: Optional[dcp_records.Contents] = None

    def reset(self, checkpoint_id: Optional[Path] = None) -> None:
        if checkpoint_id is not None:
            self.dir = os.fspath(checkpoint_id)
        self._found = self._contents = None

    def read_metadata(self, *args: Any) -> Metadata:
        if self.dir is None:
            raise InvalidError("dlckpt.dcp.Reader has no directory: give it one, or a checkpoint_id to dcp.load()")
        self._found = committed.find(self.dir, self.step)
        self._contents = _contents(self._found)
        return dcp_records.to_metadata(self._contents)

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        if is_coordinator and kwargs.get("rank", 0) != 0:
            raise InvalidError("dlckpt.dcp needs learner 0 as coordinator, not learner %s" % kwargs["rank"])

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: List[LoadPlan]) -> List[LoadPlan]:
        assert self._found is not None and self._contents is not None
        wanted = tuple(sorted({item.storage_index.fqn for plan in plans for item in plan.items if _is_tensor(item)} -
                              set(self._contents.inline)))
        run_id = "dcp-" + uuid.uuid4().hex
        return [dataclasses.replace(plan, storage_data=_LoadTicket(self._found.step, run_id, rank, len(plans), wanted))
                for rank, plan in enumerate(plans)]

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> "Future[None]":
        assert self.dir is not None and self._contents is not None
        ticket: _LoadTicket = plan.storage_data
        # Keyed by the place in the checkpoint: tied weights of a program, which attach() has stored once, have the same place.
        entries = {entry.path: entry for entry in (self._contents.tensors[fqn] for fqn in ticket.wanted)}
        by_path: Dict[str, List[ReadItem]] = {path: [] for path in entries}
        inline = []
        for item in plan.items:
            if item.storage_index.fqn in self._contents.inline:
                inline.append(item)
            elif _is_tensor(item):
                by_path[self._contents.tensors[item.storage_index.fqn].path].append(item)
        with Context(self.dir, rank=ticket.rank, world_size=ticket.world_size, run_id=ticket.run_id,
                     timeout_s=self._timeout) as context:
            targets = [_Target(context, entries[path], items, planner) for path, items in by_path.items()]
            # So far nothing of the program has been changed. It only changes after everything that is read was verified.
            context.restore(ticket.step)
            for target in targets:
                target.finish(planner)
            for item in inline:
                self._give_inline(item, planner)
            self._give_values(context, [item for item in plan.items if not _is_tensor(item)], planner)
        self.loaded_step = ticket.step
        done: "Future[None]" = Future()
        done.set_result(None)
        return done

    def _give_inline(self, item: ReadItem, planner: LoadPlanner) -> None:
        assert self._contents is not None
        start, stop = _place(item)
        target = planner.resolve_tensor(item)
        target.detach().copy_(self._contents.inline[item.storage_index.fqn][tuple(slice(a, b) for a, b in zip(start, stop))])
        planner.commit_tensor(item, target)

    def _give_values(self, context: Context, items: List[ReadItem], planner: LoadPlanner) -> None:
        if not items:
            return
        assert self._contents is not None
        stored = _values(context, dcp_records.VALUES_BLOB)
        stored.update(_values(context, dcp_records.RANK_VALUES_BLOB))
        for item in items:
            fqn = item.storage_index.fqn
            if fqn in self._contents.given:
                content = io.BytesIO()
                torch.save(self._contents.given[fqn], content)
                content.seek(0)
                planner.load_bytes(item, content)
                continue
            if fqn not in stored:
                raise NotFoundError("%s was saved by learner %s alone, and only that learner can load it" %
                                    (fqn, self._contents.values.get(fqn)))
            planner.load_bytes(item, io.BytesIO(base64.b64decode(stored[fqn])))

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Path) -> bool:
        return bool(committed.checkpoints(os.fspath(checkpoint_id)))


def _contents(found: committed.Committed) -> dcp_records.Contents:
    try:
        return dcp_records.from_json(committed.read_blob(found, dcp_records.METADATA_BLOB), found.path)
    except NotFoundError:
        pass
    try:
        return dcp_attached.contents(committed.read_blob(found, STATE_BLOB), found.path)
    except NotFoundError as error:
        raise MismatchError("%s was not written by dlckpt.dcp or dlckpt.attach(): %s" % (found.path, error)) from error


class _Target:
    """Memory for what one learner reads of one tensor: the box around all of its pieces."""

    def __init__(self, context: Context, entry: dcp_records.TensorEntry, items: List[ReadItem], planner: LoadPlanner) -> None:
        self._pieces = [(item, _place(item), planner.resolve_tensor(item)) for item in items]
        self._path = entry.path
        self._memory: Optional[torch.Tensor] = None
        self._start: Tuple[int, ...] = ()
        zeros = (0,) * len(entry.stored_size)
        if entry.plain and not entry.size:  # a scalar cannot be divided, so each learner reads it
            self._memory = torch.empty((), dtype=torch_adapter.dtype_of(entry.dtype), device="cpu")
            context.tensor(entry.path, entry.dtype, (), self._memory.data_ptr(), flags=library.REPLICATED, owner=self._memory)
            return
        if not items:
            context.tensor(entry.path, entry.dtype, entry.stored_size, 0, offset=zeros, extent=zeros)
            return
        boxes = [box for _, box, _ in self._pieces]
        self._start = tuple(map(min, zip(*(start for start, _ in boxes)))) if entry.size else ()
        stop = tuple(map(max, zip(*(end for _, end in boxes)))) if entry.size else ()
        extent = tuple(b - a for a, b in zip(self._start, stop))
        _, _, first = self._pieces[0]
        # If the program's tensor has another element type, finish() converts the values.
        dtype = torch_adapter.dtype_of(entry.dtype)
        if len(items) == 1 and first.dtype == dtype and (
                first.device.type == "cpu" and first.is_contiguous() or torch_adapter.is_reached(first.detach())):
            self._memory = first.detach()
        else:
            try:
                self._memory = torch.empty(extent, dtype=dtype, device="cpu")
            except Exception as error:
                raise of_framework(error, entry.path, "no memory could be made for it") from error
        host = arrays.into_place(self._memory, device=True)
        context.tensor(entry.path, entry.dtype, entry.stored_size, host.pointer, offset=self._start or zeros,
                       extent=extent or (1,), owner=self._memory)

    def finish(self, planner: LoadPlanner) -> None:
        """Copies the values to the place where the planner wants them."""
        for item, (start, stop), target in self._pieces:
            assert self._memory is not None
            part = self._memory[tuple(slice(a - s, b - s) for s, a, b in zip(self._start, start, stop))]
            if part.data_ptr() != target.data_ptr():
                try:
                    target.detach().copy_(part)
                except Exception as error:
                    raise of_framework(error, self._path) from error
            planner.commit_tensor(item, target)


def _register(context: Context, entry: dcp_records.TensorEntry, parts: List[Tuple[Tuple[int, ...], torch.Tensor]]) -> None:
    """Registers one learner's parts of a tensor; there may be none."""
    zeros = (0,) * len(entry.stored_size)
    if not parts:
        context.tensor(entry.path, entry.dtype, entry.stored_size, 0, offset=zeros, extent=zeros)
    for number, (offsets, tensor) in enumerate(parts):
        try:
            host = arrays.to_store(tensor, device=True)
        except Exception as error:
            raise of_framework(error, entry.path) from error
        context.tensor(entry.path, entry.dtype, entry.stored_size, host.pointer, offset=offsets or zeros,
                       extent=tuple(tensor.shape) or (1,), owner=host.owner, flags=library.ANOTHER_PART if number else 0)


def _offsets(item: WriteItem) -> Tuple[int, ...]:
    assert item.tensor_data is not None
    return tuple(item.tensor_data.chunk.offsets)


def _is_tensor(item: ReadItem) -> bool:
    return item.type == LoadItemType.TENSOR


def _place(item: ReadItem) -> Tuple[Tuple[int, ...], Tuple[int, ...]]:
    """(start, end) of a piece in the whole tensor."""
    offset = item.storage_index.offset or (0,) * len(item.lengths)
    start = tuple(a + b for a, b in zip(offset, item.storage_offsets))
    return start, tuple(a + n for a, n in zip(start, item.lengths))


def _values(context: Context, path: str) -> Dict[str, str]:
    try:
        stored = json.loads(context.get_blob(path) or b"{}")
    except NotFoundError:
        return {}  # the job that saved did not have this learner
    except ValueError as error:
        raise CorruptError("%s: it cannot be read: %s" % (path, error)) from error
    return {str(key): str(value) for key, value in stored.items()}


__all__ = ["Writer", "Reader"]
