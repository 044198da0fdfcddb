# SPDX-License-Identifier: Apache-2.0
"""A learner for test_batch_adapters.py: the Trainer of Transformers in a job with --dl-batch. It writes to FOLDER/learner-RANK.txt a line
for each train step: train step, learners, batch, learning rate, and the samples it computed.
usage: huggingface_batch_learner.py FOLDER STOP_AT (0: to the end). It ends with status 75 where it stops."""
import os
import sys

os.environ.update(TRANSFORMERS_VERBOSITY="error", HF_HUB_OFFLINE="1", WANDB_DISABLED="true")
import torch  # noqa: E402
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments, set_seed  # noqa: E402

import dlckpt.huggingface  # noqa: E402

FOLDER, STOP_AT = sys.argv[1], int(sys.argv[2])
seen = []


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, x, labels):
        seen.extend(int(value) for value in x.flatten().tolist())
        return {"loss": torch.nn.functional.mse_loss(self.layer(x / 100), labels)}


class Note(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == STOP_AT + 1 and STOP_AT:  # its state of one train step before is saved, and this one is lost
            checkpoints.job.wait()
            os._exit(75)
        print(state.global_step, args.world_size, checkpoints.job.batch, "%.9g" % rates[-1], "%.3f" % state.epoch, *seen, file=out, flush=True)
        seen.clear()

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        rates.append(kwargs["optimizer"].param_groups[0]["lr"])

    def on_evaluate(self, args, state, control, **kwargs):
        print("evaluated at train step %d" % state.global_step, flush=True)
        seen.clear()


set_seed(1)
rates = []
data = [{"x": torch.tensor([float(i)]), "labels": torch.tensor([0.5 * i / 100])} for i in range(50)]
args = TrainingArguments(output_dir=os.path.join(FOLDER, "out"), num_train_epochs=4, per_device_train_batch_size=3, learning_rate=0.01,
                         lr_scheduler_type="linear", warmup_steps=5, eval_strategy="epoch", save_strategy="no", report_to=[],
                         disable_tqdm=True, use_cpu=True, max_grad_norm=0)
checkpoints = dlckpt.huggingface.DlckptCallback(os.path.join(FOLDER, "ckpt"), every="1steps")
trainer = Trainer(model=Model(), args=args, train_dataset=data, eval_dataset=data[:2], callbacks=[checkpoints, Note()])
trainer.remove_callback(PrinterCallback)
out = open(os.path.join(FOLDER, "learner-%d.txt" % args.process_index), "a")
trainer.train(resume_from_checkpoint=checkpoints.resume(trainer))
