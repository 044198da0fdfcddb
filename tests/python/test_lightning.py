# SPDX-License-Identifier: Apache-2.0
"""DlckptCallback in a real Trainer of Lightning: interrupted in mid-epoch and at its end, resumed, equal weights."""
import logging
import os
import signal
import warnings

import support

support.use_frameworks()


def fit(checkpoints, folder, *others, max_steps=17):
    import lightning
    import torch
    from sklearn.datasets import load_digits
    from torch import nn

    import dlckpt
    import dlckpt.lightning

    class Digits(lightning.LightningModule):
        def __init__(self, width):
            super().__init__()
            self.save_hyperparameters()
            self.layers = nn.Sequential(nn.Linear(64, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.3), nn.Linear(width, 10))

        def training_step(self, batch, _index):
            x, y = batch
            return nn.functional.cross_entropy(self.layers(x), y)

        def configure_optimizers(self):
            opt = torch.optim.Adam(self.parameters(), lr=0.01)
            return [opt], [{"scheduler": torch.optim.lr_scheduler.OneCycleLR(opt, 0.02, total_steps=40), "interval": "step"}]

    torch.manual_seed(3)
    model = Digits(32)
    digits = load_digits()
    data = torch.utils.data.TensorDataset(torch.tensor(digits.data[:70] / 16, dtype=torch.float32), torch.tensor(digits.target[:70]))
    loader = dlckpt.lightning.Loader(data, dlckpt.GlobalBatches(len(data), 10, seed=4))
    trainer = lightning.Trainer(max_steps=max_steps, callbacks=[*others, checkpoints], accelerator="cpu", logger=False,
                                enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                                default_root_dir=folder)
    trainer.fit(model, loader, ckpt_path=checkpoints.resume())
    slots = trainer.optimizers[0].state_dict()["state"]
    return ({name: tensor.tolist() for name, tensor in model.state_dict().items()},
            {i: {k: v.tolist() for k, v in slot.items()} for i, slot in slots.items()}, trainer.optimizers[0].param_groups[0]["lr"],
            trainer.global_step, trainer.current_epoch, loader.batches.cursor)


class Lightning(support.Case):
    def setUp(self):
        super().setUp()
        warnings.simplefilter("ignore")
        for name in ("lightning.pytorch", "lightning.fabric"):
            logging.getLogger(name).setLevel(logging.ERROR)

    def interrupted(self, when, **options):
        import lightning
        import dlckpt.lightning

        class Interrupt(lightning.Callback):
            def on_train_batch_end(self, trainer, *_args):
                if trainer.global_step == when:
                    os.kill(os.getpid(), signal.SIGTERM)

        with self.assertRaises(SystemExit) as stopped:
            fit(dlckpt.lightning.DlckptCallback(self.dir), self.folder, Interrupt())
        self.assertEqual(stopped.exception.code, 75)
        self.saying("stopping at train step %d, saved" % when)
        result = fit(dlckpt.lightning.DlckptCallback(self.dir), self.folder)
        self.saying("resumed at train step %d" % when)
        return result

    def test_a_trainer_stopped_in_mid_epoch_or_at_its_end_and_resumed_ends_with_the_weights_of_one_that_was_not(self):
        import dlckpt.lightning
        whole = fit(dlckpt.lightning.DlckptCallback(self.dir + "-whole"), self.folder)
        self.assertEqual((whole[3], whole[5]), (17, 170))
        for when in (9, 7, 14):  # 7 train steps to a data epoch
            self.dir = os.path.join(self.folder, "stopped-%d" % when)
            self.assertEqual(self.interrupted(when), whole, "stopped at %d" % when)

    def test_tied_weights_are_stored_once_and_stay_tied_while_gradients_are_accumulated(self):
        import lightning
        import torch
        from torch import nn
        import dlckpt
        import dlckpt.lightning

        class Tied(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.embed, self.head = nn.Embedding(12, 8), nn.Linear(8, 12, bias=False)
                self.head.weight = self.embed.weight

            def training_step(self, batch, _index):
                return nn.functional.cross_entropy(self.head(nn.functional.dropout(self.embed(batch[0]), 0.2)), batch[0])

            def configure_optimizers(self):
                return torch.optim.Adam(self.parameters(), lr=0.01)

        class Leave(lightning.Callback):
            def on_train_batch_end(self, trainer, _module, _outputs, _batch, index):
                if trainer.global_step == 2 and index == 7:  # a batch after the second train step
                    os.kill(os.getpid(), signal.SIGTERM)

        def train(dir, *others):
            torch.manual_seed(1)
            model, checkpoints = Tied(), dlckpt.lightning.DlckptCallback(dir)
            data = torch.utils.data.TensorDataset(torch.arange(40) % 12)
            loader = dlckpt.lightning.Loader(data, dlckpt.GlobalBatches(40, 4, seed=4, batches_per_step=1))
            trainer = lightning.Trainer(max_steps=7, callbacks=[*others, checkpoints], accelerator="cpu", logger=False,
                                        accumulate_grad_batches=3, enable_checkpointing=False, enable_progress_bar=False,
                                        enable_model_summary=False, default_root_dir=self.folder)
            trainer.fit(model, loader, ckpt_path=checkpoints.resume())
            return model, loader.batches.cursor

        whole, cursor = train(self.dir + "-whole")
        with self.assertRaises(SystemExit) as stopped:
            train(self.dir, Leave())
        self.assertEqual(stopped.exception.code, 75)
        self.saying("stopping at train step 3")
        with dlckpt.open(self.dir) as checkpoint:
            table = [path for path in checkpoint if "/state_dict/" in path and checkpoint.info(path).shape == (12, 8)]
            self.assertEqual(len(table), 1)
        resumed, again = train(self.dir)
        self.saying("resumed at train step 3")
        self.assertIs(resumed.head.weight, resumed.embed.weight)
        self.assertTrue(torch.equal(resumed.embed.weight, whole.embed.weight))
        self.assertEqual(again, cursor)

    def test_a_crash_goes_back_to_the_last_periodic_checkpoint_and_a_finished_training_is_not_run_again(self):
        import lightning
        import dlckpt.lightning

        class Crash(lightning.Callback):
            def on_train_batch_start(self, trainer, *_args):
                if trainer.global_step == 13:
                    raise RuntimeError("crash")

        whole = fit(dlckpt.lightning.DlckptCallback(self.dir + "-whole"), self.folder)
        with self.assertRaisesRegex(RuntimeError, "crash"):
            fit(dlckpt.lightning.DlckptCallback(self.dir, every="5steps"), self.folder, Crash())
        self.assertEqual(fit(dlckpt.lightning.DlckptCallback(self.dir, every="5steps"), self.folder), whole)
        self.saying("resumed at train step 10")
        again = fit(dlckpt.lightning.DlckptCallback(self.dir), self.folder)
        self.assertEqual((again[0], again[3]), (whole[0], 17))


if __name__ == "__main__":
    support.main(needs=("lightning", "sklearn"))
