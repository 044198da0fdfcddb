# SPDX-License-Identifier: Apache-2.0
"""dl.metric(): values that a training reports, appended to the file that dlrun names in the environment of learner 0.

libdllearner does the same for C and C++ (launcher/collectives/metric_file.cpp); launcher/metrics/emetrics.h says what a
record is. No lock is held, so that a child process, forked while another thread reports, can report, too.
"""
import fcntl
import json
import logging
import operator
import os
import stat
import time
from typing import Any, Dict, Mapping, Optional

FILE = "DL_METRICS_FILE"
GROUPS = ("train", "validate", "test")
MOST_NAME = 200             # bytes
MOST_RECORD = 64 << 10      # bytes
MOST_FILE = 256 << 20       # bytes; further records are left out
MOST_STEP = 10 ** 12
ASK_EVERY = 1 << 20         # bytes of this process, after which it is asked how large the file is
BLOCKED_S = 2.0             # how long reporting may hold up a program,
BLOCKED_SHARE = 0.05        # and then which part of the time since its first record


class _MetricsFile:
    """The open file. Its name, as the kernel tells it, is compared before each record: a program may close all
    descriptors that it does not know, as daemons do, and open files of its own with their numbers."""

    def __init__(self) -> None:
        self._fd, self._name = -1, ""
        self._first: Optional[float] = None
        self._blocked = 0.0
        self._left_out = 0
        self._unasked = 0  # bytes that may be written before the size is asked for
        self._torn = self._full = self._said = False

    def append(self, path: str, record: Dict[str, Any]) -> None:
        begin = time.monotonic()
        if self._first is None:
            self._first = begin
        if self._full:
            return self._say(f"{path} has its largest size, 256 MiB; further values of this attempt are left out")
        if self._blocked > BLOCKED_S + (begin - self._first) * BLOCKED_SHARE:
            self._left_out += 1
            return
        # Taken first, so that no other thread says the same ones, too.
        said, self._left_out = self._left_out, 0
        line = _line_of(record, said)
        try:
            self._write(path, line)
        except OSError as error:
            self._left_out += said + 1
            self._say(f"values are not reported: {path}: {error.strerror or error}")
        finally:
            self._blocked += time.monotonic() - begin

    def _write(self, path: str, line: bytes) -> None:
        fd, keep = self._fd, True
        if fd < 0 or _name_of(fd) != self._name:
            fd = _open_regular(path)
            self._unasked = 0
            name = _name_of(fd)
            keep = bool(name)  # without /proc the file is opened for each record
            if keep:
                self._fd, self._name = fd, name
        try:
            if self._torn:  # what was written in part must not spoil this record, too
                line = b"\n" + line
            if os.write(fd, line) != len(line):
                self._torn = True
                raise OSError("only a part was written: the disk is full")
            self._torn = False
            # Each call of the system gives up the interpreter's lock, and waits 5 ms for it beside a thread that computes.
            self._unasked -= len(line)
            if self._unasked < 0:
                self._unasked = ASK_EVERY
                # The place is that behind what was written; no file system has to be asked.
                self._full = os.lseek(fd, 0, os.SEEK_CUR) >= MOST_FILE
        finally:
            if not keep:
                os.close(fd)

    def _say(self, text: str) -> None:
        if not self._said:
            self._said = True
            logging.getLogger("dl").warning("dl.metric: %s", text)


def _open_regular(path: str) -> int:
    """Not as one of the descriptors 0 to 2: a program may have closed them, and what it prints would go into the file."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    fd = os.open(path, flags, 0o666)
    above = -1
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError("it is no regular file")
        above = fd if fd > 2 else fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        if above != fd:
            os.close(fd)
    return above


def _name_of(fd: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""


def _line_of(record: Dict[str, Any], left_out: int) -> bytes:
    if left_out:
        record = {**record, "left_out": left_out}
    return (json.dumps(record, separators=(",", ":")) + "\n").encode("ascii")


_file = _MetricsFile()


def _is_name(name: Any) -> bool:
    try:
        return isinstance(name, str) and 0 < len(name.encode()) <= MOST_NAME
    except UnicodeEncodeError:
        return False


def _check_value(name: Any, value: Any) -> None:
    if not _is_name(name):
        raise ValueError(f"dl.metric: {name!r} is no name of a metric; allowed: a text of 1 to {MOST_NAME} bytes")
    if not (hasattr(type(value), "__float__") or hasattr(type(value), "__index__")):
        raise TypeError(f"dl.metric: {name} is of type {type(value).__name__}; allowed: a number, or what float() makes one of")
    count = value.numel() if callable(getattr(value, "numel", None)) else getattr(value, "size", 1)
    if isinstance(count, int) and count != 1:
        raise TypeError(f"dl.metric: {name} has {count} elements; allowed: one")


def _number(name: str, value: Any) -> str:
    try:
        return repr(float(value.item() if callable(getattr(value, "item", None)) else value))
    except OverflowError:
        raise ValueError(f"dl.metric: {name} is too large for a float") from None


def _whole(step: Any) -> int:
    try:
        number = operator.index(step)
    except TypeError:
        raise TypeError(f"dl.metric: step is of type {type(step).__name__}; allowed: a whole number") from None
    if not 0 <= number <= MOST_STEP:
        raise ValueError(f"dl.metric: step: {number} is no train step; allowed: 0 to {MOST_STEP}")
    return number


def metric(*values: Optional[Mapping[str, Any]], step: Optional[int] = None, group: str = "train", **named: Any) -> None:
    """Reports values of this moment: ``dl.metric(loss=0.3, accuracy=0.9, step=120, group="validate")``.

    values  at most one mapping, for names that are no words of Python: ``{"acc@1": 0.7}``
    step    the train step that they belong to, 0 or more. None: the one that dlckpt has announced when the value is read,
            half a second later or more, if the program uses it, else none
    group   "train", "validate" or "test"; a prefix of the name, as in val_loss, is no group
    named   numbers: of Python, NumPy, or tensors with one element. NaN and infinities, too. A tensor on a GPU is fetched,
            which waits for the GPU

    One record of JSON is appended to the file that DL_METRICS_FILE names, which dlrun sets for learner 0 alone. Where it
    is not set, outside of a job and in other learners, nothing is written; nor is it where RANK or LOCAL_RANK is not 0,
    as in workers that learner 0 starts by torchrun. ValueError and TypeError tell of arguments that are not allowed,
    everywhere; a file that cannot be written ends no training: the logger "dl" warns once. Any thread may call it, and a
    child process after fork.
    """
    if len(values) > 1:
        raise TypeError(f"dl.metric: {len(values)} mappings of values; allowed: one")
    every = {**((values and values[0]) or {}), **named}
    if not every:
        raise TypeError("dl.metric: there are no values; allowed: at least one, as in dl.metric(loss=0.3)")
    if group not in GROUPS:
        raise ValueError(f"dl.metric: group: {group!r} is unknown; allowed: {', '.join(GROUPS)}")
    if step is not None:
        step = _whole(step)
    for name, value in every.items():
        _check_value(name, value)
    path = os.environ.get(FILE)
    if not path or any(os.environ.get(name, "0") != "0" for name in ("RANK", "LOCAL_RANK")):
        return
    record: Dict[str, Any] = {"meta": {"time": int(time.time() * 1000)}, "grouplabel": group}
    if step is not None:
        record["etimes"] = {"iteration": {"type": "INT", "value": str(step)}}
    record["values"] = {name: {"type": "FLOAT", "value": _number(name, value)} for name, value in every.items()}
    if len(_line_of(record, 0)) > MOST_RECORD:
        raise ValueError(f"dl.metric: these values take more than {MOST_RECORD} bytes as a record; report them in several calls")
    _file.append(path, record)
