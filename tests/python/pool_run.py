# SPDX-License-Identifier: Apache-2.0
"""A run of dlrun --servers 1:3 in a folder, whose servers read from the file `wanted` how many there should be."""
import json
import os
import subprocess
import sys
import time

import support

PACKAGE = os.path.join(support.SOURCE, "launcher", "pool", "python")
LIBRARY = os.path.join(support.BUILD, "launcher", "pool", ".libs", "libdlpool.so.0")
BESIDE = os.path.join(support.BUILD, "launcher")


class Run:
    """dlrun -f FRAMEWORK -n 2 --servers 1:3 -- python3 SCRIPT ARGUMENT…"""

    def __init__(self, case, framework, script, *arguments):
        self.case, self.folder = case, case.folder
        catalogue, config = os.path.join(self.folder, "cat"), os.path.join(self.folder, "dl.toml")
        os.mkdir(catalogue)
        for name in ("generic", framework):
            os.symlink(os.path.join(support.SOURCE, "frameworks", name, name + ".toml"), os.path.join(catalogue, name + ".toml"))
        with open(config, "w") as file:
            file.write('[frameworks]\ncatalogue = ["%s"]\n' % catalogue)
        self.process = subprocess.Popen(
            [os.path.join(BESIDE, "dlrun"), "-f", framework, "-n", "2", "--servers", "1:3", "--job-dir", "job", "--", sys.executable,
             os.path.join(support.HERE, script), *arguments], cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=dict(os.environ, DL_CONFIG=config, PYTHONPATH=PACKAGE, PYTHONDONTWRITEBYTECODE="1", DLPOOL_LIBRARY=LIBRARY, OMP_NUM_THREADS="1"))
        case.addCleanup(self.process.wait)
        case.addCleanup(self.process.kill)

    def _facts(self):
        done = subprocess.run([os.path.join(BESIDE, "ctl", "dlctl"), "status", "job", "--json"], cwd=self.folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return json.loads(done.stdout)[0].get("servers") or {} if done.returncode == 0 and done.stdout.strip() else {}

    def until_servers(self, count):
        """Has so many servers, and waits until they serve and no slot moves."""
        with open(os.path.join(self.folder, "wanted.new"), "w") as file:
            print(count, file=file)
        os.replace(file.name, os.path.join(self.folder, "wanted"))
        end, facts = time.monotonic() + 60, {}
        while time.monotonic() < end and self.process.poll() is None:
            facts = self._facts()
            if (facts.get("serving"), facts.get("wanted"), facts.get("unsettled")) == (count, count, 0):
                return
            time.sleep(0.1)
        self.process.kill()
        self.case.fail("no %d servers: %r\n%s" % (count, facts, self.process.communicate()[0]))

    def output(self):
        """What it printed, once it has ended, which has to be well and without a restart."""
        output = self.process.communicate(timeout=120)[0]
        self.case.assertEqual(self.process.returncode, 0, output)
        for word in ("restart", "Traceback"):
            self.case.assertNotIn(word, output)
        return output
