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
        self.lock = threading.RLock()
        self.pid = os.getpid()

    def waiting(self, function: Callable[[], None]) -> Callable[[], None]:
        """The function, for callers of any thread: it waits as methods in_turn() do."""
        def run() -> None:
            with self.lock:
                function()
        return run


def in_turn(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method that waits until no other thread is in one of these methods of the object, which has ``_turns``. A child of fork()
    does not wait: it may lack the thread that would end the wait, and all that it may do is close its copy."""
    @functools.wraps(function)
    def run(self: Any, *args: Any, **options: Any) -> Any:
        if os.getpid() != self._turns.pid:
            return function(self, *args, **options)
        with self._turns.lock:
            return function(self, *args, **options)
    return run


def all_in_turn(kind: type, *names: str) -> None:
    """Makes these methods of a class in_turn()."""
    for name in names:
        setattr(kind, name, in_turn(getattr(kind, name)))
