# SPDX-License-Identifier: Apache-2.0
"""Batch scripts within a script: sbatch --wrap="...", with its #SBATCH lines as options, here documents with #SBATCH lines, and
a script that submits itself. Pure."""
import re
from typing import Callable, List, NamedTuple, Optional, Tuple

from . import directives, forms, images, shell

ITSELF = re.compile(r"\"?\$(?:0|\{0\}|\{?BASH_SOURCE(?:\[0\])?\}?)\"?")  # "$0"


class Wrapped(NamedTuple):
    options: List[shell.Word]   # of sbatch, without --wrap
    wrap: shell.Word            # where --wrap begins
    text: Tuple[int, int]       # between its quotes
    quote: str


def _submissions(text: str) -> List[List[shell.Word]]:
    """The words behind sbatch of each command that calls it."""
    found: List[List[shell.Word]] = []
    for command in shell.commands(text, 0, len(text)):
        words = [word for word in command.words if not word.redirect]
        raw = [text[word.start:word.end] for word in words]
        first = next((i for i, word in enumerate(raw) if word not in shell.RESERVED and word != "exec" and not re.match(r"[A-Za-z_]\w*=", word)), None)
        if first is not None and raw[first] == "sbatch":
            found.append(words[first + 1:])
    return found


def wrapped(text: str) -> List[Wrapped]:
    found: List[Wrapped] = []
    for words in _submissions(text):
        raw = [text[word.start:word.end] for word in words]
        for i, value in enumerate(words):
            match = re.match(r"--wrap(=?)([\"']?)", raw[i])
            if match and not match.group(1) and raw[i] == "--wrap" and i + 1 < len(words):
                value = words[i + 1]
                match = re.match(r"()([\"'])", raw[i + 1])
            if match and match.group(2) and text[value.end - 1] == match.group(2):
                start = text.index(match.group(2), value.start) + 1
                options = [word for word in words if word not in (words[i], value)]
                found.append(Wrapped(options, words[i], (start, value.end - 1), match.group(2)))
    return found


def edits_of(text: str, one: Wrapped, migrate: Callable[[str], Optional[str]]) -> Optional[List[Tuple[int, int, str]]]:
    """`migrate`: a whole script, or None if nothing is started in it. None if this is not understood."""
    head = _head_of(text, one.options)
    script = migrate(head + text[one.text[0]:one.text[1]] + "\n")
    if script is None:
        return None
    new, body = _parts_of(script)
    body = body.rstrip("\n")
    if one.quote == '"':
        body = re.sub(r"(\bdlrun [^\"]*?--learners )\$", r"\1\\$", body)  # computed in the job, not where it is submitted
    if one.quote in re.sub(r"\\.", "", body, flags=re.S):
        return None
    return _of_options(text, one.options, one.wrap, new) + [(one.text[0], one.text[1], body)]


def _told(text: str, options: List[shell.Word]) -> List[List[shell.Word]]:
    """The words of each option: --nodes 2 has two."""
    told: List[List[shell.Word]] = []
    for word in options:
        first = text[told[-1][0].start:told[-1][0].end] if told else ""
        if told and not text[word.start:word.end].startswith("-") and "=" not in first and len(told[-1]) == 1:
            told[-1].append(word)
        else:
            told.append([word])
    return told


def _text_of(text: str, words: List[shell.Word]) -> str:
    return " ".join(text[word.start:word.end] for word in words)


def _head_of(text: str, options: List[shell.Word]) -> str:
    return "#!/bin/bash\n" + "".join(f"#SBATCH {_text_of(text, words)}\n" for words in _told(text, options))


def _parts_of(script: str) -> Tuple[List[str], str]:
    """The options of the #SBATCH lines at the top, and what stands below them."""
    lines = shell.lines_of(script)
    end = next((i for i, line in enumerate(lines) if i and not line.startswith("#SBATCH ")), len(lines))
    return [option.text for line in directives.read("".join(lines[:end])) for option in line.options], "".join(lines[end:])


def _of_options(text: str, options: List[shell.Word], behind: shell.Word, new: List[str]) -> List[Tuple[int, int, str]]:
    """Edits that remove the options that are not in `new`, and add those that only `new` has. `behind`: the word after them."""
    kept = list(new)
    edits: List[Tuple[int, int, str]] = []
    for words in _told(text, options):
        if _text_of(text, words) in kept:
            kept.remove(_text_of(text, words))
            continue
        after = next((word.start for word in options + [behind] if word.start > words[-1].start), words[-1].end)
        edits.append((words[0].start, max(after, words[-1].end), ""))
    return edits + [(behind.start, behind.start, "".join(option + " " for option in kept))]


def submits_itself(text: str) -> Optional[Tuple[List[shell.Word], shell.Word]]:
    """The options of an `sbatch OPTIONS "$0"`, and the word "$0"."""
    for words in _submissions(text):
        own = next((i for i, word in enumerate(words) if ITSELF.fullmatch(text[word.start:word.end])), 0)
        if own:
            return words[:own], words[own]
    return None


def of_own_submission(text: str, migrate: Callable[[str], Optional[str]]) -> Optional[str]:
    """The new text of a script without #SBATCH lines that submits itself: `migrate` gets it with its options as such lines. None if
    it does not submit itself, or nothing is started in it."""
    own = submits_itself(text)
    script = migrate(_head_of(text, own[0]) + text) if own else None
    if script is None:
        return None
    new, body = _parts_of(script)
    again = submits_itself(body)
    return shell.applied(body, {(start, end): changed for start, end, changed in _of_options(body, *again, new)}) if again else None


def documents(text: str) -> List[Tuple[int, int, bool]]:
    """Here documents that are batch scripts: where they begin and end, and whether the shell expands what stands in them."""
    found: List[Tuple[int, int, bool]] = []
    for mark in re.finditer(r"<<-?[ \t]*([\"'\\]?)(\w+)[\"']?[^\n]*\n", text):
        end = re.compile(r"^\t*" + mark.group(2) + r"$", re.M).search(text, mark.end())
        if end and text.startswith("#!", mark.end()) and re.search(r"^#SBATCH\s", text[mark.end():end.start()], re.M):
            found.append((mark.end(), end.start(), mark.group(1) == ""))
    return found


def of_trainings(text: str, documents: List[Tuple[int, int, bool]], says_no_training: Callable[[str], bool]) -> List[Tuple[int, int, bool]]:
    """The documents without those that prepare or evaluate, if others train; else all."""
    return [one for one in documents if not says_no_training(text[one[0]:one[1]])] or documents


def edit_of(text: str, start: int, end: int, expanded: bool, migrate: Callable[[str], Optional[str]]) -> Optional[str]:
    script = migrate(text[start:end])
    if script is not None and expanded:
        script = re.sub(r"(\bdlrun [^\n]*?--learners )\$", r"\1\\$", script)
        # What the migration itself adds is for the job's shell.
        script = script.replace(forms.INTO_CLEAN, forms.INTO_CLEAN.replace("$", "\\$"))
        script = script.replace("$(dlctl migrate", "\\$(dlctl migrate").replace("exec \"$@\"", "exec \"\\$@\"")
        script = re.sub(r"(?<!\\)\$(LOCAL_RANK|DL_NODE_RANK|of_launch|of_dlrun|\?|\(cut -d|\(declare -p)", r"\\$\1", script)
        script = script.replace('<<< "$CUDA_VISIBLE_DEVICES"', '<<< "\\$CUDA_VISIBLE_DEVICES"').replace("-f$((LOCAL_RANK + 1))", "-f\\$((LOCAL_RANK + 1))")
        script = images.for_here_document(script)
    return script
