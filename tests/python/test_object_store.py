# SPDX-License-Identifier: Apache-2.0
"""Trainings whose checkpoints also go to an object store (DL_CHECKPOINT_OBJECTS): a real S3 server, with faults in between."""
import contextlib
import glob
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import support

SECRET = "pLanTeDs3cretKey"
DLCKPT = os.path.join(support.BUILD, "checkpoint", "dlckpt")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class ObjectStore(support.Case):
    @classmethod
    def setUpClass(cls):
        for name in list(os.environ):
            if name.startswith(("RCLONE_", "AWS_")):
                del os.environ[name]
        found = subprocess.run([os.path.join(support.SOURCE, "packaging", "install-rclone")], capture_output=True, text=True, check=False)
        if found.returncode != 0:
            raise unittest.SkipTest(found.stderr.strip())
        server = found.stdout.strip()
        cls.top = tempfile.mkdtemp(prefix="dlckpt-store-")
        cls.addClassCleanup(shutil.rmtree, cls.top, True)
        if shutil.which("rclone") is None:
            os.mkdir(os.path.join(cls.top, "bin"))
            os.symlink(server, os.path.join(cls.top, "bin", "rclone"))
            os.environ["PATH"] = os.path.join(cls.top, "bin") + ":" + os.environ["PATH"]
        os.makedirs(os.path.join(cls.top, "s3", "bucket"))
        port, port_file, cls.faults = free_port(), os.path.join(cls.top, "port"), os.path.join(cls.top, "faults")
        cls.start([server, "serve", "s3", "--addr", "127.0.0.1:%d" % port, "--auth-key", "AKIAPLANTEDPLANTED12," + SECRET,
                   "--vfs-cache-mode", "off", "--dir-cache-time", "100ms", os.path.join(cls.top, "s3")], RCLONE_CONFIG="/dev/null")
        cls.start([sys.executable, os.path.join(support.SOURCE, "tests", "lib", "faulty_tcp.py"), str(port), port_file, cls.faults])
        cls.until(lambda: os.path.exists(port_file) and os.path.getsize(port_file) > 0)
        cls.config = os.path.join(cls.top, "rclone.conf")
        with open(cls.config, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file, open(port_file) as chosen:
            file.write("[lab]\ntype = s3\nprovider = Other\nendpoint = http://127.0.0.1:%s\naccess_key_id = AKIAPLANTEDPLANTED12\n"
                       "secret_access_key = %s\n" % (chosen.read(), SECRET))
        os.environ["RCLONE_CONFIG"] = cls.config
        cls.addClassCleanup(os.environ.pop, "RCLONE_CONFIG", None)
        cls.until(lambda: subprocess.run(["rclone", "lsd", "lab:"], capture_output=True, check=False).returncode == 0)

    @classmethod
    def start(cls, words, **changes):
        process = subprocess.Popen(words, env=dict(os.environ, **changes), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cls.addClassCleanup(process.wait)
        cls.addClassCleanup(process.kill)

    @staticmethod
    def until(done, seconds=120):
        end = time.monotonic() + seconds
        while not done():
            if time.monotonic() > end:
                raise AssertionError("it was not so within %d s" % seconds)
            time.sleep(0.1)

    def setUp(self):
        super().setUp()
        self.place = "lab:bucket/" + self.id().rsplit(".", 1)[1]
        self.addCleanup(self.set_faults, "")

    def set_faults(self, text):
        with open(self.faults, "w") as file:
            file.write(text)

    def train(self, steps, kill_at=-1, learners=1, fail_at=-1, **changes):
        """(exit code, {"from": …, "weights": …, "store": …}, stderr) of learner 0."""
        changes.setdefault("DL_CHECKPOINT_OBJECTS", self.place)
        code, out, error = support.learners(learners, "store_learner.py", self.dir, steps, kill_at, fail_at, **changes)[0]
        return code, dict(line.split(" ", 1) for line in out.splitlines()), error

    def whole(self, steps, learners=1):
        """The weights of a training without an object store."""
        code, said, error = self.train(steps, learners=learners, DL_CHECKPOINT_OBJECTS="")
        self.assertEqual(code, 0, error)
        shutil.rmtree(self.dir)
        return said["weights"]

    def steps(self):
        out = subprocess.run([DLCKPT, "ls", self.place, "--json"], capture_output=True, text=True, check=True).stdout
        return [row["step"] for row in json.loads(out) if row["state"] == "committed"]

    def test_what_was_lost_with_its_directory_comes_back_bit_for_bit_and_a_secret_is_nowhere(self):
        weights = self.whole(6, learners=2)
        words, watching = [], threading.Event()

        def watch():
            while not watching.wait(0.02):
                for path in glob.glob("/proc/[0-9]*/cmdline"):
                    with contextlib.suppress(OSError), open(path, "rb") as file:
                        text = file.read().decode(errors="replace")
                        if "serve\0s3" not in text:  # that of the test has it
                            words.append(text)
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            code, said, error = self.train(3, learners=2)
        finally:
            watching.set()
            watcher.join()
        self.assertEqual(code, 0, error)
        self.assertIn(3, self.steps())
        self.assertLessEqual(len(self.steps()), 2)
        self.assertTrue(any("rclone\0rcat" in text for text in words))
        self.assertFalse([text for text in words if SECRET in text])
        self.assertFalse(self.planted(self.folder))
        self.assertNotIn(SECRET, error)
        shutil.rmtree(self.dir)
        code, said, error = self.train(6, learners=2)
        self.assertEqual((code, said["from"], said["weights"]), (0, "3", weights), error)
        self.assertIn("train step 3 was fetched from " + self.place, error)

    def planted(self, folder):
        found = []
        for path in glob.glob(folder + "/**", recursive=True) + glob.glob(folder + "/**/.*", recursive=True):
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    found += [path] if SECRET.encode() in file.read() else []
        return found

    def test_a_damaged_object_makes_the_next_older_checkpoint_count(self):
        code, _, error = self.train(2)
        self.assertEqual(code, 0, error)
        code, _, error = self.train(4)
        self.assertEqual(code, 0, error)
        steps = self.steps()
        self.assertEqual(steps[0], 4)
        self.assertEqual(len(steps), 2)
        [path] = glob.glob(os.path.join(self.top, "s3", self.place[4:], "step-%012d.*" % 4, "r00000.h5"))
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        shutil.rmtree(self.dir)
        code, said, error = self.train(6)
        self.assertEqual((code, said["from"]), (0, str(steps[1])), error)
        self.assertIn("checksum", error)
        self.assertIn(6, self.steps())

    def test_a_training_that_is_killed_while_it_sends_leaves_nothing_committed_and_the_next_run_sends_it(self):
        weights = self.whole(4)
        code, said, error = self.train(4, kill_at=1, RCLONE_BWLIMIT="10k")
        self.assertEqual(code, -9, error)
        self.until(lambda: subprocess.run(["pgrep", "-f", "rclone rcat.*" + self.place], capture_output=True, check=False).returncode != 0)
        self.assertEqual(self.steps(), [])
        code, said, error = self.train(4)
        self.assertEqual((code, said["weights"]), (0, weights), error)
        self.assertIn(4, self.steps())

    def test_a_server_that_answers_503_costs_no_save_and_is_told_of_once(self):
        weights = self.whole(40)
        self.assertEqual(self.train(1)[0], 0)  # without a checkpoint in the directory a store that is away would be refused
        self.set_faults("503\n")
        code, said, error = self.train(40, fail_at=20, DL_CHECKPOINT_MODE="sync")
        self.assertEqual((code, said["weights"]), (0, weights), error)
        self.assertEqual(error.count("was not sent"), 1, error)
        self.set_faults("503 2\ncut:20000 2\n")
        code, said, error = self.train(41)
        self.assertEqual((code, said["from"]), (0, "40"), error)
        self.assertIn(41, self.steps())

    def test_the_end_of_a_run_says_which_checkpoint_is_not_in_the_store_and_what_to_do(self):
        self.assertEqual(self.train(1)[0], 0)
        self.set_faults("503\n")
        code, _, error = self.train(2)
        self.assertEqual(code, 0, error)
        self.assertEqual(error.count("the newest checkpoint, that of train step 2, is not there"), 1, error)
        self.assertIn("dlckpt send %s %s" % (self.dir, self.place), error)
        self.set_faults("")
        code, _, error = self.train(3)
        self.assertNotIn("is not there", error)
        self.assertEqual(self.steps()[0], 3)

    def test_a_store_that_does_not_answer_lets_no_program_start_anew_whose_directory_is_lost(self):
        code, _, error = self.train(2)
        self.assertEqual(code, 0, error)
        self.set_faults("503\n")
        code, said, error = self.train(4)  # its directory is there
        self.assertEqual((code, said["from"]), (0, "2"), error)
        self.assertIn("not known whether it has a newer checkpoint", error)
        shutil.rmtree(self.dir)
        code, said, error = self.train(4)
        self.assertNotEqual(code, 0)
        self.assertNotIn("from", said)
        self.assertIn("objects=" + self.place, error)

    def test_a_place_that_cannot_be_used_is_refused_at_once_with_one_sentence(self):
        for place, sentence in (("lab:", "has no PATH"), ("nolab:x", "not in your rclone configuration"), ("/tmp/x", "names no object store"),
                                (":s3,secret_access_key=%s:bucket/x" % SECRET, "connection string")):
            code, said, error = self.train(2, DL_CHECKPOINT_OBJECTS=place)
            self.assertNotEqual(code, 0)
            self.assertIn(sentence, error)
            self.assertNotIn(SECRET, error)
        code, _, error = self.train(2, DLCKPT_PROGRAM="/nowhere/dlckpt")
        self.assertNotEqual(code, 0)
        self.assertIn("DLCKPT_PROGRAM", error)


if __name__ == "__main__":
    support.main(needs=("torch",))
