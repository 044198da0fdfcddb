# SPDX-License-Identifier: Apache-2.0
"""A learner for test_killed.py: a language model, made on the meta device, divided by FSDP2, with dropout and batches that are drawn
anew for each train step. Usage: fsdp_learner.py DIR KILL_AT; learner 1 kills itself at that train step (-1: none)."""
import hashlib
import os
import signal
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

import dlckpt

WORDS, WIDTH, LENGTH = 50, 16, 12


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(WIDTH), nn.MultiheadAttention(WIDTH, 2, dropout=0.1, batch_first=True)
        self.forth, self.back, self.dropout = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1)

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.dropout(self.back(torch.relu(self.forth(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.layers = nn.ModuleList(Layer() for _ in range(3))

    def forward(self, words):
        x = self.embed(words)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def train(dir, kill_at):
    torch.manual_seed(7)
    with torch.device("meta"):
        model = Model()
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device="cpu")
    for module in model.modules():
        if isinstance(module, nn.MultiheadAttention):
            module._reset_parameters()
        elif hasattr(module, "reset_parameters"):
            module.reset_parameters()
    opt = torch.optim.AdamW(model.parameters(), lr=0.01)
    job = dlckpt.attach(model=model, opt=opt, dir=dir, every="3steps", mode="sync")
    for step in job.steps(9):
        if step == kill_at and dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        words = torch.randint(0, WORDS, (4, LENGTH + 1))
        nn.functional.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
    digest = hashlib.sha256()
    slots = [value for slot in opt.state_dict()["state"].values() for value in slot.values()]
    for value in [*model.state_dict().values(), *slots]:
        digest.update((value.full_tensor() if isinstance(value, DTensor) else value).detach().numpy().tobytes())
    print("weights", digest.hexdigest(), flush=True)


dist.init_process_group("gloo")
torch.set_num_threads(1)
if int(sys.argv[2]) >= 0:
    train(sys.argv[1] + "-whole", -1)
train(sys.argv[1], int(sys.argv[2]))
dist.destroy_process_group()
