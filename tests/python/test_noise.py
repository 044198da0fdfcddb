# SPDX-License-Identifier: Apache-2.0
"""The gradient noise scale: from gradients whose covariance is known, from DistributedDataParallel, and from nonsense."""
import math
import random
import sys

import support

import dlckpt


def squared(vector):
    return sum(value * value for value in vector)


class Estimate(support.Case):
    def test_it_finds_the_noise_of_gradients_whose_covariance_is_known(self):
        """30 numbers of mean 0.5 and variance 4 a sample: S = 120, |G|^2 = 7.5, noise = 16."""
        rng = random.Random(2)
        for sizes in ((4, 4), (8, 8, 8, 8), (5, 4, 4)):
            noise = dlckpt.NoiseScale(smoothing=0.995)
            for _ in range(2000):
                means = [[rng.gauss(0.5, 2 / math.sqrt(size)) for _ in range(30)] for size in sizes]
                total = [sum(size * mean[i] for size, mean in zip(sizes, means)) / sum(sizes) for i in range(30)]
                self.assertTrue(noise.add([(squared(mean), size) for size, mean in zip(sizes, means)], (squared(total), sum(sizes))))
            self.assertGreater(noise.value, 13)
            self.assertLess(noise.value, 19.5)

    def test_whatever_a_program_says_the_value_is_finite_bounded_and_never_negative(self):
        rng = random.Random(3)
        odd = [0.0, -1.0, 1e-320, 1e308, float("inf"), float("nan"), 1.0, 5e-3, 1e9]
        for _ in range(3000):
            noise = dlckpt.NoiseScale(rng.choice((0, 0.5, 0.95)))
            for _ in range(rng.randint(0, 14)):
                noise.add([(rng.choice(odd), rng.choice(odd)) for _ in range(rng.randint(0, 4))], (rng.choice(odd), rng.choice(odd)))
            self.assertTrue(noise.value is None or 0 <= noise.value <= 1e9, noise.state_dict())
            again = dlckpt.NoiseScale()
            again.load_state_dict(noise.state_dict())
            self.assertEqual(again.value, noise.value)

    def test_one_gradient_alone_says_nothing_and_few_steps_say_nothing(self):
        noise = dlckpt.NoiseScale()
        self.assertFalse(noise.add([(4.0, 8)], (4.0, 8)))
        self.assertFalse(noise.add([], (4.0, 8)))
        for _ in range(9):
            self.assertIsNone(noise.value)
            self.assertTrue(noise.add([(4.0, 8), (2.0, 8)], (2.0, 16)))
        self.assertIsNone(noise.value)
        noise.add([(4.0, 8), (2.0, 8)], (2.0, 16))
        self.assertIsNotNone(noise.value)

    def test_what_is_not_such_a_state_is_refused(self):
        for bad in ({}, {"steps": -1, "variance": 0.0, "signal": 0.0}, {"steps": 1, "variance": float("nan"), "signal": 1.0}):
            with self.assertRaises(dlckpt.MismatchError):
                dlckpt.NoiseScale().load_state_dict(bad)
        with self.assertRaises(dlckpt.InvalidError):
            dlckpt.NoiseScale(smoothing=1)

    def test_an_attached_estimate_makes_the_learning_rate_of_adascale_and_is_restored(self):
        asked = dict(DL_BATCH="16:64,rule=adascale", DL_GLOBAL_BATCH="64", DL_ACCUMULATION="1", DL_LR_SCALE="1")
        with support.environment(**asked):
            noise = dlckpt.NoiseScale()
            job = dlckpt.attach(dir=self.dir, noise=noise, rng=False)
            for _ in job.steps(12):
                noise.add([(9.0, 32), (9.0, 32)], (6.0, 64))  # S = 3 * 64, |G|^2 = 3
            self.assertAlmostEqual(noise.value, 64)
            self.assertAlmostEqual(job.lr_scale, 2.5)
            again = dlckpt.NoiseScale()
            job = dlckpt.attach(dir=self.dir, noise=again, rng=False)
            self.assertAlmostEqual(job.lr_scale, 2.5)
            self.assertAlmostEqual(again.value, 64)
            job.close()


class Watched(support.Case):
    def test_gradients_that_distributed_data_parallel_averages_give_what_they_give_by_themselves(self):
        try:
            import torch  # noqa: F401
        except ImportError:
            self.skipTest("%s has no module torch" % sys.executable)
        asked = dict(DL_BATCH="5:15,rule=adascale", DL_GLOBAL_BATCH="15", DL_ACCUMULATION="2", DL_LR_SCALE="1")
        for steps, measured in ((30, 15), (40, 20)):  # the second goes on from the first
            for code, out, err in support.learners(2, "noise_learner.py", self.dir, steps, **asked):
                self.assertEqual(code, 0, err)
                self.assertIn("%d measured" % measured, out)


if __name__ == "__main__":
    support.main(needs=("numpy",))
