# SPDX-License-Identifier: Apache-2.0
"""The same tests with another PyTorch: set DL_TEST_TORCH_PYTHON to an interpreter that has one."""
import os
import subprocess
import sys

import support

FILES = ("test_pure.py", "test_arrays.py", "test_objects.py", "test_learners.py")


def main():
    interpreter = os.environ.get("DL_TEST_TORCH_PYTHON")
    if not interpreter:
        print("1..0 # SKIP DL_TEST_TORCH_PYTHON does not name an interpreter with another PyTorch")
        return 0
    version = subprocess.run([interpreter, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
    if version.returncode != 0:
        print("1..1\nnot ok 1 - %s has PyTorch\n# %s" % (interpreter, version.stderr.strip().replace("\n", "\n# ")))
        return 1
    failed = 0
    for number, name in enumerate(FILES, 1):
        done = subprocess.run([interpreter, os.path.join(support.HERE, name)], capture_output=True, text=True, timeout=900)
        failed += done.returncode != 0
        print("%s %d - %s passes with torch %s" % ("not ok" if done.returncode else "ok", number, name, version.stdout.strip()))
        if done.returncode:
            print("\n".join("# " + line for line in (done.stdout + done.stderr).splitlines()))
    print("1..%d" % len(FILES))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
