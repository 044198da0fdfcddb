# SPDX-License-Identifier: Apache-2.0
"""Finds the training of a script that starts one process without a launcher, and tells trainings from other commands."""
import functools
import os
import re
from typing import Dict, List, Optional

from . import launch as launches, shell
from .alone import Alone
from .counts import Count, Found
from .words import DEPTH, Cursor, Holder

# The program or module of a python in the text of a shell.
PYTHON_OF_TEXT = re.compile(r"\bpython[\d.]*[ \t]+(?:-[a-zA-Z]+[ \t]+)*?(?:-m[ \t]+)?([\w./$][\w./${}-]*)")

# What starts trainings by other files than a program of Python's: an agent of sweeps, notebooks, rules, Julia.
AGENT = re.compile(r"(?:\S*/)?(?:wandb agent \S|papermill \S|jupyter[ -]nbconvert\b.*--execute\b|(?:make|just) (?:-\S+ )*\S*train|dvc repro\b|julia\b.*\.jl\b|Rscript \S*train)")

# A program that may train if its first argument is "train".
NO_TOOL = r"(?!(?:cd|source|pushd|set|unset|read|wait|exit|return|sed|awk|grep|sort|cut|zip|make|sh|bash)$)[\w/][\w./-]*"

# The text of a python -c trains, or starts a program or a launcher that does.
TRAINS_ITSELF = re.compile(r"backward\(|init_process_group|Trainer\(|Accelerator\(|hvd\.init|\.fit\(|COMM_WORLD|jax\.distributed\.init|torch\.distributed\.run\b|\btorchrun\b|"
                           r"(subprocess|runpy|os\.(system|exec)).*\btrain\w*\.py", re.S)
TRAINS = re.compile(r"(?<![a-z])(pre|re)?train(er|ing|_?net)?(?![a-z])|fine_?tun(e|ing)|(?<![a-z])(sft|grpo|dpo|ppo)(?![a-z])", re.I)
OTHER = re.compile(r"(?<![a-z])(eval\w*|test\w*|predict\w*|infer\w*|plot\w*|log|logs|pre-?process\w*|prepare?\w*|generate?\w*|gen|convert\w*|download\w*|export\w*|analy\w*|tokeniz\w*|data|dataset|split\w*|stats?|visuali\w*|merge\w*|report\w*|table\w*|validate|check\w*|setup|build)(?![a-z])",
                   re.I)


def says_that_it_trains(words: List[str]) -> bool:
    """Whether a program and what it is told say that they train: train.py, run.py train, main.py --mode train."""
    told = [word for i, word in enumerate(words[1:3]) if i == 0 or re.fullmatch(r"--?(mode|task|phase|stage|action|command)", words[1])]
    told = [word.rpartition("=")[2] for word in told if not word.startswith("-") or re.match(r"--(mode|task|phase|stage|action|command)=", word)]
    if any(re.fullmatch(r"(pre|re)?train(ing)?|fine_?tun(e|ing)", word) for word in told):
        return True
    return bool(words) and TRAINS.search(parted(words[0])) is not None and not says_something_else(words[0]) and not any(OTHER.fullmatch(word) for word in told)


def parted(program: str) -> str:
    """The name of a program in parts: trainModel.py and train_model.py as train-Model.py and train-model.py."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_", "-", os.path.basename(program))


def says_something_else(program: str) -> bool:
    return OTHER.search(parted(program)) is not None


@functools.lru_cache(maxsize=4)
def functions(text: str) -> Dict[str, str]:
    """What the functions of a script do, by their names."""
    heads = re.finditer(r"^[ \t]*(?:function[ \t]+(\w+)[ \t]*(?:\([ \t]*\))?|(\w+)[ \t]*\([ \t]*\))[ \t\n]*\{(.{0,4000}?)^[ \t]*\}", text, re.M | re.S)
    return {head.group(1) or head.group(2): head.group(3) for head in heads}


class Plain(Alone):
    says_no_training = False  # nothing has a launcher, and no program says by its name that it trains

    def trains(self, code: str, depth: int = 0) -> bool:
        """Whether the text of a shell may start a training, rather than say, copy or remove something."""
        for command in shell.commands(code, 0, len(code)):
            words = [code[word.start:word.end] for word in command.words if not word.redirect and code[word.start:word.end] not in shell.RESERVED]
            words = [word for word in words if not re.match(r"[A-Za-z_]\w*=", word)]
            first = re.fullmatch(r"\$\{?(\w+)\}?", words[0]) if words else None
            held = [self.text[one.value[0]:one.value[1]] for one in self.assigned if first and one.name == first.group(1)]
            if held and depth < DEPTH and self.trains(held[-1], depth + 1):
                return True
            body = functions(self.text).get(words[0]) if words and depth < DEPTH else None
            if body is not None and self.trains(body, depth + 1):
                return True
            quiet = bool(words) and (launches.is_utility(words[0]) or words[0] in ("cd", "source", ".", "export", "set", "unset", "["))
            if words and not quiet and re.search(r"python|\.py\b|\./|\$\{?\w*(CMD|COMMAND|SCRIPT|RUN)|bash |julia|Rscript", " ".join(words) + " ", re.I):
                return True
        return False

    def is_snippet(self, launch: launches.Launch) -> bool:
        """Whether the form shows that this is no training: srun python3 - <<EOF, srun python3 -c '...', srun bash -c FUNCTION."""
        words = [shell.unquoted(self.text[word.start:word.end]) for word in launch.stack[-1].words[launch.stack[-1].at:]]
        if launch.program in launches.SHELLS and len(words) == 3 and re.fullmatch(r"-\w*c", words[1]):
            body = functions(self.text).get(words[2])
            return body is not None and not self.trains(body)
        if launches.is_wrapper(launch.program):
            words = words[next((i for i, word in enumerate(words) if launches.PYTHON.fullmatch(word)), len(words)):]
        if not words or not launches.PYTHON.fullmatch(words[0]):
            return False
        if words[1:2] == ["-c"]:
            code = launch.cursor.held(words[2]) if len(words) > 2 else ""
            return TRAINS_ITSELF.search(code) is None
        return len(words) == 1 or words[1] in ("-V", "--version")

    def plain_python(self, commands: Optional[List[shell.Command]] = None) -> List[Found]:
        """The launches of a script that starts processes without a launcher: each python that says by its name that it trains, else the
        last one with a file, wherever it is started."""
        found = [item for item in map(self.python_of, self.commands if commands is None else commands) if item is not None]
        if not found:
            return self.own_command() if commands is None else []
        chosen = [item for item in found if says_that_it_trains(self.words_behind(item)) or self.is_agent(item)]
        self.says_no_training = not chosen and commands is None
        if not chosen:
            may_train = [item for item in found if not says_something_else(self.program_of(item))]
            chosen = [item for item in may_train if self.program_of(item) == self.program_of(may_train[-1])] or found[-1:]
        for item in chosen:
            for text in item.launch.notes:
                self.note(item.at, text)
        return chosen if commands is None else chosen[-1:]

    def with_other_branches(self, found: List[Found]) -> List[Found]:
        """And the same program where another branch starts it without a launcher, as for one GPU; beside a training without a launcher,
        also one that another branch starts in a container."""
        if len(found) > 100:
            return found
        programs = {word for item in found for holder in item.launch.stack for word in self.words_in(holder) if word.endswith(".py")}
        programs |= {name for item in found for one in self.command_of(item).words for name in re.findall(r"-m\s+(\w+\.[\w.]+)", self.text[one.start:one.end])}
        elsewhere = [command for command in self.commands if command.words and found and
                     all(self.branches.exclude(command.words[0].start, item.at) for item in found)]
        plain = not any(item.launch.launchers for item in found)
        others = [command for command in elsewhere if programs & {self.text[word.start:word.end] for word in command.words} or plain and self.trains_in_container(command)]
        more = [item for command in others for item in self.plain_python([command])]
        return sorted(found + more, key=lambda item: item.at)

    def trains_in_container(self, command: shell.Command) -> bool:
        """apptainer exec IMAGE bash -c "python train.py"."""
        cursor = Cursor(self.text, command.words, self.assigned)
        if not launches.skip_front(cursor):
            return False
        raw = [shell.unquoted(self.text[word.start:word.end]) for word in cursor.top.words[cursor.top.at:]]
        if not raw or not launches.is_wrapper(raw[0]) and raw[:2] not in (["docker", "run"], ["podman", "run"]):
            return False
        return any(re.fullmatch(r"-\w*c", word) and says_that_it_trains([name]) for word, code in zip(raw, raw[1:]) for name in PYTHON_OF_TEXT.findall(code))

    def words_in(self, holder: Holder) -> List[str]:
        return [self.text[word.start:word.end] for word in holder.words]

    def python_of(self, command: shell.Command) -> Optional[Found]:
        """The launch of a python with a file or a module; None if the command is none."""
        cursor = Cursor(self.text, command.words, self.assigned)
        if not launches.skip_front(cursor) or self.feeds_another(command):
            return None
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
        document = (launches.is_wrapper(raw[0]) or raw[0] in launches.SHELLS) and self.shell_reads_document(command)
        agent = document or AGENT.match(" ".join(raw)) is not None
        if not agent and (not launches.PYTHON.fullmatch(raw[0]) or len(raw) < 2 or not any(word.endswith(".py") or word == "-m" for word in raw[1:6] + [self.first_of(cursor, raw)]) or \
                set(raw[1:3]) & {"-c", "pip", "venv", "-V"}):
            return None
        launch = launches.Launch(cursor)
        launch.program, launch.stack, launch.first = raw[0], [cursor.top], words[start].start
        launch.notes += [unknown] if unknown else []
        return Found(launch, [], Count(1, 1), self.in_background(command), words[start].start)

    def is_agent(self, item: Found) -> bool:
        """wandb agent SWEEP and the like, which run trainings."""
        words = self.words_in(item.launch.stack[0])[:launches.MOST_IN_FRONT]
        return any(AGENT.match(" ".join(words[at:])) for at in range(len(words)))

    @staticmethod
    def first_of(cursor: Cursor, raw: List[str]) -> str:
        """The value of the first word behind python that is no option."""
        return cursor.held(next((word for word in raw[1:] if not re.match(r"-[a-zA-Z]", word)), ""))

    def words_behind(self, item: Found) -> List[str]:
        """The words of a python from the program, or the module, on."""
        held = [word for one in item.launch.cursor.top.words for word in self.with_value_of(self.text[one.start:one.end])]
        first = next((i for i, word in enumerate(held) if word.endswith(".py") or word == "-m"), len(held))
        return held[first + (held[first:first + 1] == ["-m"]):]

    def with_value_of(self, word: str) -> List[str]:
        """The words of a word's value, if it is a variable of the script; else the word itself."""
        name = re.fullmatch(r"\"?\$\{?(\w+)(\[@\])?\}?\"?", word)
        items = [one for one in self.assigned if name and one.name == name.group(1)]
        first = max((i for i, one in enumerate(items) if not one.appends), default=0)
        held = " ".join(self.text[one.value[0]:one.value[1]] for one in items[first:])
        return shell.unquoted(held).strip("()").split() if items else [shell.unquoted(word)]

    def program_of(self, item: Found) -> str:
        return "".join(self.words_behind(item)[:1])

    def with_value(self, cursor: Cursor, raw: List[str]) -> List[str]:
        """The words `raw` of a command, with the value of the variable that begins them, as in $CMD or "${CMD[@]}"."""
        if raw[0][:1] != "$" or launches.PYTHON.fullmatch(raw[0]):
            return raw
        of_loop = re.search(r"\bfor[ \t]+" + re.sub(r"\W", "", raw[0]) + r"[ \t]+in[ \t]+\"?\$\{(\w+)\[[@*]\]\}", self.text)
        of_array = of_loop or re.fullmatch(r"\$\{(\w+)\[[^]@*]+\]\}", raw[0])
        first = next((one for one in reversed(self.assigned) if of_array and one.array and one.name == of_array.group(1)), None)
        if first is not None:
            # for c in "${COMMANDS[@]}"; do $c; done, and eval "${COMMANDS[$SLURM_ARRAY_TASK_ID]}"
            items = shell.words_of(self.text, *first.value)[:1]
            return [word for one in items for word in shell.unquoted(self.text[one.start:one.end]).split()] + raw[1:]
        if not cursor.enter():
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
            if not launches.skip_front(cursor) or self.feeds_another(command):
                continue
            raw = [shell.unquoted(self.text[word.start:word.end]) for word in cursor.top.words[cursor.top.at:]]
            name = raw[1] if len(raw) > 2 and raw[0] in ("uv", "poetry", "pixi", "pdm") and raw[1] == "run" else raw[0]
            of_name = re.fullmatch(r"(?:[\w./$\{}-]*[-_/])?(?:pre)?(?:train|finetune)(?:er)?", raw[2] if name == "run" and len(raw) > 2 else name)
            if of_name and len(raw) > 1 or raw[1:2] in (["train"], ["finetune"], ["pretrain"]) and len(raw) > 2 and not launches.is_utility(raw[0]) and re.fullmatch(NO_TOOL, raw[0]):
                launch = launches.Launch(cursor)
                first = cursor.top.words[cursor.top.at].start
                launch.program, launch.stack, launch.first = raw[0], [cursor.top], first
                return [Found(launch, [], Count(1, 1), self.in_background(command), first)]
        return []
