# SPDX-License-Identifier: Apache-2.0
"""frameworks/pytorch/example/train_digits_pool.py: PyTorch learners train while their parameter servers come and go, and each sample counts
exactly once."""
import os
import re
import subprocess
import sys

import support
import pool_run

support.use_frameworks()


class Example(support.Case):
    def test_a_network_is_trained_while_its_servers_come_and_go_and_each_sample_counts_once(self):
        run = pool_run.Run(self, "pytorch", "pool_example.py", "--step-delay", "0.02")
        run.until_servers(1)
        run.until_servers(3)
        run.until_servers(1)
        output = run.output()
        accuracy = float(re.search(r"held-out accuracy: ([0-9.]+) % with 2 learners", output).group(1))
        self.assertGreater(accuracy, 90, output)
        self.assertIn("each part of the weights was trained with 17244 samples; trained: 17244\n", output)  # 12 x 1437

    def test_without_dlrun_it_says_how_it_is_started(self):
        done = subprocess.run([sys.executable, os.path.join(support.HERE, "pool_example.py")], env=dict(os.environ, PYTHONPATH=pool_run.PACKAGE),
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("start this by dlrun --framework pytorch --servers MIN:MAX", done.stderr)


if __name__ == "__main__":
    support.main(needs=("numpy", "torch", "sklearn"))
