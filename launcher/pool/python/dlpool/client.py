# SPDX-License-Identifier: Apache-2.0
"""Clients of a pool."""
from __future__ import annotations

import ctypes
import threading
import weakref
from typing import Any, Iterable, List, Tuple, Union

from . import library
from .errors import Error, InvalidError, StateError, error_for
from .library import Handle, load

OK = 0
OBJECT, LOST, INTERNAL, FULL = 2, 3, 9, 10  # of single calls


def as_bytes(value: Any, what: str) -> bytes:
    """What is sent for a value: bytes as they are, text as UTF-8, and of an array, or anything else with a buffer, its elements in C
    order. Raises InvalidError for all else."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    try:
        view = memoryview(value)
        if "O" in view.format:  # pointers, which mean nothing elsewhere
            raise TypeError
        return view.tobytes()
    except (TypeError, ValueError):
        raise InvalidError("%s: a value of type %s cannot be sent; allowed: bytes, str, a NumPy array (of a tensor: its numpy()), or another "
                           "object with a buffer of numbers" % (what, type(value).__name__)) from None


class Turns:
    """One thread at a time. A signal handler that interrupts a call of its own thread is refused, or it would wait for itself."""

    def __init__(self) -> None:
        self._lock, self._owner = threading.Lock(), 0

    def __enter__(self) -> None:
        if self._owner == threading.get_ident():
            raise StateError("this client is in a call of the same thread, which a signal handler has interrupted; use another client there")
        self._lock.acquire()
        self._owner = threading.get_ident()

    def __exit__(self, *_: Any) -> None:
        self._owner = 0
        self._lock.release()


def _close(handle: Handle, turns: Turns) -> None:
    if handle.is_here():
        with turns:
            load().dlpool_client_close(handle.take())


class Client:
    """A client, which addresses all members as one; a context manager.

    directory    HOST:PORT of the directory; None: $DL_POOL
    secret_file  the file of the pool's secret; None: $DL_POOL_SECRET
    timeout_s    longest wait of a call; 0: 60

    Opening does not connect yet. Any thread may call; calls of several threads are carried out one after the other, so open a client for
    each thread that shall not wait. The GIL is released meanwhile; signals are handled by Python when the call has returned. A process that
    forks may use its clients on, its children open their own ones: there a call raises StateError, and close() does nothing.

    Raises InvalidError, DeniedError, IoError, LibraryError.
    """

    def __init__(self, directory: Any = None, secret_file: Any = None, timeout_s: float = 0.0) -> None:
        self._handle, self._turns = Handle("client"), Turns()
        options = library.options(directory, secret_file, timeout_s)
        library.check(load().dlpool_client_open(ctypes.byref(options), ctypes.byref(self._handle.pointer)))
        # Also when it is forgotten or the interpreter ends, since the pool remembers clients that were not closed.
        weakref.finalize(self, _close, self._handle, self._turns)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """The pool forgets this client, which takes 2 seconds at most. A second call does nothing. Waits for a call of another thread."""
        _close(self._handle, self._turns)

    def update(self, key: Union[str, bytes], data: Any = b"") -> bytes:
        """Changes the state of a key, once, and returns what the object answered. ``data`` is bytes, a str, or an object with a buffer such
        as a NumPy array. Raises the errors of call()."""
        return self.call([(key, data)])[0]

    def read(self, key: Union[str, bytes], data: Any = b"") -> bytes:
        """Returns what the object's read answered. Raises the errors of call()."""
        return self.call([(key, data)], read=True)[0]

    def call(self, calls: Iterable[Tuple[Union[str, bytes], Any]], read: bool = False) -> List[bytes]:
        """Carries out updates, or with ``read`` reads: pairs of a key and data, those of different slots at the same time, those of one key
        in their order. Returns their answers in the order of the calls.

        Waits where the pool has no members yet, where slots move, and where the directory cannot be reached. Raises InvalidError (nothing
        was done), CallTimeoutError and NoMemoryError (afterwards this client can only be closed), StateError; where single calls fail, when
        all are carried out, the first one's error (ObjectError, LostError, FullError, InternalError), whose ``answers`` has the answer of
        each call or its error.
        """
        kept: List[Tuple[bytes, bytes]] = []
        for pair in calls:
            try:
                key, data = pair
            except (TypeError, ValueError):
                raise InvalidError("call %d is no pair of a key and data" % len(kept)) from None
            if not isinstance(key, (str, bytes)):
                raise InvalidError("call %d: the key is of type %s; allowed: str, bytes" % (len(kept), type(key).__name__))
            kept.append((as_bytes(key, "call %d: key" % len(kept)), as_bytes(data, "call %d" % len(kept))))
        c_calls = (library.Call * len(kept))()
        for c_call, (key_bytes, data_bytes) in zip(c_calls, kept):
            c_call.read, c_call.key, c_call.key_size = int(read), key_bytes, len(key_bytes)
            c_call.bytes, c_call.size = data_bytes, len(data_bytes)
        self._handle.check()  # before the turn, which a thread may have had when this process was forked
        with self._turns:
            code = load().dlpool_call_many(self._handle.check(), c_calls, len(kept))
            sentence = load().dlpool_error().decode(errors="replace") if code != OK else ""
            # They are the library's until the next call.
            said = [ctypes.string_at(c_call.answer, c_call.answer_size) if c_call.answer else b"" for c_call in c_calls]
        if code == OK:
            return said
        failed = error_for(code, sentence)
        if code in (OBJECT, LOST, INTERNAL, FULL):
            failed.answers = [_answer(c_call, text, failed) for c_call, text in zip(c_calls, said)]
        raise failed


def _answer(c_call: library.Call, said: bytes, first: Error) -> Union[bytes, Error]:
    if c_call.result == OK:
        return said
    if c_call.result == OBJECT:
        return error_for(OBJECT, said.decode(errors="replace"))
    return error_for(c_call.result, str(first) if c_call.result == first.code else "the call failed")
