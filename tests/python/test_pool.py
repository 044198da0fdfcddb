# SPDX-License-Identifier: Apache-2.0
"""dlpool, the Python module of elastic pools: clients, members and their errors at a real directory; and under dlrun, whose servers come, leave
and are killed while learners count."""
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import support
import pool_run
import numpy as np

sys.path.insert(0, pool_run.PACKAGE)
if os.path.exists(pool_run.LIBRARY):
    os.environ.setdefault("DLPOOL_LIBRARY", pool_run.LIBRARY)
import dlpool  # noqa: E402


class Texts:
    """A member's object: apply appends to the text of a key."""

    def __init__(self):
        self.slots = dlpool.Map(str.encode, bytes.decode)
        self.hooks = {}  # by function: called first

    def __getattr__(self, name):  # save, load, drop, wanted, as Map has them
        if name not in ("save", "load", "drop", "wanted"):
            raise AttributeError(name)

        def call(*arguments):
            self.hooks.get(name, lambda *_: None)(*arguments)
            return arguments[0].members if name == "wanted" else getattr(self.slots, name)(*arguments)

        return call

    def apply(self, key, data):
        self.hooks.get("apply", lambda *_: None)(key, data)
        self.slots[key] = self.slots.get(key, "") + data.decode()
        return self.slots[key]

    def read(self, key, data):
        self.hooks.get("read", lambda *_: None)(key, data)
        return self.slots.get(key, "")


class Served:
    """A member in threads of this process."""

    def __init__(self, handler, **options):
        self.pool, self.error = dlpool.Pool(handler, **options), None
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self):
        try:
            self.pool.serve()
        except BaseException as error:  # pylint: disable=broad-except
            self.error = error

    def ended(self):
        self.thread.join(30)
        assert not self.thread.is_alive()
        return self.error


class PoolCase(support.Case):
    def setUp(self):
        super().setUp()
        self.warned = []
        handler = logging.Handler()
        handler.emit = lambda record: self.warned.append(record.getMessage())
        logging.getLogger("dlpool").addHandler(handler)
        self.addCleanup(logging.getLogger("dlpool").removeHandler, handler)
        self.secret = os.path.join(self.folder, "secret")
        self.members = []
        self.addCleanup(lambda: [member.ended() for member in self.members])  # when the directories are closed

    def directory(self, **options):
        directory = dlpool.Directory(self.secret, **{"max": 16, **options})
        self.addCleanup(directory.close)
        for name, value in (("DL_POOL", "127.0.0.1:%d" % directory.port), ("DL_POOL_SECRET", self.secret)):
            os.environ[name] = value
            self.addCleanup(os.environ.pop, name, None)
        return directory

    def serve(self, handler, **options):
        self.members.append(Served(handler, **options))
        return self.members[-1]

    def until(self, directory, members):
        end = time.monotonic() + 30
        while time.monotonic() < end:
            facts = directory.facts()
            if facts.members == members and facts.unsettled == 0:
                return facts
            time.sleep(0.02)
        self.fail("no %d members: %r" % (members, directory.facts()))

    def pool(self, **options):
        client = dlpool.Client(**options)
        self.addCleanup(client.close)
        return client


class Clients(PoolCase):
    def test_bytes_texts_and_arrays_are_sent_and_answers_are_bytes(self):
        self.directory()
        self.serve(Texts())
        pool = self.pool()
        self.assertEqual(pool.update("a", b"1"), b"1")
        self.assertEqual(pool.update(b"a", "ü"), "1ü".encode())
        self.assertEqual(pool.read("a"), "1ü".encode())
        self.assertEqual(pool.read("none"), b"")
        self.assertEqual(pool.update("", bytearray(b"empty key")), b"empty key")
        letters = np.frombuffer(b"abcdef", np.uint8).reshape(2, 3)
        self.assertEqual(pool.update("array", letters), b"abcdef")
        self.assertEqual(pool.update("turned", letters.T), b"adbecf")
        self.assertEqual(pool.update("view", memoryview(b"xyz")), b"xyz")
        self.assertEqual(pool.call([("a", "2"), ("b", "3"), ("a", "4")]), ["1ü2".encode(), b"3", "1ü24".encode()])
        self.assertEqual(pool.call((name, b"") for name in ("b", "a")) + pool.call([]), [b"3", "1ü24".encode()])
        self.assertEqual(pool.call([("b", b""), ("c", b"")], read=True), [b"3", b""])
        raw = b"\xff key"
        self.assertEqual(pool.update(raw, "x"), b"x")
        self.assertEqual(pool.read(os.fsdecode(raw)), b"x")

    def test_what_cannot_be_sent_is_refused_and_nothing_is_done(self):
        self.directory()
        self.serve(Texts())
        pool = self.pool()
        for data, part in ((7, "of type int cannot be sent"), (np.array([None]), "of type ndarray cannot be sent"), ([1], "of type list")):
            with self.assertRaisesRegex(dlpool.InvalidError, "call 1: a value " + part):
                pool.call([("a", "x"), ("b", data)])
        for calls, part in (([("a",)], "call 0 is no pair"), ([(1, b"")], "call 0: the key is of type int"), ("ab", "call 0 is no pair")):
            with self.assertRaisesRegex(dlpool.InvalidError, part):
                pool.call(calls)
        with self.assertRaisesRegex(dlpool.InvalidError, "call 0: a key of 1025 bytes with 0 bytes is too long; allowed: 1024, and 64 MiB"):
            pool.update("k" * 1025)
        self.assertEqual(pool.read("a"), b"")

    def test_what_the_object_refuses_is_an_error_with_its_sentence_and_the_answers_of_the_others(self):
        self.directory()
        texts = Texts()
        texts.hooks["apply"] = texts.hooks["read"] = lambda key, data: self.refuse(data)
        self.serve(texts)
        pool = self.pool()
        with self.assertRaises(dlpool.ObjectError) as caught:
            pool.call([("a", "1"), ("b", "no"), ("c", "2"), ("d", "none")])
        error = caught.exception
        self.assertEqual((str(error), error.code, error.name), ("ValueError: this is no number: no", 2, "DLPOOL_E_OBJECT"))
        self.assertEqual([error.answers[0], error.answers[2]], [b"1", b"2"])
        self.assertEqual([str(error.answers[1]), str(error.answers[3])], [str(error), "ValueError"])
        with self.assertRaisesRegex(dlpool.ObjectError, "^ValueError: this is no number: no$"):
            pool.read("a", "no")
        self.assertEqual(pool.update("b", "3"), b"3")

    @staticmethod
    def refuse(data):
        if data == b"none":
            raise ValueError
        if not data.isdigit() and data:
            raise ValueError("this is no number: " + data.decode())

    def test_a_pool_that_does_not_answer_is_a_time_out_and_then_the_client_can_only_be_closed(self):
        self.directory()
        pool = self.pool(timeout_s=0.3)
        with self.assertRaisesRegex(dlpool.CallTimeoutError, "^the pool at 127.0.0.1:[0-9]+ did not answer within 0 s$") as caught:
            pool.update("a", "1")
        self.assertIsNone(caught.exception.answers)
        with self.assertRaisesRegex(dlpool.StateError, "so this client can only be closed$"):
            pool.update("a", "1")
        pool.close()

    def test_a_place_that_is_none_is_refused(self):
        with self.assertRaisesRegex(dlpool.InvalidError, "the directory of the pool is not known; .* the variable DL_POOL$"):
            dlpool.Client(secret_file=self.secret)
        self.directory()
        os.chmod(self.secret, 0o644)
        with self.assertRaises(dlpool.DeniedError):
            dlpool.Client()
        os.chmod(self.secret, 0o600)
        with self.assertRaisesRegex(dlpool.InvalidError, "timeout_s: -1.0* is out of range"):
            dlpool.Client(timeout_s=-1)
        with self.assertRaisesRegex(dlpool.InvalidError, "min and max: 3 and 2 are no range of members"):
            dlpool.Directory(self.secret, min=3, max=2)

    def test_state_that_died_with_a_member_is_said_to_be_lost(self):
        directory = self.directory(copies=False)
        victim = self.serve(Texts(), wanted=lambda load: (_ for _ in ()).throw(SystemExit(3)) if os.path.exists(self.dir) else load.members)
        self.until(directory, 1)
        pool = self.pool()
        pool.update("a", "1")
        open(self.dir, "w").close()
        self.assertIsInstance(victim.ended(), SystemExit)
        os.unlink(self.dir)
        self.serve(Texts())
        with self.assertRaisesRegex(dlpool.LostError, "the pool has lost the state of slot [0-9]+ .* start a new pool from a checkpoint$"):
            pool.update("a", "1")

    def test_threads_take_turns_at_one_client_and_others_run_while_it_waits(self):
        self.directory()
        pool = self.pool()
        done = []
        threads = [threading.Thread(target=lambda: done.extend(pool.update("a", "x") for _ in range(50))) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.1)  # all wait for a member, and this thread runs on
        self.assertEqual(done, [])
        self.serve(Texts())
        for thread in threads:
            thread.join(30)
        self.assertEqual(sorted(map(len, done)), list(range(1, 201)))

    def test_a_signal_handler_cannot_call_within_the_call_that_it_interrupts(self):
        self.directory()
        self.serve(Texts())
        pool, refused = self.pool(), []

        def handler(*_):
            try:
                pool.update("a", "2")
                refused.append(None)
            except dlpool.StateError as error:
                refused.append(str(error))

        before = signal.signal(signal.SIGUSR1, handler)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        with pool._turns:  # where the call of this thread is when the handler runs
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(0.01)
        self.assertEqual(len(refused), 1)
        self.assertRegex(refused[0], "signal handler has interrupted")
        self.assertEqual(pool.update("a", "1"), b"1")

    def test_a_child_after_fork_is_refused_and_takes_nothing_from_its_parent(self):
        self.directory()
        self.serve(Texts())
        pool = self.pool()
        pool.update("a", "1")
        context = multiprocessing.get_context("fork")
        receive, send = context.Pipe(False)

        def child():
            try:
                pool.update("a", "2")
                send.send("it was carried out")
            except dlpool.StateError as error:
                send.send(str(error))
            pool.close()
            with dlpool.Client() as own:
                send.send(own.update("b", "own"))

        process = context.Process(target=child)
        process.start()
        self.assertRegex(receive.recv(), r"^this client was opened by process %d and cannot be used by process %d" % (os.getpid(), process.pid))
        self.assertEqual(receive.recv(), b"own")
        process.join(30)
        self.assertEqual(process.exitcode, 0)
        self.assertEqual(pool.update("a", "3"), b"13")

    def test_a_closed_client_says_so_and_closes_once(self):
        self.directory()
        self.serve(Texts())
        with dlpool.Client() as pool:
            pool.update("a", "1")
        pool.close()
        with self.assertRaisesRegex(dlpool.StateError, "this client was closed; open another one"):
            pool.update("a", "1")


class Members(PoolCase):
    def test_members_join_and_leave_and_all_values_move(self):
        directory = self.directory()
        self.serve(Texts())
        pool = self.pool()
        names = ["key %d" % i for i in range(200)]
        pool.call([(name, name) for name in names])
        for count in (2, 3):
            self.serve(Texts())
            self.until(directory, count)
        for member in self.members[:2]:
            member.pool.leave()
            self.assertIsNone(member.ended())
        facts = self.until(directory, 1)
        self.assertGreater(facts.moved, 0)
        self.assertEqual(facts.lost, 0)
        self.assertEqual(pool.call([(name, "") for name in names], read=True), [name.encode() for name in names])

    def test_an_exception_that_is_none_ends_its_member_as_if_it_was_killed_and_the_copy_answers(self):
        directory = self.directory()
        first, second = Texts(), Texts()
        self.serve(first)
        self.until(directory, 1)
        self.serve(second)
        self.until(directory, 2)
        pool = self.pool()
        for name, error in (("a", SystemExit("now")), ("b", MemoryError())):
            with self.subTest(error):
                ends = []

                def once(key, data):
                    if not ends:
                        ends.append(1)
                        raise error

                first.hooks["apply"] = once
                for i in range(50):  # until one is applied there first
                    pool.update("%s %d" % (name, i), "1")
                    if ends:
                        break
                self.assertIs(self.members[0].ended(), error)
                values = pool.call([("%s %d" % (name, j), "") for j in range(i + 1)], read=True)
                self.assertEqual(values, [b"1"] * (i + 1))
                self.members.pop(0)
                first = Texts()
                self.serve(first)
                self.members.reverse()
                self.until(directory, 2)

    def test_what_save_raises_is_warned_of_and_the_member_serves_on(self):
        directory = self.directory()
        texts = Texts()
        texts.hooks["save"] = lambda slot: self.fail("not now")
        self.serve(texts)
        pool = self.pool()
        pool.update("a", "1")
        self.serve(Texts())
        end = time.monotonic() + 30
        while not self.warned and time.monotonic() < end:
            time.sleep(0.02)
        self.assertRegex(self.warned[0], r"^slot [0-9]+ cannot be saved, so it is neither copied nor moved now: AssertionError: not now$")
        self.assertEqual(pool.update("a", "2"), b"12")
        self.assertGreater(directory.facts().unsettled, 0)

    def test_what_load_or_drop_raises_ends_the_member_and_serve_raises_it(self):
        directory = self.directory()
        self.serve(Texts())
        self.until(directory, 1)
        pool = self.pool()
        pool.update("a", "1")
        broken = Texts()
        broken.hooks["load"] = lambda *_: (_ for _ in ()).throw(KeyError("load"))
        self.assertEqual(repr(self.serve(broken).ended()), "KeyError('load')")
        broken = Texts()
        broken.hooks["drop"] = lambda *_: (_ for _ in ()).throw(KeyError("drop"))
        self.serve(broken)
        self.until(directory, 2)
        self.serve(Texts())
        self.assertEqual(repr(self.members[2].ended()), "KeyError('drop')")
        self.until(directory, 2)
        self.assertEqual(pool.update("a", "2"), b"12")

    def test_wanted_decides_the_size_and_one_that_fails_counts_as_the_members_that_there_are(self):
        directory = self.directory(max=8)
        seen = []
        self.serve(Texts(), wanted=lambda load: seen.append(load) or 5)
        end = time.monotonic() + 30
        while directory.facts().wanted != 5 and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(directory.facts().wanted, 5)
        self.assertEqual(seen[0].members, 1)
        self.assertGreaterEqual(seen[-1].cpu_seconds, 0)
        failing = self.directory()
        self.serve(Texts(), wanted=lambda load: 1 // 0)
        while not self.warned and time.monotonic() < end:
            time.sleep(0.02)
        self.assertRegex(self.warned[0], "^wanted failed, and counts as the 1 members that there are: ZeroDivisionError: ")
        time.sleep(0.5)  # it is asked two times more, and nothing follows
        self.assertEqual((len(self.warned), failing.facts().wanted), (1, 1))

    def test_an_answer_that_is_none_of_bytes_is_an_error_of_the_call(self):
        self.directory()
        texts = Texts()
        texts.read = lambda key, data: 7
        self.serve(texts)
        with self.assertRaisesRegex(dlpool.ObjectError, "^InvalidError: what read returned: a value of type int cannot be sent"):
            self.pool().read("a")

    def test_an_object_without_the_functions_is_refused(self):
        self.directory()

        class Half:
            def apply(self, key, data):
                return data

        with self.assertRaisesRegex(dlpool.InvalidError, "^an object of type Half has no method save; allowed: "):
            dlpool.Pool(Half())
        half = Half()
        half.slots = dlpool.Map()
        self.serve(half)
        with self.assertRaisesRegex(dlpool.ObjectError, "^this object cannot be read$"):
            self.pool().read("a")

    def test_a_member_without_a_directory_or_with_another_secret_says_so(self):
        directory = self.directory()
        other = os.path.join(self.folder, "other")
        with dlpool.Directory(other):
            with self.assertRaisesRegex(dlpool.PeerError, "does not answer, or has another secret$"):
                dlpool.Pool(Texts(), secret_file=other).serve()
        member = dlpool.Pool(Texts())
        directory.close()
        with self.assertRaises(dlpool.PeerError):
            member.serve()
        with self.assertRaisesRegex(dlpool.StateError, "has served already"):
            member.serve()

    def test_an_interrupt_ends_serve_at_once(self):
        directory = self.directory()
        process = subprocess.Popen([sys.executable, "-c", "import dlpool, pool_learner; dlpool.Pool(pool_learner.Counts()).serve()"], cwd=self.folder,
                                   env=dict(os.environ, PYTHONPATH=pool_run.PACKAGE + ":" + support.HERE), stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.until(directory, 1)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=30)[1]
        self.assertIn("KeyboardInterrupt", error.splitlines()[-1])
        self.assertNotIn("Exception ignored", error)
        self.assertLess(time.monotonic() - begin, 10)


class Maps(support.Case):
    def test_what_was_saved_is_loaded_and_what_is_cut_short_is_refused(self):
        arrays = dlpool.Map(np.ndarray.tobytes, lambda data: np.frombuffer(data, np.float32).copy())
        keys = [dlpool.Key("a", 3), dlpool.Key(os.fsdecode(b"\xff"), 3), dlpool.Key("", 3)]
        for i, key in enumerate(keys):
            arrays[key] = np.arange(i + 1, dtype=np.float32)
        other = dlpool.Map(np.ndarray.tobytes, lambda data: np.frombuffer(data, np.float32).copy())
        other[dlpool.Key("old", 3)] = np.zeros(1, np.float32)
        saved = arrays.save(3)
        other.load(3, saved)
        self.assertEqual(list(other), keys)
        for key in keys:
            np.testing.assert_array_equal(other[key], arrays[key])
        for size in range(1, len(saved)):
            if size in (8 + 1 + 8 + 4, 8 + 1 + 8 + 4 + 8 + 1 + 8 + 8):  # whole keys
                continue
            with self.assertRaisesRegex(ValueError, "cut short"):
                other.load(3, saved[:size])
        self.assertEqual(len(other), 3)
        del other[keys[0]]
        self.assertNotIn(keys[0], other)
        other.drop(3)
        self.assertEqual((len(other), other.save(3), arrays.save(4)), (0, b"", b""))


class UnderDlrun(PoolCase):
    def test_servers_in_python_come_leave_and_are_killed_while_learners_count(self):
        run = pool_run.Run(self, "cpp", "pool_learner.py", "700", "0.02")
        run.until_servers(3)
        with open(os.path.join(self.folder, "server.1")) as file:
            os.kill(int(file.read()), signal.SIGKILL)
        run.until_servers(3)
        run.until_servers(1)
        output = run.output()
        self.assertEqual(output.count("] 0 keys are wrong\n"), 2, output)
        self.assertIn("(SIGKILL); the pool goes on", output)


if __name__ == "__main__":
    support.main(needs=("numpy",))
