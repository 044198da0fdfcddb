# SPDX-License-Identifier: Apache-2.0
"""A learner for test_hsdp.py: attaches a model and its optimizer, hybrid sharded (HSDP) over a mesh of 2 x N/2 learners if
there are four or more, else sharded (FSDP), with DTensors in placements of two dimensions. Usage: hsdp_learner.py save|load DIR"""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import dlckpt

mode, dir = sys.argv[1:]
dist.init_process_group("gloo")
torch.set_num_threads(1)
rank, size = dist.get_rank(), dist.get_world_size()
hybrid = size >= 4
mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("copies", "shards")) if hybrid else init_device_mesh("cpu", (size,))
blank = mode == "load"


def whole(*shape):
    return (torch.arange(torch.Size(shape).numel(), dtype=torch.float32) * 0.25 - 3).reshape(shape)


WHOLE = {
    "copied rows": (whole(7, 3), [Replicate(), Shard(0)]),
    "copied columns": (whole(2, 5), [Shard(1), Replicate()]),
    "both": (whole(5, 3), [Shard(0), Shard(1)]),
    "one row": (whole(1, 4), [Replicate(), Shard(0)]),  # nothing on half of the learners
    "copies": (whole(3), [Replicate(), Replicate()]),
}
tensors = {name: distribute_tensor(torch.zeros_like(t) if blank else t, mesh, placements if hybrid else placements[:1])
           for name, (t, placements) in WHOLE.items()}
torch.manual_seed(2 if blank else 1)
model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))
for layer in (model[0], model[2], model):
    fully_shard(layer, mesh=mesh)
opt = torch.optim.AdamW(model.parameters(), lr=0.5 if blank else 0.01)


def train():
    model(whole(4, 5)).pow(2).mean().backward()
    opt.step()
    opt.zero_grad()


def fingerprint():
    values = [p.full_tensor().double().sum().item() for p in model.parameters()]
    for slot in opt.state.values():
        values += [(v.full_tensor() if isinstance(v, DTensor) else v).double().sum().item() for v in slot.values()]
    return values + [opt.param_groups[0]["lr"]]


if not blank:
    for _ in range(3):
        train()
with dlckpt.attach(model=model, opt=opt, tensors=tensors, dir=dir, rank=rank, world_size=size) as job:
    assert job.restored == blank
    if blank:
        assert job.train_step == 3
        for name, (tensor, _) in WHOLE.items():
            assert torch.equal(tensors[name].full_tensor(), tensor), name
    else:
        job.train_step = 3
        job.save()
print("fingerprint", fingerprint(), flush=True)
train()
after = sum(p.full_tensor().double().sum().item() for p in model.parameters())
assert after == after  # it trains on
dist.destroy_process_group()
