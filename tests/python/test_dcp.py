# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.checkpoint with dlckpt's storage: several learners over gloo, DTensor and FSDP, N to M."""
import json
import os
import subprocess

import support

support.use_frameworks()
support.preload(support.TORCH, "dcp_learner.py")


class Dcp(support.Case):
    def run_learners(self, count, mode):
        results = support.learners(count, "dcp_learner.py", mode, self.dir, self.dir + "-async")
        for code, _, err in results:
            self.assertEqual(code, 0, err)
        lines = {line for _, out, _ in results for line in out.splitlines() if line.startswith("fingerprint")}
        self.assertEqual(len(lines), 1)
        return lines.pop()

    def test_what_three_learners_saved_at_once_asynchronously_or_by_attach_loads_at_two_and_at_one_and_the_tool_verifies_it(self):
        self.assertEqual(self.run_learners(3, "save"), self.run_learners(2, "load"))
        import torch
        from torch.distributed import checkpoint as dcp
        import dlckpt.dcp
        got = {"rows": torch.zeros(7, 3), "dealt out": torch.zeros(7, 3), "columns": torch.zeros(2, 10, dtype=torch.bfloat16), "mine/0": ""}
        dcp.load(got, storage_reader=dlckpt.dcp.Reader(self.dir), no_dist=True)
        for name in "rows", "dealt out":
            self.assertEqual(got[name].tolist(), (torch.arange(21.0) * 0.5 - 3).reshape(7, 3).tolist())
        self.assertEqual((got["columns"].float().tolist(), got["mine/0"]),
                         ((torch.arange(20.0) * 0.5 - 3).reshape(2, 10).tolist(), "learner 0"))
        with self.assertRaisesRegex(BaseException, "mine/2 was saved by learner 2 alone"):
            dcp.load({"mine/2": ""}, storage_reader=dlckpt.dcp.Reader(self.dir), no_dist=True)
        tool = os.path.join(support.BUILD, "checkpoint", "dlckpt")
        if os.path.exists(tool):
            done = subprocess.run([tool, "verify", self.dir], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            shown = json.loads(subprocess.run([tool, "show", "--json", self.dir], capture_output=True, text=True).stdout)
            paths = {t["path"]: t for t in shown["tensors"]}
            self.assertEqual((paths["model/0.weight"]["shape"], paths["model/0.weight"]["dtype"]), ([7, 5], "float32"))
            self.assertIn("opt/state/0.weight/exp_avg", paths)


class OneProcess(support.Case):
    def setUp(self):
        super().setUp()
        import warnings
        import logging
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)

    def test_steps_come_from_the_name_the_writer_or_the_newest_and_are_retained(self):
        import torch
        from torch.distributed import checkpoint as dcp
        import dlckpt.dcp
        from dlckpt import committed
        state = {"w": torch.arange(4.0)}
        writer = dlckpt.dcp.Writer(self.dir, keep=2)
        for value in range(3):
            state["w"].fill_(value)
            dcp.save(state, storage_writer=writer)
        self.assertEqual([c.step for c in committed.checkpoints(self.dir)], [2, 1])
        writer.step = 40
        dcp.save(state, storage_writer=writer)
        named = os.path.join(self.folder, "step-500")
        dcp.save(state, checkpoint_id=named, storage_writer=dlckpt.dcp.Writer())
        self.assertEqual([c.step for c in committed.checkpoints(named)], [500])
        state["w"].fill_(9)
        dcp.save(state, storage_writer=dlckpt.dcp.Writer(self.dir))
        got = {"w": torch.zeros(4)}
        dcp.load(got, storage_reader=dlckpt.dcp.Reader(self.dir))
        self.assertEqual(got["w"].tolist(), [9.0] * 4)
        dcp.load(got, storage_reader=dlckpt.dcp.Reader(self.dir, step=40))
        self.assertEqual(got["w"].tolist(), [2.0] * 4)

    def test_every_element_type_scalars_and_odd_strides_come_back_bit_for_bit(self):
        import torch
        from torch.distributed import checkpoint as dcp
        import dlckpt.dcp
        from dlckpt import dtypes
        kept, got = {}, {}
        for name in dtypes.DTYPES:
            raw = torch.randint(0, 256, (12 * dtypes.size(name),), dtype=torch.uint8)
            kept[name] = raw.gt(127) if name == "bool" else raw.view(getattr(torch, name))
            kept[name] = kept[name].reshape(3, 4).t()
            got[name] = torch.zeros(12, dtype=torch.uint8).to(kept[name].dtype).reshape(4, 3)
        kept["scalar"], got["scalar"] = torch.tensor(-1.5), torch.tensor(0.0)
        kept["tail"], got["tail"] = torch.arange(10)[3:], torch.zeros(14, dtype=torch.int64)[::2]
        dcp.save({"t": kept}, storage_writer=dlckpt.dcp.Writer(self.dir))
        dcp.load({"t": got}, storage_reader=dlckpt.dcp.Reader(self.dir))
        for name in kept:
            a, b = (x.contiguous().reshape(-1).view(torch.uint8) for x in (kept[name], got[name]))
            self.assertTrue(torch.equal(a, b), name)

    def test_a_planner_that_caches_its_plans_saves_the_new_values(self):
        import torch
        from torch.distributed import checkpoint as dcp
        import dlckpt.dcp
        writer, state = dlckpt.dcp.Writer(self.dir), {"w": torch.zeros(4), "n": 1}
        for value in (1, 2, 3):
            state["w"].fill_(value)
            state["n"] = value
            dcp.save(state, storage_writer=writer, planner=dcp.DefaultSavePlanner(enable_plan_caching=True))
        got = {"w": torch.zeros(4), "n": 0}
        reader = dlckpt.dcp.Reader(self.dir)
        dcp.load(got, storage_reader=reader)
        self.assertEqual((got["w"].tolist(), got["n"], reader.loaded_step), ([3.0] * 4, 3, 2))

    def test_what_cannot_be_loaded_is_said(self):
        import torch
        from torch.distributed import checkpoint as dcp
        import dlckpt
        import dlckpt.dcp
        reader = dlckpt.dcp.Reader(self.dir)
        with self.assertRaisesRegex(BaseException, "no checkpoint in"):
            dcp.load({"w": torch.zeros(4)}, storage_reader=reader)
        with dlckpt.Context(self.dir) as context:
            context.save(1)
        with self.assertRaisesRegex(BaseException, "was not written by dlckpt.dcp"):
            dcp.load({"w": torch.zeros(4)}, storage_reader=reader)
        other = os.path.join(self.folder, "other")
        dcp.save({"w": torch.zeros(4)}, storage_writer=dlckpt.dcp.Writer(other))
        name = os.path.join(other, [n for n in os.listdir(other) if n.startswith("step")][0], "r00000.h5")
        with open(name, "r+b") as file:
            file.seek(8192)
            file.write(b"\xff")
        with self.assertRaisesRegex(BaseException, "verif"):
            dcp.load({"w": torch.ones(4)}, storage_reader=dlckpt.dcp.Reader(other))
        with self.assertRaisesRegex(BaseException, "directory"):
            dcp.save({"w": torch.zeros(4)}, storage_writer=dlckpt.dcp.Writer())


if __name__ == "__main__":
    support.main(needs=("torch",))
