# SPDX-License-Identifier: Apache-2.0
"""A name for one start of a job, which all its learners share."""
from __future__ import annotations

import os
import sys
from typing import Optional

from .world import World


def find_run_id(world: World) -> Optional[str]:
    """A name for this start of the job that all its learners share, or None: then libdlckpt finds one (DL_RUN_ID, or torchrun's
    variables). Collective if torch.distributed is initialised and the job runs without dlrun: only a name drawn by rank 0 is
    certainly new at each start (torchrun's own id is "none" unless the user gives one)."""
    if os.environ.get("DL_RUN_ID") or world.size == 1:
        return None
    if "torch" in sys.modules:
        from . import torch_adapter
        drawn = torch_adapter.draw_run_id()
        if drawn is not None:
            return drawn
    if os.environ.get("SLURM_PROCID") and os.environ.get("SLURM_STEP_ID"):
        parts = [os.environ.get(name, "0") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")]
        return "slurm-" + "-".join(parts)
    namespace = os.environ.get("PMIX_NAMESPACE")
    if namespace:
        return "pmix-" + "".join(c if c.isalnum() or c in "._-" else "-" for c in namespace)[:50]
    return None
