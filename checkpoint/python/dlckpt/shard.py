# SPDX-License-Identifier: Apache-2.0
"""Shard: this learner's part of an array that is divided over the learners."""
from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

from .errors import InvalidError
from .world import find_world, split_evenly


class Shard:
    """This learner's box of a larger array, for state that is divided over learners (ZeRO-style optimizer state, embedding
    tables). Saved once, in global coordinates; restored into the boxes of whatever learners there are then.

    array         the local part: a NumPy array or torch tensor. It is restored in place.
    global_shape  sizes of the whole array
    offset        where the local part begins in it, one number per dimension

    At save the boxes of all learners must not overlap and must together cover the whole (else InvalidError). An empty part
    is allowed. Use :meth:`dim0` for the usual case of rows.
    """

    __slots__ = ("array", "global_shape", "offset")

    def __init__(self, array: Any, global_shape: Sequence[int], offset: Sequence[int]) -> None:
        self.array = array
        self.global_shape: Tuple[int, ...] = tuple(int(n) for n in global_shape)
        self.offset: Tuple[int, ...] = tuple(int(n) for n in offset)
        extent = tuple(int(n) for n in array.shape)
        if not len(extent) == len(self.global_shape) == len(self.offset):
            raise InvalidError("a Shard's part has %d dimensions, its global_shape %d and its offset %d; all must be equal" %
                               (len(extent), len(self.global_shape), len(self.offset)))
        if not extent:
            raise InvalidError("a Shard has at least one dimension, and this is a scalar; give the scalar itself to attach()")
        for dim, (size, start, whole) in enumerate(zip(extent, self.offset, self.global_shape)):
            if start < 0 or start + size > whole:
                raise InvalidError("a Shard's part reaches from %d to %d in dimension %d, outside of 0 to %d" %
                                   (start, start + size, dim, whole))

    @classmethod
    def dim0(cls, array: Any, total: int, start: Optional[int] = None, *, rank: Optional[int] = None,
             world_size: Optional[int] = None) -> "Shard":
        """The rows [start, start + len(array)) of an array of ``total`` rows. Without ``start``, the rows of
        ``dlckpt.split_evenly(total, rank, world_size)``, with rank and world size from the launcher."""
        if start is None:
            world = find_world(rank, world_size)
            start, stop = split_evenly(total, world.rank, world.size)
            if stop - start != int(array.shape[0]):
                raise InvalidError("learner %d of %d holds rows %d to %d of %d, but the array given has %d rows" %
                                   (world.rank, world.size, start, stop, total, int(array.shape[0])))
        rest = tuple(int(n) for n in array.shape[1:])
        return cls(array, (int(total),) + rest, (int(start),) + (0,) * len(rest))

    def __repr__(self) -> str:
        return "Shard(%s of %s at %s)" % (tuple(self.array.shape), self.global_shape, self.offset)
