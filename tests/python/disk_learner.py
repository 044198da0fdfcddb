# SPDX-License-Identifier: Apache-2.0
"""A learner of test_disks.py: disk_learner.py DIR MEBIBYTES STEPS. It saves after each train step, and all values are that train step.
When the first checkpoint is durable it says "saved", and goes on when it is told a word: the test breaks the disk in between."""
import os
import sys

import dlckpt
import numpy as np

dir, size, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
a, b = np.zeros(size << 17), np.zeros(3)
job = dlckpt.attach(arrays={"a": a, "b": b}, dir=dir, every="1step", keep=9, rng=False, final_save=False)
for step in job.steps(steps):
    if step == 1:
        job.wait()
        print("saved", flush=True)
        sys.stdin.readline()
    a[:] = b[:] = step + 1
print("trained to the end", flush=True)
os._exit(0)  # what the process might still say of the broken disk is not of interest
