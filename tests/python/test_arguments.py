# SPDX-License-Identifier: Apache-2.0
"""Arguments of a wrong type or value: each is refused in one sentence that says what was given and what is allowed, and nothing is
lost by it: the directory stays free, the checkpoint as it was, and a job goes on."""
import math
import os

import numpy as np
import support

import dlckpt
from dlckpt.settings import parse_every

TEXTS, NAN = ("3", "", b"3", "ä\0", "\ud800"), float("nan")
NO_NUMBERS = TEXTS + ([3], {}, (), object(), 1j, np.zeros(2))
WRONG_WHOLE = NO_NUMBERS + (-1, 2.5, NAN, math.inf, -math.inf, True, np.True_, 10**12 + 1, 2**31, 2**32, 2**63, 2**64, -2**63, 10**400)
NO_FLAGS = TEXTS + (2, -1, 0.0, None, [], object())
NO_PATHS = (3, 2.5, True, [], {}, object(), "a\0b", b"a\0b")
NO_TEXTS = (3, 2.5, True, [], {}, object(), b"a", "a\0b", "\ud800")


class Unshown:
    """An object whose repr() fails, and that says of itself that it is nothing at all."""

    def __repr__(self):
        raise RuntimeError("no")

    def __index__(self):
        raise RuntimeError("no")

    __float__ = __index__


def without(values, *taken):
    return [value for value in values if not any(value is other or (type(value) is type(other) and value == other) for other in taken)]


class Arguments(support.Case):
    def refused(self, name, values, call, kind=dlckpt.InvalidError):
        """Each value is refused with one sentence that names the argument."""
        for value in list(values) + [Unshown()]:
            with self.subTest(argument=name, value=type(value).__name__ if isinstance(value, Unshown) else repr(value)):
                try:
                    call(value)
                except dlckpt.Error as error:
                    self.assertIs(type(error), kind, error)
                    self.assertIn(name, str(error))
                    self.assertIn("allowed: ", str(error).replace("has a zero byte in it; allowed", "allowed"))
                    self.assertNotIn("\n", str(error))
                    str(error).encode()
                    continue
                self.fail("it was taken")

    def test_of_attach(self):
        def attach(**given):
            dlckpt.attach(w=np.zeros(2), **dict({"dir": self.dir}, **given)).close()

        table = [
            ("keep", WRONG_WHOLE), ("keep_every", without(WRONG_WHOLE, 2**31, 2**32)),
            ("timeout", NO_NUMBERS + (True, NAN, -1, -0.5, -math.inf, math.inf)),
            ("every", without(NO_NUMBERS, "3", "") + ["0", "ten", True, NAN, math.inf, -1, 10**400, 0, 0.5]),
            ("mode", NO_TEXTS + ("quick", "", ["async"], np.zeros(2))), ("run_id", NO_TEXTS), ("best", NO_TEXTS + ("loss:most",)),
            ("rng", NO_FLAGS), ("strict", NO_FLAGS), ("final_save", NO_FLAGS), ("arrays", (3, "a", [np.zeros(1)])),
        ]
        for name, values in table:
            self.refused(name, values, lambda value, name=name: attach(**{name: value}))
        self.refused("", NO_PATHS, lambda value: attach(dir=value))
        self.refused("rank", without(WRONG_WHOLE, 10**400), lambda value: attach(rank=value, world_size=2))
        self.refused("world_size", without(WRONG_WHOLE, 10**400) + [0, 10**6], lambda value: attach(rank=0, world_size=value))
        self.assertFalse(os.path.exists(self.dir))
        # Without a directory, too: a program that is only tried out so is as wrong.
        self.refused("keep", ("3", 10**12), lambda value: dlckpt.attach(w=np.zeros(2), keep=value))
        for name, value in (("keep", 3.0), ("keep", np.int64(3)), ("timeout", np.float32(5)), ("rng", np.False_), ("strict", 1),
                            ("every", 90), ("keep_every", 10**12 - 1), ("dir", os.fsencode(self.dir))):
            attach(**{name: value})

    def test_of_open_and_of_what_it_returns(self):
        w = np.arange(6.0).reshape(2, 3)
        with dlckpt.attach(net={"w": w}, dir=self.dir, rng=False) as job:
            for _ in job.steps(2):
                pass
        self.refused("step", without(WRONG_WHOLE, 2**31, 2**32), lambda value: dlckpt.open(self.dir, step=value))
        self.refused("", NO_PATHS + (None,), dlckpt.open)
        with dlckpt.open(self.dir, 2.0) as opened:
            box = list(TEXTS) + [3, [3], {}, object(), 1j, np.zeros(3), (0,), (0, 0, 0), (0, -1), (0, 2**63), (0, 2**64), (0, 0.5), (0, "1"), (True, 1), (0, NAN)]
            self.refused("offset", box, lambda value: opened.load("net/w", value, (1, 1)))
            self.refused("extent", box, lambda value: opened.load("net/w", (0, 0), value))
            self.refused("kind", (3, "cuda", ["numpy"], np.zeros(2)), lambda value: opened.load("net/w", kind=value))
            self.refused("path", NO_TEXTS + (None,), opened.info)
            self.refused("name", NO_TEXTS + (None,), opened.state)
            target = np.full((2, 3), 7.0)
            into = {"w": target}
            self.refused("name", NO_TEXTS + (None,), lambda value: opened.load_into(into, value))
            self.refused("load_into", (3, "w", [target], None), lambda value: opened.load_into(value, "net"))
            self.refused("rename", (3, "w", ["w"], {3: "w"}, {"w": 3}, {"w": b"w"}), lambda value: opened.load_into(into, "net", rename=value))
            self.refused("optional", (3, "w", [3], {"w": 1}, None), lambda value: opened.load_into(into, "net", optional=value))
            self.refused("slices", (3, "w", [b"w"], {"w": 1}, None), lambda value: opened.load_into(into, "net", slices=value))
            self.refused("cast", NO_FLAGS, lambda value: opened.load_into(into, "net", cast=value))
            self.assertTrue((target == 7.0).all())
            self.assertEqual(opened.load("net/w", (np.int64(1), 1), [1, 2.0]).tolist(), [[4.0, 5.0]])
            opened.load_into(into, "net", optional=("x*",), cast=np.True_)
            self.assertEqual(target.tolist(), w.tolist())

    def test_of_a_job_which_goes_on(self):
        w = np.zeros(3)
        job = dlckpt.attach(net={"w": w}, dir=self.dir, rng=False)
        self.refused("total", without(WRONG_WHOLE, math.inf, 2**31, 2**32, 10**12 + 1), lambda value: next(job.steps(value)))
        self.refused("wait", NO_FLAGS, lambda value: job.save(wait=value))
        self.refused("timeout", NO_NUMBERS + (NAN, True), job.wait)
        self.refused("value", NO_NUMBERS + (True,), lambda value: job.metric("loss", value))
        self.refused("name", NO_TEXTS, lambda value: job.metric(value, 1.0))
        self.refused("log", without(NO_PATHS, "a\0b", b"a\0b"), lambda value: job.files(log=value))
        self.refused("per_rank", NO_FLAGS, lambda value: job.files(per_rank=value, log="log"))
        self.refused("", NO_NUMBERS + (-1, NAN, math.inf), job.noise_scale)
        for step in job.steps(3.0):
            w += 1
        self.assertEqual(dlckpt.open(self.dir)["net/w"].tolist(), [3.0] * 3)
        loop = dlckpt.attach(net={"w": w}, dir=self.dir, rng=False).steps(math.inf)
        self.assertEqual(next(loop), 3)
        loop.close()

    def test_of_batches_and_of_a_context(self):
        for name in ("n_samples", "global_batch", "batches_per_step"):
            self.refused(name, without(WRONG_WHOLE, 2**31, 2**32, 10**12 + 1) + [0],
                         lambda value, name=name: dlckpt.GlobalBatches(**dict({"n_samples": 8, "global_batch": 4}, **{name: value})))
        self.refused("seed", without(WRONG_WHOLE, 2**31), lambda value: dlckpt.GlobalBatches(8, 4, seed=value))
        self.refused("epochs", without(WRONG_WHOLE, 2**31, 2**32, 10**12 + 1) + [0], lambda value: dlckpt.GlobalBatches(8, 4, epochs=value))
        self.refused("shuffle", NO_FLAGS, lambda value: dlckpt.GlobalBatches(8, 4, shuffle=value))
        self.refused("default", without(WRONG_WHOLE, 2**31, 2**32, 10**12 + 1) + [0], dlckpt.find_batch)
        for name in ("rank", "world_size", "keep"):
            self.refused(name, without(WRONG_WHOLE, 10**400), lambda value, name=name: dlckpt.Context(self.dir, **{name: value}))
        self.refused("every_steps", without(WRONG_WHOLE, 2**31, 2**32), lambda value: dlckpt.Context(self.dir, every_steps=value))
        self.assertFalse(os.path.exists(self.dir))
        with dlckpt.Context(self.dir) as context:
            steps = without(WRONG_WHOLE, 2**31, 2**32)
            for call in (context.save, context.want):
                self.refused("step", steps, call)
            for call in (context.restore, context.peek):
                self.refused("step", without(steps, -1), call)
        self.assertEqual(parse_every(np.float64(90)).seconds, 90)


if __name__ == "__main__":
    support.main(needs=("numpy",))
