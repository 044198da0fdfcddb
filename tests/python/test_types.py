# SPDX-License-Identifier: Apache-2.0
"""The annotations of the package, checked by mypy. Those of the frameworks are not read, which takes minutes."""
import os
import subprocess
import sys
import tempfile

import support

support.use_frameworks()


class Types(support.Case):
    def test_mypy_finds_nothing_in_the_packages(self):
        self.check(support.PACKAGE, "dlckpt")
        self.check(os.path.join(support.SOURCE, "launcher", "python"), "dl")
        self.check(os.path.join(support.SOURCE, "launcher", "pool", "python"), "dlpool")

    def check(self, folder, package):
        with tempfile.TemporaryDirectory() as cache:
            done = subprocess.run(
                [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--allow-subclassing-any", "--cache-dir", cache,
                 "--no-warn-unused-ignores", "--no-warn-return-any", "--no-site-packages", "--ignore-missing-imports", "-p", package],
                capture_output=True, text=True, cwd=folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_package_says_that_it_is_typed(self):
        self.assertTrue(os.path.exists(os.path.join(support.PACKAGE, "dlckpt", "py.typed")))
        self.assertTrue(os.path.exists(os.path.join(support.SOURCE, "launcher", "python", "dl", "py.typed")))


if __name__ == "__main__":
    support.main(needs=("mypy",))
