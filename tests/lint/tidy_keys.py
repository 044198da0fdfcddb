#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""For tests/lint/tidy.sh: which files it found clean before, told by the contents of all that they include, without preprocessing them.

  tidy_keys.py known CACHE OUT TOP BUILD <FILES   marks in OUT/clean the files that are known to be clean, and prints the others
  tidy_keys.py keep CACHE OUT TOP BUILD <FILES    of files that were preprocessed, whose included files are in OUT/depends as make reads
      them: keeps in CACHE what they include; writes to OUT/stamps the path of each one's stamp, and the stamp if it is in OUT/clean

The list of what a file includes is as old as the last time that it was preprocessed. Another list would come from another content of one of
these files, so from another key; a new header does not come in between, since what is included is named by its path from the top of the tree
(includes.sh). $DL_TIDY_KEY has the settings."""
import hashlib
import os
import sys

task, cache, out, top, build = sys.argv[1:]
settings = os.environ["DL_TIDY_KEY"].encode()
lists = os.path.join(cache, "includes")
digests = {}


def in_tree(path):
    """The path without the folders that this copy of the tree lies in."""
    path = os.path.normpath(os.path.join(top, path))
    for folder, name in ((build, "build:"), (top, "top:")):
        if path.startswith(folder + "/"):
            return name + path[len(folder) + 1:]
    return path


def digest_of(path):
    if path not in digests:
        name = path.replace("build:", build + "/", 1) if path.startswith("build:") else path.replace("top:", top + "/", 1)
        try:
            with open(name, "rb") as file:
                digests[path] = hashlib.sha256(file.read()).digest()
        except OSError:
            digests[path] = None
    return digests[path]


def stamp_of(file, included):
    """Where the stamp of a file lies that includes these, or None if one of them is gone."""
    key = hashlib.sha256(b"\0".join((b"by content", settings, file.encode())))
    for path in included:
        digest = digest_of(path)
        if digest is None:
            return None
        key.update(path.encode() + b"\0" + digest)
    return os.path.join(cache, key.hexdigest()[:40])


def list_of(file):
    return os.path.join(lists, hashlib.sha256(settings + b"\0" + file.encode()).hexdigest()[:40])


def touch(path):
    with open(path, "w"):
        pass


def main():
    files = sys.stdin.read().split()
    for file in files:
        name = file.replace("/", "_")
        clean = os.path.join(out, "clean", name)
        if task == "known":
            try:
                with open(list_of(file)) as kept:
                    stamp = stamp_of(file, kept.read().splitlines())
            except OSError:
                stamp = None
            if stamp and os.path.exists(stamp):
                touch(clean)
            else:
                print(file)
            continue
        try:
            with open(os.path.join(out, "depends", name)) as rule:
                included = rule.read().replace("\\\n", " ").split()[1:]
        except OSError:
            continue  # it could not be preprocessed
        included = list(dict.fromkeys(in_tree(path) for path in included))
        stamp = stamp_of(file, included)
        if not stamp:
            continue
        os.makedirs(lists, exist_ok=True)
        new = "%s.%d" % (list_of(file), os.getpid())
        with open(new, "w") as kept:
            kept.write("\n".join(included) + "\n")
        os.rename(new, list_of(file))
        with open(os.path.join(out, "stamps", name), "w") as place:
            place.write(stamp + "\n")
        if os.path.exists(clean):
            touch(stamp)


main()
