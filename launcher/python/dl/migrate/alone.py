# SPDX-License-Identifier: Apache-2.0
"""One process that no launcher starts: it finds no rank by hand, and so it finds none under dlrun."""
import bisect
import re
from typing import Dict, List

from . import shell
from .counts import Count, Found
from .hosts import Hosts
from .launchers import LAUNCHERS
from .lightning import LIGHTNING

# The programs and modules of Python in the text of a shell, or in a script.
PROGRAMS = re.compile(r"^[^#\n]*?\bpython[\d.]*[ \t]+(?:-[a-zA-Z]+[ \t]+)*?(-m[ \t]+)?([\w./$][\w./${}-]*)", re.M)

# What a program is told that may be Lightning's.
TOLD_TO_LIGHTNING = re.compile(r"--(?:trainer\.)?(?:strategy|devices|num_nodes|accelerator)\b|\+?trainer[./]")

# What has accelerate start one process as it starts several.
SPREAD = {"ACCELERATE_USE_DEEPSPEED", "ACCELERATE_USE_FSDP", "ACCELERATE_USE_MEGATRON_LM"}


class Alone(Hosts):
    others: Dict[int, List[Found]]  # of each launch, its offset's: the same command with the values of other branches
    hidden = ""  # words in front of the last program that was started alone

    def is_alone_in_job(self, item: Found) -> bool:
        """Whether it is one process that gets no rank from what starts it. THE rule: dlrun starts each such process with --alone. A program may use
        all GPUs, or start processes, only where it finds no rank, or wrap its model where it finds one. `accelerate launch` gives one process none,
        but for DeepSpeed and FSDP."""
        every = [name for one in [item] + item.inner for name in one.launch.launchers]
        return item.many == Count(1, 1) and all(name in ("srun", "accelerate") for name in every) and not self.launchers_in_script(item) and not self.is_first_of_one(item)

    @staticmethod
    def is_first_of_one(item: Found) -> bool:
        """Whether accelerate gives its one process a rank."""
        launches = [one.launch for one in [item] + item.inner if one.launch.launchers[-1:] == ["accelerate"]]
        return item.many == Count(1, 1) and any("spread" in launch.told[-1] or any(name in SPREAD and value == "true" for name, value in launch.env) or
                                                re.search(r"zero|deepspeed|fsdp|(?<![a-z])ds(?![a-z])", launch.settings, re.I) for launch in launches)

    def own_tasks(self, item: Found) -> str:
        """Words that hide the number of tasks from Lightning with several devices. Slurm sets it only in a job that asks for tasks, and where
        Lightning finds it, it starts no processes."""
        self.hidden = ""
        each = self.asked.gpus if self.gpus_of_one_process(item) else self.each if self.each is not None else self.asked.gpus_per_node
        if not self.is_alone_in_job(item) or item.launch.launchers or (each or 1) < 2 or {"ntasks", "ntasks-per-node", "tasks-per-node"} & set(self.asked.given):
            return ""
        program, told = self.told_to_program(item.launch)
        texts = self.texts_of(item, program)
        texts += self.beside(program, texts[0]) if texts else []
        lightning = any(LIGHTNING.search(text) for text in texts) or not texts and any(TOLD_TO_LIGHTNING.match(word) for word in told)
        if lightning and not re.search(r"\b(devices|gpus)[= ]+[\"']?1\b", " ".join(told + texts)):
            self.note(item.at, "Lightning starts the processes of a node's GPUs itself here, for which it must not find SLURM_NTASKS (env -u)")
            self.hidden = "env -u SLURM_NTASKS "
        return self.hidden

    def with_gpus_left(self, item: Found) -> Found:
        """A launcher with fewer processes than its node has GPUs leaves the others to the program, which may generate text on them (vLLM): one
        learner with all GPUs starts that launcher."""
        gpus, many, outer = self.asked.gpus or 0, item.many.most or 0, item.launch
        if (self.asked.nodes or 1) > 1 or len(item.inner) > 1 or item.parallel or item.many.least != many or not 1 < many < gpus or gpus % many == 0:
            return item
        launch = item.inner[0].launch if item.inner else outer
        around = outer.launchers if item.inner else launch.launchers[:-1]
        if not launch.launchers or not LAUNCHERS[launch.launchers[-1]].script or around not in ([], ["srun"]) or item.inner and len(launch.launchers) > 1:
            return item
        if around and (self.number(outer.told[0].get("total")) or self.asked.tasks or 1) != 1:
            return item
        top, (first, given) = launch.cursor.top, launch.behind if around and not item.inner and launch.behind else (0, 0)
        self.starts_torchrun += [(holder.words[0].start, holder.words[-1].end) for holder in launch.cursor.seen if holder.words]
        for holder in launch.cursor.seen:
            holder.gone = {i for i in holder.gone if holder is top and holder.words[i].start < first}
        if not item.inner:
            launch.env, launch.launchers, launch.told = launch.env[:given], around, launch.told[:-1]
            launch.program, launch.python, launch.local_rank, launch.stack = "", "", False, [top]
            top.at = next((i for i, word in enumerate(top.words) if word.start >= max(first, launch.first)), 0)
        launch.settings, outer.stays, self.restarts = "", True, None
        self.others[item.at] = []
        lines = {bisect.bisect_left(self.ends_of_lines, at) + 1 for at in (top.words[0].start, *[word.start for holder in launch.cursor.seen for word in holder.words])}
        self.notes = [note for note in self.notes if note.line not in lines or "--config_file" not in note.text]
        return item._replace(many=Count(1, 1), inner=[])

    def say_of_gpus_left(self, found: List[Found], many: Dict[int, Count]) -> None:
        for item in found:
            if item.launch.stays:
                self.note(item.at, f"this starts {many[item.at].most} processes where there are {self.asked.gpus} GPUs, and its program may use the others by itself: it stays, and one learner "
                          "with all GPUs starts it")

    def visible_gpus(self, item: Found) -> str:
        """What stands in front of a launcher that stays, of the GPUs that it sees: the launcher is told it, and not dlrun."""
        words = item.launch.cursor.top.words
        told = ""
        for word, after in zip(words, words[1:]) if item.launch.stays else []:
            if word.start < item.launch.first and re.match(r"(?:CUDA|HIP|ROCR)_VISIBLE_DEVICES=", self.text[word.start:word.end]):
                told += self.text[word.start:word.end] + " "
                self.edits[(word.start, after.start)] = ""
        return "env " + told if told else ""

    def gpus_of_learner(self, item: Found) -> int:
        """The GPUs that a learner of the job has."""
        return self.each if self.each is not None else item.many.gpus

    def texts_of(self, item: Found, program: str) -> List[str]:
        """The programs of the launch that can be read here."""
        launch = item.launch
        names = [program] if program and " " not in program else []
        text = self.text[launch.inner[0]:launch.inner[1]] if launch.inner else self.script_content(item) or ""
        names += [name.replace(".", "/") + ".py" if module else name for module, name in PROGRAMS.findall(text)]
        return [content for content in map(self.content_of, names) if content is not None]

    def gpus_of_one_process(self, item: Found) -> str:
        """The option for the GPUs of one process, where the job has other launches with more learners: those that it saw, which are all of its node
        unless other launches run beside it."""
        told = item.launch.told[0] if item.launch.told else {}
        seen = self.asked.gpus_per_node or (self.asked.gpus if self.asked.nodes in (None, 1) else None) or 1
        asks = next((self.gpus_told(told[what], what == "gres") for what in ("gpus_each", "gpus", "gpus_per_node", "gres") if what in told), seen) or seen
        if item.launch.stays:
            return f"--gpus {seen} " if self.gpus_of_learner(item) < seen else ""
        if (self.is_alone_in_job(item) or self.is_first_of_one(item)) and item.launch.launchers and not item.parallel and self.gpus_of_learner(item) < min(asks, seen):
            return f"--gpus {min(asks, seen)} "
        # One without a launcher uses all by itself only with DataParallel.
        if item.launch.launchers or self.asked.nodes not in (None, 1) or (self.asked.gpus or 1) < 2:
            return ""
        words = [shell.unquoted(self.text[word.start:word.end]) for word in item.launch.cursor.top.words]
        program = next((word for word in words if word.endswith(".py")), "")
        content = self.content_of(program) or ""
        uses = any(re.search(r"(?<!Distributed)DataParallel(?:\(| as )", text) for text in [content] + (self.beside(program, content) if program else []))
        return f"--gpus {self.asked.gpus} " if uses else ""
