# SPDX-License-Identifier: Apache-2.0
"""The global batch that a job trains with: the one that dlrun chose for the present number of learners (--dl-batch), or the
program's own."""
from __future__ import annotations

import os
from typing import NamedTuple, Optional

from . import arguments
from .errors import InvalidError
from .world import split_evenly


class Batch(NamedTuple):
    """A global batch, the number of passes in which it is computed, and the factor for the learning rate.

    batch          samples of a train step, of all learners together
    accumulation   passes (forward and backward) in which a learner computes its part of them
    lr_scale       factor for the learning rate; with rule adascale 1 until the noise is known (lr_scale_for())
    rule           none, linear, sqrt or adascale
    reference      the batch for which the program's own learning rate is meant
    """

    batch: int
    accumulation: int = 1
    lr_scale: float = 1.0
    rule: str = "none"
    reference: int = 0

    def lr_scale_for(self, noise: Optional[float]) -> float:
        """The factor of the learning rate for this gradient noise scale, in samples: the gain of AdaScale, from 1 to batch /
        reference. Other rules do not depend on the noise."""
        if self.rule != "adascale" or noise is None or not noise >= 0:
            return self.lr_scale
        if noise > 1e300:
            return self.batch / self.reference
        return (noise / self.reference + 1) / (noise / self.batch + 1)


def asked_batch() -> Optional[Batch]:
    """The batch that the launcher gives in DL_GLOBAL_BATCH and so on; None if the job has no --dl-batch."""
    if not os.environ.get("DL_GLOBAL_BATCH"):
        return None
    try:
        batch, passes = int(os.environ["DL_GLOBAL_BATCH"]), int(os.environ.get("DL_ACCUMULATION") or 1)
        scale = float(os.environ.get("DL_LR_SCALE") or 1)
        numbers, _, options = (os.environ.get("DL_BATCH") or str(batch)).partition(",")
        reference = int(numbers.partition(":")[0])
    except ValueError as error:
        raise InvalidError("DL_BATCH, DL_GLOBAL_BATCH, DL_ACCUMULATION and DL_LR_SCALE must be as dlrun sets them: %s" % error) from None
    if not (1 <= passes <= batch and reference >= 1 and 0 < scale < float("inf")):
        raise InvalidError("DL_GLOBAL_BATCH=%d with DL_ACCUMULATION=%d, DL_LR_SCALE=%g and DL_BATCH from %d on is no batch that dlrun "
                           "has chosen" % (batch, passes, scale, reference))
    rule = next((option[5:] for option in options.split(",") if option.startswith("rule=")), "none")
    return Batch(batch, passes, scale, rule, reference)


def find_batch(default: Optional[int] = None) -> Batch:
    """The batch that was chosen for this job; without --dl-batch ``default``, the program's own. InvalidError if there is
    neither."""
    asked = asked_batch()
    if asked is not None:
        return asked
    if default is None:
        raise InvalidError("no size of a global batch is given: ask for one with --dl-batch (dlrun --batch), or give "
                           "find_batch() a number")
    default = arguments.whole("default", default, 1, 2**53, "1 or more samples")
    return Batch(default, reference=default)


def part_size(total: int, number: int, parts: int) -> int:
    """The size of part ``number`` when ``total`` is divided into parts whose sizes differ by at most one, the larger ones first."""
    start, stop = split_evenly(total, number, parts)
    return stop - start


def local_batch(batch: int, accumulation: int, rank: int, world_size: int) -> int:
    """The samples that a learner computes in one train step, in all passes together."""
    size, larger = divmod(batch, accumulation)
    return larger * part_size(size + 1, rank, world_size) + (accumulation - larger) * part_size(size, rank, world_size)
