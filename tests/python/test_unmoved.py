# SPDX-License-Identifier: Apache-2.0
"""Arrays that are where they were at the last save are not encoded again; whatever else has changed is noticed."""
import collections
import os

import support
import numpy as np

import dlckpt
from dlckpt import codec


def tree():
    return {"x": np.arange(4.0), "y": {"z": np.arange(6.0), "n": np.array(3)}, "l": [np.ones(2), np.ones((3, 2), np.float32)]}


def set_shape(t):
    t["l"][1].shape = (2, 3)


def set_dtype(t):
    t["x"].dtype = np.int64


def tie(t):
    t["x"] = t["y"]["z"]


def swap(t):
    t["l"][0], t["x"] = t["x"], t["l"][0]


CHANGES = {
    "values": lambda t: t["y"]["z"].__iadd__(5),
    "another array": lambda t: t.__setitem__("x", np.full(4, 7.0)),
    "another shape": lambda t: t.__setitem__("x", np.full(9, 7.0)),
    "a new key": lambda t: t["y"].__setitem__("new", np.zeros(2)),
    "a key less": lambda t: t["y"].pop("z"),
    "another order": lambda t: t.__setitem__("x", t.pop("x")),
    "a longer list": lambda t: t["l"].append(np.zeros(2)),
    "another container": lambda t: t.__setitem__("l", list(t["l"])),
    "a shape in place": set_shape,
    "a dtype in place": set_dtype,
    "other memory": lambda t: t["x"].resize(1000, refcheck=False),
    "other strides": lambda t: t.__setitem__("x", np.arange(8.0)[::2]),
    "one array twice": tie,
    "two arrays changed places": swap,
}


class Unmoved(support.Case):
    def same(self, got, want):
        self.assertIs(type(got), type(want))
        if isinstance(want, dict):
            self.assertEqual(list(got), list(want))
            got, want = list(got.values()), list(want.values())
        if isinstance(want, list):
            self.assertEqual(len(got), len(want))
            for a, b in zip(got, want):
                self.same(a, b)
            return
        self.assertEqual((got.dtype, got.shape), (want.dtype, want.shape))
        self.assertTrue(np.array_equal(got, want))

    def saved(self, job, *names):
        with dlckpt.open(self.dir) as checkpoint:
            self.assertEqual(checkpoint.step, job.train_step)
            return [checkpoint.state(name) for name in names]

    def test_whatever_changes_between_two_saves_is_saved(self):
        for what, change in CHANGES.items():
            with self.subTest(what):
                self.dir = os.path.join(self.folder, what.replace(" ", "-"))
                state, other = tree(), {"o": np.arange(3.0)}
                with dlckpt.attach(arrays=state, other=other, dir=self.dir, rng=False, final_save=False) as job:
                    for step in range(4):
                        job.train_step = step
                        if step == 2:
                            change(state)
                        state["l"][0][:] = other["o"][:] = step
                        job.save()
                        job.wait()
                        got, got_other = self.saved(job, "arrays", "other")
                        self.same(got, state)
                        self.same(got_other, other)

    def test_one_that_has_become_read_only_is_refused(self):
        state = tree()
        with dlckpt.attach(arrays=state, dir=self.dir, rng=False, final_save=False) as job:
            job.save()
            job.train_step = 1
            state["x"].flags.writeable = False
            with self.assertRaisesRegex(dlckpt.StateError, "arrays/x.*read-only"):
                job.save()

    def test_what_changes_in_a_container_that_came_later_is_saved(self):
        for kind, at in ((collections.OrderedDict, "x"), (collections.deque, 0)):
            with self.subTest(kind.__name__):
                self.dir = os.path.join(self.folder, kind.__name__)
                state = {"first": np.zeros(2)}
                with dlckpt.attach(arrays=state, dir=self.dir, rng=False, final_save=False) as job:
                    state["later"] = kind([("x", np.zeros(3))]) if at else kind([np.zeros(3)])
                    for step in range(1, 4):
                        job.train_step = step
                        state["later"][at] = np.full(3, float(step))
                        job.save()
                        job.wait()
                        self.same(self.saved(job, "arrays")[0]["later"][at], state["later"][at])

    def test_it_is_restored(self):
        state = tree()
        with dlckpt.attach(arrays=state, dir=self.dir, rng=False, final_save=False) as job:
            for step in range(1, 4):
                job.train_step = step
                state["x"] += 1
                job.save()
        again = tree()
        with dlckpt.attach(arrays=again, dir=self.dir, rng=False, final_save=False) as job:
            self.assertEqual(job.train_step, 3)
            self.same(again, state)
            again["x"] += 1
            job.train_step = 4
            job.save()
            job.wait()
            self.same(self.saved(job, "arrays")[0], again)

    def test_arrays_of_two_objects_become_one(self):
        for first in ("a", "b"):
            with self.subTest("changed: " + first):
                self.dir = os.path.join(self.folder, first)
                state = {"a": {"x": np.arange(3.0)}, "b": {"y": np.arange(3.0) + 7}}
                with dlckpt.attach(dir=self.dir, rng=False, final_save=False, **state) as job:
                    job.save()
                    second = "b" if first == "a" else "a"
                    state[first]["x" if first == "a" else "y"] = state[second]["x" if second == "a" else "y"]
                    job.train_step = 1
                    job.save()
                    job.wait()
                    for name, got in zip("ab", self.saved(job, "a", "b")):
                        self.same(got, state[name])
                    with dlckpt.open(self.dir) as checkpoint:
                        self.assertEqual(len(checkpoint), 1, "it is stored once")

    def test_what_is_where_it_was_is_not_encoded_again(self):
        encoded, encode = [], codec._encode_array

        def counting(value, path, sink):
            encoded.append(path)
            return encode(value, path, sink)

        codec._encode_array = counting
        self.addCleanup(setattr, codec, "_encode_array", encode)
        state, other = tree(), {"o": np.arange(3.0)}
        with dlckpt.attach(arrays=state, other=other, dir=self.dir, rng=False, final_save=False) as job:
            self.assertEqual(len(encoded), 6)
            job.save()
            other["o"] = np.arange(3.0)
            job.train_step = 1
            job.save()
            self.assertEqual(encoded[6:], ["other/o"])
            job.state["s"] = np.ones(2)
            job.train_step = 2
            job.save()
            job.wait()
            self.assertEqual(encoded[7:], ["state/s"])
            self.same(self.saved(job, "arrays")[0], state)


if __name__ == "__main__":
    support.main(needs=("numpy",))
