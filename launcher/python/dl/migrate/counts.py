# SPDX-License-Identifier: Apache-2.0
"""How many learners a launch has."""
import re
from typing import Dict, List, NamedTuple, Optional

from . import directives, launch as launches, shell
from .accelerate import environment_of
from .values import Values


class Note(NamedTuple):
    line: int
    text: str


class Count(NamedTuple):
    """Learners of one launch; most > least for an elastic one. None: it cannot be told."""
    least: Optional[int]
    most: Optional[int]


class Found(NamedTuple):
    launch: launches.Launch
    inner: List["Found"]
    many: Count
    parallel: bool
    at: int


class Counts:
    """The script as it is read, and what is remarked of it."""

    def __init__(self, text: str, folder: str):
        self.text, self.folder = text, folder
        self.lines = directives.read(text)
        self.asked = directives.Asked(self.lines)
        self.commands = shell.of_evals(text, shell.commands(text, 0, len(text)))
        self.assigned = shell.assignments(text, self.commands)
        self.values = Values(text, self.assigned, self.asked.known())
        self.notes: List[Note] = []
        self.restarts: Optional[str] = None

    def note(self, at: int, text: str) -> None:
        note = Note(self.text.count("\n", 0, at) + 1, text)
        if note not in self.notes:
            self.notes.append(note)

    def number(self, told: Optional[launches.Told]) -> Optional[int]:
        return self.values.number(told.raw, told.at) if told else None

    def count_of(self, launch: launches.Launch) -> Count:
        known = self.asked.known()
        name, told = launch.launchers[-1], launch.told[-1]
        outer = launch.told[0] if len(launch.told) > 1 else {}
        at = launch.cursor.top.words[0].start
        if "restarts" in told and (self.number(told["restarts"]) or 0) > 0:
            self.restarts = str(self.number(told["restarts"]))
        if name in ("torchrun", "torch.distributed.launch", "deepspeed", "colossalai", "composer"):
            each = self.each_of(told, known, name)
            if each is None:
                self.note(at, f"how many processes a node has is not told in a way that is understood; {self.fallback_text()}")
                return self.fallback()
            nodes = told.get("nodes")
            match = re.fullmatch(r"(\d+):(\d+)", shell.unquoted(nodes.raw)) if nodes else None
            if match:
                return Count(int(match.group(1)) * each, int(match.group(2)) * each)
            if nodes is None:
                number: Optional[int] = 1
                if name in ("deepspeed", "colossalai"):
                    number = known["SLURM_NNODES"] if name == "deepspeed" and ("launcher" in told or self.has_hostfile(launch)) else 1
                elif "endpoint" in told and not re.search(r"localhost|127\.0", told["endpoint"].raw):
                    # srun starts one on each node, and they are to meet.
                    number = self.number(outer.get("nodes")) or self.number(outer.get("total")) or 1
                elif "total" in told:
                    total = self.number(told["total"])
                    return Count(total, total)
            else:
                number = self.number(nodes)
            if number is None:
                number = known["SLURM_NNODES"]
            if number is None:
                self.note(at, f"how many nodes it uses is not told in a way that is understood; {self.fallback_text()}")
                return self.fallback()
            return Count(number * each, number * each)
        if name == "accelerate":
            total = self.number(told.get("total"))
            if "config" in told:
                variables, of_file = environment_of(shell.unquoted(told["config"].raw), self.folder)
                total = total if total is not None or "total" in told else of_file
                if variables is None:
                    self.note(told["config"].at, f"--config_file {shell.unquoted(told['config'].raw)} cannot be read here: what it says of precision, "
                              "DeepSpeed or FSDP has to be set by ACCELERATE_* and FSDP_* variables")
                else:
                    launch.env += [(name, shell.quoted(value)) for name, value in variables if name not in dict(launch.env)]
            if total is None and "gpu_list" in told and shell.unquoted(told["gpu_list"].raw) != "all":
                total = len(shell.unquoted(told["gpu_list"].raw).split(","))
            if total is None and "total" not in told and known["gpus"]:
                total = known["gpus"] * (known["SLURM_NNODES"] or 1)
            if total is None:
                self.note(at, f"--num_processes is not told in a way that is understood; {self.fallback_text()}")
                return self.fallback()
            return Count(total, total)
        if name == "horovodrun" and "least" in told:
            return Count(self.number(told["least"]), self.number(told.get("most")) or self.number(told["least"]))
        total = self.number(told.get("total"))
        if total is None and "each" in told:
            each = self.number(told["each"])
            nodes_told = self.number(told.get("nodes")) or known["SLURM_NNODES"]
            total = each * nodes_told if each and nodes_told else None
        if total is None and "nodes" in told and "total" not in told:
            nodes_told = self.number(told["nodes"])
            total = nodes_told * (known["SLURM_NTASKS_PER_NODE"] or 1) if nodes_told else None
        if total is None:
            if "total" in told:
                self.note(told["total"].at, f"'{told['total'].raw}' is not a number that is understood; {self.fallback_text()}")
            total = self.asked.tasks or self.number(outer.get("total"))
        return Count(total or 1, total or 1)

    def each_of(self, told: Dict[str, launches.Told], known: Dict[str, Optional[int]], name: str) -> Optional[int]:
        if "include" in told:
            raw = shell.unquoted(told["include"].raw)
            return len(raw.partition(":")[2].split(",")) if ":" in raw and "@" not in raw else known["gpus"]
        each = told.get("each")
        if each is None:
            return known["gpus"] if name in ("deepspeed", "composer") else 1
        if shell.unquoted(each.raw) in ("gpu", "auto"):
            return known["gpus"]
        if shell.unquoted(each.raw) == "cpu":
            return known["SLURM_CPUS_PER_TASK"]
        return self.number(each)

    @staticmethod
    def has_hostfile(launch: launches.Launch) -> bool:
        text = launch.cursor.text
        start = launch.cursor.top.words[0].start
        return re.search(r"--(hostfile|launcher)\b|-H\b", text[start:launch.cursor.top.words[-1].end]) is not None

    def fallback(self) -> Count:
        total = self.asked.gpus or self.asked.tasks
        return Count(total, total)

    def fallback_text(self) -> str:
        if self.asked.gpus:
            return "one learner for the one GPU is assumed" if self.asked.gpus == 1 else f"one learner for each of the {self.asked.gpus} GPUs is assumed"
        if self.asked.tasks == 1:
            return "1 learner is assumed"
        return f"{self.asked.tasks or 'an unknown number of'} learners are assumed"
