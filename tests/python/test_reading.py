# SPDX-License-Identifier: Apache-2.0
"""dlckpt.open(): reading a checkpoint without owning its directory, and loading parts of it into programs of another shape."""
import os
import shutil
import subprocess
import sys

import support
import numpy as np
import torch
from torch import nn

import dlckpt


def net(width=4, classes=3):
    torch.manual_seed(width + classes)
    return nn.ModuleDict({"body": nn.Linear(5, width), "head": nn.Linear(width, classes)})


def values(module):
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def tree_of(folder):
    """Every file below with its content and time: what a reader must not change."""
    found = {}
    for where, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(where, name)
            with open(path, "rb") as file:
                found[path] = (file.read(), os.stat(path).st_mtime_ns)
    return found


class Reading(support.Case):
    def saved(self, model=None, steps=(3,), keep=9, still_training=False, **objects):
        """A checkpoint directory with those train steps, in which job.state["at"] is the step; and the job, at its end or still open."""
        model = model or net()
        job = dlckpt.attach(model=model, dir=self.dir, keep=keep, final_save=False, **objects)
        for step in job.steps(max(steps) + 1):
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter += 1
            job.state["at"] = step
            if step in steps:
                job.save()
            if step == max(steps) and still_training:
                break
        return job, model

    def test_while_the_job_trains_another_process_looks_and_loads_without_writing_anything(self):
        job, model = self.saved(steps=(1, 3), still_training=True)
        before = tree_of(self.dir)
        with dlckpt.open(self.dir) as checkpoint:
            self.assertEqual(checkpoint.steps()[0], checkpoint.step)
            self.assertEqual(sorted(checkpoint), sorted("model/" + name for name in model.state_dict()))
            self.assertEqual(checkpoint.info("model/body.weight")[1:], ("float32", (4, 5), 80))
            self.assertEqual(checkpoint["model/body.weight"].dtype, torch.float32)
            self.assertIsInstance(checkpoint.load("model/body.weight", kind="numpy"), np.ndarray)
            self.assertEqual(len(checkpoint), 4)
            self.assertNotIn("model/none", checkpoint)
            with self.assertRaises(KeyError):
                checkpoint["model/none"]
        self.assertEqual(tree_of(self.dir), before)
        job.step_done()
        job.save()  # it still holds its lease
        job.close()
        self.assertEqual(dlckpt.open(self.dir).step, 4)

    def test_the_state_of_an_object_comes_back_as_it_was_given(self):
        model = net()
        opt = torch.optim.Adam(model.parameters())
        sum(p.sum() for p in model.parameters()).backward()
        opt.step()
        job, _ = self.saved(model, opt=opt)
        want = values(model)
        job.close()
        checkpoint = dlckpt.open(self.dir)
        self.assertEqual(checkpoint.objects(), ["model", "opt"])
        other = net(4, 3)
        other.load_state_dict(checkpoint.state("model"))
        for name, tensor in want.items():
            self.assertTrue(torch.equal(other.state_dict()[name], tensor), name)
        again = torch.optim.Adam(other.parameters())
        again.load_state_dict(checkpoint.state("opt"))
        self.assertTrue(torch.equal(again.state_dict()["state"][0]["exp_avg"], opt.state_dict()["state"][0]["exp_avg"]))
        with self.assertRaisesRegex(dlckpt.NotFoundError, "no state of 'ema'; there are: model, opt"):
            checkpoint.state("ema")

    def test_a_part_of_a_tensor(self):
        job, model = self.saved()
        job.close()
        checkpoint = dlckpt.open(self.dir)
        part = checkpoint.load("model/body.weight", (1, 2), (2, 3))
        self.assertTrue(torch.equal(part, model["body"].weight[1:3, 2:5]))
        with self.assertRaisesRegex(dlckpt.InvalidError, r"has the shape \[4, 5\]; \[1:5, 0:5\] does not lie in it"):
            checkpoint.load("model/body.weight", (1, 0), (4, 5))
        for box in (((1,), (2,)), ((1, 2, 0), (2, 3, 1)), ((1, 2), (2,))):
            with self.assertRaisesRegex(dlckpt.InvalidError, r"has . numbers; allowed: one for each dimension of model/body.weight"):
                checkpoint.load("model/body.weight", *box)
        with self.assertRaisesRegex(dlckpt.InvalidError, "kind='jax'; allowed: 'numpy', 'torch', or None"):
            checkpoint.load("model/body.weight", kind="jax")
        with self.assertRaisesRegex(dlckpt.NotFoundError, "holds no tensor model/x"):
            checkpoint.load("model/x")

    def test_a_train_step_of_ones_choice_and_the_next_older_one(self):
        job, _ = self.saved(steps=(1, 2, 5))
        job.close()
        there = dlckpt.open(self.dir).steps()
        self.assertEqual(there, sorted(there, reverse=True))
        checkpoint = dlckpt.open(self.dir, step=there[1])
        self.assertEqual(checkpoint.step, there[1])
        newer = checkpoint["model/head.bias"]
        self.assertEqual(checkpoint.older().step, there[2])
        self.assertFalse(torch.equal(checkpoint["model/head.bias"], newer))
        while checkpoint.step != there[-1]:
            checkpoint.older()
        with self.assertRaisesRegex(dlckpt.NotFoundError, "is older than that of train step %d" % there[-1]):
            checkpoint.older()
        self.assertEqual(checkpoint.step, there[-1])
        self.assertEqual(checkpoint["model/head.bias"].shape, (3,))
        with self.assertRaisesRegex(dlckpt.NotFoundError, "no checkpoint of train step 77 in .*; there are %d, " % there[0]):
            dlckpt.open(self.dir, step=77)
        with self.assertRaisesRegex(dlckpt.InvalidError, "step=-5; allowed: None, or a train step from 0"):
            dlckpt.open(self.dir, step=-5)

    def test_what_is_not_there_or_not_whole(self):
        with self.assertRaisesRegex(dlckpt.NotFoundError, self.folder):
            dlckpt.open(self.folder + "/nowhere")
        with self.assertRaisesRegex(dlckpt.NotFoundError, "no checkpoint in"):
            dlckpt.open(self.folder)
        job, _ = self.saved(steps=(1, 3))
        job.close()
        newest = sorted(name for name in os.listdir(self.dir) if name.startswith("step-"))[-1]
        os.truncate(os.path.join(self.dir, newest, "r00000.h5"), 100)
        checkpoint = dlckpt.open(self.dir)
        self.assertLess(checkpoint.step, int(newest[5:17]))
        self.assertIn(newest, checkpoint.note)
        with self.assertRaises(dlckpt.CorruptError):
            dlckpt.open(self.dir, step=int(newest[5:17]))

    def test_damage_is_named_and_nothing_wrong_is_handed_out(self):
        job, _ = self.saved()
        job.close()
        newest = os.path.join(self.dir, sorted(name for name in os.listdir(self.dir) if name.startswith("step-"))[-1])
        checkpoint = dlckpt.open(self.dir)
        with open(os.path.join(newest, "r00000.h5"), "r+b") as file:
            data = bytearray(file.read())
            at = data.find(checkpoint.load("model/body.weight", kind="numpy").tobytes())
            file.seek(at)
            file.write(b"\xff\xff")
        with self.assertRaisesRegex(dlckpt.CorruptError, r"r00000\.h5"):
            dlckpt.open(self.dir)["model/body.weight"]
        with self.assertRaisesRegex(dlckpt.CorruptError, "has been changed in part"):
            dlckpt.open(self.dir).load_into(net())

    def test_a_checkpoint_that_its_job_removes_meanwhile(self):
        job, _ = self.saved(steps=(1,), keep=1, still_training=True)
        checkpoint = dlckpt.open(self.dir)
        job.step_done(), job.save(), job.close()
        self.assertEqual(dlckpt.open(self.dir).steps(), [2])
        with self.assertRaisesRegex(dlckpt.NotFoundError, "was removed by its job meanwhile; the newest is that of train step 2 .dlckpt pin"):
            checkpoint["model/body.weight"]

    def test_another_user_on_a_read_only_file_system(self):
        if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("setpriv") is None:
            self.skipTest("needs root, unshare and setpriv")
        job, model = self.saved()
        job.close()
        os.chmod(self.folder, 0o755)
        program = ("import sys; sys.path.insert(0, %r); import dlckpt\n"
                   "print(float(dlckpt.open(%r).load('model/head.bias', kind='numpy').sum()))\n"
                   "try: dlckpt.attach(x={}, dir=%r)\n"
                   "except dlckpt.Error as error: print('refused')" % (support.PACKAGE, self.dir, self.dir))
        script = os.path.join(self.folder, "read.py")
        with open(script, "w") as file:
            file.write(program)
        done = subprocess.run(["unshare", "--mount", "sh", "-c", 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && '
                               'exec setpriv --reuid=65534 --clear-groups "$@"', self.folder, "/usr/bin/python3", script],
                              capture_output=True, text=True)
        if "mount:" in done.stderr:
            self.skipTest("cannot mount: " + done.stderr.strip())
        if "Permission denied" in done.stderr or "ModuleNotFoundError" in done.stderr:
            self.skipTest("another user cannot read the sources here")
        self.assertEqual(done.returncode, 0, done.stderr)
        total, refused = done.stdout.split()
        self.assertAlmostEqual(float(total), float(model["head"].bias.sum()), places=4)
        self.assertEqual(refused, "refused")


class Partial(support.Case):
    saved = Reading.saved

    def setUp(self):
        super().setUp()
        self.job, self.model = self.saved()
        self.job.close()
        self.checkpoint = dlckpt.open(self.dir)

    def test_all_of_it_in_place(self):
        other = net()
        where = other["body"].weight.data_ptr()
        report = self.checkpoint.load_into(other)
        self.assertEqual(sorted(report.loaded), sorted(other.state_dict()))
        self.assertEqual((report.sliced, report.kept, report.unused), ([], {}, []))
        self.assertTrue(torch.equal(other["body"].weight, self.model["body"].weight))
        self.assertEqual(other["body"].weight.data_ptr(), where)

    def test_fine_tuning_with_another_head(self):
        other = net(classes=7)
        before = values(other)
        with self.assertRaisesRegex(dlckpt.MismatchError, r"nothing of it was loaded: head.weight: shape \[3, 4\] in the checkpoint, "
                                    r"\[7, 4\] in the program; head.bias: "):
            self.checkpoint.load_into(other)
        for name, tensor in values(other).items():
            self.assertTrue(torch.equal(tensor, before[name]), name)
        report = self.checkpoint.load_into(other, optional=["head.*"])
        self.assertEqual(report.loaded, ["body.weight", "body.bias"])
        self.assertEqual(sorted(report.kept), ["head.bias", "head.weight"])
        self.assertEqual(report.unused, ["head.bias", "head.weight"])
        self.assertTrue(torch.equal(other["head"].weight, before["head.weight"]))
        report = self.checkpoint.load_into(other, slices=["head.*"])
        self.assertEqual(report.sliced, ["head.weight", "head.bias"])
        self.assertTrue(torch.equal(other["head"].weight[:3], self.model["head"].weight))
        self.assertTrue(torch.equal(other["head"].weight[3:], before["head.weight"][3:]))

    def test_other_names(self):
        other = nn.ModuleDict({"encoder": nn.Linear(5, 4), "mine": nn.Linear(2, 2)})
        before = values(other)
        report = self.checkpoint.load_into(other, rename={"mine.*": None, "encoder.*": "body.*"})
        self.assertEqual(report.loaded, ["encoder.weight", "encoder.bias"])
        self.assertEqual(set(report.kept.values()), {"left alone"})
        self.assertTrue(torch.equal(other["encoder"].weight, self.model["body"].weight))
        self.assertTrue(torch.equal(other["mine"].weight, before["mine.weight"]))
        with self.assertRaisesRegex(dlckpt.InvalidError, "has more"):
            self.checkpoint.load_into(other, rename={"mine.*": "*.*"})
        with self.assertRaisesRegex(dlckpt.InvalidError, "a list of patterns"):
            self.checkpoint.load_into(other, optional="mine.*")

    def test_scalars_that_are_no_parameters_are_there_like_other_tensors(self):
        """Counters of batch normalisation and of averages are in the record of a checkpoint, not among its tensors."""
        def averaged():
            return torch.optim.swa_utils.AveragedModel(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))
        model = averaged()
        model(torch.ones(4, 2))
        model.n_averaged += 5
        with dlckpt.attach(ema=model, dir=self.dir + "2") as job:
            job.state["scalar"] = np.array(2.5)
            job.save()
        with dlckpt.open(self.dir + "2") as checkpoint:
            counter = "ema/module.1.num_batches_tracked"
            self.assertEqual(len(checkpoint), len(model.state_dict()) + 1)
            self.assertEqual(len(list(checkpoint)), len(checkpoint))
            self.assertIn(counter, checkpoint)
            self.assertEqual(checkpoint.info(counter)[1:], ("int64", (), 8))
            self.assertTrue(torch.equal(checkpoint[counter], torch.tensor(1)))
            self.assertEqual(checkpoint.load(counter, kind="numpy").tolist(), 1)
            self.assertEqual(checkpoint["state/scalar"], 2.5)
            with self.assertRaisesRegex(dlckpt.InvalidError, r"offset=\(0,\) has 1 numbers; allowed: .* whose shape is \[\]"):
                checkpoint.load(counter, (0,), (1,))
            other = averaged()
            report = checkpoint.load_into(other, "ema")
            self.assertEqual((report.kept, report.unused), ({}, []))
            self.assertEqual((int(other.n_averaged), int(other.module[1].num_batches_tracked)), (5, 1))
            target = {"n_averaged": np.zeros((), np.float32)}
            checkpoint.load_into(target, "ema", cast=True)
            self.assertEqual(target["n_averaged"], 5)

    def test_a_compiled_or_wrapped_module_is_loaded_under_the_names_of_the_inner_one(self):
        wrapped = [torch.nn.DataParallel(net())]
        if hasattr(torch, "compile"):  # from 2.0 on
            wrapped.append(torch.compile(net(), backend="eager"))
        for other in wrapped:
            report = self.checkpoint.load_into(other)
            self.assertEqual(sorted(report.loaded), sorted(self.model.state_dict()))
            self.assertTrue(torch.equal(list(other.parameters())[0], list(self.model.parameters())[0]))

    def test_under_a_name_that_attach_was_not_given_the_names_are_told(self):
        with self.assertRaisesRegex(dlckpt.MismatchError, r"holds nothing named 'net'; load_into\(..., name=...\) takes one of: model$"):
            self.checkpoint.load_into(net(), "net")
        with self.assertRaisesRegex(dlckpt.MismatchError, "x: the checkpoint has no model/x"):
            self.checkpoint.load_into({"x": torch.zeros(1)})

    def test_other_element_types_of_numpy(self):
        saved = {"real": np.array([1.5, -2.5]), "complex": np.array([1 + 1j]), "negative": np.array([-1], np.int64)}
        with dlckpt.attach(arrays=saved, dir=self.dir + "2") as job:
            job.save()
        with dlckpt.open(self.dir + "2") as checkpoint:
            for kind in (np.zeros, torch.zeros):
                target = {"real": kind(2), "complex": kind(1)}
                with self.assertRaisesRegex(dlckpt.MismatchError, "complex: complex128 in the checkpoint, .* has no imaginary part"):
                    checkpoint.load_into(target, "arrays", cast=True)
                self.assertEqual(target["real"].tolist(), [0, 0])
            target = {"real": np.zeros(2, np.int32), "complex": np.zeros(1, np.complex64), "negative": np.zeros(1, np.uint64)}
            checkpoint.load_into(target, "arrays", cast=True)
            self.assertEqual(target["real"].tolist(), [1, -2])
            self.assertEqual(target["complex"].tolist(), [1 + 1j])

    def test_what_numpy_needs_for_bfloat16_is_told(self):
        with dlckpt.attach(arrays={"a": torch.ones(3, dtype=torch.bfloat16)}, dir=self.dir + "2") as job:
            job.save()
        before = sys.modules.get("ml_dtypes")
        sys.modules["ml_dtypes"] = None  # as if it were not installed
        try:
            with self.assertRaisesRegex(dlckpt.InvalidError, "no bfloat16 of its own; install the package ml_dtypes, or .*kind='torch'"):
                dlckpt.open(self.dir + "2").load("arrays/a", kind="numpy")
        finally:
            del sys.modules["ml_dtypes"]
            if before is not None:
                sys.modules["ml_dtypes"] = before

    def test_other_element_types(self):
        other = net().to(torch.float64)
        with self.assertRaisesRegex(dlckpt.MismatchError, "float32 in the checkpoint, float64 in the program"):
            self.checkpoint.load_into(other)
        self.checkpoint.load_into(other, cast=True)
        self.assertTrue(torch.equal(other["body"].weight, self.model["body"].weight.double()))

    def test_arrays_of_a_dict_with_gaps_and_parts(self):
        whole = np.zeros((4, 10), np.float32)
        target = {"weight": whole[:, ::2], "bias": torch.zeros(4)}
        self.checkpoint.load_into(target, rename={"*": "body.*"})
        self.assertTrue(np.array_equal(whole[:, ::2], self.model["body"].weight.detach().numpy()))
        self.assertEqual(float(abs(whole[:, 1::2]).sum()), 0)
        part = dlckpt.Shard(np.zeros((2, 5), np.float32), (4, 5), (2, 0))
        self.checkpoint.load_into({"body.weight": part})
        self.assertTrue(np.array_equal(part.array, self.model["body"].weight.detach().numpy()[2:]))
        with self.assertRaisesRegex(dlckpt.InvalidError, "load_into.. was given a .*; allowed: an object with state_dict"):
            self.checkpoint.load_into([1])
        with self.assertRaisesRegex(dlckpt.MismatchError, "read-only"):
            frozen = np.zeros((4, 5), np.float32)
            frozen.flags.writeable = False
            self.checkpoint.load_into({"body.weight": frozen})


class Large(support.Case):
    def test_a_tensor_that_several_threads_read(self):
        large = np.arange(40 << 20, dtype=np.float32).reshape(1, 40, 1 << 20)
        job = dlckpt.attach(large={"w": large}, dir=self.dir, final_save=False)
        job.save()
        job.close()
        checkpoint = dlckpt.open(self.dir)
        self.assertTrue(np.array_equal(checkpoint["large/w"], large))
        part = checkpoint.load("large/w", (0, 3, 5), (1, 30, (1 << 20) - 9))
        self.assertTrue(np.array_equal(part, large[:, 3:33, 5:-4]))


if __name__ == "__main__":
    support.main(needs=("numpy", "torch"))
