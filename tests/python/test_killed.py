# SPDX-License-Identifier: Apache-2.0
"""Trainings as the examples of PyTorch (FSDP2), Lightning and Transformers have them, killed (SIGKILL) and started again: they end
with the weights of one that was not, bit for bit."""
import importlib.util
import os
import signal

import support

support.use_frameworks()
os.environ.update(TRANSFORMERS_VERBOSITY="error", HF_HUB_OFFLINE="1", WANDB_DISABLED="true")  # before Transformers is imported
support.preload(support.TORCH, "fsdp_learner.py")  # gpt_learner.py imports dlckpt before torch, so it has an interpreter of its own
support.preload((*support.TORCH, "transformers.trainer", "lightning"), "huggingface_learner.py", "lightning_learner.py")


class Killed(support.Case):
    def ends_with_the_same_weights(self, learners, script, kill_at, *modules, by=signal.SIGKILL, at=6, words=()):
        """Of a training that is sent the signal ``by`` at train step ``kill_at`` and resumes at ``at``."""
        lacking = [module for module in modules if importlib.util.find_spec(module) is None]
        if lacking:
            self.skipTest("there is no module %s" % ", ".join(lacking))
        killed = support.learners(learners, script, self.dir, kill_at, by.name, *words, timeout=300)
        self.assertEqual(killed[-1][0], -signal.SIGKILL if by == signal.SIGKILL else 75, killed[-1][2])
        resumed = support.learners(learners, script, self.dir, -1, by.name, *words, timeout=300)
        for rank, (code, out, error) in enumerate(resumed):
            self.assertEqual(code, 0, error)
            if rank == 0:
                self.assertIn("resumed at train step %d " % at, error)
            self.assertEqual(self.weights(out), self.weights(killed[rank][1]))

    def weights(self, text):
        found = [line for line in text.splitlines() if line.startswith("weights ")]
        self.assertEqual(len(found), 1, text)
        return found

    def test_a_small_gpt_trained_as_nanogpt_does_it(self):
        self.ends_with_the_same_weights(1, "gpt_learner.py", 8, "torch")

    def test_two_learners_with_a_model_divided_by_fsdp2(self):
        self.ends_with_the_same_weights(2, "fsdp_learner.py", 7, "torch")

    def test_two_learners_with_fsdp2_that_prefetches_explicitly(self):
        self.ends_with_the_same_weights(2, "fsdp_learner.py", 7, "torch", words=["prefetch"])

    def test_lightning_that_is_told_to_end(self):
        self.ends_with_the_same_weights(1, "lightning_learner.py", 8, "lightning", by=signal.SIGTERM, at=8)

    def test_transformers_with_words_masked_at_random(self):
        self.ends_with_the_same_weights(1, "huggingface_learner.py", 8, "transformers", "accelerate", words=["masked"])

    def test_lightning_with_validation_and_clipped_gradients(self):
        self.ends_with_the_same_weights(1, "lightning_learner.py", 8, "lightning")

    def test_transformers_with_evaluations_and_accumulated_gradients(self):
        self.ends_with_the_same_weights(1, "huggingface_learner.py", 8, "transformers", "accelerate")


if __name__ == "__main__":
    support.main(needs=("torch",))
