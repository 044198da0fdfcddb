# SPDX-License-Identifier: Apache-2.0
"""Saves as fast as it can, each checkpoint full of its own train step, until it is killed: save_forever.py DIR [KEEP]."""
import sys

import dlckpt
import numpy as np

first, second = np.zeros(500_000), np.zeros(3)
job = dlckpt.attach(arrays={"first": first, "second": second}, dir=sys.argv[1], every="1step", rng=False,
                    keep=int(sys.argv[2]) if len(sys.argv) > 2 else 0)
for step in job.steps(10**9):
    first[:] = second[:] = step + 1
    if step == 1:
        job.wait()  # saves go on in the background
    if step > 0:
        print("saved", flush=True)  # at least one is committed
