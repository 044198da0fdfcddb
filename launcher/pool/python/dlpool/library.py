# SPDX-License-Identifier: Apache-2.0
"""Finds libdlpool and declares its C ABI (dlpool.h) for ctypes. Nothing is loaded on import.

Where the library is looked for: ``$DLPOOL_LIBRARY`` alone if it is set; else PREFIX/lib, lib64 and lib/<multiarch> beside this package,
which lives in PREFIX/share/slurm-dl/python/dlpool; else the system's search path.
"""
from __future__ import annotations

import ctypes
import glob
import os
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_double, c_int, c_size_t, c_uint64, c_void_p
from typing import Any, Iterator, Optional

from .errors import LibraryError, StateError, error_for

SONAME = "libdlpool.so.0"
END_MEMBER = -2**31


class DirectoryOptions(ctypes.Structure):
    """struct dlpool_directory_options."""

    _fields_ = [("struct_size", c_size_t), ("listen", c_char_p), ("port", c_int), ("secret_file", c_char_p), ("min", c_int), ("max", c_int),
                ("without_copies", c_int), ("fixed", c_int), ("size", c_void_p), ("user", c_void_p)]


class CFacts(ctypes.Structure):
    """struct dlpool_facts."""

    _fields_ = [("struct_size", c_size_t), ("members", c_int), ("wanted", c_int), ("unsettled", c_int), ("lost", c_int), ("moved", c_uint64),
                ("version", c_uint64)]


class CLoad(ctypes.Structure):
    """struct dlpool_load."""

    _fields_ = [("struct_size", c_size_t), ("members", c_int), ("queued", c_int), ("seconds", c_double), ("busy_seconds", c_double),
                ("cpu_seconds", c_double), ("updates", c_uint64), ("reads", c_uint64)]


CALL = CFUNCTYPE(c_int, c_void_p, c_int, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p)
SAVE = CFUNCTYPE(c_int, c_void_p, c_int, c_void_p)
LOAD = CFUNCTYPE(c_int, c_void_p, c_int, c_void_p, c_size_t, c_void_p)
DROP = CFUNCTYPE(None, c_void_p, c_int)
WANTED = CFUNCTYPE(c_int, c_void_p, POINTER(CLoad))


class CObject(ctypes.Structure):
    """struct dlpool_object."""

    _fields_ = [("struct_size", c_size_t), ("user", c_void_p), ("apply", CALL), ("read", CALL), ("save", SAVE), ("load", LOAD), ("drop", DROP),
                ("wanted", WANTED)]


class Options(ctypes.Structure):
    """struct dlpool_options."""

    _fields_ = [("struct_size", c_size_t), ("directory", c_char_p), ("secret_file", c_char_p), ("timeout_s", c_double)]


class Call(ctypes.Structure):
    """struct dlpool_call."""

    _fields_ = [("read", c_int), ("key", c_char_p), ("key_size", c_size_t), ("bytes", c_char_p), ("size", c_size_t), ("result", c_int),
                ("answer", c_void_p), ("answer_size", c_size_t)]


_OUT = POINTER(c_void_p)
# The functions in the order of the header, each with its result type and argument types.
_FUNCTIONS = {
    "dlpool_error": (c_char_p, []),
    "dlpool_version": (c_char_p, []),
    "dlpool_slot": (c_int, [c_char_p, c_size_t]),
    "dlpool_directory_open": (c_int, [POINTER(DirectoryOptions), _OUT]),
    "dlpool_directory_port": (c_int, [c_void_p]),
    "dlpool_directory_facts": (c_int, [c_void_p, POINTER(CFacts)]),
    "dlpool_directory_close": (None, [c_void_p]),
    "dlpool_put": (c_int, [c_void_p, c_char_p, c_size_t]),
    "dlpool_member_create": (c_int, [POINTER(Options), POINTER(CObject), _OUT]),
    "dlpool_member_serve": (c_int, [c_void_p]),
    "dlpool_member_leave": (None, [c_void_p]),
    "dlpool_member_destroy": (None, [c_void_p]),
    "dlpool_client_open": (c_int, [POINTER(Options), _OUT]),
    "dlpool_call_many": (c_int, [c_void_p, POINTER(Call), c_size_t]),
    "dlpool_client_close": (None, [c_void_p]),
}

_loaded: Optional[ctypes.CDLL] = None


def candidates() -> Iterator[str]:
    """The paths and names to try, in order (see the description of this module)."""
    given = os.environ.get("DLPOOL_LIBRARY")
    if given:
        yield given
        return
    prefix = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", ".."))
    for folder in ("lib", "lib64", os.path.join("lib", "*-linux-gnu*")):
        yield from sorted(glob.glob(os.path.join(prefix, folder, SONAME)))
    yield SONAME


def load() -> ctypes.CDLL:
    """Returns the library, which is loaded once per process. Calls release the GIL. Raises LibraryError with the names that were
    tried."""
    global _loaded
    if _loaded is not None:
        return _loaded
    tried = []
    for name in candidates():
        try:
            library = ctypes.CDLL(name)
            for function, (result, arguments) in _FUNCTIONS.items():
                symbol = getattr(library, function)
                symbol.restype, symbol.argtypes = result, arguments
        except (OSError, AttributeError) as error:
            tried.append("%s (%s)" % (name, error))
            continue
        _loaded = library
        return library
    raise LibraryError("libdlpool was not found; set DLPOOL_LIBRARY to the path of %s. Tried: %s" % (SONAME, "; ".join(tried)))


def check(code: int) -> None:
    """Raises the exception for the code, with the library's sentence, unless it is DLPOOL_OK. In the thread that made the call."""
    if code != 0:
        raise error_for(code, load().dlpool_error().decode(errors="replace"))


def version() -> str:
    """Version of the loaded library, "0.2.0"."""
    return load().dlpool_version().decode()


def path_bytes(value: Any) -> Optional[bytes]:
    """An address or a path as the C functions take it; None: from the environment."""
    return None if value is None else os.fsencode(value)


def options(directory: Any, secret_file: Any, timeout_s: float = 0.0) -> Options:
    """struct dlpool_options with these values."""
    return Options(ctypes.sizeof(Options), path_bytes(directory), path_bytes(secret_file), timeout_s)


class Handle:
    """What a function of the library opened, and the process that did: a child process that forked has the same sockets, so whatever it
    sent would be taken for the parent's. There, nothing is sent and nothing closed."""

    def __init__(self, what: str) -> None:
        self.pointer = c_void_p()
        self._what, self._process = what, os.getpid()

    def is_here(self) -> bool:
        """Whether this is the process that opened it."""
        return self._process == os.getpid()

    def check(self) -> c_void_p:
        """The pointer. Raises StateError where it is closed, or in another process."""
        if not self.is_here():
            raise StateError("this %s was opened by process %d and cannot be used by process %d, which was forked from it; open another one "
                             "after the fork" % (self._what, self._process, os.getpid()))
        if not self.pointer:
            raise StateError("this %s was closed; open another one" % self._what)
        return self.pointer

    def take(self) -> c_void_p:
        """The pointer, for closing, which has no effect where it is NULL: closed before, or in another process."""
        pointer, self.pointer = self.pointer, c_void_p()
        return pointer if self.is_here() else c_void_p()
