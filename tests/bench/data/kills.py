# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random moments of fetch, eviction and store: nothing wrong, nothing in part under its final name."""
import filecmp
import json
import os
import random
import shutil
import signal
import subprocess
import time

LARGE = 100 << 20  # more than one chunk
SMALL = 300


def make_source(folder, seed):
    chance = random.Random(seed)
    os.makedirs(os.path.join(folder, "sub"))
    with open(os.path.join(folder, "large"), "wb") as file:
        block = chance.randbytes(1 << 20)
        for number in range(LARGE >> 20):
            file.write(number.to_bytes(8, "little") + block[8:])
    for number in range(SMALL):
        with open(os.path.join(folder, "sub", "%d" % number), "wb") as file:
            file.write(chance.randbytes(chance.randrange(6000)))


def differences(one, other, ignore=()):
    """What differs between two trees, byte for byte."""
    found = []
    for folder, _folders, names in os.walk(one):
        there = os.path.join(other, os.path.relpath(folder, one))
        _same, different, strange = filecmp.cmpfiles(folder, there, names, shallow=False)
        found += different + strange
        extra = set(os.listdir(there)) - set(os.listdir(folder)) - set(ignore) if os.path.isdir(there) else {there}
        found += sorted(extra)
    return found


def run(place, tries, told):
    """Kills so often; the number of tries after which all was right, and what was wrong."""
    chance = random.Random(1)
    sources = [place.path("kill-source-%d" % number) for number in range(3)]
    for number, source in enumerate(sources):
        make_source(source, number)
    cache = place.path("kill-cache")
    good, wrong = 0, []

    def command(number):
        """The way in which this try is one of fetch, with evictions, and store."""
        if number % 3 == 2:
            return ["store", "--from", sources[number % 2] + "=x", "--to", place.path("kill-stored-%d" % (number // 30))]
        source = sources[chance.randrange(len(sources))]
        with open(place.path("kill.json"), "w", encoding="utf-8") as file:
            json.dump({"version": 1, "sources": [{"from": source}]}, file)
        # Two sets fit, so that the third evicts one.
        return ["fetch", "--sources", place.path("kill.json"), "--cache", cache, "--dest", place.path("kill-dest"), "--floor", "0",
                "--limit", str(int(2.5 * LARGE))]

    def check(number):
        own = os.path.join(cache, str(os.getuid()))
        for key in os.listdir(os.path.join(own, "sets")) if os.path.isdir(own) else []:
            with open(os.path.join(own, "sets", key, "set.json"), encoding="utf-8") as file:
                source = json.load(file)["source"]
            for name in differences(source, os.path.join(own, "sets", key, "tree")):
                yield "try %d: %s differs in the set of %s" % (number, name, source)
        stored = place.path("kill-stored-%d" % (number // 30))
        for folder, _folders, names in os.walk(stored):
            for name in names:
                if name.endswith(".dl-data-part") or name == "dl-results.json":
                    continue
                path = os.path.join(folder, name)
                below = os.path.relpath(path, os.path.join(stored, "x"))
                if not any(filecmp.cmp(path, os.path.join(source, below), shallow=False) for source in sources[:2]):
                    yield "try %d: %s was stored in part" % (number, name)

    for number in range(tries):
        told(number, tries, "kill")
        process = subprocess.Popen([place.dl_data] + command(number), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(chance.random() ** 2 * 0.4)
        process.send_signal(signal.SIGKILL)
        said = process.communicate()[1].decode()
        found = list(check(number))
        if process.returncode not in (0, -signal.SIGKILL):
            found.append("try %d: ended with %d: %s" % (number, process.returncode, said))
        wrong += found
        good += not found
        if number % 30 == 29:
            shutil.rmtree(place.path("kill-stored-%d" % (number // 30)), ignore_errors=True)
    return good, wrong
