# SPDX-License-Identifier: Apache-2.0
"""Trainers of others in a job with --dl-batch: started anew with other learners, another batch and other passes, they train on each
sample of each data epoch once, with the learning rate that the samples and the batch say."""
import collections
import os

import support

support.use_frameworks()
os.environ.update(TRANSFORMERS_VERBOSITY="error", HF_HUB_OFFLINE="1", WANDB_DISABLED="true")  # before Transformers is imported
support.preload((*support.TORCH, "transformers.trainer"), "huggingface_batch_learner.py")
# Lightning itself looks for its rank when it is imported.
support.preload((*support.TORCH, "transformers.trainer", "torchmetrics"), "lightning_batch_learner.py")

SAMPLES, EPOCHS = 50, 4


class Adapters(support.Case):
    def run_sizes(self, script, sizes):
        """Runs the learner with one size after the other, each but the last stopped at its train step. [(learners, batch, passes, stop at)]"""
        self.outputs = []
        for learners, batch, passes, stop in sizes:
            env = dict(DL_BATCH="4:32,rule=linear", DL_GLOBAL_BATCH=batch, DL_ACCUMULATION=passes, DL_LR_SCALE="%g" % (batch / 4))
            ended = support.learners(learners, script, self.folder, stop, timeout=240, **env)
            for code, out, err in ended:
                self.assertEqual(code, 75 if stop else 0, "%s\n%s" % (out, err))
            self.outputs.append(ended[0][1] + ended[0][2])

    def steps(self):
        """By train step: (learners, batch, rate, data epoch), and the samples of all learners."""
        sizes, samples = {}, collections.defaultdict(list)
        for name in sorted(os.listdir(self.folder)):
            if not name.startswith("learner-"):
                continue
            for line in open(os.path.join(self.folder, name)):
                step, learners, batch, rate, epoch, *seen = line.split()
                size = (int(learners), int(batch), float(rate), float(epoch))
                self.assertEqual(sizes.setdefault(int(step), size), size)
                samples[int(step)] += [int(value) for value in seen]
        self.assertEqual(sorted(samples), list(range(1, len(samples) + 1)))
        return sizes, [samples[step] for step in sorted(samples)]

    def check_samples(self, steps):
        flat = sum(steps, [])
        self.assertEqual(len(flat), SAMPLES * EPOCHS)
        for epoch in range(EPOCHS):
            self.assertEqual(sorted(flat_in_order(steps)[epoch * SAMPLES:(epoch + 1) * SAMPLES]), list(range(SAMPLES)), "data epoch %d" % epoch)

    def test_the_trainer_of_transformers_follows_the_batch_and_loses_no_sample(self):
        self.run_sizes("huggingface_batch_learner.py", ((1, 4, 1, 7), (2, 16, 2, 10), (1, 10, 1, 0)))
        sizes, steps = self.steps()
        self.check_samples(steps)
        self.assertEqual([sizes[step][:2] for step in (1, 7, 8, 10, 11)], [(1, 4), (1, 4), (2, 16), (2, 16), (1, 10)])
        self.assertEqual([len(samples) for samples in steps[:11]], [4] * 7 + [16] * 3 + [10])
        cursor = 0
        for step, samples in enumerate(steps, 1):
            # A train step uses the rate of the samples before it: linear from 0 over 5 steps of 4 samples, and down to 0 at the end.
            done, warm, whole = cursor // 4, 5, SAMPLES * EPOCHS // 4
            fraction = done / warm if done < warm else (whole - done) / (whole - warm)
            self.assertAlmostEqual(sizes[step][2], 0.01 * sizes[step][1] / 4 * fraction, 9, "train step %d" % step)
            cursor += len(samples)
            self.assertAlmostEqual(sizes[step][3], cursor / SAMPLES, 3)
        self.assertEqual("".join(self.outputs).count("evaluated at train step"), EPOCHS)

    def test_the_trainer_of_lightning_follows_the_batch_and_loses_no_sample(self):
        self.run_sizes("lightning_batch_learner.py", ((1, 4, 1, 7), (2, 16, 2, 9), (1, 10, 3, 0)))
        sizes, steps = self.steps()
        self.check_samples(steps)
        self.assertEqual([sizes[step][:2] for step in (1, 7, 8, 9, 10)], [(1, 4), (1, 4), (2, 16), (2, 16), (1, 10)])
        self.assertEqual([len(samples) for samples in steps[:10]], [4] * 7 + [16] * 2 + [10])
        cursor = 0
        for step, samples in enumerate(steps, 1):
            cursor += len(samples)
            self.assertAlmostEqual(sizes[step][2], 0.01 * sizes[step][1] / 4, 9, "train step %d" % step)
            self.assertAlmostEqual(sizes[step][3], cursor / SAMPLES, 3)
        self.assertEqual("".join(self.outputs).count("evaluated at train step"), EPOCHS)

    def test_the_example_of_jax_trains_alike_in_one_pass_and_in_several(self):
        try:
            import jax  # noqa: F401
        except ImportError:
            self.skipTest("there is no JAX")
        example = os.path.join(support.SOURCE, "frameworks", "jax", "example", "train_digits.py")
        losses = []
        for asked in ({}, dict(DL_BATCH="30:60", DL_GLOBAL_BATCH="60", DL_ACCUMULATION="3", DL_LR_SCALE="1")):
            code, out, err = support.one(example, "--steps", 50, "--global-batch", 60, JAX_PLATFORMS="cpu", **asked)
            self.assertEqual(code, 0, err)
            losses.append(float(out.split("train step 50: loss ")[1].split()[0]))
        self.assertAlmostEqual(losses[0], losses[1], 3)
        code, out, err = support.one(example, "--steps", 50, JAX_PLATFORMS="cpu", DL_BATCH="30:60,rule=linear", DL_GLOBAL_BATCH="31",
                                     DL_ACCUMULATION="2", DL_LR_SCALE="1.0333333333333334")
        self.assertEqual(code, 0, err)
        self.assertGreater(float(out.split("held-out accuracy: ")[1].split()[0]), 75)

    def test_a_checkpoint_of_a_trainer_that_counts_by_steps_is_not_taken_for_one_that_counts_samples(self):
        plain = dict.fromkeys(("DL_BATCH", "DL_GLOBAL_BATCH", "DL_ACCUMULATION", "DL_LR_SCALE"), "")
        code, out, err = support.learners(1, "huggingface_batch_learner.py", self.folder, 3, timeout=240, **plain)[0]
        self.assertEqual(code, 75, err)
        code, out, err = support.learners(1, "huggingface_batch_learner.py", self.folder, 0, timeout=240, DL_BATCH="4:32", DL_GLOBAL_BATCH="8")[0]
        self.assertNotEqual(code, 0)
        self.assertIn("was made without --dl-batch, and this job is started with it", err)


def flat_in_order(steps):
    """All samples; those of one train step may be in any order, so of one that reaches over the end of a data epoch the ones that the
    epoch still lacks come first."""
    flat = []
    for samples in steps:
        had = flat[len(flat) // SAMPLES * SAMPLES:]
        flat += sorted(samples, key=lambda value: value in had)
    return flat


if __name__ == "__main__":
    support.main(needs=("torch", "transformers"))
