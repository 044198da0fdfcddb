# SPDX-License-Identifier: Apache-2.0
"""A job saves and retires as fast as it can while others list, verify, show and read: what it has removed is not called damaged."""
import os
import subprocess
import time

import support

TOOL = os.path.join(support.BUILD, "checkpoint", "dlckpt")
SECONDS = 3


class Vanishing(support.Case):
    def setUp(self):
        super().setUp()
        self.saver = support.python("save_forever.py", self.dir, 1)
        self.addCleanup(self.saver.communicate)
        self.addCleanup(self.saver.kill)
        self.assertEqual(self.saver.stdout.readline(), "saved\n")
        # Nobody reads the rest, so that it would stop where the pipe is full.
        self.drain = subprocess.Popen(["cat"], stdin=self.saver.stdout, stdout=subprocess.DEVNULL)
        self.addCleanup(self.drain.wait)
        self.addCleanup(self.drain.kill)

    def outcomes(self, *command):
        """What the command printed, and its status, until some seconds have passed."""
        end, found = time.monotonic() + SECONDS, []
        while time.monotonic() < end or not found:
            done = subprocess.run([TOOL, *command], capture_output=True, text=True, timeout=60)
            found.append((done.returncode, done.stdout + done.stderr))
        self.assertIsNone(self.saver.poll(), "the job has ended")
        return found

    def never_damaged(self, *command, allowed=(0, 3)):
        found = self.outcomes(*command)
        for code, text in found:
            self.assertIn(code, allowed, text)
            self.assertNotIn("damaged", text)
            if code not in (0, 1):
                self.assertRegex(text, "removed by its job meanwhile; the newest is that of train step")
        return [text for code, text in found if code == 0]

    def test_readers_get_whole_checkpoints_or_learn_that_they_were_removed(self):
        readers = [support.python("read_forever.py", self.dir, SECONDS) for _ in range(2)]
        for reader in readers:
            out, err = reader.communicate(timeout=120)
            self.assertEqual(reader.returncode, 0, err)
            self.assertRegex(out, r"^\d+ read, \d+ removed\n$")  # on a busy machine all may be removed before they are read

    def test_a_list_has_no_row_for_what_was_removed(self):
        self.assertTrue(any("committed" in text for text in self.never_damaged("ls", self.dir)))

    def test_verify_passes_over_what_was_removed(self):
        self.never_damaged("verify", self.dir)
        self.never_damaged("verify", "--quick", self.dir)

    def test_show_takes_the_next_newest(self):
        self.assertTrue(self.never_damaged("show", self.dir))

    def test_what_would_be_removed_is_not_called_damaged(self):
        self.never_damaged("gc", "--dry-run", "--keep", "1", self.dir, allowed=(0,))

    def test_diff_and_export_say_which_one_was_removed(self):
        self.never_damaged("diff", "--quiet", self.dir, self.dir, allowed=(0, 1, 2))
        self.never_damaged("export", "--force", "--safetensors", os.path.join(self.folder, "x.safetensors"), self.dir)


if __name__ == "__main__":
    support.main(needs=("numpy",))
