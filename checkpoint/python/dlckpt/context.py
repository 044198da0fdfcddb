# SPDX-License-Identifier: Apache-2.0
"""The C API, function by function, with errors as exceptions (errors.py) and contexts that close themselves.

Most programs want :func:`dlckpt.attach` instead; this is for those that drive their own loop. dlckpt.h is the contract:
what is collective, who owns what, and what is left behind on an error.
"""
from __future__ import annotations

import ctypes
import functools
import os
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence, Tuple

from . import arguments, dtypes, library
from .errors import Error, InternalError, InvalidError, LibraryError, error_for


def _encode(text: Optional[str]) -> Optional[bytes]:
    return None if text is None else text.encode()


def _int64s(values: Optional[Sequence[int]]) -> Any:
    return None if values is None else _array_of(tuple(values))


# libdlckpt only reads the array, and a program's tensors have few different shapes, so arrays are kept for reuse.
@functools.lru_cache(maxsize=1024)
def _array_of(values: Tuple[int, ...]) -> Any:
    return (ctypes.c_int64 * max(1, len(values)))(*values)


_NUMBERS = {name: number for name, (number, _) in dtypes.DTYPES.items()}


class SaveStats(NamedTuple):
    """Numbers of the last finished save as this learner saw it, and totals since the directory was opened; times in seconds."""

    step: int = -1  # -1: there was no save yet
    outcome: int = 0  # library.OK, or the code of an error
    level: int = 0
    bytes: int = 0  # size of the state that this learner had to store
    written_bytes: int = 0
    reused_bytes: int = 0  # not written, because it has not changed since an earlier save
    blocked_s: float = 0.0  # time for which training waited
    copy_s: float = 0.0
    write_s: float = 0.0
    fsync_s: float = 0.0
    commit_s: float = 0.0
    durable_s: float = 0.0  # from the call until the checkpoint existed; 0 if it failed
    saves: int = 0
    failed_saves: int = 0
    total_written_bytes: int = 0
    total_blocked_s: float = 0.0
    object_step: int = -1  # learner 0: the last train step in the object store
    object_saves: int = 0
    failed_object_saves: int = 0


class Context:
    """One rank's open checkpoint directory (dlckpt_ctx). Use it from one thread at a time. Close it, or use ``with``.

    Arguments left at None or 0 come from the environment, as dlckpt.h says. Raises the errors of dlckpt_open: BusyError if
    another job holds the directory, DeniedError, InvalidError, IoError, NoMemoryError; LibraryError without the library.
    """

    def __init__(self, dir: Optional[str] = None, *, rank: int = 0, world_size: int = 0, run_id: Optional[str] = None,
                 every_s: float = 0.0, every_steps: int = 0, keep: int = 0, timeout_s: float = 0.0, keep_every: int = 0,
                 best: Optional[str] = None) -> None:
        self._handle = ctypes.c_void_p()
        given = arguments.of_context(run_id, timeout_s, keep_every, best, keep)
        every_s, every_steps = arguments.real("every_s", every_s), arguments.whole("every_steps", every_steps, 0, arguments.MAX_STEP)
        rank, world_size = (arguments.whole(name, value, 0, arguments.MAX_LEARNERS) for name, value in (("rank", rank), ("world_size", world_size)))
        self._lib = library.load()
        self._pid = os.getpid()
        self._memory: Dict[str, object] = {}
        self._saved = SaveStats()
        # struct_size only covers the members that are used here, so that an older library accepts the struct.
        options = library.Options(library.Options.mode.offset, None if dir is None else library.path_bytes(arguments.path("dir", dir)),
                                  rank, world_size, _encode(given["run_id"]), every_s, every_steps, given["keep"], given["timeout_s"],
                                  given["keep_every"], _encode(given["best"]))
        code = self._lib.dlckpt_open(ctypes.byref(options), ctypes.byref(self._handle))
        if code != library.OK:
            raise error_for(code, (self._lib.dlckpt_open_error() or b"").decode("utf-8", "replace"))

    def close(self) -> str:
        """Waits for the save in flight and for the object store, then releases everything, the lease included. Returns what was left
        undone, in one sentence: the newest checkpoint is not in the object store; else "". May be called again."""
        undone = ""
        # A forked child (a DataLoader's worker) has a copy of this object, which must not release its parent's lease.
        if self._handle and os.getpid() == self._pid:
            self._lib.dlckpt_close(self._handle)
            if library.has("dlckpt_close_error"):
                undone = (self._lib.dlckpt_close_error() or b"").decode("utf-8", "replace")
        self._handle = ctypes.c_void_p()
        self._memory.clear()
        return undone

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # the interpreter is shutting down, so nobody can be informed
            pass

    def _check(self, code: int) -> None:
        if code != library.OK:
            raise error_for(code, self.message())

    def _open(self) -> ctypes.c_void_p:
        if not self._handle:
            raise InvalidError("this checkpoint context is closed; open another one")
        if os.getpid() != self._pid:  # for libraries that do not notice a fork themselves
            raise InvalidError("this is a child of fork(): the checkpoint context belongs to its parent, and the child may only "
                               "close it")
        return self._handle

    def tensor(self, path: str, dtype: str, shape: Sequence[int], pointer: int, *, offset: Optional[Sequence[int]] = None,
               extent: Optional[Sequence[int]] = None, strides: Optional[Sequence[int]] = None, flags: int = 0,
               owner: object = None) -> None:
        """Registers memory to be saved and restored (dlckpt_tensor_strided). ``pointer`` is the address of the box's first
        element (0 if it is empty); ``strides`` are in bytes, None means C order without gaps. ``owner`` is kept alive as long
        as the registration. ``dtype`` is a name in dtypes.DTYPES, ``flags`` is made of library.REPLICATED and so on."""
        known = dtypes.DTYPES.get(dtype)
        if known is None:
            raise InvalidError("%s: the dtype '%s' cannot be stored; allowed: %s" % (path, dtype, ", ".join(dtypes.DTYPES)))
        code = self._lib.dlckpt_tensor_strided(self._open(), path.encode(), known[0], len(shape), _array_of(tuple(shape)),
                                               None if offset is None else _int64s(offset), None if extent is None else _int64s(extent),
                                               None if strides is None else _int64s(strides), pointer or None, flags)
        if code != library.OK:
            self._check(code)
        self._memory[path] = (owner, self._memory.get(path)) if flags & library.ANOTHER_PART else owner

    def whole_tensors(self) -> "Callable[[str, str, Tuple[int, ...], int], None]":
        """A function that does the same as tensor(path, dtype, shape, pointer, flags=REPLICATED) in half the time, for a program that
        registers very many. The dtype must be known. Use it at once, not after close() or in a child of fork()."""
        handle, register, memory, check = self._open(), self._lib.dlckpt_tensor_strided, self._memory, self._check
        numbers, array_of, replicated = _NUMBERS, _array_of, library.REPLICATED

        def whole(path: str, dtype: str, shape: Tuple[int, ...], pointer: int) -> None:
            code = register(handle, path.encode(), numbers[dtype], len(shape), array_of(shape), None, None, None, pointer or None, replicated)
            if code:
                check(code)
            memory.pop(path, None)
        return whole

    def blob(self, path: str, data: bytes, *, per_rank: bool = False) -> None:
        """Registers bytes, which are copied at once (dlckpt_blob)."""
        self._check(self._lib.dlckpt_blob(self._open(), path.encode(), data, len(data), 1 if per_rank else 0))

    def get_blob(self, path: str) -> bytes:
        """The bytes of a blob after restore. NotFoundError if there is none."""
        data, size = ctypes.c_void_p(), ctypes.c_size_t()
        self._check(self._lib.dlckpt_get_blob(self._open(), path.encode(), ctypes.byref(data), ctypes.byref(size)))
        return ctypes.string_at(data, size.value) if size.value else b""

    def forget(self, path: str) -> None:
        """Unregisters a tensor or blob. NotFoundError if there is none."""
        self._check(self._lib.dlckpt_forget(self._open(), path.encode()))
        self._memory.pop(path, None)

    def want(self, step: int) -> int:
        """What to do before train step ``step``: a combination of library.WANT_SAVE and WANT_EXIT."""
        return int(self._lib.dlckpt_want(self._open(), _train_step(step)))

    def save(self, step: int, flags: int = 0) -> str:
        """Collective. Saves train step ``step`` (dlckpt_save_flags). Without flags it returns when the registered memory may
        change again; wait() then reports the outcome. library.SYNC: the checkpoint is durable on return. LAZY:
        before_mutation() must be called before the memory changes. SKIP_IF_BUSY: raises InFlightError instead of waiting for an
        earlier save. Returns "", or the error of an earlier save that failed."""
        if library.has("dlckpt_save_flags"):
            self._check(self._lib.dlckpt_save_flags(self._open(), _train_step(step), flags))
        else:
            self._check(self._lib.dlckpt_save(self._open(), _train_step(step)))
            self._saved = SaveStats(step=step, saves=self._saved.saves + 1)
        return self.message()

    def before_mutation(self) -> None:
        """Waits until a lazy save has copied the registered memory."""
        if library.has("dlckpt_before_mutation"):
            self._check(self._lib.dlckpt_before_mutation(self._open()))

    def wait(self, timeout_s: float = -1.0) -> int:
        """Waits until no save is in flight. Returns the newest train step that this run knows to be committed, -1 if there is
        none. Raises the last save's error, or WaitTimeoutError if it is still in flight after this time (negative: no time
        limit)."""
        if not library.has("dlckpt_wait"):
            return self._saved.step
        durable = ctypes.c_int64(-1)
        self._check(self._lib.dlckpt_wait(self._open(), arguments.real("timeout_s", timeout_s, "a number of seconds; negative: no limit"),
                                          ctypes.byref(durable)))
        return durable.value

    def last_error(self) -> Error:
        """The error of the last finished save, if stats() says that it failed."""
        code = self._lib.dlckpt_wait(self._open(), 0.0, None) if library.has("dlckpt_wait") else library.OK
        return error_for(code if code != library.OK else self.stats().outcome, self.message())

    def stats(self) -> SaveStats:
        """Numbers of the last finished save (dlckpt_stats)."""
        if not library.has("dlckpt_stats"):
            return self._saved
        out = library.SaveStats(ctypes.sizeof(library.SaveStats), object_step=-1)
        code = self._lib.dlckpt_stats(self._open(), ctypes.byref(out))
        if code == InvalidError.code:  # of an older library, which knows of no object store
            out = library.SaveStats(library.SaveStats.object_step.offset, object_step=-1)
            code = self._lib.dlckpt_stats(self._open(), ctypes.byref(out))
        self._check(code)
        return SaveStats(*(getattr(out, name) for name in SaveStats._fields))

    def metric(self, name: str, value: float) -> None:
        """Puts a number into the next save's manifest (dlckpt_metric); only learner 0's counts."""
        self._check(self._lib.dlckpt_metric(self._open(), arguments.text("name", name).encode(), arguments.real("value", value)))

    def member(self, name: str, path: str, *, per_rank: bool = False) -> None:
        """Registers a file that the program writes itself; it is saved and put back with the rest (dlckpt_member)."""
        if not library.has("dlckpt_member"):
            raise LibraryError("this libdlckpt cannot keep files, since it is of an older version than this dlckpt package; install "
                               "both from one release")
        self._check(self._lib.dlckpt_member(self._open(), arguments.text("name", name).encode(),
                                            library.path_bytes(arguments.path(name, path)), 1 if per_rank else 0))

    def peek(self, step: int = library.LATEST) -> Tuple[int, str]:
        """Collective. As restore(), but loads only the blobs; a later restore() of the returned train step takes the same
        checkpoint."""
        found = ctypes.c_int64(-1)
        self._check(self._lib.dlckpt_peek(self._open(), _train_step(step, library.LATEST), ctypes.byref(found)))
        return found.value, self.message()

    def restore(self, step: int = library.LATEST) -> Tuple[int, str]:
        """Collective. Loads train step ``step``, or the newest one that verifies, into the registered memory. Returns the train
        step and a note, which is "" unless newer checkpoints were passed over."""
        restored = ctypes.c_int64(-1)
        self._check(self._lib.dlckpt_restore(self._open(), _train_step(step, library.LATEST), ctypes.byref(restored)))
        return restored.value, self.message()

    def latest(self) -> int:
        """The newest committed train step (its manifest is verified, its data is not), or -1."""
        return int(self._lib.dlckpt_latest(self._open()))

    def exit_code(self) -> int:
        """The exit status to use after WANT_EXIT: 75 if that train step is committed, else 76."""
        return int(self._lib.dlckpt_exit_code(self._open()))

    def finished(self) -> None:
        """Tells dlrun that training has ended."""
        self._lib.dlckpt_finished(self._open())

    def message(self) -> str:
        """The message of the last call."""
        return (self._lib.dlckpt_errmsg(self._open()) or b"").decode("utf-8", "replace")


def _train_step(step: int, low: int = 0) -> int:
    return arguments.whole("step", step, low, arguments.MAX_STEP)


def dtype_name(number: int) -> str:
    """The C library's own name of a dtype number; the tests compare both tables with it."""
    name = library.load().dlckpt_dtype_name(number)
    if name is None:
        raise InternalError("libdlckpt gave the dtype %d, which this dlckpt package does not know; install both from one release" % number)
    return str(name.decode())


def dtype_size(number: int) -> int:
    """Bytes of one element, 0 for an unknown dtype."""
    return int(library.load().dlckpt_dtype_size(number))
