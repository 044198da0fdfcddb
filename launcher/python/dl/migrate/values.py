# SPDX-License-Identifier: Apache-2.0
"""Computes numbers that a script derives from Slurm's variables, such as $((SLURM_NNODES * GPUS_PER_NODE)), without
running it."""
import ast
import operator
import re
from typing import Callable, Dict, FrozenSet, List, Optional, Type

from .branches import Branches
from .shell import Assignment, unquoted, words_of

OPERATORS: Dict[Type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Mod: operator.mod, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv, ast.Div: operator.floordiv}
DEPTH = 8  # how many variables may stand for one another
GPUS = r"nvidia-smi|CUDA_VISIBLE_DEVICES|device_count|rocm-smi|SLURM_JOB_GPUS|SLURM_STEP_GPUS|GPU_DEVICE_ORDINAL|ROCR_VISIBLE_DEVICES"


class Values:
    """`known`: the values of Slurm's variables by name (SLURM_NNODES), and "gpus", those of a node; None if the script
    does not tell. `unset`: those of them that Slurm does not set, as no option asks for them."""

    def __init__(self, text: str, assigned: List[Assignment], known: Dict[str, Optional[int]], branches: Branches, unset: FrozenSet[str] = frozenset()):
        self._unset = unset
        self._text, self._assigned, self._known, self._branches = text, assigned, known, branches
        # The loop over the arguments may call one of them $arg.
        of_loop = re.findall(r"\bfor[ \t]+(\w+)(?:[ \t]+in[ \t]+\"?\$\{?[@*]\}?\"?)?[ \t]*(?:;|\n)", text)
        self._argument = r"\$\{?(?:[1-9]|@|\*|OPTARG" + "".join(f"|{name}" for name in of_loop) + r")(?:[#%:/][^}]*)?\}?"

    def last(self, name: str, before: int) -> Optional[Assignment]:
        """The last assignment to the variable before this place. One that is made on every way to this place is
        preferred."""
        found = [item for item in self._assigned if item.name == name and item.start < before and not self._branches.exclude(item.start, before)]
        sure = [item for item in found if self._branches.always_before(item.start, before)]
        if not sure and self._known.get(name) is not None:
            # Slurm's value, unless an assignment is made in any case.
            return None
        return sure[-1] if sure else self._of_slurm(found) if found else None

    def _of_slurm(self, found: List[Assignment]) -> Assignment:
        """Of the assignments of branches, the last one; or the one beside it that asks Slurm, whose branch runs in a job."""
        beside = [item for item in found if self._branches.exclude(item.start, found[-1].start)]
        return next((item for item in beside if re.search(r"\$\{?#?SLURM_", self._text[item.value[0]:item.value[1]])), found[-1])

    def raw(self, name: str, before: int) -> Optional[str]:
        """The text of its value. None if the script does not give it, or puts it together."""
        item = self.last(name, before)
        return self._text[item.value[0]:item.value[1]] if item and not item.appends else None

    def reads(self, raw: str, before: int, pattern: str, depth: int = 0) -> bool:
        """Whether the pattern occurs in the word, or in the values of the variables from which the word is made."""
        if re.search(pattern, raw):
            return True
        if depth > DEPTH:
            return False
        for name in set(re.findall(r"\$\{?[#!]?(\w+)", raw)) | (set(re.findall(r"\b[A-Za-z_]\w*", raw)) if "((" in raw or re.match(r"\$\(?\s*expr|\$\[", raw) else set()):
            item = self.last(name, before)
            if item is not None and (self.reads(self._text[item.value[0]:item.value[1]], item.start, pattern, depth + 1) or
                                     item.appends and self.reads("$" + name, item.start, pattern, depth + 1)):
                return True
        return False

    def number(self, raw: str, before: int, depth: int = 0) -> Optional[int]:
        """The number that a word of the script stands for; None if it is unknown."""
        raw = unquoted(raw.replace("\\\n", "").strip()).strip()
        if re.fullmatch(r"\d+", raw):
            return int(raw)
        if depth > DEPTH or not raw:
            return None
        match = re.fullmatch(r"\$\{?(\w+)\}?", raw)
        if match:
            return self._variable(match.group(1), before, depth)
        match = re.fullmatch(r"\$\{(\w+):?[-=](.*)\}", raw, re.S)
        if match:
            value = self._variable(match.group(1), before, depth) if match.group(1) not in self._unset else None
            return value if value is not None else self.number(match.group(2), before, depth + 1)
        match = re.fullmatch(r"\$\{(SLURM_\w+)(?:##?|%%?|//?)[^}]*\}", raw)
        if match:
            return self._variable(match.group(1), before, depth)  # ${SLURM_GPUS_PER_NODE##*:} makes 4 of "a100:4"
        match = re.fullmatch(r"\$\{#(\w+)(\[[@*]\])?\}", raw)
        if match:
            return self._length(match.group(1), before)
        match = re.fullmatch(r"\$\(\((.*)\)\)|\$\[(.*)\]", raw, re.S)
        if match:
            return self._arithmetic(match.group(1) or match.group(2), before, depth)
        match = re.fullmatch(r"\$\((.*)\)|`(.*)`", raw, re.S)
        if match:
            return self._command((match.group(1) or match.group(2)).strip(), before, depth)
        return None

    def text(self, raw: str, before: int) -> Optional[str]:
        """The value of a word that is one variable, if the value contains no variable."""
        match = re.fullmatch(r'"?\$\{?(\w+)\}?"?', raw)
        value = self.raw(match.group(1), before) if match else None
        return unquoted(value) if value is not None and "$" not in value and "`" not in value else None

    def _variable(self, name: str, before: int, depth: int) -> Optional[int]:
        item = self.last(name, before)
        if item is not None and (item.appends or self._may_be_told(item, before)):
            return None
        if item is not None:
            # In X=${X:-4}, the inner X is the variable's former value.
            return self.number(self._text[item.value[0]:item.value[1]], item.start, depth + 1)
        return self._known.get(name)

    def _may_be_told(self, item: Assignment, before: int) -> bool:
        """Whether the variable, whose value is this one, may be given another by the script's arguments, in a branch: NP=$1."""
        # An assignment behind `then` on the same line is not among those of the script.
        behind = re.finditer(r"\b(?:then|else)[ \t]+(?:export[ \t]+)?" + item.name + r"=([^\s;]+)", self._text)
        others = [(one.start, self._text[one.value[0]:one.value[1]]) for one in self._assigned if one.name == item.name] + [(one.start(), one.group(1)) for one in behind]
        return any(start < before and (item.start < start or self._branches.exclude(start, item.start)) and not self._branches.exclude(start, before) and
                   re.fullmatch(self._argument, unquoted(value)) for start, value in others)

    def _length(self, name: str, before: int) -> Optional[int]:
        """The value of ${#NAME[@]}."""
        item = self.last(name, before)
        if item is None:
            filled = re.search(r"\b(?:read\s+-\w*a\w*|mapfile\s.*?|readarray\s.*?)\s" + name + r"\b[^\n]*<[^\n]*", self._text)
            value = filled.group(0) if filled else ""
        else:
            value = self._text[item.value[0]:item.value[1]]
        if "hostname" in value:
            return self._known["SLURM_NNODES"]
        if re.search(GPUS, value):
            return self._known["gpus"]
        return len(words_of(value, 0, len(value))) if item is not None and item.array and not item.appends and not re.search(r"[$`*?{]", value) else None

    def _command(self, command: str, before: int, depth: int) -> Optional[int]:
        if re.match(r"expr\s", command):
            return self._arithmetic(command[5:].replace("\\*", "*"), before, depth)
        if self.reads(command, before, GPUS):
            return self._known["gpus"]
        if re.search(r"hostnames?\b.*wc -[lw]|JOB_NODELIST.*wc -[lw]", command, re.S):
            return self._known["SLURM_NNODES"]
        # What cut and the like make of such a variable is taken to be the number in it: echo $SLURM_GPUS_PER_NODE | cut -d: -f2
        match = re.fullmatch(r"echo\s+\"?(\$\{?SLURM_(?:GPUS|NTASKS|TASKS|CPUS|NNODES|JOB_NUM)\w*\}?)\"?\s*\|\s*(?:cut|sed|awk|tr|grep -o\S*)\b[^|]*", command)
        if match:
            return self.number(match.group(1), before, depth + 1)
        match = re.fullmatch(r"echo\s+(\S+)", command)
        return self.number(match.group(1), before, depth + 1) if match else None

    def _arithmetic(self, expression: str, before: int, depth: int) -> Optional[int]:
        missing = False

        def replace(match: "re.Match[str]") -> str:
            nonlocal missing
            value = self.number(match.group(0) if match.group(0)[0] in "$`" else "$" + match.group(0), before, depth + 1)
            missing = missing or value is None
            return str(value)

        # First the commands in it: $(( $(nvidia-smi -L | wc -l) * SLURM_NNODES ))
        expression = re.sub(r"\$\((?!\()(?:[^()]|\([^()]*\))*\)|`[^`]*`", replace, expression)
        plain = expression if missing else re.sub(r"\$\{[^}]*\}|\$?[A-Za-z_]\w*", replace, expression)
        if missing:
            return None
        try:
            return _evaluate(ast.parse(plain.strip(), mode="eval").body)
        except (SyntaxError, ValueError, ZeroDivisionError, RecursionError):
            return None


def _evaluate(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_evaluate(node.left), _evaluate(node.right))
    raise ValueError("the expression is not arithmetic of whole numbers")
