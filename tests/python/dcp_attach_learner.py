# SPDX-License-Identifier: Apache-2.0
"""A learner for test_dcp_attach.py, with a model divided by FSDP2. Usage: dcp_attach_learner.py attach|write|attach-dcp|read DIR

attach: trains with dlckpt.attach() and saves. write: saves a state dict through dlckpt.dcp.Writer. attach-dcp: attaches what
that wrote. read: loads what attach() saved through dlckpt.dcp.Reader. Prints a fingerprint of the whole model."""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import dlckpt
import dlckpt.dcp

mode, dir = sys.argv[1:]
dist.init_process_group("gloo")
torch.set_num_threads(1)
torch.manual_seed({"attach": 0, "write": 0}.get(mode, 5))
model = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Linear(7, 3))
fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.5)


def train():
    optimizer.zero_grad()
    model(torch.arange(20.0).reshape(4, 5) / 20).square().sum().backward()
    optimizer.step()


def fingerprint():
    values = [float(t.full_tensor().double().sum() if hasattr(t, "full_tensor") else t.double().sum()) for t in model.state_dict().values()]
    moments = [float(slot["exp_avg"].full_tensor().double().sum()) for slot in optimizer.state.values()] if mode in ("attach", "read") else []
    print("fingerprint", [round(v, 6) for v in values], [round(v, 6) for v in moments], flush=True)


if mode == "attach":
    job = dlckpt.attach(model=model, opt=optimizer, dir=dir)
    for _ in job.steps(3):
        train()
elif mode == "write":
    train()
    dcp.save({"model": model.state_dict(), "epoch": 4}, storage_writer=dlckpt.dcp.Writer(dir, step=4))
elif mode == "attach-dcp":
    job = dlckpt.attach(model=model, opt=optimizer, dir=dir, final_save=False)
    assert job.train_step == 4, job.train_step
    fingerprint()
    for _ in job.steps(6):
        train()
else:
    train()  # so that the optimizer has state to be filled
    state = {"model": model.state_dict(), "opt": optimizer.state_dict()}
    dcp.load(state, storage_reader=dlckpt.dcp.Reader(dir))
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["opt"])
    assert state["opt"]["param_groups"][0]["lr"] == 0.5
if mode != "attach-dcp":
    fingerprint()
dist.destroy_process_group()
