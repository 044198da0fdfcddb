#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network on the UCI handwritten digits that come with scikit-learn: real images, no download.

One script, started in any of these ways:

    python3 train_digits.py                                        one learner, on this machine
    dlrun -f horovod --learners 4 -- python3 train_digits.py       four learners, on this machine
    horovodrun -np 4 python3 train_digits.py                       the same with horovodrun
    sbatch --dl-framework=horovod --dl-learners=4 --dl-gpus=1 \\
           --dl-checkpoint=ckpt,every=10m train_digits.sbatch      four learners, on a cluster

The lines marked with * are all that slurm-dl needs in a training loop. With them the training survives preemption, time
limits, pauses and crashes, and goes on with another number of learners; no sample is trained twice or left out.
"""
import argparse
import hashlib
import os
import sys

import horovod.torch as hvd
import torch
from sklearn.datasets import load_digits
from torch import nn

try:
    import dlckpt
except ImportError:  # plain python3: dlrun and the plugin would have put the package on PYTHONPATH
    here = os.path.dirname(os.path.abspath(__file__))
    for place in ("../../python", "../../../checkpoint/python"):  # the installed tree, the source tree
        sys.path.append(os.path.join(here, place))
    import dlckpt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300, help="train steps (default %(default)s)")
    parser.add_argument("--global-batch", type=int, default=60, help="samples per train step, of all learners together")
    parser.add_argument("--crash", type=int, metavar="STEP", help="the last learner ends badly at this train step, in its first attempt")
    opts = parser.parse_args()

    hvd.init()
    if torch.cuda.is_available():
        torch.cuda.set_device(hvd.local_rank())
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).reshape(-1, 64).to(device) / 16
    labels = torch.tensor(digits.target, dtype=torch.int64).to(device)
    held_out = torch.arange(len(labels)) % 5 == 0  # every fifth image is held out
    train_images, train_labels = images[~held_out], labels[~held_out]

    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, weight_decay=1e-4)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    batches = dlckpt.GlobalBatches(len(train_labels), opts.global_batch, seed=1)                          # *
    job = dlckpt.attach(model=model, opt=optimizer, data=batches)                                         # *

    for step in job.steps(opts.steps):                                                                    # *
        index = next(batches)                                                                             # *
        loss = nn.functional.cross_entropy(model(train_images[index]), train_labels[index])
        optimizer.zero_grad()
        (loss * batches.loss_weight).backward()
        optimizer.step()
        if step == opts.crash and hvd.rank() == hvd.size() - 1 and os.environ.get("DL_ATTEMPT") == "1":
            os._exit(7)
        if hvd.rank() == 0 and (step + 1) % 50 == 0:
            print("train step %d: loss %.4f" % (step + 1, loss.item()), flush=True)

    if hvd.rank() == 0:
        with torch.no_grad():
            accuracy = (model(images[held_out]).argmax(dim=1) == labels[held_out]).float().mean().item()
        digest = hashlib.sha256()
        for tensor in model.state_dict().values():
            digest.update(tensor.cpu().numpy().tobytes())
        print("held-out accuracy: %.2f %% with %d learners on %d nodes" % (100 * accuracy, hvd.size(), hvd.cross_size()))
        print("weights sha256: %s" % digest.hexdigest(), flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
