# SPDX-License-Identifier: Apache-2.0
"""A learner for test_batch_adapters.py: Lightning's Trainer in a job with --dl-batch. Usage and output are those of
huggingface_batch_learner.py."""
import logging
import os
import sys
import warnings

import lightning
import torch

import dlckpt
import dlckpt.lightning

FOLDER, STOP_AT = sys.argv[1], int(sys.argv[2])
warnings.simplefilter("ignore")
for name in ("lightning.pytorch", "lightning.fabric"):
    logging.getLogger(name).setLevel(logging.ERROR)
seen = []


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, _index):
        seen.extend(int(value) for value in batch[0].flatten().tolist())
        return torch.nn.functional.mse_loss(self.layer(batch[0] / 100), batch[0] / 200)

    def on_before_optimizer_step(self, optimizer):
        rates.append(optimizer.param_groups[0]["lr"])

    def on_train_epoch_end(self):
        print("evaluated at train step %d" % self.trainer.global_step, flush=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Note(lightning.Callback):
    def on_train_start(self, trainer, *_args):
        self.step = trainer.global_step

    def on_train_batch_end(self, trainer, *_args):
        if trainer.global_step == self.step:
            return  # a pass of a train step
        self.step = trainer.global_step
        if self.step == STOP_AT + 1 and STOP_AT:  # its state of one train step before is saved, and this one is lost
            checkpoints.job.wait()
            os._exit(75)
        print(self.step, trainer.world_size, loader.batches.global_batch, "%.9g" % rates[-1], "%.3f" % (cursor_after() / 50), *seen, file=out,
              flush=True)
        seen.clear()


def cursor_after():
    """Of the train step that has just ended; DlckptCallback comes later."""
    return loader.batches.cursor + loader.batches._step_at(loader.batches.cursor)[0]


torch.manual_seed(1)
rates = []
data = torch.utils.data.TensorDataset(torch.arange(50.).reshape(50, 1))
loader = dlckpt.lightning.Loader(data, dlckpt.GlobalBatches(50, dlckpt.find_batch(6), seed=3, epochs=4))
checkpoints = dlckpt.lightning.DlckptCallback(os.path.join(FOLDER, "ckpt"), every="1steps")
size = int(os.environ.get("WORLD_SIZE", 1))
trainer = lightning.Trainer(max_epochs=4, callbacks=[Note(), checkpoints], accelerator="cpu", devices=size, logger=False,
                            strategy="ddp" if size > 1 else "auto", use_distributed_sampler=False, enable_checkpointing=False,
                            enable_progress_bar=False, enable_model_summary=False, default_root_dir=FOLDER)
out = open(os.path.join(FOLDER, "learner-%d.txt" % int(os.environ.get("RANK", 0))), "a")
trainer.fit(Model(), loader, ckpt_path=checkpoints.resume())
