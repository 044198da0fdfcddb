# SPDX-License-Identifier: Apache-2.0
"""A program that measures, kept running and told what to do: one line of JSON in, one line of JSON out.

An answer with "error" is raised as WorkerError, one with "unavailable" as Unavailable. Workers end when their standard input
does, so none is left behind when the bench is interrupted.
"""
from __future__ import annotations

import json
import os
import selectors
import subprocess
import time
from typing import Any, Dict, List, Optional, Sequence

from .samples import Unavailable


class WorkerError(RuntimeError):
    pass


def merge(changes: Dict[str, Optional[str]]) -> Dict[str, str]:
    """The environment with these variables set, or taken out where None."""
    merged: Dict[str, Optional[str]] = {**os.environ, **changes}
    return {name: value for name, value in merged.items() if value is not None}


class Worker:
    def __init__(self, name: str, command: Sequence[str], environment: Optional[Dict[str, Optional[str]]] = None,
                 timeout_s: float = 300.0) -> None:
        self.name = name
        self._timeout_s = timeout_s
        self._buffer = b""
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         env=merge(environment or {}))

    def tell(self, op: str, **arguments: Any) -> None:
        line = json.dumps({"op": op, **arguments}) + "\n"
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerError("%s ended with status %s" % (self.name, self._process.wait())) from None

    def answer(self) -> Dict[str, Any]:
        reply = json.loads(self._line())
        if "unavailable" in reply:
            raise Unavailable(reply["unavailable"])
        if "error" in reply:
            raise WorkerError("%s: %s" % (self.name, reply["error"]))
        return reply

    def ask(self, op: str, **arguments: Any) -> Dict[str, Any]:
        self.tell(op, **arguments)
        return self.answer()

    def close(self) -> None:
        """Ends the program; kills it if it does not end in 10 s."""
        if self._process.stdin:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                pass
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _line(self) -> bytes:
        deadline = time.monotonic() + self._timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    self._process.kill()
                    raise WorkerError("%s did not answer within %d s" % (self.name, self._timeout_s))
                piece = os.read(self._process.stdout.fileno(), 65536)
                if not piece:
                    raise WorkerError("%s ended with status %s" % (self.name, self._process.wait()))
                self._buffer += piece
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line


class Team:
    """The ranks of one job: told the same, at once."""

    def __init__(self, workers: List[Worker]) -> None:
        self.workers = workers

    def ask(self, op: str, **arguments: Any) -> List[Dict[str, Any]]:
        for worker in self.workers:
            worker.tell(op, **arguments)
        return [worker.answer() for worker in self.workers]

    def close(self) -> None:
        for worker in self.workers:
            worker.close()

    def __enter__(self) -> "Team":
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()
