# SPDX-License-Identifier: Apache-2.0
"""What was measured, kept in a file group by group, so that an interrupted run goes on where it was; and a fragment of a
document between two markers."""
from __future__ import annotations

import json
import os
import tempfile
from typing import Any, Dict, Optional


def write_atomically(path: str, text: str) -> None:
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".write-")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)


class Record:
    """key: what the figures hold for (the build, the settings); a record with another key, or older than max_age_s, is begun
    anew."""

    def __init__(self, path: str, key: str, now: float, max_age_s: float = 6 * 3600) -> None:
        self._path = path
        self._data: Dict[str, Any] = {"key": key, "begun": now, "facts": {}, "groups": {}}
        try:
            with open(path, encoding="utf-8") as file:
                old = json.load(file)
            if old.get("key") == key and now - old.get("begun", 0) < max_age_s:
                self._data = old
        except (OSError, ValueError):
            pass

    @property
    def facts(self) -> Dict[str, Any]:
        return self._data["facts"]

    def get(self, group: str) -> Optional[Dict[str, Any]]:
        return self._data["groups"].get(group)

    def put(self, group: str, found: Dict[str, Any]) -> None:
        self._data["groups"][group] = found
        self.save()

    def save(self) -> None:
        write_atomically(self._path, json.dumps(self._data, indent=1) + "\n")


class Recorded:
    """What is recorded for good, group by group: when and where each was measured, and what was found (missing where only its
    rows were kept)."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._groups: Dict[str, Any] = {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                self._groups = json.load(file)

    def facts(self, group: str) -> Optional[Dict[str, Any]]:
        return self._groups.get(group, {}).get("facts")

    def found(self, group: str) -> Optional[Dict[str, Any]]:
        return self._groups.get(group, {}).get("found")

    def put(self, group: str, facts: Dict[str, Any], found: Dict[str, Any]) -> None:
        self._groups[group] = {"facts": facts, "found": found}

    def save(self) -> None:
        write_atomically(self._path, json.dumps(self._groups, indent=1, sort_keys=True) + "\n")


def replace_fragment(path: str, name: str, text: str) -> None:
    """Puts `text` between the lines "<!-- NAME begin ... -->" and "<!-- NAME end -->" of a document."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    begin = [i for i, line in enumerate(lines) if line.startswith("<!-- %s begin" % name)]
    end = [i for i, line in enumerate(lines) if line.startswith("<!-- %s end" % name)]
    if len(begin) != 1 or len(end) != 1 or begin[0] > end[0]:
        raise ValueError("%s has no lines '<!-- %s begin -->' and '<!-- %s end -->'" % (path, name, name))
    lines[begin[0] + 1:end[0]] = text.strip("\n").split("\n")
    write_atomically(path, "\n".join(lines))
