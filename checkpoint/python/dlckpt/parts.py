# SPDX-License-Identifier: Apache-2.0
"""Descriptions of an array that is to be stored, and of an array of which this learner holds some parts."""
from __future__ import annotations

from typing import Any, NamedTuple, Optional, Tuple


class ArrayInfo(NamedTuple):
    """The facts about an array that a checkpoint records. ``shape`` is the local one; ``global_shape`` and ``offset`` differ
    from (shape, None) only for a Shard and for Parts."""

    kind: str  # "numpy", "torch" or "cuda"
    dtype: str
    shape: Tuple[int, ...]
    global_shape: Tuple[int, ...]
    offset: Optional[Tuple[int, ...]]


class Parts(NamedTuple):
    """The boxes of a larger array that this learner holds, as pairs (offset, array). ``shared``: other learners may hold the
    same boxes with the same values."""

    kind: str
    dtype: str
    shape: Tuple[int, ...]  # shape of the whole array
    boxes: Tuple[Tuple[Tuple[int, ...], Any], ...]
    shared: bool
