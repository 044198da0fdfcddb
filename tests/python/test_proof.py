# SPDX-License-Identifier: Apache-2.0
"""What could be saved but not restored is refused by attach(); what does not fit is found before the first byte is changed; and after
a restore that failed in its middle nothing goes on as if nothing had happened."""
import copy
import glob
import os
import random

import support
import numpy as np
import torch
from torch import nn

import dlckpt


class WithBuffer(nn.Module):
    def __init__(self, buffer):
        super().__init__()
        self.linear = nn.Linear(7, 2)
        self.register_buffer("mask", buffer)


class Stateful:
    def __init__(self, state):
        self.state = state

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


def flip_a_byte_of(dir, content):
    """Damages the file of a checkpoint that holds these bytes."""
    for path in glob.glob(os.path.join(dir, "step-*", "*.h5")):
        with open(path, "r+b") as file:
            at = file.read().find(content)
            if at >= 0:
                file.seek(at)
                file.write(bytes([content[0] ^ 1]))
                return
    raise AssertionError("no file holds it")


class Refused(support.Case):
    def refused(self, word, **objects):
        with self.assertRaises(dlckpt.StateError) as caught:
            dlckpt.attach(dir=self.dir, **objects)
        self.assertIn(word, str(caught.exception))
        self.assertFalse(glob.glob(os.path.join(self.dir, "step-*")))

    def test_arrays_that_cannot_be_written_to_in_place_are_refused_at_once(self):
        frozen = np.zeros(3)
        frozen.flags.writeable = False
        self.refused("model/mask", model=WithBuffer(torch.ones(1, 7).expand(5, 7)))
        self.refused("clone()", x=torch.ones(1).expand(4))
        self.refused("read-only", arrays={"a": frozen})
        self.refused("read-only", mine=dlckpt.PerRank(frozen))
        self.refused("one in memory", arrays={"a": np.lib.stride_tricks.as_strided(np.zeros(1), (4,), (0,))})

    def test_an_object_with_load_state_dict_may_give_such_arrays_and_gets_new_ones(self):
        frozen = np.arange(3.0)
        frozen.flags.writeable = False
        one = Stateful({"frozen": frozen, "wide": torch.ones(1, 7).expand(5, 7)})
        with dlckpt.attach(one=one, dir=self.dir) as job:
            job.save()
        two = Stateful({"frozen": frozen * 0, "wide": torch.zeros(1, 7).expand(5, 7)})
        two.state["frozen"].flags.writeable = False
        with dlckpt.attach(one=two, dir=self.dir):
            self.assertEqual(two.state["frozen"].tolist(), [0, 1, 2])
            self.assertTrue(torch.equal(two.state["wide"], torch.ones(5, 7)))

    def test_names_like_those_of_the_format_come_back(self):
        class Odd(nn.Module):
            def __init__(self, value):
                super().__init__()
                self.register_parameter("$", nn.Parameter(torch.full((3,), value)))
        kept, odd = {"$": torch.arange(3.0), "v": torch.ones(2)}, Odd(2.0)
        with dlckpt.attach(t=kept, odd=odd, s=Stateful({"$": "tuple", "v": 1}), dir=self.dir) as job:
            job.state["$"] = torch.ones(2)
            job.save()
        blank, again, plain = {"$": torch.zeros(3), "v": torch.zeros(2)}, Odd(0.0), Stateful({"$": "", "v": 0})
        with dlckpt.attach(t=blank, odd=again, s=plain, dir=self.dir) as job:
            self.assertEqual((blank["$"].tolist(), blank["v"].tolist()), ([0, 1, 2], [1, 1]))
            self.assertTrue(torch.equal(getattr(again, "$"), getattr(odd, "$")))
            self.assertEqual((plain.state, job.state["$"].tolist()), ({"$": "tuple", "v": 1}, [1, 1]))

    def test_texts_numbers_names_and_tensors_that_cannot_be_written_are_refused_with_their_place(self):
        half = "caf\udce9"
        self.refused("s/name", s=Stateful({"name": half}))
        self.refused("surrogate", s=Stateful({half: 1}))
        self.refused("surrogate", **{half: torch.zeros(1)})
        self.refused("bits", s=Stateful({"n": 1 << 20000}))
        self.refused("bytes long", s=Stateful({"x" * 600: torch.zeros(2)}))
        self.refused("33", x=np.zeros((1,) * 33) if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else torch.zeros((1,) * 33))
        self.refused("is the key of a dict", s=Stateful({torch.zeros(1): 1}))
        self.refused("nested", x=torch.nested_tensor([torch.ones(2), torch.ones(3)]) if hasattr(torch, "nested_tensor") else
                     torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]))
        self.refused("no shape yet", model=nn.LazyLinear(3))

    def test_nesting_to_the_limit_comes_back(self):
        deep = ()
        for _ in range(99):
            deep = (deep,)
        with dlckpt.attach(s=Stateful({"deep": deep}), dir=self.dir) as job:
            job.save()
        found = Stateful({"deep": ()})
        with dlckpt.attach(s=found, dir=self.dir):
            self.assertEqual(found.state["deep"], deep)


class NothingIsChanged(support.Case):
    def model(self, value):
        model = nn.Linear(3, 2)
        nn.init.constant_(model.weight, value)
        return model

    def save(self, **objects):
        with dlckpt.attach(dir=self.dir, model=self.model(1.0), **objects) as job:
            job.save()

    def unfit(self, word, **objects):
        model = self.model(5.0)
        before = copy.deepcopy(model.state_dict())
        with self.assertRaises(dlckpt.MismatchError) as caught:
            dlckpt.attach(dir=self.dir, model=model, **objects)
        self.assertIn(word, str(caught.exception))
        self.assertIn("nothing", str(caught.exception))
        self.assertTrue(all(torch.equal(before[name], value) for name, value in model.state_dict().items()))

    def test_an_optimizer_whose_parameters_are_in_another_order_is_refused(self):
        def optimizer(shapes, steps=0):
            params = [nn.Parameter(torch.ones(shape)) for shape in shapes]
            opt = torch.optim.Adam(params)
            for _ in range(steps):
                sum(p.sum() for p in params).backward()
                opt.step()
            return opt
        self.save(opt=optimizer([(4, 3), (5,)], steps=1))
        self.unfit("exp_avg of parameter 0", opt=optimizer([(5,), (4, 3)]))

    def test_another_kind_of_scheduler_is_refused(self):
        opt = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        self.save(sched=torch.optim.lr_scheduler.StepLR(opt, 3))
        self.unfit("another kind of scheduler", sched=torch.optim.lr_scheduler.CosineAnnealingLR(opt, 9))

    def test_another_kind_of_generator_or_value_is_refused(self):
        self.save(g=np.random.default_rng(1), mine=dlckpt.PerRank({"a": 1}))
        self.unfit("PCG64", g=np.random.RandomState(1), mine=dlckpt.PerRank({"a": 1}))
        self.unfit("mine", g=np.random.default_rng(1), mine=dlckpt.PerRank([1]))

    def test_a_module_that_holds_a_value_where_the_checkpoint_has_a_tensor_is_refused(self):
        class Extra(nn.Module):
            def __init__(self, extra):
                super().__init__()
                self.extra = extra

            def get_extra_state(self):
                return self.extra

            def set_extra_state(self, state):
                self.extra = state
        self.save(x=Extra({"a": torch.ones(2)}), y=Extra(torch.ones(2)))
        again = Extra({"a": torch.zeros(2)})
        with dlckpt.attach(dir=self.dir, model=self.model(0.0), x=again, y=Extra(torch.zeros(2))):
            self.assertEqual(again.extra["a"].tolist(), [1, 1])
        self.unfit("none in the program", x=Extra({"a": torch.zeros(2)}), y=Extra(7))

    def test_arrays_of_numpy_fit_where_tensors_were_saved(self):
        with dlckpt.attach(dir=self.dir, x={"a": torch.arange(3.0)}) as job:
            job.save()
        found = np.zeros(3, "float32")
        with dlckpt.attach(dir=self.dir, x={"a": found}):
            self.assertEqual(found.tolist(), [0, 1, 2])


class InTheMiddle(support.Case):
    def test_after_a_read_error_in_the_middle_the_job_cannot_be_used_and_says_so(self):
        values = np.frombuffer(random.Random(1).randbytes(1 << 20), dtype="uint8").copy()
        with dlckpt.attach(arrays={"a": np.arange(3.0), "b": values}, dir=self.dir) as job:
            job.save()
        flip_a_byte_of(self.dir, values.tobytes()[-4096:])
        with self.assertRaises(dlckpt.CorruptError) as caught:
            dlckpt.attach(arrays={"a": np.zeros(3), "b": np.zeros_like(values)}, dir=self.dir)
        self.assertIn("make the objects anew", str(caught.exception))

    def test_a_load_state_dict_that_raises_is_named_and_what_it_means_is_said(self):
        class Picky(Stateful):
            def load_state_dict(self, state):
                raise ValueError("not this one")
        with dlckpt.attach(a=np.ones(3), picky=Picky({"n": 1}), dir=self.dir) as job:
            job.save()
        from dlckpt.job import open_job
        from dlckpt.objects import entry
        job = open_job(dlckpt.World(0, 1), dir=self.dir, every=None, keep=0, final_save=True, run_id=None, timeout=0.0)
        with self.assertRaises(dlckpt.MismatchError) as caught:
            job._start([entry("a", np.zeros(3)), entry("picky", Picky({"n": 1}))], True)
        for word in ("picky", "not this one", "make the objects anew"):
            self.assertIn(word, str(caught.exception))
        for call in (job.save, job.check, job.finish, lambda: next(job.steps(3))):
            with self.assertRaises(dlckpt.InvalidError):
                call()


if __name__ == "__main__":
    support.main(needs=("numpy", "torch"))
