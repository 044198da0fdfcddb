# SPDX-License-Identifier: Apache-2.0
"""How long it takes from a learner's print until dlctl metrics finds the point."""
import math
import os
import subprocess
import sys
import time

from dlbench.rows import Row
from dlbench.samples import Series

from series import points_from

LEARNER = """
import random, sys, time
random.seed(int(sys.argv[2]))
time.sleep(float(sys.argv[3]))
for step in range(1, int(sys.argv[1]) + 1):
    time.sleep(random.uniform(0, 0.1))
    # The value is the time: its fraction is cut to what a double keeps of it.
    print("step %d: loss=%.4f" % (step, time.monotonic()), flush=True)
"""


# In the first minute dl-metrics looks twenty times a second at a program that does not use the checkpoint library, later twice a second.
SOON_S = 61


def delays(dlrun, folder, environment, points, number, wait_s):
    root = os.path.join(folder, "dl-seen-%d" % number)
    one = subprocess.Popen([dlrun, "--learners", "1", "--job-dir", root, "--", sys.executable, "-c", LEARNER, str(points), str(number), str(wait_s)],
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
    series = os.path.join(root, "metrics", "attempt-1", "learner-0.series")
    found, data, at, ended = [], b"", 8, False
    while not ended:
        ended = one.poll() is not None
        try:
            with open(series, "rb") as file:
                file.seek(len(data))
                data += file.read()
        except FileNotFoundError:
            pass
        now = time.monotonic()
        new, at = points_from(data, at)
        # The launcher's own rates have other values.
        found += [now - value for step, value in new if 0 <= now - value < 60]
        time.sleep(0.01)
    one.communicate()
    if one.returncode != 0 or len(found) < points:
        raise ValueError("%d of %d points were seen" % (len(found), points))
    return sorted(found)


def rows(dlrun, folder, environment, quick):
    points, runs, wait_s = (10, 1, 0) if quick else (300, 3, SOON_S)
    p99 = []
    for number in range(runs):
        found = delays(dlrun, folder, environment, points, number, wait_s)
        p99.append(found[math.ceil(0.99 * len(found)) - 1])
    label = "a printed value until dlctl finds it: 99 of 100, of %d" % points
    return [Row("observe.seen", label, "limit", "s", "<= 1.0", Series(p99), Series([2.0]))]
