# SPDX-License-Identifier: Apache-2.0
"""A row compares us with one peer or limit; rows as a text table, as Markdown and as JSON."""
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence

from .samples import Figures, Summary


@dataclass
class Row:
    """ours and other are in `unit`; the ratio is ours / other. target: ">= 0.9", "<= 1.1", or None where the row only
    informs. other is None where the peer could not be measured; `note` says why."""

    name: str  # for programs: "durable.1g-large.fio-fresh"
    label: str  # for people
    peer: str
    unit: str
    target: Optional[str]
    ours: Optional[Figures]
    other: Optional[Figures]
    note: str = ""

    @property
    def ratio(self) -> Optional[float]:
        if self.ours is None or self.other is None or self.other.median == 0:
            return None
        return self.ours.median / self.other.median

    @property
    def met(self) -> Optional[bool]:
        if self.target is None or self.ratio is None:
            return None
        return holds(self.target, self.ratio)

    def as_json(self) -> Dict[str, Any]:
        return {
            "name": self.name, "ours": self.ours and self.ours.median, "other": self.other and self.other.median,
            "unit": self.unit, "ratio": self.ratio, "target": self.target, "met": self.met, "peer": self.peer,
            "ours_spread": self.ours and [self.ours.low, self.ours.high],
            "other_spread": self.other and [self.other.low, self.other.high],
            "runs": self.ours.runs if self.ours else 0, "note": self.note,
        }

    def take(self, kept: Dict[str, Any]) -> None:
        """The figures that as_json() of the same row gave earlier."""
        for side in ("ours", "other"):
            spread = kept[side + "_spread"]
            setattr(self, side, Summary(kept[side], spread[0], spread[1], kept["runs"]) if spread else None)
        self.note = kept["note"]


def holds(target: str, ratio: float) -> bool:
    """Whether a ratio meets a target like ">= 0.9"."""
    match = re.fullmatch(r"(>=|<=) ([0-9.]+)", target)
    if not match:
        raise ValueError("'%s' is not a target; allowed: '>= N' and '<= N'" % target)
    limit = float(match.group(2))
    return ratio >= limit if match.group(1) == ">=" else ratio <= limit


def number(value: float) -> str:
    """Three significant digits, without an exponent."""
    if value == 0:
        return "0"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    if abs(value) < 0.1:
        digits = 4 if abs(value) >= 0.001 else 6
    return "%.*f" % (digits, value)


def _series(series: Optional[Figures]) -> str:
    if series is None:
        return "-"
    return "%s (%s to %s)" % (number(series.median), number(series.low), number(series.high))


_VERDICT = {True: "met", False: "MISSED", None: "-"}
_HEAD = ("what", "unit", "ours (min to max)", "beside", "its figure (min to max)", "ratio", "target", "")


def _cells(row: Row) -> List[str]:
    return [row.label, row.unit, _series(row.ours), row.peer, _series(row.other) if row.other else row.note or "-",
            number(row.ratio) if row.ratio is not None else "-", row.target or "-", _VERDICT[row.met]]


def text_table(rows: Sequence[Row]) -> str:
    cells = [list(_HEAD)] + [_cells(row) for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(_HEAD))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in cells)


def markdown_table(rows: Sequence[Row]) -> str:
    lines = ["| what | ours | beside | its figure | ratio | target |", "|---|---|---|---|---|---|"]
    for row in rows:
        what, unit, ours, peer, other, ratio, target, _ = _cells(row)
        verdict = "" if row.met is None else ", met" if row.met else ", **missed**"
        if row.ours:
            ours += " " + unit
        lines.append("| %s |" % " | ".join((what, ours, peer, other, ratio, target + verdict)))
    return "\n".join(lines)


def missed(rows: Sequence[Row]) -> List[Row]:
    return [row for row in rows if row.met is False]
