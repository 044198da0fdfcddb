# SPDX-License-Identifier: Apache-2.0
"""Training that goes on from tensors that another program wrote: dlckpt import, then dlckpt.attach()."""
import json
import os
import struct
import subprocess
import sys

import support
import torch
from torch import nn

import dlckpt

TOOL = os.path.join(support.BUILD, "checkpoint", "dlckpt")


class Tied(nn.Module):
    """A module with tied weights, a scalar buffer, and a name with a slash in it nowhere."""

    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Embedding(6, 4)
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 6, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, batch):
        return self.head(self.norm(self.embed(batch)))


def train(model, optimizer):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(torch.arange(6)), torch.arange(6)).backward()
    optimizer.step()


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.detach().contiguous().numpy().tobytes()
        dtype = {torch.float32: "F32", torch.int64: "I64"}[tensor.dtype]
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


class Foreign(support.Case):
    def run_tool(self, *args):
        done = subprocess.run([TOOL, "import"] + list(args) + ["--step", "7", self.dir], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def assert_trains_on(self, source):
        """From the imported weights, with a fresh optimizer; and a second start goes on from what that saved."""
        model = Tied(1)
        optimizer = torch.optim.Adam(model.parameters())
        job = dlckpt.attach(model=model, opt=optimizer, dir=self.dir)
        self.assertEqual((job.train_step, job.restored), (7, True))
        for name, value in source.state_dict().items():
            self.assertTrue(torch.equal(model.state_dict()[name], value), name)
        self.assertIs(model.head.weight, model.embed.weight)
        self.assertEqual(optimizer.state_dict()["state"], {})
        self.saying("was not written by attach(): taken: model (")
        self.saying("as the program made it: opt")
        for _ in job.steps(9):
            train(model, optimizer)
        again = Tied(2)
        resumed = dlckpt.attach(model=again, opt=torch.optim.Adam(again.parameters()), dir=self.dir)
        self.assertEqual(resumed.train_step, 9)
        self.assertTrue(torch.equal(again.embed.weight, model.embed.weight))
        resumed.close()

    def test_safetensors_that_lack_the_tied_copy(self):
        source, path = Tied(0), os.path.join(self.folder, "in.safetensors")
        train(source, torch.optim.SGD(source.parameters(), lr=0.1))
        write_safetensors(path, {name: value for name, value in source.state_dict().items() if name != "head.weight"})
        self.run_tool("--safetensors", path)
        self.assert_trains_on(source)

    def test_a_file_of_torch_save_under_the_name_in_attach_and_what_is_not_used_is_told(self):
        source, path = Tied(0), os.path.join(self.folder, "in.pt")
        optimizer = torch.optim.Adam(source.parameters())
        train(source, optimizer)
        torch.save({"model": source.state_dict(), "adam": {"state": optimizer.state_dict()["state"]}, "epoch": 3}, path)
        self.assertIn("left out: 1 value that is not a tensor\n", self.run_tool("--torch", path, "--python", sys.executable))
        self.assert_trains_on(source)
        self.saying("not used: adam/state/0/exp_avg")

    def test_what_attach_saved_goes_through_each_format_and_is_trained_on_with_its_scalars(self):
        source = Tied(0)
        optimizer = torch.optim.Adam(source.parameters())
        with dlckpt.attach(model=source, opt=optimizer, dir=self.dir) as job:
            for _ in job.steps(3):
                train(source, optimizer)
        first, wanted = self.dir, source.state_dict()
        self.assertEqual((wanted["norm.num_batches_tracked"].shape, int(wanted["norm.num_batches_tracked"])), ((), 3))
        steps = {"opt/state/%d/step" % index for index in range(3)}
        for option, back in (("--safetensors", "--safetensors"), ("--torch", "--torch"), ("--h5", "--hdf5"), ("--expand", "--hdf5")):
            path, self.dir = os.path.join(self.folder, "out" + option), os.path.join(self.folder, "back" + option)
            with_python = ["--python", sys.executable]
            done = subprocess.run([TOOL, "export", first, option, path] + with_python, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.run_tool(back, path, *with_python)
            with dlckpt.open(self.dir) as opened:
                self.assertEqual(opened.info("model/norm.num_batches_tracked")[1:3], ("int64", ()))
                self.assertLessEqual(steps, set(opened))
            model = Tied(1)
            with dlckpt.attach(model=model, dir=self.dir) as job:
                self.assertEqual(job.train_step, 7)
            for name, value in wanted.items():
                self.assertTrue(torch.equal(model.state_dict()[name], value), option + name)

    def test_plain_hdf5_and_arrays_alone(self):
        import h5py
        import numpy as np
        path = os.path.join(self.folder, "in.h5")
        with h5py.File(path, "w") as file:
            file.create_dataset("net/w", data=np.arange(24.0).reshape(4, 6), chunks=(2, 3), compression="gzip")
            file["net/b"] = np.arange(3, dtype=">i4")
            file["net/t"] = np.float32(2.5)
            file["net/words"] = "no numbers"
        said = self.run_tool("--hdf5", path, "--python", sys.executable)
        self.assertIn("left out: 1 dataset that holds no numbers", said)
        net = {"w": np.zeros((4, 6)), "b": np.zeros(3, np.int32), "t": np.zeros((), np.float32)}
        with dlckpt.attach(net=net, dir=self.dir) as job:
            self.assertEqual(job.train_step, 7)
        self.assertEqual((net["w"].tolist(), net["b"].tolist(), float(net["t"])),
                         (np.arange(24.0).reshape(4, 6).tolist(), [0, 1, 2], 2.5))

    def test_zeros_that_hdf5_makes_of_what_is_missing_are_not_imported(self):
        import h5py
        import numpy as np
        path, source, raw = (os.path.join(self.folder, name) for name in ("in.h5", "source.h5", "raw"))
        with h5py.File(source, "w") as file:
            file["x"] = np.arange(10.0)
        with h5py.File(path, "w", libver="latest") as file:
            layout = h5py.VirtualLayout((15,), "f8")
            layout[:10] = h5py.VirtualSource("source.h5", "x", (10,))
            file["own"] = np.ones(7)
            layout[10:] = h5py.VirtualSource(file["own"])[2:]
            file.create_virtual_dataset("net/x", layout)
            file.create_dataset("net/y", (4,), "f8", external=[(raw, 0, 32)])[:] = np.arange(4.0)
            file["link"] = h5py.SoftLink("/net/x")
        said = self.run_tool("--hdf5", path, "--python", sys.executable)
        self.assertIn("left out: 1 soft or external link", said)
        with dlckpt.open(self.dir) as found:
            self.assertEqual(found["net/x"].tolist(), [float(n) for n in range(10)] + [1.0] * 5)
            self.assertEqual(found["net/y"].tolist(), [0.0, 1.0, 2.0, 3.0])

        def refused():
            done = subprocess.run([TOOL, "import", "--hdf5", path, "--python", sys.executable, "--step", "8", self.dir],
                                  capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0, done.stdout)
            return done.stderr

        os.truncate(raw, 24)
        self.assertIn("raw, which lacks some of them", refused())
        os.truncate(raw, 32)
        with h5py.File(source, "a") as file:
            del file["x"]
            file["x"] = np.arange(9.0)
        self.assertIn("has another shape than when it was made part of it", refused())
        os.remove(source)
        self.assertIn("has a source that cannot be read", refused())

    def test_what_does_not_fit_is_refused_before_anything_is_changed(self):
        path = os.path.join(self.folder, "in.safetensors")
        tensors = {name: value for name, value in Tied(0).state_dict().items()}
        write_safetensors(path, {**tensors, "norm.weight": torch.zeros(5)})
        self.run_tool("--safetensors", path)
        model = Tied(1)
        before = {name: value.clone() for name, value in model.state_dict().items()}
        with self.assertRaisesRegex(dlckpt.MismatchError, "another dtype or shape of norm.weight"):
            dlckpt.attach(model=model, dir=self.dir)
        with self.assertRaisesRegex(dlckpt.MismatchError, "lacks more.*load_into"):
            dlckpt.attach(model={**before, "more": torch.zeros(2)}, dir=self.dir)
        with self.assertRaisesRegex(dlckpt.MismatchError, "nothing for model.*it holds embed.weight, "):
            dlckpt.attach(model={"other": torch.zeros(2)}, dir=self.dir)
        for name, value in model.state_dict().items():
            self.assertTrue(torch.equal(value, before[name]), name)

    def test_a_gibibyte_is_imported_in_little_memory(self):
        path = os.path.join(self.folder, "in.safetensors")
        size = 512 << 20
        header = json.dumps({"t%d" % i: {"dtype": "U8", "shape": [size], "data_offsets": [i * size, (i + 1) * size]}
                             for i in range(2)}).encode()
        with open(path, "wb") as file:  # a hole is read as zeros
            file.write(struct.pack("<Q", len(header)) + header)
            file.truncate(8 + len(header) + 2 * size)
        code = ("import resource, subprocess, sys; done = subprocess.run(sys.argv[1:]); "
                "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(done.returncode)")
        done = subprocess.run([sys.executable, "-c", code, TOOL, "import", "--json", "--safetensors", path, "--step", "1", self.dir],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        kibibytes = int(done.stdout.splitlines()[-1])
        self.assertLess(kibibytes, 256 << 10)


if __name__ == "__main__":
    support.main(needs=("torch", "h5py"))
