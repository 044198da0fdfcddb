# SPDX-License-Identifier: Apache-2.0
"""A learner for test_killed.py: the Trainer of Transformers over a small GPT-2 with dropout, with evaluations and accumulated
gradients. Usage: huggingface_learner.py DIR KILL_AT; it kills itself at the end of that train step (-1: not)."""
import hashlib
import os
import signal
import sys

os.environ.update(TRANSFORMERS_VERBOSITY="error", HF_HUB_OFFLINE="1", WANDB_DISABLED="true")
import torch  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel, PrinterCallback, Trainer, TrainerCallback, TrainingArguments, set_seed  # noqa: E402

import dlckpt.huggingface  # noqa: E402


class Kill(TrainerCallback):
    def __init__(self, at):
        self.at = at

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


def train(dir, kill_at):
    set_seed(42)
    texts = torch.randint(0, 31, (40, 8))
    data = [{"input_ids": text, "labels": text} for text in texts]
    model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=31, n_positions=8))
    args = TrainingArguments(output_dir=dir + "-out", num_train_epochs=2, per_device_train_batch_size=2, gradient_accumulation_steps=2,
                             eval_strategy="steps", eval_steps=4, logging_steps=3, save_strategy="no", report_to=[], disable_tqdm=True,
                             use_cpu=True, learning_rate=0.01)
    checkpoints = dlckpt.huggingface.DlckptCallback(dir, every="3steps")
    trainer = Trainer(model=model, args=args, train_dataset=data[:32], eval_dataset=data[32:], callbacks=[Kill(kill_at), checkpoints])
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=checkpoints.resume(trainer))
    digest = hashlib.sha256(b"".join(value.numpy().tobytes() for value in model.state_dict().values()))
    print("weights", digest.hexdigest(), flush=True)


torch.set_num_threads(1)
if int(sys.argv[2]) >= 0:
    train(sys.argv[1] + "-whole", -1)
train(sys.argv[1], int(sys.argv[2]))
