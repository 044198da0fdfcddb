# SPDX-License-Identifier: Apache-2.0
"""This process's rank among the learners, as its launcher gives it in the environment."""
from __future__ import annotations

import os
import re
from typing import List, NamedTuple, Optional, Tuple

from . import arguments
from .errors import InvalidError


class World(NamedTuple):
    """rank is 0-based; size is the number of learners."""

    rank: int
    size: int


# In the order of dlckpt_options.world_size in dlckpt.h. libdlckpt has the same table (checkpoint/client/settings.cpp) for
# programs without Python; this one serves those that have no libdlckpt.
_PAIRS: List[Tuple[str, str]] = [
    ("DL_ROLE_RANK", "DL_ROLE_SIZE"),  # their numbers do not count parameter servers
    ("DL_RANK", "DL_WORLD_SIZE"),
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", "SLURM_NTASKS"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
]

_NUMBER = "-?[0-9]{1,9}"


def find_world(rank: Optional[int] = None, world_size: Optional[int] = None) -> World:
    """The given values, else the first pair of variables that is set (those of dlrun, torchrun, Open MPI, PMIx, srun), else 0
    of 1. InvalidError if a pair makes no sense."""
    if (rank is None) != (world_size is None):
        raise InvalidError("one of rank and world_size is given alone; allowed: both, or neither")
    if rank is not None and world_size is not None:
        size = arguments.whole("world_size", world_size, 1, arguments.MAX_LEARNERS)
        return _checked(arguments.whole("rank", rank, 0, arguments.MAX_LEARNERS), size, "rank and world_size")
    for rank_name, size_name in _PAIRS:
        rank_text, size_text = os.environ.get(rank_name), os.environ.get(size_name)
        if not rank_text or not size_text:
            continue
        if not (re.fullmatch(_NUMBER, rank_text) and re.fullmatch(_NUMBER, size_text)):
            raise InvalidError("%s='%s' and %s='%s' must be whole numbers" % (rank_name, rank_text, size_name, size_text))
        return _checked(int(rank_text), int(size_text), "%s and %s" % (rank_name, size_name))
    return World(0, 1)


def _checked(rank: int, size: int, source: str) -> World:
    if size < 1 or not 0 <= rank < size:
        raise InvalidError("%s say learner %d of %d; a rank is from 0 to the world size minus 1" % (source, rank, size))
    return World(rank, size)


def split_evenly(total: int, rank: int, world_size: int) -> Tuple[int, int]:
    """Learner ``rank``'s part of ``total`` things, as a half-open range: sizes differ by at most one, the first learners have
    the larger parts, and together the parts are the whole."""
    share, larger = divmod(total, world_size)
    start = rank * share + min(rank, larger)
    return start, start + share + (1 if rank < larger else 0)
