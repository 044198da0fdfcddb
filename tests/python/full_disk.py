# SPDX-License-Identifier: Apache-2.0
"""A learner for the tests on a small file system: its first checkpoint fits, later ones do not."""
import os
import signal
import sys
import time

import dlckpt
import numpy as np

place, mode = sys.argv[1:]
job = dlckpt.attach(arrays={"a": np.zeros(1000)}, dir=os.path.join(place, "ckpt"), every="1step", keep=9,
                    final_save=mode == "final")
total = 2 if mode == "final" else 3 if job.world.size > 1 else 4
for step in job.steps(total):
    if step == 1:
        job.wait()  # the first one is durable before the disk is full
    if step == 1 and job.world.rank == 0:
        filler = os.open(os.path.join(place, "filler"), os.O_WRONLY | os.O_CREAT)
        try:
            while True:
                os.write(filler, bytes(4096))
        except OSError:
            os.close(filler)
    if mode == "stop" and step == 2:
        os.kill(os.getpid(), signal.SIGTERM)
if job.world.rank > 0:
    sys.exit()
time.sleep(1 if job.world.size > 1 else 0)
os.unlink(os.path.join(place, "filler"))
again = dlckpt.attach(arrays={"a": np.zeros(1000)}, dir=os.path.join(place, "ckpt"), rank=0, world_size=1)
print("trained to the end; restored train step %d" % again.train_step)
