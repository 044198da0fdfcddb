# SPDX-License-Identifier: Apache-2.0
"""dl.metric(): the records that it appends, what it refuses, and what it bears: threads, forks, closed descriptors, full disks."""
import json
import logging
import math
import os
import resource
import signal
import sys
import threading

import support
import numpy as np

sys.path.insert(0, os.path.join(support.SOURCE, "launcher", "python"))
import dl  # noqa: E402
from dl import reporting  # noqa: E402


class Metric(support.Case):
    def setUp(self):
        super().setUp()
        self.file = os.path.join(self.folder, "learner-0.jsonl")
        self.warned = []
        handler = logging.Handler()
        handler.emit = lambda record: self.warned.append(record.getMessage())
        logging.getLogger("dl").addHandler(handler)
        self.addCleanup(logging.getLogger("dl").removeHandler, handler)
        reporting._file = reporting._MetricsFile()
        os.environ[reporting.FILE] = self.file
        self.addCleanup(os.environ.pop, reporting.FILE, None)

    def lines(self):
        try:
            with open(self.file, encoding="ascii") as file:
                return [line for line in file.read().split("\n") if line]
        except FileNotFoundError:
            return []

    def found(self):
        """(group, step, {name: value}) of each record."""
        every = []
        for record in map(json.loads, self.lines()):
            step = int(record["etimes"]["iteration"]["value"]) if "etimes" in record else None
            every.append((record["grouplabel"], step, {name: float(value["value"]) for name, value in record["values"].items()}))
        return every

    def test_what_is_reported_is_in_the_file(self):
        dl.metric(loss=0.1, accuracy=1, step=120)
        dl.metric({"acc@1 \"é\u2028": np.float32(0.5), "step": True}, group="validate", loss=np.float64(2))
        dl.metric(loss=-math.inf, step=np.int64(3), group="test")
        dl.metric(loss=math.nan)
        found = self.found()
        self.assertEqual(found[:3], [("train", 120, {"loss": 0.1, "accuracy": 1.0}),
                                     ("validate", None, {"acc@1 \"é\u2028": 0.5, "step": 1.0, "loss": 2.0}),
                                     ("test", 3, {"loss": -math.inf})])
        self.assertTrue(math.isnan(found[3][2]["loss"]))

    def test_outside_of_a_job_nothing_is_written_but_mistakes_are_said(self):
        del os.environ[reporting.FILE]
        dl.metric(loss=0.1)
        for wrong in ("0.1", np.zeros(3)):
            with self.assertRaises(TypeError):
                dl.metric(loss=wrong)
        self.assertEqual((self.lines(), self.warned), ([], []))

    def test_what_is_not_allowed_is_refused(self):
        for error, arguments, named in ((TypeError, (), {}), (ValueError, (), {"loss": 1, "group": "launcher"}), (ValueError, (), {"loss": 1, "step": -1}),
                                        (TypeError, (), {"loss": 1, "step": 1.5}), (TypeError, (), {"loss": None}), (TypeError, (), {"loss": [1]}),
                                        (ValueError, ({"": 1},), {}), (ValueError, ({3: 1},), {}), (ValueError, ({"x" * 201: 1},), {}),
                                        (ValueError, (), {"loss": 10 ** 400}), (TypeError, ({"a": 1}, {"b": 1}), {}),
                                        (ValueError, ({"\udc80": 1},), {}), (TypeError, (), {"loss": np.zeros(3)}),
                                        (ValueError, ({"%0200d" % i: 1 for i in range(500)},), {})):
            with self.assertRaises(error, msg=(arguments, named)):
                dl.metric(*arguments, **named)
        self.assertEqual(self.lines(), [])

    def test_workers_that_learner_0_starts_report_nothing(self):
        for name in ("RANK", "LOCAL_RANK"):
            os.environ[name] = "1"
            self.addCleanup(os.environ.pop, name, None)
            dl.metric(loss=0.5)
            os.environ[name] = "0"
        self.assertEqual(self.lines(), [])
        dl.metric(loss=0.25)
        self.assertEqual(len(self.lines()), 1)

    def test_records_of_threads_and_of_a_forked_child_do_not_mix(self):
        reporting._file._blocked = -1e6  # a disk that stands still costs no record here

        def many(who):
            for i in range(100):
                dl.metric({f"loss{who}": i}, step=i)

        threads = [threading.Thread(target=many, args=(who,)) for who in range(4)]
        for thread in threads:
            thread.start()
        child = os.fork()
        if child == 0:
            try:
                many(4)
            finally:
                os._exit(0)
        for thread in threads:
            thread.join()
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        found = self.found()
        self.assertEqual(len(found), 500)
        self.assertEqual({(*values, step) for _, step, values in found}, {(f"loss{who}", i) for who in range(5) for i in range(100)})

    def test_a_file_of_the_program_with_the_same_descriptor_is_not_written_to(self):
        own = os.path.join(self.folder, "checkpoint")
        dl.metric(loss=0.5)
        fd = reporting._file._fd
        with open(own, "wb") as file:
            os.dup2(file.fileno(), fd)  # as after os.closerange()
        self.addCleanup(os.close, fd)
        dl.metric(loss=0.25)
        self.assertEqual(os.path.getsize(own), 0)
        self.assertEqual([values for _, _, values in self.found()], [{"loss": 0.5}, {"loss": 0.25}])

    def test_the_file_takes_no_descriptor_of_standard_input_output_and_error(self):
        child = os.fork()
        if child == 0:
            wrong = 3
            try:
                os.closerange(0, 3)
                dl.metric(loss=0.5)
                wrong = sum(os.path.exists(f"/proc/self/fd/{fd}") for fd in range(3))
            finally:
                os._exit(wrong)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(len(self.lines()), 1)

    def test_only_a_regular_file_is_written_to(self):
        os.mkfifo(self.file)
        reader = os.open(self.file, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        dl.metric(loss=0.5)
        self.assertEqual(os.read(reader, 1), b"")
        self.assertRegex(self.warned[0], "it is no regular file$")
        own = os.path.join(self.folder, "checkpoint")
        with open(own, "wb"):
            os.remove(self.file)
        os.symlink(own, self.file)
        dl.metric(loss=0.5)
        self.assertEqual(os.path.getsize(own), 0)

    def test_what_was_left_out_is_said_once_also_by_two_threads_at_once(self):
        reporting._file._left_out = 2
        together, write = threading.Barrier(2, timeout=60), reporting._file._write

        def wait_and_write(*arguments):
            together.wait()
            write(*arguments)

        reporting._file._write = wait_and_write
        threads = [threading.Thread(target=dl.metric, kwargs={"loss": 0.5}) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(json.loads(line).get("left_out", 0) for line in self.lines()), [0, 2])
        self.assertEqual(reporting._file._left_out, 0)

    def test_the_size_of_the_file_is_asked_for_now_and_then(self):
        asked, lseek = [], os.lseek
        self.addCleanup(setattr, os, "lseek", lseek)
        os.lseek = lambda *arguments: asked.append(1) or lseek(*arguments)
        for _ in range(100):
            dl.metric(loss=0.5)
        self.assertEqual(len(asked), 1)
        dl.metric({"%0200d" % i: 1 for i in range(200)})
        for _ in range(16):
            dl.metric({"%0200d" % i: 1 for i in range(200)})
        self.assertEqual(len(asked), 1)
        for _ in range(20):
            dl.metric({"%0200d" % i: 1 for i in range(200)})
        self.assertEqual(len(asked), 2)

    def test_a_file_that_is_removed_is_made_anew(self):
        dl.metric(loss=0.5)
        os.remove(self.file)
        dl.metric(loss=0.25)
        self.assertEqual([values for _, _, values in self.found()], [{"loss": 0.25}])

    def test_a_file_that_cannot_be_written_ends_nothing_and_is_said_once(self):
        os.environ[reporting.FILE] = os.path.join(self.folder, "no", "such", "folder")
        dl.metric(loss=0.5)
        dl.metric(loss=0.25)
        self.assertEqual(len(self.warned), 1)
        self.assertRegex(self.warned[0], "^dl.metric: values are not reported: .*/no/such/folder: No such file or directory$")
        os.environ[reporting.FILE] = self.file
        dl.metric(loss=0.125)
        self.assertEqual(json.loads(self.lines()[0])["left_out"], 2)

    def test_after_a_record_of_which_a_part_was_written_the_next_is_whole(self):
        self.addCleanup(signal.signal, signal.SIGXFSZ, signal.signal(signal.SIGXFSZ, signal.SIG_IGN))
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        dl.metric(loss=0.5)
        resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(self.file) + 20, before[1]))
        try:
            dl.metric(loss=0.25)
            dl.metric(loss=0.375)  # of which nothing is written
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        dl.metric(loss=0.125)
        lines = self.lines()
        self.assertEqual(len(lines), 3)
        with self.assertRaises(ValueError):
            json.loads(lines[1])
        self.assertEqual(json.loads(lines[2])["values"]["loss"]["value"], "0.125")
        self.assertEqual(len(self.warned), 1)

    def test_a_file_of_the_largest_size_gets_no_more(self):
        with open(self.file, "wb") as file:
            file.truncate(reporting.MOST_FILE)
        dl.metric(loss=0.5)
        size = os.path.getsize(self.file)
        dl.metric(loss=0.25)
        self.assertEqual(os.path.getsize(self.file), size)
        self.assertRegex(self.warned[0], "has its largest size, 256 MiB")

    def test_a_file_system_that_is_too_slow_gets_less(self):
        dl.metric(loss=0.5)
        reporting._file._blocked = 3.0
        dl.metric(loss=0.25)
        dl.metric(loss=0.125)
        reporting._file._first -= 100
        dl.metric(loss=0.0625)
        self.assertEqual([json.loads(line).get("left_out") for line in self.lines()], [None, 2])


if __name__ == "__main__":
    support.main(needs=("numpy",))
