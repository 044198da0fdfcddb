# SPDX-License-Identifier: Apache-2.0
"""A learner for test_noise.py: trains with GradientNoise, and beside it works out the same from gradients that it computes itself."""
import os
import sys

import torch
import torch.distributed as dist

import dlckpt

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
x = torch.randn(400, 6)
y = x.sum(dim=1, keepdim=True) + torch.randn(400, 1)
network = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))
model = torch.nn.parallel.DistributedDataParallel(network, bucket_cap_mb=1e-5)  # each tensor in a bucket of its own
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batches = dlckpt.GlobalBatches(400, dlckpt.find_batch(15), seed=1)
noise = dlckpt.GradientNoise(model, batches, every=2)
job = dlckpt.attach(dir=sys.argv[1], model=model, opt=optimizer, data=batches, noise=noise)
expected = dlckpt.NoiseScale()
was = noise.steps
for step in job.steps(int(sys.argv[2])):
    passes = job.accumulation
    own = [torch.zeros_like(p) for p in network.parameters()]
    count = 0
    optimizer.zero_grad()
    for number in range(passes):
        index = next(batches)
        loss = ((model.module(x[index]) - y[index]) ** 2).sum()
        for total, gradient in zip(own, torch.autograd.grad(loss, list(network.parameters()))):
            total += gradient
        count += len(index)
        weighted = ((model(x[index]) - y[index]) ** 2).mean() * batches.loss_weight / passes if number == passes - 1 else None
        if weighted is None:
            with model.no_sync():
                (((model(x[index]) - y[index]) ** 2).mean() * batches.loss_weight / passes).backward()
        else:
            weighted.backward()
    all_own = [None] * size
    dist.all_gather_object(all_own, (sum(float((g / count).pow(2).sum()) for g in own), count))
    mean = sum(float(p.grad.pow(2).sum()) for p in network.parameters())
    if step % 2 == 0:
        expected.add(all_own, (mean, 15))
    optimizer.step()
if was == 0:
    for name, value in expected.state_dict().items():
        assert abs(noise.state_dict()[name] - value) <= 1e-4 * abs(value), (noise.state_dict(), expected.state_dict())
assert job.lr_scale == dlckpt.find_batch(15).lr_scale_for(noise.value)
print("%d measured, noise %.6g, scale %.6g" % (noise.steps, noise.value, job.lr_scale))
