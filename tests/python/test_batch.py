# SPDX-License-Identifier: Apache-2.0
"""The batch that dlrun chose (--dl-batch), and GlobalBatches whose batch changes between runs."""
import random
import unittest

import support

import dlckpt
from dlckpt.batch import local_batch, part_size
from dlckpt.errors import InvalidError


def asked(batch, passes=1, scale="1", text=None):
    return support.environment(DL_BATCH=text or "16:64:4,rule=linear", DL_GLOBAL_BATCH=str(batch), DL_ACCUMULATION=str(passes),
                               DL_LR_SCALE=scale)


class FindBatch(support.Case):
    def test_the_launchers_batch_comes_before_the_programs_own(self):
        self.assertEqual(dlckpt.find_batch(24), dlckpt.Batch(24, 1, 1.0, "none", 24))
        with asked(32, 2, "2"):
            self.assertEqual(dlckpt.find_batch(24), dlckpt.Batch(32, 2, 2.0, "linear", 16))
            self.assertEqual(dlckpt.find_batch(), dlckpt.Batch(32, 2, 2.0, "linear", 16))

    def test_without_any_batch_it_says_what_to_do(self):
        with self.assertRaisesRegex(InvalidError, "--dl-batch"):
            dlckpt.find_batch()
        with self.assertRaisesRegex(InvalidError, "1 or more"):
            dlckpt.find_batch(0)

    def test_what_dlrun_never_sets_is_refused(self):
        for options in (dict(batch="x"), dict(batch=0), dict(batch=4, passes=5), dict(batch=4, scale="nan"), dict(batch=4, scale="0"),
                        dict(batch=4, text="many")):
            with asked(**options), self.assertRaises(InvalidError):
                dlckpt.find_batch(8)

    def test_adascale_scales_by_the_reported_noise_alone(self):
        with asked(64, text="16:64,rule=adascale"):
            batch = dlckpt.find_batch()
        self.assertEqual(batch.lr_scale_for(None), 1.0)
        self.assertEqual(batch.lr_scale_for(float("nan")), 1.0)
        self.assertEqual(batch.lr_scale_for(0), 1.0)
        self.assertEqual(batch.lr_scale_for(64), 2.5)
        self.assertEqual(batch.lr_scale_for(float("inf")), 4.0)


class OfAJob(support.Case):
    def test_a_job_tells_what_was_chosen(self):
        with asked(32, 2, "2"), support.environment(DL_RANK="1", DL_WORLD_SIZE="4"):
            job = dlckpt.attach()
        self.assertEqual((job.batch, job.local_batch, job.accumulation, job.lr_scale), (32, 8, 2, 2.0))
        for _ in job.steps(3):
            pass
        self.assertEqual(job.samples, 96)

    def test_a_program_with_a_batch_of_its_own_keeps_it_and_its_learning_rate(self):
        with asked(32, 2, "2"):
            batches = dlckpt.GlobalBatches(100, 10, rank=0, world_size=1)
            job = dlckpt.attach(data=batches)
            self.assertEqual((job.batch, job.local_batch, job.accumulation, job.lr_scale), (10, 10, 1, 1.0))
            self.assertEqual(len(next(batches)), 10)

    def test_nothing_is_known_without_a_batch(self):
        job = dlckpt.attach()
        self.assertEqual((job.batch, job.local_batch, job.accumulation, job.lr_scale, job.samples), (0, 0, 1, 1.0, 0))

    def test_noise_must_be_a_number_of_samples(self):
        with asked(64, text="16:64,rule=adascale"):
            job = dlckpt.attach()
        self.assertEqual(job.lr_scale, 1.0)
        for bad in (-1, float("nan"), float("inf")):
            with self.assertRaises(InvalidError):
                job.noise_scale(bad)
        job.noise_scale(64)
        self.assertEqual(job.lr_scale, 2.5)

    def test_steps_without_a_number_need_epochs(self):
        job = dlckpt.attach(data=dlckpt.GlobalBatches(10, 4, rank=0, world_size=1))
        with self.assertRaisesRegex(InvalidError, "epochs"):
            next(iter(job.steps()))


def drawn_by_all(parts):
    """One train step of all learners, pass by pass: the samples of each learner in each pass."""
    return [[next(part) for part in parts] for _ in range(parts[0].accumulation)]


class Saved(support.Case):
    def test_samples_batch_and_noise_are_saved_and_restored(self):
        text = "16:64,rule=adascale"
        with asked(16, text=text):
            job = dlckpt.attach(dir=self.dir)
            job.noise_scale(64)
            for _ in job.steps(5):
                pass
        with asked(64, text=text):
            job = dlckpt.attach(dir=self.dir)
        self.assertEqual((job.train_step, job.samples, job.batch, job.lr_scale), (5, 80, 64, 2.5))
        self.assertFalse([said for said in self.said if "batch" in said], "the program may have kept its batch")
        job.close()

    def test_batches_go_on_where_the_smaller_ones_stopped_and_it_is_said(self):
        seen = []
        for batch, steps in ((4, 3), (10, None)):
            with asked(batch):
                batches = dlckpt.GlobalBatches(30, dlckpt.find_batch(), rank=0, world_size=1, epochs=2)
                job = dlckpt.attach(dir=self.dir, data=batches)
                for _ in job.steps(steps):
                    seen += next(batches)
        self.assertEqual(sorted(seen), sorted(list(range(30)) * 2))
        self.assertEqual(job.samples, 60)
        self.saying(", with batches of 4 samples, now 10")


class ChangingBatches(support.Case):
    def test_each_sample_of_each_epoch_is_trained_once_whatever_the_batches_and_learners(self):
        """A training is stopped at random train steps and goes on with another batch, other passes and other learners, by next() or
        by a loader that draws ahead; the exact average over each train step is what the weights give."""
        rng = random.Random(19)
        for _ in range(300):
            samples, epochs, seed = rng.randint(9, 60), rng.randint(1, 4), rng.randint(0, 9)
            seen, state = [], None
            while True:
                learners = rng.randint(1, 4)
                passes = rng.randint(1, 3)
                batch = dlckpt.Batch(rng.randint(learners * passes, 40), passes, 1.0, "none", 1)
                parts = [dlckpt.GlobalBatches(samples, batch, seed, rank=r, world_size=learners, epochs=epochs) for r in range(learners)]
                if state is not None:
                    for part in parts:
                        part.load_state_dict(state)
                left = samples * epochs - parts[0].cursor
                ahead = [iter(part) for part in parts] if rng.random() < 0.5 else None
                for _ in range(rng.randint(1, 6)):
                    if parts[0].done:
                        break
                    step, before, number = [], parts[0].cursor, parts[0].accumulation
                    average = 0.0
                    for _ in range(number):
                        for rank, part in enumerate(parts):
                            indices = next(ahead[rank]) if ahead else next(part)
                            if left >= learners:
                                self.assertTrue(indices, "a learner without a sample")
                            weight = part.weight_of(len(indices)) if ahead else part.loss_weight
                            average += weight * sum(indices) / max(1, len(indices)) / learners / number
                            step += indices
                    if ahead:
                        for part in parts:
                            part.step_done()
                    self.assertEqual(parts[0].cursor - before, len(step))
                    self.assertLess(len(step), batch.batch + learners)
                    self.assertAlmostEqual(average, sum(step) / len(step))
                    self.assertEqual(len({(part.cursor, part.done) for part in parts}), 1)
                    seen.append(step)
                state = parts[0].state_dict()
                if parts[0].done:
                    for part in parts:
                        with self.assertRaises(StopIteration):
                            next(part)
                    break
            flat = sorted(sum(seen, []))
            self.assertEqual(flat, sorted(list(range(samples)) * epochs))

    def test_without_an_end_a_batch_of_find_batch_is_as_one_by_number(self):
        for batch, learners in ((8, 1), (12, 4), (10, 3)):
            for rank in range(learners):
                number = dlckpt.GlobalBatches(30, batch, 1, rank=rank, world_size=learners)
                found = dlckpt.GlobalBatches(30, dlckpt.find_batch(batch), 1, rank=rank, world_size=learners)
                for _ in range(20):
                    self.assertEqual(next(number), next(found))
                    self.assertEqual(number.loss_weight, found.loss_weight)
                self.assertEqual(number.state_dict(), found.state_dict())

    def test_a_job_ends_with_its_epochs(self):
        batches = dlckpt.GlobalBatches(10, dlckpt.find_batch(4), rank=0, world_size=1, epochs=3)
        job = dlckpt.attach(data=batches)
        seen = []
        for _ in job.steps():
            seen += next(batches)
        self.assertEqual(sorted(seen), sorted(list(range(10)) * 3))
        self.assertEqual((job.samples, job.train_step, batches.data_epoch), (30, 8, 3))

    def test_what_cannot_be_is_refused(self):
        with self.assertRaisesRegex(InvalidError, "batches_per_step"):
            dlckpt.GlobalBatches(10, dlckpt.find_batch(4), batches_per_step=2)
        with self.assertRaisesRegex(InvalidError, "epochs"):
            dlckpt.GlobalBatches(10, 4, epochs=0)
        with self.assertRaisesRegex(InvalidError, "2 samples in all cannot be divided over 3 learners"):
            dlckpt.GlobalBatches(2, 4, rank=0, world_size=3, epochs=1)


class Division(unittest.TestCase):
    def test_the_parts_add_up_to_the_batch(self):
        rng = random.Random(5)
        for _ in range(3000):
            learners, passes = rng.randint(1, 20), rng.randint(1, 6)
            batch = rng.randint(learners * passes, 500)
            own = [sum(part_size(part_size(batch, number, passes), rank, learners) for number in range(passes)) for rank in range(learners)]
            self.assertEqual(own, [local_batch(batch, passes, rank, learners) for rank in range(learners)])
            self.assertEqual(sum(own), batch)


if __name__ == "__main__":
    support.main(needs=("numpy",))
