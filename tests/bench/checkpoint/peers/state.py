# SPDX-License-Identifier: Apache-2.0
"""The state that is saved: float32 tensors full of random bits, as in driver/state.h."""
from __future__ import annotations

import os
from typing import Dict

import numpy

COLUMNS = 1024


class State:
    """arrays: this rank's rows, by name; rows: of the whole."""

    def __init__(self, tensors: int, size: int, rank: int, world: int) -> None:
        elements = size // tensors // 4
        columns = COLUMNS if elements % COLUMNS == 0 else 1
        self.rank, self.world = rank, world
        self.rows = elements // columns
        first, last = self.rows * rank // world, self.rows * (rank + 1) // world
        shape = (last - first, columns) if columns > 1 else (last - first,)
        random = numpy.random.Generator(numpy.random.SFC64(rank))
        self.arrays: Dict[str, numpy.ndarray] = {}
        for i in range(tensors):
            bits = random.integers(0, 2**32, size=shape, dtype=numpy.uint32)
            self.arrays["model/layers.%05d.weight" % i] = bits.view(numpy.float32)
        self.bytes = sum(array.nbytes for array in self.arrays.values())

    def touch(self) -> None:
        for array in self.arrays.values():
            array.reshape(-1).view(numpy.uint32)[::1024] += numpy.uint32(12345)

    def clobber(self) -> None:
        for array in self.arrays.values():
            array.fill(0)

    def sum(self) -> int:
        return sum(int(array.view(numpy.uint32).sum(dtype=numpy.uint64)) for array in self.arrays.values())


def sync_path(path: str) -> None:
    """fsync of a file or a directory."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_parent(path: str) -> None:
    sync_path(os.path.dirname(os.path.abspath(path)))
