# SPDX-License-Identifier: Apache-2.0
"""dl.vote(): how many learners the job needs, as a learner says it.

A vote stands in the file of the progress page, where the learner's agent reads it: common/contract/vote.h says how.
libdllearner does the same for C and C++, and dlckpt/voting.py for programs with checkpoints.
"""
import fcntl
import logging
import operator
import os
import stat
import struct
import time
from typing import Any

PAGE = "DL_PROGRESS"
MAGIC = struct.pack("=Q", 0x31474B5054434C44)  # begins the page
PAGE_BYTES = 4096
VOTE_AT = 1024          # place of the vote in the file
MOST_CHANGE = 100000
MOST_REASON = 200       # bytes

_said = False


def _check_sum(data: bytes) -> int:
    total = 2166136261  # FNV-1a
    for byte in data:
        total = (total ^ byte) * 16777619 & 0xFFFFFFFF
    return total


def vote_bytes(change: int, reason: bytes, number: int) -> bytes:
    """What stands in the file for a vote."""
    rest = struct.pack("=IQq%ds" % MOST_REASON, len(reason), number, change, reason)
    return struct.pack("=I", _check_sum(rest)) + rest


def checked(change: Any, reason: Any) -> bytes:
    """The reason as bytes, if the vote is allowed."""
    try:
        number = operator.index(change)
    except TypeError:
        raise TypeError(f"dl.vote: change is of type {type(change).__name__}; allowed: a whole number") from None
    if not -MOST_CHANGE <= number <= MOST_CHANGE:
        raise ValueError(f"dl.vote: change: {number} is out of range; allowed: {-MOST_CHANGE} to {MOST_CHANGE}")
    if not isinstance(reason, str):
        raise TypeError(f"dl.vote: reason is of type {type(reason).__name__}; allowed: a text")
    try:
        text = reason.encode()
    except UnicodeEncodeError:
        text = b"\0"
    if len(text) > MOST_REASON or any(ord(c) < 32 or 127 <= ord(c) < 160 for c in text.decode()):
        raise ValueError(f"dl.vote: reason: {reason[:80]!r} is no short text; allowed: at most {MOST_REASON} bytes of UTF-8 without "
                         "control characters")
    return text


def _write(path: str, data: bytes) -> None:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    except (FileNotFoundError, NotADirectoryError):
        return  # a program that was started elsewhere with a copied environment
    if fd <= 2:  # the program has closed it, and what another thread prints would go into the page
        low, fd = fd, fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
        os.close(low)
    try:
        # Whatever the variable names, only a page is written to.
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size < PAGE_BYTES or os.pread(fd, len(MAGIC), 0) != MAGIC:
            raise OSError("it is no progress page")
        if os.pwrite(fd, data, VOTE_AT) != len(data):
            raise OSError("only a part was written")
    finally:
        os.close(fd)


def vote(change: int, reason: str = "") -> None:
    """Says how many learners the job needs, compared with those that it has: ``dl.vote(+2, "loader stalls 40 %")``.

    change  learners to add, or if negative to give back; 0: the number is right
    reason  for people, at most 200 bytes, without control characters

    "dlctl status" and "dlctl why" show the job's vote: the median of all learners' votes, where one that has not voted counts
    as a vote for no change. A learner's newest vote counts, for 10 minutes: repeat it as long as it holds. A vote changes no
    size. Outside of dlrun nothing is done. ValueError and TypeError tell of arguments that are not allowed, everywhere; a
    vote that cannot be told ends no training: the logger "dl" warns once. Any process of a learner may vote, any thread, and
    a child process after fork.
    """
    global _said
    text = checked(change, reason)
    path = os.environ.get(PAGE)
    if not path:
        return
    try:
        _write(path, vote_bytes(operator.index(change), text, time.monotonic_ns() | 1))
    except OSError as error:
        if not _said:
            _said = True
            logging.getLogger("dl").warning("dl.vote: votes are not told: %s: %s", path, error.strerror or error)
