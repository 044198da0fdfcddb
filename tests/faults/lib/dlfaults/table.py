# SPDX-License-Identifier: Apache-2.0
"""The results as a table of a document: a row for each fault and phase."""
from __future__ import annotations

from typing import Any, Dict, List

from dlfaults.faults import FAULTS
from dlfaults.phases import PHASES

Results = Dict[str, Dict[str, Any]]  # by FAULT/PHASE


def cell_name(fault: str, phase: str) -> str:
    return fault + "/" + phase


def all_cells() -> List[str]:
    return [cell_name(fault.name, phase.name) for fault in FAULTS for phase in PHASES]


def seconds(milliseconds: Any) -> str:
    if milliseconds is None:
        return ""
    return "%d ms" % milliseconds if milliseconds < 1000 else "%.1f s" % (milliseconds / 1000)


def row(name: str, result: Dict[str, Any]) -> str:
    fault, phase = name.split("/")
    if result.get("impossible"):
        return "| %s | %s | not possible here: %s | | | | | |" % (fault, phase, result["impossible"])
    seen = result["seen"]
    lost = "no" if not result["lost"] else "YES"
    left = "nothing" if not seen["left"] else ", ".join(seen["left"])
    verdict = "" if not result["unexpected"] else " **not as expected**: " + "; ".join(result["unexpected"])
    said = seen["said"].replace("|", "\\|")
    next_step = "at its end" if seen["at_the_end"] and seen["next_step_ms"] is None else seconds(seen["next_step_ms"])
    return "| %s | %s | %s, %s%s | %s | %s | %s | %s | %s, %s |" % (
        fault, phase, seen["way"], seen["state"], verdict, said, seconds(seen["notice_ms"]), next_step,
        seen["again"] if seen["again"] else "0", lost, left)


def markdown(results: Results, about: str) -> str:
    lines = [about, "",
             "| fault | phase | what happened | what was said first | noticed | next train step | steps run again | lost, left behind |",
             "|---|---|---|---|---|---|---|---|"]
    lines += [row(name, results[name]) for name in all_cells() if name in results]
    return "\n".join(lines)


def faults_markdown() -> str:
    """The two tables of what is done and when."""
    lines = ["| fault | what is done |", "|---|---|"]
    lines += ["| %s | %s |" % (fault.name, fault.text) for fault in FAULTS]
    lines += ["", "| phase | when |", "|---|---|"]
    lines += ["| %s | %s |" % (phase.name, phase.text) for phase in PHASES]
    return "\n".join(lines)
