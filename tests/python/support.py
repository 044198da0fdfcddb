# SPDX-License-Identifier: Apache-2.0
"""What the tests of this folder share: TAP from unittest, the built library, temporary folders, and several learners."""
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
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
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def python(script, *args, **changes):
    """Starts ``python3 script args`` with the package and library; keyword arguments are environment variables."""
    env = dict(os.environ, PYTHONPATH=PACKAGE, PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1")
    env.update({name: str(value) for name, value in changes.items()})
    return subprocess.Popen([sys.executable, os.path.join(HERE, script)] + [str(a) for a in args], env=env, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def learners(count, script, *args, timeout=120, **changes):
    """Runs ``count`` learners as torchrun would start them, to their end. [(exit code, stdout, stderr)] by rank."""
    port, run_id = free_port(), uuid.uuid4().hex
    running = [python(script, *args, RANK=rank, WORLD_SIZE=count, LOCAL_RANK=rank, MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
                      DL_RUN_ID=run_id, GLOO_SOCKET_IFNAME="lo", **changes) for rank in range(count)]
    ended = []
    try:
        for process in running:
            out, err = process.communicate(timeout=timeout)
            ended.append((process.returncode, out, err))
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.communicate()
    return ended


def one(script, *args, timeout=120, **changes):
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
    """Runs the tests of the calling file; ``needs`` names modules without which all are skipped."""
    # A test run in the background of a shell without job control is started with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for module in needs:
        try:
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
    print("1..%d" % result.count)
    sys.exit(0 if result.wasSuccessful() else 1)
