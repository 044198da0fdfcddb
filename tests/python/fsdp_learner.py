# SPDX-License-Identifier: Apache-2.0
"""A learner for test_killed.py: a language model, made on the meta device, divided by FSDP2, with dropout and batches that are drawn
anew for each train step; with the word "prefetch" each layer fetches the next ones, as PyTorch's example does with
--explicit-prefetching. Learner 1 signals itself; see killed_learner.py for the usage."""
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

import dlckpt
import killed_learner

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


def prefetch(layers, count):
    for i, layer in enumerate(layers[:-count]):
        layer.set_modules_to_forward_prefetch([layers[i + j] for j in range(1, count + 1)])
    for i, layer in enumerate(layers):
        if i >= count:
            layer.set_modules_to_backward_prefetch([layers[i - j] for j in range(1, count + 1)])


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
    if "prefetch" in killed_learner.WORDS:
        prefetch(model.layers, 2)
    opt = torch.optim.AdamW(model.parameters(), lr=0.01)
    job = dlckpt.attach(model=model, opt=opt, dir=dir, every="3steps", mode="sync")
    for step in job.steps(9):
        if "prefetch" in killed_learner.WORDS:
            model.unshard()
        if dist.get_rank() == 1:
            killed_learner.signal_itself(step, kill_at)
        words = torch.randint(0, WORDS, (4, LENGTH + 1))
        nn.functional.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
    slots = [value for slot in opt.state_dict()["state"].values() for value in slot.values()]
    killed_learner.print_weights(value.full_tensor() if isinstance(value, DTensor) else value
                                 for value in [*model.state_dict().values(), *slots])


dist.init_process_group("gloo")
killed_learner.run(train)
dist.destroy_process_group()
os._exit(0)  # without PyTorch's own end, which aborts one process in six of FSDP2 over gloo, also without dlckpt (torch 2.15, CPU)
