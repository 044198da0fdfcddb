# SPDX-License-Identifier: Apache-2.0
"""Finds libdllearner and declares its C ABI (dllearner.h) for ctypes. Nothing is loaded on import.

Where the library is looked for: ``$DLLEARNER_LIBRARY`` alone if it is set; else PREFIX/lib, lib64 and lib/<multiarch> beside
this package, which lives in PREFIX/share/slurm-dl/python/dllearner; else the system's search path.
"""
from __future__ import annotations

import ctypes
import glob
import os
from ctypes import POINTER, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p
from typing import Iterator, Optional

from .errors import DllearnerError

SONAME = "libdllearner.so.1"


class Options(ctypes.Structure):
    """struct dllearner_options."""

    _fields_ = [("struct_size", c_size_t), ("servers", c_int), ("timeout_s", c_double)]


class ServerOptions(ctypes.Structure):
    """struct dllearner_ps_options."""

    _fields_ = [("struct_size", c_size_t), ("mode", c_int), ("staleness", c_int64), ("learning_rate", c_double),
                ("momentum", c_double)]


_OUT = POINTER(c_void_p)
# The functions in the order of the header, each with its result type and argument types.
_FUNCTIONS = {
    "dllearner_open": (c_int, [POINTER(Options), _OUT]),
    "dllearner_close": (None, [c_void_p]),
    "dllearner_rank": (c_int, [c_void_p]),
    "dllearner_size": (c_int, [c_void_p]),
    "dllearner_servers": (c_int, [c_void_p]),
    "dllearner_role_of": (c_int, [c_void_p]),
    "dllearner_all_reduce": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int]),
    "dllearner_broadcast": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int]),
    "dllearner_reduce_scatter": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int]),
    "dllearner_all_gather": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int]),
    "dllearner_barrier": (c_int, [c_void_p]),
    "dllearner_all_reduce_start": (c_int, [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, _OUT]),
    "dllearner_wait": (c_int, [_OUT]),
    "dllearner_test": (c_int, [_OUT, POINTER(c_int)]),
    "dllearner_buckets_create": (c_int, [c_void_p, c_int, c_size_t, POINTER(c_size_t), c_size_t, _OUT]),
    "dllearner_buckets_ready": (c_int, [c_void_p, c_size_t, c_void_p]),
    "dllearner_buckets_finish": (c_int, [c_void_p]),
    "dllearner_buckets_destroy": (None, [c_void_p]),
    "dllearner_serve": (c_int, [c_void_p, c_void_p, c_void_p]),
    "dllearner_ps_create": (c_int, [c_void_p, POINTER(ServerOptions), c_void_p, c_size_t, _OUT]),
    "dllearner_ps_pull": (c_int, [c_void_p, c_void_p]),
    "dllearner_ps_push": (c_int, [c_void_p, c_void_p]),
    "dllearner_ps_destroy": (None, [c_void_p]),
    "dllearner_error": (c_char_p, []),
    "dllearner_version": (c_char_p, []),
}

_loaded: Optional[ctypes.CDLL] = None


def candidates() -> Iterator[str]:
    """The paths and names to try, in order (see the description of this module)."""
    given = os.environ.get("DLLEARNER_LIBRARY")
    if given:
        yield given
        return
    prefix = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", ".."))
    for folder in ("lib", "lib64", os.path.join("lib", "*-linux-gnu*")):
        yield from sorted(glob.glob(os.path.join(prefix, folder, SONAME)))
    yield SONAME


def load() -> ctypes.CDLL:
    """Returns the library, which is loaded once per process. Calls release the GIL. Raises DllearnerError with the
    names that were tried."""
    global _loaded
    if _loaded is not None:
        return _loaded
    tried = []
    for name in candidates():
        try:
            # Open MPI loads further parts of itself later, and these look for its symbols among the global ones.
            library = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
            for function, (result, arguments) in _FUNCTIONS.items():
                symbol = getattr(library, function)
                symbol.restype, symbol.argtypes = result, arguments
        except (OSError, AttributeError) as error:
            tried.append("%s (%s)" % (name, error))
            continue
        _loaded = library
        return library
    raise DllearnerError(0, "libdllearner was not found; set DLLEARNER_LIBRARY to the path of %s. Tried: %s" %
                         (SONAME, "; ".join(tried)))


def check(code: int) -> None:
    """Raises DllearnerError with the library's message unless code is DLLEARNER_OK."""
    if code != 0:
        raise DllearnerError(code, load().dllearner_error().decode())


def version() -> str:
    """Version of the loaded library, "0.2.0"."""
    return load().dllearner_version().decode()
