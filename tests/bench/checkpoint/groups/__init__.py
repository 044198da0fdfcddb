# SPDX-License-Identifier: Apache-2.0
"""What is measured, group by group: the subjects of one group are measured in turn, in the same minutes.

A group has a name, `measure(session)` that returns what was found (a dict that JSON can hold: "values" by "quantity/subject",
"notes" on subjects that could not be measured), and `rows(found)`, pure, that makes the rows of the table from it.
"""
from __future__ import annotations

from typing import List

from states import Scale

from .base import Group
from .blocked import Blocked
from .durable import Durable
from .elastic import Elastic
from .many import Many
from .training import TrainingLoop
from .unchanged import Unchanged
from .verify import Verify


def all_groups(scale: Scale) -> List[Group]:
    small, large, many, huge, ranks = scale.states()
    return [
        Blocked(large, with_peers=True),
        Blocked(many, with_peers=False, target="<= 1"),
        Durable(large, ("fio", "fio-overwrite", "dd", "torch", "dcp", "safetensors", "h5py", "hdf5")),
        Durable(many, ("fio", "fio-overwrite", "torch", "dcp", "safetensors", "h5py", "hdf5")),
        Durable(small, ("torch", "dcp", "safetensors", "h5py", "hdf5")),
        Durable(huge, ("fio-overwrite", "torch")),
        Durable(ranks, ("fio-overwrite", "dcp")),
        Unchanged(large),
        Verify(large),
        Verify(many),
        Elastic(ranks),
        TrainingLoop(),
        Many(scale.many("100k", 100000)),
        Many(scale.many("1m", 1000000)),
    ]
