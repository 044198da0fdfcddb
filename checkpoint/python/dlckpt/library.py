# SPDX-License-Identifier: Apache-2.0
"""Finds libdlckpt and declares its C ABI (checkpoint/include/dlckpt.h, dlckpt_read.h) for ctypes. Nothing is loaded on import.

Where the library is looked for, in this order:

1. ``$DLCKPT_LIBRARY``, the path of the shared object; if set, nothing else is tried
2. beside this package: it lives in PREFIX/share/slurm-dl/python/dlckpt, so PREFIX/lib, lib64 and lib/<multiarch>
3. the system's own search path (``ld.so``)

Installed by slurm-dl, package and library are of one release. The package of a wheel (packaging/build-wheel) has its release in release.txt, and
loads no library that is older, or of another major version.
"""
from __future__ import annotations

import ctypes
import glob
import os
from ctypes import POINTER, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any, Iterator, Optional, Set, Tuple, Union

from .errors import InvalidError, LibraryError

SONAME = "libdlckpt.so.1"

OK = 0
REPLICATED, OPTIONAL, FROZEN, ANOTHER_PART = 1, 2, 4, 8
WANT_SAVE, WANT_EXIT = 1, 2
LATEST = -1
EVERY_AUTO = -1.0
MAX_DIMS = 32

SYNC, LAZY, SKIP_IF_BUSY = 1, 2, 4
MODES = {"async": 1, "sync": 2, "lazy": 3}
SETTING_DIR, SETTING_EVERY, SETTING_KEEP, SETTING_MODE = 1, 2, 4, 8
ON_HOST, MANAGED, ON_DEVICE = 0, 1, 2


class SaveStats(ctypes.Structure):
    """struct dlckpt_save_stats."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("step", c_int64),
        ("outcome", c_int),
        ("level", c_int),
        ("bytes", c_uint64),
        ("written_bytes", c_uint64),
        ("reused_bytes", c_uint64),
        ("blocked_s", c_double),
        ("copy_s", c_double),
        ("write_s", c_double),
        ("fsync_s", c_double),
        ("commit_s", c_double),
        ("durable_s", c_double),
        ("saves", c_uint64),
        ("failed_saves", c_uint64),
        ("total_written_bytes", c_uint64),
        ("total_blocked_s", c_double),
        ("object_step", c_int64),
        ("object_saves", c_uint64),
        ("failed_object_saves", c_uint64),
    ]


class Options(ctypes.Structure):
    """struct dlckpt_options; zero and NULL mean "from the environment"."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("dir", c_char_p),
        ("rank", c_int),
        ("world_size", c_int),
        ("run_id", c_char_p),
        ("every_s", c_double),
        ("every_steps", c_int64),
        ("keep", c_int),
        ("timeout_s", c_double),
        ("keep_every", c_int64),
        ("best", c_char_p),
        ("mode", c_int),
        ("memory_bytes", c_uint64),
        ("write_threads", c_int),
        ("recycle", c_int),
        ("local_dir", c_char_p),
        ("partner", c_int),
        ("reuse", c_int),
        ("environment_first", c_int),
        ("objects", c_char_p),
    ]


class Settings(ctypes.Structure):
    """struct dlckpt_settings."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("from_environment", c_uint),
        ("dir", c_char_p),
        ("every_s", c_double),
        ("every_steps", c_int64),
        ("keep", c_int),
        ("mode", c_int),
        ("rank", c_int),
        ("world_size", c_int),
        ("run_id", c_char_p),
    ]


class TensorInfo(ctypes.Structure):
    """struct dlckpt_tensor_info."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("path", c_char_p),
        ("dtype", c_int),
        ("ndim", c_int),
        ("shape", POINTER(c_int64)),
        ("bytes", c_uint64),
    ]


_INT64S = POINTER(c_int64)

# name: (result type, argument types), in the order of the header.
_FUNCTIONS = {
    "dlckpt_resolve": (c_int, [POINTER(Options), POINTER(Settings)]),
    "dlckpt_open": (c_int, [POINTER(Options), POINTER(c_void_p)]),
    "dlckpt_open_error": (c_char_p, []),
    "dlckpt_close": (None, [c_void_p]),
    "dlckpt_close_error": (c_char_p, []),
    "dlckpt_tensor": (c_int, [c_void_p, c_char_p, c_int, c_int, _INT64S, _INT64S, _INT64S, c_void_p, c_uint]),
    "dlckpt_tensor_strided": (c_int, [c_void_p, c_char_p, c_int, c_int, _INT64S, _INT64S, _INT64S, _INT64S, c_void_p, c_uint]),
    "dlckpt_where": (c_int, [c_void_p]),
    "dlckpt_blob": (c_int, [c_void_p, c_char_p, c_char_p, c_size_t, c_int]),
    "dlckpt_get_blob": (c_int, [c_void_p, c_char_p, POINTER(c_void_p), POINTER(c_size_t)]),
    "dlckpt_forget": (c_int, [c_void_p, c_char_p]),
    "dlckpt_want": (c_int, [c_void_p, c_int64]),
    "dlckpt_save": (c_int, [c_void_p, c_int64]),
    "dlckpt_save_flags": (c_int, [c_void_p, c_int64, c_uint]),
    "dlckpt_before_mutation": (c_int, [c_void_p]),
    "dlckpt_wait": (c_int, [c_void_p, c_double, _INT64S]),
    "dlckpt_stats": (c_int, [c_void_p, POINTER(SaveStats)]),
    "dlckpt_metric": (c_int, [c_void_p, c_char_p, c_double]),
    "dlckpt_member": (c_int, [c_void_p, c_char_p, c_char_p, c_int]),
    "dlckpt_peek": (c_int, [c_void_p, c_int64, _INT64S]),
    "dlckpt_restore": (c_int, [c_void_p, c_int64, POINTER(c_int64)]),
    "dlckpt_latest": (c_int64, [c_void_p]),
    "dlckpt_exit_code": (c_int, [c_void_p]),
    "dlckpt_finished": (None, [c_void_p]),
    "dlckpt_errmsg": (c_char_p, [c_void_p]),
    "dlckpt_error_name": (c_char_p, [c_int]),
    "dlckpt_dtype_size": (c_size_t, [c_int]),
    "dlckpt_dtype_name": (c_char_p, [c_int]),
    "dlckpt_version": (c_char_p, []),
    # dlckpt_read.h
    "dlckpt_reader_open": (c_int, [c_char_p, c_int64, POINTER(c_void_p)]),
    "dlckpt_reader_close": (None, [c_void_p]),
    "dlckpt_reader_step": (c_int64, [c_void_p]),
    "dlckpt_reader_older": (c_int, [c_void_p]),
    "dlckpt_reader_steps": (c_int, [c_void_p, _INT64S, c_size_t, POINTER(c_size_t)]),
    "dlckpt_reader_count": (c_size_t, [c_void_p]),
    "dlckpt_reader_tensor": (c_int, [c_void_p, c_size_t, POINTER(TensorInfo)]),
    "dlckpt_reader_load": (c_int, [c_void_p, c_char_p, _INT64S, _INT64S, c_void_p, c_size_t]),
    "dlckpt_reader_blob": (c_int, [c_void_p, c_char_p, c_int, POINTER(c_void_p), POINTER(c_size_t)]),
    "dlckpt_reader_errmsg": (c_char_p, [c_void_p]),
}

# Functions that a library of API version 1 lacks: it saves synchronously, stores no files of the program, and can only access
# host memory; and one that those before 0.2.0 lack.
_SINCE_2 = frozenset(["dlckpt_save_flags", "dlckpt_before_mutation", "dlckpt_wait", "dlckpt_stats", "dlckpt_member", "dlckpt_where",
                      "dlckpt_close_error"])

_loaded: Optional[ctypes.CDLL] = None
_lacking: Set[str] = set()


def path_bytes(path: "Union[str, bytes, os.PathLike[Any]]") -> bytes:
    """A path for a C function, also one that is no UTF-8. InvalidError if it has a zero byte, at which C would end it."""
    name = os.fsencode(path)
    if b"\0" in name:
        raise InvalidError("the path %r has a zero byte in it; allowed: any other bytes" % os.fsdecode(name))
    return name


def candidates() -> Iterator[str]:
    """The paths and names to try, in order; the module's docstring lists them."""
    given = os.environ.get("DLCKPT_LIBRARY")
    if given:
        yield given
        return
    here = os.path.dirname(os.path.abspath(__file__))
    prefix = os.path.normpath(os.path.join(here, "..", "..", "..", ".."))
    for folder in ("lib", "lib64", os.path.join("lib", "*-linux-gnu*")):
        for path in sorted(glob.glob(os.path.join(prefix, folder, SONAME))):
            yield path
    yield SONAME


def load() -> ctypes.CDLL:
    """The library, loaded once per process. Calls release the GIL. Raises LibraryError, which says what was tried."""
    global _loaded
    if _loaded is not None:
        return _loaded
    tried = []
    for name in candidates():
        try:
            library = ctypes.CDLL(name)
        except OSError as error:
            tried.append("%s (%s)" % (name, error))
            continue
        _declare(library, name)
        _check_release(library, name)
        _loaded = library
        return library
    raise LibraryError("libdlckpt was not found; set DLCKPT_LIBRARY to the path of %s. Tried: %s" % (SONAME, "; ".join(tried)))


def _declare(library: ctypes.CDLL, name: str) -> None:
    for function, (result, arguments) in _FUNCTIONS.items():
        try:
            symbol = getattr(library, function)
        except AttributeError:
            if function in _SINCE_2 or function.startswith("dlckpt_reader_"):
                _lacking.add(function)
                continue
            raise LibraryError("%s has no function %s: it is not a libdlckpt that fits this dlckpt package" %
                               (name, function)) from None
        symbol.restype = result
        symbol.argtypes = arguments


def _numbers(release: str) -> Tuple[int, ...]:
    """(0, 2, 0) for "0.2.0"; () for what is no release."""
    parts = release.split(".")
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else ()


def _check_release(library: ctypes.CDLL, name: str) -> None:
    """Refuses a library that lacks what the package of a wheel may call."""
    try:
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "release.txt"), encoding="ascii") as file:
            wanted = file.read().strip()
    except OSError:
        return
    found = (library.dlckpt_version() or b"").decode()
    if _numbers(found) >= _numbers(wanted) and _numbers(found)[:1] == _numbers(wanted)[:1]:
        return
    raise LibraryError("%s is libdlckpt %s, and this dlckpt package is of release %s, which needs libdlckpt %s or a later one of the same "
                       "major version; install the package of the library's release (pip install dlckpt-%s-py3-none-any.whl), or set "
                       "DLCKPT_LIBRARY to another library" % (name, found, wanted, wanted, found))


def has(function: str) -> bool:
    """Whether the loaded library has this function, which was added after API version 1."""
    return function not in _lacking


def reaches(pointer: int) -> bool:
    """Whether the library recognises this address as memory of a device that it can access by itself. False for other kinds of
    devices, such as AMD's, which PyTorch also calls "cuda"."""
    load()
    return has("dlckpt_where") and load().dlckpt_where(pointer) in (MANAGED, ON_DEVICE)


def version() -> str:
    """Version of the loaded library, "0.2.0"."""
    return (load().dlckpt_version() or b"").decode()
