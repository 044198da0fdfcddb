# SPDX-License-Identifier: Apache-2.0
"""A learner for test_killed.py: the Trainer of Transformers over a small GPT-2 with dropout, with evaluations and accumulated
gradients, or with the word "masked" over a small BERT whose words are masked at random. See killed_learner.py for its usage."""
import os

os.environ.update(TRANSFORMERS_VERBOSITY="error", HF_HUB_OFFLINE="1", WANDB_DISABLED="true")
import torch  # noqa: E402
from transformers import (BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel, PrinterCallback, Trainer,  # noqa: E402
                          TrainerCallback, TrainingArguments, set_seed)

import dlckpt.huggingface  # noqa: E402
import killed_learner  # noqa: E402


class Kill(TrainerCallback):
    def __init__(self, at):
        self.at = at

    def on_step_end(self, args, state, control, **kwargs):
        killed_learner.signal_itself(state.global_step, self.at)


def mask(items):
    """As the collator of Transformers' run_mlm.py does it: of each batch other words, drawn from torch's default generator."""
    words = torch.stack([item["input_ids"] for item in items])
    hidden = torch.bernoulli(torch.full(words.shape, 0.3)).bool()
    return {"input_ids": words.masked_fill(hidden, 0), "labels": words.masked_fill(~hidden, -100)}


def train(dir, kill_at):
    set_seed(42)
    texts = torch.randint(0, 31, (40, 8))
    data = [{"input_ids": text, "labels": text} for text in texts]
    masked = "masked" in killed_learner.WORDS
    if masked:
        model = BertForMaskedLM(BertConfig(num_hidden_layers=2, num_attention_heads=2, hidden_size=16, intermediate_size=32, vocab_size=31))
    else:
        model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=31, n_positions=8))
    args = TrainingArguments(output_dir=dir + "-out", num_train_epochs=2, per_device_train_batch_size=2, gradient_accumulation_steps=2,
                             eval_strategy="steps", eval_steps=4, logging_steps=3, save_strategy="no", report_to=[], disable_tqdm=True,
                             use_cpu=True, learning_rate=0.01)
    checkpoints = dlckpt.huggingface.DlckptCallback(dir, every="3steps")
    trainer = Trainer(model=model, args=args, train_dataset=data[:32], eval_dataset=data[32:], callbacks=[Kill(kill_at), checkpoints],
                      data_collator=mask if masked else None)
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=checkpoints.resume(trainer))
    killed_learner.print_weights(model.state_dict().values())


killed_learner.run(train)
