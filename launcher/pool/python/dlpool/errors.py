# SPDX-License-Identifier: Apache-2.0
"""The exceptions of the package: one class for each code of enum dlpool_result (dlpool.h), all derived from Error."""
from __future__ import annotations

from typing import Dict, List, Optional, Type, Union


class Error(RuntimeError):
    """A call of libdlpool failed. The text is the library's sentence; ``code`` and ``name`` are of enum dlpool_result.

    ``answers`` is set where Client.call() raised this because single calls failed: a list with the answer of each call in their order,
    or the error of that call. It is None for all other errors.
    """

    code: int = 9
    name: str = "DLPOOL_E_INTERNAL"

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.answers: Optional[List[Union[bytes, Error]]] = None


class InvalidError(Error):
    """An argument is malformed or out of range; nothing was done."""

    code, name = 1, "DLPOOL_E_INVALID"


class ObjectError(Error):
    """The object refused, with its own sentence. Its state is as it was."""

    code, name = 2, "DLPOOL_E_OBJECT"


class LostError(Error):
    """State was lost with members that were killed: start from a checkpoint."""

    code, name = 3, "DLPOOL_E_LOST"


class CallTimeoutError(Error):
    """No answer in time. Whether an update was applied is not known; the client can only be closed."""

    code, name = 4, "DLPOOL_E_TIMEOUT"


class PeerError(Error):
    """The directory is gone, or does not have this secret."""

    code, name = 5, "DLPOOL_E_PEER"


class DeniedError(Error):
    """The file of the secret is no file of this user's that nobody else may read or change."""

    code, name = 6, "DLPOOL_E_DENIED"


class NoMemoryError(Error):
    """Out of memory. Whether an update was applied is not known; the client can only be closed."""

    code, name = 7, "DLPOOL_E_MEMORY"


class StateError(Error):
    """Called too late: the client or the member was closed, a call before timed out, or this is a child process after fork."""

    code, name = 8, "DLPOOL_E_STATE"


class InternalError(Error):
    """A fault of the library, or a member of another version that did not understand a call."""

    code, name = 9, "DLPOOL_E_INTERNAL"


class FullError(Error):
    """Too many clients have updated this slot and were not closed."""

    code, name = 10, "DLPOOL_E_FULL"


class IoError(Error):
    """An operating system call failed."""

    code, name = 11, "DLPOOL_E_IO"


class LibraryError(Error):
    """libdlpool was not found. The C API has no code for this."""

    code, name = 0, "DLPOOL_E_LIBRARY"


_BY_CODE: Dict[int, Type[Error]] = {
    cls.code: cls
    for cls in (InvalidError, ObjectError, LostError, CallTimeoutError, PeerError, DeniedError, NoMemoryError, StateError, InternalError,
                FullError, IoError)
}


def error_for(code: int, sentence: str) -> Error:
    """The exception for a code of the C API. An unknown one (of a newer library) gives a plain Error with that code."""
    if code in _BY_CODE:
        return _BY_CODE[code](sentence)
    error = Error(sentence or "libdlpool returned the unknown code %d" % code)
    error.code, error.name = code, "DLPOOL_E_%d" % code
    return error
