# SPDX-License-Identifier: Apache-2.0
"""Hybrid sharded training (a mesh of two dimensions) through dlckpt.attach(), over gloo."""
import json
import os
import subprocess

import support

support.use_frameworks()
support.preload(support.TORCH, "hsdp_learner.py")


class Hybrid(support.Case):
    def run_learners(self, count, mode):
        results = support.learners(count, "hsdp_learner.py", mode, self.dir)
        for code, _, err in results:
            self.assertEqual(code, 0, err)
        lines = {line for _, out, _ in results for line in out.splitlines() if line.startswith("fingerprint")}
        self.assertEqual(len(lines), 1)
        return lines.pop()

    def test_what_four_hybrid_sharded_learners_saved_any_mesh_loads_and_each_element_is_stored_once(self):
        saved = self.run_learners(4, "save")
        for count in (4, 2, 1):
            self.assertEqual(self.run_learners(count, "load"), saved, "%d learners" % count)
        tool = os.path.join(support.BUILD, "checkpoint", "dlckpt")
        if not os.path.exists(tool):
            return
        done = subprocess.run([tool, "verify", self.dir], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        name, = [name for name in os.listdir(self.dir) if name.startswith("step-")]
        with open(os.path.join(self.dir, name, "MANIFEST.json")) as file:
            manifest = json.load(file)
        for tensor in manifest["tensors"]:
            stored = 0
            for shard in tensor["shards"]:
                elements = 1
                for n in shard["extent"]:
                    elements *= n
                stored += elements
            elements = 1
            for n in tensor["shape"]:
                elements *= n
            self.assertEqual(stored, elements, tensor["path"])

    def test_what_two_sharded_learners_saved_four_hybrid_sharded_ones_load(self):
        self.assertEqual(self.run_learners(2, "save"), self.run_learners(4, "load"))


if __name__ == "__main__":
    support.main(needs=("torch",))
