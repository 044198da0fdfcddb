# SPDX-License-Identifier: Apache-2.0
"""What does not change is stored once: seen from Python, and by the tool."""
import json
import os
import subprocess

import support
import numpy as np

import dlckpt
from dlckpt import library

TOOL = os.path.join(support.BUILD, "checkpoint", "dlckpt")


def listed(folder):
    return json.loads(subprocess.run([TOOL, "ls", "--json", folder], check=True, stdout=subprocess.PIPE).stdout)


class Unchanged(support.Case):
    def test_a_frozen_array_is_written_once_and_the_tool_tells(self):
        base, adapter = np.arange(300000.0), np.zeros(10000)
        with dlckpt.Context(self.dir, rank=0, world_size=1) as c:
            c.tensor("base", "float64", base.shape, base.ctypes.data, flags=library.REPLICATED | library.FROZEN, owner=base)
            c.tensor("adapter", "float64", adapter.shape, adapter.ctypes.data, flags=library.REPLICATED, owner=adapter)
            for step in (1, 2):
                adapter[:] = step
                c.save(step)
            c.wait()
        newest, oldest = listed(self.dir)
        self.assertEqual(oldest["bytes"], oldest["new_bytes"])
        self.assertLess(newest["new_bytes"], 200000)
        self.assertGreater(newest["bytes"], 2400000)
        text = subprocess.run([TOOL, "show", os.path.join(self.dir, newest["name"])], check=True, stdout=subprocess.PIPE, text=True).stdout
        self.assertIn("unchanged: ", text)
        self.assertIn("written by earlier saves, the first at train step 1", text)
        subprocess.run([TOOL, "gc", "--keep", "1", self.dir], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([TOOL, "verify", "--quiet", self.dir], check=True)
        base[:], adapter[:] = 0, 0
        with dlckpt.Context(self.dir, rank=0, world_size=1) as c:
            c.tensor("base", "float64", base.shape, base.ctypes.data, flags=library.REPLICATED, owner=base)
            c.tensor("adapter", "float64", adapter.shape, adapter.ctypes.data, flags=library.REPLICATED, owner=adapter)
            self.assertEqual(c.restore()[0], 2)
        self.assertTrue((base == np.arange(300000.0)).all() and (adapter == 2).all())

    def test_attached_state_that_stays_is_found_by_itself(self):
        state = {"base": np.arange(100000.0), "adapter": np.zeros(10000)}
        job = dlckpt.attach(arrays=state, dir=self.dir)
        for step in job.steps(6):
            state["adapter"][:] = step
            job.save()
        job.finish()
        self.assertLess(listed(self.dir)[0]["new_bytes"], 200000)
        expected = {name: array.copy() for name, array in state.items()}
        for array in state.values():
            array[:] = -1
        dlckpt.attach(arrays=state, dir=self.dir).close()
        for name, array in state.items():
            self.assertTrue((array == expected[name]).all())


if __name__ == "__main__":
    support.main(needs=("numpy",))
