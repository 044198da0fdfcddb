# SPDX-License-Identifier: Apache-2.0
"""Adapts lines that stay but depend on options that are removed, and writes the notes about options that dlrun does not
have."""
import re
from typing import Dict, List, Optional, Set, Tuple

from . import launch as launches, shell
from .counts import Count, Found
from .job import Job
from .launchers import LAUNCHERS

# Placements that differ too little from dlrun's own to be mentioned.
USUAL = re.compile(r"((verbose|quiet|v|q),)?(v|q|quiet|none|no|off|cores?|threads?|sockets?|rank|ldoms|closest|verbose|single:1|local|slot|node|numa|byslot|bycore|core:.*|slot:.*|block(:\w+)?|\*)?(,v|,verbose)?")
OPERAND = r"(?:\$\{[^}]*\}|\$?\w+)"
NUMBERS = {"1": "HUP", "2": "INT", "10": "USR1", "12": "USR2", "15": "TERM"}


def _signal_of(word: str) -> str:
    """The name of a signal in a word such as -SIGUSR1, -s USR1 or 10."""
    name = re.sub(r"^-s[ \t]*|^-n[ \t]*|^-", "", word).upper()
    name = name[3:] if name.startswith("SIG") else name
    return NUMBERS.get(name, name)


class Kept(Job):
    def __init__(self, text: str, folder: str):
        super().__init__(text, folder)
        self.alone: Set[int] = set()  # offsets of the launches whose learners see one GPU each
        self.remarks: Optional[List[Tuple[int, int]]] = None  # here documents that nothing reads
        self.starts_torchrun: List[Tuple[int, int]] = []  # texts in Python that start torchrun themselves

    def replace_variables(self, learners: Count) -> None:
        """Writes the values of variables that Slurm sets only for options that --dl-learners and --dl-gpus replace."""
        asked = self.asked
        numbers: Dict[str, Tuple[str, Optional[int]]] = {
            "SLURM_GPUS_PER_NODE": ("gpus-per-node", asked.gpus_per_node), "SLURM_GPUS": ("gpus", asked.gpus),
            "SLURM_GPUS_PER_TASK": ("gpus-per-task", asked.gpus_per_task), "SLURM_CPUS_PER_GPU": ("cpus-per-gpu", self.number_of("cpus-per-gpu")),
            "SLURM_NTASKS_PER_NODE": ("ntasks-per-node", asked.per_node if self.per_node(learners) is None else None)}
        for name, (option, number) in numbers.items():
            if option not in asked.given or number is None or any(item.name == name for item in self.assigned):
                continue
            first = True
            for use in re.finditer(r"\$\{" + name + r"(?:(?::?[-=?]|##?|%%?|//?)[^}]*)?\}|\$" + name + r"\b|\b" + name + r"\b", self.text):
                if self.is_taken(use.start()) or self.is_remark(use.start()) or (use.group(0) == name and not self.is_arithmetic(use.start())):
                    continue
                start = use.start() - (self.text[use.start() - 1] == "\\" and use.group(0) != name)
                self.edits[(start, use.end())] = str(number)
                if first:
                    self.note(start, f"{name} is only set for --{option}, which has gone: {number} is written in its place")
                first = False

    def number_of(self, option: str) -> Optional[int]:
        value = self.asked.given.get(option, "")
        return int(value) if value.isdigit() else None

    def share_cpus_once(self, learners: Count) -> None:
        """Removes divisions of --cpus-per-task: it was that of a launcher's task, divided among its processes, and is a
        learner's now."""
        cpus = self.cpus_of(learners)
        if cpus is None or cpus == self.asked.cpus or self.tasks_are_cpus and (self.asked.tasks or 1) > (learners.most or 1):
            return
        each = (learners.most or 1) // (self.asked.tasks or 1)
        names = ["SLURM_CPUS_PER_TASK"] + [item.name for item in self.assigned if re.fullmatch(
            r"\$\{?SLURM_CPUS_PER_TASK(:?-\d+)?\}?", self.text[item.value[0]:item.value[1]])]
        shared = r"\\?\$?\{?\b(?P<name>" + "|".join(names) + r")\b(?::?-\d+)?\}?\s*/\s*\\?(?P<by>" + OPERAND + ")"
        whole = (r"(?P<escape>\\?)\$\(\(\s*" + shared + r"\s*\)\)|", r"(?P<escape>\\?)\$\(\s*expr\s+" + shared + r"\s*\)|", r"(?P<escape>\\?)`\s*expr\s+" + shared + r"\s*`|")
        for pattern in [item[:-1] for item in whole] + [shared]:
            for use in re.finditer(pattern, self.text):
                by = self.values.number("$((" + use.group("by") + "))", use.start())
                if self.is_taken(use.start()) or self.is_remark(use.start()) or by not in (each, None):
                    continue
                name = use.group("name")
                self.edits[use.span()] = name if pattern == shared else f"{use.group('escape')}${name}"
                self.note(use.start(), f"--cpus-per-task is that of a learner now, so it is not divided by {use.group('by')} once more")

    def is_remark(self, at: int) -> bool:
        return self.text[self.text.rfind("\n", 0, at) + 1:at].lstrip().startswith("#")

    def is_arithmetic(self, at: int) -> bool:
        return self.text.rfind("((", 0, at) > self.text.rfind("))", 0, at)

    def keep_tail(self, item: Found) -> bool:
        """Whether what stands behind a launch is taken care of."""
        return False

    # ---- remarks

    def say_which_launchers_stay(self) -> None:
        for use in re.finditer(r"(?<![-\w])(torchrun|torch\.distributed\.(run|launch)|accelerate launch|horovodrun)\b(?![-./=])", self.text):
            line = self.text[self.text.rfind("\n", 0, use.start()) + 1:use.start()]
            named = re.fullmatch(r"\s*(?:export\s+)?\w*torchrun\w*=[\"']?\S*/", line, re.I)  # a path that the launch itself uses
            if any(start <= use.start() < end for start, end in self.starts_torchrun):
                continue
            if self.is_in_remark(use.start()):
                continue
            if not named and not self.is_taken(use.start()) and not re.match(r"\s*(#|echo\b|printf\b|which\b|pip\b|module\b|command -v\b|type\b)|.*\s#\s|.*(which|command -v|activate) $", line):
                self.note(use.start(), f"'{use.group(0)}' stands here in a way that is not understood, and stays: if it starts the training, write dlrun -- PROGRAM in its place, "
                          "once and not on each node")

    def is_in_remark(self, at: int) -> bool:
        """Whether it stands in a here document that nothing reads: : <<'END'."""
        if self.remarks is None:
            self.remarks = []
            end = 0
            for mark in re.finditer(r"^[ \t]*:[ \t]*<<-?[ \t]*[\"'\\]?(\w+)[\"']?[^\n]*\n", self.text, re.M):
                if mark.start() >= end:
                    last = re.compile(r"^\t*" + mark.group(1) + r"$", re.M).search(self.text, mark.end())
                    end = last.end() if last else len(self.text)
                    self.remarks.append((mark.start(), end))
        return any(start <= at < end for start, end in self.remarks)

    def say_of_placement(self, item: Found, name: str, told: launches.Told) -> None:
        value = self.values.text(told.raw, told.at) or shell.unquoted(told.raw)
        each = re.fullmatch(r"ppr:(\d+):node.*", value)
        if USUAL.fullmatch(value) or each and int(each.group(1)) == self.asked.known()["SLURM_NTASKS_PER_NODE"]:
            return
        option = f"-{name} {value}" if len(name) == 1 else f"--{name}={value}"
        if name in ("network-interface", "network-interfaces", "nics"):
            self.note(told.at, f"{option} is left out, as each node finds its own interface; to choose one: export HOROVOD_GLOO_IFACE={value.split(',')[0]} NCCL_SOCKET_IFNAME={value}")
        elif "gpu" in name:
            self.note(told.at, f"{option} is left out: a learner sees the GPUs of its node and takes that of its LOCAL_RANK")
        else:
            self.note(told.at, f"{option} is left out: #SBATCH --nodes and --ntasks-per-node say how many learners a node has, and dlrun --bind=cores or numa binds them")

    def say_what_runs_oftener(self, item: Found) -> None:
        """Notes commands after a launcher in the text of a shell: they ran once on each node, and now run for each
        learner."""
        last = item.inner[-1] if item.inner else None
        if last is None or item.launch.inner is None or not last.launch.launchers or not LAUNCHERS[last.launch.launchers[-1]].script:
            return
        for command in shell.commands(self.text, *item.launch.inner):
            words = [self.text[word.start:word.end] for word in command.words if not word.redirect]
            if words and command.words[0].start > last.at and re.match(r"\S*(python[\d.]*|bash|sh|ssh|rsync|rclone|aws|curl)$", words[0]):
                self.note(command.words[0].start, f"'{words[0]}' here ran once a node, behind the launch, and now runs once for each learner: put it behind the line of dlrun")
                return

    def say_which_signals_end_here(self, item: Found) -> None:
        """Notes signals that the script hands on to the program that it has started in the background."""
        started = re.search(r"&[ \t]*(?:\n\s*|;[ \t]*)(?:export[ \t]+)?(\w+)=\"?\$!", self.text[item.at:]) if item.parallel else None
        sent = re.search(r"^[^#\n]*?\bkill[ \t]+(-\S*(?:USR1|USR2|HUP|10|12|1)|-s[ \t]+\S+)[ \t]+[^\n;&|]*\$\{?" + started.group(1) + r"\b", self.text, re.M) if started else None
        own = re.fullmatch(r"[BR]*B[R:]*:([^@]*).*", self.asked.given.get("signal", ""), re.I)
        if sent and _signal_of(sent.group(1)) not in ("USR1", _signal_of(own.group(1)) if own else ""):
            self.note(sent.start(1), f"kill {sent.group(1)} is for the program, but what is in the background now is dlrun, which hands only SIGUSR1 on, and the signal of --signal=B: "
                      "if the program acts on this one, send it SIGUSR1, or ask for it by --signal=B:")

    def say_of_own_signal(self) -> None:
        """Notes a signal before the time limit that is meant for the program."""
        told = self.asked.given.get("signal", "")
        line = next((line for line in self.lines if any(option.name == "signal" for option in line.options)), None)
        if line is not None and told and not re.match(r"[BR]*B|(?:R:)?(?:SIG)?(?:USR[12]|HUP|INT|TERM|10|12|15|1|2)\b", told, re.I):
            self.note(line.start, f"--signal={told}: dlrun takes this signal for its learners, and has those with the checkpoint library save; a program that acts on it by itself "
                      "(Lightning puts its job back) may not get it: give it --dl-checkpoint, or keep the script as it was")

    def say_what_starts_torchrun(self, item: Found, start: int, end: int) -> None:
        if re.search(r"torch\.distributed\.run\b|\btorchrun\b", self.text[start:end]):
            self.starts_torchrun.append((start, end))
            self.note(item.at, "this text in Python starts torchrun itself, once on each node as before; for a learner for each GPU, have it start the program alone")

    def say_what_was_dropped(self, item: Found) -> None:
        for name, value in item.launch.noted:
            self.say_of_placement(item, name, value)
        for told in item.launch.told:
            if "job:nodelist" in told and self.lines and item.at not in self.whole:
                self.note(told["job:nodelist"].at, f"the list of nodes {told['job:nodelist'].raw} is left out: learners are started on all nodes of the job; "
                          "#SBATCH --nodelist=... chooses these")
            if "output" in told:
                self.note(told["output"].at, "srun's files of output are not kept: learners' output is in that of the job, and one file each in its job directory (dlctl logs)")
            if "folder" in told:
                self.note(told["folder"].at, f"the working directory {told['folder'].raw} is left out: put cd {told['folder'].raw} in front")
            if "cpus" in told and self.asked.cpus is None and self.lines and not self.cpus_of_srun([item]):
                self.note(told["cpus"].at, f"srun's --cpus-per-task={told['cpus'].raw} is left out: write #SBATCH --cpus-per-task=N")
        many_of_node = self.asked.known()["SLURM_NTASKS_PER_NODE"] if self.asked.nodes else None
        if item.launch.launchers in (["srun"], ["mpirun"]) and not item.inner and many_of_node != 1 and (item.many.most or 2) > 1 and not self.launchers_in_script(item) and \
                not launches.PYTHON.fullmatch(item.launch.program) and item.at not in self.alone and ("gpus_each" in item.launch.told[0] or self.asked.gpus_per_task):
            self.note(item.at, "each task saw its own GPUs alone (--gpus-per-task); here a learner sees those of its node and takes cuda:$LOCAL_RANK")
        if not self.keep_tail(item):
            self.say_what_runs_oftener(item)
        self.say_which_signals_end_here(item)
        program = item.launch.program
        words = item.launch.stack[-1].words
        texts = [self.text[word.start:word.end] for word in words]
        if "-c" in texts[:-1] and not item.launch.inner:
            variable = re.fullmatch(r"\"?\$\{?(\w+)\}?\"?", texts[-1])
            given = (one.value for one in reversed(self.assigned) if variable and one.name == variable.group(1))
            self.say_what_starts_torchrun(item, *next(given, (words[-1].start, words[-1].end)))
        launchers = self.launchers_in_script(item)
        if launchers:
            script = self.script_of(item)
            self.note(item.at, f"{script} starts {launchers[0]} itself, once on each node as before; for a learner for each GPU run "
                      f"dlctl migrate {script}, too, and leave dlrun out of this script")
            return
        if not item.inner and re.search(r"\.(sh|bash|slurm|sbatch)$", program) or program in launches.SHELLS and not item.launch.inner:
            if self.script_content(item) is None:
                self.note(item.at, f"what '{program}' starts is not looked into: if a launcher stands in it, run dlctl migrate on that file "
                          f"too, and leave dlrun out of one of them")
            words = item.launch.stack[-1].words[item.launch.stack[-1].at:]
            for word in [shell.unquoted(self.text[word.start:word.end]) for word in words[:4]]:
                self.say_what_a_script_sets(word, item.at)
