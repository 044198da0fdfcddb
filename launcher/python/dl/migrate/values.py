# SPDX-License-Identifier: Apache-2.0
"""Numbers that a script computes from Slurm's variables, without running it: $((SLURM_NNODES * GPUS_PER_NODE)) and the like."""
import ast
import operator
import re
from typing import Callable, Dict, List, Optional, Type

from .shell import Assignment, unquoted

OPERATORS: Dict[Type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv, ast.Div: operator.floordiv}
DEPTH = 8  # of variables that stand for others


class Values:
    """`known`: of Slurm's variables by name (SLURM_NNODES), and "gpus" of a node; None where the script does not say."""

    def __init__(self, text: str, assigned: List[Assignment], known: Dict[str, Optional[int]]):
        self._text, self._assigned, self._known = text, assigned, known

    def raw(self, name: str, before: int) -> Optional[str]:
        """What was last assigned to the variable before this place."""
        found = [item for item in self._assigned if item.name == name and item.start < before]
        return self._text[found[-1].value[0]:found[-1].value[1]] if found else None

    def number(self, raw: str, before: int, depth: int = 0) -> Optional[int]:
        """Of a word of the script; None if it cannot be told."""
        raw = unquoted(raw.strip()).strip()
        if re.fullmatch(r"\d+", raw):
            return int(raw)
        if depth > DEPTH or not raw:
            return None
        match = re.fullmatch(r"\$\{?(\w+)\}?", raw)
        if match:
            return self._variable(match.group(1), before, depth)
        match = re.fullmatch(r"\$\{(\w+):?[-=](.*)\}", raw, re.S)
        if match:
            value = self._variable(match.group(1), before, depth)
            return value if value is not None else self.number(match.group(2), before, depth + 1)
        match = re.fullmatch(r"\$\{#(\w+)(\[[@*]\])?\}", raw)
        if match:
            return self._known["SLURM_NNODES"] if "hostname" in (self.raw(match.group(1), before) or "") else None
        match = re.fullmatch(r"\$\(\((.*)\)\)|\$\[(.*)\]", raw, re.S)
        if match:
            return self._arithmetic(match.group(1) or match.group(2), before, depth)
        match = re.fullmatch(r"\$\((.*)\)|`(.*)`", raw, re.S)
        if match:
            return self._command((match.group(1) or match.group(2)).strip(), before, depth)
        return None

    def text(self, raw: str, before: int) -> Optional[str]:
        """Of a word that is one variable with a plain value."""
        match = re.fullmatch(r'"?\$\{?(\w+)\}?"?', raw)
        value = self.raw(match.group(1), before) if match else None
        return unquoted(value) if value is not None and "$" not in value and "`" not in value else None

    def _variable(self, name: str, before: int, depth: int) -> Optional[int]:
        value = self.raw(name, before)
        if value is not None:
            # X=${X:-4} means the one that was there before.
            found = [item for item in self._assigned if item.name == name and item.start < before]
            return self.number(value, found[-1].start, depth + 1)
        return self._known.get(name)

    def _command(self, command: str, before: int, depth: int) -> Optional[int]:
        if re.match(r"expr\s", command):
            return self._arithmetic(command[5:].replace("\\*", "*"), before, depth)
        if "nvidia-smi" in command or "CUDA_VISIBLE_DEVICES" in command or "device_count" in command or "rocm-smi" in command:
            return self._known["gpus"]
        if re.search(r"hostnames?\b.*wc -[lw]|JOB_NODELIST.*wc -[lw]", command, re.S):
            return self._known["SLURM_NNODES"]
        match = re.fullmatch(r"echo\s+(\S+)", command)
        return self.number(match.group(1), before, depth + 1) if match else None

    def _arithmetic(self, expression: str, before: int, depth: int) -> Optional[int]:
        missing = False

        def replace(match: "re.Match[str]") -> str:
            nonlocal missing
            value = self.number(match.group(0) if match.group(0).startswith("$") else "$" + match.group(0), before, depth + 1)
            missing = missing or value is None
            return str(value)

        plain = re.sub(r"\$\{[^}]*\}|\$?[A-Za-z_]\w*", replace, expression)
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
    raise ValueError("not arithmetic that is understood")
