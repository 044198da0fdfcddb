# SPDX-License-Identifier: Apache-2.0
"""A learner for test_dcp.py: saves or loads DTensors, an FSDP model with its optimizer, plain tensors and values through
torch.distributed.checkpoint with dlckpt's storage. Usage: dcp_learner.py save|load DIR DIR (the second: asynchronously)"""
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import checkpoint as dcp
from torch.distributed._shard.sharded_tensor import Shard as LocalShard, init_from_local_shards
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import dlckpt
import dlckpt.dcp

mode, dir, async_dir = sys.argv[1:]
dist.init_process_group("gloo")
torch.set_num_threads(1)
rank, size = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (size,))


def whole(*shape, dtype=torch.float32):
    count = torch.Size(shape).numel()
    return (torch.arange(count, dtype=torch.float32) * 0.5 - 3).reshape(shape).to(dtype)


WHOLE = {  # name: (the tensor, its placement)
    "rows": (whole(7, 3), Shard(0)),
    "columns": (whole(2, 10, dtype=torch.bfloat16), Shard(1)),
    "few": (whole(2, 2, dtype=torch.float64), Shard(0)),  # nothing on the third learner
    "copies": (whole(5), Replicate()),
    "bits": (whole(9).gt(0), Shard(0)),
}


def dealt_out(blank):
    """Rows dealt out one by one, so that a learner holds several parts of one tensor."""
    rows = range(rank, 7, size)
    parts = [LocalShard.from_tensor_and_offsets(torch.zeros(1, 3) if blank else whole(7, 3)[row:row + 1].clone(), [row, 0], rank)
             for row in rows]
    return init_from_local_shards(parts, 7, 3)


def arrange(blank):
    state = {name: distribute_tensor(torch.zeros_like(t) if blank else t, mesh, [placement])
             for name, (t, placement) in WHOLE.items()}
    torch.manual_seed(1 if not blank else 2)
    model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 2))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    opt = torch.optim.AdamW(model.parameters(), lr=0.01 if not blank else 0.5)
    if not blank:
        for _ in range(2):
            model(whole(4, 5)).pow(2).mean().backward()
            opt.step()
            opt.zero_grad()
    model_state, opt_state = get_state_dict(model, opt)
    state.update(model=model_state, opt=opt_state, plain=torch.zeros(3, 2).t() if blank else whole(2, 3), scalar=torch.tensor(
        0.0 if blank else 2.5), nothing=torch.zeros(0, 4), words={"name": "" if blank else "ü", "n": [0] if blank else [1, 2]})
    state["dealt out"] = dealt_out(blank)
    state["mine/%d" % rank] = "" if blank else "learner %d" % rank
    return state, model, opt


def fingerprint(model, opt):
    """All of it, gathered, as one line."""
    values = [p.full_tensor().double().sum().item() for p in model.parameters()]
    for slot in opt.state.values():
        values += [(v.full_tensor() if isinstance(v, DTensor) else v).double().sum().item() for v in slot.values()]
    return values + [opt.param_groups[0]["lr"]]


def save():
    state, model, opt = arrange(blank=False)
    writer = dlckpt.dcp.Writer(dir, step=12)
    dcp.save(state, storage_writer=writer)
    assert writer.saved_step == 12
    del state["dealt out"]  # what PyTorch 2.15 copies for an asynchronous save may not be a ShardedTensor
    before = fingerprint(model, opt)  # not while the other thread uses the process group
    future = dcp.async_save(state, storage_writer=dlckpt.dcp.Writer(async_dir, step=12))
    with torch.no_grad():  # it was copied: what is changed now is not in the checkpoint
        for tensor in state["rows"], state["plain"]:
            tensor.zero_()
    future.result()
    return before


def load(place):
    state, model, opt = arrange(blank=True)
    dealt = state["dealt out"].local_shards()
    if place == async_dir:
        del state["dealt out"], dealt[:]
    reader = dlckpt.dcp.Reader(place)
    dcp.load(state, storage_reader=reader)
    assert reader.loaded_step == 12
    set_state_dict(model, opt, model_state_dict=state["model"], optim_state_dict=state["opt"])
    for name, (tensor, _) in WHOLE.items():
        got = state[name].full_tensor()
        assert got.dtype == tensor.dtype and torch.equal(got, tensor), (name, got)
    for part in dealt:
        assert torch.equal(part.tensor[0], whole(7, 3)[part.metadata.shard_offsets[0]]), part
    assert torch.equal(state["plain"], whole(2, 3)) and state["scalar"].item() == 2.5, state["plain"]
    assert state["words"] == {"name": "ü", "n": [1, 2]}, state["words"]
    assert state["mine/%d" % rank] == "learner %d" % rank
    return fingerprint(model, opt)


def attached():
    """The same FSDP model through dlckpt.attach(), without torch.distributed.checkpoint."""
    _, model, opt = arrange(blank=mode == "load")
    with dlckpt.attach(model=model, opt=opt, half=distribute_tensor(whole(4, 2).half(), mesh, [Shard(0)]), dir=dir + "-attach",
                       rank=rank, world_size=size) as job:
        assert job.restored == (mode == "load")
        if mode == "save":
            job.train_step = 3
            job.save()
    return fingerprint(model, opt)


results = [save()] if mode == "save" else [load(dir), load(async_dir)]
results.append(attached())
assert len(set(map(str, results))) == 1
print("fingerprint", results[0], flush=True)
dist.destroy_process_group()
