#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network on the UCI handwritten digits with parameter servers that come and go: an elastic pool (dlpool(3)), of which dlrun
starts as many as the servers themselves find necessary. Learners pull the weights, and push gradients, each at its own pace.

    dlrun --framework pytorch --learners 2 --servers 1:4 -- python3 train_digits_pool.py
    sbatch --dl-framework=pytorch --dl-learners=2 --dl-servers=1:4 --wrap 'dlrun -- python3 train_digits_pool.py'

At the end each part of the weights says how many samples it was trained with: those of all learners, each once, whichever servers there were.
"""
import argparse
import os
import sys
import time

import numpy as np

try:
    import dlpool
except ImportError:  # plain python3: dlrun and the plugin would have put the package on PYTHONPATH
    here = os.path.dirname(os.path.abspath(__file__))
    for place in ("../../python", "../../../launcher/pool/python"):  # the installed tree, the source tree
        sys.path.append(os.path.join(here, place))
    import dlpool

RATE = np.float32(0.1)
PART = 1024  # weights of one key


class Weights:
    """The parameter server. For each key it has an array: a number of samples, and then the weights that were trained with them."""

    def __init__(self):
        self.slots = dlpool.Map(np.ndarray.tobytes, lambda data: np.frombuffer(data, np.float32).copy())

    def apply(self, key, data):
        """``data``: a number of samples and their gradient; or 0 and the first weights, of which those count that come first."""
        push = np.frombuffer(data, np.float32)
        if push[0] == 0:
            if key not in self.slots:
                self.slots[key] = push.copy()
            return
        weights = self.slots[key]
        if push.shape != weights.shape:
            raise ValueError("%d numbers are no gradient of %d weights" % (push.size - 1, weights.size - 1))
        weights[0] += push[0]
        weights[1:] -= RATE * push[1:]

    def read(self, key, _):
        return self.slots[key]

    def wanted(self, load):
        """One server more if this one computes most of the time, one less if it hardly does."""
        busy = load.busy_seconds / load.seconds if load.seconds > 0 else 0
        return load.members + (1 if busy > 0.7 else -1 if busy < 0.02 else 0)


class Parts:
    """The parameters of a network as arrays of the pool."""

    def __init__(self, pool, network):
        self._pool, self._flat = pool, [parameter.data.view(-1) for parameter in network.parameters()]
        self._parameters = list(network.parameters())
        self._places = [("%d/%d" % (i, at), i, at) for i, flat in enumerate(self._flat) for at in range(0, flat.numel(), PART)]

    def begin(self):
        """Has the pool take these weights, unless another learner's came first."""
        self._send(0, self._flat)

    def push(self, samples):
        self._send(samples, [parameter.grad.reshape(-1) for parameter in self._parameters])

    def pull(self):
        """Takes the newest weights, and returns for each part how many samples it was trained with."""
        counts = set()
        for (_, i, at), answer in zip(self._places, self._pool.call([(key, b"") for key, _, _ in self._places], read=True)):
            part = np.frombuffer(answer, np.float32)
            self._flat[i].numpy()[at:at + PART] = part[1:]
            counts.add(int(part[0]))
        return counts

    def _send(self, samples, values):
        self._pool.call([(key, np.append(np.float32(samples), values[i].numpy()[at:at + PART])) for key, i, at in self._places])


def learn(options):
    import torch  # servers do without
    from sklearn.datasets import load_digits
    from torch import nn

    rank, learners = int(os.environ["DL_RANK"]), int(os.environ["DL_WORLD_SIZE"])
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    network = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
    digits = load_digits()
    images, labels = torch.tensor(digits.images, dtype=torch.float32).reshape(-1, 64) / 16, torch.tensor(digits.target)
    held_out = torch.arange(len(labels)) % 5 == 0
    train = torch.arange(len(labels))[~held_out]
    with dlpool.Client() as pool:
        parts = Parts(pool, network)
        parts.begin()
        pool.update("done", np.zeros(1, np.float32))
        for epoch in range(options.epochs):
            order = torch.randperm(len(train), generator=torch.Generator().manual_seed(options.seed + epoch))
            for batch in train[order][rank::learners].split(options.batch):
                parts.pull()
                network.zero_grad()
                nn.functional.cross_entropy(network(images[batch]), labels[batch]).backward()
                parts.push(len(batch))
                time.sleep(options.step_delay)
        pool.update("done", np.ones(1, np.float32))
        while np.frombuffer(pool.read("done"), np.float32)[0] < learners:
            time.sleep(0.05)
        counts = parts.pull()
    if rank != 0:
        return
    with torch.no_grad():
        right = (network(images[held_out]).argmax(1) == labels[held_out]).float().mean().item()
    print("held-out accuracy: %.1f %% with %d learners" % (100 * right, learners))
    print("each part of the weights was trained with %s samples; trained: %d" % (
        " or ".join(map(str, sorted(counts))), options.epochs * len(train)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12, help="data epochs (default %(default)s)")
    parser.add_argument("--batch", type=int, default=20, help="samples of a learner's gradient (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--step-delay", type=float, default=0.0, metavar="SECONDS", help="sleep after each train step, to watch it")
    options = parser.parse_args()
    if "DL_POOL" not in os.environ:
        sys.exit("start this by dlrun --framework pytorch --servers MIN:MAX -- python3 train_digits_pool.py")
    if os.environ.get("DL_ROLE") == "server":
        dlpool.Pool(Weights()).serve()
    else:
        learn(options)


if __name__ == "__main__":
    main()
