# SPDX-License-Identifier: Apache-2.0
"""Calls of one object from several threads, one after another."""
from __future__ import annotations

import functools
import os
import threading
from typing import Any, Callable


class Turns:
    """What an object has whose methods are in_turn()."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._pid = os.getpid()

    def take(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Calls the function once no other thread is in a call by this method, and returns what it returns. A child of fork() does not
        wait: it may lack the thread that would end the wait, and all that it may do is close its copy."""
        if os.getpid() != self._pid:
            return function(*args, **options)
        with self._lock:
            return function(*args, **options)

    def taking(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function for callers of any thread: take() of it."""
        return functools.partial(self.take, function)


def in_turn(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method that takes its turn: the object has ``_turns``."""
    @functools.wraps(function)
    def run(self: Any, *args: Any, **options: Any) -> Any:
        return self._turns.take(function, self, *args, **options)
    return run


def all_in_turn(kind: type, *names: str) -> None:
    """Makes these methods of a class in_turn()."""
    for name in names:
        setattr(kind, name, in_turn(getattr(kind, name)))
