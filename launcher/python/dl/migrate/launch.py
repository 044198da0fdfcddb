# SPDX-License-Identifier: Apache-2.0
"""Reads one command of a script as a launch: which launchers it has, their options, and where the program begins."""
import bisect
import functools
import os
import re
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Set, Tuple

from .launchers import FLAGS_OF_WRAPPERS, HEADS, LAUNCHERS, MODULES, UTILITIES, WRAPPERS, Launcher
from .shell import RESERVED, unquoted
from .words import DEPTH, Cursor, Holder

# Also a variable that by its name holds the interpreter: $PYTHON_BIN, ${PY:-python3}, "${PY[@]}".
PYTHON = re.compile(r"(?:\S*/)?(?:i?python[\d.]*|pypy[\d.]*)|\$\{?(?:\w*(?:PYTHON|python)|(?:\w+_)?PY)(?:_?(?:BIN|EXE|PATH|bin|exe))?(?:\[[@*]\]|:?[-=][^}]*)?\}?")
KEPT_IN_FRONT = {"exec", "nohup", "setsid", "command", "builtin", "env", "sudo", "unbuffer", "stdbuf", "eval", "time"}
MOST_IN_FRONT = 200  # words of a container and the like, behind which a launcher is looked for
SHELLS = {"bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/usr/bin/bash", "/bin/zsh"}


class Told(NamedTuple):
    raw: str
    at: int  # offset in the script


class Launch:
    """A launch. The holders of the cursor have the words that are removed, and the program's first word."""

    def __init__(self, cursor: Cursor):
        self.cursor = cursor
        self.launchers: List[str] = []             # the outermost first: srun, torchrun
        self.told: List[Dict[str, Told]] = []      # the options of each launcher, by their meaning in the table
        self.env: List[Tuple[str, str]] = []
        self.notes: List[str] = []
        self.noted: List[Tuple[str, Told]] = []    # name and value of the options that get a note
        self.settings = ""                         # accelerate's file, if only the job itself can read it
        self.python = ""                           # written before the program
        self.local_rank = False                    # the program expects --local_rank
        self.inner: Optional[Tuple[int, int]] = None  # the text of bash -c
        self.program = ""                          # the first word of the program
        self.of_node = ""                          # a shell in front of the program that sets the number of the learner's node
        self.behind: Optional[Tuple[int, int]] = None  # offset of what stands behind the first launcher's options, and how many of `env` these gave
        self.stays = False                         # the launcher stays, and is a program of dlrun's
        self.first = 0                             # offset of the command, after exec, assignments and the like
        self.stack: List[Holder] = []              # the holders in which the program begins, outermost first

    def value(self, what: str) -> Optional[Told]:
        """The option with this meaning of the innermost launcher that has it."""
        for told in reversed(self.told):
            if what in told:
                return told[what]
        return None


def read(cursor: Cursor, nested: bool = False) -> Optional[Launch]:
    """Reads a launch; None if the command launches nothing."""
    if not skip_front(cursor):
        return None
    launch = Launch(cursor)
    launch.first = cursor.word().start
    name = _take_head(cursor, launch)
    unknown = is_unknown(cursor)
    if name is None and unknown and _head_here(cursor, 1) is not None:
        cursor.keep()
        name = _take_head(cursor, launch)
        launch.notes.append(unknown)
    if name is None and (nested or os.path.basename(cursor.plain() or "") in WRAPPERS or _begins_with_wrapper(cursor)):
        name = _take_head_further_on(cursor, launch)
    if name is None:
        # The text of a `bash -c` may contain a launcher.
        launch.program, launch.stack = cursor.plain() or "", list(cursor.stack)
        _text_of_shell(launch)
        return launch if launch.inner and not nested and (launch.program in SHELLS or is_wrapper(launch.program)) else None
    while name is not None:
        launch.launchers.append(name)
        launch.told.append({})
        _options(cursor, launch, LAUNCHERS[name])
        if cursor.raw() is None:
            break
        launch.behind = launch.behind or (cursor.word().start, len(launch.env))
        if name == "ssh":
            cursor.take()  # the host
        if cursor.raw() is None or LAUNCHERS[name].script:
            break
        name = _take_head(cursor, launch) or _take_head_further_on(cursor, launch)
    launch.program = cursor.plain() or ""
    launch.stack = list(cursor.stack)
    if launch.program == "env":
        launch.program = _program_of_env(cursor)
    if launch.program[:1] == "$" and cursor.held(launch.program).endswith(".py"):
        launch.program = cursor.held(launch.program)  # TRAIN_PY=train.py is by its name an interpreter, and is none
    if launch.launchers and LAUNCHERS[launch.launchers[-1]].script:
        _python_of(launch)
    elif launch.launchers[-1] in ("ssh", "pdsh") and cursor.raw() is not None and cursor.quoted() is not None:
        launch.inner, launch.python = cursor.quoted(), "bash -c"
    else:
        _text_of_shell(launch)
    return launch


def is_unknown(cursor: Cursor) -> str:
    """A note about the next word, if it is a variable in front of a command and the script does not set it; else empty."""
    word = cursor.plain() or ""
    name = re.fullmatch(r"\$\{?([A-Za-z_]\w*)(:?-[^}]*)?\}?", word)
    if name is None or cursor.raw(1) is None or PYTHON.fullmatch(word) or re.search(r"srun|mpi|launch", word, re.I) or cursor.is_set(name.group(1)):
        return ""
    return f"what {word} holds is not known here; it stays, and each learner runs it in front of the program: if it starts tasks, like srun, leave it out"


def _begins_with_wrapper(cursor: Cursor) -> bool:
    """Whether the next word is a variable whose value begins with a wrapper, as in L="uv run torchrun"."""
    if not cursor.enter():
        return False
    found = os.path.basename(cursor.plain() or "") in WRAPPERS
    cursor.leave_unread()
    return found


def _program_of_env(cursor: Cursor) -> str:
    """Behind the assignments of env; env itself if it has other options, or no program."""
    ahead = 1
    while re.match(r"[A-Za-z_]\w*=|-u$|--unset=|-i$", cursor.plain(ahead) or ""):
        ahead += 2 if cursor.plain(ahead) == "-u" else 1
    word = cursor.plain(ahead)
    return word if ahead > 1 and word is not None and not word.startswith("-") else "env"


@functools.lru_cache(maxsize=4)
def running_their_arguments(text: str) -> FrozenSet[str]:
    """The functions of a script that run their arguments."""
    marks = [match.start() for match in re.finditer(r'"\$@"|}', text)]
    names: Set[str] = set()
    for head in re.finditer(r"^[ \t]*(?:function[ \t]+(\w+)\b|(\w+)[ \t]*\(\))", text, re.M):
        after = bisect.bisect_left(marks, head.end())
        if after < len(marks) and text[marks[after]] != "}":
            names.add(head.group(1) or head.group(2))
    return frozenset(names)


def skip_front(cursor: Cursor) -> bool:
    while True:
        word = cursor.plain()
        if word is None:
            return False
        base = os.path.basename(word)
        if re.match(r"[A-Za-z_]\w*\+?=", word) or word in RESERVED or base in KEPT_IN_FRONT:
            # The word `time` alone is Bash's own, behind which NAME=VALUE is an assignment; it is none behind /usr/bin/time.
            cursor.runs_words = cursor.runs_words or base in KEPT_IN_FRONT and base not in ("env", "eval", "sudo") and word != "time"
            cursor.keep()
            while base in ("stdbuf", "time", "setsid") and (cursor.plain() or "").startswith("-"):
                with_value = base == "time" and cursor.plain() in ("-f", "-o")
                cursor.keep()
                if with_value:
                    cursor.keep()
        elif cursor.raw(1) is not None and word in running_their_arguments(cursor.text):
            cursor.runs_words = True
            # A function of the script that runs its arguments.
            cursor.keep()
        elif base in ("timeout", "nice", "ionice"):
            cursor.runs_words = True
            cursor.keep()
            while (cursor.plain() or "").startswith("-"):
                valued = re.fullmatch(r"-[ks]" if base == "timeout" else r"-[nc]|--(adjustment|class|classdata)", cursor.plain() or "")
                cursor.keep()
                if valued:
                    cursor.keep()
            if base == "timeout":
                cursor.keep()
        else:
            return True


def _head_here(cursor: Cursor, ahead: int = 0) -> Optional[Tuple[str, int, str]]:
    """The launcher whose name is here, its number of words, and, if it is a Python module, the interpreter with its
    options."""
    word = cursor.plain(ahead)
    if word is None:
        return None
    base = os.path.basename(word)
    for names, launcher in HEADS.items():
        if base == names[0] and all(cursor.plain(ahead + 1 + i) == name for i, name in enumerate(names[1:])):
            # What pip installs for a user (~/.local/bin) has no interpreter beside it.
            beside = LAUNCHERS[launcher].script and word != base and word.endswith("bin/" + base) and not word.endswith(".local/bin/" + base)
            folder = os.path.dirname(cursor.raw(ahead) or "") if beside else ""
            return launcher, len(names), f"{folder}/python3" if folder and folder[0] not in "\"'" else ""
    if re.fullmatch(r"\$\{?\w*torchrun\w*\}?", word, re.I) and len(cursor.held(word).replace("\\\n", " ").split()) < 2:
        return "torchrun", 1, _python_beside(cursor, word)
    if not PYTHON.fullmatch(word) and not _is_before_module(cursor, word, ahead):
        return None
    options = [cursor.raw(ahead) or ""]
    at = ahead + 1
    while True:
        option = cursor.plain(at)
        if option is None or not option.startswith("-"):
            # For example python /path/to/torchrun.
            which = re.fullmatch(r"(?:`|\$\()\s*(?:which|command -v)\s+(\w+)\s*(?:`|\))", option or "")
            name = which.group(1) if which else os.path.basename(option or "")
            if name in ("torchrun", "deepspeed"):
                return name, at - ahead + 1, " ".join(options)
            return None
        if option in ("-m", "-um"):
            module = cursor.plain(at + 1)
            if module in MODULES:
                return MODULES[module], at - ahead + 2, " ".join(options + (["-u"] if option == "-um" else []))
            return None
        if option == "-c":
            return None
        options.append(cursor.raw(at) or "")
        at += 1
        if option in ("-X", "-W"):
            options.append(cursor.raw(at) or "")
            at += 1


def _is_before_module(cursor: Cursor, word: str, ahead: int) -> bool:
    """Whether the word is a variable that the script does not set, with a launcher's module behind it: an interpreter whatever its name."""
    name = re.fullmatch(r"\$\{?([A-Za-z_]\w*)(\[[@*]\])?\}?", word)
    return name is not None and cursor.plain(ahead + 1) == "-m" and cursor.plain(ahead + 2) in MODULES and not cursor.is_set(name.group(1))


def _python_beside(cursor: Cursor, word: str) -> str:
    """Of a variable that holds the path of a launcher, which runs the interpreter of its own folder."""
    name = re.sub(r"\W", "", word)
    values = re.findall(r"^[ \t]*(?:export[ \t]+)?" + name + r"=[\"']?([^\s\"';]*)/bin/torchrun\b", cursor.text, re.M)
    return f"{values[-1]}/bin/python3" if values else ""


def _take_head(cursor: Cursor, launch: Launch) -> Optional[str]:
    head = _head_here(cursor)
    if head is not None:
        words = [cursor.take() for _ in range(head[1])]
        if head[2]:
            launch.python = head[2]
        if head[0] == "tune":
            launch.python = " ".join(words)  # without options for processes, `tune run RECIPE` runs the recipe itself
        return head[0]
    if not cursor.enter():
        return None
    name = _take_head(cursor, launch)
    if name is None:
        cursor.leave_unread()
    return name


def _take_head_further_on(cursor: Cursor, launch: Launch, depth: int = 0) -> Optional[str]:
    """Finds a launcher after words that stay (of a container, numactl or a wrapper script), also in the values of
    variables."""
    for ahead in range(MOST_IN_FRONT):
        word = cursor.plain(ahead)
        if word is None or word in SHELLS or word.endswith(".py"):
            return None
        # In "--backend deepspeed", deepspeed is a value and no launcher.
        before = cursor.plain(ahead - 1) or "" if ahead > 0 else ""
        of_option = word in ("deepspeed", "composer") and before.startswith("-") and before not in FLAGS_OF_WRAPPERS
        if ahead > 0 and not of_option and _head_here(cursor, ahead) is not None:
            for _ in range(ahead):
                cursor.keep()
            return _take_head(cursor, launch)
        if PYTHON.fullmatch(word):
            return None
        if word.startswith("$") and depth < DEPTH:
            name = _take_head_of_variable(cursor, launch, ahead, depth)
            if name is not None:
                return name
    return None


def _take_head_of_variable(cursor: Cursor, launch: Launch, ahead: int, depth: int) -> Optional[str]:
    """Looks for a launcher, perhaps after a container's words, in the variable that comes `ahead` words later."""
    holder = cursor.stack[-1]
    at = holder.at
    for _ in range(ahead):
        cursor.keep()
    name = _take_head(cursor, launch) if ahead > 0 else None
    if name is None and cursor.enter():
        within = cursor.stack[-1]
        name = _take_head_further_on(cursor, launch, depth + 1)
        if name is None:
            while cursor.stack[-1] is not within:
                cursor.leave_unread()
            cursor.leave_unread()
    if name is None:
        holder.at = at
    return name


def _options(cursor: Cursor, launch: Launch, launcher: Launcher) -> None:
    while True:
        raw = cursor.raw()
        if raw is None:
            return
        if raw.startswith(("$", '"$')):
            if cursor.enter():
                first = cursor.plain() or ""
                if first.startswith("-"):
                    continue
                cursor.leave_unread()
            if re.search(r"ARG|OPT|FLAG", raw, re.I) and not launcher.script and (cursor.raw(1) is not None):
                launch.notes.append(f"{unquoted(raw)}: what it holds is not known here; it is left out, as options of {launch.launchers[-1]}")
                cursor.take()
                continue
            return
        word = unquoted(raw)
        if word == "--":
            cursor.take()
            return
        if not word.startswith("-") or word == "-":
            return
        if word.startswith(("-e", "-n", "-N", "-c")) and launch.launchers[-1] == "composer" and word == "-":
            return
        _take_option(cursor, launch, launcher)


def _take_option(cursor: Cursor, launch: Launch, launcher: Launcher) -> None:
    at = cursor.word().start
    raw = cursor.take()
    word = unquoted(raw)
    body, equals, value = word.lstrip("-").partition("=")
    name = body.replace("_", "-")
    attached: Optional[str] = _assigned(raw)[1] if equals else None
    meaning = launcher.options.get(name)
    if meaning is None and not word.startswith("--") and launcher.options.get(name[:1]) is not None and len(word) > 2:
        # -n4 is a flag with its value, and -lu are several flags in one word.
        meaning = launcher.options[name[:1]]
        if meaning == "" or meaning.startswith("flag:"):
            for letter in body:
                _set(launch, launcher, letter, launcher.options.get(letter, ""), Told("", at))
            return
        attached, name = word[2:].lstrip("="), name[:1]
    if meaning is None:
        meaning = "value" if attached is not None or _looks_like_value(cursor) else ""
        launch.notes.append(f"'{word}' of {launch.launchers[-1]} is not known here; it is left out"
                            + (f", with its value '{cursor.plain()}'" if meaning and attached is None else ""))
    if meaning in ("mca", "two", "genv"):
        first = cursor.take() if cursor.raw() is not None else ""
        second = cursor.take() if cursor.raw() is not None and "=" not in first else ""
        _pair(launch, meaning, first, second)
        return
    if meaning == "" or meaning.startswith("flag:"):
        if attached is None and name in ("use-env", "no-local-rank", "cpu") and cursor.plain() in ("true", "false"):
            attached = unquoted(cursor.take())
        if attached != "false":
            _set(launch, launcher, name, meaning, Told(attached or "", at))
        return
    if attached is None:
        if cursor.raw() is None:
            return
        at = cursor.word().start
        attached = cursor.take()
    _set(launch, launcher, name, meaning, Told(attached, at))


def _looks_like_value(cursor: Cursor) -> bool:
    word = cursor.plain()
    return word is not None and not word.startswith("-") and not word.endswith((".py", ".sh")) and not PYTHON.fullmatch(word) and cursor.raw(1) is not None


def _assigned(raw: str) -> Tuple[str, str]:
    """Splits NAME=VALUE, which may be quoted as a whole, into the name and the value as the script has to write it."""
    quote = raw[0] if len(raw) > 1 and raw[0] in "'\"" and raw[-1] == raw[0] else ""
    name, _, value = (raw[1:-1] if quote else raw).partition("=")
    plain = not quote or re.fullmatch(r"[\w./:,@%+^-]*", value)
    return unquoted(name), value if plain else quote + value + quote


def _assignments(raw: str) -> List[Tuple[str, str]]:
    """The same for a list with commas."""
    quote = raw[0] if len(raw) > 1 and raw[0] in "'\"" and raw[-1] == raw[0] else ""
    items = (raw[1:-1] if quote else raw).split(",")
    return [_assigned(quote + item + quote) for item in items if "=" in item]


def _pair(launch: Launch, meaning: str, first: str, second: str) -> None:
    if "=" in first:
        first, second = _assigned(first)
    first = unquoted(first)
    if meaning == "mca" and not re.match(r"plm|ras|orte|rmaps|hwloc|routed|oob|opal|prte", first):
        launch.env.append((f"OMPI_MCA_{first}", second))
    if meaning == "genv":
        launch.env.append((first, second))


def _set(launch: Launch, launcher: Launcher, name: str, meaning: str, told: Told) -> None:
    if meaning.startswith("flag:env:"):
        launch.env.append((meaning[9:], "true"))
    elif meaning.startswith("env:"):
        launch.env.append((meaning[4:], told.raw))
    elif meaning == "mpi_env" and "," not in told.raw:
        if "=" in told.raw:
            launch.env.append(_assigned(told.raw))
    elif meaning in ("mpi_env", "export"):
        launch.env += _assignments(told.raw)
    elif meaning == "noted":
        launch.noted.append((name, told))
    elif meaning not in ("", "value"):
        launch.told[-1][meaning[5:] if meaning.startswith("flag:") else meaning] = told


def _python_of(launch: Launch) -> None:
    """Finds the interpreter with which the launcher would have run the script."""
    told = launch.told[-1]
    if launch.launchers[-1] == "tune":
        return
    if "program" in told:
        launch.python = ""
        return
    launch.python = launch.python or "python3"
    if "module" in told:
        launch.python += " -m"
    elif PYTHON.fullmatch(launch.program):
        # Some scripts say "torchrun python train.py", so the interpreter is there already.
        launch.python = ""
    if launch.launchers[-1] in ("torch.distributed.launch", "deepspeed"):
        launch.local_rank = "use_env" not in told


def _text_of_shell(launch: Launch) -> None:
    """Finds the text of a bash -c '...', perhaps after a container's or a wrapper's words, in which launchers are
    looked for."""
    cursor = launch.cursor
    if not launch.stack or PYTHON.fullmatch(launch.program):
        return
    holder = launch.stack[-1]
    for first in range(len(holder.words) - holder.at):
        word = cursor.plain(first) or ""
        if word in SHELLS:
            break
        if PYTHON.fullmatch(word) or word.endswith(".py"):
            return
    else:
        return
    ahead = first + 1
    while True:
        option = cursor.plain(ahead)
        if option is None or not option.startswith("-"):
            return
        if re.fullmatch(r"-\w*c", option):
            break
        ahead += 2 if option.endswith("o") else 1
    if holder.at + ahead + 1 < len(holder.words):
        word_of_text = holder.words[holder.at + ahead + 1]
        raw = cursor.text[word_of_text.start:word_of_text.end]
        if len(raw) > 1 and raw[0] in "'\"" and raw[-1] == raw[0]:
            launch.inner = (word_of_text.start + 1, word_of_text.end - 1)


def is_utility(program: str) -> bool:
    return os.path.basename(program) in UTILITIES and not program.startswith("./")


def is_wrapper(program: str) -> bool:
    return os.path.basename(program) in WRAPPERS
