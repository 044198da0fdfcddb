# SPDX-License-Identifier: Apache-2.0
"""Reads what the #SBATCH lines of a script ask for, and rewrites them with --dl-learners and --dl-gpus."""
import re
from typing import Dict, List, NamedTuple, Optional, Tuple

from .shell import lines_of

SHORT = {"N": "nodes", "n": "ntasks", "c": "cpus-per-task", "G": "gpus", "J": "job-name", "p": "partition", "A": "account", "t": "time",
         "o": "output", "e": "error", "q": "qos", "a": "array", "C": "constraint", "w": "nodelist", "x": "exclude", "d": "dependency",
         "D": "chdir", "L": "licenses", "m": "distribution", "M": "clusters", "i": "input", "b": "begin", "F": "nodefile", "k": "no-kill"}
FLAGS = {"exclusive", "requeue", "no-requeue", "oversubscribe", "hold", "contiguous", "overcommit", "no-kill", "wait-all-nodes", "test-only",
         "verbose", "quiet", "use-min-nodes", "spread-job", "ignore-pbs", "reboot", "propagate", "get-user-env", "wait", "parsable"}
# sbatch takes a long option by its first letters, too: --tasks is --tasks-per-node.
ABBREVIATED = {"tasks": "tasks-per-node"}
# Options that --dl-learners and --dl-gpus replace.
REPLACED = {"ntasks", "ntasks-per-node", "tasks-per-node", "gpus", "gpus-per-node", "gpus-per-task", "ntasks-per-gpu", "gpu-bind", "gpus-per-socket"}


class Option(NamedTuple):
    name: str
    value: Optional[str]
    text: str  # as the line has it


class Line(NamedTuple):
    start: int
    end: int  # after the line break
    options: List[Option]
    comment: str


def read(text: str) -> List[Line]:
    """The #SBATCH lines. sbatch reads them up to the first line that is a command."""
    lines: List[Line] = []
    at = 0
    for line in lines_of(text):
        match = re.match(r"#SBATCH\s+(.*?)\s*$", line, re.S)
        if match:
            lines.append(Line(at, at + len(line), *_options(match.group(1))))
        elif line.strip() and not line.startswith("#"):
            break
        at += len(line)
    return lines


def unread(text: str) -> Optional[int]:
    """The offset of the first #SBATCH line behind a command, which sbatch does not read. None if there is none, or if it may stand
    in a here document."""
    lines = lines_of(text)
    first = next((i for i, line in enumerate(lines) if line.strip() and not line.startswith("#")), len(lines))
    late = next((i for i in range(first, len(lines)) if re.match(r"#SBATCH\s+-", lines[i])), None)
    return None if late is None or any("<<" in line for line in lines[first:late]) else sum(len(line) for line in lines[:late])


def _options(body: str) -> Tuple[List[Option], str]:
    # As for sbatch, a # outside of quotes begins a comment.
    word = r"""(?:\{\{[^}\n]*\}\}|[^ \t"'#]|"[^"]*"|'[^']*'|["'])+"""
    front = re.match(rf"(?:{word}|[ \t]+)*", body)
    body, comment = (front.group(0), body[front.end():]) if front else ("", body)
    words = re.findall(word, body)
    options: List[Option] = []
    i = 0
    while i < len(words):
        word = words[i]
        i += 1
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            text = word
            if not equals and name not in FLAGS and i < len(words) and not words[i].startswith("-"):
                value, text = words[i], f"{word} {words[i]}"
                equals, i = "=", i + 1
            options.append(Option(ABBREVIATED.get(name, name), _plain(value) if equals else None, text))
        elif word.startswith("-") and len(word) > 1:
            value, text = word[2:].lstrip("="), word
            if not value and i < len(words) and not words[i].startswith("-"):
                value, text = words[i], f"{word} {words[i]}"
                i += 1
            options.append(Option(SHORT.get(word[1], word[1]), _plain(value), text))
        else:
            options.append(Option(word, None, word))  # the word hetjob
    return options, comment


def _plain(value: str) -> str:
    return value.strip("\"'")


class Asked:
    """What a job asks for. A number that the lines do not give is None."""

    def __init__(self, lines: List[Line]):
        given: Dict[str, str] = {}
        for line in lines:
            for option in line.options:
                given[option.name] = option.value or ""
        self.given = given
        self.nodes = _int(given.get("nodes", "").split("-")[0])
        self.per_node = _int(given.get("ntasks-per-node", given.get("tasks-per-node", "")))
        self.tasks = _int(given.get("ntasks", ""))
        self.cpus = _int(given.get("cpus-per-task", ""))
        self.gpu_type, self.gpus_per_node = _gpus(given.get("gpus-per-node", ""))
        kinds = [_gpus(re.sub(r"^\w+[:=]?", "", item) or "1") for item in given.get("gres", "").split(",") if item.split(":")[0].split("=")[0] in ("gpu", "dcu", "mlu", "npu")]
        self.gpu_types = sorted({kind for kind, _ in kinds})
        if kinds:
            self.gpu_type, self.gpus_per_node = kinds[0]
        if len(self.gpu_types) > 1:  # gpu:a40:4,gpu:t4:1
            self.gpu_type, self.gpus_per_node = "", sum(number or 0 for _, number in kinds)
        kind, self.gpus = _gpus(given.get("gpus", ""))
        self.gpu_type = self.gpu_type or kind
        kind, self.gpus_per_task = _gpus(given.get("gpus-per-task", ""))
        self.gpu_type = self.gpu_type or kind
        per_gpu = _int(given.get("ntasks-per-gpu", ""))
        if self.nodes is None and self.tasks is not None and self.per_node:
            self.nodes = -(-self.tasks // self.per_node)
        # {nodes}, ${NODES}: a template, which something else fills in.
        open_nodes = self.nodes is None and "nodes" in given
        self.open_tasks = any(re.search(r"[${]", given.get(name, "")) is not None for name in ("ntasks", "ntasks-per-node", "tasks-per-node"))
        if self.tasks is None and (self.per_node or self.nodes) and not open_nodes and not self.open_tasks:
            self.tasks = (self.nodes or 1) * (self.per_node or 1)
        if self.gpus is None and self.gpus_per_node is not None and not open_nodes:
            self.gpus = self.gpus_per_node * (self.nodes or 1)
        if self.gpus is None and self.gpus_per_task is not None:
            self.gpus = self.gpus_per_task * (self.tasks or 1)
        if per_gpu and self.gpus and "ntasks" not in given:
            self.tasks = per_gpu * self.gpus
        if self.gpus_per_node is None and self.gpus is not None and self.nodes:
            self.gpus_per_node = self.gpus // self.nodes
        self.any_lines = bool(lines)

    def known(self) -> Dict[str, Optional[int]]:
        """The values of Slurm's variables in the job."""
        nodes = self.nodes or (1 if self.given and "nodes" not in self.given else None)
        per_node = self.per_node or (self.tasks // nodes if self.tasks and nodes else None)
        gpus = self.gpus_per_node if self.gpus_per_node is not None else (self.gpus // nodes if self.gpus and nodes else None)
        return {"SLURM_NNODES": nodes, "SLURM_JOB_NUM_NODES": nodes, "SLURM_NTASKS": self.tasks, "SLURM_NPROCS": self.tasks,
                "SLURM_NTASKS_PER_NODE": per_node, "SLURM_TASKS_PER_NODE": per_node, "SLURM_GPUS_ON_NODE": gpus,
                "SLURM_GPUS_PER_NODE": gpus, "SLURM_GPUS": self.gpus, "SLURM_CPUS_PER_TASK": self.cpus, "SLURM_GPUS_PER_TASK": self.gpus_per_task,
                "gpus": gpus}


def _int(text: str) -> Optional[int]:
    return int(text) if re.fullmatch(r"\d+", text) else None


def _gpus(text: str) -> Tuple[str, Optional[int]]:
    """The type and the number in "4", "a100:4" or "a100=4"."""
    match = re.fullmatch(r"(?:([\w.+-]+)[:=])?(\d+)(?:\(.*\))?", text)
    if match:
        return match.group(1) or "", int(match.group(2))
    return (text, 1) if re.fullmatch(r"[A-Za-z][\w.+-]*", text) else ("", None)


def rewritten(text: str, lines: List[Line], flags: List[str], cpus: Optional[int], per_node: Optional[int],
              instead: Dict[str, str]) -> List[Tuple[int, int, str]]:
    """Edits of the text. Options that `flags` replace are removed, and `flags` are written in place of the first of
    them. `per_node`: the tasks on a node, if the script itself reads SLURM_NTASKS_PER_NODE."""
    edits: List[Tuple[int, int, str]] = []
    placed = not flags
    ours = "".join(f"#SBATCH {flag}\n" for flag in flags)
    for line in lines:
        kept: List[str] = []
        changed = False
        for option in line.options:
            new = _replaced(option, cpus, per_node, instead)
            changed = changed or new != option.text
            if new:
                kept.append(new)
        if not changed:
            continue
        new_line = f"#SBATCH {' '.join(kept + [line.comment] * bool(line.comment))}\n" if kept else ""
        gone = any(_replaced(option, cpus, per_node, instead) is None for option in line.options)
        if gone and not placed:
            new_line = ours + new_line
            placed = True
        edits.append((line.start, line.end, new_line))
    if not placed:
        at = lines[-1].end if lines else (text.find("\n") + 1 if text.startswith("#!") else 0)
        edits.append((at, at, ours if lines or text.startswith("#!") else "#!/bin/bash\n" + ours))
    return edits


def of_gpus(asked: Asked, gpus: Optional[int]) -> Dict[str, str]:
    """What --mem-per-gpu and --cpus-per-gpu amount to, since sbatch refuses these without --gpus."""
    result: Dict[str, str] = {}
    memory = re.fullmatch(r"(\d+)([KMGTkmgt]?)B?", asked.given.get("mem-per-gpu", ""))
    per_node = asked.gpus_per_node or asked.gpus
    if memory and per_node:
        result["mem-per-gpu"] = f"--mem={int(memory.group(1)) * per_node}{memory.group(2)}"
    cpus = _int(asked.given.get("cpus-per-gpu", ""))
    if cpus and gpus:
        result["cpus-per-gpu"] = f"--cpus-per-task={cpus * gpus}"
    return result


def of_memory(asked: Asked, cpus: int) -> Dict[str, str]:
    """The --mem-per-cpu with which `cpus` CPUs, those of all learners, have the memory that the tasks of the job had."""
    memory = re.fullmatch(r"(\d+)([KMGTkmgt]?)B?", asked.given.get("mem-per-cpu", ""))
    before = (asked.cpus or 1) * (asked.tasks or 1)
    if memory is None or before == cpus or not cpus or "cpus-per-gpu" in asked.given:
        return {}  # the CPUs of the GPUs are as many as before
    amount, unit = int(memory.group(1)) * before, memory.group(2)
    if amount % cpus and unit in ("G", "g", "T", "t"):
        amount, unit = amount * (1024 if unit in "Gg" else 1024 * 1024), "M"
    return {"mem-per-cpu": f"--mem-per-cpu={max(amount // cpus, 1)}{unit}"}


def _replaced(option: Option, cpus: Optional[int], per_node: Optional[int], instead: Dict[str, str]) -> Optional[str]:
    if option.name in instead:
        return instead[option.name] or None
    if option.name in ("ntasks-per-node", "tasks-per-node") and per_node is not None:
        return option.text if option.value == str(per_node) else f"--ntasks-per-node={per_node}"
    if option.name in REPLACED:
        return None
    if option.name == "gres" and option.value:
        others = [item for item in option.value.split(",") if item.split(":")[0].split("=")[0] not in ("gpu", "dcu", "mlu", "npu")]
        if len(others) == len(option.value.split(",")):
            return option.text
        return f"--gres={','.join(others)}" if others else None
    if option.name == "cpus-per-task" and cpus is not None and option.value != str(cpus):
        return f"--cpus-per-task={cpus}"
    return option.text
