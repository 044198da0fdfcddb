# SPDX-License-Identifier: Apache-2.0
"""Broken files, full and forbidden disks, rivals and kills: a clear sentence, and no committed checkpoint lost."""
import os
import random
import subprocess
import sys
import time

import lease
import support
import numpy as np

import dlckpt


class Faults(support.Case):
    def train(self, steps, a=None, **options):
        a = np.zeros(1000) if a is None else a
        options.setdefault("dir", self.dir)
        for _ in dlckpt.attach(arrays={"a": a}, **options).steps(steps):
            a += 1
        return a

    def files_of(self, step):
        folder = [n for n in os.listdir(self.dir) if n.startswith("step-") and int(n.split("-")[1].split(".")[0]) == step][0]
        return [os.path.join(self.dir, folder, n) for n in sorted(os.listdir(os.path.join(self.dir, folder)))]

    def damage(self, path):
        with open(path, "r+b") as f:
            f.seek(os.path.getsize(path) // 2)
            byte = f.read(1)
            f.seek(-1, 1)
            f.write(bytes([byte[0] ^ 0x10]))

    def test_a_damaged_newest_checkpoint_is_passed_over_and_that_is_said(self):
        for kind in (".h5", ".json"):
            with self.subTest(kind):
                self.dir = os.path.join(self.folder, kind[1:])
                self.train(4, every="2steps")
                for path in self.files_of(4):
                    if path.endswith(kind):
                        self.damage(path)
                self.said.clear()
                a = np.zeros(1000)
                with dlckpt.attach(arrays={"a": a}, dir=self.dir) as job:
                    self.assertEqual((job.train_step, a[0], a[-1]), (2, 2, 2))
                self.saying("step-")

    def test_a_truncated_newest_checkpoint_is_passed_over(self):
        self.train(4, every="2steps")
        for path in self.files_of(4):
            if path.endswith(".h5"):
                os.truncate(path, os.path.getsize(path) // 2)
        with dlckpt.attach(arrays={"a": np.zeros(1000)}, dir=self.dir) as job:
            self.assertEqual(job.train_step, 2)

    def test_when_no_checkpoint_verifies_nothing_is_loaded(self):
        self.train(2)
        for path in self.files_of(2):
            if path.endswith(".h5"):
                self.damage(path)
        a = np.zeros(1000)
        with self.assertRaises(dlckpt.CorruptError):
            dlckpt.attach(arrays={"a": a}, dir=self.dir)
        self.assertEqual(a.sum(), 0)

    def test_falling_back_to_a_checkpoint_with_other_tensors_works(self):
        """An optimizer has no state in its first checkpoint and some in the second; so has job.state here."""
        job = dlckpt.attach(arrays={"a": np.zeros(3)}, dir=self.dir)
        job.save()
        job.step_done()
        job.state["extra"] = np.ones(5)
        job.save()
        job.close()
        for path in self.files_of(1):
            if path.endswith(".h5"):
                self.damage(path)
        with dlckpt.attach(arrays={"a": np.zeros(3)}, dir=self.dir) as job:
            self.assertEqual((job.train_step, job.state), (0, {}))

    def test_a_second_job_on_the_same_directory_is_refused_by_name(self):
        with dlckpt.attach(arrays={"a": np.zeros(3)}, dir=self.dir):
            code, _, err = support.one("shards.py", self.dir, "write")
            self.assertNotEqual(code, 0)
            self.assertIn("BusyError", err)
            self.assertIn(str(os.getpid()), err)
        code, _, err = support.one("shards.py", self.dir, "write")
        self.assertEqual(code, 0, err)

    def test_a_second_job_of_the_same_process_is_refused_also_under_dlrun(self):
        os.mkdir(self.dir)
        with lease.Lease(self.dir, "dlrun", "") as held, support.environment(DL_CHECKPOINT_LEASE=held.token, DL_CHECKPOINT_DIR=self.dir):
            with dlckpt.attach(generator={"a": np.zeros(3)}):
                with self.assertRaisesRegex(dlckpt.BusyError, "is open in this process already, as rank 0; allowed: one job, to which all"):
                    dlckpt.attach(critic={"a": np.ones(3)})
            dlckpt.attach(generator={"a": np.zeros(3)}).close()

    def test_a_directory_whose_name_is_no_utf_8_or_that_is_given_as_bytes_is_used(self):
        for dir in (os.fsdecode(os.fsencode(self.dir) + b"\xff"), os.fsencode(self.dir)):
            with dlckpt.attach(arrays={"a": np.ones(3)}, dir=dir) as job:
                job.save()
            self.assertTrue(os.path.exists(dir))
            self.assertEqual(dlckpt.open(dir)["arrays/a"].sum(), 3)
            with dlckpt.attach(arrays={"a": np.ones(3)}, dir=dir) as job:
                self.assertTrue(job.restored)
        for call in (lambda: dlckpt.attach(arrays={"a": np.ones(3)}, dir=self.dir + "\0x"), lambda: dlckpt.open(self.dir + "\0x")):
            with self.assertRaisesRegex(dlckpt.InvalidError, "has a zero byte in it"):
                call()

    def test_a_relative_directory_stays_the_same_when_the_program_changes_its_working_directory(self):
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        os.mkdir("elsewhere")
        with open("own", "w") as file:
            file.write("of the program")
        with dlckpt.attach(arrays={"a": np.ones(3)}, dir="ckpt") as job:
            job.files(own="own")
            os.chdir("elsewhere")
            job.save()
        self.assertEqual(os.listdir("."), [])
        self.assertFalse(os.path.exists(os.path.join(self.dir, "LEASE")))
        os.chdir(self.folder)
        with dlckpt.open("./ckpt/") as checkpoint:
            os.chdir("elsewhere")
            self.assertEqual((checkpoint["arrays/a"].sum(), checkpoint.steps()), (3, [0]))

    def test_one_checkpoint_is_no_directory_of_checkpoints(self):
        self.train(1)
        one = os.path.dirname(self.files_of(1)[0])
        for path in (one, one + "/"):
            for call in (lambda: dlckpt.attach(arrays={"a": np.zeros(1000)}, dir=path), lambda: dlckpt.open(path)):
                with self.assertRaisesRegex(dlckpt.InvalidError, "is one checkpoint; allowed: a checkpoint directory, such as %s, of "
                                            "which this is train step 1" % self.dir):
                    call()
        self.assertFalse(os.path.exists(os.path.join(one, "LEASE")))

    def test_a_directory_that_cannot_be_made_or_written_is_refused_at_once(self):
        open(os.path.join(self.folder, "file"), "w").close()
        for bad in ("file", "file/below", "no/parent"):
            with self.assertRaises(dlckpt.Error) as caught:
                dlckpt.attach(arrays={"a": np.zeros(3)}, dir=os.path.join(self.folder, bad))
            self.assertIn(bad.split("/")[0], str(caught.exception))

    def in_own_mount(self, size, options, script, *args, learners=1):
        """Runs a script with a small tmpfs on self.folder/small, in a mount namespace of its own."""
        small = os.path.join(self.folder, "small")
        os.makedirs(small, exist_ok=True)
        try:
            subprocess.run(["unshare", "-m", "true"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            self.skipTest("mount namespaces need root")
        program = "'%s' '%s' \"$@\"" % (sys.executable, os.path.join(support.HERE, script))
        if learners == 1:
            program = "exec " + program
        else:  # exits with the sum of their codes
            program = "export WORLD_SIZE=%d DL_RUN_ID=x; sum=0; for r in %s; do RANK=$r %s & pids=\"$pids $!\"; done; " \
                "for p in $pids; do wait $p || sum=$((sum + $?)); done; exit $sum" % (
                    learners, " ".join(map(str, range(learners))), program)
        command = "mount -t tmpfs -o size=%s none '%s' && %s %s" % (size, small, options, program)
        env = dict(os.environ, PYTHONPATH=support.PACKAGE, PYTHONDONTWRITEBYTECODE="1")
        return subprocess.run(["unshare", "-m", "sh", "-c", command, "sh", small] + list(args), env=env, capture_output=True,
                              text=True, timeout=180)

    def test_on_a_full_disk_training_goes_on_and_the_last_good_checkpoint_stays(self):
        done = self.in_own_mount("3m", "", "full_disk.py", "periodic")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("was not saved", done.stderr)
        # Told at the next save, or where the last one is waited for.
        self.assertRegex(done.stderr, "DLCKPT_E_NO_SPACE|No space left on device")
        self.assertIn("trained to the end; restored train step 1", done.stdout)

    def test_on_a_full_disk_no_learner_waits_for_words_that_had_no_space(self):
        done = self.in_own_mount("3m", "", "full_disk.py", "periodic", learners=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("was not saved", done.stderr)
        self.assertIn("trained to the end; restored train step 1", done.stdout)

    def test_a_stop_on_a_full_disk_exits_with_76_and_says_so(self):
        done = self.in_own_mount("3m", "", "full_disk.py", "stop")
        self.assertEqual(done.returncode, 76, done.stderr)
        self.assertIn("not saved", done.stderr)

    def test_a_final_save_on_a_full_disk_raises(self):
        done = self.in_own_mount("3m", "", "full_disk.py", "final")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("NoSpaceError", done.stderr)

    def test_a_read_only_file_system_is_refused_at_once(self):
        done = self.in_own_mount("3m", "mount -o remount,ro \"$1\" &&", "full_disk.py", "periodic")
        self.assertEqual(done.returncode, 1)
        self.assertIn("DeniedError", done.stderr)

    def test_kill_9_in_the_middle_of_saves_never_loses_or_mixes_a_checkpoint(self):
        chance, newest = random.Random(1), -1
        for _ in range(12):
            process = support.python("save_forever.py", self.dir)
            process.stdout.readline()
            time.sleep(chance.random() * 0.15)
            process.kill()
            process.communicate()
            with dlckpt.Context(self.dir, rank=0, world_size=1) as c:
                first, second = np.zeros(500_000), np.zeros(3)
                for path, array in (("arrays/first", first), ("arrays/second", second)):
                    c.tensor(path, "float64", array.shape, array.ctypes.data, flags=1, owner=array)
                step, _ = c.restore()
            self.assertGreaterEqual(step, newest)
            self.assertEqual({float(first.min()), float(first.max()), float(second.min()), float(second.max())}, {float(step)})
            newest = step
        self.assertGreater(newest, 0)
        self.assertEqual([n for n in os.listdir(self.dir) if n.startswith(".tmp-")], [])


if __name__ == "__main__":
    support.main(needs=("numpy",))
