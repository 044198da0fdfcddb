# SPDX-License-Identifier: Apache-2.0
"""Finds the training of a script that starts one process without a launcher, and tells trainings from other commands."""
import os
import re
from typing import List, Optional

from . import launch as launches, shell
from .counts import Count, Found
from .forms import Forms
from .words import DEPTH, Cursor

# A program that may train if its first argument is "train".
NO_TOOL = r"(?!(?:cd|source|pushd|set|unset|read|wait|exit|return|sed|awk|grep|sort|cut|zip|make|sh|bash)$)[\w/][\w./-]*"


class Plain(Forms):
    def trains(self, code: str, depth: int = 0) -> bool:
        """Whether the text of a shell may start a training, rather than say, copy or remove something."""
        for command in shell.commands(code, 0, len(code)):
            words = [code[word.start:word.end] for word in command.words if not word.redirect and code[word.start:word.end] not in shell.RESERVED]
            words = [word for word in words if not re.match(r"[A-Za-z_]\w*=", word)]
            first = re.fullmatch(r"\$\{?(\w+)\}?", words[0]) if words else None
            held = [self.text[one.value[0]:one.value[1]] for one in self.assigned if first and one.name == first.group(1)]
            if held and depth < DEPTH and self.trains(held[-1], depth + 1):
                return True
            quiet = bool(words) and (launches.is_utility(words[0]) or words[0] in ("cd", "source", ".", "export", "set", "unset", "["))
            if words and not quiet and re.search(r"python|\.py\b|\./|\$\{?\w*(CMD|COMMAND|SCRIPT|RUN)|bash |julia|Rscript", " ".join(words) + " ", re.I):
                return True
        return False

    def is_snippet(self, launch: launches.Launch) -> bool:
        """Whether the form shows that this is no training: srun python3 - <<EOF, srun python3 -c '...'."""
        cursor = launch.cursor
        return bool(launches.PYTHON.fullmatch(launch.program)) and cursor.plain(1) in ("-c", "-V", "--version", None)

    def plain_python(self, commands: Optional[List[shell.Command]] = None) -> List[Found]:
        """The launch of a script that starts one process without a launcher: its last python with a file."""
        for command in reversed(self.commands if commands is None else commands):
            cursor = Cursor(self.text, command.words, self.assigned)
            if not launches.skip_front(cursor) or command.after in ("|",):
                continue
            start = cursor.top.at
            words = cursor.top.words
            raw = [shell.unquoted(self.text[word.start:word.end]) for word in words[start:]]
            unknown = launches.is_unknown(cursor)
            raw = raw[1:] if unknown else self.with_value(cursor, raw)
            if launches.is_wrapper(raw[0]) or raw[0] in ("docker", "podman") and "run" in raw[1:2]:
                behind = [i for i, word in enumerate(raw) if launches.PYTHON.fullmatch(word)]
                of_shell = any(re.fullmatch(r"-\w*c", word) for word in raw) and any(re.search(
                    r"\bpython[\d.]*[ \t]+(-[a-zA-Z]+[ \t]+)*?(\S+\.py\b|-m[ \t]+(?!pip|venv))", word) for word in raw[1:])
                of_shell = of_shell or any(re.search(r"\w\.(sh|bash)$", word) for word in raw[1:])
                raw = raw[behind[0]:] if behind else ["python", "x.py"] if of_shell else raw
            if launches.PYTHON.fullmatch(raw[0]) and len(raw) > 1 and any(word.endswith(".py") or word == "-m" for word in raw[1:6]) and \
                    not set(raw[1:3]) & {"-c", "pip", "venv", "-V"}:
                if unknown:
                    self.note(words[start].start, unknown)
                launch = launches.Launch(cursor)
                launch.program, launch.stack, launch.first = raw[0], [cursor.top], words[start].start
                return [Found(launch, [], Count(1, 1), self.in_background(command), words[start].start)]
        return self.own_command() if commands is None else []

    def with_value(self, cursor: Cursor, raw: List[str]) -> List[str]:
        """The words `raw` of a command, with the value of the variable that begins them, as in $CMD or "${CMD[@]}"."""
        if raw[0][:1] != "$" or launches.PYTHON.fullmatch(raw[0]) or not cursor.enter():
            return raw
        held = [shell.unquoted(self.text[word.start:word.end]) for word in cursor.stack[-1].words]
        cursor.leave_unread()
        while held and (re.match(r"[A-Za-z_]\w*=", held[0]) or os.path.basename(held[0]) in launches.KEPT_IN_FRONT):
            held.pop(0)
        return held + raw[1:] if held else raw

    def own_command(self) -> List[Found]:
        """The same for a program that a package installs and that says by its name that it trains: fairseq-train, yolo train."""
        for command in reversed(self.commands):
            cursor = Cursor(self.text, command.words, self.assigned)
            if not launches.skip_front(cursor) or command.after == "|":
                continue
            raw = [shell.unquoted(self.text[word.start:word.end]) for word in cursor.top.words[cursor.top.at:]]
            name = raw[1] if len(raw) > 2 and raw[0] in ("uv", "poetry", "pixi", "pdm") and raw[1] == "run" else raw[0]
            of_name = re.fullmatch(r"(?:[\w./$\{}-]*[-_/])?(?:pre)?(?:train|finetune)(?:er)?", raw[2] if name == "run" else name)
            if of_name and len(raw) > 1 or raw[1:2] in (["train"], ["finetune"], ["pretrain"]) and len(raw) > 2 and not launches.is_utility(raw[0]) and re.fullmatch(NO_TOOL, raw[0]):
                launch = launches.Launch(cursor)
                first = cursor.top.words[cursor.top.at].start
                launch.program, launch.stack, launch.first = raw[0], [cursor.top], first
                return [Found(launch, [], Count(1, 1), self.in_background(command), first)]
        return []
