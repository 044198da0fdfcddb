# SPDX-License-Identifier: Apache-2.0
"""The directory of a pool, for programs that dlrun does not start."""
from __future__ import annotations

import ctypes
import weakref
from typing import Any, NamedTuple

from . import library
from .library import Handle, load


class Facts(NamedTuple):
    """What a directory knows: struct dlpool_facts of dlpool.h."""

    members: int
    wanted: int
    unsettled: int
    lost: int
    moved: int
    version: int


def _close(handle: Handle) -> None:
    load().dlpool_directory_close(handle.take())


class Directory:
    """The directory, in a thread of the library's, until it is closed; a context manager. dlrun --servers has one by itself.

    secret_file  a new secret is put there, mode 0600, for members and clients of the same user; None: $DL_POOL_SECRET
    min, max     members; the slots are divided when min have joined. max 0: min
    listen       numeric address; None: 127.0.0.1. For members on other hosts: that of this host's network, or 0.0.0.0
    port         0: any
    copies       False: half the work, and a member that is killed loses its slots
    fixed        True: what members want does not change the size, which stays min

    Members that are too many are told to leave; those that are missing are started by the program, when facts() says so. Raises
    InvalidError, DeniedError, IoError, LibraryError.
    """

    def __init__(self, secret_file: Any = None, min: int = 1, max: int = 0, listen: Any = None, port: int = 0, copies: bool = True,
                 fixed: bool = False) -> None:  # pylint: disable=redefined-builtin
        self._handle = Handle("directory")
        options = library.DirectoryOptions(ctypes.sizeof(library.DirectoryOptions), library.path_bytes(listen), port,
                                           library.path_bytes(secret_file), min, max, int(not copies), int(fixed), None, None)
        library.check(load().dlpool_directory_open(ctypes.byref(options), ctypes.byref(self._handle.pointer)))
        self.port: int = load().dlpool_directory_port(self._handle.check())
        weakref.finalize(self, _close, self._handle)

    def __enter__(self) -> "Directory":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def facts(self) -> Facts:
        """What it knows now. Any thread. Raises StateError where it is closed."""
        facts = library.CFacts(ctypes.sizeof(library.CFacts))
        library.check(load().dlpool_directory_facts(self._handle.check(), ctypes.byref(facts)))
        return Facts(facts.members, facts.wanted, facts.unsettled, facts.lost, facts.moved, facts.version)

    def close(self) -> None:
        """Ends the pool: members end, and what they hold is gone. Waits for them, 2 seconds at most. No other thread may use the directory;
        a second call does nothing, as in a child process after fork."""
        _close(self._handle)
