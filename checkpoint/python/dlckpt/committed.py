# SPDX-License-Identifier: Apache-2.0
"""Finds the checkpoints of a directory, and their blobs. One process reads by itself: it takes no lease and asks no other
learner. For facts that must be known before a collective restore can be prepared.

No checksum of what is read here is verified; the restore that follows verifies every block of the checkpoint.
"""
from __future__ import annotations

import json
import os
import re
import stat
from typing import Any, List, NamedTuple, Optional

from .errors import CorruptError, DeniedError, IoError, NotFoundError

_NAME = re.compile(r"step-(\d{12})\.([0-9a-f]{16})")
_MAX_MANIFEST = 256 << 20
_MAX_BLOB = 1 << 30


class Committed(NamedTuple):
    """A checkpoint's folder and train step."""

    path: str
    step: int


def checkpoints(dir: str) -> List[Committed]:
    """All committed checkpoints of the directory, the one that was committed last first. [] if there is no such directory.
    DeniedError, IoError."""
    try:
        names = os.listdir(dir)
    except FileNotFoundError:
        return []
    except PermissionError as error:
        raise DeniedError("%s cannot be listed: %s" % (dir, error.strerror)) from error
    except OSError as error:
        raise IoError("%s cannot be listed: %s" % (dir, error.strerror)) from error
    found = [match for match in map(_NAME.fullmatch, names) if match]
    found.sort(key=lambda match: (int(match.group(2)[:8], 16), int(match.group(1)), match.group(2)), reverse=True)
    return [Committed(os.path.join(dir, match.group(0)), int(match.group(1))) for match in found]


def find(dir: str, step: Optional[int] = None) -> Committed:
    """The newest checkpoint, or the newest one of a train step. NotFoundError names the ones that exist."""
    all_there = checkpoints(dir)
    for checkpoint in all_there:
        if step is None or checkpoint.step == step:
            return checkpoint
    if step is None or not all_there:
        raise NotFoundError("no checkpoint in %s" % dir)
    raise NotFoundError("no checkpoint of train step %d in %s; there are %s" %
                        (step, dir, ", ".join(str(c.step) for c in all_there)))


def read_blob(checkpoint: Committed, path: str, rank: int = -1) -> bytes:
    """The bytes of a blob: that of all learners, or one learner's own. NotFoundError, CorruptError, IoError."""
    manifest = _manifest(checkpoint)
    try:
        for blob in manifest["blobs"]:
            if blob["path"] == path and blob["rank"] == rank:
                name, at, size = manifest["files"][blob["file"]]["name"], int(blob["at"]), int(blob["size"])
                break
        else:
            raise NotFoundError("%s holds no blob %s" % (checkpoint.path, path))
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise CorruptError("%s: the manifest lacks a member, or has one of the wrong type (%s)" % (checkpoint.path, error)) from error
    if os.sep in str(name) or not 0 <= size <= _MAX_BLOB or at < 0:
        raise CorruptError("%s: the manifest puts the blob %s outside of the checkpoint" % (checkpoint.path, path))
    data = _read(os.path.join(checkpoint.path, str(name)), at, size)
    if len(data) != size:
        raise CorruptError("%s is shorter than its manifest says" % os.path.join(checkpoint.path, str(name)))
    return data


def _manifest(checkpoint: Committed) -> Any:
    text = _read(os.path.join(checkpoint.path, "MANIFEST.json"), 0, _MAX_MANIFEST)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptError("%s: the manifest cannot be read: %s" % (checkpoint.path, error)) from error


def _read(path: str, at: int, size: int) -> bytes:
    try:
        # O_NONBLOCK: if a FIFO were in its place, this must not wait for a writer.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise CorruptError("%s is not a regular file" % path)
            file.seek(at)
            return file.read(size)
    except FileNotFoundError as error:
        raise NotFoundError("%s was removed while it was read" % path) from error
    except OSError as error:
        raise IoError("%s cannot be read: %s" % (path, error.strerror)) from error
