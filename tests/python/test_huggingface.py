# SPDX-License-Identifier: Apache-2.0
"""DlckptCallback in a real Trainer of Transformers, on the digits of scikit-learn: interrupted, resumed, equal weights."""
import os
import signal
import sys

import support

support.use_frameworks()
os.environ.update(TRANSFORMERS_VERBOSITY="error", HF_HUB_OFFLINE="1", WANDB_DISABLED="true")


def trainer_for(folder, callbacks, max_steps=17):
    import torch
    from sklearn.datasets import load_digits
    from torch import nn
    from transformers import PrinterCallback, Trainer, TrainingArguments

    class Digits(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 10))

        def forward(self, x, labels):
            logits = self.layers(x)
            return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}

    torch.manual_seed(3)
    digits = load_digits()
    data = [{"x": torch.tensor(x / 16, dtype=torch.float32), "labels": int(y)}
            for x, y in zip(digits.data[:104], digits.target[:104])]
    args = TrainingArguments(output_dir=folder, max_steps=max_steps, per_device_train_batch_size=8, gradient_accumulation_steps=2,
                             learning_rate=0.01, warmup_steps=3, lr_scheduler_type="cosine", logging_steps=3, save_strategy="no",
                             report_to=[], disable_tqdm=True, use_cpu=True, seed=5)
    trainer = Trainer(model=Digits(), args=args, train_dataset=data, callbacks=callbacks)
    trainer.remove_callback(PrinterCallback)
    return trainer


def result(trainer):
    weights = {name: tensor.tolist() for name, tensor in trainer.model.state_dict().items()}
    slots = {i: {k: v.tolist() for k, v in slot.items()} for i, slot in trainer.optimizer.state_dict()["state"].items()}
    return weights, slots, trainer.lr_scheduler.get_last_lr(), [log.get("step") for log in trainer.state.log_history]


class HuggingFace(support.Case):
    def run_trainer(self, checkpoints, *others):
        trainer = trainer_for(os.path.join(self.folder, "out"), [checkpoints, *others])
        trainer.train(resume_from_checkpoint=checkpoints.resume(trainer))
        return trainer

    def test_a_trainer_stopped_in_mid_epoch_and_resumed_ends_with_the_weights_of_one_that_was_not(self):
        import dlckpt.huggingface
        from transformers import TrainerCallback

        class Interrupt(TrainerCallback):
            ended = False

            def on_step_end(self, args, state, control, **kwargs):
                if state.global_step == 9:  # 7 train steps to a data epoch
                    os.kill(os.getpid(), signal.SIGTERM)

            def on_train_end(self, args, state, control, **kwargs):
                self.ended = True

        whole = self.run_trainer(dlckpt.huggingface.DlckptCallback(self.dir + "-whole"))
        interrupt = Interrupt()
        with self.assertRaises(SystemExit) as stopped:
            self.run_trainer(dlckpt.huggingface.DlckptCallback(self.dir), interrupt)
        self.assertEqual(stopped.exception.code, 75)
        self.assertTrue(interrupt.ended)
        resumed = self.run_trainer(dlckpt.huggingface.DlckptCallback(self.dir))
        self.saying("resumed at train step 9")
        self.assertEqual(resumed.state.global_step, 17)
        self.assertEqual(result(resumed)[0], result(whole)[0])
        self.assertEqual(result(resumed)[1:], result(whole)[1:])

    def test_a_crash_goes_back_to_the_last_periodic_checkpoint_and_a_finished_training_is_not_run_again(self):
        import dlckpt.huggingface
        from transformers import TrainerCallback

        class Crash(TrainerCallback):
            def on_step_end(self, args, state, control, **kwargs):
                if state.global_step == 12:
                    raise RuntimeError("crash")

        checkpoints = dlckpt.huggingface.DlckptCallback(self.dir, every="5steps")
        with self.assertRaises(RuntimeError):
            self.run_trainer(checkpoints, Crash())
        checkpoints.job.close()
        whole = self.run_trainer(dlckpt.huggingface.DlckptCallback(self.dir + "-whole"))
        resumed = self.run_trainer(dlckpt.huggingface.DlckptCallback(self.dir, every="5steps"))
        self.saying("resumed at train step 10")
        self.assertEqual(result(resumed), result(whole))
        again = self.run_trainer(dlckpt.huggingface.DlckptCallback(self.dir))
        self.assertEqual(again.state.global_step, 17)

    def test_tied_weights_of_a_language_model_are_stored_once_and_stay_tied_while_gradients_are_accumulated(self):
        import torch
        import dlckpt.huggingface
        from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

        class Leave(TrainerCallback):
            asked = False

            def on_substep_end(self, args, state, control, **kwargs):
                if state.global_step == 3 and not self.asked:  # a third of the train step's gradients is there
                    self.asked = True
                    os.kill(os.getpid(), signal.SIGTERM)

        def train(dir, *others):
            torch.manual_seed(1)
            model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=31, n_positions=8))
            data = [{"input_ids": torch.arange(i, i + 8) % 31, "labels": torch.arange(i, i + 8) % 31} for i in range(26)]
            args = TrainingArguments(output_dir=os.path.join(self.folder, "out"), max_steps=9, per_device_train_batch_size=2,
                                     gradient_accumulation_steps=3, save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True,
                                     logging_strategy="no", learning_rate=0.01)
            checkpoints = dlckpt.huggingface.DlckptCallback(dir)
            trainer = Trainer(model=model, args=args, train_dataset=data, callbacks=[checkpoints, *others])
            trainer.train(resume_from_checkpoint=checkpoints.resume(trainer))
            return trainer.model

        whole = train(self.dir + "-whole")
        with self.assertRaises(SystemExit) as stopped:
            train(self.dir, Leave())
        self.assertEqual(stopped.exception.code, 75)
        with dlckpt.open(self.dir) as checkpoint:
            self.assertEqual(checkpoint.step, 4)
            table = [path for path in checkpoint if path.startswith("model/") and checkpoint.info(path).shape == (31, 16)]
            self.assertEqual(len(table), 1)
        resumed = train(self.dir)
        self.saying("resumed at train step 4")
        self.assertIs(resumed.lm_head.weight, resumed.transformer.wte.weight)
        for name, value in whole.state_dict().items():
            self.assertTrue(torch.equal(resumed.state_dict()[name], value), name)

    def test_a_forgotten_resume_and_a_checkpoint_of_something_else_are_refused(self):
        import dlckpt
        import dlckpt.huggingface
        checkpoints = dlckpt.huggingface.DlckptCallback(self.dir)
        trainer = trainer_for(os.path.join(self.folder, "out"), [checkpoints])
        with self.assertRaisesRegex(dlckpt.InvalidError, "resume_from_checkpoint"):
            trainer.train()
        with dlckpt.attach(dir=self.dir, rng=False) as job:
            job.save()
        with self.assertRaisesRegex(dlckpt.MismatchError, "not written by DlckptCallback"):
            checkpoints.resume(trainer)
        with self.assertRaisesRegex(dlckpt.InvalidError, "this trainer does not have the callback"):
            dlckpt.huggingface.DlckptCallback(self.dir).resume(trainer)


if __name__ == "__main__":
    support.main(needs=("transformers", "sklearn"))
