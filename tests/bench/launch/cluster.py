# SPDX-License-Identifier: Apache-2.0
"""A sandbox cluster with an allocation in which commands are started and timed."""
import glob
import os
import subprocess
import tempfile
import time

from dlbench.worker import Worker

HERE = os.path.dirname(os.path.abspath(__file__))
NODES, CPUS = 2, 4
PATIENCE_S = 120


class Run:
    """What one command did: seconds of CLOCK_MONOTONIC, and what its learners wrote down (learner.c)."""

    def __init__(self, began, ended, status, folder):
        self.began, self.ended, self.status, self.folder = began, ended, status, folder

    def all(self, event, attempt=1):
        found = {}
        for path in glob.glob(os.path.join(self.folder, "%s.%d.*" % (event, attempt))):
            if not path.endswith(".tmp"):
                with open(path, encoding="ascii") as file:
                    found[int(path.rsplit(".", 1)[1])] = float(file.read())
        return found

    def last(self, event, count, attempt=1):
        """When the last of `count` learners wrote it down."""
        found = self.all(event, attempt)
        if len(found) != count:
            with open(os.path.join(self.folder, "output"), errors="replace") as file:
                raise RuntimeError("%d of %d learners reached %s; exit status %s: %s" % (len(found), count, event, self.status, file.read()[-2000:]))
        return max(found.values())


class Cluster:
    """up() at its making; close() ends it. Where it cannot run, its making raises RuntimeError with the reason."""

    def __init__(self, top, prefix):
        self.sandbox = os.path.join(top, "tests", "sandbox", "dl-sandbox")
        self.folder = tempfile.mkdtemp(prefix="bench-launch-", dir="/tmp")
        os.chmod(self.folder, 0o777)
        self._where = ["--dir", os.path.join(self.folder, "sandbox")]
        self._count = 0
        self.driver = None
        self.call("up", "--nodes", str(NODES), "--cpus-per-node", str(CPUS), "--gpus-per-node", "0", "--prefix", prefix)
        self.allocate()

    def call(self, verb, *arguments):
        done = subprocess.run([self.sandbox, verb, *self._where, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
        if done.returncode != 0:
            raise RuntimeError("dl-sandbox %s: %s" % (verb, done.stdout.strip()[-1000:]))
        return done.stdout

    def allocate(self):
        command = [self.sandbox, "exec", *self._where, "--", "salloc", "-Q", "-N%d" % NODES, "-n%d" % (NODES * CPUS),
                   "python3", "-B", os.path.join(HERE, "driver.py")]
        self.driver = Worker("driver", command, timeout_s=PATIENCE_S + 30)

    def start(self, argv, env=None):
        """argv: {} in a word is replaced by the run's own folder."""
        self._count += 1
        folder = os.path.join(self.folder, "run-%d" % self._count)
        began = self.driver.ask("start", argv=[word.replace("{}", folder) for word in argv], env=env or {}, folder=folder)["began"]
        return Run(began, None, None, folder)

    def finish(self, run):
        ended = self.driver.ask("wait", seconds=PATIENCE_S)
        run.ended, run.status = ended["ended"], ended["status"]
        return run

    def run(self, argv, env=None):
        return self.finish(self.start(argv, env))

    @staticmethod
    def until(what, limit_s=60.0):
        end = time.monotonic() + limit_s
        while not what():
            if time.monotonic() > end:
                raise RuntimeError("not reached within %d s" % limit_s)
            time.sleep(0.002)

    def close(self):
        if self.driver:
            self.driver.close()
        self.call("down")
        subprocess.run(["rm", "-rf", self.folder], check=False)
