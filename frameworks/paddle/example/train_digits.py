#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network with PaddlePaddle on the UCI handwritten digits that come with scikit-learn: real images, no download.

One script, started in any of these ways:

    python3 train_digits.py                                           one learner, on this machine
    dlrun --framework paddle --learners 4 -- python3 train_digits.py  four learners, on this machine
    sbatch --dl-framework=paddle --dl-learners=4 --dl-gpus=1 \\
           --dl-checkpoint=ckpt,every=10m train_digits.sbatch         four learners, on a cluster

The lines marked with * are all that slurm-dl needs in a training loop: with them the training survives preemption, time limits,
pauses and crashes.
"""
import argparse
import hashlib
import os
import sys

import numpy as np
import paddle
import paddle.distributed as dist
from paddle import nn
from sklearn.datasets import load_digits

try:
    import dlckpt
except ImportError:  # plain python3: dlrun and the plugin would have put the package on PYTHONPATH
    here = os.path.dirname(os.path.abspath(__file__))
    for place in ("../../python", "../../../checkpoint/python"):  # the installed tree, the source tree
        sys.path.append(os.path.join(here, place))
    import dlckpt


class Saved:
    """A layer or an optimizer of Paddle in the form of NumPy arrays, which the checkpoint service can save."""

    def __init__(self, of) -> None:
        self.of = of

    def state_dict(self) -> dict:
        return {name: value.numpy() if isinstance(value, paddle.Tensor) else value for name, value in self.of.state_dict().items()}

    def load_state_dict(self, state: dict) -> None:
        self.of.set_state_dict({name: paddle.to_tensor(value) if isinstance(value, np.ndarray) else value
                                for name, value in state.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300, help="train steps (default %(default)s)")
    parser.add_argument("--global-batch", type=int, default=60, help="samples per train step, of all learners together")
    opts = parser.parse_args()

    if int(os.environ.get("DL_WORLD_SIZE", 1)) > 1:
        if not paddle.is_compiled_with_cuda():
            os.environ.setdefault("PADDLE_DISTRI_BACKEND", "gloo")
        dist.init_parallel_env()  # all that it needs is in the environment
    digits = load_digits()
    images, labels = (digits.images.reshape(-1, 64) / 16).astype("float32"), digits.target.astype("int64")
    held_out = np.arange(len(labels)) % 5 == 0  # every fifth image is held out
    train_images, train_labels = images[~held_out], labels[~held_out]

    paddle.seed(1)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
    optimizer = paddle.optimizer.Momentum(0.2, momentum=0.9, parameters=model.parameters(), weight_decay=1e-4)
    batches = dlckpt.GlobalBatches(len(train_labels), opts.global_batch, seed=1)                          # *
    job = dlckpt.attach(model=Saved(model), opt=Saved(optimizer), data=batches)                           # *

    for step in job.steps(opts.steps):                                                                    # *
        index = next(batches)                                                                             # *
        loss = nn.functional.cross_entropy(model(paddle.to_tensor(train_images[index])), paddle.to_tensor(train_labels[index]))
        (loss * batches.loss_weight).backward()
        if dist.get_world_size() > 1:
            for parameter in model.parameters():
                mean = parameter.grad / dist.get_world_size()
                dist.all_reduce(mean)
                parameter.grad = mean
        optimizer.step()
        optimizer.clear_grad()
        if dist.get_rank() == 0 and (step + 1) % 50 == 0:
            print("train step %d: loss %.4f" % (step + 1, float(loss)), flush=True)

    if dist.get_rank() == 0:
        guessed = model(paddle.to_tensor(images[held_out])).numpy().argmax(axis=1)
        digest = hashlib.sha256(b"".join(value.numpy().tobytes() for value in model.state_dict().values()))
        print("held-out accuracy: %.2f %% with %d learners" % (100 * (guessed == labels[held_out]).mean(), dist.get_world_size()))
        print("weights sha256: %s" % digest.hexdigest(), flush=True)


if __name__ == "__main__":
    main()
