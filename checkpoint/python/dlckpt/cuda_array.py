# SPDX-License-Identifier: Apache-2.0
"""Arrays on a GPU that present themselves through __cuda_array_interface__ and may be written to: those of CuPy and Numba. (For
torch's tensors torch_adapter knows more; JAX's arrays are immutable.)"""
from __future__ import annotations

import sys
from typing import Any, Dict, Optional, Tuple

from . import dtypes, library
from .errors import StateError
from .memory import Memory

_NAMES = {"f8": "float64", "f4": "float32", "f2": "float16", "i8": "int64", "i4": "int32", "i2": "int16", "i1": "int8",
          "u8": "uint64", "u4": "uint32", "u2": "uint16", "u1": "uint8", "b1": "bool", "c8": "complex64", "c16": "complex128"}


def interface(value: Any) -> Optional[Dict[str, Any]]:
    """The array's __cuda_array_interface__; None for any other value, and for an array that must not be written to."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return None
    if not hasattr(type(value), "__cuda_array_interface__"):
        return None
    try:
        found = value.__cuda_array_interface__
    except Exception:  # JAX raises an exception of its own if an array is not on a GPU
        return None
    return None if not isinstance(found, dict) or found["data"][1] or found.get("mask") is not None else found


def is_one(value: Any) -> bool:
    return interface(value) is not None


def _words(value: Any) -> Dict[str, Any]:
    words = interface(value)
    assert words is not None
    return words


def describe(value: Any, where: str) -> Tuple[str, Tuple[int, ...]]:
    """(dtype name, shape). StateError if its elements cannot be stored."""
    words = _words(value)
    name = _NAMES.get(words["typestr"][1:])
    if name is None or words["typestr"][0] == ">":
        raise StateError("%s: an array of elements '%s' on a GPU cannot be stored; allowed: %s" %
                         (where, words["typestr"], ", ".join(sorted(_NAMES.values()))))
    return name, tuple(int(n) for n in words["shape"])


def _memory(value: Any, device: bool) -> Optional[Memory]:
    words = _words(value)
    pointer = int(words["data"][0] or 0)
    if 0 in words["shape"]:
        return Memory(0, value, None)
    if not device or not library.reaches(pointer):
        return None
    strides = words.get("strides")
    return Memory(pointer, value, None, None if strides is None else tuple(int(n) for n in strides), True)


def _on_host(value: Any) -> Any:
    import numpy as np
    if not hasattr(value, "get"):
        raise StateError("an array of the class %s lies on a GPU where libdlckpt does not reach it, and has no get() to copy it to "
                         "the host" % type(value).__name__)
    return np.ascontiguousarray(value.get()).reshape(_words(value)["shape"])


def to_store(value: Any, device: bool) -> Memory:
    """See arrays.to_store."""
    memory = _memory(value, device)
    if memory is not None:
        return memory
    host = _on_host(value)
    return Memory(host.ctypes.data, host, None)


def into_place(value: Any, device: bool) -> Memory:
    """See arrays.into_place."""
    memory = _memory(value, device)
    if memory is not None and (memory.strides is None or 0 not in memory.strides):
        return memory
    host = _on_host(value)

    def finish() -> None:
        value[...] = sys.modules["cupy"].asarray(host) if type(value).__module__.startswith("cupy") else host

    return Memory(host.ctypes.data, host, finish)


def empty(dtype: str, shape: Tuple[int, ...]) -> Any:
    """A new CuPy array."""
    try:
        import cupy
    except ImportError:
        raise StateError("the checkpoint holds an array of %s that lay on a GPU; give attach() an array to restore it into, or "
                         "install CuPy" % dtype) from None
    return cupy.empty(shape, dtype=dtype)


assert set(_NAMES.values()) <= set(dtypes.DTYPES)
