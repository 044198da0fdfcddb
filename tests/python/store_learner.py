# SPDX-License-Identifier: Apache-2.0
"""A learner whose checkpoints also go to an object store. Usage: store_learner.py DIR STEPS KILL_AT [FAIL_AT]. Before train step KILL_AT
(-1: never) it kills itself as soon as a sending runs; before FAIL_AT it waits until a sending has failed. Prints where it went on, its weights, and the statistics of the object store."""
import glob
import hashlib
import os
import signal
import sys
import time

import dlckpt
import torch

dir, steps, kill_at, fail_at = sys.argv[1], *(int(word) for word in (sys.argv[2:] + ["-1"])[:3])


def sending():
    """Whether a process that this one has started runs `rclone rcat`."""
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as words, open(path.replace("cmdline", "environ"), "rb") as variables:
                if b"rclone\0rcat" in words.read() and ("STORE_LEARNER=%d" % os.getpid()).encode() in variables.read():
                    return True
        except OSError:
            pass
    return False


os.environ["STORE_LEARNER"] = str(os.getpid())
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Linear(100, 100)
optimizer = torch.optim.Adam(model.parameters(), 0.01)
job = dlckpt.attach(model=model, opt=optimizer, dir=dir, every="1steps", keep=2)
print("from", job.train_step, flush=True)
for _ in job.steps(steps):
    if job.train_step == kill_at:
        while not sending():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    while job.train_step == fail_at and not job.stats.failed_object_saves:
        time.sleep(0.05)
    optimizer.zero_grad()
    model(torch.randn(16, 100)).pow(2).mean().backward()
    optimizer.step()
stats = job.stats
print("weights", hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest(), flush=True)
print("store", stats.object_step, stats.object_saves, stats.failed_object_saves, flush=True)
