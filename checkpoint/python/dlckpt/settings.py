# SPDX-License-Identifier: Apache-2.0
"""Where to save, how often and how: converts the arguments of attach() for libdlckpt, and its answer back.

The library alone decides whether the argument or the environment counts (options.environment_first in dlckpt.h).
"""
from __future__ import annotations

import ctypes
import datetime
import os
import re
from typing import NamedTuple, Optional, Union

from . import arguments, library
from .errors import LibraryError, error_for

Every = Union[None, int, float, str, datetime.timedelta]

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Interval(NamedTuple):
    """Seconds (library.EVERY_AUTO: the interval follows from measurements), or train steps, or neither (0, 0)."""

    seconds: float = 0.0
    steps: int = 0


def parse_every(every: Every) -> Interval:
    """"10m", "1h30m", "90s", 600 (seconds), timedelta, "50steps" or "auto". InvalidError for anything else."""
    allowed = "a time from 1s to 30d such as '10m' or 600, train steps such as '50steps', or 'auto'"
    if every is None:
        return Interval()
    if isinstance(every, str) and every == "auto":
        return Interval(seconds=library.EVERY_AUTO)
    if isinstance(every, datetime.timedelta):
        seconds = every.total_seconds()
    elif isinstance(every, (int, float)) and not isinstance(every, bool):
        seconds = float(every) if abs(every) < 1e9 else -1.0
    elif isinstance(every, str) and re.fullmatch(r"\d{1,15}steps?", every):
        steps = int(every.rstrip("steps"))
        if steps < 1:
            raise arguments.refused("every", every, allowed)
        return Interval(steps=steps)
    elif isinstance(every, str) and re.fullmatch(r"(\d{1,9}[smhd])+|\d{1,9}", every):
        parts = re.findall(r"(\d+)([smhd]?)", every)
        seconds = float(sum(int(number) * _UNITS[unit or "s"] for number, unit in parts))
    else:
        raise arguments.refused("every", every, allowed)
    if not 1.0 <= seconds <= 30 * 86400:
        raise arguments.refused("every", every, allowed)
    return Interval(seconds=seconds)


class Settings(NamedTuple):
    """If dir is None, there is no directory to save to. ``remark`` is a message for the user, or ""."""

    dir: Optional[str]
    interval: Interval
    keep: int
    mode: str
    every_asked: bool  # the interval was asked for at submission
    remark: str


# If one of these, or the argument, is set, there is a directory; a program without libdlckpt would then lose its checkpoints.
_NAME_A_DIRECTORY = ("DL_CHECKPOINT_DIR", "DL_CHECKPOINT", "CHECKPOINT_DIR")


def find_settings(dir: Union[None, str, "os.PathLike[str]"], every: Every = None, keep: int = 0,
                  mode: Optional[str] = None) -> Settings:
    """The library's (dlckpt_resolve) answer for the arguments and the environment; what the environment names counts first.
    InvalidError; LibraryError if there is a directory but no library."""
    interval = parse_every(every)
    if mode is not None and not (isinstance(mode, str) and mode in library.MODES):
        raise arguments.refused("mode", mode, ", ".join(library.MODES))
    keep = arguments.whole("keep", keep, 0, arguments.MAX_KEEP)
    given = arguments.path("dir", dir) if dir is not None else None
    try:
        lib = library.load()
    except LibraryError:
        if given is not None or any(os.environ.get(name) for name in _NAME_A_DIRECTORY):
            raise
        return Settings(None, interval, keep, mode or "async", False, "")
    # struct_size only covers the members that are used here, so that an older library accepts the structs.
    options = library.Options(struct_size=library.Options.objects.offset, dir=library.path_bytes(given) if given else None, world_size=1,
                              every_s=interval.seconds, every_steps=interval.steps, keep=keep,
                              mode=library.MODES[mode] if mode else 0, environment_first=1)
    found = library.Settings(struct_size=library.Settings.rank.offset)
    code = lib.dlckpt_resolve(ctypes.byref(options), ctypes.byref(found))
    if code != library.OK:
        raise error_for(code, (lib.dlckpt_open_error() or b"").decode("utf-8", "replace"))
    where = os.fsdecode(found.dir) if found.dir else None
    remark = ""
    if given and where and found.from_environment & library.SETTING_DIR and os.path.abspath(given) != os.path.abspath(where):
        remark = "using %s, as asked for at submission, instead of %s" % (where, given)
    return Settings(where, Interval(found.every_s, found.every_steps), found.keep,
                    next(name for name, number in library.MODES.items() if number == found.mode),
                    bool(found.from_environment & library.SETTING_EVERY), remark)
