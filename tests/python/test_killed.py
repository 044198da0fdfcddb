# SPDX-License-Identifier: Apache-2.0
"""Trainings as the examples of PyTorch (FSDP2), Lightning and Transformers have them, killed (SIGKILL) and started again: they end
with the weights of one that was not, bit for bit."""
import importlib.util
import signal

import support

support.use_frameworks()


class Killed(support.Case):
    def ends_with_the_same_weights(self, learners, script, kill_at, *modules):
        lacking = [module for module in modules if importlib.util.find_spec(module) is None]
        if lacking:
            self.skipTest("there is no module %s" % ", ".join(lacking))
        killed = support.learners(learners, script, self.dir, kill_at, timeout=300)
        self.assertEqual(killed[-1][0], -signal.SIGKILL, killed[-1][2])
        resumed = support.learners(learners, script, self.dir, -1, timeout=300)
        for rank, (code, out, error) in enumerate(resumed):
            self.assertEqual(code, 0, error)
            self.assertRegex(error if rank == 0 else "resumed at train step 6", "resumed at train step 6")
            self.assertEqual(self.weights(out), self.weights(killed[rank][1]))

    def weights(self, text):
        found = [line for line in text.splitlines() if line.startswith("weights ")]
        self.assertEqual(len(found), 1, text)
        return found

    def test_two_learners_with_a_model_divided_by_fsdp2(self):
        self.ends_with_the_same_weights(2, "fsdp_learner.py", 7, "torch")

    def test_lightning_with_validation_and_clipped_gradients(self):
        self.ends_with_the_same_weights(1, "lightning_learner.py", 8, "lightning")

    def test_transformers_with_evaluations_and_accumulated_gradients(self):
        self.ends_with_the_same_weights(1, "huggingface_learner.py", 8, "transformers", "accelerate")


if __name__ == "__main__":
    support.main(needs=("torch",))
