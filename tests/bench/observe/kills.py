# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the collector, and of dlrun, again and again: every log and series is readable then, and nothing is there twice."""
import os
import random
import shutil
import subprocess
import sys
import time

from dlbench.rows import Row
from dlbench.samples import Series

from series import points_of

# What a learner writes: line I is of train step I, and its loss follows from it, so that each can be known again.
LEARNER = """
import sys, time
step = 0
while True:
    for _ in range(20):
        step += 1
        sys.stdout.write("step %d: loss=%d.25\\n" % (step, step % 1000))
    sys.stdout.flush()
    time.sleep(0.005)
"""
GONE = b"dl-agent: dlrun is gone; this learner was ended\n"


def line_of(step):
    return b"step %d: loss=%d.25\n" % (step, step % 1000)


def check_points(points, what):
    """Each train step once, in order, with its value."""
    steps = [step for step, _ in points]
    if steps != sorted(set(steps)):
        raise ValueError("%s: a train step is there twice, or out of order" % what)
    for step, value in points:
        if value != step % 1000 + 0.25:
            raise ValueError("%s: train step %d has the value %r" % (what, step, value))
    return steps


def check_log(path):
    """How many lines it has; they are those that the learner has written, and the last may be torn."""
    with open(path, "rb") as file:
        data = file.read()
    if data.endswith(GONE):
        data = data[:-len(GONE)]
    lines = data.split(b"\n")
    for at, line in enumerate(lines[:-1]):
        if line + b"\n" != line_of(at + 1):
            raise ValueError("%s: line %d is %r" % (path, at + 1, line[:80]))
    if not line_of(len(lines)).startswith(lines[-1]):
        raise ValueError("%s: it ends with %r" % (path, lines[-1][:80]))
    return len(lines) - 1


def collector(program, folder, kills, rng):
    """One log that grows, and collectors of which all but the last are killed: in the end each line of it is a point."""
    log, series = os.path.join(folder, "learner-0.log"), os.path.join(folder, "learner-0.series")
    words, right, step = [program, "series=" + series, "log=" + log], 0, 0

    def start():
        return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    with open(log, "wb", buffering=0) as file:
        for _ in range(kills):
            one = start()
            end = time.monotonic() + rng.uniform(0, 0.06)
            while time.monotonic() < end:
                file.write(b"".join(line_of(at) for at in range(step + 1, step + 6)))
                step += 5
                time.sleep(0.003)
            one.kill()
            one.communicate()
            steps = check_points(points_of(series), series)
            right += steps == list(range(1, len(steps) + 1))
    one = start()
    one.communicate()  # the end of its input is that of the learner
    if check_points(points_of(series), series) != list(range(1, step + 1)):
        raise ValueError("%s: %d of %d points" % (series, len(points_of(series)), step))
    return right


def of_job(root):
    """The processes of a run: those that name its directory, and learners, whose working directory is there."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % pid, "rb") as file:
                if ("DL_JOB_DIR=" + root).encode() in file.read().split(b"\0"):
                    found.append(int(pid))
                    continue
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                if root.encode() in file.read():
                    found.append(int(pid))
        except OSError:
            continue
    return found


def dlrun(program, dlctl, folder, environment, kills, rng):
    """Runs whose dlrun is killed at any moment: each log is what the learner wrote, and each point is of a line in it, once."""
    right = begun = 0
    for number in range(kills):
        root = os.path.join(folder, "dl-kill-%d" % number)
        one = subprocess.Popen([program, "--learners", "1", "--job-dir", root, "--", sys.executable, "-c", LEARNER],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        time.sleep(rng.uniform(0, 0.6))
        one.kill()
        one.wait()
        end = time.monotonic() + 60
        while of_job(root):
            if time.monotonic() > end:
                raise ValueError("%s: processes are left" % root)
            time.sleep(0.02)
        log = os.path.join(root, "logs", "attempt-1", "learner-0.log")
        if os.path.exists(log):
            lines = check_log(log)
            begun += lines > 0
            steps = check_points(points_of(os.path.join(root, "metrics", "attempt-1", "learner-0.series")), root)
            if steps and steps[-1] > lines:
                raise ValueError("%s: a point is of no line" % root)
            # Each command reads it; 3: it has no metrics (yet).
            for words in (["status", root], ["logs", root], ["metrics", "--csv", root]):
                status = subprocess.run([dlctl] + words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode
                if status not in (0, 3):
                    raise ValueError("dlctl %s ends with status %d" % (" ".join(words), status))
        right += 1
        shutil.rmtree(root, ignore_errors=True)
    sys.stderr.write("kills: of %d dlruns %d had a learner that had written\n" % (kills, begun))
    return right


def rows(build, folder, environment, kills):
    rng = random.Random(20)
    programs = {name: os.path.join(build, "launcher", name) for name in ("dlrun", "metrics/dl-metrics", "ctl/dlctl")}
    found = [("collector", collector(programs["metrics/dl-metrics"], folder, kills, rng)),
             ("dlrun", dlrun(programs["dlrun"], programs["ctl/dlctl"], folder, environment, kills, rng))]
    return [Row("observe.kills." + name, "kill -9 of %s: all is readable, nothing twice" % name, "kills", "", ">= 1.0",
                Series([float(right)]), Series([float(kills)])) for name, right in found]
