# SPDX-License-Identifier: Apache-2.0
"""A learner for the tests: a small network with dropout and batch normalisation, on made data. Prints one line of JSON per
train step with the samples it trained on, and at the end one with the SHA-256 of the weights and of the optimizer's state.

With several learners (RANK, WORLD_SIZE) it uses DistributedDataParallel over gloo."""
import argparse
import hashlib
import json
import os
import sys

import dlckpt
import torch
import torch.distributed as dist
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--dir")
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--global-batch", type=int, default=12)
parser.add_argument("--every")
parser.add_argument("--optimizer", default="sgd", choices=["sgd", "adam"])
parser.add_argument("--leave-at", type=int, default=-1, help="save before this train step and exit with 75")
parser.add_argument("--die-at", type=int, default=-1, help="die before this train step, as by kill -9, once earlier saves are durable")
parser.add_argument("--loader", action="store_true", help="let a DataLoader with workers draw ahead")
opts = parser.parse_args()

world = dlckpt.find_world()
if world.size > 1:
    dist.init_process_group("gloo")
torch.set_num_threads(1)
torch.manual_seed(5)
inner = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
model = nn.parallel.DistributedDataParallel(inner) if world.size > 1 else inner
data = torch.randn(40, 8)
labels = data.sum(dim=1).gt(0).long()
torch.manual_seed(100 + world.rank)
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) if opts.optimizer == "sgd" else \
    torch.optim.Adam(model.parameters(), lr=0.01)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.1, total_steps=opts.steps + 1)
batches = dlckpt.GlobalBatches(len(data), opts.global_batch, seed=2)
job = dlckpt.attach(model=model, opt=opt, sched=sched, batches=batches, dir=opts.dir, every=opts.every)

if opts.loader:
    loader = torch.utils.data.DataLoader(range(len(data)), batch_sampler=batches, num_workers=1, collate_fn=list)
    draws = iter(loader)
else:
    draws = batches
for step in job.steps(opts.steps):
    if step == opts.leave_at:
        job.save()
        job.close()
        sys.exit(75)
    if step == opts.die_at:
        job.wait()  # what was saved before is durable: which checkpoint is the last one must not be a matter of luck
        os._exit(9)
    index = next(draws)
    loss = nn.functional.cross_entropy(model(data[index]), labels[index]) * batches.loss_weight
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    job.state["losses"] = job.state.get("losses", 0.0) + (loss.item() if world.size == 1 else 0.0)
    print(json.dumps({"step": step, "rank": world.rank, "samples": index}), flush=True)

weights, parameters, state = hashlib.sha256(), hashlib.sha256(), hashlib.sha256()
for tensor in inner.parameters():
    parameters.update(tensor.detach().numpy().tobytes())
for tensor in inner.state_dict().values():
    weights.update(tensor.numpy().tobytes())
for slot in opt.state_dict()["state"].values():
    for key in sorted(slot):
        if isinstance(slot[key], torch.Tensor):
            state.update(slot[key].numpy().tobytes())
print(json.dumps({"weights": weights.hexdigest(), "parameters": parameters.hexdigest(), "optimizer": state.hexdigest(),
                  "lr": sched.get_last_lr(), "losses": job.state.get("losses"), "restored": job.restored}), flush=True)
