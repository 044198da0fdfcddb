# SPDX-License-Identifier: Apache-2.0
"""What the tests of this folder share: TAP from unittest, the built library, temporary folders, and several learners."""
import contextlib
import importlib.util
import itertools
import json
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.environ.get("top_srcdir") or os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("top_builddir") or os.path.join(SOURCE, "build")
PACKAGE = os.path.join(SOURCE, "checkpoint", "python")
LIBRARY = os.path.join(BUILD, "checkpoint", ".libs", "libdlckpt.so.1")

sys.path.insert(0, PACKAGE)
sys.dont_write_bytecode = True
if "DLCKPT_LIBRARY" not in os.environ and os.path.exists(LIBRARY):
    os.environ["DLCKPT_LIBRARY"] = LIBRARY
# What a job around the tests may have set is not theirs.
for name in list(os.environ):
    if name.startswith(("DL_", "SLURM_", "PMI", "OMPI_", "TORCHELASTIC_")) and not name.startswith("DL_TEST_"):
        del os.environ[name]
for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "CHECKPOINT_DIR"):
    os.environ.pop(name, None)


def use_frameworks():
    """Goes on in the interpreter of packaging/install-frameworks, which has the current frameworks, or skips the whole file
    with the reason. Call it before anything large is imported."""
    folder = os.environ.get("DL_TEST_FRAMEWORKS") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "slurm-dl", "frameworks")
    interpreter = os.path.join(folder, "bin", "python")
    if os.path.realpath(sys.prefix) == os.path.realpath(folder):
        return
    if not os.path.exists(os.path.join(folder, "complete")):
        reason = "there are no current frameworks in %s (packaging/install-frameworks)" % folder
        if os.path.exists(folder + ".missing"):
            with open(folder + ".missing") as said:
                reason = said.read().strip()
        print("1..0 # SKIP " + reason)
        sys.exit(0)
    # The cleaned environment goes on too; a user's own packages do not.
    os.execv(interpreter, [interpreter, "-s"] + sys.argv)


class Case(unittest.TestCase):
    """A test with a folder of its own and dlckpt's sentences caught in ``self.said``."""

    def setUp(self):
        import dlckpt
        self.folder = tempfile.mkdtemp(prefix="dlckpt-test-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.dir = os.path.join(self.folder, "ckpt")
        self.said = []
        dlckpt.set_log(self.said.append)
        self.addCleanup(dlckpt.set_log, None)

    def saying(self, part):
        """Asserts that a sentence with this part was said."""
        self.assertTrue(any(part in sentence for sentence in self.said), "%r is not in %r" % (part, self.said))


@contextlib.contextmanager
def environment(**changes):
    """Sets variables (None: unsets) for a while."""
    before = {name: os.environ.get(name) for name in changes}
    try:
        for name, value in changes.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = str(value)
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def free_port():
    """A port below those that the kernel gives out by itself, so that nobody else gets it before a learner takes it. One of those
    where there is none below."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        lowest = int(file.read().split()[0])
    for port in random.sample(range(lowest // 3, lowest), 100):
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def _environment(changes):
    env = dict(os.environ, PYTHONPATH=PACKAGE, PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1")
    env.update({name: str(value) for name, value in changes.items()})
    return env


def python(script, *args, **changes):
    """Starts ``python3 script args`` with the package and library; keyword arguments are environment variables."""
    return subprocess.Popen([sys.executable, os.path.join(HERE, script)] + [str(a) for a in args], env=_environment(changes), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


# For preload(): what learners import of PyTorch, by themselves or when they make an optimizer.
TORCH = ("torch", "torch._dynamo", "torch.distributed.checkpoint", "torch.distributed.fsdp", "torch.distributed.tensor")
_PRELOADED = {}  # by script: the modules
_FORKS = {}  # by modules: processes that fork, or none where they cannot
_CALLS = itertools.count()


def preload(modules, *scripts):
    """learners() forks those of the scripts from processes that have imported the modules (forks.py) instead of starting an interpreter
    for each. one() and python() start an interpreter always."""
    _PRELOADED.update(dict.fromkeys(scripts, tuple(modules)))


def _forks(modules):
    if modules not in _FORKS:
        # Two, so that the learners of a run differ in their hashes of strings, as separate interpreters do.
        started = [_Forks(modules) for _ in range(2)]
        reasons = [reason for reason in (forks.why_not() for forks in started) if reason]
        if reasons:
            print("# forks.py: %s. Each learner is an interpreter of its own." % reasons[0], flush=True)
        _FORKS[modules] = [] if reasons else started
    return _FORKS[modules]


class _Forks:
    """A process of forks.py. It ends when its socket is closed, at the latest with this process."""

    def __init__(self, modules):
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(300)
        with theirs:
            self._process = subprocess.Popen([sys.executable, os.path.join(HERE, "forks.py"), str(theirs.fileno()), *modules],
                                             env=_environment({}), stdout=subprocess.DEVNULL, pass_fds=[theirs.fileno()])

    def end(self):
        self.socket.close()
        self._process.wait()

    def why_not(self):
        said = self.socket.recv(4096).decode()
        return "" if said == "ready" else said or "it ended with status %d" % self._process.wait()


class _Forked:
    """A learner that forks.py made: of subprocess.Popen what learners() uses."""

    def __init__(self, forks, script, args, env):
        self._script, self.returncode = script, None
        pipes = [os.pipe() for _ in range(3)]  # output, errors, and process id with exit code
        self._texts = {begin: b"" for begin, _ in pipes}
        self._open = list(self._texts)
        request = {"script": os.path.join(HERE, script), "args": [str(a) for a in args], "environment": env}
        socket.send_fds(forks.socket, [json.dumps(request).encode()], [end for _, end in pipes])
        for _, end in pipes:
            os.close(end)
        said = os.read(self._open[2], 100)
        self._texts[self._open[2]] += said
        self._pid = int(said.split()[0])

    def communicate(self, timeout):
        end = time.monotonic() + timeout
        while self._open:
            ready = select.select(self._open, [], [], max(0, end - time.monotonic()))[0]
            if not ready:
                raise subprocess.TimeoutExpired(self._script, timeout)
            for descriptor in ready:
                piece = os.read(descriptor, 1 << 16)
                self._texts[descriptor] += piece
                if not piece:
                    self._open.remove(descriptor)
                    os.close(descriptor)
        out, error, status = (text.decode().replace("\r\n", "\n").replace("\r", "\n") for text in self._texts.values())
        self.returncode = int(status.split()[1])
        return out, error

    def poll(self):
        return self.returncode

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)


def _learner(rank, call, script, args, changes):
    forks = _forks(_PRELOADED[script]) if script in _PRELOADED else []
    if not forks:
        return python(script, *args, **changes)
    return _Forked(forks[(call + rank) % len(forks)], script, args, _environment(changes))


def learners(count, script, *args, timeout=600, **changes):
    """Runs ``count`` learners as torchrun would start them, to their end. [(exit code, stdout, stderr)] by rank."""
    port, run_id, call = free_port(), uuid.uuid4().hex, next(_CALLS)
    running = [_learner(rank, call, script, args, dict(
        changes, RANK=rank, WORLD_SIZE=count, LOCAL_RANK=rank, MASTER_ADDR="127.0.0.1", MASTER_PORT=port, DL_RUN_ID=run_id,
        GLOO_SOCKET_IFNAME="lo")) for rank in range(count)]
    ended = []
    try:
        for process in running:
            out, err = process.communicate(timeout=timeout)
            ended.append((process.returncode, out, err))
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.communicate(timeout=timeout)
    return ended


def one(script, *args, timeout=600, **changes):
    """Runs a single process to its end: (exit code, stdout, stderr)."""
    process = python(script, *args, **changes)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return process.returncode, out, err


class _Tap(unittest.TestResult):
    """Prints each test's first line of text, or its name, as TAP."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def _line(self, verdict, test, note=""):
        self.count += 1
        name = test.shortDescription() or test.id().split(".", 1)[-1].replace("test_", "").replace("_", " ")
        print("%s %d - %s%s" % (verdict, self.count, name, note), flush=True)

    def _failed(self, test, error):
        self._line("not ok", test)
        for line in self._exc_info_to_string(error, test).splitlines():
            print("# " + line, flush=True)

    def addSuccess(self, test):
        self._line("ok", test)

    def addSkip(self, test, reason):
        self._line("ok", test, " # SKIP " + reason)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self._failed(test, error)

    def addError(self, test, error):
        super().addError(test, error)
        self._failed(test, error)

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self._failed(subtest, error)


def main(needs=()):
    """Runs the tests of the calling file; ``needs`` names modules without which all are skipped. Where learners are forked, this process
    may need none of them, and imports none here."""
    # A test run in the background of a shell without job control is started with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for module in needs:
        try:
            if not _PRELOADED or importlib.util.find_spec(module) is None:
                __import__(module)
        except ImportError:
            print("1..0 # SKIP %s has no module %s" % (sys.executable, module))
            sys.exit(0)
    if not os.environ.get("DLCKPT_LIBRARY"):
        print("1..0 # SKIP libdlckpt is not built (%s)" % LIBRARY)
        sys.exit(0)
    tests = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    result = _Tap()
    tests.run(result)
    for forks in sum(_FORKS.values(), []):
        forks.end()
    print("1..%d" % result.count)
    sys.exit(0 if result.wasSuccessful() else 1)
