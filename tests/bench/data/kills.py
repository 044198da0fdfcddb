# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random moments of fetch, eviction and store: nothing wrong, nothing in part under its final name, little read twice."""
import collections
import filecmp
import json
import os
import random
import shutil
import signal
import subprocess
import time

CHUNK = 64 << 20  # of which a killed fetch may lose one for each stream
LARGE = 100 << 20  # more than one chunk
SMALL = 300
# What dl-data reads besides: itself and its libraries, manifests, journals, and of small files the one in hand.
BESIDES = 4 << 20
STORES = 30  # kills in one destination


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


def files_below(folder):
    for parent, _folders, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            yield os.path.relpath(path, folder), path


class Compared:
    """Compares files byte for byte; those that nobody has touched since they were found to be good are not read again."""

    def __init__(self):
        self.good = {}

    def same(self, path, *sources):
        status = os.lstat(path)
        state = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if self.good.get(path) == state:
            return True
        if not any(os.path.exists(source) and filecmp.cmp(path, source, shallow=False) for source in sources):
            return False
        self.good[path] = state
        return True

    def tree(self, source, other):
        """What of a tree is not as in its source."""
        wanted, found = dict(files_below(source)), dict(files_below(other))
        yield from sorted(set(wanted) ^ set(found))
        for name in set(wanted) & set(found):
            if not self.same(found[name], wanted[name]):
                yield name


def kept_of(own, source):
    """The bytes of a source that the next fetch need not read: files that are complete, and chunks in journals."""
    total = 0
    for name in os.listdir(os.path.join(own, "sets")) if os.path.isdir(own) else []:
        try:
            with open(os.path.join(own, "sets", name, "set.json"), encoding="utf-8") as file:
                if json.load(file)["source"] == source:
                    return LARGE + sum(os.path.getsize(path) for _, path in files_below(os.path.join(source, "sub")))
        except OSError:
            continue
    for name in os.listdir(os.path.join(own, "unfinished")) if os.path.isdir(own) else []:
        work = os.path.join(own, "unfinished", name)
        try:
            with open(os.path.join(work, "wanted"), encoding="utf-8") as file:
                if file.read().split(" ", 1)[1].strip() != source:
                    continue
        except OSError:
            continue
        for below, path in files_below(os.path.join(work, "tree")):
            # It gets its time last.
            if os.stat(path).st_mtime_ns == os.stat(os.path.join(source, below)).st_mtime_ns:
                total += os.path.getsize(path)
        for _, path in files_below(os.path.join(work, "parts")):
            if path.endswith(".journal"):
                with open(path, encoding="utf-8") as file:
                    lines = file.read().split("\n")[1:-1]
                total += sum(min(CHUNK, LARGE - CHUNK * int(line.split()[0])) for line in lines)
    return total


def read_by(pid):
    with open("/proc/%d/io" % pid, encoding="utf-8") as file:
        return int(file.readline().split()[1])


class Kills:
    def __init__(self, place):
        self.place, self.chance, self.compared = place, random.Random(1), Compared()
        self.sources = [place.path("kill-source-%d" % number) for number in range(3)]
        for number, source in enumerate(self.sources):
            make_source(source, number)
        self.cache = place.path("kill-cache")
        self.own = os.path.join(self.cache, str(os.getuid()))
        self.pause = collections.defaultdict(lambda: 0.1)  # how long each of the commands may run, by chance
        self.kills, self.left, self.most_twice = collections.Counter(), collections.Counter(), collections.Counter()

    def stored(self, number):
        return self.place.path("kill-stored-%d" % (number // STORES))

    def command(self, number):
        """What is killed in this try: its name, source, streams and words. Of three fetches one evicts."""
        if number % 12 == 11:
            return "gc", "", 0, ["gc", "--all", "--cache", self.cache]
        if number % 3 == 2:
            return "store", "", 0, ["store", "--from", self.sources[number % 2] + "=x", "--to", self.stored(number)]
        source, streams = self.chance.choice(self.sources), self.chance.choice([1, 1, 4])
        with open(self.place.path("kill.json"), "w", encoding="utf-8") as file:
            json.dump({"version": 1, "sources": [{"from": source, "cache": "node"}]}, file)
        # Two sets fit, so that the third evicts one.
        return "fetch", source, streams, ["fetch", "--sources", self.place.path("kill.json"), "--cache", self.cache, "--dest",
                                          self.place.path("kill-dest"), "--floor", "0", "--limit", str(int(2.5 * LARGE)),
                                          "--streams", str(streams)]

    def trash(self):
        return set(os.listdir(os.path.join(self.own, "trash")) if os.path.isdir(os.path.join(self.own, "trash")) else [])

    def wrong_now(self, number):
        for key in os.listdir(os.path.join(self.own, "sets")) if os.path.isdir(self.own) else []:
            with open(os.path.join(self.own, "sets", key, "set.json"), encoding="utf-8") as file:
                source = json.load(file)["source"]
            for name in self.compared.tree(source, os.path.join(self.own, "sets", key, "tree")):
                yield "%s differs in the set of %s" % (name, source)
        for name, path in files_below(self.stored(number)):
            below = os.path.relpath(name, "x")
            if not name.endswith(".dl-data-part") and name != "dl-results.json":
                if not self.compared.same(path, *[os.path.join(source, below) for source in self.sources[:2]]):
                    yield "%s was stored in part" % name
            elif name == "dl-results.json":
                with open(path, encoding="utf-8") as file:
                    listed = {one["path"] for one in json.load(file)["files"]}
                if not listed <= {one for one, _ in files_below(self.stored(number))}:
                    yield "the manifest of what is stored names what is not there"

    def one(self, number):
        """One try: whether it was killed before its end, and what is wrong."""
        name, source, streams, words = self.command(number)
        before, trash = kept_of(self.own, source), self.trash()
        process = subprocess.Popen([self.place.dl_data] + words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(self.chance.random() * self.pause[name])
        process.send_signal(signal.SIGSTOP)  # so that what it has read can be seen
        read = 0
        try:
            read = read_by(process.pid)
        except (OSError, ValueError, IndexError):
            pass
        process.send_signal(signal.SIGKILL)
        said = process.communicate()[1].decode()
        killed = process.returncode == -signal.SIGKILL
        # About one in eight ends by itself, so that all of the time up to the end is hit.
        self.pause[name] *= 1.02 if killed else 0.88
        found = list(self.wrong_now(number))
        if killed:
            self.kills[name] += 1
            self.left[name + " with its work kept"] += name == "fetch" and before != kept_of(self.own, source)
            self.left[name + " in mid-eviction"] += bool(self.trash() - trash)
            if name == "fetch":
                twice = read - max(0, kept_of(self.own, source) - before)
                self.most_twice[streams] = max(self.most_twice[streams], twice)
                if twice > streams * CHUNK + BESIDES:
                    found.append("%d bytes will be read again, with %d streams" % (twice, streams))
        elif process.returncode != 0:
            found.append("ended with %d: %s" % (process.returncode, said))
        return killed, ["try %d (%s): %s" % (number, name, text) for text in found]

    def clear(self, number):
        if number % STORES == STORES - 1:
            shutil.rmtree(self.stored(number), ignore_errors=True)


def run(place, wanted, seconds, told):
    """Kills so often, or for so long; the kills, those after which all was right, what was wrong, and a sentence about them."""
    kills = Kills(place)
    number = done = good = 0
    wrong = []
    until = time.monotonic() + seconds
    while done < wanted and time.monotonic() < until:
        told(done, wanted, "kill")
        killed, found = kills.one(number)
        wrong += found
        done += killed
        good += killed and not found
        kills.clear(number)
        number += 1
    words = ["%d of %s" % (count, name) for name, count in sorted(kills.kills.items())]
    words += ["%d %s" % (count, name) for name, count in sorted(kills.left.items()) if count]
    words += ["at most %.1f MiB read again with %d streams" % (most / (1 << 20), streams) for streams, most in sorted(kills.most_twice.items())]
    return done, good, wrong, "%d kills in %d tries: %s" % (done, number, "; ".join(words))
