# SPDX-License-Identifier: Apache-2.0
"""A program that takes, or tries to take, a port that a job uses."""
from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Dict

if TYPE_CHECKING:
    from dlfaults.cell import Cell

# Listens at the port until it is ended; says "taken" or why not.
THIEF = """
import os, socket, sys, time
if sys.argv[2] == "nobody":
    os.setgid(65534)
    os.setuid(65534)
s = socket.socket(socket.AF_INET6)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(sys.argv[2] == "nobody"))
try:
    s.bind(("::", int(sys.argv[1])))
    s.listen()
except OSError as error:
    sys.exit(error.strerror)
print("taken", flush=True)
time.sleep(600)
"""
_thieves: Dict[int, subprocess.Popen] = {}


def _start(cell: "Cell", node: str, port: int, user: str) -> bool:
    thief = subprocess.Popen(cell.sandbox.on_host(node, ["/usr/bin/python3", "-c", THIEF, str(port), user]), stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    _thieves[thief.pid] = thief
    return thief.stdout.readline().strip() == "taken"


def take(cell: "Cell", node: str, port: int) -> None:
    if not _start(cell, node, port, "root"):
        raise RuntimeError("port %d of %s could not be taken" % (port, node))


def try_all(cell: "Cell") -> None:
    """As another user with SO_REUSEPORT: what a careless server would do, and worse."""
    for port in sorted(set(cell.sandbox.listeners(cell.rank0_node))):
        if not _start(cell, cell.rank0_node, port, "nobody"):
            cell.seen.notes.append("port %d is refused" % port)
        elif cell.sandbox.listeners(cell.rank0_node).count(port) > 1:
            cell.seen.unexpected.append("port %d was taken" % port)
        else:
            cell.seen.notes.append("port %d had just been given up" % port)


def give_back(_cell: "Cell") -> None:
    for thief in _thieves.values():
        thief.kill()
        thief.communicate()
    _thieves.clear()
