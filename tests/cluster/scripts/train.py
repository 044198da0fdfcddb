#!/usr/bin/env python3
"""A training loop as small as one can be: each rank fits a line to points of its own, gradients are averaged over all ranks."""
import argparse
import os

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--local_rank", type=int, default=-1)  # deepspeed and the older torch.distributed.launch pass it
args, _ = parser.parse_known_args()

rank = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", 0)))
world = int(os.environ.get("WORLD_SIZE", os.environ.get("SLURM_NTASKS", 1)))
if world > 1:
    os.environ.setdefault("MASTER_PORT", "29501")
    dist.init_process_group("gloo", rank=rank, world_size=world)
torch.manual_seed(rank)
model = torch.nn.Linear(1, 1)
with torch.no_grad():
    model.weight.fill_(0)
    model.bias.fill_(0)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
for epoch in range(args.epochs):
    x = torch.rand(args.batch_size, 1)
    loss = ((model(x) - (2 * x + 1)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    if world > 1:
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= world
    optimizer.step()
print(f"rank {rank} of {world}: weight {model.weight.item():.6f} after {args.epochs} epochs", flush=True)
