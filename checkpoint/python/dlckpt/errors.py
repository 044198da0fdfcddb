# SPDX-License-Identifier: Apache-2.0
"""Errors of dlckpt: one exception class per code of ``enum dlckpt_error`` (dlckpt.h), all derived from :class:`Error`.

Each carries the code (``.code``), its name (``.name``, "DLCKPT_E_NO_SPACE") and the sentence for the user (``.sentence``,
which is also ``str(error)``).
"""
from __future__ import annotations

from typing import Dict, Type


class Error(Exception):
    """An operation on checkpoints failed. Every committed checkpoint is untouched."""

    code: int = 11
    name: str = "DLCKPT_E_INTERNAL"

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


class InvalidError(Error):
    """An argument is malformed or out of range; nothing was done."""

    code, name = 1, "DLCKPT_E_INVALID"


class NotFoundError(Error):
    """There is no checkpoint, or no such train step, tensor or blob."""

    code, name = 2, "DLCKPT_E_NOT_FOUND"


class BusyError(Error):
    """The directory is in use by another job; the sentence names it."""

    code, name = 3, "DLCKPT_E_BUSY"


class DeniedError(Error):
    """The operation is not permitted, or the file system is read-only."""

    code, name = 4, "DLCKPT_E_DENIED"


class NoSpaceError(Error):
    """The disk is full or the quota is used up; the attempt was removed, older checkpoints are untouched."""

    code, name = 5, "DLCKPT_E_NO_SPACE"


class IoError(Error):
    """A system call failed (fsync included); the attempt was removed."""

    code, name = 6, "DLCKPT_E_IO"


class CorruptError(Error):
    """Checkpoints exist, but none verifies."""

    code, name = 7, "DLCKPT_E_CORRUPT"


class MismatchError(Error):
    """The checkpoint does not fit the program (names, dtypes, shapes, objects); nothing was loaded."""

    code, name = 8, "DLCKPT_E_MISMATCH"


class WaitTimeoutError(Error):
    """Another learner did not arrive in time; nothing was committed."""

    code, name = 9, "DLCKPT_E_TIMEOUT"


class NoMemoryError(Error):
    """Out of memory."""

    code, name = 10, "DLCKPT_E_MEMORY"


class InternalError(Error):
    """A fault of the library itself."""

    code, name = 11, "DLCKPT_E_INTERNAL"


class InFlightError(Error):
    """An earlier save is not durable yet; nothing was done."""

    code, name = 12, "DLCKPT_E_IN_FLIGHT"


class LibraryError(Error):
    """libdlckpt could not be found or loaded, or has another API version. The C API has no code for this."""


class StateError(InvalidError):
    """A value of the state cannot be stored in a checkpoint; the message says where it is and which type it has."""


_BY_CODE: Dict[int, Type[Error]] = {
    cls.code: cls
    for cls in (InvalidError, NotFoundError, BusyError, DeniedError, NoSpaceError, IoError, CorruptError, MismatchError,
                WaitTimeoutError, NoMemoryError, InternalError, InFlightError)
}


def is_of_memory(error: BaseException) -> bool:
    """Whether an exception of Python or a framework says that memory is missing, on the host or a device."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or "out of memory" in text or \
        "allocate memory" in text


def is_of_device(error: BaseException) -> bool:
    """Whether an exception of a framework has its cause in memory or in a device, and not in what it was given."""
    return is_of_memory(error) or type(error).__name__ in ("AcceleratorError", "XlaRuntimeError") or \
        any(part in str(error) for part in ("CUDA error", "CUDA driver error", "HIP error", "cudaError"))


def of_framework(error: Exception, where: str, what: str = "its values could not be copied") -> Error:
    """The error for an exception that Python or a framework raised at the array ``where``: NoMemoryError or IoError; an error of
    ours as it is."""
    if isinstance(error, Error):
        return error
    kind = NoMemoryError if is_of_memory(error) else IoError
    text = " ".join(str(error).split())
    return kind("%s: %s: %s%s" % (where, what, type(error).__name__, ": " + text[:300] if text else ""))


def error_for(code: int, sentence: str) -> Error:
    """The exception for a code of the C API. An unknown code (of a newer library) gives a plain Error with that code."""
    cls = _BY_CODE.get(code)
    if cls is not None:
        return cls(sentence)
    error = Error(sentence or "libdlckpt returned the unknown code %d" % code)
    error.code, error.name = code, "DLCKPT_E_%d" % code
    return error
