# SPDX-License-Identifier: Apache-2.0
"""Between torch.distributed.checkpoint and dlckpt.attach(), both ways, with FSDP2 and at other numbers of learners."""
import os
import pickle
import subprocess
import sys

import support

support.use_frameworks()
support.preload(support.TORCH, "dcp_attach_learner.py")

TOOL = os.path.join(support.BUILD, "checkpoint", "dlckpt")


class DcpAndAttach(support.Case):
    def run_learners(self, count, mode):
        results = support.learners(count, "dcp_attach_learner.py", mode, self.dir)
        for code, _, err in results:
            self.assertEqual(code, 0, err)
        lines = {line for _, out, _ in results for line in out.splitlines() if line.startswith("fingerprint")}
        self.assertEqual(len(lines), 1, lines)
        return lines.pop(), "".join(err for _, _, err in results)

    def test_what_attach_saved_at_two_learners_is_read_by_dcp_at_three_and_one(self):
        saved, _ = self.run_learners(2, "attach")
        self.assertEqual(self.run_learners(3, "read")[0], saved)
        self.assertEqual(self.run_learners(1, "read")[0], saved)

    def test_what_dcp_wrote_at_two_learners_is_attached_at_three_and_one(self):
        saved, _ = self.run_learners(2, "write")
        attached, said = self.run_learners(3, "attach-dcp")
        self.assertEqual(attached, saved)
        self.assertIn("taken: model (9 tensors); as the program made it: opt", said)

    def test_names_of_what_dcp_wrote_are_exported_as_the_program_wrote_them(self):
        import torch
        from safetensors import safe_open
        from torch.distributed import checkpoint as dcp
        import dlckpt
        dcp.save({"model": {"a/b": torch.ones(2), "100%": torch.ones(3), "x.y": torch.ones(1)}},
                 storage_writer=dlckpt.dcp.Writer(self.dir, step=1))
        out = os.path.join(self.folder, "out.safetensors")
        subprocess.run([TOOL, "export", "--strip", "model/", "--safetensors", out, self.dir], check=True, stdout=subprocess.DEVNULL)
        with safe_open(out, "pt") as file:
            self.assertEqual(sorted(file.keys()), ["100%", "a/b", "x.y"])

    def test_what_is_stored_with_wider_elements_is_read_into_narrower_ones_and_the_reverse(self):
        import torch
        from torch.distributed import checkpoint as dcp
        import dlckpt
        values = torch.arange(4096.0) / 64
        dcp.save({"wide": values, "narrow": values.bfloat16()}, storage_writer=dlckpt.dcp.Writer(self.dir, step=1))
        # What lies behind a part of a tensor shows whether more was read than its memory holds.
        around = torch.full((2, 4096), -1.0, dtype=torch.bfloat16)
        state = {"wide": around[0], "narrow": torch.zeros(4096, dtype=torch.float64)}
        dcp.load(state, storage_reader=dlckpt.dcp.Reader(self.dir))
        self.assertTrue(torch.equal(around[0], values.bfloat16()))
        self.assertTrue(torch.equal(around[1], torch.full((4096,), -1.0, dtype=torch.bfloat16)))
        self.assertTrue(torch.equal(state["narrow"], values.bfloat16().double()))

    def test_tied_weights_that_are_stored_once_fill_each_tensor_of_a_program_that_does_not_tie_them(self):
        import torch
        from torch import nn
        from torch.distributed import checkpoint as dcp
        import dlckpt
        model = nn.ModuleDict({"in": nn.Linear(3, 3, bias=False), "out": nn.Linear(3, 3, bias=False)})
        model["out"].weight = model["in"].weight
        job = dlckpt.attach(model=model, dir=self.dir)
        for _ in job.steps(1):
            pass
        job.close()
        state = {"model": {name: torch.zeros(3, 3) for name in ("in.weight", "out.weight")}}
        dcp.load(state, storage_reader=dlckpt.dcp.Reader(self.dir))
        for name in ("in.weight", "out.weight"):
            self.assertTrue(torch.equal(state["model"][name], model["in"].weight), name)

    def test_a_directory_of_dcp_itself_is_imported_and_attached(self):
        import torch
        from torch.distributed import checkpoint as dcp
        import dlckpt
        source = {"w": torch.arange(12.0).reshape(3, 4), "half": torch.ones(5, dtype=torch.bfloat16), "t": torch.tensor(3)}
        folder = os.path.join(self.folder, "dcp")
        dcp.save({"model": source, "note": "not a tensor", "lr": 0.1}, checkpoint_id=folder)
        done = subprocess.run([TOOL, "import", "--dcp", folder, "--python", sys.executable, "--step", "3", self.dir],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("left out: 2 values that are not tensors", done.stdout)
        model = {name: torch.zeros_like(value) for name, value in source.items()}
        dlckpt.attach(model=model, dir=self.dir).close()
        for name, value in source.items():
            self.assertTrue(torch.equal(model[name], value), name)

    def test_a_pickle_that_names_a_function_is_refused_and_not_run(self):
        folder, mark = os.path.join(self.folder, "dcp"), os.path.join(self.folder, "mark")
        os.mkdir(folder)

        class Evil:
            def __reduce__(self):
                return os.mkdir, (mark,)

        with open(os.path.join(folder, ".metadata"), "wb") as file:
            pickle.dump(Evil(), file)
        done = subprocess.run([TOOL, "import", "--dcp", folder, "--python", sys.executable, "--step", "3", self.dir],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("names posix.mkdir", done.stderr)
        self.assertFalse(os.path.exists(mark))


if __name__ == "__main__":
    support.main(needs=("torch",))
