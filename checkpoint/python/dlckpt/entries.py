# SPDX-License-Identifier: Apache-2.0
"""An object given to attach(), as a tree that is saved, checked and restored. objects.py and the adapters have the kinds of
objects."""
from __future__ import annotations

from typing import Any, Dict, List

from . import arrays
from .errors import MismatchError


class Entry:
    """One object. If ``per_rank`` is true, each learner saves its own."""

    per_rank = False
    takes_tensors = False  # whether its state consists only of tensors, as other programs write them
    all_same_everywhere = False  # whether same_everywhere() is true of every path
    in_place = False  # whether a restore always writes into its arrays themselves

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.value = value

    def capture(self) -> Any:
        """The tree of its present state. Arrays in it may be the live ones."""
        raise NotImplementedError

    def same_everywhere(self, path: str) -> bool:
        """Whether all learners certainly hold the same bits at this path of the checkpoint, so that the writing can be divided
        among them. Otherwise learner 0's copy is written, never a mixture of several learners' values."""
        return False

    def check(self, saved: Any) -> List[str]:
        """Before anything is changed: sentences on what does not fit. ``saved`` is the checkpoint's tree, with the reference
        dicts of codec.py in place of arrays."""
        return []

    def targets(self) -> Any:
        """The tree whose arrays a restore may write into."""
        return self.capture()

    def make_target(self, path: str, reference: Dict[str, Any]) -> Any:
        """An array into which this reference can be restored if targets() has none and a new plain one will not do; else None."""
        return None

    def apply(self, state: Any) -> None:
        """Restores the state. The arrays in ``state`` are the live ones of capture() if those fitted."""
        raise NotImplementedError


def same_kind(live: Any, saved: Any) -> bool:
    """Whether a checkpoint's reference means an array of the same dtype and global shape as this one."""
    if not arrays.is_array(live) or not isinstance(saved, dict):
        return False
    info = arrays.describe(live, "array")
    return bool(saved.get("dtype") == info.dtype and saved.get("shape") == list(info.global_shape))


def compare_arrays(name: str, saved: Dict[str, Any], live: Dict[str, Any]) -> List[str]:
    """Differences in names, dtypes and global shapes between a checkpoint's references and live arrays, as sentences."""
    problems = []
    lacking = [key for key in live if key not in saved]
    unknown = [key for key in saved if key not in live]
    if lacking:
        problems.append("%s: the checkpoint lacks %s" % (name, some(lacking)))
    if unknown:
        problems.append("%s: the program lacks %s" % (name, some(unknown)))
    differing = []
    for key, value in live.items():
        if key not in saved:
            continue
        found = saved[key]
        if same_kind(value, found):  # nearly all values
            continue
        if not arrays.is_array(value):
            if isinstance(found, dict) and found.get("$") in ("tensor", "array"):
                differing.append("%s (an array in the checkpoint, none in the program)" % (key or name))
            continue
        info = arrays.describe(value, name)
        ours = "%s %s" % (info.dtype, list(info.global_shape))
        theirs = "%s %s" % (found.get("dtype"), found.get("shape")) if isinstance(found, dict) else "no array"
        if ours != theirs:
            differing.append("%s (%s in the checkpoint, %s in the program)" % (key or name, theirs, ours))
    if differing:
        problems.append("%s: another dtype or shape of %s" % (name, some(differing)))
    return problems


def some(names: List[str]) -> str:
    """The first few names, and the number of the others."""
    shown = ", ".join(str(name) for name in names[:4])
    return shown if len(names) <= 4 else "%s and %d more" % (shown, len(names) - 4)


def apply_error(name: str, error: Exception) -> MismatchError:
    """The error for an exception of a user's own load_state_dict(), with the object's name in front."""
    return MismatchError("%s: its load_state_dict() refused the checkpoint's state: %s: %s" %
                         (name, type(error).__name__, error))
