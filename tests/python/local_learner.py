# SPDX-License-Identifier: Apache-2.0
"""A learner for the tests on a node of its own, with a node-local level that its partner keeps a copy of. Prints what it went on with."""
import os
import sys

import dlckpt
import numpy as np

dir, local, steps = sys.argv[1:]
rank, size = dlckpt.find_world()
os.environ.update(DL_CHECKPOINT_NODE="node%d" % rank, DL_CHECKPOINT_LOCAL=os.path.join(local, "node%d" % rank) + ",partner")
start, stop = dlckpt.split_evenly(1000, rank, size)
rows = np.zeros((stop - start, 50))
job = dlckpt.attach(rows=dlckpt.Shard(rows, (1000, 50), (start, 0)), dir=dir)
print("from", job.train_step, float(rows.min()), float(rows.max()), flush=True)
for _ in job.steps(int(steps)):
    rows += rank + 1
