# SPDX-License-Identifier: Apache-2.0
"""A name for one start of a job, which all its learners share."""
from __future__ import annotations

import os
import sys
from typing import Optional

from .world import World


def find_run_id(world: World) -> Optional[str]:
    """A name that learner 0 drew for this start of the job, or None: then libdlckpt finds one, in the order of
    dlckpt_options.run_id in dlckpt.h. Collective if torch.distributed is initialised and the job runs without dlrun: only a
    drawn name is certainly new at each start (torchrun's own id is "none" unless the user gives one)."""
    if os.environ.get("DL_RUN_ID") or world.size == 1 or "torch" not in sys.modules:
        return None
    from . import torch_adapter
    return torch_adapter.draw_run_id()
