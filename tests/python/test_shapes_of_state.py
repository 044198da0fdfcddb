# SPDX-License-Identifier: Apache-2.0
"""Trees of arrays, tied weights, odd names and types, and the names of the package as the man page writes them."""
import glob
import json
import os
import shutil
import struct
import subprocess
import sys

import support
import numpy as np
import torch
from torch import nn

import dlckpt

TOOL = os.path.join(support.BUILD, "checkpoint", "dlckpt")


class Tied(nn.Module):
    def __init__(self, tie=True, value=0.0):
        super().__init__()
        self.embed, self.head = nn.Embedding(300, 64), nn.Linear(64, 300, bias=False)
        if tie:
            self.head.weight = self.embed.weight
        for parameter in self.parameters():
            nn.init.constant_(parameter, value)


def manifest(dir):
    newest = sorted(glob.glob(os.path.join(dir, "step-*", "MANIFEST.json")))[-1]
    with open(newest) as file:
        return json.load(file)


def safetensors_names(path):
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        return sorted(set(json.loads(file.read(size))) - {"__metadata__"})


class Shapes(support.Case):
    def save(self, **objects):
        with dlckpt.attach(dir=self.dir, **objects) as job:
            job.state.update(objects.pop("state", {}))
            job.save()

    def test_tied_weights_are_stored_once_and_come_back_tied_or_not_as_the_program_has_them(self):
        self.save(model=Tied(value=3.0))
        paths = [tensor["path"] for tensor in manifest(self.dir)["tensors"]]
        self.assertEqual(paths, ["model/embed.weight"])
        for tie in (True, False):
            again = Tied(tie)
            with dlckpt.attach(model=again, dir=self.dir):
                self.assertEqual((again.head.weight.data_ptr() == again.embed.weight.data_ptr()), tie)
                for parameter in (again.embed.weight, again.head.weight):
                    self.assertTrue(torch.equal(parameter, torch.full((300, 64), 3.0)))

    def test_two_values_of_the_checkpoint_for_one_array_of_the_program_are_refused_unless_they_are_the_same(self):
        first, second = np.arange(6.0), np.arange(6.0)
        with dlckpt.attach(dir=self.dir, arrays={"a": first, "b": second}) as job:
            job.save()
            second[5] = 7
            job.train_step = 1
            job.save()
        tied = np.full(6, -1.0)
        with self.assertRaisesRegex(dlckpt.MismatchError, "arrays/a and arrays/b are one array .* and differ"):
            dlckpt.attach(dir=self.dir, arrays={"a": tied, "b": tied})
        self.assertEqual(tied.tolist(), [-1.0] * 6)
        for newer in glob.glob(os.path.join(self.dir, "step-000000000001.*")):
            shutil.rmtree(newer)
        dlckpt.attach(dir=self.dir, arrays={"a": tied, "b": tied}).close()
        self.assertEqual(tied.tolist(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0])

    def test_thousands_of_small_arrays_share_a_dataset_and_come_back(self):
        arrays = {"w%d" % i: np.full(i % 5, float(i)) for i in range(6500)}
        with dlckpt.attach(dir=self.dir, arrays=arrays) as job:
            job.save()
            self.assertLess(job.stats.written_bytes, 4 << 20)
        again = {name: np.zeros_like(value) for name, value in arrays.items()}
        dlckpt.attach(dir=self.dir, arrays=again).close()
        for name, value in arrays.items():
            self.assertEqual(again[name].tolist(), value.tolist(), name)
        with dlckpt.open(self.dir) as found:
            self.assertEqual(found["arrays/w6499"].tolist(), [6499.0] * 4)

    def test_weights_that_were_not_tied_are_not_taken_for_tied(self):
        apart = Tied(False)
        nn.init.constant_(apart.head.weight, 7.0)
        self.save(model=apart)
        again = Tied(False)
        with dlckpt.attach(model=again, dir=self.dir):
            self.assertEqual((again.embed.weight.sum().item(), again.head.weight.min().item()), (0.0, 7.0))

    def test_one_array_under_two_names_of_job_state_is_one_again(self):
        ema = np.arange(5.0)
        with dlckpt.attach(a=np.zeros(1), dir=self.dir) as job:
            job.state.update(one=ema, two={"same": ema}, part=ema[:3])
            job.save()
        with dlckpt.attach(a=np.zeros(1), dir=self.dir) as job:
            self.assertIs(job.state["one"], job.state["two"]["same"])
            self.assertEqual((job.state["one"].tolist(), job.state["part"].tolist()), ([0, 1, 2, 3, 4], [0, 1, 2]))

    def test_nested_dicts_and_lists_of_tensors_are_restored_in_place(self):
        def tree(value):
            return {"layers": [{"w": torch.full((2, 3), value), "b": np.full(3, value)} for _ in range(2)],
                    "pair": (torch.full((1,), value), torch.tensor(value)), "a/b": {"$": torch.full((2,), value)}}
        self.save(params=tree(4.0), several=[torch.ones(2), np.ones(3)])
        params, several = tree(0.0), [torch.zeros(2), np.zeros(3)]
        held = params["layers"][1]["b"]
        with dlckpt.attach(params=params, several=several, dir=self.dir):
            self.assertIs(params["layers"][1]["b"], held)
            self.assertEqual(held.tolist(), [4, 4, 4])
            self.assertEqual([params["layers"][0]["w"].sum().item(), params["pair"][1].item(), params["a/b"]["$"].tolist()],
                             [24.0, 4.0, [4.0, 4.0]])
            self.assertEqual([array.tolist() for array in several], [[1, 1], [1, 1, 1]])
        other = tree(0.0)
        other["layers"].append({"w": torch.zeros(1)})
        with self.assertRaises(dlckpt.MismatchError) as caught:
            dlckpt.attach(params=other, several=several, dir=self.dir)
        self.assertIn("layers/2/w", str(caught.exception))

    def test_sizes_of_torch_and_foreign_byte_order_come_back_as_they_were(self):
        class Stateful:
            inside = {"shape": torch.Size([2, 3]), "big": np.arange(3, dtype=">i4"), "scalar": np.array(7, dtype=">f8")}

            def state_dict(self):
                return self.inside

            def load_state_dict(self, state):
                self.inside = state
        with dlckpt.attach(one=Stateful(), mine=dlckpt.PerRank(Stateful()), dir=self.dir) as job:
            job.state["big"] = np.arange(4, dtype=">f4")
            job.save()
        two, three = Stateful(), Stateful()
        two.inside = three.inside = {"shape": None, "big": None}
        with dlckpt.attach(one=two, mine=dlckpt.PerRank(three), dir=self.dir) as job:
            for inside in (two.inside, three.inside):
                self.assertIs(type(inside["shape"]), torch.Size)
                self.assertEqual((inside["big"].dtype.str, inside["big"].tolist()), (">i4", [0, 1, 2]))
                self.assertEqual((inside["scalar"].dtype.str, inside["scalar"].item()), (">f8", 7.0))
            self.assertEqual((job.state["big"].dtype.str, job.state["big"].tolist()), (">f4", [0, 1, 2, 3]))

    def test_readers_and_partial_loads_keep_the_byte_order_of_the_program(self):
        with dlckpt.attach(net={"w": np.arange(6, dtype=">f8").reshape(2, 3)}, dir=self.dir) as job:
            job.save()
        with dlckpt.open(self.dir) as checkpoint:
            self.assertEqual(checkpoint.state("net")["w"].dtype.str, ">f8")
            self.assertEqual(checkpoint["net/w"].tolist(), [[0, 1, 2], [3, 4, 5]])
            target = {"w": np.zeros((2, 3), dtype=">f8")}
            checkpoint.load_into(target, name="net")
        self.assertEqual((target["w"].dtype.str, target["w"].tolist()), (">f8", [[0, 1, 2], [3, 4, 5]]))

    def test_a_lost_node_s_part_comes_back_from_its_partner(self):
        def run(steps):
            return [(code, out.split(), err) for code, out, err in
                    support.learners(2, "local_learner.py", self.dir, self.folder, str(steps))]
        for code, out, err in run(3):
            self.assertEqual((code, out), (0, ["from", "0", "0.0", "0.0"]), err)
        shared = glob.glob(os.path.join(self.dir, "step-*"))
        self.assertEqual(len(shared), 1)
        for lost in shared + [os.path.join(self.folder, "node1")]:  # the directory's copy, and a node with its disk
            shutil.rmtree(lost)
        for rank, (code, out, err) in enumerate(run(3)):
            value = str(3.0 * (rank + 1))
            self.assertEqual((code, out), (0, ["from", "3", value, value]), err)

    def test_the_adapters_are_there_after_a_plain_import(self):
        script = "import dlckpt; print(dlckpt.dcp.Writer.__name__)"
        env = dict(os.environ, PYTHONPATH=support.PACKAGE)
        ran = subprocess.run([sys.executable, "-c", script], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertTrue(ran.stdout == "Writer\n" or "LibraryError: dlckpt.dcp needs" in ran.stderr, ran.stderr)
        for name in ("huggingface", "lightning"):
            ran = subprocess.run([sys.executable, "-c", "import dlckpt; print(dlckpt.%s.DlckptCallback.__name__)" % name], env=env,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertTrue(ran.stdout == "DlckptCallback\n" or "No module named" in ran.stderr, ran.stderr)
        with self.assertRaises(AttributeError):
            dlckpt.no_such_thing

    def test_names_are_exported_as_the_program_wrote_them(self):
        if not os.path.exists(TOOL):
            self.skipTest("the tool is not built")
        self.save(model={"a/b": torch.ones(2), "100%": torch.ones(3), "x": {".": torch.ones(4)}})
        out = os.path.join(self.folder, "out.safetensors")
        subprocess.run([TOOL, "export", "--strip", "model/", "--safetensors", out, self.dir], check=True, stdout=subprocess.DEVNULL)
        self.assertEqual(safetensors_names(out), ["100%", "a/b", "x/%2E"])  # a name that no file could hold stays
        with dlckpt.Context(os.path.join(self.folder, "c"), rank=0, world_size=1) as context:
            own = np.ones(2)
            context.tensor("a%2Fb", "float64", (2,), own.ctypes.data, flags=1)
            context.save(1)
            context.wait()
        subprocess.run([TOOL, "export", "--force", "--safetensors", out, os.path.join(self.folder, "c")], check=True,
                       stdout=subprocess.DEVNULL)
        self.assertEqual(safetensors_names(out), ["a%2Fb"])

    def test_a_fork_goes_on_by_itself_and_its_source_too(self):
        if not os.path.exists(TOOL):
            self.skipTest("the tool is not built")
        values, fixed = np.arange(100000.0), np.arange(50000.0)

        def run(dir, start, stop, add):
            a, f = np.zeros_like(values), fixed * 0
            with dlckpt.attach(arrays={"a": a, "f": f}, dir=dir, every="1step", keep=2, rng=False) as job:
                f[:] = fixed
                self.assertEqual((job.train_step, a[0] if start else 0.0), (start, a[-1] if start else 0.0))
                for step in job.steps(stop):
                    a += add
                    job.wait()
            return a[0]
        run(self.dir, 0, 3, 1.0)
        fork = os.path.join(self.folder, "fork")
        subprocess.run([TOOL, "fork", self.dir, fork], check=True, stdout=subprocess.DEVNULL)
        self.assertEqual(run(self.dir, 3, 9, 1.0), 9.0)  # the source retires what was forked, and writes its files again
        subprocess.run([TOOL, "verify", "--deep", fork], check=True, stdout=subprocess.DEVNULL)
        self.assertEqual(run(fork, 3, 9, 10.0), 63.0)
        for dir in (self.dir, fork):
            subprocess.run([TOOL, "verify", "--deep", dir], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    support.main(needs=("numpy", "torch"))
