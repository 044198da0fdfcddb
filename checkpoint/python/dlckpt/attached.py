# SPDX-License-Identifier: Apache-2.0
"""Connects the attached objects with a Context: registers arrays for a save, and restores the objects from a checkpoint.

A checkpoint has, besides the tensors, two JSON blobs (codec.py): STATE, the same for all learners (rank 0's copy), with
the trees of all objects and of job.state, and RANK, each learner's own, with random states and PerRank objects.
"""
from __future__ import annotations

import ctypes
import functools
import gc
import json
import math
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple, TypeVar, cast

from . import arrays, codec, dtypes, foreign, library
from .context import Context
from .encoding import SCHEMA, Encoded, encode
from .entries import Entry, apply_error
from .errors import CorruptError, Error, IoError, MismatchError, NoMemoryError, NotFoundError, StateError
from .errors import error_for, is_of_device, of_framework
from .memory import Memory
from .objects import DefaultRandomEntry
from .parts import ArrayInfo, Parts
from .reader import Reader
from .unmoved import Unmoved
from .world import World

STATE_BLOB = "dlckpt.python/state.json"
RANK_BLOB = "dlckpt.python/rank.json"
_Registered = Tuple[Any, Tuple[Any, ...], Any]
_NOTHING: _Registered = (None, (), None)  # stands for a path that is not registered


class Restored(NamedTuple):
    """train_step, world size of the run that saved it, remarks for the user, and its progress in samples (Attached.progress)."""

    step: int
    world_size: int
    notes: List[str]
    progress: Dict[str, Any]


class Peeked(NamedTuple):
    """A checkpoint's train step, its STATE and RANK as written, and a remark of libdlckpt for the user, or ""."""

    step: int
    shared: Dict[str, Any]
    own: Optional[Dict[str, Any]]
    note: str


def peek(context: Context, remarks: Optional[List[str]] = None,
         otherwise: Optional[Callable[[int], Dict[str, Any]]] = None) -> Optional[Peeked]:
    """Collective. Reads the two records of the newest checkpoint that verifies, without restoring anything; None if there is
    none. In that case parts of a checkpoint that nodes still hold, but which do not suffice, are mentioned in the remarks."""
    try:
        step, note = context.peek()
    except NotFoundError as error:
        if remarks is not None and " on the nodes: " in error.sentence:
            remarks.append(error.sentence)
        return None
    return _read_blobs(context, step, note, otherwise)


def _read_blobs(context: Context, step: int, note: str, otherwise: Optional[Callable[[int], Dict[str, Any]]] = None) -> Peeked:
    """``otherwise`` makes the STATE of a checkpoint that attach() did not write."""
    try:
        shared = json.loads(context.get_blob(STATE_BLOB))
    except NotFoundError:
        if otherwise is not None:
            return Peeked(step, otherwise(step), None, note)
        raise MismatchError("the checkpoint of train step %d was not written through dlckpt.attach(): it holds no state of "
                            "Python objects" % step) from None
    try:
        own = json.loads(context.get_blob(RANK_BLOB))
    except NotFoundError:
        own = None
    for record in (shared, own):
        if record is not None and record.get("schema") != SCHEMA:
            raise MismatchError("the checkpoint of train step %d has schema %s of dlckpt.attach(); this version reads %d" %
                                (step, record.get("schema"), SCHEMA))
    return Peeked(step, shared, own, note)


class _Trees(NamedTuple):
    """Entries with the trees that are restored to them: those of all learners, then job.state, then this learner's own."""

    objects: List[Tuple[Entry, Any]]
    state: Dict[str, Any]
    own: List[Tuple[Entry, Any]]


def _changed(error: Exception) -> Error:
    """The error for an exception in the middle of a restore, which also says what this means for the program's state."""
    meaning = ("what was attached has been changed in part, holds values of two states and must not be trained with; make the objects "
               "anew and attach them again, or start the program again")
    if not isinstance(error, Error):
        return IoError("the checkpoint could not be given back: %s: %s; %s" % (type(error).__name__, error, meaning))
    return error_for(error.code, "%s; %s" % (error.sentence, meaning))


_Function = TypeVar("_Function", bound=Callable[..., Any])


def _without_collector(function: _Function) -> _Function:
    """Switches the garbage collector off: with a million small objects that all stay, it would take a third of the time."""
    @functools.wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        was_on = gc.isenabled()
        gc.disable()
        try:
            return function(*args, **options)
        finally:
            if was_on:
                gc.enable()
    return cast(_Function, run)


class Attached:
    """Saves and restores a fixed set of entries through one context, which is open on ``dir``. ``state`` is job.state, the
    user's dict."""

    def __init__(self, context: Context, dir: str, world: World, entries: List[Entry], state: Dict[str, Any], strict: bool) -> None:
        self._context = context
        self._dir = dir
        self._world = world
        self._shared = [e for e in entries if not e.per_rank]
        self._own = [e for e in entries if e.per_rank]
        self._state = state
        self._strict = strict
        # path: (the object that owns the memory, which the next save may use again for its copy; what was registered; of a plain array
        # what encode() found, which it finds again while nothing has changed)
        self._registered: Dict[str, _Registered] = {}
        self._unmoved: Dict[str, Unmoved] = {}
        self.progress: Dict[str, Any] = {}  # plain values, recorded with each save: samples, batch, ...
        self.remarks: List[str] = []  # remarks for the user if nothing is restored
        # Addresses that a lazy save may read until before_mutation(); None: saves are not lazy.
        self.guarded: Optional[Set[int]] = None

    # ---- save ----------------------------------------------------------------------------------------------------------

    def encode(self, step: int, anew: bool = False) -> Encoded:
        """The state as it is now. StateError for state that cannot be stored. Nothing is changed."""
        return encode(step, self._world, self._shared, self._own, self._state, self.progress, self._unmoved, anew)

    @_without_collector
    def prove(self) -> None:
        """Raises StateError if the state cannot be stored, or could be stored but not restored: at the start, not after hours
        at the first save, or after days at the first restore."""
        shared, own, found, _ = self.encode(0, anew=True)  # checks that JSON returns all values as they were
        problems: List[str] = []
        for entries, record in ((self._shared, shared), (self._own, own)):
            for e in entries:
                problems += e.check(record["objects"][e.name])
        if problems:
            raise StateError("what attach() was given could be saved, but not restored: " + "; ".join(problems))
        codec.decode([shared["objects"], own["objects"], shared["state"]], lambda reference: found[reference["path"]][0])

    @_without_collector
    def save(self, step: int, flags: int = 0) -> str:
        """Collective. Saves the state as the checkpoint of train step ``step``; see Context.save. With library.LAZY only the
        arrays in ``guarded`` are read later; all others are copied now."""
        self._context.before_mutation()  # waits before the copies of the last save are overwritten
        encoded = self.encode(step)
        found = encoded.arrays
        for path in [path for path in self._registered if path not in found]:
            self._forget(path)
        register, registered = self._context.whole_tensors(), self._registered
        for path, item in found.items():
            if registered.get(path, _NOTHING)[2] is item and self.guarded is None:
                continue
            value, divided, plain = item
            info = arrays.describe(value, path)
            if plain and divided and self.guarded is None:  # there may be a million of these
                key = (info.dtype, info.shape, plain)
                if registered.get(path, _NOTHING)[1] != key:
                    register(path, info.dtype, info.shape, plain)
                registered[path] = (value, key, item)
            elif isinstance(value, Parts):
                self._register_parts(path, value, [self._to_store(path, part) for _, part in value.boxes])
            elif divided:
                self._register(path, info, self._to_store(path, value))
            elif self._world.rank == 0:
                zeros = (0,) * len(info.shape)
                self._register(path, info._replace(offset=zeros), self._to_store(path, value))
            else:  # learner 0's copy is written; this learner registers an empty part
                zeros = (0,) * len(info.shape)
                self._register(path, info._replace(offset=zeros, shape=zeros), Memory(0, None, None))
        self._context.blob(STATE_BLOB, encoded.shared_json())
        self._context.blob(RANK_BLOB, encoded.own_json(), per_rank=True)
        return self._context.save(step, flags)

    def _to_store(self, path: str, value: Any) -> Memory:
        try:
            return self._memory_of(path, value)
        except Exception as error:
            raise of_framework(error, path) from error

    def _memory_of(self, path: str, value: Any) -> Memory:
        if self.guarded is None:
            return arrays.to_store(value, self._registered.get(path, _NOTHING)[0], True, True)
        memory = arrays.to_store(value, self._registered.get(path, _NOTHING)[0], device=True)
        if memory.pointer in self.guarded or not memory.pointer:
            return memory
        if memory.on_device:
            return arrays.to_store(value, self._registered.get(path, _NOTHING)[0])
        return arrays.copied(value, memory)

    def _register(self, path: str, info: ArrayInfo, host: Memory) -> None:
        key = (info.dtype, info.shape, info.global_shape, info.offset, host.pointer, host.strides)
        if self._registered.get(path, _NOTHING)[1] != key:
            if info.offset is None:
                self._context.tensor(path, info.dtype, info.shape, host.pointer, strides=host.strides,
                                     flags=library.REPLICATED)
            else:
                self._context.tensor(path, info.dtype, info.global_shape, host.pointer, offset=info.offset, extent=info.shape,
                                     strides=host.strides)
        self._registered[path] = (host.owner, key, None)

    def _register_parts(self, path: str, value: Parts, hosts: List[Memory]) -> None:
        key = (value.dtype, value.shape, tuple((offset, host.pointer, host.strides) for (offset, _), host in zip(value.boxes, hosts)))
        if self._registered.get(path, _NOTHING)[1] == key:
            self._registered[path] = (hosts, key, None)
            return
        flags = library.REPLICATED if value.shared else 0
        boxes = [(offset, tuple(int(n) for n in part.shape), host.pointer, host.strides) for (offset, part), host in zip(value.boxes, hosts)]
        zeros = (0,) * len(value.shape)
        for number, (offset, extent, pointer, strides) in enumerate(boxes or [(zeros, zeros, 0, None)]):
            self._context.tensor(path, value.dtype, value.shape, pointer, offset=offset, extent=extent, strides=strides, owner=hosts,
                                 flags=flags | (library.ANOTHER_PART if number else 0))
        self._registered[path] = (hosts, key, None)

    def _forget(self, path: str) -> None:
        self._context.forget(path)
        del self._registered[path]

    def _forget_all(self) -> None:
        for path in list(self._registered):
            self._forget(path)

    # ---- restore -------------------------------------------------------------------------------------------------------

    @_without_collector
    def restore(self) -> Optional[Restored]:
        """Collective. Restores the newest checkpoint that verifies; None if there is none. MismatchError, with nothing changed,
        if it does not fit the program; CorruptError if none verifies.

        It goes through libdlckpt twice: which tensors there are (an optimizer has none before its first step) is only known from
        STATE, which the first pass loads, with no tensor registered.
        """
        self._forget_all()
        peeked = peek(self._context, self.remarks, self._foreign)
        if peeked is None:
            return None
        notes: List[str] = []
        changed = False
        try:
            while True:
                step, shared, own, note = peeked
                notes += [note] if note else []
                skipped = self._check(step, shared, own, notes)
                finishers, restored = self._register_targets(step, shared, skipped)
                # Everything that can be refused is refused up to here, because the next call changes the program's arrays.
                trees = self._decode(shared, own, restored, skipped)
                changed = True
                try:
                    found, note = self._context.restore(step)
                    if found == step and not note:
                        break
                    peeked = _read_blobs(self._context, found, note, self._foreign)
                except CorruptError as error:  # found while it was loaded: take the one before, which may have other arrays
                    self._forget_all()
                    notes.append(str(error))
                    peeked = peek(self._context, None, self._foreign)
                    if peeked is None:
                        raise
            for path, finish in finishers:
                try:
                    finish()
                except Exception as error:
                    raise of_framework(error, path) from error
            self._apply(trees, int(shared.get("world_size", 0)), notes)
        except Exception as error:
            if changed:
                raise _changed(error) from error
            raise
        self._forget_all()
        progress = shared.get("progress")
        return Restored(step, int(shared.get("world_size", 0)), notes, progress if isinstance(progress, dict) else {})

    def restore_members(self, step: int) -> None:
        """Collective. Puts only the files of a checkpoint at their paths."""
        self._forget_all()
        self._context.restore(step)

    def _foreign(self, step: int) -> Dict[str, Any]:
        """The STATE of a checkpoint that another program wrote. Objects that it does not contain stay as the program made them."""
        found = foreign.find(self._dir, step, self._shared)
        return {"schema": SCHEMA, "train_step": step, "world_size": self._world.size, "objects": found.objects,
                "state": codec.encode(self._state, "state", None), "foreign": found.note}

    def _check(self, step: int, shared: Dict[str, Any], own: Optional[Dict[str, Any]], notes: List[str]) -> Set[str]:
        """Raises MismatchError with everything that does not fit. Returns the names of entries without a saved state."""
        saved = shared["objects"]
        missing = [e.name for e in self._shared if e.name not in saved]
        unknown = sorted(set(saved) - {e.name for e in self._shared})
        problems = []
        advice = "start anew with another dir, into which dlckpt.open(%r).load_into() takes parts of this one" % self._dir
        if (missing or unknown) and not shared.get("foreign"):
            advice = "give attach() the same objects as before, or strict=False; or " + advice
        if missing:
            problems.append("attach() was given %s, of which the checkpoint has nothing" % ", ".join(missing))
        if unknown:
            problems.append("the checkpoint has the state of %s, which attach() was not given" % ", ".join(unknown))
        if shared.get("foreign"):
            notes.append(str(shared["foreign"]))
            problems = []
        elif problems and not self._strict:
            notes += [problem + "; going on without (strict=False)" for problem in problems]
            problems = []
        for e in self._shared:
            if e.name in saved:
                problems += e.check(saved[e.name])
        if own is not None:
            for e in self._own:
                if e.name in own["objects"]:
                    problems += e.check(own["objects"][e.name])
        if problems:
            raise MismatchError("the checkpoint of train step %d does not fit the program, nothing of it was loaded: %s (%s)" %
                                (step, "; ".join(problems), advice))
        return set(missing)

    def _register_targets(self, step: int, shared: Dict[str, Any],
                          skipped: Set[str]) -> Tuple[List[Tuple[str, Callable[[], None]]], Dict[str, Any]]:
        """Registers memory for every array of the checkpoint: the live array if it fits, else a new one."""
        self._forget_all()
        live: Dict[str, Any] = {}
        for e in self._shared:
            if e.name not in skipped:
                codec.encode(e.targets(), codec.escape(e.name), lambda path, value: live.__setitem__(path, value))
        wanted = {name: tree for name, tree in shared["objects"].items() if name in {e.name for e in self._shared}}
        finishers: List[Tuple[str, Callable[[], None]]] = []
        restored: Dict[str, Any] = {}
        places: Dict[Any, str] = {}
        for path, reference in codec.references([wanted, shared["state"]]).items():
            try:
                target = self._target(path, reference, live.get(path))
            except Exception as error:
                raise of_framework(error, path, "no memory could be made for it") from error
            restored[path] = target
            place = arrays.place_of(arrays.divided(target))
            if place is not None and places.setdefault(place, path) != path and self._same_values(step, places[place], path, reference):
                continue  # one array in the program (tied weights), but two tensors in the checkpoint
            inner = arrays.divided(target)
            try:
                hosts = [arrays.into_place(part, device=True) for _, part in inner.boxes] if isinstance(inner, Parts) else \
                    [arrays.into_place(inner, device=True)]
            except Exception as error:
                raise of_framework(error, path, "no memory could be made for it") from error
            finishers += [(path, host.finish) for host in hosts if host.finish is not None]
            if isinstance(inner, Parts):
                self._register_parts(path, inner, hosts)
            else:
                self._register(path, arrays.describe(inner, path), hosts[0])
        return finishers, restored

    def _same_values(self, step: int, path: str, other: str, reference: Dict[str, Any]) -> bool:
        """Whether these two tensors of the checkpoint are equal, so that one can be restored for both. False if they cannot be
        read; the restore will report why. MismatchError if they differ, because both cannot be in the same memory."""
        try:
            reader = Reader(self._dir, step)
            try:
                shape, item = [int(n) for n in reference["shape"]], dtypes.size(reference["dtype"])
                differ = not all(self._same_part(reader, path, other, *box) for box in _rows(shape, item))
            finally:
                reader.close()
        except (CorruptError, NotFoundError, IoError):
            return False
        if differ:
            raise MismatchError("%s and %s are one array in the program (tied weights), and differ in the checkpoint of train step %d; "
                                "nothing of it was loaded. Untie them, or take one by dlckpt.open(dir).load_into()" % (path, other, step))
        return True

    @staticmethod
    def _same_part(reader: Reader, path: str, other: str, offset: Optional[List[int]], extent: Optional[List[int]], size: int) -> bool:
        values = [bytearray(size), bytearray(size)]
        for name, value in zip((path, other), values):
            if size:
                reader.load(name, ctypes.addressof(ctypes.c_char.from_buffer(value)), size, offset, extent)
        return values[0] == values[1]

    def _target(self, path: str, reference: Dict[str, Any], live: Any) -> Any:
        shape = tuple(int(n) for n in reference["shape"])
        if live is not None and not arrays.why_not_filled(live):
            info = arrays.describe(live, path)
            if (info.dtype, info.global_shape) == (reference["dtype"], shape):
                return live
        for e in self._shared:
            made = e.make_target(path, reference)
            if made is not None:
                return made
        if reference.get("sharded"):
            raise MismatchError("%s: the checkpoint holds it divided over learners; the program must present a dlckpt.Shard of "
                                "its part (%s of %s) before the restore" % (path, reference["dtype"], list(shape)))
        return arrays.empty(reference["kind"], reference["dtype"], shape, reference.get("order") == "big",
                            codec.memory_order(reference, len(shape)))

    def _decode(self, shared: Dict[str, Any], own: Optional[Dict[str, Any]], restored: Dict[str, Any],
                skipped: Set[str]) -> "_Trees":
        """Decodes the trees that are restored to each entry; their arrays are still to be filled. MismatchError if that is
        impossible."""
        def source(reference: Dict[str, Any]) -> Any:
            return restored[reference["path"]]

        try:
            objects = [(e, codec.decode(shared["objects"][e.name], source)) for e in self._shared if e.name not in skipped]
            # The default generators come last, because restoring the others may draw random numbers.
            own_objects = [(e, codec.decode(own["objects"][e.name], source))
                           for e in sorted(self._own, key=lambda e: isinstance(e, DefaultRandomEntry))
                           if own is not None and e.name in own["objects"]]
            state = codec.decode(shared["state"], source)
            if type(state) is not dict:
                raise MismatchError("the checkpoint holds something else than a dict as job.state, which cannot be given back")
            return _Trees(objects, state, own_objects)
        except (IoError, NoMemoryError):
            raise
        except Error as error:
            raise MismatchError("nothing was loaded: %s" % error) from error
        except Exception as error:  # no version of dlckpt has written this
            raise MismatchError("nothing was loaded, for what the checkpoint says of its objects cannot be understood: %s: %s" %
                                (type(error).__name__, error)) from error

    def _apply(self, trees: "_Trees", world_size: int, notes: List[str]) -> None:
        for e, tree in trees.objects:
            self._give_back(e, tree)
        self._state.clear()
        self._state.update(trees.state)
        for e, tree in trees.own:
            self._give_back(e, tree)
        if world_size != self._world.size and self._own:
            notes.append("saved by %s learners, resumed by %d: the state is the same, but what random numbers each learner draws "
                         "from here on is not" % (world_size, self._world.size))

    @staticmethod
    def _give_back(entry: Entry, state: Any) -> None:
        try:
            entry.apply(state)
        except Error:
            raise
        except Exception as error:  # a user's own load_state_dict() may raise anything
            raise of_framework(error, entry.name) if is_of_device(error) else apply_error(entry.name, error) from error


def _rows(shape: List[int], item: int) -> Iterator[Tuple[Optional[List[int]], Optional[List[int]], int]]:
    """Boxes of whole rows that cover a tensor, of about 16 MiB each, since a tensor may fill most of the memory: offset and
    extent (None for a scalar) and bytes."""
    if not shape:
        yield None, None, item
        return
    row = math.prod(shape[1:]) * item
    rows = max(1, (16 << 20) // max(1, row))
    for begin in range(0, shape[0], rows):
        count = min(rows, shape[0] - begin)
        yield [begin] + [0] * (len(shape) - 1), [count] + shape[1:], count * row


__all__ = ["Attached", "Restored", "CorruptError"]
