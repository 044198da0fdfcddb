# SPDX-License-Identifier: Apache-2.0
"""A loop that starts a script on one node after the other, by ssh or srun, which there starts the launcher: one learner on each node
runs that script, and is told the number of its node where the loop told it."""
import os
import re
from typing import List, NamedTuple, Optional, Set, Tuple

from . import launch as launches, shell
from .counts import Count, Found
from .forms import Forms
from .nodes import Loop
from .words import Cursor

FROM_0 = re.compile(r"for\s+(\w+)\s+in\s+(?:\"?\$\{!|[\"\'`]?(?:\$\()?\s*seq\s+0\s|\{0\.\.|0\s)|for\s*\(\(\s*(\w+)\s*=\s*0\b")
FROM_1 = re.compile(r"for\s+(\w+)\s+in\s+(?:[\"\'`]?(?:\$\()?\s*seq\s+1\s|\{1\.\.|1\s)|for\s*\(\(\s*(\w+)\s*=\s*1\b")
COUNTED = re.compile(r"\(\(\s*(?:\+\+\s*)?(\w+)\s*(?:\+\+|[+*-]?=[^=])|\blet\s+[\"']?(\w+)")  # ((i++)), let i+=1
SCRIPT = re.compile(r"\.(sh|bash|slurm|sbatch)$")
BRANCHES = {"if", "then", "else", "elif", "fi"}


class Use(NamedTuple):
    """A place in the words of a command that is another one in each turn of the loop."""
    start: int
    end: int
    is_host: bool  # the name of the node; else its number


class Hosts(Forms):
    def script_in_text(self, launch: launches.Launch) -> str:
        """The script with a launcher that the command, or the text of its shell, starts on another node; empty if there is none that can be read."""
        if launch.inner is not None:
            commands = shell.commands(self.text, *launch.inner)
        else:
            commands = [shell.Command(launch.stack[-1].words[launch.stack[-1].at:], "", "")] if launch.stack else []
        for command in commands:
            name = self.script_of_command(command)
            if name and self.starts_launcher(name):
                return name
        return ""

    def script_of_command(self, command: shell.Command) -> str:
        """The shell script that a command runs: ./run.sh, bash run.sh; empty if it runs none."""
        cursor = Cursor(self.text, command.words, self.assigned)
        if not launches.skip_front(cursor):
            return ""
        words = [cursor.held(shell.unquoted(self.text[word.start:word.end])) for word in cursor.top.words[cursor.top.at:][:6]]
        if words[0] in launches.SHELLS:
            words = [word for word in words[1:] if not re.fullmatch(r"-[eluvx]+", word)]
        return words[0] if words and SCRIPT.search(words[0]) else ""

    def starts_launcher(self, name: str) -> bool:
        content = self.content_of(name)
        return content is not None and bool(self.launchers_in(content))

    def say_of_unknown_script(self, launch: launches.Launch, at: int) -> None:
        """Of a command for another node: a script that it starts there, but that cannot be read here."""
        commands = shell.commands(self.text, *launch.inner) if launch.inner is not None else []
        for name in filter(None, map(self.script_of_command, commands)):
            if self.content_of(name) is None:
                self.note(at, f"what {name} starts on each node is not known, as it is not here: if it starts the training, put it beside this script, and run dlctl migrate again")

    def say_which_scripts_start(self) -> None:
        for command in self.commands:
            cursor = Cursor(self.text, command.words, self.assigned)
            if not launches.skip_front(cursor):
                continue
            program = cursor.plain(1 if cursor.plain() in launches.SHELLS else 0) or ""
            if re.search(r"\.(sh|bash)$", program):
                self.note(cursor.word().start, f"what {program} starts is not looked into: if {program} starts the training, run dlctl "
                          f"migrate on that file")

    # ---- loops

    def of_another_node(self, launch: launches.Launch, command: shell.Command) -> Optional[Found]:
        """ssh NODE "cd DIR; bash SCRIPT", whose script starts the launcher there."""
        at = command.words[0].start
        script = self.script_in_text(launch) if launch.launchers == ["ssh"] else ""
        if not script:
            self.say_of_unknown_script(launch, at)
            return None
        self.scripts[at] = script
        last = shell.commands(self.text, *launch.inner)[-1:] if launch.inner is not None else []
        return Found(launch, [], Count(1, 1), self.in_background(command) or any(one.after == "&" for one in last), at)

    def scripts_on_each_node(self, found: List[Found]) -> Tuple[List[Found], bool]:
        """The launches, with one learner for each node in place of a loop that starts a script on each; and whether there are such that stay."""
        result: List[Found] = []
        for item in found:
            told = item.launch.told[0] if item.launch.launchers == ["srun"] and not item.inner else {}
            if "job:nodelist" in told and 1 in (self.number(told.get("total")), self.number(told.get("nodes"))) and item.parallel and self.loop_of(item, self.loops()) is not None:
                script = self.script_in_text(item.launch)
                if script:
                    self.scripts[item.at] = script
            if item.at not in self.scripts:
                result.append(item)
                continue
            if self.becomes_learners(item):
                result.append(item._replace(many=Count(self.asked.nodes, self.asked.nodes), parallel=False))
                continue
            del self.scripts[item.at]
            if told:
                result.append(item)
                continue
            self.note(item.at, "this starts a script on one node after the other, in a way that is not understood, and stays: put dlrun -- bash SCRIPT in the place of the whole loop, "
                      "with $DL_NODE_RANK for the number of the node in that script, and #SBATCH --dl-learners for the number of nodes")
        return result, len(result) < len(found)

    def becomes_learners(self, item: Found) -> bool:
        loop = self.loop_of(item, self.loops())
        if loop is None or not item.parallel or (self.asked.nodes or 1) < 2:
            return False
        mates = [one for one in self.commands if one.words and one.words[0].start != item.at and self.script_of_command(one) == self.scripts[item.at]]
        if len(mates) > 1:
            return False
        uses = self.uses_in(item, loop, bool(mates))
        spans = [self.span_of(item)] + [(one.words[0].start, one.words[-1].end) for one in mates]
        if uses is None or not self.does_nothing_else(loop, spans, branches=bool(mates)):
            return False
        if not self.told_by_the_learner(item, uses):
            return False
        for mate in mates:
            if not loop.start <= mate.words[0].start < loop.end:
                start = next(word.start for word in mate.words if self.text[word.start:word.end] not in shell.RESERVED)
                behind = re.compile(r"[ \t]*&(?!&)").match(self.text, mate.words[-1].end)
                self.remove(start, behind.end() if behind else mate.words[-1].end)
        self.take_out_of_loop(item, loop)
        self.whole.add(item.at)
        return True

    def uses_in(self, item: Found, loop: Loop, first_is_elsewhere: bool) -> Optional[List[Use]]:
        """The places that differ from turn to turn; None if one is neither the name nor the number of the node. `first_is_elsewhere`: the
        script is started on the first node by itself."""
        launch = item.launch
        head = self.text[loop.start:loop.body]
        numbers: Set[str] = set()
        for form in [FROM_0, FROM_1] if first_is_elsewhere else [FROM_0]:
            match = form.match(head)
            if match:
                numbers.add(match.group(1) or match.group(2))
        changing = loop.names | {name for pair in COUNTED.findall(self.text[loop.body:loop.done]) for name in pair if name}
        numbers |= {name for name in changing if self.counts_up(name, item, loop, first_is_elsewhere)}
        host = self.host_of(launch)
        name = re.fullmatch(r"\"?\$\{?(\w+)\}?\"?", host)
        words = [word for holder in [launch.stack[-1]] for word in holder.words[holder.at:]]
        start, end = launch.inner or (words[0].start if words else 0, words[-1].end if words else 0)
        uses: List[Use] = []
        for use in re.finditer(r"\$\{(\w+)(?:\[[^]}]*\])?\}|\$(\w+)", self.text[start:end]):
            variable = use.group(1) or use.group(2)
            of_host = use.group(0) == host.strip('"') or name is not None and variable == name.group(1)
            if variable not in changing and not of_host and not any(re.search(r"\[\s*\$?\{?" + one + r"\b", use.group(0)) for one in changing):
                continue
            if not of_host and (variable not in numbers or "[" in use.group(0)):
                return None
            if self.text[start:start + use.start()].count("$(") > len(re.findall(r"\$\([^()]*\)", self.text[start:start + use.start()])):
                return None  # $(basename $h), which the batch script itself runs
            uses.append(Use(start + use.start(), start + use.end(), of_host))
        for one_of_loop in changing:
            for other in re.finditer(r"\$(?:\{[#!]?|\(\([^)]*)\b" + one_of_loop + r"\b", self.text[start:end]):
                if not any(one.start <= start + other.start() < one.end for one in uses):
                    return None  # ${i%%.*}, $((i + 1))
        return uses

    def host_of(self, launch: launches.Launch) -> str:
        """The word that names the node."""
        if launch.launchers[:1] == ["ssh"]:
            words = launch.cursor.top.words
            last = max((i for i in launch.cursor.top.gone), default=0)
            return self.text[words[last].start:words[last].end].rpartition("@")[2]
        told = launch.told[0].get("job:nodelist")
        return told.raw if told is not None else ""

    def counts_up(self, name: str, item: Found, loop: Loop, first_is_elsewhere: bool) -> bool:
        """Whether the variable is 0 before the loop, and one more behind the command: RANK=0; for ...; do ssh ... $RANK & RANK=$((RANK+1)); done"""
        before = [one for one in self.assigned if one.name == name and one.start < loop.start and not one.appends]
        value = self.text[before[-1].value[0]:before[-1].value[1]] if before else ""
        if value not in (("0", "1") if first_is_elsewhere else ("0",)):
            return False
        more = r"\b" + name + r"=\"?(?:\$\(\(\s*\$?\{?" + name + r"\}?\s*\+\s*1\s*\)\)|\$\(expr\s+\$\{?" + name + r"\}?\s+\+\s+1\))|\(\(\s*" + name + \
            r"\s*(?:\+\+|\+=\s*1|=\s*" + name + r"\s*\+\s*1)\s*\)\)|\(\(\s*\+\+" + name + r"\s*\)\)|\blet\s+\"?" + name + r"(?:\+\+|\+=1)"
        places = [loop.body + match.start() for match in re.finditer(more, self.text[loop.body:loop.done])]
        return len(places) == 1 and places[0] > item.at

    def told_by_the_learner(self, item: Found, uses: List[Use]) -> bool:
        """Has the learner fill in the number and the name of its node. False if the words of the command do not allow that."""
        launch = item.launch
        if launch.inner is not None:
            dollar = "\\$" if self.quote_around(launch) == '"' else "$"
            if dollar == "$" and uses:
                return False  # what single quotes hold is not filled in by the loop
            for use in uses:
                self.edits[(use.start, use.end)] = f"{dollar}(hostname)" if use.is_host else f"{dollar}DL_NODE_RANK"
            return True
        holder = launch.stack[-1]
        words = holder.words[holder.at:]
        front: List[str] = []
        at = 1
        for i, word in enumerate(words):
            within = [use for use in uses if word.start <= use.start < word.end]
            raw = self.text[word.start:word.end]
            if not within:
                if uses and word.start < uses[-1].start and re.search(r"\$[*@]|\$\{\w+\[[@*]|`|\$\(", raw):
                    return False  # it may stand for several words
                continue
            text = raw.strip('"')
            for use in reversed(within):
                offset = use.start - word.start - (len(raw) - len(raw.lstrip('"')))
                text = text[:offset] + ("$(hostname)" if use.is_host else "$DL_NODE_RANK") + text[offset + use.end - use.start:]
            if re.search(r"['\\]", text) or holder.assignment is not None:
                return False
            kept = i + 1 - len(front) - at
            front.append((f'"${{@:{at}:{kept}}}" ' if kept else "") + f'"{text}"')
            at += kept
            self.edits[(words[i - 1].end if i else word.start, word.end)] = ""
        if front:
            launch.of_node = f"bash -c 'exec {' '.join(front)} \"${{@:{at}}}\"' learner "
        return True

    def does_nothing_else(self, loop: Loop, spans: List[Tuple[int, int]], branches: bool) -> bool:
        """Whether the loop has no other command that matters than those at `spans`. `branches`: these may stand in branches."""
        for command in self.commands:
            words = [word for word in command.words if not word.redirect and word.start >= loop.body]
            if not words or words[0].start >= loop.done or any(start <= words[-1].start < end for start, end in spans):
                continue
            raw = [self.text[word.start:word.end] for word in words]
            while raw and raw[0] in ({"do"} | BRANCHES if branches else {"do"}):
                raw.pop(0)
            if raw and not self.matters_not(raw) and not (branches and raw[0] in ("[", "[[", "test", "continue")):
                return False
        return True

    @staticmethod
    def matters_not(raw: List[str]) -> bool:
        return os.path.basename(raw[0]) in {"echo", "printf", "sleep", "wait", ":", "let", "date", "mkdir"} or re.fullmatch(r"\w+(\+\+|--|\+=\s*\d+)|\+\+\w+", raw[0]) is not None or \
            all(re.match(r"[A-Za-z_]\w*\+?=", word) for word in raw if word not in ("export", "local"))
