# SPDX-License-Identifier: Apache-2.0
"""Several learners, DistributedDataParallel over gloo: continuation bit for bit, and at other world sizes."""
import json

import support


def lines(results):
    """All JSON lines of all learners."""
    return [json.loads(line) for _, out, _ in results for line in out.splitlines() if line.startswith("{")]


def samples(results):
    """{train step: the samples that all learners trained on in it, in order of rank}."""
    found = {}
    for line in sorted((x for x in lines(results) if "step" in x), key=lambda x: x["rank"]):
        found.setdefault(line["step"], []).extend(line["samples"])
    return found


def final(results):
    return [x for x in lines(results) if "weights" in x]


class Learners(support.Case):
    def run_learners(self, count, *args, codes=(0,)):
        results = support.learners(count, "train_small.py", *args)
        for code, _, err in results:
            self.assertIn(code, codes, err)
        return results

    def expected_samples(self, steps, batch=12):
        import dlckpt
        batches = dlckpt.GlobalBatches(40, batch, seed=2, rank=0, world_size=1)
        return {step: next(batches) for step in range(steps)}

    def test_two_learners_interrupted_and_resumed_equal_an_uninterrupted_run_bit_for_bit(self):
        whole = final(self.run_learners(2))
        self.run_learners(2, "--dir", self.dir, "--leave-at", 5, codes=(75,))
        resumed = final(self.run_learners(2, "--dir", self.dir))
        self.assertTrue(all(x["restored"] for x in resumed))
        for before, after in zip(whole, resumed):
            self.assertEqual((before["weights"], before["optimizer"], before["lr"]),
                             (after["weights"], after["optimizer"], after["lr"]))

    def test_after_a_crash_training_goes_on_from_the_last_periodic_checkpoint_bit_for_bit(self):
        whole = final(self.run_learners(2, "--optimizer", "adam"))
        self.run_learners(2, "--optimizer", "adam", "--dir", self.dir, "--every", "4steps", "--die-at", 7, codes=(9,))
        results = self.run_learners(2, "--optimizer", "adam", "--dir", self.dir, "--every", "4steps")
        self.assertEqual(min(samples(results)), 4)
        self.assertEqual([x["weights"] for x in final(results)], [x["weights"] for x in whole])

    def test_from_2_to_3_learners_no_sample_is_skipped_or_repeated(self):
        self.change_world(2, 3)

    def test_from_4_to_2_learners_no_sample_is_skipped_or_repeated(self):
        self.change_world(4, 2)

    def change_world(self, before, after):
        first = samples(self.run_learners(before, "--dir", self.dir, "--leave-at", 5, codes=(75,)))
        results = self.run_learners(after, "--dir", self.dir)
        self.assertIn("saved by %d learners, now %d" % (before, after), results[0][2])
        first.update(samples(results))
        self.assertEqual(first, self.expected_samples(12))
        self.assertEqual(len({x["parameters"] for x in final(results)}), 1)

    def test_what_several_learners_saved_plain_python_resumes_and_the_other_way_round(self):
        self.run_learners(2, "--dir", self.dir, "--leave-at", 4, codes=(75,))
        code, _, err = support.one("train_small.py", "--dir", self.dir, "--leave-at", 8)
        self.assertEqual(code, 75, err)
        self.assertIn("resumed at train step 4", err)
        results = self.run_learners(2, "--dir", self.dir)
        self.assertIn("resumed at train step 8", results[0][2])
        self.assertEqual(sorted(samples(results)), [8, 9, 10, 11])

    def test_divided_arrays_are_put_together_and_divided_again_from_3_to_2_learners(self):
        for count, mode in ((3, "write"), (2, "read"), (1, "read")):
            results = support.learners(count, "shards.py", self.dir, mode)
            for code, out, err in results:
                self.assertEqual(code, 0, err)

    def test_a_hole_between_divided_arrays_is_refused(self):
        results = support.learners(2, "shards.py", self.dir, "hole")
        self.assertEqual([code for code, _, _ in results], [0, 0], results)
        for _, out, _ in results:
            self.assertIn("InvalidError", out)

    def test_learners_that_attach_other_objects_than_were_saved_are_all_refused(self):
        self.run_learners(2, "--dir", self.dir, "--leave-at", 2, codes=(75,))
        results = support.learners(2, "shards.py", self.dir, "read")
        for code, _, err in results:
            self.assertNotEqual(code, 0)
            self.assertIn("MismatchError", err)
            self.assertIn("model", err)


if __name__ == "__main__":
    support.main(needs=("torch", "numpy"))
