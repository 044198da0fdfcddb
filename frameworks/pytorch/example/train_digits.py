#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network on the UCI handwritten digits that come with scikit-learn: real images, no download.

One script, started in any of these ways:

    python3 train_digits.py                                        one learner, on this machine
    dlrun --learners 4 -- python3 train_digits.py                  four learners, on this machine
    torchrun --nproc-per-node=4 train_digits.py                    the same with torchrun
    sbatch --dl-framework=pytorch --dl-learners=4 --dl-gpus=1 \\
           --dl-checkpoint=ckpt,every=10m train_digits.sbatch      four learners, on a cluster

The lines marked with * are all that slurm-dl needs in a training loop. With them the training survives preemption, time
limits, pauses and crashes; on the same number of learners it ends with the same weights, bit for bit, as a training that
was never interrupted, and on another number no sample is trained twice or left out.
"""
import argparse
import hashlib
import os
import sys
import time

# DDP would warn that no parameter is unused (see below). PyTorch logs through glog or its own logger, depending on the build.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
os.environ.setdefault("GLOG_minloglevel", "2")

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn

try:
    import dlckpt
except ImportError:  # plain python3: dlrun and the plugin would have put the package on PYTHONPATH
    here = os.path.dirname(os.path.abspath(__file__))
    for place in ("../../python", "../../../checkpoint/python"):  # the installed tree, the source tree
        sys.path.append(os.path.join(here, place))
    import dlckpt


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300, help="train steps (default %(default)s)")
    parser.add_argument("--global-batch", type=int, default=60, help="samples per train step, of all learners together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--step-delay", type=float, default=0.0, metavar="SECONDS", help="sleep after each train step, to watch it")
    parser.add_argument("--log-samples", metavar="DIR", help="write which samples each learner trains on to DIR/learner-RANK.txt")
    return parser.parse_args()


def load(device: torch.device):
    """Every fifth image is held out."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).reshape(-1, 64).to(device) / 16
    labels = torch.tensor(digits.target, dtype=torch.int64).to(device)
    held_out = torch.arange(len(labels)) % 5 == 0
    return images[~held_out], labels[~held_out], images[held_out], labels[held_out]


def main() -> None:
    opts = options()
    world_size, local_rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("LOCAL_RANK", 0))
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", local_rank % torch.cuda.device_count()) if cuda else torch.device("cpu")
    if world_size > 1:
        dist.init_process_group("nccl" if cuda else "gloo")
    rank = dist.get_rank() if world_size > 1 else 0

    # One thread and fixed seeds: the order of every sum is the same in every run.
    torch.set_num_threads(1)
    torch.manual_seed(opts.seed)
    network = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Dropout(0.1), nn.Linear(96, 10)).to(device)
    # DDP reorders its gradient buckets after the first train step of a process, and the order decides in which order more
    # than two learners' gradients are summed: a resumed run would differ in the last bit. Looking for unused parameters
    # keeps the first order for good.
    model = nn.parallel.DistributedDataParallel(network, find_unused_parameters=True) if world_size > 1 else network
    torch.manual_seed(opts.seed + rank)  # so that each learner drops other units
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=opts.steps)
    images, labels, test_images, test_labels = load(device)
    batches = dlckpt.GlobalBatches(len(labels), opts.global_batch, seed=opts.seed)                        # *
    sample_log = open(os.path.join(opts.log_samples, "learner-%d.txt" % rank), "a") if opts.log_samples else None

    job = dlckpt.attach(model=model, opt=optimizer, sched=schedule, data=batches)                         # *
    for step in job.steps(opts.steps):                                                                    # *
        index = next(batches)                                                                             # *
        loss = nn.functional.cross_entropy(model(images[index]), labels[index])
        optimizer.zero_grad()
        (loss * batches.loss_weight).backward()
        optimizer.step()
        schedule.step()
        if sample_log:
            print(step, *index, file=sample_log, flush=True)
        if rank == 0 and (step + 1) % 50 == 0:
            print("train step %d: loss %.4f" % (step + 1, loss.item()), flush=True)
        time.sleep(opts.step_delay)

    if rank == 0:
        network.eval()
        with torch.no_grad():
            accuracy = (network(test_images).argmax(dim=1) == test_labels).float().mean().item()
        digest = hashlib.sha256()
        for tensor in network.state_dict().values():
            digest.update(tensor.cpu().numpy().tobytes())
        print("held-out accuracy: %.2f %%" % (100 * accuracy))
        print("weights sha256: %s" % digest.hexdigest(), flush=True)
    if world_size > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
