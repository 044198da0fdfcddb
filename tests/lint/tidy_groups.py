#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""For tests/lint/tidy.sh: prints the files of standard input in groups of at most so many that may be compiled as one, a group in each line,
the largest first. usage: tidy_groups.py MOST

Two files may not if both define a name at the same level of namespaces, as two anonymous namespaces may. Names are looked for as the
formatted sources have them, at the beginning of a line; what is missed costs time only, since tidy.sh divides a group that does not compile."""
import os
import re
import sys

NAMESPACE = re.compile(r"namespace ?([\w:]*) \{")
TYPE = re.compile(r"(?:template <.*> ?)?(?:struct|class|enum class|enum|union|using) (\w+)\b(?!.*;$)|using (\w+) = ")
OTHER = re.compile(r"[A-Za-z_][\w:<>,&*\[\] ]*?[ &*>](\w+)(?:\[.*\])?(?:\(| = |\{|;)")


def names_in(file):
    """What the file defines: (namespace, name)."""
    namespaces, names = [], set()
    with open(file, encoding="utf-8") as lines:
        for line in lines:
            opened = NAMESPACE.match(line)
            if opened:
                namespaces.append(opened.group(1))
            elif line.startswith("}  // namespace"):
                del namespaces[-1:]
            elif line.startswith("#define "):
                names.add(("#", re.split(r"\W", line[8:], maxsplit=1)[0]))
            elif line[0] not in " }\n/#":
                found = TYPE.match(line) or OTHER.match(line)
                if found:
                    names.add(("::".join(filter(None, namespaces)), found.group(found.lastindex)))
    return names


def main():
    most = int(sys.argv[1])
    groups = []  # [files], {names}, bytes
    for file in sorted(sys.stdin.read().split()):
        names = names_in(file)
        for group in groups:
            if len(group[0]) < most and not names & group[1]:
                break
        else:
            group = [[], set(), 0]
            groups.append(group)
        group[0].append(file)
        group[1].update(names)
        group[2] += os.path.getsize(file)
    for files, _, _ in sorted(groups, key=lambda group: -group[2]):
        print(*files)


main()
