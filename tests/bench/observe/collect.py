# SPDX-License-Identifier: Apache-2.0
"""How fast event files are read, beside TensorBoard's own readers, and how fast expressions are found in a log."""
import os
import re
import select
import subprocess
import sys
import time

from dlbench.rows import Row
from dlbench.samples import Series, Unavailable, alternate

MIB = 1 << 20
# Five of them find what the lines of LINES have.
EXPRESSIONS = ("step %{INT:step} loss %{FLOAT:loss}", "accuracy %{FLOAT:accuracy}", "lr=%{FLOAT:lr}", "val_loss: %{FLOAT:val_loss}",
               "tokens/s %{INT:tokens_per_s}")
LINES = ("step %(at)d loss 0.%(at)d accuracy 0.%(at)d lr=1e-4 tokens/s %(at)d\n"
         "epoch %(at)d done, val_loss: 0.%(at)d\n"
         "INFO: the data loader has read shard-%(at)d.tar, and waits for the next one of this epoch\n")


def seconds(program, *words):
    return float(subprocess.check_output([program, *words]).split()[0])


def server_of(python):
    """TensorBoard's data server, which its package brings along."""
    words = [python, "-c", "import tensorboard_data_server; print(tensorboard_data_server.server_binary())"]
    found = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True, check=False)
    if found.returncode != 0 or not os.path.exists(found.stdout.strip()):
        raise Unavailable("%s has no package tensorboard-data-server" % python)
    return found.stdout.strip()


def served(server, folder):
    """Seconds in which the server has loaded the folder, as it says itself."""
    words = [server, "--logdir", folder, "--reload", "once", "--port", "0", "--checksum", "--verbose"]
    one = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said, end = b"", time.monotonic() + 300
    try:
        while time.monotonic() < end:
            if not select.select([one.stderr], [], [], 1)[0]:
                continue
            part = os.read(one.stderr.fileno(), 65536)
            said += part
            found = re.search(rb"Finished load cycle \(([0-9.]+)(s|ms|\xc2\xb5s)\)", said)
            if found:
                return float(found.group(1)) * {b"s": 1, b"ms": 1e-3}.get(found.group(2), 1e-6)
            if not part:
                break
    finally:
        one.kill()
        one.communicate()
    raise Unavailable("TensorBoard's data server does not say when it has loaded: %s" % said[-200:].decode(errors="replace"))


LOADER = """
import sys, time
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
began = time.monotonic()
for path in sys.argv[1:]:
    for event in LegacyEventFileLoader(path).Load():
        pass
print(time.monotonic() - began)
"""


def loaded(python, path):
    """Seconds in which TensorBoard's loader in Python has read the file."""
    found = subprocess.run([python, "-c", LOADER, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, check=False)
    if found.returncode != 0:
        raise Unavailable("%s has no package tensorboard: %s" % (python, found.stderr.strip()[-100:]))
    return float(found.stdout)


def event_rows(program, python, folder, quick, runs, told):
    rows = []
    for kind, mib in (("scalars", 4 if quick else 128), ("mixed", 4 if quick else 256)):
        logs, small = os.path.join(folder, kind), os.path.join(folder, kind + "-small")
        for where, size in ((logs, mib), (small, min(mib, 2))):
            os.makedirs(where)
            file = os.path.join(where, "events.out.tfevents.1790000000.host.1.0")
            subprocess.run([program, "write", file, str(size)] + (["other"] if kind == "mixed" else []), check=True)
        sizes = [os.path.getsize(os.path.join(where, os.listdir(where)[0])) / 1e6 for where in (logs, small)]
        subjects = {"ours": lambda _n, logs=logs, size=sizes[0]: {"rate": size / seconds(program, "read", logs)}}
        missing = {"loader": "left out by --quick"} if quick else {}
        peers = {"data server": lambda _n, logs=logs, size=sizes[0]: {"rate": size / served(server_of(python), logs)},
                 "loader": lambda _n, small=small, size=sizes[1]: {"rate": size / loaded(python, os.path.join(small, os.listdir(small)[0]))}}
        for name, measure in peers.items():
            if name in missing:
                continue
            try:
                measure(0)
                subjects[name] = measure
            except Unavailable as why:
                missing[name] = str(why)
        found = alternate(subjects, runs, 0 if quick else 1, told)
        label = {"scalars": "event files of scalars alone", "mixed": "event files with histograms and pictures"}[kind]
        ours = Series(found["rate/ours"])
        rows.append(Row("observe.events." + kind, label, "limit", "MB/s", ">= 1.0", ours, Series([500.0])))
        for name, peer in (("data server", "TensorBoard's data server"), ("loader", "its loader in Python")):
            other = Series(found["rate/" + name]) if name in subjects else None
            rows.append(Row("observe.events.%s.%s" % (kind, name.replace(" ", "-")), label, peer, "MB/s", ">= 1.0" if other else None, ours,
                            other, missing.get(name, "")))
        if kind == "scalars":
            kept = Series([])
            for _ in range(runs):
                kept.values.append(sizes[0] / seconds(program, "keep", logs))
                os.unlink(os.path.join(logs, "learner-0.series"))
            rows.append(Row("observe.events.kept", "the same, kept as series by all of dl-metrics", "reading alone", "MB/s", None, kept, ours))
    return rows


def pattern_rows(program, folder, quick, runs):
    log = os.path.join(folder, "learner.log")
    with open(log, "w", encoding="ascii") as file:
        size = at = 0
        while size < (2 if quick else 64) * MIB:
            size += file.write("".join(LINES % {"at": number} for number in range(at, at + 5000)))
            at += 5000
    rates = Series([size / 1e6 / seconds(program, "patterns", log, *EXPRESSIONS) for _ in range(runs)])
    return [Row("observe.patterns", "five expressions in the lines of a log, a core", "limit", "MB/s", ">= 1.0", rates, Series([50.0]))]


def rows(build, python, folder, quick, runs):
    def told(done, of, subject):
        if sys.stderr.isatty():
            sys.stderr.write("\r%d of %d: %-20s" % (done + 1, of, subject))

    program = os.path.join(build, "tests", "bench", "observe", "collect_once")
    return event_rows(program, python, folder, quick, runs, told) + pattern_rows(program, folder, quick, runs)
