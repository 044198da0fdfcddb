# SPDX-License-Identifier: Apache-2.0
"""A learner of torch.distributed: when its first all_reduce is done goes to FOLDER/collective.1.RANK (as in learner.c)."""
import os
import sys
import time

began = time.monotonic()
if "RANK" not in os.environ:  # bare srun, as scripts do it by hand
    os.environ["RANK"], os.environ["WORLD_SIZE"] = os.environ["SLURM_PROCID"], os.environ["SLURM_NTASKS"]
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

dist.init_process_group("gloo")
value = torch.ones(1)
dist.all_reduce(value)
rank = dist.get_rank()
path = os.path.join(sys.argv[1], "collective.1.%d" % rank)
with open(path + ".tmp", "w", encoding="ascii") as file:
    file.write("%.6f\n" % time.monotonic())
os.rename(path + ".tmp", path)
dist.destroy_process_group()
