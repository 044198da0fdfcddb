# SPDX-License-Identifier: Apache-2.0
"""Checks the arguments of functions that programs call. What is not allowed raises an InvalidError that says in one sentence what was
given, and what is allowed: ctypes would raise an error of its own, or cut a large number off without a word."""
from __future__ import annotations

import math
import operator
import os
from typing import Any, Dict, Optional, Tuple

from . import library
from .errors import InvalidError

MAX_STEP = 999999999999  # of a train step; its name has twelve digits
MAX_LEARNERS = 100000
MAX_KEEP = 1000000


def refused(what: str, value: object, allowed: str) -> InvalidError:
    """The error for an argument: ``what`` is its name, and ``allowed`` what it may be."""
    try:
        shown = "%.80r" % (value,)
    except Exception:  # its class has a __repr__ that fails
        shown = "<a %s>" % type(value).__name__
    shown = " ".join(shown.split()).encode("utf-8", "backslashreplace").decode()
    return InvalidError("%s=%s; allowed: %s" % (what, shown, allowed))


def _is_truth(value: object) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool") and type(value).__module__ == "numpy"


def whole(what: str, value: Any, low: int, high: int, allowed: str = "") -> int:
    """A whole number from low to high; 3.0 is one, True and "3" are none. ``allowed`` describes it, if more is allowed."""
    try:
        number = int(value) if isinstance(value, float) and value.is_integer() else operator.index(value)
    except Exception:  # of whatever class the value is: an array of two elements raises another error than a text
        number = low - 1
    if _is_truth(value) or not low <= number <= high:
        raise refused(what, value, allowed or "a whole number from %d to %d" % (low, high))
    return number


def seconds(what: str, value: Any, low: float = -math.inf, allowed: str = "a number of seconds, 0 and more") -> float:
    """A number of seconds from low on, and no NaN."""
    number = real(what, value, allowed)
    if math.isnan(number) or number < low:
        raise refused(what, value, allowed)
    return number


def real(what: str, value: Any, allowed: str = "a number") -> float:
    """What float() makes of a number, or of an array of one element."""
    try:
        if not isinstance(value, (str, bytes, bytearray)) and not _is_truth(value):
            return float(value)
    except Exception:  # as above
        pass
    raise refused(what, value, allowed)


def flag(what: str, value: Any) -> bool:
    """True or False, also as 1 or 0 and as NumPy's."""
    if _is_truth(value) or (type(value) is int and value in (0, 1)):
        return bool(value)
    raise refused(what, value, "True or False")


def text(what: str, value: Any, allowed: str = "a text") -> str:
    """A text that C can be given: UTF-8 without a zero."""
    if isinstance(value, str) and "\0" not in value:
        try:
            value.encode()
            return value
        except UnicodeEncodeError:
            pass
    raise refused(what, value, allowed + " (UTF-8, without a zero byte)")


def path(what: str, value: Any) -> str:
    """A path as text, as os.fsdecode() makes it of bytes and of pathlib's."""
    try:
        name = os.fsdecode(value)
    except Exception:  # as above, and of __fspath__()
        raise refused(what, value, "a path: text, bytes or an os.PathLike") from None
    library.path_bytes(name)  # InvalidError for a zero byte
    return name


def numbers(what: str, value: Any, allowed: str) -> Optional[Tuple[int, ...]]:
    """Whole numbers, 0 and more, one for each dimension; None stays None."""
    if value is None:
        return None
    try:
        items = list(value)
        if isinstance(value, (str, bytes)):
            raise TypeError
    except Exception:  # as above
        raise refused(what, value, allowed) from None
    return tuple(whole(what, item, 0, 2**63 - 1, allowed + ", each 0 or more") for item in items)


def train_steps(what: str, value: Any) -> float:
    """How many train steps to run: a whole number, or infinity."""
    if isinstance(value, float) and value == math.inf:
        return value
    return whole(what, value, 0, 2**63 - 1, "a number of train steps, 0 and more")


def of_context(run_id: Any, timeout: Any, keep_every: Any, best: Any, keep: Any = 0) -> Dict[str, Any]:
    """What attach() passes on to Context, by the names that these arguments have there."""
    return {
        "run_id": None if run_id is None else text("run_id", run_id),
        "timeout_s": seconds("timeout", timeout, 0.0),
        "keep_every": whole("keep_every", keep_every, 0, MAX_STEP),
        "best": None if best is None else text("best", best, "a text such as 'loss:min:2'"),
        "keep": whole("keep", keep, 0, MAX_KEEP),
    }
