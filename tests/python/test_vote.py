# SPDX-License-Identifier: Apache-2.0
"""dl.vote() and dlckpt.vote(): what stands in the page afterwards, what they refuse and leave alone; and LoaderStall."""
import logging
import os
import struct
import sys

import support
import numpy as np

sys.path.insert(0, os.path.join(support.SOURCE, "launcher", "python"))
import dl  # noqa: E402
import dlckpt  # noqa: E402
from dl import loader_stall, voting  # noqa: E402
from dlckpt import voting as ckpt_voting  # noqa: E402

PAGE = b"DLCTPKG1" + bytes(4096 - 8)


class Vote(support.Case):
    def setUp(self):
        super().setUp()
        self.warned = []
        handler = logging.Handler()
        handler.emit = lambda record: self.warned.append(record.getMessage())
        logging.getLogger("dl").addHandler(handler)
        self.addCleanup(logging.getLogger("dl").removeHandler, handler)
        voting._said = ckpt_voting._said = False
        self.page = os.path.join(self.folder, "page")
        self.put(PAGE)
        os.environ["DL_PROGRESS"] = self.page
        self.addCleanup(os.environ.pop, "DL_PROGRESS", None)

    def put(self, content):
        with open(self.page, "wb") as file:
            file.write(content)

    def content(self):
        with open(self.page, "rb") as file:
            return file.read()

    def found(self):
        """(change, reason) as they stand in the page; None: no vote does."""
        check, size, number, change, reason = struct.unpack_from("=IIQq200s", self.content(), 1024)
        if number == 0:
            return None
        self.assertEqual(check, voting._check_sum(self.content()[1028:1248]))
        self.assertEqual(reason[size:], bytes(200 - size))
        return change, reason[:size].decode()

    def test_the_newest_vote_stands_in_the_page_and_nothing_else_is_written_to(self):
        for vote in (dl.vote, dlckpt.vote, dlckpt.attach().vote):
            self.put(PAGE)
            vote(+2, "loader stalls 40 %")
            self.assertEqual(self.found(), (2, "loader stalls 40 %"))
            vote(np.int64(-1))
            self.assertEqual(self.found(), (-1, ""))
            vote(0, "Schlüssel 😀" + "x" * 185)
            self.assertEqual(self.found(), (0, "Schlüssel 😀" + "x" * 185))
            content = self.content()
            self.assertEqual(content[:1024] + bytes(224) + content[1248:], PAGE)

    def test_the_layout_is_that_of_the_agent(self):
        # By common/contract/vote.cpp, on a machine with little-endian numbers.
        self.assertEqual(voting.vote_bytes(2, b"x", 7)[4:25].hex(), "01000000" "0700000000000000" "0200000000000000" "78")
        self.assertEqual(voting._check_sum(b""), 0x811c9dc5)
        self.assertEqual(voting._check_sum(b"foobar"), 0xbf9cf968)
        for change, reason in ((2, b"loader"), (-100000, b""), (0, b"y" * 200)):
            self.assertEqual(voting.vote_bytes(change, reason, 9), ckpt_voting.vote_bytes(change, reason, 9))

    def test_outside_of_dlrun_nothing_is_done_but_mistakes_are_said(self):
        for path in (None, "", os.path.join(self.folder, "no", "such", "page")):
            os.environ.pop("DL_PROGRESS", None)
            if path is not None:
                os.environ["DL_PROGRESS"] = path
            dl.vote(1, "x")
            dlckpt.vote(1, "x")
            with self.assertRaises(ValueError):
                dl.vote(100001)
            with self.assertRaises(dlckpt.InvalidError):
                dlckpt.vote(100001)
        self.assertEqual((self.found(), self.warned, self.said), (None, [], []))

    def test_what_is_not_allowed_is_refused(self):
        for error, change, reason in ((ValueError, 100001, ""), (ValueError, -100001, ""), (ValueError, 10 ** 30, ""), (TypeError, 1.5, ""),
                                      (TypeError, float("nan"), ""), (TypeError, "1", ""), (TypeError, None, ""), (TypeError, 1, None),
                                      (TypeError, 1, b"x"), (ValueError, 1, "x" * 201), (ValueError, 1, "ü" * 101), (ValueError, 1, "\x1b[31m"),
                                      (ValueError, 1, "a\nb"), (ValueError, 1, "a\0b"), (ValueError, 1, "\x7f"), (ValueError, 1, "\x9b"),
                                      (ValueError, 1, "\udc80")):
            with self.assertRaises(error, msg=(change, reason)):
                dl.vote(change, reason)
            with self.assertRaises(dlckpt.InvalidError, msg=(change, reason)):
                dlckpt.vote(change, reason)
        self.assertIsNone(self.found())

    def test_only_a_page_is_written_to_and_that_is_said_once(self):
        for other in (b"mine", b"x" * 4096, b"DLCTPKG1"):
            self.put(other)
            dl.vote(1, "x")
            dlckpt.vote(1, "x")
            self.assertEqual(self.content(), other)
        self.assertEqual(self.warned, [f"dl.vote: votes are not told: {self.page}: it is no progress page"])
        self.assertEqual(self.said, [f"votes are not told: {self.page}: it is no progress page"])
        own = os.path.join(self.folder, "own")
        with open(own, "wb") as file:
            file.write(PAGE)
        os.remove(self.page)
        os.symlink(own, self.page)
        dl.vote(1, "x")
        dlckpt.vote(1, "x")
        with open(own, "rb") as file:
            self.assertEqual(file.read(), PAGE)

    def test_no_descriptor_of_standard_input_output_and_error_is_taken(self):
        child = os.fork()
        if child == 0:
            wrong = 3
            try:
                os.closerange(0, 3)
                dl.vote(1, "x")
                dlckpt.vote(1, "x")
                wrong = sum(os.path.exists(f"/proc/self/fd/{fd}") for fd in range(3))
            finally:
                os._exit(wrong)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(self.found(), (1, "x"))


class Stall(support.Case):
    def setUp(self):
        super().setUp()
        self.now = 0.0
        self.votes = []
        self.addCleanup(setattr, loader_stall, "vote", loader_stall.vote)
        loader_stall.vote = lambda change, reason: self.votes.append((round(self.now), change, reason))

    def loader(self, count, seconds):
        for i in range(count):
            self.now += seconds
            yield i

    def train(self, stall, seconds):
        return [self.work(item, seconds) for item in stall]

    def work(self, item, seconds):
        self.now += seconds
        return item

    def stall(self, loader, *arguments, **named):
        return dl.LoaderStall(loader, *arguments, clock=lambda: self.now, **named)

    def test_it_gives_what_the_loader_gives_and_the_part_that_was_waited(self):
        stall = self.stall(self.loader(100, 0.4))
        self.assertEqual(stall.stall, 0)
        self.assertEqual(self.train(stall, 0.6), list(range(100)))
        self.assertAlmostEqual(stall.stall, 0.4)
        self.assertAlmostEqual(stall.waited, 40)
        self.assertEqual(self.votes, [])

    def test_a_loader_may_be_iterated_over_again_and_the_newest_batches_count(self):
        items = [1, 2, 3]
        stall = self.stall(items)
        self.assertEqual((len(stall), list(stall), list(stall)), (3, items, items))
        self.assertEqual((list(self.stall([])), self.stall([]).stall), ([], 0))
        stall = self.stall(self.loader(200, 0.5), smoothing=0.5)
        for i in stall:
            self.now += 0.5 if i < 100 else 9.5
        self.assertAlmostEqual(stall.stall, 0.05)

    def test_it_votes_where_much_is_waited_once_a_minute_and_takes_it_back(self):
        def both():
            yield from self.loader(150, 0.8)
            yield from self.loader(150, 0.01)

        stall = self.stall(both(), threshold=0.3, change=2)
        for i, _ in enumerate(stall):
            self.now += 0.2 if i < 150 else 0.99
        changes = [change for _, change, _ in self.votes]
        self.assertEqual(changes[0], 2)
        self.assertEqual(changes, sorted(changes, reverse=True))
        self.assertEqual(changes.count(0), 1)
        self.assertEqual(self.votes[0][2], "loader stalls 80 %")
        times = [at for at, _, _ in self.votes]
        self.assertTrue(all(later - earlier >= 60 for earlier, later in zip(times, times[1:])), times)

    def test_a_loader_that_keeps_up_casts_no_vote(self):
        self.train(self.stall(self.loader(500, 0.1), threshold=0.3), 0.9)
        self.assertEqual(self.votes, [])

    def test_what_is_not_allowed_is_refused(self):
        for named in ({"smoothing": 1}, {"smoothing": -0.1}, {"smoothing": float("nan")}, {"threshold": 0}, {"threshold": 1.1},
                      {"threshold": float("nan")}, {"change": 100001}):
            with self.assertRaises(ValueError, msg=named):
                dl.LoaderStall([], **named)


if __name__ == "__main__":
    support.main(needs=("numpy",))
