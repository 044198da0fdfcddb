# SPDX-License-Identifier: Apache-2.0
"""A learner for test_killed.py: Lightning's Trainer over a language model of Lightning's own, with validation and clipped gradients.
See killed_learner.py for its usage."""
import logging
import os
import warnings

import lightning
import torch
from lightning.pytorch.demos import Transformer

import dlckpt
import dlckpt.lightning
import killed_learner

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = Transformer(vocab_size=30, ninp=16, nhead=2, nhid=16, nlayers=1)

    def loss(self, batch):
        words, following = batch
        return torch.nn.functional.nll_loss(self.model(words, following), following.view(-1))

    def training_step(self, batch, _index):
        return self.loss(batch)

    def validation_step(self, batch, _index):
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Kill(lightning.Callback):
    def __init__(self, at):
        self.at = at

    def on_train_batch_end(self, trainer, *_args):
        killed_learner.signal_itself(trainer.global_step, self.at)


def train(dir, kill_at):
    lightning.seed_everything(42, verbose=False)
    texts = torch.randint(0, 30, (40, 9))
    data = torch.utils.data.TensorDataset(texts[:, :-1], texts[:, 1:])
    training, validation = torch.utils.data.random_split(data, [32, 8])
    model, checkpoints = Model(), dlckpt.lightning.DlckptCallback(dir, every="3steps")
    trainer = lightning.Trainer(max_epochs=2, gradient_clip_val=0.25, callbacks=[Kill(kill_at), checkpoints], accelerator="cpu",
                                logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                                default_root_dir=os.path.dirname(dir))
    trainer.fit(model, dlckpt.lightning.Loader(training, dlckpt.GlobalBatches(len(training), 4)),
                torch.utils.data.DataLoader(validation, batch_size=4), ckpt_path=checkpoints.resume())
    killed_learner.print_weights(model.state_dict().values())


killed_learner.run(train)
