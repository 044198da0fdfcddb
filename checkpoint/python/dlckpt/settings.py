# SPDX-License-Identifier: Apache-2.0
"""Where to save and how often: the arguments of attach() and the environment that dlrun or the user has set.

What was asked for at submission (--dl-checkpoint, which arrives as DL_CHECKPOINT and DL_CHECKPOINT_DIR) wins over the
arguments in the program, so that one script runs unchanged on a laptop and in a job.
"""
from __future__ import annotations

import datetime
import os
import re
from typing import NamedTuple, Optional, Union

from . import library
from .errors import InvalidError

Every = Union[None, int, float, str, datetime.timedelta]

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Interval(NamedTuple):
    """Seconds (library.EVERY_AUTO: found from measurements), or train steps, or neither (0, 0)."""

    seconds: float = 0.0
    steps: int = 0


def parse_every(every: Every) -> Interval:
    """"10m", "1h30m", "90s", 600 (seconds), timedelta, "50steps" or "auto". InvalidError for anything else."""
    allowed = "allowed: a time from 1s to 30d such as '10m' or 600, train steps such as '50steps', or 'auto'"
    if every is None:
        return Interval()
    if every == "auto":
        return Interval(seconds=library.EVERY_AUTO)
    if isinstance(every, datetime.timedelta):
        seconds = every.total_seconds()
    elif isinstance(every, (int, float)) and not isinstance(every, bool):
        seconds = float(every)
    elif isinstance(every, str) and re.fullmatch(r"\d{1,15}steps?", every):
        steps = int(every.rstrip("steps"))
        if steps < 1:
            raise InvalidError("every='%s'; %s" % (every, allowed))
        return Interval(steps=steps)
    elif isinstance(every, str) and re.fullmatch(r"(\d{1,9}[smhd])+|\d{1,9}", every):
        parts = re.findall(r"(\d+)([smhd]?)", every)
        seconds = float(sum(int(number) * _UNITS[unit or "s"] for number, unit in parts))
    else:
        raise InvalidError("every=%r; %s" % (every, allowed))
    if not 1.0 <= seconds <= 30 * 86400:
        raise InvalidError("every=%r; %s" % (every, allowed))
    return Interval(seconds=seconds)


class Settings(NamedTuple):
    """dir None: there is nowhere to save to. ``remark`` is for the user, or ""."""

    dir: Optional[str]
    interval: Interval
    keep: int
    remark: str


def find_settings(dir: Optional[str], every: Every, keep: int) -> Settings:
    """The rules of this module's text. Values of 0 and None leave it to libdlckpt, which reads DL_CHECKPOINT itself."""
    interval = parse_every(every)
    if keep < 0:
        raise InvalidError("keep=%d; allowed: 1 to 1000" % keep)
    asked = os.environ.get("DL_CHECKPOINT_DIR") or os.environ.get("DL_CHECKPOINT", "").split(",")[0]
    if not asked:
        return Settings(os.fspath(dir) if dir is not None else os.environ.get("CHECKPOINT_DIR") or None, interval, keep, "")
    remark = ""
    if dir is not None and os.path.abspath(os.fspath(dir)) != os.path.abspath(asked):
        remark = "using %s, as asked for at submission, instead of %s" % (asked, os.fspath(dir))
    options = os.environ.get("DL_CHECKPOINT", "").split(",")[1:]
    if any(option.startswith("every=") for option in options):
        interval = Interval()
    if any(option.startswith("keep=") for option in options):
        keep = 0
    return Settings(asked, interval, keep, remark)


MODES = ("async", "sync", "lazy")


def find_mode(mode: Optional[str]) -> str:
    """DL_CHECKPOINT_MODE, else what was given, else async. InvalidError for a word that is none of MODES."""
    found = os.environ.get("DL_CHECKPOINT_MODE") or mode or "async"
    if found not in MODES:
        raise InvalidError("the way of saving is '%s'; allowed: %s" % (found, ", ".join(MODES)))
    return found
