# SPDX-License-Identifier: Apache-2.0
"""The order in which the elements of a tensor lie in memory comes back with it: a fused optimizer takes weights and state by that
order, so that state in another order would give wrong weights without any error."""
import copy

import support

support.use_frameworks()

import numpy as np
import torch
from torch import nn

import dlckpt

KINDS = {
    "fused Adam": lambda p: torch.optim.Adam(p, lr=0.01, fused=True),
    "fused AdamW with amsgrad": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True, amsgrad=True),
    "fused SGD with momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True),
    "fused Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, fused=True),
    "foreach Adam": lambda p: torch.optim.Adam(p, lr=0.01, foreach=True),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "SGD with momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "foreach SGD with momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5),
}


def network(order, seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 1, bias=False), nn.Conv2d(4, 1, 2), nn.Flatten(), nn.Linear(25, 6))
    model[4].weight = nn.Parameter(model[4].weight.detach().t().contiguous().t())  # its columns lie together
    return model.to(memory_format=order)


def train(model, optimizer):
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 3, 8, 8, generator=generator)).pow(2).mean().backward()
        optimizer.step()


def strides(optimizer):
    return [{key: value.stride() for key, value in slots.items() if isinstance(value, torch.Tensor)} for slots in optimizer.state.values()]


class MemoryOrder(support.Case):
    def equal(self, one, other):
        for (name, a), b in zip(one.state_dict().items(), other.state_dict().values()):
            self.assertEqual(a.contiguous().numpy().tobytes(), b.contiguous().numpy().tobytes(), name)

    def save(self, **objects):
        with dlckpt.attach(dir=self.dir, final_save=False, **objects) as job:
            job.save()

    def restore(self, **objects):
        with dlckpt.attach(dir=self.dir, final_save=False, **objects) as job:
            self.assertTrue(job.restored)

    def test_every_optimizer_goes_on_bit_for_bit_with_channels_last_weights(self):
        for kind, make in KINDS.items():
            with self.subTest(kind):
                self.dir = "%s/%s" % (self.folder, kind)
                model = network(torch.channels_last, 1)
                optimizer = make(model.parameters())
                train(model, optimizer)
                self.save(model=model, optimizer=optimizer)
                expected = strides(optimizer)
                train(model, optimizer)
                again = network(torch.channels_last, 2)
                other = make(again.parameters())
                self.restore(model=again, optimizer=other)
                self.assertEqual(strides(other), expected)
                train(again, other)
                self.equal(model, again)

    def test_state_follows_weights_that_the_program_has_laid_out_anew(self):
        orders = {"plain": torch.contiguous_format, "channels last": torch.channels_last}
        for before, after in (("plain", "channels last"), ("channels last", "plain")):
            self.dir = "%s/%s" % (self.folder, after)
            model = network(orders[before], 1)
            optimizer = KINDS["fused Adam"](model.parameters())
            train(model, optimizer)
            self.save(model=model, optimizer=optimizer)
            again = network(orders[after], 2)
            other = KINDS["fused Adam"](again.parameters())
            self.restore(model=again, optimizer=other)
            self.equal(model, again)
            for parameter, slots in other.state.items():
                self.assertEqual(slots["exp_avg"].stride(), parameter.stride(), after)
            # The values are those of the saved state, by index.
            for slots, saved in zip(other.state.values(), optimizer.state.values()):
                self.assertTrue(torch.equal(slots["exp_avg"], saved["exp_avg"]))

    def test_state_of_another_element_type_than_its_parameter_follows_it_too(self):
        def make():
            weight = nn.Parameter(torch.ones(2, 3, 4, 4, dtype=torch.bfloat16).to(memory_format=torch.channels_last))
            return weight, torch.optim.SGD([weight], lr=0.1, momentum=0.9)
        weight, optimizer = make()
        optimizer.state[weight]["momentum_buffer"] = torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last)
        self.save(optimizer=optimizer)
        again, other = make()
        self.restore(optimizer=other)
        restored = other.state[again]["momentum_buffer"]
        self.assertTrue(torch.equal(restored, optimizer.state[weight]["momentum_buffer"]))
        self.assertEqual(restored.stride(), again.stride())

    def test_what_a_framework_loads_itself_and_what_is_read_has_the_order_in_which_it_was_saved(self):
        class Trainer:
            """As Lightning's Trainer, whose state contains that of its optimizers."""

            def __init__(self, seed):
                self.model = network(torch.channels_last, seed)
                self.optimizer = KINDS["fused Adam"](self.model.parameters())

            def state_dict(self):
                return {"model": self.model.state_dict(), "optimizers": [self.optimizer.state_dict()]}

            def load_state_dict(self, state):
                self.model.load_state_dict(state["model"])
                self.optimizer.load_state_dict(state["optimizers"][0])
        one, restored, read = Trainer(1), Trainer(2), Trainer(3)
        train(one.model, one.optimizer)
        self.save(trainer=one)
        self.restore(trainer=restored)
        with dlckpt.open(self.dir) as checkpoint:
            read.load_state_dict(checkpoint.state("trainer"))
        train(one.model, one.optimizer)
        for other in (restored, read):
            train(other.model, other.optimizer)
            self.assertEqual(strides(other.optimizer), strides(one.optimizer))
            self.equal(one.model, other.model)

    def test_new_arrays_have_the_order_of_the_saved_ones(self):
        base = torch.arange(120.0)
        kept = {
            "transposed": base.reshape(10, 12).t(), "last": base.reshape(2, 3, 4, 5).to(memory_format=torch.channels_last),
            "permuted": base.reshape(2, 3, 4, 5).permute(3, 0, 2, 1), "one": base.reshape(2, 1, 60).permute(2, 1, 0),
            "gaps": base.reshape(10, 12)[:, ::3], "both": base.reshape(10, 12).t()[::2], "expanded": base[:4].expand(3, 4),
            "empty": torch.zeros(0, 3).t(), "plain": base.reshape(10, 12), "number": torch.tensor(1.5),
            "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "back": np.arange(6.0).reshape(2, 3)[::-1],
            "big": np.asfortranarray(np.arange(6.0, dtype=">f8").reshape(2, 3)), "no": np.zeros((0, 4), order="F"),
        }
        for per_rank in (False, True):
            self.dir = "%s/%s" % (self.folder, per_rank)
            with dlckpt.attach(dir=self.dir, anchor=np.zeros(1), own=dlckpt.PerRank(dict(kept)), final_save=False) as job:
                if not per_rank:
                    job.state.update(copy.copy(kept))
                job.save()
            own = {}
            with dlckpt.attach(dir=self.dir, anchor=np.zeros(1), own=dlckpt.PerRank(own), final_save=False) as job:
                found = own if per_rank else dict(job.state)
            self.assertEqual(list(found), list(kept))
            for name, value in kept.items():
                self.assertEqual(found[name].tolist(), value.tolist(), name)
                self.assertEqual(found[name].dtype, value.dtype, name)
            for name in ("transposed", "last", "permuted", "one", "plain"):
                self.assertEqual(found[name].stride(), kept[name].stride(), name)
            self.assertEqual(found["gaps"].stride(), (4, 1))
            self.assertEqual(found["both"].stride(), (1, 6))  # as clone() orders it
            self.assertEqual(found["both"].stride(), kept["both"].clone().stride())
            self.assertTrue(found["fortran"].flags.f_contiguous and found["big"].flags.f_contiguous)

    def test_an_order_that_is_none_is_refused(self):
        from dlckpt import codec
        for order in ([0], [0, 0], [1, 2], ["0", "1"], [0.0, 1.0], "10", {}, [True, False], 7):
            stored = {"$": "array", "kind": "torch", "dtype": "float32", "shape": [1, 2], "v": "AAAAAAAAAAA=", "layout": order}
            with self.assertRaisesRegex(dlckpt.StateError, "order"):
                codec.decode(stored, None)

    def test_an_order_of_fewer_dimensions_than_the_tensor_has_is_refused(self):
        with dlckpt.attach(dir=self.dir, anchor={"x": np.asfortranarray(np.ones((2, 3, 400)))}, final_save=False) as job:
            job.save()
        with dlckpt.open(self.dir) as checkpoint:
            reference = checkpoint._state()["objects"]["anchor"]["x"]
            self.assertEqual(reference["layout"], [2, 1, 0])
            reference.update(shape=[2, 3], layout=[0, 1])  # an array of 6 elements, into which 2400 would be read
            with self.assertRaisesRegex(dlckpt.StateError, "3 dimensions"):
                checkpoint.state("anchor")


if __name__ == "__main__":
    support.main(needs=("numpy",))
