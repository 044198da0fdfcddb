# SPDX-License-Identifier: Apache-2.0
"""Batch scripts within a script: sbatch --wrap="...", with its #SBATCH lines as options, and here documents with #SBATCH lines. Pure."""
import re
from typing import Callable, List, NamedTuple, Optional, Tuple

from . import directives, shell


class Wrapped(NamedTuple):
    options: List[shell.Word]   # of sbatch, without --wrap
    wrap: shell.Word            # where --wrap begins
    text: Tuple[int, int]       # between its quotes
    quote: str


def wrapped(text: str) -> List[Wrapped]:
    found: List[Wrapped] = []
    for command in shell.commands(text, 0, len(text)):
        words = [word for word in command.words if not word.redirect]
        raw = [text[word.start:word.end] for word in words]
        names = [i for i, word in enumerate(raw) if word not in shell.RESERVED and not re.match(r"[A-Za-z_]\w*=", word)]
        if not names or raw[names[0]] != "sbatch":
            continue
        for i in range(names[0] + 1, len(words)):
            match = re.match(r"--wrap(=?)([\"']?)", raw[i])
            value = words[i]
            if match and not match.group(1) and raw[i] == "--wrap" and i + 1 < len(words):
                value = words[i + 1]
                match = re.match(r"()([\"'])", raw[i + 1])
            if match and match.group(2) and text[value.end - 1] == match.group(2):
                start = text.index(match.group(2), value.start) + 1
                options = [word for word in words[names[0] + 1:] if word not in (words[i], value)]
                found.append(Wrapped(options, words[i], (start, value.end - 1), match.group(2)))
    return found


def edits_of(text: str, one: Wrapped, migrate: Callable[[str], Optional[str]]) -> Optional[List[Tuple[int, int, str]]]:
    """`migrate`: a whole script, or None if nothing is started in it. None if this is not understood."""
    lines = [text[word.start:word.end] for word in one.options]
    told: List[str] = []
    for raw in lines:
        # --nodes 2 is two words.
        if told and not raw.startswith("-") and "=" not in told[-1].split(" ")[0] and " " not in told[-1]:
            told[-1] += " " + raw
        else:
            told.append(raw)
    head = "#!/bin/bash\n" + "".join(f"#SBATCH {option}\n" for option in told)
    script = migrate(head + text[one.text[0]:one.text[1]] + "\n")
    if script is None:
        return None
    new = [line for line in shell.lines_of(script) if line.startswith("#SBATCH ")]
    body = script[len("#!/bin/bash\n") + sum(len(line) for line in new):].rstrip("\n")
    if one.quote == '"':
        body = re.sub(r"(\bdlrun [^\"]*?--learners )\$", r"\1\\$", body)  # computed in the job, not where it is submitted
    if one.quote in re.sub(r"\\.", "", body, flags=re.S):
        return None
    kept = [option.text for line in directives.read("#!/bin/bash\n" + "".join(new)) for option in line.options]
    edits: List[Tuple[int, int, str]] = []
    at = 0
    for option in told:
        words = one.options[at:at + len(option.split(" ")) if " " in option and option.split(" ")[0] == lines[at] else at + 1]
        at += len(words)
        if option in kept:
            kept.remove(option)
            continue
        after = next((word.start for word in one.options[at:] + [one.wrap] if word.start > words[-1].start), words[-1].end)
        edits.append((words[0].start, after, "") if after > words[-1].end else (words[0].start, words[-1].end, ""))
    edits.append((one.wrap.start, one.wrap.start, "".join(option + " " for option in kept)))
    edits.append((one.text[0], one.text[1], body))
    return edits


def documents(text: str) -> List[Tuple[int, int, bool]]:
    """Here documents that are batch scripts: where they begin and end, and whether the shell expands what stands in them."""
    found: List[Tuple[int, int, bool]] = []
    for mark in re.finditer(r"<<-?[ \t]*([\"'\\]?)(\w+)[\"']?[^\n]*\n", text):
        end = re.compile(r"^\t*" + mark.group(2) + r"$", re.M).search(text, mark.end())
        if end and text.startswith("#!", mark.end()) and re.search(r"^#SBATCH\s", text[mark.end():end.start()], re.M):
            found.append((mark.end(), end.start(), mark.group(1) == ""))
    return found


def edit_of(text: str, start: int, end: int, expanded: bool, migrate: Callable[[str], Optional[str]]) -> Optional[str]:
    script = migrate(text[start:end])
    if script is not None and expanded:
        script = re.sub(r"(\bdlrun [^\n]*?--learners )\$", r"\1\\$", script)
        # What the migration itself adds is for the job's shell.
        script = script.replace("$(dlctl migrate", "\\$(dlctl migrate").replace("exec \"$@\"", "exec \"\\$@\"")
        script = re.sub(r"(?<!\\)\$(LOCAL_RANK|DL_NODE_RANK|of_launch|of_dlrun|\?|\(cut -d|\(declare -p)", r"\\$\1", script)
        script = script.replace('<<< "$CUDA_VISIBLE_DEVICES"', '<<< "\\$CUDA_VISIBLE_DEVICES"').replace("-f$((LOCAL_RANK + 1))", "-f\\$((LOCAL_RANK + 1))")
    return script
