# SPDX-License-Identifier: Apache-2.0
"""dlckpt.open(): reads a checkpoint without owning its directory, and loads parts of it into a program of another shape."""
from __future__ import annotations

import itertools
import json
import os
import re
import sys
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import arguments, arrays, codec, dtypes
from .encoding import SCHEMA
from .errors import CorruptError, Error, InvalidError, MismatchError, NotFoundError, error_for, of_framework
from .parts import Parts
from .reader import Reader, TensorInfo
from .shard import Shard
from .attached import STATE_BLOB


class Loaded(NamedTuple):
    """The result of load_into(), by the program's names: ``loaded``; ``sliced``, of which only the common part was loaded;
    ``kept``, which kept their values, with the reason; and ``unused``, the names in the checkpoint that nothing asked for."""

    loaded: List[str]
    sliced: List[str]
    kept: Dict[str, str]
    unused: List[str]


class _Plan(NamedTuple):
    name: str
    target: Any
    source: TensorInfo
    sliced: bool


class Checkpoint(Mapping[str, Any]):
    """A checkpoint for reading: a mapping of tensors' paths ("model/embed.weight") to new arrays with their values. Made by
    dlckpt.open(). It takes no lease and writes nothing. Use it from one thread at a time."""

    def __init__(self, dir: Union[str, "os.PathLike[str]"], step: Optional[int] = None) -> None:
        self.dir = arguments.path("dir", dir)
        allowed = "None, or a train step from 0 to %d" % arguments.MAX_STEP
        self._reader = Reader(self.dir, None if step is None else arguments.whole("step", step, 0, arguments.MAX_STEP, allowed))
        self._look()

    def _look(self) -> None:
        self._passed_over = self._reader.message()
        self._tensors = {info.path: info for info in self._reader.tensors()}
        self._scalars: Optional[Dict[str, Dict[str, Any]]] = None
        self._record: Optional[Dict[str, Any]] = None
        self._kinds: Dict[str, str] = {}

    @property
    def step(self) -> int:
        """The train step after which it was saved."""
        return self._reader.step()

    @property
    def note(self) -> str:
        """Which newer checkpoints were passed over when this one was chosen, and why; "" if none."""
        return self._passed_over

    def steps(self) -> List[int]:
        """Train steps of all checkpoints in the directory now, newest first."""
        return self._reader.steps()

    def older(self) -> "Checkpoint":
        """Rejects this checkpoint and goes on to the next older one; returns itself. NotFoundError if there is none."""
        self._reader.older()
        self._look()
        return self

    def close(self) -> None:
        """Releases it. May be called again; the arrays that were loaded stay."""
        self._reader.close()

    def __enter__(self) -> "Checkpoint":
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._tensors) + len(self._inline())

    def __iter__(self) -> Iterator[str]:
        return itertools.chain(self._tensors, self._inline())

    def __contains__(self, path: object) -> bool:
        return path in self._tensors or path in self._inline()

    def __getitem__(self, path: str) -> Any:
        if path not in self:
            raise KeyError(path)
        return self.load(path)

    def __repr__(self) -> str:
        return "<dlckpt checkpoint of train step %d in %s: %d tensors>" % (self.step, self.dir, len(self._tensors))

    def info(self, path: str) -> TensorInfo:
        """dtype, shape and bytes of a tensor, without loading it. NotFoundError."""
        found = self._find(arguments.text("path", path))
        if found is None:
            raise NotFoundError("the checkpoint of train step %d in %s holds no tensor %s" % (self.step, self.dir, path))
        return found

    def _find(self, path: str) -> Optional[TensorInfo]:
        found = self._tensors.get(path)
        if found is not None:
            return found
        scalar = self._inline().get(path)
        return None if scalar is None else TensorInfo(path, str(scalar["dtype"]), (), dtypes.size(scalar["dtype"]))

    def _inline(self) -> Dict[str, Dict[str, Any]]:
        """By path: scalars of the state, such as a counter among a module's buffers, which a save puts into the record."""
        if self._scalars is None:
            record = self._state() or {}
            self._scalars = {}
            for name, tree in dict(record.get("objects", {}), state=record.get("state")).items():
                self._scalars.update(codec.inline_arrays(tree, codec.escape(name)))
        return self._scalars

    def load(self, path: str, offset: Optional[Sequence[int]] = None, extent: Optional[Sequence[int]] = None,
             kind: Optional[str] = None) -> Any:
        """A tensor as a new array, or its elements [offset, offset + extent). ``kind``: "numpy" or "torch"; None: the kind that
        the saving program had, or NumPy's. NotFoundError, InvalidError (a box outside the tensor), CorruptError, IoError."""
        info = self.info(path)
        if kind is not None and not (isinstance(kind, str) and kind in ("numpy", "torch")):
            raise arguments.refused("kind", kind, "'numpy', 'torch', or None")
        each = "None, or one number for each dimension of %s, whose shape is %s" % (path, list(info.shape))
        offset, extent = arguments.numbers("offset", offset, each), arguments.numbers("extent", extent, each)
        for given, numbers in (("offset", offset), ("extent", extent)):
            if numbers is not None and len(numbers) != len(info.shape):
                raise InvalidError("%s=%s has %d numbers; allowed: one for each dimension of %s, whose shape is %s" %
                                   (given, tuple(numbers), len(numbers), path, list(info.shape)))
        return self._new(info, kind or self._kind(path), offset, extent)

    def _new(self, info: TensorInfo, kind: str, offset: Optional[Sequence[int]], extent: Optional[Sequence[int]],
             big_endian: bool = False, order: Optional[Sequence[int]] = None) -> Any:
        if info.path not in self._tensors:
            return codec.decode(dict(self._inline()[info.path], kind=kind), _no_source)
        shape = info.shape if extent is None else tuple(int(n) for n in extent)
        try:
            value = arrays.empty(kind, info.dtype, shape, big_endian, order)
        except Exception as error:
            raise of_framework(error, info.path, "no memory could be made for it") from error
        self._fill(value, info, offset, extent)
        return value

    def objects(self) -> List[str]:
        """The names under which attach() was given objects; [] if the checkpoint was not written through attach()."""
        record = self._state()
        return sorted(record["objects"]) if record else []

    def state(self, name: str) -> Any:
        """The state of an attached object, as its state_dict() returned it:
        ``model.load_state_dict(checkpoint.state("model"))``. Its arrays are new ones. NotFoundError names the objects that
        exist."""
        record, name = self._state(), arguments.text("name", name)
        if record is None or name not in record["objects"]:
            raise NotFoundError("the checkpoint of train step %d in %s has no state of '%s'; there are: %s" %
                                (self.step, self.dir, name, ", ".join(self.objects()) or "none, since attach() did not write it"))
        loaded: Dict[str, Any] = {}

        def source(reference: Dict[str, Any]) -> Any:
            path = reference["path"]
            if path not in loaded:  # tied weights stay tied
                loaded[path] = self._new(self.info(path), reference["kind"], None, None, reference.get("order") == "big",
                                         codec.memory_order(reference, len(self.info(path).shape)))
            return loaded[path]

        return codec.decode(record["objects"][name], source)

    def load_into(self, target: Any, name: str = "model", *, rename: Optional[Mapping[str, Optional[str]]] = None,
                  optional: Sequence[str] = (), slices: Sequence[str] = (), cast: bool = False) -> Loaded:
        """Loads the tensors under ``name`` into the arrays of ``target`` (an object with state_dict(), or a dict of arrays), in place.

        ``rename``: maps the program's names to the checkpoint's, as patterns in which "*" stands for the same text on both sides;
        the first that fits counts, and None leaves a tensor alone. ``optional``: patterns of tensors that keep their values if the
        checkpoint has none that fits. ``slices``: patterns of tensors whose common part is loaded if the shapes differ.
        ``cast``: element types may differ. Everything is checked before the first value is changed: MismatchError names what does
        not fit. After a later CorruptError or IoError ``target`` is a mixture of old and new values."""
        rename, optional, slices = _as_patterns(rename, optional, slices)
        plans, kept = self._planned(target, arguments.text("name", name), rename, optional, slices, arguments.flag("cast", cast))
        try:
            for plan in plans:
                self._load_plan(plan)
        except Error as error:
            raise error_for(error.code, "%s; what was to be loaded into has been changed in part: make it anew before it is used" %
                            error.sentence) from error
        used = {plan.source.path for plan in plans}
        below = codec.escape(name) + "/" if name else ""
        return Loaded([p.name for p in plans if not p.sliced], [p.name for p in plans if p.sliced], kept,
                      sorted(path[len(below):] for path in self if path.startswith(below) and path not in used))

    # ---- what load_into() is made of

    def _planned(self, target: Any, name: str, rename: Mapping[str, Optional[str]], optional: Sequence[str], slices: Sequence[str],
                 cast: bool) -> Tuple[List[_Plan], Dict[str, str]]:
        below = codec.escape(name) if name else ""
        plans: List[_Plan] = []
        kept: Dict[str, str] = {}
        problems: List[str] = []
        for key, value in _arrays_of(target):
            other = _renamed(key, rename)
            if other is None:
                kept[key] = "left alone"
                continue
            path = "%s/%s" % (below, other) if below else other
            info = self._find(path)
            why, sliced = "the checkpoint has no %s" % path, False
            if info is not None:
                why, sliced = _why_not(value, info, key, cast, _fits(key, slices))
            if info is not None and not why:
                plans.append(_Plan(key, value, info, sliced))
            elif _fits(key, optional):
                kept[key] = why
            else:
                problems.append("%s: %s" % (key, why))
        if problems and below and not any(path.startswith(below + "/") for path in self):
            problems = ["it holds nothing named '%s'; load_into(..., name=...) takes one of: %s" %
                        (name, ", ".join(self.objects() or sorted({path.split("/")[0] for path in self})[:8]) or "none")]
        if problems:
            raise MismatchError("the checkpoint of train step %d does not fit, nothing of it was loaded: %s%s" %
                                (self.step, "; ".join(problems[:8]), "; and %d more" % (len(problems) - 8) if len(problems) > 8 else ""))
        return plans, kept

    def _load_plan(self, plan: _Plan) -> None:
        target = arrays.divided(plan.target)
        if plan.source.path not in self._tensors:
            arrays.copy(target, self.load(plan.source.path, kind=arrays.describe(target, plan.name).kind))
        elif isinstance(target, Parts):
            for offset, part in target.boxes:
                self._fill_or_cast(part, plan.source, offset, arrays.describe(part, plan.name).shape)
        elif isinstance(target, Shard):
            self._fill_or_cast(target.array, plan.source, target.offset, arrays.describe(target, plan.name).shape)
        elif plan.sliced:
            shape = arrays.describe(target, plan.name).shape
            common = tuple(min(a, b) for a, b in zip(shape, plan.source.shape))
            part = self.load(plan.source.path, (0,) * len(common), common, arrays.describe(target, plan.name).kind)
            arrays.copy(target[tuple(slice(n) for n in common)], part)
        else:
            self._fill_or_cast(target, plan.source, None, None)

    def _fill_or_cast(self, target: Any, source: TensorInfo, offset: Optional[Sequence[int]], extent: Optional[Sequence[int]]) -> None:
        info = arrays.describe(target, source.path)
        if info.dtype == source.dtype:
            self._fill(target, source, offset, extent)
        else:
            arrays.copy(target, self.load(source.path, offset, extent, info.kind))

    def _fill(self, value: Any, info: TensorInfo, offset: Optional[Sequence[int]], extent: Optional[Sequence[int]]) -> None:
        try:
            self._read_into(value, info, offset, extent)
        except Exception as error:
            raise of_framework(error, info.path) from error

    def _read_into(self, value: Any, info: TensorInfo, offset: Optional[Sequence[int]], extent: Optional[Sequence[int]]) -> None:
        host = arrays.into_place(value)
        count = dtypes.size(info.dtype)
        for n in info.shape if extent is None else extent:
            count *= int(n)
        if host.strides is None:
            self._reader.load(info.path, host.pointer, count, offset, extent)
            if host.finish is not None:
                host.finish()
            return
        # The reader writes without gaps, but this array has gaps, so the values go through a new one.
        shape = info.shape if extent is None else tuple(int(n) for n in extent)
        plain = arrays.empty(arrays.describe(value, info.path).kind, info.dtype, shape)
        self._fill(plain, info, offset, extent)
        arrays.copy(value, plain)

    # ---- what the checkpoint says of itself

    def _state(self) -> Optional[Dict[str, Any]]:
        if self._record is None:
            data = self._reader.blob(STATE_BLOB)
            if data is None:
                return None
            try:
                self._record = json.loads(data)
            except ValueError as error:
                raise CorruptError("the checkpoint of train step %d in %s: what attach() wrote of its objects cannot be understood: %s" %
                                   (self.step, self.dir, error)) from error
            if not isinstance(self._record, dict) or self._record.get("schema") != SCHEMA:
                raise MismatchError("the checkpoint of train step %d was written by another version of dlckpt.attach(); this version "
                                    "reads schema %d" %
                                    (self.step, SCHEMA))
            self._kinds = {path: str(reference["kind"]) for path, reference in codec.references(self._record).items()}
        return self._record

    def _kind(self, path: str) -> str:
        self._state()
        scalar = None if path in self._tensors else self._inline().get(path)
        kind = self._kinds.get(path, "numpy") if scalar is None else scalar["kind"]
        # CuPy's arrays are read on the host. Without torch NumPy gives the same values.
        return "torch" if kind == "torch" and _can_import("torch") else "numpy"


def open(dir: Union[str, "os.PathLike[str]"], step: Optional[int] = None) -> Checkpoint:  # noqa: A001
    """Opens the newest checkpoint of a directory that looks whole, or the newest one of a train step, for reading: while its
    job trains, as another user, or from a read-only file system. Not collective: each process reads for itself. NotFoundError,
    CorruptError, DeniedError, IoError."""
    return Checkpoint(dir, step)


def _can_import(module: str) -> bool:
    if module in sys.modules:
        return True
    import importlib.util
    return importlib.util.find_spec(module) is not None


def _no_source(reference: Dict[str, Any]) -> Any:
    raise CorruptError("the checkpoint's record refers to %s where a value belongs" % reference.get("path"))


def _arrays_of(target: Any) -> List[Tuple[str, Any]]:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(target, torch.nn.Module):
        from . import torch_adapter
        target = torch_adapter.unwrap(target)
    tree = target.state_dict() if hasattr(target, "state_dict") else target
    if not isinstance(tree, Mapping):
        raise InvalidError("load_into() was given a %s; allowed: an object with state_dict(), or a dict of arrays" % type(target).__name__)
    found: List[Tuple[str, Any]] = []
    codec.encode(dict(tree), "", lambda path, value: found.append((path[1:], value)))
    return found


def _as_patterns(rename: Any, optional: Any, slices: Any) -> Tuple[Dict[str, Optional[str]], List[str], List[str]]:
    """What load_into() is given of patterns. InvalidError, also for one text where a list of texts belongs."""
    if rename is not None and not (isinstance(rename, Mapping) and all(isinstance(ours, str) for ours in rename) and
                                   all(theirs is None or isinstance(theirs, str) for theirs in rename.values())):
        raise arguments.refused("rename", rename, "a dict of patterns, such as {'encoder.*': 'model.*'}, or None as its value")
    lists: List[List[str]] = []
    for what, patterns in (("optional", optional), ("slices", slices)):
        given = None if isinstance(patterns, (str, bytes, Mapping)) or not hasattr(patterns, "__iter__") else list(patterns)
        if given is None or not all(isinstance(pattern, str) for pattern in given):
            raise arguments.refused(what, patterns, "a list of patterns, such as ['head.*']")
        lists.append(given)
    return dict(rename or {}), lists[0], lists[1]


def _expression(pattern: str) -> str:
    return "(.*)".join(re.escape(part) for part in pattern.split("*"))


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(re.fullmatch(_expression(pattern), name, re.DOTALL) for pattern in patterns)


def _renamed(name: str, rename: Mapping[str, Optional[str]]) -> Optional[str]:
    for ours, theirs in rename.items():
        found = re.fullmatch(_expression(ours), name, re.DOTALL)
        if not found:
            continue
        if theirs is None:
            return None
        if theirs.count("*") > ours.count("*"):
            raise InvalidError("rename: '%s' has more '*' than '%s'" % (theirs, ours))
        texts = iter(found.groups())
        return "".join(part if part != "*" else next(texts) for part in re.split(r"(\*)", theirs))
    return name


def _why_not(value: Any, info: TensorInfo, key: str, cast: bool, may_slice: bool) -> Tuple[str, bool]:
    """The reason for which the tensor cannot be loaded into this array ("" if it can), and whether only a part of it is loaded."""
    ours = arrays.describe(value, key)
    why = arrays.why_not_filled(value)
    if why:
        return why, False
    if ours.dtype != info.dtype and not cast:
        return "%s in the checkpoint, %s in the program (cast=True converts)" % (info.dtype, ours.dtype), False
    if info.dtype.startswith("complex") and not ours.dtype.startswith("complex"):
        return "%s in the checkpoint, %s in the program, which has no imaginary part" % (info.dtype, ours.dtype), False
    if ours.global_shape == info.shape:
        return "", False
    shapes = "shape %s in the checkpoint, %s in the program" % (list(info.shape), list(ours.global_shape))
    if may_slice and len(ours.global_shape) == len(info.shape) and ours.offset is None:
        return "", True
    return shapes, False
