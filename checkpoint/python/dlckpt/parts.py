# SPDX-License-Identifier: Apache-2.0
"""What is known of an array that is to be stored, and of one of which this learner holds some parts."""
from __future__ import annotations

from typing import Any, NamedTuple, Optional, Tuple


class ArrayInfo(NamedTuple):
    """What a checkpoint records of an array. ``shape`` is the local one; ``global_shape`` and ``offset`` differ from
    (shape, None) only for a Shard and for Parts."""

    kind: str  # "numpy", "torch" or "cuda"
    dtype: str
    shape: Tuple[int, ...]
    global_shape: Tuple[int, ...]
    offset: Optional[Tuple[int, ...]]


class Parts(NamedTuple):
    """Any number of boxes of a larger array, all that this learner holds of it: (offset, array) each. ``shared``: other learners
    may hold the same boxes with the same values."""

    kind: str
    dtype: str
    shape: Tuple[int, ...]  # of the whole
    boxes: Tuple[Tuple[Tuple[int, ...], Any], ...]
    shared: bool
