# SPDX-License-Identifier: Apache-2.0
"""The functions of dlckpt_read.h one by one: they read a checkpoint without owning its directory."""
from __future__ import annotations

import ctypes
from typing import List, NamedTuple, Optional, Sequence, Tuple

from . import dtypes, library
from .errors import InvalidError, LibraryError, NotFoundError, error_for

_NAMES = {number: name for name, (number, _) in dtypes.DTYPES.items()}


class TensorInfo(NamedTuple):
    """A tensor of a checkpoint: its element type by NumPy's name, and the shape of the whole tensor, however it was divided."""

    path: str
    dtype: str
    shape: Tuple[int, ...]
    bytes: int


class Reader:
    """A struct dlckpt_reader. Use it from one thread at a time. The errors of the C functions are raised as exceptions."""

    def __init__(self, dir: str, step: Optional[int] = None) -> None:
        self._lib = library.load()
        self._handle = ctypes.c_void_p()
        if not library.has("dlckpt_reader_open"):
            raise LibraryError("libdlckpt %s cannot read without a lease (dlckpt_reader_open is missing); install the one that came "
                               "with this package" % library.version())
        code = self._lib.dlckpt_reader_open(library.path_bytes(dir), library.LATEST if step is None else step, ctypes.byref(self._handle))
        if code != library.OK:
            raise error_for(code, (self._lib.dlckpt_open_error() or b"").decode("utf-8", "replace"))

    def close(self) -> None:
        """Releases it. May be called again."""
        handle, self._handle = self._handle, ctypes.c_void_p()
        if handle:
            self._lib.dlckpt_reader_close(handle)

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # the interpreter is shutting down, so nobody can be informed
            pass

    def message(self) -> str:
        """The message of the last call; after open and older(): which checkpoints were passed over, and why."""
        return (self._lib.dlckpt_reader_errmsg(self._handle) or b"").decode("utf-8", "replace")

    def _check(self, code: int) -> None:
        if code != library.OK:
            raise error_for(code, self.message())

    def _open(self) -> ctypes.c_void_p:
        if not self._handle:
            raise InvalidError("this checkpoint is closed; open it again with dlckpt.open()")
        return self._handle

    def step(self) -> int:
        """The train step of the checkpoint."""
        return int(self._lib.dlckpt_reader_step(self._open()))

    def steps(self) -> List[int]:
        """The train steps of all checkpoints that are committed now, newest first."""
        count, room = ctypes.c_size_t(), 0
        while True:
            found = (ctypes.c_int64 * room)()
            self._check(self._lib.dlckpt_reader_steps(self._open(), found, room, ctypes.byref(count)))
            if count.value <= room:
                return [int(step) for step in found[:count.value]]
            room = count.value

    def older(self) -> None:
        """Goes on to the next older checkpoint. NotFoundError if there is none; then this one stays."""
        self._check(self._lib.dlckpt_reader_older(self._open()))

    def tensors(self) -> List[TensorInfo]:
        """All tensors, sorted by path."""
        found, info = [], library.TensorInfo(ctypes.sizeof(library.TensorInfo))
        for index in range(int(self._lib.dlckpt_reader_count(self._open()))):
            self._check(self._lib.dlckpt_reader_tensor(self._handle, index, ctypes.byref(info)))
            found.append(TensorInfo(info.path.decode(), _NAMES[info.dtype], tuple(info.shape[:info.ndim]), int(info.bytes)))
        return found

    def load(self, path: str, pointer: int, size: int, offset: Optional[Sequence[int]] = None,
             extent: Optional[Sequence[int]] = None) -> None:
        """Loads a tensor, or a box of it, into host memory in C order."""
        self._check(self._lib.dlckpt_reader_load(self._open(), path.encode(), _int64s(offset), _int64s(extent), pointer or None, size))

    def blob(self, path: str, rank: int = -1) -> Optional[bytes]:
        """The bytes of a blob; None if there is none."""
        data, size = ctypes.c_void_p(), ctypes.c_size_t()
        try:
            self._check(self._lib.dlckpt_reader_blob(self._open(), path.encode(), rank, ctypes.byref(data), ctypes.byref(size)))
        except NotFoundError as error:
            if " holds no blob " in error.sentence:
                return None
            raise
        return ctypes.string_at(data, size.value) if size.value else b""


def _int64s(values: Optional[Sequence[int]]) -> Optional["ctypes.Array[ctypes.c_int64]"]:
    return None if values is None else (ctypes.c_int64 * max(1, len(values)))(*values)
