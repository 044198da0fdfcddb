# SPDX-License-Identifier: Apache-2.0
"""Removes what a script sets so that ranks find one another. dlrun sets that itself, and the script's values would hide
it."""
import functools
import os
import re
from typing import Dict, List, Optional, Set, Tuple

from . import launch as launches, shell
from .counts import Counts, Found
from .launchers import LAUNCHERS, RENDEZVOUS
from .words import Cursor

MEETING = ("MASTER_ADDR", "MASTER_PORT")
OF_LEARNERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK")  # dlrun sets them in every learner
OF_SLURM = {"RANK": "SLURM_PROCID", "WORLD_SIZE": "SLURM_N(?:TASKS|PROCS)", "LOCAL_RANK": "SLURM_LOCALID"}
# Files that are sourced for Python or the system, and set none of these variables.
HARMLESS = re.compile(r"(^|/)(activate|conda\.sh|mamba\.sh|\.?bashrc|\.?profile|\.?bash_profile|setvars\.sh|bash|modules\.sh)$")
MOST_OF_A_FILE = 256 << 10  # also of all scripts that a batch script calls, together
# In front of a path: the script's own folder, or the one from which it is submitted.
OWN_FOLDER = re.compile(r"^(\\?\$\{?(SLURM_SUBMIT_DIR|PWD)\}?|\\?\$\((dirname \W*\$\{?(0|BASH_SOURCE\S*)\}?\W*|pwd)\))/")
# Jean Zay's module idr_torch sets the address when it is imported.
OWN_MEETING = re.compile(r"^[ \t]*(?:import|from)[ \t]+idr_torch\b|environ\[['\"]MASTER_(ADDR|PORT)['\"]\]\s*=[^=]|(init_method|dist_url)\b[^\n]*['\"]tcp://|init_process_group\([^)]*tcp://", re.M)
# A launcher at the beginning of a value, to which a script may add words before it runs it: LAUNCHER="torchrun "
PUT_TOGETHER = re.compile(r"^[ \t]*(?:export[ \t]+)?\w+=[\"'(][ \t]*(?:python[\d.]*[ \t]+(?:-u[ \t]+)?-m[ \t]+)?(torchrun|torch\.distributed\.(?:run|launch)|accelerate launch|deepspeed)\b", re.M)
SCRIPTS = [name for name, launcher in LAUNCHERS.items() if launcher.script]


def set_in(code: str) -> Tuple[List[str], bool]:
    """The names of RENDEZVOUS that the code sets, and whether it does anything else."""
    found = shell.commands(code, 0, len(code))
    names: List[str] = []
    more = False
    for command in found:
        if not command.words:
            continue
        here = [item.name for item in shell.assignments(code, [command])]
        words = [code[word.start:word.end] for word in command.words]
        if words[0] == "export":
            here += [word for word in words[1:] if word in RENDEZVOUS]
        names += [name for name in here if name in RENDEZVOUS and name not in names]
        more = more or not here or any(name not in RENDEZVOUS for name in here)
    return names, more


@functools.lru_cache(maxsize=400)
def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(MOST_OF_A_FILE)
    except OSError:
        return ""


class Meeting(Counts):
    """`edits`: new texts by the parts of the script that they replace."""

    def __init__(self, text: str, folder: str):
        super().__init__(text, folder)
        self.edits = shell.Edits(len(text))
        self.contents: Dict[str, Optional[str]] = {}          # of files that the script names
        self.heads: Optional[List[Tuple[int, str]]] = None    # the lines that write a here document into a file, and where they end
        self.own_port = False         # rank 0 hosts the store at the port that the script chooses
        self.scripts: Dict[int, str] = {}  # offsets of commands that start a script with a launcher on another node, and the script
        self.whole: Set[int] = set()  # offsets of the launches that replace several parts

    def is_taken(self, at: int) -> bool:
        return self.edits.holds(at)

    def drop_inner_rendezvous(self, item: Found) -> None:
        """Removes such settings from the text of a bash -c, where they would hide dlrun's from the program."""
        start, end = item.launch.inner or (0, 0)
        inside = shell.commands(self.text, start, end)
        own = next((command for command in inside if {one.name for one in shell.assignments(self.text, [command])} & set(MEETING)), None)
        if own is not None and self.is_read(inside, MEETING):
            # tells learners that their ranks host the store themselves
            item.launch.env.append(("MASTER_PORT", "29500"))
            self.note(own.words[0].start, "ranks meet at the address that is set here, not at dlrun's own")
            return
        names = [name for name in RENDEZVOUS if name in OF_LEARNERS or not self.is_read(inside, (name,))]
        for command in inside:
            self.look_into_sourced(command, self.quote_around(item.launch), end)
            found = [one for one in shell.assignments(self.text, [command]) if one.name in names]
            if not found:
                self.drop_in_front(command, names)
                continue
            words = [word for word in command.words if not word.redirect]
            if len(found) == len(words) - (self.text[words[0].start:words[0].end] == "export"):
                self.drop_command(command, end)
                continue
            for word in words:
                if re.match(r"(?:" + "|".join(names) + r")=", self.text[word.start:word.end]):
                    self.edits[(word.start, word.end)] = ""

    def drop_in_front(self, command: shell.Command, names: List[str]) -> None:
        """Removes MASTER_PORT=1234 in front of a program."""
        words = [word for word in command.words if not word.redirect]
        for word, after in zip(words, words[1:]):
            given = re.match(r"([A-Za-z_]\w*)=", self.text[word.start:word.end])
            if given is None:
                return
            if given.group(1) in names and not self.is_taken(word.start):
                self.edits[(word.start, after.start)] = ""

    def quote_around(self, launch: launches.Launch) -> str:
        """The quote that decides whether a $ in the text of a shell needs a backslash: also one around a value that holds this text."""
        start = launch.inner[0] if launch.inner else 0
        values = [item.value for item in self.assigned if not item.array and item.value[0] < start <= item.value[1]]
        return '"' if any(self.text[value[0] - 1] == '"' for value in values) else self.text[start - 1] if start else "'"

    def is_read(self, inside: List[shell.Command], names: Tuple[str, ...]) -> bool:
        """Whether one of these commands, as rewritten, passes such a variable on. Printing it, or setting it anew, does
        not count."""
        for command in inside:
            words = [word for word in command.words if not word.redirect]
            if not words or self.text[words[0].start:words[0].end] in ("echo", "printf") or \
                    {one.name for one in shell.assignments(self.text, [command])} & set(RENDEZVOUS):
                continue
            for use in re.finditer(r"\$\{?(?:" + "|".join(names) + r")\b", self.text[words[0].start:words[-1].end]):
                if not self.is_taken(words[0].start + use.start()):
                    return True
        return False

    def drop_command(self, command: shell.Command, end: int) -> None:
        """Removes a command and the separator after it."""
        stop = command.words[-1].end
        while stop < end and self.text[stop] in "; \t\n&":
            stop += 1
        self.edits[(command.words[0].start, stop)] = ""

    def look_into_sourced(self, command: shell.Command, quote: str, end: int) -> None:
        """Handles a `source FILE` in the text of a shell that each learner runs."""
        words = [word for word in command.words if not word.redirect]
        raw = [shell.unquoted(self.text[word.start:word.end]) for word in words]
        if len(raw) < 2 or raw[0] not in ("source", ".") or HARMLESS.search(raw[1]):
            return
        content = self.content_of(raw[1]) if raw[1][:1] != "/" or os.path.isfile(raw[1]) else None  # not one of the same name here
        names, more = set_in(content) if content is not None else (list(MEETING + OF_LEARNERS), True)
        if not names:
            return
        if not more and len(raw) == 2:
            self.drop_command(command, end)
            self.note(words[0].start, f"{raw[1]} sets {', '.join(names)} and nothing else; dlrun sets these, so it is no longer sourced")
            return
        escape = "\\" if quote == '"' else ""
        save = f'{{ of_dlrun={escape}$(declare -p {" ".join(names)} 2> /dev/null); '
        restore = f'; eval {escape}"{escape}$of_dlrun{escape}"; }}'
        self.edits[(words[0].start, words[0].start)] = save
        self.edits[(words[-1].end, words[-1].end)] = restore
        self.note(words[0].start, f"{raw[1]} sets {', '.join(names)}, which would hide those of dlrun: they are kept across it; simpler is to remove these lines from it"
                  if content is not None else f"{raw[1]} is not read here, and may set MASTER_ADDR, RANK and the like, which would hide those of dlrun: they are kept across it")

    def content_of(self, path: str) -> Optional[str]:
        """The content of a file that the script names, looked for beside the script. None if it cannot be read."""
        if path not in self.contents:
            place = self.place_of(path)
            self.contents[path] = self.read_at(place) if place is not None else self.written_here(path)
        return self.contents[path]

    @staticmethod
    def read_at(place: str) -> Optional[str]:
        try:
            with open(place, encoding="utf-8", errors="surrogateescape") as file:
                return file.read(MOST_OF_A_FILE)
        except (OSError, ValueError):
            return None

    def place_of(self, path: str) -> Optional[str]:
        """Where a file that the script names is."""
        if len(path) > 4096:
            return None  # no system has such a path
        path = re.sub(r"/{2,}", "/", path)  # else each of them would double the places to look at below
        path = OWN_FOLDER.sub("", path)
        behind = re.fullmatch(r"[^/]*[$`][^/]*/((?:[^/$`]+/)*[^/$`]+)", path)
        if behind:
            path = behind.group(1)  # the part below a folder of the user's, which may well be the script's own folder
        last = max(path.rfind("$"), path.rfind("`"))
        if path.startswith("/") and (last < 0 and not os.path.isfile(path) or last >= 0 and "/" in path[last:]):
            # A folder that is elsewhere, or not known: what lies below it may well lie beside the script.
            path = path[path.index("/", max(last, 0)) + 1:]
            within = [path] + [path.split("/", n)[n] for n in range(1, path.count("/") + 1)]
            return next((place for place in (self.place_of(name) for name in within) if place is not None), None)
        if "$" in path or "`" in path:
            return None
        # Scripts often lie in scripts/ or slurm/, and are submitted from a folder above; packages often in src/ there.
        for above in ("", "..", "../..", "src", "../src", "../../src"):
            place = os.path.normpath(os.path.join(self.folder, above, path))
            if os.path.isfile(place):
                return place
        return None

    def written_here(self, path: str) -> Optional[str]:
        """The content of a file that the script itself writes: cat > FILE <<EOF. None if it writes no such file."""
        path = re.sub(r"^[^/]*[$`][^/]*/(?=(?:[^/$`]+/)*[^/$`]+$)", "", path)
        name = r">[ \t]*(?:\./)?" + re.escape(re.sub(r"^\./", "", path)) + r"(?=[\s;])"
        mark = r"<<-?[ \t]*[\"'\\]?(\w+)"
        if self.heads is None:
            self.heads = [(line.end(), line.group(0)) for line in re.finditer(r"[^\n]+\n", self.text) if "<<" in line.group(0) and ">" in line.group(0)]
        for behind, line in self.heads:
            match = re.match(r"[^\n#]*" + name + r"[^\n]*" + mark + r"|[^\n#]*" + mark + r"[^\n]*" + name, line)
            if match is not None:
                end = re.compile(r"^\t*" + (match.group(1) or match.group(2)) + r"$", re.M).search(self.text, behind)
                return self.text[behind:end.start() if end else len(self.text)].replace("\\$", "$")
        return None

    def say_what_a_script_sets(self, path: str, at: int) -> None:
        """Notes which of dlrun's variables a script that each learner runs sets, if that script can be read."""
        content = (self.content_of(path) if re.search(r"\.(sh|bash|slurm)$", path) else None) or ""
        for item in shell.assignments(content, shell.commands(content, 0, len(content))):
            # RANK=$SLURM_PROCID and RANK=${RANK:-0} give a learner the value that dlrun has set.
            same = rf"[^$]*\$\{{?({item.name}\b|{OF_SLURM.get(item.name, item.name)}(:?-\w*)?\}}?\W*$)"
            if item.name in OF_LEARNERS and not re.match(same, content[item.value[0]:item.value[1]]):
                line = content.count("\n", 0, item.start) + 1
                self.note(at, f"{path}:{line} sets {item.name}, which hides that of dlrun: remove it there")

    def meets_in_script(self, item: Found) -> bool:
        """Whether a script that each learner runs sets the address at which ranks meet."""
        content = self.script_content(item)
        return content is not None and not self.launchers_in_script(item) and bool(set(set_in(content)[0]) & set(MEETING))

    def is_alone_in_job(self, item: Found) -> bool:
        """Whether it is one process that gets no rank from what starts it."""
        return False

    def script_content(self, item: Found) -> Optional[str]:
        """The content of the shell script that is the program of the launch. None if the program is none, or cannot be read."""
        script = self.script_of(item)
        return self.content_of(script) if script else None

    def script_of(self, item: Found) -> str:
        """The shell script that is the program of the launch; empty if the program is none."""
        launch = item.launch
        if item.at in self.scripts:
            return self.scripts[item.at]
        if item.inner or launch.inner or not launch.stack:
            return ""
        holder = launch.stack[-1]
        words = [launch.cursor.held(shell.unquoted(self.text[word.start:word.end])) for word in holder.words[holder.at:]]
        for word in words[:8]:
            if re.search(r"\.(sh|bash|slurm|sbatch)$", word):
                return word
            if re.search(r"\.py$|^python", word):
                break
        return ""

    def launchers_in_script(self, item: Found) -> List[str]:
        """The launchers that the launch's script itself starts, if it can be read."""
        content = self.script_content(item)
        return self.launchers_in(content) if content is not None else []

    @staticmethod
    def launchers_in(content: str) -> List[str]:
        """The launchers of Python programs that a script starts."""
        inside = shell.commands(content, 0, len(content))
        assigned = shell.assignments(content, inside)
        read = [launches.read(Cursor(content, command.words, assigned)) for command in inside]
        names = [launch.launchers[-1] for launch in read if launch is not None and launch.launchers and launch.launchers[-1] in SCRIPTS]
        return names or PUT_TOGETHER.findall(content)[:1]

    def meets_by_itself(self, found: List[Found]) -> bool:
        """Whether a script that is not rewritten, or a program that finds no rank, may need the address that is set here."""
        for item in found:
            if self.is_alone_in_job(item):
                return True
            script = self.script_of(item)
            content = self.content_of(script) if script else ""
            if content is None or re.search(r"\$\{?(MASTER_ADDR|MASTER_PORT)\b", content) or self.launchers_in_script(item):
                return True
        return False

    def meets_in_code(self, words: List[str]) -> bool:
        """Whether a Python program, or a module beside it, sets the address of the meeting itself. Rank 0 then has to
        host the store."""
        program = next((word for word in words if word.endswith(".py")), "")
        module = words[words.index("-m") + 1] if "-m" in words[:-1] else ""
        path = program or module.replace(".", "/") + ".py"
        full = self.place_of(path) if path != ".py" else None
        if full is None:
            return False
        here = [full] + [os.path.join(folder, name) for folder, _, names in list(os.walk(os.path.dirname(full)))[:40] for name in sorted(names)[:40] if name.endswith(".py")]
        return any(OWN_MEETING.search(_text_of(file)) for file in here[:300])

    def beside(self, program: str, content: str) -> List[str]:
        """The modules that a program of Python's imports from where it lies, or from src/ or the folder above."""
        names = set(re.findall(r"^[ \t]*(?:from|import)[ \t]+\.?(\w+)", content, re.M))
        found: List[str] = []
        for above in ("", "..", "../..", "src", "../src", "../../src"):
            full = os.path.join(self.folder, above, program)
            if not names or "$" in program or not os.path.isfile(full):
                continue
            for root in (os.path.dirname(full), os.path.join(os.path.dirname(full), ".."), os.path.join(os.path.dirname(full), "..", "src")):
                for name in sorted(names):
                    files = [os.path.join(root, name + ".py")] + [os.path.join(folder, one) for folder, _, ones in list(os.walk(os.path.join(root, name)))[:20]
                                                                  for one in sorted(ones)[:40] if one.endswith(".py")]
                    found += [_text_of(file) for file in files[:100]]
            break
        return found

    def takes_ranks_of_mpi(self, program: str, of_mpi: bool = False) -> bool:
        """Whether a program, or a module that it imports, asks MPI for its rank and hands it to torch.distributed. `of_mpi`: mpirun starts
        it, so whatever it does with the rank, it needs that of MPI."""
        content = self.content_of(program) or ""
        return any(re.search(r"^(from|import) mpi4py\b", text, re.M) and "COMM_WORLD" in text and (of_mpi or re.search(r"init_process_group|environ\[['\"](RANK|WORLD_SIZE)", text))
                   for text in [content] + self.beside(program, content))

    def is_exported(self, name: str) -> bool:
        """Whether learners get the variable in their environment."""
        return re.search(r"^[ \t]*((export|declare[ \t]+-\w*x\w*)\b[^\n]*\b" + name + r"\b|set[ \t]+(-a\b|-o[ \t]+allexport))", self.text, re.M) is not None

    def drop_rendezvous(self, found: List[Found]) -> None:
        """Removes lines that only tell programs of the old launcher where to meet."""
        if self.meets_by_itself(found):
            return
        given = " ".join(new.partition(" -- ")[0] for new in self.edits.values() if "dlrun " in new)
        uses: Dict[str, List[int]] = {}  # of each name, but not those in its own values
        for item in self.assigned:
            if item.name not in RENDEZVOUS or not item.alone or self.is_taken(item.start) or self.own_port and item.name == "MASTER_PORT":
                continue
            if re.search(r"\b" + item.name + r"\b", given):
                continue
            if item.name not in uses:
                own = shell.Edits(len(self.text))
                for other in self.assigned:
                    if other.name == item.name:
                        own[(other.start, other.end)] = ""
                uses[item.name] = [match.start() for match in re.finditer(r"\$\{?" + item.name + r"\b", self.text) if not own.holds(match.start())]
            live = any(not self.is_taken(at) for at in uses[item.name])
            start = self.text.rfind("\n", 0, item.start) + 1
            end = self.text.find("\n", item.end)
            if self.text[start:item.start].strip() != "" or end < 0 or self.text[item.end:end].split("#")[0].strip() != "":
                continue
            if not live:
                self.edits[(start, end + 1)] = ""
            elif item.name in ("MASTER_ADDR", "MASTER_PORT") and self.is_exported(item.name):
                self.note(item.start, f"{item.name} is used elsewhere, so it stays, and learners meet there; without it dlrun finds an address itself")
        for match in re.finditer(r"^[ \t]*export[ \t]+(\w+)[ \t]*\n", self.text, re.M):
            if match.group(1) in RENDEZVOUS and any(item.name == match.group(1) and self.is_taken(item.start) for item in self.assigned):
                self.edits[(match.start(), match.end())] = ""
