# SPDX-License-Identifier: Apache-2.0
"""Trainings as they are written for torchrun, on the real digits: torch_learner.py fsdp|lightning|trainer."""
import sys

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

images, labels = load_digits(return_X_y=True)
images, labels = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
held_out = torch.arange(len(labels)) % 5 == 0
data = TensorDataset(images[~held_out], labels[~held_out])


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))


def accuracy(model):
    with torch.no_grad():
        right = (model(images[held_out]).argmax(1) == labels[held_out]).float().mean()
    return "held-out accuracy: %.2f %%" % (100 * right)


def fsdp():
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard
    dist.init_process_group("gloo")
    model = network()
    fully_shard(model, mesh=dist.init_device_mesh("cpu", (dist.get_world_size(),)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    sampler = DistributedSampler(data)
    for epoch in range(5):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, 16, sampler=sampler):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    held = sum(p.to_local().numel() for p in model.parameters())
    print("holds %d of %d; %s" % (held, sum(p.numel() for p in model.parameters()), accuracy(model)), flush=True)
    dist.destroy_process_group()


def lightning():
    import lightning as pl

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.network = network()

        def training_step(self, batch, _):
            return nn.functional.cross_entropy(self.network(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)

    trainer = pl.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=5, logger=False, enable_checkpointing=False,
                         enable_progress_bar=False, enable_model_summary=False)
    module = Module()
    trainer.fit(module, DataLoader(data, 16, shuffle=True))
    print("rank %d of %d; %s" % (trainer.global_rank, trainer.world_size, accuracy(module.network)), flush=True)


def trainer():
    from transformers import Trainer, TrainingArguments

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network()

        def forward(self, x, labels=None):
            logits = self.network(x)
            return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}

    def collate(rows):
        return {"x": torch.stack([row[0] for row in rows]), "labels": torch.stack([row[1] for row in rows])}

    arguments = TrainingArguments("out", use_cpu=True, num_train_epochs=5, per_device_train_batch_size=16, learning_rate=0.01,
                                  report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True)
    model = Model()
    Trainer(model, arguments, train_dataset=data, data_collator=collate).train()
    print("rank %d of %d; %s" % (arguments.process_index, arguments.world_size, accuracy(model.network)), flush=True)


{"fsdp": fsdp, "lightning": lightning, "trainer": trainer}[sys.argv[1]]()
