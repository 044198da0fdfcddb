#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small real trainings whose speed-up curves tests/bench/elastic/curves measures: trainings.py NAME SECONDS, under dlrun.

They train on the handwritten digits that come with scikit-learn, with PyTorch and one thread per learner, at the global batch that --batch
gives. `trainings.py NAME accuracy BATCH EPOCHS SEED` trains alone, and prints the accuracy on the held-out images.
"""
import os
import sys
import time

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn


class Rows(nn.Module):
    """A recurrent network that reads an image row by row."""

    def __init__(self):
        super().__init__()
        self.gru, self.last = nn.GRU(8, 64, batch_first=True), nn.Linear(64, 10)

    def forward(self, images):
        return self.last(self.gru(images.reshape(-1, 8, 8))[0][:, -1])


# Name: user's batch, learning rate at it, network. The largest batch is eight times the user's, if that keeps accuracy (curves).
TRAININGS = {
    # The network of frameworks/pytorch/example: a train step is so short that what does not depend on the samples is most of it.
    "digits": (60, 0.1, lambda: nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))),
    # Convolutions on images of 16 x 16: computes long, and has few weights.
    "convolutions": (32, 0.05, lambda: nn.Sequential(nn.Unflatten(1, (1, 8, 8)), nn.Upsample(scale_factor=2), nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(),
                                                     nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(512, 10))),
    # 300,000 weights for 64 pixels: gradients to exchange and weights to change, and little else.
    "wide": (32, 0.05, lambda: nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))),
    # In between; its batch counts as one that cannot vary.
    "rows": (32, 0.1, Rows),
}


def data():
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).reshape(-1, 64) / 16
    labels = torch.tensor(digits.target, dtype=torch.int64)
    held_out = torch.arange(len(labels)) % 5 == 0
    return images[~held_out], labels[~held_out], images[held_out], labels[held_out]


def train_step(model, opt, images, labels, weight=1.0):
    opt.zero_grad()
    (nn.functional.cross_entropy(model(images), labels) * weight).backward()
    opt.step()


def accuracy(name, batch, epochs, seed):
    torch.manual_seed(seed)
    users, rate, network = TRAININGS[name]
    model = network()
    images, labels, test_images, test_labels = data()
    opt = torch.optim.SGD(model.parameters(), lr=rate * (batch / users) ** 0.5, momentum=0.9)  # rule=sqrt
    steps = max(1, round(epochs * len(labels) / batch))
    # The rate rises in the first tenth, as usual for large batches, and then falls.
    rises = max(1, steps // 10)
    falls = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: min((step + 1) / rises, 1) * (1 - step / steps))
    for step in range(steps):
        index = torch.randint(len(labels), (batch,))
        train_step(model, opt, images[index], labels[index])
        falls.step()
    with torch.no_grad():
        return (model(test_images).argmax(1) == test_labels).float().mean().item()


def measure(name, seconds):
    import dlckpt  # dlrun has put it on PYTHONPATH
    world = int(os.environ["WORLD_SIZE"])
    if world > 1:
        dist.init_process_group("gloo")
    _, rate, network = TRAININGS[name]
    model = network()
    ddp = nn.parallel.DistributedDataParallel(model) if world > 1 else model
    opt = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    images, labels, _, _ = data()
    batches = dlckpt.GlobalBatches(len(labels), dlckpt.find_batch(TRAININGS[name][0]), seed=1)
    job = dlckpt.attach(model=model, opt=opt, data=batches)
    begin = time.monotonic()
    for step in job.steps(10**9):
        index = next(batches)
        train_step(ddp, opt, images[index], labels[index], batches.loss_weight)
        if step % 100 == 99:  # all learners end at the same train step
            over = torch.tensor([float(time.monotonic() - begin > seconds)])
            if world > 1:
                dist.all_reduce(over)
            if over.item() > 0:
                break


def main():
    torch.set_num_threads(1)
    if sys.argv[2] == "accuracy":
        print("%.4f" % accuracy(sys.argv[1], *map(int, sys.argv[3:6])))
    else:
        measure(sys.argv[1], float(sys.argv[2]))


if __name__ == "__main__":
    main()
