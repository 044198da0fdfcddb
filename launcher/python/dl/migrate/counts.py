# SPDX-License-Identifier: Apache-2.0
"""Finds how many learners a launch has."""
import bisect
import re
from typing import Dict, List, NamedTuple, Optional, Set, Tuple

from . import directives, launch as launches, shell
from .accelerate import environment_of
from .branches import Branches
from .unfold import unfolded
from .values import Values


NODES = r"\bSLURM_(JOB_NUM_NODES|NNODES)\b|scontrol show host|\bSLURM_NTASKS\b|\bSLURM_NPROCS\b"
NNODES = launches.Told("$SLURM_NNODES", 0)
ASKED = {"nodes", "ntasks", "ntasks-per-node", "tasks-per-node", "gpus", "gpus-per-node", "gpus-per-task", "ntasks-per-gpu", "gres", "cpus-per-task", "array"}


class Note(NamedTuple):
    line: int
    text: str


class Count(NamedTuple):
    """The learners of one launch; most > least for an elastic one. If they are None, only the running job knows the
    number: dlrun gets `words` as --learners; without `words`, it is the job's number of tasks. `gpus`: the GPUs of each
    learner."""
    least: Optional[int]
    most: Optional[int]
    words: str = ""
    gpus: int = 1


class Found(NamedTuple):
    launch: launches.Launch
    inner: List["Found"]
    many: Count
    parallel: bool
    at: int


class Counts:
    """The script as it is read, and the notes about it."""

    def __init__(self, text: str, folder: str):
        self.text, self.folder = text, folder
        self.lines = directives.read(text)
        self.asked = directives.Asked(self.lines)
        self.commands = shell.of_evals(text, unfolded(text, shell.commands(text, 0, len(text))))
        self.command_at = {word.start: one for one in self.commands for word in one.words}  # by the places of their words
        self.behind = {one.words[0].start: after for one, after in zip(self.commands, self.commands[1:]) if one.words}  # each command's successor
        self.assigned = shell.assignments(text, self.commands)
        self.branches = Branches(text, self.commands)
        by_name: Dict[str, List[shell.Assignment]] = {}
        for one in self.assigned:
            by_name.setdefault(one.name, []).append(one)
        # Assignments of branches that exclude one another are neighbours in the list.
        self.shared = frozenset(name for name, items in by_name.items() if any(self.branches.exclude(a.start, b.start) for a, b in zip(items, items[1:])))
        unset = {"SLURM_NTASKS_PER_NODE"} if self.asked.given and self.asked.per_node is None else set()
        self.values = Values(text, self.assigned, self.asked.known(), self.branches, frozenset(unset))
        self.notes: List[Note] = []
        self.noted: Set[Tuple[str, int]] = set()
        self.ends_of_lines = [match.start() for match in re.finditer("\n", text)]
        self.restarts: Optional[str] = None
        self.background: List[Tuple[int, int]] = []  # scripts within the text that are called with & behind them

    def note(self, at: int, text: str) -> None:
        note = Note(bisect.bisect_left(self.ends_of_lines, at) + 1, text)
        if (note.text, note.line) not in self.noted:
            self.noted.add((note.text, note.line))
            self.notes.append(note)

    def feeds_another(self, command: shell.Command) -> bool:
        """Whether its output is the input of another program, and not only written into a log on the way (python train.py | tee log)."""
        if command.after != "|":
            return False
        behind = self.behind.get(command.words[0].start)
        return behind is None or not behind.words or self.text[behind.words[0].start:behind.words[0].end] not in ("tee", "ts", "cat", "grep", "sed", "tail", "stdbuf", "tr")

    def in_background(self, command: shell.Command) -> bool:
        return command.after == "&" or any(start <= command.words[0].start < end for start, end in self.background)

    def number(self, told: Optional[launches.Told]) -> Optional[int]:
        return self.values.number(told.raw, told.at) if told else None

    def count_of(self, launch: launches.Launch) -> Count:
        known = self.asked.known()
        name, told = launch.launchers[-1], launch.told[-1]
        outer = launch.told[0] if len(launch.told) > 1 else {}
        at = launch.cursor.top.words[0].start
        if "restarts" in told and (self.number(told["restarts"]) or 0) > 0:
            self.restarts = str(self.number(told["restarts"]))
        if name in ("torchrun", "torch.distributed.launch", "deepspeed", "colossalai", "composer", "tune"):
            return self.of_nodes(launch, name, told, outer, known, at)
        if name == "accelerate":
            return self.of_accelerate(launch, told, known, at)
        if name == "horovodrun" and "least" in told:
            return Count(self.number(told["least"]), self.number(told.get("most")) or self.number(told["least"]))
        if "total" in told and self.is_open(told["total"]):
            return self.at_run_time([told["total"]], at)
        total = self.number(told.get("total"))
        if total is None and "each" in told:
            each = self.number(told["each"])
            nodes = told.get("nodes")
            if each is None or self.is_open(nodes):
                return self.at_run_time([nodes or NNODES, told["each"]], at)
            nodes_told = self.number(nodes) or known["SLURM_NNODES"]
            total = each * nodes_told if each and nodes_told else None
        if total is None and "nodes" in told and "total" not in told and not self.is_open(told["nodes"]):
            nodes_told = self.number(told["nodes"])
            total = nodes_told * (known["SLURM_NTASKS_PER_NODE"] or 1) if nodes_told else None
        if total is None:
            if "total" in told:
                return self.at_run_time([told["total"]], at)
            if self.nodes_are_told_to_sbatch(launch):
                return Count(None, None)
            total = self.asked.tasks or self.number(outer.get("total"))
        open_nodes = self.asked.nodes is None and "nodes" in self.asked.given or self.asked.open_tasks
        if total is None and (self.lines or directives.unread(self.text) is not None) and name != "horovodrun" and (open_nodes or not set(self.asked.given) & ASKED):
            return Count(None, None)  # sbatch's command line will give the number
        return Count(total or 1, total or 1)

    def of_nodes(self, launch: launches.Launch, name: str, told: Dict[str, launches.Told], outer: Dict[str, launches.Told],
                 known: Dict[str, Optional[int]], at: int) -> Count:
        """The count of a launcher with options for nodes and for processes on each node."""
        each = self.each_of(told, known, name)
        nodes = told.get("nodes")
        match = re.fullmatch(r"(\d+):(\d+)", shell.unquoted(nodes.raw)) if nodes else None
        if match and each is not None:
            return Count(int(match.group(1)) * each, int(match.group(2)) * each)
        number: Optional[int] = 1
        open_nodes = self.is_open(nodes)
        if nodes is not None and not match:
            number = self.number(nodes)
            if number is None and (each is None or "$" not in nodes.raw):
                number = known["SLURM_NNODES"]
        elif name in ("deepspeed", "colossalai"):
            hosts = name == "deepspeed" and ("launcher" in told or self.has_hostfile(launch))
            open_nodes = hosts and self.asked.nodes is None
            number, nodes = known["SLURM_NNODES"] if hosts else 1, NNODES if hosts else None
        elif "endpoint" in told and not re.search(r"localhost|127\.0", told["endpoint"].raw):
            # srun starts one launcher on each node, and these meet at the endpoint.
            number = self.number(outer.get("nodes")) or self.number(outer.get("total")) or (self.asked.nodes if launch.launchers[0] in ("srun", "pdsh") else None) or 1
            if any(self.is_open(outer.get(what)) for what in ("nodes", "total")):
                open_nodes, nodes = True, outer.get("nodes") or outer.get("total")
        elif "total" in told:
            total = self.number(told["total"])
            return self.at_run_time([told["total"]], at) if total is None or self.is_open(told["total"]) else Count(total, total)
        if each is not None and number is not None and not open_nodes:
            return Count(number * each, number * each)
        each_told = told.get("each")
        if each_told is not None and shell.unquoted(each_told.raw) not in ("gpu", "auto", "cpu"):
            return self.at_run_time([nodes or launches.Told("1", at), each_told], at, each)
        if each is not None:
            return self.at_run_time([nodes or launches.Told("1", at), launches.Told(str(each), at)], at, each)
        return self.at_run_time([], at)

    def place_of(self, path: str) -> Optional[str]:
        """Where a file that the script names is."""
        return None

    def of_accelerate(self, launch: launches.Launch, told: Dict[str, launches.Told], known: Dict[str, Optional[int]], at: int) -> Count:
        total = self.number(told.get("total"))
        if "config" in told:
            path = shell.unquoted(told["config"].raw)
            variables, of_file = environment_of(self.place_of(path) or path, self.folder)
            total = total if total is not None or "total" in told else of_file
            if variables is None:
                launch.settings = told["config"].raw
                self.note(told["config"].at, f"--config_file {path} cannot be read here: the job itself reads what it says of precision, "
                          "DeepSpeed or FSDP (dlctl migrate --variables-of)")
            else:
                launch.env += [(name, shell.quoted(value)) for name, value in variables if name not in dict(launch.env)]
        if "total" in told and (total is None or self.is_open(told["total"])):
            return self.at_run_time([told["total"]], at)
        if total is None and "gpu_list" in told and shell.unquoted(told["gpu_list"].raw) != "all":
            total = len(shell.unquoted(told["gpu_list"].raw).split(","))
        if total is None and known["gpus"]:
            total = known["gpus"] * (known["SLURM_NNODES"] or 1)
            if launch.settings:
                self.note(told["config"].at, f"how many processes that file names is not known here; one for each GPU is assumed: {total}")
        return self.at_run_time([], at) if total is None else Count(total, total)

    # ---- numbers that only the running job knows

    def nodes_are_told_to_sbatch(self, launch: launches.Launch) -> bool:
        """Whether the lines ask for tasks of a node, but not for nodes, and the script speaks of several."""
        return False

    def is_open(self, told: Optional[launches.Told]) -> bool:
        """Whether the number depends on the number of nodes, which only sbatch's command line gives."""
        return told is not None and self.asked.nodes is None and self.asked.given.get("ntasks") != "1" and \
            self.values.reads(shell.unquoted(told.raw), told.at, NODES)

    def at_run_time(self, factors: List[launches.Told], at: int, each: Optional[int] = None) -> Count:
        """A count for dlrun --learners: the script's own computation, or "auto", one learner for each GPU."""
        words = [self.factor(one) for one in factors]
        per_node = self.asked.gpus_per_node
        if each is None and len(factors) > 1:
            each = self.number(factors[-1])
        gpus = per_node // each if per_node and each and per_node % each == 0 else 1
        if not words or any(word is None for word in words):
            self.note(at, "the number of processes is given in a form that is not understood; one learner for each GPU of the job is "
                      "started (--learners auto)")
            return Count(None, None, "auto")
        used = [word for word in words if word and word != "1"] or ["1"]
        if len(used) > 1:
            return Count(None, None, f"$(({' * '.join(used)}))", gpus)
        only = used[0]
        if re.fullmatch(r"[A-Za-z_]\w*", only):
            return Count(None, None, f"${only}", gpus)
        return Count(None, None, f"${only}" if only.startswith("((") else only, gpus)

    def factor(self, told: launches.Told) -> Optional[str]:
        """A word in the form that it has in arithmetic. None if it has a meaning only elsewhere, as in the shell of a
        node."""
        raw = shell.unquoted(told.raw).replace("\\$", "$")
        raw = re.sub(r"^\$\{?(\w+)\}?$", r"\1" if not re.fullmatch(r"\$\{?\d\}?", raw) else r"$\1", raw)
        nested = not any(command.words[0].start <= told.at < command.words[-1].end and not self.within_quotes(command, told.at)
                         for command in self.commands if command.words)
        names = set(re.findall(r"[A-Za-z_]\w*", raw)) if re.fullmatch(r"\w+", raw) else set(re.findall(r"\$\{?[#!]?([A-Za-z_]\w*)", raw))
        if nested and any(not name.startswith("SLURM_") and self.values.last(name, told.at) is None for name in names):
            return None
        if names & {"SLURM_PROCID", "SLURM_NODEID", "SLURM_LOCALID"}:
            return None
        if raw.startswith("$(("):
            return raw[1:]  # keeps the (( )) of the script
        return raw if re.fullmatch(r"\w+|\$\{[^}]*\}|\$\(.*\)|`.*`|\$\w", raw, re.S) else None

    def within_quotes(self, command: shell.Command, at: int) -> bool:
        word = next((word for word in command.words if word.start <= at < word.end), None)
        return word is not None and word.start != at and shell.inside(self.text, word) is not None and " " in self.text[word.start:word.end].strip()

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
