# SPDX-License-Identifier: Apache-2.0
"""The peers, as a program that does what it is told, one line of JSON per order (lib/dlbench/worker.py).

    main.py TENSORS BYTES RANK WORLD
"""
from __future__ import annotations

import importlib
import json
import logging
import os
import sys
import time
import warnings
from typing import Any, Dict

PEERS = {"torch": "torch_file", "dcp": "distributed", "safetensors": "safetensors_file", "h5py": "h5py_file"}


class Program:
    def __init__(self, tensors: int, size: int, rank: int, world: int) -> None:
        from state import State

        self.state = State(tensors, size, rank, world)
        self.peers: Dict[str, Any] = {}

    def obey(self, order: Dict[str, Any]) -> Dict[str, Any]:
        op = order["op"]
        if op == "touch":
            self.state.touch()
            return {}
        if op == "sum":
            return {"sum": self.state.sum()}
        if op == "facts":
            return {"bytes": self.state.bytes}
        try:
            peer = self.peer(order["peer"])
        except ImportError as error:
            return {"unavailable": "%s: %s" % (order["peer"], error)}
        if op == "open":
            return {}
        if op == "restore":
            self.state.clobber()
        began = time.monotonic()
        if op == "save":
            peer.save(order["path"])
            took = time.monotonic() - began
            return {"durable_s": took, "blocked_s": took}
        if op == "async":
            blocked = peer.save_in_background(order["path"])
            return {"blocked_s": blocked, "durable_s": time.monotonic() - began}
        if op == "restore":
            peer.restore(order["path"])
            return {"restore_s": time.monotonic() - began}
        return {"error": "'%s' is not an order" % op}

    def peer(self, name: str) -> Any:
        if name not in self.peers:
            self.peers[name] = importlib.import_module(PEERS[name]).Peer(self.state)
        return self.peers[name]


def serve(make: Any) -> None:
    """Answers orders until standard input ends. What the libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    program = None
    for line in sys.stdin:
        try:
            program = program or make()
            answer = program.obey(json.loads(line))
        except ImportError as error:
            answer = {"unavailable": str(error)}
        except Exception as error:  # told to whoever asked
            answer = {"error": "%s: %s" % (type(error).__name__, error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:5]]
    serve(lambda: Program(*numbers))
