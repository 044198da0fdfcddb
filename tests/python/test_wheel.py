# SPDX-License-Identifier: Apache-2.0
"""The wheel of dlckpt (packaging/build-wheel), installed by pip into a virtual environment."""
import base64
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile

import support

BUILD_WHEEL = os.path.join(support.SOURCE, "packaging", "build-wheel")
PROGRAM = """
import dlckpt, dlckpt.library

class Counter:
    n = 0

    def state_dict(self):
        return {"n": self.n}

    def load_state_dict(self, state):
        self.n = state["n"]

counter = Counter()
with dlckpt.attach(counter=counter, dir="ckpt") as job:
    print("restored", job.restored)
    for step in job.steps(3):
        counter.n += 1
print("counted", counter.n)
print(dlckpt.__file__)
"""


def run(*words, **variables):
    """Runs a command without the module of the source tree."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "DLCKPT_LIBRARY")}
    environment.update(PYTHONDONTWRITEBYTECODE="1", PIP_DISABLE_PIP_VERSION_CHECK="1", **variables)
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, env=environment, check=False)


class Wheel(support.Case):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory(prefix="dlckpt-wheel-")
        made = run(sys.executable, BUILD_WHEEL, cls.place.name)
        assert made.returncode == 0, made.stdout
        cls.path = made.stdout.strip()
        cls.venv = os.path.join(cls.place.name, "venv")
        cls.python = os.path.join(cls.venv, "bin", "python")
        cls.pip = run(sys.executable, "-m", "venv", cls.venv)
        if cls.pip.returncode == 0:
            cls.pip = run(cls.python, "-m", "pip", "install", "--no-index", "--no-deps", cls.path)

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def installed(self):
        if not os.path.exists(os.path.join(self.venv, "bin", "pip")):
            self.skipTest("no virtual environment can be made here (Debian: python3-venv)")
        self.assertEqual(self.pip.returncode, 0, self.pip.stdout)

    def package(self):
        found = run(self.python, "-c", "import dlckpt, os; print(os.path.dirname(dlckpt.__file__))")
        self.assertEqual(found.returncode, 0, found.stdout)
        return found.stdout.strip()

    def test_it_is_the_same_file_when_it_is_made_again(self):
        with tempfile.TemporaryDirectory() as other:
            again = run(sys.executable, BUILD_WHEEL, other).stdout.strip()
            self.assertEqual(os.path.basename(again), os.path.basename(self.path))
            with open(self.path, "rb") as one, open(again, "rb") as two:
                self.assertEqual(one.read(), two.read())

    def test_its_record_has_each_file_and_its_digest(self):
        with zipfile.ZipFile(self.path) as wheel:
            self.assertIsNone(wheel.testzip())
            record = [name for name in wheel.namelist() if name.endswith(".dist-info/RECORD")][0]
            rows = [line.split(",") for line in wheel.read(record).decode().splitlines()]
            self.assertEqual([row[0] for row in rows], wheel.namelist())
            for name, digest, size in rows[:-1]:
                data = wheel.read(name)
                self.assertEqual(len(data), int(size), name)
                self.assertEqual(digest, "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode(), name)

    def test_it_has_each_module_of_the_package(self):
        with zipfile.ZipFile(self.path) as wheel:
            names = {name.split("/", 1)[1] for name in wheel.namelist() if name.startswith("dlckpt/")}
        there = {name for name in os.listdir(os.path.join(support.PACKAGE, "dlckpt")) if name.endswith(".py")}
        self.assertEqual(names, there | {"py.typed", "release.txt"})

    def test_installed_by_pip_it_saves_and_resumes(self):
        self.installed()
        for restored in (False, True):
            done = subprocess.run([self.python, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True,
                                  cwd=self.folder, check=False,
                                  env={name: os.environ[name] for name in ("PATH", "DLCKPT_LIBRARY")})
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn(os.path.join("site-packages", "dlckpt"), done.stdout)
            self.assertIn("restored %s\ncounted 3\n" % restored, done.stdout)

    def test_without_a_library_it_says_what_to_set(self):
        self.installed()
        done = run(self.python, "-c", "import dlckpt.library; dlckpt.library.load()", DLCKPT_LIBRARY="/nowhere/libdlckpt.so.1")
        self.assertIn("set DLCKPT_LIBRARY to the path of libdlckpt.so.1", done.stdout)

    def test_an_older_library_and_one_of_another_major_version_are_refused_with_what_to_install(self):
        self.installed()
        path = os.path.join(self.package(), "release.txt")
        with open(path, encoding="ascii") as file:
            release = file.read()
        self.addCleanup(lambda: open(path, "w", encoding="ascii").write(release))
        load = "import dlckpt.library; dlckpt.library.load(); print('loaded', dlckpt.library.version())"
        library = os.environ["DLCKPT_LIBRARY"]
        own = run(self.python, "-c", load, DLCKPT_LIBRARY=library).stdout
        self.assertEqual(own, "loaded %s" % release)
        major = int(release.split(".")[0])
        for other, loads in (("%d.0.0" % major, True), (release.strip() + ".1", False), ("%d.999.0" % major, False), ("%d.0.0" % (major + 1), False)):
            with open(path, "w", encoding="ascii") as file:
                file.write(other + "\n")
            done = run(self.python, "-c", load, DLCKPT_LIBRARY=library)
            self.assertEqual(done.returncode == 0, loads, done.stdout)
            if not loads:
                self.assertIn("%s is libdlckpt %s, and this dlckpt package is of release %s" % (library, release.strip(), other), done.stdout)
                self.assertIn("pip install dlckpt-%s-py3-none-any.whl" % release.strip(), done.stdout)


if __name__ == "__main__":
    support.main()
