# SPDX-License-Identifier: Apache-2.0
"""Finds what a script does node by node: preparing each node, or starting one part of the training on each."""
import re
from typing import Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from . import launch as launches, shell
from .counts import Count, Found
from .frameworks import Frameworks
from .launchers import LAUNCHERS
from .words import Cursor

PREPARES = re.compile(r"(set-?up|config|prepare?|stage|install|download|unpack|untar|extract|copy|init|clean|env|mount)[^/]*$", re.I)
QUIET = {"echo", "printf", "sleep", "wait", ":", "let", "date"}
LOOPS = {"for", "while", "until", "select"}


class Loop(NamedTuple):
    start: int    # of the word `for`
    body: int     # after the word `do`
    done: int     # of the word `done`
    end: int
    names: Set[str]


class Nodes(Frameworks):
    def __init__(self, text: str, folder: str):
        super().__init__(text, folder)
        self.kept_texts: Dict[int, str] = {}
        self.found_loops: Optional[List[Loop]] = None

    def starts_ray(self) -> bool:
        """Whether the script, or one that it calls, starts Ray, which places the processes of the job itself."""
        spoken = re.sub(r"^[ \t]*#[^\n]*", "", self.text, flags=re.M)
        called = [self.content_of(name) or "" for name in shell.names_ending(spoken, "sh|bash", r"(?<!>)(?<![^\s\"';&|()<>=])[^\s\"';&|()<>=]+")[:20]]
        return any(re.search(r"^[^#\n]*\bray[ \t]+(?:start|symmetric-run|disable-usage-stats|job[ \t]+submit)\b", text, re.M) for text in [self.text] + called)

    # ---- setup

    def without_setup(self, found: List[Found]) -> List[Found]:
        """The launches without those that prepare nodes, which stay with srun."""
        kept = [item for item in found if not self.is_setup(item, found)]
        return kept or found

    def is_setup(self, item: Found, found: List[Found]) -> bool:
        launch = item.launch
        if launch.launchers != ["srun"] or item.inner or len(found) < 2:
            return False
        words = [shell.unquoted(self.text[word.start:word.end]) for word in launch.stack[-1].words[launch.stack[-1].at:]]
        program = next((word for word in words if word not in launches.SHELLS and not word.startswith("-")), "")
        if program != words[0] and words[0] not in launches.SHELLS or not re.search(r"\.(sh|bash)$", program):
            return False
        content = self.content_of(program)
        if content is not None:
            return re.search(r"python|torchrun|accelerate|deepspeed|\.py\b|julia|Rscript|mpirun", content) is None
        if PREPARES.search(program):
            return True
        tasks = item.many.most
        return item is not found[-1] and tasks == self.asked.nodes and any((one.many.most or 0) > (tasks or 0) for one in found[found.index(item):])

    def keep_tasks_of_srun(self, found: List[Found], learners: Count) -> None:
        """Gives srun's other commands the number of tasks that they had: srun takes it from the job, where it becomes
        the number of learners."""
        if not self.lines or not self.asked.tasks or learners.most == self.asked.tasks:
            return
        ours = {item.at for item in found}
        for command in self.commands:
            words = [word for word in command.words if not word.redirect]
            if not words or words[0].start in ours or self.is_taken(words[0].start):
                continue
            launch = launches.read(Cursor(self.text, command.words, self.assigned))
            if launch is None or launch.launchers != ["srun"] or "total" in launch.told[0] or not launch.program:
                continue
            first = next((word for word in words if self.text[word.start:word.end] == "srun"), None)
            if first is not None:
                self.edits[(first.end, first.end)] = f" --ntasks={self.asked.tasks}"

    # ---- one part of a launch on each node

    def one_of_parts(self, found: List[Found]) -> List[Found]:
        """Keeps one launch of several that each start the part of one node, because dlrun starts learners on all
        nodes."""
        loops = self.loops()
        parts = [item for item in found if self.is_part(item)]
        gone: List[Found] = []
        while parts:
            first = parts.pop(0)
            program = self.kept_text(first)
            same = [item for item in parts if first.parallel and self.kept_text(item) == program]
            loop = self.loop_of(first, loops)
            if loop is not None:
                # One branch of the loop starts the first node, another one the others.
                mates = [item for item in same if self.loop_of(item, loops) == loop and self.branches.exclude(item.at, first.at)]
                if self.is_alone(first, loop, mates):
                    gone += mates
                    parts = [item for item in parts if not any(item is one for one in mates)]
                    self.take_out_of_loop(first, loop)
                    self.whole.add(first.at)
                elif self.varies(first, loop) or loop.names:
                    self.note(first.launch.first, "this stands in a loop that starts one node at a time, but dlrun starts the learners of all nodes at once: "
                              "take it out of the loop, so that it runs once")
                continue
            for item in same:
                loop = self.loop_of(item, loops)
                if loop is None:
                    self.remove(*self.span_of(item))
                elif self.is_alone(item, loop):
                    self.remove(loop.start, loop.end)
                else:
                    self.note(item.launch.first, "dlrun starts the learners of all nodes at once, so that the launch above is enough: remove this loop")
                    continue
                gone.append(item)
                parts.remove(item)
            if same:
                self.whole.add(first.at)
                self.in_front(first)
        return [item for item in found if not any(item is one for one in gone)]

    def is_part(self, item: Found) -> bool:
        for one in [item] + item.inner:
            launch = one.launch
            if not launch.launchers or not LAUNCHERS[launch.launchers[-1]].script:
                continue
            told = launch.told[-1]
            rank = told.get("node_rank")
            if "nodes" in told and (self.number(told["nodes"]) or 2) < 2:
                continue
            if rank is not None and "SLURM_" not in rank.raw or item.launch.launchers[:1] == ["ssh"] and "nodes" in told or "job:nodelist" in (item.launch.told or [{}])[0]:
                return True
        return False

    def span_of(self, item: Found) -> Tuple[int, int]:
        """The place of the command, with its & but without words of the shell such as `do` before it."""
        command = self.command_at[item.at]
        start = next(word.start for word in command.words if self.text[word.start:word.end] not in shell.RESERVED)
        end = command.words[-1].end
        behind = re.compile(r"[ \t]*&(?!&)").match(self.text, end)
        return start, behind.end() if behind else end

    def kept_text(self, item: Found) -> str:
        """The command without the launcher's words, with single blanks."""
        if item.at in self.kept_texts:
            return self.kept_texts[item.at]
        start, end = item.launch.cursor.top.words[0].start, item.launch.cursor.top.words[-1].end
        gone = [(top.words[i].start, top.words[i].end) for one in [item] + item.inner for top in [one.launch.cursor.top] for i in top.gone]
        text = "".join(char for at, char in enumerate(self.text[start:end], start) if not any(a <= at < b for a, b in gone))
        words = text.replace("\\\n", " ").split()
        while words and words[0] in shell.RESERVED:
            words.pop(0)
        self.kept_texts[item.at] = " ".join(words)
        return self.kept_texts[item.at]

    def loops(self) -> List[Loop]:
        if self.found_loops is None:
            self.found_loops = self.find_loops()
        return self.found_loops

    def find_loops(self) -> List[Loop]:
        found: List[Loop] = []
        begun: List[List[int]] = []
        for command in self.commands:
            for word in command.words:
                raw = self.text[word.start:word.end]
                if raw not in shell.RESERVED:
                    break
                if raw in LOOPS:
                    begun.append([word.start, word.end])
                elif raw == "do" and begun:
                    begun[-1][1] = word.end
                elif raw == "done" and begun:
                    start, body = begun.pop()
                    head = re.match(r"\w+\s*\(\(\s*(\w+)|\w+\s+(\w+)", self.text[start:body])
                    names = {head.group(1) or head.group(2)} if head else set()
                    names |= {item.name for item in self.assigned if body <= item.start < word.start}
                    found.append(Loop(start, body, word.start, word.end, names))
        return found

    def loop_of(self, item: Found, loops: List[Loop]) -> Optional[Loop]:
        around = [loop for loop in loops if loop.start <= item.launch.first < loop.end]
        return min(around, key=lambda loop: loop.end - loop.start) if around else None

    def is_alone(self, item: Found, loop: Loop, mates: Sequence[Found] = ()) -> bool:
        """Whether the loop does nothing else that matters, and the program is the same in each turn. `mates`: launches of the
        same program in other branches."""
        if not item.parallel or self.varies(item, loop):
            return False
        spans = [self.span_of(one) for one in [item, *mates]]
        for command in self.commands:
            words = [word for word in command.words if not word.redirect]
            if not words or not loop.body <= words[0].start < loop.done and not loop.body <= words[-1].start < loop.done:
                continue
            raw = [self.text[word.start:word.end] for word in words if word.start >= loop.body]
            while raw and raw[0] in ({"do", "if", "then", "else", "elif", "fi"} if mates else {"do"}):
                raw.pop(0)
            if not raw or mates and raw[0] in ("[", "[[", "test") or any(start <= words[-1].start < end for start, end in spans) or re.fullmatch(r"\w+(\+\+|--|\+=\d+)", raw[0]):
                continue
            if raw[0] not in QUIET and not all(re.match(r"[A-Za-z_]\w*\+?=", word) for word in raw if word != "export"):
                return False
        return True

    def varies(self, item: Found, loop: Loop) -> bool:
        kept = " ".join([self.kept_text(item)] + [value for _, value in item.launch.env])
        return any(re.search(r"\$\{?" + name + r"\b", kept) for name in loop.names)

    def take_out_of_loop(self, item: Found, loop: Loop) -> None:
        start, end = self.span_of(item)
        self.edits[(loop.start, start)] = ""
        self.edits[(self.in_front(item, loop.names), loop.end)] = ""
        self.remove_wait(loop.end)

    def in_front(self, item: Found, names: Optional[Set[str]] = None) -> int:
        """Puts the launch in the foreground, so that the script ends with it. Returns the end of its words."""
        command = self.command_at[item.at]
        for word in command.words:
            if word.redirect and any(re.search(r"\$\{?" + name + r"\b", self.text[word.start:word.end]) for name in names or ()):
                self.edits[(word.start, word.end)] = ""
                self.note(word.start, f"{self.text[word.start:word.end]} is left out: the output of all learners is in that of the job, and one file each in its job directory")
        last = command.words[-1].end
        if names is None:
            self.edits[(last, self.span_of(item)[1])] = ""
            self.remove_wait(last)
        return last

    def remove_wait(self, behind: int) -> None:
        """Removes the next `wait`, unless something else runs in the background."""
        waits = [one for one in self.commands if [self.text[word.start:word.end] for word in one.words] == ["wait"] and one.words[0].start >= behind]
        others = [one for one in self.commands if one.after == "&" and not self.is_taken(one.words[-1].end) and not self.is_taken(one.words[0].start)]
        if waits and not others:
            self.remove(waits[0].words[0].start, waits[0].words[0].end)

    def remove(self, start: int, end: int) -> None:
        """Removes the text, and the whole line if nothing else is on it."""
        front = self.text.rfind("\n", 0, start) + 1
        stop = self.text.find("\n", end)
        if stop >= 0 and self.text[front:start].strip() == "" and self.text[end:stop].split("#")[0].strip() == "":
            self.edits[(front, stop + 1)] = ""
            return
        before = re.search(r";[ \t]*$", self.text[:start])
        self.edits[(before.start() if before else start, end)] = ""
