# SPDX-License-Identifier: Apache-2.0
"""What is recorded of this bench, group by group, and the documents that show it: pure but for reading and writing files."""
from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Optional, Sequence

from dlbench.record import Recorded, replace_fragment, write_atomically
from dlbench.rows import Row, markdown_table, text_table
from figure import draw
from fragments import guide_text, readme_text
from groups.base import Group
from states import FULL

NEEDED_FOR_PICTURE = ("durable-1g-large", "blocked-1g-large", "training")


def write_tables(folder: str, rows: Sequence[Row], about: str, times: Sequence[str] = ()) -> None:
    after = "\n".join(times)
    write_atomically(os.path.join(folder, "table.md"), "# libdlckpt beside others\n\n%s\n\n%s\n%s" % (
        about, markdown_table(rows), "\n" + "".join("- %s\n" % line for line in times) if times else ""))
    write_atomically(os.path.join(folder, "table.txt"), "%s\n\n%s\n%s" % (about, text_table(rows), "\n" + after + "\n" if times else ""))
    write_atomically(os.path.join(folder, "rows.json"), json.dumps([row.as_json() for row in rows], indent=1) + "\n")


def write_picture(path: str, found: Dict[str, Dict[str, Any]]) -> None:
    caption = "Medians of %d runs, of %d where they spread widely; thin lines: fastest and slowest." % (FULL.runs, FULL.runs_if_wide)
    write_atomically(path, draw(found, caption))


def measured_when(facts: Sequence[Dict[str, Any]]) -> str:
    """One or two sentences for all groups whose facts these are."""
    if not facts:
        return "Nothing was measured."
    dates = sorted({one["date"] for one in facts})
    about = "Measured %s, on %s." % ("on " + dates[0] if len(dates) == 1 else "from %s to %s" % (dates[0], dates[-1]),
                                     "; and on ".join(dict.fromkeys(one["machine"] for one in facts)))
    busy = max((one["others"] for one in facts if "others" in one), default=0.0)
    load = max((one["load_before"] for one in facts if "others" not in one), default=0.0)
    if busy > 0.1:
        about += " Other work used up to %.1f of its cores meanwhile: take the ratios with care." % busy
    elif load > 1:
        about += " The machine was busy with other work (load %.1f): take the ratios with care." % load
    return about


def when(group: Group, facts: Dict[str, Any], runs: Optional[int]) -> str:
    text = "%s (%s): %s" % (group.name, group.label, facts["date"])
    if runs:
        text += ", medians of %d" % runs
    if "others" in facts:
        return text + ", other work used %.2f cores" % facts["others"]
    return text + ", load %.1f before" % facts["load_before"]


def runs_of(found: Optional[Dict[str, Any]]) -> Optional[int]:
    return max((len(values) for values in (found or {}).get("values", {}).values()), default=None)


class Results:
    """The recorded results in `folder`, of all groups of a full run; those that a run does not measure again stay as they are."""

    def __init__(self, folder: str, groups: Sequence[Group]) -> None:
        self.folder, self.groups = folder, groups
        self.recorded = Recorded(os.path.join(folder, "measured.json"))
        self.kept: Dict[str, Any] = {}
        rows = os.path.join(folder, "rows.json")
        if os.path.exists(rows):
            with open(rows, encoding="utf-8") as file:
                self.kept = {row["name"]: row for row in json.load(file)}

    def take(self, measured: Dict[str, Dict[str, Any]]) -> None:
        """What was found now takes the place of what is recorded of the same groups."""
        for name, found in measured.items():
            self.recorded.put(name, found["facts"], {quantity: value for quantity, value in found.items() if quantity != "facts"})

    def rows(self) -> List[Row]:
        made = []
        for group in self.groups:
            found = self.recorded.found(group.name)
            for row in group.rows(found):
                if found is None and row.name in self.kept:
                    row.take(self.kept[row.name])
                made.append(row)
        return made

    def publish(self, top: str) -> None:
        """Into the folder, the guide and the README of the tree `top`."""
        rows = self.rows()
        named = [(group, self.recorded.facts(group.name)) for group in self.groups]
        known = [(group, facts) for group, facts in named if facts is not None]
        about = measured_when([facts for _group, facts in known])
        self.recorded.save()
        write_tables(self.folder, rows, about, [when(group, facts, runs_of(self.recorded.found(group.name))) for group, facts in known])
        guide = os.path.join(top, "man", "guide")
        shown = {name: self.recorded.found(name) for name in NEEDED_FOR_PICTURE}
        if all(shown.values()):
            write_picture(os.path.join(guide, "checkpoints.svg"), {name: found for name, found in shown.items() if found})
        replace_fragment(os.path.join(guide, "benchmarks.md"), "bench-checkpoint", guide_text(about, rows))
        replace_fragment(os.path.join(top, "README.md"), "bench-checkpoint", readme_text(rows))
