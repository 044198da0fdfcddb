# SPDX-License-Identifier: Apache-2.0
"""torch's own clients at the store that dlrun hosts: torch 1.13 (as Debian has it) and the current one, each by its own
protocol. What ours answers is what torch's own server answers to the same questions."""
import json
import os
import subprocess
import tempfile
import unittest

import support

DLRUN = os.path.join(support.BUILD, "launcher", "dlrun")
LEARNER = os.path.join(support.HERE, "rendezvous_learner.py")
CURRENT = os.path.join(os.environ.get("DL_TEST_FRAMEWORKS") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "slurm-dl", "frameworks"), "bin", "python")


class Rendezvous(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="dl-rendezvous-")
        self.addCleanup(self.temporary.cleanup)
        self.folder = self.temporary.name
        catalogue = os.path.join(self.folder, "cat")
        os.mkdir(catalogue)
        for name in ("generic", "pytorch"):
            os.symlink(os.path.join(support.SOURCE, "frameworks", name, name + ".toml"), os.path.join(catalogue, name + ".toml"))
        self.config = os.path.join(self.folder, "dl.toml")
        with open(self.config, "w") as file:
            file.write('[frameworks]\ncatalogue = ["%s"]\n' % catalogue)

    def dlrun(self, python, learners, *options, **variables):
        if not os.path.exists(python):
            self.skipTest("there is no %s" % python)
        if subprocess.run([python, "-c", "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"]).returncode:
            self.skipTest("%s has no torch" % python)
        environment = dict(os.environ, DL_CONFIG=self.config, OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore", **variables)
        done = subprocess.run([DLRUN, "--learners", str(learners), *options, "--", python, LEARNER], cwd=self.folder, env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=240)
        said = [json.loads(line[line.index("{"):]) for line in done.stdout.splitlines() if '{"rank"' in line]
        return done, said

    def trained(self, python, learners):
        done, said = self.dlrun(python, learners, "--framework", "pytorch", "--restarts", "1")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("learner 0 was killed by signal 9 (SIGKILL); restart 1 of 1", done.stdout)
        total = learners * (learners + 1) // 2
        self.assertEqual([(x["attempt"], x["sum"], x["agent_store"]) for x in said],
                         [(1, total, "True")] * learners + [(2, total, "True")] * learners, done.stdout)
        first = next(x for x in said if "ours" in x)
        self.assertEqual(first["ours"], first["torchs"])
        self.assertEqual({x["left_over"] for x in said if x["attempt"] == 2}, {False})
        return said

    def test_torch_1_13_trains_and_goes_on_after_kill_9_of_rank_0(self):
        self.trained("/usr/bin/python3", 4)

    def test_the_current_torch_trains_and_goes_on_after_kill_9_of_rank_0_and_may_make_a_store_of_its_own(self):
        said = self.trained(CURRENT, 3)
        self.assertEqual({x["own_store"] for x in said if x["attempt"] == 2}, {True})

    def test_a_port_of_the_user_s_stays_and_rank_0_hosts_there(self):
        done, said = self.dlrun("/usr/bin/python3", 2, "--framework", "pytorch", MASTER_PORT=str(support.free_port()))
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual([(x["agent_store"], x["sum"]) for x in said], [("False", 3)] * 2)


if __name__ == "__main__":
    support.main()
