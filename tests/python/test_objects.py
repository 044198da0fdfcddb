# SPDX-License-Identifier: Apache-2.0
"""Modules, optimizers, schedulers, generators and other objects of PyTorch, there and back in one process."""
import copy
import random

import support
import numpy as np
import torch
from torch import nn

import dlckpt
from dlckpt import dtypes


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 2))


def train(model, opt, sched=None, steps=3):
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        opt.zero_grad()
        loss = model(torch.randn(8, 4, generator=generator)).pow(2).mean()
        loss.backward()
        opt.step()
        if sched is not None:
            sched.step(loss) if isinstance(sched, torch.optim.lr_scheduler.ReduceLROnPlateau) else sched.step()


def same(a, b):
    """Equality of trees of tensors and values, bit for bit."""
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and a.shape == b.shape and \
            (a.cpu().contiguous().view(-1).numpy().tobytes() == b.cpu().contiguous().view(-1).numpy().tobytes()
             if a.dtype != torch.bfloat16 else torch.equal(a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    return callable(a) or a == b


OPTIMIZERS = {
    "SGD with momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "SGD without": lambda p: torch.optim.SGD(p, lr=0.1),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "Adadelta": lambda p: torch.optim.Adadelta(p),
    "LBFGS": lambda p: torch.optim.LBFGS(p, history_size=3, max_iter=2),
}
L = torch.optim.lr_scheduler
SCHEDULERS = {
    "StepLR": lambda o: L.StepLR(o, 2), "MultiStepLR": lambda o: L.MultiStepLR(o, [2, 2, 4]),
    "CosineAnnealingLR": lambda o: L.CosineAnnealingLR(o, 9), "OneCycleLR": lambda o: L.OneCycleLR(o, 0.2, 20),
    "LambdaLR": lambda o: L.LambdaLR(o, lambda e: 0.9 ** e), "ReduceLROnPlateau": lambda o: L.ReduceLROnPlateau(o, patience=0),
    "CosineAnnealingWarmRestarts": lambda o: L.CosineAnnealingWarmRestarts(o, 3),
    "SequentialLR": lambda o: L.SequentialLR(o, [L.ConstantLR(o), L.ExponentialLR(o, 0.5)], [2]),
}


class Torch(support.Case):
    def save(self, **objects):
        with dlckpt.attach(dir=self.dir, **objects) as job:
            job.train_step = 3
            job.save()

    def restore(self, **objects):
        with dlckpt.attach(dir=self.dir, **objects) as job:
            self.assertTrue(job.restored)
            self.assertEqual(job.train_step, 3)
        return job

    def test_every_element_type_of_torch_comes_back_bit_for_bit(self):
        kept, blank = {}, {}
        for name in dtypes.DTYPES:
            dtype = getattr(torch, name, None)
            if dtype is None:
                continue
            size = dtypes.size(name)
            raw = torch.randint(0, 256, (6 * size,), dtype=torch.uint8)
            kept[name] = (raw > 127) if name == "bool" else raw.view(dtype).reshape(2, 3)
            blank[name] = torch.zeros(kept[name].shape, dtype=torch.float32).to(dtype)
        self.assertIn("bfloat16", kept)
        self.save(t=kept)
        self.restore(t=blank)
        for name in kept:
            if name == "bool":
                self.assertTrue(torch.equal(kept[name], blank[name]))
            else:
                self.assertTrue(torch.equal(kept[name].contiguous().view(torch.uint8), blank[name].contiguous().view(torch.uint8)),
                                name)

    def test_a_scalar_an_empty_a_transposed_and_a_thin_tensor_come_back(self):
        kept = {"s": torch.tensor(2.5), "e": torch.zeros(0, 3), "t": torch.arange(6.0).reshape(2, 3).t(),
                "x": torch.arange(4.0).expand(1, 4)}
        blank = {"s": torch.tensor(0.0), "e": torch.zeros(0, 3), "t": torch.zeros(2, 3).t(), "x": torch.zeros(4).expand(1, 4)}
        self.save(t=kept)
        self.restore(t=blank)
        for name in kept:
            self.assertTrue(torch.equal(kept[name], blank[name]))

    def test_every_optimizer_goes_on_as_if_it_had_not_been_interrupted(self):
        for name, make in OPTIMIZERS.items():
            with self.subTest(name):
                self.dir = "%s/%s" % (self.folder, name)
                model = network()
                opt = make(model.parameters())
                if name == "LBFGS":
                    def run(m, o):
                        x = torch.ones(8, 4).mul(torch.arange(8.0).unsqueeze(1))

                        def closure():
                            o.zero_grad()
                            loss = m(x).pow(2).mean()
                            loss.backward()
                            return loss
                        o.step(closure)
                else:
                    run = train
                run(model, opt)
                self.save(model=model, opt=opt)
                run(model, opt)
                other = network(9)
                other_opt = make(other.parameters())
                self.restore(model=other, opt=other_opt)
                run(other, other_opt)
                self.assertTrue(same(model.state_dict(), other.state_dict()))
                self.assertTrue(same(opt.state_dict(), other_opt.state_dict()))

    def test_state_of_another_element_type_than_its_parameter_is_not_rounded(self):
        weight = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
        opt = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
        opt.state[weight]["momentum_buffer"] = torch.tensor([0.1, 0.2, 0.3])
        self.save(opt=opt)
        weight2 = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
        opt2 = torch.optim.SGD([weight2], lr=0.1, momentum=0.9)
        self.restore(opt=opt2)
        self.assertTrue(torch.equal(opt2.state[weight2]["momentum_buffer"], torch.tensor([0.1, 0.2, 0.3])))

    def test_hyperparameters_of_every_group_come_back(self):
        model = network()
        groups = [{"params": model[0].parameters(), "lr": 0.3}, {"params": model[2].parameters(), "lr": 0.4, "weight_decay": 0.1}]
        opt = torch.optim.Adam(groups, betas=(0.8, 0.9))
        opt.param_groups[0]["lr"] = 0.123
        self.save(opt=opt)
        other = network(2)
        opt2 = torch.optim.Adam([{"params": other[0].parameters()}, {"params": other[2].parameters()}])
        self.restore(opt=opt2)
        self.assertEqual([(g["lr"], g["betas"], g["weight_decay"]) for g in opt2.param_groups],
                         [(0.123, (0.8, 0.9), 0), (0.4, (0.8, 0.9), 0.1)])

    def test_every_scheduler_goes_on_as_if_it_had_not_been_interrupted(self):
        for name, make in SCHEDULERS.items():
            with self.subTest(name):
                self.dir = "%s/%s" % (self.folder, name)
                model = network()
                opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
                sched = make(opt)
                train(model, opt, sched)
                self.save(model=model, opt=opt, sched=sched)
                train(model, opt, sched)
                other = network(9)
                opt2 = torch.optim.SGD(other.parameters(), lr=0.1, momentum=0.9)
                sched2 = make(opt2)
                self.restore(model=other, opt=opt2, sched=sched2)
                train(other, opt2, sched2)
                self.assertEqual(opt.param_groups[0]["lr"], opt2.param_groups[0]["lr"])
                self.assertTrue(same(sched.state_dict(), sched2.state_dict()))
                self.assertTrue(same(model.state_dict(), other.state_dict()))

    def test_the_wrappers_of_data_parallelism_do_not_show_in_a_checkpoint(self):
        model = network()
        self.save(model=nn.DataParallel(model))
        other = network(5)
        self.restore(model=other)
        self.assertTrue(same(model.state_dict(), other.state_dict()))

    def test_tensors_are_restored_in_place(self):
        model = network()
        self.save(model=model)
        other = network(3)
        places = [p.data_ptr() for p in other.parameters()]
        self.restore(model=other)
        self.assertEqual(places, [p.data_ptr() for p in other.parameters()])
        self.assertTrue(all(p.requires_grad for p in other.parameters()))

    def test_a_lazy_save_holds_the_state_of_its_call_and_the_optimizer_waits_for_it(self):
        model = network()
        opt = torch.optim.Adam(model.parameters(), lr=0.1)
        train(model, opt)
        kept = copy.deepcopy((model.state_dict(), opt.state_dict()))
        with dlckpt.attach(model=model, opt=opt, dir=self.dir, mode="lazy") as job:
            job.train_step = 3
            job.save(wait=False)
            train(model, opt)  # forward changes the running statistics, step() all else
            job.wait()
        other = network(4)
        opt2 = torch.optim.Adam(other.parameters())
        self.restore(model=other, opt=opt2)
        self.assertTrue(same(kept[0], other.state_dict()))
        self.assertTrue(same(kept[1]["state"], opt2.state_dict()["state"]))
        self.assertEqual(opt.step.__qualname__.count("wrapped"), 0)

    def test_a_tensor_that_another_has_replaced_is_not_overwritten_by_a_save(self):
        for mode in ("sync", "lazy"):
            first, second = torch.ones(4, dtype=torch.complex64), torch.full((4,), 2 + 3j, dtype=torch.complex64).conj()
            state = {"w": first}
            with dlckpt.attach(w=state, dir=self.dir + mode, mode=mode, final_save=False) as job:
                for state["w"] in (first, second, second + 1, second):  # that of conj() is saved by way of a copy
                    job.train_step += 1
                    job.save()
                    with dlckpt.open(self.dir + mode, step=job.train_step) as reader:
                        self.assertTrue(torch.equal(reader.load("w/w"), state["w"].resolve_conj()))
            self.assertTrue(torch.equal(first, torch.ones(4, dtype=torch.complex64)))

    def test_random_generators_go_on_where_they_were(self):
        mine, theirs, python = torch.Generator().manual_seed(4), np.random.default_rng(5), random.Random(6)

        def draw():
            return (torch.rand(2).tolist(), np.random.rand(2).tolist(), random.random(), torch.rand(2, generator=mine).tolist(),
                    theirs.random(2).tolist(), python.random(), np.random.randn())
        torch.manual_seed(1), np.random.seed(2), random.seed(3)
        draw()
        self.save(a=mine, b=theirs, c=python)
        expected = draw()
        torch.manual_seed(7), np.random.seed(7), random.seed(7)
        mine.manual_seed(7)
        self.restore(a=mine, b=theirs, c=python)
        self.assertEqual(draw(), expected)

    def test_with_rng_false_the_default_generators_are_left_alone(self):
        self.save(a=torch.zeros(1))
        with dlckpt.attach(a=torch.zeros(1), dir=self.dir, rng=False):
            torch.manual_seed(1)
            first = torch.rand(1)
        torch.manual_seed(1)
        self.assertEqual(torch.rand(1), first)

    def test_stateful_objects_per_rank_values_and_job_state_come_back(self):
        class Stateful:
            def __init__(self):
                self.inside = {"n": 0, "hist": [], "t": torch.zeros(2)}

            def state_dict(self):
                return self.inside

            def load_state_dict(self, state):
                self.inside = state
        one, mine = Stateful(), {"seen": [1, 2], "a": np.arange(3)}
        one.inside = {"n": 7, "hist": [(1, 0.5)], "t": torch.tensor([1.0, 2.0])}
        with dlckpt.attach(one=one, mine=dlckpt.PerRank(mine), dir=self.dir) as job:
            job.state.update(best=0.97, note="ü", ema=np.arange(4.0))
            job.train_step = 3
            job.save()
        two, yours = Stateful(), {}
        job = self.restore(one=two, mine=dlckpt.PerRank(yours))
        self.assertTrue(same(one.inside, two.inside))
        self.assertEqual((yours["seen"], yours["a"].tolist()), ([1, 2], [0, 1, 2]))
        self.assertEqual((job.state["best"], job.state["note"], job.state["ema"].tolist()), (0.97, "ü", [0, 1, 2, 3]))

    def test_a_default_device_of_the_program_is_not_that_of_what_is_restored(self):
        """Programs call torch.set_default_device("cuda"); here "meta" stands for it, where a value would be lost."""
        if not hasattr(torch, "set_default_device"):
            self.skipTest("this torch has no default device")
        def objects():
            model = network()
            return {"model": model, "opt": torch.optim.Adam(model.parameters(), lr=0.1), "odd": [torch.arange(3).to(torch.complex64).conj()]}
        first = objects()
        train(first["model"], first["opt"])
        second = objects()
        with torch.device("meta"):
            with dlckpt.attach(dir=self.dir, **first) as job:
                job.state["mean"] = first["model"][0].weight.detach().clone()
                job.save()
            with dlckpt.attach(dir=self.dir, **second) as job:
                self.assertTrue(torch.equal(job.state["mean"], first["model"][0].weight))
            with dlckpt.open(self.dir) as checkpoint:
                self.assertTrue(torch.equal(checkpoint["model/0.weight"], first["model"][0].weight))
        self.assertTrue(same(first["opt"].state_dict(), second["opt"].state_dict()))
        self.assertTrue(torch.equal(first["odd"][0], second["odd"][0]))

    def test_a_run_with_mixed_precision_goes_on_from_one_without(self):
        """A GradScaler that is disabled saves an empty state, and an enabled one refuses such a state."""
        if not hasattr(torch, "amp") or not hasattr(torch.amp, "GradScaler"):
            self.skipTest("this torch has no GradScaler for the CPU")

        def scaler(enabled):
            return torch.amp.GradScaler("cpu", init_scale=8.0, enabled=enabled)
        with dlckpt.attach(model=network(), scaler=scaler(False), dir=self.dir) as job:
            job.save()
        enabled = scaler(True)
        with dlckpt.attach(model=network(), scaler=enabled, dir=self.dir) as job:
            self.assertTrue(job.restored)
            self.assertEqual(enabled.get_scale(), 8.0)
            job.step_done()
            job.save()
        with dlckpt.attach(model=network(), scaler=scaler(False), dir=self.dir) as job:
            self.assertEqual(job.train_step, 1)

    def test_a_module_that_does_not_fit_is_refused_by_name_and_left_unchanged(self):
        self.save(model=network())
        wider = nn.Sequential(nn.Linear(4, 7), nn.BatchNorm1d(7), nn.Linear(7, 2), nn.Linear(2, 2))
        before = copy.deepcopy(wider.state_dict())
        with self.assertRaises(dlckpt.MismatchError) as caught:
            dlckpt.attach(model=wider, dir=self.dir)
        for part in ("train step 3", "the checkpoint lacks 3.weight", "0.weight (float32 [6, 4] in the checkpoint, float32 [7, 4]"):
            self.assertIn(part, str(caught.exception))
        self.assertTrue(same(before, wider.state_dict()))

    def test_another_optimizer_or_other_groups_are_refused(self):
        model = network()
        opt = torch.optim.Adam(model.parameters())
        train(model, opt)
        self.save(opt=opt)
        for other in (torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), torch.optim.Adam(model[0].parameters()),
                      torch.optim.Adam([{"params": model[0].parameters()}, {"params": model[2].parameters()}])):
            with self.assertRaises(dlckpt.MismatchError):
                dlckpt.attach(opt=other, dir=self.dir)

    def test_objects_that_are_missing_or_too_many_are_named_and_with_strict_false_passed_over(self):
        model, opt = network(), torch.optim.SGD(network().parameters(), lr=0.1)
        self.save(model=model)
        with self.assertRaises(dlckpt.MismatchError) as caught:
            dlckpt.attach(model=network(1), opt=opt, dir=self.dir)
        self.assertIn("opt", str(caught.exception))
        with self.assertRaises(dlckpt.MismatchError) as caught:
            dlckpt.attach(other=opt, dir=self.dir)
        self.assertIn("the state of model", str(caught.exception))
        other = network(1)
        with dlckpt.attach(model=other, opt=opt, dir=self.dir, strict=False):
            self.assertTrue(same(model.state_dict(), other.state_dict()))
        self.saying("opt")

    def test_a_tensor_of_a_class_that_wraps_others_is_refused_at_once(self):
        if not hasattr(torch, "masked"):
            self.skipTest("this torch has no such tensor")
        with self.assertRaisesRegex(dlckpt.StateError, "odd/a: a tensor of the class MaskedTensor has no memory of its own; give the plain"):
            dlckpt.attach(odd={"a": torch.masked.masked_tensor(torch.ones(2), torch.tensor([True, False]))}, dir=self.dir)

    def test_what_cannot_be_attached_or_stored_is_refused_at_once(self):
        class Pickled:
            def state_dict(self):
                return {"model": object()}

            def load_state_dict(self, state):
                pass
        for bad, word in ((5, "job.state['x']"), (Pickled(), "x/model"), (object(), "object"), ({"a": 1}, "dict"),
                          (torch.zeros(3).to_sparse(), "sparse")):
            with self.assertRaises(dlckpt.StateError) as caught:
                dlckpt.attach(x=bad, dir=self.dir)
            self.assertIn(word, str(caught.exception))

    def test_no_code_is_stored_or_run(self):
        """A checkpoint holds no pickle: JSON and numbers only."""
        import os
        model = network()
        opt = torch.optim.Adam(model.parameters())
        train(model, opt)
        self.save(model=model, opt=opt)
        for folder, _, files in os.walk(self.dir):
            for name in files:
                with open(os.path.join(folder, name), "rb") as f:
                    content = f.read()
                for sign in (b"\x80\x02c", b"\x80\x04\x95", b"ctorch", b"_rebuild_tensor", b"PK\x03\x04"):
                    self.assertNotIn(sign, content)

    def test_cuda_tensors_go_through_the_host(self):
        if not torch.cuda.is_available():
            self.skipTest("no CUDA device")
        model = network().cuda()
        opt = torch.optim.Adam(model.parameters())
        for _ in range(2):
            model(torch.ones(8, 4, device="cuda")).sum().backward()
            opt.step()
        torch.cuda.manual_seed(3)
        self.save(model=model, opt=opt)
        expected = torch.rand(2, device="cuda")
        other = network(4).cuda()
        opt2 = torch.optim.Adam(other.parameters())
        self.restore(model=other, opt=opt2)
        self.assertTrue(same(model.state_dict(), other.state_dict()))
        self.assertTrue(same(opt.state_dict(), opt2.state_dict()))
        self.assertTrue(all(p.is_cuda for p in other.parameters()))
        self.assertTrue(torch.equal(torch.rand(2, device="cuda"), expected))


if __name__ == "__main__":
    support.main(needs=("numpy", "torch"))
