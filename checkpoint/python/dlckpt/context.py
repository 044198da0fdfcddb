# SPDX-License-Identifier: Apache-2.0
"""The C API, function by function, with errors as exceptions (errors.py) and contexts that close themselves.

Most programs want :func:`dlckpt.attach` instead; this is for those that drive their own loop. dlckpt.h is the contract:
what is collective, who owns what, and what is left behind on an error.
"""
from __future__ import annotations

import ctypes
import os
from typing import Dict, Optional, Sequence, Tuple

from . import dtypes, library
from .errors import InternalError, InvalidError, error_for


def _encode(text: Optional[str]) -> Optional[bytes]:
    return None if text is None else text.encode()


def _int64s(values: Optional[Sequence[int]]):
    if values is None:
        return None
    return (ctypes.c_int64 * max(1, len(values)))(*values)


class Context:
    """One rank's open checkpoint directory (dlckpt_ctx). Use it from one thread at a time; close it, or use ``with``.

    Arguments left at None or 0 come from the environment, as the header says. Raises what dlckpt_open returns: BusyError if
    another job holds the directory, DeniedError, InvalidError, IoError, NoMemoryError; LibraryError without the library.
    """

    def __init__(self, dir: Optional[str] = None, *, rank: int = 0, world_size: int = 0, run_id: Optional[str] = None,
                 every_s: float = 0.0, every_steps: int = 0, keep: int = 0, timeout_s: float = 0.0) -> None:
        self._handle = ctypes.c_void_p()
        self._lib = library.load()
        self._pid = os.getpid()
        self._memory: Dict[str, object] = {}
        options = library.Options(ctypes.sizeof(library.Options), _encode(dir), rank, world_size, _encode(run_id), every_s,
                                  every_steps, keep, timeout_s)
        code = self._lib.dlckpt_open(ctypes.byref(options), ctypes.byref(self._handle))
        if code != library.OK:
            raise error_for(code, (self._lib.dlckpt_open_error() or b"").decode("utf-8", "replace"))

    def close(self) -> None:
        """Releases everything, the lease included; an unfinished save is abandoned. May be called again."""
        # A forked child (a DataLoader's worker) holds a copy of this object: it must not give up its parent's lease.
        if self._handle and os.getpid() == self._pid:
            self._lib.dlckpt_close(self._handle)
        self._handle = ctypes.c_void_p()
        self._memory.clear()

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # the interpreter is going down; nothing can be told to anyone
            pass

    def _check(self, code: int) -> None:
        if code != library.OK:
            raise error_for(code, self.message())

    def _open(self) -> ctypes.c_void_p:
        if not self._handle:
            raise InvalidError("this checkpoint context is closed")
        return self._handle

    def tensor(self, path: str, dtype: str, shape: Sequence[int], pointer: int, *, offset: Optional[Sequence[int]] = None,
               extent: Optional[Sequence[int]] = None, flags: int = 0, owner: object = None) -> None:
        """Registers memory to be saved and restored (dlckpt_tensor). ``pointer`` is the address of the box in C order without
        gaps (0 if empty); ``owner`` is kept alive as long as the registration. ``dtype`` is a name of dtypes.DTYPES."""
        if not dtypes.known(dtype):
            raise InvalidError("%s: the dtype '%s' cannot be stored; allowed: %s" % (path, dtype, ", ".join(dtypes.DTYPES)))
        self._check(self._lib.dlckpt_tensor(self._open(), path.encode(), dtypes.number(dtype), len(shape), _int64s(shape),
                                            _int64s(offset), _int64s(extent), pointer or None, flags))
        self._memory[path] = owner

    def blob(self, path: str, data: bytes, *, per_rank: bool = False) -> None:
        """Registers bytes (dlckpt_blob); copied at once."""
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
        """What is due before train step ``step``: a set of library.WANT_SAVE and WANT_EXIT."""
        return self._lib.dlckpt_want(self._open(), step)

    def save(self, step: int) -> None:
        """Collective. Commits a checkpoint of train step ``step``, durable on return."""
        self._check(self._lib.dlckpt_save(self._open(), step))

    def restore(self, step: int = library.LATEST) -> Tuple[int, str]:
        """Collective. Loads train step ``step`` or the newest that verifies into the registered memory. Returns the train
        step and a note, "" unless newer checkpoints were passed over."""
        restored = ctypes.c_int64(-1)
        self._check(self._lib.dlckpt_restore(self._open(), step, ctypes.byref(restored)))
        return restored.value, self.message()

    def latest(self) -> int:
        """Newest committed train step (manifests verified, data not), or -1."""
        return self._lib.dlckpt_latest(self._open())

    def exit_code(self) -> int:
        """What to exit with after WANT_EXIT: 75 if that train step is committed, else 76."""
        return self._lib.dlckpt_exit_code(self._open())

    def finished(self) -> None:
        """Tells dlrun that training has come to its end."""
        self._lib.dlckpt_finished(self._open())

    def message(self) -> str:
        """The sentence of the last call."""
        return (self._lib.dlckpt_errmsg(self._open()) or b"").decode("utf-8", "replace")


class Lease:
    """The lease on a checkpoint directory (dlckpt_lease): at most one job at a time may write there. BusyError names the
    holder. Call :meth:`renew` at least every library.LEASE_EXPIRY_S / 4 seconds."""

    def __init__(self, dir: str, owner: str, job_id: Optional[str] = None) -> None:
        self._handle = ctypes.c_void_p()
        self._lib = library.load()
        code = self._lib.dlckpt_lease_acquire(dir.encode(), owner.encode(), _encode(job_id), ctypes.byref(self._handle))
        if code != library.OK:
            raise error_for(code, (self._lib.dlckpt_open_error() or b"").decode("utf-8", "replace"))

    @property
    def token(self) -> str:
        """What dlrun hands to the learners in DL_CHECKPOINT_LEASE."""
        if not self._handle:
            raise InvalidError("this lease was released")
        return (self._lib.dlckpt_lease_token(self._handle) or b"").decode()

    def renew(self) -> None:
        """BusyError: it was lost to another job; stop writing."""
        if not self._handle:
            raise InvalidError("this lease was released")
        code = self._lib.dlckpt_lease_renew(self._handle)
        if code != library.OK:
            raise error_for(code, "the lease on the checkpoint directory was lost")

    def release(self) -> None:
        """Gives the directory free. May be called again."""
        if self._handle:
            self._lib.dlckpt_lease_release(self._handle)
            self._handle = ctypes.c_void_p()

    def __enter__(self) -> "Lease":
        return self

    def __exit__(self, *_exc: object) -> None:
        self.release()


def dtype_name(number: int) -> str:
    """The C library's own name of a dtype number; used by the tests to hold both tables together."""
    name = library.load().dlckpt_dtype_name(number)
    if name is None:
        raise InternalError("libdlckpt does not know dtype %d" % number)
    return name.decode()


def dtype_size(number: int) -> int:
    """Bytes of one element, 0 for an unknown dtype."""
    return library.load().dlckpt_dtype_size(number)
