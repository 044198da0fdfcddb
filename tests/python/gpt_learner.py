# SPDX-License-Identifier: Apache-2.0
"""A learner of test_killed.py: a small GPT on characters, trained as nanoGPT does it: causal attention, dropout, tied weights, AdamW with
and without weight decay, a warm-up and a cosine, clipped and accumulated gradients, and a DataLoader that shuffles by torch's global
generator."""
import math

import dlckpt
import killed_learner
import torch
from torch import nn

TEXT = "".join(chr(97 + (i * i + i // 7) % 26) for i in range(600))
BLOCK, WIDTH, HEADS, STEPS = 16, 24, 3, 12


class Windows(torch.utils.data.Dataset):
    """Each sample is a stretch of the text, and the same one character later."""

    def __len__(self):
        return 112

    def __getitem__(self, index):
        ids = torch.tensor([ord(c) - 97 for c in TEXT[5 * index:5 * index + BLOCK + 1]])
        return ids[:-1], ids[1:]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1))
        self.attn_dropout = nn.Dropout(0.1)
        self.register_buffer("bias", torch.tril(torch.ones(BLOCK, BLOCK)).view(1, 1, BLOCK, BLOCK))

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (part.view(batch, length, HEADS, -1).transpose(1, 2) for part in self.c_attn(self.ln_1(x)).split(WIDTH, dim=2))
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        scores = scores.masked_fill(self.bias[:, :, :length, :length] == 0, float("-inf")).softmax(dim=-1)
        x = x + self.c_proj((self.attn_dropout(scores) @ v).transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(26, WIDTH), nn.Embedding(BLOCK, WIDTH)
        self.drop, self.blocks, self.ln_f = nn.Dropout(0.1), nn.ModuleList([Block(), Block()]), nn.LayerNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, 26, bias=False)
        self.wte.weight = self.lm_head.weight  # tied

    def forward(self, ids):
        x = self.drop(self.wte(ids) + self.wpe(torch.arange(ids.shape[1])))
        for block in self.blocks:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def rate(step):
    return (step + 1) / 3 if step < 2 else 0.1 + 0.45 * (1 + math.cos(math.pi * (step - 2) / (STEPS - 2)))


def train(dir, kill_at):
    torch.manual_seed(1337)
    model = GPT()
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    opt = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=1e-2, betas=(0.9, 0.95))
    sched = torch.optim.lr_scheduler.LambdaLR(opt, rate)
    batches = dlckpt.GlobalBatches(len(Windows()), 8, seed=7, batches_per_step=2)
    loader = torch.utils.data.DataLoader(Windows(), batch_sampler=batches)
    job = dlckpt.attach(model=model, opt=opt, sched=sched, batches=batches, dir=dir, every="3steps", keep=2)
    draws = iter(loader)
    for step in job.steps(STEPS):
        killed_learner.signal_itself(step, kill_at)
        opt.zero_grad(set_to_none=True)
        for _ in range(2):
            try:
                x, y = next(draws)
            except StopIteration:  # the data epoch is over
                draws = iter(loader)
                x, y = next(draws)
            loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
            (loss / 2).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
    if kill_at < 0:
        moments = [slot[key] for slot in opt.state.values() for key in ("exp_avg", "exp_avg_sq")]
        killed_learner.print_weights(list(model.parameters()) + moments)


killed_learner.run(train)
