# SPDX-License-Identifier: Apache-2.0
"""dlctl migrate: how its work grows with a script, and how large a script may be."""
import os
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, List

import support

sys.path.insert(0, os.path.join(support.SOURCE, "launcher", "python"))

from dl.migrate.rewrite import migrate  # noqa: E402  (the path is set above)

HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:4\n"
LAUNCH = "srun torchrun --nnodes=2 --nproc_per_node=4 --rdzv_endpoint=$h:1 t.py\n"


def calls_of(work: Callable[[], object]) -> int:
    """How many functions are called, those of Python's library in C among them."""
    count = 0

    def one(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(one)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def seconds_of(work: Callable[[], object]) -> float:
    """The least of three: of this process alone, not of a clock on the wall."""
    best: List[float] = []
    for _ in range(3):
        start = time.process_time()
        work()
        best.append(time.process_time() - start)
    return min(best)


class Growth(support.Case):
    def test_a_long_word_costs_as_much_as_its_length(self):
        # Within a regular expression nothing can be counted, so times of this process are compared: of 8 times the length,
        # 64 times the time if each character is looked at once for each other one.
        for form in ("srun %s t.py\n", "python t.py %s\n", "srun --output=%s python t.py\n", "echo %s\n"):
            for word in (".", "a", "_", "/a", "-", "${a}"):
                short, long = (HEAD + form.replace("%s", word * (size // len(word))) for size in (4_000, 32_000))
                migrate(short)
                limit = 24 * max(seconds_of(lambda script=short: migrate(script)), 0.004)
                self.assertLess(seconds_of(lambda script=long: migrate(script)), limit, f"{form!r} with {word!r}")

    def test_many_commands_cost_as_much_as_each(self):
        for line in ("cd x && python t.py\n", "python a.py | tee x\n", "for i in 1; do python t.py & done\n", "srun -N1 -n1 -w a python t.py &\n", "export MASTER_PORT=1\n" + LAUNCH,
                     "case $x in a) torchrun t.py;; esac\n", "bash train.sh\n"):
            few, many = (calls_of(lambda script=HEAD + line * number: migrate(script)) for number in (25, 100))
            self.assertLess(many, 5 * few, line)

    def test_many_words_cost_as_much_as_each(self):
        for form in ("python t.py %s\n", 'X="%s"\nsrun $X t.py\n', "srun bash -c '%s; torchrun t.py'\n"):
            for word in ("do ", "-m ", "A=1 ", '"$A" '):
                few, many = (calls_of(lambda script=HEAD + form.replace("%s", word * number): migrate(script)) for number in (250, 1000))
                self.assertLess(many, 5 * few, f"{form!r} with {word!r}")


class Bound(support.Case):
    def test_a_script_that_is_too_large_is_refused(self):
        for more, why in (("#" + "x" * (200 << 10), ""), ("#" + "x" * (300 << 10), "it is larger than 256 KiB"), ("echo\n" * 3900, ""), ("echo\n" * 4100, "it has more than 4000 commands")):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "t.sh")
                with open(path, "w") as file:
                    file.write(HEAD + LAUNCH + more + "\n")
                done = subprocess.run([sys.executable, "-m", "dl.migrate", path], capture_output=True, text=True,
                                      env={**os.environ, "PYTHONPATH": os.path.join(support.SOURCE, "launcher", "python")})
            self.assertEqual(done.returncode, 2 if why else 0, done.stderr)
            self.assertIn(why, done.stderr)


if __name__ == "__main__":
    support.main()
